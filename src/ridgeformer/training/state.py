"""All that a run needs to go on exactly where it was, and its checkpoint file."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from ridgeformer.draws import GramDraw
from ridgeformer.errors import InputError
from ridgeformer.storage import write_whole
from ridgeformer.training.adam import Adam
from ridgeformer.training.quasi_newton import QuasiNewton
from ridgeformer.types import Array

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
    def start(cls, vector: Array) -> TrainState:
        """The state before the first step."""
        return cls(vector, Adam.start(len(vector)), vector, vector)


def save_checkpoint(state: TrainState, path: Path, history_bytes: int) -> None:
    """Write the state, and how long the history was at that moment, whole or not at all."""
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
    numbers: dict[str, Any] = {name: getattr(state, name) for name in _COUNTERS + _NUMBERS}
    numbers["adam"] = [state.adam.count, state.adam.mean_decay, state.adam.square_decay, state.adam.epsilon]
    if state.curvature is not None:
        numbers["curvature"] = [state.curvature.value, state.curvature.stalled]
    numbers["history_bytes"] = history_bytes
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    # Python's JSON writes floats so that they read back exactly, and Infinity and NaN as such.
    write_whole(path, safetensors.numpy.save(contiguous, metadata={_KEY: json.dumps(numbers)}))


def load_checkpoint(path: Path) -> tuple[TrainState, int]:
    """(state, length of the history in bytes); a damaged file is an `InputError`."""
    try:
        data = path.read_bytes()
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        numbers = json.loads(header["__metadata__"][_KEY])
        tensors = safetensors.numpy.load(data)
        count, mean_decay, square_decay, epsilon = numbers["adam"]
        adam = Adam(tensors["adam_mean"], tensors["adam_square"], count, mean_decay, square_decay, epsilon)
        memory = None
        if "memory_gram" in tensors:
            memory = GramDraw(*(tensors[f"memory_{name}"] for name in GramDraw._fields))
        curvature = None
        if "curvature" in numbers:
            value, stalled = numbers["curvature"]
            known = {name: tensors[f"curvature_{name}"] for name in _CURVATURE}
            curvature = QuasiNewton(value, **known, stalled=stalled)
        vectors = (tensors["vector"], adam, tensors["safe_vector"], tensors["best_vector"], memory, curvature)
        state = replace(TrainState(*vectors), **{name: numbers[name] for name in _COUNTERS + _NUMBERS})
        return state, int(numbers["history_bytes"])
    except OSError as failed:
        raise InputError(f"Cannot read {path}: {failed.strerror or failed}.") from failed
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as broken:
        raise InputError(f"{path} is not a readable checkpoint.") from broken
