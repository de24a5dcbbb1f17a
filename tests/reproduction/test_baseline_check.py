"""The baselines of the paper's Table 1, on fewer sequences than the full check, and with quicker tuning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.baselines import ConstRR, TunedRR, tuning
from ridgeformer.reproduction.baseline_check import Cell, paper_baseline_cells, sampled_losses


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Cell]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RIDGEFORMER_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(tuning, "_CONTEXTS", 8000)
        patch.setattr(tuning, "_known", {})
        return paper_baseline_cells(12_000, seed=1)


def test_all_baseline_cells_of_the_paper_are_measured(cells: list[Cell]) -> None:
    assert len(cells) == 30
    assert len({(cell.method, cell.noise) for cell in cells}) == 30


def test_printed_losses_of_the_baselines_are_ours_up_to_both_sampling_errors(cells: list[Cell]) -> None:
    assert [cell for cell in cells if not cell.agrees_as_sampled] == []


def test_losses_without_the_half_do_not_agree(cells: list[Cell]) -> None:
    """A control: the comparison tells the convention of the loss. (Cells that are 0 in print are 0 either way.)"""
    doubled = [
        replace(cell, measured=2 * cell.measured) for cell in cells if cell.noise not in ("uniform:0", "uniform:1")
    ]
    assert not any(cell.agrees_as_sampled for cell in doubled)


def test_adarr_with_another_divisor_does_not_agree(cells: list[Cell]) -> None:
    """A control: the comparison tells n − d from n, for which σ̂² is half as large at n = 20, d = 10."""
    for cell in cells:
        if cell.method == "adarr" and cell.noise not in ("uniform:0", "uniform:1"):
            loss = rf.evaluate(TunedRR(0.5), rf.Task(noise=cell.noise), sequences=4000).adjusted_loss
            assert not replace(cell, measured=loss).agrees_as_sampled


def test_sampled_losses_have_the_mean_of_the_exact_ones_and_scatter_more() -> None:
    draw = rf.Task().draw_contexts(20_000, seed=1)
    weights = ConstRR(8.0).weights(draw.context)
    sampled = sampled_losses(weights, draw)
    exact = 0.5 * ((weights - draw.oracle) ** 2).sum(axis=1)
    assert abs((sampled - exact).mean()) < 4 * (sampled - exact).std() / np.sqrt(20_000)
    assert 2 * exact.std() < sampled.std() < 8 * exact.std()
