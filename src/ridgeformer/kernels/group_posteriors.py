"""Posteriors of many small regressions with one prior: `estimators.empirical_bayes.posteriors`, compiled.

The reference takes eigenvalues of A = diag(τ) Σ diag(τ). Here A is only brought to tridiagonal form T by Householder
reflections, A = Q T Qᵀ, which is all that T + v needs for a cheap solution at each noise variance v. With
T + v = L D Lᵀ, L unit bidiagonal with l_i below the diagonal, and c = Qᵀa,

    d_0 = t_0 + v,   l_i = e_i / d_i,   d_{i+1} = t_{i+1} + v − e_i l_i,   z = L⁻¹ c,
    ln det(T + v) = Σ ln d_i,        cᵀ (T + v)⁻¹ c = Σ z_i² / d_i,
    u = (T + v)⁻¹ c:  u_i = z_i / d_i − l_i u_{i+1},     Z = (T + v)⁻¹:  Z_ij = [i = j] / d_i − l_i Z_{i+1,j},  j ≥ i.

The last is Takahashi's recursion. Sums over the levels of σ are taken in this basis, and turned back once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba.extending import intrinsic

from ridgeformer.core.notation import Array
from ridgeformer.kernels.engine import carve
from ridgeformer.kernels.jit import device, kernel
from ridgeformer.kernels.random import fitted_polynomial, log
from ridgeformer.kernels.threads import run_divided
from ridgeformer.kernels.vectors import (
    all_lanes,
    fma,
    get,
    lane_count,
    less,
    load_flat,
    polynomial,
    put,
    select,
    splat,
    split_exponent,
    sqrt,
    store_flat,
)

_UNLIKELY = 1e-13  # levels with less probability than this, for every problem of a block, add nothing but rounding
_EMPTY = 1e-300  # squared length of a vector that needs no reflection


class _Room(NamedTuple):
    """A thread's room for one block; lane arrays."""

    matrix: Any  # A; then below the diagonal, in column k, the k-th reflection's vector, (p, p, LANES)
    diagonal: Any  # t, (p, LANES)
    beside: Any  # e, (p, LANES)
    beta: Any  # 2 / vᵀv of each reflection, (p, LANES)
    cross: Any  # a; then c = Qᵀ a, (p, LANES)
    energy: Any  # λ of y − Xμ, (1, LANES)
    freedom: Any  # n − p, (1, LANES)
    levels: Any  # log p(y | σ_k); then p(σ_k | y), (K + 1, LANES)
    product: Any  # (p, LANES)
    lower: Any  # l, (p, LANES)
    inverse: Any  # 1 / d, (p, LANES)
    solution: Any  # z, then u, (p, LANES)
    mean: Any  # Σ_k P_k u_k, (p, LANES)
    within: Any  # Σ_k P_k v_k Z_k, (p, p, LANES), lower triangle
    spread: Any  # Σ_k P_k u_k u_kᵀ, (p, p, LANES), lower triangle
    column: Any  # Z, (p, p, LANES), lower triangle


# --- exponentials -----------------------------------------------------------------------------------------------------

_LARGEST_NEGATIVE = -700.0  # e to this power is the smallest that is not denormal
_ROUNDING = 1.5 * 2.0**52  # added to a number, leaves its nearest whole number in the last bits
_exponential_of = polynomial((1.0,), fitted_polynomial(np.exp, -0.3466, 0.3466, 11))


