"""The paper's claims: those of our own results again, verdicts on made-up tables, and what cannot be judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import ridgeformer as rf
from made_up_results import made_up
from ridgeformer.reproduction.cells import grid_cells
from ridgeformer.reproduction.claims import check_claims
from ridgeformer.reproduction.results import read_results
from ridgeformer.reproduction.table1 import Table1

DOCS = Path(rf.__file__).parents[2] / "docs" / "results"


def test_claims_of_this_projects_results_are_those_on_record() -> None:
    """From the table and the zoo, whose models the record was made with."""
    results = read_results(DOCS)
    cells = [cell for cell in grid_cells(seeds=[0]) if (cell.layers, cell.noise) in CHECKED]
    assert check_claims(results.table1, {cell: rf.load(cell.name) for cell in cells}) == list(results.claims.claims)


CHECKED = {(7, "categorical:1+3"), (2, "uniform:5"), (4, "categorical:1+3")}
"""(layers, prior) of the models that claims look into."""


@pytest.mark.parametrize(("factor", "verdict"), [(0.5, "confirmed"), (3.0, "refuted")])
def test_verdict_depends_on_the_losses(factor: float, verdict: str) -> None:
    """Five layers and more against TunedRR, with losses that are a multiple of it."""
    table = made_up("table1")
    limits = {noise: table.entry("tunedrr", None, noise).adjusted_loss for noise in table.columns}
    entries = [
        replace(entry, adjusted_loss=factor * limits[entry.noise]) if entry.layers in (5, 6, 7) else entry
        for entry in table.entries
    ]
    (claim,) = (
        c for c in check_claims(Table1(tuple(entries), 1000, 1), {}) if c.statement.startswith("Five or more layers")
    )
    assert claim.verdict == verdict
    expected = "True in 42 of 42 cells." if verdict == "confirmed" else "True in 0 of 42 cells. Not true in: DIAG 5 U1 "
    assert claim.numbers.startswith(expected)


def test_claims_that_nothing_is_known_about_are_left_out() -> None:
    assert check_claims(Table1((), 1000, 1), {}) == []
