"""The printed table: complete, and the rounding of each of its numbers."""

from __future__ import annotations

import csv
from importlib import resources
from itertools import product

import pytest

from ridgeformer.reproduction.paper import printed_half_unit, printed_loss

PRIORS = [f"uniform:{level}" for level in range(8)] + ["categorical:1+3", "categorical:1+3+5"]


def printed_texts() -> dict[tuple[str, int | None, str], str]:
    text = resources.files("ridgeformer.reproduction").joinpath("paper_table1.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == 240  # no cell is there twice
    return {(row["method"], int(row["layers"] or 0) or None, row["noise"]): row["adjusted_loss"] for row in rows}


def test_printed_table_has_seven_depths_of_three_models_and_three_baselines_in_ten_columns() -> None:
    models = set(product(("gdpp", "diag", "full"), range(1, 8), PRIORS))
    baselines = set(product(("constrr", "adarr", "tunedrr"), [None], PRIORS))
    assert set(printed_texts()) == models | baselines
    assert all(printed_loss(*cell) == float(text) for cell, text in printed_texts().items())


@pytest.mark.parametrize(
    ("cell", "loss"),
    [
        (("gdpp", 4, "uniform:0"), 9.91e-05),
        (("adarr", None, "uniform:5"), 0.068),
        (("tunedrr", None, "uniform:5"), 0.049),
        (("full", 8, "uniform:5"), None),
        (("bayes", None, "uniform:5"), None),
        (("full", 7, "uniform:1-3"), None),
    ],
)
def test_printed_loss_is_what_table_1_shows_and_none_where_it_has_none(
    cell: tuple[str, int | None, str], loss: float | None
) -> None:
    assert printed_loss(*cell) == loss


def test_printed_half_unit_of_every_cell_is_half_of_its_last_digit() -> None:
    """By text alone: the digits after the point, moved by the exponent; a plain 0 stands for three decimals."""
    for cell, text in printed_texts().items():
        mantissa, _, exponent = text.partition("e")
        decimals = len(mantissa.partition(".")[2]) if exponent else 3
        assert exponent or mantissa == "0" or len(mantissa.partition(".")[2]) == 3
        expected = float(f"5e{int(exponent or 0) - decimals - 1}")
        assert printed_half_unit(*cell) == pytest.approx(expected, rel=1e-12)
