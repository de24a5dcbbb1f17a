"""How diagonal a model is: its nearest four ω a layer, and what is left of P and Q.

A layer is the linear map G ↦ Σ_k P_k G Q_k of symmetric matrices G. The nearest diagonal layer is the orthogonal
projection of this map, in the Frobenius norm, onto the four maps G ↦ E_a G E_b, where E_x and E_y keep the x and the y
block. They write to different blocks, so they are orthogonal, and each ω_ab is an inner product. The map does not
depend on how it is written down as P and Q, and for diag and gdpp models the result is their own ω, to rounding.
Entries that cannot change any prediction (see `gauge.acting_matrices`) are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ridgeformer.analysis.gauge import acting_matrices, canonical_heads
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array

NUMERICAL_RANK = 1e-6
"""Singular values below this share of ‖P‖ count as zero: above the rounding of float32 weights, 1e-7."""
_ENERGY = 0.9  # share of the remainder's squares that its effective rank explains
_GOLDEN = (np.sqrt(5) - 1) / 2
_ROUNDS = 40  # of golden section: 0.618^40 = 4e-9 of the interval


@dataclass(frozen=True)
class Remainder:
    """One matrix of one head, in canonical form, after the diagonal that leaves the smallest nuclear norm."""

    layer: int
    """Counted from 1."""
    head: int
    """Counted from 1."""
    matrix: str
    """"P" or "Q"."""
    norm: float
    """Frobenius norm of the matrix, the same for P and Q of a head."""
    diagonal: tuple[float, float]
    """(on the x block, on the y entry)."""
    diagonal_share: float
    """‖diagonal‖² over ‖diagonal‖² + ‖remainder‖²."""
    singular_values: tuple[float, ...]
    """Of the remainder, over ‖P‖ or ‖Q‖."""
    rank: int
    """Singular values above `NUMERICAL_RANK`."""
    effective_rank: int
    """Fewest singular values that hold 90 % of the remainder's squares."""


@dataclass(frozen=True)
class DiagonalFit:
    """The nearest diagonal model."""

    omega: Array
    """(layers, 4)."""
    shares: tuple[float, ...]
    """Of every layer: the share of the squared norm of its map that the four ω explain; 1 for diag and gdpp."""
    remainders: tuple[Remainder, ...]


def diagonal_fit(model: LinearTransformer) -> DiagonalFit:
    """The nearest ω of every layer of any model, and the spectrum of the rest."""
    P, Q = acting_matrices(model)
    size = model.dim + 1
    x, y = np.diag(np.r_[np.ones(model.dim), 0.0]), np.diag(np.r_[np.zeros(model.dim), 1.0])
    omega, shares = np.zeros((model.layers, 4)), []
    for layer in range(model.layers):
        total = _inner(P[layer], Q[layer], P[layer], Q[layer])
        explained = 0.0
        for place, (left, right) in enumerate(((x, x), (x, y), (y, x), (y, y))):
            basis = left.reshape(1, size, size), right.reshape(1, size, size)
            square = _inner(*basis, *basis)
            omega[layer, place] = _inner(P[layer], Q[layer], *basis) / square
            explained += omega[layer, place] ** 2 * square
        shares.append(explained / total if total > 0 else 1.0)
    return DiagonalFit(omega, tuple(shares), remainders(model))


def _inner(P: Array, Q: Array, P2: Array, Q2: Array) -> float:
    """<φ, φ₂> of the maps φ(G) = Σ_k P_k G Q_k on symmetric G; arrays (heads, p, p).

    As tensors K_iabj = Σ_k P_ia Q_bj the maps agree on symmetric G if they do after averaging over a ↔ b, so the inner
    product is ½ Σ K K₂ + ½ Σ K K₂ with a and b exchanged in one of them.
    """
    straight = np.einsum("kia,lia,kbj,lbj->", P, P2, Q, Q2, optimize=True)
    crossed = np.einsum("kia,lib,kbj,laj->", P, P2, Q, Q2, optimize=True)
    return float(straight + crossed) / 2


def remainders(model: LinearTransformer) -> tuple[Remainder, ...]:
    """P and Q of every head that does anything, each as a diagonal and a remainder."""
    P, Q = canonical_heads(model)
    return tuple(
        _remainder(matrix[layer, head], name, layer + 1, head + 1)
        for layer in range(model.layers)
        for head in range(model.heads)
        for name, matrix in (("P", P), ("Q", Q))
        if matrix[layer, head].any()
    )


def _remainder(matrix: Array, name: str, layer: int, head: int) -> Remainder:
    norm = float(np.linalg.norm(matrix))
    diagonal = low_rank_split(matrix)
    weights = np.r_[np.full(len(matrix) - 1, diagonal[0]), diagonal[1]]
    values = np.linalg.svd(matrix - np.diag(weights), compute_uv=False) / norm
    squares, own = values**2, float((weights**2).sum()) / norm**2
    total = float(squares.sum())
    held = np.cumsum(squares) >= _ENERGY * total
    rank = int((values > NUMERICAL_RANK).sum())
    return Remainder(
        layer=layer,
        head=head,
        matrix=name,
        norm=norm,
        diagonal=diagonal,
        diagonal_share=own / (own + total),
        singular_values=tuple(map(float, values)),
        rank=rank,
        effective_rank=int(held.argmax()) + 1 if rank else 0,
    )


def low_rank_split(matrix: Array) -> tuple[float, float]:
    """(c_x, c_y) such that matrix − diag(c_x I, c_y) has the least nuclear norm, the sum of singular values.

    The nuclear norm is the convex stand-in for rank (Fazel, *Matrix rank minimization with applications*, 2002). Least
    squares would not do: the mean diagonal of a low-rank part would count as c_x I, and what is left would have full
    rank. Convex in (c_x, c_y), so its minimum over c_y is convex in c_x, and golden section nests.
    """
    bound = float(np.linalg.norm(matrix, 2))  # both lie within ± the largest singular value
    shifted = matrix.copy()
    place = np.arange(len(matrix) - 1)

    def norm(c_x: float, c_y: float) -> float:
        shifted[place, place] = matrix[place, place] - c_x
        shifted[-1, -1] = matrix[-1, -1] - c_y
        return float(np.linalg.svd(shifted, compute_uv=False).sum())

    def best_y(c_x: float) -> float:
        return _golden(lambda c_y: norm(c_x, c_y), bound)

    c_x = _golden(lambda c_x: norm(c_x, best_y(c_x)), bound)
    return c_x, best_y(c_x)


def _golden(function: Callable[[float], float], bound: float) -> float:
    """Where a convex function is least over [−bound, bound], by golden section."""
    low, high = -bound, bound
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(_ROUNDS):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
    return left if at_left <= at_right else right
