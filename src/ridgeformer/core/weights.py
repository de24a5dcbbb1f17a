"""Distributions of the true weights w, each with the best estimate of w when the data and σ are known.

**Gaussian weights**, w ~ N(0, Λ) with Λ = L Lᵀ. Write w = L u with u ~ N(0, I): then y = (X L) u + ξ is an ordinary
regression with features X L, and the posterior mean of u is ridge regression there. So E[w | data, σ] = L u*_{σ²},
generalised ridge regression (Σ + σ² Λ⁻¹)⁻¹ α, also where Λ is singular.

**A finite pool** of M vectors: E[w | data, σ] = Σ_m p_m w_m with p_m ∝ exp(−‖y − X w_m‖² / 2σ²), the discrete
posterior mean (Raventós, Paul, Chen, Ganguli, NeurIPS 2023). ‖y − X w‖² = λ − 2<w, α> + wᵀ Σ w needs only G.

**Sparse weights**: k of d entries are N(0, 1), the others zero. Given which ones (the support S) the posterior is
Gaussian with A = Σ_SS + σ² I, mean A⁻¹ α_S and evidence |A|^{−½} exp(α_Sᵀ A⁻¹ α_S / 2σ²); the supports are summed over.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.notation import Array
from ridgeformer.core.random import pool_rng
from ridgeformer.core.registry import Registry
from ridgeformer.core.specs import LARGEST, NameOnly, OneNumber, load_own, read_count, read_parts
from ridgeformer.core.spectra import ConditionSpectrum, GivenSpectrum, PowerSpectrum, Spectrum
from ridgeformer.core.validation import InputError, shortened

MOST_SUPPORTS = 2000
"""With more supports than this, sparse weights have only the best linear reference: never for d = 10, for d = 20 from
k = 4 on."""
_ENTRIES = 4_000_000  # numbers in memory at a time
_SAFE = 1e-6  # of tr Σ: with a larger penalty the condition number is below a million, and rounding errors below 1e-10
_QUIET = 1e-12  # a σ² below this share of the mean square of y counts as 0: it is lost in rounding errors


class Posterior(NamedTuple):
    """What the data and σ tell about w."""

    mean: Array  # E[w | data, σ], (batch, d)
    log_evidence: Array  # ln p(y | X, σ) + a constant that does not depend on σ or the data, (batch,)


@runtime_checkable
class Weights(Protocol):
    """The methods of a distribution of weights. To use your own, write these.

    >>> isinstance(parse_weights("sparse:3"), Weights)
    True
    """

    @property
    def spec(self) -> str:
        """Its name, such as ``sparse:3``."""
        ...

    def sample(self, normals: Array, rng: np.random.Generator) -> Array:
        """Weights w (batch, d), made from standard normals of that shape."""
        ...

    def covariance(self, dim: int) -> Array:
        """E[w wᵀ], (d, d); the best linear predictor depends only on it."""
        ...

    def posterior(self, context: Context, sigma: Array) -> Posterior | None:
        """The posterior given σ (batch,), for Gaussian noise; None if it has no closed form."""
        ...


class GaussianWeights(NameOnly):
    """w ~ N(0, Λ) with Λ = L Lᵀ; subclasses define L."""

    name: ClassVar[str]
    form: ClassVar[str]
    stream: ClassVar[int] = 0

    def factor(self, dim: int) -> Array:
        """L, (d, d), lower triangular."""
        raise NotImplementedError

    def scale(self, dim: int) -> float | None:
        """s if L = s I, else None."""
        return None

    def sample(self, normals: Array, rng: np.random.Generator) -> Array:
        scale, dim = self.scale(normals.shape[-1]), normals.shape[-1]
        return normals @ self.factor(dim).T if scale is None else scale * normals

    def covariance(self, dim: int) -> Array:
        L = self.factor(dim)
        return L @ L.T

    def posterior(self, context: Context, sigma: Array) -> Posterior:
        L = self.factor(context.dim)
        mean = ridge_mean(context, sigma, self.scale(context.dim), L)
        return Posterior(mean, _gaussian_evidence(whitened(context, L), sigma))

    def check(self, dim: int) -> None:
        """Raise `InputError` for a number of features that the weights are not made for."""


def whitened(context: Context, L: Array) -> Context:
    """The contexts with features X L; if w = L u, their weights are u."""
    turn = np.eye(context.dim + 1)
    turn[:-1, :-1] = L
    return Context.unchecked(turn.T @ context.gram.astype(np.float64) @ turn, context.examples)


def ridge_mean(context: Context, sigma: Array, scale: float | None, L: Array) -> Array:
    """Generalised ridge regression (Σ + σ² Λ⁻¹)⁻¹ α, (batch, d): the best linear predictor that knows σ."""
    if scale is not None:
        return context.ridge((sigma / scale) ** 2)
    return whitened(context, L).ridge(sigma**2) @ L.T


def quick_ridge(context: Context, penalty: Array) -> Array:
    """`Context.ridge` with one penalty for each context, but ten times faster.

    It solves a linear system where that is far from singular. Only small penalties need eigenvectors.
    """
    scatter, cross = (array.astype(np.float64) for array in (context.scatter, context.cross))
    safe = penalty > _SAFE * np.einsum("bii->b", scatter)
    system = scatter + np.where(safe, penalty, 1.0)[:, None, None] * np.eye(context.dim)
    weights = np.linalg.solve(system, cross[..., None])[..., 0]
    if not safe.all():
        rest = Context.unchecked(context.gram[~safe], 1)
        weights[~safe] = rest.ridge(penalty[~safe])
    return weights


def _gaussian_evidence(context: Context, sigma: Array) -> Array:
    """ln p(y | X, σ) for weights N(0, I): y ~ N(0, X Xᵀ + σ² I); determinant and inverse follow from Σ."""
    values, _, cross = context.spectrum
    variance = _audible(context, sigma)[:, None]
    fit = context.energy - (cross**2 / (values + variance)).sum(axis=1)
    n = np.broadcast_to(context.examples, len(values))
    logs = (n - context.dim) * np.log(variance[:, 0]) + np.log(values + variance).sum(axis=1)
    return -0.5 * (logs + np.maximum(fit, 0.0) / variance[:, 0])


def _audible(context: Context, sigma: Array) -> Array:
    """σ², or a lower bound of the size of rounding errors if it is nearly zero."""
    quiet = _QUIET * context.energy.astype(np.float64) / context.examples
    return np.maximum(np.asarray(sigma, np.float64) ** 2, np.maximum(quiet, np.finfo(np.float64).tiny))


@dataclass(frozen=True)
class Normal(GaussianWeights):
    """w ~ N(0, I)."""

    name: ClassVar[str] = "normal"
    form: ClassVar[str] = "normal"

    def factor(self, dim: int) -> Array:
        return np.eye(dim)

    def scale(self, dim: int) -> float:
        return 1.0

    def sample(self, normals: Array, rng: np.random.Generator) -> Array:
        return normals


class SpectrumWeights(Spectrum, GaussianWeights):
    """w ~ N(0, Λ) with Λ diagonal."""

    def factor(self, dim: int) -> Array:
        return self.root(dim)


class ConditionWeights(ConditionSpectrum, SpectrumWeights):
    """Weights whose Λ has condition number κ and trace d: ``kappa:10``."""


class PowerWeights(PowerSpectrum, SpectrumWeights):
    """Weights whose Λ has entries ∝ 1/jᵃ and trace d: ``power:1``."""


class VariancesWeights(GivenSpectrum, SpectrumWeights):
    """Weights whose variances are written out: ``variances:4,1,0.25``."""

    def check(self, dim: int) -> None:
        self.check_size("weights", dim)


@dataclass(frozen=True)
class Sparse:
    """k random entries of w are N(0, 1), the others zero; every context draws its own."""

    k: int
    name: ClassVar[str] = "sparse"
    form: ClassVar[str] = "sparse:3"
    stream: ClassVar[int] = 10

    @property
    def spec(self) -> str:
        return f"sparse:{self.k}"

    @classmethod
    def read(cls, text: str) -> Sparse:
        return cls(read_count(cls.form, text))

    def check(self, dim: int) -> None:
        if self.k > dim:
            raise InputError(f"Sparse weights have at most d = {dim} entries that are not zero, not {self.k}.")

    def sample(self, normals: Array, rng: np.random.Generator) -> Array:
        ranks = rng.random(normals.shape).argsort(axis=1).argsort(axis=1)
        return np.where(ranks < self.k, normals, 0.0)

    def covariance(self, dim: int) -> Array:
        return np.eye(dim) * (self.k / dim)

    def posterior(self, context: Context, sigma: Array) -> Posterior | None:
        dim, batch = context.dim, len(context.gram)
        if math.comb(dim, self.k) > MOST_SUPPORTS:
            return None
        supports = np.array(list(combinations(range(dim), self.k)))
        variance = _audible(context, sigma)
        scatter, cross = (array.astype(np.float64) for array in (context.scatter, context.cross))
        mean, evidence = np.empty((batch, dim)), np.empty(batch)
        for rows in _pieces(batch, len(supports) * self.k**2):
            system = scatter[rows][:, supports[:, :, None], supports[:, None, :]]
            system = system + variance[rows, None, None, None] * np.eye(self.k)
            right = cross[rows][:, supports]
            fit = np.linalg.solve(system, right[..., None])[..., 0]  # (rows, supports, k)
            explained = (fit * right).sum(axis=2) / variance[rows, None]
            logs = 0.5 * (explained - np.linalg.slogdet(system)[1])
            top = logs.max(axis=1, keepdims=True)
            share = np.exp(logs - top)
            total = share.sum(axis=1)
            full = np.zeros((len(share), dim))
            places = np.broadcast_to(supports.ravel(), (len(share), supports.size))
            np.add.at(full, (np.arange(len(share))[:, None], places), (share[..., None] * fit).reshape(len(share), -1))
            mean[rows], evidence[rows] = full / total[:, None], top[:, 0] + np.log(total)
        return Posterior(mean, evidence + _without_weights(context, variance, self.k))


def _without_weights(context: Context, variance: Array, k: int) -> Array:
    """−½((n − k) ln σ² + λ/σ²), the part of the evidence that does not depend on the support."""
    return -0.5 * ((context.examples - k) * np.log(variance) + context.energy / variance)


@dataclass(frozen=True)
class FinitePool:
    """w is one of M fixed vectors, which were drawn once from N(0, I). A small M means few different tasks."""

    size: int
    seed: int = 0
    name: ClassVar[str] = "pool"
    form: ClassVar[str] = "pool:64"
    stream: ClassVar[int] = 11
    most: ClassVar[int] = 1 << 20

    @property
    def spec(self) -> str:
        return f"pool:{self.size}" + (f",{self.seed}" if self.seed else "")

    @classmethod
    def read(cls, text: str) -> FinitePool:
        """``pool:64`` or, for another pool of that size, ``pool:64,1``."""
        size, comma, seed = text.partition(",")
        return cls(read_count(cls.form, size, 1, cls.most), read_count(cls.form, seed, 0) if comma else 0)

    def vectors(self, dim: int) -> Array:
        """(M, d)."""
        return _pool_vectors(self.size, self.seed, dim)

    def sample(self, normals: Array, rng: np.random.Generator) -> Array:
        return self.vectors(normals.shape[-1])[rng.integers(self.size, size=len(normals))]

    def covariance(self, dim: int) -> Array:
        vectors = self.vectors(dim)
        return vectors.T @ vectors / len(vectors)

    def posterior(self, context: Context, sigma: Array) -> Posterior:
        vectors, batch, dim = self.vectors(context.dim), len(context.gram), context.dim
        variance = _audible(context, sigma)
        gram = context.gram.astype(np.float64).reshape(batch, -1)
        extended = np.concatenate([-vectors, np.ones((self.size, 1))], axis=1)  # (−w, 1) G (−w, 1)ᵀ = ‖y − X w‖²
        squares = np.einsum("mi,mj->mij", extended, extended).reshape(self.size, -1)
        mean, evidence = np.empty((batch, dim)), np.empty(batch)
        for rows in _pieces(batch, self.size):
            logs = -0.5 * (gram[rows] @ squares.T) / variance[rows, None]
            top = logs.max(axis=1, keepdims=True)
            share = np.exp(logs - top)
            total = share.sum(axis=1)
            mean[rows], evidence[rows] = share @ vectors / total[:, None], top[:, 0] + np.log(total)
        return Posterior(mean, evidence - 0.5 * context.examples * np.log(variance))


@lru_cache(maxsize=8)
def _pool_vectors(size: int, seed: int, dim: int) -> Array:
    vectors = pool_rng(seed).standard_normal((size, dim))
    vectors.flags.writeable = False
    return vectors


def _pieces(batch: int, numbers: int) -> Iterator[slice]:
    count = max(1, _ENTRIES // numbers)
    return (slice(start, start + count) for start in range(0, batch, count))


@dataclass(frozen=True)
class _Factor(OneNumber):
    """``scale:2`` in a spec: multiplies the weights that the rest of the spec names."""

    factor: float
    name: ClassVar[str] = "scale"
    form: ClassVar[str] = "scale:2"
    bounds: ClassVar[tuple[float, float]] = (1 / LARGEST, LARGEST)


@dataclass(frozen=True)
class ScaledGaussian(GaussianWeights):
    """Gaussian weights multiplied by a factor."""

    inner: Any
    times: float

    @property
    def spec(self) -> str:
        return _scaled_spec(self.inner, self.times)

    def factor(self, dim: int) -> Array:
        return self.times * self.inner.factor(dim)

    def scale(self, dim: int) -> float | None:
        inner = self.inner.scale(dim)
        return None if inner is None else self.times * inner

    def check(self, dim: int) -> None:
        self.inner.check(dim)


@dataclass(frozen=True)
class ScaledWeights:
    """Any weights multiplied by a factor b: the posterior is b times that of the data with y and σ divided by b."""

    inner: Any
    times: float

    @property
    def spec(self) -> str:
        return _scaled_spec(self.inner, self.times)

    @property
    def stream(self) -> int:
        """The random stream of the inner weights."""
        return int(getattr(self.inner, "stream", OWN_STREAM))

    def sample(self, normals: Array, rng: np.random.Generator) -> Array:
        return self.times * self.inner.sample(normals, rng)

    def covariance(self, dim: int) -> Array:
        return self.times**2 * self.inner.covariance(dim)

    def posterior(self, context: Context, sigma: Array) -> Posterior | None:
        divisor = np.ones(context.dim + 1)
        divisor[-1] = self.times
        smaller = Context.unchecked(context.gram / divisor / divisor[:, None], context.examples)
        inner = self.inner.posterior(smaller, np.asarray(sigma) / self.times)
        if inner is None:
            return None
        return Posterior(self.times * inner.mean, inner.log_evidence - context.examples * math.log(self.times))

    def check(self, dim: int) -> None:
        """The check of the inner weights."""
        if hasattr(self.inner, "check"):
            self.inner.check(dim)


def _scaled_spec(inner: Any, times: float) -> str:
    factor = _Factor(times).spec
    return factor if isinstance(inner, Normal) else f"{inner.spec}+{factor}"


def scaled_weights(weights: Any, times: float) -> Any:
    """The weights times a factor."""
    if isinstance(weights, ScaledGaussian | ScaledWeights):
        weights, times = weights.inner, weights.times * times
    if times == 1:
        return weights
    return ScaledGaussian(weights, times) if isinstance(weights, GaussianWeights) else ScaledWeights(weights, times)


OWN_STREAM = 12
"""The random stream of weights that users wrote."""
WEIGHTS: Registry[Any] = Registry("distribution of weights")
"""The weights that specs can name; ``scale:2`` can be joined to any of them by ``+``."""
for _weights in (Normal, _Factor, ConditionWeights, PowerWeights, VariancesWeights, Sparse, FinitePool):
    WEIGHTS.add(_weights)


def parse_weights(spec: Any) -> Any:
    """Read weights from their spec; an object with the methods of `Weights` is returned as it is.

    Raises `InputError` for anything else.

    >>> parse_weights("sparse:3"), parse_weights("scale:2").spec, parse_weights("pool:64+scale:2").spec
    (Sparse(k=3), 'scale:2', 'pool:64+scale:2')
    """
    if isinstance(spec, str):
        parts = read_parts("A distribution of weights", spec, WEIGHTS)
        factors = [part.factor for part in parts if isinstance(part, _Factor)]
        others = [part for part in parts if not isinstance(part, _Factor)] or [Normal()]
        if len(others) > 1:
            raise InputError(f"Weights are of one kind, perhaps with a scale; {shortened(spec)} names {len(others)}.")
        return scaled_weights(others[0], math.prod(factors))
    if isinstance(spec, Weights) and not isinstance(spec, type):
        return spec
    raise InputError(f"Weights are a spec like 'sparse:3' or have spec, sample, covariance, posterior; not {spec!r}.")


def load_weights(text: Any) -> Any:
    """As `parse_weights`; also reads your own class, ``module:Class(1)``. For the shell only."""
    what = "distribution of weights"
    return parse_weights(load_own(what, text, WEIGHTS, parse_weights) if isinstance(text, str) else text)


def is_builtin_weights(weights: Any) -> bool:
    """Whether the weights are of this package, so that their spec restores them."""
    return type(getattr(weights, "inner", weights)) in WEIGHTS.values()


def linear_factor(weights: Any, dim: int) -> Array:
    """L (d, d) with L Lᵀ = E[w wᵀ], for any weights; the best linear predictor needs it."""
    if isinstance(weights, GaussianWeights):
        return weights.factor(dim)
    values, vectors = np.linalg.eigh(weights.covariance(dim))
    return vectors * np.sqrt(np.maximum(values, 0.0))


def best_linear(weights: Any, context: Context, sigma: Array) -> Array:
    """(batch, d): the best predictor that is linear in y and knows the standard deviation σ of the noise."""
    scale = weights.scale(context.dim) if isinstance(weights, GaussianWeights) else None
    if scale is not None:
        return quick_ridge(context, (sigma / scale) ** 2)
    L = linear_factor(weights, context.dim)
    return quick_ridge(whitened(context, L), sigma**2) @ L.T
