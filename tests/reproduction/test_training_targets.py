"""Pages whose tables commands replace: markers, training trials and baselines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import baseline_page
import numpy as np
import pytest
import training_page
from baseline_page import BaselineReport, Limit
from markdown import markdown_table, replace_block

import ridgeformer as rf
from ridgeformer.baselines import ConstRR, TunedRR
from ridgeformer.core.validation import InputError
from ridgeformer.evaluation import Evaluation
from ridgeformer.reproduction import training_targets
from ridgeformer.reproduction.baseline_check import Cell as BaselineCell
from ridgeformer.reproduction.cells import PRIORS
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.reproduction.training_targets import TARGETS, Target, Trial, run_trial
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.recipes import stages_of
from support import one_sentence

TINY = TrainConfig(kind="diag", layers=1, dim=3, examples=6, recipe="paper", steps=30, batch=8)
DOCS = Path(rf.__file__).parents[2] / "docs"


# --- markers ----------------------------------------------------------------------------------------------------------


def test_replace_block_leaves_the_rest_alone_and_can_be_repeated(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    before, after = (
        "# Τitle\n\nσ, two\nlines\n",
        "\n\n<!-- begin other -->kept<!-- end other -->\n\nEnd without newline",
    )
    page.write_text(f"{before}<!-- begin a table -->\nold\n<!-- end a table -->{after}", encoding="utf-8")
    for text in ("| new |", "| newer |"):
        replace_block(page, "a table", text)
        found = page.read_text(encoding="utf-8")
        assert found == f"{before}<!-- begin a table -->\n\n{text}\n\n<!-- end a table -->{after}"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "no markers",
        "<!-- begin t -->",
        "<!-- end t -->",
        "<!-- end t --> <!-- begin t -->",
        "<!-- begin u --><!-- end u -->",
    ],
)
def test_replace_block_without_its_markers_is_one_sentence_and_changes_nothing(tmp_path: Path, content: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(content)
    with pytest.raises(InputError, match="has no place for a table") as caught:
        replace_block(page, "t", "text")
    assert str(page) in one_sentence(caught.value)
    assert page.read_text() == content


def test_replace_block_of_a_page_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"Cannot read .*page\.md: No such file") as caught:
        replace_block(tmp_path / "page.md", "t", "text")
    one_sentence(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_markdown_table_has_a_rule_under_its_head() -> None:
    assert markdown_table(["a", "b"], [["1", "2"], ["3", ""]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 |  |"


@pytest.mark.parametrize(
    ("name", "blocks"),
    [("training.md", ["time to target", "ablations"]), ("evaluation.md", ["baseline cells", "Bayes limits"])],
)
def test_pages_of_this_project_have_the_markers(name: str, blocks: list[str]) -> None:
    text = (DOCS / name).read_text(encoding="utf-8")
    for block in blocks:
        assert 0 <= text.find(f"<!-- begin {block} -->") < text.find(f"<!-- end {block} -->")


# --- training trials --------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _few_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_targets, "_SEQUENCES", 500)


def make_trial(loss: float = 0.05, seconds: float = 10.0, **changes: Any) -> Trial:
    evaluation = Evaluation.of(np.full(100, loss))
    return replace(Trial("recipe", "diag", 4, "uniform:5", 2, evaluation, seconds), **changes)


def test_run_trial_trains_by_the_config_and_measures_on_fresh_sequences() -> None:
    trial = run_trial("as it is", TINY, target=Target("diag", 1, "uniform:5", 1e9, 1e9))
    result = rf.train(replace(TINY, sequences=2))
    expected = rf.evaluate(result.model, TINY.task, 500, seed=7)
    assert trial.evaluation == expected
    assert (trial.what, trial.model, trial.layers, trial.noise, trial.seed) == ("as it is", "diag", 1, "uniform:5", 0)
    assert trial.seconds > 0
    assert trial.met


def test_run_trial_by_another_plan_gives_another_model() -> None:
    plan = [replace(stage, steps=2) for stage in stages_of(TINY)]
    found = run_trial("short", TINY, plan)
    assert found.evaluation != run_trial("long", TINY).evaluation
    assert found.met is None
    assert found.target is None


@pytest.mark.parametrize(
    ("loss", "seconds", "met"),
    [(0.05, 10.0, True), (0.06, 60.0, True), (0.0601, 10.0, False), (0.05, 60.1, False), (np.inf, 1.0, False)],
)
def test_trial_is_met_if_both_loss_and_time_are(loss: float, seconds: float, met: bool) -> None:
    trial = make_trial(loss, seconds, target=0.06, allowed=60.0)
    assert trial.evaluation.adjusted_loss == pytest.approx(loss)
    exact = replace(trial, evaluation=replace(trial.evaluation, adjusted_loss=loss))
    assert exact.met is met


def test_trial_without_a_target_is_neither_met_nor_missed() -> None:
    assert make_trial().met is None
    assert make_trial(target=0.06).met is None


def test_trial_as_json_has_the_printed_number_and_whether_it_is_met() -> None:
    values = json.loads(json.dumps(make_trial(target=0.06, allowed=60.0).as_json()))
    assert values["met"] is True
    assert values["printed"] == printed_loss("diag", 4, "uniform:5")
    assert values["evaluation"]["sequences"] == 100


def test_time_to_target_runs_every_seed_of_every_target(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[TrainConfig, Target]] = []

    def fake(what: str, config: TrainConfig, plan: Any, target: Target) -> Trial:
        asked.append((config, target))
        return make_trial(seed=config.seed)

    monkeypatch.setattr(training_targets, "run_trial", fake)
    seen: list[Trial] = []
    assert training_targets.time_to_target(seen.append) == seen
    assert len(seen) == sum(len(target.seeds) for target in TARGETS)
    for config, target in asked:
        assert (config.kind, config.layers, config.noise) == (target.model, target.layers, target.noise)
        assert config == TrainConfig(kind=config.kind, layers=config.layers, noise=config.noise, seed=config.seed)


def test_ablations_change_one_thing_of_a_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, TrainConfig, Any]] = []

    def fake(what: str, config: TrainConfig, plan: Any) -> Trial:
        asked.append((what, config, tuple(plan)))
        return make_trial(what=what)

    monkeypatch.setattr(training_targets, "run_trial", fake)
    assert len(training_targets.ablations(lambda trial: None)) == len(asked)
    for what, config, plan in asked:
        assert plan
        same = plan == stages_of(config) and config.rate is None
        assert same == what.startswith("recipe"), what


def test_training_page_writes_between_its_markers_only(tmp_path: Path) -> None:
    page = tmp_path / "training.md"
    original = (DOCS / "training.md").read_text(encoding="utf-8")
    page.write_text(original, encoding="utf-8")
    trials = [make_trial(target=0.06, allowed=60.0), make_trial(0.07, target=0.06, allowed=60.0)]
    training_page.write_training_page(page, trials, [], "a machine")
    text = page.read_text(encoding="utf-8")
    head, _, rest = text.partition("<!-- begin time to target -->")
    block, _, tail = rest.partition("<!-- end time to target -->")
    assert head == original.partition("<!-- begin time to target -->")[0]
    assert tail == original.partition("<!-- end time to target -->")[2]
    assert "Measured on a machine." in block
    rows = [line for line in block.splitlines() if line.startswith("| diag, 4 layers, uniform:5 | 2 |")]
    assert [row.split(" | ")[-2] for row in rows] == ["yes", "no"]
    printed = printed_loss("diag", 4, "uniform:5")
    assert all(row.endswith(f"| {printed:g} |") for row in rows)
    training_page.write_training_page(page, [], [make_trial()], "a machine")
    again = page.read_text(encoding="utf-8")
    assert again.partition("<!-- begin ablations -->")[0] == text.partition("<!-- begin ablations -->")[0]
    assert "| diag, 4 layers, uniform:5 | recipe | 0.05 |" in again


def test_training_tables_have_a_row_for_each_trial() -> None:
    trials = [make_trial(target=0.06, allowed=60.0)] * 3
    for table in (training_page.target_table(trials), training_page.ablation_table(trials)):
        assert table.row_count == 3
    for rows in (training_page.target_rows(trials), training_page.ablation_rows(trials)):
        assert len({len(row) for row in rows}) == 1


# --- baselines --------------------------------------------------------------------------------------------------------


def make_report() -> BaselineReport:
    cells = [
        BaselineCell("adarr", "uniform:5", "AdaRR", 0.068, 0.0681, 0.0001, 0.001),
        BaselineCell("adarr", "uniform:6", "AdaRR", 0.068, 0.0701, 0.0001, 0.001),
        BaselineCell("adarr", "uniform:7", "AdaRR", 0.068, 0.0801, 0.0001, 0.001),
    ]
    limits = [
        Limit("uniform:5", 0.04, 0.001, "TunedRR", 0.009, 0.0001, 40),
        Limit("uniform:6", 0.05, 0.001, "AdaRR", 0.01, 0.1, None),
    ]
    return BaselineReport(cells, limits, 1000)


def test_baseline_report_says_yes_within_the_sampling_error_or_no() -> None:
    rows = baseline_page.cell_rows(make_report().cells)
    assert [row[-1] for row in rows] == ["yes", "within the paper's sampling error", "no"]
    assert [row[-1] for row in baseline_page.limit_rows(make_report().limits)] == ["40", "over 2000"]


def test_baseline_report_writes_both_blocks_and_json(tmp_path: Path) -> None:
    page, report = tmp_path / "evaluation.md", make_report()
    page.write_text((DOCS / "evaluation.md").read_text(encoding="utf-8"), encoding="utf-8")
    report.write(page)
    text = page.read_text(encoding="utf-8")
    assert "On 1,000 sequences:" in text
    assert "On 500 sequences:" in text
    assert "| AdaRR | uniform:7 | 0.068 | 0.08010 | 0.00010 | 0.0010 | no |" in text
    assert [table.row_count for table in report.tables()] == [3, 2]
    values = json.loads(json.dumps(report.as_json(), allow_nan=False))
    assert [cell["agrees"] for cell in values["cells"]] == [True, False, False]
    assert values["limits"][1]["iterations"] is None


def test_baselines_are_measured_on_every_prior_and_the_limit_wherever_there_is_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ConstRR, "tuned", lambda task: ConstRR(2.0))
    monkeypatch.setattr(TunedRR, "tuned", lambda task: TunedRR(1.0, 9.0))
    monkeypatch.setattr(baseline_page, "iterations_needed", lambda task: 7)
    stages: list[str] = []
    report = baseline_page.measure_baselines(60, on_stage=stages.append)
    assert [(cell.method, cell.noise) for cell in report.cells] == [
        (method, noise) for noise in PRIORS for method in ("constrr", "adarr", "tunedrr")
    ]
    assert [limit.noise for limit in report.limits] == list(PRIORS[1:])
    assert stages == [f"baselines, {noise}" for noise in PRIORS] + [f"Bayes limit, {noise}" for noise in PRIORS[1:]]
    assert all(limit.iterations == 7 and limit.closest != "Bayes" for limit in report.limits)
