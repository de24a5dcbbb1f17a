"""Single formulas of the diagonal kernel, each a function of a few lane arrays. Symbols are those of `diagonal`."""

from __future__ import annotations

from typing import Any

from ridgeformer.kernels.jit import device
from ridgeformer.kernels.vectors import fma, get, load_flat, put, splat, store_flat


@device
def set_diagonal_map(layer_map: Any, gram: Any, omega: Any, dim: int) -> None:
    """T = I + [[ω Σ, K A], [B Kᵀ, C:N]] as one dense matrix, for inference."""
    rest = gram.shape[0] - dim
    one, zero, xx = splat(gram, 1.0), splat(gram, 0.0), splat(gram, omega[0])
    for i in range(dim):
        for j in range(dim):
            put(layer_map, i, j, xx * get(gram, i, j))
        put(layer_map, i, i, fma(xx, get(gram, i, i), one))
        for a in range(rest):
            right = splat(gram, omega[1 + a]) * get(gram, i, dim)
            below = splat(gram, omega[1 + rest * (rest + a)]) * get(gram, dim, i)
            for b in range(1, rest):
                right = fma(splat(gram, omega[1 + b * rest + a]), get(gram, i, dim + b), right)
                below = fma(splat(gram, omega[1 + rest * (rest + a) + b]), get(gram, dim + b, i), below)
            put(layer_map, i, dim + a, right)
            put(layer_map, dim + a, i, below)
    number = 1 + 2 * rest * rest
    for a in range(rest):
        for e in range(rest):
            total = one if a == e else zero
            for b in range(rest):
                for c in range(b, rest):
                    total = fma(splat(gram, omega[number]), get(gram, dim + b, dim + c), total)
                    number += 1
            put(layer_map, dim + a, dim + e, total)


@device
def set_corner(width: Any, corner: Any, energy: Any, C: Any) -> None:
    """t = I + C:N."""
    rest, number = len(width), 0
    for a in range(rest):
        for e in range(rest):
            total = splat(energy, 1.0 if a == e else 0.0)
            for b in range(rest):
                for c in range(b, rest):
                    total = fma(splat(energy, C[number]), get(energy, b, c), total)
                    number += 1
            put(corner, a, e, total)


@device
def pull_corner(width: Any, total: Any, energy_adjoint: Any, corner_adjoint: Any, energy: Any, C: Any) -> None:
    """∂C += ∂t ⊗ N ;  H = h + hᵀ + 2 Cᵀ:∂t, where ``energy_adjoint`` is h at first."""
    rest, pair = len(width), 0
    pairs = rest * (rest + 1) // 2
    for b in range(rest):
        for c in range(b, rest):
            entry, pulled = get(energy, b, c), splat(energy, 0.0)
            for place in range(rest * rest):
                number = place * pairs + pair
                adjoint = load_flat(corner_adjoint, place)
                store_flat(total, number, fma(adjoint, entry, load_flat(total, number)))
                pulled = fma(splat(energy, C[number]), adjoint, pulled)
            if b == c:
                pulled = pulled + pulled
            value = get(energy_adjoint, b, c) + get(energy_adjoint, c, b) + pulled
            put(energy_adjoint, b, c, value)
            put(energy_adjoint, c, b, value)
            pair += 1


@device
def map_vector(width: Any, out: Any, seen: Any, vector: Any, pushed: Any, cross: Any, factors: Any, xx: Any) -> None:
    """out = vector + ω·pushed + K·factors, and seen = Kᵀ·vector, each in one pass."""
    factor = splat(out, xx)
    for i in range(out.shape[0]):
        total = fma(factor, load_flat(pushed, i), load_flat(vector, i))
        for a in range(len(width)):
            total = fma(get(cross, i, a), load_flat(factors, a), total)
        store_flat(out, i, total)
    for a in range(len(width)):
        even = odd = splat(out, 0.0)  # two sums: in one, each addition would have to wait for the one before
        for i in range(0, out.shape[0] - 1, 2):
            even = fma(get(cross, i, a), load_flat(vector, i), even)
            odd = fma(get(cross, i + 1, a), load_flat(vector, i + 1), odd)
        if out.shape[0] % 2 == 1:
            even = fma(get(cross, out.shape[0] - 1, a), load_flat(vector, out.shape[0] - 1), even)
        store_flat(seen, a, even + odd)


@device
def shared_times(width: Any, out: Any, small: Any, vector: Any, transposed: bool) -> None:
    """out = small·vector, or smallᵀ·vector, for a shared matrix."""
    rest = len(width)
    for a in range(rest):
        total = splat(out, 0.0)
        for b in range(rest):
            place = b * rest + a if transposed else a * rest + b
            total = fma(splat(out, small[place]), load_flat(vector, b), total)
        store_flat(out, a, total)


