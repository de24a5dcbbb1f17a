"""Kinds of model: which parameters a layer has, and which matrices P and Q they define.

gdpp    P = diag(p_x I, p_y), Q = diag(q_x I, 0) for every head: gradient descent with preconditioning (GD++)
diag    P = diag(p_x I, p_y), Q = diag(q_x I, q_y) for every head
full    P, Q dense (p, p) for every head

Every GD++ model is a DIAG model with q_y = 0, and every DIAG model is a FULL one. A kind of your own is a subclass of
`Kind` that is added to `KINDS`: docs/extending.md shows one.

With r *registers* a token is (x, m, y), where m are r numbers that start at zero. Write s = 1 + r for the length of a
token without x. Then

diag    P = blockdiag(p_x I, P_s), Q = blockdiag(q_x I, Q_s) with dense P_s, Q_s (s, s): all that commute with rotations
full    P, Q dense (d + s, d + s)

and r follows from the shapes of the parameters. GD++ has no registers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np

from ridgeformer.core.notation import Array
from ridgeformer.core.registry import BLUE, GREEN, VERMILLION, Look, Registry
from ridgeformer.core.validation import InputError

Parameters = Mapping[str, Array]
Shapes = dict[str, tuple[int, ...]]
MOST_BLOCKS = 4
"""Up to this many registers DIAG models have their own kernels, whose parameters grow in number as (1 + r)⁴."""


_REST = {1 + 2 * s**2 + s**3 * (s + 1) // 2: s for s in range(1, MOST_BLOCKS + 2)}


class Dense(NamedTuple):
    """The form in which the compiled kernels take dense matrices."""

    P: Array  # (L, H, p, p)
    Q: Array  # (L, H, p, p)


class Blocks(NamedTuple):
    """The form in which the compiled kernels take matrices that are multiples of I on x: only sums over heads.

    With G = [[Σ, K], [Kᵀ, N]], cut behind x, T = I + [[ω_xx Σ, K A], [B Kᵀ, C:N]]. The (s, s) matrices A, B and the
    tensor C with (C:N)_ae = Σ_{b ≤ c} C_aebc N_bc follow ω_xx, row by row; without registers they are ω_xy, ω_yx, ω_yy.
    """

    omega: Array  # (L, 1 + 2s² + s²·s(s + 1)/2)

    @property
    def rest(self) -> int:
        """s."""
        return _REST[self.omega.shape[1]]


Compiled = Dense | Blocks


class Kind(ABC):
    """Which parameters a layer has. The methods take ``parameters`` by name, as in `LinearTransformer`."""

    name: ClassVar[str]
    """In files and on the shell."""
    label: ClassVar[str]
    """In tables and legends."""
    look: ClassVar[Look]
    init_scale: ClassVar[float]
    """Standard deviation of initial parameters. With a larger one deep models explode: their degree in the data is
    3^L."""

    @abstractmethod
    def shapes(self, layers: int, heads: int, dim: int) -> Shapes:
        """Names and shapes of the parameters, without registers: exactly the tensors of a model file."""

    def shapes_with(self, layers: int, heads: int, dim: int, registers: int) -> Shapes:
        """The same for a model with registers; `InputError` if the kind has none."""
        if registers:
            raise InputError(f"A {self.name} model has no registers; diag and full models may have some.")
        return self.shapes(layers, heads, dim)

    def registers(self, shapes: Mapping[str, tuple[int, ...]], dim: int) -> int:
        """r, given the shapes of the parameters."""
        return 0

    @abstractmethod
    def matrices(self, parameters: Parameters, dim: int) -> tuple[Array, Array]:
        """P and Q, each (L, H, p, p), dense."""

    @abstractmethod
    def gradient(self, parameters: Parameters, P_gradient: Array, Q_gradient: Array) -> dict[str, Array]:
        """The gradient with respect to the parameters, given the gradient with respect to dense P and Q."""

    def compiled(self, parameters: Parameters, dim: int) -> Compiled:
        """The form that the compiled kernels take; by default dense matrices, which every kind has."""
        return Dense(*self.matrices(parameters, dim))

    def compiled_gradient(self, parameters: Parameters, gradient: tuple[Array, ...]) -> dict[str, Array]:
        """The gradient with respect to the parameters, given the gradient with respect to the arrays of `compiled`."""
        P_gradient, Q_gradient = gradient
        return self.gradient(parameters, P_gradient, Q_gradient)

    def compiled_gradients(self, parameters: Parameters, gradients: tuple[Array, ...]) -> Array:
        """`compiled_gradient` for each entry of the arrays' first axis, flat: (entries, size)."""
        each = (self.compiled_gradient(parameters, gradient) for gradient in zip(*gradients, strict=True))
        return np.array([np.concatenate([one[name].ravel() for name in parameters]) for one in each])

    def embedded(self, other: Kind, parameters: Parameters, dim: int) -> dict[str, Array] | None:
        """Parameters of this kind that give the same matrices as those of the ``other`` kind; None if impossible."""
        return dict(parameters) if other is self else None

    def widened(self, parameters: Parameters, more: int) -> dict[str, Array]:
        """Parameters with ``more`` registers after the others, which no layer writes or reads."""
        raise InputError(f"A {self.name} model has no registers; diag and full models may have some.")

    def without_empty_registers(self, parameters: Parameters) -> dict[str, Array]:
        """The same model, with zeros where its first layer would read registers, which are empty there.

        By default the parameters as they are: not every kind knows which of them do.
        """
        return dict(parameters)


