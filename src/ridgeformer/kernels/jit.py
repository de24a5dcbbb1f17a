"""The one place that decides how kernels are compiled and where compiled code is kept.

* ``nogil``: the thread pool of `ridgeformer.kernels.threads` runs kernels side by side.
* ``error_model="numpy"``: a division by zero gives an infinity that the divergence guard sees, not an exception.
* ``fastmath={"contract"}``: a product and a sum may fuse. Nothing else is relaxed: NaN and Inf must survive.
* Compiled code is kept on disk by `kernels.cache`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core import event

from ridgeformer.kernels import compile_hooks
from ridgeformer.kernels.cache import KernelCache

_SETTINGS = {"nogil": True, "_nrt": False, "error_model": "numpy", "fastmath": {"contract"}}


def kernel(function: Callable[..., Any]) -> Any:
    """Compile an entry point, called from Python: cached on disk, runs without the GIL."""
    compiled = numba.njit(**_SETTINGS)(function)
    compiled._cache = KernelCache(function)
    return compiled


def device(function: Callable[..., Any]) -> Any:
    """Compile a function that only kernels call. It is compiled once per type and stored inside its callers.

    A device function should call nothing but vector operations and `inlined` functions: numba optimises the whole code
    below a function again at every level of calls, so depth costs compile time.
    """
    return numba.njit(**_SETTINGS)(function)


def inlined(function: Callable[..., Any]) -> Any:
    """A function copied into its callers before they are compiled: for stages that are called from one place."""
    return numba.njit(inline="always", **_SETTINGS)(function)


class _Compilation(event.Listener):
    """Tells `ridgeformer.kernels.compile_hooks`; kernels compile what they call on the way, which is not told."""

    depth = 0

    def on_start(self, happening: Any) -> None:
        self.depth += 1
        if self.depth == 1:
            for hook in compile_hooks:
                hook(True)

    def on_end(self, happening: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            for hook in compile_hooks:
                hook(False)


event.register("numba:compile", _Compilation())
