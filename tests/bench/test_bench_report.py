"""A report says the same in its tables, its JSON and its Markdown, and says in words whether targets were met."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from ridgeformer.bench import SECTIONS, BenchConfig, BenchReport, Row, Target
from ridgeformer.bench.machine import describe_machine

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


@pytest.fixture
def report() -> BenchReport:
    return BenchReport(BenchConfig(only=("step",)), {**describe_machine(), "others_share": 0.25}, ROWS, seconds=12.3)


def printed(report: BenchReport, width: int) -> str:
    text = io.StringIO()
    report.print(Console(file=text, width=width))
    return text.getvalue()


def test_print_shows_every_row_with_target_and_outcome_in_words(report: BenchReport) -> None:
    text = printed(report, width=160)
    for row in ROWS:
        assert row.what in text
    for expected in ("46.5×", "84.5 ms", "≥ 10× (aim 20×)", "✓ met", "✗ missed", "not measured", "172 MB", "300 µs"):
        assert expected in text
    assert "ridgeformer[bench]" in text  # square brackets are not rich markup here
    assert "1 of 2 targets met in 12 s; missed: diag: DIAG." in text
    assert "25 % of the machine meanwhile: measure again" in text
    assert text.count("features") == 1
    assert "sampling:" not in text  # a section that was not run


def test_print_on_a_narrow_terminal_loses_no_number(report: BenchReport) -> None:
    text = printed(report, width=60)
    assert all(value in text for value in ("46.5×", "1.84×", "2.85"))


def test_json_holds_machine_config_and_rows(report: BenchReport) -> None:
    data = json.loads(json.dumps(report.as_json(), allow_nan=False))
    assert data["config"] == {"repeats": 7, "quick": False, "only": ["step"]}
    assert {"cpu", "cores", "memory_gb", "python", "numpy", "numba", "jax", "torch", "load_average"} <= set(
        data["machine"]
    )
    assert len(data["rows"]) == len(ROWS)
    jax_row, torch_row = data["rows"][1:3]
    assert jax_row["met"] is True
    assert jax_row["target"] == {"bound": 10, "at_most": False, "aim": 20}
    assert (torch_row["value"], torch_row["met"]) == (None, None)


def test_markdown_has_a_well_formed_table_per_section(report: BenchReport) -> None:
    page = report.as_markdown()
    for name in ("step", "diag", "growth", "memory"):
        assert f"## {name}\n\n{SECTIONS[name]}." in page
    tables = [block.splitlines() for block in page.split("\n\n") if block.startswith("| ")]
    assert len(tables) == 4
    for table in tables:
        assert len({line.replace("\\|", "").count("|") for line in table}) == 1
        assert len(table) >= 3


def test_markdown_of_a_quick_run_warns_that_it_is_one() -> None:
    assert "quick run" in BenchReport(BenchConfig(quick=True), describe_machine(), ROWS).as_markdown()


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
