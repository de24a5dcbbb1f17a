"""`train`: any module on a task, step by step until the end, kept in a run directory and measured.

A single step is in `steps`, what a checkpoint holds in `checkpoints`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ridgeformer.core.mixture import parse_mixture
from ridgeformer.core.storage import plain
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, instance, nonnegative, one_of
from ridgeformer.evaluation import evaluate
from ridgeformer.torch.checkpoints import TorchDirectory
from ridgeformer.torch.linear import LinearTransformer
from ridgeformer.torch.module import InContextModule, ModulePredictor, choose_device
from ridgeformer.torch.settings import TorchRun, TrainSettings
from ridgeformer.torch.steps import Trainer
from ridgeformer.torch.transformer import Architecture, Transformer
from ridgeformer.training.train import (
    EVALUATION_SEED,
    HISTORY_EVERY,
    Callback,
    TrainingDivergedError,
    TrainingInterruptedError,
    TrainResult,
    as_callbacks,
    interrupts_held_back,
)


class TorchResult(TrainResult):
    """A finished run, as `train` returns it, with the fields of `ridgeformer.TrainResult`; ``model`` is the module.

    >>> import ridgeformer as rf
    >>> module = rf.torch.LinearTransformer("diag", layers=1, dim=3)
    >>> result = rf.torch.train(module, rf.Task(3, 8), steps=10, batch=8, sequences=50)
    >>> result.model is module, result.evaluation.sequences
    (True, 50)
    """


def describe(module: nn.Module) -> dict[str, Any]:
    """What config.json says about a module: its architecture; for one of another package, its class and shapes."""
    if isinstance(module, Transformer):
        return module.architecture.as_json()
    if isinstance(module, LinearTransformer):
        return Architecture(module.kind, module.layers, module.heads, module.dim, module.registers).as_json()
    shapes = {name: list(tensor.shape) for name, tensor in module.state_dict().items()}
    return {"class": f"{type(module).__module__}:{type(module).__qualname__}", "shapes": shapes}


def train(
    module: nn.Module,
    task: Task | str,
    settings: TrainSettings | None = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Callback | Sequence[Callback] = (),
    on_message: Callable[[str], object] = lambda message: None,
    checkpoint_seconds: float = 15.0,
    device: Any = None,
    **fields_of_settings: Any,
) -> TorchResult:
    """Train a module in place and measure it on fresh sequences.

    Parameters
    ----------
    module: one of this package's, or any with ``forward(X, y, queries)`` → (batch, m).
    task: what contexts are drawn from; a noise prior such as "uniform:5" means the module's number of features and
        twice as many examples.
    settings: steps, batch, rate and so on; fields of `TrainSettings` can be given as keywords instead.
    out, resume, overwrite, callbacks, on_message, checkpoint_seconds: those of `ridgeformer.train`. On a CPU with the
        same number of threads a resumed run gives every bit of an uninterrupted one.
    device: where to train, "auto" for the accelerator if there is one; by default where the module is.

    Returns a `TorchResult`. Raises `InputError` for arguments that do not fit, `TrainingDivergedError` if the run
    explodes whatever the guard does, and with ``out`` `TrainingInterruptedError` on Ctrl-C.

    >>> import ridgeformer as rf
    >>> module = rf.torch.Transformer(rf.torch.Architecture("softmax", layers=1, dim=3))
    >>> result = rf.torch.train(module, rf.Task(3, 8), steps=20, batch=8, sequences=50)
    >>> result.steps, result.skipped
    (20, 0)
    """
    started = time.perf_counter()
    if not isinstance(module, nn.Module) or not list(module.parameters()):
        raise InputError("module must be a torch.nn.Module with parameters to train.")
    task = _task(task, module)
    settings = _settings(settings, fields_of_settings)
    if resume and (out is None or overwrite):
        raise InputError("resume=True continues the run in out: name the folder, and leave out overwrite.")
    nonnegative("checkpoint_seconds", checkpoint_seconds)
    several = as_callbacks(callbacks)
    _place(module, device, settings.precision)
    run = TorchRun(describe(module), task.specs, settings)
    directory = None if out is None else TorchDirectory(out)
    if directory and resume:
        directory.config()
    elif directory:
        directory.check_free(overwrite)
    with directory.locked() if directory else contextlib.nullcontext(), _threads(settings.threads):
        trainer, history = Trainer(module, task, settings), list[dict[str, Any]]()
        if directory and resume:
            directory.settle()
            history = _go_on(trainer, directory, run, on_message)
        elif directory:
            directory.create(run, overwrite)
            directory.save(trainer.snapshot(), run)  # from here on the folder does not need the module's first weights
        _steps(trainer, directory, run, history, several, checkpoint_seconds)
        counts = {"steps": trainer.counts.total, "skipped": trainer.counts.skipped, "rewinds": trainer.counts.rewinds}
        if trainer.diverged:
            module.load_state_dict(trainer.safe)
            if directory:
                _finish(directory, module, {"status": "diverged", **counts})
            raise TrainingDivergedError(
                f"Training diverged: after {counts['rewinds']} returns to safe weights at ever smaller steps it still "
                f"explodes at step {counts['steps']}; try a smaller rate or another seed."
            )
        predictor = module if isinstance(module, InContextModule) else ModulePredictor(module)
        evaluation = evaluate(predictor, task, settings.sequences, EVALUATION_SEED)
        training = {"engine": "torch", **asdict(settings)}
        if isinstance(module, InContextModule):
            module.info = {"task": task.specs, "training": training, "evaluation": plain(evaluation)}
        result = TorchResult(module, evaluation, history, **counts, seconds=time.perf_counter() - started)
        if directory:
            _finish(directory, module, result.as_json())
    return result


def resume_run(out: str | Path, *, device: Any = "auto", **options: Any) -> TorchResult:
    """Continue the run in a folder.

    Parameters
    ----------
    out: the folder of the run. Its config.json holds the module's architecture, the task and the settings.
    device: where to train, as in `train`.
    options: ``callbacks``, ``on_message`` and ``checkpoint_seconds`` of `train`.

    Returns a `TorchResult`. Raises `InputError` if there is no run in the folder, or if its module is not of this
    package: then use ``train(module, …, resume=True)``.

    >>> import tempfile, ridgeformer as rf
    >>> module = rf.torch.Transformer(rf.torch.Architecture("softmax", layers=1, dim=3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = rf.torch.train(module, rf.Task(3, 8), steps=20, batch=8, sequences=50, out=folder)
    ...     again = rf.torch.resume_run(folder, device="cpu")  # finished already, so it is only measured again
    >>> again.steps, again.evaluation == first.evaluation
    (20, True)
    """
    run = TorchDirectory(out).config()
    if "class" in run.module:
        raise InputError(
            f"The run in {out} has a module that is not of this package, {run.module['class']}: resume it from Python."
        )
    module = Architecture.from_json(run.module).make(seed=run.settings.seed, dtype=run.settings.dtype)
    return train(module, task_of(run.task), run.settings, out=out, resume=True, device=device, **options)


def task_of(specs: Mapping[str, Any]) -> Task:
    """The task that ``Task.specs`` describes; `InputError` for parts that are not the package's."""
    parts = dict(specs)
    mixture = parts.pop("mixture", None)
    for name in parts:
        one_of("The task: a name", name, Task.__dataclass_fields__)
    if mixture is None:
        return Task(**parts)
    return parse_mixture(mixture, Task(parts["dim"]))  # every component has all its parts in the text


def _place(module: nn.Module, device: Any, precision: str) -> None:
    """Move a module to the device, and convert it to the precision, in which it will be trained."""
    if next(module.parameters()).device.type == "meta":
        raise InputError("A module on the meta device has no weights to train.")
    if device is not None:
        module.to(choose_device(device))
    if precision != "auto":
        module.to(torch.float64 if precision == "float64" else torch.float32)


def _task(task: Any, module: nn.Module) -> Task:
    if isinstance(task, str):
        dim = whole_dim(module)
        return Task(dim, 2 * dim, task)
    task = instance("task", task, Task, " It can also be a noise prior such as 'uniform:5'.")
    if isinstance(module, InContextModule) and module.dim != task.dim:
        raise InputError(f"The module was made for {module.dim} features; the task has {task.dim}.")
    return task


def whole_dim(module: nn.Module) -> int:
    """The number of features of a module of this package."""
    if not isinstance(module, InContextModule):
        raise InputError("Pass a Task: the number of features of a module that is not of this package is not known.")
    return module.dim


def _settings(settings: TrainSettings | None, given: dict[str, Any]) -> TrainSettings:
    for name in given:
        one_of("A setting", name, [field.name for field in fields(TrainSettings)])
    return replace(TrainSettings() if settings is None else instance("settings", settings, TrainSettings), **given)


def _go_on(
    trainer: Trainer, directory: TorchDirectory, run: TorchRun, on_message: Callable[[str], object]
) -> list[dict[str, Any]]:
    if directory.config() != run:
        raise InputError(f"The run in {directory.path} has other settings than these; resume it with its own.")
    snapshot, complaints = directory.latest(_Holder(run))
    for complaint in complaints:
        on_message(complaint)
    if snapshot is not None:
        trainer.restore(snapshot)
    return directory.read_history()


@dataclass(frozen=True)
class _Holder:
    """What a run directory asks for when it looks for checkpoints."""

    config: TorchRun


def _steps(
    trainer: Trainer,
    directory: TorchDirectory | None,
    run: TorchRun,
    history: list[dict[str, Any]],
    callbacks: Sequence[Callback],
    checkpoint_seconds: float,
) -> None:
    """Take steps until the end, with a checkpoint every ``checkpoint_seconds``."""
    saved = time.monotonic()
    before = directory.read_seconds() if directory and history else {}
    started = saved - (before.get(history[-1]["total"], 0.0) if history else 0.0)
    try:
        with interrupts_held_back() as interrupts:
            while not (trainer.finished or trainer.diverged):
                info = trainer.step()
                if info.step % HISTORY_EVERY == 0 or info.skipped or trainer.finished:
                    history.append(plain(info))
                    if directory:
                        directory.append(history[-1], time.monotonic() - started)
                for callback in callbacks:
                    callback(info)
                if directory and time.monotonic() - saved >= checkpoint_seconds:
                    directory.save(trainer.snapshot(), run)
                    saved = time.monotonic()
                if interrupts:
                    raise KeyboardInterrupt
        if directory:
            directory.save(trainer.snapshot(), run)
    except KeyboardInterrupt as stopped:
        if directory is None:
            raise
        directory.save(trainer.snapshot(), run)
        raise TrainingInterruptedError(
            f"Stopped at step {trainer.counts.total}; continue with: ridgeformer train --resume {directory.path}"
        ) from stopped


def _finish(directory: TorchDirectory, module: nn.Module, result: dict[str, Any]) -> None:
    """Write the module, if it is one that can be read again, and the result."""
    if isinstance(module, LinearTransformer | Transformer):
        directory.finish(module, result)
    else:
        directory.finish(_Weights(module), result)


class _Weights:
    """The weights of a module that is not of this package, as a safetensors file for its own load_state_dict."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def save(self, path: Path) -> None:
        """Write the file whole or not at all."""
        import safetensors.torch

        from ridgeformer.core.storage import write_whole

        tensors = {name: tensor.detach().to("cpu").contiguous() for name, tensor in self.module.state_dict().items()}
        write_whole(path, safetensors.torch.save(tensors))


@contextlib.contextmanager
def _threads(count: int) -> Any:
    """Use this many threads of torch, and then as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
