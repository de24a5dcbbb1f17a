"""Train many cells, several at once: one process for each core, one thread in each.

Measured on two cores: a model is a recursion on small matrices with a little Python around every step, so two models on
a thread each get done a tenth (deep FULL) to twice (shallow DIAG) sooner than one after the other on two threads.

Every cell is a run directory. Whatever stops the work, finished cells are not trained again and unfinished ones go on
from their last checkpoint. How long cells took is in grid.jsonl beside the run directories, a line for each.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ridgeformer.core.model_file import load_model, read_model
from ridgeformer.core.storage import write_whole
from ridgeformer.core.validation import InputError, InterruptedRunError, RidgeformerError
from ridgeformer.reproduction.cells import Cell
from ridgeformer.training.recipes import stages_of
from ridgeformer.training.run_directory import RunDirectory
from ridgeformer.training.train import OtherRecipeError, train
from ridgeformer.zoo import SUFFIX, zoo_folder, zoo_names

_REPORT_EVERY = 1.0  # seconds between reports of progress
TIMES = "grid.jsonl"
# The kernels bring their own thread; NumPy's would get in the way of the other worker.
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True)
class GridEvent:
    """What happened to a cell: it was "started", is "running", has "finished", was "kept" from before, or "failed"."""

    cell: Cell
    what: str
    share: float = 0.0
    """Of its steps that are done."""
    message: str = ""
    """Why it failed."""


OnEvent = Callable[[GridEvent], None]


def finished_result(cell: Cell, folder: Path) -> dict[str, Any] | None:
    """The cell's result, if a run of exactly this config is finished in ``folder``."""
    directory = RunDirectory(folder / cell.name)
    if not directory.exists() or directory.config() != cell.config:
        return None
    result = directory.finished_result()
    return result if directory.model.exists() else None


def train_grid(cells: Sequence[Cell], folder: Path, on_event: OnEvent, workers: int | None = None) -> list[Cell]:
    """Train all cells that are not finished yet; parents come before children. Returns the cells that failed.

    Workers are spawned by `multiprocessing`: a script that calls this must do so under ``if __name__ == "__main__":``.
    """
    waiting = [cell for cell in cells if finished_result(cell, folder) is None]
    done = {cell.name for cell in cells} - {cell.name for cell in waiting}
    for cell in cells:
        if cell.name in done:
            on_event(GridEvent(cell, "kept"))
    failed: list[Cell] = []
    if not waiting:
        return failed
    folder.mkdir(parents=True, exist_ok=True)
    count = min(workers or os.cpu_count() or 1, len(waiting))
    running: dict[Future[tuple[float, float, float]], Cell] = {}
    with _crew(count, folder) as submit:
        while waiting or running:
            ready = [cell for cell in waiting if cell.parent is None or cell.parent.name in done]
            for cell in ready[: count - len(running)]:
                waiting.remove(cell)
                running[submit(cell)] = cell
                on_event(GridEvent(cell, "started"))
            if not running:  # their parents failed
                return failed + waiting
            for future in wait(running, _REPORT_EVERY, FIRST_COMPLETED).done:
                cell, error = running.pop(future), future.exception()
                if isinstance(error, RidgeformerError):
                    failed.append(cell)
                    on_event(GridEvent(cell, "failed", 1.0, str(error)))
                else:
                    note_times(folder, cell, *future.result())
                    done.add(cell.name)
                    on_event(GridEvent(cell, "finished", 1.0))
            for cell in running.values():
                on_event(GridEvent(cell, "running", _share(cell, folder)))
    return failed


def _share(cell: Cell, folder: Path) -> float:
    """How much of a cell is done, by the history of its run."""
    with contextlib.suppress(InputError, ValueError, KeyError, IndexError):  # not begun, or a line half written
        steps = RunDirectory(folder / cell.name).read_history()[-1]["total"]
        return min(1.0, steps / sum(stage.steps for stage in stages_of(cell.config)))
    return 0.0


