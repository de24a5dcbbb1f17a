"""Sweeps in processes of this machine: what is kept, what kills leave, what failures say. Everything here is real."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import ridgeformer as rf
from ridgeformer.core.validation import InterruptedRunError
from ridgeformer.sweeps import Event, board, local
from ridgeformer.sweeps.study import read_study
from running import ENVIRONMENT, wait_for
from support import one_sentence, refused
from sweeping import (
    Deadly,
    attempts,
    check_whole,
    checkpoints,
    command_line,
    contents,
    stamps,
    start_main,
    tiny,
    workers_of,
)

STUDY = tiny(2, 300)
Whole = tuple[Path, list[str]]
"""A folder of runs, and the events of training them."""


def listed(events: list[str]) -> Callable[[Event], None]:
    def on_event(event: Event) -> None:
        if event.what != "running":
            events.append(f"{event.what} {event.cell.name}")

    return on_event


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A sweep that nothing interrupted, and its events."""
    folder, events = tmp_path_factory.mktemp("sweep") / "runs", list[str]()
    result = rf.sweep(STUDY, out=folder, workers=2, on_event=listed(events))
    assert (len(result.finished), result.kept, result.failed, result.skipped) == (6, (), {}, {})
    return folder, events


def test_sweep_trains_every_cell_parents_first_and_leaves_no_process(whole: Whole) -> None:
    folder, events = whole
    for cell in read_study(STUDY).cells:
        assert f"finished {cell.name}" in events
        if cell.parent is not None:
            assert events.index(f"finished {cell.parent}") < events.index(f"started {cell.name}")
        assert rf.load(folder / cell.name / "model.safetensors").info["training"] == cell.config.as_json()
    assert len(events) == 12
    assert workers_of(os.getpid()) == set()
    check_whole(folder, folder, cells=6)


def test_sweep_gives_what_training_each_cell_in_this_process_gives(whole: Whole, tmp_path: Path) -> None:
    for cell in read_study(STUDY).cells[:3]:
        given = rf.load(tmp_path / cell.parent / "model.safetensors") if cell.parent else None
        trained = rf.train(cell.config, out=tmp_path / cell.name, given=given)
        measured = rf.evaluate(trained.model, rf.Task(3, 8, "fixed:1"), 200, seed=20240222)
        stored = json.loads((whole[0] / cell.name / "measures.json").read_text())
        assert stored["noise fixed:1"]["adjusted_loss"] == measured.adjusted_loss
    ours = contents(tmp_path)
    assert len(ours) == 3 * 4
    assert ours == {name: data for name, data in contents(whole[0]).items() if name in ours}


def test_finished_cells_are_kept_and_nothing_is_written(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = whole
    before = stamps(folder)
    monkeypatch.setattr(local, "_Seat", lambda *arguments: pytest.fail("no process is needed"))
    events: list[str] = []
    result = rf.sweep(STUDY, out=folder, on_event=listed(events))
    assert result.kept == result.finished == tuple(cell.name for cell in read_study(STUDY).cells)
    assert events == [f"kept {name}" for name in result.kept]
    assert stamps(folder) == before


def test_changed_study_trains_only_what_is_new(whole: Whole) -> None:
    folder, _ = whole
    before = stamps(folder)
    changed = tiny(2, 300, layers=[1, 2, 3], seed=[0, 1, 7])
    events: list[str] = []
    result = rf.sweep(changed, out=folder, on_event=listed(events))
    assert (len(result.kept), len(result.finished)) == (6, 9)
    assert sum(event.startswith("finished") for event in events) == 3
    after = stamps(folder)
    old = {path: stamp for path, stamp in before.items() if path.is_file()}
    assert {path: after[path] for path in old} == old


def test_changed_measurements_are_made_without_training(whole: Whole) -> None:
    folder, _ = whole
    before = contents(folder)
    more = {**STUDY, "measure": {"noise": ["fixed:1", "fixed:2"], "examples": 5, "shifts": "scale:2", "sequences": 200}}
    assert not rf.sweep(more, out=folder).failed
    stored = json.loads(next(folder.glob("*/measures.json")).read_text())
    assert sorted(stored) == ["examples 5", "noise fixed:1", "noise fixed:2", "shift scale:2"]
    trained = {name: data for name, data in before.items() if not name.endswith("measures.json")}
    assert trained.items() <= contents(folder).items()
    assert all(sum("finished" in row for row in rows) == 1 for rows in attempts(folder).values())


def test_fewer_cells_than_cores_get_several_threads_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "default_threads", lambda: 6)
    made = list[dict[str, str]]()

    def submit(seat: Any, job: object) -> None:
        made.append(seat._environment)
        raise NotImplementedError

    monkeypatch.setattr(local._Seat, "submit", submit)
    with pytest.raises(NotImplementedError):
        rf.sweep(tiny(2, 3, layers=1, start=None), out=tmp_path)
    assert made[0]["RIDGEFORMER_THREADS"] == "3"
    assert made[0]["OPENBLAS_NUM_THREADS"] == "1"


