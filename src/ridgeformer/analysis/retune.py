"""Fitting the constants of a diagonal model to a fixed pool of contexts, in whatever few numbers they are written.

A form θ ↦ ω(θ) may leave ω out, tie them to each other or let them grow from layer to layer. The loss and its gradient
in ω come from the kernels; the chain rule takes them to θ; L-BFGS does the rest.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ridgeformer.analysis.omega import model_from_omega
from ridgeformer.task import Task
from ridgeformer.training.pools import Pool, pool_function, stretched_pool
from ridgeformer.training.quasi_newton import Function, QuasiNewton
from ridgeformer.types import Array

Form = Callable[[Array], Array]
"""θ (k,) ↦ ω (layers, 4)."""

CONTEXTS = 8192
"""Of a pool, unless told, up to d = 10: a fit of four layers takes a second. Fewer in more dimensions."""
_FEWEST = 1024
_STRETCH = 1.3
"""Half of the pool has its targets larger by this: with it, refitted models have lighter tails than trained ones."""
_SATURATION = 1.0  # of the first descent, which may start where the model explodes; losses of good models are below it
_DIFFERENCE = 1e-6  # relative step of central differences of ω(θ), whose error is its square


class Tuner:
    """A pool of contexts of a task, to fit constants on."""

    def __init__(self, task: Task, contexts: int | None = None, seed: int = 0, threads: int | None = None) -> None:
        """``contexts``: size of the pool, by default `CONTEXTS`, or as many as take as much memory."""
        self.dim = task.dim
        self._pool: Pool = stretched_pool(task, contexts or _affordable(task.dim), _STRETCH, seed, 0)
        self._threads = threads

    def fit(self, form: Form, start: Array, iterations: int = 150) -> tuple[Array, float]:
        """(θ, mean loss on the pool) of the best θ that L-BFGS finds from ``start``."""
        theta = np.asarray(start, np.float64)
        value = float("inf")
        for saturation in (_SATURATION, 0.0):
            function = self._function(form, theta, saturation)
            state = QuasiNewton.start(function, theta)
            for _ in range(iterations):
                if state.converged:
                    break
                state, theta, _ = state.iterate(function, theta)
            value = state.value
        return theta, float(np.exp(value))

    def fit_omega(self, omega: Array, free: Array, units: Array, iterations: int = 150) -> tuple[Array, float]:
        """(ω, mean loss) with the ω (layers, 4) marked in ``free`` refitted and all others zero.

        ``units`` (4,): the natural size of each ω, in which they are alike.
        """
        theta, loss = self.fit(masked_form(free, units), (omega / units)[free], iterations)
        return masked_form(free, units)(theta), loss

    def _function(self, form: Form, theta: Array, saturation: float) -> Function:
        template = model_from_omega(form(theta), self.dim)
        fixed = template.parameters["p"].ravel()
        on_pool = pool_function(template, self._pool, saturation, self._threads)

        def function(theta: Array) -> tuple[float, Array]:
            omega, slopes = form(theta).ravel(), jacobian(form, theta)
            if not np.isfinite(omega).all():
                return float("inf"), np.zeros_like(theta)
            value, gradient = on_pool(np.concatenate([fixed, omega]))
            return value, gradient[len(fixed) :] @ slopes

        return function


def _affordable(dim: int) -> int:
    """Contexts whose Gram matrices take as much memory as `CONTEXTS` of them at d = 10."""
    return max(min(CONTEXTS, _FEWEST), min(CONTEXTS, CONTEXTS * 11**2 // (dim + 1) ** 2))


def masked_form(free: Array, units: Array) -> Form:
    """θ in natural units ↦ ω with θ in the places of ``free`` (layers, 4) and zero elsewhere."""

    def form(theta: Array) -> Array:
        omega = np.zeros(free.shape)
        omega[free] = theta
        return omega * units

    return form


def jacobian(form: Form, theta: Array) -> Array:
    """∂ω/∂θ, (4 · layers, k), by central differences."""
    columns = []
    for place, value in enumerate(theta):
        step = np.zeros_like(theta)
        step[place] = _DIFFERENCE * max(abs(value), 1e-3)
        columns.append((form(theta + step) - form(theta - step)).ravel() / (2 * step[place]))
    return np.stack(columns, axis=-1)
