"""Fitting a model to a fixed pool of contexts: a diagonal one, written in a few numbers, or a full one.

A form θ ↦ ω(θ) may leave ω out, tie them to each other or let them grow from layer to layer. The loss and its gradient
in ω come from the kernels, the chain rule gives the gradient in θ, and L-BFGS minimises. With the predictions of a full
model as targets, the same fit finds the diagonal model that is closest to it.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

import numpy as np

from ridgeformer.analysis.diagonal import DiagonalFit, inert, model_from_omega, natural_units
from ridgeformer.analysis.noise_bands import Measured, Sample, median_of, typical
from ridgeformer.core.context import Context
from ridgeformer.core.forward import context_weights
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.task import Task
from ridgeformer.core.validation import instance
from ridgeformer.training.optimisers import Function, QuasiNewton
from ridgeformer.training.pools import Pool, pool_function, stretched_pool

Form = Callable[[Array], Array]
"""θ (k,) ↦ ω (layers, 4)."""

CONTEXTS = 8192
"""Of a pool, unless told, up to d = 10: a fit of four layers takes a second. Fewer in more dimensions."""
_FEWEST = 1024
_STRETCH = 1.3
"""Half of the pool has its targets larger by this: with it, refitted models have lighter tails than trained ones."""
_SATURATION = 1.0  # of the first descent, which may start where the model explodes; losses of good models are below it
_CALMED, _TRIES = 0.8, 20  # share of its parameters that an exploding start keeps, down to 0.8^20 = 1 %
_DIFFERENCE = 1e-6  # relative step of central differences of ω(θ), whose error is its square
_STAND_IN_ITERATIONS = 300  # of the fit of a stand-in: far from a minimum at the start


class Tuner:
    """A pool of contexts of a task, to fit constants on: what `ablations` refits models with.

    >>> import ridgeformer as rf
    >>> omega, loss = Tuner(rf.Task(3, 8), 256).fit_omega(np.zeros((1, 4)), ~inert(1))
    >>> omega.shape, bool(omega[0, 2] < 0)
    ((1, 4), True)
    """

    def __init__(self, task: Task, contexts: int | None = None, seed: int = 0) -> None:
        """``contexts``: size of the pool, by default `CONTEXTS`, or as many as take as much memory."""
        self.task = instance("task", task, Task)
        self._pool: Pool = stretched_pool(task, contexts or _affordable(task.dim), _STRETCH, seed, 0)

    def towards(self, model: LinearTransformer) -> Tuner:
        """The same contexts with the predictions of ``model`` as targets, without those on which it explodes."""
        contexts, importance = self._pool
        aims = context_weights(model.astype(np.float64), Context(contexts.gram, self.task.most_examples))
        with np.errstate(over="ignore", invalid="ignore"):
            calm = typical(np.nan_to_num((aims**2).sum(axis=1), nan=np.inf))
        if not calm.any():  # nothing to come near to
            return self
        other = copy(self)
        other._pool = Pool(contexts._replace(oracle=aims).rows(calm), importance[calm])
        return other

    def fit(self, form: Form, start: Array, iterations: int = 150) -> tuple[Array, float]:
        """(θ, mean loss on the pool) of the best θ that L-BFGS finds from ``start``."""
        theta = np.asarray(start, np.float64)
        return _descend(lambda saturation: self._function(form, theta, saturation), theta, iterations)

    def fit_omega(self, omega: Array, free: Array, iterations: int = 150) -> tuple[Array, float]:
        """(ω, mean loss) with the ω (layers, 4) marked in ``free`` refitted, in natural units, and all others zero."""
        units = natural_units(self.task)
        form = masked_form(free, units)
        theta, loss = self.fit(form, (omega / units)[free], iterations)
        return form(theta), loss

    def fit_entries(self, model: LinearTransformer, free: Array, iterations: int = 40) -> LinearTransformer:
        """``model`` with those of its parameters refitted that are marked in ``free`` (size,), in its own precision.

        A full model of seven layers has two thousand numbers, the pool ten times as many targets as contexts: 40
        iterations from a trained model cost a few per cent on fresh sequences, which the control shows too.
        """

        def masked(saturation: float) -> Function:
            on_pool = pool_function(model, self._pool, saturation)

            def function(vector: Array) -> tuple[float, Array]:
                value, gradient = on_pool(vector)
                return value, np.where(free, gradient, 0.0)

            return function

        vector, _ = _descend(masked, model.flatten().astype(np.float64), iterations)
        return model.unflatten(vector)

    def _function(self, form: Form, theta: Array, saturation: float) -> Function:
        template = model_from_omega(form(theta), self.task.dim)
        fixed = template.parameters["p"].ravel()
        on_pool = pool_function(template, self._pool, saturation)

        def function(theta: Array) -> tuple[float, Array]:
            omega, slopes = form(theta).ravel(), jacobian(form, theta)
            if not np.isfinite(omega).all():
                return float("inf"), np.zeros_like(theta)
            value, gradient = on_pool(np.concatenate([fixed, omega]))
            with np.errstate(over="ignore", invalid="ignore"):  # where the model explodes the gradient has no meaning
                return value, gradient[len(fixed) :] @ slopes

        return function


def _descend(objective: Callable[[float], Function], vector: Array, iterations: int) -> tuple[Array, float]:
    """(parameters, mean loss) after L-BFGS from ``vector`` on saturated losses, and from there on the losses.

    A model that explodes even in the mean of logarithms has no gradient. It is scaled towards zero until it has one.
    """
    for saturation in (_SATURATION, 0.0):
        function = objective(saturation)
        state = QuasiNewton.start(function, vector)
        for _ in range(_TRIES):
            if np.isfinite(state.value):
                break
            vector = _CALMED * vector
            state = QuasiNewton.start(function, vector)
        for _ in range(iterations):
            if state.converged:
                break
            state, vector, _ = state.iterate(function, vector)
    return vector, float(np.exp(state.value))


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


@dataclass(frozen=True)
class DiagonalModel:
    """The nearest diagonal model of a full one, compared with it: as projected, and with its ω fitted."""

    function_share: float  # 1 − Σ‖ŵ − ŵ_diag‖² / Σ‖ŵ‖² over typical contexts: what it explains; may be negative
    median_gap: float  # median of ‖ŵ − ŵ_diag‖² / ‖ŵ‖²
    projected: Measured  # losses of the projection
    fitted: Measured  # losses after its ω are fitted to the predictions of the full model
    omega: Array  # (layers, 4) after fitting
    fitted_share: float  # as ``function_share``, after fitting


def diagonal_model(
    model: LinearTransformer, fit: DiagonalFit, sample: Sample, weights: Array, tuner: Tuner
) -> DiagonalModel:
    """Measure the projection ``fit`` of ``model``, which predicts ``weights`` (batch, d), and what is nearest to it.

    Nearest in the mean of ‖ŵ − ŵ_diag‖² over the contexts of ``tuner``, from where the projection leads.
    """
    omega, _ = tuner.towards(model).fit_omega(fit.omega, ~inert(model.layers), _STAND_IN_ITERATIONS)
    stand_ins = (model_from_omega(each, model.dim) for each in (fit.omega, omega))
    projected, fitted = (sample.layer_weights(stand_in)[-1] for stand_in in stand_ins)
    with np.errstate(over="ignore", invalid="ignore"):  # an exploding model shows in the median
        gaps = ((weights - projected) ** 2).sum(axis=1) / np.maximum((weights**2).sum(axis=1), np.finfo(float).tiny)
    return DiagonalModel(
        function_share=_share(sample, weights, projected),
        median_gap=median_of(gaps),
        projected=Measured.of(projected, sample),
        fitted=Measured.of(fitted, sample),
        omega=omega,
        fitted_share=_share(sample, weights, fitted),
    )


def _share(sample: Sample, weights: Array, other: Array) -> float:
    """Over the contexts on which neither explodes."""
    calm = typical(sample.losses(weights)) & typical(sample.losses(other))
    total = float((weights[calm] ** 2).sum())
    return 1 - float(((weights - other)[calm] ** 2).sum()) / total if total > 0 else float("nan")
