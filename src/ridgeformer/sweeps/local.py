"""The engine on one machine: one process for each core, used for many cells, with one thread for the kernels.

Measured on two cores: two models at once, with one thread each, are between 10 % (deep FULL) and twice (shallow DIAG)
as fast as one after the other on two threads, because every step has some Python around small matrices. With fewer
cells than cores, a process has several threads.

Each process is a pool of one from `concurrent.futures`. So a process that dies, because memory is short or by a kill,
affects only its own cell, and a new process continues that cell from its checkpoint.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from ridgeformer.core.validation import RidgeformerError
from ridgeformer.kernels.threads import default_threads
from ridgeformer.sweeps.board import Board
from ridgeformer.sweeps.cell_work import Job, run_cell

_WAIT = 0.5  # seconds between looks at how far cells are
_GRACE = 10.0  # seconds that workers have to save when the sweep is stopped
_MOST_FALSE_STARTS = 5  # of processes in a row that die before they do anything
_Result = TypeVar("_Result")
# The kernels have their own threads; those of NumPy would slow down the other processes.
_ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def run_locally(board: Board, workers: int | None, cut_leash: Callable[[], None]) -> None:
    """Train all cells of the board in processes of this machine, by default one for each core."""
    cores = default_threads()
    count = min(workers or cores, len(board.open))
    idle = [_Seat(max(1, cores // count)) for _ in range(count)]
    running: dict[Future[None], tuple[_Seat, Job]] = {}
    seats, false_starts = tuple(idle), 0
    try:
        while board.open:
            while idle and (job := board.next_ready()):
                seat = idle.pop()
                running[seat.submit(job)] = seat, job
                board.start(job.name)
            for future in wait(running, _WAIT, FIRST_COMPLETED).done:
                seat, job = running.pop(future)
                error = future.exception()
                false_starts = 0 if seat.has_started else false_starts + 1
                if isinstance(error, BrokenProcessPool):
                    if false_starts == _MOST_FALSE_STARTS:
                        raise RidgeformerError(
                            "Processes for training cannot be started here, or die at once. A script must call sweep "
                            'under: if __name__ == "__main__":'
                        )
                    seat.leave()
                    if board.may_go_on(job.name):
                        running[seat.submit(job)] = seat, job
                        continue
                elif error is not None:
                    board.fail(job.name, error)
                else:
                    board.finish(job.name)
                idle.append(seat)
            board.report(job.name for _, job in running.values())
    except BaseException:
        cut_leash()
        wait(running, _GRACE)
        raise
    finally:
        for seat in seats:
            seat.leave(end=any(owner is seat and not future.done() for future, (owner, _) in running.items()))


class _Seat:
    """A worker process, started when it gets its first cell, and again when it died."""

    def __init__(self, threads: int) -> None:
        self._environment = {**_ONE_THREAD, "RIDGEFORMER_THREADS": str(threads)}
        self._pool: ProcessPoolExecutor | None = None
        self._process: Future[int] | None = None

    @property
    def has_started(self) -> bool:
        """Whether the process ever answered."""
        return self._process is not None and self._process.done() and self._process.exception() is None

    def submit(self, job: Job) -> Future[None]:
        """Give it a cell."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), _begin)
            with self._starting():
                self._process = self._submit(os.getpid)
        return self._submit(run_cell, job)

    def _submit(self, function: Callable[..., _Result], *arguments: object) -> Future[_Result]:
        assert self._pool is not None
        try:
            return self._pool.submit(function, *arguments)
        except (BrokenProcessPool, OSError, ValueError) as died:  # in between; the pool is closing its pipes
            future: Future[_Result] = Future()
            future.set_exception(BrokenProcessPool(str(died)))
            return future

    @contextlib.contextmanager
    def _starting(self) -> Iterator[None]:
        """The signals and settings that a process inherits if it is spawned inside this context.

        Ctrl-C and SIGTERM are for the main process, so workers have them blocked from their first moment; here they
        wait until workers have started. Another thread may receive them in spite of the mask, so the handler of Ctrl-C,
        to which that of SIGTERM leads, waits too.
        """
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        here, pressed = threading.current_thread() is threading.main_thread(), list[int]()
        handler = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number)) if here else None
        before = {name: os.environ.get(name) for name in self._environment}
        os.environ.update(self._environment)
        try:
            yield
        finally:
            for name, value in before.items():
                del os.environ[name]
                if value is not None:
                    os.environ[name] = value
            if handler is not None:
                signal.signal(signal.SIGINT, handler)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            if pressed:
                signal.raise_signal(signal.SIGINT)

    def leave(self, end: bool = False) -> None:
        """Release the process; with ``end``, end it even during a cell, which a run directory survives."""
        if self._pool is not None:
            if end and self._process is not None and self.has_started:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._process.result(), signal.SIGKILL)
            self._pool.shutdown(cancel_futures=True)
        self._pool = self._process = None


def _begin() -> None:
    """The first thing that a worker does: make sure that it ends with the main process, however that ends."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(0)  # a run directory survives this: it is what a crash would do

    threading.Thread(target=watch, daemon=True).start()
