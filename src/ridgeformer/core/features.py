"""Distributions of the features: how the rows x of a context are made of standard normals.

A distribution is a chain of parts. Each takes rows X and hands on changed ones, beginning with independent N(0, 1), so
that ``kappa:10+rows:0.8`` is a covariance and then a correlation of neighbours. Tasks that differ only in their
features are made of the same normals: their losses can be compared sequence by sequence.

**The query** x_t is drawn like the features, unless a part says otherwise. The loss ½(<ŵ, x_t> − <w, x_t>)² of weights
ŵ then averages to ½(ŵ − w)ᵀ M (ŵ − w) with M = E[x_t x_tᵀ], the *moment*, which every part keeps up to date.

**Linear parts** only mix features, x ↦ A x with one A for all contexts, or rotate them. A chain of those is Gaussian,
and its contexts are drawn as Gram matrices, without rows (`core.random.draw_gaussian`). All others go through rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from ridgeformer.core.notation import Array
from ridgeformer.core.registry import Registry
from ridgeformer.core.specs import LARGEST, NameOnly, OneNumber, load_own, read_parts
from ridgeformer.core.spectra import ConditionSpectrum, GivenSpectrum, PowerSpectrum, Spectrum, with_trace_d
from ridgeformer.core.validation import InputError

Moment = Array | None
"""M = E[x_t x_tᵀ] of the query: None for I, (d, d) for all contexts, (batch, d, d) for one each."""


@runtime_checkable
class Features(Protocol):
    """All that the package asks of a distribution of features; write these to bring your own.

    >>> isinstance(parse_features("kappa:10"), Features)
    True
    """

    @property
    def spec(self) -> str:
        """Its name, such as ``kappa:10``."""
        ...

    def apply(self, X: Array, moment: Moment, rng: np.random.Generator) -> tuple[Array, Moment]:
        """Rows (batch, n, d) made of X, standard normals at first, and the moment M of a query."""
        ...


class Part(NameOnly):
    """One link of the chain. Subclasses say what they are called and override what they do.

    By default a spec of the part is its name only. A part with numbers has its own ``read`` and ``spec``.
    """

    name: ClassVar[str]
    """What specs begin with."""
    form: ClassVar[str]
    """An example of a spec."""
    stream: ClassVar[int] = 0
    """Names the random stream of what the part draws itself; part of every result."""
    rotates: ClassVar[bool] = False
    """Whether the part turns the axes of every context at random, besides its matrix."""

    def matrix(self, dim: int) -> Array | None:
        """A (d, d) of x ↦ A x, before the axes are turned if the part ``rotates``; None if the part is not linear."""
        return None

    def apply(self, X: Array, moment: Moment, rng: np.random.Generator) -> tuple[Array, Moment]:
        """Linear parts need no more than their matrix."""
        matrix = self.matrix(X.shape[-1])
        assert matrix is not None
        diagonal = np.diagonal(matrix)
        X = X * diagonal if np.array_equal(matrix, np.diag(diagonal)) else X @ matrix.T
        moment = mapped_moment(moment, matrix)
        return rotated(X, moment, rng) if self.rotates else (X, moment)

    def entries(self, normals: Array, rng: np.random.Generator) -> Array:
        """Entries of unit variance for queries; overridden where they are not normal."""
        return normals

    def check(self, dim: int, most_examples: int) -> None:
        """Refuse sizes that the part cannot serve."""


def mapped_moment(moment: Moment, matrix: Array) -> Array:
    """A M Aᵀ."""
    return matrix @ matrix.T if moment is None else matrix @ moment @ matrix.T


def rotated(X: Array, moment: Moment, rng: np.random.Generator) -> tuple[Array, Moment]:
    """Rows and moment in axes that are turned for every context, uniformly over all rotations (Haar)."""
    batch, _, dim = X.shape
    turn = haar(rng.standard_normal((batch, dim, dim)))
    return X @ turn.transpose(0, 2, 1), None if moment is None else turn @ moment @ turn.transpose(0, 2, 1)


def haar(normals: Array) -> Array:
    """Matrices with orthonormal columns, uniform over all of them: the Q of a Gaussian matrix, once R has a positive
    diagonal."""
    orthogonal, triangular = np.linalg.qr(normals)
    return orthogonal * np.sign(np.diagonal(triangular, axis1=-2, axis2=-1))[..., None, :]


@dataclass(frozen=True)
class Isotropic(Part):
    """x ~ N(0, I)."""

    name: ClassVar[str] = "isotropic"
    form: ClassVar[str] = "isotropic"

    def matrix(self, dim: int) -> Array:
        return np.eye(dim)

    def apply(self, X: Array, moment: Moment, rng: np.random.Generator) -> tuple[Array, Moment]:
        return X, moment


class SpectrumPart(Spectrum, Part):
    """Features with a variance of their own along each axis."""

    def matrix(self, dim: int) -> Array:
        return self.root(dim)


class Condition(ConditionSpectrum, SpectrumPart):
    """Features with condition number κ and trace d: ``kappa:10``."""


class PowerLaw(PowerSpectrum, SpectrumPart):
    """Features with variances ∝ 1/jᵃ and trace d: ``power:1``."""


class Variances(GivenSpectrum, SpectrumPart):
    """Features whose variances are written out: ``variances:4,1,0.25``."""

    def check(self, dim: int, most_examples: int) -> None:
        self.check_size("features", dim)


class Covariance(Part):
    """x ~ N(0, C) with any covariance C (d, d); an object only, because a matrix has no short spec.

    >>> Covariance([[2.0, 1.0], [1.0, 2.0]]).matrix(2).round(3).tolist()
    [[1.414, 0.0], [0.707, 1.225]]
    """

    name: ClassVar[str] = "covariance"
    form: ClassVar[str] = "covariance"

    def __init__(self, covariance: Any) -> None:
        C = np.asarray(covariance, dtype=np.float64)
        if C.ndim != 2 or C.shape[0] != C.shape[1] or not np.isfinite(C).all() or not np.allclose(C, C.T):
            raise InputError("A covariance must be a symmetric matrix (d, d) of finite numbers.")
        values, vectors = np.linalg.eigh(C)
        if values[0] < -1e-9 * max(values[-1], 0.0):  # rounding of a matrix that was computed
            raise InputError("A covariance must have no negative eigenvalue.")
        # A = V √s has A Aᵀ = C; the R of its transpose is a triangular one, also where C is singular.
        triangular = np.linalg.qr((vectors * np.sqrt(np.maximum(values, 0.0))).T)[1].T
        self._factor = triangular * np.where(np.diagonal(triangular) < 0, -1.0, 1.0)

    @property
    def spec(self) -> str:
        return f"covariance:{len(self._factor)}x{len(self._factor)}"

    def matrix(self, dim: int) -> Array:
        return self._factor

    def check(self, dim: int, most_examples: int) -> None:
        if len(self._factor) != dim:
            raise InputError(f"The covariance of the features is for d = {len(self._factor)}, not {dim}.")


@dataclass(frozen=True)
class Rotated(Part):
    """The axes of what came before, turned at random for every context."""

    name: ClassVar[str] = "rotated"
    form: ClassVar[str] = "kappa:10+rotated"
    stream: ClassVar[int] = 3
    rotates: ClassVar[bool] = True

    def matrix(self, dim: int) -> Array:
        return np.eye(dim)


@dataclass(frozen=True)
class ScaledFeatures(OneNumber, Part):
    """Features times a factor."""

    factor: float
    name: ClassVar[str] = "scale"
    form: ClassVar[str] = "scale:2"
    bounds: ClassVar[tuple[float, float]] = (1 / LARGEST, LARGEST)

    def matrix(self, dim: int) -> Array:
        return self.factor * np.eye(dim)


@dataclass(frozen=True)
class CorrelatedRows(OneNumber, Part):
    """Consecutive rows resemble each other: x_i is autoregressive with correlation ρ, each row with the same law."""

    correlation: float
    name: ClassVar[str] = "rows"
    form: ClassVar[str] = "rows:0.8"
    bounds: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def apply(self, X: Array, moment: Moment, rng: np.random.Generator) -> tuple[Array, Moment]:
        """x_1 = z_1, x_i = ρ x_{i−1} + sqrt(1 − ρ²) z_i."""
        X = X.copy()
        for i in range(1, X.shape[1]):
            X[:, i] = self.correlation * X[:, i - 1] + math.sqrt(1 - self.correlation**2) * X[:, i]
        return X, moment


@dataclass(frozen=True)
class StudentFeatures(OneNumber, Part):
    """Entries with tails of Student's t with ν > 2 degrees of freedom, scaled to the variance they had."""

    degrees: float
    name: ClassVar[str] = "student"
    form: ClassVar[str] = "student:5"
    bounds: ClassVar[tuple[float, float]] = (2.001, LARGEST)
    stream: ClassVar[int] = 4

    def apply(self, X: Array, moment: Moment, rng: np.random.Generator) -> tuple[Array, Moment]:
        return self.entries(X, rng), moment

    def entries(self, normals: Array, rng: np.random.Generator) -> Array:
        """A normal variate over sqrt(χ²_ν / ν) is a t variate, whose variance is ν / (ν − 2)."""
        return normals * np.sqrt((self.degrees - 2) / rng.chisquare(self.degrees, normals.shape))


