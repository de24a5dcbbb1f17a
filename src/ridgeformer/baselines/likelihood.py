"""How likely the targets of a context are, given its features and σ, once w ~ N(0, I) is integrated out.

Then y ~ N(0, X Xᵀ + σ² I). X Xᵀ has the r nonzero eigenvalues s_j of Σ = Xᵀ X, and zero n − r times, so with v = σ²

    −2 log p(y | X, σ) = (n − r) ln v + Σ_{j ≤ r} ln(s_j + v) + q + const,      q = yᵀ (X Xᵀ + v I)⁻¹ y.

By the push-through identity q = (λ − Σ_j a_j² / (s_j + v)) / v. As v → 0 that is a small difference divided by a small
number. Subtracting ρ = λ − Σ_j a_j² / s_j ≥ 0, the residual sum of squares of least squares, leaves only sums of terms
that are not negative, and with b_j = a_j / s_j, the coordinates of least squares,

    q = ρ / v + Σ_j a_j² / (s_j (s_j + v)) = ρ / v + Σ_j b_j² s_j / (s_j + v).

Writing s_j = 0 and b_j = 0 for directions without data, the sums may as well run to m = min(n, d), and n − r becomes
n − m. All of it holds for n < d, n = d, n > d and contexts of any lower rank.
"""

from __future__ import annotations

import numpy as np

from ridgeformer.baselines.least_squares import LeastSquares
from ridgeformer.core.notation import Array


def log_likelihood(fit: LeastSquares, sigma: Array) -> Array:
    """log p(y | X, σ) + const, (batch, k), at levels σ ≥ 0 (batch, k), each context's own; may be infinite at σ = 0."""
    variance = sigma**2
    positive = variance > 0
    v = np.where(positive, variance, 1.0)
    with np.errstate(over="ignore"):  # ρ / v, for levels that the data rule out
        total = (fit.examples - fit.values.shape[1]) * np.log(v) + fit.residual[:, None] / v
    # One direction at a time: arrays (batch, k) stay in the cache, where (batch, k, m) would not.
    for s, b in zip(fit.values.T[..., None], fit.coordinates.T[..., None], strict=True):
        total += np.log(s + v)
        total += b**2 * s / (s + v)
    total *= -0.5
    return total if positive.all() else np.where(positive, total, _without_noise(fit)[:, None])


def _without_noise(fit: LeastSquares) -> Array:
    """The limit σ → 0, (batch,).

    A residual rules σ = 0 out. Without one, but with more examples than the fit needs, the density of y grows without
    bound: nothing but σ = 0 explains why they all lie on a plane. With as many examples as the fit needs it is finite.
    """
    density = -0.5 * (np.log(fit.divisors) + fit.coordinates**2).sum(axis=1)
    return np.where(fit.residual > 0, -np.inf, np.where(fit.rank < fit.examples, np.inf, density))
