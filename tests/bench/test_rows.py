"""A report as data: JSON, text of its tables, and whether targets were met."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ridgeformer.bench import SECTIONS, BenchConfig, BenchReport, Row, Target
from ridgeformer.bench.machine import describe_machine
from ridgeformer.bench.rows import table_text
from ridgeformer.core.validation import InputError

ROWS = (
    Row("step", "ours, sampled", 1.0, seconds=0.0018),
    Row("step", "JAX, tokens", 46.53, target=Target(10, aim=20), seconds=0.0845, note="a | b"),
    Row("step", "PyTorch, tokens", None, target=Target(15), note="not installed; pip install 'ridgeformer[bench]'"),
    Row("diag", "DIAG", 1.84, target=Target(2), seconds=0.0018),
    Row("growth", "d = 5", 1.0, group="features", seconds=0.0003),
    Row("growth", "d = 10", 2.7, group="features", seconds=0.0009),
    Row("growth", "exponent", 2.85, "", group="features"),
    Row("memory", "whole process", 171.6, "MB"),
)


def test_json_holds_machine_config_and_rows() -> None:
    report = BenchReport(BenchConfig(only=("step",)), describe_machine(), ROWS, seconds=12.3)
    data = json.loads(json.dumps(report.as_json(), allow_nan=False))
    assert data["config"] == {"repeats": 7, "quick": False, "only": ["step"]}
    described = {"cpu", "cores", "memory_gb", "python", "numpy", "numba", "jax", "torch", "load_average"}
    assert described <= set(data["machine"])
    assert len(data["rows"]) == len(ROWS)
    jax_row, torch_row = data["rows"][1:3]
    assert jax_row["met"] is True
    assert jax_row["target"] == {"bound": 10, "at_most": False, "aim": 20}
    assert (torch_row["value"], torch_row["met"]) == (None, None)


def test_table_leaves_out_empty_columns_and_repeated_groups() -> None:
    heads, cells = table_text([row for row in ROWS if row.section == "growth"])
    assert heads == ["group", "what", "value", "time"]
    assert cells == [
        ["features", "d = 5", "1.00×", "300 µs"],
        ["", "d = 10", "2.70×", "900 µs"],
        ["", "exponent", "2.85", ""],
    ]


@pytest.mark.parametrize(
    ("target", "value", "met"),
    [
        (Target(10), 10.0, True),
        (Target(10), 9.99, False),
        (Target(1.1, at_most=True), 1.1, True),
        (Target(1.1, at_most=True), 1.2, False),
        (None, 1.0, None),
    ],
)
def test_row_with_a_target_knows_whether_it_is_met(target: Target | None, value: float, met: bool | None) -> None:
    assert Row("step", "x", value, target=target).met is met


@pytest.mark.parametrize("values", [{"only": ("samplng",)}, {"repeats": 0}, {"repeats": 2.5}])
def test_config_with_an_impossible_value_is_rejected(values: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"sampling|repeats"):
        BenchConfig(**values)


def test_config_with_sections_in_any_order_runs_them_in_the_usual_one() -> None:
    assert BenchConfig(only=("memory", "step")).sections == ("step", "memory")
    assert BenchConfig().sections == tuple(SECTIONS)
