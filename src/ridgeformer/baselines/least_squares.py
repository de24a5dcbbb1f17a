"""Least squares in the eigenbasis of Σ: every ridge regression and the likelihood of σ are computed from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.notation import Array
from ridgeformer.core.validation import instance

_ROUNDING = 16.0
"""Multiple of eps·(‖w‖² s_max + λ) up to which a residual is rounding; see `LeastSquares.of`. Measured on 4 000
noise-free contexts each of 1 to 50 features and 2 to 10 000 examples, in both precisions: at most 4.9."""


@dataclass(frozen=True)
class LeastSquares:
    """The least-squares fit of least norm of a batch of contexts, one row each, in float64.

    At most m = min(n, d) of the d directions have data; the others have weight zero in every fit and are left out here.
    """

    examples: int | Array
    """n, one number or (batch,)."""
    values: Array
    """s, (batch, m): eigenvalues of Σ, ascending; exactly 0 where a direction has no data."""
    coordinates: Array
    """b = a / s, (batch, m): the fit in the eigenbasis; 0 where a direction has no data."""
    vectors: Array
    """(batch, d, m), columns."""
    residual: Array
    """ρ = λ − Σ_j a_j² / s_j = Σ_i (y_i − ŷ_i)², (batch,); exactly 0 if it is not larger than rounding errors."""
    noise_variance: Array
    """σ̂², (batch,); see `estimated_variance`."""

    @classmethod
    def of(cls, context: Context) -> LeastSquares:
        """Fit all contexts."""
        instance("context", context, Context)
        n, dim = context.examples, context.dim
        held = slice(dim - min(int(np.max(n)), dim), None)
        all_values, vectors, cross = context.spectrum
        values, cross = all_values[:, held], cross[:, held]
        energy = context.energy.astype(np.float64)
        eps = float(np.finfo(context.gram.dtype).eps)
        largest = values[:, -1:]
        present = values > largest * dim * eps  # the same floor as `Context.ridge`
        coordinates = np.where(present, cross, 0.0) / np.where(present, values, 1.0)
        residual = energy - (coordinates * cross).sum(axis=1)
        # Rounding errors δ of G move ρ = (−w, 1) G (−w, 1)ᵀ by (−w, 1) δ (−w, 1)ᵀ, and ‖δ‖ is about eps ‖G‖. What is
        # smaller than that is no evidence of noise: with σ = 0 allowed, it would count as infinitely strong evidence.
        rounding = _ROUNDING * eps * ((coordinates**2).sum(axis=1) * largest[:, 0] + energy)
        interpolates = present.sum(axis=1) >= n
        residual = np.where(interpolates | (residual <= rounding), 0.0, residual)
        variance = estimated_variance(context, residual)
        return cls(n, np.where(present, values, 0.0), coordinates, vectors[:, :, held], residual, variance)

    def rows(self, chosen: slice) -> LeastSquares:
        """Some of the contexts."""
        arrays = (self.values, self.coordinates, self.vectors, self.residual, self.noise_variance)
        n = self.examples if isinstance(self.examples, int) else self.examples[chosen]
        return LeastSquares(n, *(array[chosen] for array in arrays))

    @property
    def rank(self) -> Array:
        """r, the number of directions that have data, (batch,)."""
        return (self.values > 0).sum(axis=1)

    @property
    def divisors(self) -> Array:
        """s with 1 in place of 0, (batch, m), to divide by: the fit is zero there anyway."""
        return np.where(self.values > 0, self.values, 1.0)

    def ridge(self, penalty: Any) -> Array:
        """w*_v = (Σ + v I)⁻¹ α, (batch, d): each coordinate of the fit is shrunk to s / (s + v) of itself."""
        values = self.divisors
        return self.rotate_back(self.coordinates * (values / (values + np.asarray(penalty, np.float64)[..., None])))

    def rotate_back(self, coordinates: Array) -> Array:
        """Weights (batch, d) from coordinates (batch, m)."""
        return np.einsum("bij,bj->bi", self.vectors, coordinates)


def estimated_variance(context: Context, residual: Array) -> Array:
    """σ̂², (batch,): the residual variance ρ / (n − d) if n > d; otherwise an estimate from λ = Σ_i y_i².

    With n ≤ d the fit goes through all examples and leaves no residual, so only λ can tell something about σ. Over
    w ~ N(0, I) and the noise, E[λ | X] = tr Σ + n σ², so z = (λ − tr Σ) / n is σ² on average. Even without noise z
    varies by τ = √(2 tr Σ²) / n, and it can be negative. A penalty of zero would be the worst choice then: the loss of
    least squares has no mean at n = d. So σ̂² = (z + √(z² + τ²)) / 2, which is above zero, and close to z if z ≫ τ.
    """
    n, dim = context.examples, context.dim
    of_residual = np.maximum(residual, 0.0) / np.maximum(n - dim, 1)
    if np.min(n) > dim:
        return of_residual
    scatter = context.scatter.astype(np.float64)
    z = (context.energy - np.trace(scatter, axis1=1, axis2=2)) / n
    of_energy = 0.5 * (z + np.hypot(z, np.sqrt(2) / n * np.linalg.norm(scatter, axis=(1, 2))))
    return np.where(n > dim, of_residual, of_energy)