@intrinsic
def _times_power_of_two(typing: Any, value: Any, rounded: Any) -> Any:
    """value · 2^k, where the last bits of ``rounded`` are k, as adding `_ROUNDING` leaves them; float64 only."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        words = ir.VectorType(ir.IntType(64), value.count)
        exponent = builder.shl(builder.bitcast(arguments[1], words), ir.Constant(words, [52] * value.count))
        return builder.bitcast(builder.add(builder.bitcast(arguments[0], words), exponent), arguments[0].type)

    return value(value, rounded), emit


@device
def _exponential(array: Any, value: Any) -> Any:
    """e^value for values that are not positive."""
    least = splat(array, _LARGEST_NEGATIVE)
    value = select(less(value, least), least, value)
    rounded = fma(value, splat(array, 1 / np.log(2.0)), splat(array, _ROUNDING))
    whole = rounded - splat(array, _ROUNDING)
    return _times_power_of_two(_exponential_of(fma(whole, splat(array, -np.log(2.0)), value)), rounded)


# --- to tridiagonal form and back -------------------------------------------------------------------------------------


@device
def _reflect(matrix: Any, room: Any, source: Any, k: int, beta: Any) -> None:
    """matrix ← H matrix H in its lower triangle, H = I − β v vᵀ, where v is below the diagonal of source's column k."""
    size = matrix.shape[0]
    half = splat(matrix, 0.5)
    total = splat(matrix, 0.0)
    for i in range(size):
        entry = splat(matrix, 0.0)
        for j in range(k + 1, size):
            entry = fma(get(matrix, max(i, j), min(i, j)), get(source, j, k), entry)
        entry = entry * beta
        store_flat(room.product, i, entry)
        if i > k:
            total = fma(entry, get(source, i, k), total)
    total = half * beta * total
    for i in range(k + 1, size):
        store_flat(room.product, i, load_flat(room.product, i) - total * get(source, i, k))
    for i in range(k + 1, size):
        v, w = get(source, i, k), load_flat(room.product, i)
        for j in range(k + 1):
            put(matrix, i, j, fma(-v, load_flat(room.product, j), get(matrix, i, j)))
        for j in range(k + 1, i + 1):
            entry = fma(-v, load_flat(room.product, j), get(matrix, i, j))
            put(matrix, i, j, fma(-w, get(source, j, k), entry))


@device
def _reflect_vector(vector: Any, source: Any, k: int, beta: Any) -> None:
    """vector ← H vector."""
    size = source.shape[0]
    total = splat(source, 0.0)
    for i in range(k + 1, size):
        total = fma(load_flat(vector, i), get(source, i, k), total)
    total = total * beta
    for i in range(k + 1, size):
        store_flat(vector, i, load_flat(vector, i) - total * get(source, i, k))


@device
def _tridiagonal(room: Any) -> None:
    """Bring the lower triangle of A to T; a becomes c, and the vectors of the reflections replace what was there."""
    matrix, diagonal, beside, betas, cross = room.matrix, room.diagonal, room.beside, room.beta, room.cross
    size = matrix.shape[0]
    zero, one, two = splat(matrix, 0.0), splat(matrix, 1.0), splat(matrix, 2.0)
    tiny = splat(matrix, _EMPTY)
    for k in range(size):
        store_flat(diagonal, k, get(matrix, k, k))
        store_flat(betas, k, zero)
        if k == size - 1:
            store_flat(beside, k, zero)
        elif k == size - 2:
            store_flat(beside, k, get(matrix, k + 1, k))
            put(matrix, k + 1, k, zero)
        else:
            first, square = get(matrix, k + 1, k), zero
            for i in range(k + 1, size):
                square = fma(get(matrix, i, k), get(matrix, i, k), square)
            length = sqrt(square)
            alpha = select(less(first, zero), length, -length)
            head = first - alpha
            store_flat(beside, k, alpha)
            put(matrix, k + 1, k, head)
            norm = fma(head, head, fma(-first, first, square))
            empty = less(norm, tiny)
            beta = select(empty, zero, two / select(empty, one, norm))
            store_flat(betas, k, beta)
            _reflect_part(matrix, room, k, beta)
            _reflect_vector(cross, matrix, k, beta)


