"""A run on disk: config.json, history.jsonl, checkpoints/, and when it is finished result.json and model.safetensors.

Every file except the history is written whole or not at all. The history is only ever appended to, and a checkpoint
says how long it was, so going on from a checkpoint cuts off what came after it: a run that was killed at any moment and
resumed leaves the same files as one that was not, except timing.jsonl, which says how long things took.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from ridgeformer.core.distributions import NoisePrior
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw
from ridgeformer.core.storage import write_whole
from ridgeformer.core.validation import InputError
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.optimisers import Adam, QuasiNewton
from ridgeformer.training.stages import TrainState

_KEPT_CHECKPOINTS = 3  # one may be damaged by a failing disk; the one before it then serves
_KEY = "ridgeformer-checkpoint"
_VECTORS = ("vector", "safe_vector", "best_vector")
_NESTED = ("adam", "memory", "curvature")
_PLAIN = tuple(field.name for field in fields(TrainState) if field.name not in (*_VECTORS, *_NESTED))
_CURVATURE = ("gradient", "scale", "steps", "changes")


class RunDirectory:
    """The files of one run."""

    def __init__(self, folder: str | Path) -> None:
        if not isinstance(folder, str | Path) or not str(folder) or "\0" in str(folder):
            raise InputError(f"A run is kept in a folder, whose path cannot be {folder!r}.")
        self.path = path = Path(folder)
        self.history = path / "history.jsonl"
        self.timing = path / "timing.jsonl"
        """Seconds of training up to each row of the history, by the run's step number."""
        self.checkpoints = path / "checkpoints"
        self.result = path / "result.json"
        self.model = path / "model.safetensors"
        self.given = path / "start.safetensors"
        """A copy of the model that the run starts from, if it starts from one."""

    def exists(self) -> bool:
        """Whether a run was ever started here."""
        return (self.path / "config.json").exists()

    def create(self, config: TrainConfig, overwrite: bool) -> None:
        """Make the folder for a new run; an earlier run is only replaced when told to."""
        if self.exists() and not overwrite:
            raise InputError(
                f"{self.path} already holds a run; go on with 'ridgeformer train --resume {self.path}' "
                "or replace it with --overwrite."
            )
        with _writing(self.path):
            self.checkpoints.mkdir(parents=True, exist_ok=True)
            files = (self.result, self.model, self.given, self.history, self.timing)
            for old in (*files, *self.checkpoints.glob("*.safetensors")):
                old.unlink(missing_ok=True)
            self.history.touch()
        _write_json(self.path / "config.json", config.as_json())

    def config(self, prior: NoisePrior | None = None) -> TrainConfig:
        """The config of the run that is here; ``prior`` is its noise prior, if that is not one of the package's."""
        if not self.exists():
            raise InputError(f"{self.path} holds no run to go on with.")
        return TrainConfig.from_file(self.path / "config.json", prior)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes off this run; the lock goes with the process, however it ends."""
        import fcntl

        with _writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            file = (self.path / "lock").open("a")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as taken:
                raise InputError(f"Another process is working on the run in {self.path}.") from taken
            yield

    def save(self, state: TrainState) -> None:
        """Write a checkpoint and forget all but the last few."""
        with _writing(self.history), self.history.open("rb") as file:
            os.fsync(file.fileno())  # what the checkpoint counts on must be on disk before it
            length = os.fstat(file.fileno()).st_size
        save_checkpoint(state, self.checkpoints / f"step-{state.total:09d}.safetensors", length)
        for old in self._saved()[:-_KEPT_CHECKPOINTS]:
            old.unlink(missing_ok=True)

    def _saved(self) -> list[Path]:
        return sorted(self.checkpoints.glob("step-*.safetensors"))

    def latest(self) -> tuple[TrainState | None, list[str]]:
        """(newest readable checkpoint, what was wrong with newer ones); also cuts the history back to it."""
        state, length, complaints = None, 0, []
        for path in reversed(self._saved()):
            try:
                state, length = load_checkpoint(path)
                break
            except InputError as damaged:
                complaints.append(f"{damaged} Going back to the one before it.")
        with _writing(self.history), self.history.open("ab") as file:
            file.truncate(length)
        return state, complaints

    def append(self, row: dict[str, Any], seconds: float) -> None:
        """Add one line to the history, and how much training it took to get there."""
        for path, values in ((self.history, row), (self.timing, {"total": row["total"], "seconds": round(seconds, 3)})):
            with _writing(path), path.open("ab") as file:
                file.write((json.dumps(values) + "\n").encode())

    def read_history(self) -> list[dict[str, Any]]:
        """All rows so far."""
        return [json.loads(line) for line in self.history.read_text(encoding="utf-8").splitlines()]

    def read_seconds(self) -> dict[int, float]:
        """Seconds of training up to a step of the run, for the steps in the history; a torn line is left out.

        A run that was killed and resumed did some steps twice: the last time is the one that led to its result.
        """
        if not self.timing.exists():
            return {}
        seconds = {}
        for line in self.timing.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):
                row = json.loads(line)
                seconds[int(row["total"])] = float(row["seconds"])
        return seconds

    def finished_result(self) -> dict[str, Any] | None:
        """What result.json says of a run that was trained to its end; None for one that is not, or that diverged."""
        try:
            result = json.loads(self.result.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return result if isinstance(result, dict) and result.get("status") == "finished" else None

    def finish(self, model: LinearTransformer, result: dict[str, Any]) -> None:
        """Write the model and, last of all, the result: its presence says that the run is complete."""
        model.save(self.model)
        _write_json(self.result, result)


def save_checkpoint(state: TrainState, path: Path, history_bytes: int) -> None:
    """Write the state, and how long the history was at that moment, whole or not at all."""
    adam, memory, curvature = state.adam, state.memory, state.curvature
    tensors: dict[str, Array] = {name: getattr(state, name) for name in _VECTORS}
    tensors |= {"adam_mean": adam.mean, "adam_square": adam.square}
    numbers: dict[str, Any] = {name: getattr(state, name) for name in _PLAIN}
    numbers["adam"] = [adam.count, adam.mean_decay, adam.square_decay, adam.epsilon]
    if memory is not None:
        tensors |= {f"memory_{name}": array for name, array in memory._asdict().items()}
    if curvature is not None:
        tensors |= {f"curvature_{name}": getattr(curvature, name) for name in _CURVATURE}
        numbers["curvature"] = [curvature.value, curvature.stalled]
    contiguous = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    # Python's JSON writes floats so that they read back exactly, and Infinity and NaN as such.
    metadata = {_KEY: json.dumps({"state": numbers, "history_bytes": history_bytes})}
    write_whole(path, safetensors.numpy.save(contiguous, metadata=metadata))


def load_checkpoint(path: Path) -> tuple[TrainState, int]:
    """(state, length of the history in bytes), as `save_checkpoint` wrote them; a damaged file is an `InputError`."""
    try:
        data = path.read_bytes()
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata, tensors = json.loads(header["__metadata__"][_KEY]), safetensors.numpy.load(data)
        numbers: dict[str, Any] = metadata["state"]
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
        same = {name: numbers[name] for name in _PLAIN} | {name: tensors[name] for name in _VECTORS}
        state = TrainState(**same, adam=adam, memory=memory, curvature=curvature)
        return state, int(metadata["history_bytes"])
    except OSError as failed:
        raise InputError(f"Cannot read {path}: {failed.strerror or failed}.") from failed
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as broken:
        raise InputError(f"{path} is not a readable checkpoint.") from broken


def _write_json(path: Path, value: dict[str, Any]) -> None:
    write_whole(path, (json.dumps(value, indent=2) + "\n").encode())


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as failed:
        raise InputError(f"Cannot write {path}: {failed.strerror or failed}.") from failed
