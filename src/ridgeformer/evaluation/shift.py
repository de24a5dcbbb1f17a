"""Sequences that differ from those of training, one named way at a time or several at once.

A scenario changes the tokens that a task draws: ``kappa:10`` stretches the features, ``student:5`` gives the noise
heavy tails, ``kappa:10+student:5`` does both. At its neutral value (``kappa:1``) it changes nothing.

**Loss.** The query is drawn like the features, x_t ~ N(0, C), so the loss ½(ŷ − y_t)² averages to ½(ŵ − w)ᵀ C (ŵ − w).

**Reference.** Ridge regression on the same data that is told the scenario: w_ref = (Σ + v I)⁻¹ α with
v = (noise standard deviation / scale of w)². Given X and σ, with Gaussian noise, that is the posterior mean of w,
however the features were drawn, so no predictor can beat it on average, whatever C. Under Student's t or outliers it is
the best predictor that is linear in y, told the effective standard deviation of the noise, and one that is not linear
can be better: AdaRR is under outliers, which show in its σ̂². There, and only there, a ratio below 1 is possible.

**Excess.** What "adjusted" means here: expected loss minus that of the reference. Where the reference is the posterior
mean, that is the mean of ½(ŵ − w_ref)ᵀ C (ŵ − w_ref), which varies least; elsewhere the mean of paired differences.

**Heavy tails.** A model of L layers is a polynomial of degree up to 3^L in its tokens. Under Student's t its expected
loss is infinite unless ν is larger than any in use, and a finite mean over a sample means only that the sample was
kind: this is what `tail_dominated` is for. For ν ≤ 4 even the loss of ridge regression has no variance, hence no error
bar.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.distributions import Fixed
from ridgeformer.core.notation import Array
from ridgeformer.core.random import Purpose, query_rng, token_rng
from ridgeformer.core.registry import Registry
from ridgeformer.core.task import CHUNK, ContextDraw, Task
from ridgeformer.core.validation import InputError, one_of, shortened
from ridgeformer.evaluation.scoring import Probe, Probes, draw_queries, pieces

_LARGEST = 1e6  # of factors and levels: squares of targets then stay far from overflow, also in float32
_NUMBERS = 8_000_000  # of tokens in memory at a time: 64 MB


@dataclass(frozen=True)
class Tokens:
    """Sequences before their targets are put together, y = Xw + ξ."""

    X: Array  # (batch, n, d)
    noise: Array  # ξ, (batch, n)
    weights: Array  # w, (batch, d)
    sigma: Array  # (batch,), standard deviation of ξ
    scale: float  # of w ~ N(0, scale² I)
    variances: Array  # (d,), the diagonal of C


class Scenario:
    """One way to differ, by one number. Subclasses say what they are called and override what they change."""

    name: ClassVar[str]
    """What specs begin with."""
    form: ClassVar[str]
    """An example of a spec."""
    low: ClassVar[float] = 0.0
    """The least that the number may be."""
    high: ClassVar[float] = _LARGEST
    gaussian: ClassVar[bool] = True
    """Whether the noise stays Gaussian, so that the reference stays the posterior mean."""
    stream: ClassVar[int] = 0
    """Names the random stream of what the scenario draws itself; part of every result."""

    def __init__(self, number: float) -> None:
        """Subclasses are dataclasses of their number."""

    @classmethod
    def read(cls, text: str) -> Scenario:
        """From the part of a spec behind the colon."""
        return cls(cls.number(text, cls.low, cls.high))

    @classmethod
    def number(cls, text: str, low: float, high: float = _LARGEST) -> float:
        """The number in a spec, within bounds."""
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise InputError(f"A shift {cls.form} needs a number from {low:g} to {high:g}, not {shortened(text)}.")
        return value

    def change_task(self, task: Task) -> Task:
        """The task to draw tokens from."""
        return task

    def change_tokens(self, tokens: Tokens, rng: np.random.Generator) -> Tokens:
        """The tokens after the change."""
        return tokens


@dataclass(frozen=True)
class Examples(Scenario):
    """Another number of examples in a context."""

    count: int
    name: ClassVar[str] = "examples"
    form: ClassVar[str] = "examples:40"

    @classmethod
    def read(cls, text: str) -> Examples:
        value = cls.number(text, 1)
        if value != int(value):
            raise InputError(f"A shift {cls.form} needs a whole number, not {shortened(text)}.")
        return cls(int(value))

    def change_task(self, task: Task) -> Task:
        return replace(task, examples=self.count)


@dataclass(frozen=True)
class Noise(Scenario):
    """Every σ times a factor."""

    factor: float
    name: ClassVar[str] = "noise"
    form: ClassVar[str] = "noise:2"

    def change_tokens(self, tokens: Tokens, rng: np.random.Generator) -> Tokens:
        return replace(tokens, noise=self.factor * tokens.noise, sigma=self.factor * tokens.sigma)


@dataclass(frozen=True)
class Level(Scenario):
    """Every context at one σ, whatever the prior."""

    sigma: float
    name: ClassVar[str] = "sigma"
    form: ClassVar[str] = "sigma:8"

    def change_task(self, task: Task) -> Task:
        return replace(task, noise=Fixed(self.sigma))


@dataclass(frozen=True)
class Anisotropy(Scenario):
    """Features with unequal variances: condition number κ, trace d, evenly spaced on a log scale along the axes."""

    kappa: float
    name: ClassVar[str] = "kappa"
    form: ClassVar[str] = "kappa:10"
    low: ClassVar[float] = 1.0

    def change_tokens(self, tokens: Tokens, rng: np.random.Generator) -> Tokens:
        dim = len(tokens.variances)
        spread = self.kappa ** -np.linspace(0.0, 1.0, dim) if dim > 1 else np.ones(1)
        variances = tokens.variances * spread * (dim / spread.sum())
        return replace(tokens, X=tokens.X * np.sqrt(variances), variances=variances)


@dataclass(frozen=True)
class Student(Scenario):
    """Noise from Student's t with ν degrees of freedom, scaled to variance σ² for ν > 2.

    For ν ≤ 2 there is no variance: the noise is σ times a t variate, and the reference is told σ for want of better.
    """

    degrees: float
    name: ClassVar[str] = "student"
    form: ClassVar[str] = "student:5"
    low: ClassVar[float] = 1.0
    high: ClassVar[float] = math.inf  # which is the normal distribution
    gaussian: ClassVar[bool] = False
    stream: ClassVar[int] = 1

    def change_tokens(self, tokens: Tokens, rng: np.random.Generator) -> Tokens:
        """A normal variate over sqrt(χ²_ν / ν) is a t variate, whose variance is ν / (ν − 2)."""
        if math.isinf(self.degrees):
            return tokens
        square = rng.chisquare(self.degrees, tokens.noise.shape)
        scale = self.degrees - 2 if self.degrees > 2 else self.degrees
        return replace(tokens, noise=tokens.noise * np.sqrt(scale / square))


@dataclass(frozen=True)
class Outliers(Scenario):
    """A share of the targets has its noise multiplied; which ones is not told."""

    share: float
    factor: float
    name: ClassVar[str] = "outliers"
    form: ClassVar[str] = "outliers:0.05x10"
    gaussian: ClassVar[bool] = False
    stream: ClassVar[int] = 2

    @classmethod
    def read(cls, text: str) -> Outliers:
        share, cross, factor = text.partition("x")
        if not cross:
            raise InputError(f"A shift {cls.form} needs a share and a factor, not {shortened(text)}.")
        return cls(cls.number(share, 0, 1), cls.number(factor, 0))

    def change_tokens(self, tokens: Tokens, rng: np.random.Generator) -> Tokens:
        """The effective variance is σ² (1 + share (factor² − 1))."""
        hit = rng.random(tokens.noise.shape) < self.share
        growth = math.sqrt(1 + self.share * (self.factor**2 - 1))
        noise = np.where(hit, self.factor * tokens.noise, tokens.noise)
        return replace(tokens, noise=noise, sigma=growth * tokens.sigma)


@dataclass(frozen=True)
class Scale(Scenario):
    """Weights from N(0, scale² I)."""

    factor: float
    name: ClassVar[str] = "scale"
    form: ClassVar[str] = "scale:2"
    low: ClassVar[float] = 1 / _LARGEST

    def change_tokens(self, tokens: Tokens, rng: np.random.Generator) -> Tokens:
        return replace(tokens, weights=self.factor * tokens.weights, scale=self.factor * tokens.scale)


@dataclass(frozen=True)
class CorrelatedRows(Scenario):
    """Consecutive examples resemble each other: x_i is autoregressive with correlation ρ, each still N(0, C)."""

    correlation: float
    name: ClassVar[str] = "rows"
    form: ClassVar[str] = "rows:0.8"
    low: ClassVar[float] = -1.0
    high: ClassVar[float] = 1.0

    def change_tokens(self, tokens: Tokens, rng: np.random.Generator) -> Tokens:
        """x_1 = z_1, x_i = ρ x_{i−1} + sqrt(1 − ρ²) z_i."""
        X = tokens.X.copy()
        for i in range(1, X.shape[1]):
            X[:, i] = self.correlation * X[:, i - 1] + math.sqrt(1 - self.correlation**2) * X[:, i]
        return replace(tokens, X=X)


SHIFTS: Registry[type[Scenario]] = Registry("shift")
"""All of them, by the name that specs begin with. A subclass of `Scenario` of yours joins by ``SHIFTS.add``."""
for _scenario in (Examples, Noise, Level, Anisotropy, Student, Outliers, Scale, CorrelatedRows):
    SHIFTS.add(_scenario)

UNSHIFTED = "none"


def parse_shift(spec: str) -> tuple[Scenario, ...]:
    """Scenarios from a spec such as ``kappa:10+student:5``; ``none`` has none of them."""
    if spec == UNSHIFTED:
        return ()
    scenarios: dict[str, Scenario] = {}
    for part in str(spec).split("+"):
        name, colon, text = part.partition(":")
        one_of("A shift", name, [*SHIFTS, UNSHIFTED])
        if name == UNSHIFTED or not colon:
            form = SHIFTS[name].form if name in SHIFTS else Scale.form
            raise InputError(f"Cannot read the shift {shortened(spec)}; write for example {form}.")
        if name in scenarios:
            raise InputError(f"The shift {shortened(spec)} names {name} twice.")
        scenarios[name] = SHIFTS[name].read(text)
    return tuple(scenarios.values())


@dataclass(frozen=True)
class ShiftedDraw(ContextDraw):
    """A batch of shifted sequences; ``oracle`` is the reference w_ref, ``sigma`` that of the noise as it became."""

    variances: Array  # (d,), the diagonal of C
    probes: Probes


@dataclass(frozen=True)
class Shifted:
    """A task under a shift."""

    task: Task
    spec: str = UNSHIFTED

    def __post_init__(self) -> None:
        task = self.tokens_task
        if task.examples * task.dim > _NUMBERS:
            raise InputError(
                f"A shifted sequence may hold at most {_NUMBERS} numbers; n·d is {task.examples * task.dim}."
            )

    @property
    def scenarios(self) -> tuple[Scenario, ...]:
        """What is changed, in the order of the spec."""
        return parse_shift(self.spec)

    @property
    def gaussian(self) -> bool:
        """Whether the reference is the posterior mean of w given the data and σ."""
        return all(scenario.gaussian for scenario in self.scenarios)

    @property
    def tokens_task(self) -> Task:
        """The task whose tokens are changed."""
        task = self.task
        for scenario in self.scenarios:
            task = scenario.change_task(task)
        return task

    def draw_tokens(
        self, batch: int, *, seed: int, step: int = 0, purpose: Purpose = Purpose.EXPLORE
    ) -> tuple[Tokens, Array]:
        """The changed tokens, and their targets (batch, n)."""
        drawn = self.tokens_task.draw_tokens(batch, seed=seed, step=step, purpose=purpose)
        noise = drawn.y - np.einsum("bnd,bd->bn", drawn.X, drawn.weights)
        tokens = Tokens(drawn.X, noise, drawn.weights, drawn.sigma, 1.0, np.ones(self.task.dim))
        for scenario in self.scenarios:
            # Steps stay below 2^63 (`Task.draw_tokens`), so streams numbered beyond it are no task's.
            tokens = scenario.change_tokens(tokens, token_rng(seed, purpose, step + (scenario.stream << 64)))
        return tokens, np.einsum("bnd,bd->bn", tokens.X, tokens.weights) + tokens.noise

    def draw(self, batch: int, *, seed: int, step: int = 0, purpose: Purpose = Purpose.EXPLORE) -> ShiftedDraw:
        """Sequences as Gram statistics, with the reference."""
        tokens, y = self.draw_tokens(batch, seed=seed, step=step, purpose=purpose)
        context = Context.from_tokens(tokens.X, y)
        reference = context.ridge((tokens.sigma / tokens.scale) ** 2)
        query = np.sqrt(tokens.variances) * query_rng(seed, purpose, step).standard_normal(tokens.weights.shape)

        def probes() -> Iterator[Probe]:
            rng = query_rng(seed, purpose, step)
            for rows in pieces(batch, self.tokens_task):
                queries = np.sqrt(tokens.variances) * draw_queries(rng, rows.stop - rows.start, self.task.dim)
                yield Probe(rows, tokens.X[rows], y[rows], queries)

        return ShiftedDraw(context, tokens.weights, tokens.sigma, query, reference, tokens.variances, probes)

    def chunks(self, sequences: int, seed: int) -> Iterator[ShiftedDraw]:
        """Fresh sequences, a chunk at a time."""
        task = self.tokens_task
        chunk = max(1, min(CHUNK, _NUMBERS // (task.examples * task.dim)))
        for step, start in enumerate(range(0, sequences, chunk)):
            yield self.draw(min(chunk, sequences - start), seed=seed, step=step, purpose=Purpose.EVALUATE)
