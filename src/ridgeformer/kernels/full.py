"""Loss and gradient of FULL models: T = I + Σ_k P_k G Q_k with dense P_k, Q_k. Formulas: `ridgeformer.core.gradient`.

The last layer needs only row p−1 of its map, e_p + Σ_k Q_kᵀ a_k with a_k = G p_k and p_k = P_k[p−1, :]. So G before
the last layer is never formed: it is applied to vectors, through the layer below (`look_behind`). On the way back that
layer receives its adjoint as D = Σ_k (p_k q_kᵀ + q_k p_kᵀ), q_k = Q_k v, again without a product of matrices.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ridgeformer.kernels.chain import (
    add_outer,
    advance_gram,
    drop_exploded,
    look_behind,
    place_gram,
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
from ridgeformer.kernels.matrices import (
    T_multiply,
    T_multiply_add,
    add_identity,
    matrix_times_column,
    multiply,
    multiply_add,
    multiply_T,
    row_times_matrix,
)
from ridgeformer.kernels.products import multiply_add_outer
from ridgeformer.kernels.sampling import fill_block
from ridgeformer.kernels.vectors import fma, get, load_flat, put, splat, store_flat, take_ticket


class FullState(NamedTuple):
    """Room for one block's forward and backward pass; lane arrays, L layers, H heads."""

    gram: Any  # (L, p, p, LANES), G_l; the last one only if L = 1
    layer_map: Any  # (L, p, p, LANES), T_l; not of the last layer
    left: Any  # (L, H, p, p, LANES), P_k G_l; not of the last layer
    rows: Any  # (L + 1, p, LANES), r_l
    columns: Any  # (L, p, LANES), v_l
    moved: Any  # (p, p, LANES), T_l G_l
    adjoint: Any  # (p, p, LANES), D_{l+1}, then D_l
    pushed: Any  # (p, p, LANES), D_{l+1} T_l
    map_adjoint: Any  # (p, p, LANES), ∂T_l
    product: Any  # (p, p, LANES), ∂T Q_kᵀ
    spread: Any  # (p, p, LANES), S = Σ_k P_kᵀ ∂T Q_kᵀ
    last: Any  # (2, 4, H, p, LANES), for p_k and for q_k of the last layer: itself, Tᵀ·, G Tᵀ·, T G Tᵀ·
    left_total: Any  # (L, H, p, p, LANES), ∂P summed over blocks
    right_total: Any  # (L, H, p, p, LANES), ∂Q summed over blocks


@inlined
def _forward_layer(state: Any, P: Any, Q: Any, layer: int) -> None:
    """T = I + Σ_k (P_k G) Q_k, keeping P_k G."""
    layer_map = state.layer_map[layer]
    for head in range(P.shape[1]):
        multiply(state.left[layer, head], P[layer, head], state.gram[layer])
        if head == 0:
            multiply(layer_map, state.left[layer, head], Q[layer, head])
        else:
            multiply_add(layer_map, state.left[layer, head], Q[layer, head])
    add_identity(layer_map)


@inlined
def _apply_last_gram(state: Any, which: int, head: int, last: int) -> None:
    """last[which, 3] = G_{L−1}·last[which, 0]."""
    vectors = state.last[which]
    if last == 0:
        matrix_times_column(vectors[3, head], state.gram[0], vectors[0, head])
    else:
        layer_map, gram = state.layer_map[last - 1], state.gram[last - 1]
        look_behind(vectors[3, head], vectors[2, head], vectors[1, head], layer_map, gram, vectors[0, head])


@device
def _splat_row(out: Any, row: Any) -> None:
    """out = row, a shared one, in every lane."""
    for i in range(row.shape[0]):
        store_flat(out, i, splat(out, row[i]))


@device
def _add_row_times_shared(out: Any, row: Any, matrix: Any) -> None:
    """out += rowᵀ·matrix, a shared matrix."""
    size = matrix.shape[0]
    for j in range(size):
        total = load_flat(out, j)
        for i in range(size):
            total = fma(load_flat(row, i), splat(out, matrix[i, j]), total)
        store_flat(out, j, total)


@device
def _shared_times_column(out: Any, matrix: Any, column: Any) -> None:
    """out = matrix·column, a shared matrix."""
    size = matrix.shape[0]
    for i in range(size):
        total = splat(out, 0.0)
        for j in range(size):
            total = fma(splat(out, matrix[i, j]), load_flat(column, j), total)
        store_flat(out, i, total)


@device
def _add_to_last_row(matrix: Any, row: Any) -> None:
    """matrix[p−1, :] += row."""
    size = matrix.shape[0]
    for j in range(size):
        put(matrix, size - 1, j, get(matrix, size - 1, j) + load_flat(row, j))


@inlined
def _forward_last(state: Any, P: Any, Q: Any, last: int) -> None:
    """r_{L−1} = e_p + Σ_k Q_kᵀ G p_k."""
    row = state.rows[last]
    set_last_unit(row)
    for head in range(P.shape[1]):
        _splat_row(state.last[0, 0, head], P[last, head, P.shape[2] - 1])
        _apply_last_gram(state, 0, head, last)
        _add_row_times_shared(row, state.last[0, 3, head], Q[last, head])


