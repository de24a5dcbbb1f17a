"""What a worker does with one cell, on any machine: train it in its run directory, or resume it, and measure it.

The main process of a sweep locks the file sweep.lock in the folder and writes a token into it. The file does three
things. Its lock keeps a second sweep out. A worker that reads the same token sees the same folder. And it is a leash:
when the token is gone or has changed, the main process has ended, so a worker saves a checkpoint and stops.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import secrets
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.model_file import load_model
from ridgeformer.core.storage import MissingFileError, plain, read_whole, strict_json, write_whole, writing
from ridgeformer.core.validation import InputError
from ridgeformer.evaluation import evaluate, shift_table
from ridgeformer.sweeps.study import Cell, Measure, Study
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.recipes import stages_of
from ridgeformer.training.run_directory import RunBusyError, RunDirectory
from ridgeformer.training.stages import StepInfo
from ridgeformer.training.train import OtherRecipeError, TrainingInterruptedError, train

LOCK = "sweep.lock"
MEASURES, ATTEMPTS = "measures.json", "attempts.jsonl"
_SEED = 20240222  # of the sequences that measure; contexts of training differ by purpose
_MOST_BYTES = 1 << 26
_LEASH_SECONDS = 1.0  # between two looks at the token
_BUSY_SECONDS = 0.5  # between two tries to get at a cell that another process works on
_VISIBLE_SECONDS = 90.0  # until a file of another machine is visible; NFS remembers for 60 s that there was none


class LeashCutError(TrainingInterruptedError):
    """The sweep was stopped, and the cell saved."""


@dataclass(frozen=True)
class Job:
    """What is sent to a worker: a cell, and all that the worker needs to know about the sweep."""

    folder: str
    token: str
    name: str
    config: TrainConfig
    start: str | None
    """The model file that it starts from, unless that is in the zoo."""
    measure: Measure
    overwrite: bool
    checkpoint_seconds: float

    @property
    def directory(self) -> RunDirectory:
        """Where it is kept."""
        return RunDirectory(Path(self.folder, self.name))

    @property
    def steps(self) -> int:
        """Of the whole training."""
        return sum(stage.steps for stage in stages_of(self.config))

    def share(self) -> float:
        """The share of its training that is done, by the history of its run."""
        with contextlib.suppress(InputError, ValueError, KeyError, IndexError, TypeError):  # none yet, or half a line
            return min(1.0, float(self.directory.read_history()[-1]["total"]) / self.steps)
        return 0.0

    def saved_steps(self) -> int:
        """The step of its newest checkpoint; a cell without progress is given up in the end."""
        names = (path.stem.removeprefix("step-") for path in self.directory.checkpoints.glob("step-*.safetensors"))
        return max((int(name) for name in names if name.isdigit()), default=-1)


def make_job(cell: Cell, study: Study, folder: Path, token: str, overwrite: bool, checkpoint_seconds: float) -> Job:
    """The job of a cell; ``folder`` is absolute."""
    start = None if cell.model_file is None else str(cell.model_file)
    if cell.parent is not None:
        start = str(RunDirectory(folder / cell.parent).model)
    return Job(str(folder), token, cell.name, cell.config, start, study.measure, overwrite, checkpoint_seconds)


def is_trained(directory: RunDirectory, config: TrainConfig) -> bool:
    """Whether a run of exactly this config is finished there."""
    if directory.finished_result() is None or not directory.model.exists():
        return False
    return directory.config(config.own_prior) == config


def is_done(directory: RunDirectory, config: TrainConfig, measure: Measure) -> bool:
    """Whether it is also measured."""
    return is_trained(directory, config) and not _unmeasured(directory, config, measure)


def run_cell(job: Job, after: object = None) -> None:
    """Train and measure a cell, as far as that is not done yet; Dask waits for ``after`` before it calls this.

    If another process works on the cell, this waits until it is finished or free. Raises `RidgeformerError` if the cell
    cannot be trained, and `LeashCutError` if the sweep ends before the cell does.
    """
    leash, attempt = Leash(Path(job.folder), job.token), _Attempt(job)
    while leash.holds():
        try:
            if not is_trained(job.directory, job.config):
                _train(job, leash, attempt)
            with job.directory.locked():
                _measure(job)
            return
        except RunBusyError:
            time.sleep(_BUSY_SECONDS)
    raise LeashCutError("The sweep was stopped.")


def _train(job: Job, leash: Leash, attempt: _Attempt) -> None:
    directory, config = job.directory, job.config
    given = None if job.start is None else _visible_model(Path(job.start))
    same = directory.exists() and directory.config(config.own_prior) == config

    def run(resume: bool, overwrite: bool) -> None:
        train(
            config,
            out=directory.path,
            resume=resume,
            overwrite=overwrite,
            callbacks=[attempt.begin, leash.pull],
            on_message=attempt.say,
            checkpoint_seconds=job.checkpoint_seconds,
            given=given,
        )

    try:
        try:
            run(resume=same, overwrite=job.overwrite and not same)
        except OtherRecipeError:  # another version of the package began it
            run(resume=False, overwrite=True)
    except TrainingInterruptedError as stopped:
        raise LeashCutError(str(stopped)) from stopped
    attempt.finish()


def _visible_model(path: Path) -> LinearTransformer:
    """The model of a cell that another machine may just have finished."""
    ends = time.monotonic() + _VISIBLE_SECONDS
    while True:
        try:
            return load_model(path)
        except MissingFileError:
            if time.monotonic() > ends:
                raise
            time.sleep(_BUSY_SECONDS)


class _Attempt:
    """attempts.jsonl: where and from which step a cell was trained, a row for each attempt, and one for its end."""

    def __init__(self, job: Job) -> None:
        self._path = job.directory.path / ATTEMPTS
        self._started, self._busy, self._begun = time.time(), time.process_time(), False

    def begin(self, info: StepInfo) -> None:
        """A callback of `train`: note the first step."""
        if not self._begun:
            self._begun = True
            self._append({"started": round(self._started, 2), "from_step": info.total - 1})

    def say(self, message: str) -> None:
        """Note what was wrong, such as a damaged checkpoint."""
        self._append({"message": message})

    def finish(self) -> None:
        """Note when the cell was done, and for how many seconds this attempt had a core."""
        busy = time.process_time() - self._busy
        times = {"started": self._started, "finished": time.time(), "busy": busy}
        self._append({name: round(seconds, 3) for name, seconds in times.items()})

    def _append(self, row: dict[str, Any]) -> None:
        row |= {"host": socket.gethostname(), "process": os.getpid()}
        with writing(self._path), self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of attempts that can be read."""
    rows = []
    with contextlib.suppress(InputError):
        for line in read_whole(path, _MOST_BYTES).splitlines():
            with contextlib.suppress(ValueError, RecursionError):
                row = strict_json(line)
                rows += [row] if isinstance(row, dict) else []
    return rows


