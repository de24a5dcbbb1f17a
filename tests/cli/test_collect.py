"""``ridgeformer collect``: table, files and plot of a sweep."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ridgeformer as rf
from running import Capture, Patch, refuses, succeeds
from sweeping import tiny


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    assert not rf.sweep(tiny(2, 20), out=folder).failed
    return folder


def test_table_and_plot_are_made_with_a_line_for_each_depth(
    runs: Path, tmp_path: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = succeeds(capsys, "collect", runs, "--out", tmp_path, "--formats", "svg")
    assert "6 finished cells" in text
    assert max(map(len, text.splitlines()[:8])) <= 80
    names = {path.name for path in tmp_path.iterdir()}
    assert names >= {"table.csv", "table.json", "plot.svg"}
    rows = json.loads((tmp_path / "table.json").read_text())
    for layers in (1, 2, 3):
        mean = sum(row["adjusted_loss"] for row in rows if row["layers"] == layers) / 2
        assert f"{mean:.4g}" in text


def test_where_chooses_cells_and_value_and_x_choose_what_is_drawn(runs: Path, tmp_path: Path, capsys: Capture) -> None:
    chosen = ("--where", "layers=2", "--value", "adjusted_loss noise fixed:1", "--no-plot")
    text = succeeds(capsys, "collect", runs, "--out", tmp_path, *chosen)
    assert "2 finished cells" in text
    assert not (tmp_path / "plot.svg").exists()
    succeeds(capsys, "collect", runs, "--out", tmp_path, "--x", "layers", "--value", "p99", "--formats", "svg")
    assert "p99" in (tmp_path / "plot.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--where", "layers"), "--where FIELD=VALUE"),
        (("--where", "layer=2"), "Did you mean 'layers'"),
        (("--where", "layers=9"), "No finished run has"),
        (("--value", "adjusted_los"), "Did you mean 'adjusted_loss'"),
        (("--x", "dim"), "x must be one of layers"),
        (("--formats", "gif"), "format must be one of"),
    ],
)
def test_bad_input_is_one_sentence(
    runs: Path, tmp_path: Path, capsys: Capture, arguments: tuple[str, ...], hint: str
) -> None:
    assert hint in refuses(capsys, hint, "collect", runs, "--out", tmp_path / "new", *arguments)


def test_folder_without_runs_is_one_sentence(tmp_path: Path, capsys: Capture) -> None:
    refuses(capsys, "There are no finished runs", "collect", tmp_path)
    refuses(capsys, "There is no folder", "collect", tmp_path / "none")
