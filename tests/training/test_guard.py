"""The guard: faults are skipped or stepped back from, then rewound, and only a run with nothing left has diverged."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.notation import Array
from ridgeformer.core.objective import losses_and_gradient_on
from ridgeformer.core.random import GramDraw, Purpose
from ridgeformer.training import TrainConfig, TrainingDivergedError, steps, train
from ridgeformer.training.hard_contexts import Mining, mine
from ridgeformer.training.pools import Pool, Watch, pool_function, sifted_pool, stretched_pool
from ridgeformer.training.quasi_newton import QuasiNewton
from ridgeformer.training.recipes import AdamLeg, Leg, PoolLeg
from ridgeformer.training.state import TrainState
from ridgeformer.training.steps import StepInfo, Trainer

CONFIG = TrainConfig(kind="full", layers=2, dim=3, examples=8, batch=32, sequences=500, noise="uniform:2")
DIAGONAL = replace(CONFIG, kind="diag")

START = AdamLeg(name="start 1", steps=100, rate=1e-3, batch=32, start="init", init_scale=0.02)
STARTS = [START, replace(START, name="start 2"), replace(START, name="start 3")]
MAIN = replace(START, name="main", steps=250, start="best")
POOLS = {
    "stretched, saturated": PoolLeg(name="stretched, saturated", steps=25, pool=256, saturation=100.0),
    "stretched": PoolLeg(name="stretched", steps=25, pool=256),
    "sifted": PoolLeg(name="sifted", steps=25, pool=256, sift=4),
}
PLAN: list[Leg] = [replace(START, steps=15, rate=1e-2, init_scale=0.1), *POOLS.values()]

FAULTS: dict[str, Watch] = {
    "loss is NaN": lambda losses, gradient: (np.full_like(losses, np.nan), gradient),
    "loss is infinite": lambda losses, gradient: (np.full_like(losses, np.inf), gradient),
    "loss explodes": lambda losses, gradient: (losses * 1e9, gradient),
    "gradient is NaN": lambda losses, gradient: (losses, np.full_like(gradient, np.nan)),
    "gradient has one infinity": lambda losses, gradient: (losses, np.r_[np.inf, gradient[1:]]),
}
KINDS = list(FAULTS)


@pytest.fixture(autouse=True)
def _quick_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Legs are ranked on fewer contexts: which of them wins is not the question here."""
    monkeypatch.setattr(steps, "_SELECT_SEQUENCES", 1024)


class Run(NamedTuple):
    trainer: Trainer
    infos: list[StepInfo]
    state: TrainState

    @property
    def skipped(self) -> list[int]:
        return [info.total - 1 for info in self.infos if info.skipped]


def run(config: TrainConfig, faults: dict[int, str], plan: Sequence[Leg] | None = None) -> Run:
    """All steps of a run with faults injected at these steps; nothing but finite weights on the way."""

    def tamper(total: int, losses: Array, gradient: Array) -> tuple[Array, Array]:
        return FAULTS[faults[total]](losses, gradient) if total in faults else (losses, gradient)

    trainer = Trainer(config, tamper=tamper, plan=plan)
    state, infos = trainer.start(), []
    while not trainer.finished(state) and not trainer.diverged(state):
        state, info = trainer.step(state)
        infos.append(info)
        for vector in (state.vector, state.safe_vector, state.best_vector, state.adam.mean, state.adam.square):
            assert np.isfinite(vector).all()
        if state.curvature is not None:
            known = state.curvature
            assert np.isfinite(known.value)
            assert all(np.isfinite(array).all() for array in (known.gradient, known.steps, known.changes))
    assert state.skipped == sum(info.skipped for info in infos)
    assert state.rewinds == sum(info.rewound for info in infos)
    assert np.isfinite(trainer.model(state).flatten()).all()
    return Run(trainer, infos, state)


# --- Adam legs --------------------------------------------------------------------------------------------------------


def test_single_faults_at_many_points_of_a_run_are_skipped_and_counted() -> None:
    # Every other step from 2 to 500, kinds in turn, but not the first step of a leg of fresh weights, where there is
    # no running loss yet that an explosion could be measured against.
    points = [total for total in range(2, 500, 2) if total not in (100, 200)]
    assert len(points) >= 200
    faults = {total: KINDS[number % len(KINDS)] for number, total in enumerate(points)}
    found = run(CONFIG, faults, [*STARTS, MAIN])
    assert found.skipped == points
    assert not found.state.rewinds
    assert found.trainer.finished(found.state)


