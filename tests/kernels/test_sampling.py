"""Contexts drawn by the kernels are those of the NumPy reference, to rounding, whatever batch they are drawn in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw, Purpose, Source, draw_gram, philox_key
from ridgeformer.kernels import engine
from support import DTYPES

KEY = philox_key(99, Purpose.EVALUATE)


def fused(dim: int, n: int, sigma: Array, step: int, first: int, dtype: Any) -> GramDraw:
    return engine.draw(dim, Source(sigma, n, step, first, KEY), dtype)


def reference(dim: int, n: int, sigma: Array, step: int, first: int = 0) -> GramDraw:
    return draw_gram(dim, Source(sigma, n, step, first, KEY))


# n = d + 1 has a χ of one degree; p = 2, 3, 4, 6, 11, 65 includes odd and even numbers of χ and of normals.
SHAPES = [(1, 2), (1, 50), (2, 3), (3, 4), (3, 9), (5, 6), (10, 11), (10, 20), (10, 10_000), (64, 65), (64, 200)]


@pytest.mark.parametrize(("dim", "n"), SHAPES)
@pytest.mark.parametrize(("step", "first"), [(0, 0), (2**32 + 5, 77), (2**63 - 1, 2**31)])
def test_float64_contexts_equal_the_reference(dim: int, n: int, step: int, first: int) -> None:
    sigma = np.linspace(0, 5, 50)
    found, expected = fused(dim, n, sigma, step, first, np.float64), reference(dim, n, sigma, step, first)
    for name, mine, its in zip(GramDraw._fields[:4], found[:4], expected[:4], strict=True):
        # Rounding of the normals, a few eps, and of sums of up to 65 products: measured, 3e-15. The oracle's solve
        # magnifies it by the condition of Σ + σ²I, which for n = d + 1 and σ = 0 has no bound: measured, 7e-15.
        tolerance = 1e-12 if name == "oracle" else 1e-13
        assert np.abs(mine - its).max() < tolerance * np.abs(its).max(), name


@pytest.mark.parametrize(("dim", "n"), SHAPES)
def test_float32_contexts_equal_the_reference_to_rounding(dim: int, n: int) -> None:
    sigma = np.linspace(0.5, 5, 200)
    found, expected = fused(dim, n, sigma, 3, 0, np.float32), reference(dim, n, sigma, 3)
    for name, mine, its in zip(GramDraw._fields[:4], found[:4], expected[:4], strict=True):
        assert mine.dtype == np.float32
        # The same in float32, 6e-8; small radii cost single normals a digit or two (see test_random.py). Measured:
        # 5e-7, and 2e-6 for the oracle with σ ≥ ½.
        tolerance = 1e-4 if name == "oracle" else 1e-5
        assert np.abs(mine - its).max() < tolerance * np.abs(its).max(), name


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("dim", "n"), [(3, 4), (10, 20)])
def test_contexts_without_noise_have_the_true_weights_as_oracle(dim: int, n: int, dtype: Any) -> None:
    drawn = fused(dim, n, np.zeros(100), 0, 0, dtype)
    assert np.array_equal(drawn.oracle, drawn.weights)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("first", "last"), [(0, 1), (0, 5), (0, 16), (0, 17), (1, 100), (16, 100), (61, 100)])
def test_contexts_of_some_are_a_slice_of_those_of_many(dtype: Any, first: int, last: int) -> None:
    sigma = np.linspace(0, 5, 100)
    many, some = fused(4, 9, sigma, 7, 0, dtype), fused(4, 9, sigma[first:last], 7, first, dtype)
    assert all(np.array_equal(mine, its[first:last]) for mine, its in zip(some[:4], many[:4], strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gram_matrices_are_exactly_symmetric(dtype: Any) -> None:
    gram = fused(6, 10, np.ones(50), 0, 0, dtype).gram
    assert np.array_equal(gram, gram.transpose(0, 2, 1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["diag", "full"])
@pytest.mark.parametrize("objective", ["exact", "sampled"])
def test_gradient_on_contexts_drawn_inside_equals_that_on_contexts_drawn_before(
    dtype: Any, kind: str, objective: str
) -> None:
    """The two ways into a kernel, the same bits: what it draws for itself is what it draws for others."""
    task, model = rf.Task(5, 8), rf.LinearTransformer.init(kind, layers=3, dim=5, dtype=dtype)
    contexts = task.draw_contexts(130, seed=1, step=2, purpose=Purpose.TRAIN, dtype=dtype, backend="fused")
    loss, gradient = rf.loss_and_gradient(model, task, batch=130, seed=1, step=2, objective=objective, backend="fused")
    losses, expected = rf.losses_and_gradient_on(model, contexts, objective=objective, backend="fused")
    assert loss == losses.mean(dtype=np.float64)
    assert np.array_equal(gradient.flatten(), expected.flatten())


def test_task_draws_large_batches_with_the_kernels_and_they_are_the_same() -> None:
    """`auto` changes the back end with the batch size; the contexts stay, to rounding."""
    task = rf.Task(3, 8)
    few, many = task.draw_contexts(10, seed=0), task.draw_contexts(150_000, seed=0)
    assert many.context.gram.shape == (150_000, 4, 4)
    for mine, its in zip(few.as_gram_draw()[:4], many.as_gram_draw()[:4], strict=True):
        assert np.abs(mine - its[:10]).max() < 1e-11 * np.abs(mine).max()