@inlined
def _backward_last(state: Any, Q: Any, last: int) -> None:
    """∂T = e_p vᵀ, so with q_k = Q_k v:  ∂P_k[p−1, :] += G q_k ;  ∂Q_k += (G p_k) vᵀ."""
    column = state.columns[last]
    for head in range(Q.shape[1]):
        _shared_times_column(state.last[1, 0, head], Q[last, head], column)
        _apply_last_gram(state, 1, head, last)
        _add_to_last_row(state.left_total[last, head], state.last[1, 3, head])
        add_outer(state.right_total[last, head], state.last[0, 3, head], column)


@inlined
def _map_adjoint_below_last(state: Any, layer: int, heads: int) -> None:
    """∂T = r vᵀ + D T G = r vᵀ + Σ_k (p_k (G Tᵀ q_k)ᵀ + q_k (G Tᵀ p_k)ᵀ)."""
    set_outer(state.map_adjoint, state.rows[layer + 1], state.columns[layer])
    for head in range(heads):
        add_outer(state.map_adjoint, state.last[0, 0, head], state.last[1, 2, head])
        add_outer(state.map_adjoint, state.last[1, 0, head], state.last[0, 2, head])


@inlined
def _pull_adjoint_below_last(state: Any, heads: int) -> None:
    """D = Tᵀ D T + S + Sᵀ with Tᵀ D T = X + Xᵀ, X = Σ_k (Tᵀ p_k)(Tᵀ q_k)ᵀ."""
    for head in range(heads):
        add_outer(state.spread, state.last[0, 1, head], state.last[1, 1, head])
    set_symmetrised(state.adjoint, state.spread)


@inlined
def _backward_layer(state: Any, P: Any, Q: Any, layer: int, last: int) -> None:
    """∂T = r_{l+1}ᵀ v_lᵀ + D_{l+1} T_l G_l, and from it

    ∂P_k += (∂T Q_kᵀ) G ;  ∂Q_k += (P_k G)ᵀ ∂T ;  D_l = Tᵀ D T + S + Sᵀ with S = Σ_k P_kᵀ (∂T Q_kᵀ).
    """
    gram, layer_map, product = state.gram[layer], state.layer_map[layer], state.product
    if layer == last - 1:
        _map_adjoint_below_last(state, layer, P.shape[1])
    else:
        multiply(state.pushed, state.adjoint, layer_map)
        multiply_add_outer(state.map_adjoint, state.pushed, gram, state.rows[layer + 1], state.columns[layer])
    for head in range(P.shape[1]):
        multiply_T(product, state.map_adjoint, Q[layer, head])
        multiply_add(state.left_total[layer, head], product, gram)
        T_multiply_add(state.right_total[layer, head], state.left[layer, head], state.map_adjoint)
        if layer > 0:
            if head == 0:
                T_multiply(state.spread, P[layer, head], product)
            else:
                T_multiply_add(state.spread, P[layer, head], product)
    if layer > 0:  # nobody needs the adjoint of the data
        if layer == last - 1:
            _pull_adjoint_below_last(state, P.shape[1])
        else:
            pull_adjoint(state.adjoint, state.pushed, layer_map, state.spread)


@inlined
def _forward(state: Any, P: Any, Q: Any, block: Any) -> None:
    """T, G and P G of every layer, and the query rows."""
    last = P.shape[0] - 1
    place_gram(state.gram[0], block.gram)
    for layer in range(last):
        _forward_layer(state, P, Q, layer)
        if layer < last - 1:
            advance_gram(state.moved, state.gram[layer + 1], state.layer_map[layer], state.gram[layer])
    _forward_last(state, P, Q, last)
    for layer in range(last - 1, -1, -1):
        row_times_matrix(state.rows[layer], state.rows[layer + 1], state.layer_map[layer])


@inlined
def _backward(state: Any, P: Any, Q: Any) -> None:
    """The columns, from ∂loss/∂c in columns[0], and the gradient, added to the totals."""
    last = P.shape[0] - 1
    for layer in range(last):
        matrix_times_column(state.columns[layer + 1], state.layer_map[layer], state.columns[layer])
    _backward_last(state, Q, last)
    for layer in range(last - 1, -1, -1):
        _backward_layer(state, P, Q, layer, last)


@kernel
def full_gradient(
    P: Any,
    Q: Any,
    data: Any,
    source: Any,
    options: Any,
    chunk: int,
    tickets: Any,
    block: Any,
    state: Any,
    losses: Any,
    left_sums: Any,
    right_sums: Any,
) -> None:
    """The loss of each context, and for each chunk of contexts the sums of ∂loss/∂P and ∂loss/∂Q.

    Every thread runs this, and takes the next free chunk until none is left.

    Contexts come from ``data`` or, if it is empty, are drawn as ``source`` says; ``options`` are `KernelOptions`.
    """
    lanes = block.loss.shape[0]
    batch = losses.shape[0]
    number = take_ticket(tickets)
    while number * chunk < batch:
        for first in range(number * chunk, min((number + 1) * chunk, batch), lanes):
            fill_block(block, data, source, first, batch, options.exact)
            for attempt in range(2):
                _forward(state, P, Q, block)
                score(state.columns[0], state.rows[0], block, options, first)
                if attempt == 0:
                    record_losses(losses, first, block)
                    if options.saturation > 0.0 and drop_exploded(block):
                        continue
                break
            weigh(state.columns[0], options.importance, first)
            _backward(state, P, Q)
        sum_lanes(left_sums[number], state.left_total)
        sum_lanes(right_sums[number], state.right_total)
        number = take_ticket(tickets)
