"""`evaluate`, `compare`, `layerwise` and `profile`: predictors on fresh sequences of a task."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from ridgeformer.core.backend import engine
from ridgeformer.core.distributions import Fixed, NoisePrior
from ridgeformer.core.forward import check_model
from ridgeformer.core.mixture import Mixture, parse_mixture
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.predictor import Predictor, as_predictor
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, instance, items_of, nonnegative, whole_number
from ridgeformer.evaluation.scoring import half_square, loss_chunks, probes_of, score
from ridgeformer.evaluation.statistics import Comparison, Difference, Evaluation, Moments, Tally

OnChunk = Callable[[int], None] | None
"""Called with the number of sequences done so far."""
_MOST_LEVELS = 1000  # of a profile with default levels
_PRIOR_NODES = 64  # of the quadrature that finds the largest σ of a prior


def evaluate(
    predictor: Any, task: Task | NoisePrior | str, sequences: int = 100_000, seed: int = 0, on_chunk: OnChunk = None
) -> Evaluation:
    """Adjusted loss of a predictor on fresh sequences.

    Parameters
    ----------
    predictor: a model, a baseline, a scikit-learn regressor or a function of (X, y, queries): see `as_predictor`.
    task: what sequences are drawn from. A noise prior or its spec, such as "uniform:5", means the task of the model's
        training, with that noise.
    sequences: how many sequences.
    seed: the same seed gives the same sequences for every predictor.
    on_chunk: a function that is called from time to time with the number of sequences done.

    Returns an `Evaluation`: mean with standard error, quantiles, maximum, and how many sequences gave no finite loss.
    Raises `InputError` if predictor and task do not fit. Sequences are drawn in the precision of the model, and in
    float64 for other predictors.

    >>> import ridgeformer as rf
    >>> round(rf.evaluate(rf.baselines.AdaRR(), "uniform:5", sequences=1000).adjusted_loss, 1)
    0.1
    """
    chosen = as_predictor(predictor)
    task = as_task(task, [chosen])
    if isinstance(chosen, LinearTransformer) and task.standard:
        tally, done = Tally(whole_number("sequences", sequences, 1)), 0
        for adjusted, losses in loss_chunks(check_model(chosen, task.dim), task, sequences, seed):
            tally.add(adjusted, losses)
            done += len(losses)
            if on_chunk is not None:
                on_chunk(done)
        return tally.evaluation()
    return compare({"": chosen}, task, sequences, seed, on_chunk).evaluations[""]


def compare(
    predictors: Mapping[str, Any],
    task: Task | NoisePrior | str,
    sequences: int = 100_000,
    seed: int = 0,
    on_chunk: OnChunk = None,
    paired: bool = True,
) -> Comparison:
    """Measure several predictors on the same fresh sequences.

    Parameters
    ----------
    predictors: a mapping from names to predictors, each anything that `evaluate` takes.
    task, sequences, seed, on_chunk: as in `evaluate`; the sequences are drawn once, in float64.
    paired: whether to measure the difference of every two predictors, sequence by sequence.

    Returns a `Comparison`: an `Evaluation` of each predictor, and the paired differences with their standard errors.
    Each difference is summed directly, not computed from covariances, so that it is precise also for predictors that
    are nearly equal. Raises `InputError` if predictors and task do not fit.

    >>> import ridgeformer as rf
    >>> zero = lambda X, y, queries: 0 * queries[..., 0]
    >>> result = rf.compare({"AdaRR": rf.baselines.AdaRR(), "zero": zero}, rf.Task(3, 8), sequences=500)
    >>> result.difference("AdaRR", "zero").mean < 0
    True
    """
    sequences, paired = whole_number("sequences", sequences, 1), instance("paired", paired, bool)
    chosen = check_predictors(predictors)
    task, names = as_task(task, chosen.values()), list(chosen)
    pairs = list(combinations(range(len(names)), 2)) if paired else []
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    tallies, gaps, done = [Tally(sequences) for _ in names], Moments(len(pairs)), 0
    for step, draw in enumerate(task.chunks(sequences, seed)):
        adjusted = np.empty((len(names), len(draw.sigma)))
        for row, (predictor, tally) in enumerate(zip(chosen.values(), tallies, strict=True)):
            adjusted[row], losses = score(predictor, draw, probes_of(draw, task, seed, step))
            tally.add(adjusted[row], losses)
        if pairs:
            with np.errstate(invalid="ignore"):  # two that diverged on the same sequence
                gaps.add(adjusted[first] - adjusted[second])
        done += len(draw.sigma)
        if on_chunk is not None:
            on_chunk(done)
    evaluations = {name: tally.evaluation() for name, tally in zip(names, tallies, strict=True)}
    errors = map(float, gaps.error)
    differences = [
        _difference(names[a], names[b], float(mean), error, evaluations)
        for (a, b), mean, error in zip(pairs, gaps.mean, errors, strict=True)
    ]
    return Comparison(evaluations, tuple(differences))


def check_predictors(predictors: Mapping[str, Any]) -> dict[str, Predictor]:
    """The predictors, each turned into one by `as_predictor`; `InputError` if there are none."""
    if not isinstance(predictors, Mapping) or not predictors:
        raise InputError("predictors must be a mapping from names to at least one predictor.")
    return {name: as_predictor(predictor) for name, predictor in predictors.items()}


def as_task(task: Any, predictors: Any) -> Task:
    """The task itself; for a noise prior or its spec, the task of the first model's training with that noise."""
    if isinstance(task, str | NoisePrior):
        models = [predictor for predictor in predictors if isinstance(predictor, LinearTransformer)]
        task = trained_on(models[0], task) if models else Task(noise=task)
    instance("task", task, Task, " It can also be a noise prior such as 'uniform:5'.")
    for predictor in predictors:
        if isinstance(predictor, LinearTransformer):
            check_model(predictor, task.dim)
    return task


