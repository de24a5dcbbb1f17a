"""What a linear transformer computes, in plain NumPy: token by token as in the paper, and on Gram matrices.

All other implementations are tested against these two. `context_weights` gives the same numbers, with the compiled
kernels if there is enough work; `implicit_weights` and `predict` of `evaluation.guard`, which users call, use it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ridgeformer.core.backend import engine, uses_kernels
from ridgeformer.core.context import Context, check_tokens
from ridgeformer.core.kinds import insert_registers
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.validation import InputError, finite_array, instance


def transform_tokens(model: LinearTransformer, X: Any, y: Any, queries: Any) -> list[Array]:
    """The token transformer as in section 3 of the paper: all tokens, before and after every layer.

    Parameters
    ----------
    model: a model for d features.
    X, y: examples, (batch, n, d) and (batch, n).
    queries: (batch, m, d).

    Returns L + 1 arrays (batch, n + m, p), p = d + 1 + r: tokens before the first and after each layer. The token of an
    example is (x, 0, y), where 0 stands for the r registers; that of a query is (x_t, 0, 0). Attention sums over the n
    examples only:  e_i ← e_i + Σ_k Σ_j (e_jᵀ Q_k e_i) P_k e_j.
    Raises `InputError` for arrays that are not finite or do not fit.

    >>> import ridgeformer as rf
    >>> trace = rf.transform_tokens(rf.LinearTransformer.init("diag", layers=2, dim=1), [[[1.0]]], [[2.0]], [[[3.0]]])
    >>> len(trace), trace[0].tolist()
    (3, [[[1.0, 2.0], [3.0, 0.0]]])
    """
    X, y = check_tokens(X, y)
    queries = check_queries(queries, X)
    check_model(model, X.shape[2])
    P, Q = model.attention_matrices()
    n = X.shape[1]
    empty = np.zeros((*X.shape[:2], model.registers), X.dtype)
    unknown = np.zeros((*queries.shape[:2], model.registers + 1), queries.dtype)
    tokens = np.concatenate(
        [np.concatenate([X, empty, y[..., None]], axis=-1), np.concatenate([queries, unknown], axis=-1)], axis=1
    )
    trace = [tokens]
    for layer in range(model.layers):
        update = np.zeros_like(tokens)
        for head in range(model.heads):
            context = tokens[:, :n]
            scores = tokens @ (context @ Q[layer, head]).transpose(0, 2, 1)
            values = context @ P[layer, head].T
            update += scores @ values
        tokens = tokens + update
        trace.append(tokens)
    return trace


def token_predictions(model: LinearTransformer, X: Any, y: Any, queries: Any) -> Array:
    """(batch, m) predictions: minus the last coordinate of the query tokens after the last layer.

    Arguments and errors are those of `transform_tokens`. `ridgeformer.predict` gives the same numbers faster.

    >>> import ridgeformer as rf
    >>> model = rf.LinearTransformer.init("diag", layers=2, dim=1)
    >>> rf.token_predictions(model, [[[1.0]]], [[2.0]], [[[3.0]]]).shape
    (1, 1)
    """
    X, y = check_tokens(X, y)
    with np.errstate(over="ignore", invalid="ignore"):  # an exploding model shows in its predictions
        return -transform_tokens(model, X, y, queries)[-1][:, X.shape[1] :, -1]


def layer_map(P: Array, Q: Array, gram: Array) -> Array:
    """T = I + Σ_k P_k G Q_k, (batch, p, p), for one layer's P, Q (heads, p, p): the layer is e ↦ T e for each token."""
    return np.eye(gram.shape[-1], dtype=gram.dtype) + sum(P_k @ gram @ Q_k for P_k, Q_k in zip(P, Q, strict=True))


