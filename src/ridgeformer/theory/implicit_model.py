"""Theorem 4.1 and Lemma 4.3: every layer of a linear transformer keeps a linear model of its context.

After any layer, with (M, u, a, w) that depend on the context but not on the token,

    x_i^l = M x_i + y_i u ,   y_i^l = a y_i − <w, x_i> ,   query:  x_t^l = M x_t ,   y_t^l = −<w, x_t> .     (Thm 4.1)

This is exact up to rounding, for every kind, any number of heads, any n ≥ 1 and d ≥ 1.

Error in print: Lemma 4.3 has M' = (I + A) M + b wᵀ. Substituting Theorem 4.1 into a layer gives − b wᵀ, because
y_i^l = a y_i − <w, x_i> enters x' with the factor b. `printed_next_layer` keeps the printed sign, for comparison. The
two agree in the first layer (w = 0) and for GD++ (b = 0) and differ in all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ridgeformer.core.context import Context, check_tokens
from ridgeformer.core.forward import check_model, transform_tokens
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.validation import InputError, finite_array, instance
from ridgeformer.theory.numerics import dot, outer, relative_difference, times, transposed


class Statistics(NamedTuple):
    """Gram statistics of the tokens that a layer reads."""

    scatter: Array  # Σ^l, (batch, d, d)
    cross: Array  # α^l, (batch, d)
    energy: Array  # λ^l, (batch,)


class LayerBlocks(NamedTuple):
    """Σ_k P_k G^l Q_k = [[A, b], [cᵀ, δ]], what a layer adds to the identity."""

    A: Array  # (batch, d, d)
    b: Array  # (batch, d)
    c: Array  # (batch, d)
    delta: Array  # (batch,)


@dataclass(frozen=True)
class ImplicitModel:
    """The state (M, u, a, w) of Theorem 4.1 for a batch of contexts, float64; `implicit_models` makes it.

    >>> ImplicitModel.start(batch=2, dim=3).M.shape
    (2, 3, 3)
    """

    M: Array  # (batch, d, d)
    u: Array  # (batch, d)
    a: Array  # (batch,)
    w: Array  # (batch, d)

    @classmethod
    def start(cls, batch: int, dim: int) -> ImplicitModel:
        """Before the first layer: M = I, u = 0, a = 1, w = 0."""
        identity = np.broadcast_to(np.eye(dim), (batch, dim, dim)).copy()
        return cls(identity, np.zeros((batch, dim)), np.ones(batch), np.zeros((batch, dim)))

    def tokens(self, X: Any, y: Any) -> Array:
        """(batch, n, d + 1): the context tokens of Theorem 4.1, from the original X (batch, n, d) and y (batch, n)."""
        X, y = check_tokens(X, y)
        features = np.einsum("bij,bnj->bni", self.M, X) + y[..., None] * self.u[:, None]
        targets = self.a[:, None] * y - np.einsum("bd,bnd->bn", self.w, X)
        return np.concatenate([features, targets[..., None]], axis=-1)

    def query_tokens(self, queries: Any) -> Array:
        """(batch, m, d + 1): the query tokens of Theorem 4.1, from the original queries (batch, m, d)."""
        queries = finite_array("queries", queries, ("batch", "m", "dim"))
        features = np.einsum("bij,bmj->bmi", self.M, queries)
        return np.concatenate([features, -np.einsum("bd,bmd->bm", self.w, queries)[..., None]], axis=-1)

    def statistics(self, context: Context) -> Statistics:
        """Σ^l, α^l and λ^l from (M, u, a, w) and the original Gram matrix: the sums of Theorem 4.1's tokens."""
        M, u, a, w = self.M, self.u, self.a, self.w
        scatter, cross, energy = context.scatter, context.cross, context.energy
        moved_cross, fit, explained = times(M, cross), times(scatter, w), dot(cross, w)  # M α, Σ w, <α, w>
        mixed = outer(moved_cross, u)  # M α uᵀ
        new_scatter = M @ scatter @ transposed(M) + mixed + transposed(mixed) + energy[:, None, None] * outer(u, u)
        new_cross = a[:, None] * (moved_cross + energy[:, None] * u) - times(M, fit) - explained[:, None] * u
        new_energy = a**2 * energy - 2 * a * explained + dot(w, fit)
        return Statistics(new_scatter, new_cross, new_energy)


Recursion = Callable[[ImplicitModel, LayerBlocks], ImplicitModel]


