"""Cells that are worse than printed: how the printed number scatters, what is said of why, and the page."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.reproduction.cells import Cell
from ridgeformer.reproduction.claims import Claim
from reproduction_page import write_reproduction_page
from ridgeformer.reproduction.shortfalls import printed_error, shortfalls
from ridgeformer.reproduction.table1 import Entry, Table1
from ridgeformer.core.forward import token_predictions
from ridgeformer.reproduction.paper import printed_loss


def model(kind: str, layers: int) -> rf.LinearTransformer:
    return rf.LinearTransformer.init(kind, layers=layers, dim=10, scale=0.02, dtype=np.float64)


def entry(method: str, layers: int | None, noise: str, loss: float, heads: int = 1, error: float = 1e-4) -> Entry:
    printed = printed_loss(method, layers, noise) if heads == 1 else None
    return Entry(method, layers, noise, loss, error, loss / 2, 3 * loss, 9 * loss, 0, printed, loss / 0.039, heads)


def test_printed_error_is_the_scatter_of_one_query_on_drawn_tokens() -> None:
    """The same by tokens: attention as printed, one query a sequence, ridge regression with the true σ as oracle."""
    trained, task, count = rf.load("diag-4-uniform-5"), rf.Task(noise="uniform:5"), 20_000
    drawn = task.draw_tokens(count, seed=5)
    predicted = token_predictions(trained, drawn.X, drawn.y, drawn.query[:, None])[:, 0]
    system = np.einsum("bni,bnj->bij", drawn.X, drawn.X) + drawn.sigma[:, None, None] ** 2 * np.eye(10)
    oracle = np.linalg.solve(system, np.einsum("bni,bn->bi", drawn.X, drawn.y)[..., None])[..., 0]
    best = np.einsum("bi,bi->b", oracle, drawn.query)
    losses = 0.5 * (predicted - drawn.target) ** 2 - 0.5 * (best - drawn.target) ** 2
    expected = losses.std() / math.sqrt(100_000)
    assert printed_error(trained, "uniform:5") == pytest.approx(expected, rel=0.1)


def test_shortfalls_say_bound_sampling_error_or_nothing_known() -> None:
    table = Table1(
        (
            entry("gdpp", 4, "uniform:5", 0.3613),
            entry("diag", 4, "uniform:5", 0.0598),
            entry("diag", 7, "uniform:5", 1.0),
            entry("full", 7, "uniform:5", 0.04),
            entry("constrr", None, "uniform:5", 0.3613),
        ),
        sequences=1000,
        seed=1,
    )
    models = {Cell(e.method, e.layers, e.noise): model(e.method, e.layers) for e in table.entries if e.layers}
    models[Cell("diag", 4, "uniform:5")] = rf.load("diag-4-uniform-5")
    found = shortfalls(table, models)
    assert [(cell.entry.method, cell.entry.layers) for cell in found] == [("gdpp", 4), ("diag", 4), ("diag", 7)]
    assert [cell.reason for cell in found] == [
        "ours is at the bound of models linear in y; the printed number is below it",
        "within the sampling error of the printed number",
        "see below",
    ]
    assert found[1].over == pytest.approx((0.0598 - 0.059 - 5e-4) / math.hypot(found[1].printed_error, 1e-4))


def test_page_has_the_count_the_shortfalls_the_best_beyond_and_the_claims(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    names = ("table 1", "worse", "beyond", "claims")
    page.write_text("\n".join(f"<!-- begin {name} --><!-- end {name} -->" for name in names))
    table = Table1(
        (
            entry("full", 7, "uniform:5", 0.0414),
            entry("diag", 7, "uniform:5", 1.0),
            entry("full", 12, "uniform:5", 0.0399),
            entry("full", 7, "uniform:5", 0.0405, heads=2),
            entry("bayes", None, "uniform:5", 0.039),
        ),
        sequences=1000,
        seed=1,
    )
    models = {Cell("diag", 7, "uniform:5"): model("diag", 7)}
    write_reproduction_page(page, table, [Claim("It works.", "confirmed", "1 of 1.")], models)
    text = page.read_text(encoding="utf-8")
    assert "of 2 trained models 1 are better than printed by more than its rounding, 0 equal" in text
    assert "1 worse. The largest loss of any is 9 (DIAG 7, U5); 0 losses are not finite." in text
    assert "1 × see below." in text
    assert "* U5: FULL 12, 0.0399 (1.023×), largest loss 0.359." in text
    assert "| FULL 7 × 2 heads | 0.0405 (1.038×) |" in text
    assert "| It works. | confirmed | 1 of 1. |" in text
