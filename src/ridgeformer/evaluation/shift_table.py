"""Losses of predictors under shifts, compared with the reference and AdaRR."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ridgeformer.baselines import AdaRR
from ridgeformer.core.distributions import NoisePrior
from ridgeformer.core.notation import Array
from ridgeformer.core.predictor import Predictor
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, items_of, whole_number
from ridgeformer.evaluation.compare import OnChunk, as_task, check_predictors
from ridgeformer.evaluation.scoring import half_square, probes_of, score
from ridgeformer.evaluation.shift import UNSHIFTED, shifted
from ridgeformer.evaluation.statistics import TAIL_DOMINATED, Moments, Tail

YARDSTICK = "AdaRR"
"""Added to every table: it needs no training and does not use the noise prior, so a shift of σ does not hurt it."""

SURVIVAL_FACTOR = 1.25
"""A predictor survives a shift if its loss is at most this multiple of AdaRR's. ConstRR, which does not adapt, has 1.18
times AdaRR's loss on the U(0, 5) it is tuned to: a predictor that is worse under a shift does not adapt any more."""


def default_scenarios(task: Task) -> tuple[str, ...]:
    """No shift, and one of each kind. Student's t has 5 degrees of freedom: with 4, losses have no error bars.

    >>> default_scenarios(Task(examples=20))[:3]
    ('none', 'examples:40', 'noise:2')
    """
    examples = f"examples:{2 * task.examples}"
    return (UNSHIFTED, examples, "noise:2", "kappa:10", "student:5", "outliers:0.05x10", "scale:2", "rows:0.8")


@dataclass(frozen=True)
class ShiftResult:
    """The losses of one predictor under one shift.

    >>> import ridgeformer as rf
    >>> table = rf.shift_table({"OLS": rf.baselines.OLS()}, rf.Task(3, 8), ["scale:2"], sequences=200)
    >>> table.results["scale:2"]["OLS"].sequences
    200
    """

    loss: float
    """Mean of ½(ŵ − w)ᵀ M (ŵ − w), M = E[x_t x_tᵀ]; infinite if any sequence gave a loss that is not finite."""
    loss_error: float
    ratio: float
    """``loss`` divided by that of the reference on the same sequences."""
    ratio_error: float
    excess: float
    """Expected loss minus the reference's; see `ridgeformer.evaluation.shift` for how it is estimated."""
    excess_error: float
    median: float
    p99: float
    maximum: float
    """Median, 99 % quantile and maximum are those of the loss."""
    top_share: float
    """Share of ``loss`` that comes from the worst 1 % of the sequences."""
    sequences: int
    diverged: int
    survives: bool
    """Finite, not tail-dominated, and at most `SURVIVAL_FACTOR` times the loss of AdaRR."""

    @property
    def tail_dominated(self) -> bool:
        """Whether a few sequences make up most of the mean."""
        return self.top_share > TAIL_DOMINATED


@dataclass(frozen=True)
class ShiftTable:
    """The losses of predictors under several shifts; made by `shift_table`.

    >>> import ridgeformer as rf
    >>> list(rf.shift_table({"OLS": rf.baselines.OLS()}, rf.Task(3, 8), ["scale:2"], sequences=200).references)
    ['scale:2']
    """

    results: Mapping[str, Mapping[str, ShiftResult]]
    """By spec, then by predictor; `YARDSTICK` is among them."""
    references: Mapping[str, float]
    """The loss of the reference under each spec."""


