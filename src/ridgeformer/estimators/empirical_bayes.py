"""Posteriors of many problems with one prior, which is learned from all of them. NumPy only.

The model. Problem g has features X_g (n_g × p) and targets y_g = X_g w_g + σ_g·N(0, I), with w_g ~ N(μ, diag τ²) and
σ_g ~ F. μ, τ and F are not given. This is the Bayes limit of `ridgeformer.baselines.bayes` with a learned prior.

**One problem, given the prior.** Let u = (w − μ)/τ ~ N(0, I), A = diag(τ) XᵀX diag(τ) and a = diag(τ) Xᵀ(y − Xμ). The
formulas of `baselines.bayes` hold in the eigenbasis of A: with eigenvalues s_j, least-squares coordinates b_j and
residual ρ, and v = σ²,

    −2 log p(y | σ) = (n − p) ln v + Σ_j ln(s_j + v) + ρ / v + Σ_j s_j b_j² / (s_j + v) + const,
    E[u_j | σ] = b_j s_j / (s_j + v),       Var[u_j | σ] = v / (s_j + v).

F is a distribution over a grid of levels. So p(σ | y) is a row of probabilities, and the mean and the covariance of u
are sums over that row; the covariance is the mean of the variances plus the covariance of the means.

**The prior, given many problems** is learned in `ridgeformer.estimators.learning`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ridgeformer.baselines.bayes import log_likelihood
from ridgeformer.baselines.least_squares import LeastSquares
from ridgeformer.core.notation import Array


@dataclass(frozen=True)
class NoiseLevels:
    """The learned distribution of σ, over a few levels. It is a `NoisePrior`, so tasks and `Bayes` accept it."""

    levels: Array
    """(K,), ascending."""
    weights: Array
    """(K,), of sum 1."""

    @property
    def spec(self) -> str:
        """A name; the levels themselves are in ``levels``."""
        return f"learned:{self.levels[0]:.3g}-{self.levels[-1]:.3g}"

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """(size,) levels."""
        return rng.choice(self.levels, size=size, p=self.weights)

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        """All levels and their weights, however many nodes are asked for."""
        return self.levels, self.weights

    @property
    def variance(self) -> float:
        """E σ²."""
        return float(self.weights @ self.levels**2)


@dataclass(frozen=True)
class WeightPrior:
    """The prior distribution of a problem's weights and noise level, before its rows are seen."""

    mean: Array
    """μ, (p,)."""
    scale: Array
    """τ, (p,)."""
    noise: NoiseLevels
    """F."""
    mean_variance: Array
    """(p,): squared standard error of the learned mean. Predictions use τ² plus this."""

    @property
    def spread(self) -> Array:
        """(p,): √(τ² + variance of the learned mean), the standard deviation of a new problem's weights around μ."""
        return np.sqrt(self.scale**2 + self.mean_variance)


class Posteriors(NamedTuple):
    """Each problem's posterior, mixed over its σ."""

    mean: Array  # E[w], (groups, p)
    covariance: Array  # Cov[w], (groups, p, p)
    within: Array  # E[Cov[u | σ]] in units of the prior, (groups, p, p)
    levels: Array  # p(σ | y), (groups, K)
    log_likelihood: Array  # log p(y | σ) + const, (groups, K)


def posteriors(examples: Array, gram: Array, prior: WeightPrior, scale: Array, learning: bool = True) -> Posteriors:
    """Posteriors of problems with n (groups,) and Gram matrices (groups, p + 1, p + 1), with τ = ``scale``.

    This is the plain version of `kernels.group_posteriors`.

    ``learning`` says whether ``within`` and ``log_likelihood`` are needed; here they cost nothing.
    """
    fit = _least_squares(examples, gram, prior.mean, scale)
    variance = prior.noise.levels**2
    likelihood = log_likelihood(fit, np.broadcast_to(prior.noise.levels, (len(gram), len(variance))))
    probability = level_probabilities(likelihood, prior.noise.weights)
    share = fit.values[..., None] / (fit.values[..., None] + variance)  # s / (s + v), (groups, p, K)
    means = fit.coordinates[..., None] * share
    mean = np.einsum("gjk,gk->gj", means, probability)
    remaining = np.einsum("gjk,gk->gj", 1 - share, probability)  # E[v / (s + v)]
    spread = (means * probability[:, None]) @ means.transpose(0, 2, 1) - mean[:, :, None] * mean[:, None]
    V = fit.vectors
    within = (V * remaining[:, None]) @ V.transpose(0, 2, 1)
    total = within + V @ spread @ V.transpose(0, 2, 1)
    weights = prior.mean + scale * np.einsum("gij,gj->gi", V, mean)
    return Posteriors(weights, scale[:, None] * scale * total, within, probability, likelihood)


def _least_squares(examples: Array, gram: Array, mean: Array, scale: Array) -> LeastSquares:
    """Least squares of y − Xμ on X diag(τ) in the eigenbasis of A; directions without data are kept as zeros."""
    scatter, cross, energy = gram[:, :-1, :-1], gram[:, :-1, -1], gram[:, -1, -1]
    moved = scatter @ mean
    left = cross - moved
    energy = energy - cross @ mean - left @ mean
    values, vectors = np.linalg.eigh(scale[:, None] * scale * scatter)
    present = values > values[:, -1:] * (values.shape[1] * np.finfo(np.float64).eps)
    rotated = np.einsum("gij,gi->gj", vectors, scale * left)
    coordinates = np.where(present, rotated, 0.0) / np.where(present, values, 1.0)
    residual = np.maximum(energy - (coordinates * rotated).sum(axis=1), 0.0)
    kept = np.where(present, values, 0.0)
    return LeastSquares(examples, kept, coordinates, vectors, residual, residual)


def level_probabilities(likelihood: Array, weights: Array) -> Array:
    """p(σ_k | y), (groups, K), from log p(y | σ_k) and the weights of F."""
    with np.errstate(divide="ignore"):
        logarithm = likelihood + np.log(weights)
    logarithm -= logarithm.max(axis=1, keepdims=True)
    np.exp(logarithm, out=logarithm)
    logarithm /= logarithm.sum(axis=1, keepdims=True)
    return logarithm


Solver = Callable[[Array, Array, WeightPrior, Array, bool], Posteriors]
"""`posteriors`, or the compiled version of it."""
