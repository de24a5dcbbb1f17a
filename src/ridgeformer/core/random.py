"""Where all randomness comes from: named streams, and counter-based contexts in plain NumPy.

**Streams** are named by (seed, purpose, step), so that the order of calls never matters.

**Counter-based draws** are the reference of the fused sampler in `ridgeformer.kernels`. Every number is a pure function
of (key, step, context, slot): context 7 of step 3 does not depend on the batch size, the number of threads or the order
of calls, and both back ends and both precisions draw the same contexts.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ridgeformer.core.notation import Array
from ridgeformer.core.validation import InputError, instance


class Purpose(IntEnum):
    """What a stream is for. The numbers are part of every result: never change or reuse one."""

    INIT = 1
    TRAIN = 2
    EVALUATE = 3
    TUNE = 4
    EXPLORE = 5
    MINE = 6
    SELECT = 7
    SHUFFLE = 8
    SHAKE = 9


# Separate streams within one purpose and step; the last two belong to no step.
_NOISE_LEVELS, _TOKENS, _PHILOX_KEY, _QUERIES, _EXAMPLES, _POOL, _BRANCH = range(7)


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


def query_rng(seed: int, purpose: Purpose, step: int) -> np.random.Generator:
    """The stream for predictors that are not linear: rows that have the given Gram matrices, and more queries."""
    return _stream(seed, purpose, _QUERIES, step)


def examples_rng(seed: int, purpose: Purpose, step: int) -> np.random.Generator:
    """The stream of the numbers of examples of one batch, where they vary."""
    return _stream(seed, purpose, _EXAMPLES, step)


def part_rng(seed: int, purpose: Purpose, step: int, stream: int) -> np.random.Generator:
    """The stream of what one part of a distribution draws for a batch of tokens, besides the normals of all tasks.

    Steps are below 2^63 (`Task.draw_tokens`), so no other stream has such a number.
    """
    return token_rng(seed, purpose, step + (stream << 64))


def pool_rng(seed: int) -> np.random.Generator:
    """The stream of the vectors of a finite pool of weights."""
    return np.random.Generator(np.random.Philox(_sequence(check_seed(seed), Purpose.EXPLORE, _POOL)))


def branch_seed(seed: int, number: int) -> int:
    """The seed of one component of a mixture: 64 bits made of the mixture's seed and the component's number."""
    return int(_sequence(check_seed(seed), Purpose.EXPLORE, _BRANCH, number).generate_state(1, np.uint64)[0])


def philox_key(seed: int, purpose: Purpose) -> Array:
    """Two 32-bit words that key the counter-based draws below; the step is part of the counter."""
    return _key(check_seed(seed), instance("purpose", purpose, Purpose), _PHILOX_KEY, np.uint32)


def _stream(seed: int, purpose: Purpose, part: int, step: int) -> np.random.Generator:
    """Philox keyed by all but the step, which is the upper half of its 256-bit counter: streams never overlap."""
    key = _key(check_seed(seed), instance("purpose", purpose, Purpose), part, np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=int(step) << 128))


@lru_cache(maxsize=64)
def _key(seed: int, purpose: Purpose, part: int, dtype: type) -> Array:
    key = _sequence(seed, purpose, part).generate_state(2, dtype)
    key.flags.writeable = False
    return key


def init_rng(seed: int, start: int = 0) -> np.random.Generator:
    """The stream of a model's initial weights; runs that try several starts number them."""
    numbers = (check_seed(seed), Purpose.INIT, start) if start else (check_seed(seed), Purpose.INIT)
    return np.random.Generator(np.random.Philox(_sequence(*numbers)))


# Philox4x32: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, table 2.
PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)
PHILOX_ROUNDS = 7
"""The fewest rounds that pass the whole of TestU01's BigCrush (the same table); ten would cost a tenth of a step."""