def layer_maps(model: LinearTransformer, gram: Array) -> tuple[list[Array], list[Array]]:
    """T_0 … T_{L−1} and G_0 … G_L, (batch, p, p) each: tokens move as e ↦ T e, so their Gram matrix as G ↦ T G Tᵀ.

    ``gram`` (batch, d + 1, d + 1) is that of the tokens without registers, which are zero at first.
    """
    P, Q = model.attention_matrices()
    maps, grams = [], [insert_registers(np.asarray(gram), model.registers) if model.registers else np.asarray(gram)]
    for layer in range(model.layers):
        maps.append(layer_map(P[layer], Q[layer], grams[-1]))
        grams.append(maps[-1] @ grams[-1] @ maps[-1].transpose(0, 2, 1))
    return maps, grams


def query_rows(maps: list[Array]) -> list[Array]:
    """r_L = e_pᵀ, r_l = r_{l+1} T_l: (batch, p) each; r_0 = c maps the first query token to its last coordinate."""
    batch, size, _ = maps[0].shape
    rows = [np.zeros((batch, size), maps[0].dtype)]
    rows[0][:, -1] = 1.0
    for layer in reversed(maps):
        rows.insert(0, np.einsum("bi,bij->bj", rows[0], layer))
    return rows


def gram_weights(model: LinearTransformer, gram: Array) -> Array:
    """Implicit weights ŵ = −c[:d], (batch, d): since the query token is (x_t, 0, 0), the prediction is <ŵ, x_t>."""
    with np.errstate(over="ignore", invalid="ignore"):  # an exploding model shows in its weights
        maps, _ = layer_maps(model, gram)
        return -query_rows(maps)[0][:, : model.dim]


def check_model(model: Any, dim: int) -> LinearTransformer:
    """The model; `InputError` if it is not a model for ``dim`` features."""
    hint = f" Read it first: rf.load({model!r})." if isinstance(model, str) else ""
    instance("model", model, LinearTransformer, hint)
    if model.dim != dim:
        raise InputError(f"The model was made for {model.dim} features; these contexts have {dim}.")
    return model


def context_weights(
    model: LinearTransformer,
    context: Context,
    layers: int | None = None,
    backend: str = "auto",
    threads: int | None = None,
) -> Array:
    """Implicit weights ŵ of a model on contexts: its prediction for any query x is <ŵ, x>.

    Parameters
    ----------
    model: a model for as many features as the contexts have.
    context: a batch of contexts, as Gram matrices.
    layers: use only the first layers, as many as given; None for all.
    backend: "reference" is NumPy, "fused" the compiled kernels, "auto" whichever takes less time.
    threads: of the kernels; None for one per core.

    Returns weights (batch, d), in float64 if the model or the contexts are, else in float32. They are NaN or infinite
    where the computation overflows. Raises `InputError` if model and contexts do not fit.

    >>> import ridgeformer as rf
    >>> draw = rf.Task(dim=10, examples=20).draw_contexts(5, seed=0)
    >>> rf.context_weights(rf.load("diag-4-uniform-5"), draw.context).shape
    (5, 10)
    """
    model = check_model(model, instance("context", context, Context).dim).first_layers(layers)
    dtype = np.result_type(model.dtype, context.gram)
    model, gram = model.astype(dtype), context.gram.astype(dtype, copy=False)
    work = len(gram) * model.layers * (model.dim + 1 + model.registers) ** 3
    if uses_kernels(backend, work >= _WORTH_COMPILING):
        return engine().weights(model.compiled(), gram, threads=threads)
    return gram_weights(model, gram)


def check_queries(queries: Any, X: Array) -> Array:
    """Queries (batch, m, d) that fit the examples X (batch, n, d)."""
    queries = finite_array("queries", queries, ("batch", "m", "dim"))
    if queries.shape[0] != X.shape[0] or queries.shape[2] != X.shape[2]:
        raise InputError(f"queries of shape {queries.shape} and X of shape {X.shape} must agree in batch and dim.")
    return queries


# Loading the compiled kernels takes about a second, in which NumPy does this many multiply-adds of small matrices.
_WORTH_COMPILING = 500_000_000
