"""Models in the page: plain JSON, with the parameters as stored, little-endian, in base64."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.zoo import load, zoo_names

_FURTHER_SEED = "-seed-"  # in the names of all but the first model of a cell
_MIXTURE = "-robust"  # in the names of models of several tasks, which the page's explorer does not have


def page_model_names() -> tuple[str, ...]:
    """The models of the zoo that the page carries: the first seed of every cell."""
    return tuple(name for name in zoo_names() if _FURTHER_SEED not in name and not name.endswith(_MIXTURE))


def encode_models(names: Iterable[str]) -> list[dict[str, Any]]:
    """Models by their names in the zoo, or files, in the order given; see `encode_model`."""
    return [encode_model(name, load(name)) for name in names]


def encode_model(name: str, model: LinearTransformer) -> dict[str, Any]:
    """One model as JSON: what it is, what it was trained on, how good it was found to be, and its parameters.

    ``info`` of a file may hold anything, so what is not of the expected form is left out: ``noise`` is then None, and
    so are ``examples``, ``seed`` and ``loss``.
    """
    task, training, evaluation = (_mapping(model.info.get(key)) for key in ("task", "training", "evaluation"))
    noise = task.get("noise")
    return {
        "name": name,
        "kind": model.kind,
        "layers": model.layers,
        "heads": model.heads,
        "registers": model.registers,
        "dim": model.dim,
        "noise": noise if isinstance(noise, str) else None,
        "examples": _whole(task.get("examples", task.get("context"))),  # files of earlier versions say context
        "seed": _whole(training.get("seed")),
        "loss": _finite(evaluation.get("adjusted_loss")),
        "dtype": model.dtype.name,
        "weights": {key: _base64(array) for key, array in model.parameters.items()},
    }


def _base64(array: Array) -> str:
    little_endian = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return base64.b64encode(little_endian.tobytes()).decode("ascii")


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _finite(value: Any) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if number and math.isfinite(value) else None
