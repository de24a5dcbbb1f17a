"""One table of a folder of runs: its columns, its three formats, and what is left out."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import ridgeformer as rf
from ridgeformer.sweeps import collect, write_table
from support import refused
from sweeping import tiny


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    result = rf.sweep(
        tiny(2, 20) | {"measure": {"noise": "fixed:1", "shifts": "scale:2", "sequences": 200}}, out=folder
    )
    assert result.table() == collect(folder, result.finished)
    return folder


def test_row_has_settings_losses_what_it_took_and_what_else_was_measured(runs: Path) -> None:
    rows = collect(runs)
    assert len(rows) == 6
    for row in rows:
        stored = json.loads((runs / row["name"] / "result.json").read_text())
        measures = json.loads((runs / row["name"] / "measures.json").read_text())
        assert row["adjusted_loss"] == stored["evaluation"]["adjusted_loss"]
        assert (row["dim"], row["recipe"], row["steps"], row["attempts"]) == (3, "paper", 20, 1)
        assert row["adjusted_loss noise fixed:1"] == measures["noise fixed:1"]["adjusted_loss"]
        assert row["ratio shift scale:2"] == measures["shift scale:2"]["ratio"]
        assert row["seconds"] >= 0
    assert sorted((row["layers"], row["seed"]) for row in rows) == [
        (layers, seed) for layers in (1, 2, 3) for seed in (0, 1)
    ]


def test_csv_json_and_parquet_hold_the_same(runs: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = collect(runs)
    assert [path.name for path in write_table(rows, tmp_path)] == ["table.csv", "table.json", "table.parquet"]
    assert json.loads((tmp_path / "table.json").read_text()) == rows
    assert parquet.read_table(tmp_path / "table.parquet").to_pylist() == rows
    with (tmp_path / "table.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    assert [float(row["adjusted_loss"]) for row in read] == [row["adjusted_loss"] for row in rows]
    assert list(read[0]) == list(rows[0])


def test_parquet_without_pyarrow_is_left_out_unless_it_is_asked_for(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert [path.name for path in write_table(collect(runs), tmp_path)] == ["table.csv", "table.json"]
    refused("pip install pyarrow", write_table, collect(runs), tmp_path, ["parquet"])


def test_column_with_whole_and_other_numbers_and_gaps_is_written(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows: list[dict[str, Any]] = [
        {"name": "a", "rate": 1, "loss": None},
        {"name": "b", "rate": 0.5, "loss": None},
        {"name": "c", "rate": None, "loss": 2.0},
    ]
    write_table(rows, tmp_path)
    assert parquet.read_table(tmp_path / "table.parquet").to_pylist() == rows


def test_unfinished_and_damaged_runs_are_left_out(runs: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "runs"
    shutil.copytree(runs, folder)
    first, second, third, *_ = sorted(path for path in folder.iterdir() if path.is_dir())
    (first / "result.json").unlink()
    (second / "result.json").write_text("{")
    (third / "measures.json").write_text("[1]")
    (folder / "notes.txt").write_text("mine")
    rows = collect(folder)
    assert len(rows) == 4
    assert rows[0]["name"] == third.name
    assert rows[0]["adjusted_loss noise fixed:1"] is None


def test_folder_without_finished_runs_is_one_sentence(tmp_path: Path) -> None:
    refused("There are no finished runs", collect, tmp_path)
    refused("There is no folder", collect, tmp_path / "none")
