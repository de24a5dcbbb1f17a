"""Training many cells in several processes: what is kept, what a kill leaves, what failures say.

Everything here is real: processes, kills, files. The cells are the cheapest there are, GD++ models of one to three
layers, and a process needs a second or two for the first of them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import ridgeformer as rf
from ridgeformer.core.validation import InterruptedRunError, RidgeformerError
from ridgeformer.reproduction import grid
from ridgeformer.reproduction.cells import Cell, grid_cells
from ridgeformer.reproduction.grid import GridEvent, build_zoo, finished_result, note_times, train_grid
from ridgeformer.zoo import zoo_names
from support import one_sentence, refused


def quick_cells(layers: list[int], columns: list[str]) -> tuple[Cell, ...]:
    return tuple(replace(cell, sequences=2000) for cell in grid_cells(["gdpp"], layers, columns, [0]))


CELLS = quick_cells([1, 2], ["uniform:5", "uniform:0"])
Whole = tuple[Path, list[str]]
"""A folder of runs, and the events of training them."""
FINAL = ("config.json", "history.jsonl", "model.safetensors", "result.json")
MAIN = """
import json, sys
from pathlib import Path
from ridgeformer.reproduction.cells import Cell
from ridgeformer.reproduction.grid import train_grid

def show(event):
    print(event.what, event.cell.name, flush=True)

if __name__ == "__main__":
    cells = [Cell(**values) for values in json.loads(sys.argv[2])]
    sys.exit(len(train_grid(cells, Path(sys.argv[1]), show, workers=2)))
"""


def start_main(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", MAIN, str(folder), json.dumps([vars(cell) for cell in CELLS])]
    environment = {**os.environ, "PYTHONPATH": str(Path(rf.__file__).parents[1])}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def workers_of(parent: int) -> set[int]:
    """Ids of the training processes that a process has."""
    try:
        children = {int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()}
    except OSError:
        return set()
    return {child for child in children if b"spawn_main" in command_line(child)}


def command_line(process: int) -> bytes:
    """That of a process, empty if it is gone, or dead and not yet fetched by its parent."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def wait_for(condition: Callable[[], object], seconds: float = 30.0) -> bool:
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(0.005)
    return True


