"""The kernels' random numbers: the same words as NumPy's, and functions of them accurate to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ridgeformer.core import random as draws
from ridgeformer.core.notation import Array
from ridgeformer.core.random import Purpose, philox_key
from ridgeformer.kernels.engine import carve
from ridgeformer.kernels.jit import kernel
from ridgeformer.kernels.random import fill_chi, fill_normals, log, normal_pair, philox
from ridgeformer.kernels.vectors import lane_count, lane_numbers, load_flat, splat_word, store_flat, word_to_unit
from support import DTYPES

KEY = philox_key(5, Purpose.TRAIN)


def room(rows: int, dtype: Any) -> Array:
    return carve({"rows": (rows,)}, dtype)["rows"]


def lanes_from(first: Any, lanes: int) -> Array:
    """Words first, first + 1, …: what `splat_word` + `lane_numbers` makes, wrapping around as 32-bit words do."""
    return (np.asarray(first, np.uint64)[..., None] + np.arange(lanes, dtype=np.uint64)).astype(np.uint32)


def all_over(seed: int, count: int = 4000) -> Array:
    """32-bit words: both ends, all powers of two and their neighbours, and random ones in between."""
    powers = np.array([2**k + offset for k in range(32) for offset in (-1, 0, 1)], np.int64)
    ends = np.concatenate([np.arange(40), 2**32 - 1 - np.arange(40), 2**31 + np.arange(-20, 20)])
    some = np.random.default_rng(seed).integers(2**32, size=count)
    return np.concatenate([powers, ends, some]).astype(np.uint32)


# --- logarithm --------------------------------------------------------------------------------------------------------


@kernel
def _logarithms(out: Any, values: Any) -> None:
    for i in range(values.shape[0]):
        store_flat(out, i, log(values, load_flat(values, i)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_over_all_normal_numbers_is_accurate_to_rounding(dtype: Any) -> None:
    limits, lanes = np.finfo(dtype), lane_count(np.dtype(dtype).itemsize)
    rng = np.random.default_rng(0)
    exponents = rng.uniform(np.log2(limits.smallest_normal), np.log2(limits.max), 100_000)
    near_one = 1 + rng.uniform(-0.5, 1.0, 50_000) * 2.0 ** -rng.integers(0, limits.nmant, 50_000)
    special = [limits.smallest_normal, limits.max, 1.0, 0.5, 2.0, np.sqrt(0.5), np.sqrt(2.0), 2.0**-33]
    chosen = np.concatenate([2.0**exponents, near_one, special])
    values, out = room(len(chosen) // lanes, dtype), room(len(chosen) // lanes, dtype)
    values[...] = chosen[: values.size].reshape(values.shape)
    _logarithms(out, values)
    expected = np.log(values.astype(np.longdouble))
    # The polynomial is good to about a unit in the last place (ridgeformer.kernels.random says so), and two roundings
    # follow: of exponent · ln 2 and of the fma.
    assert (np.abs(out - expected) <= 2 * limits.eps * np.abs(expected)).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_of_one_is_zero(dtype: Any) -> None:
    values, out = room(1, dtype), room(1, dtype)
    values[...], out[...] = 1.0, 5.0
    _logarithms(out, values)
    assert not out.any()


# --- normals ----------------------------------------------------------------------------------------------------------


@kernel
def _normal_pairs(first: Any, second: Any, radius: Any, angle: Any) -> None:
    lanes = lane_numbers(first)
    for i in range(first.shape[0]):
        one, other = normal_pair(first, splat_word(first, radius[i]) + lanes, splat_word(first, angle[i]) + lanes)
        store_flat(first, i, one)
        store_flat(second, i, other)


@pytest.mark.parametrize("dtype", DTYPES)
def test_normal_pair_over_all_words_is_accurate_to_rounding(dtype: Any) -> None:
    lanes, eps = lane_count(np.dtype(dtype).itemsize), np.finfo(dtype).eps
    radius, angle = all_over(1), np.random.default_rng(2).permutation(all_over(3))
    first, second = room(len(radius), dtype), room(len(radius), dtype)
    _normal_pairs(first, second, radius, angle)
    radius_words, angle_words = lanes_from(radius, lanes), lanes_from(angle, lanes)
    expected = draws.normal_pair(radius_words, angle_words)
    r = np.sqrt(-2 * np.log(draws.to_unit(radius_words)))
    # r = sqrt(−2 ln u): rounding u to eps/2 shifts r by eps/2r, and a few roundings of r's own size follow. In float64
    # every word is exact, but NumPy's own cosine and sine round as well.
    for found, value in zip((first, second), expected, strict=True):
        assert (np.abs(found - value) <= eps * (4 * r + 1 / r)).all()


def test_normal_pair_of_the_smallest_words_is_the_largest_possible() -> None:
    """The tail is not cut: u = 2^−33 gives r = sqrt(66 ln 2) = 6.764."""
    for dtype in DTYPES:
        first, second = room(1, dtype), room(1, dtype)
        _normal_pairs(first, second, np.zeros(1, np.uint32), np.full(1, 2**29, np.uint32))
        assert np.hypot(first[0, 0], second[0, 0]) == pytest.approx(np.sqrt(66 * np.log(2)), rel=1e-6)


@kernel
def _fill(out: Any, first_slot: int, count: int, first_context: Any, step: int, key: Any) -> None:
    context = splat_word(out, first_context) + lane_numbers(out)
    fill_normals(out, first_slot, count, context, step, key)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [1, 4, 5, 11])
@pytest.mark.parametrize("step", [0, 3, 2**32 + 3, 2**63 - 1])
def test_fill_normals_gives_the_normals_of_numpy(dtype: Any, count: int, step: int) -> None:
    out = room(12, dtype)
    _fill(out, 7, count, np.uint32(2**32 - 3), step, KEY)  # contexts wrap around within a vector
    context = lanes_from(2**32 - 3, out.shape[1])
    expected = draws.normals(7, count, context, step, KEY).T
    # As above; no radius among these is below 0.05, so eps (4 r + 1/r) < 60 eps.
    assert np.abs(out[:count] - expected).max() < 60 * np.finfo(dtype).eps


# --- Philox -----------------------------------------------------------------------------------------------------------


@kernel
def _words_as_units(out: Any, slot: int, first_context: Any, step: int, key: Any) -> None:
    a, b, c, d = philox(out, slot, splat_word(out, first_context) + lane_numbers(out), step, key)
    store_flat(out, 0, word_to_unit(out, a))
    store_flat(out, 1, word_to_unit(out, b))
    store_flat(out, 2, word_to_unit(out, c))
    store_flat(out, 3, word_to_unit(out, d))


@pytest.mark.parametrize("slot", [0, 1, 2**16, 2**32 - 1])
@pytest.mark.parametrize("step", [0, 1, 2**32 - 1, 2**32, 2**63 - 1])
def test_philox_gives_the_words_of_numpy(slot: int, step: int) -> None:
    """In float64 (word + ½) / 2³² is exact, so the words can be read off it; tests/core has known answers."""
    out = room(4, np.float64)
    for first in (0, 12345, 2**32 - 4):
        _words_as_units(out, slot, np.uint32(first), step, KEY)
        expected = draws.philox(slot, lanes_from(first, out.shape[1]), step, KEY)
        assert np.array_equal(out * 2**32 - 0.5, np.stack(expected))


# --- χ ----------------------------------------------------------------------------------------------------------------


@kernel
def _fill_blocks_with_chi(out: Any, examples: int, first_context: Any, step: int, key: Any) -> None:
    for i in range(out.shape[0]):
        context = splat_word(out, np.uint32(first_context + i * out.shape[2])) + lane_numbers(out)
        fill_chi(out[i], examples, context, step, key)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("examples", "count"), [(1, 1), (2, 2), (3, 3), (5, 4), (20, 11), (10_000, 2)])
def test_fill_chi_gives_the_variates_of_numpy(dtype: Any, examples: int, count: int) -> None:
    lanes, blocks = lane_count(np.dtype(dtype).itemsize), 2000
    out = room(blocks * count, dtype).reshape(blocks, count, lanes)
    _fill_blocks_with_chi(out, examples, 100, 2**33, KEY)
    context = np.arange(100, 100 + blocks * lanes, dtype=np.uint32)
    for row in range(count):
        partner = min(row // 2 * 2 + 1, count - 1)
        degrees = (examples - row // 2 * 2, examples - partner)
        expected = draws.chi_pair(degrees, row // 2, context, 2**33, KEY)[row % 2]
        error = np.abs(out[:, row].ravel() - expected)
        # χ is a smooth function of a normal that is accurate to eps (4 r + 1/r) (see above), and 1/r reaches some
        # hundreds among 32 000 draws; for many degrees of freedom rounding is relative to χ itself, up to 100.
        close = error < 500 * np.finfo(dtype).eps * max(1.0, expected.max() / 10)
        # Whether a try is accepted is decided in the kernel's own precision: in float32 a decision within rounding of
        # the boundary may fall the other way and the context takes its next try. Measured: 1 in 320 000 for 10 000
        # degrees, where the terms of the boundary cancel most, none for 1 000 and fewer.
        assert np.count_nonzero(~close) <= (1 if dtype == np.float32 and examples == 10_000 else 0)
