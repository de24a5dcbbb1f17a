"""A run on disk: config.json, history.jsonl, checkpoints/, and when it is finished result.json and model.safetensors.

Every file except the history is written whole or not at all. The history only grows, and a checkpoint says how long it
was. When a run continues from a checkpoint, what came after it is cut off. So a run that was killed at any moment and
resumed leaves the same files as one that was not, except timing.jsonl, which says how long things took.

Only files of a run are ever removed: a run is made in a new or empty folder, or in place of another run, which must
have a readable config.json; then only files with the names below are removed. Damaged files are not used: config.json
and result.json hold their own SHA-256, and config.json that of the weights the run starts from; a checkpoint holds
that of its whole file, that of the history up to it, and the config of its run.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from ridgeformer.core.distributions import NoisePrior
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.model_file import load_model, weights_digest
from ridgeformer.core.storage import MissingFileError, read_whole, strict_json, sync_folder, write_whole, writing
from ridgeformer.core.validation import InputError
from ridgeformer.training.checkpoints import LARGEST_FILE, Checkpoint, load_checkpoint, save_checkpoint
from ridgeformer.training.config import DIGEST, RUN_KEYS, START_DIGEST, TrainConfig

_KEPT_CHECKPOINTS = 3  # if a failing disk damages one, the one before it is used
_FILES = (
    "result.json",
    "model.safetensors",
    "start.safetensors",
    "history.jsonl",
    "timing.jsonl",
    # and those of `ridgeformer.sweeps`, which go with the run
    "measures.json",
    "attempts.jsonl",
)
_CLAIM = "config.json.unfinished"
_STAGED = "start.safetensors.unfinished"
_CHECKPOINT = re.compile(r"step-[0-9]{9,}\.safetensors")
# Temporary files that a killed `write_whole` leaves behind.
_NAMES = "|".join((*map(re.escape, (*_FILES, "config.json", _CLAIM, _STAGED)), _CHECKPOINT.pattern))
_PART = re.compile(rf"\.({_NAMES})\.[a-z0-9_]{{8}}\.part")
_IN_EVERY_CONFIG = {"layers", "noise", "dim", "seed", "recipe", "batch", "sequences"}  # of all versions
OTHER_ENGINE = {"engine", "module", "task", "settings"}
"""The keys in the config of a run by another engine."""


class Settings(Protocol):
    """The settings of a run: a `TrainConfig`, or those of another engine."""

    def as_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        ...


class RunBusyError(InputError):
    """Another process is working on the run."""


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

    @property
    def _settings(self) -> Path:
        """The file with the config of the run: config.json, or the claim of a new run while that is being made."""
        claim = self.path / _CLAIM
        return claim if os.path.lexists(claim) else self.path / "config.json"

    def exists(self) -> bool:
        """Whether a run was started in this folder."""
        return os.path.exists(self._settings)

    def check_free(self, overwrite: bool) -> None:
        """Refuse a folder that holds a run, unless ``overwrite``, and a folder that holds anything else."""
        if any(_reads_as_config(self.path / name) for name in ("config.json", _CLAIM)):
            if not overwrite:
                raise InputError(
                    f"{self.path} already holds a run; continue it with 'ridgeformer train --resume {self.path}' "
                    "or replace it with --overwrite."
                )
            return
        with writing(self.path), contextlib.suppress(FileNotFoundError):
            if any(path.name != "lock" and not _is_nothing(path) for path in self.path.iterdir()):
                raise InputError(
                    f"{self.path} is not empty, and what it holds is not a run that can be replaced; "
                    "choose a new or an empty folder."
                )

    def create(self, config: Settings, overwrite: bool, given: LinearTransformer | None = None) -> None:
        """Make the folder for a new run that starts from the model ``given``; `check_free` says what is refused.

        If the process is killed at any moment, or the disk is full, either the old run or the new one is left:
        - the old one while the new one is prepared: first a copy of the model it starts from, then the *claim*, which
          is the new config.json under another name. If anything fails up to here, both are removed again.
        - the new one as soon as the claim is there, which is written whole or not at all. The rest of the old run is
          removed before anything else is done with the folder, by this process or the next one.
        """
        self.check_free(overwrite)
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            if not _reads_as_config(self.path / _CLAIM):
                (self.path / _CLAIM).unlink(missing_ok=True)
            self.settle()
            values = config.as_json()
            try:
                if given is not None:
                    given.save(self.path / _STAGED)
                    values[START_DIGEST] = weights_digest(given)
                _write_signed(self.path / _CLAIM, values)
            except BaseException:
                for name in (_CLAIM, _STAGED):
                    (self.path / name).unlink(missing_ok=True)
                raise
        self.settle()

    def settle(self) -> None:
        """Finish what a claim began, and remove the temporary files of killed processes."""
        with writing(self.path):
            self._carry_out(self.path / _CLAIM, self.path / _STAGED)
            for path in (*self.path.glob(".*.part"), *self.checkpoints.glob(".*.part")):
                if _PART.fullmatch(path.name) and path.is_file():
                    path.unlink()

    def _carry_out(self, claim: Path, staged: Path) -> None:
        """If there is a claim, remove the old run and put the new one in its place; can be repeated at any point."""
        if os.path.lexists(claim):
            if START_DIGEST not in _read_signed(claim):
                staged.unlink(missing_ok=True)
                self.given.unlink(missing_ok=True)
            elif staged.exists():
                os.replace(staged, self.given)
            # The result is removed before the model, so that there is never a result without its model.
            for old in (*(self.path / name for name in ("config.json", *_FILES)), *self._saved()):
                if old != self.given and (old.is_symlink() or not old.is_dir()):  # we write no folder of such a name
                    old.unlink(missing_ok=True)
            self.checkpoints.mkdir(exist_ok=True)
            for folder in (self.checkpoints, self.path):  # on disk too, the old run is gone before the new one is there
                sync_folder(folder)
            os.replace(claim, self.path / "config.json")
            sync_folder(self.path)
            self.history.touch()
        staged.unlink(missing_ok=True)

    def config(self, prior: NoisePrior | None = None) -> Any:
        """The config of the run; ``prior`` is its noise prior, if a user wrote it."""
        try:
            values = _read_signed(self._settings)
        except MissingFileError as missing:
            raise InputError(f"{self.path} holds no run to continue.") from missing
        values.pop(START_DIGEST, None)
        return self._parse_config(values, str(self._settings), prior)

    # Another engine overrides these: runs of `ridgeformer.torch` have other settings and checkpoints.

    def _parse_config(self, values: Any, source: str, prior: NoisePrior | None) -> Settings:
        """The settings of a run from JSON."""
        return TrainConfig.from_json(values, source, prior)

    def _write_checkpoint(self, path: Path, state: Any, rest: tuple[int, str, dict[str, Any]]) -> None:
        """Save a state, with the length and digest of the history up to it, and the config."""
        save_checkpoint(Checkpoint(state, *rest), path)

    def _read_checkpoint(self, path: Path, run: Any) -> tuple[Any, int, str | None, dict[str, Any] | None]:
        """What `_write_checkpoint` was given; `InputError` for a damaged file."""
        return load_checkpoint(path, run)

    def start_model(self, offered: Callable[[], LinearTransformer]) -> LinearTransformer:
        """The model that the run started from: the copy in the folder, or ``offered`` if it has the same weights."""
        expected = _read_signed(self._settings).get(START_DIGEST)
        if expected is None:  # a run of an older version
            return load_model(self.given) if self.given.exists() else offered()
        for read in (partial(load_model, self.given), offered):
            with contextlib.suppress(InputError):
                if weights_digest(model := read()) == expected:
                    return model
        raise InputError(f"{self.given}, the model that this run started from, is missing or damaged.")

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes away from this run; the lock disappears when the process ends."""
        import fcntl

        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            file = os.fdopen(os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW, 0o666))
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as taken:
                raise RunBusyError(f"Another process is working on the run in {self.path}.") from taken
            yield

    def save(self, state: Any, config: Settings) -> None:
        """Write a checkpoint; remove all but the last few, and later ones, which could not be used."""
        with writing(self.history), self.history.open("rb") as file:
            os.fsync(file.fileno())  # the history must be on disk before the checkpoint that refers to it
            history = file.read()
        name = f"step-{state.total:09d}.safetensors"
        rest = (len(history), hashlib.sha256(history).hexdigest(), config.as_json())
        self._write_checkpoint(self.checkpoints / name, state, rest)
        saved = self._saved()
        until_now = saved.index(self.checkpoints / name) + 1
        for other in (*saved[: max(until_now - _KEPT_CHECKPOINTS, 0)], *saved[until_now:]):
            with contextlib.suppress(OSError):  # tried again next time
                other.unlink()

    def _saved(self) -> list[Path]:
        """The checkpoints, oldest first."""
        paths = (path for path in self.checkpoints.glob("step-*") if _CHECKPOINT.fullmatch(path.name))
        return sorted(paths, key=lambda path: int(path.stem.removeprefix("step-")))

    def latest(self, run: Any) -> tuple[Any, list[str]]:
        """(newest checkpoint that can be used, what was wrong with newer ones); cuts the history back to it."""
        state, length, digest, complaints = None, 0, None, []
        saved = self._saved()
        for path in reversed(saved):
            try:
                state, length, digest, config = self._read_checkpoint(path, run)
            except InputError as damaged:
                back = "the one before it" if path != saved[0] else "the start of the run"
                complaints.append(f"{damaged} Going back to {back}.")
                continue
            if config is not None and self._parse_config(config, str(path), run.config.own_prior) != run.config:
                raise InputError(
                    f"{path} belongs to a run with other settings than those in {self.path / 'config.json'}."
                )
            break
        with writing(self.path):
            self.checkpoints.mkdir(exist_ok=True)
            complaints += self._cut_history(state.total if state else 0, length, digest)
        return state, complaints

    def _cut_history(self, total: int, length: int, digest: str | None) -> list[str]:
        """Cut history and times back to a checkpoint; of damaged files, keep the rows that can be read."""
        history, times = _contents(self.history), _contents(self.timing)
        expected = (history or b"")[:length]
        rows = [row for row in _rows(expected) if row["total"] <= total]
        readable = _as_lines(rows)
        for path, old, new in ((self.history, history, readable), (self.timing, times, _as_lines(_rows(times or b"")))):
            if old != new or not _is_own(path):
                write_whole(path, new)
        if readable == expected and len(expected) == length and digest in (None, hashlib.sha256(readable).hexdigest()):
            return []
        return [f"{self.history} is damaged; of its rows up to step {total}, the {len(rows)} readable ones are kept."]

    def append(self, row: dict[str, Any], seconds: float) -> None:
        """Add one line to the history, and the seconds of training up to it."""
        for path, values in ((self.history, row), (self.timing, {"total": row["total"], "seconds": round(seconds, 3)})):
            with writing(path), path.open("ab") as file:
                file.write((json.dumps(values) + "\n").encode())

    def read_history(self) -> list[dict[str, Any]]:
        """All rows so far; raises ValueError if any is damaged."""
        return [json.loads(line) for line in read_whole(self.history, LARGEST_FILE).splitlines()]

    def read_seconds(self) -> dict[int, float]:
        """Seconds of training up to each step in the history; damaged lines are left out.

        A run that was killed and resumed did some steps twice: the last time counts, which led to its result.
        """
        seconds = {row["total"]: row.get("seconds") for row in _rows(_contents(self.timing) or b"")}
        return {total: value for total, value in seconds.items() if isinstance(value, float) and 0 <= value < math.inf}

    def finished_result(self) -> dict[str, Any] | None:
        """What result.json says of a run that was trained to its end; None for one that is not, or that diverged."""
        with contextlib.suppress(InputError):
            result = _read_signed(self.result)
            if result.get("status") == "finished" and not os.path.lexists(self.path / _CLAIM):
                return result
        return None

    def finish(self, model: Any, result: dict[str, Any]) -> None:
        """Write the model and, last of all, the result: its presence says that the run is complete."""
        model.save(self.model)
        _write_signed(self.result, result)


