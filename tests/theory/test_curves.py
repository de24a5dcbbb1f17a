"""Curves of the theory: complete, and each what the formulas beside it say."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.forward import gram_weights
from ridgeformer.theory import Curves, adaptive_step_network, theory_curves
from ridgeformer.theory.curves import step_curve
from ridgeformer.theory.nonlinear_limit import PRINTED_BOUND
from support import make_examples, tame_model


@pytest.fixture(scope="module")
def curves() -> Curves:
    return theory_curves(0)


def test_cosines_fall_below_the_printed_bound_as_n_grows(curves: Curves) -> None:
    n = [record.examples for record in curves.cosines]
    assert n == sorted(set(n))
    assert curves.cosines[0].reachable > 5 * PRINTED_BOUND
    assert curves.cosines[-1].reachable < PRINTED_BOUND
    for record in curves.cosines:
        assert record.largest <= record.reachable + 1e-10
        assert record.reachable < 2.5 * record.expected


def test_excesses_fall_doubly_exponentially_at_the_end(curves: Curves) -> None:
    for kappa, excesses in curves.excesses.items():
        assert excesses[0] == kappa - 1
        assert excesses[-1] < np.finfo(float).eps <= excesses[-2]
        assert excesses[-1] < 0.76 * excesses[-2] ** 2  # the fraction tends to 3/4


def test_iterations_and_convergence_are_complete(curves: Curves) -> None:
    pairs = {(row.kappa, row.epsilon) for row in curves.iterations}
    assert len(pairs) == len(curves.iterations) == len(curves.excesses) * 10
    for pair, rows in curves.convergence.items():
        for sigma in pair:
            errors = [row.error for row in rows if row.sigma == sigma]
            assert errors == sorted(errors, reverse=True)
            assert errors[-1] < 0.02 * errors[0]


def test_step_curve_is_what_the_forward_pass_does_and_print_only_behind_the_fit() -> None:
    steps = step_curve(3)
    task = rf.Task(10, 20, "uniform:5")
    context = task.draw_contexts(len(steps.residuals), seed=3).context
    weights = gram_weights(adaptive_step_network(10, steps.omega_xy, -1.0), context.gram)
    assert np.allclose(weights, steps.at_start[:, None] * context.cross, rtol=1e-10)
    assert np.allclose(steps.printed, 1 + steps.omega_xy * steps.residuals)
    assert np.abs(steps.behind_fit - steps.printed).max() < 1e-3
    assert np.abs(steps.at_start - steps.printed).max() > 0.1  # the control
    assert (steps.at_start > 0.49).all()


def test_curves_of_a_model_have_its_dimension_and_own_cosines() -> None:
    model = tame_model("full", 2, 1, 4, make_examples(4, 8, 4, seed=1).gram)
    stages: list[float] = []
    found = theory_curves(0, model, 8, on_stage=lambda _, share: stages.append(share))
    assert {record.dim for record in found.cosines} == {4}
    assert stages == sorted(stages)
    other = theory_curves(0, tame_model("full", 2, 1, 4, make_examples(4, 8, 4, seed=1).gram, seed=5), 8)
    assert found.cosines[0].reachable == other.cosines[0].reachable  # the same contexts
    assert found.cosines[0].largest != other.cosines[0].largest
