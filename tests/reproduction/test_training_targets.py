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
from ridgeformer.reproduction.training_targets import SEEDS, TARGETS, Trial, TrialsRecord, run_trial
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
    trial = run_trial("as it is", TINY, stages_of(TINY), (1e9, 1e9))
    result = rf.train(replace(TINY, sequences=2))
    expected = rf.evaluate(result.model, TINY.task, 500, seed=7)
    assert trial.evaluation == expected
    assert (trial.what, trial.kind, trial.layers, trial.noise, trial.seed) == ("as it is", "diag", 1, "uniform:5", 0)
    assert trial.seconds > 0
    assert trial.met


def test_run_trial_by_another_plan_gives_another_model_and_no_target_is_neither_met_nor_missed() -> None:
    plan = [replace(stage, steps=2) for stage in stages_of(TINY)]
    short = run_trial("short", TINY, plan)
    assert short.evaluation != run_trial("long", TINY, stages_of(TINY)).evaluation
    assert short.target is None
    assert short.met is replace(short, target=0.06).met is None


@pytest.mark.parametrize(
    ("loss", "seconds", "met"),
    [(0.05, 10.0, True), (0.06, 60.0, True), (0.0601, 10.0, False), (0.05, 60.1, False), (np.inf, 1.0, False)],
)
def test_trial_is_met_if_both_loss_and_time_are(loss: float, seconds: float, met: bool) -> None:
    trial = make_trial(loss, seconds, target=0.06, allowed=60.0)
    assert replace(trial, evaluation=replace(trial.evaluation, adjusted_loss=loss)).met is met


def test_time_to_target_runs_every_seed_of_every_target(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[TrainConfig, tuple[float, float]]] = []

    def fake(what: str, config: TrainConfig, plan: Any, target: tuple[float, float]) -> Trial:
        assert plan == stages_of(config)
        asked.append((config, target))
        return make_trial(seed=config.seed)

    monkeypatch.setattr(training_targets, "run_trial", fake)
    assert len(list(training_targets.time_to_target())) == len(asked) == 21
    assert asked == [
        (TrainConfig(kind=kind, layers=layers, noise=noise, registers=registers, seed=seed), target)
        for (kind, layers, noise, registers), target in TARGETS.items()
        for seed in SEEDS.get((kind, layers, noise, registers), (0,))
    ]


def test_ablations_change_one_thing_of_a_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fake(what: str, config: TrainConfig, plan: Any) -> Trial:
        assert plan
        same = tuple(plan) == stages_of(config) and config.rate is None
        assert same == what.startswith("recipe"), what
        if what.startswith("one start"):
            assert sum(stage.origin == "init" for stage in plan) == 1
            assert [stage.name for stage in plan if stage.name.startswith("sharpen")] in ([], ["sharpen 1"])
        if what.startswith("eight starts"):
            assert sum(stage.origin == "init" for stage in plan) == 8
        asked.append(what)
        return make_trial(what=what)

    monkeypatch.setattr(training_targets, "run_trial", fake)
    assert [trial.what for trial in training_targets.ablations()] == asked


def test_record_of_trials_survives_json_and_back_and_has_a_row_for_each() -> None:
    met, missed = make_trial(target=0.06, allowed=60.0), make_trial(np.inf, target=0.06, allowed=60.0)
    record = TrialsRecord({"cpu": "a machine"}, 0.25, (met, missed, met), (make_trial(what="Adam only"),))
    values = json.loads(json.dumps(record.as_json(), allow_nan=False))
    assert values["targets"][0]["printed"] == printed_loss("diag", 4, "uniform:5")
    assert [trial["met"] for trial in values["targets"]] == [True, False, True]
    back = TrialsRecord.from_json(values)
    assert back.targets[0].evaluation.sequences == 100
    assert [trial.met for trial in back.targets] == [True, False, True]
    assert back.targets[1].evaluation.adjusted_loss == np.inf
    assert (back.machine, back.others, back.ablations[0].target) == ({"cpu": "a machine"}, 0.25, None)
    targets, ablations = back.tables()
    assert [row[-2] for row in targets.rows] == ["yes", "no", "yes"]
    assert ablations.rows[0][:2] == ("diag, 4 layers, uniform:5", "Adam only")
    assert all(len(row) == len(table.head) for table in (targets, ablations) for row in table.rows)
