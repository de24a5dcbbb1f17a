"""Classical solvers with a given number of steps, to be compared with models of as many layers.

All solve the linear system (Σ + v I) w = α of AdaRR, are given its penalty v = σ̂², and converge to AdaRR. They differ
in speed. Gradient descent reduces the error by a constant factor in each step, which depends on the condition number;
conjugate gradients by a factor that depends on its square root, and they are exact after d steps. Newton's iteration
for the inverse doubles the number of correct digits in each step, but needs matrix products (Fu, Chen, Jia, Sharan,
*Transformers learn to achieve second-order convergence rates*, 2024).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ridgeformer.baselines.iterative import eigenvalue_bound
from ridgeformer.baselines.least_squares import LeastSquares
from ridgeformer.core.context import Context
from ridgeformer.core.notation import Array
from ridgeformer.core.registry import Look
from ridgeformer.core.validation import whole_number


@dataclass(frozen=True)
class Solver:
    """A solver that stops after ``steps`` steps; subclasses define a step."""

    steps: int = 1
    name: ClassVar[str]
    look: ClassVar[Look]

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", whole_number("steps", self.steps, 1, 100_000))

    def weights(self, context: Context) -> Array:
        """(batch, d) after the last step."""
        return list(self.every_step(context))[-1]

    def every_step(self, context: Context) -> Iterator[Array]:
        """(batch, d) after step 1, 2, … ``steps``."""
        penalty = LeastSquares.of(context).noise_variance
        system = context.scatter.astype(np.float64) + penalty[:, None, None] * np.eye(context.dim)
        return self._iterates(system, context.cross.astype(np.float64))

    def _iterates(self, system: Array, right: Array) -> Iterator[Array]:
        raise NotImplementedError

    def describe(self) -> str:
        return f"{self.name}, {self.steps} steps"


def _divided(numerator: Array, denominator: Array) -> Array:
    """0 where there is nothing left to divide."""
    return np.where(denominator > 0, numerator / np.where(denominator > 0, denominator, 1.0), 0.0)


@dataclass(frozen=True)
class GradientDescent(Solver):
    """Gradient descent on the system A w = α of AdaRR: w ← w + η(α − Aw), η = 1/B, B ≥ the largest eigenvalue of A.

    >>> GradientDescent(200).weights(Context.from_tokens([[[1.0], [2.0]]], [[2.0, 4.0]])).round(6).tolist()
    [[2.0]]
    """

    name: ClassVar[str] = "GD"
    look: ClassVar[Look] = Look("#A05A2C", (1, 1), width=1.0)

    def _iterates(self, system: Array, right: Array) -> Iterator[Array]:
        step, weights = _divided(np.ones(len(right)), eigenvalue_bound(system))[:, None], np.zeros_like(right)
        for _ in range(self.steps):
            weights = weights + step * (right - (system @ weights[..., None])[..., 0])
            yield weights


@dataclass(frozen=True)
class ConjugateGradient(Solver):
    """Conjugate gradients (Hestenes and Stiefel, 1952) on the system A w = α of AdaRR; exact after d steps.

    >>> ConjugateGradient(1).weights(Context.from_tokens([[[1.0], [2.0]]], [[2.0, 4.0]])).round(6).tolist()
    [[2.0]]
    """

    name: ClassVar[str] = "CG"
    look: ClassVar[Look] = Look("#6B8E23", (3, 1), width=1.0)

    def _iterates(self, system: Array, right: Array) -> Iterator[Array]:
        weights, residual = np.zeros_like(right), right
        direction, square = residual, (residual**2).sum(axis=1)
        start = square
        for _ in range(self.steps):
            moved = (system @ direction[..., None])[..., 0]
            # Once a context is solved to rounding, further steps would only amplify what rounding left.
            going = square > 1e-28 * start
            step = np.where(going, _divided(square, (direction * moved).sum(axis=1)), 0.0)[:, None]
            weights, residual = weights + step * direction, residual - step * moved
            before, square = square, (residual**2).sum(axis=1)
            direction = residual + _divided(square, before)[:, None] * direction
            yield weights


@dataclass(frozen=True)
class Newton(Solver):
    """Newton's iteration for the inverse of A: Z ← Z(2I − AZ), from Z = A/B²; the weights are Zα.

    >>> Newton(20).weights(Context.from_tokens([[[1.0], [2.0]]], [[2.0, 4.0]])).round(6).tolist()
    [[2.0]]
    """

    name: ClassVar[str] = "Newton"
    look: ClassVar[Look] = Look("#7B68EE", (5, 1, 1, 1), width=1.0)

    def _iterates(self, system: Array, right: Array) -> Iterator[Array]:
        inverse = system * _divided(np.ones(len(right)), eigenvalue_bound(system) ** 2)[:, None, None]
        for _ in range(self.steps):
            inverse = 2 * inverse - inverse @ system @ inverse
            yield (inverse @ right[..., None])[..., 0]


SOLVERS: tuple[type[Solver], ...] = (GradientDescent, ConjugateGradient, Newton)
