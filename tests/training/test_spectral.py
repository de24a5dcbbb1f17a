"""GD++ on eigenvalues: the identity it rests on, the limit it implies, and fits whose answer is known."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

import ridgeformer as rf
from plans import short_run, trail_of
from ridgeformer.baselines import ConstRR
from ridgeformer.core.notation import Array
from ridgeformer.evaluation import adjusted_losses
from ridgeformer.training import TrainConfig, spectral
from ridgeformer.training.adam_stage import AdamStage
from ridgeformer.training.spectral import fit_spectrum, spectral_pool
from support import refused, tame_model

# E σ²: of U(0, b), b²/3.
CASES = [
    (1, 3, 8, "uniform:2", 4 / 3),
    (2, 3, 8, "categorical:1+3", 5.0),
    (3, 10, 20, "uniform:5", 25 / 3),
    (4, 5, 3, "fixed:1", 1.0),
    (2, 4, 4, "uniform:1-3", 13 / 3),
    (3, 3, 8, "fixed:0", 0.0),
    (5, 2, 30, "categorical:0+1", 0.5),
]


def polynomial(model: rf.LinearTransformer, s: Array) -> Array:
    """f(s) of a GD++ model, from lemma 4.3 with b = δ = 0 in one eigendirection.

    There x_l = m x and ŵ = f a, so Σ_l = m² s, α_l = m (1 − s f) a, and the layer gives m' = (1 + ω_xx m² s) m and
    f' = f − ω_yx m² (1 − s f).
    """
    m, f = np.ones_like(s), np.zeros_like(s)
    for omega_xx, _, omega_yx, _ in model.omega():
        m, f = (1 + omega_xx * m**2 * s) * m, f - omega_yx * m**2 * (1 - s * f)
    return f


def excess(model: rf.LinearTransformer, context: rf.Context, variance: float) -> Array:
    """½ Σ_j s_j (s_j + v) (f(s_j) − 1/(s_j + v))² of every context; an empty direction, s = 0, adds nothing."""
    s = context.spectrum.values
    s = np.where(s > s.max() * 1e-12, s, 0.0)
    inverse = np.divide(1.0, s + variance, out=np.zeros_like(s), where=s + variance > 0)
    return 0.5 * (s * (s + variance) * (polynomial(model, s) - inverse) ** 2).sum(axis=-1)


def standard_errors(values: Array) -> float:
    """The mean in units of its standard error."""
    return float(values.mean() / (values.std() / np.sqrt(len(values))))


def random_model(layers: int, task: rf.Task, seed: int) -> rf.LinearTransformer:
    gram = task.draw_contexts(2000, seed=1).context.gram
    return tame_model("gdpp", layers, 2, task.dim, gram, seed=seed, strength=3.0)


@pytest.mark.parametrize(("layers", "dim", "n", "noise", "variance"), CASES)
def test_polynomial_times_cross_is_what_a_gdpp_model_computes(
    layers: int, dim: int, n: int, noise: str, variance: float
) -> None:
    task = rf.Task(dim, n, noise)
    model, context = random_model(layers, task, 0), task.draw_contexts(50, seed=2).context
    values, _, cross = spectrum = context.spectrum
    expected = rf.context_weights(model, context)
    np.testing.assert_allclose(spectrum.rotate_back(polynomial(model, values) * cross), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("layers", "dim", "n", "noise", "variance"), CASES)
def test_adjusted_loss_of_a_gdpp_model_is_its_distance_from_ridge_plus_the_loss_of_ridge(
    layers: int, dim: int, n: int, noise: str, variance: float, seed: int
) -> None:
    task = rf.Task(dim, n, noise)
    model, draw = random_model(layers, task, seed), task.draw_contexts(40_000, seed=3, backend="fused")
    measured = adjusted_losses(model, draw.context, draw.oracle)
    ridge = adjusted_losses(ConstRR(variance), draw.context, draw.oracle)
    distance = excess(model, draw.context, variance)
    assert distance.mean() > 1e-3
    # Paired: both sides on the same contexts.
    assert abs(standard_errors(measured - ridge - distance)) < 4
    # The control: with another v the sides differ.
    wrong = 4 * variance + 4
    other = adjusted_losses(ConstRR(wrong), draw.context, draw.oracle) + excess(model, draw.context, wrong)
    assert abs(standard_errors(measured - other)) > 8


@lru_cache(maxsize=32)
def fit(dim: int, n: int, noise: str, layers: int) -> rf.LinearTransformer:
    return fit_spectrum(rf.Task(dim, n, noise), layers, seed=0, starts=2)  # as good here as with six, and sooner


def trained_by_adam(layers: int, task: rf.Task) -> rf.LinearTransformer:
    config = TrainConfig(kind="gdpp", layers=layers, dim=task.dim, examples=task.examples, noise=task.prior.spec)
    stage = AdamStage(name="adam", steps=300, rate=0.02, batch=256, origin="init", init_scale=0.1, warmup=20)
    run = short_run(config, [stage])
    return run.model(trail_of(run)[-1][0]).astype(np.float64)


@pytest.mark.parametrize("source", ["random", "trained by Adam", "fitted"])
@pytest.mark.parametrize(
    ("layers", "dim", "n", "noise", "variance"),
    [(1, 3, 8, "uniform:2", 4 / 3), (3, 3, 8, "categorical:1+3", 5.0), (2, 5, 3, "fixed:1", 1.0)],
)
def test_gdpp_never_beats_ridge_with_the_mean_noise_variance(
    layers: int, dim: int, n: int, noise: str, variance: float, source: str
) -> None:
    task = rf.Task(dim, n, noise)
    makers = {
        "random": lambda: random_model(layers, task, 2),
        "trained by Adam": lambda: trained_by_adam(layers, task),
        "fitted": lambda: fit(dim, n, noise, layers),
    }
    model, draw = makers[source](), task.draw_contexts(100_000, seed=4, backend="fused")
    measured = adjusted_losses(model, draw.context, draw.oracle)
    assert standard_errors(measured - adjusted_losses(ConstRR(variance), draw.context, draw.oracle)) > -3
    if source != "random":  # the models are good ones: far better than none at all
        assert measured.mean() < 0.5 * (draw.oracle**2).sum(axis=-1).mean()


# --- the pool of eigenvalues ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("layers", "dim", "n", "noise", "variance"), CASES)
def test_spectral_pool_has_the_moments_of_wishart_eigenvalues_and_the_mean_noise_variance(
    layers: int, dim: int, n: int, noise: str, variance: float
) -> None:
    gram, _, _, oracle, _ = (pool := spectral_pool(rf.Task(dim, n, noise))).contexts
    s, cross, energy = gram[:, 0, 0], gram[:, 0, 1], gram[:, 1, 1]
    shares = pool.importance / len(s)
    np.testing.assert_allclose(gram[:, 1, 0], cross)
    np.testing.assert_allclose(cross**2, s * (s + variance), rtol=1e-12)
    np.testing.assert_allclose(oracle[:, 0], cross / (s + variance), rtol=1e-12)
    np.testing.assert_allclose(energy, s + variance, rtol=1e-12)
    # E tr Σ⁰ counts directions with data; E tr Σ = nd; E tr Σ² = nd(n + d + 1). 131 072 contexts and bins of a percent.
    assert shares.sum() == pytest.approx(min(n, dim), rel=1e-3)
    assert shares @ s == pytest.approx(n * dim, rel=0.01)
    assert shares @ s**2 == pytest.approx(n * dim * (n + dim + 1), rel=0.01)


# --- fits -------------------------------------------------------------------------------------------------------------


def value_of(model: rf.LinearTransformer, task: rf.Task) -> float:
    """The excess over ridge of the mean noise variance, on eigenvalues of fresh contexts."""
    levels, weights = task.prior.quadrature(64)
    return float(excess(model, task.draw_contexts(20_000, seed=5).context, float(weights @ levels**2)).mean())


@pytest.mark.parametrize(("layers", "dim", "n", "noise", "variance"), CASES)
def test_fit_of_one_layer_is_the_best_step_of_gradient_descent(
    layers: int, dim: int, n: int, noise: str, variance: float
) -> None:
    model = fit(dim, n, noise, 1)
    # f is a constant: E Σ s / E Σ s(s + v), by Wishart moments nd / (nd(n + d + 1) + v nd). Moments of the
    # pool are within a percent.
    assert polynomial(model, np.ones(1))[0] == pytest.approx(1 / (n + dim + 1 + variance), rel=0.01)


@pytest.mark.parametrize(("dim", "n", "noise"), [(3, 8, "categorical:1+3"), (5, 3, "fixed:1")])
def test_fit_of_more_layers_is_never_worse(dim: int, n: int, noise: str) -> None:
    task = rf.Task(dim, n, noise)
    values = [value_of(fit(dim, n, noise, layers), task) for layers in (1, 2, 3)]
    assert (np.diff(values) < 0).all()
    assert values[1] < values[0] / 3  # by a lot: measured, a factor 4 to 20 per layer
    assert values[2] < values[1] / 3


def test_fit_of_five_layers_without_noise_is_below_a_millionth() -> None:
    task = rf.Task(10, 20, "uniform:0")
    model = fit(10, 20, "uniform:0", 5)
    assert rf.evaluate(model, task, 50_000).adjusted_loss < 1e-6
    assert (model.kind, model.layers, model.heads, model.dim, model.dtype.name) == ("gdpp", 5, 1, 10, "float64")


def test_fit_with_fewer_examples_than_features_is_close_to_ridge_and_far_better_than_random_models() -> None:
    task = rf.Task(5, 3, "fixed:1")
    found = value_of(fit(5, 3, "fixed:1", 3), task)
    assert found < 0.01
    assert found < 0.01 * min(value_of(random_model(3, task, seed), task) for seed in range(5))


def test_fit_depends_on_its_arguments_alone() -> None:
    task = rf.Task(3, 8, "uniform:2")
    first = fit_spectrum(task, 1, seed=0).flatten()
    spectral._spectrum.cache_clear()
    np.testing.assert_array_equal(fit_spectrum(task, 1, seed=0).flatten(), first)
    assert not np.array_equal(fit_spectrum(task, 1, seed=1).flatten(), first)  # other starts


# --- from a given model -----------------------------------------------------------------------------------------------


def test_fit_from_a_given_model_of_fewer_layers_is_better_than_it() -> None:
    task, given = rf.Task(3, 8, "categorical:1+3"), fit(3, 8, "categorical:1+3", 1)
    grown = fit_spectrum(task, 2, seed=5, given=given)
    assert grown.layers == 2
    assert value_of(grown, task) < value_of(given, task) / 3  # as from scratch


def test_fit_from_a_given_model_of_as_many_layers_is_the_same_function_in_one_head() -> None:
    task = rf.Task(3, 8, "uniform:2")
    given = random_model(2, task, 3)
    assert given.heads == 2
    same = fit_spectrum(task, 2, seed=5, given=given)
    assert same.heads == 1
    np.testing.assert_allclose(same.omega(), given.omega(), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("kind", "layers"), [("diag", 1), ("full", 1), ("gdpp", 3)])
def test_fit_from_a_model_of_another_kind_or_of_more_layers_is_one_clear_error(kind: str, layers: int) -> None:
    given = rf.LinearTransformer.init(kind, layers=layers, dim=3)
    refused("at most 2 layers", fit_spectrum, rf.Task(3, 8, "uniform:2"), 2, seed=0, given=given)
