"""GD++ models trained on eigenvalues alone.

A GD++ layer multiplies features by functions of Σ and moves targets by functions linear in y, so the model is
ŵ = f(Σ) α with a polynomial f that its ω decide. In the eigenbasis Σ = V diag(s) Vᵀ let a = Vᵀα, so that
E[a_j² | s, σ] = s_j (s_j + σ²). With v = E σ² the expected adjusted loss is

    ½ E Σ_j s_j (s_j + v) (f(s_j) − 1/(s_j + v))²  +  the adjusted loss of ridge regression with penalty v.

So the best a GD++ model of any depth can do is ConstRR with v = E σ², and training it is the fit of a polynomial to
1/(s + v) over the distribution of eigenvalues: contexts with one feature, Σ = s and α = √(s(s + v)), one for each bin
of a histogram of eigenvalues. Depth is grown a layer at a time: a new first layer starts close to the identity.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ridgeformer.core.distributions import Fixed, mean_variance
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw, Purpose, token_rng
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError
from ridgeformer.training.optimisers import QuasiNewton
from ridgeformer.training.pools import Pool, pool_function
from ridgeformer.training.stages import Run, Stage, StepInfo, TrainState, flat

_SEQUENCES = 131_072  # whose eigenvalues make the histogram: 1.3 million at d = 10
_TAIL = 0.1  # share of the eigenvalues on either side to which the tails are fitted
_RAREST, _RAREST_DEEP = 1e-8, 1e-7  # contexts whose more extreme eigenvalues are left out; deep from four layers on,
_DEEP = 4  # where giving up those costs nothing: losses stay below 2 on a context with eigenvalue 110, one in 1e8
_TRUSTED = 20  # eigenvalues in a bin that are better than a fit: ±22 %
_BINS = 1024  # equally spaced in ln s: a bin spans under a percent of s
_MARGIN = 0.3  # of ln s beyond the extreme eigenvalues seen
_SHAKE = 0.1  # relative change of the older layers in every other start: it finds the way out of some poor minima
_NEW_LAYER = 0.03  # size of a new layer's p relative to a random start: close to the identity, q free to learn
_SEED = 0  # of the contexts whose eigenvalues are taken
_ENOUGH = 1e-8  # excess over the best ridge regression that ends the search where there is noise, and a loss of 1e-3


@dataclass(frozen=True, kw_only=True)
class SpectralStage(Stage):
    """The best GD++ model, fitted in a single step of a few seconds; larger kinds can start from it."""

    steps: int = 1
    starts: int = 6
    """How many random first layers are tried at each depth."""
    iterations: int = 1000
    """The largest number of iterations of L-BFGS in each descent."""

    def step(self, run: Run, state: TrainState) -> tuple[TrainState, StepInfo]:
        """Fit a GD++ model and turn it into one of the run's kind."""
        config = run.config
        fitted = fit_spectrum(run.task, config.layers, config.seed, run.given, self.starts, self.iterations)
        vector = flat(run.adopt(fitted))
        loss = run.score(state.kind, vector)
        state = replace(state, vector=vector, step=1, total=state.total + 1, smoothed=loss)
        return state, StepInfo(self.name, 1, state.total, loss, loss, rate=1.0)


def spectral_pool(task: Task, layers: int = 1) -> Pool:
    """One-feature contexts that stand for the eigenvalues of the task's Σ; their mean loss is E ½ Σ_j … above."""
    values, shares = _spectrum(task.dim, task.examples, _RAREST if layers < _DEEP else _RAREST_DEEP)
    variance = mean_variance(task.prior)
    cross = np.sqrt(values * (values + variance))
    gram = np.stack([np.stack([values, cross], -1), np.stack([cross, cross**2 / values], -1)], -1)
    target = (cross / (values + variance))[:, None]
    return Pool(GramDraw(gram, target, target, target), shares * len(shares))


@lru_cache(maxsize=4)
def _spectrum(dim: int, context: int, rarest: float) -> tuple[Array, Array]:
    """Bins of eigenvalues of Σ and how many of a context's fall into each, the same ones in every run."""
    draws = Task(dim, context, Fixed(0.0)).chunks(_SEQUENCES, _SEED, Purpose.MINE)
    values = np.concatenate([np.linalg.eigvalsh(draw.context.scatter).ravel() for draw in draws])
    values = values[values > values.max() * dim * np.finfo(np.float64).eps]  # without empty directions
    logs = np.log(values)
    counts, edges = np.histogram(logs, _BINS, (logs.min() - _MARGIN, logs.max() + _MARGIN))
    centres = np.exp((edges[1:] + edges[:-1]) / 2)
    return centres, _with_smooth_tails(counts, centres, (abs(context - dim) + 1) / 2, rarest) / _SEQUENCES


