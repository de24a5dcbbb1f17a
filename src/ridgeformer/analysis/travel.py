"""Whether constants found on one task hold on others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ridgeformer.analysis.forms import ConstantForm
from ridgeformer.analysis.omega import inert, model_from_omega, natural_units
from ridgeformer.analysis.retune import Tuner
from ridgeformer.analysis.roles import step_sizes
from ridgeformer.analysis.samples import Sample
from ridgeformer.core.notation import Array
from ridgeformer.core.random import Purpose, token_rng
from ridgeformer.core.task import Task
from ridgeformer.evaluation import Evaluation, evaluate

_POOL = 32_768  # with fewer, fits of all ω explode on a few fresh sequences of some tasks
_STARTS, _SPREAD = 4, 0.3
_TRACED = 4000  # contexts on which the energy is followed


@dataclass(frozen=True)
class Journey:
    """A form of few constants on another task, or at another depth."""

    task: Task
    layers: int
    unchanged: Evaluation
    """With the constants of the first task, in the units of this one."""
    refitted: Evaluation
    constants: tuple[float, ...]
    """After refitting."""
    free: Evaluation
    """With all ω fitted, starting from there."""


def journey(
    form: ConstantForm, constants: Sequence[float], task: Task, layers: int, sequences: int = 100_000, seed: int = 0
) -> Journey:
    """Measure ``form`` with these constants on ``task``, refit it, and free all ω."""
    tuner, rng = Tuner(task, _POOL, seed), token_rng(seed, Purpose.EXPLORE, 1)
    start = np.asarray(constants, np.float64)
    factors = [np.exp(_SPREAD * rng.standard_normal(len(start))) if number else 1.0 for number in range(_STARTS)]
    fits = [tuner.fit(lambda c: form.omega(c, layers, task), start * factor) for factor in factors]
    theta, _ = min(fits, key=lambda fit: fit[1])
    refitted = form.omega(theta, layers, task)
    freed, _ = tuner.fit_omega(refitted, ~inert(layers), natural_units(task))

    def measured(omega: Array) -> Evaluation:
        return evaluate(model_from_omega(omega, task.dim), task, sequences, seed)

    at_first = measured(form.omega(start, layers, task))
    return Journey(task, layers, at_first, measured(refitted), tuple(map(float, theta)), measured(freed))


def energy_decay(omega: Array, task: Task, seed: int = 0) -> tuple[float, tuple[float, ...]]:
    """By which factor the energy of the targets falls from layer to layer in contexts of the lowest band of noise.

    (geometric mean, median λ^l / (n d) in front of every layer).
    """
    sample = Sample.draw(task, _TRACED, seed)
    lowest = sample.bands[0].label
    steps = step_sizes(model_from_omega(omega, task.dim), sample)
    energies = [step.energy / task.dim for step in steps if step.band == lowest]
    return (energies[0] / energies[-1]) ** (1 / (len(energies) - 1)), tuple(energies)
