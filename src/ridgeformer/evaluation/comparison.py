"""`evaluate` and `compare`: predictors on fresh sequences of a task."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import combinations

import numpy as np

from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, whole_number
from ridgeformer.evaluation.losses import Predictor, draw_chunks, half_square, loss_chunks, predicted_weights
from ridgeformer.evaluation.result import Comparison, Difference, Evaluation, Tally
from ridgeformer.evaluation.statistics import Moments

AnyPredictor = LinearTransformer | Predictor
OnChunk = Callable[[int], None] | None
"""Called with the number of sequences done so far."""


def evaluate(
    predictor: AnyPredictor, task: Task, sequences: int = 100_000, seed: int = 0, on_chunk: OnChunk = None
) -> Evaluation:
    """Adjusted loss on fresh sequences of ``task``; the same sequences for every predictor with the same seed.

    Sequences are drawn in the precision of a model, and in float64 for baselines. ``on_chunk(done)`` is called as the
    work goes on.
    """
    if isinstance(predictor, LinearTransformer) and task.gram_drawable:
        sequences = whole_number("sequences", sequences, 1)
        check_dim(predictor, task)
        tally, done = Tally(sequences), 0
        for adjusted, losses in loss_chunks(predictor, task, sequences, seed):
            tally.add(adjusted, losses)
            done += len(losses)
            if on_chunk is not None:
                on_chunk(done)
        return tally.evaluation()
    return compare({"": predictor}, task, sequences, seed, on_chunk).evaluations[""]


def compare(
    predictors: Mapping[str, AnyPredictor],
    task: Task,
    sequences: int = 100_000,
    seed: int = 0,
    on_chunk: OnChunk = None,
    paired: bool = True,
) -> Comparison:
    """All predictors on the same fresh sequences, and, if ``paired``, the difference of every two of them.

    The sequences are those of `evaluate`, drawn once. Differences are accumulated one by one rather than from
    covariances, so that those of nearly equal predictors keep their digits.
    """
    sequences = whole_number("sequences", sequences, 1)
    names = check_predictors(predictors)
    pairs = list(combinations(range(len(names)), 2)) if paired else []
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    tallies, apart, done = [Tally(sequences) for _ in names], Moments(len(pairs)), 0
    for draw in draw_chunks(task, sequences, seed):
        adjusted = np.empty((len(names), len(draw.sigma)))
        for row, (predictor, tally) in enumerate(zip(predictors.values(), tallies, strict=True)):
            weights = predicted_weights(predictor, draw.context, draw.oracle)
            adjusted[row] = half_square(weights, draw.oracle)
            tally.add(adjusted[row], half_square(weights, draw.weights))
        if pairs:
            with np.errstate(invalid="ignore"):  # two that diverged on the same sequence
                apart.add(adjusted[first] - adjusted[second])
        done += len(draw.sigma)
        if on_chunk is not None:
            on_chunk(done)
    found = {name: tally.evaluation() for name, tally in zip(names, tallies, strict=True)}
    errors = map(float, apart.error)
    differences = [
        _difference(names[a], names[b], float(mean), error, found)
        for (a, b), mean, error in zip(pairs, apart.mean, errors, strict=True)
    ]
    return Comparison(found, tuple(differences))


def check_dim(model: LinearTransformer, task: Task) -> None:
    """Refuse a model that was made for another number of features."""
    if model.dim != task.dim:
        raise InputError(f"The model was made for {model.dim} features; these contexts have {task.dim}.")


def check_predictors(predictors: Mapping[str, AnyPredictor]) -> list[str]:
    """The names; at least one."""
    if not isinstance(predictors, Mapping) or not predictors:
        raise InputError("predictors must be a mapping from names to at least one model or baseline.")
    return list(predictors)


def _difference(
    first: str, second: str, mean: float, error: float, evaluations: Mapping[str, Evaluation]
) -> Difference:
    if not math.isfinite(mean):  # say at least which one is the infinite one
        mean = evaluations[first].adjusted_loss - evaluations[second].adjusted_loss
    return Difference(first, second, mean, error)
