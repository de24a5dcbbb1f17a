"""Where all randomness comes from: streams named by (seed, purpose, step), so that the order of calls never matters."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

import numpy as np

from ridgeformer.errors import InputError
from ridgeformer.types import Array


class Purpose(IntEnum):
    """What a stream is for. The numbers are part of every result: never change or reuse one."""

    INIT = 1
    TRAIN = 2
    EVALUATE = 3
    TUNE = 4
    EXPLORE = 5
    MINE = 6
    SELECT = 7


_NOISE_LEVELS, _TOKENS, _PHILOX_KEY = range(3)  # separate streams within one purpose and step


def _sequence(*numbers: int) -> np.random.SeedSequence:
    words: list[int] = []  # each number with its length before it: SeedSequence would run them together
    for number in map(int, numbers):
        count = max(1, -(-number.bit_length() // 32))
        words += [count, *(number >> 32 * place & 0xFFFFFFFF for place in range(count))]
    return np.random.SeedSequence(words)


def check_seed(seed: int) -> int:
    """The seed as an int; a whole number ≥ 0 of any size."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"A seed must be a whole number of at least 0, not {seed!r}.")
    return int(seed)


def noise_rng(seed: int, purpose: Purpose, step: int) -> np.random.Generator:
    """The stream of the noise levels σ of one batch."""
    return _stream(seed, purpose, _NOISE_LEVELS, step)


def token_rng(seed: int, purpose: Purpose, step: int) -> np.random.Generator:
    """The stream of everything else in a batch drawn as tokens."""
    return _stream(seed, purpose, _TOKENS, step)


def philox_key(seed: int, purpose: Purpose) -> Array:
    """Two 32-bit words that key the counter-based draws of `ridgeformer.draws`; the step is part of the counter."""
    return _key(check_seed(seed), purpose, _PHILOX_KEY, np.uint32)


def _stream(seed: int, purpose: Purpose, part: int, step: int) -> np.random.Generator:
    """Philox keyed by all but the step, which is the upper half of its 256-bit counter: streams never meet."""
    key = _key(check_seed(seed), purpose, part, np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=int(step) << 128))


@lru_cache(maxsize=64)
def _key(seed: int, purpose: Purpose, part: int, dtype: type) -> Array:
    key = _sequence(seed, purpose, part).generate_state(2, dtype)
    key.flags.writeable = False
    return key


def init_rng(seed: int) -> np.random.Generator:
    """The stream of a model's initial weights."""
    return np.random.Generator(np.random.Philox(_sequence(check_seed(seed), Purpose.INIT)))
