"""Fixed pools of contexts for second-order training, in which the tail is sampled more often than it occurs.

A model of few parameters fits a pool so closely that it explodes on contexts the pool happens not to contain. So part
of a pool is drawn from a wider distribution, and every context carries its *importance*, the ratio of the true density
to that of the pool: means over the pool, weighted by importance, are unbiased for the task, and see the tail sooner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.objective import losses_and_gradient_on
from ridgeformer.core.random import GramDraw, Purpose, token_rng
from ridgeformer.core.task import ContextDraw, Task
from ridgeformer.evaluation import adjusted_losses, draw_chunks
from ridgeformer.training.hard_contexts import stretched, widened
from ridgeformer.training.quasi_newton import Function

_LEVELS = 4  # of stretching, the lowest being none
_SMALLEST_SIGMA = 1e-6  # below it the noise of a context is not recovered from its Gram matrix


class Pool(NamedTuple):
    """Contexts and what each counts for; the importances average to about 1."""

    contexts: GramDraw
    importance: Array  # (batch,)


Watch = Callable[[Array, Array], tuple[Array, Array]]
"""(losses, gradient) → what to take them for; tests of the guard inject NaN and Inf here."""


def pool_function(
    template: LinearTransformer, pool: Pool, saturation: float, threads: int | None = None, watch: Watch | None = None
) -> Function:
    """Flat parameters → (ln of the pool's mean loss, gradient); infinite where the model explodes."""

    def function(vector: Array) -> tuple[float, Array]:
        losses, gradient = losses_and_gradient_on(
            template.unflatten(vector), pool.contexts, "exact", saturation, "fused", threads, pool.importance
        )
        flat = gradient.flatten()
        if watch is not None:
            losses, flat = watch(losses, flat)
        with np.errstate(over="ignore", invalid="ignore"):
            bounded = saturation * np.log1p(losses / saturation) if saturation else losses
            mean = float((pool.importance * bounded).mean())
        if not (0 < mean < np.inf) or not np.isfinite(flat).all():
            return float("inf"), flat
        return float(np.log(mean)), flat / mean

    return function


def stretched_pool(task: Task, count: int, stretch: float, seed: int, number: int, widen: float = 1.0) -> Pool:
    """Contexts whose w and noise, and so their targets, are multiplied by one of a few factors b up to ``stretch``.

    Features are multiplied likewise, up to ``widen``; X is standard normal in n·d dimensions.

    z = (w, ξ/σ) is standard normal, in D = d + n dimensions. Under the even mixture of N(0, b_k² I), k = 1..K with
    b_1 = 1, the importance is K / Σ_k b_k^{−D} exp(½‖z‖²(1 − 1/b_k²)), which is at most K. Where there is no noise,
    z = w and D = d. float64.
    """
    parts = [(*part, part[1]) for part in _stretched_chunks(task, count, stretch, widen, seed, number)]
    return Pool(*_joined(parts)[:2])


def sifted_pool(
    model: LinearTransformer,
    task: Task,
    count: int,
    sift: int,
    stretch: float,
    seed: int,
    number: int,
    widen: float = 1.0,
) -> Pool:
    """``count`` of ``count``·``sift`` stretched contexts: the quarter that adds most to the mean, and some of the rest.

    The quarter is there in full and the others stand for all that were left out, so that the weighted mean is still
    that of the task; but contexts on which the model explodes are found among ``sift`` times as many.
    """
    total, worst = count * sift, count // 4
    rng = token_rng(seed, Purpose.SELECT, number)
    hard: list[tuple[GramDraw, Array, Array]] = []
    rest: list[tuple[GramDraw, Array, Array]] = []
    for contexts, importance in _stretched_chunks(task, total, stretch, widen, seed, number):
        share = importance * adjusted_losses(model, Context(contexts.gram, task.examples), contexts.oracle)
        for kept, order in (
            (hard, np.argsort(-share, kind="stable")[:worst]),
            (rest, np.flatnonzero(rng.random(len(share)) < (count - worst) / total)),
        ):
            kept.append((_rows(contexts, order), importance[order], share[order]))
    tail, tail_importance, tail_share = _joined(hard)
    order = np.argsort(-tail_share, kind="stable")[:worst]
    bulk, bulk_importance, bulk_share = _joined(rest)
    easy = np.flatnonzero(bulk_share < tail_share[order[-1]])
    standing_for = (total - len(order)) / max(1, len(easy))
    importance = np.concatenate([tail_importance[order], bulk_importance[easy] * standing_for])
    contexts = GramDraw(*(np.concatenate(pair) for pair in zip(_rows(tail, order), _rows(bulk, easy), strict=True)))
    return Pool(contexts, importance * len(importance) / total)


def _stretched_chunks(
    task: Task, count: int, stretch: float, widen: float, seed: int, number: int
) -> Iterator[tuple[GramDraw, Array]]:
    """(contexts, importance), a chunk at a time."""
    rng = token_rng(seed, Purpose.MINE, number)
    pool_seed = int(rng.integers(2**63))
    levels, widths = np.linspace(1.0, stretch, _LEVELS), np.linspace(1.0, widen, _LEVELS)
    for draw in draw_chunks(task, count, pool_seed, Purpose.MINE):
        batch = len(draw.sigma)
        factors = levels[rng.integers(_LEVELS, size=batch)]
        squares, dimensions = _squared_norm(draw)
        importance = _importance(squares * factors**2, dimensions, levels)
        contexts = stretched(draw, factors)
        if widen > 1.0:
            factors = widths[rng.integers(_LEVELS, size=batch)]
            squares = np.einsum("bii->b", draw.context.scatter) * factors**2
            importance = importance * _importance(squares, np.full(batch, task.examples * task.dim), widths)
            contexts = widened(contexts, draw.sigma, factors, task.examples)
        yield contexts, importance


def _importance(squares: Array, dimensions: Array, levels: Array) -> Array:
    """Density of N(0, I) over that of the even mixture of N(0, b² I), b in ``levels``, at points with these ‖z‖²."""
    log_ratios = 0.5 * squares[:, None] * (1 - levels**-2) - dimensions[:, None] * np.log(levels)
    ratios = np.exp(np.minimum(log_ratios, 700.0))  # exp(700) is about the largest number there is
    return len(levels) / ratios.sum(axis=-1)


def _squared_norm(draw: ContextDraw) -> tuple[Array, Array]:
    """(‖z‖², D): ‖w‖² + ‖ξ‖²/σ² with ‖ξ‖² = λ − 2⟨w, α⟩ + wᵀΣw, in d + n dimensions; ‖w‖² in d where σ is zero."""
    context, weights = draw.context, draw.weights
    noise = context.energy - 2 * np.einsum("bi,bi->b", weights, context.cross)
    noise += np.einsum("bi,bij,bj->b", weights, context.scatter, weights)
    audible = draw.sigma > _SMALLEST_SIGMA
    ratio = np.where(audible, np.maximum(noise, 0.0) / np.where(audible, draw.sigma, 1.0) ** 2, 0.0)
    return (weights**2).sum(axis=-1) + ratio, context.dim + np.where(audible, context.examples, 0)


def _rows(contexts: GramDraw, order: Array) -> GramDraw:
    return GramDraw(*(array[order] for array in contexts))


def _joined(parts: list[tuple[GramDraw, Array, Array]]) -> tuple[GramDraw, Array, Array]:
    contexts, importance, share = zip(*parts, strict=True)
    together = GramDraw(*(np.concatenate(arrays) for arrays in zip(*contexts, strict=True)))
    return together, np.concatenate(importance), np.concatenate(share)
