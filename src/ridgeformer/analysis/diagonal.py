"""Diagonal layers as four numbers ω_xx, ω_xy, ω_yx, ω_yy, and how close any other layer is to a diagonal one.

**Free ω.** One head has ω_xx ω_yy = ω_xy ω_yx, so that no single ω of it can be switched off. Two heads, p = (1, 0)
with q = (ω_xx, ω_xy) and p = (0, 1) with q = (ω_yx, ω_yy), can have any four ω: all analyses use this form.

**Canonical heads.** A layer adds Σ_k P_k G Q_k, so P → cP, Q → Q/c changes nothing, nor does the order of heads, nor
any invertible mixing of heads that keeps the tensor Σ_k P_k ⊗ Q_k. Its singular value decomposition, with vec P_k on
one side and vec Q_k on the other, is the same for all of them: heads that are orthogonal to each other, ‖P_k‖ = ‖Q_k‖,
largest first. (Only heads of exactly the same size could still be mixed.) For one head this is the head itself with its
norms balanced. The sign is chosen so that the largest entry of P is positive.

**Nearest diagonal.** A layer is the linear map G ↦ Σ_k P_k G Q_k of symmetric matrices G. The nearest diagonal layer is
the orthogonal projection of this map, in the Frobenius norm, onto the four maps G ↦ E_a G E_b, where E_x and E_y keep
the x and the y block. They write to different blocks, so they are orthogonal, and each ω_ab is an inner product. The
map does not depend on how it is written as P and Q; for diag and gdpp models the result is their own ω, to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ridgeformer.core.kinds import KINDS, Diag
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, instance

OMEGAS = ("xx", "xy", "yx", "yy")
"""The order of ω everywhere: target block first. ω_xy moves x by multiples of y."""
ROLES = ("preconditioning", "noise-adaptive step", "gradient step", "rescaling")
"""What each ω does, according to the paper."""
NUMERICAL_RANK = 1e-6
"""Singular values below this share of ‖P‖ count as zero: above the rounding of float32 weights, 1e-7."""
_NODES = 64  # of the quadrature of E σ²
_ENERGY = 0.9  # share of the remainder's squares that its effective rank explains
_GOLDEN = (np.sqrt(5) - 1) / 2
_ROUNDS = 40  # of golden section: 0.618^40 = 4e-9 of the interval


def omega_of(model: LinearTransformer) -> Array:
    """The four numbers ω of every layer of a diag or gdpp model.

    Returns (layers, 4), float64, in the order xx, xy, yx, yy. Raises `InputError` for full models: see `diagonal_fit`.

    >>> import ridgeformer as rf
    >>> omega_of(rf.load("gdpp-2-uniform-5")).shape
    (2, 4)
    """
    return instance("model", model, LinearTransformer).astype(np.float64).omega()


def refuse_registers(model: LinearTransformer) -> None:
    """Raise an `InputError` for a model with registers: most analyses are about the blocks of x and y alone."""
    if instance("model", model, LinearTransformer).registers:
        raise InputError("This is for models without registers; for others use ridgeformer.analysis.explain_registers.")


def omega_of_kind(kind: str) -> Array:
    """(4,) of bool: the ω that layers of this kind can have, xx and yx for gdpp; all blocks for kinds without ω."""
    entry = KINDS[kind]
    if not isinstance(entry, Diag):
        return np.ones(4, bool)
    return entry.omega({name: np.ones(shape) for name, shape in entry.shapes(1, 1, 1).items()})[0] != 0


def model_from_omega(omega: Array, dim: int) -> LinearTransformer:
    """The diag model with given ω, each free of the others.

    Parameters
    ----------
    omega: (layers, 4), in the order xx, xy, yx, yy.
    dim: d.

    Returns a float64 model of two heads. Raises `InputError` for an array of another shape.

    >>> model_from_omega(np.zeros((3, 4)), dim=5).layers
    3
    """
    omega = np.asarray(omega, np.float64)
    if omega.ndim != 2 or omega.shape[1] != 4:
        raise InputError(f"omega must have the axes (layers, 4), but has shape {omega.shape}.")
    p = np.broadcast_to(np.eye(2), (len(omega), 2, 2))
    return LinearTransformer("diag", dim, {"p": p, "q": omega.reshape(-1, 2, 2)})


def inert(layers: int) -> Array:
    """(layers, 4) of bool: the ω that cannot change any prediction.

    The prediction is read from the query's y, so nothing reads the x that the last layer writes: its ω_xx and ω_xy do
    nothing. In a model of one layer ω_yy does nothing either, since the query's y is still zero.
    """
    dead = np.zeros((layers, 4), bool)
    dead[-1, :2] = True
    dead[-1, 3] = layers == 1
    return dead


def natural_units(task: Task) -> Array:
    """(4,): the size of an ω that matters in a first layer, where Σ is about n I and λ about n (d + E σ²).

    1/n for ω_xx and ω_yx, which multiply Σ and α; 1/E λ for ω_xy and ω_yy, which multiply y α and λ.
    """
    levels, weights = task.prior.quadrature(_NODES)
    of_scatter = 1 / task.typical_examples
    of_energy = 1 / (task.typical_examples * (task.dim + float(weights @ levels**2)))
    return np.array([of_scatter, of_energy, of_scatter, of_energy])


def acting_matrices(model: LinearTransformer) -> tuple[Array, Array]:
    """P and Q (layers, heads, p, p), float64, with zeros where no entry can change any prediction: see `inert`."""
    model = instance("model", model, LinearTransformer).astype(np.float64)
    P, Q = (np.array(matrix) for matrix in model.attention_matrices())
    P[-1, :, :-1] = 0.0
    if model.layers == 1:
        Q[-1, :, :, -1] = 0.0
    return P, Q


def canonical_heads(model: LinearTransformer) -> tuple[Array, Array]:
    """P and Q of any model, in a form that does not depend on how the model is written.

    Returns P and Q, each (layers, heads, p, p), float64; heads that do nothing are zero and come last. Raises
    `InputError` for anything but a model.

    >>> import ridgeformer as rf
    >>> P, Q = canonical_heads(rf.LinearTransformer.init("full", layers=2, heads=3, dim=4))
    >>> P.shape, bool(np.allclose(np.linalg.norm(P, axis=(2, 3)), np.linalg.norm(Q, axis=(2, 3))))
    ((2, 3, 5, 5), True)
    """
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


@dataclass(frozen=True)
class Remainder:
    """One matrix of one head, in canonical form, after the diagonal that leaves the smallest nuclear norm."""

    layer: int  # layers and heads are counted from 1
    head: int
    matrix: str  # "P" or "Q"
    norm: float  # Frobenius norm of the matrix, the same for P and Q of a head
    diagonal: tuple[float, float]  # (on the x block, on the y entry)
    diagonal_share: float  # ‖diagonal‖² over ‖diagonal‖² + ‖remainder‖²
    singular_values: tuple[float, ...]  # of the remainder, over ‖P‖ or ‖Q‖
    rank: int  # singular values above `NUMERICAL_RANK`
    effective_rank: int  # fewest singular values that hold 90 % of the remainder's squares


@dataclass(frozen=True)
class DiagonalFit:
    """The nearest diagonal model; `diagonal_fit` makes it."""

    omega: Array  # (layers, 4)
    shares: tuple[float, ...]  # of every layer's map: of its squared norm, what the four ω explain; 1 for diag and gdpp
    remainders: tuple[Remainder, ...]  # what is left of P and Q of every head that does anything


def diagonal_fit(model: LinearTransformer) -> DiagonalFit:
    """The nearest ω of every layer of any model, and the spectrum of the rest.

    Returns a record with ω (layers, 4). Entries that cannot change any prediction are left out. Raises `InputError` for
    anything but a model.

    >>> import ridgeformer as rf
    >>> [round(share, 6) for share in diagonal_fit(rf.LinearTransformer.init("diag", layers=2, dim=4)).shares]
    [1.0, 1.0]
    """
    P, Q = acting_matrices(model)
    x, y = np.diag(np.r_[np.ones(model.dim), 0.0])[None], np.diag(np.r_[np.zeros(model.dim), 1.0])[None]
    refuse_registers(model)
    omega, shares = np.zeros((model.layers, 4)), []
    for layer, heads in enumerate(zip(P, Q, strict=True)):
        total, explained = _inner(*heads, *heads), 0.0
        for place, basis in enumerate(((x, x), (x, y), (y, x), (y, y))):
            square = _inner(*basis, *basis)
            omega[layer, place] = _inner(*heads, *basis) / square
            explained += omega[layer, place] ** 2 * square
        shares.append(float(explained / total) if total > 0 else 1.0)
    P, Q = canonical_heads(model)
    remainders = (
        _remainder(matrix[layer, head], name, layer + 1, head + 1)
        for layer in range(model.layers)
        for head in range(model.heads)
        for name, matrix in (("P", P), ("Q", Q))
        if matrix[layer, head].any()
    )
    return DiagonalFit(omega, tuple(shares), tuple(remainders))


def _inner(P: Array, Q: Array, P2: Array, Q2: Array) -> float:
    """<φ, φ₂> of the maps φ(G) = Σ_k P_k G Q_k on symmetric G; arrays (heads, p, p).

    As tensors K_iabj = Σ_k P_ia Q_bj the maps agree on symmetric G if they do after averaging over a ↔ b, so the inner
    product is ½ Σ K K₂ + ½ Σ K K₂ with a and b exchanged in one of them.
    """
    straight = np.einsum("kia,lia,kbj,lbj->", P, P2, Q, Q2, optimize=True)
    crossed = np.einsum("kia,lib,kbj,laj->", P, P2, Q, Q2, optimize=True)
    return float(straight + crossed) / 2


def _remainder(matrix: Array, name: str, layer: int, head: int) -> Remainder:
    norm = float(np.linalg.norm(matrix))
    diagonal = low_rank_split(matrix)
    weights = np.r_[np.full(len(matrix) - 1, diagonal[0]), diagonal[1]]
    values = np.linalg.svd(matrix - np.diag(weights), compute_uv=False) / norm
    squares, own = values**2, float((weights**2).sum()) / norm**2
    total = float(squares.sum())
    rank = int((values > NUMERICAL_RANK).sum())
    effective = int((np.cumsum(squares) >= _ENERGY * total).argmax()) + 1 if rank else 0
    share = own / (own + total)
    return Remainder(layer, head, name, norm, diagonal, share, tuple(map(float, values)), rank, effective)


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
