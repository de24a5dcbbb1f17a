"""Threads for the kernels: fixed chunks of work, shared by all threads.

Kernels release the GIL, so ordinary threads run them in parallel. A result never depends on the number of threads,
because only the batch size decides how work is cut into chunks, and chunk results are added in chunk order. We use a
queue of our own and not ThreadPoolExecutor: a step takes under two milliseconds, and passing work to a thread costs
16 µs instead of 50.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import pairwise
from queue import SimpleQueue

from ridgeformer.core.validation import InputError, shortened, whole_number

_Work = Callable[[int, int], None]
_Job = tuple[_Work, int, int, "SimpleQueue[BaseException | None]"]

MAX_THREADS = 256  # more than any machine has cores to spare: a slip, and a thread each
_jobs: SimpleQueue[_Job] = SimpleQueue()
_workers = 0
_lock = threading.Lock()


def default_threads() -> int:
    """``RIDGEFORMER_THREADS`` if set, otherwise the number of cores this process may use."""
    chosen = os.environ.get("RIDGEFORMER_THREADS")
    if chosen is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not (chosen.isascii() and chosen.isdigit() and 1 <= int(chosen[:9]) <= MAX_THREADS):
        raise InputError(f"RIDGEFORMER_THREADS must be a number from 1 to {MAX_THREADS}, not {shortened(chosen)}.")
    return int(chosen)


def run_divided(work: _Work, pieces: int, threads: int | None = None) -> None:
    """Call ``work(begin, end)`` over consecutive ranges that cover 0 … pieces, one range per thread."""
    threads = default_threads() if threads is None else whole_number("threads", threads, 1, MAX_THREADS)
    count = max(1, min(threads, pieces))
    bounds = [pieces * i // count for i in range(count + 1)]
    if count > 1:
        _hire(count - 1)
    replies: SimpleQueue[BaseException | None] = SimpleQueue()
    for begin, end in pairwise(bounds[1:]):
        _jobs.put((work, begin, end, replies))
    error: BaseException | None = None
    try:
        work(bounds[0], bounds[1])
    except BaseException as raised:  # the others still write into shared arrays: wait for them first
        error = raised
    for _ in range(count - 1):
        error = replies.get() or error
    if error is not None:
        raise error


def run_together(work: Callable[[], None], pieces: int, threads: int | None = None) -> None:
    """Call ``work()`` in every thread, at most one per piece; the calls share out the pieces among themselves.

    A thread that starts late, as one that has to be woken does, then simply does less.
    """
    run_divided(lambda begin, end: work(), pieces, threads)


def _hire(wanted: int) -> None:
    """See that at least this many workers wait for jobs."""
    global _workers
    if _workers >= wanted:
        return
    with _lock:
        while _workers < wanted:
            threading.Thread(target=_serve, args=(_jobs,), name="ridgeformer", daemon=True).start()
            _workers += 1


def _serve(jobs: SimpleQueue[_Job]) -> None:
    while True:
        work, begin, end, replies = jobs.get()
        try:
            work(begin, end)
        except BaseException as raised:  # handed to the caller, who raises it
            replies.put(raised)
        else:
            replies.put(None)


def _forget_workers() -> None:
    """A forked child has none of its parent's threads: let it hire its own."""
    global _jobs, _workers, _lock
    _jobs, _workers, _lock = SimpleQueue(), 0, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_workers)
