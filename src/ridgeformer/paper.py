"""The numbers printed in the paper's Table 1, for comparison. Everything else in this package is measured."""

from __future__ import annotations

import csv
from functools import cache
from importlib import resources


@cache
def printed_losses() -> dict[tuple[str, int | None, str], float]:
    """Adjusted evaluation losses by (method, layers, noise spec); layers is None for the baselines."""
    text = resources.files("ridgeformer").joinpath("data/paper_table1.csv").read_text(encoding="utf-8")
    return {
        (row["method"], int(row["layers"]) if row["layers"] else None, row["noise"]): float(row["adjusted_loss"])
        for row in csv.DictReader(text.splitlines())
    }


def printed_loss(method: str, layers: int | None, noise: str) -> float | None:
    """The printed adjusted loss of one cell, or None where the paper has none."""
    return printed_losses().get((method, layers, noise))
