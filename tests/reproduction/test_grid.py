"""The grid as a study, and the zoo that is built of its runs."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import ridgeformer as rf
from ridgeformer.reproduction import grid
from ridgeformer.reproduction.cells import Cell, beyond_cells, grid_cells, register_cells
from ridgeformer.reproduction.grid import build_zoo, grid_study
from ridgeformer.zoo import zoo_names
from support import refused


def quick_cells(layers: list[int], columns: list[str]) -> tuple[Cell, ...]:
    return tuple(replace(cell, sequences=2000) for cell in grid_cells(["gdpp"], layers, columns, [0]))


CELLS = quick_cells([1, 2], ["uniform:5", "uniform:0"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of a small part of the grid, the cheapest there is."""
    folder = tmp_path_factory.mktemp("grid") / "runs"
    assert not rf.sweep(grid_study(CELLS), out=folder, workers=2).failed
    return folder


def copy(whole: Path, into: Path, *names: str) -> Path:
    for name in names:
        shutil.copytree(whole / name, into / name)
    return into


def test_whole_grid_is_a_study_whose_cells_start_from_those_that_the_grid_says() -> None:
    cells = {cell.name: cell for cell in (*grid_cells(), *beyond_cells(), *register_cells())}
    study = grid_study(cells.values())
    assert {cell.name for cell in study.cells} == set(cells)
    for cell in study.cells:
        parent = cells[cell.name].parent
        assert cell.parent == (None if parent is None else parent.name)
        assert cell.config == cells[cell.name].config


def test_models_of_the_grid_have_the_names_of_the_zoo(whole: Path) -> None:
    for cell in CELLS:
        assert rf.load(whole / cell.name / "model.safetensors").info["training"] == cell.config.as_json()


# --- the zoo ----------------------------------------------------------------------------------------------------------


def test_zoo_is_built_of_finished_runs_byte_for_byte(whole: Path, tmp_path: Path) -> None:
    sizes = build_zoo(whole, tmp_path)
    models = {path.stem: path.read_bytes() for path in tmp_path.iterdir()}
    assert models == {cell.name: (whole / cell.name / "model.safetensors").read_bytes() for cell in CELLS}
    assert sizes == {name: len(data) for name, data in models.items()}


def test_zoo_that_is_built_into_the_package_shows_at_once(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert zoo_names()  # remembered from here on
    monkeypatch.setattr(grid, "zoo_folder", lambda: tmp_path)
    monkeypatch.setattr("ridgeformer.zoo.zoo_folder", lambda: tmp_path)
    try:
        build_zoo(whole)
        assert zoo_names() == tuple(sorted(cell.name for cell in CELLS))
    finally:
        zoo_names.cache_clear()


@pytest.mark.parametrize("length", [0, 7, 100, -1])
def test_zoo_refuses_a_model_that_is_cut_off_and_writes_nothing(whole: Path, tmp_path: Path, length: int) -> None:
    runs = copy(whole, tmp_path / "runs", CELLS[0].name, CELLS[1].name)
    bad = runs / CELLS[1].name / "model.safetensors"
    bad.write_bytes(bad.read_bytes()[:length])
    (tmp_path / "into").mkdir()
    refused(re.escape(str(bad)), build_zoo, runs, tmp_path / "into")
    assert list((tmp_path / "into").iterdir()) == []


@pytest.mark.parametrize("result", [None, '{"status": "diverged"}'])
def test_zoo_leaves_out_runs_without_a_result_and_diverged_ones(
    whole: Path, tmp_path: Path, result: str | None
) -> None:
    """A run killed between its last two files has a model but no result; one that diverged has both."""
    runs = copy(whole, tmp_path / "runs", CELLS[0].name, CELLS[1].name)
    last = runs / CELLS[1].name / "result.json"
    last.unlink() if result is None else last.write_text(result)
    assert list(build_zoo(runs, tmp_path)) == [CELLS[0].name]


@pytest.mark.parametrize(("runs", "into", "hint"), [("none", ".", "no finished runs"), ("", "none", "Cannot write")])
def test_zoo_of_nothing_or_into_nowhere_is_one_sentence(
    whole: Path, tmp_path: Path, runs: str, into: str, hint: str
) -> None:
    refused(hint, build_zoo, tmp_path / runs if runs else whole, tmp_path / into)
