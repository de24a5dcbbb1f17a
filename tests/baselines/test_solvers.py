"""Classical solvers: they end at AdaRR, at the rates they are known for."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.baselines import SOLVERS, AdaRR, ConjugateGradient, GradientDescent, Newton
from support import refused, relative_error

CONTEXT = rf.Task(5, 12, "uniform:3").draw_contexts(200, seed=0).context


@pytest.mark.parametrize(("solver", "steps"), [(GradientDescent, 3000), (ConjugateGradient, 5), (Newton, 25)])
def test_solver_ends_at_adarr(solver: type[GradientDescent], steps: int) -> None:
    assert relative_error(solver(steps).weights(CONTEXT), AdaRR().weights(CONTEXT)) < 1e-8


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_step_is_the_solver_of_that_many_steps(solver: type[GradientDescent]) -> None:
    for k, weights in enumerate(solver(4).every_step(CONTEXT), 1):
        np.testing.assert_allclose(weights, solver(k).weights(CONTEXT), rtol=1e-12)


def test_newton_doubles_the_digits_and_gradient_descent_does_not() -> None:
    aim = AdaRR().weights(CONTEXT)
    errors = {
        solver: [np.abs(weights - aim).max() for weights in solver(14).every_step(CONTEXT)]
        for solver in (Newton, GradientDescent)
    }
    assert errors[Newton][-1] < 1e-3 * errors[GradientDescent][-1]


def test_conjugate_gradients_stay_put_once_they_have_arrived() -> None:
    assert relative_error(ConjugateGradient(60).weights(CONTEXT), AdaRR().weights(CONTEXT)) < 1e-8


def test_contexts_without_data_get_weight_zero_and_bad_steps_one_sentence() -> None:
    empty = rf.Context(np.zeros((1, 3, 3)), 4)
    for solver in SOLVERS:
        assert (solver(3).weights(empty) == 0).all()
        refused("steps", solver, 0)
