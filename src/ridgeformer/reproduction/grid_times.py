"""How long the grid took: a line for every finished cell in grid.jsonl, beside the run directories."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ridgeformer.core.validation import InputError
from ridgeformer.reproduction.cells import Cell

_FILE = "grid.jsonl"


@dataclass(frozen=True)
class GridTimes:
    """Times of a set of cells."""

    cells: int
    wall_seconds: float
    """In which at least one of them was trained or measured."""
    core_seconds: float
    """In which the workers had a core: less than they ran if other programs wanted it too."""
    worker_seconds: float
    """That the workers ran, each counted for itself."""
    by_kind: dict[str, float]
    """Core seconds of each kind of model."""
    slowest: tuple[str, float]
    """The cell that took longest, and its core seconds."""

    @property
    def idle_seconds(self) -> float:
        """What the wall time would have been if the workers had had all of their cores."""
        return self.wall_seconds * self.core_seconds / self.worker_seconds


def note_times(folder: Path, cell: Cell, started: float, finished: float, busy: float) -> None:
    """Add a cell; times are seconds since 1970, but for ``busy``, those for which it had a core."""
    times = {"started": started, "finished": finished, "busy": busy}
    row = {"cell": cell.name, **{name: round(seconds, 2) for name, seconds in times.items()}}
    try:
        with (folder / _FILE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    except OSError as failed:
        raise InputError(f"Cannot write {folder / _FILE}: {failed.strerror or failed}.") from failed


def read_times(folder: Path, cells: Iterable[Cell]) -> GridTimes | None:
    """The times of those of ``cells`` that are on record, each as of its last training; None if there are none."""
    kinds = {cell.name: cell.model for cell in cells}
    spans: dict[str, tuple[float, float]] = {}
    busy: dict[str, float] = {}
    path = folder / _FILE
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError, KeyError, TypeError):  # a line that a crash tore
            row = json.loads(line)
            if row["cell"] in kinds:
                span, core = (float(row["started"]), float(row["finished"])), float(row["busy"])
                spans[row["cell"]], busy[row["cell"]] = span, core
    if not spans:
        return None
    by_kind = dict.fromkeys(dict.fromkeys(kinds.values()), 0.0)
    for name, seconds in busy.items():
        by_kind[kinds[name]] += seconds
    slowest = max(busy, key=lambda name: busy[name])
    worker_seconds = sum(finished - started for started, finished in spans.values())
    return GridTimes(
        len(spans), _union(spans.values()), sum(busy.values()), worker_seconds, by_kind, (slowest, busy[slowest])
    )


def _union(spans: Iterable[tuple[float, float]]) -> float:
    """Length of the union of intervals: pauses between two invocations do not count."""
    total, reached = 0.0, float("-inf")
    for started, finished in sorted(spans):
        total += max(0.0, finished - max(started, reached))
        reached = max(reached, finished)
    return total
