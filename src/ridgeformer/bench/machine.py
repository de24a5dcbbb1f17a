"""What the machine is: part of every result, since none of them means anything without it."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path
from time import perf_counter

from ridgeformer.kernels.threads import default_threads

_PACKAGES = ("ridgeformer", "numpy", "numba", "jax", "torch")


def describe_machine() -> dict[str, str | int | float | list[float] | None]:
    """CPU, cores, memory, versions and load; None for what cannot be found out."""
    return {
        "cpu": _cpu_model(),
        "cores": default_threads(),
        "memory_gb": _memory_gb(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: _version(name) for name in _PACKAGES},
        "load_average": load_average(),
    }


def load_average() -> list[float] | None:
    """Processes that want to run, averaged over 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()] if hasattr(os, "getloadavg") else None


class OthersWatch:
    """Finds out how much of the machine other processes used while a run lasted."""

    def __init__(self) -> None:
        self._begin = perf_counter()
        self._others = _others_seconds()

    def share(self) -> float | None:
        """Seconds of others' work over seconds that all cores had, since this watch was made; None if unknown."""
        now = _others_seconds()
        if now is None or self._others is None:
            return None
        available = (perf_counter() - self._begin) * (os.cpu_count() or 1)
        return round(max(0.0, now - self._others) / available, 3)


def _others_seconds() -> float | None:
    """Processor seconds used by everybody but this process and its finished children, where Linux counts them."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, _idle, _waiting, hard, soft, stolen = map(int, fields)
    ticks = user + nice + system + hard + soft + stolen
    return ticks / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory_gb() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1)
    except (AttributeError, ValueError, OSError):  # not a POSIX system, or it does not say
        return None


def _version(package: str) -> str | None:
    """From the installed metadata, so that nothing is imported; ridgeformer knows its own even if not installed."""
    if package == "ridgeformer":
        from ridgeformer._version import __version__

        return __version__
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
