"""Small matrix operations on lane arrays, as ordinary functions for the kernels.

Axes: a lane matrix is (p, p, LANES), a lane row or column (p, LANES). Each function says its formula, for one lane.
"""

from __future__ import annotations

from typing import Any

from ridgeformer.kernels.jit import device
from ridgeformer.kernels.products import make_product
from ridgeformer.kernels.vectors import fma, get, load_flat, put, splat, sqrt, store_flat

multiply = make_product()
"""multiply(out, a, b): out = a·b. The letters of the names below: T transposed, add out += …"""
multiply_add = make_product(add=True)
multiply_T = make_product(transpose_right=True)
T_multiply = make_product(transpose_left=True)
T_multiply_add = make_product(transpose_left=True, add=True)
multiply_T_lower = make_product(transpose_right=True, lower_only=True)
"""out = a·bᵀ, of which only the tiles on and below the diagonal are written: to be followed by `mirror_lower`."""
gram_of_triangular = make_product(transpose_right=True, lower_only=True, triangular=True)
"""As `multiply_T_lower`, for a lower triangular b."""
T_multiply_lower = make_product(transpose_left=True, lower_only=True)


@device
def mirror_lower(matrix: Any) -> None:
    """matrix[j, i] = matrix[i, j] for j < i."""
    for i in range(1, matrix.shape[0]):
        for j in range(i):
            put(matrix, j, i, get(matrix, i, j))


@device
def add_identity(matrix: Any) -> None:
    """matrix += I."""
    one = splat(matrix, 1.0)
    for i in range(matrix.shape[0]):
        put(matrix, i, i, get(matrix, i, i) + one)


@device
def row_times_matrix(out: Any, row: Any, matrix: Any) -> None:
    """out = rowᵀ·matrix, four columns at a time: in one sum, each addition would have to wait for the one before."""
    size = matrix.shape[0]
    for j in range(0, size - 3, 4):
        a = b = c = d = splat(matrix, 0.0)
        for i in range(size):
            x = load_flat(row, i)
            a = fma(x, get(matrix, i, j), a)
            b = fma(x, get(matrix, i, j + 1), b)
            c = fma(x, get(matrix, i, j + 2), c)
            d = fma(x, get(matrix, i, j + 3), d)
        store_flat(out, j, a)
        store_flat(out, j + 1, b)
        store_flat(out, j + 2, c)
        store_flat(out, j + 3, d)
    for j in range(size // 4 * 4, size):
        a = splat(matrix, 0.0)
        for i in range(size):
            a = fma(load_flat(row, i), get(matrix, i, j), a)
        store_flat(out, j, a)


@device
def matrix_times_column(out: Any, matrix: Any, column: Any) -> None:
    """out = matrix·column, four rows at a time."""
    size = matrix.shape[0]
    for i in range(0, size - 3, 4):
        a = b = c = d = splat(matrix, 0.0)
        for j in range(size):
            x = load_flat(column, j)
            a = fma(get(matrix, i, j), x, a)
            b = fma(get(matrix, i + 1, j), x, b)
            c = fma(get(matrix, i + 2, j), x, c)
            d = fma(get(matrix, i + 3, j), x, d)
        store_flat(out, i, a)
        store_flat(out, i + 1, b)
        store_flat(out, i + 2, c)
        store_flat(out, i + 3, d)
    for i in range(size // 4 * 4, size):
        a = splat(matrix, 0.0)
        for j in range(size):
            a = fma(get(matrix, i, j), load_flat(column, j), a)
        store_flat(out, i, a)


@device
def solve_positive(matrix: Any, right: Any, size: int) -> None:
    """Solve matrix[:size, :size]·x = right in place by Cholesky; overwrites both, ``right`` becomes x."""
    one = splat(matrix, 1.0)
    for j in range(size):
        pivot = get(matrix, j, j)
        for k in range(j):
            pivot = fma(-get(matrix, j, k), get(matrix, j, k), pivot)
        inverse = one / sqrt(pivot)
        put(matrix, j, j, inverse)  # the diagonal holds 1 / L_jj, so that no later step divides
        for i in range(j + 1, size):
            entry = get(matrix, i, j)
            for k in range(j):
                entry = fma(-get(matrix, i, k), get(matrix, j, k), entry)
            put(matrix, i, j, entry * inverse)
    for i in range(size):
        total = load_flat(right, i)
        for k in range(i):
            total = fma(-get(matrix, i, k), load_flat(right, k), total)
        store_flat(right, i, total * get(matrix, i, i))
    for i in range(size - 1, -1, -1):
        total = load_flat(right, i)
        for k in range(i + 1, size):
            total = fma(-get(matrix, k, i), load_flat(right, k), total)
        store_flat(right, i, total * get(matrix, i, i))
