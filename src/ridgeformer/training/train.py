"""`train`: run a config to its end, with checkpoints, history and a verdict."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.model_file import load_model
from ridgeformer.core.validation import InputError, InterruptedRunError, RidgeformerError
from ridgeformer.evaluation import Evaluation, evaluate
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.run_directory import RunDirectory
from ridgeformer.training.state import TrainState
from ridgeformer.training.steps import StepInfo, Tamper, Trainer
from ridgeformer.zoo import load

Callback = Callable[[StepInfo], None]
"""Called after every step. ``lambda info: losses.append(info.loss)`` is one."""

_HISTORY_EVERY = 100  # steps
_EVALUATION_SEED = 20240221  # of the final measurement; contexts of other purposes differ whatever the seed


class TrainingDivergedError(RidgeformerError):
    """A run exploded more often than the guard puts up with. The best finite weights are kept."""


class OtherRecipeError(InputError):
    """A run was begun by a version of the package whose recipe had other legs."""


class TrainingInterruptedError(InterruptedRunError):
    """A run was stopped by the user, after saving a checkpoint."""


@dataclass(frozen=True)
class TrainResult:
    """A finished run."""

    model: LinearTransformer
    evaluation: Evaluation
    history: list[dict[str, Any]]
    """A row for every hundredth step, every skipped one and the end of every leg."""
    steps: int
    skipped: int
    rewinds: int
    seconds: float
    """Time spent in this process."""

    def as_json(self) -> dict[str, Any]:
        """What goes into result.json: all that is the same whenever the run is repeated."""
        counts = {"steps": self.steps, "skipped": self.skipped, "rewinds": self.rewinds}
        return {"status": "finished", "evaluation": _finite(asdict(self.evaluation)), **counts}


def train(
    config: TrainConfig,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    on_message: Callable[[str], None] = lambda message: None,
    threads: int | None = None,
    checkpoint_seconds: float = 15.0,
    given: LinearTransformer | None = None,
    tamper: Tamper | None = None,
) -> TrainResult:
    """Train a model and measure it on fresh sequences.

    With ``out`` the run is kept in a folder, saved every ``checkpoint_seconds``, and can go on after any interruption
    with ``resume=True``, bit for bit as if nothing had happened. ``given`` stands for the model that ``config.start``
    names, for callers that have it at hand. Raises `TrainingDivergedError` if the run cannot be saved from exploding,
    and `TrainingInterruptedError` on Ctrl-C; either leaves a usable folder behind.
    """
    started = time.perf_counter()
    directory = None if out is None else RunDirectory(Path(out))
    with directory.locked() if directory else contextlib.nullcontext():
        trainer = Trainer(config, threads, tamper, given=_given(config, given, directory if resume else None))
        state, history = _open(trainer, directory, config, resume, overwrite, on_message)
        state = _run(trainer, state, directory, history, callbacks, checkpoint_seconds)
        model = trainer.model(state)
        if trainer.diverged(state):
            if directory:
                counts = {"steps": state.total, "skipped": state.skipped, "rewinds": state.rewinds}
                directory.finish(model, {"status": "diverged", **counts})
            raise TrainingDivergedError(
                f"Training diverged: after {state.rewinds} returns to safe weights at ever smaller steps it still "
                f"explodes at step {state.total}; try a smaller rate or another seed."
            )
        try:
            evaluation = evaluate(model, trainer.task, config.sequences, _EVALUATION_SEED)
        except KeyboardInterrupt as stopped:
            if directory is None:
                raise
            raise _interrupted(state, directory) from stopped
        info = {"task": _task(config), "training": config.as_json(), "evaluation": _finite(asdict(evaluation))}
        model = dataclasses.replace(model, info=info)
        seconds = time.perf_counter() - started
        result = TrainResult(model, evaluation, history, state.total, state.skipped, state.rewinds, seconds)
        if directory:
            directory.finish(model, result.as_json())
    return result


def _task(config: TrainConfig) -> dict[str, Any]:
    return {"dim": config.dim, "context": config.examples, "noise": config.noise}


def _given(
    config: TrainConfig, given: LinearTransformer | None, resumed: RunDirectory | None
) -> LinearTransformer | None:
    """The model to start from; a run that goes on takes its own copy, whatever became of the original."""
    if config.start is None:
        return None
    if resumed is not None and resumed.given.exists():
        return load_model(resumed.given)
    return load(config.start) if given is None else given


def _open(
    trainer: Trainer,
    directory: RunDirectory | None,
    config: TrainConfig,
    resume: bool,
    overwrite: bool,
    on_message: Callable[[str], None],
) -> tuple[TrainState, list[dict[str, Any]]]:
    """The state to go on from, and the history up to it."""
    if directory is None:
        return trainer.start(), []
    if not resume:
        directory.create(config, overwrite)
        if trainer.given is not None:
            trainer.given.save(directory.given)
        return trainer.start(), []
    if directory.config() != config:
        raise InputError(f"The run in {directory.path} has other settings than these; resume it with its own.")
    state, complaints = directory.latest()
    if state is not None and state.plan != trainer.plan:
        raise OtherRecipeError(
            f"The run in {directory.path} was begun by another version of the recipe; start it again with --overwrite."
        )
    for complaint in complaints:
        on_message(complaint)
    return state or trainer.start(), directory.read_history()


def _run(
    trainer: Trainer,
    state: TrainState,
    directory: RunDirectory | None,
    history: list[dict[str, Any]],
    callbacks: Sequence[Callback],
    checkpoint_seconds: float,
) -> TrainState:
    """Step until the end, saving now and then."""
    saved = time.monotonic()
    started = saved - (directory.read_seconds().get(history[-1]["total"], 0.0) if directory and history else 0.0)
    try:
        with _interrupts_between_steps() as release:
            while not (trainer.finished(state) or trainer.diverged(state)):
                leg = state.leg
                state, info = trainer.step(state)
                if info.step % _HISTORY_EVERY == 0 or info.skipped or state.leg != leg:
                    row = _row(info)
                    history.append(row)
                    if directory:
                        directory.append(row, time.monotonic() - started)
                for callback in callbacks:
                    callback(info)
                if directory and time.monotonic() - saved >= checkpoint_seconds:
                    directory.save(state)
                    saved = time.monotonic()
                release()
    except KeyboardInterrupt as stopped:
        if directory is None:
            raise
        directory.save(state)
        raise _interrupted(state, directory) from stopped
    if directory:
        directory.save(state)
    return state


def _row(info: StepInfo) -> dict[str, Any]:
    """A line of the history."""
    return _finite(asdict(info))


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """Plain JSON, in which a number that is not finite is null."""
    return {name: None if isinstance(v, float) and not math.isfinite(v) else v for name, v in values.items()}


def _interrupted(state: TrainState, directory: RunDirectory) -> TrainingInterruptedError:
    return TrainingInterruptedError(
        f"Stopped at step {state.total}; go on with: ridgeformer train --resume {directory.path}"
    )


@contextlib.contextmanager
def _interrupts_between_steps() -> Iterator[Callable[[], None]]:
    """Hold back Ctrl-C until the function given is called, between steps, where nothing is half done.

    A second Ctrl-C is not held back. Only the main thread hears of it at all.
    """
    pressed = False

    def hold(number: int, frame: object) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    def release() -> None:
        if pressed:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield release
        return
    before = signal.signal(signal.SIGINT, hold)
    try:
        yield release
    finally:
        signal.signal(signal.SIGINT, before)