@device
def _reflect_part(matrix: Any, room: Any, k: int, beta: Any) -> None:
    """As `_reflect` of a matrix that holds v itself, for rows and columns beyond k only."""
    size = matrix.shape[0]
    half, total = splat(matrix, 0.5), splat(matrix, 0.0)
    for i in range(k + 1, size):
        entry = splat(matrix, 0.0)
        for j in range(k + 1, size):
            entry = fma(get(matrix, max(i, j), min(i, j)), get(matrix, j, k), entry)
        entry = entry * beta
        store_flat(room.product, i, entry)
        total = fma(entry, get(matrix, i, k), total)
    total = half * beta * total
    for i in range(k + 1, size):
        store_flat(room.product, i, load_flat(room.product, i) - total * get(matrix, i, k))
    for i in range(k + 1, size):
        v, w = get(matrix, i, k), load_flat(room.product, i)
        for j in range(k + 1, i + 1):
            entry = fma(-v, load_flat(room.product, j), get(matrix, i, j))
            put(matrix, i, j, fma(-w, get(matrix, j, k), entry))


# --- one block --------------------------------------------------------------------------------------------------------


@device
def _load(examples: Any, grams: Any, mean: Any, scale: Any, first: int, room: Any) -> None:
    """A, a, λ and n − p of a block; lanes past the end repeat the last problem."""
    size = room.matrix.shape[0]
    for lane in range(room.matrix.shape[2]):
        number = min(first + lane, grams.shape[0] - 1)
        gram = grams[number]
        total = gram[size, size]
        for i in range(size):
            moved = gram[i, size]
            for j in range(size):
                moved -= gram[i, j] * mean[j]
            total -= mean[i] * (gram[i, size] + moved)
            room.cross[i, lane] = scale[i] * moved
            for j in range(i + 1):
                room.matrix[i, j, lane] = scale[i] * scale[j] * gram[i, j]
        room.energy[0, lane] = total
        room.freedom[0, lane] = examples[number] - size


@device
def _two_likelihoods(room: Any, level: int, first: float, second: float) -> None:
    """log p(y | σ) at two variances together: in a single chain each division would have to wait for the one before."""
    size = room.diagonal.shape[0]
    diagonal = room.diagonal
    v, w = splat(diagonal, first), splat(diagonal, second)
    one, zero, half = splat(diagonal, 1.0), splat(diagonal, 0.0), splat(diagonal, 0.5)
    inverse_v = one / (load_flat(diagonal, 0) + v)
    inverse_w = one / (load_flat(diagonal, 0) + w)
    z_v = z_w = load_flat(room.cross, 0)
    left_v = fma(-z_v * z_v, inverse_v, load_flat(room.energy, 0))
    left_w = fma(-z_w * z_w, inverse_w, load_flat(room.energy, 0))
    product_v, product_w, exponent_v, exponent_w = inverse_v, inverse_w, zero, zero
    for i in range(1, size):
        e, t, c = load_flat(room.beside, i - 1), load_flat(diagonal, i), load_flat(room.cross, i)
        l_v, l_w = e * inverse_v, e * inverse_w
        inverse_v = one / fma(-e, l_v, t + v)
        inverse_w = one / fma(-e, l_w, t + w)
        z_v, z_w = fma(-l_v, z_v, c), fma(-l_w, z_w, c)
        left_v = fma(-z_v * z_v, inverse_v, left_v)
        left_w = fma(-z_w * z_w, inverse_w, left_w)
        product_v, add_v = split_exponent(product_v * inverse_v)
        product_w, add_w = split_exponent(product_w * inverse_w)
        exponent_v, exponent_w = exponent_v + add_v, exponent_w + add_w
    left_v = select(less(left_v, zero), zero, left_v)
    left_w = select(less(left_w, zero), zero, left_w)
    two, freedom = splat(diagonal, np.log(2.0)), load_flat(room.freedom, 0)
    log_v = fma(exponent_v, two, log(diagonal, product_v)) - freedom * splat(diagonal, np.log(first)) - left_v / v
    log_w = fma(exponent_w, two, log(diagonal, product_w)) - freedom * splat(diagonal, np.log(second)) - left_w / w
    store_flat(room.levels, level, half * log_v)
    store_flat(room.levels, level + 1, half * log_w)


