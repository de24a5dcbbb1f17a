"""The baselines against the paper's Table 1: do ours give the numbers it prints?

The printed numbers are themselves measured, on 100 000 sequences with one query each. What that estimate,
½(ŷ − y_t)² − ½(ŷ* − y_t)², scatters by is measured along the way: four to seven times as much as our estimate would on
as many sequences, and up to seven units of the last printed digit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ridgeformer.baselines.ridge import AdaRR, ConstRR, TunedRR
from ridgeformer.core.validation import whole_number
from ridgeformer.evaluation import adjusted_losses, draw_chunks
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.core.task import ContextDraw, Task
from ridgeformer.core.notation import Array

PRIORS = (*(f"uniform:{high}" for high in range(8)), "categorical:1+3", "categorical:1+3+5")
HALF_A_DIGIT = 0.0005
"""The paper prints three decimals, and a plain 0 for all three baselines without noise."""
PAPER_SEQUENCES = 100_000
"""Sequences of the paper's evaluations, one query each."""


@dataclass(frozen=True)
class Cell:
    """One baseline on one prior."""

    method: str
    """As in the table of printed numbers: "constrr", "adarr" or "tunedrr"."""
    noise: str
    description: str
    """The baseline with its parameters."""
    printed: float
    measured: float
    """Mean adjusted loss."""
    standard_error: float
    """Of ``measured``."""
    printed_error: float
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


def paper_baseline_cells(
    sequences: int = 1_000_000, seed: int = 0, on_prior: Callable[[list[Cell]], None] | None = None
) -> list[Cell]:
    """The 30 baseline cells of Table 1, measured; ``on_prior(cells)`` is called with the three of each prior.

    A million sequences take about three minutes on one core, and half a minute more if nothing is tuned yet.
    """
    sequences = whole_number("sequences", sequences, 2)
    cells: list[Cell] = []
    for noise in PRIORS:
        rows = _cells(noise, sequences, seed)
        cells += rows
        if on_prior is not None:
            on_prior(rows)
    return cells


def _cells(noise: str, sequences: int, seed: int) -> list[Cell]:
    """The three baselines of one prior, on the same sequences."""
    task = Task(noise=noise)
    baselines: dict[str, ConstRR | AdaRR | TunedRR] = {
        "constrr": ConstRR.tuned(task),
        "adarr": AdaRR(),
        "tunedrr": TunedRR.tuned(task),
    }
    exact: dict[str, list[Array]] = {method: [] for method in baselines}
    sampled: dict[str, list[Array]] = {method: [] for method in baselines}
    for draw in draw_chunks(task, sequences, seed):
        for method, baseline in baselines.items():
            exact[method].append(adjusted_losses(baseline, draw.context, draw.oracle))
            sampled[method].append(sampled_losses(baseline.weights(draw.context), draw))
    rows = []
    for method, baseline in baselines.items():
        losses, printed = np.concatenate(exact[method]), printed_loss(method, None, noise)
        assert printed is not None
        error = float(losses.std(ddof=1)) / math.sqrt(sequences)
        printed_error = float(np.concatenate(sampled[method]).std(ddof=1)) / math.sqrt(PAPER_SEQUENCES)
        rows.append(Cell(method, noise, baseline.describe(), printed, float(losses.mean()), error, printed_error))
    return rows


def sampled_losses(weights: Array, draw: ContextDraw) -> Array:
    """The paper's estimate of the adjusted loss, (batch,): of one query, negative where the oracle is unlucky."""
    error, oracle_error = (np.einsum("bd,bd->b", found - draw.weights, draw.query) for found in (weights, draw.oracle))
    return 0.5 * (error**2 - oracle_error**2)
