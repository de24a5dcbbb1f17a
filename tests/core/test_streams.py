"""Streams are named by (seed, purpose, step): different names give different numbers, in any order of calls."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.random import Purpose, check_seed, init_rng, noise_rng, philox_key, token_rng
from support import one_sentence

HUGE = 10**30


def first_words(rng: np.random.Generator) -> tuple[int, ...]:
    """Two 64-bit words: enough to tell streams apart, since equal ones happen by chance once in 2^128."""
    return tuple(int(word) for word in rng.integers(2**64, size=2, dtype=np.uint64))


def test_streams_of_the_same_name_are_equal() -> None:
    assert first_words(noise_rng(3, Purpose.TRAIN, 5)) == first_words(noise_rng(3, Purpose.TRAIN, 5))
    assert first_words(token_rng(3, Purpose.TRAIN, 5)) == first_words(token_rng(3, Purpose.TRAIN, 5))
    assert first_words(init_rng(3)) == first_words(init_rng(3))
    assert philox_key(3, Purpose.TRAIN).tolist() == philox_key(3, Purpose.TRAIN).tolist()


def test_streams_of_different_seeds_purposes_and_steps_differ() -> None:
    seeds, steps = (0, 1, 2**32, 2**32 + 1, HUGE), (0, 1, 2**32, 2**63 - 1)
    names = [
        first_words(make(seed, purpose, step))
        for make, seed, purpose, step in itertools.product((noise_rng, token_rng), seeds, Purpose, steps)
        if purpose != Purpose.INIT  # names no batches; its stream is init_rng
    ]
    names += [first_words(init_rng(seed)) for seed in seeds]
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


def test_order_of_calls_does_not_change_what_is_drawn() -> None:
    task = rf.Task(2, 5)
    later, sooner = task.draw_contexts(3, seed=0, step=1), task.draw_contexts(3, seed=0, step=0)
    rf.LinearTransformer.init("full", layers=1, dim=2)
    again = [task.draw_contexts(3, seed=0, step=step) for step in (0, 1)]
    assert np.array_equal(again[0].context.gram, sooner.context.gram)
    assert np.array_equal(again[1].context.gram, later.context.gram)
    assert not np.array_equal(sooner.context.gram, later.context.gram)
    assert np.array_equal(again[1].sigma, later.sigma)
    assert not np.array_equal(sooner.sigma, later.sigma)


def test_drawing_does_not_touch_the_global_generator() -> None:
    state = np.random.get_state()[1].copy()  # type: ignore[index]  # noqa: NPY002
    rf.Task(2, 5).draw_tokens(3, seed=0)
    rf.Task(2, 5).draw_contexts(3, seed=0)
    assert np.array_equal(np.random.get_state()[1], state)  # type: ignore[index]  # noqa: NPY002


def test_numbers_of_purposes_are_those_of_published_results() -> None:
    """They are part of every result: a change here changes every number ever reported. New ones may be added."""
    published = {"INIT": 1, "TRAIN": 2, "EVALUATE": 3, "TUNE": 4, "EXPLORE": 5}
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
    for use in (
        lambda: check_seed(seed),
        lambda: init_rng(seed),
        lambda: noise_rng(seed, Purpose.TRAIN, 0),
        lambda: token_rng(seed, Purpose.TRAIN, 0),
        lambda: philox_key(seed, Purpose.TRAIN),
        lambda: rf.LinearTransformer.init("diag", layers=1, seed=seed),
        lambda: task.draw_tokens(2, seed=seed),
        lambda: task.draw_contexts(2, seed=seed),
        lambda: rf.loss_and_gradient(model, task, batch=2, seed=seed),
    ):
        with pytest.raises(rf.InputError, match="seed") as caught:
            use()
        one_sentence(caught.value)


def test_huge_seed_draws_and_trains() -> None:
    task, model = rf.Task(2, 5), rf.LinearTransformer.init("diag", layers=1, dim=2, seed=HUGE)
    loss, _ = rf.loss_and_gradient(model, task, batch=4, seed=HUGE, backend="reference")
    assert loss > 0
    assert not np.array_equal(task.draw_tokens(2, seed=HUGE).X, task.draw_tokens(2, seed=HUGE + 1).X)
