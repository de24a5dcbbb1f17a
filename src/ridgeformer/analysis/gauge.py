"""P and Q in a form that does not depend on how the same model is written down.

A layer adds Σ_k P_k G Q_k, so P → cP, Q → Q/c changes nothing, nor does the order of heads, nor any invertible mixing
of heads that keeps the tensor Σ_k P_k ⊗ Q_k. Its singular value decomposition, with vec P_k on one side and vec Q_k on
the other, is the same for all of them: heads that are orthogonal to each other, ‖P_k‖ = ‖Q_k‖, largest first. (Only
heads of exactly the same size could still be mixed.) For one head this is the head itself with its norms balanced. The
sign is chosen so that the largest entry of P is positive.
"""

from __future__ import annotations

import numpy as np

from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array


def acting_matrices(model: LinearTransformer) -> tuple[Array, Array]:
    """P and Q (layers, heads, p, p), float64, with zeros where no entry can change any prediction.

    Nothing reads the x that the last layer writes: all rows of its P but the last are inert. With one layer the query
    still has y = 0, so the last column of Q is inert too.
    """
    P, Q = (np.array(matrix) for matrix in model.astype(np.float64).attention_matrices())
    P[-1, :, :-1] = 0.0
    if model.layers == 1:
        Q[-1, :, :, -1] = 0.0
    return P, Q


def canonical_heads(model: LinearTransformer) -> tuple[Array, Array]:
    """P and Q (layers, heads, p, p) in canonical form, float64; heads that do nothing are zero and come last."""
    P, Q = acting_matrices(model)
    for layer in range(model.layers):
        P[layer], Q[layer] = _canonical(P[layer], Q[layer])
    return P, Q


def _canonical(P: Array, Q: Array) -> tuple[Array, Array]:
    """One layer's heads (heads, p, p)."""
    heads, size, _ = P.shape
    # vec P (p², H) = U R with orthonormal U: the decomposition of U R_P R_Qᵀ Vᵀ is that of the small R_P R_Qᵀ.
    left, left_factor = np.linalg.qr(P.reshape(heads, -1).T)
    right, right_factor = np.linalg.qr(Q.reshape(heads, -1).T)
    left_turn, values, right_turn = np.linalg.svd(left_factor @ right_factor.T)
    floor = values[0] * size * np.finfo(np.float64).eps
    root = np.sqrt(np.where(values > floor, values, 0.0))
    new_P, new_Q = np.zeros_like(P), np.zeros_like(Q)
    new_P[: len(root)] = ((left @ left_turn) * root).T.reshape(-1, size, size)
    new_Q[: len(root)] = ((right @ right_turn.T) * root).T.reshape(-1, size, size)
    flat = new_P.reshape(heads, -1)
    # The first of the largest entries, to rounding: a diagonal P has several that are equal.
    largest = np.abs(flat) >= np.abs(flat).max(axis=1, keepdims=True) * (1 - 1e-9)
    sign = np.sign(flat[np.arange(heads), largest.argmax(axis=1)])
    sign = np.where(sign == 0, 1.0, sign)[:, None, None]
    return sign * new_P, sign * new_Q
