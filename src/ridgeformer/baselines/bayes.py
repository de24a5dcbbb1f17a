"""The Bayes limit: no predictor that is not told σ can have a lower expected adjusted loss. It is found in three steps.

**How likely** the targets of a context are, given its features and σ, once w ~ N(0, I) is integrated out. Then
y ~ N(0, X Xᵀ + σ² I). X Xᵀ has the r nonzero eigenvalues s_j of Σ = Xᵀ X, and zero n − r times, so with v = σ²

    −2 log p(y | X, σ) = (n − r) ln v + Σ_{j ≤ r} ln(s_j + v) + q + const,      q = yᵀ (X Xᵀ + v I)⁻¹ y.

By the push-through identity q = (λ − Σ_j a_j² / (s_j + v)) / v. As v → 0 that is a small difference divided by a small
number. Subtracting ρ = λ − Σ_j a_j² / s_j ≥ 0, the residual sum of squares of least squares, leaves only sums of terms
that are not negative, and with b_j = a_j / s_j, the coordinates of least squares,

    q = ρ / v + Σ_j a_j² / (s_j (s_j + v)) = ρ / v + Σ_j b_j² s_j / (s_j + v).

Writing s_j = 0 and b_j = 0 for directions without data, the sums may as well run to m = min(n, d), and n − r becomes
n − m. All of it holds for n < d, n = d, n > d and contexts of any lower rank.

**Which σ** a context may have: nodes and probabilities that integrate anything smooth over p(σ | context).
A posterior can be far narrower than its prior: about σ̂ / √(2(n − d)) wide around σ̂, wherever that is. Nodes spread over
the prior would miss it. So for a continuous prior each context gets its own nodes, placed where its posterior is.

**The mean** of w*_{σ²} over those nodes is the predictor: `Bayes`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ridgeformer.baselines.least_squares import LeastSquares
from ridgeformer.core.context import Context
from ridgeformer.core.distributions import NoisePrior, Uniform, parse_noise
from ridgeformer.core.notation import Array
from ridgeformer.core.validation import InputError, whole_number
from ridgeformer.core.weights import GaussianWeights, Normal, parse_weights, whitened

_ENTRIES = 1 << 15  # contexts times nodes at a time: arrays of 256 kB, a few of which fit a core's cache
FOCUSED_NODES = 64
"""Nodes of the last rule for a uniform prior. The largest relative error of weights over d = 1 to 40, n = 1 to 10 000,
U(0, 0.01) to U(0, 100) and σ from 0.001 to 30 is 1e-10; with 48 nodes it is 1e-7, with 32 it is 4e-5."""
_ZOOMS, _COARSE = 3, 24
"""Rounds of zooming in, and points of each: a round takes away all but about 2/24 of what is too wide."""
_DISCRETE_NODES = 128
"""Of the prior's quadrature, for weights that are not Gaussian: fifty nodes a unit of σ at the quiet end of U(0, 5)."""
_DISCRETE_CONTEXTS = 2048  # at a time: their means at all nodes take 20 MB at d = 10
_NEGLIGIBLE = 40.0
"""Logarithm below the peak at which the posterior is cut off: e⁻⁴⁰ is below the rounding of what is left."""


def log_likelihood(fit: LeastSquares, sigma: Array) -> Array:
    """log p(y | X, σ) + const, (batch, k), at levels σ ≥ 0 (batch, k), each context's own; may be infinite at σ = 0."""
    variance = sigma**2
    positive = variance > 0
    v = np.where(positive, variance, 1.0)
    with np.errstate(over="ignore"):  # ρ / v, for levels that the data rule out
        # Rows with n < m, where numbers of examples differ, have directions without data below: s = 0 gives ln v back.
        total = np.reshape(fit.examples - fit.values.shape[1], (-1, 1)) * np.log(v) + fit.residual[:, None] / v
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


