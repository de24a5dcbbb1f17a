"""Random numbers for one lane each: Philox words, normals, chi variates. The NumPy twin is `core.random`.

Philox4x32 with seven rounds (Salmon, Moraes, Dror, Shaw: Parallel random numbers, as easy as 1, 2, 3; 2011) turns a
counter into four random words. The counter is (slot, context, step), so that a context does not depend on the batch,
the block or the thread in which it is drawn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from ridgeformer.core import random as draws
from ridgeformer.kernels.jit import device, inlined
from ridgeformer.kernels.vectors import (
    all_lanes,
    bit_is_set,
    fma,
    less,
    load_flat,
    low_bits_centred,
    multiply_words,
    polynomial,
    select,
    splat,
    splat_word,
    split_exponent,
    sqrt,
    store_flat,
    word_to_unit,
)

_M0, _M1 = (np.uint32(m) for m in draws.PHILOX_MULTIPLIERS)
_W0, _W1 = (np.uint32(w) for w in draws.PHILOX_WEYL)
_ROUNDS = draws.PHILOX_ROUNDS


def fitted_polynomial(function: Any, low: float, high: float, degree: int) -> tuple[float, ...]:
    """Power-basis coefficients of the Chebyshev interpolant; its error is within a small factor of the best one."""

    def interpolant(missing: Any) -> Any:
        return Chebyshev.interpolate(missing, degree, domain=[low, high]).convert(kind=Polynomial)

    first = interpolant(function)
    fitted = first + interpolant(lambda x: function(x) - first(x))  # what rounding in the change of basis left over
    return tuple(float(c) for c in fitted.coef)


def _log_ratio(f: np.ndarray) -> np.ndarray:
    return np.where(np.abs(f) < 1e-9, 1.0, np.log1p(f) / np.where(f == 0, 1.0, f))


def _sine_ratio(s: np.ndarray) -> np.ndarray:
    return 2 * np.pi * np.sinc(2 * np.sqrt(np.maximum(s, 0.0)))


def _cosine(s: np.ndarray) -> np.ndarray:
    return np.cos(2 * np.pi * np.sqrt(np.maximum(s, 0.0)))


# Degrees: the smallest whose error is about a unit in the last place of the type; tests/kernels/test_random.py checks.
_LOG_RANGE = (np.sqrt(0.5) - 1, np.sqrt(2.0) - 1)
_log_ratio_of = polynomial(
    fitted_polynomial(_log_ratio, *_LOG_RANGE, 9), fitted_polynomial(_log_ratio, *_LOG_RANGE, 22)
)
_sine_of = polynomial(fitted_polynomial(_sine_ratio, 0.0, 1 / 64, 3), fitted_polynomial(_sine_ratio, 0.0, 1 / 64, 7))
_cosine_of = polynomial(fitted_polynomial(_cosine, 0.0, 1 / 64, 4), fitted_polynomial(_cosine, 0.0, 1 / 64, 8))
_swaps = bit_is_set(31)
_flips = bit_is_set(30)


@inlined
def philox(array: Any, slot: int, context: Any, step: int, key: Any) -> Any:
    """Four words per lane for the counter (slot, context, step); ``array`` only fixes the lane type."""
    c0 = splat_word(array, np.uint32(slot))
    c1 = context
    c2 = splat_word(array, np.uint32(step & 0xFFFFFFFF))
    c3 = splat_word(array, np.uint32((step >> 32) & 0xFFFFFFFF))
    m0, m1 = splat_word(array, _M0), splat_word(array, _M1)
    k0, k1 = np.uint32(key[0]), np.uint32(key[1])
    for _ in range(_ROUNDS):
        high0, low0 = multiply_words(m0, c0)
        high1, low1 = multiply_words(m1, c2)
        c0 = (high1 ^ c1) ^ splat_word(array, k0)
        c1 = low1
        c2 = (high0 ^ c3) ^ splat_word(array, k1)
        c3 = low0
        k0 = np.uint32(k0 + _W0)
        k1 = np.uint32(k1 + _W1)
    return c0, c1, c2, c3


@inlined
def log(array: Any, value: Any) -> Any:
    """Natural logarithm of positive normal numbers: m·2^e with m near 1, ln m by a polynomial in m − 1."""
    mantissa, exponent = split_exponent(value)
    f = mantissa - splat(array, 1.0)
    return fma(f, _log_ratio_of(f), exponent * splat(array, np.log(2.0)))


@inlined
def normal_pair(array: Any, radius_word: Any, angle_word: Any) -> Any:
    """Two standard normals by the Box-Muller transform.

    30 bits choose an angle within ±45° of the first axis, the other two reflect and swap, which reaches every quadrant.
    """
    radius = sqrt(splat(array, -2.0) * log(array, word_to_unit(array, radius_word)))
    turn = low_bits_centred(array, angle_word)
    square = turn * turn
    sine = turn * _sine_of(square) * radius
    cosine = _cosine_of(square) * radius
    cosine = select(_flips(angle_word), -cosine, cosine)
    swapped = _swaps(angle_word)
    return select(swapped, sine, cosine), select(swapped, cosine, sine)


@device
def fill_normals(out: Any, first_slot: int, count: int, context: Any, step: int, key: Any) -> None:
    """Rows 0 … count−1 of ``out`` become standard normals; ``out`` has room for ``count`` rounded up to four rows."""
    for slot in range((count + 3) // 4):
        a, b, c, d = philox(out, first_slot + slot, context, step, key)
        first, second = normal_pair(out, a, b)
        third, fourth = normal_pair(out, c, d)
        store_flat(out, 4 * slot, first)
        store_flat(out, 4 * slot + 1, second)
        store_flat(out, 4 * slot + 2, third)
        store_flat(out, 4 * slot + 3, fourth)


@inlined
def _accepted_cube(array: Any, normal: Any, uniform: Any, d: float, c: float) -> Any:
    """One try of Marsaglia and Tsang (2000): (v, accepted) with d·v ~ Gamma where accepted."""
    zero, one = splat(array, 0.0), splat(array, 1.0)
    root = fma(splat(array, c), normal, one)
    positive = less(zero, root)
    v = select(positive, root * root * root, one)
    # ln U < ½x² + d − d·v + d·ln v
    d_lanes = splat(array, d)
    bound = fma(splat(array, 0.5) * normal, normal, d_lanes * ((one - v) + log(array, v)))
    return v, positive & less(log(array, uniform), bound)


@inlined
def _chi_square_tries(array: Any, degrees: Any, slot: int, context: Any, step: int, key: Any) -> Any:
    """One try at two χ² variates with whole degrees of freedom; −1 in the lanes where it is rejected."""
    first_degrees, second_degrees = degrees
    a, b, u1, u2 = philox(array, slot, context, step, key)
    normal1, normal2 = normal_pair(array, a, b)
    return (
        _chi_square_try(array, first_degrees, normal1, word_to_unit(array, u1)),
        _chi_square_try(array, second_degrees, normal2, word_to_unit(array, u2)),
    )


@inlined
def _chi_square_try(array: Any, degrees: int, normal: Any, uniform: Any) -> Any:
    if degrees == 1:  # shape ½ is below the range of the method, but χ₁ is |N(0, 1)|
        result = normal * normal
    else:
        d = 0.5 * degrees - 1.0 / 3.0
        v, accepted = _accepted_cube(array, normal, uniform, d, 1.0 / np.sqrt(9.0 * d))
        result = select(accepted, splat(array, 2.0 * d) * v, splat(array, -1.0))
    return result


@device
def fill_chi(out: Any, examples: int, context: Any, step: int, key: Any) -> None:
    """out[i] = sqrt of a χ² variate with ``examples`` − i degrees of freedom, for every row i of ``out``.

    First one try for all, without a branch, so that the processor works on several at once; then the few that failed.
    Every lane takes its own first accepted try, so that a context never depends on its neighbours. The last of an odd
    number of variates has no partner, and what it would get is not stored.
    """
    count = out.shape[0]
    rejected = splat(out, -0.5)
    for pair in range((count + 1) // 2):
        i, j = 2 * pair, min(2 * pair + 1, count - 1)
        slot = draws.FIRST_CHI_SLOT + pair * draws.SLOTS_PER_CHI_PAIR
        first, second = _chi_square_tries(out, (examples - i, examples - j), slot, context, step, key)
        store_flat(out, j, second)
        store_flat(out, i, first)
    for pair in range((count + 1) // 2):
        i, j = 2 * pair, min(2 * pair + 1, count - 1)
        slot = draws.FIRST_CHI_SLOT + pair * draws.SLOTS_PER_CHI_PAIR
        first, second = load_flat(out, i), load_flat(out, j)
        while not (all_lanes(less(rejected, first)) and all_lanes(less(rejected, second))):
            slot += 1
            try1, try2 = _chi_square_tries(out, (examples - i, examples - j), slot, context, step, key)
            first = select(less(rejected, first), first, try1)
            second = select(less(rejected, second), second, try2)
        store_flat(out, j, sqrt(second))
        store_flat(out, i, sqrt(first))


@inlined
def _chi_square_try_each(array: Any, degrees: Any, normal: Any, uniform: Any) -> Any:
    """`_chi_square_try` with degrees of freedom of each lane's own; 0 where there are none or fewer."""
    half, zero, one = splat(array, 0.5), splat(array, 0.0), splat(array, 1.0)
    several, none = less(splat(array, 1.5), degrees), less(degrees, half)
    d = select(several, half * degrees, one) - splat(array, 1.0 / 3.0)
    root = fma(normal, one / sqrt(splat(array, 9.0) * d), one)
    positive = less(zero, root)
    v = select(positive, root * root * root, one)
    bound = fma(half * normal, normal, d * ((one - v) + log(array, v)))
    accepted = positive & less(log(array, uniform), bound)
    tried = select(accepted, splat(array, 2.0) * d * v, splat(array, -1.0))
    return select(several, tried, select(none, zero, normal * normal))


