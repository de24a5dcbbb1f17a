"""Kinds of model: which parameters a layer has, and which matrices P and Q they stand for.

gdpp    P = diag(p_x I, p_y), Q = diag(q_x I, 0) for every head: gradient descent with preconditioning (GD++)
diag    P = diag(p_x I, p_y), Q = diag(q_x I, q_y) for every head
full    P, Q dense (p, p) for every head

Every GD++ model is a DIAG model with q_y = 0, and every DIAG model is a FULL one. A kind of your own is a subclass of
`Kind` that is added to `KINDS`: docs/extending.md shows one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from ridgeformer.core.notation import Array
from ridgeformer.core.registry import BLUE, GREEN, VERMILLION, Look, Registry

Parameters = Mapping[str, Array]


class Dense(NamedTuple):
    """What the compiled kernels take for dense matrices."""

    P: Array  # (L, H, p, p)
    Q: Array  # (L, H, p, p)


class Blocks(NamedTuple):
    """What the compiled kernels take for matrices that are multiples of I on x and on y: sums over heads only."""

    omega: Array  # (L, 4): ω_xx, ω_xy, ω_yx, ω_yy


Compiled = Dense | Blocks


class Kind(ABC):
    """One parametrisation of the layers. The methods take ``parameters`` by name, as `LinearTransformer` holds them."""

    name: ClassVar[str]
    """In files and on the shell."""
    label: ClassVar[str]
    """In tables and legends."""
    look: ClassVar[Look]
    init_scale: ClassVar[float]
    """Standard deviation of initial parameters. The map has degree 3^L in the data: deep models explode from more."""

    @abstractmethod
    def shapes(self, layers: int, heads: int, dim: int) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the parameters: exactly the tensors of a model file."""

    @abstractmethod
    def matrices(self, parameters: Parameters, dim: int) -> tuple[Array, Array]:
        """P and Q, each (L, H, p, p), dense."""

    @abstractmethod
    def gradient(self, parameters: Parameters, P_gradient: Array, Q_gradient: Array) -> dict[str, Array]:
        """The gradient with respect to the parameters, given that with respect to dense P and Q."""

    def compiled(self, parameters: Parameters, dim: int) -> Compiled:
        """What the compiled kernels compute with; dense matrices serve every kind."""
        return Dense(*self.matrices(parameters, dim))

    def compiled_gradient(self, parameters: Parameters, gradient: tuple[Array, ...]) -> dict[str, Array]:
        """The gradient with respect to the parameters, given that with respect to the arrays of `compiled`."""
        P_gradient, Q_gradient = gradient
        return self.gradient(parameters, P_gradient, Q_gradient)

    def embedded(self, other: Kind, parameters: Parameters, dim: int) -> dict[str, Array] | None:
        """Parameters of this kind with the matrices of a model of the ``other`` kind; None if there are none."""
        return dict(parameters) if other is self else None


class Diag(Kind):
    """P and Q are multiples of I on the features and another number on the target."""

    name, label, look = "diag", "DIAG", Look(VERMILLION, (4, 1.5), "s")
    init_scale = 0.02

    def shapes(self, layers: int, heads: int, dim: int) -> dict[str, tuple[int, ...]]:
        """p and q; the last axis is the x and the y block of the diagonal."""
        return {"p": (layers, heads, 2), "q": (layers, heads, 2)}

    def diagonals(self, parameters: Parameters) -> tuple[Array, Array]:
        """p and q, each (L, H, 2)."""
        return parameters["p"], parameters["q"]

    def matrices(self, parameters: Parameters, dim: int) -> tuple[Array, Array]:
        p, q = self.diagonals(parameters)
        place = np.arange(dim + 1)
        P, Q = np.zeros((2, *p.shape[:2], dim + 1, dim + 1), p.dtype)
        for matrix, diagonal in ((P, p), (Q, q)):
            matrix[..., place, place] = np.repeat(diagonal, [dim, 1], axis=-1)
        return P, Q

    def gradient(self, parameters: Parameters, P_gradient: Array, Q_gradient: Array) -> dict[str, Array]:
        """The diagonal's entries, summed over the features."""

        def blocks(gradient: Array) -> Array:
            diagonal = np.diagonal(gradient, axis1=-2, axis2=-1)
            return np.stack([diagonal[..., :-1].sum(axis=-1), diagonal[..., -1]], axis=-1)

        width = parameters["q"].shape[-1]
        return {"p": blocks(P_gradient), "q": blocks(Q_gradient)[..., :width]}

    def omega(self, parameters: Parameters) -> Array:
        """(L, 4): ω_xx, ω_xy, ω_yx, ω_yy, sums over heads of products of p and q (the paper's section 3)."""
        p, q = self.diagonals(parameters)
        return np.einsum("lha,lhb->lab", p, q).reshape(len(p), 4)

    def omega_gradient(self, parameters: Parameters, gradient: Array) -> dict[str, Array]:
        """The gradient with respect to p and q, given that with respect to ω (L, 4)."""
        p, q = self.diagonals(parameters)
        by_block = np.asarray(gradient).reshape(len(p), 2, 2)
        q_gradient = np.einsum("lab,lha->lhb", by_block, p)
        width = parameters["q"].shape[-1]
        return {"p": np.einsum("lab,lhb->lha", by_block, q), "q": q_gradient[..., :width]}

    def compiled(self, parameters: Parameters, dim: int) -> Compiled:
        return Blocks(self.omega(parameters))

    def compiled_gradient(self, parameters: Parameters, gradient: tuple[Array, ...]) -> dict[str, Array]:
        return self.omega_gradient(parameters, gradient[0])

    def embedded(self, other: Kind, parameters: Parameters, dim: int) -> dict[str, Array] | None:
        if not isinstance(other, Diag) or isinstance(self, Gdpp):
            return super().embedded(other, parameters, dim)
        return dict(zip(("p", "q"), other.diagonals(parameters), strict=True))


class Gdpp(Diag):
    """DIAG with q_y = 0."""

    name, label, look = "gdpp", "GD++", Look(GREEN, (4, 1.2, 1, 1.2), "o")

    def shapes(self, layers: int, heads: int, dim: int) -> dict[str, tuple[int, ...]]:
        return {"p": (layers, heads, 2), "q": (layers, heads, 1)}

    def diagonals(self, parameters: Parameters) -> tuple[Array, Array]:
        p, q = parameters["p"], parameters["q"]
        return p, np.concatenate([q, np.zeros_like(q)], axis=-1)


class Full(Kind):
    """Dense matrices."""

    name, label, look = "full", "FULL", Look(BLUE, (), "^")
    init_scale = 0.002

    def shapes(self, layers: int, heads: int, dim: int) -> dict[str, tuple[int, ...]]:
        return {"P": (layers, heads, dim + 1, dim + 1), "Q": (layers, heads, dim + 1, dim + 1)}

    def matrices(self, parameters: Parameters, dim: int) -> tuple[Array, Array]:
        return parameters["P"], parameters["Q"]

    def gradient(self, parameters: Parameters, P_gradient: Array, Q_gradient: Array) -> dict[str, Array]:
        return {"P": P_gradient, "Q": Q_gradient}

    def embedded(self, other: Kind, parameters: Parameters, dim: int) -> dict[str, Array] | None:
        return dict(zip(("P", "Q"), other.matrices(parameters, dim), strict=True))


KINDS: Registry[Kind] = Registry("kind")
"""All kinds, from the smallest to the largest."""
for _kind in (Gdpp(), Diag(), Full()):
    KINDS.add(_kind)
