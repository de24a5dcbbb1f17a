"""Loss and gradient of DIAG and GD++ models, with or without registers: models that commute with rotations of x.

Write s = 1 + r for the length of a token without x, and split G after x: G = [[Σ, K], [Kᵀ, N]]. With the numbers of
`core.kinds.Blocks`, T = I + [[ω Σ, K A], [B Kᵀ, C:N]], so that no products with P and Q are needed. Only these sums
over heads matter, for any number of heads; `core.kinds` turns their gradient into that of p and q.

Forward, in terms of t = I + C:N, which is (s, s), and of Y = Σ K:

    W = Y Bᵀ + K tᵀ ,   M = B KᵀK + t N ,   K' = W + ω Σ W + K A Mᵀ ,   N' = B KᵀW + t Mᵀ
    Σ' = (I + ωΣ) Σ (I + ωΣ) + Z Kᵀ + K Zᵀ ,   Z = ½ K E + ω Y Aᵀ ,   E = A + Aᵀ + A N Aᵀ
    r_x ← r_x + ω Σ r_x + K Bᵀ r_s ,   r_s ← Aᵀ Kᵀ r_x + tᵀ r_s              (the query row, from layer to layer)

Backward is the chain rule. As in `kernels.chain`, D = 2 ∂Σ and H = 2 ∂N are kept, and X = ∂K. Σ and whatever is made of
it alone is symmetric, so half of each product is enough: that is where this kernel gains most on the dense one. For
symmetric D, with F = DΣ + ΣD, the adjoint of Σ ↦ (I + ωΣ) Σ (I + ωΣ) is D ↦ D + 2ωF + ω²(ΣF + DΣ²).

The prediction needs only the last row of the last T, so of the last layer only K and N, and D is zero behind it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ridgeformer.kernels.chain import drop_exploded, record_losses, score, sum_lanes, weigh
from ridgeformer.kernels.diagonal_parts import (
    add_small_times,
    dot,
    map_vector,
    mirror,
    place_context,
    pull_corner,
    set_corner,
    set_last_row,
    shared_dot,
    shared_times,
    start_adjoint,
    symmetric_dot,
)
from ridgeformer.kernels.jit import inlined, kernel
from ridgeformer.kernels.panels import (
    Add,
    AddT,
    Both,
    Outer,
    Product,
    Scale,
    Times,
    TimesT,
    TTimes,
    add_inner,
    matrix_times_panel,
    panel_sum,
    set_inner,
    small_sum,
    symmetric_sum,
)
from ridgeformer.kernels.sampling import fill_block
from ridgeformer.kernels.vectors import load_flat, splat, store_flat, take_ticket


class DiagonalState(NamedTuple):
    """Room for one block's forward and backward pass; lane arrays, L layers. Few arrays: each costs time at the call.

    What is here of layer l is not there for the last layer, except K, N, r and v.
    """

    matrices: Any  # (L, 2, d, d, LANES): Σ, Σ²
    panels: Any  # (L, 3, d, s, LANES): K, Y, W
    smalls: Any  # (L, 7, s, s, LANES): N, t, M, M Aᵀ, KᵀK, KᵀW, E
    vectors: Any  # (L, 3, d, LANES): r_x, v_x, Σ v_x
    shorts: Any  # (L, 6, s, LANES): r_s, v_s, then Bᵀ r_s, Kᵀ r_x, A v_s, Kᵀ v_x with r of the next layer
    adjoint: Any  # (3, d, d, LANES): D for even and odd l, F
    cross_adjoint: Any  # (7, d, s, LANES): X for even and odd l, and what is needed only for a moment
    energy_adjoint: Any  # (7, s, s, LANES): H likewise
    total: Any  # (L, count, LANES): ∂ω, ∂A, ∂B, ∂C summed over blocks


_CROSS, _PUSHED, _MOVED = 0, 1, 2
_ENERGY, _CORNER, _MOVED_CORNER, _TURNED, _CROSS_SQUARE, _CROSS_MOVED, _GROWTH = (0, 1, 2, 3, 4, 5, 6)
_ROW, _COLUMN, _COLUMN_PUSHED = 0, 1, 2
_ROW_BACK, _ROW_SEEN, _COLUMN_ON, _COLUMN_SEEN = 2, 3, 4, 5
_VECTOR = (0,)  # the width of a panel with one column


@inlined
def _parts(width: Any, numbers: Any) -> Any:
    """A, B and C of a layer, flat; or the totals of their gradients."""
    squared = len(width) * len(width)
    return (numbers[1 : 1 + squared], numbers[1 + squared : 1 + 2 * squared], numbers[1 + 2 * squared :])


# --- vectors through a layer ------------------------------------------------------------------------------------------


@inlined
def _move_row(width: Any, state: Any, omega: Any, layer: int) -> None:
    """r_l = r_{l+1} T_l."""
    A, B, _ = _parts(width, omega[layer])
    K, shorts, s = (state.panels[layer, _CROSS], state.shorts[layer], state.shorts[layer + 1, _ROW])
    x, pushed = (state.vectors[layer + 1, _ROW], state.vectors[layer, _COLUMN])  # the columns come later
    matrix_times_panel(_VECTOR, pushed, state.matrices[layer, 0], x)
    shared_times(width, shorts[_ROW_BACK], B, s, True)
    map_vector(width, state.vectors[layer, _ROW], shorts[_ROW_SEEN], x, pushed, K, shorts[_ROW_BACK], omega[layer, 0])
    shared_times(width, shorts[_ROW], A, shorts[_ROW_SEEN], True)
    add_small_times(width, shorts[_ROW], state.smalls[layer, _CORNER], s, True)


@inlined
def _move_column(width: Any, state: Any, omega: Any, layer: int) -> None:
    """v_{l+1} = T_l v_l, keeping Σ v."""
    A, B, _ = _parts(width, omega[layer])
    K, shorts, behind = (state.panels[layer, _CROSS], state.shorts[layer], state.shorts[layer + 1])
    x, pushed = state.vectors[layer, _COLUMN], state.vectors[layer, _COLUMN_PUSHED]
    matrix_times_panel(_VECTOR, pushed, state.matrices[layer, 0], x)
    shared_times(width, shorts[_COLUMN_ON], A, shorts[_COLUMN], False)
    map_vector(
        width,
        state.vectors[layer + 1, _COLUMN],
        shorts[_COLUMN_SEEN],
        x,
        pushed,
        K,
        shorts[_COLUMN_ON],
        omega[layer, 0],
    )
    shared_times(width, behind[_COLUMN], B, shorts[_COLUMN_SEEN], False)
    add_small_times(width, behind[_COLUMN], state.smalls[layer, _CORNER], shorts[_COLUMN], False)


# --- forward ----------------------------------------------------------------------------------------------------------


@inlined
def _forward_layer(width: Any, state: Any, omega: Any, layer: int, last: int) -> None:
    """K and N of the next layer, and Σ too unless that is the last."""
    xx = omega[layer, 0]
    A, B, C = _parts(width, omega[layer])
    scatter, square, smalls = (state.matrices[layer, 0], state.matrices[layer, 1], state.smalls[layer])
    K, Y, W = (state.panels[layer, _CROSS], state.panels[layer, _PUSHED], state.panels[layer, _MOVED])
    N, t, M, E = (smalls[_ENERGY], smalls[_CORNER], smalls[_MOVED_CORNER], smalls[_GROWTH])
    Z, AN = state.cross_adjoint[0], state.energy_adjoint[0]  # of no other use yet
    matrix_times_panel(width, Y, scatter, K)
    set_corner(width, t, N, C)
    set_inner(width, smalls[_CROSS_SQUARE], K, K)
    small_sum(width, M, (Times(B, smalls[_CROSS_SQUARE]), Times(t, N)))
    small_sum(width, smalls[_TURNED], (TimesT(M, A),))
    panel_sum(width, W, (TimesT(Y, B), TimesT(K, t)))
    matrix_times_panel(width, Z, scatter, W)
    panel_sum(width, state.panels[layer + 1, _CROSS], (TimesT(K, smalls[_TURNED]), Add(W, 1.0), Add(Z, xx)))
    set_inner(width, smalls[_CROSS_MOVED], K, W)
    small_sum(width, state.smalls[layer + 1, _ENERGY], (Times(B, smalls[_CROSS_MOVED]), TimesT(t, M)))
    mirror(state.smalls[layer + 1, _ENERGY])
    if layer < last - 1:
        small_sum(width, AN, (Times(A, N),))
        small_sum(width, E, (TimesT(AN, A), Add(A, 1.0), AddT(A, 1.0)))
        panel_sum(width, Z, (TimesT(Y, A), Scale(2 * xx), Times(K, E), Scale(0.5)))
        symmetric_sum(width, square, (Product(scatter, scatter),))
        symmetric_sum(
            width,
            state.matrices[layer + 1, 0],
            (Product(square, scatter), Scale(xx * xx), Add(scatter, 1.0), Add(square, 2 * xx), Both(Z, K)),
        )


@inlined
def _forward(width: Any, state: Any, omega: Any, block: Any) -> None:
    """Σ, K, N and what is made of them, of every layer, and the query rows."""
    last = omega.shape[0] - 1
    place_context(width, state.matrices[0, 0], state.panels[0, _CROSS], state.smalls[0, _ENERGY], block.gram)
    for layer in range(last):
        _forward_layer(width, state, omega, layer, last)
    _, B, C = _parts(width, omega[last])
    K, N = state.panels[last, _CROSS], state.smalls[last, _ENERGY]
    set_last_row(width, state.vectors[last, _ROW], state.shorts[last, _ROW], K, N, B, C)
    for layer in range(last - 1, -1, -1):
        _move_row(width, state, omega, layer)


# --- backward ---------------------------------------------------------------------------------------------------------


@inlined
def _backward_scatter(width: Any, state: Any, omega: Any, layer: int) -> None:
    """What comes back through Σ' alone: F, and with X1 = D K, J = Kᵀ X1 and j = X1ᵀ Y,

    ∂ω = ⟨D, Σ² + ωΣ³⟩ + ⟨j, A⟩ ,  ∂A = J + J A N + ω j ,  h = ½ Aᵀ J A .
    X1 and X2 = D Y stay in panels 2 and 3 of ``cross_adjoint``, h in the energy adjoint of this layer.
    """
    xx, total, smalls = omega[layer, 0], state.total[layer], state.energy_adjoint
    A, _, _ = _parts(width, omega[layer])
    A_total, _, _ = _parts(width, total)
    scatter, square = state.matrices[layer, 0], state.matrices[layer, 1]
    D, F, X1 = state.adjoint[(layer + 1) % 2], state.adjoint[2], state.cross_adjoint[2]
    K, Y, N = state.panels[layer, _CROSS], state.panels[layer, _PUSHED], state.smalls[layer, _ENERGY]
    J, j, JA = smalls[2], smalls[3], smalls[4]
    matrix_times_panel(width, X1, D, K)
    if layer > 0:
        matrix_times_panel(width, state.cross_adjoint[3], D, Y)
        symmetric_sum(width, F, (Product(D, scatter), Product(scatter, D)))
        added = symmetric_dot(D, F, 0.5 * xx, square)
    else:  # F is not needed for anything else here, and Σ³ takes less time
        symmetric_sum(width, F, (Product(square, scatter),))
        added = symmetric_dot(square, F, xx, D)
    set_inner(width, J, K, X1)
    set_inner(width, j, X1, Y)
    small_sum(width, JA, (Times(J, A), Scale(0.5)))
    small_sum(width, A_total, (Times(JA, N), Scale(2.0), Add(J, 1.0), Add(j, xx), Add(A_total, 1.0)))
    small_sum(width, smalls[layer % 2], (TTimes(JA, A),))
    store_flat(total, 0, load_flat(total, 0) + added + shared_dot(j, A))


@inlined
def _backward_layer(width: Any, state: Any, omega: Any, layer: int, last: int) -> None:
    """∂ω, ∂A, ∂B and ∂C of a layer, and D, X and H before it from those behind it."""
    xx, total, shorts, smalls = omega[layer, 0], state.total[layer], state.shorts[layer], state.smalls[layer]
    A, B, C = _parts(width, omega[layer])
    A_total, B_total, C_total = _parts(width, total)
    K, Y, W = state.panels[layer, _CROSS], state.panels[layer, _PUSHED], state.panels[layer, _MOVED]
    N, t, M = smalls[_ENERGY], smalls[_CORNER], smalls[_MOVED_CORNER]
    X, pushed, dW = state.cross_adjoint[(layer + 1) % 2], state.cross_adjoint[4], state.cross_adjoint[5]
    H, h, HB = state.energy_adjoint[(layer + 1) % 2], state.energy_adjoint[layer % 2], state.energy_adjoint[3]
    XK, dM, dt = state.energy_adjoint[4], state.energy_adjoint[5], state.energy_adjoint[6]
    r_x, r_s, v_s = state.vectors[layer + 1, _ROW], state.shorts[layer + 1, _ROW], shorts[_COLUMN]
    if layer < last - 1:
        _backward_scatter(width, state, omega, layer)
    # K' = W + ω Σ W + K A Mᵀ and N' = B KᵀW + t Mᵀ
    matrix_times_panel(width, pushed, state.matrices[layer, 0], X)
    set_inner(width, XK, X, K)
    small_sum(width, HB, (Times(H, B), Scale(0.5)))
    small_sum(width, dM, (Times(H, t), Scale(0.5), Times(XK, A)))
    panel_sum(width, dW, (TimesT(K, HB), Add(X, 1.0), Add(pushed, xx)))
    added = dot(r_x, state.vectors[layer, _COLUMN_PUSHED], r_x.shape[0]) + dot(pushed, W, W.shape[0] * W.shape[1])
    store_flat(total, 0, load_flat(total, 0) + added)
    # W = Y Bᵀ + K tᵀ and M = B KᵀK + t N; row and column of the query pass A, B and t too
    small_sum(width, A_total, (TTimes(XK, M), Outer(shorts[_ROW_SEEN], v_s), Add(A_total, 1.0)))
    small_sum(width, B_total, (TimesT(H, smalls[_CROSS_MOVED]), Scale(0.5), Add(B_total, 1.0)))
    small_sum(width, B_total, (Times(dM, smalls[_CROSS_SQUARE]), Outer(r_s, shorts[_COLUMN_SEEN]), Add(B_total, 1.0)))
    add_inner(width, B_total, dW, Y)
    small_sum(width, dt, (Times(H, M), Scale(0.5), Times(dM, N), Outer(r_s, v_s)))
    add_inner(width, dt, dW, K)
    if layer < last - 1:
        small_sum(width, h, (TTimes(t, dM), Add(h, 1.0)))
    else:
        small_sum(width, h, (TTimes(t, dM),))
    pull_corner(width, C_total, h, dt, N, C)
    if layer > 0:  # nobody needs the adjoint of the data
        _pull_layer(width, state, omega, layer, last)


@inlined
def _pull_layer(width: Any, state: Any, omega: Any, layer: int, last: int) -> None:
    """X and D of a layer, after all the rest: with ∂Y = ∂W B + ω X1 A and k = Bᵀ∂M + ∂Mᵀ B,

    X ← Σ ∂Y + X M Aᵀ + ½ W H B + K k + ∂W t + r_x (A v_s)ᵀ + v_x (Bᵀ r_s)ᵀ + X1 E + ω X2 Aᵀ
    D ← S + Sᵀ + D + 2ωF + ω²(ΣF + DΣ²)  with S = ∂Y Kᵀ + ω(X Wᵀ + r_x v_xᵀ) .
    """
    xx, shorts, smalls = omega[layer, 0], state.shorts[layer], state.smalls[layer]
    A, B, _ = _parts(width, omega[layer])
    scatter, square = state.matrices[layer, 0], state.matrices[layer, 1]
    D, new_D, F = state.adjoint[(layer + 1) % 2], state.adjoint[layer % 2], state.adjoint[2]
    X, new_X, pulled = state.cross_adjoint[(layer + 1) % 2], state.cross_adjoint[layer % 2], state.cross_adjoint[4]
    X1, X2, dW, dY = state.cross_adjoint[2], state.cross_adjoint[3], state.cross_adjoint[5], state.cross_adjoint[6]
    HB, k, dM = state.energy_adjoint[3], state.energy_adjoint[4], state.energy_adjoint[5]
    K, W, t = state.panels[layer, _CROSS], state.panels[layer, _MOVED], smalls[_CORNER]
    r_x, v_x = state.vectors[layer + 1, _ROW], state.vectors[layer, _COLUMN]
    small_sum(width, k, (TTimes(dM, B), TTimes(B, dM)))
    if layer < last - 1:
        panel_sum(width, dY, (Times(X1, A), Scale(xx), Times(dW, B)))
    else:
        panel_sum(width, dY, (Times(dW, B),))
    matrix_times_panel(width, pulled, scatter, dY)
    query = (Outer(r_x, shorts[_COLUMN_ON]), Outer(v_x, shorts[_ROW_BACK]), Add(pulled, 1.0))
    known = (Times(X, smalls[_TURNED]), Times(W, HB), Times(K, k), Times(dW, t))
    rest = known + query
    outer = (Both(X, W), Both(r_x, v_x))
    if layer < last - 1:
        through = (TimesT(X2, A), Scale(xx), Times(X1, smalls[_GROWTH]))
        panel_sum(width, new_X, through + rest)
        products = (Product(scatter, F), Product(D, square), Scale(xx))
        ends = (Scale(xx), Add(D, 1.0), Add(F, 2 * xx), Both(dY, K))
        symmetric_sum(width, new_D, products + outer + ends)
    else:
        panel_sum(width, new_X, rest)
        end = (Scale(xx), Both(dY, K))
        symmetric_sum(width, new_D, outer + end)


@inlined
def _backward(width: Any, state: Any, omega: Any) -> None:
    """The columns, from ∂loss/∂c in the first of them, and the gradient, added to the total."""
    last = omega.shape[0] - 1
    for a in range(len(width)):
        store_flat(state.shorts[0, _COLUMN], a, splat(state.shorts, 0.0))
    for layer in range(last):
        _move_column(width, state, omega, layer)
    _, B, C = _parts(width, omega[last])
    _, B_total, C_total = _parts(width, state.total[last])
    X, H, dt = (state.cross_adjoint[last % 2], state.energy_adjoint[last % 2], state.energy_adjoint[6])
    v_x, v_s = state.vectors[last, _COLUMN], state.shorts[last, _COLUMN]
    start_adjoint(width, X, H, dt, B_total, v_x, v_s, state.panels[last, _CROSS], B)
    pull_corner(width, C_total, H, dt, state.smalls[last, _ENERGY], C)
    for layer in range(last - 1, -1, -1):
        _backward_layer(width, state, omega, layer, last)


@kernel
def diagonal_gradient(
    width: Any,
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
    """The loss of each context, and for each chunk of contexts the sums of ∂loss/∂ω, (L, count).

    Every thread runs this, and takes the next free chunk until none is left.

    ``width`` has 1 + r entries. Contexts come from ``data`` or, if it is empty, are drawn as ``source`` says;
    ``options`` are `KernelOptions`.
    """
    lanes = block.loss.shape[0]
    batch = losses.shape[0]
    number = take_ticket(tickets)
    while number * chunk < batch:
        for first in range(number * chunk, min((number + 1) * chunk, batch), lanes):
            fill_block(block, data, source, first, batch, options.exact)
            for attempt in range(2):
                _forward(width, state, omega, block)
                score(state.vectors[0, _COLUMN], state.vectors[0, _ROW], block, options, first)
                if attempt == 0:
                    record_losses(losses, first, block)
                    if options.saturation > 0.0 and drop_exploded(block):
                        continue
                break
            weigh(state.vectors[0, _COLUMN], options.importance, first)
            _backward(width, state, omega)
        sum_lanes(omega_sums[number], state.total)
        number = take_ticket(tickets)
