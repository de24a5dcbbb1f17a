"""Spectral filters and the noise a model acts on, against closed forms and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import ridgeformer as rf
from ridgeformer.analysis import Sample, model_from_omega
from ridgeformer.analysis.filters import gdpp_filter, implied_noise, implied_penalty, rank_correlation, spectral_filters
from ridgeformer.core.forward import gram_weights
from support import make_examples, one_sentence, relative_error, tame_model

TASK = rf.Task(4, 12, "uniform:2")
SAMPLE = Sample.draw(TASK, 3000, seed=1)
CONTEXT = rf.Context.from_tokens(*make_examples(8, 12, 4, seed=3)[:2])


def test_gdpp_filter_is_the_model() -> None:
    model = tame_model("gdpp", 4, 2, 4, CONTEXT.gram, strength=2.0)
    spectrum = CONTEXT.spectrum
    for layer, factors in enumerate(gdpp_filter(model, spectrum.values), 1):
        expected = gram_weights(model.first_layers(layer), CONTEXT.gram)
        assert relative_error(spectrum.rotate_back(factors * spectrum.cross), expected) < 1e-10


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_gdpp_filter_of_other_kinds_is_refused_with_a_reason(kind: str) -> None:
    with pytest.raises(rf.InputError, match="Only a gdpp model") as caught:
        gdpp_filter(tame_model(kind, 2, 1, 4, CONTEXT.gram), np.ones(3))
    one_sentence(caught.value)


def test_filters_tell_gdpp_from_models_that_adapt_to_noise() -> None:
    shares, exact = {}, {}
    rescaling = np.array([[-0.02, -0.005, -0.04, -0.002], [0.0, 0.0, -0.1, 0.01]])  # λ is about 12 · 5
    models = {
        "gdpp": tame_model("gdpp", 3, 1, 4, SAMPLE.context.gram, seed=2, strength=2.0),
        "diag": model_from_omega(rescaling, 4),
    }
    for kind, model in models.items():
        found = spectral_filters(model, SAMPLE, SAMPLE.layer_weights(model))
        shares[kind], exact[kind] = found.layers[-1].common_share, found.exact_difference
        assert {band.band for band in found.bands} == {band.label for band in SAMPLE.bands}
    assert shares["gdpp"] > 0.999  # but for the width of the bins
    assert shares["diag"] < 0.99
    assert exact["gdpp"] is not None
    assert exact["gdpp"] < 1e-10
    assert exact["diag"] is None


def test_ridge_filter_of_a_band_is_one_over_s_plus_variance() -> None:
    fixed = Sample.draw(rf.Task(4, 12, "fixed:1.5"), 2000)
    model = tame_model("gdpp", 1, 1, 4, fixed.context.gram)
    (band,) = spectral_filters(model, fixed, fixed.layer_weights(model)).bands
    assert np.allclose(band.ridge, 1 / (np.array(band.values) + 1.5**2), rtol=0.05)  # bins have a width


@pytest.mark.parametrize("penalty", [0.3, 4.0, 50.0])
def test_implied_penalty_of_ridge_is_its_penalty(penalty: float) -> None:
    assert np.allclose(implied_penalty(CONTEXT.ridge(penalty), CONTEXT), penalty, rtol=1e-4)


def test_implied_penalty_of_least_squares_zero_and_nonsense() -> None:
    assert (implied_penalty(CONTEXT.ridge(0.0), CONTEXT) == 0).all()
    assert np.isinf(implied_penalty(np.zeros((8, 4)), CONTEXT)).all()
    assert np.isnan(implied_penalty(np.full((8, 4), np.inf), CONTEXT)).all()


def test_implied_noise_of_the_oracle_is_the_noise() -> None:
    found = implied_noise(SAMPLE, SAMPLE.drawn.oracle[None])
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
