"""The problem: noisy linear regression in context, with a noise level that changes from one context to the next.

A task is four distributions: of the features x, the weights w, the noise (its level and its shape) and the number of
examples. By default they are those of the paper: x ~ N(0, I), w ~ N(0, I), Gaussian noise, and a fixed number n.

**Loss.** The query is drawn like the features, with the moment M = E[x_t x_tᵀ]. Averaged over the query, ½(ŷ − y_t)² is
½(ŵ − w)ᵀ M (ŵ − w); with isotropic features that is ½‖ŵ − w‖².

**Reference.** If σ is known, no predictor is better on average than the posterior mean of w given the data, for all
features and every M. It is the *oracle* w* of every draw, and the adjusted loss is ½(ŵ − w*)ᵀ M (ŵ − w*). If the noise
is not Gaussian, or the posterior has no closed form, the oracle is the best predictor that is linear in y and knows the
standard deviation of the noise; `Task.reference` says which of the two it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ridgeformer.core.backend import engine, uses_kernels
from ridgeformer.core.context import Context
from ridgeformer.core.distributions import NoisePrior, is_builtin, parse_noise
from ridgeformer.core.features import (
    Moment,
    draw_query_rows,
    gaussian_map,
    is_builtin_features,
    parse_features,
    parts_of,
)
from ridgeformer.core.noise import is_builtin_shape, parse_shape, shape_parts, total_growth
from ridgeformer.core.notation import Array
from ridgeformer.core.random import (
    GaussianSource,
    GramDraw,
    Purpose,
    Source,
    draw_gaussian,
    draw_gram,
    examples_rng,
    noise_rng,
    part_rng,
    philox_key,
    token_rng,
)
from ridgeformer.core.validation import InputError, check_memory, float_dtype, former_names, shortened, whole_number
from ridgeformer.core.weights import (
    OWN_STREAM,
    GaussianWeights,
    Normal,
    best_linear,
    is_builtin_weights,
    parse_weights,
)

MAX_DIM = 4096
MAX_EXAMPLES = 2**31 - 1
CHUNK = 32_768  # contexts in memory at a time: 32 MB of Gram matrices at d = 10 in float64
MAX_BATCH = 2**31 - 1  # contexts of a step are numbered by 32-bit counters
NUMBERS = 8_000_000
"""How many numbers of tokens are in memory at a time: 64 MB."""
_FIRST_OWN_STREAM = 32  # random streams from here on are for parts that users wrote; ours have numbers of their own


@dataclass(frozen=True)
class ExampleRange:
    """Each context draws its number of examples n between two bounds, all whole numbers equally likely.

    >>> parse_examples("10..40")
    ExampleRange(low=10, high=40)
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        low, high = whole_number("examples", self.low, 1, MAX_EXAMPLES), whole_number("examples", self.high, 1)
        if low > high or high > MAX_EXAMPLES:
            raise InputError(f"A range of examples goes up, as in 10..40; {low}..{high} does not.")

    @property
    def spec(self) -> str:
        """As users write it: "10..40"."""
        return f"{self.low}..{self.high}"

    def __str__(self) -> str:
        return self.spec


def parse_examples(value: Any) -> int | ExampleRange:
    """Read a number of examples, or a range: 20, "10..40" or an `ExampleRange`; `InputError` for anything else."""
    if isinstance(value, ExampleRange):
        return value
    if not isinstance(value, str):
        return whole_number("examples", value, 1, MAX_EXAMPLES)
    bounds = re.fullmatch(r"(\d{1,10})\.\.(\d{1,10})", value)
    if bounds is None:
        raise InputError(f"examples must be a whole number or a range such as 10..40, not {shortened(value)}.")
    low, high = int(bounds[1]), int(bounds[2])
    return ExampleRange(low, high) if low != high else whole_number("examples", low, 1, MAX_EXAMPLES)


