"""The kinds of attention that the benchmark times are what their names say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.bench.attention import (
    Attention,
    kernelised_attention,
    linear_attention,
    one_context,
    predict_from_gram,
    predict_from_tokens,
    run_tokens,
    softmax_attention,
)
from ridgeformer.core.notation import Array
from support import relative_error

TOLERANCE = 1e-12  # float64; the same sums in another order


def some_queries_keys_values(seed: int = 0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((8, 3)), rng.standard_normal((7, 3)), rng.standard_normal((7, 3))


def softmax_weight(query: Array, key: Array) -> float:
    return float(np.exp(query @ key / np.sqrt(3)))


def kernel_weight(query: Array, key: Array) -> float:
    q, k = (np.array([x + 1 if x > 0 else np.exp(x) for x in vector]) for vector in (query, key))
    return float(q @ k)


@pytest.mark.parametrize(
    ("attention", "weight"), [(softmax_attention, softmax_weight), (kernelised_attention, kernel_weight)]
)
def test_attention_is_the_average_with_its_weights(
    attention: Attention, weight: Callable[[Array, Array], float]
) -> None:
    queries, keys, values = some_queries_keys_values()
    weights = np.array([[weight(query, key) for key in keys] for query in queries])
    expected = weights @ values / weights.sum(axis=1, keepdims=True)
    assert relative_error(attention(queries, keys, values), expected) < TOLERANCE


def test_softmax_attention_in_small_blocks_is_the_same() -> None:
    queries, keys, values = some_queries_keys_values()
    by_three = softmax_attention(queries, keys, values, scores_at_once=3 * len(keys))  # eight do not divide by it
    assert relative_error(by_three, softmax_attention(queries, keys, values)) < TOLERANCE


def test_linear_attention_moves_tokens_as_transform_tokens_does() -> None:
    model = rf.LinearTransformer.init("full", layers=3, dim=10, scale=0.02, dtype=np.float64)
    tokens = one_context(12).astype(np.float64)
    X, y, query = tokens[None, :-1, :-1], tokens[None, :-1, -1], tokens[None, -1:, :-1]
    expected = rf.transform_tokens(model, X, y, query)[-1][0]
    assert relative_error(run_tokens(linear_attention, model, tokens), expected) < TOLERANCE


def test_gram_space_predicts_what_linear_attention_predicts() -> None:
    model = rf.LinearTransformer.init("full", layers=4, dim=10, scale=0.02, dtype=np.float64)
    tokens = one_context(30).astype(np.float64)
    expected = predict_from_tokens(linear_attention, model, tokens)
    assert predict_from_gram(model, tokens) == pytest.approx(expected, rel=TOLERANCE)


@pytest.mark.parametrize("kind", [softmax_attention, kernelised_attention, linear_attention])
def test_attention_in_float32_stays_in_float32(kind: Attention) -> None:
    queries, keys, values = (array.astype(np.float32) for array in some_queries_keys_values())
    assert kind(queries, keys, values).dtype == np.float32
