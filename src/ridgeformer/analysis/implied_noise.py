"""The noise a model acts as if it had found: the penalty v for which ridge regression is closest to its ŵ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgeformer.analysis.samples import Sample
from ridgeformer.baselines import Bayes
from ridgeformer.baselines.least_squares import LeastSquares
from ridgeformer.core.context import Context
from ridgeformer.core.notation import Array

_GRID = 48  # penalties tried first, evenly in ln v
_RANGE = 1e4  # from n / 1e4 to n · 1e4: beyond, ridge is least squares, or zero, to four digits
_ROUNDS = 24  # of golden section between neighbours of the best: to 1e-5 of their distance
_GOLDEN = (np.sqrt(5) - 1) / 2
_CHUNK = 4096


@dataclass(frozen=True)
class ImpliedBand:
    """One layer's read-out in one band of noise: √v, where ridge regression with penalty v is closest to it."""

    layer: int
    """Counted from 1."""
    band: str
    sigma: float
    """Median of the true σ."""
    median: float
    quartiles: tuple[float, float]
    for_all: float
    """√v of the one v that is best for all contexts of the band together."""
    distance: float
    """‖ŵ − w*_v‖² over ‖ŵ‖², sums over the band with each context's own v: 0 if ŵ is a ridge regression."""


@dataclass(frozen=True)
class ReferenceBand:
    """What two estimators of σ say in the same band: medians."""

    band: str
    sigma: float
    ada: float
    """σ̂ of AdaRR."""
    bayes: float
    """E[σ | context]."""


@dataclass(frozen=True)
class ImpliedNoise:
    """Of all layers and bands."""

    bands: tuple[ImpliedBand, ...]
    references: tuple[ReferenceBand, ...]
    correlations: dict[str, float]
    """Rank correlation over all contexts of √v after the last layer with: "sigma", "AdaRR", "Bayes"."""


def implied_penalty(weights: Array, context: Context) -> Array:
    """(batch,): v ≥ 0 that minimises ‖ŵ − (Σ + v I)⁻¹ α‖², to about 1e-4 of itself; NaN where ŵ is not finite.

    0 and infinity stand for least squares and zero weights: the ends of the range that is searched.
    """
    values, vectors, cross = context.spectrum
    rotated = np.einsum("bij,bi->bj", vectors, weights)
    found = [
        _penalty(rotated[rows], values[rows], cross[rows], context.examples)
        for rows in (slice(start, start + _CHUNK) for start in range(0, len(rotated), _CHUNK))
    ]
    return np.where(np.isfinite(rotated).all(axis=1), np.concatenate(found), np.nan)


def _penalty(rotated: Array, values: Array, cross: Array, examples: int) -> Array:
    ends = np.log(examples / _RANGE), np.log(examples * _RANGE)
    grid = np.linspace(*ends, _GRID)

    def distance(log_penalty: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return ((rotated - cross / (values + np.exp(log_penalty)[:, None])) ** 2).sum(axis=1)

    tried = np.stack([distance(np.full(len(rotated), point)) for point in grid])
    best = tried.argmin(axis=0)
    low, high = grid[np.maximum(best - 1, 0)], grid[np.minimum(best + 1, _GRID - 1)]
    for _ in range(_ROUNDS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        nearer = distance(left) <= distance(right)
        low, high = np.where(nearer, low, left), np.where(nearer, right, high)
    middle = (low + high) / 2
    penalty = np.exp(middle)
    at_start, at_end = middle < ends[0] + 1e-3, middle > ends[1] - 1e-3
    return np.where(at_start, 0.0, np.where(at_end, np.inf, penalty))


def implied_noise(sample: Sample, weights: Array) -> ImpliedNoise:
    """Of every layer's read-out ``weights`` (layers, batch, d), beside the true σ, AdaRR's and the posterior mean."""
    context, sigma = sample.context, sample.drawn.sigma
    spectrum = context.spectrum
    ada = np.sqrt(LeastSquares.of(context).noise_variance)
    bayes = Bayes(sample.task.prior).noise_level(context)
    references = tuple(
        ReferenceBand(band.label, *(float(np.median(array[band.members])) for array in (sigma, ada, bayes)))
        for band in sample.bands
    )
    bands = []
    for layer, found in enumerate(weights, 1):
        penalty = implied_penalty(found, context)
        level = np.sqrt(penalty)
        rotated = sample.rotated(found)
        closest = spectrum.cross / (spectrum.values + penalty[:, None])
        for band in sample.bands:
            rows = band.members[np.isfinite(level[band.members]) | np.isinf(level[band.members])]
            if not len(rows):
                continue
            nearest = np.where(np.isinf(penalty[rows, None]), 0.0, closest[rows])
            with np.errstate(over="ignore", invalid="ignore"):  # an exploding model is at no finite distance
                size, gap = float((rotated[rows] ** 2).sum()), float(((rotated[rows] - nearest) ** 2).sum())
            lower, middle, upper = np.quantile(level[rows], (0.25, 0.5, 0.75), method="inverted_cdf")
            bands.append(
                ImpliedBand(
                    layer=layer,
                    band=band.label,
                    sigma=float(np.median(sigma[rows])),
                    median=float(middle),
                    quartiles=(float(lower), float(upper)),
                    for_all=_for_all(rotated[rows], spectrum.values[rows], spectrum.cross[rows], context.examples),
                    distance=gap / size if size > 0 else 0.0,
                )
            )
    named = {"sigma": sigma, "AdaRR": ada, "Bayes": bayes}
    correlations = {name: rank_correlation(level, other) for name, other in named.items()}
    return ImpliedNoise(tuple(bands), references, correlations)


def _for_all(rotated: Array, values: Array, cross: Array, examples: int) -> float:
    """√v of the one penalty for all these contexts: they are put end to end, as one with many directions."""
    found = _penalty(rotated.reshape(1, -1), values.reshape(1, -1), cross.reshape(1, -1), examples)
    return float(np.sqrt(found[0]))


def rank_correlation(first: Array, second: Array) -> float:
    """Spearman's, over places where both are numbers; 0 where either is constant."""
    kept = ~(np.isnan(first) | np.isnan(second))
    a, b = (_ranks(array[kept]) for array in (first, second))
    if len(a) < 2 or a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(values: Array) -> Array:
    """Places in ascending order; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]