@inlined
def _chi_square_tries_each(array: Any, n: Any, i: int, j: int, slot: int, context: Any, step: int, key: Any) -> Any:
    """One try at two χ² variates with n − i and n − j degrees of freedom."""
    a, b, u1, u2 = philox(array, slot, context, step, key)
    normal1, normal2 = normal_pair(array, a, b)
    return (
        _chi_square_try_each(array, n - splat(array, float(i)), normal1, word_to_unit(array, u1)),
        _chi_square_try_each(array, n - splat(array, float(j)), normal2, word_to_unit(array, u2)),
    )


@device
def fill_chi_each(out: Any, examples: Any, context: Any, step: int, key: Any) -> None:
    """As `fill_chi`, for lanes with numbers of examples of their own, ``examples`` (1, LANES)."""
    count = out.shape[0]
    rejected, n = splat(out, -0.5), load_flat(examples, 0)
    for pair in range((count + 1) // 2):
        i, j = 2 * pair, min(2 * pair + 1, count - 1)
        slot = draws.FIRST_CHI_SLOT + pair * draws.SLOTS_PER_CHI_PAIR
        first, second = _chi_square_tries_each(out, n, i, j, slot, context, step, key)
        store_flat(out, j, second)
        store_flat(out, i, first)
    for pair in range((count + 1) // 2):
        i, j = 2 * pair, min(2 * pair + 1, count - 1)
        slot = draws.FIRST_CHI_SLOT + pair * draws.SLOTS_PER_CHI_PAIR
        first, second = load_flat(out, i), load_flat(out, j)
        while not (all_lanes(less(rejected, first)) and all_lanes(less(rejected, second))):
            slot += 1
            try1, try2 = _chi_square_tries_each(out, n, i, j, slot, context, step, key)
            first = select(less(rejected, first), first, try1)
            second = select(less(rejected, second), second, try2)
        store_flat(out, j, sqrt(second))
        store_flat(out, i, sqrt(first))
