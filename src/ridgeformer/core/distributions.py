"""Priors: distributions of the noise level σ. Contexts draw their σ from one, and the Bayes limit averages over it.

A prior is any object with the methods of `NoisePrior`. Those of this package are in `PRIORS` and can be written as a
spec, a short text such as ``uniform:5``. A prior that you write is passed as an object, or on the command line as
``module:Class(arguments)``. Files store only its name: reading a file never imports anything.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from ridgeformer.core.notation import Array
from ridgeformer.core.registry import Registry
from ridgeformer.core.specs import class_name, load_own
from ridgeformer.core.specs import number_text as _text
from ridgeformer.core.validation import InputError, nonnegative, shortened, whole_number

_legendre = lru_cache(maxsize=8)(np.polynomial.legendre.leggauss)  # 256 nodes take 15 ms, and Bayes asks often

_LEVEL = "A noise level σ"
_LARGEST_LEVEL = 1e6  # squares of targets then stay far from overflow, also in float32
_VARIANCE_NODES = 64  # of the quadrature of E σ²: exact for the priors of this package


@runtime_checkable
class NoisePrior(Protocol):
    """The methods of a prior of the noise level σ. To use your own, write these; docs/extending.md has an example.

    >>> isinstance(Uniform(5), NoisePrior)
    True
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
    """All contexts have the same noise level σ ≥ 0.

    >>> Fixed(2).spec
    'fixed:2'
    """

    sigma: float
    name: ClassVar[str] = "fixed"
    form: ClassVar[str] = "fixed:1"

    def __post_init__(self) -> None:
        _check_level(self.sigma)

    @property
    def spec(self) -> str:
        return f"fixed:{_text(self.sigma)}"

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return np.full(size, float(self.sigma))

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        return np.array([float(self.sigma)]), np.ones(1)

    def title(self) -> str:
        return f"σ = {self.sigma:g}"

    @classmethod
    def read(cls, text: str) -> Fixed | None:
        return cls(float(text))


@dataclass(frozen=True)
class Uniform:
    """σ ~ U(low, high), 0 ≤ low ≤ high.

    >>> Uniform(5), Uniform(3, low=1).spec
    (Uniform(high=5, low=0.0), 'uniform:1-3')
    """

    high: float
    low: float = 0.0
    name: ClassVar[str] = "uniform"
    form: ClassVar[str] = "uniform:5"

    def __post_init__(self) -> None:
        _check_bounds("uniform", self.low, self.high)

    @property
    def spec(self) -> str:
        return "uniform:" + (_text(self.high) if self.low == 0 else f"{_text(self.low)}-{_text(self.high)}")

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return self.low + (self.high - self.low) * rng.random(size)

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        nodes = whole_number("nodes", nodes, 1)
        if self.low == self.high:
            return Fixed(self.high).quadrature(nodes)
        points, weights = _legendre(nodes)  # on [−1, 1], weights summing to 2
        return self.low + (self.high - self.low) * (points + 1) / 2, weights / 2

    def title(self) -> str:
        return "no noise (σmax = 0)" if self.high == 0 else f"σ ~ U({self.low:g}, {self.high:g})"

    @classmethod
    def read(cls, text: str) -> Uniform | None:
        bounds = re.fullmatch(f"(?:({_NUMBER})-)?({_NUMBER})", text)
        return cls(float(bounds[2]), float(bounds[1] or 0)) if bounds else None


@dataclass(frozen=True)
class LogUniform:
    """ln σ ~ U(ln low, ln high), 0 < low ≤ high: every octave of σ is equally likely.

    >>> LogUniform(0.1, 10).spec
    'loguniform:0.1-10'
    """

    low: float
    high: float
    name: ClassVar[str] = "loguniform"
    form: ClassVar[str] = "loguniform:0.1-10"

    def __post_init__(self) -> None:
        _check_bounds("loguniform", self.low, self.high)
        if self.low == 0:
            raise InputError("A loguniform noise prior needs low > 0.")

    @property
    def spec(self) -> str:
        return f"loguniform:{_text(self.low)}-{_text(self.high)}"

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return self._levels(rng.random(size))

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        points, weights = _legendre(whole_number("nodes", nodes, 1))
        return self._levels((points + 1) / 2), weights / 2

    def _levels(self, share: Array) -> Array:
        """σ at shares between 0 and 1 of the way from ln low to ln high; rounding must not leave the support."""
        exponent = math.log(self.low) + (math.log(self.high) - math.log(self.low)) * share
        return np.clip(np.exp(exponent), self.low, self.high)

    def title(self) -> str:
        return f"ln σ ~ U(ln {self.low:g}, ln {self.high:g})"

    @classmethod
    def read(cls, text: str) -> LogUniform | None:
        bounds = re.fullmatch(f"({_NUMBER})-({_NUMBER})", text)
        return cls(float(bounds[1]), float(bounds[2])) if bounds else None