@device
def _weigh(room: Any, log_weights: Any) -> None:
    """log p(y | σ_k) becomes p(σ_k | y)."""
    levels, count = room.levels, log_weights.shape[0]
    top = load_flat(levels, 0) + splat(levels, log_weights[0])
    for level in range(1, count):
        value = load_flat(levels, level) + splat(levels, log_weights[level])
        top = select(less(top, value), value, top)
    total = splat(levels, 0.0)
    for level in range(count):
        value = _exponential(levels, load_flat(levels, level) + splat(levels, log_weights[level]) - top)
        total = total + value
        store_flat(levels, level, value)
    inverse = splat(levels, 1.0) / total
    for level in range(count):
        store_flat(levels, level, load_flat(levels, level) * inverse)


@device
def _add_level(room: Any, v: Any, share: Any) -> None:
    """Add what one level of σ gives to the mean, the spread of means and the covariance within."""
    diagonal, beside, cross = room.diagonal, room.beside, room.cross
    size = diagonal.shape[0]
    one = splat(diagonal, 1.0)
    inverse = one / (load_flat(diagonal, 0) + v)
    z = load_flat(cross, 0)
    store_flat(room.inverse, 0, inverse)
    store_flat(room.solution, 0, z)
    for i in range(1, size):
        e = load_flat(beside, i - 1)
        lower = e * inverse
        inverse = one / fma(-e, lower, load_flat(diagonal, i) + v)
        z = fma(-lower, z, load_flat(cross, i))
        store_flat(room.lower, i - 1, lower)
        store_flat(room.inverse, i, inverse)
        store_flat(room.solution, i, z)
    noise = share * v
    last = size - 1
    u = load_flat(room.solution, last) * load_flat(room.inverse, last)
    store_flat(room.solution, last, u)
    put(room.column, last, last, load_flat(room.inverse, last))
    for i in range(size - 2, -1, -1):
        lower = -load_flat(room.lower, i)
        u = fma(lower, u, load_flat(room.solution, i) * load_flat(room.inverse, i))
        store_flat(room.solution, i, u)
        for j in range(i + 1, size):  # Z_ij is kept at (j, i)
            put(room.column, j, i, lower * get(room.column, j, i + 1))
        put(room.column, i, i, fma(lower, get(room.column, i + 1, i), load_flat(room.inverse, i)))
    for i in range(size):
        u = load_flat(room.solution, i) * share
        store_flat(room.mean, i, load_flat(room.mean, i) + u)
        for j in range(i + 1):
            put(room.spread, i, j, fma(u, load_flat(room.solution, j), get(room.spread, i, j)))
            put(room.within, i, j, fma(noise, get(room.column, i, j), get(room.within, i, j)))


@device
def _store_mean(room: Any, first: int, out: Any) -> None:
    for lane in range(min(room.mean.shape[1], out.shape[0] - first)):
        for i in range(out.shape[1]):
            out[first + lane, i] = room.mean[i, lane]


@device
def _store_matrix(matrix: Any, first: int, out: Any) -> None:
    for lane in range(min(matrix.shape[2], out.shape[0] - first)):
        for i in range(out.shape[1]):
            for j in range(i + 1):
                out[first + lane, i, j] = out[first + lane, j, i] = matrix[i, j, lane]


@device
def _store_levels(room: Any, first: int, out: Any) -> None:
    for lane in range(min(room.levels.shape[1], out.shape[0] - first)):
        for level in range(out.shape[1]):
            out[first + lane, level] = room.levels[level, lane]


