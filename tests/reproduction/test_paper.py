"""The printed table: complete, and the rounding of each of its numbers."""

from __future__ import annotations

import csv
from importlib import resources

import pytest

from ridgeformer.reproduction.paper import printed_half_unit, printed_loss, printed_losses

PRIORS = [f"uniform:{level}" for level in range(8)] + ["categorical:1+3", "categorical:1+3+5"]


def printed_rows() -> list[dict[str, str]]:
    text = resources.files("ridgeformer.reproduction").joinpath("paper_table1.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def test_printed_table_has_seven_depths_of_three_models_and_three_baselines_in_ten_columns() -> None:
    models = {(kind, layers, noise) for kind in ("gdpp", "diag", "full") for layers in range(1, 8) for noise in PRIORS}
    baselines = {(name, None, noise) for name in ("constrr", "adarr", "tunedrr") for noise in PRIORS}
    assert set(printed_losses()) == models | baselines
    assert len(printed_rows()) == 240  # no cell is there twice


def test_printed_loss_of_single_cells_is_what_table_1_shows() -> None:
    assert printed_loss("gdpp", 4, "uniform:0") == 9.91e-05
    assert printed_loss("adarr", None, "uniform:5") == 0.068
    assert printed_loss("tunedrr", None, "uniform:5") == 0.049


@pytest.mark.parametrize("cell", [("full", 8, "uniform:5"), ("bayes", None, "uniform:5"), ("full", 7, "uniform:1-3")])
def test_printed_loss_where_the_paper_has_none_is_none(cell: tuple[str, int | None, str]) -> None:
    assert printed_loss(*cell) is None


def test_printed_half_unit_of_every_cell_is_half_of_its_last_digit() -> None:
    """By text alone: the digits after the point, moved by the exponent; a plain 0 stands for three decimals."""
    for row in printed_rows():
        mantissa, _, exponent = row["adjusted_loss"].partition("e")
        decimals = len(mantissa.partition(".")[2]) if exponent else 3
        assert exponent or mantissa == "0" or len(mantissa.partition(".")[2]) == 3
        expected = float(f"5e{int(exponent or 0) - decimals - 1}")
        layers = int(row["layers"]) if row["layers"] else None
        assert printed_half_unit(row["method"], layers, row["noise"]) == pytest.approx(expected, rel=1e-12)
