"""Natural gradient: steps measured by how much they change the answers, and kept away from explosions.

**Steps.** The loss of a context is ½‖ŵ(θ) − w̄‖². Near θ its mean has the curvature H = E JᵀJ with J = ∂ŵ/∂θ (Gauss and
Newton's; it is also the Fisher information of answers with normal errors, so that a step −H⁻¹ gradient is the *natural
gradient* of Amari, 1998). The parameters of a deep model differ in scale by orders of magnitude and work against each
other; H knows both. For a few hundred to two thousand parameters it is a matrix that can be inverted.

**Curvature from gradients.** For random signs v, E (Jᵀv)(Jᵀv)ᵀ = JᵀJ, and Jᵀv is the gradient of a context whose target
is ŵ − v. The sum of a few such gradients, with signs of their own, is as good: what contexts have in common vanishes in
expectation. So H is a running mean of products of group gradients, which the kernels provide.

**Targets** are the posterior means w̄ = E[w | D] of the contexts, where there is a formula for them, instead of the
oracle w*. E[w* | D] = w̄, so the minimum is the same; but what no model can know does not add noise to the gradient.

**Calm.** A model that is best on the task explodes just beyond it: with features a quarter larger, or noise louder than
any it has seen. Such contexts are drawn too, a little farther out as the stage proceeds. The worst of them are
remembered. They add to gradient and curvature, with a small weight, as far as their losses are not bearable.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.distributions import Fixed
from ridgeformer.core.gradient import EXPLODED
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.objective import group_gradients
from ridgeformer.core.random import GramDraw, Purpose, joined, token_rng
from ridgeformer.core.task import Task
from ridgeformer.training.descent import DescentStage, Slope
from ridgeformer.training.optimisers import Metric, clip_norm
from ridgeformer.training.pools import Pool, is_standard, posterior_means, stretched, stretched_pool, widened, worst_of
from ridgeformer.training.stages import Run, StepInfo, TrainState, flat, saturated_mean, split_heads

_SIGNS = (-1.0, 1.0)
_LARGEST_SHARE = 0.02  # of the length of the parameters, in one step
_TOO_LARGE = 1e6  # losses beyond which a gradient says little
_OFTENER = 5  # factor by which the curvature is measured more often, once a stage had to go back
_TRIED = 65_536  # contexts from beyond the task, to see whether a model has such a loss
_LEVELS = 64  # noise levels that stand for a prior
_RETREATS, _RETREAT = 8, 0.8  # how often, and to which share, a context that explodes is taken back


@dataclass(frozen=True)
class Calm:
    """Contexts from beyond the task, on which a model shall not explode. Factors are reached in the course of a stage.

    Half of the contexts have larger features, the other half louder noise; the targets of all are larger.
    """

    widen: float = 1.25
    """Largest factor of the features."""
    reach: float = 2.0
    """Largest factor of the noise."""
    stretch: float = 1.25
    """Largest factor of the targets."""
    loudest: bool = False
    """Whether the noise of all contexts is the loudest of the task, before it is made louder."""
    rise: tuple[float, float] = (0.1, 0.6)
    """Between these shares of the stage's steps the factors grow from 1."""
    weight: float = 0.01
    """Of their mean loss, beside that of the task."""
    last_weight: float | None = None
    """Its value at the end of the stage, if it falls; it begins to fall when the factors have grown."""
    bearable: float = 3.0
    """Losses well below this add next to nothing."""
    exploding: float = 100.0
    """A model with a loss above this is not calm. Calm ones have less than 10 beyond the task."""
    saturation: float = 1.0
    every: int = 25
    """Steps between two searches."""
    search: int = 16_384
    """Contexts that are searched."""
    keep: int = 2048
    """Contexts that are remembered."""
    batch: int = 512
    """Contexts that add to each step."""

    def risen(self, share: float) -> float:
        """How far the factors have grown, from 0 to 1, after a share of the stage's steps."""
        begin, end = self.rise
        return float(np.clip((share - begin) / (end - begin), 0.0, 1.0))

    def weight_at(self, share: float) -> float:
        """The weight after a share of the stage's steps; it falls by the same factor in every step."""
        end = self.rise[1]
        if self.last_weight is None or share <= end:
            return self.weight
        return float(self.weight * (self.last_weight / self.weight) ** ((share - end) / (1 - end)))


