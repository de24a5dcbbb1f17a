"""The baselines of the paper's Table 1, on fewer sequences than the full check, and with quicker tuning."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import ridgeformer as rf
from made_up_results import QUICK_BASELINES, made_up_baselines
from ridgeformer.baselines import ConstRR, TunedRR, tuning
from ridgeformer.reproduction import baseline_check
from ridgeformer.reproduction.baseline_check import BaselineCell, BaselineReport, baseline_cells, measure_baselines
from ridgeformer.reproduction.cells import PRIORS
from ridgeformer.reproduction.paper import sampled_losses


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[BaselineCell]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "cache_root", lambda: folder)
        patch.setattr(tuning, "_CONTEXTS", 8000)
        patch.setattr(tuning, "_known", {})
        return [cell for noise in PRIORS for cell in baseline_cells(noise, 12_000, seed=1)]


def test_printed_losses_of_all_baselines_are_ours_up_to_both_sampling_errors(cells: list[BaselineCell]) -> None:
    assert len(cells) == len({(cell.method, cell.noise) for cell in cells}) == 30
    assert [cell for cell in cells if not cell.agrees_as_sampled] == []


def test_losses_without_the_half_do_not_agree(cells: list[BaselineCell]) -> None:
    """A control: the comparison tells the convention of the loss. (Cells that are 0 in print are 0 either way.)"""
    noisy = [cell for cell in cells if cell.noise not in ("uniform:0", "uniform:1")]
    assert not any(replace(cell, measured=2 * cell.measured).agrees_as_sampled for cell in noisy)


def test_adarr_with_another_divisor_does_not_agree(cells: list[BaselineCell]) -> None:
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


def test_report_says_yes_within_the_sampling_error_or_no() -> None:
    cells, limits = made_up_baselines().tables()
    assert [row[-1] for row in cells.rows] == ["yes", "within the paper's sampling error", "no"]
    assert [row[-1] for row in limits.rows] == ["40", "over 2000"]
    assert cells.title.endswith(" 1,000 sequences")
    assert limits.title.endswith(" 500 sequences")
    assert all(len(row) == len(table.head) for table in (cells, limits) for row in table.rows)


def test_report_survives_json_and_back_and_says_what_agrees() -> None:
    values = json.loads(json.dumps(made_up_baselines().as_json(), allow_nan=False))
    assert [cell["agrees"] for cell in values["cells"]] == [True, False, False]
    assert values["limits"][1]["iterations"] is None
    assert BaselineReport.from_json(values) == made_up_baselines()


def test_baselines_are_measured_on_every_prior_and_the_limit_wherever_there_is_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(baseline_check, "BASELINES", QUICK_BASELINES)
    monkeypatch.setattr(baseline_check, "iterations_needed", lambda task: 7)
    stages: list[str] = []
    report = measure_baselines(60, on_stage=stages.append)
    assert [(cell.method, cell.noise) for cell in report.cells] == [
        (method, noise) for noise in PRIORS for method in ("constrr", "adarr", "tunedrr")
    ]
    assert [limit.noise for limit in report.limits] == list(PRIORS[1:])
    assert stages == [f"baselines, {noise}" for noise in PRIORS] + [f"Bayes limit, {noise}" for noise in PRIORS[1:]]
    assert all(limit.iterations == 7 and limit.closest != "Bayes limit" for limit in report.limits)
