"""ŵ in the eigenbasis of Σ: which filter of α a model is, and which ridge regression it comes nearest to.

**Filters.** In the eigenbasis of Σ, with eigenvalues s_j and a = Vᵀα, ridge regression is the filter
ŵ_j = a_j / (s_j + v). A gdpp model is one as well, ŵ_j = f(s_j) a_j with one polynomial f for all contexts, exactly
(`gdpp_filter`). A diag model is one with an f that depends on the context, and a full model need not be one at all. So
the coefficient ŵ_j / a_j is regressed on s_j, band of noise by band of noise: within a bin of s the least-squares
coefficient is Σ ŵ_j a_j / Σ a_j², and the share of Σ ŵ_j² that these coefficients explain says how much of a filter the
model is.

**Implied noise.** This is the noise level that a model acts as if it had found: √v of the penalty v whose ridge
regression is closest to its answer.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgeformer.analysis.diagonal import omega_of
from ridgeformer.analysis.noise_bands import Sample, typical
from ridgeformer.baselines import Bayes
from ridgeformer.baselines.least_squares import LeastSquares
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.theory.numerics import relative_difference

_BINS = 24  # of s, each with as many eigenvalues
_GRID = 48  # penalties tried first, evenly in ln v
_RANGE = 1e4  # from n / 1e4 to n · 1e4: beyond, ridge is least squares, or zero, to four digits
_ROUNDS = 24  # of golden section between neighbours of the best: to 1e-5 of their distance
_GOLDEN = (np.sqrt(5) - 1) / 2


@dataclass(frozen=True)
class BandFilter:
    """The filter of the answer after one layer, in one band of noise."""

    layer: int  # counted from 1, as everywhere
    band: str
    values: tuple[float, ...]  # s in the middle of each bin: the mean, weighted by a²
    coefficients: tuple[float, ...]  # ŵ_j / a_j, least squares over the bin
    ridge: tuple[float, ...]  # the same for ridge regression that is told σ


@dataclass(frozen=True)
class LayerFilter:
    """How much the answer after one layer is a filter: shares of Σ ŵ_j²."""

    layer: int
    common_share: float  # explained by one f(s) for all contexts; 1 for gdpp, except for the width of the bins
    band_share: float  # explained by one f(s) for each band of noise


@dataclass(frozen=True)
class Filters:
    """Filters of all layers."""

    bands: tuple[BandFilter, ...]
    layers: tuple[LayerFilter, ...]
    exact_difference: float | None  # gdpp only: largest, relative, of ŵ from f(Σ) α with the polynomial f of its ω


@dataclass(frozen=True)
class ImpliedBand:
    """The answer after one layer in one band of noise: √v of the ridge regression that is closest to it."""

    layer: int
    band: str
    sigma: float  # median of the true σ
    median: float
    quartiles: tuple[float, float]
    for_all: float  # √v of the one v that is best for all contexts of the band together
    distance: float  # ‖ŵ − w*_v‖² over ‖ŵ‖², sums over the band with each context's own v: 0 if ŵ is a ridge regression


@dataclass(frozen=True)
class ReferenceBand:
    """Two estimates of σ in the same band: medians."""

    band: str
    sigma: float
    ada: float  # σ̂ of AdaRR
    bayes: float  # E[σ | context]


@dataclass(frozen=True)
class ImpliedNoise:
    """Of all layers and bands."""

    bands: tuple[ImpliedBand, ...]
    references: tuple[ReferenceBand, ...]
    correlations: dict[str, float]  # rank correlation of √v after the last layer with: "sigma", "AdaRR", "Bayes"


def gdpp_filter(model: LinearTransformer, values: Array) -> Array:
    """f_l(s), (layers, …), of a gdpp model at eigenvalues s ≥ 0 of any shape: ŵ_l = f_l(Σ) α, exactly.

    Lemma 4.3 with ω_xy = ω_yy = 0, in the eigenbasis: M = m(Σ), α^l = m (1 − s f) α, Σ^l = m² s, so that
    f' = f − ω_yx m² (1 − s f) and m' = (1 + ω_xx m² s) m.
    """
    m, f, filters = np.ones_like(values), np.zeros_like(values), []
    for xx, _, yx, _ in omega_of(model):
        f, m = f - yx * m**2 * (1 - values * f), (1 + xx * m**2 * values) * m
        filters.append(f)
    return np.stack(filters)


def spectral_filters(model: LinearTransformer, sample: Sample, weights: Array) -> Filters:
    """Filters of every layer's read-out ``weights`` (layers, batch, d) on the contexts of ``sample``."""
    spectrum = sample.context.spectrum
    values, _, cross = spectrum
    oracle = sample.rotated(sample.oracle)
    edges = np.quantile(values, np.linspace(0, 1, _BINS + 1)[1:-1])
    place = np.searchsorted(edges, values)
    calm = typical(sample.losses(weights[-1]))
    bands, layers = [], []
    for layer, read_out in enumerate(weights, 1):
        rotated = sample.rotated(read_out)
        usable = calm & np.isfinite(rotated).all(axis=1)
        by_band = np.zeros_like(rotated)
        for band in sample.bands:
            rows = band.members[usable[band.members]]
            if not len(rows):
                continue
            at = place[rows]
            coefficient, middle, present = _binned(at, rotated[rows], cross[rows], values[rows])
            by_band[rows] = coefficient[at] * cross[rows]
            ridge, _, _ = _binned(at, oracle[rows], cross[rows], values[rows])
            columns = (tuple(map(float, column[present])) for column in (middle, coefficient, ridge))
            bands.append(BandFilter(layer, band.label, *columns))
        common, _, _ = _binned(place[usable], rotated[usable], cross[usable], values[usable])
        one_for_all = common[place[usable]] * cross[usable]
        shares = (_explained(rotated[usable], by) for by in (one_for_all, by_band[usable]))
        layers.append(LayerFilter(layer, *shares))
    exact = None
    if model.kind == "gdpp":
        exact = relative_difference(weights[-1], spectrum.rotate_back(gdpp_filter(model, values)[-1] * cross))
    return Filters(tuple(bands), tuple(layers), exact)


