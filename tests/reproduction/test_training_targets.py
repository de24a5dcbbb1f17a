"""Trials of training: what is run, what counts as met, and the record of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.evaluation import Evaluation
from ridgeformer.reproduction import training_targets
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.reproduction.training_targets import TARGETS, Target, Trial, TrialsRecord, run_trial
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.recipes import stages_of

TINY = TrainConfig(kind="diag", layers=1, dim=3, examples=6, recipe="paper", steps=30, batch=8)


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
    assert (trial.what, trial.kind, trial.layers, trial.noise, trial.seed) == ("as it is", "diag", 1, "uniform:5", 0)
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
        assert (config.kind, config.layers, config.noise) == (target.kind, target.layers, target.noise)
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


def test_record_of_trials_survives_json_and_back_and_has_a_row_for_each() -> None:
    met, missed = make_trial(target=0.06, allowed=60.0), make_trial(np.inf, target=0.06, allowed=60.0)
    record = TrialsRecord({"cpu": "a machine"}, 0.25, (met, missed, met), (make_trial(what="Adam only"),))
    text = json.dumps(record.as_json(), allow_nan=True)  # the losses of these have no unadjusted mean
    back = TrialsRecord.from_json(json.loads(text))
    assert [trial.met for trial in back.targets] == [True, False, True]
    assert back.targets[1].evaluation.adjusted_loss == np.inf
    assert (back.machine, back.others, back.ablations[0].target) == ({"cpu": "a machine"}, 0.25, None)
    targets, ablations = back.tables()
    assert [row[-2] for row in targets.rows] == ["yes", "no", "yes"]
    assert ablations.rows[0][:2] == ("diag, 4 layers, uniform:5", "Adam only")
    assert all(len(row) == len(table.head) for table in (targets, ablations) for row in table.rows)
