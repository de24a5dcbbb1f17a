"""Tuned parameters on disk: one small JSON file per task, in the user's cache folder.

A cache may be missing, read-only, shared by several processes or damaged. None of that is ever an error: what cannot be
read is tuned again, and what cannot be written is not kept.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ridgeformer.core.distributions import parse_noise
from ridgeformer.core.storage import cache_root, write_whole
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError

_LONGEST = 10_000  # bytes; a file holds about 150

Values = tuple[float, float, float]


def key(task: Task, version: int) -> str | None:
    """All that decides the tuned parameters, as text; None if the noise prior is the user's own."""
    try:
        same = parse_noise(task.prior.spec) == task.prior
    except InputError:
        same = False
    return f"tuning {version}: dim {task.dim}, context {task.examples}, noise {task.prior.spec}" if same else None


def read(name: str) -> Values | None:
    """The values kept under ``name``, or None."""
    try:
        with _path(name).open("rb") as file:
            kept = json.loads(file.read(_LONGEST))
        v, c, cap = (float("inf") if value is None else float(value) for value in kept["values"])
        sound = kept["key"] == name and 0 <= v < float("inf") and 0 <= c < float("inf") and cap >= 0
        return (v, c, cap) if sound else None
    except (OSError, RuntimeError, ValueError, TypeError, KeyError):  # RuntimeError: no home, or nested too deeply
        return None


def write(name: str, values: Values) -> None:
    """Keep ``values`` under ``name``, if the folder allows it."""
    content = {"key": name, "values": [None if value == float("inf") else value for value in values]}
    try:
        path = _path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(content).encode())
    except (OSError, RuntimeError, ValueError, InputError):
        return


def _path(name: str) -> Path:
    """Named after a digest, since specs can be of any length; the key inside the file says whose it is."""
    return cache_root() / "tuned" / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.json"