def shift_table(
    predictors: Mapping[str, Any],
    task: Task | NoisePrior | str,
    scenarios: Sequence[str] | None = None,
    sequences: int = 20_000,
    seed: int = 0,
    on_chunk: OnChunk = None,
) -> ShiftTable:
    """Measure predictors on sequences that differ from those of training.

    Parameters
    ----------
    predictors, task, seed, on_chunk: as in `compare`; AdaRR is added to the predictors.
    scenarios: specs of shifts, such as "kappa:10" or "kappa:10+student:5"; None takes `default_scenarios`.
    sequences: how many sequences under each shift; the same for all predictors.

    Returns a `ShiftTable`; raises `InputError` for a spec that cannot be read or a predictor that does not fit.

    >>> import ridgeformer as rf
    >>> table = rf.shift_table({"OLS": rf.baselines.OLS()}, rf.Task(3, 8), ["scale:2"], sequences=200)
    >>> list(table.results["scale:2"])
    ['OLS', 'AdaRR']
    """
    sequences = whole_number("sequences", sequences, 1)
    chosen = check_predictors(predictors)
    task = as_task(task, chosen.values())
    specs = (
        default_scenarios(task)
        if scenarios is None
        else tuple(dict.fromkeys(map(str, items_of("scenarios", scenarios))))
    )
    if not specs:
        raise InputError("scenarios must be a sequence of at least one spec, such as ['kappa:10', 'student:5'].")
    chosen.setdefault(YARDSTICK, AdaRR())
    tasks = {spec: shifted(task, spec) for spec in specs}
    results, references = {}, {}
    for number, (spec, changed) in enumerate(tasks.items()):
        results[spec], references[spec] = _under_shift(chosen, changed, sequences, seed, on_chunk, number * sequences)
    return ShiftTable(results, references)


def _under_shift(
    predictors: Mapping[str, Predictor], task: Task, sequences: int, seed: int, on_chunk: OnChunk, done: int
) -> tuple[dict[str, ShiftResult], float]:
    tallies = {name: _ShiftTally(sequences) for name in predictors}
    exact = task.reference.exact
    for step, draw in enumerate(task.token_chunks(sequences, seed)):
        expected = half_square(draw.oracle, draw.weights, draw.moment)
        for name, predictor in predictors.items():
            excess, losses = score(predictor, draw, probes_of(draw, task, seed, step))
            with np.errstate(invalid="ignore"):
                tallies[name].add(losses, expected, excess if exact else losses - expected)
        done += len(draw.sigma)
        if on_chunk is not None:
            on_chunk(done)
    limit = SURVIVAL_FACTOR * tallies[YARDSTICK].mean_loss
    return {name: tally.result(limit) for name, tally in tallies.items()}, tallies[YARDSTICK].reference


class _ShiftTally:
    """Collects the losses of one predictor under one shift."""

    def __init__(self, sequences: int) -> None:
        self._moments = Moments(4)
        self._tail = Tail(sequences)

    def add(self, losses: Array, expected: Array, excess: Array) -> None:
        """Take in losses, those of the reference, and excesses, (batch,) each."""
        with np.errstate(invalid="ignore"):
            self._moments.add(np.stack([losses, expected, losses - expected, excess]))
        self._tail.add(losses)

    @property
    def mean_loss(self) -> float:
        """Infinite if any loss is."""
        mean = float(self._moments.mean[0])
        return mean if math.isfinite(mean) else math.inf

    @property
    def reference(self) -> float:
        """The reference's loss."""
        return float(self._moments.mean[1])

    def result(self, limit: float) -> ShiftResult:
        """The result; a predictor survives if its loss is at most ``limit``."""
        loss, reference, excess = self.mean_loss, self.reference, float(self._moments.mean[3])
        errors = self._moments.error
        median, p99, top_share = self._tail.summary(loss)
        ratio, ratio_error = self._ratio(loss, reference)
        alive = math.isfinite(loss) and top_share <= TAIL_DOMINATED and loss <= limit
        return ShiftResult(
            loss=loss,
            loss_error=float(errors[0]),
            ratio=ratio,
            ratio_error=ratio_error,
            excess=excess if math.isfinite(excess) else math.inf,
            excess_error=float(errors[3]),
            median=median,
            p99=p99,
            maximum=self._tail.maximum,
            top_share=top_share,
            sequences=self._moments.count,
            diverged=self._tail.diverged,
            survives=alive,
        )

    def _ratio(self, loss: float, reference: float) -> tuple[float, float]:
        """Loss over the reference's, l/r, with its standard error: that of l − ratio·r, over r (the delta method)."""
        if loss == reference:
            return 1.0, 0.0
        if reference == 0 or not math.isfinite(loss):
            return math.inf, math.inf
        ratio = loss / reference
        own, its, between = map(float, self._moments.variance[:3])
        covariance = (own + its - between) / 2
        variance = max(0.0, own + ratio**2 * its - 2 * ratio * covariance)
        return ratio, math.sqrt(variance / self._moments.count) / reference
