"""All that a run needs to go on exactly where it was, and its checkpoint file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw
from ridgeformer.core.storage import write_whole
from ridgeformer.core.validation import InputError
from ridgeformer.training.adam import Adam
from ridgeformer.training.quasi_newton import QuasiNewton

_KEY = "ridgeformer-checkpoint"
_COUNTERS = ("leg", "step", "total", "skipped", "bad_in_a_row", "rewinds")
_CURVATURE = ("gradient", "scale", "steps", "changes")
_NUMBERS = ("rate_factor", "smoothed", "lowest", "best_score")


@dataclass(frozen=True)
class TrainState:
    """Where a run stands. Immutable: a step makes a new one."""

    vector: Array
    """The parameters, float64."""
    adam: Adam
    safe_vector: Array
    """Parameters of the last time all was well, to go back to when a run explodes."""
    best_vector: Array
    """Parameters of the best finished leg."""
    memory: GramDraw | None = field(default=None)
    """Hard contexts, worst first."""
    curvature: QuasiNewton | None = None
    """What a second-order leg knows; None in others, and before its first iteration."""
    inner: TrainState | None = None
    """The state of the smaller model that is trained first, while it is."""
    plan: str = ""
    """Names the legs of the run: a state means nothing to a run with others."""
    leg: int = 0
    step: int = 0
    """Steps done in this leg."""
    total: int = 0
    """Steps done in the run: it names each step's contexts."""
    skipped: int = 0
    """Steps whose gradient was not used."""
    bad_in_a_row: int = 0
    rewinds: int = 0
    """Times the run went back to ``safe_vector`` and halved its step size."""
    rate_factor: float = 1.0
    smoothed: float = float("nan")
    """Running mean of the saturated loss."""
    lowest: float = float("inf")
    """Lowest value of ``smoothed`` since the weights were last fresh."""
    best_score: float = float("inf")

    @classmethod
    def start(cls, vector: Array, plan: str = "") -> TrainState:
        """The state before the first step."""
        return cls(vector, Adam.start(len(vector)), vector, vector, plan=plan)


def save_checkpoint(state: TrainState, path: Path, history_bytes: int) -> None:
    """Write the state, and how long the history was at that moment, whole or not at all."""
    numbers = {"state": _numbers(state), "history_bytes": history_bytes}
    contiguous = {name: np.ascontiguousarray(array) for name, array in _tensors(state, "").items()}
    # Python's JSON writes floats so that they read back exactly, and Infinity and NaN as such.
    write_whole(path, safetensors.numpy.save(contiguous, metadata={_KEY: json.dumps(numbers)}))


def _tensors(state: TrainState, prefix: str) -> dict[str, Array]:
    tensors = {
        "vector": state.vector,
        "safe_vector": state.safe_vector,
        "best_vector": state.best_vector,
        "adam_mean": state.adam.mean,
        "adam_square": state.adam.square,
    }
    if state.memory is not None:
        tensors |= {f"memory_{name}": array for name, array in state.memory._asdict().items()}
    if state.curvature is not None:
        tensors |= {f"curvature_{name}": getattr(state.curvature, name) for name in _CURVATURE}
    named = {prefix + name: array for name, array in tensors.items()}
    return named if state.inner is None else named | _tensors(state.inner, f"{prefix}inner_")


def _numbers(state: TrainState) -> dict[str, Any]:
    numbers: dict[str, Any] = {name: getattr(state, name) for name in _COUNTERS + _NUMBERS + ("plan",)}
    numbers["adam"] = [state.adam.count, state.adam.mean_decay, state.adam.square_decay, state.adam.epsilon]
    if state.curvature is not None:
        numbers["curvature"] = [state.curvature.value, state.curvature.stalled]
    if state.inner is not None:
        numbers["inner"] = _numbers(state.inner)
    return numbers


def load_checkpoint(path: Path) -> tuple[TrainState, int]:
    """(state, length of the history in bytes); a damaged file is an `InputError`."""
    try:
        data = path.read_bytes()
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        numbers = json.loads(header["__metadata__"][_KEY])
        return _read(numbers["state"], safetensors.numpy.load(data), ""), int(numbers["history_bytes"])
    except OSError as failed:
        raise InputError(f"Cannot read {path}: {failed.strerror or failed}.") from failed
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as broken:
        raise InputError(f"{path} is not a readable checkpoint.") from broken


def _read(numbers: dict[str, Any], tensors: dict[str, Array], prefix: str) -> TrainState:
    """The reverse of `_tensors` and `_numbers`."""
    count, mean_decay, square_decay, epsilon = numbers["adam"]
    mean, square = (tensors[prefix + name] for name in ("adam_mean", "adam_square"))
    memory = curvature = None
    if f"{prefix}memory_gram" in tensors:
        memory = GramDraw(*(tensors[f"{prefix}memory_{name}"] for name in GramDraw._fields))
    if "curvature" in numbers:
        value, stalled = numbers["curvature"]
        known = {name: tensors[f"{prefix}curvature_{name}"] for name in _CURVATURE}
        curvature = QuasiNewton(value, **known, stalled=stalled)
    return TrainState(
        vector=tensors[f"{prefix}vector"],
        adam=Adam(mean, square, count, mean_decay, square_decay, epsilon),
        safe_vector=tensors[f"{prefix}safe_vector"],
        best_vector=tensors[f"{prefix}best_vector"],
        memory=memory,
        curvature=curvature,
        inner=_read(numbers["inner"], tensors, f"{prefix}inner_") if "inner" in numbers else None,
        plan=str(numbers["plan"]),
        **{name: numbers[name] for name in _COUNTERS + _NUMBERS},
    )
