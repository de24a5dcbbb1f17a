"""The compiled posteriors of many regressions against the NumPy reference, for any shape and number of threads."""

from __future__ import annotations

import numpy as np
import pytest

from grouped import made_up_groups
from ridgeformer.estimators.empirical_bayes import NoiseLevels, WeightPrior, posteriors
from ridgeformer.estimators.fitting import _compiled
from ridgeformer.kernels.group_posteriors import group_posteriors


@pytest.mark.parametrize(("p", "n", "count"), [(1, 3, 5), (2, 2, 17), (3, 1, 8), (5, 9, 40), (12, 7, 20)])
def test_kernel_gives_the_posteriors_of_the_reference(p: int, n: int, count: int) -> None:
    data, rng = made_up_groups(count, p, n), np.random.default_rng(3)
    tokens = np.concatenate([data.X.reshape(count, n, p), data.y.reshape(count, n, 1)], axis=-1)
    gram = tokens.transpose(0, 2, 1) @ tokens
    levels = np.geomspace(0.01, 10, 31)
    prior = WeightPrior(
        rng.standard_normal(p),
        np.exp(rng.standard_normal(p)),
        NoiseLevels(levels, rng.dirichlet(np.ones(31))),
        np.zeros(p),
    )
    examples = n - 0.5 * rng.random(count)
    expected, found = posteriors(examples, gram, prior, prior.scale), _compiled(examples, gram, prior, prior.scale)
    for name, tolerance in (
        ("mean", 1e-8),
        ("covariance", 1e-8),
        ("within", 1e-8),
        ("levels", 1e-7),
        ("log_likelihood", 1e-6),
    ):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=tolerance, atol=tolerance)


def test_a_feature_without_data_and_a_problem_without_rows_keep_their_prior() -> None:
    gram = np.zeros((3, 5, 5))
    gram[0, 0, 0] = gram[0, -1, -1] = 2.0
    levels = np.array([0.5, 1.0])
    found = group_posteriors(np.array([3.0, 0.0, 0.0]), gram, np.zeros(4), np.ones(4), levels, np.array([0.5, 0.5]))
    np.testing.assert_allclose(found.total[1], np.eye(4), atol=1e-12)
    np.testing.assert_allclose(np.diagonal(found.total[0])[1:], 1.0)
    assert found.total[0, 0, 0] < 0.5
    np.testing.assert_allclose(found.probability[1], 0.5)


def test_any_number_of_threads_gives_the_same_bits() -> None:
    data = made_up_groups(100, 4, 9)
    tokens = np.concatenate([data.X.reshape(100, 9, 4), data.y.reshape(100, 9, 1)], axis=-1)
    gram, levels = tokens.transpose(0, 2, 1) @ tokens, np.geomspace(0.1, 10, 9)
    arguments = np.full(100, 9.0), gram, np.zeros(4), np.ones(4), levels, np.full(9, 1 / 9)
    one, three = (group_posteriors(*arguments, threads=threads) for threads in (1, 3))
    for first, second in zip(one, three, strict=True):
        assert (first == second).all()