def stamps(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def contents(folder: Path) -> dict[str, bytes]:
    """All that a grid leaves, but for locks and checkpoints, and the part of a file that a kill leaves."""
    return {f"{cell.name}/{name}": (folder / cell.name / name).read_bytes() for cell in CELLS for name in FINAL}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A grid that nothing interrupted, and its events."""
    folder, events = tmp_path_factory.mktemp("grid") / "runs", []
    assert train_grid(CELLS, folder, lambda event: events.append(f"{event.what} {event.cell.name}"), workers=2) == []
    return folder, events


def copy(whole: Path, into: Path, *names: str) -> Path:
    for name in names:
        shutil.copytree(whole / name, into / name)
    return into


def test_grid_trains_every_cell_parents_first_and_leaves_no_process(whole: Whole) -> None:
    folder, events = whole
    for cell in CELLS:
        assert f"finished {cell.name}" in events
        assert f"kept {cell.name}" not in events
        if cell.parent is not None:
            assert events.index(f"finished {cell.parent.name}") < events.index(f"started {cell.name}")
        assert finished_result(cell, folder)
        model = rf.load(folder / cell.name / "model.safetensors")
        assert model.info["training"] == cell.config.as_json()
        assert model.layers == cell.layers
    assert workers_of(os.getpid()) == set()


def test_grid_gives_what_training_each_cell_in_this_process_gives(whole: Whole, tmp_path: Path) -> None:
    for cell in CELLS[:2]:
        given = rf.load(tmp_path / cell.parent.name / "model.safetensors") if cell.parent else None
        rf.train(cell.config, out=tmp_path / cell.name, given=given)
        for name in FINAL:
            assert (tmp_path / cell.name / name).read_bytes() == (whole[0] / cell.name / name).read_bytes()


def test_finished_cells_are_kept_and_nothing_is_written(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = whole
    before = stamps(folder)
    monkeypatch.setattr(grid, "_crew", lambda *arguments: pytest.fail("no process is needed"))
    events: list[GridEvent] = []
    assert train_grid(CELLS, folder, events.append) == []
    assert [(event.what, event.cell) for event in events] == [("kept", cell) for cell in CELLS]
    assert stamps(folder) == before


def test_only_what_is_missing_is_trained_and_what_is_there_keeps_its_stamps(whole: Whole, tmp_path: Path) -> None:
    kept, folder = CELLS[0], tmp_path / "runs"
    copy(whole[0], folder, kept.name)
    before = stamps(folder / kept.name)
    events: list[str] = []
    assert train_grid(CELLS[:2], folder, lambda event: events.append(f"{event.what} {event.cell.name}")) == []
    assert events[0] == f"kept {kept.name}"
    assert f"started {kept.name}" not in events
    assert f"finished {CELLS[1].name}" in events
    assert stamps(folder / kept.name) == before
    expected = (whole[0] / CELLS[1].name / "model.safetensors").read_bytes()
    assert (folder / CELLS[1].name / "model.safetensors").read_bytes() == expected


def test_finished_result_of_another_config_or_of_an_unfinished_or_diverged_run_is_none(
    whole: Whole, tmp_path: Path
) -> None:
    cell = CELLS[0]
    folder = copy(whole[0], tmp_path, cell.name)
    assert finished_result(cell, folder) == json.loads((folder / cell.name / "result.json").read_text())
    assert finished_result(replace(cell, sequences=2001), folder) is None
    (folder / cell.name / "result.json").write_text('{"status": "diverged", "steps": 1, "skipped": 1, "rewinds": 9}')
    assert finished_result(cell, folder) is None
    (folder / cell.name / "result.json").unlink()
    assert finished_result(cell, folder) is None
    assert finished_result(CELLS[1], folder) is None


# --- kills ------------------------------------------------------------------------------------------------------------


# When to kill: workers are there but have not begun; in the midst of a first cell; between first and second.
MOMENTS: dict[str, Callable[[Path, int], object]] = {
    "workers start": lambda folder, main: len(workers_of(main)) == 2,
    "a cell is begun": lambda folder, main: any(folder.glob("*/config.json")),
    "a cell is finished": lambda folder, main: any(folder.glob("*/result.json")),
}


def test_grid_killed_at_several_moments_leaves_no_process_and_no_part_and_ends_the_same(
    whole: Whole, tmp_path: Path
) -> None:
    folder = tmp_path / "runs"
    for name, reached in MOMENTS.items():
        process = start_main(folder)
        assert wait_for(partial(reached, folder, process.pid)), name
        assert process.poll() is None, name
        crew = workers_of(process.pid)
        assert crew
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        assert wait_for(lambda crew=crew: not any(map(command_line, crew)), 10), name  # type: ignore[misc]
        for result in folder.glob("*/result.json"):
            assert json.loads(result.read_text())["status"] == "finished"
            rf.load(result.parent / "model.safetensors")
    done = [path.parent.name for path in folder.glob("*/result.json")]
    assert 0 < len(done) < len(CELLS)
    before = [stamps(folder / name) for name in done]
    process = start_main(folder)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert {line.split()[1] for line in output.splitlines() if line.startswith("kept")} == set(done)
    assert [stamps(folder / name) for name in done] == before
    assert contents(folder) == contents(whole[0])


def test_interrupt_in_the_main_process_is_one_sentence_and_leaves_no_process(tmp_path: Path) -> None:
    def stop(event: GridEvent) -> None:
        raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match="The same command goes on from there") as caught:
        train_grid(CELLS, tmp_path, stop, workers=2)
    assert str(tmp_path) in one_sentence(caught.value)
    assert workers_of(os.getpid()) == set()


# --- failures ---------------------------------------------------------------------------------------------------------


def failures_of(cells: tuple[Cell, ...], folder: Path) -> tuple[list[str], dict[str, str]]:
    messages: dict[str, str] = {}

    def on_event(event: GridEvent) -> None:
        if event.what == "failed":
            messages[event.cell.name] = event.message

    return [cell.name for cell in train_grid(cells, folder, on_event, workers=2)], messages


def test_cell_without_a_folder_fails_and_its_children_with_it(whole: Whole, tmp_path: Path) -> None:
    """A file stands where the run directory belongs, as good as a folder that cannot be written."""
    folder = copy(whole[0], tmp_path, "gdpp-1-uniform-5")
    (folder / "gdpp-1-uniform-0").write_text("in the way")
    cells = (*CELLS, *quick_cells([3], ["uniform:0"])[2:])
    names, messages = failures_of(cells, folder)
    assert sorted(names) == ["gdpp-1-uniform-0", "gdpp-2-uniform-0", "gdpp-3-uniform-0"]
    assert list(messages) == ["gdpp-1-uniform-0"]  # the others never began
    assert messages["gdpp-1-uniform-0"].startswith(f"Cannot write {folder / 'gdpp-1-uniform-0'}")
    assert (folder / "gdpp-2-uniform-5" / "result.json").exists()  # the rest goes on
    assert not (folder / "gdpp-2-uniform-0").exists()
    assert workers_of(os.getpid()) == set()


def test_cell_whose_parent_is_damaged_fails_and_says_which_file(whole: Whole, tmp_path: Path) -> None:
    folder = copy(whole[0], tmp_path, "gdpp-1-uniform-5")
    damaged = folder / "gdpp-1-uniform-5" / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-7])
    names, messages = failures_of(CELLS[:2], folder)
    assert names == ["gdpp-2-uniform-5"]
    assert str(damaged) in messages["gdpp-2-uniform-5"]
    assert not (folder / "gdpp-2-uniform-5" / "result.json").exists()


def test_worker_that_dies_is_reported_and_the_others_go(tmp_path: Path) -> None:
    def kill_one(event: GridEvent) -> None:
        if event.what == "started" and event.cell == CELLS[0]:
            assert wait_for(lambda: workers_of(os.getpid()))  # a child shows as a worker a moment after its fork
            os.kill(workers_of(os.getpid()).pop(), signal.SIGKILL)

    with pytest.raises(RidgeformerError, match="A training process died; run the command again") as caught:
        train_grid(CELLS, tmp_path, kill_one, workers=2)
    one_sentence(caught.value)
    assert workers_of(os.getpid()) == set()


# --- times ------------------------------------------------------------------------------------------------------------


def test_times_of_finished_cells_are_noted_a_line_for_each(whole: Whole) -> None:
    rows = [json.loads(line) for line in (whole[0] / "grid.jsonl").read_text().splitlines()]
    assert sorted(row["cell"] for row in rows) == sorted(cell.name for cell in CELLS)
    assert all(row["started"] < row["finished"] and row["busy"] > 0 for row in rows)


def test_times_in_a_folder_that_cannot_be_written_are_one_sentence(tmp_path: Path) -> None:
    refused("Cannot write", note_times, tmp_path / "missing", CELLS[0], 0.0, 1.0, 1.0)


# --- the zoo ----------------------------------------------------------------------------------------------------------


def test_zoo_is_built_of_finished_runs_byte_for_byte(whole: Whole, tmp_path: Path) -> None:
    sizes = build_zoo(whole[0], tmp_path)
    models = {path.stem: path.read_bytes() for path in tmp_path.iterdir()}
    assert models == {cell.name: (whole[0] / cell.name / "model.safetensors").read_bytes() for cell in CELLS}
    assert sizes == {name: len(data) for name, data in models.items()}


def test_zoo_that_is_built_into_the_package_shows_at_once(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert zoo_names()  # remembered from here on
    monkeypatch.setattr(grid, "zoo_folder", lambda: tmp_path)
    monkeypatch.setattr("ridgeformer.zoo.zoo_folder", lambda: tmp_path)
    try:
        build_zoo(whole[0])
        assert zoo_names() == tuple(sorted(cell.name for cell in CELLS))
    finally:
        zoo_names.cache_clear()


@pytest.mark.parametrize("length", [0, 7, 100, -1])
def test_zoo_refuses_a_model_that_is_cut_off_and_writes_nothing(whole: Whole, tmp_path: Path, length: int) -> None:
    runs = copy(whole[0], tmp_path / "runs", CELLS[0].name, CELLS[1].name)
    bad = runs / CELLS[1].name / "model.safetensors"
    bad.write_bytes(bad.read_bytes()[:length])
    (tmp_path / "into").mkdir()
    refused(re.escape(str(bad)), build_zoo, runs, tmp_path / "into")
    assert list((tmp_path / "into").iterdir()) == []


@pytest.mark.parametrize("result", [None, '{"status": "diverged"}'])
def test_zoo_leaves_out_runs_without_a_result_and_diverged_ones(
    whole: Whole, tmp_path: Path, result: str | None
) -> None:
    """A run killed between its last two files has a model but no result; one that diverged has both."""
    runs = copy(whole[0], tmp_path / "runs", CELLS[0].name, CELLS[1].name)
    last = runs / CELLS[1].name / "result.json"
    last.unlink() if result is None else last.write_text(result)
    assert list(build_zoo(runs, tmp_path)) == [CELLS[0].name]


@pytest.mark.parametrize(("runs", "into", "hint"), [("none", ".", "no finished runs"), ("", "none", "Cannot write")])
def test_zoo_of_nothing_or_into_nowhere_is_one_sentence(
    whole: Whole, tmp_path: Path, runs: str, into: str, hint: str
) -> None:
    refused(hint, build_zoo, tmp_path / runs if runs else whole[0], tmp_path / into)