@dataclass(frozen=True, kw_only=True)
class NaturalStage(DescentStage):
    """Natural gradient on a pool of contexts whose targets are posterior means."""

    rate: float = 0.2
    batch: int = 4096
    warmup: int = 50
    final: float = 0.05
    pool: int = 65_536
    """Contexts of the pool."""
    stretch: float = 1.3
    widen: float = 1.1
    """Of the pool; see `stretched_pool`."""
    sample: int = 4096
    """Contexts of a measurement of the curvature."""
    every: int = 10
    """Steps between two of them."""
    memory: float = 0.8
    """Share of the old curvature that is kept."""
    largest_change: float = 0.1
    """Longest gradient in the metric of H: a step changes answers by at most this, times the step size."""
    posterior: bool = True
    """Whether targets are posterior means, where the task has them; otherwise oracles."""
    calm: Calm | None = Calm()
    unless_borne: Calm | None = None
    """The stage is left out for a model that bears all contexts as far out as this says."""

    @property
    def contexts(self) -> int:
        """Batches, and what the curvature needs; every second model that may be restless is."""
        count = super().contexts + self.steps // self.every * self.sample
        return count // 2 if self.unless_borne else count

    def start(self, run: Run, state: TrainState) -> TrainState:
        """As in every stage; a given model is the result unless the stage makes a better one of it."""
        state = super().start(run, state)
        if self.origin == "given":
            state = replace(state, best_vector=state.vector, best_score=run.score(state.kind, state.vector))
        return state

    def grown(self, run: Run) -> LinearTransformer:
        """As in every stage, but heads are split where there are to be more.

        A head with p = 0 would have a q without curvature, until p has changed and q matters all at once: natural
        gradient explodes there. Adam does not, and does worse with heads that were split.
        """
        adopted = super().grown(run)
        return adopted if run.given is None else split_heads(adopted, run.given.heads)

    def step(self, run: Run, state: TrainState) -> tuple[TrainState, StepInfo]:
        """One step; or all of them at once, if the stage is not needed."""
        if self.unless_borne and state.step == 0 and not self._restless(run, state, self.unless_borne):
            state = replace(state, step=self.steps, total=state.total + self.steps)
            return state, StepInfo(self.name, state.step, state.total, state.best_score, state.best_score, 0.0)
        return super().step(run, state)

    def refreshed(self, state: TrainState) -> TrainState:
        """The state without a curvature."""
        return replace(state, curvature=None)

    def prepare(self, run: Run, state: TrainState, model: LinearTransformer) -> TrainState:
        """Search for hard contexts and measure the curvature, each in its own rhythm."""
        rng = token_rng(run.config.seed, Purpose.SHUFFLE, 2 * state.total)
        calm = self.calm
        if calm is not None and (state.step % calm.every == 0 or state.memory is None):
            state = replace(state, memory=self._searched(run, state, model, calm, rng))
        # New layers change the curvature by orders of magnitude within a few steps, and an old one explodes the model.
        every = self.every if state.rate_factor == 1.0 else max(1, self.every // _OFTENER)
        if state.step % every == 0 or state.curvature is None:
            matrix = self._curvature(run, state, model, rng)
            old = state.curvature
            if old is not None:
                assert isinstance(old, Metric)
                matrix = self.memory * old.matrix + (1 - self.memory) * matrix
            if np.isfinite(matrix).all():
                state = replace(state, curvature=Metric(matrix))
        return state

    def slope(self, run: Run, state: TrainState, model: LinearTransformer) -> Slope:
        """Losses and gradient of a part of the pool, and of a part of the hard contexts."""
        pool, floor = run.keep(self._pool_name, lambda: self._draw(run))
        rng = token_rng(run.config.seed, Purpose.SHUFFLE, 2 * state.total + 1)
        contexts, importance = pool.rows(_turn(state.step, self.batch, len(pool.importance)))
        options = {"saturation": self.saturation, "importance": importance, "threads": run.threads}
        losses, gradient = run.losses_on(model, contexts, **options)
        vector = flat(gradient)
        if self.calm is not None and state.memory is not None:
            hard = state.memory.rows(rng.integers(len(state.memory.gram), size=self.calm.batch))
            matters = _unbearable(model, hard, self.calm.bearable)
            options = {"saturation": self.calm.saturation, "importance": matters, "threads": run.threads}
            _, push = run.losses_on(model, hard, **options)
            vector = vector + self.calm.weight_at(state.step / self.steps) * flat(push)
        return Slope(losses + floor, saturated_mean(losses, importance) + floor, vector)

    def change(self, state: TrainState, gradient: Array, rate: float) -> tuple[TrainState, Array]:
        """A natural gradient step."""
        if not isinstance(state.curvature, Metric):  # it could not be measured: everything explodes
            return state, np.zeros_like(gradient)
        with np.errstate(over="ignore", invalid="ignore"):
            step = -rate * state.curvature.natural(gradient, self.largest_change)
        if not np.isfinite(step).all():
            return state, np.zeros_like(gradient)
        # Near zero, where answers hardly depend on the parameters, the metric knows no bounds.
        return state, clip_norm(step, _LARGEST_SHARE * float(np.linalg.norm(state.vector)))

    def _restless(self, run: Run, state: TrainState, calm: Calm) -> bool:
        """Whether the model explodes on contexts from beyond the task: rare ones, so that many have to be tried."""
        model, calm = run.template(state.kind).unflatten(state.vector), replace(calm, search=_TRIED)
        rng = token_rng(run.config.seed, Purpose.SHUFFLE, 2 * state.total)
        contexts = beyond(model, run.task, calm, 1.0, rng, run.threads, retreats=0)
        return bool((losses_of(model, contexts) > calm.exploding).any())

    @property
    def _pool_name(self) -> tuple[float, ...]:
        """Stages with the same pool share it."""
        return self.pool, self.stretch, self.widen, self.posterior

    def _draw(self, run: Run) -> tuple[Pool, float]:
        """The pool, decided by the run's seed; and the mean loss of the posterior means on it."""
        pool = stretched_pool(run.task, self.pool, self.stretch, run.config.seed, 0, self.widen)
        targets = posterior_means(run.task, pool.contexts, run.threads) if self.posterior else None
        floor = 0.0
        if targets is not None:
            squares = ((targets - pool.contexts.oracle) ** 2).sum(axis=1)
            floor = 0.5 * float((pool.importance * squares).mean())
            pool = pool._replace(contexts=pool.contexts._replace(oracle=targets))
        dtype = run.config.dtype
        return Pool(pool.contexts.astype(dtype), pool.importance.astype(dtype)), floor

    def _searched(
        self, run: Run, state: TrainState, model: LinearTransformer, calm: Calm, rng: np.random.Generator
    ) -> GramDraw:
        """The worst contexts of those that are remembered and of a new search."""
        found = beyond(model, run.task, calm, calm.risen(state.step / self.steps), rng, run.threads)
        return worst_of(model, found if state.memory is None else joined([state.memory, found]), calm.keep)

    def _curvature(self, run: Run, state: TrainState, model: LinearTransformer, rng: np.random.Generator) -> Array:
        """JᵀJ of the pool and, with their weight, of the hard contexts."""
        pool, _ = run.keep(self._pool_name, lambda: self._draw(run))
        contexts, importance = pool.rows(_turn(state.step // self.every, self.sample, len(pool.importance)))
        matrix = curvature(model, contexts, importance, self.saturation, rng, run.threads)
        if self.calm is not None and state.memory is not None:
            hard = state.memory.rows(rng.integers(len(state.memory.gram), size=self.calm.batch))
            matters = _unbearable(model, hard, self.calm.bearable)
            own = curvature(model, hard, matters, self.calm.saturation, rng, run.threads)
            matrix = matrix + self.calm.weight_at(state.step / self.steps) * own
        return matrix


def _turn(number: int, size: int, pool: int) -> slice:
    """The contexts whose turn it is when ``size`` of a pool are taken at a time, again and again: no copy is made."""
    start = number % max(1, pool // size) * size
    return slice(start, start + size)


def _unbearable(model: LinearTransformer, contexts: GramDraw, bearable: float) -> Array:
    """How much each context matters, from 0 to 1."""
    losses = losses_of(model, contexts)
    return (losses**2 / (losses**2 + bearable**2)).astype(model.dtype)


def losses_of(model: LinearTransformer, contexts: GramDraw) -> Array:
    """Losses in float64, at most `EXPLODED`."""
    weights = model.weights(Context.unchecked(contexts.gram, 1)).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        losses = 0.5 * ((weights - contexts.oracle) ** 2).sum(axis=1)
    return np.where(losses < EXPLODED, losses, EXPLODED)


def beyond(
    model: LinearTransformer,
    task: Task,
    calm: Calm,
    risen: float,
    rng: np.random.Generator,
    threads: int | None,
    retreats: int = _RETREATS,
) -> GramDraw:
    """Contexts with larger targets and either larger features or louder noise, up to ``risen`` of what ``calm`` says.

    Where the model explodes beyond measure, the context is taken back towards the task until it hardly does, at most
    ``retreats`` times: there the gradient says how to move the edge outwards. Tasks whose parts are not those of the
    paper give contexts of their own, unchanged.
    """
    seed = int(rng.integers(2**63))
    if calm.loudest and is_standard(task):
        task = replace(task, noise=Fixed(task.prior.quadrature(_LEVELS)[0].max()))
    draw = task.draw_contexts(
        calm.search, seed=seed, purpose=Purpose.MINE, dtype=np.float64, backend="fused", threads=threads
    )
    plain, dtype = draw.as_gram_draw(), model.dtype
    if not is_standard(task):
        return plain.astype(dtype)
    shares, wide = rng.random((3, calm.search)), rng.random(calm.search) < 0.5
    largest = np.array([calm.stretch, calm.widen, calm.reach]) - 1
    shares[2] **= 0.25  # most of them far out
    excess = risen * largest[:, None] * shares * np.array([np.ones(calm.search), wide, ~wide])

    def distorted(rows: Array) -> GramDraw:
        stretch, widen, louder = 1 + excess[:, rows]
        contexts = stretched(plain.rows(rows), stretch)
        return widened(contexts, draw.sigma[rows], widen, task.most_examples, louder)

    contexts = distorted(np.arange(calm.search))
    for _ in range(retreats):
        exploded = np.flatnonzero(losses_of(model, contexts.astype(dtype)) > _TOO_LARGE)
        if not len(exploded):
            break
        excess[:, exploded] *= _RETREAT
        back = distorted(exploded)
        for array, new in zip(contexts[:4], back[:4], strict=True):
            array[exploded] = new
    return contexts.astype(dtype)


def curvature(
    model: LinearTransformer,
    contexts: GramDraw,
    importance: Array,
    saturation: float,
    rng: np.random.Generator,
    threads: int | None = None,
    backend: str = "fused",
) -> Array:
    """An unbiased estimate of the mean of JᵀJ, times importance and the slope of the saturated loss.

    Contexts that explode are left out. The moment of queries is not used: answers are compared as they are.
    """
    answers = model.weights(Context.unchecked(contexts.gram, 1))
    with np.errstate(over="ignore", invalid="ignore"):
        losses = 0.5 * ((answers.astype(np.float64) - contexts.oracle) ** 2).sum(axis=1)
    calm = losses < _TOO_LARGE
    answers = np.where(calm[:, None], answers, 0.0)
    slopes = np.where(calm, importance / (1 + np.where(calm, losses, 0.0) / saturation), 0.0)
    targets = answers - rng.choice(_SIGNS, size=answers.shape)
    probed = GramDraw(contexts.gram, contexts.weights, contexts.query, targets.astype(model.dtype))
    rows = group_gradients(model, probed, np.sqrt(slopes).astype(model.dtype), backend, threads)
    rows = rows[np.isfinite(rows).all(axis=1)]
    return rows.T @ rows / len(importance)