def trained_on(model: LinearTransformer, noise: NoisePrior | str | None = None) -> Task:
    """The task that a model was trained on, as far as its file says; with another noise prior if one is given.

    Raises `InputError` if the model was trained with a noise prior that its file cannot restore.

    >>> import ridgeformer as rf
    >>> trained_on(rf.load("diag-4-uniform-5"))
    Task(dim=10, examples=20, noise=Uniform(high=5.0, low=0.0))
    """
    recorded = model.info.get("task")
    recorded = recorded if isinstance(recorded, Mapping) else {}
    examples = recorded.get("examples", recorded.get("context", 2 * model.dim))
    others = {name: recorded[name] for name in ("features", "weights", "noise_shape") if name in recorded}
    if noise is not None:
        return Task(model.dim, examples, noise, **others)
    if "prior" in recorded:
        raise InputError(
            f"This model was trained with a noise prior that files cannot restore, {recorded['prior']}; pass it."
        )
    task = Task(model.dim, examples, recorded.get("noise", "uniform:5"), **others)
    return parse_mixture(recorded["mixture"], task) if "mixture" in recorded else task


def _difference(
    first: str, second: str, mean: float, error: float, evaluations: Mapping[str, Evaluation]
) -> Difference:
    if not math.isfinite(mean):  # the sign still says which of the two is infinite
        mean = evaluations[first].adjusted_loss - evaluations[second].adjusted_loss
    return Difference(first, second, mean, error)


def layerwise(
    model: Any,
    task: Task | NoisePrior | str,
    sequences: int = 100_000,
    seed: int = 0,
    on_chunk: OnChunk = None,
) -> tuple[Evaluation, ...]:
    """Evaluate the prediction of a model after 1, 2, … L layers, on the sequences of `evaluate`.

    The prediction is read from the query token after a layer, as if the layers after it did not exist (the paper's
    figure 5).

    Parameters
    ----------
    model: a model, or another predictor with ``layers`` and ``first_layers``, such as a module of `ridgeformer.torch`.
    task, sequences, seed, on_chunk: as in `evaluate`.

    Returns an `Evaluation` for each number of layers. Raises `InputError` if model and task do not fit.

    >>> import ridgeformer as rf
    >>> [round(e.adjusted_loss, 1) for e in rf.layerwise(rf.load("diag-2-uniform-5"), "uniform:5", sequences=1000)]
    [0.9, 0.2]
    """
    if not isinstance(model, LinearTransformer):
        if not callable(getattr(model, "first_layers", None)):
            raise InputError(f"layerwise needs a model with layers, not {type(model).__name__}.")
        readouts = {str(count): model.first_layers(count) for count in range(1, model.layers + 1)}
        return tuple(compare(readouts, task, sequences, seed, on_chunk, paired=False).evaluations.values())
    task = as_task(task, [model])
    sequences = whole_number("sequences", sequences, 1)
    tallies, done = [Tally(sequences) for _ in range(model.layers)], 0
    for draw in task.chunks(sequences, seed):
        every_layer = engine().weights(model.compiled(), draw.context.gram, every_layer=True)
        for weights, tally in zip(every_layer, tallies, strict=True):
            adjusted = half_square(weights, draw.oracle, draw.moment)
            tally.add(adjusted, half_square(weights, draw.weights, draw.moment))
        done += len(draw.sigma)
        if on_chunk is not None:
            on_chunk(done)
    return tuple(tally.evaluation() for tally in tallies)


