"""What is learned across problems: noise levels, mean and scale of weights, and how few problems suffice."""

from __future__ import annotations

import numpy as np
import pytest

from ridgeformer.baselines import Bayes
from ridgeformer.core.context import Context
from ridgeformer.core.task import Task
from ridgeformer.estimators import learning
from ridgeformer.estimators.empirical_bayes import posteriors
from ridgeformer.estimators.learning import FEWEST_FOR_MEAN, Learned, learn


def learned_from(task: Task, groups: int, shift: float = 0.0, stretch: float = 1.0) -> Learned:
    """The prior learned from problems whose weights are N(shift, stretch²)."""
    draw = task.draw_tokens(groups, seed=1)
    w = shift + stretch * draw.weights
    noise = draw.y - np.einsum("bnd,bd->bn", draw.X, draw.weights)
    tokens = np.concatenate([draw.X, (np.einsum("bnd,bd->bn", draw.X, w) + noise)[..., None]], axis=-1)
    n = np.full(groups, float(draw.X.shape[1]))
    return learn(n, tokens.transpose(0, 2, 1) @ tokens, posteriors, lambda number: None)


def test_two_noise_levels_are_found_as_two_levels() -> None:
    found = learned_from(Task(5, 15, "categorical:1+3"), 1000)
    assert found.converged
    noise = found.prior.noise
    likely = noise.weights > 0.1
    assert noise.levels[likely] == pytest.approx([1.0, 3.0], rel=0.05)
    assert noise.weights[likely] == pytest.approx([0.5, 0.5], abs=0.05)
    assert (noise.weights > 0).all()  # any level stays possible


def test_uniform_noise_is_found_as_a_smooth_distribution() -> None:
    noise = learned_from(Task(5, 15, "uniform:5"), 1000).prior.noise
    below = np.cumsum(noise.weights)
    for level in (1.0, 2.0, 3.0, 4.0):
        assert np.interp(level, noise.levels, below) == pytest.approx(level / 5, abs=0.09)
    assert (noise.weights > 0.3).sum() == 0


def test_mean_and_scale_of_the_weights_are_found() -> None:
    prior = learned_from(Task(4, 12, "uniform:2"), 800, shift=3.0, stretch=0.5).prior
    assert prior.mean == pytest.approx(np.full(4, 3.0), abs=0.1)
    assert prior.scale == pytest.approx(np.full(4, 0.5), rel=0.15)


def test_weights_without_a_mean_are_not_given_one() -> None:
    prior = learned_from(Task(4, 12, "uniform:2"), 300).prior
    assert np.abs(prior.mean).max() < 0.02
    assert np.ptp(prior.scale) < 0.05


def test_below_the_fewest_problems_there_is_no_mean_and_one_scale() -> None:
    prior = learned_from(Task(4, 12, "uniform:2"), FEWEST_FOR_MEAN - 1, shift=5.0).prior
    assert (prior.mean == 0).all()
    assert np.ptp(prior.scale) == pytest.approx(0.0, abs=1e-9)
    assert prior.scale[0] > 3


@pytest.mark.parametrize("noise", ["uniform:5", "categorical:1+3"])
def test_a_thousand_problems_teach_nearly_all_that_the_bayes_limit_is_told(noise: str) -> None:
    task = Task(10, 20, noise)
    draw = task.draw_tokens(2000, seed=5)
    context = Context.from_tokens(draw.X, draw.y)
    oracle, n = context.ridge(draw.sigma**2), np.full(2000, 20.0)
    prior = learn(n, context.gram, posteriors, lambda number: None).prior
    ours = ((posteriors(n, context.gram, prior, prior.spread).mean - oracle) ** 2).sum(axis=1)
    limit = ((Bayes(noise).weights(context) - oracle) ** 2).sum(axis=1)
    assert ours.mean() < 1.03 * limit.mean()


def test_estimates_within_their_errors_are_pulled_to_nothing_and_others_are_not() -> None:
    rng = np.random.default_rng(0)
    errors = np.full(10, 0.01)
    assert learning._typical_size(0.1 * rng.standard_normal(10), errors) < 0.05
    assert learning._typical_size(5 * rng.standard_normal(10), errors) == pytest.approx(5, rel=0.5)
