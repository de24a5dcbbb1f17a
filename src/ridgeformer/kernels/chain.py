"""What the full and the diagonal recursion share: rows, columns, the objective, the doubled adjoint.

Notation for one context (see `core.gradient`): T_l the map of layer l, G_l the Gram matrix before it, r_l the
query row (r_L = e_p, r_l = r_{l+1} T_l, c = r_0), v_l the column (v_0 = ∂loss/∂c, v_{l+1} = T_l v_l), and
D_l = 2 ∂loss/∂G_l, symmetric. Keeping D rather than the adjoint itself saves every factor two and one half.
"""

from __future__ import annotations

from typing import Any

from ridgeformer.core.gradient import EXPLODED
from ridgeformer.kernels.jit import device, inlined
from ridgeformer.kernels.matrices import (
    T_multiply_lower,
    matrix_times_column,
    mirror_lower,
    multiply,
    multiply_T_lower,
    row_times_matrix,
)
from ridgeformer.kernels.sampling import blank_lane
from ridgeformer.kernels.vectors import fma, get, lane_sum, load_flat, put, splat, store_flat


@device
def place_gram(out: Any, gram: Any) -> None:
    """out = gram, (d + 1, d + 1), with rows and columns of zeros before the last for the registers of larger tokens."""
    dim, last = gram.shape[0] - 1, out.shape[0] - 1
    zero = splat(out, 0.0)
    for i in range(dim + 1):
        row = i if i < dim else last
        for j in range(dim):
            put(out, row, j, get(gram, i, j))
        for j in range(dim, last):
            put(out, row, j, zero)
        put(out, row, last, get(gram, i, dim))
    for row in range(dim, last):
        for j in range(last + 1):
            put(out, row, j, zero)


@inlined
def advance_gram(moved: Any, next_gram: Any, layer_map: Any, gram: Any) -> None:
    """moved = T·G ;  next_gram = T·G·Tᵀ."""
    multiply(moved, layer_map, gram)
    multiply_T_lower(next_gram, moved, layer_map)
    mirror_lower(next_gram)


@device
def score(column: Any, row: Any, block: Any, options: Any, first: int) -> None:
    """Put each context's loss into the block, and its ∂/∂c into ``column``; the implicit weights are ŵ = −c[:d].

    exact:    ½(ŵ − w*)ᵀM(ŵ − w*), so ∂/∂ŵ = M(ŵ − w*); M = I unless ``options.moment`` says otherwise.
    sampled:  ½⟨ŵ − w, x_t⟩², so ∂/∂ŵ = ⟨ŵ − w, x_t⟩ x_t.
    With ``saturation`` s > 0 the gradient is that of s·ln(1 + loss/s): the loss's own, divided by 1 + loss/s.
    """
    gram = block.gram
    dim = gram.shape[0] - 1
    half, one = splat(gram, 0.5), splat(gram, 1.0)
    total, saturation = splat(gram, 0.0), options.saturation
    if options.exact:
        for i in range(dim):
            difference = load_flat(row, i) + load_flat(block.oracle, i)
            store_flat(column, i, difference)
            total = fma(difference, difference, total)
        if options.moment.shape[0] > 0:
            for i in range(dim):
                store_flat(block.query, i, load_flat(column, i))  # which this objective has no other use for
            _apply_moment(column, block.query, options.moment, first)
            total = splat(gram, 0.0)
            for i in range(dim):
                total = fma(load_flat(column, i), load_flat(block.query, i), total)
        total = half * total
    else:
        error = splat(gram, 0.0)
        for i in range(dim):
            error = fma(load_flat(row, i) + load_flat(block.weights, i), load_flat(block.query, i), error)
        for i in range(dim):
            store_flat(column, i, error * load_flat(block.query, i))
        total = half * error * error
    for i in range(dim, column.shape[0]):
        store_flat(column, i, splat(gram, 0.0))
    store_flat(block.loss, 0, total)
    if saturation > 0.0:
        factor = one / fma(total, splat(gram, 1.0 / saturation), one)
        for i in range(dim):
            store_flat(column, i, factor * load_flat(column, i))