@contextlib.contextmanager
def _crew(count: int, folder: Path) -> Iterator[Callable[[Cell], Future[tuple[float, float, float]]]]:
    """Worker processes, and what gives them cells. They end at once when this process leaves, however it does."""
    spawning = multiprocessing.get_context("spawn")
    end, ours = spawning.Pipe(duplex=False)  # only this process holds ours: when it is gone, the workers read its end
    pool = ProcessPoolExecutor(count, spawning, _begin, (end,))

    def submit(cell: Cell) -> Future[tuple[float, float, float]]:
        # A worker inherits what holds while it is spawned here. Ctrl-C is for the main process, so workers have it
        # blocked from their first moment; here it waits until they are on their way.
        mask, environment = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}), dict(os.environ)
        os.environ.update(_ONE_THREAD)
        try:
            return pool.submit(_train_cell, cell, folder)
        except (OSError, ValueError) as closed:  # a worker died, and the pool is closing its pipes while one is started
            raise BrokenProcessPool("no worker can be started") from closed
        finally:
            for name in _ONE_THREAD:
                del os.environ[name]
            os.environ.update(environment)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    try:
        yield submit
        pool.shutdown()
    except BrokenProcessPool as died:
        raise RidgeformerError("A training process died; run the command again to go on.") from died
    except KeyboardInterrupt as stopped:
        raise InterruptedRunError(
            f"Stopped; all finished models are in {folder}. The same command goes on from there."
        ) from stopped
    finally:
        ours.close()
        pool.shutdown(cancel_futures=True)
        end.close()


def _begin(end: Connection) -> None:
    """What a worker does first: watch for the end of the main process."""

    def watch() -> None:
        with contextlib.suppress(EOFError, OSError):
            end.recv_bytes()
        os._exit(0)  # a run directory survives this: it is what a crash would do

    threading.Thread(target=watch, daemon=True).start()


def _train_cell(cell: Cell, folder: Path) -> tuple[float, float, float]:
    """What a worker does: train a cell in its run directory, on one thread; when it began, ended and had a core.

    It goes on with what is there if it is the same run. One that was begun by another version of the recipe is begun
    again.
    """
    started, begun = time.time(), time.process_time()
    directory = RunDirectory(folder / cell.name)
    same = directory.exists() and directory.config() == cell.config
    given = None if cell.parent is None else load_model(RunDirectory(folder / cell.parent.name).model)

    def run(resume: bool) -> None:
        train(cell.config, out=directory.path, resume=resume, overwrite=not resume, threads=1, given=given)

    try:
        run(resume=same)
    except OtherRecipeError:
        run(resume=False)
    return started, time.time(), time.process_time() - begun


def note_times(folder: Path, cell: Cell, started: float, finished: float, busy: float) -> None:
    """Add a cell; times are in seconds since 1970, except ``busy``, those for which it had a core."""
    times = {"started": started, "finished": finished, "busy": busy}
    row = {"cell": cell.name, **{name: round(seconds, 2) for name, seconds in times.items()}}
    try:
        with (folder / TIMES).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    except OSError as failed:
        raise InputError(f"Cannot write {folder / TIMES}: {failed.strerror or failed}.") from failed


def build_zoo(runs: Path, into: Path | None = None) -> dict[str, int]:
    """Copy the models of all finished runs in ``runs`` into a folder, by default the package's own: name → bytes."""
    models: dict[str, bytes] = {}
    for path in sorted(runs.glob(f"*/model{SUFFIX}")):
        if RunDirectory(path.parent).finished_result() is not None:
            models[path.parent.name] = path.read_bytes()
            read_model(models[path.parent.name], path)  # refuses what is not a model, before anything is written
    if not models:
        raise InputError(f"There are no finished runs in {runs}.")
    for name, data in models.items():
        write_whole((zoo_folder() if into is None else into) / f"{name}{SUFFIX}", data)
    zoo_names.cache_clear()
    return {name: len(data) for name, data in models.items()}
