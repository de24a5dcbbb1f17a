"""Spectral filters and the noise a model acts on, against closed forms and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

import ridgeformer as rf
from ridgeformer.analysis import (
    Sample,
    gdpp_filter,
    implied_noise,
    implied_penalty,
    model_from_omega,
    momentum_terms,
    spectral_filters,
    step_sizes,
)
from ridgeformer.analysis.implied_noise import rank_correlation
from ridgeformer.analysis.samples import noise_bands, typical
from ridgeformer.core.forward import gram_weights
from ridgeformer.theory import momentum_layers
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


def test_first_layer_is_a_plain_gradient_step_whatever_the_noise() -> None:
    model = tame_model("diag", 3, 1, 4, SAMPLE.context.gram, seed=4)
    first = [step for step in step_sizes(model, SAMPLE.first(500)) if step.layer == 1]
    assert np.allclose([step.alignment for step in first], 1)
    assert np.allclose([step.step for step in first], -TASK.context * model.omega()[0, 2])
    assert [step.energy for step in first] == sorted(step.energy for step in first)


def test_momentum_terms_are_norms_of_the_lemma() -> None:
    model = tame_model("diag", 3, 2, 4, CONTEXT.gram)
    found = momentum_terms(model, CONTEXT)
    layer = momentum_layers(model, CONTEXT)[0]
    gradient = np.einsum("bij,bj->bi", layer.Pi, layer.descent)
    assert found[0].momentum == 0.0  # u = 0 at the start
    assert found[0].gradient == pytest.approx(1.0)
    assert relative_error(gradient, -gram_weights(model.first_layers(1), CONTEXT.gram)) < 1e-10


def test_momentum_of_a_full_model_is_refused_with_a_reason() -> None:
    with pytest.raises(rf.InputError, match="diag and gdpp models") as caught:
        momentum_terms(tame_model("full", 2, 1, 4, CONTEXT.gram), CONTEXT)
    one_sentence(caught.value)


@pytest.mark.parametrize(
    ("noise", "labels"),
    [
        ("uniform:5", ["0–1", "1–2", "2–3", "3–4", "4–5"]),
        ("categorical:1+3", ["1", "3"]),
        ("fixed:0", ["0"]),
    ],
)
def test_every_context_is_in_one_band(noise: str, labels: list[str]) -> None:
    prior = rf.parse_noise(noise)
    sigma = prior.sample(np.random.default_rng(0), 400)
    bands = noise_bands(sigma, prior)
    assert [band.label for band in bands] == labels
    assert sorted(np.concatenate([band.members for band in bands])) == list(range(400))
    assert all(((sigma[band.members] >= band.low) & (sigma[band.members] <= band.high)).all() for band in bands)


def test_typical_contexts_leave_out_explosions() -> None:
    losses = np.r_[np.ones(1999), np.inf]
    assert typical(losses).sum() == 1999
    assert not typical(np.full(3, np.inf)).any()


def test_sample_is_what_evaluate_draws() -> None:
    model = tame_model("diag", 2, 1, 4, CONTEXT.gram)
    sample = Sample.draw(TASK, 500, seed=7)
    expected = rf.evaluate(model, TASK, 500, seed=7)
    assert sample.losses(sample.layer_weights(model)[-1]).mean() == pytest.approx(expected.adjusted_loss, rel=1e-12)
