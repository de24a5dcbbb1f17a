"""How times are taken: in turns, best of several, so that other work on the machine hits everybody alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from time import perf_counter
from typing import TypeVar

import numpy as np

Call = Callable[[], object]
_Name = TypeVar("_Name", bound=Hashable)

SPINNING = 0.15
"""Seconds for which a competitor's threads may still turn in circles after its last call, and keep a core from others.

OpenBLAS's were measured to do so for 0.12 s, and to double the time of whoever came next.
"""


def best_times(calls: Mapping[_Name, Call], repeats: int, window: float, settle: float = 0.0) -> dict[_Name, float]:
    """Seconds per call of each competitor: the best of ``repeats`` samples, taken in turns A, B, …, A, B, ….

    A sample is the mean over as many calls as fill ``window`` seconds, the same time for everybody: a fast competitor
    must not get more chances at a lucky moment than a slow one. The first call of all compiles and is not counted.
    ``settle``: seconds of uncounted calls before each sample; `SPINNING` where competitors have threads of their own.
    """
    for call in calls.values():
        call()
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            # One call at least refills the caches that the competitor before took. A long one does not notice those.
            if settle > 0 or not window < best[name] < float("inf"):
                _mean_over(settle, call)
            best[name] = min(best[name], _mean_over(window, call))
    return best


def _mean_over(seconds: float, call: Call) -> float:
    """Mean seconds per call, over as many calls as it takes to fill ``seconds``, at least one."""
    count, begin = 0, perf_counter()
    while True:
        call()
        count += 1
        elapsed = perf_counter() - begin
        if elapsed >= seconds:
            return elapsed / count


def growth_exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The b of time ∝ size^b: slope of log time over log size, fitted to the upper half of the sizes.

    The lower half is left out because fixed costs dominate there.
    """
    upper = max(2, (len(sizes) + 1) // 2)
    slope, _ = np.polyfit(np.log(sizes[-upper:]), np.log(seconds[-upper:]), 1)
    return float(slope)
