"""Losses of a predictor on sequences whose w, σ and oracle are known.

A linear predictor is scored by its weights: over queries x ~ N(0, I), ½(<ŵ, x> − <w*, x>)² averages to ½‖ŵ − w*‖², so
no query is drawn. A general predictor is scored on queries, against the oracle on the same ones: ½(ŷ − <w*, x>)². Given
the data w has mean w*, so that is in expectation the loss ½(ŷ − <w, x>)² minus the oracle's, whatever ŷ is.

**The same sequences for both.** Gram matrices are drawn without rows, and a general predictor needs rows. Gaussian rows
(x, ξ/σ) are Z = U R with U uniform over matrices of orthonormal columns (Haar) and independent of R. So, given the Gram
matrix B Bᵀ of the tokens, U Bᵀ with such a U has the distribution of the tokens. In this way linear and other
predictors are compared on the same contexts.

**Few queries suffice.** They come in groups of d with orthogonal directions, each exactly N(0, I). For a linear
predictor the mean of ½<u, x>² over a group then has the variance 6/(d(d + 2)) of its square, where independent queries
have 2/d; with `_QUERIES` of them that adds a few percent to a standard error, which comes from sequences, not queries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ridgeformer.core.backend import engine
from ridgeformer.core.context import Context
from ridgeformer.core.features import draw_query_rows, haar
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.predictor import GeneralPredictor, Informed, LinearPredictor, Predictor
from ridgeformer.core.random import Purpose, query_rng
from ridgeformer.core.task import CHUNK, ContextDraw, Task
from ridgeformer.core.validation import InputError

LARGEST_LOSS = 1e38
"""A larger loss counts as not finite, also if it was computed in float64: float32 overflows there."""
_QUERIES = 20  # at least, for a general predictor
_NUMBERS = 8_000_000  # of tokens in memory at a time: 64 MB


def countable(losses: Array) -> Array:
    """Losses in float64, infinite where they are NaN or beyond `LARGEST_LOSS`."""
    losses = losses.astype(np.float64, copy=False)
    return np.where(losses <= LARGEST_LOSS, losses, np.inf)


def half_square(weights: Array, aim: Array, moment: Array | None = None) -> Array:
    """½(ŵ − aim)ᵀ M (ŵ − aim) of every sequence, (batch,).

    The expectation of ½(<ŵ, x> − <aim, x>)² over queries x. ``weights`` and ``aim`` are (batch, d); ``moment`` is
    M = E[x xᵀ]: None for I, (d, d) or (batch, d, d).

    >>> half_square(np.array([[1.0, 2.0]]), np.array([[1.0, 0.0]])).tolist()
    [2.0]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        error = weights.astype(np.float64) - aim
        if moment is None:
            return countable(0.5 * (error**2).sum(axis=-1))
        diagonal = np.diagonal(moment, axis1=-2, axis2=-1)
        if moment.ndim == 2 and (moment == np.diag(diagonal)).all():
            return countable(0.5 * (error**2 * diagonal).sum(axis=-1))
        pushed = (moment.astype(np.float64) @ error[..., None])[..., 0]
        # A moment has no negative eigenvalue, but rounding may leave −1e-17 where the error is in its null space.
        product = (error * pushed).sum(axis=-1)
        return countable(0.5 * np.where(product < 0, 0.0, product))


def adjusted_losses(predictor: LinearPredictor, context: Context, oracle: Array, moment: Array | None = None) -> Array:
    """Adjusted losses ½(ŵ − w*)ᵀ M (ŵ − w*) of a linear predictor, (batch,), in float64.

    ``oracle`` is w* (batch, d), and ``moment`` is M as in `half_square`. Raises `InputError` if the predictor gives
    weights of another shape.

    >>> import ridgeformer as rf
    >>> draw = rf.Task(3, 8).draw_contexts(5, seed=0)
    >>> adjusted_losses(rf.baselines.AdaRR(), draw.context, draw.oracle).shape
    (5,)
    """
    return half_square(_checked(predictor.weights(context), oracle), oracle, moment)


@dataclass(frozen=True)
class Probe:
    """Tokens and queries of some sequences of a draw."""

    rows: Any  # a slice, or the numbers of the sequences
    X: Array  # (rows, n, d)
    y: Array  # (rows, n)
    queries: Array  # (rows, m, d)


Probes = Callable[[], Iterator[Probe]]
"""Makes the tokens and queries of a draw, a few sequences at a time; the same ones at every call."""


def score(predictor: Predictor, draw: ContextDraw, probes: Probes) -> tuple[Array, Array]:
    """(adjusted losses, losses) of every sequence, (batch,) each."""
    if isinstance(predictor, Informed):
        weights = predictor.weights_from_draw(draw)
    elif isinstance(predictor, LinearPredictor):
        weights = predictor.weights(draw.context)
    else:
        return _general_losses(predictor, draw, probes)
    weights = _checked(weights, draw.oracle)
    return half_square(weights, draw.oracle, draw.moment), half_square(weights, draw.weights, draw.moment)


def _checked(weights: Any, aim: Array) -> Array:
    weights = np.asarray(weights)
    if weights.shape != aim.shape:
        raise InputError(f"A predictor must give weights of shape {aim.shape}, not {weights.shape}.")
    return weights