@device
def _apply_moment(out: Any, vector: Any, moment: Any, first: int) -> None:
    """out = M·vector for every context of the block; M is (1, d, d), the same for all, or (batch, d, d)."""
    dim = vector.shape[0]
    if moment.shape[0] == 1:
        for i in range(dim):
            shared = splat(vector, 0.0)
            for j in range(dim):
                shared = fma(splat(vector, moment[0, i, j]), load_flat(vector, j), shared)
            store_flat(out, i, shared)
        return
    for lane in range(vector.shape[1]):
        context = min(first + lane, moment.shape[0] - 1)
        for i in range(dim):
            total = vector[0, lane] * moment[context, i, 0]
            for j in range(1, dim):
                total += vector[j, lane] * moment[context, i, j]
            out[i, lane] = total


@device
def weigh(column: Any, importance: Any, first: int) -> None:
    """Multiply the gradient of each context of the block by its importance, if ``importance`` is not empty."""
    for lane in range(min(column.shape[1], importance.shape[0] - first)):
        for i in range(column.shape[0]):
            column[i, lane] *= importance[first + lane]


@device
def record_losses(losses: Any, first: int, block: Any) -> None:
    """losses[first:] = the block's losses."""
    for lane in range(min(block.loss.shape[0], losses.shape[0] - first)):
        losses[first + lane] = block.loss[lane]


@device
def drop_exploded(block: Any) -> bool:
    """Replace contexts whose loss is not finite, or far too large, by zeros; True if there were any.

    Their gradient would overflow and, added to the others', spoil all of it.
    """
    dropped = False
    for lane in range(block.loss.shape[0]):
        if not block.loss[lane] < EXPLODED:
            blank_lane(block, lane)
            dropped = True
    return dropped


@device
def add_symmetrised(matrix: Any, other: Any) -> None:
    """matrix += other + otherᵀ, where only the lower triangle of the symmetric ``matrix`` is there at first."""
    size = matrix.shape[0]
    for i in range(size):
        for j in range(i + 1):
            value = get(matrix, i, j) + (get(other, i, j) + get(other, j, i))
            put(matrix, i, j, value)
            put(matrix, j, i, value)


@device
def set_symmetrised(matrix: Any, other: Any) -> None:
    """matrix = other + otherᵀ."""
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            value = get(other, i, j) + get(other, j, i)
            put(matrix, i, j, value)
            put(matrix, j, i, value)


@inlined
def pull_adjoint(result: Any, pushed: Any, layer_map: Any, spread: Any) -> None:
    """D_l = T_lᵀ D_{l+1} T_l + S + Sᵀ: through G_{l+1} = T_l G_l T_lᵀ with T_l held fixed, and through T_l itself.

    ``pushed`` is D_{l+1} T_l.
    """
    T_multiply_lower(result, layer_map, pushed)
    add_symmetrised(result, spread)


@inlined
def look_behind(out: Any, mixed: Any, pulled: Any, layer_map: Any, gram: Any, vector: Any) -> None:
    """out = T G Tᵀ·vector, without forming the next Gram matrix: pulled = Tᵀ·vector, mixed = G·pulled."""
    row_times_matrix(pulled, vector, layer_map)
    matrix_times_column(mixed, gram, pulled)
    matrix_times_column(out, layer_map, mixed)


@device
def add_outer(matrix: Any, column: Any, row: Any) -> None:
    """matrix += column·rowᵀ."""
    size = matrix.shape[0]
    for i in range(size):
        x = load_flat(column, i)
        for j in range(size):
            put(matrix, i, j, fma(x, load_flat(row, j), get(matrix, i, j)))


@device
def set_outer(matrix: Any, column: Any, row: Any) -> None:
    """matrix = column·rowᵀ."""
    size = matrix.shape[0]
    for i in range(size):
        x = load_flat(column, i)
        for j in range(size):
            put(matrix, i, j, x * load_flat(row, j))


@device
def set_last_unit(row: Any) -> None:
    """row = e_p."""
    size = row.shape[0]
    for i in range(size - 1):
        store_flat(row, i, splat(row, 0.0))
    store_flat(row, size - 1, splat(row, 1.0))


@device
def sum_lanes(out: Any, totals: Any) -> None:
    """out[…] = Σ over lanes of totals[…, lane]; then totals = 0."""
    zero = splat(totals, 0.0)
    flat = out.reshape(out.size)
    for i in range(out.size):
        flat[i] = lane_sum(load_flat(totals, i))
        store_flat(totals, i, zero)
