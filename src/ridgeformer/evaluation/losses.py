"""Losses of a predictor on sequences whose w, σ and oracle are known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.forward import context_weights
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.random import Purpose, philox_key
from ridgeformer.core.task import ContextDraw, Task
from ridgeformer.core.validation import InputError

CHUNK = 32_768  # sequences in memory at a time: 32 MB of Gram matrices at d = 10 in float64


class Predictor(Protocol):
    """Anything that turns contexts into weights: a model, or a baseline."""

    def weights(self, context: Context) -> Array:
        """(batch, d) weights; the prediction for a query x is <weights, x>."""
        ...


def draw_chunks(
    task: Task, sequences: int, seed: int, purpose: Purpose = Purpose.EVALUATE, dtype: Any = np.float64
) -> Iterator[ContextDraw]:
    """Fresh sequences, a chunk at a time."""
    for step, start in enumerate(range(0, sequences, CHUNK)):
        count = min(CHUNK, sequences - start)
        yield task.draw_contexts(count, seed=seed, step=step, purpose=purpose, dtype=dtype, backend="fused")


def loss_chunks(model: LinearTransformer, task: Task, sequences: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """(adjusted, unadjusted) losses of a model on the sequences of `draw_chunks`, which are drawn in its precision.

    For tasks whose Gram matrices can be drawn; the sequences are the same to rounding, and never leave the processor's
    cache.
    """
    from ridgeformer.kernels import engine

    parameters = model.attention_matrices() if model.kind == "full" else model.omega()
    key = philox_key(seed, Purpose.EVALUATE)
    for step, start in enumerate(range(0, sequences, CHUNK)):
        count = min(CHUNK, sequences - start)
        sigma = task.draw_sigma(count, seed=seed, step=step, purpose=Purpose.EVALUATE)
        source = engine.make_source(sigma, task.examples, step, 0, key, model.dtype)
        adjusted, losses = engine.losses_from_source(parameters, task.dim, source).astype(np.float64)
        yield np.where(np.isnan(adjusted), np.inf, adjusted), np.where(np.isnan(losses), np.inf, losses)


def predicted_weights(predictor: LinearTransformer | Predictor, context: Context, oracle: Array) -> Array:
    """ŵ (batch, d), in the precision of a model. The Oracle is handed ``oracle``, since contexts do not tell σ."""
    if isinstance(predictor, LinearTransformer):
        narrow = Context(context.gram.astype(predictor.dtype, copy=False), context.examples)
        return context_weights(predictor, narrow, backend="fused")
    from ridgeformer.baselines import Oracle  # late: baselines are tuned with this package

    if isinstance(predictor, Oracle) and predictor.sigma is None:
        return oracle
    if not callable(getattr(predictor, "weights", None)):
        raise InputError(
            f"A predictor is a model or has a method weights(context); a {type(predictor).__name__} is not."
        )
    weights = np.asarray(predictor.weights(context))
    if weights.shape != oracle.shape:
        raise InputError(f"A predictor must give weights of shape {oracle.shape}, not {weights.shape}.")
    return weights


def half_square(weights: Array, aim: Array, metric: Array | None = None) -> Array:
    """½ Σ_j c_j (ŵ_j − aim_j)² of every sequence, (batch,), in float64; infinite where it overflows or is NaN.

    The expectation of ½(<ŵ, x> − <aim, x>)² over queries x whose coordinates are independent with variances
    ``metric`` = c (d,), by default 1.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        squares = (weights.astype(np.float64) - aim) ** 2
        losses = 0.5 * (squares if metric is None else squares * metric).sum(axis=-1)
    return np.where(np.isnan(losses), np.inf, losses)


def adjusted_losses(predictor: LinearTransformer | Predictor, context: Context, oracle: Array) -> Array:
    """½‖ŵ − w*‖² of every sequence, (batch,), in float64; infinite where it overflows."""
    return half_square(predicted_weights(predictor, context, oracle), oracle)
