"""`train`: any module on a task, with torch's optimisers, the package's contexts and its run directories.

Contexts are drawn by NumPy, bit for bit those of `Task.draw_tokens` and `Task.draw_contexts` under the same seed and
step, and moved to the module's device. The loss is the package's exact one: ½(ŷ − <w*, x>)² against the oracle w*,
ridge regression that is told σ, averaged over queries; it has the expected gradient of the paper's loss with less
noise. A module that gives weights is trained by ½‖ŵ − w*‖², without any query.

The guard is that of `ridgeformer.training.adam_stage`: steps that explode are skipped, and after some in a row the run
goes back to its last safe weights at half the step size.
"""

from __future__ import annotations

import contextlib
import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ridgeformer.core.context import Context
from ridgeformer.core.gradient import EXPLODED
from ridgeformer.core.mixture import parse_mixture
from ridgeformer.core.notation import Array
from ridgeformer.core.random import Purpose, query_rng
from ridgeformer.core.storage import plain
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, instance, nonnegative, one_of
from ridgeformer.evaluation import evaluate
from ridgeformer.evaluation.scoring import draw_queries, probes_of
from ridgeformer.torch.checkpoints import Counts, Snapshot, TorchDirectory
from ridgeformer.torch.linear import LinearTransformer
from ridgeformer.torch.module import InContextModule, ModulePredictor, Tensor, choose_device
from ridgeformer.torch.settings import OPTIMISERS, TorchRun, TrainSettings
from ridgeformer.torch.transformer import Architecture, Transformer
from ridgeformer.training.optimisers import warmup_cosine
from ridgeformer.training.stages import SCORE_SATURATION, SMALLEST_FACTOR, StepInfo, saturated_mean
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

_SMOOTHING = 0.98  # a running mean over about fifty steps
_SAFE_EVERY = 100  # steps between snapshots to go back to
_PATIENCE = 20  # bad steps in a row before going back
_LARGEST_GRADIENT = 1.0  # norm to which a gradient is shortened


@dataclass(frozen=True)
class Batch:
    """Contexts of one step that have one number of examples, as the module takes them."""

    inputs: tuple[Tensor, ...]
    """X, y, queries; or Gram matrices alone, for a module that gives weights."""
    aim: Tensor
    """(batch, m) what the oracle predicts; or its weights (batch, d)."""
    moment: Tensor | None = None
    """E[x xᵀ] of queries, for a module that gives weights; None for I."""


def draw_batches(module: nn.Module, task: Task, settings: TrainSettings, step: int) -> list[Batch]:
    """The contexts of a step: those that NumPy draws under the same seed and step, bit for bit.

    As `Task.draw_contexts` draws them for a module that gives weights, as `Task.draw_tokens` for others. Where features
    or weights are not the paper's, contexts have rows and queries as `ridgeformer.evaluate` makes them.
    """
    first = next(module.parameters())
    names: dict[str, Any] = {"seed": settings.seed, "step": step, "purpose": Purpose.TRAIN}

    def there(*arrays: Any) -> list[Tensor]:
        return [torch.as_tensor(array).to(first.device, first.dtype) for array in arrays]

    def asked(X: Array, y: Array, queries: Array, oracle: Array, weights: Array) -> Batch:
        queries = queries[:, : settings.queries]
        aims = np.einsum("bmd,bd->bm", queries, oracle)
        if is_causal(module):  # at every prefix too, where the truth without noise has the same expected gradient
            aims = np.concatenate([np.einsum("bnd,bd->bn", X, weights), aims], axis=1)
        *inputs, aim = there(X, y, queries, aims)
        return Batch(tuple(inputs), aim)

    if gives_weights(module):
        drawn = task.draw_contexts(settings.batch, **names, dtype=str(first.dtype).removeprefix("torch."))
        gram, oracle = there(drawn.context.gram, drawn.oracle)
        return [Batch((gram,), oracle, None if drawn.moment is None else there(drawn.moment)[0])]
    if type(task) is Task and task.isotropic and isinstance(task.examples, int):
        tokens = task.draw_tokens(settings.batch, **names)
        queries = draw_queries(query_rng(settings.seed, Purpose.TRAIN, step), settings.batch, task.dim)
        oracle = Context.from_tokens(tokens.X, tokens.y).ridge(tokens.sigma**2)
        return [asked(tokens.X, tokens.y, queries, oracle, tokens.weights)]
    draw = task.draw_contexts(settings.batch, **names)
    return [
        asked(probe.X, probe.y, probe.queries, draw.oracle[probe.rows], draw.weights[probe.rows])
        for probe in probes_of(draw, task, settings.seed, step, Purpose.TRAIN)()
    ]


def gives_weights(module: Any) -> bool:
    """Whether a module can be trained on Gram matrices: the paper's, unless it was asked to use tokens."""
    return isinstance(module, LinearTransformer) and module.form != "tokens"


def is_causal(module: Any) -> bool:
    """Whether a module learns from every prefix."""
    return isinstance(module, Transformer) and module.architecture.causal


