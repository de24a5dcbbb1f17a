"""Posteriors against the formulas of Gaussian conditioning, written out with dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from grouped import made_up_groups
from ridgeformer.baselines import Bayes
from ridgeformer.core.context import Context
from ridgeformer.core.task import Task
from ridgeformer.estimators.empirical_bayes import NoiseLevels, WeightPrior, posteriors


@pytest.mark.parametrize(("p", "n"), [(1, 4), (3, 8), (6, 4)])
def test_posterior_is_that_of_gaussian_conditioning_mixed_over_the_levels(p: int, n: int) -> None:
    data, rng = made_up_groups(5, p, n), np.random.default_rng(2)
    levels = np.array([0.5, 1.0, 4.0])
    prior = WeightPrior(
        rng.standard_normal(p), np.exp(rng.standard_normal(p)), NoiseLevels(levels, np.full(3, 1 / 3)), np.zeros(p)
    )
    X, y = data.X.reshape(5, n, p), data.y.reshape(5, n)
    tokens = np.concatenate([X, y[..., None]], axis=-1)
    found = posteriors(np.full(5, float(n)), tokens.transpose(0, 2, 1) @ tokens, prior, prior.scale)
    for g in range(5):
        logs, means, covariances = [], [], []
        for level in levels:
            total = X[g] * prior.scale**2 @ X[g].T + level**2 * np.eye(n)
            left = y[g] - X[g] @ prior.mean
            logs.append(-0.5 * (np.linalg.slogdet(total)[1] + left @ np.linalg.solve(total, left)))
            covariance = np.linalg.inv(X[g].T @ X[g] / level**2 + np.diag(1 / prior.scale**2))
            covariances.append(covariance)
            means.append(prior.mean + covariance @ X[g].T @ left / level**2)
        share = np.exp(np.array(logs) - max(logs))
        share /= share.sum()
        mean = share @ np.array(means)
        spread = sum(s * (c + np.outer(m - mean, m - mean)) for s, m, c in zip(share, means, covariances, strict=True))
        np.testing.assert_allclose(found.levels[g], share, rtol=1e-9)
        np.testing.assert_allclose(found.mean[g], mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(found.covariance[g], spread, rtol=1e-8, atol=1e-10)


def test_told_the_prior_of_a_task_the_posterior_mean_is_the_bayes_limit() -> None:
    draw = Task(4, 9, "categorical:1+3").draw_tokens(20, seed=0)
    context = Context.from_tokens(draw.X, draw.y)
    prior = WeightPrior(np.zeros(4), np.ones(4), NoiseLevels(np.array([1.0, 3.0]), np.array([0.5, 0.5])), np.zeros(4))
    found = posteriors(np.full(20, 9.0), context.gram, prior, prior.scale)
    np.testing.assert_allclose(found.mean, Bayes("categorical:1+3").weights(context), rtol=1e-8, atol=1e-10)


def test_learned_levels_are_a_noise_prior_that_tasks_take() -> None:
    noise = NoiseLevels(np.array([1.0, 2.0]), np.array([0.25, 0.75]))
    assert noise.variance == pytest.approx(3.25)
    sigma = Task(3, 8, noise).draw_sigma(1000, seed=0)
    assert set(sigma) == {1.0, 2.0}
    assert noise.spec == "learned:1-2"