def blank_registers(P: Array, Q: Array, first: int) -> None:
    """Zero what reads registers, in place: columns ``first`` … −2 of P and Q (…, p, p), and these rows of Q."""
    P[..., first:-1] = 0
    Q[..., first:-1] = 0
    Q[..., first:-1, :] = 0


def insert_registers(matrices: Array, more: int) -> Array:
    """Matrices (…, p, p) with ``more`` rows and columns of zeros inserted before the last."""
    for axis in (-2, -1):
        matrices = np.insert(matrices, [matrices.shape[axis] - 1] * more, 0.0, axis=axis)
    return matrices


@cache
def _omega_places(count: int) -> tuple[Array, Array, Array, Array]:
    """How `Blocks` is made of the products p_a q_b, a and b < ``count`` = 1 + s².

    P_ab Q_ce multiplies G_bc in T_ae, and G is symmetric: the two places b, c and c, b make one number. Gives the place
    of each number among the products; the second places, and which numbers have one; and the number of each product.
    """
    rest = math.isqrt(count - 1)
    product = np.arange(count**2).reshape(count, count)
    corner = product[1:, 1:].reshape(rest, rest, rest, rest).transpose(0, 3, 1, 2)  # a, e, b, c
    b, c = np.triu_indices(rest)
    both = np.broadcast_to(b != c, (rest, rest, len(b))).ravel()
    places = np.concatenate([[0], product[0, 1:], product[1:, 0], corner[..., b, c].ravel()])
    pairs = 2 * count - 1 + np.flatnonzero(both)
    seconds = corner[..., c, b].ravel()[both]
    numbers = np.empty(count**2, int)
    numbers[places], numbers[seconds] = np.arange(len(places)), pairs
    return places, seconds, pairs, numbers.reshape(count, count)


class Diag(Kind):
    """P and Q are multiples of I on the features, and dense on the rest: the registers, if there are any, and y."""

    name, label, look = "diag", "DIAG", Look(VERMILLION, (4, 1.5), "s")
    init_scale = 0.02

    def shapes(self, layers: int, heads: int, dim: int) -> Shapes:
        """p and q; the last axis is the x block of the diagonal, then the s block row by row."""
        return self.shapes_with(layers, heads, dim, 0)

    def shapes_with(self, layers: int, heads: int, dim: int, registers: int) -> Shapes:
        return dict.fromkeys(("p", "q"), (layers, heads, 1 + (1 + registers) ** 2))

    def registers(self, shapes: Mapping[str, tuple[int, ...]], dim: int) -> int:
        numbers = [shape[-1] for shape in shapes.values() if len(shape) == 3]
        return math.isqrt(max(1, numbers[0] - 1)) - 1 if numbers else 0

    def diagonals(self, parameters: Parameters) -> tuple[Array, Array]:
        """p and q, each (L, H, 1 + s²)."""
        return parameters["p"], parameters["q"]

    def matrices(self, parameters: Parameters, dim: int) -> tuple[Array, Array]:
        p, q = self.diagonals(parameters)
        rest = math.isqrt(p.shape[-1] - 1)
        place = np.arange(dim)
        P, Q = np.zeros((2, *p.shape[:2], dim + rest, dim + rest), p.dtype)
        for matrix, numbers in ((P, p), (Q, q)):
            matrix[..., place, place] = numbers[..., :1]
            matrix[..., dim:, dim:] = numbers[..., 1:].reshape(*p.shape[:2], rest, rest)
        return P, Q

    def gradient(self, parameters: Parameters, P_gradient: Array, Q_gradient: Array) -> dict[str, Array]:
        """The diagonal's entries, summed over the features, and the s block."""
        count, width = (parameters[name].shape[-1] for name in ("p", "q"))
        dim = P_gradient.shape[-1] - math.isqrt(count - 1)

        def blocks(gradient: Array) -> Array:
            diagonal = np.diagonal(gradient, axis1=-2, axis2=-1)
            rest = gradient[..., dim:, dim:].reshape(*gradient.shape[:2], count - 1)
            return np.concatenate([diagonal[..., :dim].sum(axis=-1)[..., None], rest], axis=-1)

        return {"p": blocks(P_gradient), "q": blocks(Q_gradient)[..., :width]}

    def omega(self, parameters: Parameters) -> Array:
        """The numbers of `Blocks`: without registers the paper's ω (L, 4), sums over heads of products of p and q."""
        p, q = self.diagonals(parameters)
        products = np.einsum("lha,lhb->lab", p, q).reshape(len(p), -1)
        places, seconds, pairs, _ = _omega_places(p.shape[-1])
        omega = products.take(places, axis=1)
        if len(pairs):
            omega[:, pairs] += products[:, seconds]
        return omega

    def omega_gradient(self, parameters: Parameters, gradient: Array) -> dict[str, Array]:
        """The gradient with respect to p and q, given the gradient with respect to `omega`, or many on further axes."""
        p, q = self.diagonals(parameters)
        *_, numbers = _omega_places(p.shape[-1])
        by_block = np.asarray(gradient).take(numbers, axis=-1)
        q_gradient = np.einsum("...lab,lha->...lhb", by_block, p)
        width = parameters["q"].shape[-1]
        return {"p": np.einsum("...lab,lhb->...lha", by_block, q), "q": q_gradient[..., :width]}

    def compiled(self, parameters: Parameters, dim: int) -> Compiled:
        few = parameters["p"].shape[-1] <= 1 + (1 + MOST_BLOCKS) ** 2
        return Blocks(self.omega(parameters)) if few else super().compiled(parameters, dim)

    def compiled_gradient(self, parameters: Parameters, gradient: tuple[Array, ...]) -> dict[str, Array]:
        if len(gradient) > 1:
            return super().compiled_gradient(parameters, gradient)
        return self.omega_gradient(parameters, gradient[0])

    def compiled_gradients(self, parameters: Parameters, gradients: tuple[Array, ...]) -> Array:
        if len(gradients) > 1:
            return super().compiled_gradients(parameters, gradients)
        own = self.omega_gradient(parameters, gradients[0])
        return np.concatenate([own[name].reshape(len(gradients[0]), -1) for name in parameters], axis=1)

    def embedded(self, other: Kind, parameters: Parameters, dim: int) -> dict[str, Array] | None:
        if not isinstance(other, Diag) or isinstance(self, Gdpp):
            return super().embedded(other, parameters, dim)
        return dict(zip(("p", "q"), other.diagonals(parameters), strict=True))

    def widened(self, parameters: Parameters, more: int) -> dict[str, Array]:
        wider = {}
        for name, numbers in parameters.items():
            rest = math.isqrt(numbers.shape[-1] - 1)
            corner = insert_registers(numbers[..., 1:].reshape(*numbers.shape[:2], rest, rest), more)
            wider[name] = np.concatenate([numbers[..., :1], corner.reshape(*numbers.shape[:2], -1)], axis=-1)
        return wider

    def without_empty_registers(self, parameters: Parameters) -> dict[str, Array]:
        p, q = (parameters[name].copy() for name in ("p", "q"))
        rest = math.isqrt(p.shape[-1] - 1)
        P, Q = (numbers[0, :, 1:].reshape(-1, rest, rest) for numbers in (p, q))
        blank_registers(P, Q, 0)
        p[0, :, 1:], q[0, :, 1:] = P.reshape(len(P), -1), Q.reshape(len(Q), -1)
        return {"p": p, "q": q}


