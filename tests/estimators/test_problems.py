"""Rows to Gram matrices: any order, ragged groups, weights and gaps, chunk by chunk."""

from __future__ import annotations

import numpy as np
import pytest

from grouped import made_up_groups
from ridgeformer.core.notation import Array
from ridgeformer.estimators.problems import GroupedRows


def by_hand(X: Array, y: Array, weights: Array) -> tuple[Array, Array]:
    """Weighted mean and centred Gram matrix of one group's tokens."""
    tokens = np.column_stack([X, y])
    mean = weights @ tokens / weights.sum()
    return mean, (tokens - mean).T @ (weights[:, None] * (tokens - mean))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shuffled", [False, True])
def test_problems_of_ragged_groups_are_those_computed_one_by_one(weighted: bool, shuffled: bool) -> None:
    data = made_up_groups(30, 3, (1, 9))
    rng = np.random.default_rng(1)
    order = rng.permutation(len(data.y)) if shuffled else np.arange(len(data.y))
    X, y, codes = data.X[order], data.y[order], data.groups[order]
    weights = rng.integers(0, 4, len(y)) + 0.5 if weighted else np.ones(len(y))
    rows = GroupedRows.from_codes(X, y, codes, 30, weights if weighted else None)
    seen = []
    for numbers, problems in rows.chunks(largest=7):
        assert len(numbers) <= 7
        for place, number in enumerate(numbers):
            own = codes == number
            mean, gram = by_hand(X[own], y[own], weights[own])
            np.testing.assert_allclose(problems.mean[place], mean)
            np.testing.assert_allclose(problems.gram[place], gram, atol=1e-12)
            assert problems.examples[place] == pytest.approx(weights[own].sum())
        seen += list(numbers)
    assert sorted(seen) == list(range(30))


def test_a_missing_value_gets_its_groups_mean_and_one_that_a_group_lacks_has_no_mean() -> None:
    X = np.array([[1.0, 5.0], [3.0, np.nan], [np.nan, 7.0], [np.nan, np.nan], [4.0, np.nan]])
    rows = GroupedRows.from_codes(X, np.arange(5.0), np.array([0, 0, 0, 1, 1]), 2)
    (_, small), (_, large) = rows.chunks(largest=1)
    np.testing.assert_allclose(large.mean[0], [2.0, 6.0, 1.0])
    assert small.mean[0, 0] == 4.0
    assert np.isnan(small.mean[0, 1])
    assert large.missing + small.missing == 5
    assert small.gram[0, 0, 0] == 0.0
    assert np.isfinite(small.gram).all()