@dataclass(frozen=True)
class Profile:
    """Evaluations at fixed noise levels; made by `profile`.

    >>> import ridgeformer as rf
    >>> found = rf.profile({"OLS": rf.baselines.OLS()}, rf.Task(3, 8), levels=[0, 2], sequences_per_level=100)
    >>> len(found.evaluations["OLS"])
    2
    """

    levels: tuple[float, ...]
    evaluations: Mapping[str, tuple[Evaluation, ...]]
    """For every predictor, one evaluation for each level."""


def default_levels(prior: NoisePrior, step: float = 0.5) -> tuple[float, ...]:
    """0, ``step``, … up to the largest σ of the prior (rounded up) plus one, as in the paper's figure 2.

    Raises `InputError` if there would be too many.

    >>> default_levels(Fixed(1))
    (0.0, 0.5, 1.0, 1.5, 2.0)
    """
    highest = math.ceil(float(np.max(prior.quadrature(_PRIOR_NODES)[0]))) + 1
    if highest / step > _MOST_LEVELS:
        raise InputError(f"A profile up to σ = {highest:,} would have {highest / step:,.0f} levels; name some of them.")
    return tuple(step * k for k in range(math.floor(highest / step) + 1))


def profile(
    predictors: Mapping[str, Any],
    task: Task | NoisePrior | str,
    levels: Sequence[float] | None = None,
    sequences_per_level: int = 20_000,
    seed: int = 0,
    on_chunk: OnChunk = None,
) -> Profile:
    """Measure predictors at fixed noise levels σ.

    Parameters
    ----------
    predictors, seed, on_chunk: as in `compare`.
    task: the task; each level in turn replaces its noise.
    levels: values of σ; None takes `default_levels` of the task's prior.
    sequences_per_level: how many sequences at each level.

    Returns a `Profile`: `compare` on the task with each fixed σ. All levels use the same random numbers for w, x and
    ξ/σ, so a profile is smooth in σ, and differences between levels are far more precise than the error bars say.
    Raises `InputError` if predictors and task do not fit.

    >>> import ridgeformer as rf
    >>> rf.profile({"OLS": rf.baselines.OLS()}, rf.Task(3, 8), levels=[0, 2], sequences_per_level=100).levels
    (0.0, 2.0)
    """
    chosen = check_predictors(predictors)
    task = as_task(task, chosen.values())
    if isinstance(task, Mixture):
        raise InputError("A profile needs one task whose σ can be replaced, not a mixture.")
    levels = default_levels(task.prior) if levels is None else levels
    levels = tuple(nonnegative("A level of the profile", level) for level in items_of("levels", levels))
    if not levels:
        raise InputError("A profile needs at least one noise level.")
    sequences = whole_number("sequences_per_level", sequences_per_level, 1)
    rows: dict[str, list[Evaluation]] = {name: [] for name in chosen}
    for number, level in enumerate(levels):
        at_level = replace(task, noise=Fixed(level))
        result = compare(chosen, at_level, sequences, seed, offset(on_chunk, number * sequences))
        for name, evaluation in result.evaluations.items():
            rows[name].append(evaluation)
    return Profile(levels, {name: tuple(row) for name, row in rows.items()})


def offset(on_chunk: OnChunk, start: int) -> OnChunk:
    """``on_chunk`` for a part of the work that begins after ``start`` sequences."""
    return None if on_chunk is None else lambda done: on_chunk(start + done)
