"""`train`: run a config to its end, with checkpoints, a history and a final evaluation."""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.storage import plain
from ridgeformer.core.validation import (
    InputError,
    InterruptedRunError,
    RidgeformerError,
    instance,
    nonnegative,
    whole_number,
)
from ridgeformer.evaluation import Evaluation, evaluate
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.recipes import stages_of
from ridgeformer.training.run_directory import RunDirectory
from ridgeformer.training.stages import Run, StepInfo, TrainState
from ridgeformer.zoo import load

Callback = Callable[[StepInfo], object]
"""Anything that can be called with a `StepInfo`; its result is not used."""

HISTORY_EVERY = 100  # steps
_LOG_EVERY = 10  # steps: a run has tens of thousands
EVALUATION_SEED = 20240221  # of the final measurement; training contexts differ from these for every seed


class TrainingDivergedError(RidgeformerError):
    """A run exploded too often. The best finite weights are saved."""


class OtherRecipeError(InputError):
    """A run was begun by a version of the package whose recipe had other stages."""


class TrainingInterruptedError(InterruptedRunError):
    """A run was stopped by the user, after saving a checkpoint."""


@dataclass(frozen=True)
class TrainResult:
    """A finished run: what `ridgeformer.train` returns.

    >>> import ridgeformer as rf
    >>> config = rf.TrainConfig(kind="diag", layers=1, recipe="paper", steps=100, batch=8, sequences=100)
    >>> result = rf.train(config)
    >>> result.steps, result.skipped, result.history[-1]["stage"]
    (100, 0, 'as printed')
    """

    model: LinearTransformer
    """The trained model; ``model.info`` says on what and how it was trained, and how good it is."""
    evaluation: Evaluation
    """Its losses on ``config.sequences`` fresh sequences."""
    history: list[dict[str, Any]]
    """The `StepInfo` of every hundredth step, every skipped one and the last of every stage, as plain JSON values."""
    steps: int
    skipped: int
    """Steps whose gradient was not used."""
    rewinds: int
    """How often the run went back to its last safe weights."""
    seconds: float
    """Time spent in this process."""

    def as_json(self) -> dict[str, Any]:
        """The content of result.json: everything that is the same each time the run is repeated."""
        counts = {"steps": self.steps, "skipped": self.skipped, "rewinds": self.rewinds}
        return {"status": "finished", "evaluation": plain(self.evaluation), **counts}


def train(
    config: TrainConfig | Run,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Callback | Sequence[Callback] = (),
    on_message: Callable[[str], object] = lambda message: None,
    threads: int | None = None,
    checkpoint_seconds: float = 15.0,
    given: LinearTransformer | None = None,
) -> TrainResult:
    """Train a model and measure it on fresh sequences.

    Parameters
    ----------
    config: what to train: a `TrainConfig`, whose recipe defines the stages, or a `Run` with stages of your own.
    out: folder for the run. With it, the run can be continued after any interruption.
    resume: continue the run in ``out``. The result has the same bits as without the interruption.
    overwrite: replace a run that is already in ``out``. A folder that holds anything else is refused.
    callbacks: a function or several functions, called with a `StepInfo` after every step. An exception in one ends the
        training; KeyboardInterrupt stops a run in ``out`` so that it can be continued later.
    on_message: called with a sentence about problems that do not end the run, such as a damaged checkpoint.
    threads: threads to use; the result does not depend on it. A `Run` has its own ``threads`` and ``given``.
    checkpoint_seconds: time between checkpoints in ``out``.
    given: the model that ``config.start`` names, if the caller has loaded it already.

    Returns a `TrainResult`. Raises `InputError` for arguments that do not fit, `TrainingDivergedError` if the run
    explodes again and again, and, with ``out``, `TrainingInterruptedError` on Ctrl-C; both leave a usable folder.

    >>> import ridgeformer as rf
    >>> config = rf.TrainConfig(kind="diag", layers=1, recipe="paper", steps=20, batch=8, sequences=100)
    >>> losses = []
    >>> rf.train(config, callbacks=lambda info: losses.append(info.loss)).model.size, len(losses)
    (4, 20)
    """
    started = time.perf_counter()
    if threads is not None:
        whole_number("threads", threads, 1)
    if isinstance(config, Run):
        if threads is not None or given is not None:
            raise InputError("A Run has threads and a given model of its own: pass them to it.")
    else:
        hint = " Write ridgeformer.TrainConfig(…) with these as its fields." if isinstance(config, dict) else ""
        config = Run(instance("config", config, TrainConfig, hint), stages_of(config), threads, given)
    resume, overwrite = instance("resume", resume, bool), instance("overwrite", overwrite, bool)
    if resume and (out is None or overwrite):
        raise InputError("resume=True continues the run in out: name the folder, and leave out overwrite.")
    nonnegative("checkpoint_seconds", checkpoint_seconds)
    several = as_callbacks(callbacks)
    directory = None if out is None else RunDirectory(out)
    if directory and resume:  # before the lock file is made: a folder that is refused does not change
        directory.config(config.config.own_prior)
    elif directory:
        directory.check_free(overwrite)
    with directory.locked() if directory else contextlib.nullcontext():
        if directory and resume:
            directory.settle()
        run = replace(config, given=_given(config, directory if resume else None))
        state, history = _open(run, directory, resume, overwrite, on_message)
        state, evaluation = _steps(run, state, directory, history, several, checkpoint_seconds)
        model = run.model(state)
        counts = {"steps": state.total, "skipped": state.skipped, "rewinds": state.rewinds}
        if evaluation is None:
            if directory:
                directory.finish(model, {"status": "diverged", **counts})
            raise TrainingDivergedError(
                f"Training diverged: after going back {state.rewinds} times to safe weights, with smaller steps each "
                f"time, it still explodes at step {state.total}; try a smaller rate or another seed."
            )
        training = run.config.as_json()
        task: dict[str, Any] = {}
        task.update({name: training[name] for name in ("dim", "examples", "noise", "prior") if name in training})
        plain_task = {"features": "isotropic", "weights": "normal", "noise_shape": "gaussian", "mixture": None}
        task.update({name: training[name] for name, spec in plain_task.items() if training[name] != spec})
        info = {"task": task, "training": training, "evaluation": plain(evaluation)}
        model = replace(model, info=info)
        result = TrainResult(model, evaluation, history, **counts, seconds=time.perf_counter() - started)
        if directory:
            directory.finish(model, result.as_json())
    return result


