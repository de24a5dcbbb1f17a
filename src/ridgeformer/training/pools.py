"""Tail control: training sees contexts on which a model nearly explodes far more often than they occur.

A model can be right on a hundred thousand contexts and give 1e10 on the next, because it is a polynomial of degree 3^L
in the data. A large λ = Σ y², or large features, cause this. Such contexts are far too rare in ordinary batches. So
contexts are

stretched  targets are multiplied, y ↦ b·y with b from 1 to a little more, which makes large λ common. The oracle is
           multiplied too, w* ↦ b·w*, so that it stays the right target;
widened    features are multiplied, X ↦ b·X, w and the noise do not change, and the oracle is computed again;
mined      drawn stretched, perhaps widened, and only the worst are kept: their gradient is added to each step of Adam;
sifted     drawn by the million; a fixed pool gets the worst of them, and a few others that represent the rest.

A *pool of contexts* is fixed, because second-order methods need a function without noise. A model with few parameters
fits a pool so closely that it explodes on contexts that are not in it. So part of the pool is stretched and widened,
and every context has an *importance*, the ratio of the true density to that of the pool. Means over the pool, weighted
by importance, are unbiased for the task and contain more of the tail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.gradient import EXPLODED
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.objective import losses_and_gradient_on
from ridgeformer.core.random import GramDraw, Purpose, joined, token_rng
from ridgeformer.core.task import ContextDraw, Task
from ridgeformer.evaluation import adjusted_losses
from ridgeformer.training.optimisers import Function, QuasiNewton
from ridgeformer.training.stages import Run, Stage, StepInfo, TrainState

_LEVELS = 4  # of stretching, the lowest being none
_NODES = 96  # of the quadrature over σ for posterior means
_SMALLEST_LEVEL = 1e-4  # of σ in it, relative to the largest: ridge regression cannot tell it from none
_SMALLEST_SIGMA = 1e-6  # below it the noise of a context is not recovered from its Gram matrix


class Pool(NamedTuple):
    """Contexts and their importances, which average to about 1."""

    contexts: GramDraw
    importance: Array  # (batch,)

    def rows(self, order: Array | slice) -> Pool:
        """The contexts with these numbers."""
        return Pool(self.contexts.rows(order), self.importance[order])


def stretched(contexts: GramDraw, factors: Array) -> GramDraw:
    """The contexts with targets multiplied by ``factors`` (batch,): G's last row and column, and the oracle, scale."""
    factors = factors.astype(contexts.oracle.dtype)[:, None]
    gram = contexts.gram.copy()
    gram[:, -1, :] *= factors
    gram[:, :, -1] *= factors
    return contexts._replace(gram=gram, weights=contexts.weights * factors, oracle=contexts.oracle * factors)


def widened(contexts: GramDraw, sigma: Array, factors: Array, examples: int, louder: Array | None = None) -> GramDraw:
    """The contexts with features multiplied by b = ``factors``, and the noise by l = ``louder``; w does not change.

    With c = Xᵀξ = α − Σw:  Σ ↦ b²Σ,  α ↦ b²Σw + b l c,  λ ↦ b²wᵀΣw + 2b l⟨w, c⟩ + l²‖ξ‖²,  and the oracle, as ever,
    is w + (Σ + σ²I)⁻¹(c − σ²w).
    """
    weights, scatter = contexts.weights, contexts.gram[:, :-1, :-1]
    loud = np.ones_like(factors) if louder is None else louder
    pushed = np.einsum("bij,bj->bi", scatter, weights)
    noise = contexts.gram[:, :-1, -1] - pushed
    along, across = np.einsum("bi,bi->b", weights, pushed), np.einsum("bi,bi->b", weights, noise)
    b, bl = factors[:, None], (factors * loud)[:, None]
    gram = contexts.gram.copy()
    gram[:, :-1, :-1] *= b[..., None] ** 2
    gram[:, :-1, -1] = gram[:, -1, :-1] = b**2 * pushed + bl * noise
    # λ = wᵀΣw + 2⟨w, c⟩ + ‖ξ‖², changed by what is new: without noise nothing is subtracted from itself.
    alone = gram[:, -1, -1] - along - 2 * across if louder is not None else 0.0
    gram[:, -1, -1] += (factors**2 - 1) * along + 2 * (factors * loud - 1) * across + (loud**2 - 1) * alone
    variance = (sigma * loud) ** 2
    if examples <= weights.shape[1]:  # Σ has no inverse, or hardly one
        oracle = Context.unchecked(gram, examples).ridge(variance)
    else:
        system = gram[:, :-1, :-1] + variance[:, None, None] * np.eye(weights.shape[1])
        right = bl * noise - variance[:, None] * weights
        oracle = weights + np.linalg.solve(system, right[..., None])[..., 0]
    return GramDraw(gram, weights, contexts.query, oracle)