SHORT = [replace(leg, steps=leg.steps // 5, batch=8) for leg in (*STARTS, MAIN)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", [1, 5, 19, 21, 39, 41, 59, 60, 61, 80, 109])
def test_fault_of_any_kind_at_any_step_does_not_reach_the_weights(kind: str, at: int) -> None:
    found = run(CONFIG, {at: kind}, SHORT)
    assert found.skipped == [at]
    assert found.trainer.finished(found.state)


POISONS: dict[str, Callable[[GramDraw], GramDraw]] = {
    "NaN in every Gram matrix": lambda draw: draw._replace(gram=np.full_like(draw.gram, np.nan)),
    "infinity in every Gram matrix": lambda draw: draw._replace(gram=np.full_like(draw.gram, np.inf)),
    "enormous Gram matrices": lambda draw: draw._replace(gram=draw.gram * np.float32(1e30)),
    "NaN in every oracle": lambda draw: draw._replace(oracle=np.full_like(draw.oracle, np.nan)),
}


@pytest.mark.parametrize("poison", POISONS)
def test_poisoned_data_is_skipped_and_counted(poison: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points = range(1, 110, 3)

    def poisoned(model: Any, task: Any, *, batch: int, seed: int, step: int, objective: str, **options: Any) -> Any:
        draw = task.draw_contexts(batch, seed=seed, step=step, purpose=Purpose.TRAIN).as_gram_draw()
        draw = GramDraw(*(array.astype(np.float32) for array in draw))
        return losses_and_gradient_on(model, POISONS[poison](draw) if step in points else draw, objective, **options)

    monkeypatch.setattr(steps, "losses_and_gradient", poisoned)
    found = run(CONFIG, {}, SHORT)
    assert found.skipped == list(points)
    assert found.trainer.finished(found.state)


@pytest.mark.parametrize("poison", POISONS)
def test_poisoned_hard_contexts_add_nothing_to_the_gradient(poison: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "mine", lambda *a, **k: POISONS[poison](mine(*a, **{**k, "memory": None})))
    mining = Mining(first_step=5, every=10, pool=8, keep=16, memory=64)
    found = run(CONFIG, {}, [replace(SHORT[0], mining=mining)])
    assert found.state.memory is not None  # there were some
    assert not found.skipped
    without = run(CONFIG, {}, SHORT[:1])
    np.testing.assert_array_equal(found.state.vector, without.state.vector)


def test_faults_in_a_row_make_the_run_go_back_and_halve_its_step() -> None:
    found = run(CONFIG, dict.fromkeys(range(230, 250), "gradient is NaN"), STARTS)
    (back,) = [info for info in found.infos if info.rewound]
    assert back.total == 250  # after twenty bad steps
    untouched = run(CONFIG, {}, STARTS)
    assert found.infos[250].total == 251
    assert found.infos[250].rate == untouched.infos[250].rate / 2
    assert found.trainer.finished(found.state)


# --- giving up a start, and a run -------------------------------------------------------------------------------------


def rewinds_by_leg(found: Run) -> dict[str, int]:
    return dict(Counter(info.leg for info in found.infos if info.rewound))


@pytest.mark.parametrize("kind", KINDS[:2] + KINDS[3:])
@pytest.mark.parametrize("bad", [0, 1, 2])
def test_start_that_keeps_exploding_is_given_up_after_three_rewinds_when_there_are_others(kind: str, bad: int) -> None:
    found = run(CONFIG, dict.fromkeys(range(100 * bad, 100 * bad + 100), kind), [*STARTS, MAIN])
    name = STARTS[bad].name
    assert rewinds_by_leg(found) == {name: 4}  # three returns to safe weights; the fourth time it is given up
    infos = [info for info in found.infos if info.leg == name]
    assert len(infos) == 80
    assert infos[-1].step == 100  # its other steps count as done
    assert infos[-1].total == 100 * bad + 100
    assert found.trainer.finished(found.state)
    assert found.state.total == found.trainer.total_steps
    first = next(info for info in found.infos if info.total == 100 * bad + 101)
    assert first.step == 1
    untouched = next(info for info in run(CONFIG, {}, [*STARTS, MAIN]).infos if info.total == 100 * bad + 101)
    assert first.rate == untouched.rate  # the next leg starts at full rate


def test_start_given_up_does_not_win_over_one_that_learned() -> None:
    found = run(CONFIG, dict.fromkeys(range(100), "gradient is NaN"), STARTS[:2])
    expected = run(CONFIG, {}, STARTS[:2])
    np.testing.assert_array_equal(found.state.vector, expected.state.vector)  # of the second start
    np.testing.assert_array_equal(found.state.best_vector, found.state.vector)


def test_start_without_others_goes_on_until_the_run_has_diverged() -> None:
    found = run(CONFIG, dict.fromkeys(range(1000), "gradient is NaN"), [replace(START, steps=300), MAIN])
    assert found.trainer.diverged(found.state)
    assert rewinds_by_leg(found) == {"start 1": 9}  # each halves the step size; below 1/256 nothing is learned
    assert found.state.total == 180


def test_leg_that_is_not_a_start_is_not_given_up_for_others() -> None:
    found = run(CONFIG, dict.fromkeys(range(100, 1000), "gradient is NaN"), [START, MAIN])
    assert found.trainer.diverged(found.state)
    assert rewinds_by_leg(found) == {"main": 9}
    np.testing.assert_array_equal(
        found.trainer.model(found.state).flatten(), found.state.best_vector.astype(np.float32)
    )


def test_run_whose_starts_all_explode_still_tries_its_main_leg() -> None:
    found = run(CONFIG, dict.fromkeys(range(300), "gradient is NaN"), [*STARTS, MAIN])
    assert rewinds_by_leg(found) == {"start 1": 4, "start 2": 4, "start 3": 4}
    assert found.trainer.finished(found.state)
    main = [info for info in found.infos if info.leg == "main"]
    assert len(main) == MAIN.steps
    assert not any(info.skipped for info in main)
    assert found.state.best_score < np.inf


def test_run_with_nothing_left_ends_as_diverged_with_finite_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tamper(total: int, losses: Array, gradient: Array) -> tuple[Array, Array]:
        return (losses, gradient * np.nan) if total >= 100 else (losses, gradient)

    monkeypatch.setattr(steps, "legs", lambda config: [*STARTS, MAIN])
    with pytest.raises(TrainingDivergedError, match="Training diverged"):
        train(CONFIG, out=tmp_path / "run", tamper=tamper)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["status"] == "diverged"
    assert result["rewinds"] == 4 + 4 + 9  # starts two and three are given up; the main leg cannot be
    kept = rf.load(tmp_path / "run" / "model.safetensors")
    assert np.isfinite(kept.flatten()).all()
    assert np.abs(kept.flatten()).max() > 0
    skipped = [json.loads(line)["skipped"] for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert sum(skipped) == result["skipped"] == 20 * (4 + 4 + 9)  # twenty bad steps before each return


# --- pool legs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [1, 2, 3, 4])
def test_faults_at_every_fourth_step_of_pool_legs_are_stepped_back_from(phase: int) -> None:
    """Four runs with 18 or 19 faults each, at all steps of the pool legs but the first, kinds in turn."""
    points = [15 + 25 * leg + step for leg in range(3) for step in range(phase, 25, 4)]
    faults = {total: KINDS[(number + phase) % len(KINDS)] for number, total in enumerate(points)}
    found = run(DIAGONAL, faults, PLAN)
    assert found.trainer.finished(found.state)
    assert not found.skipped
    met = 0
    for before, info in zip(found.infos[:-1], found.infos[1:], strict=True):
        if info.leg in POOLS and info.leg == before.leg:
            assert info.loss <= before.loss
            if info.total - 1 in faults:
                met += 1
                assert (info.loss, info.rate) == (before.loss, 0.0)  # nothing was accepted in that step
    assert met >= 12  # legs may converge before their last faults
    assert found.infos[-1].loss < found.infos[14].loss


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("leg", list(POOLS))
def test_fault_at_the_first_step_of_a_pool_leg_costs_that_leg_at_most(kind: str, leg: str) -> None:
    plan = [PLAN[0], POOLS[leg], replace(POOLS[leg], name="next")]
    found = run(DIAGONAL, {15: kind}, plan)
    assert found.trainer.finished(found.state)
    infos = [info for info in found.infos if info.leg == leg]
    if kind == "loss explodes":  # finite, so the leg goes on from there
        assert len(infos) > 1
        assert not found.skipped
    else:
        assert len(infos) == 1
        assert [info.total for info in found.infos if info.skipped] == [40]  # the leg's 25 steps count as done
    after = [info for info in found.infos if info.leg == "next"]
    assert after[-1].loss < 0.8 * after[0].loss  # the next leg goes down from there


@pytest.mark.parametrize("kind", KINDS)
def test_pools_that_never_give_a_finite_value_leave_the_result_of_the_legs_before_them(kind: str) -> None:
    found = run(DIAGONAL, dict.fromkeys(range(15, 200), kind), PLAN)
    assert found.trainer.finished(found.state)
    alone = run(DIAGONAL, {}, PLAN[:1])
    if kind != "loss explodes":  # all losses a billion times as large is another scale, and as good a function
        assert found.skipped == [39, 64, 89]
        np.testing.assert_array_equal(found.state.best_vector, alone.state.best_vector)


def test_pool_with_poisoned_contexts_leaves_the_weights_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def poisoned(*arguments: Any) -> Pool:
        pool = stretched_pool(*arguments)
        gram = pool.contexts.gram.copy()
        gram[7] = np.nan
        return pool._replace(contexts=pool.contexts._replace(gram=gram))

    monkeypatch.setattr(steps, "stretched_pool", poisoned)
    found = run(DIAGONAL, {}, PLAN[:3])
    alone = run(DIAGONAL, {}, PLAN[:1])
    assert found.skipped == [39, 64]
    np.testing.assert_array_equal(found.state.vector, alone.state.vector)


def test_history_of_a_lost_pool_leg_is_json_with_null_for_what_is_not_finite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "legs", lambda config: PLAN[:3])

    def tamper(total: int, losses: Array, gradient: Array) -> tuple[Array, Array]:
        return (losses, gradient * np.nan) if total >= 15 else (losses, gradient)

    result = train(DIAGONAL, out=tmp_path / "run", tamper=tamper)
    lines = (tmp_path / "run" / "history.jsonl").read_text().splitlines()

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is not JSON")

    rows = [json.loads(line, parse_constant=refuse) for line in lines]
    lost = [row for row in rows if row["skipped"]]
    assert [row["loss"] for row in lost] == [None, None]
    assert result.skipped == 2
    assert np.isfinite(result.evaluation.adjusted_loss)


class Faulty:
    """A watch that meddles with one evaluation of the function, by its number."""

    def __init__(self, at: int, kind: str) -> None:
        self.at, self.kind, self.calls = at, kind, 0

    def __call__(self, losses: Array, gradient: Array) -> tuple[Array, Array]:
        self.calls += 1
        return FAULTS[self.kind](losses, gradient) if self.calls - 1 == self.at else (losses, gradient)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", list(POOLS))
def test_fault_in_any_single_evaluation_of_a_pool_is_never_accepted(kind: str, which: str) -> None:
    """A fault in the middle of a line search: the honest value at the accepted weights still never rises."""
    task, leg = DIAGONAL.task, POOLS[which]
    model = rf.LinearTransformer.init("diag", layers=2, dim=3, scale=0.1, seed=4, dtype=np.float64)
    pool = sifted_pool(model, task, 64, 4, leg.stretch, 0, 0) if leg.sift else stretched_pool(task, 64, 1.3, 0, 0)
    honest = pool_function(model, pool, leg.saturation)
    assert np.isfinite(honest(model.flatten())[0])
    for at in range(1, 26):  # the start itself, number 0, is the subject of another test
        function = pool_function(model, pool, leg.saturation, watch=Faulty(at, kind))
        vector = model.flatten()
        state = QuasiNewton.start(function, vector)
        for _ in range(20):
            before = state.value
            state, vector, _ = state.iterate(function, vector)
            assert state.value <= before
            assert state.value == honest(vector)[0]
            assert np.isfinite(vector).all()
            assert all(np.isfinite(array).all() for array in (state.gradient, state.steps, state.changes))
            if state.converged:
                break
