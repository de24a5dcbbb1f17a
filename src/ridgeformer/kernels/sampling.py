"""Draws one block of contexts, LANES at a time, straight into Gram space. Its NumPy twin is `core.random`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ridgeformer.core.random import QUERY_SLOT
from ridgeformer.kernels.jit import device, inlined
from ridgeformer.kernels.matrices import gram_of_triangular, mirror_lower, solve_positive
from ridgeformer.kernels.random import fill_chi, fill_normals
from ridgeformer.kernels.vectors import fma, get, lane_numbers, load_flat, put, splat, splat_word, store_flat


class Block(NamedTuple):
    """The LANES contexts in work, and the room needed to draw them."""

    gram: Any  # (p, p, LANES)
    weights: Any  # (d, LANES), the true w
    query: Any  # (d, LANES), x_t
    oracle: Any  # (d, LANES), w*_{σ²}
    sigma: Any  # (LANES,)
    loss: Any  # (LANES,)
    factor: Any  # (p, p, LANES), Bartlett's B
    noise_row: Any  # (p, LANES), the last row of B before it takes in w and σ
    system: Any  # (p, p, LANES), Σ + σ²I and its Cholesky factor
    normals: Any  # (d + p(p−1)/2 rounded up to a multiple of 4, LANES), then the chi variates


@inlined
def draw_block(block: Any, source: Any, first: int) -> None:
    """Draw w and G of contexts ``first`` onwards of the source; the formulas are in `core.random.draw_gram`."""
    gram, factor = block.gram, block.factor
    size = gram.shape[0]
    dim = size - 1
    for lane in range(min(block.sigma.shape[0], source.sigma.shape[0] - first)):
        block.sigma[lane] = source.sigma[first + lane]
    context = splat_word(gram, np.uint32(source.first + first)) + lane_numbers(gram)
    fill_normals(block.normals, 0, dim + size * dim // 2, context, source.step, source.key)
    for i in range(dim):
        store_flat(block.weights, i, load_flat(block.normals, i))
    zero = splat(gram, 0.0)
    used = dim
    for i in range(size):
        for j in range(i):
            put(factor, i, j, load_flat(block.normals, used + j))
        used += i
        for j in range(i + 1, size):
            put(factor, i, j, zero)
    fill_chi(block.normals[:size], source.examples, context, source.step, source.key)
    for i in range(size):
        put(factor, i, i, load_flat(block.normals, i))
    sigma = load_flat(block.sigma, 0)
    for j in range(size):
        store_flat(block.noise_row, j, get(factor, dim, j))
        total = sigma * get(factor, dim, j)
        for i in range(j, dim):
            total = fma(load_flat(block.weights, i), get(factor, i, j), total)
        put(factor, dim, j, total)
    gram_of_triangular(gram, factor, factor)
    mirror_lower(gram)


@inlined
def draw_query(block: Any, source: Any, first: int) -> None:
    """Draw x_t of contexts ``first`` onwards of the source."""
    dim = block.gram.shape[0] - 1
    context = splat_word(block.gram, np.uint32(source.first + first)) + lane_numbers(block.gram)
    fill_normals(block.normals, QUERY_SLOT, dim, context, source.step, source.key)
    for i in range(dim):
        store_flat(block.query, i, load_flat(block.normals, i))


@inlined
def solve_oracle(block: Any) -> None:
    """oracle = w + (Σ + σ²I)⁻¹(Xᵀξ − σ²w) with Xᵀξ = σ B_x b_x; see `ridgeformer.core.random.draw_gram`."""
    gram, oracle = block.gram, block.oracle
    dim = gram.shape[0] - 1
    sigma = load_flat(block.sigma, 0)
    variance = sigma * sigma
    for i in range(dim):
        total = splat(gram, 0.0)
        for j in range(i + 1):
            total = fma(get(block.factor, i, j), load_flat(block.noise_row, j), total)
            put(block.system, i, j, get(gram, i, j))
        put(block.system, i, i, get(gram, i, i) + variance)
        store_flat(oracle, i, sigma * (total - sigma * load_flat(block.weights, i)))
    solve_positive(block.system, oracle, dim)
    for i in range(dim):
        store_flat(oracle, i, load_flat(oracle, i) + load_flat(block.weights, i))


@device
def load_block(block: Any, data: Any, first: int) -> None:
    """Fill ``block`` from contexts given as arrays (batch, …), starting at context ``first``."""
    lanes = block.sigma.shape[0]
    size = block.gram.shape[0]
    for lane in range(min(lanes, data.gram.shape[0] - first)):
        for i in range(size):
            for j in range(size):
                block.gram[i, j, lane] = data.gram[first + lane, i, j]
        for i in range(size - 1):
            block.weights[i, lane] = data.weights[first + lane, i]
            block.query[i, lane] = data.query[first + lane, i]
            block.oracle[i, lane] = data.oracle[first + lane, i]


@device
def store_block(block: Any, data: Any, first: int) -> None:
    """Write ``block`` into arrays (batch, …), the reverse of `load_block`."""
    lanes = block.sigma.shape[0]
    size = block.gram.shape[0]
    for lane in range(min(lanes, data.gram.shape[0] - first)):
        for i in range(size):
            for j in range(size):
                data.gram[first + lane, i, j] = block.gram[i, j, lane]
        for i in range(size - 1):
            data.weights[first + lane, i] = block.weights[i, lane]
            data.query[first + lane, i] = block.query[i, lane]
            data.oracle[first + lane, i] = block.oracle[i, lane]


@device
def blank_lane(block: Any, lane: int) -> None:
    """Make one lane the zero context, on which every layer is the identity and every gradient zero."""
    size = block.gram.shape[0]
    for i in range(size):
        for j in range(size):
            block.gram[i, j, lane] = 0.0
    for i in range(size - 1):
        block.weights[i, lane] = 0.0
        block.query[i, lane] = 0.0
        block.oracle[i, lane] = 0.0


@inlined
def fill_block(block: Any, data: Any, source: Any, first: int, batch: int, exact: bool) -> None:
    """Load or draw what the objective needs of the contexts from ``first`` on; blank the lanes past the batch's end."""
    if data.gram.shape[0] > 0:
        load_block(block, data, first)
    else:
        draw_block(block, source, first)
        if exact:
            solve_oracle(block)
        else:
            draw_query(block, source, first)
    for lane in range(batch - first, block.sigma.shape[0]):
        blank_lane(block, lane)