@dataclass(frozen=True)
class Mining:
    """How hard contexts are found and used."""

    every: int = 500
    """Steps between two searches for hard contexts."""
    pool: int = 64
    """How many batches of stretched contexts are searched."""
    keep: int = 512
    """How many hard contexts add their gradient to each step."""
    memory: int = 4096
    """How many hard contexts are kept from one search to the next."""
    stretch: float = 1.5
    """Largest factor b of the targets."""
    widen: float = 1.0
    """Largest factor of the features."""
    largest_gradient: float = 0.2
    """The gradient of the hard contexts is shortened to this norm, which limits their influence."""
    first_step: int = 1000
    """Step of the first search: before it the model is still too far from a good one."""


def mine(
    model: LinearTransformer, task: Task, mining: Mining, *, batch: int, seed: int, step: int, memory: GramDraw | None
) -> GramDraw:
    """The worst contexts of a new pool and of ``memory``, worst first, at most ``mining.memory`` of them.

    Contexts with losses above `EXPLODED` are left out: their gradient overflows, and less extreme ones teach the same.
    """
    rng = token_rng(seed, Purpose.MINE, step)
    worst = [] if memory is None else [memory]
    for draw in task.chunks(mining.pool * batch, int(rng.integers(2**63)), Purpose.MINE, model.dtype):
        candidates = stretched(draw.as_gram_draw(), 1 + (mining.stretch - 1) * rng.random(len(draw.sigma)))
        if mining.widen > 1.0 and is_standard(task):
            factors = 1 + (mining.widen - 1) * rng.random(len(draw.sigma))
            candidates = widened(candidates, draw.sigma, factors, task.most_examples)
        worst.append(worst_of(model, candidates, mining.keep))
    return worst_of(model, joined(worst), mining.memory)


def is_standard(task: Task) -> bool:
    """Whether w, ξ/σ and X are standard normal and n is fixed; stretching and widening by importance need that."""
    return task.isotropic and isinstance(task.examples, int)


def worst_of(model: LinearTransformer, contexts: GramDraw, count: int) -> GramDraw:
    """The contexts with the largest losses below `EXPLODED`, worst first."""
    losses = _losses(model, contexts)
    order = np.argsort(np.where(losses < EXPLODED, -losses, np.inf), kind="stable")[:count]
    return contexts.rows(order)


def _losses(model: LinearTransformer, contexts: GramDraw) -> Array:
    context = Context.unchecked(contexts.gram, 1)  # models do not use the number of examples
    return adjusted_losses(model, context, contexts.oracle, contexts.moment)


