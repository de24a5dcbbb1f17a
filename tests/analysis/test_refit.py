"""Fits on a fixed pool of contexts, and the diagonal model that best stands in for a full one."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.analysis import Sample, Tuner, diagonal_fit, model_from_omega, omega_of
from ridgeformer.analysis.diagonal import inert, natural_units
from ridgeformer.analysis.noise_bands import measure
from ridgeformer.analysis.refit import diagonal_model, jacobian, masked_form
from ridgeformer.core.notation import Array
from support import make_examples, relative_error, tame_model

TASK = rf.Task(3, 9, "uniform:2")
SAMPLE = Sample.draw(TASK, 1000)
TUNER = Tuner(TASK, 512)


def test_refit_from_an_exploding_start_is_drawn_towards_zero_and_recovers() -> None:
    start = np.array([[-0.05, 0.0, -0.05, 0.0]] * 5 + [[0.0, 0.0, -0.1, 0.0]]) * 30
    assert not np.isfinite(measure(model_from_omega(start, 3), SAMPLE).total.adjusted_loss)
    omega, loss = TUNER.fit_omega(start, ~inert(6))
    assert loss < 1.0
    assert measure(model_from_omega(omega, 3), SAMPLE).total.median < 0.5


def test_gradient_of_a_form_is_that_of_the_loss() -> None:
    form = masked_form(~inert(2), natural_units(TASK))
    theta = np.array([-0.2, -0.1, -0.3, -0.05, -0.8, 0.1])
    function = TUNER._function(form, theta, 0.0)
    _, gradient = function(theta)
    for place in range(len(theta)):
        step = np.zeros_like(theta)
        step[place] = 1e-5
        slope = (function(theta + step)[0] - function(theta - step)[0]) / 2e-5
        assert gradient[place] == pytest.approx(slope, rel=1e-4, abs=1e-7)


def test_jacobian_of_a_nonlinear_form() -> None:
    def form(theta: Array) -> Array:
        return np.array([[theta[0] * theta[1] ** 2, theta[0], np.exp(theta[1]), 1.0]])

    found = jacobian(form, np.array([0.5, 1.5]))
    expected = np.array([[2.25, 1.5], [1, 0], [0, float(np.exp(1.5))], [0, 0]])
    assert np.allclose(found, expected, rtol=1e-6)


def test_diagonal_stand_in_of_an_embedded_model_is_exact() -> None:
    model = tame_model("diag", 2, 1, 3, SAMPLE.context.gram).embed("full")
    weights = SAMPLE.layer_weights(model)[-1]
    found = diagonal_model(model, diagonal_fit(model), SAMPLE, weights, TUNER)
    assert found.function_share == pytest.approx(1.0)
    assert found.median_gap < 1e-12
    assert found.fitted_share == pytest.approx(1.0)


def test_diagonal_stand_in_of_a_nearly_diagonal_model_is_fitted_to_it_and_not_to_the_task() -> None:
    diagonal = model_from_omega(np.array([[-0.02, -0.003, -0.04, -0.002], [0, 0, -0.08, 0.001]]), 3).embed("full")
    rng = np.random.default_rng(0)
    model = diagonal.replace(
        {
            name: matrix + 0.1 * np.abs(matrix).max(axis=(-1, -2), keepdims=True) * rng.standard_normal(matrix.shape)
            for name, matrix in diagonal.parameters.items()
        }
    )
    weights = SAMPLE.layer_weights(model)[-1]
    found = diagonal_model(model, diagonal_fit(model), SAMPLE, weights, TUNER)
    assert found.function_share < found.fitted_share < 0.9
    to_the_task, _ = TUNER.fit_omega(found.omega, ~inert(2))
    best = measure(model_from_omega(to_the_task, 3), SAMPLE).total.adjusted_loss
    assert best < 0.5 * found.fitted.total.adjusted_loss  # what a diagonal model could do, were it not to be this one


def test_tuner_towards_a_model_leaves_out_contexts_on_which_it_explodes_or_aims_at_the_task() -> None:
    exploding = rf.LinearTransformer.init("full", layers=8, dim=3, scale=30.0, seed=1)
    assert TUNER.towards(exploding) is TUNER
    calm = tame_model("diag", 2, 1, 3, make_examples(6, 9, 3, seed=1).gram)
    omega, loss = TUNER.towards(calm).fit_omega(0.9 * omega_of(calm), ~inert(2))
    assert loss < 1e-6
    assert relative_error(omega, np.where(inert(2), 0.0, omega_of(calm))) < 0.05
