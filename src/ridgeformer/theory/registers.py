"""Theorem 4.1 and Lemma 4.3 with registers: every layer keeps 1 + r weight vectors of its context.

Let s_i = (m_i, y_i) be the part of a token after its features: r registers and the target, and s = 1 + r. After any
layer, with (M, u, A, W) that depend on the context but not on the token,

    x_i^l = M x_i + y_i u ,   s_i^l = y_i A − W x_i ,   query:  x_t^l = M x_t ,   s_t^l = −W x_t .

So register m holds m_i = A_m y_i − <w_m, x_i>: a linear model w_m of its own. The last rows of A and W are the paper's
a and w, and without registers this is Theorem 4.1.

Proof, by induction over layers. Before the first layer m = 0, so M = I, u = 0, W = 0 and A = e, the last unit vector;
the query has y_t = 0 in place of y_i. A layer adds [[B, b], [C, δ]] (x, s) to a token. This matrix, Σ_k P_k G Q_k, is
the same for all tokens, since G sums over the context. Substituting,

    x' = (M + B M − b W) x_i + (u + B u + b A) y_i ,
    s' = (A + C u + δ A) y_i − (W + δ W − C M) x_i ,

and the same without y_i for the query. That is again of the form above, with

    M' = M + B M − b W ,   u' = u + B u + b A ,   A' = A + C u + δ A ,   W' = W + δ W − C M .     (Lemma 4.3)   ∎
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ridgeformer.core.context import Context, check_tokens
from ridgeformer.core.forward import check_model, layer_maps, transform_tokens
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.validation import finite_array, instance
from ridgeformer.theory.numerics import relative_difference, times


@dataclass(frozen=True)
class RegisterModel:
    """The state (M, u, A, W) for a batch of contexts, float64; `register_models` makes it.

    >>> RegisterModel.start(batch=2, dim=3, registers=1).W.shape
    (2, 2, 3)
    """

    M: Array  # (batch, d, d)
    u: Array  # (batch, d)
    A: Array  # (batch, s)
    W: Array  # (batch, s, d): rows are the weight vectors of the registers, then the model's own

    @classmethod
    def start(cls, batch: int, dim: int, registers: int) -> RegisterModel:
        """Before the first layer: M = I, u = 0, A = e, W = 0."""
        rest = 1 + registers
        first = np.broadcast_to(np.eye(dim), (batch, dim, dim)).copy()
        return cls(first, np.zeros((batch, dim)), np.eye(rest)[[-1] * batch], np.zeros((batch, rest, dim)))

    def tokens(self, X: Any, y: Any) -> Array:
        """(batch, n, d + s): the context tokens, from the original X (batch, n, d) and y (batch, n)."""
        X, y = check_tokens(X, y)
        features = np.einsum("bij,bnj->bni", self.M, X) + y[..., None] * self.u[:, None]
        rest = y[..., None] * self.A[:, None] - np.einsum("bsj,bnj->bns", self.W, X)
        return np.concatenate([features, rest], axis=-1)

    def query_tokens(self, queries: Any) -> Array:
        """(batch, m, d + s): the query tokens, from the original queries (batch, m, d)."""
        queries = finite_array("queries", queries, ("batch", "m", "dim"))
        features = np.einsum("bij,bmj->bmi", self.M, queries)
        return np.concatenate([features, -np.einsum("bsj,bmj->bms", self.W, queries)], axis=-1)


def next_state(state: RegisterModel, update: Array) -> RegisterModel:
    """Lemma 4.3 with registers, for Σ_k P_k G Q_k (batch, p, p)."""
    d = state.M.shape[-1]
    B, b, C, delta = update[:, :d, :d], update[:, :d, d:], update[:, d:, :d], update[:, d:, d:]
    return RegisterModel(
        M=state.M + B @ state.M - b @ state.W,
        u=state.u + times(B, state.u) + times(b, state.A),
        A=state.A + times(C, state.u) + times(delta, state.A),
        W=state.W + delta @ state.W - C @ state.M,
    )


def register_models(model: LinearTransformer, context: Context) -> list[RegisterModel]:
    """The 1 + r linear models that every layer keeps of its context.

    Parameters
    ----------
    model: of any kind, with registers or without, made for the dimension of ``context``.
    context: a batch of contexts.

    Returns L + 1 states, before the first layer and after each: M (batch, d, d), u (batch, d), A (batch, s) and
    W (batch, s, d), s = 1 + r. The last row of the last W are the model's implicit weights. Raises `InputError` if
    model and context do not fit.

    >>> import ridgeformer as rf
    >>> context = rf.Task(3, 8).draw_contexts(2, seed=0).context
    >>> states = register_models(rf.LinearTransformer.init("diag", layers=4, dim=3, registers=2), context)
    >>> len(states), states[-1].W.shape
    (5, (2, 3, 3))
    """
    model = check_model(model, instance("context", context, Context).dim).astype(np.float64)
    states = [RegisterModel.start(len(context.gram), model.dim, model.registers)]
    with np.errstate(over="ignore", invalid="ignore"):  # an exploding model shows in its weights
        maps, _ = layer_maps(model, context.gram.astype(np.float64))
        for layer_map in maps:
            states.append(next_state(states[-1], layer_map - np.eye(layer_map.shape[-1])))
    return states


def difference_from_tokens(model: LinearTransformer, X: Any, y: Any, queries: Any) -> float:
    """How far this is from the token transformer: largest relative difference over contexts and layers.

    Context and query tokens are compared separately, each relative to the size of its own kind.
    """
    X, y = (array.astype(np.float64) for array in check_tokens(X, y))
    states, worst = register_models(model, Context.from_tokens(X, y)), 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        trace = transform_tokens(model.astype(np.float64), X, y, queries)
        for state, tokens in zip(states, trace, strict=True):
            of_context = relative_difference(state.tokens(X, y), tokens[:, : X.shape[1]])
            of_queries = relative_difference(state.query_tokens(queries), tokens[:, X.shape[1] :])
            worst = float(np.max([worst, of_context, of_queries]))  # np.max keeps NaN
    return worst
