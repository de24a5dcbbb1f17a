"""Spectra: the variance along each axis, for features (`core.features`) and for weights (`core.weights`) alike.

A spectrum is d variances, the diagonal of a covariance Λ. It is given by its condition number, ``kappa:10``, by a power
law, ``power:1``, or written out, ``variances:4,1,0.25``. The first two have trace d, as the identity has, so that
tasks with different spectra have the same total variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from ridgeformer.core.notation import Array
from ridgeformer.core.specs import OneNumber, number_text, read_number
from ridgeformer.core.validation import InputError


class Spectrum:
    """Variances along the axes; subclasses say what they are."""

    def variances(self, dim: int) -> Array:
        """(d,), the diagonal of Λ."""
        raise NotImplementedError

    def root(self, dim: int) -> Array:
        """The square root of Λ, (d, d)."""
        return np.diag(np.sqrt(self.variances(dim)))


def with_trace_d(ratios: Array) -> Array:
    """(d,) variances in these ratios, with sum d."""
    return ratios * (len(ratios) / ratios.sum())


@dataclass(frozen=True)
class ConditionSpectrum(OneNumber, Spectrum):
    """Variances with condition number κ (the largest over the smallest), evenly spaced on a log scale, with sum d.

    >>> ConditionSpectrum(4).variances(3).round(3).tolist()
    [1.714, 0.857, 0.429]
    """

    kappa: float
    name: ClassVar[str] = "kappa"
    form: ClassVar[str] = "kappa:10"
    bounds: ClassVar[tuple[float, float]] = (1.0, OneNumber.bounds[1])

    def variances(self, dim: int) -> Array:
        """κ^−((j − 1)/(d − 1)), j = 1 … d, with sum d."""
        return with_trace_d(self.kappa ** -np.linspace(0.0, 1.0, dim) if dim > 1 else np.ones(1))


@dataclass(frozen=True)
class PowerSpectrum(OneNumber, Spectrum):
    """Variances ∝ 1/jᵃ, j = 1 … d, with sum d.

    >>> PowerSpectrum(1).variances(3).round(3).tolist()
    [1.636, 0.818, 0.545]
    """

    exponent: float
    name: ClassVar[str] = "power"
    form: ClassVar[str] = "power:1"
    bounds: ClassVar[tuple[float, float]] = (0.0, 20.0)

    def variances(self, dim: int) -> Array:
        """1/jᵃ, j = 1 … d, with sum d."""
        return with_trace_d(np.arange(1.0, dim + 1) ** -self.exponent)


@dataclass(frozen=True)
class GivenSpectrum(Spectrum):
    """Every variance written out: ``variances:4,1,0.25``; zeros are allowed."""

    values: tuple[float, ...]
    name: ClassVar[str] = "variances"
    form: ClassVar[str] = "variances:4,1,0.25"

    @property
    def spec(self) -> str:
        """The name and the variances."""
        return f"{self.name}:" + ",".join(map(number_text, self.values))

    @classmethod
    def read(cls, text: str) -> Self:
        """The variances, separated by commas; `InputError` if one is not a number ≥ 0."""
        return cls(tuple(read_number(cls.form, part) for part in text.split(",")))

    def variances(self, dim: int) -> Array:
        """As given."""
        return np.asarray(self.values, float)

    def check_size(self, what: str, dim: int) -> None:
        """`InputError` if there are not d variances; ``what`` they belong to."""
        if len(self.values) != dim:
            raise InputError(f"The {what} {self.spec} are for d = {len(self.values)}, not {dim}.")
