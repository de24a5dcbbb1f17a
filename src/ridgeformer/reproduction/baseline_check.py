"""Our baselines beside the numbers that the paper's Table 1 prints for them, and beside the Bayes limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ridgeformer.baselines import BASELINES
from ridgeformer.baselines.iterative import iterations_needed
from ridgeformer.core.notation import Array
from ridgeformer.core.task import Task
from ridgeformer.core.validation import whole_number
from ridgeformer.evaluation import adjusted_losses, compare
from ridgeformer.reproduction.cells import PRIORS
from ridgeformer.reproduction.paper import printed_loss, sampled_losses, sampling_error
from ridgeformer.reproduction.records import Number, Record, Sequences, Text
from ridgeformer.reproduction.table1 import TextTable

HALF_A_DIGIT = 0.0005
"""The paper prints three decimals, and a plain 0 for all three baselines without noise."""


@dataclass(frozen=True)
class BaselineCell:
    """One baseline on one prior."""

    derived = ("agrees", "agrees_as_sampled")
    method: Text
    """As in the table of printed numbers: "constrr", "adarr" or "tunedrr"."""
    noise: Text
    description: Text
    """The baseline with its parameters."""
    printed: Number
    measured: Number
    """Mean adjusted loss."""
    standard_error: Number
    """Of ``measured``."""
    printed_error: Number
    """Standard error that the paper's estimate has on its number of sequences."""

    @property
    def agrees(self) -> bool:
        """Whether the printed number is the measured one, up to rounding and three standard errors of ours."""
        return abs(self.measured - self.printed) <= HALF_A_DIGIT + 3 * self.standard_error

    @property
    def agrees_as_sampled(self) -> bool:
        """The same with three standard errors of both estimates: whether chance is enough to explain the difference."""
        both = math.hypot(self.standard_error, self.printed_error)
        return abs(self.measured - self.printed) <= HALF_A_DIGIT + 3 * both


@dataclass(frozen=True)
class Limit:
    """The Bayes limit of one prior, and the baseline that is closest to it on the same sequences."""

    noise: Text
    loss: Number
    standard_error: Number
    closest: Text
    difference: float
    difference_error: Number
    iterations: int | None
    """Gradient steps, in each of two descents, with which IterativeAdaRR comes within 5 % of AdaRR."""


@dataclass(frozen=True)
class BaselineReport(Record):
    """Everything that is measured here."""

    record = "baselines"
    digits = None
    sequences: Sequences
    cells: tuple[BaselineCell, ...]
    limits: tuple[Limit, ...]

    def tables(self) -> tuple[TextTable, TextTable]:
        """Baselines against the paper, and the Bayes limit, for people to read."""
        cells, limits = list[tuple[str, ...]](), list[tuple[str, ...]]()
        for cell in self.cells:
            agrees = "yes" if cell.agrees else "within the paper's sampling error" if cell.agrees_as_sampled else "no"
            numbers = (f"{cell.printed:g}", f"{cell.measured:.5f}", f"{cell.standard_error:.5f}")
            cells.append((cell.description, cell.noise, *numbers, f"{cell.printed_error:.4f}", agrees))
        for limit in self.limits:
            difference = (limit.closest, f"{limit.difference:.5f}", f"{limit.difference_error:.5f}")
            steps = "over 2000" if limit.iterations is None else str(limit.iterations)
            limits.append((limit.noise, f"{limit.loss:.5f}", f"{limit.standard_error:.5f}", *difference, steps))
        head = ("baseline", "σ", "printed", "measured", "± s.e.", "s.e. of the paper's estimate", "agrees")
        rest = ("Bayes limit", "± s.e.", "closest baseline", "paired difference", "± s.e.", "iterations of GD")
        return (
            TextTable(f"Baselines of Table 1 on {self.sequences:,} sequences", head, cells),
            TextTable(f"The Bayes limit on {self.sequences // 2:,} sequences", ("σ", *rest), limits),
        )


def measure_baselines(
    sequences: int = 1_000_000, seed: int = 1, on_stage: Callable[[str], None] = lambda name: None
) -> BaselineReport:
    """All baseline cells of Table 1, and the Bayes limit of every prior beside the best of the others.

    A million sequences take about six minutes on one core, and half a minute more if nothing is tuned yet.
    """
    sequences = whole_number("sequences", sequences, 2)
    cells, limits = list[BaselineCell](), list[Limit]()
    for noise in PRIORS:
        on_stage(f"baselines, {noise}")
        cells += baseline_cells(noise, sequences, seed)
    for noise in PRIORS[1:]:  # without noise all of them are exact
        on_stage(f"Bayes limit, {noise}")
        limits.append(_limit(Task(noise=noise), max(2, sequences // 2), seed))
    return BaselineReport(sequences, tuple(cells), tuple(limits))


def baseline_cells(noise: str, sequences: int, seed: int) -> list[BaselineCell]:
    """The three baselines of one prior, on the same sequences."""
    task = Task(noise=noise)
    baselines: dict[str, Any] = {entry.name: entry.make(task) for entry in BASELINES.values() if entry.in_table1}
    exact: dict[str, list[Array]] = {method: [] for method in baselines}
    sampled: dict[str, list[Array]] = {method: [] for method in baselines}
    for draw in task.chunks(sequences, seed):
        for method, baseline in baselines.items():
            exact[method].append(adjusted_losses(baseline, draw.context, draw.oracle))
            sampled[method].append(sampled_losses(baseline.weights(draw.context), draw))
    cells = []
    for method, baseline in baselines.items():
        losses, printed = np.concatenate(exact[method]), printed_loss(method, None, noise)
        assert printed is not None
        measured, error = float(losses.mean()), float(losses.std(ddof=1)) / math.sqrt(sequences)
        errors = error, sampling_error(sampled[method])
        cells.append(BaselineCell(method, noise, baseline.describe(), printed, measured, *errors))
    return cells


def _limit(task: Task, sequences: int, seed: int) -> Limit:
    predictors = {entry.name: entry.make(task) for entry in BASELINES.values() if entry.name != "oracle"}
    comparison = compare(predictors, task, sequences, seed)
    evaluations = dict(comparison.evaluations)
    bayes = evaluations.pop("bayes")
    closest = min(evaluations, key=lambda name: evaluations[name].adjusted_loss)
    gap, steps = comparison.difference(closest, "bayes"), iterations_needed(task)
    limit = (task.prior.spec, bayes.adjusted_loss, bayes.standard_error)
    return Limit(*limit, BASELINES[closest].label, gap.mean, gap.standard_error, steps)
