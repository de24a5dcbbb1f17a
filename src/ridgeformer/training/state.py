"""All that a run needs to go on exactly where it was, and its checkpoint file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw
from ridgeformer.core.storage import write_whole
from ridgeformer.core.validation import InputError
from ridgeformer.training.optimisers import Adam
from ridgeformer.training.quasi_newton import QuasiNewton

_KEY = "ridgeformer-checkpoint"
_VECTORS = ("vector", "safe_vector", "best_vector")
_CURVATURE = ("gradient", "scale", "steps", "changes")
_PLAIN = (
    *("kind", "plan", "stage", "step", "total", "skipped", "bad_in_a_row", "rewinds"),
    *("rate_factor", "smoothed", "lowest", "best_score"),
)


@dataclass(frozen=True)
class TrainState:
    """Where a run stands. Immutable: a step makes a new one."""

    vector: Array
    """The parameters, float64."""
    adam: Adam
    safe_vector: Array
    """Parameters of the last time all was well, to go back to when a run explodes."""
    best_vector: Array
    """Parameters of the best finished stage."""
    memory: GramDraw | None = None
    """Hard contexts, worst first."""
    curvature: QuasiNewton | None = None
    """What a second-order stage knows; None in others, and before its first iteration."""
    kind: str = ""
    """Kind of the model whose parameters these are."""
    plan: str = ""
    """Names the stages of the run: a state means nothing to a run with others."""
    stage: int = 0
    """Number of stages that are done."""
    step: int = 0
    """Steps done in this stage."""
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
    def start(cls, vector: Array, kind: str = "", plan: str = "") -> TrainState:
        """The state before the first step."""
        return cls(vector, Adam.start(len(vector)), vector, vector, kind=kind, plan=plan)


def save_checkpoint(state: TrainState, path: Path, history_bytes: int) -> None:
    """Write the state, and how long the history was at that moment, whole or not at all."""
    tensors = {name: getattr(state, name) for name in _VECTORS}
    tensors |= {"adam_mean": state.adam.mean, "adam_square": state.adam.square}
    numbers: dict[str, Any] = {name: getattr(state, name) for name in _PLAIN}
    numbers["adam"] = [state.adam.count, state.adam.mean_decay, state.adam.square_decay, state.adam.epsilon]
    if state.memory is not None:
        tensors |= {f"memory_{name}": array for name, array in state.memory._asdict().items()}
    if state.curvature is not None:
        tensors |= {f"curvature_{name}": getattr(state.curvature, name) for name in _CURVATURE}
        numbers["curvature"] = [state.curvature.value, state.curvature.stalled]
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    # Python's JSON writes floats so that they read back exactly, and Infinity and NaN as such.
    metadata = {_KEY: json.dumps({"state": numbers, "history_bytes": history_bytes})}
    write_whole(path, safetensors.numpy.save(contiguous, metadata=metadata))


def load_checkpoint(path: Path) -> tuple[TrainState, int]:
    """(state, length of the history in bytes); a damaged file is an `InputError`."""
    try:
        data = path.read_bytes()
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        numbers = json.loads(header["__metadata__"][_KEY])
        return _read(numbers["state"], safetensors.numpy.load(data)), int(numbers["history_bytes"])
    except OSError as failed:
        raise InputError(f"Cannot read {path}: {failed.strerror or failed}.") from failed
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as broken:
        raise InputError(f"{path} is not a readable checkpoint.") from broken


def _read(numbers: dict[str, Any], tensors: dict[str, Array]) -> TrainState:
    """The reverse of `save_checkpoint`."""
    if "leg" in numbers:  # an older version's name of a stage; its plan will tell that it cannot go on
        numbers = {"kind": "", "stage": numbers["leg"], **numbers}
    memory = curvature = None
    if "memory_gram" in tensors:
        memory = GramDraw(*(tensors[f"memory_{name}"] for name in GramDraw._fields))
    if "curvature" in numbers:
        value, stalled = numbers["curvature"]
        arrays = {name: tensors[f"curvature_{name}"] for name in _CURVATURE}
        curvature = QuasiNewton(value, **arrays, stalled=stalled)
    adam = Adam(tensors["adam_mean"], tensors["adam_square"], *numbers["adam"])
    plain: dict[str, Any] = {name: numbers[name] for name in _PLAIN} | {name: tensors[name] for name in _VECTORS}
    return TrainState(adam=adam, memory=memory, curvature=curvature, **plain)
