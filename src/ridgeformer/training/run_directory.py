"""A run on disk: config.json, history.jsonl, checkpoints/, and when it is finished result.json and model.safetensors.

Every file except the history is written whole or not at all. The history is only ever appended to, and a checkpoint
says how long it was, so going on from a checkpoint cuts off what came after it: a run that was killed at any moment and
resumed leaves the same files as one that was not, except timing.jsonl, which says how long things took.

Nothing is removed that was not written here: a run is made in a new or empty folder, or in place of one of ours, which
a config.json that reads as one shows, and then only files with the names below are removed. Nothing damaged is trusted:
a checkpoint holds the SHA-256 of its whole file, that of the history up to it, and the config of its run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

from ridgeformer.core.distributions import NoisePrior
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw
from ridgeformer.core.storage import MissingFileError, read_whole, strict_json, write_whole, writing
from ridgeformer.core.validation import InputError, whole_number
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.optimisers import Adam, QuasiNewton
from ridgeformer.training.stages import Run, TrainState

_KEPT_CHECKPOINTS = 3  # one may be damaged by a failing disk; the one before it then serves
_KEY = "ridgeformer-checkpoint"
_VECTORS = ("vector", "safe_vector", "best_vector")
_NESTED = ("adam", "memory", "curvature")
_PLAIN = tuple(field.name for field in fields(TrainState) if field.name not in (*_VECTORS, *_NESTED))
_CURVATURE = ("gradient", "scale", "steps", "changes")
_NO_DIGEST = "0" * 64  # stands in the place of a file's digest while that is computed
_LARGEST_FILE = 1 << 30  # bytes, as of a model file
_FILES = ("result.json", "model.safetensors", "start.safetensors", "history.jsonl", "timing.jsonl")
_CLAIM = "config.json.unfinished"
_CHECKPOINT = re.compile(r"step-[0-9]{9,}\.safetensors")
# What a killed `write_whole` leaves behind of a file of ours.
_NAMES = "|".join((*map(re.escape, (*_FILES, "config.json", _CLAIM)), _CHECKPOINT.pattern))
_PART = re.compile(rf"\.({_NAMES})\.[a-z0-9_]{{8}}\.part")
_IN_EVERY_CONFIG = {"layers", "noise", "dim", "seed", "recipe", "batch", "sequences"}  # of all versions


class Checkpoint(NamedTuple):
    """What a checkpoint file holds."""

    state: TrainState
    history_bytes: int
    """Length of the history at that moment."""
    history_sha256: str | None
    """Of the history up to there; None in files of older versions, which had no digests."""
    config: dict[str, Any] | None
    """Of the run, as JSON; likewise."""


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
        return os.path.exists(self.path / "config.json")

    def check_free(self, overwrite: bool) -> None:
        """Refuse a folder with a run in it, unless that is to be replaced, and one with anything else in it."""
        if _reads_as_config(self.path / "config.json"):
            if not overwrite:
                raise InputError(
                    f"{self.path} already holds a run; go on with 'ridgeformer train --resume {self.path}' "
                    "or replace it with --overwrite."
                )
        elif self.exists() or not _reads_as_config(self.path / _CLAIM):
            with writing(self.path), contextlib.suppress(FileNotFoundError):
                if any(path.name != "lock" and not _is_nothing(path) for path in self.path.iterdir()):
                    raise InputError(
                        f"{self.path} is not empty, and what it holds is not a run that can be replaced; "
                        "choose a new or an empty folder."
                    )

    def create(self, config: TrainConfig, overwrite: bool, given: LinearTransformer | None = None) -> None:
        """Make the folder for a new run, ``given`` the model it starts from; `check_free` says what is refused.

        Killed at any moment, this leaves the old run, or none, or the new one:
        - the old one until its config.json is removed, which is the first to go;
        - none after that: without config.json there is nothing to go on with, whatever is left. The claim says that
          what is left was a run's, so that the next attempt may remove it. (The result goes before the model: who looks
          only at results finds none without its model.)
        - the new one as soon as its config.json is there, which is the last to come. By then nothing of the old run is
          left that could be taken for the new one's, and the new one has its own copy of the model it starts from.
        The claim is written first, so that a full disk shows while the old run is whole.
        """
        self.check_free(overwrite)
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self._remove_leftovers()
            _write_json(self.path / _CLAIM, config.as_json())
            for old in (*(self.path / name for name in ("config.json", *_FILES)), *self._saved()):
                old.unlink(missing_ok=True)
            self.checkpoints.mkdir(exist_ok=True)
            self.history.touch()
            if given is not None:
                given.save(self.given)
            _write_json(self.path / "config.json", config.as_json())
            (self.path / _CLAIM).unlink()

    def _remove_leftovers(self) -> None:
        """Remove what processes that were killed left of files they had not written to the end."""
        for path in (*self.path.glob(".*.part"), *self.checkpoints.glob(".*.part")):
            if _PART.fullmatch(path.name) and path.is_file():
                path.unlink()

    def config(self, prior: NoisePrior | None = None) -> TrainConfig:
        """The config of the run that is here; ``prior`` is its noise prior, if that is not one of the package's."""
        if not self.exists():
            raise InputError(f"{self.path} holds no run to go on with.")
        return TrainConfig.from_file(self.path / "config.json", prior)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes off this run; the lock goes with the process, however it ends."""
        import fcntl

        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            file = os.fdopen(os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, 0o666))
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as taken:
                raise InputError(f"Another process is working on the run in {self.path}.") from taken
            yield

    def save(self, state: TrainState, config: TrainConfig) -> None:
        """Write a checkpoint; forget all but the last few, and later ones, which could not be read or gone on from."""
        with writing(self.history), self.history.open("rb") as file:
            os.fsync(file.fileno())  # what the checkpoint counts on must be on disk before it
            history = file.read()
        checkpoint = Checkpoint(state, len(history), hashlib.sha256(history).hexdigest(), config.as_json())
        name = f"step-{state.total:09d}.safetensors"
        save_checkpoint(checkpoint, self.checkpoints / name)
        saved = self._saved()
        until_now = saved.index(self.checkpoints / name) + 1
        for other in (*saved[: max(until_now - _KEPT_CHECKPOINTS, 0)], *saved[until_now:]):
            with contextlib.suppress(OSError):  # tried again next time
                other.unlink()

    def _saved(self) -> list[Path]:
        """The checkpoints, oldest first."""
        paths = (path for path in self.checkpoints.glob("step-*") if _CHECKPOINT.fullmatch(path.name))
        return sorted(paths, key=lambda path: int(path.stem.removeprefix("step-")))

    def latest(self, run: Run) -> tuple[TrainState | None, list[str]]:
        """(newest checkpoint that can be gone on from, what was wrong with others); cuts the history back to it."""
        state, length, digest, complaints = None, 0, None, []
        saved = self._saved()
        for path in reversed(saved):
            try:
                state, length, digest, config = load_checkpoint(path, run)
            except InputError as damaged:
                back = "the one before it" if path != saved[0] else "the start of the run"
                complaints.append(f"{damaged} Going back to {back}.")
                continue
            if config is not None and TrainConfig.from_json(config, str(path), run.config.own_prior) != run.config:
                raise InputError(f"{path} is of a run with other settings than {self.path / 'config.json'} has.")
            break
        with writing(self.path):
            (self.path / _CLAIM).unlink(missing_ok=True)
            self._remove_leftovers()
            self.checkpoints.mkdir(exist_ok=True)
            complaints += self._cut_history(state.total if state else 0, length, digest)
        return state, complaints

    def _cut_history(self, total: int, length: int, digest: str | None) -> list[str]:
        """Let history and times end where a checkpoint was made; of damaged ones the rows that can be read are kept."""
        history, times = _contents(self.history), _contents(self.timing)
        expected = (history or b"")[:length]
        rows = [row for row in _rows(expected) if row["total"] <= total]
        readable = _as_lines(rows)
        for path, old, new in ((self.history, history, readable), (self.timing, times, _as_lines(_rows(times or b"")))):
            if old != new:
                write_whole(path, new)
            path.touch()
        if readable == expected and len(expected) == length and digest in (None, hashlib.sha256(readable).hexdigest()):
            return []
        return [f"{self.history} is damaged; of its rows up to step {total}, the {len(rows)} readable ones are kept."]

    def append(self, row: dict[str, Any], seconds: float) -> None:
        """Add one line to the history, and how much training it took to get there."""
        for path, values in ((self.history, row), (self.timing, {"total": row["total"], "seconds": round(seconds, 3)})):
            with writing(path), path.open("ab") as file:
                file.write((json.dumps(values) + "\n").encode())

    def read_history(self) -> list[dict[str, Any]]:
        """All rows so far; raises ValueError if any is damaged."""
        return [json.loads(line) for line in read_whole(self.history, _LARGEST_FILE).splitlines()]

    def read_seconds(self) -> dict[int, float]:
        """Seconds of training up to a step of the run, for the steps in the history; a damaged line is left out.

        A run that was killed and resumed did some steps twice: the last time is the one that led to its result.
        """
        seconds = {row["total"]: row.get("seconds") for row in _rows(_contents(self.timing) or b"")}
        return {total: value for total, value in seconds.items() if isinstance(value, float) and 0 <= value < math.inf}

    def finished_result(self) -> dict[str, Any] | None:
        """What result.json says of a run that was trained to its end; None for one that is not, or that diverged."""
        try:
            result = strict_json(read_whole(self.result, _LARGEST_FILE))
        except (InputError, ValueError, RecursionError):
            return None
        return result if isinstance(result, dict) and result.get("status") == "finished" else None

    def finish(self, model: LinearTransformer, result: dict[str, Any]) -> None:
        """Write the model and, last of all, the result: its presence says that the run is complete."""
        model.save(self.model)
        _write_json(self.result, result)


def save_checkpoint(checkpoint: Checkpoint, path: Path) -> None:
    """Write a checkpoint whole or not at all."""
    state, *rest = checkpoint
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
    # Python's JSON writes floats so that they read back exactly, and Infinity and NaN as such. The digest comes first,
    # so that its place is that of the first 64 zeros in the file.
    metadata = {"sha256": _NO_DIGEST, "state": numbers, **dict(zip(Checkpoint._fields[1:], rest, strict=True))}
    data = safetensors.numpy.save(contiguous, metadata={_KEY: json.dumps(metadata)})
    write_whole(path, data.replace(_NO_DIGEST.encode(), hashlib.sha256(data).hexdigest().encode(), 1))


def load_checkpoint(path: Path, run: Run) -> Checkpoint:
    """What `save_checkpoint` wrote; a damaged file is an `InputError`, and so is a state that ``run`` cannot be in.

    A state with other stages than the run's is returned as it is: its ``plan`` tells.
    """
    data = read_whole(path, _LARGEST_FILE)
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = json.loads(header["__metadata__"][_KEY])
        if metadata.keys() != {"state", "history_bytes"}:  # what older versions wrote, without a digest
            digest = metadata["sha256"]
            if hashlib.sha256(data.replace(digest.encode(), _NO_DIGEST.encode(), 1)).hexdigest() != digest:
                raise ValueError("the digest is that of another file")
        tensors, numbers = safetensors.numpy.load(data), metadata["state"]
        if "leg" in numbers:  # an older version's name of a stage; its plan will tell that it cannot go on
            numbers = {"kind": "", "stage": numbers["leg"], **numbers}
        if numbers["plan"] == run.plan:
            _check_fit(numbers, tensors, run)
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
        length = whole_number("history_bytes", metadata["history_bytes"], 0)
        return Checkpoint(state, length, metadata.get("history_sha256"), metadata.get("config"))
    except (safetensors.SafetensorError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as broken:
        raise InputError(f"{path} is damaged, or not a checkpoint of this run.") from broken


def _check_fit(numbers: dict[str, Any], tensors: dict[str, Array], run: Run) -> None:
    """ValueError unless these make a state that the run can be in."""
    types = {field.name: type(field.default) for field in fields(TrainState) if field.name in _PLAIN}
    typed: list[tuple[Any, type]] = [(numbers[name], type_) for name, type_ in types.items()]
    typed += zip(numbers["adam"], (int, float, float, float), strict=True)
    typed += zip(numbers.get("curvature", (0.0, 0)), (float, int), strict=True)
    if any((type_ is int and number < 0) or type(number) is not type_ for number, type_ in typed):
        raise ValueError("a field is not of its type, or a negative count")
    at_end = numbers["stage"] == len(run.stages)
    stage = run.stages[numbers["stage"] - at_end]
    if numbers["step"] >= (1 if at_end else stage.steps) or numbers["kind"] != (stage.kind or run.config.kind):
        raise ValueError("the run is never there")
    size, dim = run.template(numbers["kind"]).size, run.config.dim
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys((*_VECTORS, "adam_mean", "adam_square"), (size,))
    if "memory_gram" in tensors:
        count = len(tensors["memory_gram"])
        shapes |= {f"memory_{name}": (count, dim) for name in GramDraw._fields}
        shapes["memory_gram"] = (count, dim + 1, dim + 1)
    if "curvature" in numbers:
        shapes |= dict.fromkeys(("curvature_gradient", "curvature_scale"), (size,))
        shapes |= dict.fromkeys(("curvature_steps", "curvature_changes"), (len(tensors["curvature_steps"]), size))
    if shapes != {name: array.shape for name, array in tensors.items()}:
        raise ValueError("there are other tensors, or of another shape")
    for name, array in tensors.items():
        if array.dtype != (run.config.dtype if name.startswith("memory") else np.float64):
            raise ValueError("a tensor has another precision")
        if name in _VECTORS and not np.isfinite(array).all():
            raise ValueError("weights are not finite")


def _contents(path: Path) -> bytes | None:
    """What a file of rows holds: nothing if it is missing, None if it cannot be read."""
    try:
        return read_whole(path, _LARGEST_FILE)
    except MissingFileError:
        return b""
    except InputError:
        return None


def _rows(data: bytes) -> list[dict[str, Any]]:
    """The rows that can be read: objects with a step number."""
    rows = []
    for line in data.splitlines():
        with contextlib.suppress(ValueError, RecursionError):
            row = strict_json(line)
            if isinstance(row, dict) and type(row.get("total")) is int:
                rows.append(row)
    return rows


def _as_lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _is_nothing(path: Path) -> bool:
    """Whether a path is an empty folder, such as one that was made for a log, or left by a process that was killed."""
    return not any(path.iterdir()) if path.is_dir() else _PART.fullmatch(path.name) is not None


def _reads_as_config(path: Path) -> bool:
    """Whether a file is the config of a run, of this version or an earlier one."""
    try:
        values = strict_json(read_whole(path, _LARGEST_FILE))
        if not isinstance(values, dict) or not values.keys() >= _IN_EVERY_CONFIG:
            return False
        if values.pop("prior", None) is not None:  # of the user's own, whose spec need not be one of the package's
            del values["noise"]
        TrainConfig.from_json(values)
    except (InputError, ValueError, RecursionError):
        return False
    return True


def _write_json(path: Path, value: dict[str, Any]) -> None:
    write_whole(path, (json.dumps(value, indent=2) + "\n").encode())
