"""The task: what it draws, and that drawing Gram matrices is drawing tokens, in distribution."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

import ridgeformer as rf
from ridgeformer.core.notation import Array
from ridgeformer.core.random import Purpose
from support import DTYPES, within_standard_errors

# --- tokens -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dim", "context"), [(1, 1), (3, 2), (3, 10)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_draw_tokens_has_the_documented_shapes_and_precision(dim: int, context: int, dtype: Any) -> None:
    drawn = rf.Task(dim, context).draw_tokens(5, seed=0, dtype=dtype)
    arrays = {name: array for name, array in vars(drawn).items() if name not in ("moment", "examples")}
    shapes = {name: array.shape for name, array in arrays.items()}
    assert shapes == {
        "X": (5, context, dim),
        "y": (5, context),
        "weights": (5, dim),
        "sigma": (5,),
        "query": (5, dim),
        "target": (5,),
    }
    assert {array.dtype for array in arrays.values()} == {np.dtype(dtype)}
    assert (drawn.moment, drawn.examples) == (None, context)


def test_draw_tokens_targets_are_linear_plus_noise_of_the_drawn_level() -> None:
    drawn = rf.Task(3, 50, "categorical:0+2").draw_tokens(400, seed=1)
    residual = drawn.y - np.einsum("bnd,bd->bn", drawn.X, drawn.weights)
    assert np.abs(residual[drawn.sigma == 0]).max() < 1e-12  # rounding of sums of three products
    noisy = residual[drawn.sigma == 2] / 2
    assert stats.kstest(noisy.ravel(), "norm").pvalue > 1e-6
    # The query's target carries no noise.
    assert np.array_equal(drawn.target, np.einsum("bd,bd->b", drawn.query, drawn.weights))


def test_draw_tokens_everything_random_is_standard_normal() -> None:
    drawn = rf.Task(3, 10).draw_tokens(3000, seed=2)
    for array in (drawn.X, drawn.weights, drawn.query):
        assert stats.kstest(array.ravel(), "norm").pvalue > 1e-6


# --- naming -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("context", [2, 8])
def test_draws_of_the_same_name_are_equal_and_of_others_differ(context: int) -> None:
    task = rf.Task(3, context)
    base = task.draw_contexts(4, seed=0)
    assert np.array_equal(task.draw_contexts(4, seed=0).context.gram, base.context.gram)
    for other in (
        task.draw_contexts(4, seed=1),
        task.draw_contexts(4, seed=0, step=1),
        task.draw_contexts(4, seed=0, purpose=Purpose.TRAIN),
    ):
        assert not np.isclose(other.context.gram, base.context.gram).any()
        assert not np.isclose(other.weights, base.weights).any()


@pytest.mark.parametrize("context", [2, 8])
def test_noise_levels_are_the_same_drawn_alone_with_tokens_and_with_contexts(context: int) -> None:
    task = rf.Task(3, context)
    sigma = task.draw_sigma(6, seed=3, step=4)
    assert np.array_equal(task.draw_tokens(6, seed=3, step=4).sigma, sigma)
    assert np.array_equal(task.draw_contexts(6, seed=3, step=4).sigma, sigma)


def test_draws_in_float32_are_those_in_float64_rounded() -> None:
    task = rf.Task(3, 8)
    wide, narrow = (task.draw_contexts(20, seed=0, dtype=dtype) for dtype in (np.float64, np.float32))
    for mine, its in zip(narrow.as_gram_draw()[:4], wide.as_gram_draw()[:4], strict=True):
        assert mine.dtype == np.float32
        assert np.array_equal(mine, its.astype(np.float32))
    assert narrow.sigma.dtype == np.float32


@pytest.mark.parametrize("context", [1, 2, 3])
def test_contexts_of_fewer_examples_than_a_gram_matrix_has_rows_are_sums_of_tokens(context: int) -> None:
    task = rf.Task(3, context, "uniform:0.5-2")
    assert not task.gram_drawable
    drawn, tokens = task.draw_contexts(5, seed=0, step=2), task.draw_tokens(5, seed=0, step=2)
    assert np.array_equal(drawn.context.gram, rf.Context.from_tokens(tokens.X, tokens.y).gram)
    assert drawn.context.examples == context
    assert np.array_equal(drawn.weights, tokens.weights)
    assert np.array_equal(drawn.query, tokens.query)
    assert np.array_equal(drawn.oracle, drawn.context.ridge(tokens.sigma**2))


def test_task_is_gram_drawable_from_dim_plus_one_examples_on() -> None:
    assert [rf.Task(3, n).gram_drawable for n in (1, 3, 4, 5)] == [False, False, True, True]


def test_task_defaults_are_those_of_the_paper() -> None:
    """d = 10, n = 20 (the paper's section 1); U(0, 5) is the prior most of its figures use."""
    task = rf.Task()
    assert (task.dim, task.examples, task.prior.spec) == (10, 20, "uniform:5")
    assert task == rf.Task(dim=10, examples=20, noise=rf.Uniform(5.0))


# --- Gram draws against token draws -----------------------------------------------------------------------------------

SIZE = 20_000


MOMENT_CASES = [(1, 2, 1.0), (3, 4, 2.0), (3, 12, 0.5), (5, 30, 3.0)]


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize(("dim", "n", "sigma"), MOMENT_CASES)
def test_moments_of_drawn_contexts_are_those_of_the_model(backend: str, dim: int, n: int, sigma: float) -> None:
    """Moments of Wishart matrices: E Σ = n I, E Σ_ij² = n (i ≠ j) and n(n+2) (i = j), E Σ² = n(n+d+1) I.

    y given w is N(0, s²) with s² = ‖w‖² + σ², so λ = s² χ²_n; E ‖w‖² = d, E ‖w‖⁴ = d(d+2); α = Σ w + Xᵀξ.
    """
    drawn = rf.Task(dim, n, rf.Fixed(sigma)).draw_contexts(SIZE, seed=11, backend=backend)
    context, w = drawn.context, drawn.weights
    assert within_standard_errors(context.scatter, n * np.eye(dim))
    assert within_standard_errors(context.scatter**2, np.where(np.eye(dim, dtype=bool), n * (n + 2), n))
    assert within_standard_errors(context.cross, np.zeros(dim))
    assert within_standard_errors(context.cross[:, :, None] * w[:, None, :], n * np.eye(dim))
    square = n * dim * (n + dim + 1) + sigma**2 * n * dim
    assert within_standard_errors((context.cross**2).sum(axis=1), square)
    assert within_standard_errors(context.energy, n * (dim + sigma**2))
    fourth = dim * (dim + 2) + 2 * dim * sigma**2 + sigma**4
    assert within_standard_errors(context.energy**2, n * (n + 2) * fourth)
    assert within_standard_errors(w, np.zeros(dim))
    assert within_standard_errors(w**2, np.ones(dim))
    assert within_standard_errors(drawn.query[:, :, None] * w[:, None, :], np.zeros((dim, dim)))
    # Given the data, w has mean w*: the oracle's error is uncorrelated with any function of the data.
    assert within_standard_errors((w - drawn.oracle) * context.cross, np.zeros(dim))


def functionals(gram: Array) -> Array:
    """(number, batch): what two samples of Gram matrices are compared in."""
    eigenvalues = np.linalg.eigvalsh(gram)
    return np.stack(
        [
            np.trace(gram[:, :-1, :-1], axis1=1, axis2=2),
            eigenvalues[:, 0],
            eigenvalues[:, -1],
            np.log(eigenvalues).sum(axis=1),
            gram[:, -1, -1],
            (gram[:, :-1, -1] ** 2).sum(axis=1),
            gram[:, 0, -1],
            gram[:, -2, -2],
            gram[:, 0, -2],
        ]
    )


SAME_CASES = [(1, 2, "fixed:1"), (3, 4, "uniform:5"), (4, 9, "categorical:1+3"), (10, 20, "uniform:5")]
# One false alarm in a million runs, shared by all functionals and cases (Bonferroni).
REJECT = 1e-6 / (9 * len(SAME_CASES))


@cache
def of_tokens(task: rf.Task) -> Array:
    """The functionals of summed tokens."""
    tokens = task.draw_tokens(SIZE, seed=6)
    return functionals(rf.Context.from_tokens(tokens.X, tokens.y).gram)


def smallest_p_value(one: Array, other: Array) -> float:
    """Of two-sample Kolmogorov-Smirnov tests, one for each functional."""
    return min(float(stats.ks_2samp(*pair).pvalue) for pair in zip(one, other, strict=True))


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize(("dim", "n", "noise"), SAME_CASES)
def test_drawn_contexts_and_summed_tokens_have_the_same_distribution(
    backend: str, dim: int, n: int, noise: str
) -> None:
    task = rf.Task(dim, n, noise)
    drawn = task.draw_contexts(SIZE, seed=5, backend=backend).context.gram
    assert smallest_p_value(functionals(drawn), of_tokens(task)) > REJECT


@pytest.mark.parametrize(("dim", "n", "noise"), SAME_CASES)
def test_contexts_with_one_example_more_fail_the_same_test(dim: int, n: int, noise: str) -> None:
    """The control: the test above sees a single degree of freedom."""
    drawn = rf.Task(dim, n + 1, noise).draw_contexts(SIZE, seed=5, backend="reference").context.gram
    assert smallest_p_value(functionals(drawn), of_tokens(rf.Task(dim, n, noise))) < REJECT
