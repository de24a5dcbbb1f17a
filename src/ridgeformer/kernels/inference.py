"""Forward passes only: implicit weights or losses of many contexts, and contexts drawn for the caller to keep."""

from __future__ import annotations

from typing import Any, NamedTuple

from ridgeformer.kernels.chain import advance_gram, place_gram
from ridgeformer.kernels.diagonal_parts import set_diagonal_map
from ridgeformer.kernels.jit import device, inlined, kernel
from ridgeformer.kernels.matrices import add_identity, multiply, multiply_add, row_times_matrix
from ridgeformer.kernels.sampling import draw_block, draw_query, solve_oracle, store_block
from ridgeformer.kernels.vectors import fma, get, load_flat, put, splat, store_flat


class InferenceState(NamedTuple):
    """Room for one block's forward pass; lane arrays."""

    gram: Any  # (2, p, p, LANES), G_l for even and odd l
    layer_map: Any  # (L, p, p, LANES), T_l
    moved: Any  # (p, p, LANES), T_l G_l
    left: Any  # (p, p, LANES), P_k G_l
    rows: Any  # (2, p, LANES)


@device
def _load_gram(gram: Any, grams: Any, first: int) -> None:
    """The Gram matrices of the block, with zeros for the registers of larger tokens."""
    lanes, last, dim = gram.shape[2], gram.shape[0] - 1, grams.shape[1] - 1
    for i in range(last + 1):
        for j in range(last + 1):
            put(gram, i, j, splat(gram, 0.0))
    for lane in range(lanes):
        # Lanes past the end repeat the last context; what they give is not stored.
        context = min(first + lane, grams.shape[0] - 1)
        for i in range(dim + 1):
            for j in range(dim + 1):
                gram[i if i < dim else last, j if j < dim else last, lane] = grams[context, i, j]


@inlined
def _read_out(state: Any, layers: int) -> None:
    """rows[1] = c = e_pᵀ T_{layers−1} … T_0, for every context of the block; ŵ = −c[:d]."""
    size = state.layer_map.shape[1]
    for j in range(size):
        store_flat(state.rows[layers % 2], j, get(state.layer_map[layers - 1], size - 1, j))
    for layer in range(layers - 2, -1, -1):
        row_times_matrix(state.rows[(layer + 1) % 2], state.rows[layer % 2], state.layer_map[layer])


@device
def _store_weights(weights: Any, row: Any, first: int) -> None:
    for lane in range(min(row.shape[1], weights.shape[0] - first)):
        for i in range(weights.shape[1]):
            weights[first + lane, i] = -row[i, lane]


@inlined
def _full_layer(state: Any, P: Any, Q: Any, layer: int) -> None:
    """T_l = I + Σ_k P_k G_l Q_k, and G_{l+1} unless this is the last layer."""
    gram, layer_map = state.gram[layer % 2], state.layer_map[layer]
    for head in range(P.shape[1]):
        multiply(state.left, P[layer, head], gram)
        if head == 0:
            multiply(layer_map, state.left, Q[layer, head])
        else:
            multiply_add(layer_map, state.left, Q[layer, head])
    add_identity(layer_map)
    if layer < P.shape[0] - 1:
        advance_gram(state.moved, state.gram[(layer + 1) % 2], layer_map, gram)


@inlined
def _diagonal_layer(state: Any, omega: Any, layer: int, dim: int) -> None:
    """T_l, as `set_diagonal_map` says, and G_{l+1} unless this is the last layer."""
    gram, layer_map = state.gram[layer % 2], state.layer_map[layer]
    set_diagonal_map(layer_map, gram, omega[layer], dim)
    if layer < omega.shape[0] - 1:
        advance_gram(state.moved, state.gram[(layer + 1) % 2], layer_map, gram)


@kernel
def full_weights(P: Any, Q: Any, grams: Any, every_layer: bool, begin: int, end: int, state: Any, out: Any) -> None:
    """Implicit weights of contexts ``begin`` … ``end``: out[K−1] after K layers, or out[0] after the last one only."""
    layers = P.shape[0]
    for first in range(begin, end, state.moved.shape[2]):
        _load_gram(state.gram[0], grams, first)
        for layer in range(layers):
            _full_layer(state, P, Q, layer)
            if every_layer or layer == layers - 1:
                _read_out(state, layer + 1)
                _store_weights(out[layer if every_layer else 0], state.rows[1], first)


@kernel
def diagonal_weights(omega: Any, grams: Any, every_layer: bool, begin: int, end: int, state: Any, out: Any) -> None:
    """As `full_weights`, for a model given by its `Blocks`."""
    layers = omega.shape[0]
    for first in range(begin, end, state.moved.shape[2]):
        _load_gram(state.gram[0], grams, first)
        for layer in range(layers):
            _diagonal_layer(state, omega, layer, out.shape[2])
            if every_layer or layer == layers - 1:
                _read_out(state, layer + 1)
                _store_weights(out[layer if every_layer else 0], state.rows[1], first)


@device
def _store_losses(out: Any, row: Any, aim: Any, first: int) -> None:
    """out[first:] = ½‖ŵ − aim‖² of the block's contexts, where ŵ = −row[:d]."""
    total = splat(aim, 0.0)
    for i in range(aim.shape[0]):
        difference = load_flat(row, i) + load_flat(aim, i)
        total = fma(difference, difference, total)
    store_flat(row, 0, splat(aim, 0.5) * total)  # the row has served its purpose
    for lane in range(min(row.shape[1], out.shape[0] - first)):
        out[first + lane] = row[0, lane]


@inlined
def _draw_and_copy(state: Any, block: Any, source: Any, first: int) -> None:
    draw_block(block, source, first)
    solve_oracle(block)
    place_gram(state.gram[0], block.gram)


@inlined
def _score_twice(state: Any, block: Any, first: int, out: Any) -> None:
    """Against the oracle and against the true weights."""
    dim = block.oracle.shape[0]
    for i in range(dim):
        store_flat(state.rows[0], i, load_flat(state.rows[1], i))
    _store_losses(out[0], state.rows[0], block.oracle, first)
    _store_losses(out[1], state.rows[1], block.weights, first)


@kernel
def full_losses(P: Any, Q: Any, source: Any, begin: int, end: int, block: Any, state: Any, out: Any) -> None:
    """Losses of contexts drawn as ``source`` says: out[0] = ½‖ŵ − w*‖², adjusted, and out[1] = ½‖ŵ − w‖²."""
    layers = P.shape[0]
    for first in range(begin, end, state.moved.shape[2]):
        _draw_and_copy(state, block, source, first)
        for layer in range(layers):
            _full_layer(state, P, Q, layer)
        _read_out(state, layers)
        _score_twice(state, block, first, out)


@kernel
def diagonal_losses(omega: Any, source: Any, begin: int, end: int, block: Any, state: Any, out: Any) -> None:
    """As `full_losses`, for a model given by its `Blocks`."""
    layers = omega.shape[0]
    for first in range(begin, end, state.moved.shape[2]):
        _draw_and_copy(state, block, source, first)
        for layer in range(layers):
            _diagonal_layer(state, omega, layer, block.oracle.shape[0])
        _read_out(state, layers)
        _score_twice(state, block, first, out)


@kernel
def draw_contexts(data: Any, source: Any, begin: int, end: int, block: Any) -> None:
    """Fill contexts ``begin`` … ``end`` of the arrays in ``data``."""
    for first in range(begin, end, block.sigma.shape[0]):
        draw_block(block, source, first)
        draw_query(block, source, first)
        solve_oracle(block)
        store_block(block, data, first)
