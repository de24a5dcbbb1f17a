"""The counter-based draws: known answers, independence of the batch, and the distributions they claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from ridgeformer.core import random as draws
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw, Purpose, philox_key

KEY = philox_key(20240213, Purpose.EXPLORE)
ONE_IN_A_MILLION = 1e-6  # false-alarm rate of a statistical test over all its parts, which share it (Bonferroni)


def contexts(count: int) -> Array:
    return np.arange(count, dtype=np.uint32)


# --- Philox -----------------------------------------------------------------------------------------------------------

# Random123 1.14, tests/kat_vectors, the lines "philox4x32": rounds, counter, key, result.
# https://github.com/DEShawResearch/random123/blob/main/tests/kat_vectors
ZERO, ONES, PI = (0, 0, 0, 0), (0xFFFFFFFF,) * 4, (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
KNOWN = [
    (7, ZERO, (0, 0), (0x5F6FB709, 0x0D893F64, 0x4F121F81, 0x4F730A48)),
    (7, ONES, (0xFFFFFFFF, 0xFFFFFFFF), (0x5207DDC2, 0x45165E59, 0x4D8EE751, 0x8C52F662)),
    (7, PI, (0xA4093822, 0x299F31D0), (0x4DFCCABA, 0x190A87F0, 0xC47362BA, 0xB6B5242A)),
    (10, ZERO, (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (10, ONES, (0xFFFFFFFF, 0xFFFFFFFF), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (10, PI, (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


@pytest.mark.parametrize(("rounds", "counter", "key", "result"), KNOWN)
def test_philox_of_the_published_vectors_gives_the_published_words(
    monkeypatch: pytest.MonkeyPatch,
    rounds: int,
    counter: tuple[int, int, int, int],
    key: tuple[int, int],
    result: tuple[int, ...],
) -> None:
    monkeypatch.setattr(draws, "PHILOX_ROUNDS", rounds)
    slot, context, low, high = counter  # the counter is (slot, context, step)
    words = draws.philox(slot, np.array([context], np.uint32), low + (high << 32), np.array(key, np.uint32))
    assert tuple(int(word[0]) for word in words) == result


def test_philox_of_counters_that_differ_in_one_place_differs() -> None:
    def words(slot: int, context: int, step: int, key: Array = KEY) -> tuple[int, ...]:
        return tuple(int(word[0]) for word in draws.philox(slot, np.array([context], np.uint32), step, key))

    found = [words(0, 0, 0), words(1, 0, 0), words(0, 1, 0), words(0, 0, 1), words(0, 0, 1 << 32)]
    found += [words(0, 0, 0, KEY ^ np.array([1, 0], np.uint32)), words(0, 0, 0, KEY ^ np.array([0, 1], np.uint32))]
    assert len(set(found)) == len(found)


def test_to_unit_of_any_word_is_strictly_between_zero_and_one() -> None:
    unit = draws.to_unit(np.array([0, 1, 2**31, 2**32 - 1], np.uint32))
    assert unit.tolist() == [0.5 / 2**32, 1.5 / 2**32, 0.5 + 0.5 / 2**32, 1 - 0.5 / 2**32]


def test_normal_pair_reaches_all_four_quadrants_and_its_angle_is_even() -> None:
    """The top two bits of the angle word swap and reflect; together with ±45° they must cover the circle evenly."""
    angle_words = np.arange(2**19, 2**32, 2**20, dtype=np.uint32)  # in the middle of 4096 equal cells
    x, y = draws.normal_pair(np.full(4096, 2**30, np.uint32), angle_words)
    assert np.hypot(x, y) == pytest.approx(math.sqrt(2 * math.log(4)), rel=1e-9)  # u = ¼
    turns = np.sort(np.arctan2(y, x)) / (2 * math.pi)
    # 4096 equally spaced angles; the step between neighbours is 1/4096 of a turn up to the half bit of the word.
    assert np.diff(turns) == pytest.approx(1 / 4096, rel=1e-4)


# --- distributions ----------------------------------------------------------------------------------------------------


def test_normals_of_a_million_slots_are_standard_normal() -> None:
    count, columns = 100_000, 10
    z = draws.normals(0, columns, contexts(count), 3, KEY)
    total = count * columns
    # Standard errors of the mean, variance, skewness and kurtosis of N normals: 1, √2, √6, √24 over √N; 5 of them
    # are exceeded by chance twice in a million.
    flat = z.ravel()
    moments = np.array([flat.mean(), flat.var() - 1, (flat**3).mean(), (flat**4).mean() - 3])
    # Var z³ = E z⁶ = 15 and Var z⁴ = E z⁸ − 9 = 96.
    assert (np.abs(moments) < 5 * np.sqrt(np.array([1, 2, 15, 96]) / total)).all()
    tests = [stats.kstest(column, "norm").pvalue for column in z.T]
    assert min(tests) > ONE_IN_A_MILLION / columns
    # The largest of 10⁶ |z|: beyond 4.1 but for a chance of e^−41 (tail 2 Φ(−4.1) = 4e-5), beyond 6.2 one in 1700;
    # the largest possible is sqrt(2 · 33 ln 2) = 6.76.
    assert 4.1 < np.abs(flat).max() < 6.2
    correlation = np.corrcoef(z.T) - np.eye(columns)
    assert np.abs(correlation).max() < 5.5 / math.sqrt(count)  # 45 pairs: 2e-6


def test_normals_of_consecutive_contexts_slots_and_steps_are_uncorrelated() -> None:
    count = 200_000
    first = draws.normals(0, 4, contexts(count), 0, KEY)
    others = [
        draws.normals(0, 4, contexts(count) + np.uint32(1), 0, KEY),
        draws.normals(1, 4, contexts(count), 0, KEY),
        draws.normals(0, 4, contexts(count), 1, KEY),
        draws.normals(0, 4, contexts(count), 1 << 32, KEY),
        draws.normals(0, 4, contexts(count), 0, philox_key(20240214, Purpose.EXPLORE)),
    ]
    for other in others:
        # 80 products of independent normals, mean 0 and variance 1 each: 5.5 standard errors, 3e-6 in all.
        assert np.abs(first.T @ other / count).max() < 5.5 / math.sqrt(count)


DEGREES = [(1, 2), (3, 10), (20, 1), (2, 10_000), (1, 1)]


@pytest.mark.parametrize("degrees", DEGREES)
def test_chi_pair_has_the_chi_distribution(degrees: tuple[int, int]) -> None:
    values = draws.chi_pair(degrees, 0, contexts(200_000), 1, KEY)
    for value, freedom in zip(values, degrees, strict=True):
        assert stats.kstest(value, stats.chi(freedom).cdf).pvalue > ONE_IN_A_MILLION / (2 * len(DEGREES))
    assert abs(np.corrcoef(values)[0, 1]) < 5 / math.sqrt(200_000)


def test_chi_pair_of_the_wrong_degrees_fails_the_same_test() -> None:
    """The control: one degree of freedom off must be seen at the sample size above, even at 20."""
    value, _ = draws.chi_pair((20, 20), 0, contexts(200_000), 1, KEY)
    assert stats.kstest(value, stats.chi(21).cdf).pvalue < ONE_IN_A_MILLION / (2 * len(DEGREES))


def test_chi_pairs_of_different_numbers_are_independent() -> None:
    one, other = (draws.chi_pair((5, 5), pair, contexts(50_000), 0, KEY) for pair in (0, 1))
    correlation = np.corrcoef([*one, *other]) - np.eye(4)
    assert np.abs(correlation).max() < 5.5 / math.sqrt(50_000)


# --- contexts ---------------------------------------------------------------------------------------------------------


def same(found: GramDraw, expected: GramDraw) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_draw_gram_of_few_contexts_is_a_prefix_of_that_of_many() -> None:
    sigma = np.linspace(0, 5, 100)
    many = draws.draw_gram(4, 9, sigma, 7, KEY)
    few = draws.draw_gram(4, 9, sigma[:5], 7, KEY)
    assert same(few, GramDraw(*(array[:5] for array in many)))


def test_draw_gram_from_a_later_first_context_is_a_slice() -> None:
    sigma = np.linspace(0, 5, 100)
    many = draws.draw_gram(4, 9, sigma, 7, KEY)
    later = draws.draw_gram(4, 9, sigma[60:], 7, KEY, first=60)
    assert same(later, GramDraw(*(array[60:] for array in many)))


def test_draw_gram_at_other_steps_keys_and_noise_differs_in_what_it_should() -> None:
    sigma = np.ones(3)
    base = draws.draw_gram(2, 5, sigma, 0, KEY)
    for other in (
        draws.draw_gram(2, 5, sigma, 1, KEY),
        draws.draw_gram(2, 5, sigma, 1 << 32, KEY),
        draws.draw_gram(2, 5, sigma, 0, philox_key(1, Purpose.EXPLORE)),
    ):
        for mine, its in zip(base, other, strict=True):
            assert not np.isclose(mine, its).any()
    noisier = draws.draw_gram(2, 5, 2 * sigma, 0, KEY)
    assert np.array_equal(noisier.weights, base.weights)
    assert np.array_equal(noisier.gram[:, :2, :2], base.gram[:, :2, :2])
    assert not np.isclose(noisier.gram[:, 2, 2], base.gram[:, 2, 2]).any()


@pytest.mark.parametrize(("dim", "examples"), [(1, 2), (3, 4), (4, 30)])
def test_draw_gram_without_noise_has_targets_that_are_linear_in_the_features(dim: int, examples: int) -> None:
    drawn = draws.draw_gram(dim, examples, np.zeros(50), 0, KEY)
    scatter, cross = drawn.gram[:, :dim, :dim], drawn.gram[:, :dim, dim]
    # α = Σ w, λ = wᵀ Σ w, oracle = w; sums of at most 4 terms of float64.
    assert cross == pytest.approx(np.einsum("bij,bj->bi", scatter, drawn.weights), rel=1e-12, abs=1e-12)
    energy = np.einsum("bi,bij,bj->b", drawn.weights, scatter, drawn.weights)
    assert drawn.gram[:, dim, dim] == pytest.approx(energy, rel=1e-12)
    assert np.array_equal(drawn.oracle, drawn.weights)


@pytest.mark.parametrize(("dim", "examples"), [(1, 2), (2, 3), (5, 6), (10, 20), (10, 10_000)])
def test_draw_gram_has_the_oracle_that_solves_the_ridge_equations(dim: int, examples: int) -> None:
    sigma = np.linspace(0.1, 5, 40)
    drawn = draws.draw_gram(dim, examples, sigma, 0, KEY)
    system = drawn.gram[:, :dim, :dim] + (sigma**2)[:, None, None] * np.eye(dim)
    cross = drawn.gram[:, :dim, dim]
    # The residual of a solved system, relative to its right side: eps times a modest factor.
    residual = np.einsum("bij,bj->bi", system, drawn.oracle) - cross
    assert np.abs(residual).max() < 1e-12 * np.abs(cross).max()


def test_draw_gram_gives_symmetric_positive_matrices() -> None:
    gram = draws.draw_gram(5, 6, np.full(500, 0.5), 0, KEY).gram
    assert np.array_equal(gram, gram.transpose(0, 2, 1))
    assert np.linalg.eigvalsh(gram).min() > 0


@pytest.mark.parametrize("dim", [1, 2, 10, 64, 520])
def test_draw_gram_reads_every_counter_slot_once(monkeypatch: pytest.MonkeyPatch, dim: int) -> None:
    """Two numbers from one slot would be the same number: x_t must share none with w and the factor, nor the χ."""
    used: list[int] = []
    original = draws.philox

    def recording(slot: int, context: Array, step: int, key: Array) -> tuple[Array, Array, Array, Array]:
        used.append(slot)
        return original(slot, context, step, key)

    monkeypatch.setattr(draws, "philox", recording)
    draws.draw_gram(dim, dim + 1, np.ones(1), 0, KEY)
    assert len(set(used)) == len(used)