class Posterior(NamedTuple):
    """p(σ | context) as nodes and probabilities."""

    sigma: Array  # (batch, nodes)
    probability: Array  # (batch, nodes), rows sum to 1


def default_nodes(prior: NoisePrior, examples: int | Array) -> int:
    """Nodes that resolve posteriors of contexts with n examples.

    A prior known only by its quadrature gets enough for 16 nodes per width, 1/√(2n), of a posterior at the top of
    its range, or one and a half at a tenth of it; and never fewer than 256.
    """
    return FOCUSED_NODES if type(prior) is Uniform else max(256, math.ceil(16 * math.sqrt(2 * np.max(examples))))


def posterior(fit: LeastSquares, prior: NoisePrior, nodes: int) -> Posterior:
    """The posterior of every context, with at most ``nodes`` nodes each."""
    if type(prior) is Uniform and prior.low < prior.high:
        sigma, log_weight = _focused(fit, prior.low, prior.high, nodes)
    else:
        levels, weights = _checked_quadrature(prior, nodes)
        sigma = np.broadcast_to(levels, (len(fit.residual), len(levels)))
        log_weight = np.log(weights)
    return Posterior(sigma, _normalised(log_likelihood(fit, sigma), log_weight))


def _normalised(log_density: Array, log_weight: Array) -> Array:
    """Probabilities ∝ weight · density. Nodes of infinite density share everything; if no node is possible, all do."""
    top = log_density.max(axis=1, keepdims=True)
    finite = np.where(np.isfinite(top), log_density - np.where(np.isfinite(top), top, 0.0), 0.0)
    certain = np.isposinf(top) & ~np.isposinf(log_density)
    logarithm = np.where(certain, -np.inf, finite) + log_weight
    weight = np.exp(logarithm - logarithm.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def _focused(fit: LeastSquares, low: float, high: float, count: int) -> tuple[Array, Array]:
    """Nodes and log weights (batch, count) of a uniform prior, placed where the posterior of each context is.

    The variable is u in σ = c sinh u, the logarithm of σ well above c and linear below. In it the posterior has a width
    that does not depend on σ̂, and its nearest singularities, at σ = ±i√s_j, are of order one away.
    """
    start, scale = _lower_end(fit, high)
    left, right = np.arcsinh(np.maximum(start, low) / scale), np.arcsinh(high / scale)
    if low == 0:  # no residual though there could be one: σ = 0 beyond doubt, where all nodes go
        right = np.where((fit.residual == 0) & (fit.rank < fit.examples), left, right)
    grid = np.linspace(0.0, 1.0, _COARSE)
    for _ in range(_ZOOMS):
        u = left[:, None] + (right - left)[:, None] * grid
        sigma = scale[:, None] * np.sinh(u)
        density = log_likelihood(fit, sigma) + np.log(np.hypot(scale[:, None], sigma))  # dσ = √(c² + σ²) du
        near = density >= density.max(axis=1, keepdims=True) - _NEGLIGIBLE
        # A peak between two points can hide from both, but not beyond the neighbours of the highest point.
        first, last = near.argmax(axis=1) - 1, _COARSE - near[:, ::-1].argmax(axis=1)
        rows = np.arange(len(u))
        left, right = u[rows, np.maximum(first, 0)], u[rows, np.minimum(last, _COARSE - 1)]
    points, weights = _legendre(count)
    sigma = scale[:, None] * np.sinh(left[:, None] + (right - left)[:, None] * points)
    # Rounding in sinh(arcsinh) must not leave the support of the prior.
    return np.clip(sigma, low, high), np.log(weights) + np.log(np.hypot(scale[:, None], sigma))


def _lower_end(fit: LeastSquares, high: float) -> tuple[Array, Array]:
    """Where the posterior starts, (batch,), to a factor e^(−_NEGLIGIBLE); and a scale c for σ at that end, (batch,).

    From the formula above, d log p / d ln v ≥ ½(ρ / v − n). So from v / K up to v = min(ρ / n, high²), with
    k = ρ / v ≥ n, log p grows by at least ½ k (K − 1 − ln K), and with K = 1 + a + a², a² = 4 · _NEGLIGIBLE / k, by at
    least ½ k a² / 2 = _NEGLIGIBLE, because ln(1 + a + a²) ≤ a + a² / 2 for a ≥ 0.
    Without a residual it starts at σ = 0, and is flat below the smallest √s_j.
    """
    noisy = fit.residual > 0
    v = np.where(noisy, np.minimum(fit.residual / fit.examples, high**2), 1.0)
    a = np.sqrt(4 * _NEGLIGIBLE * v / np.where(noisy, fit.residual, 1.0))
    start = np.where(noisy, np.sqrt(v / (1 + a + a**2)), 0.0)
    smallest = np.where(fit.values > 0, fit.values, np.inf).min(axis=1)
    flat = np.sqrt(np.where(np.isfinite(smallest), smallest, 1.0))
    return start, np.where(noisy, start, flat)


def _checked_quadrature(prior: NoisePrior, nodes: int) -> tuple[Array, Array]:
    """Levels and positive weights of a prior; users bring their own."""
    try:
        sigma, weights = (np.asarray(array, np.float64) for array in prior.quadrature(nodes))
    except (TypeError, ValueError):
        sigma = weights = np.empty(0)
    valid = sigma.ndim == 1 and sigma.shape == weights.shape and sigma.size > 0
    # NaN fails every comparison. The sum to a millionth: what rules with tabulated weights reach.
    valid = valid and bool((sigma >= 0).all() and (sigma < np.inf).all() and (weights >= 0).all())
    if not valid or abs(weights.sum() - 1) > 1e-6:
        raise InputError(f"The quadrature of the prior {prior.spec!r} must give levels σ ≥ 0 and weights ≥ 0 of sum 1.")
    return sigma[weights > 0], weights[weights > 0]


@lru_cache(maxsize=8)
def _legendre(count: int) -> tuple[Array, Array]:
    """Gauss-Legendre points and weights on [0, 1]."""
    points, weights = np.polynomial.legendre.leggauss(count)
    return (points + 1) / 2, weights / 2


@dataclass(frozen=True)
class Bayes:
    """The posterior mean of w given the data D, if σ is drawn from ``prior``: E[w | D] = ∫ p(σ | D) E[w | D, σ] dσ.

    With w ~ N(0, I), E[w | D, σ] is ridge regression w*_{σ²}. With w = L u, u ~ N(0, I), it is L times that of u for
    features X L. Other distributions of weights compute E[w | D, σ] and p(y | X, σ) themselves. The adjusted loss is a
    squared distance from E[w | D, σ], so the mean of E[w | D, σ] given the data minimises its expectation.

    >>> import ridgeformer as rf
    >>> limit = rf.baselines.Bayes("uniform:5")
    >>> limit.noise_level(rf.Task(noise="fixed:2").draw_contexts(3, seed=0).context).round(1).tolist()
    [3.2, 2.0, 2.7]
    """

    prior: NoisePrior | str
    """Distribution of the noise level σ, or its spec, such as "uniform:5"."""
    nodes: int | None = None
    """Nodes of the quadrature over σ; by default enough for narrow posteriors, see `default_nodes`."""
    of_weights: Any = "normal"
    """Distribution of w, or its spec, such as "pool:64"."""
    name: ClassVar[str] = "Bayes"

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", parse_noise(self.prior))
        if self.nodes is not None:
            object.__setattr__(self, "nodes", whole_number("nodes", self.nodes, 1))
        object.__setattr__(self, "of_weights", parse_weights(self.of_weights))

    def weights(self, context: Context) -> Array:
        if not isinstance(self.of_weights, GaussianWeights):
            return self._summed(context)[0]
        if not isinstance(self.of_weights, Normal):
            L = self.of_weights.factor(context.dim)
            return Bayes(self.prior, self.nodes).weights(whitened(context, L)) @ L.T
        fit = LeastSquares.of(context)
        mean = np.empty_like(fit.coordinates)
        for rows, part, (sigma, probability) in self._parts(fit):
            variance = sigma**2
            for direction, s in enumerate(part.divisors.T[..., None]):
                # w*_{σ²} is least squares shrunk to s / (s + σ²) of itself; this is the mean of that factor.
                mean[rows, direction] = (probability * (s / (s + variance))).sum(axis=1)
        return fit.rotate_back(fit.coordinates * mean)

    def noise_level(self, context: Context) -> Array:
        """E[σ | D], (batch,)."""
        if not isinstance(self.of_weights, GaussianWeights):
            return self._summed(context)[1]
        context = self._in_unit_weights(context)
        parts = self._parts(LeastSquares.of(context))
        return np.concatenate([(probability * sigma).sum(axis=1) for _, _, (sigma, probability) in parts])

    def posterior(self, context: Context) -> Posterior:
        """p(σ | D): nodes σ (batch, nodes), each context's own, and their probabilities (batch, nodes)."""
        if not isinstance(self.of_weights, GaussianWeights):
            levels, _, probability = self._quadrature(context)
            return Posterior(np.broadcast_to(levels, probability.shape), probability)
        context = self._in_unit_weights(context)
        parts = [part for _, _, part in self._parts(LeastSquares.of(context))]
        sigma, probability = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Posterior(sigma, probability)

    def describe(self) -> str:
        known = "" if isinstance(self.of_weights, Normal) else f", w ~ {self.of_weights.spec}"
        return f"Bayes, σ ~ {self._prior.spec}{known}"

    def _in_unit_weights(self, context: Context) -> Context:
        """The contexts with features X L, whose weights are N(0, I)."""
        if isinstance(self.of_weights, Normal):
            return context
        return whitened(context, self.of_weights.factor(context.dim))

    def _quadrature(self, context: Context) -> tuple[Array, list[Array], Array]:
        """Levels (nodes,), E[w | D, σ] at each of them, and their probabilities (batch, nodes)."""
        levels, shares = _checked_quadrature(self._prior, self.nodes or _DISCRETE_NODES)
        found = [self.of_weights.posterior(context, np.full(len(context.gram), level)) for level in levels]
        if any(part is None for part in found):
            raise InputError(f"The weights {self.of_weights.spec} have no posterior in closed form, so no Bayes limit.")
        evidence = np.stack([part.log_evidence for part in found], axis=1)
        return levels, [part.mean for part in found], _normalised(evidence, np.log(shares))

    def _summed(self, context: Context) -> tuple[Array, Array]:
        """E[w | D] and E[σ | D] by the quadrature of the prior."""
        mean, level = [], []
        for start in range(0, len(context.gram), _DISCRETE_CONTEXTS):
            rows = slice(start, start + _DISCRETE_CONTEXTS)
            n = context.examples if isinstance(context.examples, int) else context.examples[rows]
            levels, means, probability = self._quadrature(Context.unchecked(context.gram[rows], n))
            mean.append(sum(p[:, None] * m for p, m in zip(probability.T, means, strict=True)))
            level.append(probability @ levels)
        return np.concatenate(mean), np.concatenate(level)

    @property
    def _prior(self) -> NoisePrior:
        assert not isinstance(self.prior, str)
        return self.prior

    def _parts(self, fit: LeastSquares) -> Iterator[tuple[slice, LeastSquares, Posterior]]:
        """The contexts a few at a time, so that memory stays bounded."""
        nodes = self.nodes or default_nodes(self._prior, fit.examples)
        count = max(1, _ENTRIES // nodes)
        for start in range(0, len(fit.residual), count):
            rows = slice(start, start + count)
            part = fit.rows(rows)
            yield rows, part, posterior(part, self._prior, nodes)