class Reference(NamedTuple):
    """What the losses of a task are compared with."""

    exact: bool
    """Whether it is the posterior mean, so that no predictor is better on average."""
    text: str
    """What it is, in one sentence."""


@dataclass(frozen=True)
class TokenDraw:
    """A batch of contexts as tokens, made by `Task.draw_tokens`.

    >>> Task(dim=3, examples=8).draw_tokens(5, seed=0).X.shape
    (5, 8, 3)
    """

    X: Array  # (batch, n, d); with a range of examples n is the largest, and unused rows are zero
    y: Array  # (batch, n)
    weights: Array  # (batch, d)
    sigma: Array  # (batch,), standard deviation of the noise
    query: Array  # (batch, d)
    target: Array  # (batch,), <w, x_t>, without noise
    moment: Moment = None  # M = E[x_t x_tᵀ]: None for I, (d, d) or (batch, d, d)
    examples: int | Array = 0  # n, one number or (batch,)


@dataclass(frozen=True)
class ContextDraw:
    """A batch of contexts as Gram matrices, with what is known about how they were drawn; by `Task.draw_contexts`.

    >>> Task(dim=3, examples=8).draw_contexts(5, seed=0).context.dim
    3
    """

    context: Context
    weights: Array  # (batch, d)
    sigma: Array  # (batch,), standard deviation of the noise
    query: Array  # (batch, d)
    oracle: Array  # (batch, d), the reference w*: by default ridge regression that is told the noise level
    moment: Moment = None  # M = E[x_t x_tᵀ]: None for I, (d, d) or (batch, d, d)
    tokens: TokenDraw | None = None  # the tokens, if the Gram matrices were computed from tokens
    parts: tuple[tuple[Task, int, ContextDraw], ...] = ()  # of a mixture: components, their seeds and draws, in order

    def as_gram_draw(self) -> GramDraw:
        """The arrays that the objective needs."""
        return GramDraw(self.context.gram, self.weights, self.query, self.oracle, self.moment)


