"""Adam and its guard: faults are skipped, then rewound, and only a run with nothing left has diverged."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from plans import NAMES, FaultyLosses, run_with, short_run
from ridgeformer.core.objective import losses_and_gradient_on
from ridgeformer.core.random import GramDraw, Purpose
from ridgeformer.training import TrainConfig, TrainingDivergedError, adam_stage, train
from ridgeformer.training.adam_stage import AdamStage
from ridgeformer.training.pools import Mining, mine

CONFIG = TrainConfig(kind="full", layers=2, dim=3, examples=8, batch=32, sequences=500, noise="uniform:2")
START = AdamStage(name="start 1", steps=100, rate=1e-3, batch=32, origin="init", init_scale=0.02)
STARTS = [START, replace(START, name="start 2"), replace(START, name="start 3")]
MAIN = replace(START, name="main", steps=250, origin="best")


def test_single_faults_at_many_points_of_a_run_are_skipped_and_counted() -> None:
    # Every other step from 2 to 500, faults in turn, but not the first step of a stage of fresh weights, where there
    # is no running loss yet that an explosion could be measured against.
    points = [total for total in range(2, 500, 2) if total not in (100, 200)]
    assert len(points) >= 200
    faults = {total: NAMES[number % len(NAMES)] for number, total in enumerate(points)}
    ended = run_with(faults, CONFIG, [*STARTS, MAIN])
    assert ended.skipped == points
    assert not ended.state.rewinds
    assert ended.finished


SHORT = [replace(stage, steps=stage.steps // 5, batch=8) for stage in (*STARTS, MAIN)]


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("at", [1, 5, 19, 21, 39, 41, 59, 60, 61, 80, 109])
def test_fault_of_any_kind_at_any_step_does_not_reach_the_weights(kind: str, at: int) -> None:
    ended = run_with({at: kind}, CONFIG, SHORT)
    assert ended.skipped == [at]
    assert ended.finished


POISONS: dict[str, Callable[[GramDraw], GramDraw]] = {
    "NaN in every Gram matrix": lambda draw: draw._replace(gram=np.full_like(draw.gram, np.nan)),
    "infinity in every Gram matrix": lambda draw: draw._replace(gram=np.full_like(draw.gram, np.inf)),
    "enormous Gram matrices": lambda draw: draw._replace(gram=draw.gram * np.float32(1e30)),
    "NaN in every oracle": lambda draw: draw._replace(oracle=np.full_like(draw.oracle, np.nan)),
}


@pytest.mark.parametrize("poison", POISONS)
def test_poisoned_data_is_skipped_and_counted(poison: str) -> None:
    points = range(1, 110, 3)

    def poisoned(model: Any, task: Any, *, batch: int, seed: int, step: int, **options: Any) -> Any:
        draw = task.draw_contexts(batch, seed=seed, step=step, purpose=Purpose.TRAIN).as_gram_draw()
        draw = draw.astype(np.float32)
        return losses_and_gradient_on(model, POISONS[poison](draw) if step in points else draw, **options)

    ended = run_with({}, CONFIG, SHORT, fresh_losses=poisoned)
    assert ended.skipped == list(points)
    assert ended.finished


@pytest.mark.parametrize("poison", POISONS)
def test_poisoned_hard_contexts_add_nothing_to_the_gradient(poison: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adam_stage, "mine", lambda *a, **k: POISONS[poison](mine(*a, **{**k, "memory": None})))
    mining = Mining(first_step=5, every=10, pool=8, keep=16, memory=64)
    ended = run_with({}, CONFIG, [replace(SHORT[0], mining=mining)])
    assert ended.state.memory is not None  # there were some
    assert not ended.skipped
    without = run_with({}, CONFIG, SHORT[:1])
    np.testing.assert_array_equal(ended.state.vector, without.state.vector)


def test_faults_in_a_row_make_the_run_go_back_and_halve_its_step() -> None:
    ended = run_with(dict.fromkeys(range(230, 250), "gradient is NaN"), CONFIG, STARTS)
    (back,) = [info for info in ended.infos if info.rewound]
    assert back.total == 250  # after twenty bad steps
    untouched = run_with({}, CONFIG, STARTS)
    assert ended.infos[250].total == 251
    assert ended.infos[250].rate == untouched.infos[250].rate / 2
    assert ended.finished


# --- giving up a start, and a run -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", NAMES[:2] + NAMES[3:])
@pytest.mark.parametrize("bad", [0, 1, 2])
def test_start_that_keeps_exploding_is_given_up_after_three_rewinds_when_there_are_others(kind: str, bad: int) -> None:
    ended = run_with(dict.fromkeys(range(100 * bad, 100 * bad + 100), kind), CONFIG, [*STARTS, MAIN])
    name = STARTS[bad].name
    assert ended.rewinds == {name: 4}  # three returns to safe weights; the fourth time it is given up
    infos = ended.of(name)
    assert len(infos) == 80
    assert infos[-1].step == 100  # its other steps count as done
    assert infos[-1].total == 100 * bad + 100
    assert ended.finished
    assert ended.state.total == sum(stage.steps for stage in ended.run.stages)
    first = next(info for info in ended.infos if info.total == 100 * bad + 101)
    assert first.step == 1
    untouched = next(info for info in run_with({}, CONFIG, [*STARTS, MAIN]).infos if info.total == 100 * bad + 101)
    assert first.rate == untouched.rate  # the next stage starts at full rate


def test_start_given_up_does_not_win_over_one_that_learned() -> None:
    ended = run_with(dict.fromkeys(range(100), "gradient is NaN"), CONFIG, STARTS[:2])
    expected = run_with({}, CONFIG, STARTS[:2])
    np.testing.assert_array_equal(ended.state.vector, expected.state.vector)  # of the second start
    np.testing.assert_array_equal(ended.state.best_vector, ended.state.vector)


def test_start_without_others_goes_on_until_the_run_has_diverged() -> None:
    ended = run_with(dict.fromkeys(range(1000), "gradient is NaN"), CONFIG, [replace(START, steps=300), MAIN])
    assert ended.run.diverged(ended.state)
    assert ended.rewinds == {"start 1": 9}  # each halves the step size; below 1/256 nothing is learned
    assert ended.state.total == 180


@pytest.mark.parametrize("pair", [0, 1])
def test_stage_that_goes_on_from_a_start_is_given_up_like_the_start(pair: int) -> None:
    sharpen = [replace(START, name=f"sharpen {number}", origin="previous") for number in (1, 2)]
    stages = [STARTS[0], sharpen[0], STARTS[1], sharpen[1], MAIN]
    first = 200 * pair + 100
    ended = run_with(dict.fromkeys(range(first, first + 100), "gradient is NaN"), CONFIG, stages)
    assert ended.rewinds == {sharpen[pair].name: 4}
    assert ended.finished
    assert ended.state.best_score < np.inf


def test_stage_that_is_not_a_start_is_not_given_up_for_others() -> None:
    ended = run_with(dict.fromkeys(range(100, 1000), "gradient is NaN"), CONFIG, [START, MAIN])
    assert ended.run.diverged(ended.state)
    assert ended.rewinds == {"main": 9}
    np.testing.assert_array_equal(ended.run.model(ended.state).flatten(), ended.state.best_vector.astype(np.float32))


def test_run_whose_starts_all_explode_still_tries_its_main_stage() -> None:
    ended = run_with(dict.fromkeys(range(300), "gradient is NaN"), CONFIG, [*STARTS, MAIN])
    assert ended.rewinds == {"start 1": 4, "start 2": 4, "start 3": 4}
    assert ended.finished
    main = ended.of("main")
    assert len(main) == MAIN.steps
    assert not any(info.skipped for info in main)
    assert ended.state.best_score < np.inf


def test_run_with_nothing_left_ends_as_diverged_with_finite_weights(tmp_path: Path) -> None:
    losses = FaultyLosses(dict.fromkeys(range(100, 1000), "gradient is NaN"))
    with pytest.raises(TrainingDivergedError, match="Training diverged"):
        train(short_run(CONFIG, [*STARTS, MAIN], **losses.fields), out=tmp_path / "run", callbacks=[losses])
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["status"] == "diverged"
    assert result["rewinds"] == 4 + 4 + 9  # starts two and three are given up; the main stage cannot be
    saved = rf.load(tmp_path / "run" / "model.safetensors")
    assert np.isfinite(saved.flatten()).all()
    assert np.abs(saved.flatten()).max() > 0
    skipped = [json.loads(line)["skipped"] for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert sum(skipped) == result["skipped"] == 20 * (4 + 4 + 9)  # twenty bad steps before each return