@kernel
def _posteriors(
    examples: Any,
    grams: Any,
    mean: Any,
    scale: Any,
    variances: Any,
    log_weights: Any,
    begin: int,
    end: int,
    room: Any,
    out: Any,
) -> None:
    """The posteriors of the problems of blocks ``begin`` … ``end``; arrays of ``out`` that are empty are not wanted."""
    size, lanes = room.mean.shape
    learning = out.within.shape[0] > 0
    count = variances.shape[0]
    zero, unlikely = splat(room.mean, 0.0), splat(room.mean, _UNLIKELY)
    for block in range(begin, end):
        first = block * lanes
        _load(examples, grams, mean, scale, first, room)
        _tridiagonal(room)
        for level in range(0, count, 2):
            _two_likelihoods(room, level, variances[level], variances[min(level + 1, count - 1)])
        if learning:
            _store_levels(room, first, out.log_likelihood)
        _weigh(room, log_weights)
        _store_levels(room, first, out.probability)
        for i in range(size):
            store_flat(room.mean, i, zero)
            for j in range(i + 1):
                put(room.within, i, j, zero)
                put(room.spread, i, j, zero)
        for level in range(count):
            probability = load_flat(room.levels, level)
            if not all_lanes(less(probability, unlikely)):
                _add_level(room, splat(room.mean, variances[level]), probability)
        for i in range(size):
            for j in range(i + 1):
                product = load_flat(room.mean, i) * load_flat(room.mean, j)
                put(room.spread, i, j, get(room.spread, i, j) + get(room.within, i, j) - product)
        for k in range(size - 3, -1, -1):
            beta = load_flat(room.beta, k)
            if learning:
                _reflect(room.within, room, room.matrix, k, beta)
            _reflect(room.spread, room, room.matrix, k, beta)
            _reflect_vector(room.mean, room.matrix, k, beta)
        _store_mean(room, first, out.mean)
        _store_matrix(room.spread, first, out.total)
        if learning:
            _store_matrix(room.within, first, out.within)


class Mixed(NamedTuple):
    """What the kernel gives, in units of the prior."""

    mean: Array  # E[u], (groups, p)
    within: Array  # E[Cov[u | σ]], (groups, p, p); empty unless it is learned from
    total: Array  # Cov[u], (groups, p, p)
    probability: Array  # p(σ | y), (groups, K)
    log_likelihood: Array  # (groups, K); empty unless it is learned from


def group_posteriors(
    examples: Array,
    gram: Array,
    mean: Array,
    scale: Array,
    levels: Array,
    weights: Array,
    learning: bool = True,
    threads: int | None = None,
) -> Mixed:
    """Posteriors of problems with n (groups,) and Gram matrices (groups, p + 1, p + 1), p ≥ 1.

    ``mean`` and ``scale`` are μ and τ (p,); ``levels`` and ``weights`` are σ_k and F_k > 0 (K,). What only ``learning``
    needs takes a third of the time.
    """
    groups, p, count = len(gram), gram.shape[1] - 1, len(levels)
    wanted = groups if learning else 0
    numbers = (examples, gram, mean, scale, levels**2, np.log(weights))
    arrays = [np.require(array, np.float64, ["C", "W"]) for array in numbers]
    out = Mixed(
        np.empty((groups, p)),
        np.empty((wanted, p, p)),
        np.empty((groups, p, p)),
        np.empty((groups, count)),
        np.empty((wanted, count)),
    )

    def work(begin: int, end: int) -> None:
        _posteriors(*arrays, begin, end, _room(p, count), out)

    run_divided(work, -(-groups // lane_count(8)), threads)
    return out


def _room(p: int, count: int) -> _Room:
    """A thread's room."""
    rows = ("diagonal", "beside", "beta", "cross", "product", "lower", "inverse", "solution", "mean")
    squares = ("matrix", "within", "spread", "column")
    shapes: dict[str, tuple[int, ...]] = {**dict.fromkeys(rows, (p,)), **dict.fromkeys(squares, (p, p))}
    return _Room(**carve({**shapes, "energy": (1,), "freedom": (1,), "levels": (count + 1,)}, np.float64))