def losses(module: Any, forward: Callable[..., Tensor], batch: Batch) -> Tensor:
    """(batch,) loss of every context; ``forward`` is the module, perhaps compiled."""
    if len(batch.inputs) == 1:
        error = forward(*batch.inputs) - batch.aim
        pushed = error if batch.moment is None else (batch.moment @ error[..., None])[..., 0]
        return 0.5 * (error * pushed).sum(dim=1)
    if is_causal(module):
        X, y, queries = batch.inputs
        n, m = X.shape[1], queries.shape[1]
        prefixes = torch.cat([torch.arange(n), torch.full((m,), n)]).to(X.device)
        return 0.5 * (forward(X, y, torch.cat([X, queries], dim=1), prefixes) - batch.aim).square().mean(dim=1)
    return 0.5 * (forward(*batch.inputs) - batch.aim).square().mean(dim=1)


class Trainer:
    """A module on its way: one step at a time, and everything that has to be kept to go on later."""

    def __init__(self, module: nn.Module, task: Task, settings: TrainSettings) -> None:
        self.module, self.task, self.settings = module, task, settings
        self.counts = Counts()
        self.safe = copy.deepcopy(module.state_dict())
        self.optimiser = self._fresh_optimiser()
        self.device = next(module.parameters()).device
        forward: Any = (
            module.gram_weights if isinstance(module, LinearTransformer) and gives_weights(module) else module
        )
        self.forward = torch.compile(forward) if settings.compile else forward

    def _fresh_optimiser(self) -> Any:
        return OPTIMISERS[self.settings.optimiser](self.module.parameters(), lr=self.settings.rate)

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.counts.total >= self.settings.steps

    @property
    def diverged(self) -> bool:
        """Whether the guard has given up."""
        return self.counts.rate_factor < SMALLEST_FACTOR

    def step(self) -> StepInfo:
        """One step on fresh contexts, or none if they or their gradient have exploded."""
        counts, settings = self.counts, self.settings
        rate = settings.rate * counts.rate_factor * warmup_cosine(counts.total, settings.steps)
        batches = draw_batches(self.module, self.task, settings, counts.total)
        self.optimiser.zero_grad(set_to_none=True)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=settings.precision == "bfloat16"):
            found = torch.cat([losses(self.module, self.forward, batch) for batch in batches])
        bounded = SCORE_SATURATION * torch.log1p(found / SCORE_SATURATION)
        torch.where(found < EXPLODED, bounded, torch.zeros_like(bounded)).mean().backward()
        norm = nn.utils.clip_grad_norm_(self.module.parameters(), _LARGEST_GRADIENT)
        values = found.detach().to("cpu", torch.float64).numpy()
        robust = saturated_mean(values)
        exploded = not (values < EXPLODED).any() or robust > 10 * counts.lowest + 1  # far worse than the run has been
        bad, rewound = exploded or not math.isfinite(norm.item()), False
        counts.total += 1
        if bad:
            counts.skipped += 1
            counts.bad_in_a_row += 1
            if counts.bad_in_a_row >= _PATIENCE:
                self._rewind()
                rewound = True
        else:
            self._advance(rate, robust)
        with contextlib.suppress(FloatingPointError):
            loss = float(values.mean())
        return StepInfo("torch", counts.total, counts.total, loss, counts.smoothed, rate, bad, rewound)

    def _advance(self, rate: float, robust: float) -> None:
        counts = self.counts
        if counts.total % _SAFE_EVERY == 0:
            self.safe = copy.deepcopy(self.module.state_dict())
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        old = counts.smoothed
        counts.smoothed = robust if math.isnan(old) else _SMOOTHING * old + (1 - _SMOOTHING) * robust
        counts.lowest = min(counts.lowest, counts.smoothed)
        counts.bad_in_a_row = 0

    def _rewind(self) -> None:
        """Back to the last safe weights, with half the step size and a fresh optimiser."""
        self.module.load_state_dict(self.safe)
        self.optimiser = self._fresh_optimiser()
        self.counts.rewinds += 1
        self.counts.rate_factor /= 2
        self.counts.bad_in_a_row = 0

    def snapshot(self) -> Snapshot:
        """All that has to be kept."""
        return Snapshot(replace(self.counts), self.module.state_dict(), self.safe, self.optimiser.state_dict())

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot, as if nothing had happened; `InputError` if it is another module's."""
        try:
            self.module.load_state_dict(dict(snapshot.module), strict=True)
            self.optimiser.load_state_dict(snapshot.optimiser)
        except (RuntimeError, ValueError, KeyError) as unfit:
            raise InputError("The checkpoint is of another module or optimiser than this run has.") from unfit
        self.safe = {name: tensor.to(self.device) for name, tensor in snapshot.safe.items()}
        self.counts = replace(snapshot.counts)


class TorchResult(TrainResult):
    """A finished run: what `train` returns; its fields are those of `ridgeformer.TrainResult`, ``model`` the module."""


def describe(module: nn.Module) -> dict[str, Any]:
    """What config.json says of a module: its architecture, or the class and shapes of one that is not ours."""
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
    """Go on with the run in a folder, whose config says all; ``options`` are those of `train`.

    Only for modules of this package: of another one, a folder cannot make the class again.
    """
    run = TorchDirectory(out).config()
    if "class" in run.module:
        raise InputError(f"The run in {out} has a module of your own, {run.module['class']}; resume it from Python.")
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
    """Move a module to where, and bring it to the precision in which, it is to be trained."""
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
    """The number of features of a module of ours."""
    if not isinstance(module, InContextModule):
        raise InputError("Pass a Task: how many features a module that is not ours takes is not known.")
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
    """Step until the end, saving now and then."""
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
    """The bare weights of a module that is not ours, as a safetensors file for its own load_state_dict."""

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
    """So many threads of torch, and then as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
