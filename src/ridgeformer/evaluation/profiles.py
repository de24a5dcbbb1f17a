"""Losses as a function of the noise level."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ridgeformer.core.distributions import Fixed, NoisePrior
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, nonnegative, whole_number
from ridgeformer.evaluation.comparison import AnyPredictor, OnChunk, check_predictors, compare
from ridgeformer.evaluation.result import Evaluation

_PRIOR_NODES = 64  # of the quadrature that tells how far a prior reaches


@dataclass(frozen=True)
class Profile:
    """Evaluations at fixed noise levels."""

    levels: tuple[float, ...]
    evaluations: Mapping[str, tuple[Evaluation, ...]]
    """Of every predictor, one for each level."""


def default_levels(prior: NoisePrior, step: float = 0.5) -> tuple[float, ...]:
    """0, ``step``, … up to one beyond the largest noise of the prior (rounded up), as in the paper's figure 2."""
    highest = math.ceil(float(np.max(prior.quadrature(_PRIOR_NODES)[0]))) + 1
    return tuple(step * k for k in range(math.floor(highest / step) + 1))


def profile(
    predictors: Mapping[str, AnyPredictor],
    task: Task,
    levels: Sequence[float] | None = None,
    sequences_per_level: int = 20_000,
    seed: int = 0,
    on_chunk: OnChunk = None,
) -> Profile:
    """Loss of every predictor at each noise level σ, by default `default_levels` of the task's prior.

    Each level is `compare` on the task with that σ alone. The streams are named by seed and purpose and a fixed σ
    draws nothing, so w, x and ξ/σ are the same numbers at every level (common random numbers): a profile is smooth in
    σ, and its differences between levels are far more precise than its error bars say.
    """
    levels = default_levels(task.prior) if levels is None else levels
    levels = tuple(nonnegative("A level of the profile", level) for level in levels)
    if not levels:
        raise InputError("A profile needs at least one noise level.")
    names = check_predictors(predictors)
    sequences = whole_number("sequences_per_level", sequences_per_level, 1)
    found: dict[str, list[Evaluation]] = {name: [] for name in names}
    for number, level in enumerate(levels):
        at_level = replace(task, noise=Fixed(level))
        seen = compare(predictors, at_level, sequences, seed, _from(on_chunk, number * sequences)).evaluations
        for name in names:
            found[name].append(seen[name])
    return Profile(levels, {name: tuple(row) for name, row in found.items()})


def _from(on_chunk: OnChunk, start: int) -> OnChunk:
    """``on_chunk`` for a part of the work that begins after ``start`` sequences."""
    return None if on_chunk is None else lambda done: on_chunk(start + done)
