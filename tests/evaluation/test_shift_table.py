"""The table of shifts: its numbers against brute force, its verdicts on predictors of known merit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.baselines import OLS, AdaRR, ConstRR, Oracle
from ridgeformer.core.notation import Array
from ridgeformer.evaluation import default_scenarios, evaluate, shift_table, shifted
from ridgeformer.evaluation.scoring import half_square
from ridgeformer.evaluation.shift_table import SURVIVAL_FACTOR
from support import refused

TASK = rf.Task(dim=3, examples=10, noise="uniform:2")


class Zero:
    def weights(self, context: rf.Context) -> Array:
        return np.zeros((len(context.gram), context.dim))


class Rarely(AdaRR):
    """AdaRR, but once in about a thousand contexts ``wild``."""

    wild: float = 1e6

    def weights(self, context: rf.Context) -> Array:
        return np.where(np.arange(len(context.gram))[:, None] % 1000 == 7, self.wild, super().weights(context))


class Diverging(Rarely):
    wild = float("nan")


@pytest.mark.parametrize("spec", ["none", "kappa:10", "scale:2", "outliers:0.1x5"])
def test_cells_are_those_of_stored_losses(spec: str) -> None:
    found = shift_table({"ols": OLS()}, TASK, [spec], 3000, seed=2)
    cell = found.results[spec]["ols"]
    (draw,) = shifted(TASK, spec).token_chunks(3000, seed=2)
    losses = half_square(OLS().weights(draw.context), draw.weights, draw.moment)
    expected = half_square(draw.oracle, draw.weights, draw.moment)
    ratio = losses.mean() / expected.mean()
    assert found.references[spec] == pytest.approx(expected.mean())
    assert cell.loss == pytest.approx(losses.mean())
    assert cell.loss_error == pytest.approx(losses.std(ddof=1) / math.sqrt(3000))
    assert cell.ratio == pytest.approx(ratio)
    delta = (losses - ratio * expected).std(ddof=1) / math.sqrt(3000) / expected.mean()
    assert cell.ratio_error == pytest.approx(delta)
    assert (cell.median, cell.maximum) == (np.median(losses), losses.max())
    apart = losses - expected
    if spec.startswith("outliers"):
        assert cell.excess == pytest.approx(apart.mean())
    else:  # two estimates of one number: the reported one varies less
        assert abs(cell.excess - apart.mean()) < 5 * apart.std() / math.sqrt(3000)
        assert cell.excess_error < apart.std() / math.sqrt(3000)


def test_ratio_error_is_how_much_the_ratio_varies_between_samples() -> None:
    cells = [
        shift_table({"c": ConstRR(1.0)}, TASK, ["kappa:5"], 300, seed=s).results["kappa:5"]["c"] for s in range(150)
    ]
    spread = np.std([cell.ratio for cell in cells], ddof=1)
    # The standard deviation of 150 numbers is known to 1/√300 = 6 %; three of those.
    assert np.mean([cell.ratio_error for cell in cells]) == pytest.approx(spread, rel=0.18)


def test_oracle_is_the_reference() -> None:
    for spec, cells in shift_table({"oracle": Oracle()}, TASK, None, 500).results.items():
        assert (cells["oracle"].ratio, cells["oracle"].ratio_error, cells["oracle"].excess) == (1.0, 0.0, 0.0), spec


def test_unshifted_losses_are_those_of_the_task() -> None:
    """Drawn as tokens here and as Gram matrices there: the same in distribution."""
    cell = shift_table({"c": ConstRR(1.0)}, TASK, ["none"], 50_000).results["none"]["c"]
    expected = evaluate(ConstRR(1.0), TASK, 50_000)
    assert abs(cell.loss - expected.loss) < 5 * math.hypot(cell.loss_error, expected.loss_error)
    assert abs(cell.excess - expected.adjusted_loss) < 5 * math.hypot(cell.excess_error, expected.standard_error)


def test_verdicts_on_predictors_of_known_merit() -> None:
    chosen: dict[str, Any] = {"zero": Zero(), "oracle": Oracle(), "rarely": Rarely(), "diverging": Diverging()}
    cells = shift_table(chosen, TASK, ["none"], 2000).results["none"]
    assert cells["AdaRR"].survives  # added by itself
    assert cells["oracle"].survives
    assert not cells["zero"].survives
    assert not cells["zero"].tail_dominated
    assert cells["zero"].loss > SURVIVAL_FACTOR * cells["AdaRR"].loss
    assert not cells["rarely"].survives
    assert cells["rarely"].tail_dominated
    assert not cells["diverging"].survives
    assert cells["diverging"].diverged == 2
    assert cells["diverging"].loss == cells["diverging"].excess == cells["diverging"].ratio == math.inf
    assert cells["diverging"].median == pytest.approx(cells["AdaRR"].median, rel=0.01)


def test_yardstick_of_the_caller_is_not_replaced() -> None:
    cells = shift_table({"AdaRR": AdaRR()}, TASK, ["none"], 100).results["none"]
    assert list(cells) == ["AdaRR"]


def test_default_table_has_one_shift_of_every_kind() -> None:
    specs = default_scenarios(TASK)
    assert specs[:2] == ("none", "examples:20")
    kinds = [spec.partition(":")[0] for spec in specs]
    assert kinds == ["none", "examples", "noise", "kappa", "student", "outliers", "scale", "rows"]
    assert tuple(shift_table({"zero": Zero()}, TASK, None, 10).results) == specs


def test_model_is_measured_under_shift_and_sequences_are_counted() -> None:
    seen: list[int] = []
    model = rf.LinearTransformer.init("diag", layers=2, dim=3, scale=0.05, seed=1)
    cells = shift_table({"m": model}, TASK, ["none", "kappa:3"], 100, on_chunk=seen.append).results
    assert seen == [100, 200]
    assert cells["none"]["m"].loss != cells["kappa:3"]["m"].loss


def test_bad_input_to_shift_table_is_one_sentence() -> None:
    zero = {"z": Zero()}
    for match, arguments in {
        "predictors": ({}, TASK),
        "at least one spec": (zero, TASK, []),
        "must be a list": (zero, TASK, "kappa:10"),
        "Did you mean 'kappa'": (zero, TASK, ["kapa:10"]),
        "sequences": (zero, TASK, ["none"], 0),
    }.items():
        refused(match, shift_table, *arguments)