QUERY_SLOT = 1 << 23
"""First slot of the query x_t; w and the entries below the diagonal of Bartlett's factor start at slot 0."""
ROTATION_SLOT = 3 << 22
"""First slot of the normals that rotate the axes of a context."""
FIRST_CHI_SLOT = 1 << 24
SLOTS_PER_CHI_PAIR = 1 << 16
"""Counter slots that are reserved for two chi variates."""


class Source(NamedTuple):
    """Which contexts to draw: the input of `draw_gram` and of the compiled sampler."""

    sigma: Array  # (batch,), noise level of each context
    examples: int  # n
    step: int
    first: int  # number of the batch's first context within the step
    key: Array  # (2,) 32-bit words, made of the seed and the purpose


class GaussianSource(NamedTuple):
    """Which contexts with Gaussian features, weights and noise to draw: the input of `draw_gaussian`."""

    sigma: Array  # (batch,)
    examples: Array  # (batch,), n of each context, whole
    step: int
    first: int
    key: Array  # (2,)
    features: Array  # (d, d), lower triangular F: rows are F z, z ~ N(0, I)
    weights: Array  # (d, d), lower triangular L: w = L u, u ~ N(0, I)
    rotates: bool  # whether the axes of every context are rotated at random
    singular: bool  # whether Σ may be singular: fewer examples than features, or features in a subspace
    given: Array  # (batch, d), the weights w; or (0, d) if they are drawn


class GramDraw(NamedTuple):
    """A batch of contexts that were drawn as Gram matrices."""

    gram: Array  # (batch, p, p)
    weights: Array  # (batch, d), the true w
    query: Array  # (batch, d), x_t
    oracle: Array  # (batch, d), w*_{σ²}, ridge regression with the true noise
    moment: Array | None = None  # M = E[x_t x_tᵀ]: None for I, (d, d), or (batch, d, d)

    def rows(self, order: Array | slice) -> GramDraw:
        """The contexts with these numbers."""
        moment = self.moment if self.moment is None or self.moment.ndim == 2 else self.moment[order]
        return GramDraw(self.gram[order], self.weights[order], self.query[order], self.oracle[order], moment)

    def astype(self, dtype: Any) -> GramDraw:
        """The same in another precision."""
        gram, weights, query, oracle = (array.astype(dtype, copy=False) for array in self[:4])
        moment = None if self.moment is None else self.moment.astype(dtype, copy=False)
        return GramDraw(gram, weights, query, oracle, moment)


def joined(draws: Sequence[GramDraw]) -> GramDraw:
    """All contexts of several draws."""
    gram, weights, query, oracle = (np.concatenate(arrays) for arrays in zip(*(d[:4] for d in draws), strict=True))
    moment = joined_moments([draw.moment for draw in draws], [len(draw.gram) for draw in draws])
    return GramDraw(gram, weights, query, oracle, moment)


def joined_moments(moments: Sequence[Array | None], counts: Sequence[int]) -> Array | None:
    """The moments of several draws, joined; None or (d, d) if all are the same."""
    there = [moment for moment in moments if moment is not None]
    if not there:
        return None
    dim, dtype = there[0].shape[-1], there[0].dtype
    first = there[0]
    if len(there) == len(moments) and all(m.ndim == 2 and np.array_equal(m, first) for m in there):
        return first
    every = [np.eye(dim, dtype=dtype) if moment is None else moment for moment in moments]
    return np.concatenate([np.broadcast_to(m, (n, dim, dim)) for m, n in zip(every, counts, strict=True)])


