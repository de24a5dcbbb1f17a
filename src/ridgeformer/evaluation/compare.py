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
_MOST_LEVELS = 1000  # of a profile that nobody chose
_PRIOR_NODES = 64  # of the quadrature that tells how far a prior reaches


def evaluate(
    predictor: Any, task: Task | NoisePrior | str, sequences: int = 100_000, seed: int = 0, on_chunk: OnChunk = None
) -> Evaluation:
    """Adjusted loss of a predictor on fresh sequences.

    Parameters
    ----------
    predictor: a model, a baseline, a scikit-learn regressor, a function of (X, y, queries): see `as_predictor`.
    task: what sequences are drawn from; a noise prior or its spec, such as "uniform:5", means the task that a model was
        trained on with that noise.
    sequences: how many.
    seed: names them; predictors with the same seed get the same sequences.
    on_chunk: called with the number of sequences done, as the work goes on.

    Returns an `Evaluation`: mean with standard error, quantiles, maximum, and how many sequences gave no finite loss.
    Raises `InputError` if predictor and task do not fit. Sequences are drawn in the precision of a model, and in
    float64 for anything else.

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
    """Several predictors on the same fresh sequences.

    Parameters
    ----------
    predictors: by name, each anything that `evaluate` takes.
    task, sequences, seed, on_chunk: those of `evaluate`; the sequences are drawn once, in float64.
    paired: whether to measure the difference of every two, sequence by sequence.

    Returns a `Comparison`: an `Evaluation` of each, and their paired differences with standard errors of their own.
    Differences are accumulated one by one rather than from covariances, so that those of nearly equal predictors keep
    their digits. Raises `InputError` if anything does not fit.

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
    """The predictors, at least one of them, each as `as_predictor` has it."""
    if not isinstance(predictors, Mapping) or not predictors:
        raise InputError("predictors must be a mapping from names to at least one predictor.")
    return {name: as_predictor(predictor) for name, predictor in predictors.items()}


def as_task(task: Any, predictors: Any) -> Task:
    """The task; of a noise prior or its spec, the one of that noise with the sizes that a model was trained on."""
    if isinstance(task, str | NoisePrior):
        models = [predictor for predictor in predictors if isinstance(predictor, LinearTransformer)]
        task = trained_on(models[0], task) if models else Task(noise=task)
    instance("task", task, Task, " It can also be a noise prior such as 'uniform:5'.")
    for predictor in predictors:
        if isinstance(predictor, LinearTransformer):
            check_model(predictor, task.dim)
    return task


def trained_on(model: LinearTransformer, noise: NoisePrior | str | None = None) -> Task:
    """The task that a model was trained on, as far as it is recorded; with another noise prior if one is given."""
    recorded = model.info.get("task")
    recorded = recorded if isinstance(recorded, Mapping) else {}
    examples = recorded.get("examples", recorded.get("context", 2 * model.dim))
    others = {name: recorded[name] for name in ("features", "weights", "noise_shape") if name in recorded}
    if noise is not None:
        return Task(model.dim, examples, noise, **others)
    if "prior" in recorded:
        raise InputError(
            f"This model was trained with a noise prior of its own, {recorded['prior']}; pass that prior again."
        )
    task = Task(model.dim, examples, recorded.get("noise", "uniform:5"), **others)
    return parse_mixture(recorded["mixture"], task) if "mixture" in recorded else task


def _difference(
    first: str, second: str, mean: float, error: float, evaluations: Mapping[str, Evaluation]
) -> Difference:
    if not math.isfinite(mean):  # say at least which one is the infinite one
        mean = evaluations[first].adjusted_loss - evaluations[second].adjusted_loss
    return Difference(first, second, mean, error)


def layerwise(
    model: Any,
    task: Task | NoisePrior | str,
    sequences: int = 100_000,
    seed: int = 0,
    on_chunk: OnChunk = None,
) -> tuple[Evaluation, ...]:
    """Evaluations of what a model would say after 1, 2, … L layers, in one pass over the sequences of `evaluate`.

    The prediction is read from the query token as it is after a layer, without the layers behind it (the paper's
    figure 5): the evaluation of `LinearTransformer.first_layers`. Anything else that predicts and has ``layers`` and
    ``first_layers``, such as a module of `ridgeformer.torch`, is read out in the same way, layer by layer. Arguments
    and errors are those of `evaluate`.

    >>> import ridgeformer as rf
    >>> [round(e.adjusted_loss, 1) for e in rf.layerwise(rf.load("diag-2-uniform-5"), "uniform:5", sequences=1000)]
    [0.9, 0.2]
    """
    if not isinstance(model, LinearTransformer):
        if not callable(getattr(model, "first_layers", None)):
            raise InputError(f"Only a model has layers to read out after; a {type(model).__name__} has none.")
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
    """Evaluations at fixed noise levels."""

    levels: tuple[float, ...]
    evaluations: Mapping[str, tuple[Evaluation, ...]]
    """Of every predictor, one for each level."""


def default_levels(prior: NoisePrior, step: float = 0.5) -> tuple[float, ...]:
    """0, ``step``, … up to one beyond the largest noise of the prior (rounded up), as in the paper's figure 2."""
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
    """Loss of every predictor at each noise level σ.

    Parameters
    ----------
    predictors, seed, on_chunk: those of `compare`.
    task: whose noise is replaced by each level in turn.
    levels: of σ; None takes `default_levels` of the task's prior.
    sequences_per_level: how many.

    Returns a `Profile`. Each level is `compare` on the task with that σ alone. A fixed σ draws nothing, so w, x and ξ/σ
    are the same numbers at every level (common random numbers): a profile is smooth in σ, and its differences between
    levels are far more precise than its error bars say.

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
