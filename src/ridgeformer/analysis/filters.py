"""The spectral filter of a model: by how much it multiplies α in each eigendirection of Σ.

In the eigenbasis of Σ, with eigenvalues s_j and a = Vᵀα, ridge regression is the filter ŵ_j = a_j / (s_j + v). A gdpp
model is a filter as well, ŵ_j = f(s_j) a_j with one polynomial f for all contexts, exactly (`gdpp_filter`). A diag
model is one with an f that depends on the context, and a full model need not be one at all. So the coefficient
ŵ_j / a_j is regressed on s_j, band of noise by band of noise: within a bin of s the least-squares coefficient is
Σ ŵ_j a_j / Σ a_j², and the share of Σ ŵ_j² that these coefficients explain says how much of a filter the model is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgeformer.analysis.omega import omega_of
from ridgeformer.analysis.samples import Sample, typical
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.validation import InputError

_BINS = 24  # of s, each with as many eigenvalues


@dataclass(frozen=True)
class BandFilter:
    """The coefficients of one layer's read-out in one band of noise."""

    layer: int
    """Counted from 1."""
    band: str
    values: tuple[float, ...]
    """s in the middle of each bin: the mean, weighted by a²."""
    coefficients: tuple[float, ...]
    """ŵ_j / a_j, least squares over the bin."""
    ridge: tuple[float, ...]
    """The same for ridge regression that is told σ."""


@dataclass(frozen=True)
class LayerFilter:
    """How much of a filter one layer's read-out is: shares of Σ ŵ_j²."""

    layer: int
    common_share: float
    """Explained by one f(s) for all contexts; 1 for gdpp, but for the width of the bins."""
    band_share: float
    """Explained by one f(s) for each band of noise."""


@dataclass(frozen=True)
class Filters:
    """Filters of all layers."""

    bands: tuple[BandFilter, ...]
    layers: tuple[LayerFilter, ...]
    exact_difference: float | None
    """gdpp only: largest relative difference between ŵ and f(Σ) α with the polynomial f of its ω."""


def gdpp_filter(model: LinearTransformer, values: Array) -> Array:
    """f_l(s), (layers, …), of a gdpp model at eigenvalues s ≥ 0 of any shape: ŵ_l = f_l(Σ) α, exactly.

    Lemma 4.3 with ω_xy = ω_yy = 0, in the eigenbasis: M = m(Σ), α^l = m (1 − s f) α, Σ^l = m² s, so that
    f' = f − ω_yx m² (1 − s f) and m' = (1 + ω_xx m² s) m.
    """
    if model.kind != "gdpp":
        raise InputError(
            f"Only a gdpp model is one filter f(Σ) for all contexts; what a {model.kind} model does to α depends on y."
        )
    s = np.asarray(values, np.float64)
    m, f, found = np.ones_like(s), np.zeros_like(s), []
    for xx, _, yx, _ in omega_of(model):
        f, m = f - yx * m**2 * (1 - s * f), (1 + xx * m**2 * s) * m
        found.append(f)
    return np.stack(found)


def spectral_filters(model: LinearTransformer, sample: Sample, weights: Array) -> Filters:
    """Filters of every layer's read-out ``weights`` (layers, batch, d) on the contexts of ``sample``."""
    values, _, cross = sample.context.spectrum
    oracle = sample.rotated(sample.drawn.oracle)
    edges = np.quantile(values, np.linspace(0, 1, _BINS + 1)[1:-1])
    place = np.searchsorted(edges, values)
    kept = typical(sample.losses(weights[-1]))
    bands, layers = [], []
    for layer, found in enumerate(weights, 1):
        rotated = sample.rotated(found)
        usable = kept & np.isfinite(rotated).all(axis=1)
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
        seen = rotated[usable]
        layers.append(LayerFilter(layer, _explained(seen, one_for_all), _explained(seen, by_band[usable])))
    return Filters(tuple(bands), tuple(layers), _exact_difference(model, sample, weights[-1]))


def _binned(place: Array, found: Array, cross: Array, values: Array) -> tuple[Array, Array, Array]:
    """Of every bin: Σ ŵ a / Σ a², the mean of s weighted by a², and whether anything is in it."""
    square = np.bincount(place.ravel(), (cross**2).ravel(), _BINS)
    product = np.bincount(place.ravel(), (found * cross).ravel(), _BINS)
    moment = np.bincount(place.ravel(), (values * cross**2).ravel(), _BINS)
    present = square > 0
    divisor = np.where(present, square, 1.0)
    return product / divisor, moment / divisor, present


def _explained(found: Array, by: Array) -> float:
    """1 − Σ (found − by)² / Σ found²."""
    total = float((found**2).sum())
    return 1 - float(((found - by) ** 2).sum()) / total if total > 0 else 1.0


def _exact_difference(model: LinearTransformer, sample: Sample, weights: Array) -> float | None:
    if model.kind != "gdpp":
        return None
    spectrum = sample.context.spectrum
    expected = spectrum.rotate_back(gdpp_filter(model, spectrum.values)[-1] * spectrum.cross)
    with np.errstate(invalid="ignore"):
        size = np.abs(expected).max(axis=1)
        return float((np.abs(weights - expected).max(axis=1) / np.where(size == 0, 1.0, size)).max())
