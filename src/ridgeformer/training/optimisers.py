"""Optimisers. Each is a frozen state that a step replaces by a new one, so that a run can be interrupted anywhere.

Adam (Kingma and Ba, 2015) works on one flat vector, always in float64.

L-BFGS (Liu and Nocedal, 1989) has a line search that steps back from explosions. With few parameters and a fixed pool
of contexts the loss is smooth and has no noise, so curvature helps: Adam needs thousands of steps, L-BFGS about fifty.
It minimises the logarithm of the mean loss, so that a loss of 1e-12 is as well scaled as one of 1.

`Metric` turns gradients into natural gradients (Amari, 1998); `ridgeformer.training.natural_stage` measures it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ridgeformer.core.notation import Array

Function = Callable[[Array], tuple[float, Array]]
"""Parameters → (value, gradient). Where the model explodes the value is infinite and the gradient has no meaning."""

_PAIRS = 30  # of steps and changes of the gradient: more than the parameters of a deep GD++ model
_DECREASE = 1e-4  # share of the promised decrease that a step must keep (Armijo); the usual choice
_SHRINK = 0.3  # of a step that explodes or gains too little
_ATTEMPTS = 12  # steps down to 0.3^12 ≈ 5e-7 of the first
_LARGEST_CHANGE = 0.5  # of a parameter, relative to its scale, in one iteration
_FIRST_LENGTH = 0.05  # of the first step, when nothing is known of the curvature, in the same scale
_STALLED = 1e-6  # relative gain of the loss that counts as none
_PATIENCE = 3  # iterations without gain before giving up
_DAMPING = 1e-3  # added to the curvature, relative to its diagonal
_LEAST_CURVATURE = 1e-8  # of a parameter, relative to the largest: one that does nothing stays where it is
SMALLEST_SCALE = 1e-3  # of a parameter that starts near zero


@dataclass(frozen=True)
class Adam:
    """Running moments of the gradient."""

    mean: Array
    square: Array
    count: int = 0
    mean_decay: float = 0.9
    square_decay: float = 0.999
    epsilon: float = 1e-8

    @classmethod
    def start(cls, size: int, square_decay: float = 0.999) -> Adam:
        """The state before the first step."""
        return cls(np.zeros(size), np.zeros(size), square_decay=square_decay)

    def step(self, gradient: Array, rate: float) -> tuple[Adam, Array]:
        """(state after the step, what to add to the parameters)."""
        count = self.count + 1
        mean = self.mean_decay * self.mean + (1 - self.mean_decay) * gradient
        square = self.square_decay * self.square + (1 - self.square_decay) * gradient**2
        unbiased = mean / (1 - self.mean_decay**count)
        scale = np.sqrt(square / (1 - self.square_decay**count)) + self.epsilon
        return replace(self, mean=mean, square=square, count=count), -rate * unbiased / scale


def clip_norm(gradient: Array, largest: float) -> Array:
    """The gradient, shortened to this Euclidean norm if it is longer; one that is not finite is left as it is."""
    norm = float(np.linalg.norm(gradient))
    return gradient * (largest / norm) if largest < norm < np.inf else gradient


def warmup_cosine(step: int, steps: int, warmup: int = 200, final: float = 0.01) -> float:
    """Factor of the base step size at ``step`` of ``steps``: a linear rise, then half a cosine down to ``final``."""
    rise = min(1.0, (step + 1) / warmup)
    return rise * (final + (1 - final) * 0.5 * (1 + math.cos(math.pi * step / steps)))


@dataclass(frozen=True)
class QuasiNewton:
    """What is known about the function near the current parameters."""

    value: float
    gradient: Array
    scale: Array
    """Natural size of each parameter: the first guess of the inverse curvature is its square."""
    steps: Array
    """(k, size) latest changes of the parameters, oldest first."""
    changes: Array
    """(k, size) changes of the gradient in the same steps."""
    stalled: int = 0
    """Iterations in a row without gain."""

    @classmethod
    def start(cls, function: Function, vector: Array) -> QuasiNewton:
        """The state before the first iteration."""
        value, gradient = function(vector)
        none, stalled = np.empty((0, len(vector))), 0 if np.isfinite(value) else _PATIENCE
        return cls(value, gradient, np.abs(vector) + SMALLEST_SCALE, none, none, stalled)

    @property
    def converged(self) -> bool:
        """Whether further iterations are pointless."""
        return self.stalled >= _PATIENCE

    def direction(self) -> Array:
        """Minus the approximate inverse Hessian times the gradient, by the two-loop recursion."""
        result = self.gradient.copy()
        products = np.einsum("ki,ki->k", self.steps, self.changes)
        shares = np.zeros(len(products))
        for k in reversed(range(len(products))):
            shares[k] = self.steps[k] @ result / products[k]
            result -= shares[k] * self.changes[k]
        result *= self.scale**2 * self._curvature_length(products)
        for k in range(len(products)):
            result += (shares[k] - self.changes[k] @ result / products[k]) * self.steps[k]
        return -result

    def _curvature_length(self, products: Array) -> float:
        """Factor of the first guess: from the latest pair, or such that the first step has `_FIRST_LENGTH`."""
        if len(products):
            return float(products[-1] / (self.changes[-1] ** 2 * self.scale**2).sum())
        norm = float(np.linalg.norm(self.gradient * self.scale))
        return _FIRST_LENGTH / norm if norm > 0 else 0.0

    def iterate(self, function: Function, vector: Array) -> tuple[QuasiNewton, Array, float]:
        """(state, parameters, share of the full step) after one iteration; the value never rises."""
        direction = self.direction()
        slope = float(self.gradient @ direction)
        largest = float(np.abs(direction / self.scale).max())
        share = min(1.0, _LARGEST_CHANGE / largest) if largest > 0 else 0.0
        for _ in range(_ATTEMPTS if slope < 0 else 0):
            value, gradient = function(vector + share * direction)
            if value <= self.value + _DECREASE * share * slope:
                gained = self.value - value > _STALLED
                state = self._remembering(share * direction, gradient - self.gradient)
                state = replace(state, value=value, gradient=gradient, stalled=0 if gained else self.stalled + 1)
                return state, vector + share * direction, share
            share *= _SHRINK
        # No step is good enough. Forget the curvature; if there is none to forget, stop.
        stalled = self.stalled + 1 if len(self.steps) else _PATIENCE
        return replace(self, steps=self.steps[:0], changes=self.changes[:0], stalled=stalled), vector, 0.0

    def _remembering(self, step: Array, change: Array) -> QuasiNewton:
        """With one more pair, if it shows positive curvature."""
        if step @ change <= 1e-12 * np.linalg.norm(step) * np.linalg.norm(change):  # rounding
            return self
        steps, changes = np.vstack([self.steps, step]), np.vstack([self.changes, change])
        return replace(self, steps=steps[-_PAIRS:], changes=changes[-_PAIRS:])


@dataclass(frozen=True)
class Metric:
    """The curvature of the loss as a matrix, in which the lengths of steps are measured."""

    matrix: Array
    """(size, size), symmetric, positive semidefinite."""

    @cached_property
    def _factor(self) -> tuple[Array, Array]:
        """Cholesky's factor of the damped matrix, scaled to a unit diagonal; and that scaling."""
        from scipy.linalg import cholesky  # slow to import, and few need it; faster than NumPy's

        diagonal = self.matrix.diagonal()
        scale = 1 / np.sqrt(np.maximum(diagonal, max(_LEAST_CURVATURE * diagonal.max(), np.finfo(np.float64).tiny)))
        scaled = self.matrix * scale[:, None] * scale
        scaled[np.diag_indices_from(scaled)] += _DAMPING
        return cholesky(scaled.T, lower=True, overwrite_a=True, check_finite=False), scale  # .T: in LAPACK's order

    def natural(self, gradient: Array, largest: float) -> Array:
        """H⁻¹ gradient, damped; shortened to the length ``largest`` in the metric of H if it is longer."""
        from scipy.linalg import solve_triangular

        factor, scale = self._factor
        half = solve_triangular(factor, scale * gradient, lower=True, check_finite=False)
        with np.errstate(over="ignore"):
            length = float(np.linalg.norm(half))
        if not np.isfinite(length):
            return np.zeros_like(gradient)
        step = scale * solve_triangular(factor, half, lower=True, trans=1, check_finite=False)
        return step * (largest / length) if length > largest else step
