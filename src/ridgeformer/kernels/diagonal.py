"""Loss and gradient of DIAG and GD++ models: T = I + Ω∘G with Ω constant on the x/y blocks.

ω_l = (ω_xx, ω_xy, ω_yx, ω_yy) multiplies the blocks Σ, α, αᵀ, λ of G. However many heads a model has, only these four
sums over heads matter, so the kernel works on them and `core.kinds` turns their gradient into that of p and q.
The last two layers are vector work only, as `ridgeformer.kernels.full` explains; here p_k = e_p and q = Ω[p−1, :]∘v.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ridgeformer.kernels.chain import (
    add_outer,
    advance_gram,
    copy_matrix,
    drop_exploded,
    look_behind,
    pull_adjoint,
    record_losses,
    score,
    set_last_unit,
    set_outer,
    set_symmetrised,
    sum_lanes,
    weigh,
)
from ridgeformer.kernels.jit import device, inlined, kernel
from ridgeformer.kernels.matrices import matrix_times_column, multiply, row_times_matrix
from ridgeformer.kernels.products import multiply_add_outer
from ridgeformer.kernels.sampling import fill_block
from ridgeformer.kernels.vectors import fma, get, load_flat, put, splat, store_flat, take_ticket


class DiagonalState(NamedTuple):
    """Room for one block's forward and backward pass; lane arrays, L layers."""

    gram: Any  # (L, p, p, LANES), G_l; the last one only if L = 1
    layer_map: Any  # (L, p, p, LANES), T_l; not of the last layer
    moved: Any  # (L, p, p, LANES), T_l G_l; not of the last two layers
    rows: Any  # (L + 1, p, LANES), r_l
    columns: Any  # (L, p, LANES), v_l
    adjoint: Any  # (p, p, LANES), D_{l+1}, then D_l
    pushed: Any  # (p, p, LANES), D_{l+1} T_l
    map_adjoint: Any  # (p, p, LANES), ∂T_l, then S = Ω∘∂T_l
    last: Any  # (2, 4, p, LANES), for e_p and for q of the last layer: itself, Tᵀ·, G Tᵀ·, T G Tᵀ·
    omega_total: Any  # (L, 4, LANES), ∂ω summed over blocks


@device
def set_diagonal_map(layer_map: Any, gram: Any, omega: Any) -> None:
    """T = I + Ω∘G."""
    dim = gram.shape[0] - 1
    one = splat(gram, 1.0)
    xx, xy, yx, yy = splat(gram, omega[0]), splat(gram, omega[1]), splat(gram, omega[2]), splat(gram, omega[3])
    for i in range(dim):
        for j in range(dim):
            put(layer_map, i, j, xx * get(gram, i, j))
        put(layer_map, i, i, fma(xx, get(gram, i, i), one))
        put(layer_map, i, dim, xy * get(gram, i, dim))
        put(layer_map, dim, i, yx * get(gram, dim, i))
    put(layer_map, dim, dim, fma(yy, get(gram, dim, dim), one))


@device
def _weigh_map_adjoint(total: Any, map_adjoint: Any, gram: Any, omega: Any) -> None:
    """∂ω_ab += sum of ∂T∘G over block ab; then ∂T becomes Ω∘∂T, its adjoint with respect to G."""
    dim = gram.shape[0] - 1
    xx, xy, yx, yy = splat(gram, omega[0]), splat(gram, omega[1]), splat(gram, omega[2]), splat(gram, omega[3])
    sum_xx, sum_xy, sum_yx = load_flat(total, 0), load_flat(total, 1), load_flat(total, 2)
    for i in range(dim):
        row_sum = splat(gram, 0.0)  # of its own, so that consecutive rows do not wait for one another
        for j in range(dim):
            entry = get(map_adjoint, i, j)
            row_sum = fma(entry, get(gram, i, j), row_sum)
            put(map_adjoint, i, j, xx * entry)
        sum_xx = sum_xx + row_sum
        right, below = get(map_adjoint, i, dim), get(map_adjoint, dim, i)
        sum_xy = fma(right, get(gram, i, dim), sum_xy)
        sum_yx = fma(below, get(gram, dim, i), sum_yx)
        put(map_adjoint, i, dim, xy * right)
        put(map_adjoint, dim, i, yx * below)
    corner = get(map_adjoint, dim, dim)
    store_flat(total, 0, sum_xx)
    store_flat(total, 1, sum_xy)
    store_flat(total, 2, sum_yx)
    store_flat(total, 3, fma(corner, get(gram, dim, dim), load_flat(total, 3)))
    put(map_adjoint, dim, dim, yy * corner)


@inlined
def _apply_last_gram(state: Any, which: int, last: int) -> None:
    """last[which, 3] = G_{L−1}·last[which, 0]."""
    vectors = state.last[which]
    if last == 0:
        matrix_times_column(vectors[3], state.gram[0], vectors[0])
    else:
        look_behind(vectors[3], vectors[2], vectors[1], state.layer_map[last - 1], state.gram[last - 1], vectors[0])


@device
def _forward_last(row: Any, seen: Any, omega: Any) -> None:
    """r_{L−1} = e_pᵀ T = (ω_yx αᵀ, 1 + ω_yy λ), where ``seen`` = G e_p = (α, λ)."""
    dim = row.shape[0] - 1
    for i in range(dim):
        store_flat(row, i, splat(row, omega[2]) * load_flat(seen, i))
    store_flat(row, dim, fma(splat(row, omega[3]), load_flat(seen, dim), splat(row, 1.0)))


