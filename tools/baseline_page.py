"""The baselines against the paper and against the Bayes limit: the tables of `docs/evaluation.md`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from markdown import markdown_table, replace_block
from rich.table import Table

from ridgeformer.baselines import OLS, AdaRR, Bayes, ConstRR, IterativeAdaRR, TunedRR
from ridgeformer.baselines.iterative import iterations_needed
from ridgeformer.core.task import Task
from ridgeformer.evaluation.comparison import AnyPredictor, compare
from ridgeformer.reproduction.baseline_check import Cell, paper_baseline_cells
from ridgeformer.reproduction.cells import PRIORS

_HEAD = ("baseline", "σ", "printed", "measured", "± s.e.", "s.e. of the paper's estimate", "agrees")
_LIMIT_HEAD = ("σ", "Bayes limit", "± s.e.", "closest baseline", "paired difference", "± s.e.", "iterations of GD")


@dataclass(frozen=True)
class Limit:
    """The Bayes limit of one prior, and the baseline that comes closest to it on the same sequences."""

    noise: str
    loss: float
    standard_error: float
    closest: str
    difference: float
    difference_error: float
    iterations: int | None
    """Gradient steps, in each of two descents, with which IterativeAdaRR comes within 5 % of AdaRR."""


@dataclass(frozen=True)
class BaselineReport:
    """Everything that is measured here."""

    cells: Sequence[Cell]
    limits: Sequence[Limit]
    sequences: int

    def tables(self) -> list[Table]:
        """For the terminal."""
        found = []
        for title, head, rows in (
            (f"Baselines of Table 1 on {self.sequences:,} sequences", _HEAD, cell_rows(self.cells)),
            (f"The Bayes limit on {self.sequences // 2:,} sequences", _LIMIT_HEAD, limit_rows(self.limits)),
        ):
            table = Table(*head, title=title)
            for row in rows:
                table.add_row(*row)
            found.append(table)
        return found

    def write(self, page: Path) -> None:
        """Put the tables between their markers in the page."""
        note = f"On {self.sequences:,} sequences:\n\n"
        replace_block(page, "baseline cells", note + markdown_table(_HEAD, cell_rows(self.cells)))
        note = f"On {self.sequences // 2:,} sequences:\n\n"
        replace_block(page, "Bayes limits", note + markdown_table(_LIMIT_HEAD, limit_rows(self.limits)))

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        cells = [
            asdict(cell) | {"agrees": cell.agrees, "agrees_as_sampled": cell.agrees_as_sampled} for cell in self.cells
        ]
        return {"sequences": self.sequences, "cells": cells, "limits": [asdict(limit) for limit in self.limits]}


def measure_baselines(
    sequences: int = 1_000_000, seed: int = 1, on_stage: Callable[[str], None] = lambda name: None
) -> BaselineReport:
    """All baseline cells of Table 1, and the Bayes limit of every prior beside the best of the others."""
    cells = paper_baseline_cells(sequences, seed, lambda rows: on_stage(f"baselines, {rows[0].noise}"))
    limits = []
    for noise in PRIORS[1:]:  # without noise all of them are exact
        on_stage(f"Bayes limit, {noise}")
        limits.append(_limit(Task(noise=noise), max(2, sequences // 2), seed))
    return BaselineReport(cells, limits, sequences)


def _limit(task: Task, sequences: int, seed: int) -> Limit:
    others: dict[str, AnyPredictor] = {
        "OLS": OLS(),
        "ConstRR": ConstRR.tuned(task),
        "AdaRR": AdaRR(),
        "TunedRR": TunedRR.tuned(task),
        "IterativeAdaRR": IterativeAdaRR(),
    }
    found = compare({"Bayes": Bayes(task.prior), **others}, task, sequences, seed)
    closest = min(others, key=lambda name: found.evaluations[name].adjusted_loss)
    apart, bayes = found.difference(closest, "Bayes"), found.evaluations["Bayes"]
    steps = iterations_needed(task)
    return Limit(
        task.prior.spec, bayes.adjusted_loss, bayes.standard_error, closest, apart.mean, apart.standard_error, steps
    )


def cell_rows(cells: Sequence[Cell]) -> list[tuple[str, ...]]:
    """Text of the table's cells."""
    rows: list[tuple[str, ...]] = []
    for cell in cells:
        verdict = "yes" if cell.agrees else "within the paper's sampling error" if cell.agrees_as_sampled else "no"
        numbers = (
            f"{cell.printed:g}",
            f"{cell.measured:.5f}",
            f"{cell.standard_error:.5f}",
            f"{cell.printed_error:.4f}",
        )
        rows.append((cell.description, cell.noise, *numbers, verdict))
    return rows


def limit_rows(limits: Sequence[Limit]) -> list[tuple[str, ...]]:
    """Text of the table's cells."""
    rows: list[tuple[str, ...]] = []
    for limit in limits:
        apart = (limit.closest, f"{limit.difference:.5f}", f"{limit.difference_error:.5f}")
        steps = "over 2000" if limit.iterations is None else str(limit.iterations)
        rows.append((limit.noise, f"{limit.loss:.5f}", f"{limit.standard_error:.5f}", *apart, steps))
    return rows
