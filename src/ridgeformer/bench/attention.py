"""Section ``attention``: the time of a forward pass against the length of the context, for four kinds of attention.

All in NumPy, as plain as their formulas. ``tokens`` is E (N + 1, p), the query token last; attention is over the N
context tokens E_c. With queries Q e_i, keys e_j and values P e_j every layer adds to token i an average or sum of the
values. The first two are the nonlinear relatives that readers of the paper compare with; the last two compute the
paper's model.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ridgeformer.bench.machine import Call, best_times, run_with_blas_threads
from ridgeformer.bench.rows import DIM, BenchConfig, Row, exponent_row
from ridgeformer.core.context import Context
from ridgeformer.core.forward import gram_weights
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.task import Task, TokenDraw

Attention = Callable[[Array, Array, Array], Array]
"""attention(queries (N + 1, p), keys (N, p), values (N, p)) → (N + 1, p)."""

_SCORES_AT_ONCE = 1 << 20
"""Entries of the N × N scores in memory: 4 MB, which fits a core's cache, where all of N = 10 000 would be 400 MB."""
_LENGTHS = (100, 316, 1000, 3162, 10_000)  # two a decade, up to the length that readers of the paper name
_LAYERS = 4
_NOISE = "fixed:1"


def softmax_attention(queries: Array, keys: Array, values: Array, scores_at_once: int = _SCORES_AT_ONCE) -> Array:
    """Σ_j softmax_j(⟨q_i, k_j⟩ / √p) v_j: O(N²) time. Rows in blocks, so that memory stays O(N)."""
    out = np.empty_like(queries)
    rows = max(1, scores_at_once // len(keys))
    scaled = queries / np.sqrt(queries.shape[-1]).astype(queries.dtype)
    for first in range(0, len(queries), rows):
        scores = scaled[first : first + rows] @ keys.T
        scores -= scores.max(axis=-1, keepdims=True)
        np.exp(scores, out=scores)
        out[first : first + rows] = (scores @ values) / scores.sum(axis=-1, keepdims=True)
    return out


def kernelised_attention(queries: Array, keys: Array, values: Array) -> Array:
    """φ(q_i)ᵀ(Σ_j φ(k_j) v_jᵀ) / φ(q_i)ᵀ(Σ_j φ(k_j)) with φ = elu + 1: O(N) time (Katharopoulos et al., ICML 2020)."""
    # elu + 1 is x + 1 for x > 0 and exp(x) otherwise: positive, so that no normaliser vanishes.
    queries, keys = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (queries, keys))
    return (queries @ (keys.T @ values)) / (queries @ keys.sum(axis=0))[:, None]


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


_GRAM = "Gram space, O(N) once"
_KINDS: dict[str, Callable[[LinearTransformer, Array], float]] = {
    "softmax attention, O(N²)": partial(predict_from_tokens, softmax_attention),
    "kernelised attention, O(N)": partial(predict_from_tokens, kernelised_attention),
    "linear attention, O(N)": partial(predict_from_tokens, linear_attention),
    _GRAM: predict_from_gram,
}


def attention_rows(config: BenchConfig) -> list[Row]:
    """One context, d = 10, L = 4, float32; and for each kind the fitted exponent of its growth with N.

    It runs in a separate process whose BLAS has one thread. With more threads, BLAS would start to use them as N grows,
    and the exponent would show that.
    """
    lengths = _LENGTHS[:3] if config.quick else _LENGTHS
    times: dict[str, list[float]] = run_with_blas_threads(1, forward_times, lengths, config.samples, config.window)
    rows = []
    for kind, seconds in times.items():
        for length, time, gram_time in zip(lengths, seconds, times[_GRAM], strict=True):
            rows.append(Row("attention", f"N = {length}", time / gram_time, group=kind, seconds=time))
        rows.append(exponent_row("attention", kind, "N", dict(zip(lengths, seconds, strict=True))))
    return rows


def forward_times(lengths: Sequence[int], repeats: int, window: float) -> dict[str, list[float]]:
    """Seconds of each kind of attention at each length."""
    model = LinearTransformer.init("full", layers=_LAYERS, dim=DIM)
    times: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    for length in lengths:
        tokens = one_context(length)
        calls: dict[str, Call] = {kind: partial(predict, model, tokens) for kind, predict in _KINDS.items()}
        for kind, seconds in best_times(calls, repeats, window).items():
            times[kind].append(seconds)
    return times


def one_context(length: int) -> Array:
    """N context tokens and the query token, (N + 1, p), float32."""
    return token_matrix(Task(DIM, length, _NOISE).draw_tokens(1, seed=0, dtype=np.float32))[0]


def token_matrix(drawn: TokenDraw) -> Array:
    """E (batch, n + 1, p): the tokens of every context and then its query, whose last entry is 0."""
    rows = np.concatenate([drawn.X, drawn.query[:, None]], axis=1)
    last = np.concatenate([drawn.y, np.zeros_like(drawn.y[:, :1])], axis=1)
    return np.concatenate([rows, last[..., None]], axis=-1)
