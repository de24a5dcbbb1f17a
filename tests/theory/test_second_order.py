"""Theorem 5.1: the constructed GD++ network and the count of its layers."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeformer as rf
from ridgeformer.core.notation import Array
from ridgeformer.theory.second_order import (
    condition_excesses,
    conjugate_gradient_steps,
    context_with_spectrum,
    error_on_both_ends,
    gradient_descent_steps,
    iteration_counts,
    layer_bound,
    layers_needed,
    log_spectrum,
    next_excess,
    second_order_network,
)
from support import one_sentence

kappas = st.floats(0, 12).map(lambda power: 10**power)
epsilons = st.floats(-14, -0.05).map(lambda power: 10**power)


def error(network: rf.LinearTransformer, context: rf.Context, best: Array) -> float:
    found = rf.context_weights(network, context, backend="reference")[0]
    return float(np.linalg.norm(found - best) / np.linalg.norm(best))


@pytest.mark.parametrize("dim", [1, 2, 7, 12])
@pytest.mark.parametrize("kappa", [1.0, 1.01, 3.0, 100.0, 1e4])
@pytest.mark.parametrize("epsilon", [0.5, 1e-2, 1e-6, 1e-9])
def test_network_on_noise_free_contexts_of_a_known_spectrum_reaches_epsilon(
    dim: int, kappa: float, epsilon: float
) -> None:
    rng = np.random.default_rng([1, dim])
    network = second_order_network(dim, kappa, epsilon, largest=5.0)
    assert network.kind == "gdpp"
    assert network.layers == layers_needed(kappa, epsilon)
    for values in (log_spectrum(dim, kappa, 5.0), rng.uniform(5 / kappa, 5, dim), np.full(dim, 5 / kappa)):
        best = rng.standard_normal(dim)
        # The bound is met with equality where all eigenvalues are the smallest: but for rounding.
        assert error(network, context_with_spectrum(values, best, rng), best) <= epsilon * (1 + 1e-10)


@pytest.mark.parametrize("kappa", [1.0, 1.5, 30.0, 1e4])
@pytest.mark.parametrize("layers", [1, 2, 5])
def test_error_on_both_ends_is_that_of_iterated_eigenvalues(kappa: float, layers: int) -> None:
    values = np.array([1.0, kappa])
    for _ in range(layers - 1):
        values = values * (1 - values / (3 * values[1])) ** 2
    expected = abs(1 - 2 * values / values.sum())
    assert np.allclose(error_on_both_ends(kappa, layers), expected, rtol=1e-9, atol=1e-15)


def test_network_on_tokens_reaches_epsilon() -> None:
    """The printed transformer, token by token, on a context whose spectrum numpy knows."""
    rng = np.random.default_rng(2)
    X, best, queries = rng.standard_normal((1, 40, 6)), rng.standard_normal(6), rng.standard_normal((1, 3, 6))
    values = np.linalg.eigvalsh(X[0].T @ X[0])
    network = second_order_network(6, values[-1] / values[0], 1e-8, largest=values[-1])
    found = rf.token_predictions(network, X, X @ best, queries)[0]
    bound = 1e-8 * np.linalg.norm(queries[0], axis=1) * np.linalg.norm(best)
    assert (np.abs(found - queries[0] @ best) <= bound).all()


def test_network_with_fewer_examples_than_features_reaches_the_solution_of_least_norm() -> None:
    rng = np.random.default_rng(4)
    X, y = rng.standard_normal((1, 5, 9)), rng.standard_normal((1, 5))
    values = np.linalg.svd(X[0], compute_uv=False) ** 2
    network = second_order_network(9, values[0] / values[-1], 1e-6, largest=values[0])
    assert error(network, rf.Context.from_tokens(X, y), np.linalg.pinv(X[0]) @ y[0]) <= 1e-6


def test_network_for_a_smaller_condition_number_does_not_reach_epsilon() -> None:
    """The control: a tenth of κ leaves the smallest eigenvalue unfinished."""
    rng = np.random.default_rng(5)
    best = np.ones(6)
    context = context_with_spectrum(log_spectrum(6, 1000.0), best, rng)
    assert error(second_order_network(6, 1000.0, 1e-4), context, best) <= 1e-4
    assert error(second_order_network(6, 100.0, 1e-4), context, best) > 1e-2


@pytest.mark.parametrize("factor", [0.5, 0.99, 1.01, 2.0])
def test_network_with_another_step_in_its_last_layer_misses_epsilon(factor: float) -> None:
    rng = np.random.default_rng(6)
    best = np.ones(6)
    context = context_with_spectrum(log_spectrum(6, 100.0), best, rng)
    network = second_order_network(6, 100.0, 1e-6)
    p = network.parameters["p"].copy()
    p[-1] *= factor
    assert error(network.replace({**network.parameters, "p": p}), context, best) > 1e-3


@given(kappas)
def test_condition_number_after_a_layer_equals_that_of_the_mapped_ends(kappa: float) -> None:
    """s → s(1 − γs)² with γ = 1/(3ν), at both ends of [1/κ, 1]."""
    low, high = (s * (1 - s / 3) ** 2 for s in (1 / kappa, 1.0))
    assert 1 + next_excess(kappa - 1) == pytest.approx(high / low, rel=1e-12)


@given(kappas, st.floats(1e-12, 1.0))
def test_condition_number_falls_by_a_constant_factor_or_quadratically(kappa: float, excess: float) -> None:
    assert kappa < 2 or 1 + next_excess(kappa - 1) <= 16 / 25 * kappa * (1 + 1e-12)
    assert 0.75 * next_excess(excess) <= (0.75 * excess) ** 2 * (1 + 1e-12)


@given(kappas, epsilons)
def test_layers_needed_stay_within_the_closed_form(kappa: float, epsilon: float) -> None:
    needed = layers_needed(kappa, epsilon)
    assert 1 <= needed <= layer_bound(kappa, epsilon)
    left = condition_excesses(kappa, needed - 1)
    assert left[-1] / (2 + left[-1]) <= epsilon * (1 + 1e-12)  # (κ − 1)/(κ + 1), what the last step leaves
    if needed > 1:
        assert left[-2] / (2 + left[-2]) > epsilon * (1 - 1e-12)


def test_layers_grow_like_the_double_logarithm_of_the_accuracy_and_the_logarithm_of_the_condition_number() -> None:
    """Squaring ε costs one layer, or none where there was room to spare."""
    for kappa in (2.0, 100.0, 1e6):
        layers = [layers_needed(kappa, 10.0 ** -(2**k)) for k in range(8)]
        assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(layers))
    assert layers_needed(10.0, 1e-2) == 6  # κ − 1 by hand: 9, 3.76, 1.44, 0.46, 0.088, 0.0051 ≤ 2ε/(1 − ε)
    assert layers_needed(1.0, 1e-12) == 1
    steps = np.diff([layers_needed(10.0**k, 1e-6) for k in range(2, 13)])
    # κ falls by 9/4 a layer while it is large: ln 10 / ln 2.25 = 2.84 layers for each factor of ten.
    assert set(steps) <= {2, 3}
    assert np.mean(steps) == pytest.approx(math.log(10) / math.log(2.25), abs=0.1)


def test_gradient_descent_steps_equal_running_it() -> None:
    values, weights = log_spectrum(9, 20.0), np.arange(1.0, 10.0)
    found, steps = np.zeros(9), 0
    while np.linalg.norm(found - weights) > 1e-5 * np.linalg.norm(weights):
        found = found + 2 / (values[0] + values[-1]) * values * (weights - found)
        steps += 1
    assert gradient_descent_steps(values, weights, 1e-5) == steps


def test_conjugate_gradients_finish_within_as_many_steps_as_eigenvalues() -> None:
    values = np.array([1.0, 3.0, 10.0])
    assert conjugate_gradient_steps(values, np.ones(3), 1e-10) == 3
    assert conjugate_gradient_steps(np.ones(5), np.ones(5), 1e-10) == 1
    assert conjugate_gradient_steps(values, np.array([1.0, 0.7, 0.3]), 1e-17) is None  # below rounding


def test_iteration_counts_list_every_pair_and_gdpp_needs_least() -> None:
    counts = iteration_counts((100.0, 1e4), (1e-2, 1e-4, 1e-8))
    assert [(c.kappa, c.epsilon) for c in counts] == [(k, e) for k in (100.0, 1e4) for e in (1e-2, 1e-4, 1e-8)]
    for count in counts:
        assert count.conjugate_gradients is not None
        assert count.gdpp_layers < count.conjugate_gradients < count.gradient_descent
    # A gradient step leaves (κ − 1)/(κ + 1) ≈ exp(−2/κ): κ/2 · ln(1/ε) steps, less what easier directions save.
    assert counts[-1].gradient_descent == pytest.approx(1e4 / 2 * math.log(1e8), rel=0.2)


@pytest.mark.parametrize(
    "wrong",
    [
        {"dim": 0}, {"kappa": 0.5}, {"kappa": math.inf}, {"kappa": math.nan}, {"epsilon": 0.0}, {"epsilon": 1.0},
        {"largest": 0.0}, {"largest": -1.0},
    ],
)  # fmt: skip
def test_network_of_impossible_numbers_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(rf.InputError) as caught:
        second_order_network(**{"dim": 3, "kappa": 2.0, "epsilon": 0.1, "largest": 1.0, **wrong})
    one_sentence(caught.value)