@dataclass(frozen=True)
class UniformFeatures(Part):
    """Entries from U(−√3, √3), which has variance 1."""

    name: ClassVar[str] = "uniform"
    form: ClassVar[str] = "uniform"
    stream: ClassVar[int] = 5

    def apply(self, X: Array, moment: Moment, rng: np.random.Generator) -> tuple[Array, Moment]:
        return self.entries(X, rng), moment

    def entries(self, normals: Array, rng: np.random.Generator) -> Array:
        return math.sqrt(3) * (2 * rng.random(normals.shape) - 1)


# --- the battery of Garg, Tsipras, Liang, Valiant (What can transformers learn in-context?, NeurIPS 2022) ------------


@dataclass(frozen=True)
class Skewed(SpectrumPart):
    """Variances ∝ 1/j² with trace d, in axes turned at random for every context."""

    name: ClassVar[str] = "skewed"
    form: ClassVar[str] = "skewed"
    stream: ClassVar[int] = 9
    rotates: ClassVar[bool] = True

    def variances(self, dim: int) -> Array:
        return PowerSpectrum(2.0).variances(dim)


@dataclass(frozen=True)
class HalfSubspace(SpectrumPart):
    """All rows and the query in a random subspace of d/2 dimensions (rounded up), twice as long there."""

    name: ClassVar[str] = "subspace"
    form: ClassVar[str] = "subspace"
    stream: ClassVar[int] = 7
    rotates: ClassVar[bool] = True

    def variances(self, dim: int) -> Array:
        return with_trace_d((np.arange(dim) < (dim + 1) // 2).astype(float))


@dataclass(frozen=True)
class Quadrants(Part):
    """All rows in one quadrant, drawn at random for every context; the query anywhere: it keeps the law it had."""

    name: ClassVar[str] = "quadrants"
    form: ClassVar[str] = "quadrants"
    stream: ClassVar[int] = 6

    def apply(self, X: Array, moment: Moment, rng: np.random.Generator) -> tuple[Array, Moment]:
        signs = 2.0 * rng.integers(2, size=(len(X), 1, X.shape[2])) - 1.0
        return np.abs(X) * signs, moment


@dataclass(frozen=True)
class Orthogonal(Part):
    """A query at right angles to all rows, of the length that N(0, I) has; needs n < d.

    Its direction is uniform in the d − r dimensions that the rows leave free, so M = d/(d − r) times their projector.
    """

    name: ClassVar[str] = "orthogonal"
    form: ClassVar[str] = "orthogonal"

    def apply(self, X: Array, moment: Moment, rng: np.random.Generator) -> tuple[Array, Moment]:
        dim = X.shape[2]
        _, values, vectors = np.linalg.svd(X, full_matrices=False)
        present = values > values[:, :1] * dim * np.finfo(np.float64).eps
        rows = np.where(present[..., None], vectors, 0.0)
        free = dim - present.sum(axis=1)
        projector = np.eye(dim) - rows.transpose(0, 2, 1) @ rows
        return X, projector * (dim / free)[:, None, None]

    def check(self, dim: int, most_examples: int) -> None:
        if most_examples >= dim:
            raise InputError(f"Orthogonal features need fewer examples than features; n = {most_examples}, d = {dim}.")


FEATURES: Registry[Any] = Registry("feature distribution")
"""The parts that specs can name. A subclass of `Part` of yours with ``read`` joins by ``FEATURES.add``."""
for _part in (
    Isotropic,
    Condition,
    PowerLaw,
    Variances,
    Rotated,
    ScaledFeatures,
    CorrelatedRows,
    StudentFeatures,
    UniformFeatures,
    Skewed,
    HalfSubspace,
    Quadrants,
    Orthogonal,
):
    FEATURES.add(_part)


@dataclass(frozen=True)
class Chain:
    """Several parts, one after the other.

    >>> parse_features("kappa:10+rows:0.5").spec
    'kappa:10+rows:0.5'
    """

    parts: tuple[Any, ...]

    @property
    def spec(self) -> str:
        """The specs of the parts, joined by ``+``."""
        return "+".join(part.spec for part in self.parts)


def parse_features(spec: str | Features | Chain) -> Any:
    """Features from their spec; objects with the methods of `Features` pass through.

    Raises `InputError` for anything else. Nothing is ever imported: specs may come from files.

    >>> parse_features("kappa:10")
    Condition(kappa=10.0)
    """
    if isinstance(spec, str):
        parts = read_parts("A feature distribution", spec, FEATURES)
        return parts[0] if len(parts) == 1 else Chain(tuple(parts))
    if isinstance(spec, Features | Chain) and not isinstance(spec, type):
        return spec
    raise InputError(f"Features are a spec like 'kappa:10' or an object with spec and apply; not {spec!r}.")


def load_features(text: Any) -> Any:
    """As `parse_features`, and features of your own as ``module:Class(1)``: for the shell only."""
    known = load_own("feature distribution", text, FEATURES, parse_features) if isinstance(text, str) else text
    return parse_features(known)


def parts_of(features: Any) -> tuple[Any, ...]:
    """The links of a chain, or the one there is; without parts that do nothing."""
    parts = features.parts if isinstance(features, Chain) else (features,)
    return tuple(part for part in parts if not isinstance(part, Isotropic))


def is_builtin_features(features: Any) -> bool:
    """Whether every part is one of this package's, which its spec brings back."""
    return all(type(part) in FEATURES.values() for part in parts_of(features))


def gaussian_map(features: Any, dim: int) -> tuple[Array, bool] | None:
    """(F, rotates) if rows are F z, z ~ N(0, I), with F (d, d) lower triangular, and then perhaps turned; else None.

    Turning comes last, except for what commutes with it: factors.
    """
    total, rotates = np.eye(dim), False
    for part in parts_of(features):
        matrix = part.matrix(dim) if isinstance(part, Part) else None
        if matrix is None or (rotates and not np.allclose(matrix, matrix[0, 0] * np.eye(dim), rtol=0, atol=1e-15)):
            return None
        total, rotates = matrix @ total, rotates or part.rotates
    if np.array_equal(total, total[0, 0] * np.eye(dim)):
        rotates = False  # all axes are alike
    if (total != np.tril(total)).any():  # A = Rᵀ Qᵀ, and Qᵀ z is distributed as z
        total = np.linalg.qr(total.T)[1].T
    return total, rotates


def draw_query_rows(features: Any, normals: Array, moment: Moment, rng: np.random.Generator) -> Array:
    """Queries (batch, m, d) with this moment, made of standard normals of that shape."""
    for part in parts_of(features):
        if hasattr(part, "entries"):
            normals = part.entries(normals, rng)
    if moment is None:
        return normals
    diagonal = np.diagonal(moment, axis1=-2, axis2=-1)
    if moment.ndim == 2 and (moment == np.diag(diagonal)).all():
        return normals * np.sqrt(diagonal)
    values, vectors = np.linalg.eigh(moment)
    # What rounding leaves of a zero, 1e-16, would have the root 1e-8.
    values = np.where(values > values[..., -1:] * 1e-12, values, 0.0)
    root = vectors * np.sqrt(values)[..., None, :]
    return normals @ np.swapaxes(root, -1, -2)