class Gdpp(Diag):
    """GD++, gradient descent with preconditioning: DIAG with q_y = 0."""

    name, label, look = "gdpp", "GD++", Look(GREEN, (4, 1.2, 1, 1.2), "o")

    def shapes(self, layers: int, heads: int, dim: int) -> Shapes:
        return {"p": (layers, heads, 2), "q": (layers, heads, 1)}

    shapes_with, registers, widened = Kind.shapes_with, Kind.registers, Kind.widened
    without_empty_registers = Kind.without_empty_registers

    def diagonals(self, parameters: Parameters) -> tuple[Array, Array]:
        p, q = parameters["p"], parameters["q"]
        return p, np.concatenate([q, np.zeros_like(q)], axis=-1)


class Full(Kind):
    """FULL: dense matrices P and Q."""

    name, label, look = "full", "FULL", Look(BLUE, (), "^")
    init_scale = 0.002

    def shapes(self, layers: int, heads: int, dim: int) -> Shapes:
        return self.shapes_with(layers, heads, dim, 0)

    def shapes_with(self, layers: int, heads: int, dim: int, registers: int) -> Shapes:
        size = dim + 1 + registers
        return dict.fromkeys(("P", "Q"), (layers, heads, size, size))

    def registers(self, shapes: Mapping[str, tuple[int, ...]], dim: int) -> int:
        sizes = [shape[-1] for shape in shapes.values() if len(shape) == 4]
        return max(0, sizes[0] - dim - 1) if sizes else 0

    def matrices(self, parameters: Parameters, dim: int) -> tuple[Array, Array]:
        return parameters["P"], parameters["Q"]

    def gradient(self, parameters: Parameters, P_gradient: Array, Q_gradient: Array) -> dict[str, Array]:
        return {"P": P_gradient, "Q": Q_gradient}

    def embedded(self, other: Kind, parameters: Parameters, dim: int) -> dict[str, Array] | None:
        return dict(zip(("P", "Q"), other.matrices(parameters, dim), strict=True))

    def widened(self, parameters: Parameters, more: int) -> dict[str, Array]:
        return {name: insert_registers(matrices, more) for name, matrices in parameters.items()}


KINDS: Registry[Kind] = Registry("kind")
"""All kinds, from the smallest to the largest."""
for _kind in (Gdpp(), Diag(), Full()):
    KINDS.add(_kind)
