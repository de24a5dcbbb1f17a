"""The engine on a cluster: Dask distributed. The only file that imports Dask.

Every cell is a task. A cell that starts from another gets the future of that one, so Dask knows the order. Files go
through the shared folder and never through Dask. A worker that dies leaves its cell's checkpoint there, and Dask gives
the cell to another worker. After `allowed-failures` deaths Dask gives a cell up. It is then submitted again, because on
a cluster workers are killed for other reasons than their cell. When the scheduler is gone, the client waits for it to
come back and submits all unfinished cells again.

A worker gets cells only after a handshake: it must have the same package and see the same folder. A worker that passes
gets a Dask resource, a place for one cell, which cells ask for. So a worker that does not pass never gets a cell.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ridgeformer.core.validation import InputError, RidgeformerError, one_of, printable, shortened, whole_number
from ridgeformer.sweeps.board import Board
from ridgeformer.sweeps.cell_work import Job, Leash, LeashCutError, fingerprint, run_cell

if TYPE_CHECKING:
    from distributed import Client, Future

_ADDRESSES = ("tcp://", "tls://", "ws://", "wss://", "ucx://", "inproc://")
_SYSTEMS = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster", "sge": "SGECluster", "oar": "OARCluster"}
_JOB = {"cores": 1, "processes": 1, "memory": "2GB"}  # of a batch system, where its own config says nothing
_WAIT = 0.5  # seconds between looks at workers and progress
_CONNECT = 30.0  # seconds to find the scheduler, and to find it again
_GRACE = 10.0  # seconds that workers have to save when the sweep is stopped
_PATIENCE = 15.0  # seconds without workers before that is said

Say = Callable[[str], object]


def run_on_cluster(
    board: Board, address: str, workers: int | None, cut_leash: Callable[[], None], on_message: Say
) -> None:
    """Train all cells of the board on the workers of a Dask cluster; see `ridgeformer.sweeps.sweep.sweep`."""
    with _connected(address, workers) as client:
        run = _Run(client, board, on_message)
        try:
            while board.open:
                run.look()
        except BaseException:
            cut_leash()
            run.leave()
            raise


class _Run:
    """One sweep on one cluster."""

    def __init__(self, client: Client, board: Board, on_message: Say) -> None:
        self._client, self._board = client, board
        self._done: queue.SimpleQueue[tuple[str, Future]] = queue.SimpleQueue()
        self._futures: dict[str, Future] = {}
        self._ready = 0  # of these, how many wait for no other cell
        self._running: set[str] = set()
        self._count = 0
        self._door = _Door(client, next(iter(board.jobs.values())), on_message)

    def look(self) -> None:
        """Admit workers, report progress, and handle finished cells for a moment."""
        try:
            self._await_scheduler()
            self._door.open()
            self._report()
        except OSError:  # the scheduler was there a moment ago
            return
        self._fill()
        ends = time.monotonic() + _WAIT
        with contextlib.suppress(queue.Empty):
            while self._board.open:
                self._take(*self._done.get(timeout=max(0.0, ends - time.monotonic())))

    def _fill(self) -> None:
        """Give Dask as many cells as there are workers, each with all that start from it, which wait for its future.

        Not all cells at once: Dask would divide them among workers, and the death of one would count against its share.
        """
        while self._ready < self._door.places and (job := self._board.next_ready()):
            if job.name in self._board.open and job.name not in self._futures:  # else it came with its parent
                self._ready += 1
                self._submit_below(job.name)

    def _submit_below(self, name: str) -> None:
        """Submit a cell and all that start from it, in order."""
        names = [name]
        for one in names:
            self._submit(one)
            names += self._board.children(one)

    def _submit(self, name: str) -> None:
        """Give Dask a cell under a new key, because Dask may remember an old key with its failure."""
        job, cell = self._board.jobs[name], self._board.cells[name]
        self._count += 1
        key = f"{name}-{job.token[:8]}-{self._count}"
        after = self._futures[cell.parent] if cell.parent in self._board.open else None
        future = self._client.submit(run_cell, job, after, key=key, pure=False, resources={self._door.resource: 1})
        self._futures[name] = future
        future.add_done_callback(lambda future: self._done.put((name, future)))

    def _take(self, name: str, future: Future) -> None:
        """Handle the result of a cell; results of futures that were replaced are ignored."""
        board = self._board
        if name not in self._futures or self._futures[name] is not future:
            return
        if future.status == "finished":
            del self._futures[name]
            if name not in self._running:
                board.start(name)
            board.finish(name)
            self._ready += len(board.children(name)) - 1
        elif future.status == "error" and board.cells[name].parent not in board.open:  # else the parent decides
            error = future.exception()
            if not _was_interrupted(error):
                board.fail(name, error or "It failed.")
            elif board.may_go_on(name):
                self._submit_below(name)
            if name not in board.open:
                self._ready -= 1
                self._futures = {own: future for own, future in self._futures.items() if own in board.open}
        self._fill()

    def _report(self) -> None:
        keys = {future.key: name for name, future in self._futures.items()}
        running = {keys[key] for there in self._client.processing().values() for key in there if key in keys}
        for name in sorted(running - self._running):
            self._board.start(name)
        self._running |= running
        self._board.report(running)

    def _await_scheduler(self) -> None:
        """Wait until a lost scheduler is back; it has then forgotten all cells."""
        if self._client.status == "running" and not any(future.cancelled() for future in self._futures.values()):
            return
        ends = time.monotonic() + _CONNECT + 5
        while self._client.status != "running":
            if self._client.status in ("closed", "closing") or time.monotonic() > ends:
                raise RidgeformerError("The Dask scheduler is gone. Nothing is lost: the same command continues.")
            time.sleep(0.1)
        self._door.forget()
        for name in [name for name in self._board.open if name in self._futures]:
            self._submit(name)

    def leave(self) -> None:
        """Give cells in training a moment to save, after the leash was cut."""
        ends, keys = time.monotonic() + _GRACE, {future.key for future in self._futures.values()}
        with contextlib.suppress(Exception):
            while self._client.status == "running" and time.monotonic() < ends:
                if not any(key in keys for there in self._client.processing().values() for key in there):
                    break
                time.sleep(0.2)


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether a cell stopped for an outside reason: its workers died, or could not see the folder any more."""
    from distributed import KilledWorker

    return isinstance(error, KilledWorker | LeashCutError)