# --- kills ------------------------------------------------------------------------------------------------------------

LONGER = tiny(2, 6000)
# When to kill: workers are there but have not begun; in the midst of a first cell; between first and second.
MOMENTS: dict[str, Callable[[Path, int], object]] = {
    "workers start": lambda folder, main: len(workers_of(main)) == 2,
    "a cell is begun": lambda folder, main: any(folder.glob("*/config.json")),
    "a cell is finished": lambda folder, main: any(folder.glob("*/result.json")),
}


def test_main_process_killed_at_several_moments_leaves_no_process_and_the_end_is_the_same(
    whole: Whole, tmp_path: Path
) -> None:
    folder = tmp_path / "runs"
    for name, reached in MOMENTS.items():
        main = start_main(STUDY, folder)
        assert wait_for(partial(reached, folder, main.pid)), name
        crew = workers_of(main.pid)
        os.kill(main.pid, signal.SIGKILL)
        main.communicate()
        assert wait_for(lambda crew=crew: not any(map(command_line, crew)), 10), name  # type: ignore[misc]
    done = {path: path.stat().st_mtime_ns for path in folder.glob("*/result.json")}
    main = start_main(STUDY, folder)
    output, errors = main.communicate(timeout=60)
    assert main.returncode == 0, output + errors
    assert {path: path.stat().st_mtime_ns for path in done} == done  # what was trained is not trained again
    assert 0 < len(done) < 6
    reference = {name: data for name, data in contents(folder).items() if not name.endswith("measures.json")}
    assert reference.items() <= contents(whole[0]).items()
    assert len(reference) == 6 * 4


def test_worker_that_is_killed_takes_nothing_with_it(tmp_path: Path) -> None:
    folder, killed = tmp_path / "runs", list[int]()

    def kill(event: Event) -> None:
        """All workers, once a cell that is at work has a checkpoint to go on from."""
        if event.what == "running" and len(killed) < 4 and checkpoints(folder).get(event.cell.name, 0) > 0:
            crew = workers_of(os.getpid())
            killed.extend(crew)
            for worker in crew:
                os.kill(worker, signal.SIGKILL)

    result = rf.sweep(LONGER, out=folder, workers=2, on_event=kill, checkpoint_seconds=0.1)
    assert (len(result.finished), result.failed) == (6, {})
    assert killed
    rows = [row for own in attempts(folder).values() for row in own]
    assert any(row.get("from_step", 0) > 0 for row in rows)  # went on from a checkpoint
    check_whole(folder, folder, cells=6)
    assert workers_of(os.getpid()) == set()


def test_cell_that_kills_its_process_is_given_up_and_the_others_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(board, "MOST_DEATHS", 2)
    good = read_study(tiny(1, 20)).cells
    configs = {cell.name: cell.config for cell in good}
    configs["deadly"] = replace(good[0].config, noise=Deadly())
    configs["child"] = replace(good[1].config, noise=Deadly(), start="deadly")
    result = rf.sweep(configs, out=tmp_path, workers=2)
    assert list(result.failed) == ["deadly"]
    assert "died 2 times without progress" in result.failed["deadly"]
    assert result.skipped == {"child": "deadly"}
    assert len(result.finished) == 3