def philox(slot: int, context: Array, step: int, key: Array) -> tuple[Array, Array, Array, Array]:
    """Four 32-bit words for each context: Philox of the counter (slot, context, step)."""
    words = [
        np.full(context.shape, slot, np.uint64),
        context.astype(np.uint64),
        np.full(context.shape, step & 0xFFFFFFFF, np.uint64),
        np.full(context.shape, step >> 32 & 0xFFFFFFFF, np.uint64),
    ]
    low32, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    m0, m1 = (np.uint64(m) for m in PHILOX_MULTIPLIERS)
    k0, k1 = int(key[0]), int(key[1])
    for _ in range(PHILOX_ROUNDS):
        product0, product1 = words[0] * m0, words[2] * m1
        words = [
            (product1 >> shift) ^ words[1] ^ np.uint64(k0),
            product1 & low32,
            (product0 >> shift) ^ words[3] ^ np.uint64(k1),
            product0 & low32,
        ]
        k0, k1 = (k0 + PHILOX_WEYL[0]) & 0xFFFFFFFF, (k1 + PHILOX_WEYL[1]) & 0xFFFFFFFF
    a, b, c, d = (w.astype(np.uint32) for w in words)
    return a, b, c, d


def to_unit(word: Array) -> Array:
    """(word + ½) / 2³²: a number strictly between 0 and 1."""
    return (word + 0.5) / 2.0**32


def normal_pair(radius_word: Array, angle_word: Array) -> tuple[Array, Array]:
    """Two standard normals by the Box-Muller transform; see `ridgeformer.kernels.random.normal_pair`."""
    radius = np.sqrt(-2.0 * np.log(to_unit(radius_word)))
    angle = 2.0 * np.pi * (to_unit(angle_word & np.uint32(2**30 - 1)) - 0.125)
    cosine, sine = radius * np.cos(angle), radius * np.sin(angle)
    cosine = np.where(angle_word & np.uint32(1 << 30), -cosine, cosine)
    swapped = (angle_word & np.uint32(1 << 31)) != 0
    return np.where(swapped, sine, cosine), np.where(swapped, cosine, sine)


