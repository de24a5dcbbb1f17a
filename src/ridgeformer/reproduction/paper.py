"""The numbers printed in the paper's Table 1, for comparison: all other numbers in this folder are measured.

A printed number is rounded, and is itself a mean of ½(ŷ − y_t)² − ½(ŷ* − y_t)² over 100 000 sequences with one query
each. We measure the standard error of such a mean with our predictor of the same cell; the paper's predictor is about
as good, so its standard error is about the same. It is four to seven times that of our own estimate on as many
sequences, and up to seven units of the last printed digit.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from decimal import Decimal
from functools import cache
from importlib import resources

import numpy as np

from ridgeformer.core.notation import Array
from ridgeformer.core.task import ContextDraw

PAPER_SEQUENCES = 100_000
"""Sequences of the paper's evaluations, one query each."""


@cache
def _printed_texts() -> dict[tuple[str, int | None, str], str]:
    text = resources.files("ridgeformer.reproduction").joinpath("paper_table1.csv").read_text(encoding="utf-8")
    return {
        (row["method"], int(row["layers"]) if row["layers"] else None, row["noise"]): row["adjusted_loss"]
        for row in csv.DictReader(text.splitlines())
    }


def printed_loss(method: str, layers: int | None, noise: str) -> float | None:
    """The printed adjusted loss of one cell, or None where the paper has none; layers is None for the baselines."""
    text = _printed_texts().get((method, layers, noise))
    return None if text is None else float(text)


def printed_half_unit(method: str, layers: int | None, noise: str) -> float:
    """Half a unit of the last printed digit: of three decimals, or of three digits where there is an exponent."""
    text = _printed_texts()[method, layers, noise]
    exponent = Decimal(text).as_tuple().exponent if "e" in text else -3
    return 0.5 * 10.0 ** int(exponent)


def sampled_losses(weights: Array, draw: ContextDraw) -> Array:
    """The paper's estimate of the adjusted loss, (batch,): of one query, negative where the oracle is unlucky."""
    error, oracle_error = (np.einsum("bd,bd->b", own - draw.weights, draw.query) for own in (weights, draw.oracle))
    return 0.5 * (error**2 - oracle_error**2)


def sampling_error(chunks: Iterable[Array]) -> float:
    """Standard error that `sampled_losses`, given in chunks, have on as many sequences as the paper's."""
    return float(np.concatenate(list(chunks)).std(ddof=1)) / math.sqrt(PAPER_SEQUENCES)