# --- the handshake ----------------------------------------------------------------------------------------------------


class _Door:
    """Admits workers, now and when new ones join. It asks by a task, so a dead or busy worker delays nobody."""

    def __init__(self, client: Client, job: Job, on_message: Say) -> None:
        self._client, self._job, self._say = client, job, on_message
        self._own = fingerprint()
        self._asked: dict[str, Future] = {}  # workers by id
        self._answers: dict[str, str] = {}  # nothing, or why it was refused
        self._alone_since = time.monotonic()
        self.places = 0
        """Workers that may take a cell."""
        self.resource = f"ridgeformer-{job.token[:8]}"

    def open(self) -> None:
        """Ask new workers and read their answers; raises `InputError` if there are workers and all are refused."""
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        present = {str(worker["id"]): address for address, worker in workers.items()}
        self._asked = {name: future for name, future in self._asked.items() if name in present}
        for name, address in present.items():
            if name not in self._answers and name not in self._asked:
                self._asked[name] = self._client.submit(
                    *(_answer, self._job.folder, self._job.token, self._own, self.resource),
                    key=f"{self.resource}-{name}-{time.monotonic_ns()}",
                    workers=[address],
                    priority=1000,  # before cells
                )
        for name in [name for name, future in self._asked.items() if future.done()]:
            self._hear(name, present[name], self._asked.pop(name))
        refused = [self._answers[name] for name in present if self._answers.get(name)]
        self.places = sum(self._answers.get(name) == "" for name in present)
        if present and len(refused) == len(present):
            raise InputError(f"No worker can take cells: all {len(refused)} are refused. The first: {refused[0]}")
        if present:
            self._alone_since = time.monotonic()
        elif time.monotonic() - self._alone_since > _PATIENCE:
            self._alone_since = time.monotonic() + 1e9  # said once
            self._say("The cluster has no workers; waiting for some to join.")

    def _hear(self, name: str, address: str, future: Future) -> None:
        """Handle a worker's answer; an answer that was lost is asked for again."""
        if future.status == "finished":
            with contextlib.suppress(OSError, TimeoutError):
                self._answers[name] = future.result(timeout=5)
        elif future.status == "error" and not _was_interrupted(future.exception()):  # it cannot even read the question
            kind = type(future.exception()).__name__
            self._answers[name] = f"it does not have ridgeformer {self._own['ridgeformer']} ({kind})."
        if self._answers.get(name):
            self._say(f"The worker at {address} gets no cells: {printable(self._answers[name])}")

    def forget(self) -> None:
        """Ask all workers again."""
        self._asked.clear()
        self._answers.clear()


