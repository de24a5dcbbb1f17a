"""AdaRR by gradient descent: its two forms agree, it arrives where AdaRR is, and how long that takes."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.baselines import AdaRR, IterativeAdaRR
from ridgeformer.baselines.iterative import eigenvalue_bound, iterations_needed
from ridgeformer.core.notation import Array
from support import make_examples, relative_error

SHAPES = [(1, 1), (1, 5), (10, 20), (10, 10), (6, 4), (7, 1)]


def by_hand(X: Array, y: Array, iterations: int) -> Array:
    """Gradient descent on the examples of one context, written without Σ."""
    n, dim = X.shape
    bound = float((np.linalg.svd(X, compute_uv=False) ** 8).sum() ** 0.25)
    w = np.zeros(dim)
    for _ in range(iterations):
        w = w + X.T @ (y - X @ w) / bound
    residual = float(((y - X @ w) ** 2).sum())
    z, tau = float((y**2).sum() - (X**2).sum()) / n, np.sqrt(2 * ((X @ X.T) ** 2).sum()) / n
    v = residual / (n - dim) if n > dim else (z + np.sqrt(z**2 + tau**2)) / 2
    w = np.zeros(dim)
    for _ in range(iterations):
        w = w + (X.T @ (y - X @ w) - v * w) / (bound + v)
    return w


@pytest.mark.parametrize(("dim", "n"), SHAPES)
@pytest.mark.parametrize("iterations", [1, 2, 30])
def test_weights_equal_gradient_descent_on_the_examples(dim: int, n: int, iterations: int) -> None:
    examples = make_examples(3, n, dim, seed=1)
    found = IterativeAdaRR(iterations).weights(rf.Context.from_tokens(examples.X, examples.y))
    expected = np.stack([by_hand(X, y, iterations) for X, y in zip(examples.X, examples.y, strict=True)])
    assert relative_error(found, expected) < 1e-11  # float64 sums in another order


@pytest.mark.parametrize(("dim", "n"), SHAPES)
def test_weights_after_every_iteration_equal_the_plain_descents_of_that_length(dim: int, n: int) -> None:
    """The eigenbasis is a shortcut for measuring, and must not change what is measured."""
    examples = make_examples(5, n, dim, seed=2)
    context = rf.Context.from_tokens(examples.X, examples.y)
    read = list(IterativeAdaRR(40).weights_after(context))
    assert len(read) == 40
    for k in (1, 2, 3, 10, 40):
        assert relative_error(read[k - 1], IterativeAdaRR(k).weights(context)) < 1e-9


def test_many_iterations_arrive_at_adarr() -> None:
    context = rf.Task().draw_contexts(500, seed=0).context
    aim = AdaRR().weights(context)
    errors = [relative_error(IterativeAdaRR(k).weights(context), aim) for k in (10, 100, 10_000)]
    assert errors[0] > 0.1 > errors[1] > 1e-6 > errors[2]


def test_eigenvalue_bound_is_above_the_largest_eigenvalue_and_close() -> None:
    scatter = rf.Task().draw_contexts(2000, seed=1).context.scatter
    ratio = eigenvalue_bound(scatter) / np.linalg.eigvalsh(scatter)[:, -1]
    assert ratio.min() > 1
    assert ratio.max() < 1.5
    assert eigenvalue_bound(1e150 * scatter) == pytest.approx(1e150 * eigenvalue_bound(scatter))
    assert not eigenvalue_bound(np.zeros((1, 3, 3))).any()


def test_iterations_needed_is_the_first_count_within_reach_of_adarr() -> None:
    task = rf.Task(noise="uniform:5")
    needed = iterations_needed(task, sequences=20_000, seed=0)
    assert needed is not None
    assert 22 <= needed <= 27  # 24 and 23 on 200 000 sequences, seeds 0 and 1
    goal = 1.05 * rf.evaluate(AdaRR(), task, sequences=20_000, seed=0).adjusted_loss
    losses = [rf.evaluate(IterativeAdaRR(k), task, 20_000, 0).adjusted_loss for k in (needed - 1, needed)]
    assert losses[0] > goal >= losses[1]
    looser = iterations_needed(task, within=0.5, sequences=2000)
    assert looser is not None
    assert looser < needed


def test_iterations_needed_beyond_the_limit_are_none() -> None:
    assert iterations_needed(rf.Task(noise="uniform:1"), sequences=100, at_most=5) is None
