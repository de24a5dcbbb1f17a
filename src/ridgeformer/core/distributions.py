"""Priors over the noise level σ: what contexts are drawn with, and what the Bayes limit integrates over."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ridgeformer.core.notation import Array
from ridgeformer.core.validation import InputError, nonnegative, whole_number

_LEVEL = "A noise level σ"
_VARIANCE_NODES = 64  # of the quadrature of E σ²: exact for the priors of this package


@runtime_checkable
class NoisePrior(Protocol):
    """All that the package asks of a prior; write these two methods to bring your own.

    ``spec`` names the prior in files and tables; `parse_noise` reads the specs of the priors defined here.
    """

    @property
    def spec(self) -> str:
        """The prior's name, such as ``uniform:5``."""
        ...

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """(size,) noise levels σ ≥ 0."""
        ...

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        """(σ, weight), at most ``nodes`` of each: Σ weight · f(σ) approximates E f(σ), and the weights sum to 1."""
        ...


@dataclass(frozen=True)
class Fixed:
    """Every context has the same σ."""

    sigma: float

    def __post_init__(self) -> None:
        nonnegative(_LEVEL, self.sigma)

    @property
    def spec(self) -> str:
        return f"fixed:{_text(self.sigma)}"

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return np.full(size, float(self.sigma))

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        return np.array([float(self.sigma)]), np.ones(1)


@dataclass(frozen=True)
class Uniform:
    """σ ~ U(low, high)."""

    high: float
    low: float = 0.0

    def __post_init__(self) -> None:
        nonnegative(_LEVEL, self.low)
        nonnegative(_LEVEL, self.high)
        if self.low > self.high:
            raise InputError(f"A uniform noise prior needs low ≤ high, not {self.low:g} and {self.high:g}.")

    @property
    def spec(self) -> str:
        return "uniform:" + (_text(self.high) if self.low == 0 else f"{_text(self.low)}-{_text(self.high)}")

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return self.low + (self.high - self.low) * rng.random(size)

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        nodes = whole_number("nodes", nodes, 1)
        if self.low == self.high:
            return Fixed(self.high).quadrature(nodes)
        points, weights = np.polynomial.legendre.leggauss(nodes)  # on [−1, 1], weights summing to 2
        return self.low + (self.high - self.low) * (points + 1) / 2, weights / 2


@dataclass(frozen=True)
class Categorical:
    """σ is one of a few levels, each equally likely."""

    levels: tuple[float, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.levels, tuple | list) or not self.levels:
            raise InputError("A categorical noise prior needs at least one level.")
        object.__setattr__(self, "levels", tuple(self.levels))
        for level in self.levels:
            nonnegative(_LEVEL, level)

    @property
    def spec(self) -> str:
        return "categorical:" + "+".join(_text(level) for level in self.levels)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return np.asarray(self.levels, float)[rng.integers(len(self.levels), size=size)]

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        return np.asarray(self.levels, float), np.full(len(self.levels), 1 / len(self.levels))


def mean_variance(prior: NoisePrior) -> float:
    """E σ²."""
    levels, weights = prior.quadrature(_VARIANCE_NODES)
    return float(weights @ levels**2)


def parse_noise(spec: str | NoisePrior) -> NoisePrior:
    """A prior from its spec: ``uniform:5``, ``uniform:1-3``, ``categorical:1+3``, ``fixed:1``; priors pass through."""
    if not isinstance(spec, str):
        if isinstance(spec, NoisePrior) and not isinstance(spec, type):
            return spec
        raise InputError(f"A noise prior is a spec like 'uniform:5' or has sample, quadrature and spec; not {spec!r}.")
    kind, _, text = spec.partition(":")
    try:
        if kind == "fixed":
            return Fixed(float(text))
        if kind == "uniform":
            bounds = re.fullmatch(f"(?:({_NUMBER})-)?({_NUMBER})", text)
            if bounds:
                return Uniform(float(bounds[2]), float(bounds[1] or 0))
        if kind == "categorical":
            return Categorical(tuple(float(level) for level in text.split("+")))
    except InputError:
        raise
    except ValueError:
        pass
    raise InputError(
        f"Cannot read the noise prior {spec!r}; write uniform:5, uniform:1-3, categorical:1+3 or fixed:1 (σ ≥ 0)."
    )


# A plain pattern, because the dash of uniform:1-3 must not be taken for that of 1e-3.
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"


def _text(level: float) -> str:
    """The shortest text that reads back as the same number; without a plus sign, which separates levels."""
    short = f"{level:g}"
    return (short if float(short) == level else repr(float(level))).replace("e+", "e")
