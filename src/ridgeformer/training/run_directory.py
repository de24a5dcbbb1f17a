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
from pathlib import Path
from typing import Any

from ridgeformer.core.distributions import NoisePrior
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.storage import write_whole
from ridgeformer.core.validation import InputError
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.state import TrainState, load_checkpoint, save_checkpoint

_KEPT_CHECKPOINTS = 3  # one may be damaged by a failing disk; the one before it then serves


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
        write_whole(self.path / "config.json", _json(config.as_json()))

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
            handle = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as taken:
                raise InputError(f"Another process is working on the run in {self.path}.") from taken
            yield
        finally:
            os.close(handle)

    def save(self, state: TrainState) -> Path:
        """Write a checkpoint and forget all but the last few."""
        with _writing(self.history):
            length = self.history.stat().st_size
            with self.history.open("rb") as file:  # what the checkpoint counts on must be on disk before it
                os.fsync(file.fileno())
        path = self.checkpoints / f"step-{state.total:09d}.safetensors"
        save_checkpoint(state, path, length)
        for old in self._saved()[:-_KEPT_CHECKPOINTS]:
            old.unlink(missing_ok=True)
        return path

    def _saved(self) -> list[Path]:
        return sorted(self.checkpoints.glob("step-*.safetensors"))

    def latest(self) -> tuple[TrainState | None, list[str]]:
        """(newest readable checkpoint, what was wrong with newer ones); also cuts the history back to it."""
        complaints = []
        for path in reversed(self._saved()):
            try:
                state, length = load_checkpoint(path)
            except InputError as damaged:
                complaints.append(f"{damaged} Going back to the one before it.")
                continue
            self._cut_history(length)
            return state, complaints
        self._cut_history(0)
        return None, complaints

    def _cut_history(self, length: int) -> None:
        with _writing(self.history), self.history.open("ab") as file:
            file.truncate(length)

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
        write_whole(self.result, _json(result))


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as failed:
        raise InputError(f"Cannot write {path}: {failed.strerror or failed}.") from failed