@device
def add_small_times(width: Any, out: Any, small: Any, vector: Any, transposed: bool) -> None:
    """out += small·vector, or smallᵀ·vector."""
    for a in range(len(width)):
        total = load_flat(out, a)
        for b in range(len(width)):
            entry = get(small, b, a) if transposed else get(small, a, b)
            total = fma(entry, load_flat(vector, b), total)
        store_flat(out, a, total)


@device
def place_context(width: Any, scatter: Any, cross: Any, energy: Any, gram: Any) -> None:
    """Σ, K and N of the tokens before the first layer: only the last of the s columns is not zero."""
    dim, rest = scatter.shape[0], len(width)
    zero = splat(gram, 0.0)
    for i in range(dim):
        for j in range(dim):
            put(scatter, i, j, get(gram, i, j))
        for a in range(rest - 1):
            put(cross, i, a, zero)
        put(cross, i, rest - 1, get(gram, i, dim))
    for a in range(rest * rest - 1):
        store_flat(energy, a, zero)
    store_flat(energy, rest * rest - 1, get(gram, dim, dim))


@device
def mirror(small: Any) -> None:
    """small[b, a] = small[a, b] for a < b: rounding must not make N any less symmetric."""
    for b in range(1, small.shape[0]):
        for a in range(b):
            put(small, b, a, get(small, a, b))


@device
def set_last_row(width: Any, row_x: Any, row_s: Any, K: Any, N: Any, B: Any, C: Any) -> None:
    """r_{L−1}, the last row of T: (K b, e + C:N) with the last row b of B, and that of C."""
    rest = len(width)
    b = (rest - 1) * rest
    for i in range(row_x.shape[0]):
        total = splat(K, B[b]) * get(K, i, 0)
        for a in range(1, rest):
            total = fma(splat(K, B[b + a]), get(K, i, a), total)
        store_flat(row_x, i, total)
    number = (rest - 1) * rest * rest * (rest + 1) // 2
    for e in range(rest):
        total = splat(N, 1.0 if e == rest - 1 else 0.0)
        for a in range(rest):
            for c in range(a, rest):
                total = fma(splat(N, C[number]), get(N, a, c), total)
                number += 1
        store_flat(row_s, e, total)


@device
def start_adjoint(
    width: Any, X: Any, H: Any, corner_adjoint: Any, total: Any, v_x: Any, v_s: Any, K: Any, B: Any
) -> None:
    """The last layer, ∂T = e vᵀ: X = v_x bᵀ and ∂b += Kᵀ v_x with the last row b of B ;  ∂t = e v_sᵀ ;  h = 0."""
    rest = len(width)
    for a in range(rest):
        seen, factor = (load_flat(total, (rest - 1) * rest + a), splat(X, B[(rest - 1) * rest + a]))
        for i in range(v_x.shape[0]):
            put(X, i, a, factor * load_flat(v_x, i))
            seen = fma(get(K, i, a), load_flat(v_x, i), seen)
        store_flat(total, (rest - 1) * rest + a, seen)
    for place in range(rest * rest):
        store_flat(H, place, splat(X, 0.0))
        store_flat(corner_adjoint, place, splat(X, 0.0))
    for e in range(rest):
        put(corner_adjoint, rest - 1, e, load_flat(v_s, e))


@device
def dot(first: Any, second: Any, count: int) -> Any:
    """Σ first∘second over all entries, in four sums: in one, each addition would have to wait for the one before."""
    a = b = c = d = splat(first, 0.0)
    for i in range(0, count - 3, 4):
        a = fma(load_flat(first, i), load_flat(second, i), a)
        b = fma(load_flat(first, i + 1), load_flat(second, i + 1), b)
        c = fma(load_flat(first, i + 2), load_flat(second, i + 2), c)
        d = fma(load_flat(first, i + 3), load_flat(second, i + 3), d)
    for i in range(count // 4 * 4, count):
        a = fma(load_flat(first, i), load_flat(second, i), a)
    return (a + b) + (c + d)


@device
def symmetric_dot(first: Any, second: Any, factor: Any, third: Any) -> Any:
    """Σ (first + factor·second)∘third, all symmetric: twice what is below the diagonal."""
    factors = splat(first, factor)
    total = splat(first, 0.0)
    for i in range(first.shape[0]):
        row = splat(first, 0.0)
        for j in range(i):
            row = fma(fma(factors, get(second, i, j), get(first, i, j)), get(third, i, j), row)
        total = total + (row + row)
        total = fma(fma(factors, get(second, i, i), get(first, i, i)), get(third, i, i), total)
    return total


@device
def shared_dot(small: Any, shared: Any) -> Any:
    """Σ small∘shared."""
    total = splat(small, 0.0)
    for place in range(shared.shape[0]):
        total = fma(load_flat(small, place), splat(small, shared[place]), total)
    return total
