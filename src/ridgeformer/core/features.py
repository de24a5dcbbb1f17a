"""Distributions of the features: how the rows x of a context are made from standard normals.

A distribution is a chain of parts. The first part gets rows X of independent N(0, 1); each part changes the rows and
passes them to the next. ``kappa:10+rows:0.8`` first gives the features a covariance, then correlates neighbouring rows.
Tasks that differ only in their features use the same normals, so their losses can be compared sequence by sequence.

**The query** x_t is drawn like the features, unless a part says otherwise. Averaged over the query, the loss
½(<ŵ, x_t> − <w, x_t>)² of weights ŵ is ½(ŵ − w)ᵀ M (ŵ − w) with the *moment* M = E[x_t x_tᵀ]. Every part updates M.

**Linear parts** only mix features, x ↦ A x with one A for all contexts, or rotate them. If all parts are linear, rows
are Gaussian, and contexts are drawn as Gram matrices, without rows (`core.random.draw_gaussian`). Otherwise rows are
drawn.
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
"""M = E[x_t x_tᵀ] of the query: None for I, (d, d) if all contexts have the same M, else (batch, d, d)."""


@runtime_checkable
class Features(Protocol):
    """The methods of a distribution of features. To use your own, write these.

    >>> isinstance(parse_features("kappa:10"), Features)
    True
    """

    @property
    def spec(self) -> str:
        """Its name, such as ``kappa:10``."""
        ...

    def apply(self, X: Array, moment: Moment, rng: np.random.Generator) -> tuple[Array, Moment]:
        """Change the rows X (batch, n, d), which are standard normals at first, and the moment M of a query."""
        ...


class Part(NameOnly):
    """One part of the chain. Subclasses give it a name and override the methods.

    By default a spec of the part is its name only. A part with numbers has its own ``read`` and ``spec``.
    """

    name: ClassVar[str]
    """What specs begin with."""
    form: ClassVar[str]
    """An example of a spec."""
    stream: ClassVar[int] = 0
    """The number of the random stream that the part draws from. It decides results: never change it."""
    rotates: ClassVar[bool] = False
    """Whether the part also rotates the axes of every context at random, after its matrix."""

    def matrix(self, dim: int) -> Array | None:
        """A (d, d) of x ↦ A x, before any rotation of the axes; None if the part is not linear."""
        return None

    def apply(self, X: Array, moment: Moment, rng: np.random.Generator) -> tuple[Array, Moment]:
        """Multiply by the matrix of a linear part; other parts override this."""
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
        """Raise `InputError` for sizes that the part is not made for."""


def mapped_moment(moment: Moment, matrix: Array) -> Array:
    """A M Aᵀ."""
    return matrix @ matrix.T if moment is None else matrix @ moment @ matrix.T


def rotated(X: Array, moment: Moment, rng: np.random.Generator) -> tuple[Array, Moment]:
    """Rows and moment after a random rotation of the axes, a different one for each context (Haar measure)."""
    batch, _, dim = X.shape
    turn = haar(rng.standard_normal((batch, dim, dim)))
    return X @ turn.transpose(0, 2, 1), None if moment is None else turn @ moment @ turn.transpose(0, 2, 1)


def haar(normals: Array) -> Array:
    """Uniformly distributed matrices with orthonormal columns: the Q of a QR decomposition of Gaussian matrices, with
    signs such that R has a positive diagonal."""
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
    """Independent features, each with its own variance."""

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
    """x ~ N(0, C) with any covariance C (d, d). Only an object, without a spec: a matrix is too long for one.

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
        if values[0] < -1e-9 * max(values[-1], 0.0):  # smaller negative values are rounding errors
            raise InputError("A covariance must have no negative eigenvalue.")
        # A = V √s has A Aᵀ = C; the R of Aᵀ = Q R gives a triangular factor Rᵀ, also where C is singular.
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
    """Rotates the axes of the parts before it at random, for every context."""

    name: ClassVar[str] = "rotated"
    form: ClassVar[str] = "kappa:10+rotated"
    stream: ClassVar[int] = 3
    rotates: ClassVar[bool] = True

    def matrix(self, dim: int) -> Array:
        return np.eye(dim)


@dataclass(frozen=True)
class ScaledFeatures(OneNumber, Part):
    """Features multiplied by a factor."""

    factor: float
    name: ClassVar[str] = "scale"
    form: ClassVar[str] = "scale:2"
    bounds: ClassVar[tuple[float, float]] = (1 / LARGEST, LARGEST)

    def matrix(self, dim: int) -> Array:
        return self.factor * np.eye(dim)


