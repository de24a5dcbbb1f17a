"""Contexts as Gram statistics, and ridge regression on them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from support import DTYPES, make_examples, refused, relative_error

# Float64 rounding of small sums and well-conditioned solves; measured, 1e-14.
TIGHT = 1e-11


def test_from_tokens_gives_the_sums_over_the_examples() -> None:
    examples = make_examples(3, 7, 4, seed=0)
    context = rf.Context.from_tokens(examples.X, examples.y)
    assert context.dim == 4
    assert context.examples == 7
    for number, (X, y) in enumerate(zip(examples.X, examples.y, strict=True)):
        assert relative_error(context.scatter[number], np.sum([np.outer(x, x) for x in X], axis=0)) < TIGHT
        assert relative_error(context.cross[number], np.sum([t * x for x, t in zip(X, y, strict=True)], axis=0)) < TIGHT
        assert context.energy[number] == pytest.approx(float(sum(t * t for t in y)), rel=TIGHT)
    assert np.array_equal(context.gram, context.gram.transpose(0, 2, 1))


def test_from_tokens_of_lists_and_integers_gives_float64() -> None:
    context = rf.Context.from_tokens([[[1], [2]]], [[3, 4]])
    assert context.gram.dtype == np.float64
    assert context.gram.tolist() == [[[5.0, 11.0], [11.0, 25.0]]]


def test_from_tokens_keeps_float32_and_widens_mixed_precisions() -> None:
    examples = make_examples(1, 3, 2, seed=1)
    narrow = examples.X.astype(np.float32), examples.y.astype(np.float32)
    assert rf.Context.from_tokens(*narrow).gram.dtype == np.float32
    assert rf.Context.from_tokens(narrow[0], examples.y).gram.dtype == np.float64


@pytest.mark.parametrize(("dim", "n"), [(1, 1), (2, 1), (5, 3), (5, 5), (5, 6), (10, 50)])
@pytest.mark.parametrize("penalty", [0.25, 4.0])
def test_ridge_solves_the_penalised_normal_equations(dim: int, n: int, penalty: float) -> None:
    examples = make_examples(4, n, dim, seed=2)
    found = rf.Context.from_tokens(examples.X, examples.y).ridge(penalty)
    for weights, X, y in zip(found, examples.X, examples.y, strict=True):
        # Least squares on the data with √v I appended is ridge regression with penalty v.
        tall, right = np.vstack([X, np.sqrt(penalty) * np.eye(dim)]), np.concatenate([y, np.zeros(dim)])
        assert relative_error(weights, np.linalg.lstsq(tall, right)[0]) < TIGHT


def test_ridge_takes_one_penalty_per_context() -> None:
    examples = make_examples(3, 6, 2, seed=3)
    context = rf.Context.from_tokens(examples.X, examples.y)
    penalties = np.array([0.0, 1.0, 9.0])
    together = context.ridge(penalties)
    for number, penalty in enumerate(penalties):
        assert np.array_equal(together[number], context.ridge(penalty)[number])


@pytest.mark.parametrize(("dim", "n"), [(5, 2), (5, 4), (8, 1), (5, 20)])
def test_ridge_without_penalty_is_the_least_squares_solution_of_least_norm(dim: int, n: int) -> None:
    """For n < d the limit v → 0 of ridge regression: directions without data get weight zero."""
    examples = make_examples(4, n, dim, seed=4)
    found = rf.Context.from_tokens(examples.X, examples.y).ridge(0.0)
    for weights, X, y in zip(found, examples.X, examples.y, strict=True):
        # Squaring the data in Σ squares its condition number, about 100 here: 1e-16 · 1e4 and room for both solvers.
        assert relative_error(weights, np.linalg.lstsq(X, y)[0]) < 1e-9


def test_ridge_of_float32_contexts_is_computed_in_float64() -> None:
    examples = make_examples(2, 6, 3, seed=5)
    context = rf.Context.from_tokens(examples.X.astype(np.float32), examples.y.astype(np.float32))
    assert context.ridge(1.0).dtype == np.float64


@pytest.mark.parametrize("penalty", [-1.0, np.nan, "one", None, [1.0, 2.0, 3.0], [[1.0], [2.0]], [1.0, -1.0]])
def test_ridge_with_a_bad_penalty_is_refused(penalty: Any) -> None:
    examples = make_examples(2, 6, 3, seed=6)
    context = rf.Context.from_tokens(examples.X, examples.y)
    refused("penalty", context.ridge, penalty)


LOPSIDED = np.array([[[4.0, 1.0, 2.0], [1.001, 3.0, 0.5], [2.0, 0.5, 5.0]]])
BAD_GRAMS: dict[str, Any] = {
    **{f"of shape {shape}": np.zeros(shape) for shape in ((3, 3), (2, 3, 4), (2, 4, 3), (2, 1, 1))},
    **{f"of {value}": np.full((2, 3, 3), value) for value in (np.nan, np.inf, 1j, "1")},
    "a string": "gram",
    "nothing": None,
    "masked": np.ma.masked_array(np.eye(3)[None], False),
    "asymmetric": LOPSIDED,
    "asymmetric in one of two": np.concatenate([np.eye(3)[None], LOPSIDED]),
    "asymmetric in its last column": np.arange(9.0).reshape(1, 3, 3) @ np.diag([1, 1, 0]),
}


@pytest.mark.parametrize("name", BAD_GRAMS)
def test_context_of_a_bad_gram_matrix_is_refused(name: str) -> None:
    """At once: the kernels would read past the end of an array, and read one half of the matrix only."""
    refused("symmetric" if name.startswith("asymmetric") else "gram", rf.Context, BAD_GRAMS[name], 5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1e-20, 1.0, 1e15])
def test_context_of_a_gram_matrix_that_is_symmetric_to_rounding_is_accepted(dtype: Any, size: float) -> None:
    X, y = np.random.default_rng(0).standard_normal((2, 4, 1000, 5)).astype(dtype), np.ones((4, 1000), dtype)
    tokens = np.concatenate([X[0] * dtype(size), y[..., None]], axis=-1)
    gram = np.einsum("bni,bnj->bij", tokens, tokens)
    gram[:, 0, 1] *= dtype(1 + 4 * np.finfo(dtype).eps)  # as another order of summation would leave it
    assert rf.Context(gram, 1000).dim == 5


@pytest.mark.parametrize("examples", [0, -1, 1.5, "5", None, True])
def test_context_of_a_bad_number_of_examples_is_refused(examples: Any) -> None:
    refused("examples", rf.Context, np.eye(3)[None], examples)


def test_ridge_without_penalty_on_float32_grams_of_few_examples_ignores_empty_directions() -> None:
    """n < d: eigenvalues of empty directions are rounding of float32, which the limit v → 0 must not divide by."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 4, 9)), rng.standard_normal((50, 4))
    expected = np.einsum("bdn,bn->bd", np.linalg.pinv(X), y)
    narrow = rf.Context.from_tokens(X.astype(np.float32), y.astype(np.float32))
    np.testing.assert_allclose(narrow.ridge(0.0), expected, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(rf.Context.from_tokens(X, y).ridge(0.0), expected, rtol=1e-8, atol=1e-8)
