"""Draws contexts of Gaussian tasks with any covariance and any n into Gram space. The NumPy twin is `core.random`.

The formulas are those of `core.random.draw_gaussian`. Matrices are (p, p), with the last row and column, those of the
target, taken from the identity, so that the matrix products of the other kernels can be used here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ridgeformer.core.random import QUERY_SLOT, ROTATION_SLOT
from ridgeformer.kernels.jit import device, inlined, kernel
from ridgeformer.kernels.matrices import gram_of_triangular, mirror_lower, multiply, multiply_T_lower, solve_positive
from ridgeformer.kernels.random import fill_chi, fill_chi_each, fill_normals
from ridgeformer.kernels.vectors import (
    fma,
    get,
    lane_numbers,
    less,
    load_flat,
    put,
    select,
    splat,
    splat_word,
    sqrt,
    store_flat,
)


class GaussianTask(NamedTuple):
    """`core.random.GaussianSource` as the kernel takes it."""

    sigma: Any  # (batch,)
    examples: Any  # (batch,), as floats
    every: int  # n of all contexts; 0 if they differ, or n < p
    step: int
    first: int
    key: Any  # (2,)
    features: Any  # (p, p), F and 1
    weights: Any  # (d, d), L
    whitening: Any  # (p, p), Lᵀ and 1
    rotates: bool
    stretches: bool  # whether F is diagonal
    scale: float  # s if L = s I, otherwise 0
    rounding: float  # multiple of tr S that is added to σ²
    given: Any  # (batch, d) or (0, d)


class GaussianBlock(NamedTuple):
    """Room for drawing LANES contexts; lane arrays."""

    gram: Any  # (p, p), G, then S + σ²I and its Cholesky factor
    factor: Any  # (p, p), Bartlett's B
    mapped: Any  # (p, p), A B
    turned: Any  # (p, p), A, where the axes are turned
    moment: Any  # (p, p), A Aᵀ, where the axes are turned
    unit: Any  # (d,), u
    weights: Any  # (d,), w
    query: Any  # (d,)
    oracle: Any  # (d,)
    sigma: Any  # ()
    examples: Any  # (1,)
    noise_row: Any  # (p,)
    normals: Any  # room for all normals of a kind


@inlined
def _load_lanes(block: Any, task: Any, first: int) -> None:
    """σ and n of each lane, and w if it is given; lanes past the end repeat the last context."""
    dim, last = block.unit.shape[0], task.sigma.shape[0] - 1
    for lane in range(block.sigma.shape[0]):
        context = min(first + lane, last)
        block.sigma[lane] = task.sigma[context]
        block.examples[0, lane] = task.examples[context]
        for i in range(dim if task.given.shape[0] > 0 else 0):
            block.weights[i, lane] = task.given[context, i]


@inlined
def _draw_factor(block: Any, task: Any, context: Any) -> None:
    """B, whose columns from the n-th on are zero, and u."""
    factor = block.factor
    size = factor.shape[0]
    dim = size - 1
    fill_normals(block.normals, 0, dim + size * dim // 2, context, task.step, task.key)
    zero, n = splat(factor, 0.0), load_flat(block.examples, 0)
    for i in range(dim):
        store_flat(block.unit, i, load_flat(block.normals, i))
    used = dim
    for i in range(size):
        for j in range(i):
            normal = load_flat(block.normals, used + j)
            put(factor, i, j, normal if task.every > 0 else select(less(splat(factor, j + 0.5), n), normal, zero))
        used += i
        for j in range(i + 1, size):
            put(factor, i, j, zero)
    if task.every > 0:
        fill_chi(block.normals[:size], task.every, context, task.step, task.key)
    else:
        fill_chi_each(block.normals[:size], block.examples, context, task.step, task.key)
    for i in range(size):
        put(factor, i, i, load_flat(block.normals, i))


@device
def _reflect(matrix: Any, normals: Any, start: int, k: int, dim: int) -> None:
    """matrix ← H_k·matrix, H_k = I − v vᵀ / (‖g‖² + |g_1|‖g‖), v = g + sign(g_1)‖g‖ e_1, on rows k … d−1."""
    square = splat(matrix, 0.0)
    for i in range(dim - k):
        g = load_flat(normals, start + i)
        square = fma(g, g, square)
    length, g = sqrt(square), load_flat(normals, start)
    negative = less(g, splat(matrix, 0.0))
    factor = splat(matrix, 1.0) / fma(select(negative, -g, g), length, square)
    store_flat(normals, start, g + select(negative, -length, length))
    for j in range(dim):
        along = splat(matrix, 0.0)
        for i in range(dim - k):
            along = fma(load_flat(normals, start + i), get(matrix, k + i, j), along)
        along = -(along * factor)
        for i in range(dim - k):
            put(matrix, k + i, j, fma(load_flat(normals, start + i), along, get(matrix, k + i, j)))


@inlined
def _turn_axes(block: Any, task: Any, context: Any) -> None:
    """turned = R F with R uniform over rotations; moment = R F (R F)ᵀ. See `core.random.turn`."""
    turned, normals = block.turned, block.normals
    dim = turned.shape[0] - 1
    fill_normals(normals, ROTATION_SLOT, dim * (dim + 1) // 2, context, task.step, task.key)
    zero = splat(turned, 0.0)
    for i in range(dim + 1):
        for j in range(dim + 1):
            put(turned, i, j, splat(turned, task.features[i, j]))
    for k in range(dim):
        negative = less(load_flat(normals, k * dim - k * (k - 1) // 2), zero)
        for j in range(dim):
            entry = get(turned, k, j)
            flips = select(negative, -entry, entry)
            put(turned, k, j, flips if k == dim - 1 else -flips)
    for k in range(dim - 2, -1, -1):
        _reflect(turned, normals, k * dim - k * (k - 1) // 2, k, dim)
    multiply_T_lower(block.moment, turned, turned)
    mirror_lower(block.moment)


@inlined
def _map_factor(block: Any, task: Any) -> None:
    """mapped = F B, axes as they are."""
    if task.stretches:
        for i in range(block.mapped.shape[0]):
            for j in range(block.mapped.shape[0]):
                put(block.mapped, i, j, splat(block.gram, task.features[i, i]) * get(block.factor, i, j))
    else:
        multiply(block.mapped, task.features, block.factor)


@inlined
def _draw_query(block: Any, task: Any, context: Any) -> None:
    """x_t = A q, q ~ N(0, I)."""
    dim = block.unit.shape[0]
    fill_normals(block.normals, QUERY_SLOT, dim, context, task.step, task.key)
    for i in range(dim):
        total = splat(block.gram, 0.0)
        for j in range(dim):
            entry = get(block.turned, i, j) if task.rotates else splat(block.gram, task.features[i, j])
            total = fma(entry, load_flat(block.normals, j), total)
        store_flat(block.query, i, total)


@inlined
def _solve_oracle(block: Any, task: Any) -> None:
    """w* = L (u + (S + σ²I)⁻¹(c − σ²u)); S overwrites the Gram matrix, which has been stored."""
    system, whitened, oracle = block.gram, block.factor, block.oracle
    dim = block.unit.shape[0]
    if task.scale > 0.0:
        s = splat(system, task.scale)
        for i in range(dim):
            for j in range(dim):
                put(whitened, i, j, s * get(block.mapped, i, j))
            for j in range(i + 1):
                put(system, i, j, s * s * get(system, i, j))
    else:
        multiply(whitened, task.whitening, block.mapped)
        multiply_T_lower(system, whitened, whitened)
    sigma = load_flat(block.sigma, 0)
    trace = splat(system, 0.0)
    for i in range(dim):
        # Row p−1 of the mapped factor holds y; the x rows of the products do not see it.
        trace = trace + get(system, i, i)
    variance = fma(splat(system, task.rounding), trace, sigma * sigma)
    for i in range(dim):
        total = splat(system, 0.0)
        for j in range(dim):
            total = fma(get(whitened, i, j), load_flat(block.noise_row, j), total)
        put(system, i, i, get(system, i, i) + variance)
        store_flat(oracle, i, sigma * total - variance * load_flat(block.unit, i))
    solve_positive(system, oracle, dim)
    for i in range(dim):
        store_flat(oracle, i, load_flat(oracle, i) + load_flat(block.unit, i))
    for i in range(dim - 1, -1, -1):
        store_flat(oracle, i, _row_times(task.weights, oracle, i))


@device
def _row_times(matrix: Any, vector: Any, i: int) -> Any:
    """Entry i of matrix·vector, for a shared lower triangular matrix."""
    total = splat(vector, 0.0)
    for j in range(i + 1):
        total = fma(splat(vector, matrix[i, j]), load_flat(vector, j), total)
    return total


@device
def _store_matrix(out: Any, matrix: Any, first: int, size: int) -> None:
    for lane in range(min(matrix.shape[2], out.shape[0] - first)):
        for i in range(size):
            for j in range(size):
                out[first + lane, i, j] = matrix[i, j, lane]


@device
def _store_vector(out: Any, vector: Any, first: int) -> None:
    for lane in range(min(vector.shape[1], out.shape[0] - first)):
        for i in range(vector.shape[0]):
            out[first + lane, i] = vector[i, lane]


@kernel
def draw_gaussian(data: Any, task: Any, begin: int, end: int, block: Any) -> None:
    """Fill contexts ``begin`` … ``end`` of the arrays in ``data``, a `core.random.GramDraw`; moments if they differ."""
    dim = block.unit.shape[0]
    gram, mapped = block.gram, block.mapped
    for first in range(begin, end, block.sigma.shape[0]):
        _load_lanes(block, task, first)
        context = splat_word(gram, np.uint32(task.first + first)) + lane_numbers(gram)
        _draw_factor(block, task, context)
        if task.rotates:
            _turn_axes(block, task, context)
            multiply(mapped, block.turned, block.factor)
            _store_matrix(data.moment, block.moment, first, dim)
        else:
            _map_factor(block, task)
        if task.given.shape[0] == 0:
            for i in range(dim):
                store_flat(block.weights, i, _row_times(task.weights, block.unit, i))
        sigma = load_flat(block.sigma, 0)
        for j in range(dim + 1):
            noise = get(mapped, dim, j)
            store_flat(block.noise_row, j, noise)
            total = sigma * noise
            for i in range(dim):
                total = fma(load_flat(block.weights, i), get(mapped, i, j), total)
            put(mapped, dim, j, total)
        if task.rotates:
            multiply_T_lower(gram, mapped, mapped)
        else:
            gram_of_triangular(gram, mapped, mapped)
        mirror_lower(gram)
        _store_matrix(data.gram, gram, first, dim + 1)
        _store_vector(data.weights, block.weights, first)
        _draw_query(block, task, context)
        _store_vector(data.query, block.query, first)
        if task.given.shape[0] == 0:
            _solve_oracle(block, task)
            _store_vector(data.oracle, block.oracle, first)
