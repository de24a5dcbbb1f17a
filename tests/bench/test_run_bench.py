"""Sections run and give the rows they promise. No test here looks at a time: machines differ, and builds are busy."""

from __future__ import annotations

import pytest

from ridgeformer.bench import SECTIONS, BenchConfig, run_bench, section_function


def test_every_section_has_a_function() -> None:
    assert all(callable(section_function(name)) for name in SECTIONS)


def test_quick_run_of_chosen_sections_gives_their_rows_only() -> None:
    begun: list[str] = []
    report = run_bench(BenchConfig(quick=True, only=("diag", "context-length")), begun.append)
    assert begun == ["diag", "context-length"]
    assert [(row.section, row.what) for row in report.rows] == [
        ("diag", "FULL"),
        ("diag", "DIAG"),
        ("diag", "GD++"),
        ("diag", "DIAG, 2 registers"),
        ("diag", "DIAG, 2 registers, time over DIAG"),
        ("context-length", "FULL, n = 10000"),
        ("context-length", "DIAG, n = 10000"),
    ]
    assert all(row.value is not None and row.value > 0 for row in report.rows)
    assert report.seconds > 0


def test_sampling_is_a_share_of_every_kind_and_depth() -> None:
    rows = run_bench(BenchConfig(quick=True, repeats=1, only=("sampling",))).rows
    assert len(rows) == 8
    assert {row.unit for row in rows} == {"%"}
    assert {row.what for row in rows if row.target is not None} == {"FULL, L = 3", "FULL, L = 7"}


@pytest.mark.slow
def test_quick_run_of_everything_gives_rows_in_every_section() -> None:
    report = run_bench(BenchConfig(quick=True))
    assert {row.section for row in report.rows} == set(SECTIONS)
    assert all(row.value is not None or row.note for row in report.rows)