def next_layer(state: ImplicitModel, blocks: LayerBlocks) -> ImplicitModel:
    """Lemma 4.3, with the sign of b wᵀ corrected."""
    M, u, a, w = state.M, state.u, state.a, state.w
    A, b, c, delta = blocks
    return ImplicitModel(
        M=M + A @ M - outer(b, w),
        u=u + times(A, u) + a[:, None] * b,
        a=(1 + delta) * a + dot(c, u),
        w=(1 + delta)[:, None] * w - times(transposed(M), c),
    )


def printed_next_layer(state: ImplicitModel, blocks: LayerBlocks) -> ImplicitModel:
    """Lemma 4.3 as printed, with + b wᵀ in M: wrong, and kept only to show by how much."""
    right = next_layer(state, blocks)
    return ImplicitModel(right.M + 2 * outer(blocks.b, state.w), right.u, right.a, right.w)


def implicit_models(
    model: LinearTransformer, context: Context, recursion: Recursion = next_layer
) -> list[ImplicitModel]:
    """The linear model (M, u, a, w) that every layer keeps of its context.

    Parameters
    ----------
    model: of any kind, made for the dimension of ``context``.
    context: a batch of contexts.
    recursion: how a state follows from the one before; by default Lemma 4.3 with the corrected sign.

    Returns L + 1 states, before the first layer and after each: M (batch, d, d), u and w (batch, d), a (batch,). The
    last w are the model's implicit weights. Raises `InputError` if model and context do not fit.

    >>> import ridgeformer as rf
    >>> context = rf.Task(3, 8).draw_contexts(2, seed=0).context
    >>> states = implicit_models(rf.LinearTransformer.init("diag", layers=4, dim=3), context)
    >>> len(states), states[-1].w.shape
    (5, (2, 3))
    """
    model, context = in_float64(model, context)
    P, Q = model.attention_matrices()
    states = [ImplicitModel.start(len(context.gram), model.dim)]
    with np.errstate(over="ignore", invalid="ignore"):  # an exploding model shows in its weights
        for layer in range(model.layers):
            blocks = layer_blocks(P[layer], Q[layer], states[-1].statistics(context))
            states.append(recursion(states[-1], blocks))
    return states


def layer_blocks(P: Array, Q: Array, statistics: Statistics) -> LayerBlocks:
    """[[A, b], [cᵀ, δ]] of a layer with P, Q (heads, p, p)."""
    scatter, cross, energy = statistics
    gram = np.block([[scatter, cross[:, :, None]], [cross[:, None], energy[:, None, None]]])
    update = sum((P_k @ gram @ Q_k for P_k, Q_k in zip(P, Q, strict=True)), np.zeros_like(gram))
    return LayerBlocks(update[:, :-1, :-1], update[:, :-1, -1], update[:, -1, :-1], update[:, -1, -1])


def difference_from_tokens(
    model: LinearTransformer, X: Any, y: Any, queries: Any, recursion: Recursion = next_layer
) -> float:
    """How far Theorem 4.1 is from the token transformer: largest relative difference over contexts and layers.

    Context and query tokens are compared separately, each relative to the size of its own kind.
    """
    X, y = tokens_in_float64(X, y)
    model, context = in_float64(model, Context.from_tokens(X, y))
    n, worst = X.shape[1], 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        trace = transform_tokens(model, X, y, queries)
        for state, tokens in zip(implicit_models(model, context, recursion), trace, strict=True):
            of_context = relative_difference(state.tokens(X, y), tokens[:, :n])
            of_queries = relative_difference(state.query_tokens(queries), tokens[:, n:])
            worst = float(np.max([worst, of_context, of_queries]))  # np.max keeps NaN
    return worst


def tokens_in_float64(X: Any, y: Any) -> tuple[Array, Array]:
    """X (batch, n, d) and y (batch, n), checked, in float64, because sums of float32 would lose digits."""
    X, y = check_tokens(X, y)
    return X.astype(np.float64), y.astype(np.float64)


def in_float64(model: LinearTransformer, context: Context) -> tuple[LinearTransformer, Context]:
    """Both in float64, checked to be of the same dimension and without registers."""
    model = check_model(model, instance("context", context, Context).dim)
    if model.registers:
        raise InputError("A model with registers keeps several weight vectors: see ridgeformer.theory.register_models.")
    return model.astype(np.float64), Context(context.gram.astype(np.float64), context.examples)
