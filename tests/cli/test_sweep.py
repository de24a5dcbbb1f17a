"""``ridgeformer sweep`` and its display."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from ridgeformer.cli.sweep import SweepDisplay, expected_seconds
from ridgeformer.reproduction.cells import grid_cells
from ridgeformer.reproduction.grid import grid_study
from ridgeformer.sweeps import Event
from running import Capture, Patch, refuses, start, succeeds, wait_for
from sweeping import tiny

TOML = """
[grid]
kind = "gdpp"
layers = [1, 2]
dim = 3
examples = 6
sequences = 500
start = "previous layer"
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: Patch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "depth.toml").write_text(TOML)
    return Path("depth.toml")


def test_study_is_trained_into_a_folder_of_its_name_and_kept_the_next_time(study: Path, capsys: Capture) -> None:
    text = succeeds(capsys, "sweep", study, "--workers", 1)
    assert f"2 of 2 cells are done, 2 of them now: {Path('sweeps', 'depth')}" in text
    assert "Try next: ridgeformer collect sweeps/depth" in text
    assert len(list(Path("sweeps/depth").glob("gdpp-*/model.safetensors"))) == 2
    assert "2 of 2 cells are done, 0 of them now" in succeeds(capsys, "sweep", study, "--json", "r.json")
    result = json.loads(Path("r.json").read_text())
    assert len(result["kept"]) == len(result["finished"]) == 2
    assert result["failed"] == result["skipped"] == {}


def test_check_names_the_cells_and_their_starts_and_trains_nothing(study: Path, capsys: Capture) -> None:
    lines = succeeds(capsys, "sweep", study, "--check").splitlines()
    first, second = (line.split()[0] for line in lines[:2])
    assert lines == [first, f"{second} starts from {first}", "2 cells; nothing is trained."]
    assert not Path("sweeps").exists()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("nothing.toml",), "There is no file"),
        (("depth.toml", "--workers", "0"), "workers must be at least 1"),
        (("depth.toml", "--cluster", "slurmm"), "a batch system (slurm"),
        (("depth.toml", "--json", "nowhere/r.json"), "no folder"),
    ],
)
def test_bad_input_is_one_sentence(study: Path, capsys: Capture, arguments: tuple[str, ...], hint: str) -> None:
    refuses(capsys, hint, "sweep", *arguments)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_is_one_sentence_with_exit_code_130_and_saves(number: signal.Signals, tmp_path: Path) -> None:
    """The signal goes to the whole process group, as from a terminal: workers must not answer it with a traceback."""
    (tmp_path / "study.json").write_text(json.dumps(tiny(1, 200_000, layers=1, start=None)))
    process = start("sweep", tmp_path / "study.json", "--out", tmp_path / "out", "--workers", 1, group=True)
    assert wait_for(lambda: any((tmp_path / "out").glob("*/attempts.jsonl")))
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    last = err.splitlines()[-1]
    assert last.startswith(f"ridgeformer: Stopped; all cells are saved in {tmp_path / 'out'}, 0 of 1 finished.")
    assert "Traceback" not in err
    assert list((tmp_path / "out").glob("*/checkpoints/step-*"))


def test_display_counts_expected_time_and_shows_who_is_where(monkeypatch: Patch, capsys: Capture) -> None:
    study = grid_study(grid_cells(["gdpp"], [1, 2, 3, 4], ["uniform:5"], [0]))
    one, two, three, four = study.cells
    shown: list[tuple[Any, ...]] = []
    with SweepDisplay(study) as display:
        monkeypatch.setattr(display, "show", lambda *values: shown.append(values))
        for event in (
            Event(one, "kept", 1.0),
            Event(two, "started"),
            Event(two, "running", 0.5),
            Event(two, "finished", 1.0),
            Event(three, "failed", 1.0, "It exploded."),
            Event(four, "skipped", 1.0, "No start."),
        ):
            display.show_event(event)
    assert shown == [
        ("1 of 4 done", 1.0, 1.0),
        (f"1 of 4 done, 1 running: {two.name}", 1.0, 1.0),
        (f"1 of 4 done, 1 running: {two.name}", 1.5, 1.0),
        ("2 of 4 done", 2.0, 1.0),
        ("2 of 4 done, 1 failed", 3.0, 1.0),
        ("2 of 4 done, 1 failed, 1 skipped", 4.0, 1.0),
    ]
    assert capsys.readouterr().err == f"ridgeformer: {three.name}: It exploded.\n"


def test_expected_seconds_are_positive_and_shortest_for_gdpp() -> None:
    seconds = {cell: expected_seconds(cell.config) for cell in grid_cells()}
    least = min(seconds.values())
    assert least > 0
    assert all(seconds[cell] == least for cell in seconds if cell.kind == "gdpp")
