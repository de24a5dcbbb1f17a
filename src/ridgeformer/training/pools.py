"""Fixed pools of contexts for second-order training, in which the tail is sampled more often than it occurs.

A model of few parameters fits a pool so closely that it explodes on contexts the pool happens not to contain. So part
of a pool is drawn from a wider distribution, and every context carries its *importance*, the ratio of the true density
to that of the pool: means over the pool, weighted by importance, are unbiased for the task, and see the tail sooner.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ridgeformer.draws import GramDraw
from ridgeformer.evaluation import adjusted_losses, draw_chunks
from ridgeformer.model import LinearTransformer
from ridgeformer.objective import losses_and_gradient_on
from ridgeformer.streams import Purpose, token_rng
from ridgeformer.task import ContextDraw, Task
from ridgeformer.training.hard_contexts import stretched
from ridgeformer.training.quasi_newton import Function
from ridgeformer.types import Array

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


def stretched_pool(task: Task, count: int, stretch: float, seed: int, number: int) -> Pool:
    """Contexts whose w and noise, and so their targets, are multiplied by one of a few factors b up to ``stretch``.

    z = (w, ξ/σ) is standard normal in d + n dimensions. Under the even mixture of N(0, b_k² I), k = 1..K with b_1 = 1,
    the importance is K / Σ_k b_k^{−(d+n)} exp(½‖z‖²(1 − 1/b_k²)), which is at most K. float64.
    """
    rng = token_rng(seed, Purpose.MINE, number)
    pool_seed = int(rng.integers(2**63))
    levels = np.linspace(1.0, stretch, _LEVELS)
    parts, importances = [], []
    for draw in draw_chunks(task, count, pool_seed, Purpose.MINE):
        factors = levels[rng.integers(_LEVELS, size=len(draw.sigma))]
        parts.append(stretched(draw, factors))
        squares = _squared_norm(draw) * factors**2
        log_ratios = 0.5 * squares[:, None] * (1 - levels**-2) - (task.dim + task.context) * np.log(levels)
        ratios = np.exp(np.minimum(log_ratios, 700.0))  # exp(700) is about the largest number there is
        importances.append(_LEVELS / ratios.sum(axis=-1))
    return Pool(GramDraw(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True))), np.concatenate(importances))


def _squared_norm(draw: ContextDraw) -> Array:
    """‖w‖² + ‖ξ‖²/σ², with ‖ξ‖² = λ − 2⟨w, α⟩ + wᵀΣw; where there is no noise, ‖ξ‖²/σ² counts as its mean, n."""
    context, weights = draw.context, draw.weights
    noise = context.energy - 2 * np.einsum("bi,bi->b", weights, context.cross)
    noise += np.einsum("bi,bij,bj->b", weights, context.scatter, weights)
    audible = draw.sigma > _SMALLEST_SIGMA
    ratio = np.where(audible, noise / np.where(audible, draw.sigma, 1.0) ** 2, context.examples)
    return (weights**2).sum(axis=-1) + np.maximum(ratio, 0.0)


def sifted_pool(model: LinearTransformer, task: Task, count: int, sift: int, seed: int, number: int) -> Pool:
    """The worst ``count``/4 of ``count``·``sift`` contexts, each counting once, and a sample that stands for the rest.

    For tasks without noise, whose tail comes from the features and not from the size of the targets.
    """
    rng = token_rng(seed, Purpose.MINE, number)
    pool_seed = int(rng.integers(2**63))
    total, worst = count * sift, count // 4
    hard: list[tuple[GramDraw, Array]] = []
    rest: list[tuple[GramDraw, Array]] = []
    for draw in draw_chunks(task, total, pool_seed, Purpose.MINE):
        losses = adjusted_losses(model, draw.context, draw.oracle)
        arrays = draw.as_gram_draw()
        for kept, order in (
            (hard, np.argsort(-losses, kind="stable")[:worst]),
            (rest, np.flatnonzero(rng.random(len(losses)) < (count - worst) / total)),
        ):
            kept.append((GramDraw(*(array[order] for array in arrays)), losses[order]))
    tail, tail_losses = _joined(hard)
    order = np.argsort(-tail_losses, kind="stable")[:worst]
    bulk, bulk_losses = _joined(rest)
    easy = np.flatnonzero(bulk_losses < tail_losses[order[-1]])
    contexts = GramDraw(*(np.concatenate([a[order], b[easy]]) for a, b in zip(tail, bulk, strict=True)))
    importance = np.concatenate([np.ones(len(order)), np.full(len(easy), (total - len(order)) / max(1, len(easy)))])
    return Pool(contexts, importance * len(importance) / total)


def _joined(parts: list[tuple[GramDraw, Array]]) -> tuple[GramDraw, Array]:
    contexts = GramDraw(*(np.concatenate(arrays) for arrays in zip(*(part for part, _ in parts), strict=True)))
    return contexts, np.concatenate([losses for _, losses in parts])
