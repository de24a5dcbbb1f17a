"""The kinds of attention that the benchmark times are what their names say."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.bench import attention
from ridgeformer.bench.attention import (
    kernelised_attention,
    linear_attention,
    predict_from_gram,
    predict_from_tokens,
    run_tokens,
    softmax_attention,
)
from ridgeformer.bench.long_contexts import one_context
from ridgeformer.core.notation import Array
from support import relative_error

TOLERANCE = 1e-12  # float64; the same sums in another order


def some_queries_keys_values(seed: int = 0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((8, 3)), rng.standard_normal((7, 3)), rng.standard_normal((7, 3))


def test_softmax_attention_is_the_average_with_softmax_weights() -> None:
    queries, keys, values = some_queries_keys_values()
    expected = np.zeros_like(queries)
    for i, query in enumerate(queries):
        weights = np.exp([query @ key / np.sqrt(3) for key in keys])
        expected[i] = sum(weight * value for weight, value in zip(weights / weights.sum(), values, strict=True))
    assert relative_error(softmax_attention(queries, keys, values), expected) < TOLERANCE


def test_softmax_attention_in_small_blocks_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, keys, values = some_queries_keys_values()
    at_once = softmax_attention(queries, keys, values)
    monkeypatch.setattr(attention, "SCORES_AT_ONCE", 3 * len(keys))  # three rows at a time; eight do not divide by it
    assert relative_error(softmax_attention(queries, keys, values), at_once) < TOLERANCE


def test_kernelised_attention_is_the_average_with_kernel_weights() -> None:
    def feature(x: Array) -> Array:
        return np.array([x_i + 1 if x_i > 0 else np.exp(x_i) for x_i in x])

    queries, keys, values = some_queries_keys_values()
    expected = np.zeros_like(queries)
    for i, query in enumerate(queries):
        weights = np.array([feature(query) @ feature(key) for key in keys])
        expected[i] = sum(weight * value for weight, value in zip(weights / weights.sum(), values, strict=True))
    assert relative_error(kernelised_attention(queries, keys, values), expected) < TOLERANCE


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
def test_attention_in_float32_stays_in_float32(kind: attention.Attention) -> None:
    queries, keys, values = (array.astype(np.float32) for array in some_queries_keys_values())
    assert kind(queries, keys, values).dtype == np.float32
