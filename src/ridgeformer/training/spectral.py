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

import numpy as np

from ridgeformer.draws import GramDraw
from ridgeformer.evaluation import draw_chunks
from ridgeformer.model import LinearTransformer
from ridgeformer.streams import Purpose, token_rng
from ridgeformer.task import Task
from ridgeformer.training.pools import Pool, pool_function
from ridgeformer.training.quasi_newton import QuasiNewton
from ridgeformer.types import Array

_SEQUENCES = 131_072  # whose eigenvalues make the histogram: 1.3 million at d = 10
_BINS = 1024  # equally spaced in ln s: a bin spans under a percent of s
_MARGIN = 0.3  # of ln s beyond the extreme eigenvalues seen
_RAREST = 1e-9  # share of a bin that was never hit: about what a sample of this size cannot exclude
_STARTS = 6  # random first layers tried at each depth
_ITERATIONS = 400
_NEW_LAYER = 0.03  # size of a new layer's p relative to a random start: close to the identity, q free to learn
_NODES = 64  # of the quadrature of E σ²


def spectral_pool(task: Task, seed: int, number: int) -> Pool:
    """One-feature contexts that stand for the eigenvalues of the task's Σ."""
    pool_seed = int(token_rng(seed, Purpose.MINE, number).integers(2**63))
    found = [
        np.linalg.eigvalsh(draw.context.scatter).ravel()
        for draw in draw_chunks(task, _SEQUENCES, pool_seed, Purpose.MINE)
    ]
    values = np.concatenate(found)
    values = values[values > values.max() * task.dim * np.finfo(np.float64).eps]  # without empty directions
    logs = np.log(values)
    counts, edges = np.histogram(logs, _BINS, (logs.min() - _MARGIN, logs.max() + _MARGIN))
    shares = np.maximum(counts / _SEQUENCES, _RAREST)
    levels, weights = task.prior.quadrature(_NODES)
    return _one_feature(np.exp((edges[1:] + edges[:-1]) / 2), float(weights @ levels**2), shares)


def _one_feature(values: Array, variance: float, shares: Array) -> Pool:
    cross = np.sqrt(values * (values + variance))
    gram = np.stack([np.stack([values, cross], -1), np.stack([cross, cross**2 / values], -1)], -1)
    target = (cross / (values + variance))[:, None]
    return Pool(GramDraw(gram, target, target, target), shares * len(shares))


def fit_spectrum(task: Task, layers: int, seed: int, number: int) -> LinearTransformer:
    """The best GD++ model found for the task, float64, one head; deterministic in its arguments."""
    pool = spectral_pool(task, seed, number)
    grown: LinearTransformer | None = None
    for depth in range(1, layers + 1):
        candidates = [_descend(_start(depth, grown, seed, start), pool) for start in range(_STARTS)]
        if grown is not None:
            candidates.append(_descend(_start(depth, None, seed, _STARTS), pool))
        grown = min(candidates, key=lambda found: found[1])[0]
    assert grown is not None
    return LinearTransformer("gdpp", task.dim, dict(grown.parameters))


def _start(depth: int, grown: LinearTransformer | None, seed: int, start: int) -> LinearTransformer:
    """Random weights, or the model one layer less deep behind a new layer that hardly changes anything."""
    fresh = LinearTransformer.init("gdpp", layers=depth, dim=1, seed=seed * 1000 + start, scale=0.1, dtype=np.float64)
    if grown is None:
        return fresh
    new = fresh.parameters
    p = np.concatenate([_NEW_LAYER * new["p"][:1], grown.parameters["p"]])
    return fresh.replace({"p": p, "q": np.concatenate([new["q"][:1], grown.parameters["q"]])})


def _descend(model: LinearTransformer, pool: Pool) -> tuple[LinearTransformer, float]:
    """(model, ln loss) after a saturated descent, which survives bad starts, and twice the real one, rescaled."""
    vector, value = model.flatten(), float("inf")
    for saturation in (10.0, 0.0, 0.0):
        function = pool_function(model, pool, saturation)
        state = QuasiNewton.start(function, vector)
        for _ in range(_ITERATIONS):
            if state.converged:
                break
            state, vector, _ = state.iterate(function, vector)
        value = state.value
    return model.unflatten(vector), value
