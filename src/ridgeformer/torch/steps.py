"""One step of training a module: the package's contexts, its loss, an optimiser of torch, and the guard.

Contexts are drawn by NumPy, bit for bit those of `Task.draw_tokens` and `Task.draw_contexts` under the same seed and
step, and moved to the module's device. The loss is the package's exact one, ½(ŷ − <w*, x>)² averaged over queries,
where w* is the oracle: ridge regression that is told σ. Its expected gradient is that of the paper's loss, with less
noise. A module that gives weights ŵ is trained by ½‖ŵ − w*‖², without any query.

The guard is that of `ridgeformer.training.adam_stage`: steps that explode are skipped, and after some in a row the run
goes back to its last safe weights and halves the step size.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from ridgeformer.core.context import Context
from ridgeformer.core.gradient import EXPLODED
from ridgeformer.core.notation import Array
from ridgeformer.core.random import Purpose, query_rng
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, RidgeformerError
from ridgeformer.evaluation.scoring import draw_queries, probes_of
from ridgeformer.torch.checkpoints import Counts, Snapshot
from ridgeformer.torch.linear import LinearTransformer
from ridgeformer.torch.module import Tensor
from ridgeformer.torch.settings import OPTIMISERS, TrainSettings
from ridgeformer.torch.transformer import Transformer
from ridgeformer.training.optimisers import warmup_cosine
from ridgeformer.training.stages import SCORE_SATURATION, SMALLEST_FACTOR, StepInfo, saturated_mean

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


@contextlib.contextmanager
def mixed_precision(device: str, enabled: bool = True) -> Iterator[None]:
    """Products in bfloat16, or an error of one sentence where PyTorch cannot compute them.

    Some virtual machines announce the matrix unit of the processor (AMX), but PyTorch cannot use it there.
    """
    try:
        with torch.autocast(device, torch.bfloat16, enabled=enabled):
            yield
    except RuntimeError as failed:
        if not enabled or "could not create a primitive" not in str(failed):
            raise
        raise RidgeformerError(
            "PyTorch cannot use bfloat16 on this machine. Use float32, or set the environment variable "
            "ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16 and try again."
        ) from failed


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
        if is_causal(module):  # also at every prefix, where the target without noise has the same expected gradient
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
    """A module in training: it takes one step at a time, and knows all that a checkpoint needs."""

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
        with mixed_precision(self.device.type, settings.precision == "bfloat16"):
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
        """All that a checkpoint needs."""
        return Snapshot(replace(self.counts), self.module.state_dict(), self.safe, self.optimiser.state_dict())

    def restore(self, snapshot: Snapshot) -> None:
        """Continue from a snapshot exactly as the run would have; raises `InputError` if it is of another module."""
        try:
            self.module.load_state_dict(dict(snapshot.module), strict=True)
            self.optimiser.load_state_dict(snapshot.optimiser)
        except (RuntimeError, ValueError, KeyError) as unfit:
            raise InputError("The checkpoint belongs to another module or optimiser than this run.") from unfit
        self.safe = {name: tensor.to(self.device) for name, tensor in snapshot.safe.items()}
        self.counts = replace(snapshot.counts)