@former_names(context="examples")
@dataclass(frozen=True, repr=False)
class Task:
    """What contexts are drawn from: regressions y = <w, x> + ξ, with distributions of x, w, the noise ξ and n.

    By default w ~ N(0, I), x ~ N(0, I) and ξ ~ N(0, σ²), where each context draws its own w and σ. Distributions are
    given as specs, which are short texts such as "kappa:10", or as objects; docs/tasks.md lists them. Raises
    `InputError` for a spec that cannot be read, or parts that do not fit together.

    >>> task = Task(dim=3, examples=8, noise="uniform:2", features="kappa:10+rotated")
    >>> draw = task.draw_contexts(5, seed=0)
    >>> draw.context.gram.shape, draw.oracle.shape
    ((5, 4, 4), (5, 3))
    """

    dim: int = 10
    """d, the number of features."""
    examples: Any = 20
    """n, the number of examples in a context, or a range such as "10..40". Its old name ``context`` still works."""
    noise: NoisePrior | str = "uniform:5"
    """Distribution of the noise level σ: a spec such as "uniform:5" or an object with the methods of `NoisePrior`."""
    features: Any = "isotropic"
    """Distribution of x: a spec such as "kappa:10+rotated" or an object with the methods of `Features`."""
    weights: Any = "normal"
    """Distribution of w: a spec such as "sparse:3" or an object with the methods of `Weights`."""
    noise_shape: Any = "gaussian"
    """Shape of the noise at a given σ: a spec such as "student:5" or an object with the methods of `NoiseShape`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", whole_number("dim", self.dim, 1, MAX_DIM))
        object.__setattr__(self, "examples", parse_examples(self.examples))
        object.__setattr__(self, "noise", parse_noise(self.noise))
        object.__setattr__(self, "features", parse_features(self.features))
        object.__setattr__(self, "weights", parse_weights(self.weights))
        object.__setattr__(self, "noise_shape", parse_shape(self.noise_shape))
        for part in parts_of(self.features):
            if hasattr(part, "check"):
                part.check(self.dim, self.most_examples)
        if hasattr(self.weights, "check"):
            self.weights.check(self.dim)

    def __repr__(self) -> str:
        plain = Task.__dataclass_fields__
        shown = [
            f for f in fields(self) if f.name in ("dim", "examples", "noise") or not _is_default(self, plain, f.name)
        ]
        return f"{type(self).__name__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in shown)})"

    @property
    def context(self) -> int:
        """The old name of ``examples``."""
        return self.most_examples

    @property
    def most_examples(self) -> int:
        """The largest n of a context."""
        return self.examples.high if isinstance(self.examples, ExampleRange) else int(self.examples)

    @property
    def typical_examples(self) -> int:
        """n, or the middle of its range, where one number is needed."""
        if isinstance(self.examples, ExampleRange):
            return (self.examples.low + self.examples.high + 1) // 2
        return int(self.examples)

    @property
    def prior(self) -> NoisePrior:
        """The noise prior, parsed."""
        assert not isinstance(self.noise, str)
        return self.noise

    @property
    def isotropic(self) -> bool:
        """Whether features, weights and noise are as in the paper: N(0, I), N(0, I) and Gaussian."""
        return not (parts_of(self.features) or shape_parts(self.noise_shape)) and isinstance(self.weights, Normal)

    @property
    def standard(self) -> bool:
        """Whether the task is `isotropic` with a fixed n ≥ d + 1; only such tasks have a `source`."""
        return self.isotropic and isinstance(self.examples, int) and self.examples >= self.dim + 1

    @property
    def gram_drawable(self) -> bool:
        """Whether Gram matrices are drawn without tokens, which needs Gaussian rows and noise; see `draw_contexts`."""
        return self.standard or self._gaussian

    @property
    def _gaussian(self) -> bool:
        """Whether `draw_gaussian` draws the contexts; not for the paper's task, so that old results stay the same."""
        if shape_parts(self.noise_shape) or (self.isotropic and isinstance(self.examples, int)):
            return False
        return self._map is not None

    @cached_property
    def _map(self) -> tuple[Array, bool] | None:
        return gaussian_map(self.features, self.dim)

    @cached_property
    def _factor(self) -> Array:
        """L of Gaussian weights."""
        return np.asarray(self.weights.factor(self.dim))

    @property
    def builtin(self) -> bool:
        """Whether all parts of the task are of this package, so that their specs restore the task."""
        own = is_builtin(self.prior) and is_builtin_features(self.features)
        return own and is_builtin_weights(self.weights) and is_builtin_shape(self.noise_shape)

    @property
    def specs(self) -> dict[str, Any]:
        """The task as plain values: dim, examples, noise, and whatever else differs from the defaults."""
        plain = Task.__dataclass_fields__
        examples = self.examples if isinstance(self.examples, int) else self.examples.spec
        values = {"dim": self.dim, "examples": examples, "noise": self.prior.spec}
        others = ("features", "weights", "noise_shape")
        return values | {name: getattr(self, name).spec for name in others if not _is_default(self, plain, name)}

    @property
    def setting(self) -> str:
        """The task in a line, for titles of tables."""
        specs = self.specs
        text = f"σ ~ {specs['noise']}, d = {specs['dim']}, n = {specs['examples']}"
        names = {"features": "x", "weights": "w", "noise_shape": "ξ/σ"}
        return text + "".join(f", {symbol} ~ {specs[name]}" for name, symbol in names.items() if name in specs)

    @property
    def reference(self) -> Reference:
        """What the oracle of every draw is, and whether anything can be better."""
        if shape_parts(self.noise_shape):
            return Reference(
                False,
                "the best predictor that is linear in y, told the standard deviation of the noise; the noise is not "
                "Gaussian, so one that is not linear can be better",
            )
        if isinstance(self.weights, Normal):
            return Reference(True, "ridge regression that is told σ: the posterior mean of w")
        if isinstance(self.weights, GaussianWeights):
            return Reference(True, "generalised ridge regression that is told σ and Λ: the posterior mean of w")
        # One context of zeros answers: whether there is a posterior does not depend on the data.
        probe = Context.unchecked(np.zeros((1, self.dim + 1, self.dim + 1)), 1)
        if self.weights.posterior(probe, np.ones(1)) is not None:
            return Reference(True, "the posterior mean of w, told σ and the distribution of w")
        return Reference(False, "the best predictor that is linear in y, told σ and E[w wᵀ]; others can be better")

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

    def draw_examples(self, batch: int, *, seed: int, step: int = 0, purpose: Purpose = Purpose.EXPLORE) -> int | Array:
        """n, or (batch,) of them where they vary."""
        if isinstance(self.examples, int):
            return self.examples
        rng = examples_rng(seed, purpose, step)
        return rng.integers(self.examples.low, self.examples.high, size=batch, endpoint=True)

    def source(self, batch: int, *, seed: int, step: int = 0, purpose: Purpose = Purpose.EXPLORE) -> Source:
        """What defines the contexts that `draw_contexts` would draw; for tasks that are `standard`."""
        sigma = self.draw_sigma(batch, seed=seed, step=step, purpose=purpose)
        return Source(sigma, self.most_examples, step, 0, philox_key(seed, purpose))

    def draw_tokens(
        self, batch: int, *, seed: int, step: int = 0, purpose: Purpose = Purpose.EXPLORE, dtype: Any = np.float64
    ) -> TokenDraw:
        """Draw contexts as tokens, for any task.

        Parameters
        ----------
        batch: how many contexts.
        seed, step, purpose: name the draw; the same three give the same contexts. Tasks that differ only in their
            distributions are made of the same standard normals.
        dtype: float32 or float64.

        Returns a `TokenDraw` with X (batch, n, d), y (batch, n) and the true weights, noise levels and queries. Raises
        `InputError` for a batch that does not fit into memory.

        >>> draw = Task(dim=3, examples=8).draw_tokens(5, seed=0)
        >>> draw.X.shape, draw.y.shape, draw.weights.shape, draw.sigma.shape
        ((5, 8, 3), (5, 8), (5, 3), (5,))
        """
        dtype = float_dtype(dtype)
        names: dict[str, Any] = {"seed": seed, "step": step, "purpose": purpose}
        sigma = self.draw_sigma(batch, **names)
        n = self.most_examples
        check_memory(f"{batch} contexts of {n} examples", 16.0 * batch * n * (self.dim + 1))
        rng = token_rng(seed, purpose, step)
        weights = rng.standard_normal((batch, self.dim))
        query = rng.standard_normal((batch, self.dim))
        X = rng.standard_normal((batch, n, self.dim))
        noise = sigma[:, None] * rng.standard_normal((batch, n))
        moment: Moment = None
        examples = self.draw_examples(batch, **names)
        if not (self.isotropic and isinstance(examples, int)):
            streams: dict[str, Any] = {"seed": seed, "purpose": purpose, "step": step}
            there = None if isinstance(examples, int) else np.arange(n) < examples[:, None]
            weights = self.weights.sample(weights, part_rng(**streams, stream=_stream(self.weights, OWN_STREAM)))
            X, moment = self._apply_features(X, there, streams)
            query = draw_query_rows(self.features, query[:, None], moment, part_rng(**streams, stream=_QUERY_STREAM))[
                :, 0
            ]
            for number, part in enumerate(shape_parts(self.noise_shape)):
                stream = _stream(part, 2 * _FIRST_OWN_STREAM + number)
                noise = part.apply(noise, part_rng(**streams, stream=stream))
            noise = noise if there is None else np.where(there, noise, 0.0)
            sigma = sigma * total_growth(self.noise_shape)
        y = np.einsum("bnd,bd->bn", X, weights) + noise
        target = np.einsum("bd,bd->b", query, weights)
        arrays = (X, y, weights, sigma, query, target)
        X, y, weights, sigma, query, target = (array.astype(dtype, copy=False) for array in arrays)
        moment = None if moment is None else moment.astype(dtype, copy=False)
        return TokenDraw(X, y, weights, sigma, query, target, moment, examples)

    def _apply_features(self, X: Array, there: Array | None, streams: dict[str, Any]) -> tuple[Array, Moment]:
        """The rows after all parts, and their moment; rows after a context's last example stay zero."""
        moment: Moment = None
        X = X if there is None else np.where(there[..., None], X, 0.0)
        for number, part in enumerate(parts_of(self.features)):
            stream = _stream(part, _FIRST_OWN_STREAM + number)
            X, moment = part.apply(X, moment, part_rng(**streams, stream=stream))
            X = X if there is None else np.where(there[..., None], X, 0.0)
        return X, moment

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
        """Draw contexts as Gram matrices.

        Tasks that are `gram_drawable` draw the matrices directly, at a cost that does not depend on n. Other tasks, and
        the paper's with n ≤ d, draw tokens and sum them up.

        Parameters
        ----------
        batch: how many contexts.
        seed, step, purpose: name the draw; the same three give the same contexts.
        dtype: float32 or float64.
        backend: "fused" draws with the compiled sampler, "reference" with NumPy; both draw the same contexts, up to
            rounding. "auto" takes the compiled one for batches that are worth the time to load it.
        threads: of the compiled sampler; None for one per core.

        Returns a `ContextDraw`: Gram matrices, true weights, noise levels, queries and the oracle. Raises `InputError`
        for a batch that does not fit into memory.

        >>> draw = Task(dim=3, examples=8).draw_contexts(5, seed=0)
        >>> draw.context.gram.shape, draw.sigma.shape
        ((5, 4, 4), (5,))
        """
        dtype, batch = float_dtype(dtype), whole_number("batch", batch, 1, MAX_BATCH)
        check_memory(f"{batch} contexts of {self.dim} features", 4.0 * batch * (self.dim + 1) ** 2 * dtype.itemsize)
        fused = uses_kernels(backend, batch * (self.dim + 1) ** 2 >= _WORTH_COMPILING)
        names: dict[str, Any] = {"seed": seed, "step": step, "purpose": purpose}
        source: Source | GaussianSource
        if self.standard:
            source = self.source(batch, **names)
        elif self._gaussian:
            source = self._gaussian_source(batch, **names)
        else:
            return self._contexts_from_tokens(batch, seed, step, purpose, dtype)
        if fused:
            drawn = engine().draw(self.dim, source, dtype, threads)
        elif isinstance(source, Source):
            drawn = draw_gram(self.dim, source)
        else:
            drawn = draw_gaussian(self.dim, source)
        gram, weights, query, oracle, moment = drawn.astype(dtype)
        context = Context.unchecked(gram, source.examples)
        if isinstance(source, GaussianSource):
            context = Context.unchecked(gram, self.examples if isinstance(self.examples, int) else source.examples)
            moment = None if not parts_of(self.features) else moment
            if len(source.given):
                oracle = self.oracle(context, source.sigma).astype(dtype)
        return ContextDraw(context, weights, source.sigma.astype(dtype), query, oracle, moment)

    def _gaussian_source(self, batch: int, *, seed: int, step: int, purpose: Purpose) -> GaussianSource:
        """What defines the contexts that `draw_gaussian` draws."""
        names: dict[str, Any] = {"seed": seed, "step": step, "purpose": purpose}
        sigma, examples = self.draw_sigma(batch, **names), self.draw_examples(batch, **names)
        assert self._map is not None
        F, rotates = self._map
        given, L = np.empty((0, self.dim)), np.eye(self.dim)
        if isinstance(self.weights, GaussianWeights):
            L = self._factor
        else:
            unit = token_rng(seed, purpose, step).standard_normal((batch, self.dim))
            given = self.weights.sample(unit, part_rng(seed, purpose, step, _stream(self.weights, OWN_STREAM)))
        counts = np.broadcast_to(examples, batch).astype(np.int64)
        low = self.examples if isinstance(self.examples, int) else self.examples.low
        singular = low <= self.dim or not np.diagonal(F).all()
        key = philox_key(seed, purpose)
        return GaussianSource(sigma, counts, step, 0, key, F, L, rotates, singular, given)

    def oracle(self, context: Context, sigma: Array) -> Array:
        """The reference w* (batch, d), given the standard deviation σ (batch,) of the noise; see `reference`."""
        if not shape_parts(self.noise_shape) and not isinstance(self.weights, GaussianWeights):
            posterior = self.weights.posterior(context, sigma)
            if posterior is not None:
                mean: Array = posterior.mean
                return mean
        return best_linear(self.weights, context, sigma)

    def chunks(
        self, sequences: int, seed: int, purpose: Purpose = Purpose.EVALUATE, dtype: Any = np.float64
    ) -> Iterator[ContextDraw]:
        """Fresh contexts, ``sequences`` in all, `chunk` at a time."""
        for step, start in enumerate(range(0, sequences, self.chunk)):
            count = min(self.chunk, sequences - start)
            yield self.draw_contexts(count, seed=seed, step=step, purpose=purpose, dtype=dtype, backend="fused")

    def token_chunks(self, sequences: int, seed: int) -> Iterator[ContextDraw]:
        """Fresh contexts, summed up from tokens. Tasks of the same size are made of the same standard normals."""
        if self.most_examples * self.dim > NUMBERS:
            raise InputError(f"A sequence of tokens may hold at most {NUMBERS} numbers; n·d is larger.")
        count = max(1, min(CHUNK, NUMBERS // (self.most_examples * self.dim)))
        for step, start in enumerate(range(0, sequences, count)):
            batch = min(count, sequences - start)
            yield self._contexts_from_tokens(batch, seed, step, Purpose.EVALUATE, np.float64)

    @property
    def chunk(self) -> int:
        """Contexts in memory at a time: fewer where they are drawn as tokens."""
        if self.gram_drawable or self.isotropic:
            return CHUNK
        return max(1, min(CHUNK, NUMBERS // (self.most_examples * self.dim)))

    def _contexts_from_tokens(self, batch: int, seed: int, step: int, purpose: Purpose, dtype: Any) -> ContextDraw:
        """Draw the tokens and sum them up."""
        tokens = self.draw_tokens(batch, seed=seed, step=step, purpose=purpose)
        context = Context.from_tokens(tokens.X, tokens.y)
        context = Context.unchecked(context.gram, tokens.examples)
        plain = self.isotropic and isinstance(tokens.examples, int)
        oracle = context.ridge(tokens.sigma**2) if plain else self.oracle(context, tokens.sigma)
        arrays = (context.gram, tokens.weights, tokens.sigma, tokens.query, oracle)
        gram, weights, sigma, query, oracle = (a.astype(dtype, copy=False) for a in arrays)
        moment = None if tokens.moment is None else tokens.moment.astype(dtype, copy=False)
        return ContextDraw(Context.unchecked(gram, tokens.examples), weights, sigma, query, oracle, moment, tokens)


def _is_default(task: Task, plain: dict[str, Any], name: str) -> bool:
    return bool(getattr(task, name).spec == plain[name].default)


def _stream(part: Any, otherwise: int) -> int:
    """The number of a part's random stream."""
    return int(getattr(part, "stream", otherwise))


_QUERY_STREAM = 13  # of what queries draw beyond normals; next to those that parts and weights name

# Loading the compiled sampler takes about a second; NumPy draws this many Gram entries in that time.
_WORTH_COMPILING = 2_000_000
