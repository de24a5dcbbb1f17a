"""The description of the machine, which is part of every result; how times are measured; and separate processes.

Competitors are measured in turns, and the best of several times counts, so that other work affects all of them alike.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from ridgeformer._version import __version__
from ridgeformer.core.validation import RidgeformerError
from ridgeformer.kernels.threads import default_threads

Call = Callable[[], object]
_Name = TypeVar("_Name", bound=Hashable)

SPINNING = 0.15
"""Seconds for which a competitor's threads may still wait in a busy loop after its last call, and occupy a core.

OpenBLAS's threads were measured to do so for 0.12 s, which doubled the time of the next competitor.
"""
_TIMEOUT = 300  # seconds; the longest process, a cold start, takes about 15


def describe_machine() -> dict[str, Any]:
    """CPU, cores, memory, versions and load; None for what cannot be known."""
    load = [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None
    return {
        "cpu": _cpu_model(),
        "cores": default_threads(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "ridgeformer": __version__,
        **{name: _version(name) for name in ("numpy", "numba", "jax", "torch")},
        "load_average": load,
    }


class OthersWatch:
    """Tells how much of the machine other processes used while a run lasted."""

    def __init__(self) -> None:
        self._begin = perf_counter()
        self._others = _others_seconds()

    def share(self) -> float | None:
        """The share of all cores' time that other processes used since this watch was made; None if unknown."""
        now = _others_seconds()
        if now is None or self._others is None:
            return None
        available = (perf_counter() - self._begin) * (os.cpu_count() or 1)
        return round(max(0.0, now - self._others) / available, 3)


def _others_seconds() -> float | None:
    """Processor seconds used by everybody except this process and its finished children, where Linux counts them."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _idle, _waiting, hard, soft, stolen = map(int, fields)
    ticks = user + nice + system + hard + soft + stolen
    return ticks / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])


def _cpu_model() -> str:
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    with contextlib.suppress(AttributeError, ValueError, OSError):  # not a POSIX system, or it does not say
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    return None


def _version(package: str) -> str | None:
    """From the installed metadata, so that nothing is imported."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(package)
    return None


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
            # At least one call, which refills the caches after the previous competitor. Long calls do not need more.
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


def run_python(code: str, environment: Mapping[str, str]) -> Any:
    """What ``code`` writes to stdout as JSON, run by this interpreter with this process's import path."""
    # NUMBA_CACHE_DIR would override RIDGEFORMER_CACHE_DIR, and a cold start would find its kernels there.
    inherited = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    paths = os.pathsep.join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**inherited, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=_TIMEOUT,
        check=False,
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RidgeformerError(f"A process started by the benchmark failed: {reason}")
    return json.loads(done.stdout)


def run_with_blas_threads(threads: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a new process with so many BLAS threads, which BLAS reads only at its start."""
    names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    code = f"import json, sys; from {function.__module__} import {function.__name__} as function\n"
    return run_python(f"{code}json.dump(function(*{arguments!r}), sys.stdout)", dict.fromkeys(names, str(threads)))