@device
def _backward_last(total: Any, q: Any, column: Any, seen: Any, omega: Any) -> None:
    """∂T = e_p vᵀ, so ∂ω_yx += ⟨α, v_x⟩, ∂ω_yy += λ v_y ; q = (ω_yx v_x, ω_yy v_y), which makes S = e_p qᵀ."""
    dim = column.shape[0] - 1
    sum_yx = load_flat(total, 2)
    for i in range(dim):
        value = load_flat(column, i)
        sum_yx = fma(value, load_flat(seen, i), sum_yx)
        store_flat(q, i, splat(column, omega[2]) * value)
    value = load_flat(column, dim)
    store_flat(total, 2, sum_yx)
    store_flat(total, 3, fma(value, load_flat(seen, dim), load_flat(total, 3)))
    store_flat(q, dim, splat(column, omega[3]) * value)


@inlined
def _backward_below_last(state: Any, omega: Any, layer: int) -> None:
    """The layer below the last, where D = e_p qᵀ + q e_pᵀ:

    ∂T = r vᵀ + e_p (G Tᵀ q)ᵀ + q (G Tᵀ e_p)ᵀ ;  D_l = X + Xᵀ + S + Sᵀ with X = (Tᵀ e_p)(Tᵀ q)ᵀ and S = Ω∘∂T.
    """
    set_outer(state.map_adjoint, state.rows[layer + 1], state.columns[layer])
    add_outer(state.map_adjoint, state.last[0, 0], state.last[1, 2])
    add_outer(state.map_adjoint, state.last[1, 0], state.last[0, 2])
    _weigh_map_adjoint(state.omega_total[layer], state.map_adjoint, state.gram[layer], omega[layer])
    if layer > 0:
        add_outer(state.map_adjoint, state.last[0, 1], state.last[1, 1])
        set_symmetrised(state.adjoint, state.map_adjoint)


@inlined
def _backward_layer(state: Any, omega: Any, layer: int) -> None:
    """∂T = r_{l+1}ᵀ v_lᵀ + D_{l+1} T_l G_l ;  ∂ω from ∂T∘G ;  D_l = Tᵀ D T + S + Sᵀ with S = Ω∘∂T."""
    row, column, layer_map = state.rows[layer + 1], state.columns[layer], state.layer_map[layer]
    multiply_add_outer(state.map_adjoint, state.adjoint, state.moved[layer], row, column)
    _weigh_map_adjoint(state.omega_total[layer], state.map_adjoint, state.gram[layer], omega[layer])
    if layer > 0:  # the adjoint of the data itself is not wanted
        multiply(state.pushed, state.adjoint, layer_map)
        pull_adjoint(state.adjoint, state.pushed, layer_map, state.map_adjoint)


@inlined
def _forward(state: Any, omega: Any, block: Any) -> None:
    """T, G and T G of every layer, and the query rows."""
    last = omega.shape[0] - 1
    copy_matrix(state.gram[0], block.gram)
    for layer in range(last):
        set_diagonal_map(state.layer_map[layer], state.gram[layer], omega[layer])
        if layer < last - 1:
            advance_gram(state.moved[layer], state.gram[layer + 1], state.layer_map[layer], state.gram[layer])
    set_last_unit(state.last[0, 0])
    _apply_last_gram(state, 0, last)
    _forward_last(state.rows[last], state.last[0, 3], omega[last])
    for layer in range(last - 1, -1, -1):
        row_times_matrix(state.rows[layer], state.rows[layer + 1], state.layer_map[layer])


@inlined
def _backward(state: Any, omega: Any) -> None:
    """The columns, from ∂loss/∂c in columns[0], and the gradient, added to the total."""
    last = omega.shape[0] - 1
    for layer in range(last):
        matrix_times_column(state.columns[layer + 1], state.layer_map[layer], state.columns[layer])
    _backward_last(state.omega_total[last], state.last[1, 0], state.columns[last], state.last[0, 3], omega[last])
    if last > 0:
        _apply_last_gram(state, 1, last)
        _backward_below_last(state, omega, last - 1)
    for layer in range(last - 2, -1, -1):
        _backward_layer(state, omega, layer)


@kernel
def diagonal_gradient(
    omega: Any,
    data: Any,
    source: Any,
    options: Any,
    chunk: int,
    tickets: Any,
    block: Any,
    state: Any,
    losses: Any,
    omega_sums: Any,
) -> None:
    """The chunks this thread gets a ticket for: each context's loss, and per chunk the sums of ∂loss/∂ω, (L, 4).

    Contexts come from ``data`` or, if it is empty, are drawn as ``source`` says; ``options`` are `KernelOptions`.
    """
    lanes = block.loss.shape[0]
    batch = losses.shape[0]
    number = take_ticket(tickets)
    while number * chunk < batch:
        for first in range(number * chunk, min((number + 1) * chunk, batch), lanes):
            fill_block(block, data, source, first, batch, options.exact)
            for attempt in range(2):
                _forward(state, omega, block)
                score(state.columns[0], state.rows[0], block, options.exact, options.saturation)
                if attempt == 0:
                    record_losses(losses, first, block)
                    if options.saturation > 0.0 and drop_exploded(block):
                        continue
                break
            weigh(state.columns[0], options.importance, first)
            _backward(state, omega)
        sum_lanes(omega_sums[number], state.omega_total)
        number = take_ticket(tickets)