# --- measuring --------------------------------------------------------------------------------------------------------


def read_measures(directory: RunDirectory) -> dict[str, dict[str, Any]]:
    """Further measurements of a cell besides its own loss, by label; empty if they cannot be read."""
    with contextlib.suppress(InputError, ValueError, RecursionError):
        values = strict_json(read_whole(directory.path / MEASURES, _MOST_BYTES))
        if isinstance(values, dict):
            return {label: value for label, value in values.items() if isinstance(value, dict)}
    return {}


def _unmeasured(directory: RunDirectory, config: TrainConfig, measure: Measure) -> list[tuple[str, Any, str | None]]:
    wanted = list(measure.tasks(config.task))
    there = read_measures(directory) if wanted else {}
    return [item for item in wanted if there.get(item[0], {}).get("sequences") != measure.sequences]


def _measure(job: Job) -> None:
    missing = _unmeasured(job.directory, job.config, job.measure)
    if not missing:
        return
    values, model, count = read_measures(job.directory), load_model(job.directory.model), job.measure.sequences
    for label, task, shift in missing:
        if shift is None:
            values[label] = plain(evaluate(model, task, count, _SEED))
        else:
            values[label] = plain(shift_table({"model": model}, task, [shift], count, _SEED).results[shift]["model"])
    write_whole(job.directory.path / MEASURES, (json.dumps(dict(sorted(values.items())), indent=2) + "\n").encode())


# --- lock, token, leash -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def sweep_lock(folder: Path) -> Iterator[tuple[str, Any]]:
    """Lock a folder against other sweeps: (token, function that cuts the leash). The lock ends with the process."""
    import fcntl

    token, path = secrets.token_hex(16), folder / LOCK
    with writing(path):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW, 0o666)
    with os.fdopen(handle, "r+") as file:

        def write(text: str) -> None:
            file.seek(0)
            file.write(text)
            file.truncate()
            file.flush()
            os.fsync(handle)

        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as taken:
            raise InputError(f"Another sweep is working in {folder}.") from taken
        with writing(path):
            write(token)
        try:
            yield token, lambda: write("")
        finally:
            with contextlib.suppress(OSError):
                write("")


class Leash:
    """Tells a worker whether its sweep is still running."""

    def __init__(self, folder: Path, token: str) -> None:
        self._path, self._token, self._next = folder / LOCK, token, time.monotonic() + _LEASH_SECONDS

    def holds(self) -> bool:
        """Whether the token in the folder is that of the sweep."""
        try:
            return read_whole(self._path, 1024) == self._token.encode()
        except InputError:
            return False

    def pull(self, info: StepInfo) -> None:
        """A callback of `train`: stop it, as Ctrl-C would, once the sweep has ended."""
        moment = time.monotonic()
        if moment >= self._next:
            self._next = moment + _LEASH_SECONDS
            if not self.holds():
                raise KeyboardInterrupt


def fingerprint() -> dict[str, str]:
    """What results may depend on: the version and source of the package, and versions of its numerical libraries."""
    import hashlib
    from importlib.metadata import version

    import ridgeformer

    root, digest = Path(ridgeformer.__file__).parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    versions = {name: version(name) for name in ("numpy", "scipy", "numba", "llvmlite")}
    own = {"ridgeformer": ridgeformer.__version__, "the source of ridgeformer": digest.hexdigest()[:12]}
    return own | {"python": platform.python_version()} | versions