@dataclass(frozen=True)
class CorrelatedRows(OneNumber, Part):
    """Neighbouring rows are correlated: x_i is autoregressive with correlation ρ. All rows have one distribution."""

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
    """Entries with the tails of Student's t with ν > 2 degrees of freedom; the variance does not change."""

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
    """Variances ∝ 1/j² with trace d, along axes that are rotated at random for every context."""

    name: ClassVar[str] = "skewed"
    form: ClassVar[str] = "skewed"
    stream: ClassVar[int] = 9
    rotates: ClassVar[bool] = True

    def variances(self, dim: int) -> Array:
        return PowerSpectrum(2.0).variances(dim)


@dataclass(frozen=True)
class HalfSubspace(SpectrumPart):
    """All rows and the query lie in a random subspace of d/2 dimensions (rounded up); the trace is still d."""

    name: ClassVar[str] = "subspace"
    form: ClassVar[str] = "subspace"
    stream: ClassVar[int] = 7
    rotates: ClassVar[bool] = True

    def variances(self, dim: int) -> Array:
        return with_trace_d((np.arange(dim) < (dim + 1) // 2).astype(float))


@dataclass(frozen=True)
class Quadrants(Part):
    """All rows of a context lie in one random quadrant; the query keeps its distribution."""

    name: ClassVar[str] = "quadrants"
    form: ClassVar[str] = "quadrants"
    stream: ClassVar[int] = 6

    def apply(self, X: Array, moment: Moment, rng: np.random.Generator) -> tuple[Array, Moment]:
        signs = 2.0 * rng.integers(2, size=(len(X), 1, X.shape[2])) - 1.0
        return np.abs(X) * signs, moment


@dataclass(frozen=True)
class Orthogonal(Part):
    """A query that is orthogonal to all rows, and as long as one from N(0, I); needs n < d.

    With r independent rows its direction is uniform in the d − r dimensions that are orthogonal to them, so M is
    d/(d − r) times the projector on these.
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
"""The parts that specs can name. Add your own subclass of `Part` with ``FEATURES.add``."""
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
    """Read features from their spec; an object with the methods of `Features` is returned as it is.

    Raises `InputError` for anything else. Nothing is imported: specs may come from files.

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
    """As `parse_features`; also reads your own class, ``module:Class(1)``. For the shell only."""
    known = load_own("feature distribution", text, FEATURES, parse_features) if isinstance(text, str) else text
    return parse_features(known)


def parts_of(features: Any) -> tuple[Any, ...]:
    """The parts of a chain, or the single part; without parts that change nothing."""
    parts = features.parts if isinstance(features, Chain) else (features,)
    return tuple(part for part in parts if not isinstance(part, Isotropic))


def is_builtin_features(features: Any) -> bool:
    """Whether every part is of this package, so that its spec restores it."""
    return all(type(part) in FEATURES.values() for part in parts_of(features))


def gaussian_map(features: Any, dim: int) -> tuple[Array, bool] | None:
    """(F, rotates) if rows are F z, z ~ N(0, I), with F (d, d) lower triangular, then perhaps rotated; else None.

    After a rotation only plain factors are possible, which commute with it.
    """
    total, rotates = np.eye(dim), False
    for part in parts_of(features):
        matrix = part.matrix(dim) if isinstance(part, Part) else None
        if matrix is None or (rotates and not np.allclose(matrix, matrix[0, 0] * np.eye(dim), rtol=0, atol=1e-15)):
            return None
        total, rotates = matrix @ total, rotates or part.rotates
    if np.array_equal(total, total[0, 0] * np.eye(dim)):
        rotates = False  # all axes are alike
    if (total != np.tril(total)).any():  # A = Rᵀ Qᵀ, and Qᵀ z has the same distribution as z
        total = np.linalg.qr(total.T)[1].T
    return total, rotates


def draw_query_rows(features: Any, normals: Array, moment: Moment, rng: np.random.Generator) -> Array:
    """Queries (batch, m, d) with this moment, made from standard normals of that shape."""
    for part in parts_of(features):
        if hasattr(part, "entries"):
            normals = part.entries(normals, rng)
    if moment is None:
        return normals
    diagonal = np.diagonal(moment, axis1=-2, axis2=-1)
    if moment.ndim == 2 and (moment == np.diag(diagonal)).all():
        return normals * np.sqrt(diagonal)
    values, vectors = np.linalg.eigh(moment)
    # Rounding turns a zero into 1e-16, whose root is 1e-8: not small.
    values = np.where(values > values[..., -1:] * 1e-12, values, 0.0)
    root = vectors * np.sqrt(values)[..., None, :]
    return normals @ np.swapaxes(root, -1, -2)
