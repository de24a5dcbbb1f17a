"""Spectral filters and the noise a model acts on, against closed forms and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import ridgeformer as rf
from ridgeformer.analysis import Sample, model_from_omega
from ridgeformer.analysis.filters import gdpp_filter, implied_noise, implied_penalty, rank_correlation, spectral_filters
from ridgeformer.core.forward import gram_weights
from support import make_examples, relative_error, tame_model

TASK = rf.Task(4, 12, "uniform:2")
SAMPLE = Sample.draw(TASK, 3000, seed=1)
CONTEXT = rf.Context.from_tokens(*make_examples(8, 12, 4, seed=3)[:2])


def test_gdpp_filter_is_the_model() -> None:
    model = tame_model("gdpp", 4, 2, 4, CONTEXT.gram, strength=2.0)
    spectrum = CONTEXT.spectrum
    for layer, factors in enumerate(gdpp_filter(model, spectrum.values), 1):
        expected = gram_weights(model.first_layers(layer), CONTEXT.gram)
        assert relative_error(spectrum.rotate_back(factors * spectrum.cross), expected) < 1e-10


def test_filters_tell_gdpp_from_models_that_adapt_to_noise() -> None:
    rescaling = np.array([[-0.02, -0.005, -0.04, -0.002], [0.0, 0.0, -0.1, 0.01]])  # λ is about 12 · 5
    models = tame_model("gdpp", 3, 1, 4, SAMPLE.context.gram, seed=2, strength=2.0), model_from_omega(rescaling, 4)
    gdpp, diag = (spectral_filters(model, SAMPLE, SAMPLE.layer_weights(model)) for model in models)
    for filters in (gdpp, diag):
        assert {band.band for band in filters.bands} == {band.label for band in SAMPLE.bands}
    assert gdpp.layers[-1].common_share > 0.999  # except for the width of the bins
    assert diag.layers[-1].common_share < 0.99
    assert gdpp.exact_difference is not None
    assert gdpp.exact_difference < 1e-10
    assert diag.exact_difference is None


def test_ridge_filter_of_a_band_is_one_over_s_plus_variance() -> None:
    fixed = Sample.draw(rf.Task(4, 12, "fixed:1.5"), 2000)
    model = tame_model("gdpp", 1, 1, 4, fixed.context.gram)
    (band,) = spectral_filters(model, fixed, fixed.layer_weights(model)).bands
    assert np.allclose(band.ridge, 1 / (np.array(band.values) + 1.5**2), rtol=0.05)  # bins have a width


def test_implied_penalty_of_ridge_is_its_penalty_and_at_its_ends_none_all_or_nonsense() -> None:
    values, _, cross = CONTEXT.spectrum
    for penalty in (0.3, 4.0, 50.0):
        assert np.allclose(implied_penalty(cross / (values + penalty), values, cross, 12), penalty, rtol=1e-4)
    for weights, penalty in ((cross / values, 0.0), (np.zeros((8, 4)), np.inf), (np.full((8, 4), np.inf), np.nan)):
        assert np.array_equal(implied_penalty(weights, values, cross, 12), np.full(8, penalty), equal_nan=True)


def test_implied_noise_of_the_oracle_is_the_noise() -> None:
    found = implied_noise(SAMPLE, SAMPLE.oracle[None])
    for band in found.bands:
        assert band.median == pytest.approx(band.sigma, rel=2e-3, abs=0.05)  # σ below √(n/1e4) counts as none
        assert band.distance < 1e-6
    assert found.correlations["sigma"] > 0.999
    assert found.correlations["sigma"] > found.correlations["Bayes"] > found.correlations["AdaRR"] > 0.5


def test_rank_correlation_is_spearmans_with_ties() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 20, 200).astype(float), rng.standard_normal(200)
    second += 0.2 * first
    assert rank_correlation(first, second) == pytest.approx(scipy.stats.spearmanr(first, second).statistic)
    assert rank_correlation(first, np.ones(200)) == 0.0