def _answer(folder: str, token: str, expected: dict[str, str], resource: str) -> str:
    """Runs in a worker: returns why it cannot take cells; if it can, it gets a place for one."""
    from distributed import get_worker
    from distributed.core import Status

    own, worker = fingerprint(), get_worker()
    for name, version in expected.items():
        if own[name] != version:
            return f"it has {name} {own[name]}, and the sweep has {version}."
    if not os.path.isdir(folder):
        return f"it does not see the folder {folder}."
    if not Leash(Path(folder), token).holds():
        return f"it has a folder {folder} that is not the one of the sweep."

    async def make_place() -> None:
        await worker.set_resources(**{resource: 1})
        if worker.status == Status.running:  # a scheduler gives out cells that wait when a worker gets going, not now
            worker.status = Status.paused
            worker.status = Status.running

    os.environ.setdefault("RIDGEFORMER_THREADS", str(worker.state.nthreads))
    asyncio.run_coroutine_threadsafe(make_place(), worker.loop.asyncio_loop).result(timeout=30)
    return ""


# --- finding a cluster ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _connected(address: str, workers: int | None) -> Iterator[Client]:
    """A client of a scheduler that runs, or of one that asks a batch system for workers."""
    try:
        import distributed
    except ImportError as missing:
        raise InputError("Clusters need: pip install 'ridgeformer[cluster]'.") from missing
    log = logging.getLogger("distributed")
    before, level = log.level, logging.CRITICAL
    with contextlib.ExitStack() as stack:
        if address.startswith(_ADDRESSES):
            if workers is not None:
                raise InputError(f"The cluster at {address} has its workers already: leave out the number of workers.")
            target: Any = address
        else:
            target = stack.enter_context(_batch_system(address, workers or 1))
        log.setLevel(level)  # what it says of lost workers and schedulers is said here, in a sentence
        stack.callback(log.setLevel, before)
        try:
            tls = distributed.Security().get_connection_args("client")["ssl_context"]
            if address.startswith("tls://") and tls is None:
                raise InputError(
                    "An address that begins with tls:// needs certificates: name them in Dask's configuration, under "
                    "distributed.comm.tls."
                )
            client = distributed.Client(target, timeout=_CONNECT, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as failed:
            reason = printable(str(failed) or type(failed).__name__).rstrip(".")
            raise InputError(f"There is no Dask scheduler at {shortened(address)}: {reason}.") from failed
        stack.callback(_close_quietly, client)
        yield client


def _close_quietly(client: Client) -> None:
    with contextlib.suppress(Exception):
        client.close(timeout=5)


@contextlib.contextmanager
def _batch_system(name: str, jobs: int) -> Iterator[Any]:
    """A cluster whose workers are jobs of a batch system, named, or described in a dask-jobqueue config file."""
    whole_number("workers", jobs, 1)
    try:
        import dask
        import dask_jobqueue
    except ImportError as missing:
        raise InputError("Batch systems need: pip install 'ridgeformer[cluster]'.") from missing
    settings: dict[str, Any] = {}
    if name not in _SYSTEMS:
        if not os.path.isfile(name):
            choices = ", ".join(_SYSTEMS)
            raise InputError(
                f"A cluster is an address such as tcp://host:8786, a batch system ({choices}) or a config file, not "
                f"{shortened(name)}."
            )
        name, settings = _read_settings(Path(name))
    own = {**(dask.config.get(f"jobqueue.{name}", {}) or {}), **settings}
    usual = {field: value for field, value in _JOB.items() if own.get(field) is None}
    with dask.config.set({f"jobqueue.{name}": {**own, **usual}}):  # jobs read it as long as there are any
        try:
            cluster = getattr(dask_jobqueue, _SYSTEMS[name])()
        except (TypeError, ValueError, OSError, RuntimeError) as wrong:
            raise InputError(f"The {name} cluster cannot be made: {printable(str(wrong)).rstrip('.')}.") from wrong
        with cluster:
            cluster.adapt(minimum_jobs=jobs, maximum_jobs=jobs)  # unlike a fixed scale, it replaces jobs that end
            yield cluster


def _read_settings(path: Path) -> tuple[str, dict[str, Any]]:
    """The batch system of a dask-jobqueue config file, and its settings."""
    import dask

    try:
        values = dask.config.collect([str(path)], env={}).get("jobqueue")
    except Exception as broken:
        reason = printable(str(broken)).rstrip(".")
        raise InputError(f"{path} is not a dask-jobqueue config file: {reason}.") from broken
    if not isinstance(values, dict) or len(values) != 1 or not isinstance(next(iter(values.values())), dict):
        raise InputError(f"{path} must have the settings of one batch system, under jobqueue.")
    name, settings = next(iter(values.items()))
    return one_of(f"{path}: the batch system", name, _SYSTEMS), settings
