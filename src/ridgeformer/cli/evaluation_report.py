"""All that ``ridgeformer evaluate`` found out, as JSON and as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Protocol

from ridgeformer._version import __version__
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.task import Task
from ridgeformer.evaluation.losses import Predictor
from ridgeformer.evaluation.profiles import Profile
from ridgeformer.evaluation.result import Comparison, Evaluation
from ridgeformer.evaluation.shift_table import ShiftResult, ShiftTable


class Described(Predictor, Protocol):
    """A baseline: a predictor that can say what it is."""

    def describe(self) -> str:
        """Name and parameters."""
        ...


@dataclass(frozen=True)
class EvaluationReport:
    """The parts that were asked for."""

    task: Task
    seed: int
    models: Mapping[str, LinearTransformer]
    baselines: Mapping[str, Described]
    comparison: Comparison
    profile: Profile | None = None
    layers: Mapping[str, tuple[Evaluation, ...]] | None = None
    """For each model, the read-out after 1, 2, … layers."""
    shifts: ShiftTable | None = None

    @property
    def sequences(self) -> int:
        """Of the comparison."""
        return next(iter(self.comparison.evaluations.values())).sequences

    def descriptions(self) -> dict[str, str]:
        """The baselines with their parameters. The Oracle does not know that it is told σ here."""
        told = {"Oracle": "Oracle, v = σ² of every sequence"}
        return {name: told.get(name) or baseline.describe() for name, baseline in self.baselines.items()}

    def as_json(self) -> dict[str, Any]:
        """Plain JSON; a number that is not finite is null."""
        task = {"dim": self.task.dim, "context": self.task.examples, "noise": self.task.prior.spec}
        found: dict[str, Any] = {
            "version": __version__,
            "task": task,
            "seed": self.seed,
            "sequences": self.sequences,
            "models": {name: _model(model) for name, model in self.models.items()},
            "baselines": self.descriptions(),
            "evaluations": {name: _row(found) for name, found in self.comparison.evaluations.items()},
            "differences": [_row(found) for found in self.comparison.differences],
        }
        if self.profile is not None:
            rows = {name: [_row(found) for found in seen] for name, seen in self.profile.evaluations.items()}
            found["profile"] = {"levels": list(self.profile.levels), "evaluations": rows}
        if self.layers is not None:
            found["layerwise"] = {name: [_row(found) for found in seen] for name, seen in self.layers.items()}
        if self.shifts is not None:
            results = self.shifts.results
            found["shift"] = {
                "references": _finite(self.shifts.references),
                "results": {
                    spec: {name: _row(cell) for name, cell in cells.items()} for spec, cells in results.items()
                },
            }
        return found

    def as_csv(self) -> str:
        """One line for every number with an error bar: (part, predictor, at) and what was measured there."""
        text = io.StringIO()
        measured = dict.fromkeys(field.name for kind in (Evaluation, ShiftResult) for field in fields(kind))
        writer = csv.DictWriter(text, ["part", "predictor", "at", *measured], lineterminator="\n")
        writer.writeheader()
        for part, predictor, at, found in self._cells():
            writer.writerow({"part": part, "predictor": predictor, "at": at, **asdict(found)})
        return text.getvalue()

    def _cells(self) -> Iterator[tuple[str, str, str, Evaluation | ShiftResult]]:
        """(part, predictor, noise level or layer or shift, result)."""
        for name, found in self.comparison.evaluations.items():
            yield "evaluation", name, self.task.prior.spec, found
        if self.profile is not None:
            for name, row in self.profile.evaluations.items():
                for level, found in zip(self.profile.levels, row, strict=True):
                    yield "profile", name, f"{level:g}", found
        for name, row in (self.layers or {}).items():
            for layer, found in enumerate(row, 1):
                yield "layerwise", name, str(layer), found
        if self.shifts is not None:
            for spec, cells in self.shifts.results.items():
                for name, cell in cells.items():
                    yield "shift", name, spec, cell


def _model(model: LinearTransformer) -> dict[str, Any]:
    names = ("kind", "layers", "heads", "dim")
    return {**{name: getattr(model, name) for name in names}, "precision": model.dtype.name}


def _row(found: Any) -> dict[str, Any]:
    """A result as JSON, with the properties that follow from its fields."""
    derived = {name: getattr(found, name) for name in ("interval", "tail_dominated") if hasattr(found, name)}
    return _finite({**asdict(found), **derived})


def _finite(value: Any) -> Any:
    """The same with null for every number that is not finite."""
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
