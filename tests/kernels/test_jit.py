"""How kernels are compiled, and what is told of it."""

from __future__ import annotations

import pytest

from ridgeformer.kernels import compile_hooks, jit


def test_compile_hooks_are_told_when_a_kernel_is_compiled_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of what the kernel compiles on the way. The list is `ridgeformer.kernels.compile_hooks`."""
    assert vars(jit)["compile_hooks"] is compile_hooks
    told: list[bool] = []
    monkeypatch.setattr(jit, "compile_hooks", [told.append])

    @jit.device
    def inner(x: float) -> float:
        return x + 1

    @jit.device
    def outer(x: float) -> float:
        return 2 * inner(x)

    assert outer(1.0) == 4.0
    assert told == [True, False]
    assert outer(2.0) == 6.0
    assert told == [True, False]
