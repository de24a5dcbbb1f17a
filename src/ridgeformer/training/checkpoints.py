"""Checkpoints: the whole state of a run at one step, in one safetensors file that restores every bit.

Damaged files are not used: a file holds its own SHA-256, and its content must be a state that the run can be in.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw
from ridgeformer.core.storage import read_whole, write_whole
from ridgeformer.core.validation import InputError, whole_number
from ridgeformer.training.optimisers import Adam, Metric, QuasiNewton
from ridgeformer.training.stages import Run, TrainState

_MOST_STEPS = 1 << 53  # exact in every reader of JSON
LARGEST_FILE = 1 << 30
"""Largest size of any file of a run in bytes, the same as for a model file."""
_KEY = "ridgeformer-checkpoint"
_VECTORS = ("vector", "safe_vector", "best_vector")
_WEIGHTS = (*_VECTORS, "finalists")
_NESTED = ("adam", "memory", "curvature", "finalists")
_PLAIN = tuple(field.name for field in fields(TrainState) if field.name not in (*_VECTORS, *_NESTED))
_CURVATURE = ("gradient", "scale", "steps", "changes")
_NO_DIGEST = "0" * 64  # stands in the place of a file's digest while that is computed


class Checkpoint(NamedTuple):
    """What a checkpoint file holds."""

    state: TrainState
    history_bytes: int
    """Length of the history when the checkpoint was made."""
    history_sha256: str | None
    """Digest of that history; None in files of older versions, which had no digests."""
    config: dict[str, Any] | None
    """Config of the run, as JSON; None in files of older versions."""


def save_checkpoint(checkpoint: Checkpoint, path: Path) -> None:
    """Write a checkpoint whole or not at all."""
    state, *rest = checkpoint
    adam, memory, curvature = state.adam, state.memory, state.curvature
    tensors: dict[str, Array] = {name: getattr(state, name) for name in _VECTORS}
    tensors |= {"adam_mean": adam.mean, "adam_square": adam.square}
    numbers: dict[str, Any] = {name: getattr(state, name) for name in _PLAIN}
    numbers["adam"] = [adam.count, adam.mean_decay, adam.square_decay, adam.epsilon]
    if memory is not None:
        there = {name: array for name, array in memory._asdict().items() if array is not None}
        tensors |= {f"memory_{name}": array for name, array in there.items()}
    if isinstance(curvature, Metric):
        tensors["metric"] = curvature.matrix
    elif curvature is not None:
        tensors |= {f"curvature_{name}": getattr(curvature, name) for name in _CURVATURE}
        numbers["curvature"] = [curvature.value, curvature.stalled]
    if state.finalists:
        numbers["finalists"] = [score for score, _ in state.finalists]
        tensors["finalists"] = np.array([vector for _, vector in state.finalists])
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    # Python's JSON writes floats so that they read back exactly, and Infinity and NaN as such. The digest comes first,
    # so that its place is that of the first 64 zeros in the file.
    metadata = {"sha256": _NO_DIGEST, "state": numbers, **dict(zip(Checkpoint._fields[1:], rest, strict=True))}
    data = safetensors.numpy.save(contiguous, metadata={_KEY: json.dumps(metadata)})
    write_whole(path, data.replace(_NO_DIGEST.encode(), hashlib.sha256(data).hexdigest().encode(), 1))


def load_checkpoint(path: Path, run: Run) -> Checkpoint:
    """What `save_checkpoint` wrote; a damaged file is an `InputError`, and so is a state that ``run`` cannot be in.

    A state of a run with other stages is returned as it is: its ``plan`` shows that.
    """
    data = read_whole(path, LARGEST_FILE)
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = json.loads(header["__metadata__"][_KEY])
        if metadata.keys() != {"state", "history_bytes"}:  # what older versions wrote, without a digest
            digest = metadata["sha256"]
            if hashlib.sha256(data.replace(digest.encode(), _NO_DIGEST.encode(), 1)).hexdigest() != digest:
                raise ValueError("the digest is that of another file")
        tensors, numbers = safetensors.numpy.load(data), metadata["state"]
        if "leg" in numbers:  # an older name of a stage; the plan will show that such a run cannot be continued
            numbers = {"kind": "", "stage": numbers["leg"], **numbers}
        if numbers["plan"] == run.plan:
            _check_fit(numbers, tensors, run)
        memory = None
        curvature: Metric | QuasiNewton | None = Metric(tensors["metric"]) if "metric" in tensors else None
        if "memory_gram" in tensors:
            memory = GramDraw(*(tensors.get(f"memory_{name}") for name in GramDraw._fields))
        if "curvature" in numbers:
            value, stalled = numbers["curvature"]
            arrays = {name: tensors[f"curvature_{name}"] for name in _CURVATURE}
            curvature = QuasiNewton(value, **arrays, stalled=stalled)
        settings = dict(zip(("count", "mean_decay", "square_decay", "epsilon"), numbers["adam"], strict=True))
        adam = Adam(tensors["adam_mean"], tensors["adam_square"], **settings)
        finalists = tuple(zip(numbers.get("finalists", ()), tensors.get("finalists", ()), strict=True))
        same = {name: numbers[name] for name in _PLAIN} | {name: tensors[name] for name in _VECTORS}
        state = TrainState(**same, adam=adam, memory=memory, curvature=curvature, finalists=finalists)
        length = whole_number("history_bytes", metadata["history_bytes"], 0)
        return Checkpoint(state, length, metadata.get("history_sha256"), metadata.get("config"))
    except (safetensors.SafetensorError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as broken:
        raise InputError(f"{path} is damaged, or not a checkpoint of this run.") from broken


def _check_fit(numbers: dict[str, Any], tensors: dict[str, Array], run: Run) -> None:
    """ValueError unless these make a state that the run can be in."""
    _check_numbers(numbers, run)
    size, dim = run.template(numbers["kind"]).size, run.config.dim
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys((*_VECTORS, "adam_mean", "adam_square"), (size,))
    if "memory_gram" in tensors:
        count = len(tensors["memory_gram"])
        shapes |= {f"memory_{name}": (count, dim) for name in GramDraw._fields}
        shapes["memory_gram"] = (count, dim + 1, dim + 1)
        moment = tensors.get("memory_moment")  # of the queries, where they are not isotropic: one for all or for each
        if moment is None:
            del shapes["memory_moment"]
        else:
            shapes["memory_moment"] = (dim, dim) if moment.ndim == 2 else (count, dim, dim)
    if "metric" in tensors:
        shapes["metric"] = (size, size)
    if "finalists" in numbers:
        shapes["finalists"] = (len(numbers["finalists"]), size)
    if "curvature" in numbers:
        shapes |= dict.fromkeys(("curvature_gradient", "curvature_scale"), (size,))
        shapes |= dict.fromkeys(("curvature_steps", "curvature_changes"), (len(tensors["curvature_steps"]), size))
    if shapes != {name: array.shape for name, array in tensors.items()}:
        raise ValueError("there are other tensors, or of another shape")
    for name, array in tensors.items():
        if array.dtype != (run.config.dtype if name.startswith("memory") else np.float64):
            raise ValueError("a tensor has another precision")
        # Weights must fit the precision of the model; what else is not finite makes steps that the guard skips.
        largest = np.finfo(run.config.dtype if name in _WEIGHTS else np.float64).max
        if name in (*_WEIGHTS, "adam_mean", "adam_square") and not (np.abs(array) <= largest).all():
            raise ValueError("weights or moments are not finite")
    if (tensors["adam_square"] < 0).any():
        raise ValueError("squares are negative")


def _check_numbers(numbers: dict[str, Any], run: Run) -> None:
    """The same check for everything that is not a tensor."""
    types = {field.name: type(field.default) for field in fields(TrainState) if field.name in _PLAIN}
    typed: list[tuple[Any, type]] = [(numbers[name], type_) for name, type_ in types.items()]
    typed += zip(numbers["adam"], (int, float, float, float), strict=True)
    typed += zip(numbers.get("curvature", (0.0, 0)), (float, int), strict=True)
    typed += [(score, float) for score in numbers.get("finalists", ())]
    if any((type_ is int and not 0 <= number < _MOST_STEPS) or type(number) is not type_ for number, type_ in typed):
        raise ValueError("a field is not of its type, or no count")
    _, mean_decay, square_decay, epsilon = numbers["adam"]
    if not (0 <= mean_decay < 1 and 0 <= square_decay < 1 and 0 < epsilon < 1 and 0 < numbers["rate_factor"] <= 1):
        raise ValueError("no optimiser has such settings")
    at_end = numbers["stage"] == len(run.stages)
    stage = run.stages[numbers["stage"] - at_end]
    if numbers["step"] >= (1 if at_end else stage.steps) or numbers["kind"] != (stage.kind or run.config.kind):
        raise ValueError("the run is never there")