def _binned(place: Array, rotated: Array, cross: Array, values: Array) -> tuple[Array, Array, Array]:
    """Of every bin: Σ ŵ a / Σ a², the mean of s weighted by a², and whether anything is in it."""
    square = np.bincount(place.ravel(), (cross**2).ravel(), _BINS)
    product = np.bincount(place.ravel(), (rotated * cross).ravel(), _BINS)
    moment = np.bincount(place.ravel(), (values * cross**2).ravel(), _BINS)
    present = square > 0
    divisor = np.where(present, square, 1.0)
    return product / divisor, moment / divisor, present


def _explained(rotated: Array, by: Array) -> float:
    """1 − Σ (ŵ − by)² / Σ ŵ²."""
    total = float((rotated**2).sum())
    return 1 - float(((rotated - by) ** 2).sum()) / total if total > 0 else 1.0


def implied_penalty(rotated: Array, values: Array, cross: Array, examples: int) -> Array:
    """(batch,): v ≥ 0 that minimises ‖ŵ − (Σ + v I)⁻¹ α‖², to about 1e-4 of itself; NaN where ŵ is not finite.

    ŵ, s and a are (batch, d), in the eigenbasis. 0 and infinity stand for least squares and zero weights: the ends of
    the range that is searched.
    """
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
    at_start, at_end = middle < ends[0] + 1e-3, middle > ends[1] - 1e-3
    penalty = np.where(at_start, 0.0, np.where(at_end, np.inf, np.exp(middle)))
    return np.where(np.isfinite(rotated).all(axis=1), penalty, np.nan)


def implied_noise(sample: Sample, weights: Array) -> ImpliedNoise:
    """Of every layer's read-out ``weights`` (layers, batch, d), beside the true σ, AdaRR's and the posterior mean."""
    context, sigma, n = sample.context, sample.sigma, sample.task.typical_examples
    values, _, cross = context.spectrum
    ada = np.sqrt(LeastSquares.of(context).noise_variance)
    bayes = Bayes(sample.task.prior, of_weights=sample.task.weights).noise_level(context)
    references = tuple(
        ReferenceBand(band.label, *(float(np.median(array[band.members])) for array in (sigma, ada, bayes)))
        for band in sample.bands
    )
    bands = []
    for layer, read_out in enumerate(weights, 1):
        rotated = sample.rotated(read_out)
        penalty = implied_penalty(rotated, values, cross, n)
        level, closest = np.sqrt(penalty), cross / (values + penalty[:, None])
        for band in sample.bands:
            rows = band.members[~np.isnan(level[band.members])]
            if not len(rows):
                continue
            nearest = np.where(np.isinf(penalty[rows, None]), 0.0, closest[rows])
            with np.errstate(over="ignore", invalid="ignore"):  # an exploding model is at no finite distance
                size, gap = float((rotated[rows] ** 2).sum()), float(((rotated[rows] - nearest) ** 2).sum())
            lower, middle, upper = map(float, np.quantile(level[rows], (0.25, 0.5, 0.75), method="inverted_cdf"))
            # One penalty for all these contexts: they are put end to end, as one with many directions.
            joined, s, a = (array[rows].reshape(1, -1) for array in (rotated, values, cross))
            for_all = float(np.sqrt(implied_penalty(joined, s, a, n)[0]))
            distance = gap / size if size > 0 else 0.0
            median = float(np.median(sigma[rows]))
            bands.append(ImpliedBand(layer, band.label, median, middle, (lower, upper), for_all, distance))
    others = {"sigma": sigma, "AdaRR": ada, "Bayes": bayes}
    correlations = {name: rank_correlation(level, other) for name, other in others.items()}
    return ImpliedNoise(tuple(bands), references, correlations)


def rank_correlation(first: Array, second: Array) -> float:
    """Spearman's, over places where both are numbers; 0 where either is constant."""
    known = ~(np.isnan(first) | np.isnan(second))
    a, b = (_ranks(array[known]) for array in (first, second))
    if len(a) < 2 or a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _ranks(values: Array) -> Array:
    """Places in ascending order; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]
