"""The section on torch: competitors compute what they should, and it gives the rows it promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ridgeformer.bench import BenchConfig, modules
from ridgeformer.bench.machine import run_python
from ridgeformer.bench.rows import DIM
from ridgeformer.core.model import LinearTransformer


def test_without_torch_one_row_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "find_spec", lambda name: None)
    (row,) = modules.torch_rows(BenchConfig(quick=True))
    assert row.value is None
    assert "pip install 'ridgeformer[torch]'" in row.note


def test_formulation_of_ahn_is_the_papers_model() -> None:
    torch = pytest.importorskip("torch", reason="needs torch: make test-torch installs it")
    import ridgeformer.torch as rt

    model = LinearTransformer.init("full", layers=3, heads=2, dim=DIM, scale=0.01, dtype="float32")
    X, y, queries, _ = modules._contexts(7, 5)
    P, Q = (torch.tensor(matrix) for matrix in model.attention_matrices())
    expected = rt.from_model(model)(X, y, queries)
    assert torch.allclose(modules.ahn_forward(P, Q, X, y, queries), expected, rtol=1e-4, atol=1e-6)


def test_section_has_races_growth_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="needs torch: make test-torch installs it")

    def here(threads: int, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    monkeypatch.setattr(modules, "run_with_blas_threads", here)
    monkeypatch.setattr(modules, "run_python", lambda code, environment: 1.5)
    monkeypatch.setattr(modules, "_TOKENS", 20)
    rows = modules.torch_rows(BenchConfig(quick=True, repeats=1))
    groups = dict.fromkeys(row.group for row in rows)
    assert list(groups)[:4] == ["forward, N = 20", "step, N = 20", "forward, N = 100", "step, N = 100"]
    assert set(modules._KINDS) < set(groups)
    assert {row.what for row in rows if row.target is not None} == {"our module, token form"}
    assert {row.what for row in rows if row.group.endswith("LayerNorm")} == {"float32", "mixed with bfloat16"}
    assert all(row.value is not None for row in rows)


def test_memory_of_a_step_is_measured_in_a_process_of_its_own() -> None:
    pytest.importorskip("torch", reason="needs torch: make test-torch installs it")
    code = modules._MEMORY_CODE.format(kind="softmax", length=3000)
    megabytes = run_python(code, modules._ONE_THREAD)
    assert 0 < megabytes < 5000