def _contents(path: Path) -> bytes | None:
    """What a file of rows holds; None if it is missing or cannot be read."""
    try:
        return read_whole(path, LARGEST_FILE)
    except InputError:
        return None


def _is_own(path: Path) -> bool:
    """Whether a file is in no other place as well, through a link, where adding to it would be noticed."""
    found = os.lstat(path)
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


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
    if path.is_dir():
        return not any(path.iterdir())
    return path.name == _STAGED or _PART.fullmatch(path.name) is not None


def _reads_as_config(path: Path) -> bool:
    """Whether a file is the config of a run, of this version or an earlier one."""
    try:
        values = strict_json(read_whole(path, LARGEST_FILE))
        if isinstance(values, dict) and values.keys() >= OTHER_ENGINE:
            return isinstance(values["engine"], str)
        if not isinstance(values, dict) or not values.keys() >= _IN_EVERY_CONFIG:
            return False
        for name in RUN_KEYS:
            values.pop(name, None)
        if values.pop("prior", None) is not None:  # of the user's own, whose spec need not be one of the package's
            del values["noise"]
        TrainConfig.from_json(values)
    except (InputError, ValueError, RecursionError):
        return False
    return True


def _write_signed(path: Path, values: dict[str, Any]) -> None:
    """Write a JSON object that holds its own SHA-256."""
    write_whole(path, (json.dumps({**values, DIGEST: _digest(values)}, indent=2) + "\n").encode())


def _read_signed(path: Path) -> dict[str, Any]:
    """The reverse of `_write_signed`; files of older versions, which have no digest, are read as well."""
    try:
        values = strict_json(read_whole(path, LARGEST_FILE))
    except (ValueError, RecursionError) as broken:
        raise InputError(f"{path} is not JSON: {broken}.") from broken
    if not isinstance(values, dict):
        raise InputError(f"{path} must be a JSON object.")
    found = values.pop(DIGEST, None)
    if found is not None and found != _digest(values):
        raise InputError(f"{path} is damaged, or was changed by hand: what it holds does not match its digest.")
    return values


def _digest(values: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