def normals(first_slot: int, count: int, context: Array, step: int, key: Array) -> Array:
    """(contexts, count) standard normals, four to a slot."""
    columns: list[Array] = []
    for slot in range(first_slot, first_slot + (count + 3) // 4):
        a, b, c, d = philox(slot, context, step, key)
        columns += [*normal_pair(a, b), *normal_pair(c, d)]
    return np.stack(columns[:count], axis=-1)


def chi_pair(degrees: tuple[int, int], pair: int, context: Array, step: int, key: Array) -> tuple[Array, Array]:
    """sqrt of two χ² variates by the method of Marsaglia and Tsang (ACM TOMS 26, 2000), a try for each to a slot."""
    values = [np.ones(context.shape), np.ones(context.shape)]
    waiting = [np.ones(context.shape, dtype=bool), np.ones(context.shape, dtype=bool)]
    slot = FIRST_CHI_SLOT + pair * SLOTS_PER_CHI_PAIR
    while waiting[0].any() or waiting[1].any():
        a, b, *words = philox(slot, context, step, key)
        for which, normal in enumerate(normal_pair(a, b)):
            if degrees[which] == 1:  # shape ½ is below the range of the method, but χ₁ is |N(0, 1)|
                square, accepted = normal**2, np.ones(context.shape, dtype=bool)
            else:
                d = 0.5 * degrees[which] - 1.0 / 3.0
                root = 1.0 + normal / np.sqrt(9.0 * d)
                v = np.where(root > 0, root, 1.0) ** 3
                accepted = np.log(to_unit(words[which])) < 0.5 * normal**2 + d * (1.0 - v + np.log(v))
                accepted &= root > 0
                square = 2.0 * d * v
            values[which] = np.where(waiting[which] & accepted, square, values[which])
            waiting[which] &= ~accepted
        slot += 1
    return np.sqrt(values[0]), np.sqrt(values[1])


def draw_gram(dim: int, source: Source) -> GramDraw:
    """Gram matrices of contexts with n ≥ dim + 1 rows, without drawing the rows.

    The Gram matrix of n rows of p standard normals is B Bᵀ with B lower triangular, B_ii ~ χ(n−i), entries below the
    diagonal N(0, 1) (Bartlett 1933). Its last variable plays the part of ξ/σ; since y = Xw + ξ, replacing the last
    row b by (wᵀB_x + σ b_x, σ b_ξ) turns it into the Gram matrix of the tokens (x, y).
    """
    sigma, examples, step, first, key = source
    size = dim + 1
    context = np.arange(first, first + len(sigma), dtype=np.uint32)
    below = size * (size - 1) // 2
    z = normals(0, dim + below, context, step, key)
    weights, query = z[:, :dim], normals(QUERY_SLOT, dim, context, step, key)
    factor = np.zeros((len(sigma), size, size))
    factor[:, *np.tril_indices(size, -1)] = z[:, dim:]
    for i in range(0, size, 2):
        partner = min(i + 1, size - 1)  # the last of an odd number of variates has no partner; what it gets is not used
        first_chi, second_chi = chi_pair((examples - i, examples - partner), i // 2, context, step, key)
        factor[:, partner, partner] = second_chi
        factor[:, i, i] = first_chi
    x_factor, noise_row = factor[:, :dim, :dim], factor[:, dim, :].copy()
    factor[:, dim, :] = sigma[:, None] * noise_row
    factor[:, dim, :dim] += np.einsum("bi,bij->bj", weights, x_factor)
    gram = factor @ factor.transpose(0, 2, 1)
    # w*_{σ²} = (Σ + σ²I)⁻¹(Σw + Xᵀξ) = w + (Σ + σ²I)⁻¹(Xᵀξ − σ²w): the second form is exact as σ → 0.
    cross_noise = sigma[:, None] * np.einsum("bij,bj->bi", x_factor, noise_row[:, :dim])
    variance = sigma[:, None] ** 2
    system = gram[:, :dim, :dim] + variance[:, :, None] * np.eye(dim)
    oracle = weights + np.linalg.solve(system, (cross_noise - variance * weights)[..., None])[..., 0]
    return GramDraw(gram, weights, query, oracle)


# --- Gaussian tasks with any covariance, any number of examples, one for each context --------------------------------


def chi_each(degrees: Array, pair: int, context: Array, step: int, key: Array) -> tuple[Array, Array]:
    """As `chi_pair`, with degrees of freedom (2, contexts) that differ between contexts; 0 for none or fewer."""
    values = np.zeros((2, *context.shape))
    waiting = degrees > 0
    slot = FIRST_CHI_SLOT + pair * SLOTS_PER_CHI_PAIR
    while waiting.any():
        a, b, *words = philox(slot, context, step, key)
        for which, normal in enumerate(normal_pair(a, b)):
            single = degrees[which] == 1
            d = 0.5 * np.maximum(degrees[which], 2) - 1.0 / 3.0
            root = 1.0 + normal / np.sqrt(9.0 * d)
            v = np.where(root > 0, root, 1.0) ** 3
            accepted = np.log(to_unit(words[which])) < 0.5 * normal**2 + d * (1.0 - v + np.log(v))
            accepted = single | (accepted & (root > 0))
            square = np.where(single, normal**2, 2.0 * d * v)
            values[which] = np.where(waiting[which] & accepted, square, values[which])
            waiting[which] &= ~accepted
        slot += 1
    return np.sqrt(values[0]), np.sqrt(values[1])


def turn(matrix: Array, context: Array, step: int, key: Array) -> Array:
    """R·matrix (contexts, d, d) with rotations R uniform over all of them (Haar), one for each context.

    The Q of a Gaussian matrix, with R of positive diagonal, is H_0 H_1 … H_{d−2} D: H_k reflects along
    v = g + sign(g_1)‖g‖ e_1 with g ~ N(0, I) in the last d − k coordinates, and D has the signs −sign(g_1), the last
    one sign(g_1) (Stewart, SIAM J. Numer. Anal. 17, 1980).
    """
    dim = len(matrix)
    z = normals(ROTATION_SLOT, dim * (dim + 1) // 2, context, step, key)
    turned = np.broadcast_to(matrix, (len(context), dim, dim)).copy()
    starts = [k * dim - k * (k - 1) // 2 for k in range(dim)]
    for k in range(dim):
        sign = np.where(z[:, starts[k]] < 0, -1.0, 1.0)
        turned[:, k] *= (sign if k == dim - 1 else -sign)[:, None]
    for k in range(dim - 2, -1, -1):
        v = z[:, starts[k] : starts[k] + dim - k].copy()
        square = (v**2).sum(axis=1)
        length, size = np.sqrt(square), np.abs(v[:, 0])
        v[:, 0] += np.where(v[:, 0] < 0, -length, length)
        along = np.einsum("bi,bij->bj", v, turned[:, k:]) / (square + size * length)[:, None]
        turned[:, k:] -= v[:, :, None] * along[:, None, :]
    return turned


ROUNDING = 32.0
"""Multiple of eps·tr(Σ) that is added to σ² where Σ may be singular: rounding must not make the oracle's system
indefinite. In float64 it is negligible; in float32 it matters only where σ is below a hundredth of the signal."""


def draw_gaussian(dim: int, source: GaussianSource) -> GramDraw:
    """Gram matrices of contexts with rows F z, perhaps rotated, weights L u, and any n ≥ 1, without drawing the rows.

    The Gram matrix of n rows of p standard normals is B Bᵀ with B as in `draw_gram`; for n < p it has n columns. Rows
    that are mapped, x = A z, have the factor A B_x. In u = L⁻¹w the regression is an ordinary one with features
    Lᵀx, so the oracle is w* = L (u + (S + σ²I)⁻¹(c − σ²u)), S = LᵀΣL and c = Lᵀ Xᵀξ.
    """
    sigma, examples, step, first, key, F, L, rotates, singular, given = source
    size, batch = dim + 1, len(sigma)
    context = np.arange(first, first + batch, dtype=np.uint32)
    z = normals(0, dim + size * (size - 1) // 2, context, step, key)
    factor = np.zeros((batch, size, size))
    factor[:, *np.tril_indices(size, -1)] = z[:, dim:]
    factor *= np.arange(size) < examples[:, None, None]
    for i in range(0, size, 2):
        partner = min(i + 1, size - 1)
        chis = chi_each(np.stack([examples - i, examples - partner]), i // 2, context, step, key)
        factor[:, partner, partner] = chis[1]
        factor[:, i, i] = chis[0]
    A = turn(F, context, step, key) if rotates else np.broadcast_to(F, (batch, dim, dim))
    u, noise_row = z[:, :dim], factor[:, dim, :].copy()
    weights = given if len(given) else u @ L.T
    x_factor = factor[:, :dim, :dim] = A @ factor[:, :dim, :dim]
    factor[:, dim, :] = sigma[:, None] * noise_row
    factor[:, dim, :dim] += np.einsum("bi,bij->bj", weights, x_factor)
    gram = factor @ factor.transpose(0, 2, 1)
    query = np.einsum("bij,bj->bi", A, normals(QUERY_SLOT, dim, context, step, key))
    moment = A @ A.transpose(0, 2, 1) if rotates else F @ F.T
    oracle = weights
    if not len(given):
        whitened = L.T @ x_factor
        cross = sigma[:, None] * np.einsum("bij,bj->bi", whitened, noise_row[:, :dim])
        system, variance = whitened @ whitened.transpose(0, 2, 1), sigma**2
        if singular:
            variance = variance + ROUNDING * np.finfo(np.float64).eps * np.einsum("bii->b", system)
        system = system + variance[:, None, None] * np.eye(dim)
        change = np.linalg.solve(system, (cross - variance[:, None] * u)[..., None])[..., 0]
        oracle = (u + change) @ L.T
    return GramDraw(gram, weights, query, oracle, moment)
