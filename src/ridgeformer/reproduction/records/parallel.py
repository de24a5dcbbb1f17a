"""Small jobs on all cores: NumPy and the kernels release the GIL for nearly all of their time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from ridgeformer.kernels.threads import default_threads

_T = TypeVar("_T")
OnPart = Callable[[int, int], None]
"""Called with the number of jobs that are done and the number of all."""


def no_news(done: int, jobs: int) -> None:
    """For callers that do not watch."""


def in_parallel(jobs: Sequence[Callable[[], _T]], on_part: OnPart = no_news) -> list[_T]:
    """The results of all jobs, in order; ``on_part`` is called from this thread."""
    pool = ThreadPoolExecutor(default_threads())
    try:
        waiting = [pool.submit(job) for job in jobs]
        found = []
        for done, future in enumerate(waiting, 1):
            found.append(future.result())
            on_part(done, len(jobs))
        return found
    finally:
        pool.shutdown(cancel_futures=True)  # what is not begun is not worth waiting for after an error or Ctrl-C
