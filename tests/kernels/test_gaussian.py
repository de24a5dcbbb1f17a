"""Gaussian tasks drawn by the kernel are those of NumPy, and both are those of tokens in distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import ridgeformer as rf
from ridgeformer.core.features import Covariance
from ridgeformer.core.notation import Array
from ridgeformer.core.objective import losses_and_gradient_on
from ridgeformer.core.random import turn
from support import DTYPES, relative_error, within_standard_errors

TASKS: dict[str, dict[str, Any]] = {
    "stretched": {"features": "kappa:10"},
    "correlated": {"features": Covariance([[2, 1, 0, 0], [1, 2, 0, 0], [0, 0, 1, 0.5], [0, 0, 0.5, 1]])},
    "rotated": {"features": "power:1+rotated"},
    "subspace": {"features": "subspace"},
    "weights": {"weights": "kappa:5", "features": "scale:2"},
    "few": {"examples": 3, "features": "kappa:3"},
    "range": {"examples": "2..9"},
    "pool": {"weights": "pool:5"},
    "sparse": {"weights": "sparse:2", "features": "kappa:3+rotated", "examples": "3..6"},
}


def task(name: str) -> rf.Task:
    return rf.Task(**{"dim": 4, "examples": 9, "noise": "uniform:0.5-3", **TASKS[name]})


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_kernel_draws_what_the_reference_draws(name: str, dtype: Any) -> None:
    assert task(name).gram_drawable
    expected = task(name).draw_contexts(50, seed=3, step=2**32 + 7, backend="reference")
    found = task(name).draw_contexts(50, seed=3, step=2**32 + 7, backend="fused", dtype=dtype)
    tolerance = 1e-11 if dtype == np.float64 else 2e-4
    for mine, its in zip(found.as_gram_draw()[:4], expected.as_gram_draw()[:4], strict=True):
        assert mine.dtype == dtype
        assert relative_error(mine, its) < tolerance
    assert (found.moment is None) == (expected.moment is None)
    if found.moment is not None and expected.moment is not None:
        assert relative_error(found.moment, expected.moment) < tolerance
    np.testing.assert_array_equal(found.context.examples, expected.context.examples)


def statistics(draw: rf.ContextDraw) -> Array:
    """Numbers that differ between distributions of (G, w, w*), (5, batch)."""
    gram = draw.context.gram
    error = draw.weights - draw.oracle
    return np.stack(
        [
            np.einsum("bii->b", gram[:, :-1, :-1]),
            gram[:, -1, -1],
            gram[:, 0, 1],
            np.linalg.eigvalsh(gram[:, :-1, :-1])[:, -1],
            (error**2).sum(axis=1),
        ]
    )


@pytest.mark.parametrize("name", TASKS)
def test_gram_draws_have_the_distribution_of_tokens(name: str) -> None:
    """Kolmogorov and Smirnov's test of five statistics, one in a million for all."""
    gram = task(name).draw_contexts(20_000, seed=1)
    tokens = next(task(name).token_chunks(20_000, 2))
    pairs = zip(statistics(gram), statistics(tokens), strict=True)
    assert min(stats.ks_2samp(*pair).pvalue for pair in pairs) > 1e-6 / 5
    other = next(rf.Task(4, 9, "uniform:0.5-3.5").token_chunks(20_000, 2))  # the control
    pairs = zip(statistics(gram), statistics(other), strict=True)
    assert min(stats.ks_2samp(*pair).pvalue for pair in pairs) < 1e-6


def test_contexts_of_some_are_a_slice_of_those_of_many() -> None:
    many = rf.Task(4, 9, features="skewed").draw_contexts(40, seed=0, backend="fused")
    few = rf.Task(4, 9, features="skewed", noise="uniform:5").draw_contexts(7, seed=0, backend="fused")
    for mine, its in zip(few.as_gram_draw(), many.as_gram_draw(), strict=True):
        assert mine is not None
        assert its is not None
        if mine is not few.oracle:
            np.testing.assert_array_equal(mine[:7], its[:7])


def test_rotations_are_uniform_over_all_rotations() -> None:
    """Orthogonal, every column of mean zero and covariance I/d, and fourth moments of a uniform direction."""
    dim, key = 3, np.array([1, 2], np.uint32)
    found = turn(np.eye(dim), np.arange(50_000, dtype=np.uint32), 0, key)
    np.testing.assert_allclose(found @ found.transpose(0, 2, 1), np.broadcast_to(np.eye(dim), found.shape), atol=1e-12)
    assert within_standard_errors(found, 0.0)
    assert within_standard_errors(found**2, 1 / dim)
    assert within_standard_errors(found**4, 3 / (dim * (dim + 2)))
    assert within_standard_errors(np.linalg.det(found)[:, None], 0.0)


@pytest.mark.parametrize("kind", ["diag", "full"])
@pytest.mark.parametrize("name", ["stretched", "rotated", "range"])
@pytest.mark.parametrize("saturation", [0.0, 1.0])
def test_gradient_with_a_moment_equals_the_reference(kind: str, name: str, saturation: float) -> None:
    draw = task(name).draw_contexts(37, seed=0)
    model = rf.LinearTransformer.init(kind, layers=3, dim=4, scale=0.05, seed=1, dtype=np.float64)
    options: dict[str, Any] = {"saturation": saturation, "importance": np.linspace(0.5, 2, 37)}
    found, gradient = losses_and_gradient_on(model, draw, **options)
    expected, its = losses_and_gradient_on(model, draw, **options, backend="reference")
    assert relative_error(found, expected) < 1e-10
    assert relative_error(gradient.flatten(), its.flatten()) < 1e-9


def test_gradient_with_a_moment_is_the_slope_of_the_loss() -> None:
    draw = task("rotated").draw_contexts(20, seed=0)
    model = rf.LinearTransformer.init("diag", layers=2, dim=4, scale=0.05, seed=1, dtype=np.float64)
    losses, gradient = losses_and_gradient_on(model, draw)
    expected = rf.evaluation.half_square(model.weights(draw.context), draw.oracle, draw.moment)
    assert relative_error(losses, expected) < 1e-10
    direction = np.random.default_rng(0).standard_normal(model.size)
    step = 1e-6
    up, down = (
        losses_and_gradient_on(model.unflatten(model.flatten() + s * direction), draw)[0].mean() for s in (step, -step)
    )
    assert (up - down) / (2 * step) == pytest.approx(float(gradient.flatten() @ direction), rel=1e-5)


@pytest.mark.parametrize("name", ["stretched", "few", "range", "rotated"])
def test_training_step_on_a_general_task_equals_the_reference(name: str) -> None:
    model = rf.LinearTransformer.init("diag", layers=2, dim=4, scale=0.05, seed=1, dtype=np.float64)
    found, gradient = rf.loss_and_gradient(model, task(name), batch=100, seed=5, step=3)
    expected, its = rf.loss_and_gradient(model, task(name), batch=100, seed=5, step=3, backend="reference")
    assert found == pytest.approx(expected, rel=1e-10)
    assert relative_error(gradient.flatten(), its.flatten()) < 1e-9