def as_callbacks(callbacks: Any) -> Sequence[Callback]:
    """One or several functions of a `StepInfo`, as a list."""
    several: Any = [callbacks] if callable(callbacks) else callbacks
    if isinstance(several, str) or not isinstance(several, Sequence) or not all(map(callable, several)):
        raise InputError(f"callbacks must be a function of a StepInfo or a list of such functions, not {callbacks!r}.")
    return several


def _given(run: Run, resumed: RunDirectory | None) -> LinearTransformer | None:
    """The model to start from; a run that is continued uses its own copy of it."""
    name = run.config.start
    if name is None:
        return None

    def offered() -> LinearTransformer:
        return load(name) if run.given is None else instance("given", run.given, LinearTransformer)

    return offered() if resumed is None else resumed.start_model(offered)


def _open(
    run: Run, directory: RunDirectory | None, resume: bool, overwrite: bool, on_message: Callable[[str], object]
) -> tuple[TrainState, list[dict[str, Any]]]:
    """The state to continue from, and the history up to it."""
    start = run.start()
    if directory is None:
        return start, []
    if not resume:
        directory.create(run.config, overwrite, run.given)
        return start, []
    if directory.config(run.config.own_prior) != run.config:
        raise InputError(f"The run in {directory.path} has other settings than these; resume it with its own.")
    state, complaints = directory.latest(run)
    if state is not None and state.plan != run.plan:
        raise OtherRecipeError(
            f"The run in {directory.path} was started by another version of the recipe; begin again with --overwrite."
        )
    for complaint in complaints:
        on_message(complaint)
    return state or start, directory.read_history()


def _steps(
    run: Run,
    state: TrainState,
    directory: RunDirectory | None,
    history: list[dict[str, Any]],
    callbacks: Sequence[Callback],
    checkpoint_seconds: float,
) -> tuple[TrainState, Evaluation | None]:
    """Step until the end, with checkpoints, and measure the result, unless the run has diverged."""
    saved = time.monotonic()
    started = saved - (directory.read_seconds().get(history[-1]["total"], 0.0) if directory and history else 0.0)
    try:
        with interrupts_held_back() as interrupts:
            while not (run.finished(state) or run.diverged(state)):
                stage = state.stage
                state, info = run.step(state)
                if info.step % HISTORY_EVERY == 0 or info.skipped or state.stage != stage:
                    history.append(plain(info))
                    if directory:
                        directory.append(history[-1], time.monotonic() - started)
                for callback in callbacks:
                    callback(info)
                if directory and time.monotonic() - saved >= checkpoint_seconds:
                    directory.save(state, run.config)
                    saved = time.monotonic()
                if interrupts:
                    raise KeyboardInterrupt
        if directory:
            directory.save(state, run.config)
        if run.diverged(state):
            return state, None
        return state, evaluate(run.model(state), run.task, run.config.sequences, EVALUATION_SEED)
    except KeyboardInterrupt as stopped:
        if directory is None:
            raise
        directory.save(state, run.config)
        raise TrainingInterruptedError(
            f"Stopped at step {state.total}; continue with: ridgeformer train --resume {directory.path}"
        ) from stopped


@contextlib.contextmanager
def interrupts_held_back() -> Iterator[list[int]]:
    """Put Ctrl-C into the list, to be checked between steps, when no step is half done.

    A second Ctrl-C is not held back. Only the main thread receives it.
    """
    pressed: list[int] = []

    def hold(number: int, frame: object) -> None:
        if pressed:
            raise KeyboardInterrupt
        pressed.append(number)

    in_main_thread = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, hold) if in_main_thread else None
    try:
        yield pressed
    finally:
        if in_main_thread:
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def tensorboard_log(folder: Path) -> Iterator[Callback]:
    """A callback that logs loss, smoothed loss and step size for TensorBoard, and every skipped or rewound step.

    Needs the extra ``ridgeformer[tensorboard]``; raises `InputError` without it.
    """
    try:
        from tensorboardX import SummaryWriter
    except ImportError as missing:
        raise InputError("Logging for TensorBoard needs: pip install 'ridgeformer[tensorboard]'.") from missing

    def log(info: StepInfo) -> None:
        for name, value in asdict(info).items():
            if value is True or (name in ("loss", "smoothed", "rate") and info.total % _LOG_EVERY == 0):
                writer().add_scalar(name, float(value), info.total)

    with contextlib.ExitStack() as stack:
        # Made at the first step: the folder may be inside that of the run, which must be empty when the run begins.
        writer = functools.cache(lambda: stack.enter_context(SummaryWriter(str(folder))))
        yield log
