"""Theorem 4.2: outputs of linear transformers are far from x(1)²."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.theory.nonlinear_limit import (
    cosine_records,
    examples_needed,
    expected_cosine,
    output_cosines,
    reachable_cosine,
    with_scaled_attention,
)
from ridgeformer.theory.numerics import random_tokens
from support import KINDS, make_examples, relative_error, tame_model


@pytest.mark.parametrize("kind", KINDS)
def test_output_cosines_equal_those_of_the_token_transformer(kind: str) -> None:
    examples = make_examples(3, 40, 4, seed=1)
    model = tame_model(kind, 3, 2, 4, examples.gram)
    found = output_cosines(model, examples.X, examples.y)
    targets = examples.X[..., 0] ** 2
    trace = rf.transform_tokens(model, examples.X, examples.y, examples.queries)
    assert found.shape == (4, 3)
    for cosines, tokens in zip(found, trace, strict=True):
        outputs = tokens[:, :40, -1]
        norms = np.linalg.norm(outputs, axis=1) * np.linalg.norm(targets, axis=1)
        assert relative_error(cosines, np.abs((outputs * targets).sum(axis=1)) / norms) < 1e-10


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 3, 10, 50])
def test_no_output_comes_nearer_than_the_span_allows(kind: str, n: int) -> None:
    examples = make_examples(6, n, 5, seed=n)
    reachable = reachable_cosine(examples.X, examples.y)
    for seed in range(5):
        model = tame_model(kind, 3, 1, 5, examples.gram, seed, strength=2.0)
        assert (output_cosines(model, examples.X, examples.y) <= reachable + 1e-10).all()


def test_reachable_cosine_equals_least_squares() -> None:
    examples = make_examples(4, 30, 5, seed=2)
    for X, y, found in zip(examples.X, examples.y, reachable_cosine(examples.X, examples.y), strict=True):
        columns, target = np.column_stack([X, y]), X[:, 0] ** 2
        fitted = columns @ np.linalg.lstsq(columns, target, rcond=None)[0]
        assert abs(found - np.linalg.norm(fitted) / np.linalg.norm(target)) < 1e-10


def test_reachable_cosine_with_as_many_columns_as_examples_is_one() -> None:
    examples = make_examples(3, 4, 6, seed=3)
    assert np.abs(reachable_cosine(examples.X, examples.y) - 1).max() < 1e-8


@pytest.mark.parametrize(("dim", "sigma"), [(1, 0.0), (1, 1.0), (6, 0.0), (6, 1.0)])
def test_reachable_cosine_of_many_contexts_is_the_derived_size(dim: int, sigma: float) -> None:
    tokens = random_tokens(np.random.default_rng([4, dim]), 400, 1000, dim, sigma)
    measured = np.sqrt((reachable_cosine(tokens.X, tokens.y) ** 2).mean())
    # 400 values of mean square χ²_d-like spread: the root is known to 3.5 % at d = 1, better for more; four of those.
    assert abs(np.log(measured / expected_cosine(dim, 1000, noisy=sigma > 0))) < 0.14


def test_random_models_are_within_reach_and_below_the_printed_bound_in_long_contexts_only() -> None:
    n = 25 * examples_needed(10)  # expected cosine 0.02, so that 0.1 is five standard deviations away
    short, long = cosine_records(10, [20, n], np.random.default_rng(5))
    assert long.largest <= long.reachable < 0.1 < short.largest <= short.reachable
    assert long.expected == pytest.approx(0.02, rel=1e-3)


def test_quadratic_output_is_recognised() -> None:
    """The control of the cosine: targets that are x(1)² themselves reach 1."""
    X = np.random.default_rng(7).standard_normal((2, 50, 3))
    assert np.abs(reachable_cosine(X, X[..., 0] ** 2) - 1).max() < 1e-10


@pytest.mark.parametrize("kind", KINDS)
def test_given_model_in_long_contexts_stays_below_the_printed_bound(kind: str) -> None:
    examples = make_examples(8, 10, 5, seed=8)
    model = tame_model(kind, 6, 1, 5, examples.gram, strength=2.0)
    records = cosine_records(5, [20_000, 80_000], np.random.default_rng(8), model, made_for=10)
    assert [record.examples for record in records] == [20_000, 80_000]
    assert all(record.largest < 0.1 for record in records)


@pytest.mark.parametrize("kind", KINDS)
def test_scaled_attention_on_long_contexts_equals_the_model_on_scaled_gram_matrices(kind: str) -> None:
    examples = make_examples(2, 12, 3, seed=9)
    model = tame_model(kind, 3, 2, 3, examples.gram)
    scaled = rf.Context(examples.gram / 4, 12)
    found = rf.context_weights(with_scaled_attention(model, 0.25), rf.Context(examples.gram, 12))
    assert relative_error(found, rf.context_weights(model, scaled)) < 1e-10


def test_examples_needed_is_a_hundred_for_every_dimension_and_four_more() -> None:
    assert [examples_needed(dim) for dim in (1, 10)] == [500, 1400]


def test_cosine_records_of_a_model_of_another_dimension_are_refused() -> None:
    with pytest.raises(rf.InputError, match="made for 3 features"):
        cosine_records(5, [10], np.random.default_rng(0), rf.LinearTransformer.init("diag", layers=1, dim=3))
