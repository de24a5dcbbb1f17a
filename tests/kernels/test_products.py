"""Vector operations and matrix products of lane arrays, against NumPy, over sizes with every kind of ragged tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ridgeformer.core.notation import Array
from ridgeformer.kernels import matrices
from ridgeformer.kernels.engine import carve
from ridgeformer.kernels.jit import kernel
from ridgeformer.kernels.products import multiply_add_outer
from ridgeformer.kernels.vectors import (
    VECTOR_BYTES,
    all_lanes,
    fma,
    get,
    lane_count,
    lane_numbers,
    lane_sum,
    less,
    load_flat,
    put,
    select,
    splat,
    splat_word,
    sqrt,
    store_flat,
    word_to_unit,
)
from support import DTYPES


def lane_array(values: Array, dtype: Any) -> Array:
    """A lane array with these values, where kernels expect it: aligned and contiguous."""
    array = carve({"array": values.shape[:-1]}, dtype)["array"]
    array[...] = values
    return array


def random_lanes(shape: tuple[int, ...], dtype: Any, seed: int) -> Array:
    lanes = lane_count(np.dtype(dtype).itemsize)
    return lane_array(np.random.default_rng(seed).standard_normal((*shape, lanes)), dtype)


# --- vectors ----------------------------------------------------------------------------------------------------------


@kernel
def _arithmetic(out: Any, a: Any, b: Any) -> None:
    x, y = load_flat(a, 0), load_flat(b, 0)
    store_flat(out, 0, x + y)
    store_flat(out, 1, x - y)
    store_flat(out, 2, x * y)
    store_flat(out, 3, x / y)
    store_flat(out, 4, -x)
    store_flat(out, 5, fma(x, y, x))
    store_flat(out, 6, sqrt(x * x))
    store_flat(out, 7, select(less(x, y), x, y))
    store_flat(out, 8, splat(out, 2.5))
    store_flat(out, 9, word_to_unit(out, splat_word(out, np.uint32(3)) + lane_numbers(out)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_vector_operations_equal_numpy(dtype: Any) -> None:
    a, b = random_lanes((1,), dtype, 0), random_lanes((1,), dtype, 1)
    out = random_lanes((10,), dtype, 2)
    _arithmetic(out, a, b)
    x, y = a[0], b[0]
    words = 3.0 + np.arange(len(x))
    # "contract" lets a product and a sum fuse, which none of these has: every result is the correctly rounded one.
    fused = (x.astype(np.longdouble) * y + x).astype(dtype)
    expected = [x + y, x - y, x * y, x / y, -x, fused, np.abs(x), np.minimum(x, y), np.full_like(x, 2.5)]
    for found, value in zip(out, [*expected, ((words + 0.5) / 2**32).astype(dtype)], strict=True):
        assert np.array_equal(found, value)


@kernel
def _fma_once(out: Any, a: Any, b: Any, c: Any) -> None:
    store_flat(out, 0, fma(load_flat(a, 0), load_flat(b, 0), load_flat(c, 0)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_fma_rounds_once(dtype: Any) -> None:
    """(1 + ε)(1 − ε) − 1 = −ε² exactly; rounding the product first would give 0."""
    lanes, eps = lane_count(np.dtype(dtype).itemsize), np.finfo(dtype).eps
    a, b, c = (lane_array(np.full((1, lanes), value), dtype) for value in (1 + eps, 1 - eps, -1.0))
    out = random_lanes((1,), dtype, 0)
    _fma_once(out, a, b, c)
    assert np.array_equal(out[0], np.full(lanes, -(eps**2), dtype))


@kernel
def _masks(out: Any, a: Any, b: Any) -> None:
    x, y = load_flat(a, 0), load_flat(b, 0)
    out[0] = lane_sum(x)
    out[1] = 1.0 if all_lanes(less(x, y)) else 0.0


def sum_by_halves(values: Array) -> Any:
    """The documented order: lane i + lane i + half, again and again."""
    while len(values) > 1:
        values = values[: len(values) // 2] + values[len(values) // 2 :]
    return values[0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_lane_sum_adds_by_halves(dtype: Any) -> None:
    """A fixed order is what makes results the same bits everywhere. Lanes of equal size round differently in others."""
    found, in_order, backwards = [], [], []
    for seed in range(50):
        a, out = random_lanes((1,), dtype, seed), np.zeros(2, dtype)
        _masks(out, a, a)
        assert out[0] == sum_by_halves(a[0])
        found.append(out[0])
        in_order.append(np.add.accumulate(a[0])[-1])  # one after the other
        backwards.append(np.add.accumulate(a[0, ::-1])[-1])
    assert found != in_order  # the controls: the test above can tell
    assert found != backwards


@pytest.mark.parametrize("dtype", DTYPES)
def test_all_lanes_is_true_only_if_every_lane_is(dtype: Any) -> None:
    a = random_lanes((1,), dtype, 4)
    out = np.zeros(2, dtype)
    _masks(out, a, lane_array(a + 1, dtype))
    assert out[1] == 1
    for lane in range(a.shape[1]):
        for other in (a[0, lane], np.nan):  # equal is not less, and nothing is less than NaN
            b = lane_array(a + 1, dtype)
            b[0, lane] = other
            _masks(out, a, b)
            assert out[1] == 0


@kernel
def _transpose(out: Any, a: Any) -> None:
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            put(out, j, i, get(a, i, j))


@pytest.mark.parametrize("dtype", DTYPES)
def test_get_and_put_address_rows_and_columns(dtype: Any) -> None:
    a, out = random_lanes((3, 5), dtype, 5), random_lanes((5, 3), dtype, 6)
    _transpose(out, a)
    assert np.array_equal(out, a.transpose(1, 0, 2))


@pytest.mark.parametrize("dtype", DTYPES)
def test_carve_gives_zeroed_aligned_arrays_that_do_not_overlap(dtype: Any) -> None:
    arrays = carve({"a": (3, 2), "b": (), "c": (5,)}, dtype)
    lanes = lane_count(np.dtype(dtype).itemsize)
    assert {name: array.shape for name, array in arrays.items()} == {
        "a": (3, 2, lanes),
        "b": (lanes,),
        "c": (5, lanes),
    }
    for number, array in enumerate(arrays.values(), 1):
        assert not array.any()
        assert array.flags.c_contiguous
        assert array.ctypes.data % VECTOR_BYTES == 0
        array[...] = number
    assert [set(array.ravel()) for array in arrays.values()] == [{1}, {2}, {3}]


# --- products ---------------------------------------------------------------------------------------------------------


@kernel
def _lane_products(out: Any, a: Any, b: Any, column: Any, row: Any) -> None:
    matrices.multiply(out[0], a, b)
    matrices.multiply_add(out[1], a, b)
    matrices.multiply_T(out[2], a, b)
    matrices.T_multiply(out[3], a, b)
    matrices.T_multiply_add(out[4], a, b)
    multiply_add_outer(out[5], a, b, column, row)
    matrices.row_times_matrix(out[6, 0], row, a)
    matrices.matrix_times_column(out[7, 0], a, column)
    matrices.multiply_T_lower(out[8], a, b)
    matrices.T_multiply_lower(out[9], a, b)


@kernel
def _shared_products(out: Any, a: Any, shared: Any) -> None:
    matrices.multiply(out[0], shared, a)
    matrices.multiply(out[1], a, shared)
    matrices.multiply_add(out[2], a, shared)
    matrices.multiply_T(out[3], a, shared)
    matrices.T_multiply(out[4], shared, a)
    matrices.T_multiply_add(out[5], shared, a)


# 1 … 13 has every remainder by the tile sides 2 and 4; 65 is p of d = 64.
SIZES = [*range(1, 14), 65]


def by_lane(operation: str, *arrays: Array) -> Array:
    """einsum over matrices with a trailing lane axis, in float64."""
    return np.einsum(operation, *(array.astype(np.float64) for array in arrays))


def assert_rounded(found: Array, expected: Array, dtype: Any) -> None:
    # A sum of up to 65 products of normals: 65 roundings of terms that reach 30 or so in all.
    assert np.abs(found - expected).max() <= 65 * 30 * np.finfo(dtype).eps / 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_products_of_lane_matrices_equal_numpy(dtype: Any, size: int) -> None:
    a, b = random_lanes((size, size), dtype, 1), random_lanes((size, size), dtype, 2)
    column, row = random_lanes((size,), dtype, 3), random_lanes((size,), dtype, 4)
    out = random_lanes((10, size, size), dtype, 5)
    before = out.astype(np.float64)
    _lane_products(out, a, b, column, row)
    assert_rounded(out[0], by_lane("ikn,kjn->ijn", a, b), dtype)
    assert_rounded(out[1], before[1] + by_lane("ikn,kjn->ijn", a, b), dtype)
    assert_rounded(out[2], by_lane("ikn,jkn->ijn", a, b), dtype)
    assert_rounded(out[3], by_lane("kin,kjn->ijn", a, b), dtype)
    assert_rounded(out[4], before[4] + by_lane("kin,kjn->ijn", a, b), dtype)
    assert_rounded(out[5], by_lane("ikn,kjn->ijn", a, b) + by_lane("in,jn->ijn", column, row), dtype)
    assert_rounded(out[6, 0], by_lane("in,ijn->jn", row, a), dtype)
    assert_rounded(out[7, 0], by_lane("ijn,jn->in", a, column), dtype)
    lower = np.tril_indices(size)
    assert_rounded(out[8][lower], by_lane("ikn,jkn->ijn", a, b)[lower], dtype)
    assert_rounded(out[9][lower], by_lane("kin,kjn->ijn", a, b)[lower], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_products_with_a_shared_matrix_equal_numpy(dtype: Any, size: int) -> None:
    a = random_lanes((size, size), dtype, 6)
    shared = np.random.default_rng(7).standard_normal((size, size)).astype(dtype)
    out = random_lanes((6, size, size), dtype, 8)
    before = out.astype(np.float64)
    _shared_products(out, a, shared)
    assert_rounded(out[0], by_lane("ik,kjn->ijn", shared, a), dtype)
    assert_rounded(out[1], by_lane("ikn,kj->ijn", a, shared), dtype)
    assert_rounded(out[2], before[2] + by_lane("ikn,kj->ijn", a, shared), dtype)
    assert_rounded(out[3], by_lane("ikn,jk->ijn", a, shared), dtype)
    assert_rounded(out[4], by_lane("ki,kjn->ijn", shared, a), dtype)
    assert_rounded(out[5], before[5] + by_lane("ki,kjn->ijn", shared, a), dtype)


@kernel
def _symmetric(out: Any, factor: Any, system: Any, right: Any, size: int) -> None:
    matrices.gram_of_triangular(out, factor, factor)
    matrices.mirror_lower(out)
    matrices.add_identity(out)
    matrices.solve_positive(system, right, size)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", SIZES)
def test_symmetric_products_and_solves_equal_numpy(dtype: Any, size: int) -> None:
    """B Bᵀ + I of a lower triangular B, and a solve with the leading block of it, as the sampler has them."""
    factor = random_lanes((size, size), dtype, 9)
    factor[np.triu_indices(size, 1)] = 0.0
    expected = by_lane("ikn,jkn->ijn", factor, factor) + np.eye(size)[..., None]
    out, right = random_lanes((size, size), dtype, 10), random_lanes((size,), dtype, 11)
    system, used = lane_array(expected, dtype), max(1, size - 1)
    b = right.astype(np.float64)
    _symmetric(out, factor, system, right, used)
    assert_rounded(out, expected, dtype)
    assert np.array_equal(out, out.transpose(1, 0, 2))
    blocks = np.moveaxis(expected[:used, :used], -1, 0)
    solution = np.linalg.solve(blocks, b[:used].T[..., None])[..., 0].T
    # Backward stable: eps times the condition number, at most ‖B‖² + 1, some 200 for 65 rows; and room for the sums.
    assert np.abs(right[:used] - solution).max() < 5000 * np.finfo(dtype).eps * np.abs(solution).max()
    assert np.array_equal(right[used:], b[used:].astype(dtype))  # what is not part of the system is left alone
