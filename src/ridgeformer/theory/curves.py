"""The quantitative results of the theory as curves, each beside the bound or formula that it illustrates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ridgeformer.core.distributions import parse_noise
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.random import Purpose, check_seed, token_rng
from ridgeformer.core.task import Task
from ridgeformer.core.validation import instance
from ridgeformer.theory.implicit_model import implicit_models
from ridgeformer.theory.nonlinear_limit import CosineRecord, cosine_records
from ridgeformer.theory.numerics import OnStage, residual_energy, silent
from ridgeformer.theory.second_order import IterationCount, condition_excesses, iteration_counts, second_order_network
from ridgeformer.theory.step_size import adaptive_step
from ridgeformer.theory.two_layer import Convergence, convergence

_LENGTHS = (20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)  # n for Theorem 4.2, at d = 10 or the model's d
_KAPPAS = (1e1, 1e2, 1e4)
_EPSILONS = tuple(10.0**-power for power in range(1, 11))
_PAIRS = ((1.0, 3.0), (0.0, 2.0), (0.2, 5.0))  # (σ1, σ2) for Theorem 5.2
_SIZES = (100, 1000, 10_000, 100_000, 1_000_000)
_CONTEXTS = 200  # points of the step sizes
_LARGEST, _KAPPA = 150.0, 1e3  # no eigenvalue of Σ above, and hardly one below a thousandth of it, at d = 10, n = 20


@dataclass(frozen=True)
class StepCurve:
    """Section 5.3 in contexts of mixed noise: step sizes divided by −ω_yx, and residuals of OLS; (contexts,) each."""

    omega_xy: float
    residuals: Array  # Σ r_i² of OLS
    at_start: Array  # 1 + ω_xy Σ y_i², exact where ω_xy and ω_yx are the first two layers
    behind_fit: Array  # 1 + ω_xy λ^l, exact behind the GD++ layers of Theorem 5.1, which have nearly done the fit
    printed: Array  # 1 + ω_xy Σ r_i²


@dataclass(frozen=True)
class Curves:
    """One curve or family of curves for each result that is about a limit; `theory_curves` makes it."""

    cosines: tuple[CosineRecord, ...]  # Theorem 4.2 as n grows: random models, or the one that was given
    excesses: Mapping[float, tuple[float, ...]]
    """Theorem 5.1: κ − 1 before the first and after every preconditioning layer, by the κ of the start."""
    iterations: tuple[IterationCount, ...]
    """Theorem 5.1: layers against steps of gradient descent and conjugate gradients."""
    convergence: Mapping[tuple[float, float], tuple[Convergence, ...]]  # Theorem 5.2 as n grows, by (σ1, σ2)
    steps: StepCurve  # section 5.3


def theory_curves(
    seed: int = 0, model: LinearTransformer | None = None, examples: int | None = None, on_stage: OnStage = silent
) -> Curves:
    """All curves (a few seconds).

    Parameters
    ----------
    seed: names the random contexts and models.
    model: if given, the cosines of Theorem 4.2 are those of this model, made for contexts of ``examples`` examples.
    on_stage: called with what is being computed and the share of all work that is done.

    Returns one record; raises `InputError` for arguments of the wrong kind. Section 5.3 alone is `step_curve`:

    >>> step_curve().printed.shape
    (200,)
    """
    rng = token_rng(check_seed(seed), Purpose.EXPLORE, 5)
    on_stage("curve of Theorem 4.2", 0.0)
    dim = 10 if model is None else instance("model", model, LinearTransformer).dim
    cosines = cosine_records(dim, _LENGTHS, rng, model, made_for=examples)
    on_stage("curves of Theorem 5.1", 0.25)
    counts = iteration_counts(_KAPPAS, _EPSILONS)
    on_stage("curves of Theorem 5.2", 0.5)
    limits = {pair: tuple(convergence(*pair, sizes=_SIZES, seed=seed)) for pair in _PAIRS}
    on_stage("curve of section 5.3", 0.75)
    excesses = {kappa: _visible_excesses(kappa) for kappa in _KAPPAS}
    return Curves(tuple(cosines), excesses, tuple(counts), limits, step_curve(seed))


def _visible_excesses(kappa: float) -> tuple[float, ...]:
    """Until κ − 1 is below the rounding of float64, where the curve ends."""
    excesses = condition_excesses(kappa, 40)
    above = sum(excess >= np.finfo(np.float64).eps for excess in excesses)
    return tuple(excesses[: above + 1])


def step_curve(seed: int = 0) -> StepCurve:
    """Step sizes in contexts with σ ~ U(0, 5), d = 10, n = 20, for ω_xy = −1/(2 · the largest Σ y²)."""
    task = Task(10, 20, parse_noise("uniform:5"))
    context = task.draw_contexts(_CONTEXTS, seed=seed).context
    omega_xy = -0.5 / float(context.energy.max())
    fitted = implicit_models(second_order_network(10, _KAPPA, 0.1, _LARGEST), context)[-1]
    residuals = residual_energy(context)
    energies = context.energy, fitted.statistics(context).energy, residuals
    return StepCurve(omega_xy, residuals, *(adaptive_step(omega_xy, -1.0, energy) for energy in energies))