def test_interrupt_saves_all_cells_says_how_to_go_on_and_leaves_no_process(tmp_path: Path) -> None:
    def stop(event: Event) -> None:
        if event.what == "running" and event.share > 0:
            raise KeyboardInterrupt

    with pytest.raises(InterruptedRunError, match="The same command continues from there") as caught:
        rf.sweep(LONGER, out=tmp_path, workers=2, on_event=stop)
    assert str(tmp_path) in one_sentence(caught.value)
    assert checkpoints(tmp_path)  # though one is only due after 15 seconds
    assert workers_of(os.getpid()) == set()
    assert (tmp_path / "sweep.lock").read_bytes() == b""


@pytest.mark.slow
def test_script_without_a_guard_is_told_so_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"import ridgeformer as rf\nrf.sweep({STUDY!r}, out={str(tmp_path / 'out')!r}, workers=1)\n")
    done = subprocess.run([sys.executable, script], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert 'A script must call sweep under: if __name__ == "__main__":' in done.stderr


# --- folders that hold something else ---------------------------------------------------------------------------------


def test_cell_whose_folder_holds_another_run_is_refused_unless_it_may_be_overwritten(tmp_path: Path) -> None:
    config = read_study(tiny(1, 20, layers=1, start=None)).cells[0].config
    assert not rf.sweep({"mine": config}, out=tmp_path).failed
    other = replace(config, seed=5)
    before = stamps(tmp_path)
    refused("holds something other than this cell", rf.sweep, {"mine": other}, out=tmp_path)
    assert stamps(tmp_path) == before
    assert rf.sweep({"mine": other}, out=tmp_path, overwrite=True).finished == ("mine",)
    assert rf.load(tmp_path / "mine" / "model.safetensors").info["training"]["seed"] == 5


@pytest.mark.parametrize("overwrite", [False, True])
def test_folder_of_a_cell_with_something_that_is_no_run_is_refused(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    config = rf.TrainConfig(layers=1)
    refused("holds something other", rf.sweep, {"mine": config}, out=tmp_path, overwrite=overwrite)


def test_cell_whose_parent_is_damaged_fails_and_says_which_file(whole: Whole, tmp_path: Path) -> None:
    cells = read_study(STUDY).cells
    parent = next(cell for cell in cells if cell.config.layers == 1)
    child = next(cell for cell in cells if cell.parent == parent.name)
    folder = tmp_path / "runs"
    assert rf.sweep({parent.name: parent.config}, out=folder).finished
    damaged = folder / parent.name / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-7])
    result = rf.sweep({cell.name: cell.config for cell in (parent, child)}, out=folder)
    assert str(damaged) in result.failed[child.name]


@pytest.mark.parametrize(("values", "hint"), [({"workers": 0}, "workers"), ({"checkpoint_seconds": -1}, "checkpoint")])
def test_arguments_that_do_not_fit_are_refused(tmp_path: Path, values: dict[str, Any], hint: str) -> None:
    refused(hint, rf.sweep, STUDY, out=tmp_path / "out", **values)
    refused("Cannot write", rf.sweep, STUDY, out="/proc/nowhere")


# --- many -------------------------------------------------------------------------------------------------------------


def many(cells: int) -> dict[str, Any]:
    return tiny(cells, 5, layers=1, start=None, batch=8) | {"measure": {}}


def check_many(cells: int, folder: Path) -> None:
    """Print what a cell costs here, in seconds and memory, and how long it takes to see that all are done."""
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    assert len(rf.sweep(many(cells), out=folder).finished) == cells
    seconds = time.perf_counter() - started
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    started = time.perf_counter()
    assert len(rf.sweep(many(cells), out=folder).kept) == cells
    again = time.perf_counter() - started
    sys.stderr.write(
        f"\n{cells} cells: {seconds / cells * 1e3:.1f} ms each, {grown:.0f} MB more, again in {again:.1f} s\n"
    )
    assert grown < 200 + cells * 0.02
    assert workers_of(os.getpid()) == set()


def test_many_tiny_cells_are_trained_and_seen_to_be_done(tmp_path: Path) -> None:
    check_many(60, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_thousand_tiny_cells_are_trained_in_bounded_memory_and_resumed_in_seconds(tmp_path: Path) -> None:
    check_many(10_000, tmp_path)
