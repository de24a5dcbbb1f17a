"""All randomness: streams by name, and counter-based draws with known answers and the distributions they claim."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import ridgeformer as rf
from ridgeformer.core import random as draws
from ridgeformer.core.notation import Array
from ridgeformer.core.random import (
    GramDraw,
    Purpose,
    Source,
    check_seed,
    init_rng,
    noise_rng,
    philox_key,
    query_rng,
    token_rng,
)
from support import refused

KEY = philox_key(20240213, Purpose.EXPLORE)
ONE_IN_A_MILLION = 1e-6  # false-alarm rate of a statistical test over all its parts, which share it (Bonferroni)


def contexts(count: int) -> Array:
    return np.arange(count, dtype=np.uint32)


def drawn(dim: int, examples: int, sigma: Array, step: int = 0, first: int = 0, key: Array = KEY) -> GramDraw:
    return draws.draw_gram(dim, Source(sigma, examples, step, first, key))


# --- streams ------------------------------------------------------------------------------------------------------

HUGE = 10**30


def first_words(rng: np.random.Generator) -> tuple[int, ...]:
    """Two 64-bit words: enough to tell streams apart, since equal ones happen by chance once in 2^128."""
    return tuple(int(word) for word in rng.integers(2**64, size=2, dtype=np.uint64))


def test_streams_of_the_same_name_are_equal() -> None:
    for make in (noise_rng, token_rng, query_rng):
        assert first_words(make(3, Purpose.TRAIN, 5)) == first_words(make(3, Purpose.TRAIN, 5))
    assert first_words(init_rng(3)) == first_words(init_rng(3, 0))
    assert philox_key(3, Purpose.TRAIN).tolist() == philox_key(3, Purpose.TRAIN).tolist()


def test_streams_of_different_seeds_purposes_and_steps_differ() -> None:
    seeds, steps = (0, 1, 2**32, 2**32 + 1, HUGE), (0, 1, 2**32, 2**63 - 1)
    names = [
        first_words(make(seed, purpose, step))
        for make, seed, purpose, step in itertools.product((noise_rng, token_rng, query_rng), seeds, Purpose, steps)
        if purpose != Purpose.INIT  # names no batches; its stream is init_rng
    ]
    names += [first_words(init_rng(seed, start)) for seed in seeds for start in (0, 1, 2, 2**32)]
    assert len(set(names)) == len(names)


def test_philox_keys_of_different_seeds_and_purposes_differ() -> None:
    seeds = (0, 1, 2, 2**32, HUGE)
    keys = [tuple(philox_key(seed, purpose).tolist()) for seed, purpose in itertools.product(seeds, Purpose)]
    assert len(set(keys)) == len(keys)
    assert philox_key(0, Purpose.TRAIN).dtype == np.uint32


@pytest.mark.parametrize("purpose", [purpose for purpose in Purpose if purpose != Purpose.INIT])
def test_initial_weights_of_a_large_seed_share_no_stream_with_tokens(purpose: Purpose) -> None:
    """SeedSequence joins the 32-bit words of its numbers and pads with zeros, so names must not run together:

    the words of (a + b·2³², INIT) and of (a, purpose b, tokens, step 0) are both a, b, 1, 0.
    """
    assert first_words(init_rng(7 + int(purpose) * 2**32)) != first_words(token_rng(7, purpose, 0))


def test_drawing_does_not_touch_the_global_generator() -> None:
    state = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    rf.Task(2, 5).draw_tokens(3, seed=0)
    rf.Task(2, 5).draw_contexts(3, seed=0)
    assert np.array_equal(np.random.get_state()[1], state)  # type: ignore[index]  # noqa: NPY002


def test_numbers_of_purposes_are_those_of_published_results() -> None:
    """They are part of every result: a change here changes every number ever reported. New ones may be added."""
    published = {"INIT": 1, "TRAIN": 2, "EVALUATE": 3, "TUNE": 4, "EXPLORE": 5, "MINE": 6, "SELECT": 7}
    numbers = {name: int(purpose) for name, purpose in Purpose.__members__.items()}
    assert published.items() <= numbers.items()
    assert len(set(numbers.values())) == len(numbers)


@pytest.mark.parametrize("seed", [0, 1, 2**32, HUGE, np.int64(5), np.uint32(7)])
def test_check_seed_accepts_whole_numbers_of_any_size(seed: Any) -> None:
    assert check_seed(seed) == int(seed)
    assert type(check_seed(seed)) is int


@pytest.mark.parametrize("seed", [-1, -HUGE, 1.0, np.float64(1), True, False, "1", None, [1], np.array([1, 2])])
def test_bad_seed_is_refused_everywhere_in_one_sentence(seed: Any) -> None:
    task, model = rf.Task(2, 5), rf.LinearTransformer.init("diag", layers=1, dim=2)
    for make in (noise_rng, token_rng, query_rng):
        refused("seed", make, seed, Purpose.TRAIN, 0)
    refused("seed", check_seed, seed)
    refused("seed", init_rng, seed)
    refused("seed", philox_key, seed, Purpose.TRAIN)
    refused("seed", rf.LinearTransformer.init, "diag", layers=1, seed=seed)
    refused("seed", task.draw_tokens, 2, seed=seed)
    refused("seed", task.draw_contexts, 2, seed=seed)
    refused("seed", rf.loss_and_gradient, model, task, batch=2, seed=seed)


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


@pytest.mark.parametrize(("first", "last"), [(0, 5), (60, 100), (3, 4)])
def test_draw_gram_of_some_contexts_is_a_slice_of_that_of_many(first: int, last: int) -> None:
    sigma = np.linspace(0, 5, 100)
    many, some = drawn(4, 9, sigma, 7), drawn(4, 9, sigma[first:last], 7, first)
    assert all(
        np.array_equal(mine, all_of_them[first:last]) for mine, all_of_them in zip(some[:4], many[:4], strict=True)
    )


def test_draw_gram_at_other_steps_keys_and_noise_differs_in_what_it_should() -> None:
    sigma = np.ones(3)
    base = drawn(2, 5, sigma)
    for other in (
        drawn(2, 5, sigma, 1),
        drawn(2, 5, sigma, 1 << 32),
        drawn(2, 5, sigma, key=philox_key(1, Purpose.EXPLORE)),
    ):
        for mine, its in zip(base[:4], other[:4], strict=True):
            assert not np.isclose(mine, its).any()
    noisier = drawn(2, 5, 2 * sigma, 0)
    assert np.array_equal(noisier.weights, base.weights)
    assert np.array_equal(noisier.gram[:, :2, :2], base.gram[:, :2, :2])
    assert not np.isclose(noisier.gram[:, 2, 2], base.gram[:, 2, 2]).any()


@pytest.mark.parametrize(("dim", "examples"), [(1, 2), (3, 4), (4, 30)])
def test_draw_gram_without_noise_has_targets_that_are_linear_in_the_features(dim: int, examples: int) -> None:
    batch = drawn(dim, examples, np.zeros(50), 0)
    scatter, cross = batch.gram[:, :dim, :dim], batch.gram[:, :dim, dim]
    # α = Σ w, λ = wᵀ Σ w, oracle = w; sums of at most 4 terms of float64.
    assert cross == pytest.approx(np.einsum("bij,bj->bi", scatter, batch.weights), rel=1e-12, abs=1e-12)
    energy = np.einsum("bi,bij,bj->b", batch.weights, scatter, batch.weights)
    assert batch.gram[:, dim, dim] == pytest.approx(energy, rel=1e-12)
    assert np.array_equal(batch.oracle, batch.weights)


@pytest.mark.parametrize(("dim", "examples"), [(1, 2), (2, 3), (5, 6), (10, 20), (10, 10_000)])
def test_draw_gram_has_the_oracle_that_solves_the_ridge_equations(dim: int, examples: int) -> None:
    sigma = np.linspace(0.1, 5, 40)
    batch = drawn(dim, examples, sigma, 0)
    system = batch.gram[:, :dim, :dim] + (sigma**2)[:, None, None] * np.eye(dim)
    cross = batch.gram[:, :dim, dim]
    # The residual of a solved system, relative to its right side: eps times a modest factor.
    residual = np.einsum("bij,bj->bi", system, batch.oracle) - cross
    assert np.abs(residual).max() < 1e-12 * np.abs(cross).max()


def test_draw_gram_gives_symmetric_positive_matrices() -> None:
    gram = drawn(5, 6, np.full(500, 0.5), 0).gram
    assert np.array_equal(gram, gram.transpose(0, 2, 1))
    assert np.linalg.eigvalsh(gram).min() > 0


@pytest.mark.parametrize("dim", [1, 2, 10, 130])
def test_draw_gram_reads_every_counter_slot_once(monkeypatch: pytest.MonkeyPatch, dim: int) -> None:
    """Two numbers from one slot would be the same number: x_t must share none with w and the factor, nor the χ."""
    used: list[int] = []
    original = draws.philox

    def recording(slot: int, context: Array, step: int, key: Array) -> tuple[Array, Array, Array, Array]:
        used.append(slot)
        return original(slot, context, step, key)

    monkeypatch.setattr(draws, "philox", recording)
    drawn(dim, dim + 1, np.ones(1), 0)
    assert len(set(used)) == len(used)