def stretched_pool(task: Task, count: int, stretch: float, seed: int, number: int, widen: float = 1.0) -> Pool:
    """Contexts whose w and noise, and so their targets, are multiplied by one of a few factors b up to ``stretch``.

    Features are multiplied in the same way, up to ``widen``; X is standard normal in n·d dimensions.

    z = (w, ξ/σ) is standard normal, in D = d + n dimensions. Under the even mixture of N(0, b_k² I), k = 1..K with
    b_1 = 1, the importance is K / Σ_k b_k^{−D} exp(½‖z‖²(1 − 1/b_k²)), which is at most K. Where there is no noise,
    z = w and D = d. float64. Tasks whose w, ξ/σ or X are not standard normal are neither stretched nor widened.
    """
    return _joined(_stretched_chunks(task, count, stretch, widen, seed, number))


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

    The quarter is complete, and the others represent all that were left out, so that the weighted mean is still that of
    the task. But contexts on which the model explodes are found among ``sift`` times as many.
    """
    total, worst = count * sift, count // 4
    rng = token_rng(seed, Purpose.SELECT, number)
    parts, shares, samples = [], [], []
    for pool in _stretched_chunks(task, total, stretch, widen, seed, number):
        share = pool.importance * _losses(model, pool.contexts)
        sampled = rng.random(len(share)) < (count - worst) / total
        chosen = np.union1d(np.argsort(-share, kind="stable")[:worst], np.flatnonzero(sampled))
        parts.append(pool.rows(chosen))
        shares.append(share[chosen])
        samples.append(sampled[chosen])
    pool, share, sampled = _joined(parts), np.concatenate(shares), np.concatenate(samples)
    hard = np.argsort(-share, kind="stable")[:worst]
    easy = np.flatnonzero(sampled & (share < share[hard[-1]]))
    pool.importance[easy] *= (total - len(hard)) / max(1, len(easy))  # what each of them stands for
    pool = pool.rows(np.concatenate([hard, easy]))
    return pool._replace(importance=pool.importance * len(pool.importance) / total)


def posterior_means(task: Task, contexts: GramDraw, threads: int | None = None) -> Array | None:
    """E[w | D] of each context, (batch, d); None for tasks that are not standard, where it has no simple formula."""
    if not is_standard(task):
        return None
    from ridgeformer.kernels.group_posteriors import group_posteriors  # compiles

    levels, shares = task.prior.quadrature(_NODES)
    levels = np.maximum(levels, _SMALLEST_LEVEL * np.max(levels))
    batch, dim = contexts.oracle.shape
    prior = (np.zeros(dim), np.ones(dim), levels, shares)
    return group_posteriors(
        np.full(batch, task.most_examples), contexts.gram, *prior, learning=False, threads=threads
    ).mean


def _stretched_chunks(task: Task, count: int, stretch: float, widen: float, seed: int, number: int) -> Iterator[Pool]:
    """A stretched pool, a chunk at a time."""
    rng = token_rng(seed, Purpose.MINE, number)
    levels, widths = np.linspace(1.0, stretch, _LEVELS), np.linspace(1.0, widen, _LEVELS)
    for draw in task.chunks(count, int(rng.integers(2**63)), Purpose.MINE):
        batch = len(draw.sigma)
        if not is_standard(task):
            yield Pool(draw.as_gram_draw().astype(np.float64), np.ones(batch))
            continue
        factors = levels[rng.integers(_LEVELS, size=batch)]
        squares, dimensions = _squared_norm(draw)
        importance = _importance(squares * factors**2, dimensions, levels)
        contexts = stretched(draw.as_gram_draw(), factors)
        if widen > 1.0:
            factors = widths[rng.integers(_LEVELS, size=batch)]
            squares = np.einsum("bii->b", draw.context.scatter) * factors**2
            importance = importance * _importance(squares, np.full(batch, task.most_examples * task.dim), widths)
            contexts = widened(contexts, draw.sigma, factors, task.most_examples)
        yield Pool(contexts, importance)


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


def _joined(pools: Iterable[Pool]) -> Pool:
    contexts, importance = zip(*pools, strict=True)
    return Pool(joined(contexts), np.concatenate(importance))


@dataclass(frozen=True, kw_only=True)
class PoolStage(Stage):
    """Second order: L-BFGS on a fixed pool of contexts, in float64; ends early when it has converged."""

    pool: int
    """Contexts of the pool."""
    saturation: float = 0.0
    stretch: float = 1.3
    """Largest factor by which targets of the pool are multiplied; see `stretched_pool`."""
    widen: float = 1.0
    """Largest factor by which features of the pool are multiplied."""
    sift: int = 0
    """If positive, the pool is made of this many times as many contexts; see `sifted_pool`."""
    stream: int | None = None
    """Number of the random stream of the pool; None for the stage's place in the run."""

    @property
    def contexts(self) -> int:
        """The pool for each step; half of the steps, because it usually converges."""
        return self.steps * self.pool // 2

    def step(self, run: Run, state: TrainState) -> tuple[TrainState, StepInfo]:
        """One iteration. When it has converged the rest of the stage's steps count as done."""
        template = run.template(state.kind).astype(np.float64)
        pool = run.keep(state.stage, lambda: self._draw(run, state, template))
        function = pool_function(template, pool, self.saturation, run.threads, run.losses_on)
        known = state.curvature
        curvature = known if isinstance(known, QuasiNewton) else QuasiNewton.start(function, state.vector)
        vector, share = state.vector, 0.0
        lost = not np.isfinite(curvature.value)
        if not curvature.converged:
            curvature, vector, share = curvature.iterate(function, vector)
        done = self.steps - state.step if curvature.converged else 1
        loss = float(np.exp(curvature.value))
        state = replace(state, step=state.step + done, total=state.total + done, skipped=state.skipped + lost)
        state = replace(state, vector=vector, curvature=curvature, smoothed=loss)
        return state, StepInfo(self.name, state.step, state.total, loss, loss, share, lost)

    def _draw(self, run: Run, state: TrainState, template: LinearTransformer) -> Pool:
        """The pool: decided by the run's seed, the stage and, if sifted, the weights that the stage started from."""
        tails = (self.stretch, run.config.seed, state.stage if self.stream is None else self.stream, self.widen)
        if self.sift:
            return sifted_pool(template.unflatten(state.safe_vector), run.task, self.pool, self.sift, *tails)
        return stretched_pool(run.task, self.pool, *tails)


def pool_function(
    template: LinearTransformer,
    pool: Pool,
    saturation: float,
    threads: int | None = None,
    losses_on: Callable[..., tuple[Array, LinearTransformer]] = losses_and_gradient_on,
) -> Function:
    """Flat parameters → (ln of the pool's mean loss, gradient); infinite where the model explodes."""

    def function(vector: Array) -> tuple[float, Array]:
        model = template.unflatten(vector)
        options = {"saturation": saturation, "importance": pool.importance, "backend": "fused", "threads": threads}
        losses, gradient = losses_on(model, pool.contexts, **options)
        slopes = gradient.flatten()
        with np.errstate(over="ignore", invalid="ignore"):
            bounded = saturation * np.log1p(losses / saturation) if saturation else losses
            mean = float((pool.importance * bounded).mean())
        if not (0 < mean < np.inf) or not np.isfinite(slopes).all():
            return float("inf"), slopes
        return float(np.log(mean)), slopes / mean

    return function
