"""Adjusted loss of a predictor on fresh sequences, with its error bar and its tail.

The adjusted loss is the loss ½(ŷ − y_t)² minus that of the oracle, ridge regression that is told σ. Averaged over the
query and over w given the data it is ½‖ŵ − w*‖² for every sequence, which is what is measured here: the same
expectation as the paper's estimate with far less variance, and never negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ridgeformer.checks import whole_number
from ridgeformer.context import Context
from ridgeformer.errors import InputError
from ridgeformer.forward import context_weights
from ridgeformer.model import LinearTransformer
from ridgeformer.streams import Purpose
from ridgeformer.task import ContextDraw, Task
from ridgeformer.types import Array

CHUNK = 32_768  # sequences in memory at a time: 32 MB of Gram matrices at d = 10 in float64


class Predictor(Protocol):
    """Anything that turns contexts into weights: a model, or a baseline."""

    def weights(self, context: Context) -> Array:
        """(batch, d) weights; the prediction for a query x is <weights, x>."""
        ...


@dataclass(frozen=True)
class Evaluation:
    """Adjusted loss over fresh sequences. Look at the tail, not only at the mean."""

    adjusted_loss: float
    """Mean over the sequences; infinite if any sequence gave a loss that is not finite."""
    standard_error: float
    median: float
    p99: float
    """The loss that 99 % of the sequences stay below."""
    maximum: float
    sequences: int
    diverged: int
    """Sequences whose loss is not finite."""

    @classmethod
    def of(cls, losses: Array) -> Evaluation:
        """Summarise the losses of sequences."""
        finite = np.isfinite(losses)
        safe = np.where(finite, losses, np.inf)
        bad = int(len(losses) - finite.sum())
        spread = float(np.std(losses, ddof=1)) if bad == 0 and len(losses) > 1 else float("inf")
        return cls(
            adjusted_loss=float(safe.mean()),
            standard_error=spread / float(np.sqrt(len(losses))),
            median=float(np.median(safe)),
            p99=float(np.quantile(safe, 0.99, method="higher")),
            maximum=float(safe.max()),
            sequences=len(losses),
            diverged=bad,
        )


def evaluate(
    predictor: LinearTransformer | Predictor,
    task: Task,
    sequences: int = 100_000,
    seed: int = 0,
    on_chunk: Callable[[int], None] | None = None,
) -> Evaluation:
    """Adjusted loss on fresh sequences of ``task``; the same sequences for every predictor with the same seed.

    Sequences are drawn in float64. ``on_chunk(done)`` is called as the work goes on.
    """
    sequences = whole_number("sequences", sequences, 1)
    losses, done = [], 0
    for draw in draw_chunks(task, sequences, seed):
        losses.append(adjusted_losses(predictor, draw.context, draw.oracle))
        done += len(losses[-1])
        if on_chunk is not None:
            on_chunk(done)
    return Evaluation.of(np.concatenate(losses))


def draw_chunks(
    task: Task, sequences: int, seed: int, purpose: Purpose = Purpose.EVALUATE, dtype: Any = np.float64
) -> Iterator[ContextDraw]:
    """Fresh sequences, a chunk at a time."""
    for step, start in enumerate(range(0, sequences, CHUNK)):
        count = min(CHUNK, sequences - start)
        yield task.draw_contexts(count, seed=seed, step=step, purpose=purpose, dtype=dtype, backend="fused")


def adjusted_losses(predictor: LinearTransformer | Predictor, context: Context, oracle: Array) -> Array:
    """½‖ŵ − w*‖² of every sequence, (batch,), in the precision of a model; infinite where it overflows."""
    if isinstance(predictor, LinearTransformer):
        narrow = Context(context.gram.astype(predictor.dtype, copy=False), context.examples)
        weights = context_weights(predictor, narrow, backend="fused")
    else:
        weights = predictor.weights(context)
    if weights.shape != oracle.shape:
        raise InputError(f"A predictor must give weights of shape {oracle.shape}, not {weights.shape}.")
    with np.errstate(over="ignore", invalid="ignore"):
        losses = 0.5 * ((weights.astype(np.float64) - oracle) ** 2).sum(axis=-1)
    return np.where(np.isnan(losses), np.inf, losses)
