"""Theorem 5.2: two layers reach optimal ridge regression at two noise levels as n grows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeformer as rf
from ridgeformer.theory.two_layer import (
    Convergence,
    convergence,
    draw_scaled_contexts,
    fitted_rate,
    line_through,
    oracle_distance,
    two_layer_network,
)

PAIRS = [(1.0, 3.0), (3.0, 1.0), (0.0, 2.0), (0.5, 0.5), (0.2, 5.0), (0.0, 0.0)]


@given(st.floats(0, 10), st.floats(0, 10))
def test_line_meets_the_ridge_factor_at_both_noise_levels(sigma_1: float, sigma_2: float) -> None:
    A, B = line_through(sigma_1, sigma_2)
    for sigma in (sigma_1, sigma_2):
        assert A + B * sigma**2 == pytest.approx(1 / (1 + sigma**2), rel=1e-10)


def test_line_of_equal_levels_is_the_tangent() -> None:
    _, B = line_through(1.5, 1.5)
    assert abs(B + 1 / (1 + 1.5**2) ** 2) < 1e-15


def test_network_uses_one_coefficient_in_each_layer() -> None:
    network = two_layer_network(4, 50, 1.0, 3.0)
    A, B = line_through(1.0, 3.0)
    assert network.kind == "diag"
    assert network.heads == 1
    assert np.allclose(network.omega(), [[0, 0, -A, 0], [0, 0, 0, B / (A * 50)]], rtol=1e-14, atol=0)


@pytest.mark.parametrize("pair", PAIRS)
def test_error_at_both_levels_falls_with_the_root_of_n(pair: tuple[float, float]) -> None:
    rows = convergence(*pair, dim=4, sizes=(1000, 30_000, 1_000_000), batch=200, seed=1)
    for sigma in dict.fromkeys(pair):
        # 200 contexts know an error to about 5 %, over a factor of 1000 in n: 0.01 in the slope.
        assert fitted_rate(rows, sigma) == pytest.approx(-0.5, abs=0.03)
        assert [row.error for row in rows if row.sigma == sigma][-1] < 0.05


def test_scaled_contexts_have_the_theorem_s_statistics() -> None:
    """Σ → I, α → w + noise, λ/n → σ²; and the same errors come from tokens drawn as the theorem says."""
    draw = draw_scaled_contexts(3, 200_000, 1.5, batch=20, seed=2)
    assert np.abs(draw.context.scatter - np.eye(3)).max() < 0.02  # five times n^(−1/2)
    assert np.abs(draw.context.energy / 200_000 - 1.5**2).max() < 0.05
    assert np.allclose(draw.oracle, draw.context.ridge(1.5**2), rtol=1e-9)
    rng = np.random.default_rng(3)
    n, batch = 2000, 200
    X, weights = rng.standard_normal((batch, n, 3)) / np.sqrt(n), rng.standard_normal((batch, 3))
    y = np.einsum("bnd,bd->bn", X, weights) + 1.5 * rng.standard_normal((batch, n))
    context = rf.Context.from_tokens(X, y)
    network, best = two_layer_network(3, n, 1.5, 0.5), context.ridge(1.5**2)
    by_tokens = np.sqrt(((rf.context_weights(network, context) - best) ** 2).sum() / (best**2).sum())
    by_gram = oracle_distance(network, draw_scaled_contexts(3, n, 1.5, batch, seed=4))
    assert by_tokens == pytest.approx(by_gram, rel=0.2)  # each is known to about 5 %


def test_printed_sign_gives_minus_the_ridge_solution() -> None:
    rows = convergence(1.0, 3.0, dim=4, sizes=(1_000_000,), batch=50, printed=True)
    assert [row.error for row in rows] == pytest.approx([2.0, 2.0], abs=0.02)


def test_first_layer_alone_stays_away_from_the_ridge_solution() -> None:
    """The control: what ω_yy adds. Without it the error is |A (1 + σ²) − 1| however large n is."""
    A, _ = line_through(1.0, 3.0)
    network = two_layer_network(4, 1_000_000, 1.0, 3.0).first_layers(1)
    for sigma in (1.0, 3.0):
        draw = draw_scaled_contexts(4, 1_000_000, sigma, batch=50)
        assert oracle_distance(network, draw) == pytest.approx(abs(A * (1 + sigma**2) - 1), rel=0.02)


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_network_with_another_omega_yy_does_not_converge(factor: float) -> None:
    network = two_layer_network(4, 1_000_000, 1.0, 3.0)
    q = network.parameters["q"].copy()
    q[1] *= factor
    wrong = network.replace({**network.parameters, "q": q})
    assert oracle_distance(wrong, draw_scaled_contexts(4, 1_000_000, 3.0, batch=50)) > 0.2


def test_third_noise_level_between_the_two_is_not_optimal() -> None:
    network, draw = two_layer_network(4, 1_000_000, 1.0, 3.0), draw_scaled_contexts(4, 1_000_000, 2.0, batch=50)
    A, B = line_through(1.0, 3.0)
    # The line is above the curve between the levels: 1.5 of 1/(1 + 4).
    assert oracle_distance(network, draw) == pytest.approx((A + B * 4) * 5 - 1, rel=0.05)


def test_fitted_rate_of_a_power_law_is_its_exponent() -> None:
    rows = [Convergence(n, 1.0, 3 * n**-0.7) for n in (10, 100, 1000)] + [Convergence(10, 2.0, 5.0)]
    assert fitted_rate(rows, 1.0) == pytest.approx(-0.7)


def test_negative_noise_level_is_refused() -> None:
    with pytest.raises(rf.InputError, match="sigma_2"):
        two_layer_network(4, 100, 1.0, -3.0)
