"""Priors over the noise level σ: what contexts are drawn with, and what the Bayes limit integrates over."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ridgeformer.errors import InputError
from ridgeformer.types import Array


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
        _check_level(self.sigma)

    @property
    def spec(self) -> str:
        return f"fixed:{self.sigma:g}"

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
        _check_level(self.low)
        _check_level(self.high)
        if self.low > self.high:
            raise InputError(f"A uniform noise prior needs low ≤ high, not {self.low:g} and {self.high:g}.")

    @property
    def spec(self) -> str:
        return f"uniform:{self.high:g}" if self.low == 0 else f"uniform:{self.low:g}-{self.high:g}"

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return self.low + (self.high - self.low) * rng.random(size)

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        if self.low == self.high:
            return Fixed(self.high).quadrature(nodes)
        points, weights = np.polynomial.legendre.leggauss(nodes)  # on [−1, 1], weights summing to 2
        return self.low + (self.high - self.low) * (points + 1) / 2, weights / 2


@dataclass(frozen=True)
class Categorical:
    """σ is one of a few levels, each equally likely."""

    levels: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.levels:
            raise InputError("A categorical noise prior needs at least one level.")
        for level in self.levels:
            _check_level(level)

    @property
    def spec(self) -> str:
        return "categorical:" + "+".join(f"{level:g}" for level in self.levels)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return np.asarray(self.levels, float)[rng.integers(len(self.levels), size=size)]

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        return np.asarray(self.levels, float), np.full(len(self.levels), 1 / len(self.levels))


def parse_noise(spec: str | NoisePrior) -> NoisePrior:
    """A prior from its spec: ``uniform:5``, ``uniform:1-3``, ``categorical:1+3``, ``fixed:1``; priors pass through."""
    if not isinstance(spec, str):
        if isinstance(spec, NoisePrior):
            return spec
        raise InputError(f"A noise prior is a spec like 'uniform:5' or has sample, quadrature and spec; not {spec!r}.")
    kind, _, text = spec.partition(":")
    try:
        if kind == "fixed":
            return Fixed(float(text))
        if kind == "uniform":
            low, dash, high = text.partition("-")
            return Uniform(float(high), float(low)) if dash else Uniform(float(low))
        if kind == "categorical":
            return Categorical(tuple(float(level) for level in text.split("+")))
    except InputError:
        raise
    except ValueError:
        pass
    raise InputError(
        f"Cannot read the noise prior {spec!r}; write uniform:5, uniform:1-3, categorical:1+3 or fixed:1 (σ ≥ 0)."
    )


def _check_level(sigma: float) -> None:
    if not (math.isfinite(sigma) and sigma >= 0):
        raise InputError(f"A noise level σ must be a finite number of at least 0, not {sigma!r}.")
