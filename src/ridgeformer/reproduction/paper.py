"""The numbers printed in the paper's Table 1, for comparison. Everything else in this package is measured."""

from __future__ import annotations

import csv
from decimal import Decimal
from functools import cache
from importlib import resources


@cache
def _printed_texts() -> dict[tuple[str, int | None, str], str]:
    text = resources.files("ridgeformer").joinpath("reproduction/paper_table1.csv").read_text(encoding="utf-8")
    return {
        (row["method"], int(row["layers"]) if row["layers"] else None, row["noise"]): row["adjusted_loss"]
        for row in csv.DictReader(text.splitlines())
    }


@cache
def printed_losses() -> dict[tuple[str, int | None, str], float]:
    """Adjusted evaluation losses by (method, layers, noise spec); layers is None for the baselines."""
    return {cell: float(text) for cell, text in _printed_texts().items()}


def printed_half_unit(method: str, layers: int | None, noise: str) -> float:
    """Half a unit of the last printed digit: of three decimals, or of three digits where there is an exponent."""
    text = _printed_texts()[method, layers, noise]
    if "e" not in text:
        return 0.0005
    exponent = Decimal(text).as_tuple().exponent
    assert isinstance(exponent, int)
    return 0.5 * 10.0**exponent


def printed_loss(method: str, layers: int | None, noise: str) -> float | None:
    """The printed adjusted loss of one cell, or None where the paper has none."""
    return printed_losses().get((method, layers, noise))