def _with_smooth_tails(counts: Array, centres: Array, power: float, rarest: float) -> Array:
    """Counts in bins of ln s, with those of the thin tails replaced by fits to the thicker parts of the tails.

    Far out the density of an eigenvalue of a Wishart matrix falls as s^k e^{−s/2} above and as s^{(|n−d|−1)/2} below,
    one power more in ln s. Without the fits a polynomial of degree 3^L would chase the few extreme eigenvalues that
    were seen; with tails of any thinness it would give up accuracy everywhere for what never happens.
    """
    total, running = counts.sum(), np.cumsum(counts)
    fitted = counts.astype(np.float64)
    for tail, known, terms in (
        (running > (1 - _TAIL) * total, -centres / 2, (np.ones_like(centres), np.log(centres))),
        (running < _TAIL * total, power * np.log(centres), (np.ones_like(centres), centres, centres**2)),
    ):
        trusted = tail & (counts >= _TRUSTED)
        if trusted.sum() <= len(terms):
            continue  # a task with hardly any spread of eigenvalues
        design, weight = np.stack(terms, axis=-1), np.sqrt(counts[trusted])
        aim = np.log(counts[trusted]) - known[trusted]
        solution = np.linalg.lstsq(design[trusted] * weight[:, None], aim * weight, rcond=None)[0]
        fitted = np.where(tail & ~trusted, np.exp(np.minimum(known + design @ solution, np.log(_TRUSTED))), fitted)
    rare = np.minimum(np.cumsum(fitted), np.cumsum(fitted[::-1])[::-1]) < rarest * _SEQUENCES
    return np.where(rare, 0.0, fitted)


def fit_spectrum(
    task: Task,
    layers: int,
    seed: int,
    given: LinearTransformer | None = None,
    starts: int = SpectralStage.starts,
    iterations: int = SpectralStage.iterations,
) -> LinearTransformer:
    """The best GD++ model found for the task, float64, one head; deterministic in its arguments.

    Grown layer by layer, from a ``given`` GD++ model with fewer layers if there is one.
    """
    pool = spectral_pool(task, layers)
    enough = _ENOUGH if mean_variance(task.prior) > 0 else 0.0
    grown = None if given is None else _single_head(given, layers)
    for depth in range(1 if grown is None else grown.layers + 1, layers + 1):
        best, lowest = None, float("inf")
        for start in range(starts + 1):
            first = _start(depth, None if start == starts else grown, seed, start, depth * starts + start)
            model, value = _descend(first, pool, enough, iterations)
            if best is None or value < lowest:
                best, lowest = model, value
            if np.exp(lowest) < enough:
                break
        grown = best
    assert grown is not None
    return LinearTransformer("gdpp", task.dim, dict(grown.parameters))


def _single_head(model: LinearTransformer, layers: int) -> LinearTransformer:
    """The same GD++ function with one feature and one head, p and q of a size."""
    if model.kind != "gdpp" or model.layers > layers:
        raise InputError(f"GD++ and noise-free runs start from a gdpp model of at most {layers} layers.")
    p = model.omega().astype(np.float64)[:, None, [0, 2]]
    size = np.sqrt(np.linalg.norm(p, axis=-1, keepdims=True)) + 1e-30  # a layer that does nothing has p = 0
    return LinearTransformer("gdpp", 1, {"p": p / size, "q": size})


def _start(depth: int, grown: LinearTransformer | None, seed: int, start: int, shake: int) -> LinearTransformer:
    """Random weights, or the model one layer less deep, perhaps shaken, behind a new layer that does almost nothing."""
    fresh = LinearTransformer.init("gdpp", layers=depth, dim=1, seed=seed, start=start, scale=0.1, dtype=np.float64)
    if grown is None:
        return fresh
    shaken, rng, parameters = start % 2 * _SHAKE, token_rng(seed, Purpose.INIT, shake), {}
    for name, size in (("p", _NEW_LAYER), ("q", 1.0)):
        old = grown.parameters[name]
        old = old * (1 + shaken * rng.standard_normal(old.shape))
        parameters[name] = np.concatenate([size * fresh.parameters[name][:1], old])
    return fresh.replace(parameters)


def _descend(model: LinearTransformer, pool: Pool, enough: float, iterations: int) -> tuple[LinearTransformer, float]:
    """(model, ln loss) after a descent on the saturated loss, which copes with bad starts, and two on the loss."""
    vector, value = model.flatten(), float("inf")
    for saturation in (10.0, 0.0, 0.0):
        function = pool_function(model, pool, saturation)
        state = QuasiNewton.start(function, vector)
        for _ in range(iterations):
            if state.converged or np.exp(state.value) < enough:
                break
            state, vector, _ = state.iterate(function, vector)
        value = state.value
    return model.unflatten(vector), value
