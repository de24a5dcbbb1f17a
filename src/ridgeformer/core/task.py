"""The problem: noisy linear regression in context, with a noise level that changes from one context to the next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ridgeformer.core.backend import engine, uses_kernels
from ridgeformer.core.context import Context
from ridgeformer.core.distributions import NoisePrior, parse_noise
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw, Purpose, Source, draw_gram, noise_rng, philox_key, token_rng
from ridgeformer.core.validation import InputError, check_memory, float_dtype, former_names, whole_number

MAX_DIM = 4096
MAX_EXAMPLES = 2**31 - 1
CHUNK = 32_768  # contexts in memory at a time: 32 MB of Gram matrices at d = 10 in float64
MAX_BATCH = 2**31 - 1  # contexts of a step are numbered by 32-bit counters


@dataclass(frozen=True)
class TokenDraw:
    """A batch of contexts as tokens, made by `Task.draw_tokens`.

    >>> Task(dim=3, examples=8).draw_tokens(5, seed=0).X.shape
    (5, 8, 3)
    """

    X: Array  # (batch, n, d)
    y: Array  # (batch, n)
    weights: Array  # (batch, d)
    sigma: Array  # (batch,)
    query: Array  # (batch, d)
    target: Array  # (batch,), <w, x_t>, without noise


@dataclass(frozen=True)
class ContextDraw:
    """A batch of contexts as Gram matrices, with what is known about how they were drawn; by `Task.draw_contexts`.

    >>> Task(dim=3, examples=8).draw_contexts(5, seed=0).context.dim
    3
    """

    context: Context
    weights: Array  # (batch, d)
    sigma: Array  # (batch,)
    query: Array  # (batch, d)
    oracle: Array  # (batch, d), w*_{σ²}: ridge regression that is told the noise level

    def as_gram_draw(self) -> GramDraw:
        """The four arrays that the objective needs."""
        return GramDraw(self.context.gram, self.weights, self.query, self.oracle)


@former_names(context="examples")
@dataclass(frozen=True)
class Task:
    """Contexts of ``examples`` examples in ``dim`` dimensions: w ~ N(0, I), x ~ N(0, I), y = <w, x> + σ·N(0, 1).

    >>> task = Task(dim=3, examples=8, noise="uniform:2")
    >>> draw = task.draw_contexts(5, seed=0)
    >>> draw.context.gram.shape, draw.oracle.shape
    ((5, 4, 4), (5, 3))
    """

    dim: int = 10
    """d, the number of features."""
    examples: int = 20
    """n, the number of examples in a context; ``context``, its former name, still works."""
    noise: NoisePrior | str = "uniform:5"
    """Prior of σ: a spec such as "uniform:5" or an object with the methods of `NoisePrior`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", whole_number("dim", self.dim, 1, MAX_DIM))
        object.__setattr__(self, "examples", whole_number("examples", self.examples, 1, MAX_EXAMPLES))
        object.__setattr__(self, "noise", parse_noise(self.noise))

    @property
    def context(self) -> int:
        """The former name of ``examples``."""
        return self.examples

    @property
    def prior(self) -> NoisePrior:
        """The noise prior, parsed."""
        assert not isinstance(self.noise, str)
        return self.noise

    @property
    def gram_drawable(self) -> bool:
        """Whether Gram matrices can be drawn without tokens: Bartlett's construction needs n ≥ d + 1."""
        return self.examples >= self.dim + 1

    def draw_sigma(self, batch: int, *, seed: int, step: int = 0, purpose: Purpose = Purpose.EXPLORE) -> Array:
        """(batch,) noise levels; the same ones that `draw_tokens` and `draw_contexts` use for this seed and step."""
        batch = whole_number("batch", batch, 1, MAX_BATCH)
        step = whole_number("step", step, 0, 2**63 - 1)
        drawn = self.prior.sample(noise_rng(seed, purpose, step), batch)
        try:
            sigma = np.asarray(drawn, dtype=np.float64)
        except (TypeError, ValueError):
            sigma = np.empty(0)
        if sigma.shape != (batch,) or not (sigma.min() >= 0 and sigma.max() < np.inf):  # NaN fails both
            raise InputError(f"The noise prior {self.prior.spec!r} must draw {batch} finite levels σ ≥ 0.")
        return sigma

    def source(self, batch: int, *, seed: int, step: int = 0, purpose: Purpose = Purpose.EXPLORE) -> Source:
        """Which contexts `draw_contexts` draws, before they are drawn; for n ≥ d + 1."""
        sigma = self.draw_sigma(batch, seed=seed, step=step, purpose=purpose)
        return Source(sigma, self.examples, step, 0, philox_key(seed, purpose))

    def draw_tokens(
        self, batch: int, *, seed: int, step: int = 0, purpose: Purpose = Purpose.EXPLORE, dtype: Any = np.float64
    ) -> TokenDraw:
        """Contexts as tokens, for any n ≥ 1."""
        dtype = float_dtype(dtype)
        sigma = self.draw_sigma(batch, seed=seed, step=step, purpose=purpose)
        check_memory(f"{batch} contexts of {self.examples} examples", 16.0 * batch * self.examples * (self.dim + 1))
        rng = token_rng(seed, purpose, step)
        weights = rng.standard_normal((batch, self.dim))
        query = rng.standard_normal((batch, self.dim))
        X = rng.standard_normal((batch, self.examples, self.dim))
        noise = sigma[:, None] * rng.standard_normal((batch, self.examples))
        y = np.einsum("bnd,bd->bn", X, weights) + noise
        target = np.einsum("bd,bd->b", query, weights)
        return TokenDraw(*(a.astype(dtype, copy=False) for a in (X, y, weights, sigma, query, target)))

    def draw_contexts(
        self,
        batch: int,
        *,
        seed: int,
        step: int = 0,
        purpose: Purpose = Purpose.EXPLORE,
        dtype: Any = np.float64,
        backend: str = "auto",
        threads: int | None = None,
    ) -> ContextDraw:
        """Contexts as Gram matrices; without drawing tokens, and at a cost that does not depend on n, if n ≥ d + 1.

        ``backend``: "fused" draws with the compiled sampler, "reference" with NumPy; both draw the same contexts, to
        rounding. "auto" takes the compiled one for batches large enough to be worth loading it.
        """
        dtype, batch = float_dtype(dtype), whole_number("batch", batch, 1, MAX_BATCH)
        check_memory(f"{batch} contexts of {self.dim} features", 4.0 * batch * (self.dim + 1) ** 2 * dtype.itemsize)
        fused = uses_kernels(backend, batch * (self.dim + 1) ** 2 >= _WORTH_COMPILING)
        source = self.source(batch, seed=seed, step=step, purpose=purpose)
        if not self.gram_drawable:
            return self._contexts_from_tokens(source.sigma, seed, step, purpose, dtype)
        drawn = engine().draw(self.dim, source, dtype, threads) if fused else draw_gram(self.dim, source)
        gram, weights, query, oracle = (a.astype(dtype, copy=False) for a in drawn)
        context = Context.unchecked(gram, self.examples)
        return ContextDraw(context, weights, source.sigma.astype(dtype), query, oracle)

    def chunks(
        self, sequences: int, seed: int, purpose: Purpose = Purpose.EVALUATE, dtype: Any = np.float64
    ) -> Iterator[ContextDraw]:
        """Fresh contexts, so many in all, `CHUNK` at a time."""
        for step, start in enumerate(range(0, sequences, CHUNK)):
            count = min(CHUNK, sequences - start)
            yield self.draw_contexts(count, seed=seed, step=step, purpose=purpose, dtype=dtype, backend="fused")

    def _contexts_from_tokens(self, sigma: Array, seed: int, step: int, purpose: Purpose, dtype: Any) -> ContextDraw:
        """Fewer examples than a Gram matrix has rows: draw the tokens and sum them up."""
        tokens = self.draw_tokens(len(sigma), seed=seed, step=step, purpose=purpose)
        context = Context.from_tokens(tokens.X, tokens.y)
        oracle = context.ridge(sigma**2)
        arrays = (context.gram, tokens.weights, sigma, tokens.query, oracle)
        gram, weights, sigma, query, oracle = (a.astype(dtype, copy=False) for a in arrays)
        return ContextDraw(Context.unchecked(gram, self.examples), weights, sigma, query, oracle)


# Loading the compiled sampler takes about a second; NumPy draws this many Gram entries in that time.
_WORTH_COMPILING = 2_000_000