@dataclass(frozen=True)
class Categorical:
    """σ is one of a few levels, each equally likely.

    >>> Categorical((1, 3)).spec
    'categorical:1+3'
    """

    levels: tuple[float, ...]
    name: ClassVar[str] = "categorical"
    form: ClassVar[str] = "categorical:1+3"

    def __post_init__(self) -> None:
        if not isinstance(self.levels, tuple | list) or not self.levels:
            raise InputError("A categorical noise prior needs at least one level.")
        object.__setattr__(self, "levels", tuple(self.levels))
        for level in self.levels:
            _check_level(level)

    @property
    def spec(self) -> str:
        return "categorical:" + "+".join(_text(level) for level in self.levels)

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return np.asarray(self.levels, float)[rng.integers(len(self.levels), size=size)]

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        return np.asarray(self.levels, float), np.full(len(self.levels), 1 / len(self.levels))

    def title(self) -> str:
        return f"σ ∈ {{{', '.join(f'{level:g}' for level in self.levels)}}}"

    @classmethod
    def read(cls, text: str) -> Categorical | None:
        return cls(tuple(float(level) for level in text.split("+")))


PRIORS: Registry[Any] = Registry("noise prior")
"""The priors that specs can name: for ``name:text``, ``read(text)`` of the class gives the prior, or None."""
for _prior in (Uniform, LogUniform, Categorical, Fixed):
    PRIORS.add(_prior)


def mean_variance(prior: NoisePrior) -> float:
    """E σ²."""
    levels, weights = prior.quadrature(_VARIANCE_NODES)
    return float(weights @ levels**2)


def is_builtin(prior: NoisePrior) -> bool:
    """Whether the prior is of this package, so that its spec restores it."""
    return type(prior) in PRIORS.values()


def prior_name(prior: NoisePrior) -> str:
    """``module:Class`` of a prior: what files store for a prior that is not of this package."""
    return class_name(prior)


def prior_title(prior: str | NoisePrior) -> str:
    """A prior as figures write it: σ ~ U(0, 5) for uniform:5, σ ∈ {1, 3} for categorical:1+3, else σ ~ its spec."""
    parsed = parse_noise(prior)
    return str(parsed.title()) if is_builtin(parsed) else f"σ ~ {parsed.spec}"  # type: ignore[attr-defined]


def parse_noise(spec: str | NoisePrior) -> NoisePrior:
    """Read a prior of the noise level σ from its spec; an object with the methods of a prior is returned as it is.

    Specs are ``uniform:5`` (σ between 0 and 5), ``uniform:1-3``, ``loguniform:0.1-10``, ``categorical:1+3`` (σ is 1 or
    3) and ``fixed:1``. Raises `InputError` for anything else. Nothing is imported: specs may come from files.

    >>> parse_noise("uniform:1-3")
    Uniform(high=3.0, low=1.0)
    """
    if not isinstance(spec, str):
        if isinstance(spec, NoisePrior) and not isinstance(spec, type):
            return spec
        raise InputError(f"A noise prior is a spec like 'uniform:5' or has sample, quadrature and spec; not {spec!r}.")
    name, _, text = spec.partition(":")
    try:
        prior = PRIORS[name].read(text) if name in PRIORS else None
    except ValueError:  # not a number
        prior = None
    if prior is None:
        forms = ", ".join(prior_class.form for prior_class in PRIORS.values())
        raise InputError(f"Cannot read the noise prior {shortened(spec)}; write for example {forms} (σ ≥ 0).")
    return prior


def load_noise(text: str | NoisePrior) -> NoisePrior:
    """As `parse_noise`; also reads your own prior, ``module:Class`` or ``module:Class(1, high=3)``. For the shell only.

    The module is imported, from the current folder or from wherever Python finds it. Arguments are plain literals.
    """
    if not isinstance(text, str):
        return parse_noise(text)
    prior: NoisePrior = load_own("noise prior", text, PRIORS, parse_noise)
    return prior


def scaled_prior(prior: NoisePrior, factor: float) -> NoisePrior:
    """Every σ of a prior times a factor."""
    factor = nonnegative("The factor of σ", factor)
    if factor == 1:
        return prior
    if factor == 0 and is_builtin(prior):
        return Fixed(0.0)
    if isinstance(prior, Uniform):
        return Uniform(factor * prior.high, factor * prior.low)
    if isinstance(prior, LogUniform):
        return LogUniform(factor * prior.low, factor * prior.high)
    if isinstance(prior, Categorical):
        return Categorical(tuple(factor * level for level in prior.levels))
    return Fixed(factor * prior.sigma) if isinstance(prior, Fixed) else ScaledPrior(prior, factor)


@dataclass(frozen=True)
class ScaledPrior:
    """Another prior with every σ multiplied by a factor."""

    inner: NoisePrior
    factor: float

    @property
    def spec(self) -> str:
        return f"{self.inner.spec}*{_text(self.factor)}"

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return self.factor * np.asarray(self.inner.sample(rng, size), np.float64)

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        levels, weights = self.inner.quadrature(nodes)
        return self.factor * np.asarray(levels, np.float64), weights


# An explicit pattern, because the dash in uniform:1-3 must not be confused with the one in 1e-3.
_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"


def _check_level(level: float) -> None:
    if nonnegative(_LEVEL, level) > _LARGEST_LEVEL:
        raise InputError(f"{_LEVEL} must be at most {_LARGEST_LEVEL:g}, not {shortened(level)}.")


def _check_bounds(name: str, low: float, high: float) -> None:
    _check_level(low)
    _check_level(high)
    if low > high:
        raise InputError(f"A {name} noise prior needs low ≤ high, not {low:g} and {high:g}.")
