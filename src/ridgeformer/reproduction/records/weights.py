"""Weights of FULL models as heat maps show them: figure 4."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ridgeformer.analysis.gauge import canonical_heads
from ridgeformer.core.validation import InputError
from ridgeformer.reproduction.cells import Cell, zoo_name
from ridgeformer.reproduction.records.fields import Fields, plain
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array

SHOWN = tuple(zoo_name("full", 4, noise) for noise in ("categorical:1+3", "categorical:1+3+5", "uniform:5"))
"""The paper's model of four layers, and the same for two other priors."""
_LARGEST = 1e30  # entry: no axis could hold more
_MOST_NUMBERS = 1_000_000  # of one model in a record: ours have about a thousand


@dataclass(frozen=True, eq=False)
class ModelWeights:
    """One model in the form of `ridgeformer.analysis.gauge`, which does not depend on how it is written down."""

    name: str
    P: Array
    """(layers, heads, p, p)."""
    Q: Array
    """(layers, heads, p, p)."""


@dataclass(frozen=True)
class WeightsRecord:
    """Some models."""

    models: tuple[ModelWeights, ...]

    def find(self, name: str) -> ModelWeights | None:
        """A model by its name in the zoo, if it is there."""
        return next((model for model in self.models if model.name == name), None)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        rows = [
            {"name": model.name, "P": plain(model.P.tolist()), "Q": plain(model.Q.tolist())} for model in self.models
        ]
        return {"record": "weights", "models": rows}

    @classmethod
    def from_json(cls, values: Any) -> WeightsRecord:
        """The reverse of `as_json`."""
        fields = Fields(values, "weights")
        return cls(tuple(_read_model(model) for model in fields.objects("models")))


def _read_model(fields: Fields) -> ModelWeights:
    P, Q = (_read_heads(fields.raw(name), f"{fields.place}.{name}") for name in "PQ")
    if P.shape != Q.shape:
        raise InputError(f"{fields.place}: P and Q must have one shape, not {P.shape} and {Q.shape}.")
    return ModelWeights(fields.text("name"), P, Q)


def _read_heads(value: Any, place: str) -> Array:
    wanted = f"{place} must be numbers of shape (layers, heads, p, p), none beyond {_LARGEST:g}"
    shape: list[int] = []
    first = value
    while isinstance(first, list) and first and len(shape) < 4:
        shape.append(len(first))
        first = first[0]
    if len(shape) != 4 or shape[2] != shape[3] or math.prod(shape) > _MOST_NUMBERS:
        raise InputError(f"{wanted}.")
    try:
        array = np.array(value)
    except (ValueError, OverflowError) as ragged:
        raise InputError(f"{wanted}.") from ragged
    if array.shape != tuple(shape) or array.dtype.kind not in "fi" or not (np.abs(array) < _LARGEST).all():
        raise InputError(f"{wanted}.")
    return array.astype(np.float64)


def measure_weights(models: Mapping[Cell, LinearTransformer]) -> WeightsRecord:
    """The models of `SHOWN` that are there."""
    by_name = {cell.name: model for cell, model in models.items()}
    found = [ModelWeights(name, *canonical_heads(by_name[name])) for name in SHOWN if name in by_name]
    return WeightsRecord(tuple(found))