def _general_losses(predictor: GeneralPredictor, draw: ContextDraw, probes: Probes) -> tuple[Array, Array]:
    """Means over queries of ½(ŷ − <w*, x>)² and ½(ŷ − <w, x>)²."""
    losses = np.empty((2, len(draw.sigma)))
    for probe in probes():
        predictions = np.asarray(predictor.predict(probe.X, probe.y, probe.queries), np.float64)
        for row, aim in zip(losses, (draw.oracle, draw.weights), strict=True):
            target = np.einsum("bmd,bd->bm", probe.queries, aim[probe.rows])
            with np.errstate(over="ignore", invalid="ignore"):
                row[probe.rows] = (0.5 * (predictions - target) ** 2).mean(axis=1)
    adjusted, plain = countable(losses)
    return adjusted, plain


def probes_of(draw: ContextDraw, task: Task, seed: int, step: int, purpose: Purpose = Purpose.EVALUATE) -> Probes:
    """Tokens of the contexts that ``task`` drew with this seed, step and purpose, and queries."""
    if draw.parts:
        return lambda: _probes_of_parts(draw, step, purpose)

    def make() -> Iterator[Probe]:
        rng = query_rng(seed, purpose, step)
        for rows, n in _pieces(draw, task):
            if draw.tokens is not None:
                X, y = draw.tokens.X[rows][:, :n], draw.tokens.y[rows][:, :n]
            else:
                tokens = _tokens_behind(draw.context.gram[rows], n, rng)
                X, y = tokens[..., :-1], tokens[..., -1]
            queries = draw_queries(rng, len(X), task.dim)
            if not task.isotropic:
                moment = draw.moment if draw.moment is None or draw.moment.ndim == 2 else draw.moment[rows]
                queries = draw_query_rows(task.features, queries, moment, rng)
            yield Probe(rows, X, y, queries)

    return make


def _probes_of_parts(draw: ContextDraw, step: int, purpose: Purpose) -> Iterator[Probe]:
    """Those of every component of a mixture."""
    start = 0
    for task, seed, part in draw.parts:
        numbers = np.arange(start, start + len(part.sigma))
        for probe in probes_of(part, task, seed, step, purpose)():
            yield replace(probe, rows=numbers[probe.rows])
        start += len(numbers)


def _pieces(draw: ContextDraw, task: Task) -> Iterator[tuple[Any, int]]:
    """(sequences, their number of examples): a batch in parts of one n each, whose tokens fit in memory."""
    batch, n = len(draw.sigma), draw.context.examples
    count = max(1, _NUMBERS // (task.most_examples * task.dim))
    if isinstance(n, int):
        yield from ((slice(start, min(start + count, batch)), n) for start in range(0, batch, count))
        return
    for one in np.unique(n):
        places = np.flatnonzero(n == one)
        yield from ((places[start : start + count], int(one)) for start in range(0, len(places), count))


def draw_queries(rng: np.random.Generator, batch: int, dim: int) -> Array:
    """(batch, m, d) queries, each N(0, I), in groups of d with orthogonal directions."""
    groups = math.ceil(_QUERIES / dim)
    directions = haar(rng.standard_normal((batch, groups, dim, dim)))
    lengths = np.sqrt(rng.chisquare(dim, (batch, groups, dim, 1)))
    return (directions * lengths).reshape(batch, groups * dim, dim)


def _tokens_behind(gram: Array, examples: int, rng: np.random.Generator) -> Array:
    """(batch, n, p) tokens with these Gram matrices, with the distribution of Gaussian tokens given these."""
    gram = gram.astype(np.float64)
    size, empty = gram.shape[1], np.einsum("bii->bi", gram) <= 0
    if examples < size or empty.any() or (np.linalg.eigvalsh(gram[:, :-1, :-1])[:, 0] <= 1e-9).any():
        # Too few rows, or features in a subspace: any B with B Bᵀ = G can be used, such as V √s.
        values, vectors = np.linalg.eigh(gram)
        rank = min(examples, size)
        root = vectors[:, :, -rank:] * np.sqrt(np.maximum(values[:, -rank:], 0.0))[:, None, :]
        return haar(rng.standard_normal((len(gram), examples, rank))) @ root.transpose(0, 2, 1)
    factor = np.zeros_like(gram)
    factor[:, :-1, :-1] = np.linalg.cholesky(gram[:, :-1, :-1])
    factor[:, -1, :-1] = np.linalg.solve(factor[:, :-1, :-1], gram[:, :-1, -1:])[..., 0]
    residual = gram[:, -1, -1] - (factor[:, -1, :-1] ** 2).sum(axis=1)  # zero without noise, up to rounding
    factor[:, -1, -1] = np.sqrt(np.maximum(residual, 0.0))
    return haar(rng.standard_normal((len(gram), examples, size))) @ factor.transpose(0, 2, 1)


def loss_chunks(model: LinearTransformer, task: Task, sequences: int, seed: int) -> Iterator[tuple[Array, Array]]:
    """(adjusted losses, losses) of a model on the sequences of `Task.chunks`, drawn in its precision.

    For tasks that are `standard`. The sequences are the same up to rounding; they are drawn and used within the
    processor's cache.
    """
    for step, start in enumerate(range(0, sequences, CHUNK)):
        source = task.source(min(CHUNK, sequences - start), seed=seed, step=step, purpose=Purpose.EVALUATE)
        adjusted, losses = countable(engine().losses(model.compiled(), task.dim, source))
        yield adjusted, losses
