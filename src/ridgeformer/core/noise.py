"""Shapes of the noise: the distribution of ξ/σ. Distributions of the level σ are in `core.distributions`.

A shape takes normal noise ξ = σ·N(0, 1), changes it, and says by which factor its standard deviation grew. With
Gaussian noise, ridge regression that is told σ is the best predictor. With other shapes it is only the best one that is
linear in y.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from ridgeformer.core.notation import Array
from ridgeformer.core.registry import Registry
from ridgeformer.core.specs import NameOnly, OneNumber, load_own, number_text, read_number, read_parts
from ridgeformer.core.validation import InputError, shortened


@runtime_checkable
class NoiseShape(Protocol):
    """The methods of a shape of the noise. To use your own, write these.

    >>> isinstance(Student(5), NoiseShape)
    True
    """

    @property
    def spec(self) -> str:
        """Its name, such as ``student:5``."""
        ...

    @property
    def growth(self) -> float:
        """Standard deviation of the noise divided by σ."""
        ...

    def apply(self, noise: Array, rng: np.random.Generator) -> Array:
        """Noise (batch, n) made from normal noise with standard deviation σ."""
        ...


@dataclass(frozen=True)
class Gaussian(NameOnly):
    """ξ ~ N(0, σ²)."""

    name: ClassVar[str] = "gaussian"
    form: ClassVar[str] = "gaussian"
    growth: ClassVar[float] = 1.0
    stream: ClassVar[int] = 0

    def apply(self, noise: Array, rng: np.random.Generator) -> Array:
        return noise


@dataclass(frozen=True)
class Student(OneNumber):
    """Student's t with ν degrees of freedom, scaled to variance σ² for ν > 2.

    For ν ≤ 2 there is no variance: the noise is σ times a t variate, and the reference is told this σ.
    """

    degrees: float
    name: ClassVar[str] = "student"
    form: ClassVar[str] = "student:5"
    bounds: ClassVar[tuple[float, float]] = (1.0, math.inf)  # infinite degrees are the normal distribution
    growth: ClassVar[float] = 1.0
    stream: ClassVar[int] = 1

    def apply(self, noise: Array, rng: np.random.Generator) -> Array:
        """A normal variate over sqrt(χ²_ν / ν) is a t variate, whose variance is ν / (ν − 2)."""
        if math.isinf(self.degrees):
            return noise
        scale = self.degrees - 2 if self.degrees > 2 else self.degrees
        return noise * np.sqrt(scale / rng.chisquare(self.degrees, noise.shape))


@dataclass(frozen=True)
class Outliers:
    """The noise of a random share of the targets is multiplied by a factor; predictors are not told which ones."""

    share: float
    factor: float
    name: ClassVar[str] = "outliers"
    form: ClassVar[str] = "outliers:0.05x10"
    stream: ClassVar[int] = 2

    @property
    def spec(self) -> str:
        return f"outliers:{number_text(self.share)}x{number_text(self.factor)}"

    @property
    def growth(self) -> float:
        """The effective variance is σ² (1 + share (factor² − 1))."""
        return math.sqrt(1 + self.share * (self.factor**2 - 1))

    @classmethod
    def read(cls, text: str) -> Outliers:
        share, cross, factor = text.partition("x")
        if not cross:
            raise InputError(f"A spec {cls.form} needs a share and a factor, not {shortened(text)}.")
        return cls(read_number(cls.form, share, 0, 1), read_number(cls.form, factor, 0))

    def apply(self, noise: Array, rng: np.random.Generator) -> Array:
        hit = rng.random(noise.shape) < self.share
        return np.where(hit, self.factor * noise, noise)


NOISE_SHAPES: Registry[Any] = Registry("noise shape")
"""The shapes that specs can name."""
for _shape in (Gaussian, Student, Outliers):
    NOISE_SHAPES.add(_shape)


@dataclass(frozen=True)
class Shapes:
    """Several shapes, one after the other: ``student:5+outliers:0.05x10``."""

    parts: tuple[Any, ...]

    @property
    def spec(self) -> str:
        """The specs of the parts, joined by ``+``."""
        return "+".join(part.spec for part in self.parts)


def parse_shape(spec: Any) -> Any:
    """Read a shape from its spec; an object with the methods of `NoiseShape` is returned as it is.

    Raises `InputError` for anything else.

    >>> parse_shape("outliers:0.05x10")
    Outliers(share=0.05, factor=10.0)
    """
    if isinstance(spec, str):
        parts = read_parts("A noise shape", spec, NOISE_SHAPES)
        return parts[0] if len(parts) == 1 else Shapes(tuple(parts))
    if isinstance(spec, NoiseShape | Shapes) and not isinstance(spec, type):
        return spec
    raise InputError(f"A noise shape is a spec like 'student:5' or has spec, growth and apply; not {spec!r}.")


def load_shape(text: Any) -> Any:
    """As `parse_shape`; also reads your own class, ``module:Class(1)``. For the shell only."""
    return parse_shape(load_own("noise shape", text, NOISE_SHAPES, parse_shape) if isinstance(text, str) else text)


def shape_parts(shape: Any) -> tuple[Any, ...]:
    """The shapes that are applied one after the other; without those that change nothing."""
    parts = shape.parts if isinstance(shape, Shapes) else (shape,)
    neutral = {"gaussian", "student:inf"}
    return tuple(part for part in parts if part.spec not in neutral)


def is_builtin_shape(shape: Any) -> bool:
    """Whether the shape is of this package, so that its spec restores it."""
    return all(type(part) in NOISE_SHAPES.values() for part in shape_parts(shape))


def total_growth(shape: Any) -> float:
    """Standard deviation of the noise divided by σ."""
    return math.prod(float(part.growth) for part in shape_parts(shape))
