"""The kinds of attention that the benchmark times are what their names say."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.bench import attention as bench
from ridgeformer.bench.attention import Attention, kernelised_attention, linear_attention, softmax_attention
from ridgeformer.core.notation import Array
from support import relative_error

TOLERANCE = 1e-12  # float64; the same sums in another order
QUERIES_KEYS_VALUES = tuple(np.random.default_rng(0).standard_normal((count, 3)) for count in (8, 7, 7))


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
    queries, keys, values = QUERIES_KEYS_VALUES
    weights = np.array([[weight(query, key) for key in keys] for query in queries])
    expected = weights @ values / weights.sum(axis=1, keepdims=True)
    assert relative_error(attention(queries, keys, values), expected) < TOLERANCE


def test_softmax_attention_in_small_blocks_is_the_same() -> None:
    queries, keys, values = QUERIES_KEYS_VALUES
    by_three = softmax_attention(queries, keys, values, scores_at_once=3 * len(keys))  # eight do not divide by it
    assert relative_error(by_three, softmax_attention(queries, keys, values)) < TOLERANCE


def test_linear_attention_moves_tokens_as_transform_tokens_does_and_gram_space_predicts_the_same() -> None:
    model = rf.LinearTransformer.init("full", layers=4, dim=10, scale=0.02, dtype=np.float64)
    tokens = bench.one_context(30).astype(np.float64)
    X, y, query = tokens[None, :-1, :-1], tokens[None, :-1, -1], tokens[None, -1:, :-1]
    moved = rf.transform_tokens(model, X, y, query)[-1][0]
    assert relative_error(bench.run_tokens(linear_attention, model, tokens), moved) < TOLERANCE
    expected = bench.predict_from_tokens(linear_attention, model, tokens)
    assert bench.predict_from_gram(model, tokens) == pytest.approx(expected, rel=TOLERANCE)


@pytest.mark.parametrize("kind", [softmax_attention, kernelised_attention, linear_attention])
def test_attention_in_float32_stays_in_float32(kind: Attention) -> None:
    assert kind(*(array.astype(np.float32) for array in QUERIES_KEYS_VALUES)).dtype == np.float32
