"""Train many cells, several at once: one process for each core, one thread in each.

Measured on two cores: a model is a recursion on small matrices with a little Python around every step, so two models on
a thread each get done a tenth (deep FULL) to twice (shallow DIAG) sooner than one after the other on two threads.

Every cell is a run directory. Whatever stops the work, finished cells are not trained again and unfinished ones go on
from their last checkpoint. Workers get cells as lines of JSON on their standard input; when it closes, because the main
process is done or was killed, they stop at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from ridgeformer.core.validation import InputError, InterruptedRunError, RidgeformerError
from ridgeformer.reproduction.cells import Cell
from ridgeformer.reproduction.grid_times import note_times
from ridgeformer.core.model_file import load_model
from ridgeformer.training.recipes import legs
from ridgeformer.training.run_directory import RunDirectory
from ridgeformer.training.steps import StepInfo
from ridgeformer.training.train import OtherRecipeError, train

_REPORT_EVERY = 1.0  # seconds between a worker's reports of progress


@dataclass(frozen=True)
class GridEvent:
    """What happened to a cell: it was "started", is "running", has "finished", was "kept" from before, or "failed"."""

    cell: Cell
    what: str
    share: float = 0.0
    """Of its steps that are done."""
    seconds: float = 0.0
    """Since it was started."""
    busy_seconds: float = 0.0
    """Of them the worker had a core."""
    message: str = ""


def finished_result(cell: Cell, folder: Path) -> dict[str, Any] | None:
    """The cell's result, if a run of exactly this config is finished in ``folder``."""
    directory = RunDirectory(folder / cell.name)
    if not directory.exists() or directory.config() != cell.config:
        return None
    result = directory.finished_result()
    return result if directory.model.exists() else None


def run_cell(cell: Cell, folder: Path, on_step: Callable[[StepInfo], None]) -> None:
    """Train a cell in its run directory, on one thread; goes on with what is there if it is the same run.

    A run that was begun by another version of the recipe is begun again.
    """
    directory = RunDirectory(folder / cell.name)
    same = directory.exists() and directory.config() == cell.config
    given = None if cell.parent is None else load_model(RunDirectory(folder / cell.parent.name).model)

    def run(resume: bool) -> None:
        train(
            cell.config,
            out=directory.path,
            resume=resume,
            overwrite=not resume,
            callbacks=[on_step],
            threads=1,
            given=given,
        )

    try:
        run(resume=same)
    except OtherRecipeError:
        run(resume=False)


def train_grid(
    cells: Sequence[Cell], folder: Path, on_event: Callable[[GridEvent], None], workers: int | None = None
) -> list[Cell]:
    """Train all cells that are not finished yet; parents come before children. Returns the cells that failed."""
    waiting: list[Cell] = []
    done: set[str] = set()
    for cell in cells:
        if finished_result(cell, folder) is None:
            waiting.append(cell)
        else:
            done.add(cell.name)
            on_event(GridEvent(cell, "kept"))
    failed: list[Cell] = []
    if not waiting:
        return failed
    folder.mkdir(parents=True, exist_ok=True)
    with _crew(min(workers or os.cpu_count() or 1, len(waiting)), folder) as (staff, events):
        idle, busy = list(staff), 0
        while waiting or busy:
            ready = [cell for cell in waiting if cell.parent is None or cell.parent.name in done]
            while ready and idle:
                cell = ready.pop(0)
                waiting.remove(cell)
                idle.pop().give(cell)
                busy += 1
                on_event(GridEvent(cell, "started"))
            if not busy:  # their parents failed
                failed += waiting
                break
            worker, event = events.get()
            if event is None:
                raise RidgeformerError("A training process died; run the command again to go on.")
            if event.what in ("finished", "failed"):
                idle.append(worker)
                busy -= 1
                if event.what == "finished":
                    done.add(event.cell.name)
                else:
                    failed.append(event.cell)
            if event.what == "finished":
                note_times(folder, event.cell, time.time() - event.seconds, time.time(), event.busy_seconds)
            on_event(event)
    return failed


class _Worker:
    """A process that trains cells."""

    def __init__(self, folder: Path, events: queue.SimpleQueue[tuple[_Worker, GridEvent | None]]) -> None:
        command = [sys.executable, "-m", "ridgeformer.reproduction.worker", str(folder)]
        # The kernels bring their own thread; NumPy's would get in the way of the other worker.
        quiet = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | quiet,
            process_group=0,  # Ctrl-C is for the main process, which then closes the orders
        )
        self._events = events
        threading.Thread(target=self._listen, daemon=True).start()

    def give(self, cell: Cell) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(asdict(cell)) + "\n")
            self.process.stdin.flush()
        except OSError as gone:
            raise RidgeformerError("A training process died; run the command again to go on.") from gone

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as reports:
            for line in reports:
                values = json.loads(line)
                self._events.put((self, GridEvent(**(values | {"cell": Cell(**values["cell"])}))))
        self._events.put((self, None))

    def dismiss(self) -> None:
        with contextlib.suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextlib.contextmanager
def _crew(count: int, folder: Path) -> Iterator[tuple[list[_Worker], Any]]:
    events: queue.SimpleQueue[tuple[_Worker, GridEvent | None]] = queue.SimpleQueue()
    staff = [_Worker(folder, events) for _ in range(count)]
    try:
        yield staff, events
    except KeyboardInterrupt as stopped:
        raise InterruptedRunError(
            f"Stopped; all finished models are in {folder}. The same command goes on from there."
        ) from stopped
    finally:
        for worker in staff:
            worker.dismiss()


def work(folder: Path, orders: IO[str], reports: IO[str]) -> None:
    """What a worker process does: train the cells that come in, one JSON object a line, until there are no more.

    Orders are read on a thread of their own: when they end, because the main process is gone, this one ends at once.
    """
    todo: queue.SimpleQueue[Cell] = queue.SimpleQueue()

    def read() -> None:
        for line in orders:
            todo.put(Cell(**json.loads(line)))
        os._exit(0)  # a run directory survives this: it is what a crash would do

    threading.Thread(target=read, daemon=True).start()
    while True:
        _work_on(todo.get(), folder, reports)


def _work_on(cell: Cell, folder: Path, reports: IO[str]) -> None:
    started = shown = time.monotonic()
    begun = time.process_time()
    total = sum(leg.steps for leg in legs(cell.config))

    def report(what: str, share: float, message: str = "") -> None:
        values = {"cell": asdict(cell), "what": what, "share": share, "message": message}
        values |= {"seconds": time.monotonic() - started, "busy_seconds": time.process_time() - begun}
        reports.write(json.dumps(values) + "\n")
        reports.flush()

    def on_step(info: StepInfo) -> None:
        nonlocal shown
        if time.monotonic() - shown > _REPORT_EVERY:
            shown = time.monotonic()
            report("running", info.total / total)

    try:
        run_cell(cell, folder, on_step)
    except (RidgeformerError, InputError) as wrong:
        report("failed", 1.0, str(wrong))
    else:
        report("finished", 1.0)
