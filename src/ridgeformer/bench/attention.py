"""Four ways to run one context through a model, in NumPy, as plain as their formulas; used by the benchmark alone.

``tokens`` is E (N + 1, p), the query token last; attention is over the N context tokens E_c. With queries Q e_i, keys
e_j and values P e_j every layer adds to token i an average or sum of the values. The first two are the nonlinear
relatives that readers of the paper compare with; the last two compute the paper's model.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.forward import gram_weights
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array

Attention = Callable[[Array, Array, Array], Array]
"""attention(queries (N + 1, p), keys (N, p), values (N, p)) → (N + 1, p)."""

SCORES_AT_ONCE = 1 << 20
"""Entries of the N × N scores in memory: 4 MB, which fits a core's cache, where all of N = 10 000 would be 400 MB."""


def softmax_attention(queries: Array, keys: Array, values: Array) -> Array:
    """Σ_j softmax_j(⟨q_i, k_j⟩ / √p) v_j: O(N²) time. Rows in blocks, so that memory stays O(N)."""
    out = np.empty_like(queries)
    rows = max(1, SCORES_AT_ONCE // len(keys))
    scaled = queries / np.sqrt(queries.shape[-1]).astype(queries.dtype)
    for first in range(0, len(queries), rows):
        scores = scaled[first : first + rows] @ keys.T
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        out[first : first + rows] = (scores @ values) / scores.sum(axis=-1, keepdims=True)
    return out


def kernelised_attention(queries: Array, keys: Array, values: Array) -> Array:
    """φ(q_i)ᵀ(Σ_j φ(k_j) v_jᵀ) / φ(q_i)ᵀ(Σ_j φ(k_j)) with φ = elu + 1: O(N) time (Katharopoulos et al., ICML 2020)."""
    mapped_queries, mapped_keys = elu_plus_one(queries), elu_plus_one(keys)
    return (mapped_queries @ (mapped_keys.T @ values)) / (mapped_queries @ mapped_keys.sum(axis=0))[:, None]


def elu_plus_one(x: Array) -> Array:
    """x + 1 for x > 0, exp(x) otherwise: positive, so that no normaliser vanishes."""
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def linear_attention(queries: Array, keys: Array, values: Array) -> Array:
    """Σ_j ⟨q_i, k_j⟩ v_j, the paper's, with the small matrix Σ_j k_j v_jᵀ first: O(N) time."""
    return queries @ (keys.T @ values)


def run_tokens(attention: Attention, model: LinearTransformer, tokens: Array) -> Array:
    """All tokens after all layers: e_i ← e_i + attention, for a model with one head."""
    P, Q = model.attention_matrices()
    for layer in range(model.layers):
        context = tokens[:-1]
        tokens = tokens + attention(tokens @ Q[layer, 0].T, context, context @ P[layer, 0].T)
    return tokens


def predict_from_tokens(attention: Attention, model: LinearTransformer, tokens: Array) -> float:
    """ŷ: minus the last coordinate of the query token after all layers."""
    return -float(run_tokens(attention, model, tokens)[-1, -1])


def predict_from_gram(model: LinearTransformer, tokens: Array) -> float:
    """The same ŷ as with `linear_attention`: one pass over the tokens for G, then nothing depends on N."""
    context = Context.from_tokens(tokens[None, :-1, :-1], tokens[None, :-1, -1])
    return float(gram_weights(model, context.gram)[0] @ tokens[-1, :-1])
