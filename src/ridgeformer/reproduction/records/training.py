"""Loss against training time, from run directories."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ridgeformer.core.validation import InputError
from ridgeformer.reproduction.cells import LAYERS, SEEDED_PRIOR, Cell
from ridgeformer.reproduction.records.fields import Fields, plain
from ridgeformer.core.model import KINDS
from ridgeformer.training.run_directory import RunDirectory

_MOST_POINTS = 150  # of a leg: more than a printed line can show


@dataclass(frozen=True)
class TrainingLeg:
    """One method with its schedule: Adam from one start, or L-BFGS on a pool."""

    name: str
    seconds: tuple[float, ...]
    """Of training since the run began."""
    loss: tuple[float, ...]
    """Smoothed adjusted loss on the contexts that the leg trains on."""


@dataclass(frozen=True)
class TrainingCurve:
    """One run."""

    name: str
    method: str
    layers: int
    noise: str
    start: str | None
    """The model that the run starts from, whose own training time is not counted here."""
    legs: tuple[TrainingLeg, ...]
    final: float
    """Adjusted loss on fresh sequences."""
    final_seconds: float


@dataclass(frozen=True)
class TrainingRecord:
    """Some runs."""

    curves: tuple[TrainingCurve, ...]

    def find(self, method: str, layers: int, noise: str) -> TrainingCurve | None:
        """The run of one model, if it is there."""
        wanted = (method, layers, noise)
        return next((curve for curve in self.curves if (curve.method, curve.layers, curve.noise) == wanted), None)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"record": "training", **plain(asdict(self))}

    @classmethod
    def from_json(cls, values: Any) -> TrainingRecord:
        """The reverse of `as_json`."""
        fields = Fields(values, "training")
        return cls(tuple(_read_curve(curve) for curve in fields.objects("curves")))


def _read_curve(fields: Fields) -> TrainingCurve:
    return TrainingCurve(
        fields.text("name"),
        fields.choice("method", KINDS),
        fields.layers(),
        fields.noise(),
        None if fields.raw("start") is None else fields.text("start"),
        tuple(_read_leg(leg) for leg in fields.objects("legs")),
        fields.number("final"),
        fields.number("final_seconds"),
    )


def _read_leg(fields: Fields) -> TrainingLeg:
    seconds = fields.numbers("seconds")
    return TrainingLeg(fields.text("name"), seconds, fields.numbers("loss", len(seconds)))


def measure_training(cells: Sequence[Cell], runs: Path) -> TrainingRecord:
    """Finished runs of `SEEDED_PRIOR` and of the deepest models of the others; those without times are left out."""
    first_seed = min((cell.seed for cell in cells), default=0)
    wanted = [
        cell for cell in cells if cell.seed == first_seed and (cell.noise == SEEDED_PRIOR or cell.layers == LAYERS[-1])
    ]
    found = (_curve(cell, RunDirectory(runs / cell.name)) for cell in wanted)
    return TrainingRecord(tuple(curve for curve in found if curve is not None))


def _curve(cell: Cell, directory: RunDirectory) -> TrainingCurve | None:
    result, seconds = directory.finished_result(), directory.read_seconds()
    if result is None or not seconds:
        return None
    try:
        rows = [row for row in directory.read_history() if row["total"] in seconds]
        legs = _legs(rows, seconds)
        final = result["evaluation"]["adjusted_loss"]
    except (OSError, ValueError, KeyError, TypeError) as broken:
        raise InputError(f"The run in {directory.path} has a damaged history or result.") from broken
    start = directory.config().start
    return TrainingCurve(
        cell.name,
        cell.model,
        cell.layers,
        cell.noise,
        start,
        legs,
        math.inf if final is None else float(final),
        max(seconds.values()),
    )


def _legs(rows: Sequence[Mapping[str, Any]], seconds: Mapping[int, float]) -> tuple[TrainingLeg, ...]:
    by_leg: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        loss = row["smoothed"]
        by_leg.setdefault(row["leg"], []).append((seconds[row["total"]], math.inf if loss is None else float(loss)))
    legs = []
    for name, points in by_leg.items():
        places = np.unique(np.linspace(0, len(points) - 1, min(len(points), _MOST_POINTS)).round().astype(int))
        times, losses = zip(*(points[place] for place in places), strict=True)
        legs.append(TrainingLeg(name, times, losses))
    return tuple(legs)
