"""``ridgeformer bench``: its tables, JSON and flags. What it measures is tested in tests/bench."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ridgeformer.bench import SECTIONS, BenchConfig, BenchReport, Row, Target
from ridgeformer.bench.machine import describe_machine
from ridgeformer.cli.bench import print_bench
from ridgeformer.core.validation import RidgeformerError
from ridgeformer.evaluation import Evaluation
from ridgeformer.reproduction import training_targets
from ridgeformer.reproduction.training_targets import Trial
from running import Capture, Patch, call, read_json, refuses, succeeds

ROWS = (
    Row("step", "ours, sampled", 1.0, seconds=0.0018),
    Row("step", "JAX, tokens", 46.53, target=Target(10, aim=20), seconds=0.0845, note="a | b"),
    Row("step", "PyTorch, tokens", None, target=Target(15), note="not installed; pip install 'ridgeformer[bench]'"),
    Row("diag", "DIAG", 1.84, target=Target(2), seconds=0.0018),
    Row("growth", "d = 5", 1.0, group="features", seconds=0.0003),
    Row("growth", "exponent", 2.85, "", group="features"),
    Row("memory", "whole process", 171.6, "MB"),
)


@pytest.mark.parametrize("width", [60, 80, 160])
def test_print_shows_every_row_with_target_and_outcome_in_words(
    width: int, monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    print_bench(BenchReport(BenchConfig(), {**describe_machine(), "others_share": 0.25}, ROWS, 12.3))
    printed = capsys.readouterr().out
    for expected in ("46.5×", "84.5 ms", "1.84×", "2.85", "172 MB", "300 µs", "✓ met", "✗ missed"):
        assert expected in printed
    words = " ".join(printed.replace("│", " ").split())
    assert "1 of 2 targets met in 12 s; missed: diag: DIAG." in words
    assert "25 % of the machine meanwhile: measure again" in words
    assert "sampling:" not in words  # a section that was not run
    if width == 160:
        assert "ridgeformer[bench]" in words  # square brackets are not rich markup here
        assert "≥ 10× (aim 20×)" in words
        assert words.count("features") == 1


def test_bench_of_one_quick_section_writes_json(tmp_path: Path, capsys: Capture) -> None:
    out = succeeds(capsys, "bench", "--quick", "--repeats", 1, "--only", "sampling", "--json", tmp_path / "b.json")
    assert "Share of a step that draws contexts" in " ".join(out.split())
    assert {row["section"] for row in read_json(tmp_path / "b.json")["rows"]} == {"sampling"}


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("--quick",), BenchConfig(quick=True)),
        (("--repeats", "3", "--only", "step", "memory"), BenchConfig(repeats=3, only=("step", "memory"))),
        ((), BenchConfig()),
    ],
)
def test_bench_flags_fill_its_config(
    flags: tuple[str, ...], expected: BenchConfig, monkeypatch: Patch, capsys: Capture
) -> None:
    asked: list[BenchConfig] = []

    def fake(config: BenchConfig, on_section: object) -> Any:
        asked.append(config)
        raise RidgeformerError("Enough.")

    monkeypatch.setattr("ridgeformer.cli.bench.run_bench", fake)
    assert call(capsys, "bench", *flags)[0] == 2
    assert asked == [expected]


def test_bench_refuses_what_it_cannot_do(tmp_path: Path, capsys: Capture) -> None:
    text = refuses(capsys, "Did you mean 'memory'?", "bench", "--only", "memroy")
    assert all(name in text for name in SECTIONS)
    refuses(capsys, "leave out --repeats, --quick and --only", "bench", "--training", "--quick")
    refuses(capsys, "no folder", "bench", "--json", tmp_path / "nowhere" / "b.json")


def test_bench_of_training_prints_tables_and_writes_json(tmp_path: Path, monkeypatch: Patch, capsys: Capture) -> None:
    evaluation = Evaluation.of(np.full(9, 0.05), np.full(9, 1.0))
    trial = Trial("recipe", "diag", 4, "uniform:5", 0, evaluation, 3.0, 0.06, 60.0)
    monkeypatch.setattr(training_targets, "time_to_target", lambda: iter([trial]))
    monkeypatch.setattr(training_targets, "ablations", lambda: iter([trial]))
    code, out, err = call(capsys, "bench", "--training", "--json", tmp_path / "t.json")
    assert code == 0
    assert "Time to target" in out
    assert "diag, 4 layers, uniform:5, recipe: 0.05 in 3 s" in err
    record = read_json(tmp_path / "t.json")
    assert record["targets"][0]["met"] is True
    assert record["ablations"] == []
    assert "What the ingredients are worth" in succeeds(capsys, "bench", "--ablations")
