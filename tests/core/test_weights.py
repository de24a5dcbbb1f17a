"""Distributions of w: what they draw, and their posteriors against brute force."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import special, stats

import ridgeformer as rf
from ridgeformer.core.notation import Array
from ridgeformer.core.weights import (
    WEIGHTS,
    FinitePool,
    best_linear,
    parse_weights,
    quick_ridge,
    scaled_weights,
)
from support import refused, relative_error, within_standard_errors

D, N = 4, 7
SPECS = [
    "normal",
    "scale:2",
    "kappa:10",
    "power:1+scale:0.5",
    "variances:4,1,0.25,0",
    "sparse:2",
    "pool:6",
    "pool:6+scale:3",
]


def tokens(spec: str, batch: int = 6, n: int = N, noise: str = "fixed:0.8") -> rf.TokenDraw:
    return rf.Task(D, n, noise, weights=spec).draw_tokens(batch, seed=1)


def context(drawn: rf.TokenDraw) -> rf.Context:
    return rf.Context.from_tokens(drawn.X, drawn.y)


@pytest.mark.parametrize("spec", SPECS)
def test_weights_have_the_covariance_that_they_say(spec: str) -> None:
    drawn = tokens(spec, 20_000).weights
    expected = parse_weights(spec).covariance(D)
    assert within_standard_errors(drawn[:, :, None] * drawn[:, None, :], expected)
    assert not within_standard_errors(drawn[:, :, None] * drawn[:, None, :], 1.3 * expected + 0.2)


def test_sparse_weights_have_k_entries_and_pools_m_vectors() -> None:
    assert ((tokens("sparse:3", 100).weights != 0).sum(axis=1) == 3).all()
    drawn = tokens("pool:6", 500).weights
    assert len(np.unique(drawn, axis=0)) == 6
    assert not np.allclose(FinitePool(6).vectors(D), FinitePool(6, 1).vectors(D))


def log_density(y: Array, mean: Array, covariance: Array) -> float:
    return float(stats.multivariate_normal(mean, covariance).logpdf(y))


@pytest.mark.parametrize("spec", ["normal", "kappa:10", "power:1+scale:0.5", "variances:4,1,0.25,0"])
@pytest.mark.parametrize("n", [2, 7])
def test_gaussian_posterior_is_that_of_the_joint_normal(spec: str, n: int) -> None:
    """Generalised ridge regression, by conditioning (w, y) as one Gaussian vector."""
    drawn, weights = tokens(spec, n=n), parse_weights(spec)
    L = weights.covariance(D)
    found = weights.posterior(context(drawn), drawn.sigma)
    for X, y, mean in zip(drawn.X, drawn.y, found.mean, strict=True):
        expected = L @ X.T @ np.linalg.solve(X @ L @ X.T + 0.64 * np.eye(n), y)
        assert relative_error(mean, expected) < 1e-9


@pytest.mark.parametrize("spec", ["normal", "kappa:10", "sparse:2", "pool:6", "pool:6+scale:3", "sparse:1+scale:2"])
def test_log_evidence_is_the_density_of_the_targets_up_to_a_constant(spec: str) -> None:
    """Differences between levels σ are what matters: the constant may depend on n but not on σ or the data."""
    drawn, weights = tokens(spec), parse_weights(spec)
    times = getattr(weights, "times", 1.0)
    gaps = []
    for sigma in (0.5, 1.0, 2.5):
        found = weights.posterior(context(drawn), np.full(6, sigma)).log_evidence
        for X, y, value in zip(drawn.X, drawn.y, found, strict=True):
            noise = sigma**2 * np.eye(N)
            if "pool" in spec:
                vectors = times * FinitePool(6).vectors(D)
                parts = [log_density(y, X @ w, noise) for w in vectors]
            elif "sparse" in spec:
                k = 2 if spec == "sparse:2" else 1
                parts = [
                    log_density(y, np.zeros(N), times**2 * X[:, s] @ X[:, s].T + noise)
                    for s in map(list, combinations(range(D), k))
                ]
            else:
                parts = [log_density(y, np.zeros(N), X @ weights.covariance(D) @ X.T + noise)]
            gaps.append(value - float(special.logsumexp(parts)))
    assert np.ptp(gaps) < 1e-8


def test_discrete_posterior_mean_is_the_weighted_sum_over_the_pool() -> None:
    drawn = tokens("pool:6")
    vectors = FinitePool(6).vectors(D)
    found = FinitePool(6).posterior(context(drawn), drawn.sigma).mean
    for X, y, mean in zip(drawn.X, drawn.y, found, strict=True):
        logs = np.array([-0.5 * ((y - X @ w) ** 2).sum() / 0.64 for w in vectors])
        assert relative_error(mean, special.softmax(logs) @ vectors) < 1e-9


def test_sparse_posterior_mean_is_the_sum_over_supports() -> None:
    drawn = tokens("sparse:2")
    found = parse_weights("sparse:2").posterior(context(drawn), drawn.sigma).mean
    for X, y, mean in zip(drawn.X, drawn.y, found, strict=True):
        logs, means = [], []
        for s in map(list, combinations(range(D), 2)):
            Z = X[:, s]
            covariance = Z @ Z.T + 0.64 * np.eye(N)
            logs.append(log_density(y, np.zeros(N), covariance))
            full = np.zeros(D)
            full[s] = Z.T @ np.linalg.solve(covariance, y)
            means.append(full)
        assert relative_error(mean, special.softmax(np.array(logs)) @ np.array(means)) < 1e-9


def test_posteriors_without_noise_are_finite_and_find_the_weights() -> None:
    for spec in ("pool:6", "sparse:2", "kappa:10"):
        drawn = tokens(spec, noise="fixed:0")
        found = parse_weights(spec).posterior(context(drawn), drawn.sigma).mean
        assert relative_error(found, drawn.weights) < 1e-5


def test_sparse_weights_with_too_many_supports_have_only_a_linear_reference() -> None:
    task = rf.Task(20, 30, weights="sparse:8")
    assert not task.reference.exact
    assert "linear" in task.reference.text
    draw = task.draw_contexts(20, seed=0)
    np.testing.assert_allclose(draw.oracle, draw.context.ridge(draw.sigma**2 * 20 / 8), rtol=1e-6)


@pytest.mark.parametrize("spec", SPECS)
def test_best_linear_predictor_beats_other_penalties(spec: str) -> None:
    draw = rf.Task(D, N, "fixed:1", weights=spec).draw_contexts(20_000, seed=0)
    own = ((best_linear(parse_weights(spec), draw.context, draw.sigma) - draw.weights) ** 2).sum(axis=1)
    for factor in (0.5, 2.0):
        other = best_linear(parse_weights(spec), draw.context, factor * draw.sigma)
        worse = ((other - draw.weights) ** 2).sum(axis=1) - own
        assert worse.mean() > 2 * worse.std() / np.sqrt(len(worse))


def test_quick_ridge_is_ridge_also_where_the_penalty_is_tiny() -> None:
    drawn = tokens("normal", n=2)
    for penalty in (np.full(6, 0.5), np.full(6, 1e-12), np.zeros(6), np.array([1, 0, 1e-9, 2, 3, 0.0])):
        np.testing.assert_allclose(
            quick_ridge(context(drawn), penalty), context(drawn).ridge(penalty), rtol=1e-8, atol=1e-10
        )


def test_specs_read_back_and_scales_multiply() -> None:
    for spec in SPECS:
        assert parse_weights(spec).spec == spec
    assert scaled_weights(parse_weights("scale:2"), 3).spec == "scale:6"
    assert scaled_weights(parse_weights("scale:2"), 0.5).spec == "normal"
    for entry in WEIGHTS.values():
        assert parse_weights(entry.form).spec == entry.form


def test_unreadable_weights_say_what_would_be_right() -> None:
    for hint, spec in {
        "Did you mean 'sparse'": "spars:3",
        "of one kind": "sparse:2+pool:3",
        "whole number": "sparse:1.5",
        "from 1 to": "pool:0",
        "at most d = 4": "sparse:5",
        "are for d = 2": "variances:1,2",
    }.items():
        refused(hint, rf.Task, D, N, weights=spec)
    refused("not 3", rf.Task, D, N, weights=3)
