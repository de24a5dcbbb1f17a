"""L-BFGS on pools: the function that is minimised, and faults, which are stepped back from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import FAULTS, NAMES, FaultyLosses, run_with, spoiled
from plans import short_run

import ridgeformer as rf
from ridgeformer.core.notation import Array
from ridgeformer.core.objective import losses_and_gradient_on
from ridgeformer.evaluation import adjusted_losses
from ridgeformer.training import TrainConfig, pools, train
from ridgeformer.training.adam_stage import AdamStage
from ridgeformer.training.optimisers import QuasiNewton
from ridgeformer.training.pools import Pool, PoolStage, pool_function, sifted_pool, stretched_pool
from ridgeformer.training.stages import Stage
from support import relative_error, tame_model

DIAGONAL = TrainConfig(kind="diag", layers=2, dim=3, examples=8, batch=32, sequences=500, noise="uniform:2")
POOLS = {
    "stretched, saturated": PoolStage(name="stretched, saturated", steps=25, pool=256, saturation=100.0),
    "stretched": PoolStage(name="stretched", steps=25, pool=256),
    "sifted": PoolStage(name="sifted", steps=25, pool=256, sift=4),
}
PLAN: list[Stage] = [
    AdamStage(name="start", steps=15, rate=1e-2, batch=32, origin="init", init_scale=0.1),
    *POOLS.values(),
]


def mild_model(task: rf.Task, kind: str = "diag") -> rf.LinearTransformer:
    return tame_model(kind, 2, 1, task.dim, task.draw_contexts(1000, seed=5).context.gram, strength=1.0)


# --- the function that is minimised -----------------------------------------------------------------------------------


def difference_quotients(function: Callable[[Array], tuple[float, Array]], vector: Array) -> Array:
    """∂/∂θ for every parameter, by the fourth-order central formula (8 f(1) − 8 f(−1) − f(2) + f(−2)) / 12h."""
    # Relative to the parameters: 1e-3 makes the error of the formula, h⁴ f⁽⁵⁾/30, and that of rounding, eps/h,
    # both about 1e-12 of the derivative.
    step = 1e-3 * np.abs(vector).max()

    def value(number: int, steps: int) -> float:
        shifted = vector.copy()
        shifted[number] += steps * step
        return function(shifted)[0]

    def quotient(number: int) -> float:
        near, far = value(number, 1) - value(number, -1), value(number, 2) - value(number, -2)
        return (8 * near - far) / (12 * step)

    return np.array([quotient(number) for number in range(len(vector))])


@pytest.mark.parametrize("kind", ["gdpp", "diag", "full"])
@pytest.mark.parametrize("saturation", [0.0, 0.5, 100.0])
@pytest.mark.parametrize("make", ["stretched", "sifted"])
def test_pool_function_is_the_logarithm_of_the_weighted_mean_and_has_its_gradient(
    kind: str, saturation: float, make: str
) -> None:
    task = rf.Task(3, 6, "uniform:2")
    model = mild_model(task, kind)
    pool = stretched_pool(task, 50, 1.3, 1, 1) if make == "stretched" else sifted_pool(model, task, 40, 4, 1.3, 1, 1)
    function = pool_function(model, pool, saturation)
    value, gradient = function(model.flatten())
    losses = adjusted_losses(model, rf.Context(pool.contexts.gram, 6), pool.contexts.oracle)
    bounded = saturation * np.log1p(losses / saturation) if saturation else losses
    assert value == pytest.approx(np.log(np.average(bounded * pool.importance)), rel=1e-12)
    # As in test_objective.py: rounding of the loss over the step; measured, 2e-11.
    assert relative_error(difference_quotients(function, model.flatten()), gradient) < 1e-9
    _, even = pool_function(model, pool._replace(importance=np.ones(len(losses))), saturation)(model.flatten())
    assert relative_error(even, gradient) > 1e-3  # the control: importance is in it


@pytest.mark.parametrize("saturation", [0.0, 100.0])
def test_pool_function_is_infinite_where_the_model_explodes(saturation: float) -> None:
    task = rf.Task(3, 8, "uniform:2")
    model = rf.LinearTransformer.init("diag", layers=4, dim=3, scale=0.1, dtype=np.float64)
    function = pool_function(model, stretched_pool(task, 100, 1.3, 0, 0), saturation)
    assert np.isfinite(function(0.1 * model.flatten())[0])
    for factor in (1e4, 1e10, 1e100, 1e300):
        assert function(factor * model.flatten())[0] == np.inf


@pytest.mark.parametrize("saturation", [0.0, 10.0])
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["one loss", "all losses", "gradient"])
def test_pool_function_is_infinite_when_anything_is_not_finite(where: str, poison: float, saturation: float) -> None:
    task = rf.Task(3, 8, "uniform:2")
    model, pool = mild_model(task), stretched_pool(task, 100, 1.3, 0, 0)

    def fault(losses: Array, flat: Array) -> tuple[Array, Array]:
        if where == "gradient":
            return losses, np.r_[flat[:-1], poison]
        return (np.r_[poison, losses[1:]] if where == "one loss" else np.full_like(losses, poison)), flat

    function = pool_function(model, pool, saturation, losses_on=spoiled(fault, losses_and_gradient_on))
    assert function(model.flatten())[0] == np.inf


def test_pool_function_does_not_depend_on_the_number_of_threads() -> None:
    task = rf.Task(3, 8, "uniform:2")
    model, pool = mild_model(task, "full"), stretched_pool(task, 3000, 1.3, 0, 0)
    one, two = (pool_function(model, pool, 0.0, threads)(model.flatten()) for threads in (1, 2))
    assert one[0] == two[0]
    np.testing.assert_array_equal(one[1], two[1])


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [1, 2, 3, 4])
def test_faults_at_every_fourth_step_of_pool_stages_are_stepped_back_from(phase: int) -> None:
    """Four runs with 18 or 19 faults each, at all steps of the pool stages except the first, one after the other."""
    points = [15 + 25 * stage + step for stage in range(3) for step in range(phase, 25, 4)]
    faults = {total: NAMES[(number + phase) % len(NAMES)] for number, total in enumerate(points)}
    ended = run_with(faults, DIAGONAL, PLAN)
    assert ended.finished
    assert not ended.skipped
    met = 0
    for before, info in zip(ended.infos[:-1], ended.infos[1:], strict=True):
        if info.stage in POOLS and info.stage == before.stage:
            assert info.loss <= before.loss
            if info.total - 1 in faults:
                met += 1
                assert (info.loss, info.rate) == (before.loss, 0.0)  # nothing was accepted in that step
    assert met >= 12  # stages may converge before their last faults
    assert ended.infos[-1].loss < ended.infos[14].loss


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("stage", list(POOLS))
def test_fault_at_the_first_step_of_a_pool_stage_costs_that_stage_at_most(kind: str, stage: str) -> None:
    plan = [PLAN[0], POOLS[stage], replace(POOLS[stage], name="next")]
    ended = run_with({15: kind}, DIAGONAL, plan)
    assert ended.finished
    infos = ended.of(stage)
    if kind == "loss explodes":  # finite, so the stage goes on from there
        assert len(infos) > 1
        assert not ended.skipped
    else:
        assert len(infos) == 1
        assert [info.total for info in ended.infos if info.skipped] == [40]  # the stage's 25 steps count as done
    after = ended.of("next")
    assert after[-1].loss < 0.8 * after[0].loss  # the next stage goes down from there


@pytest.mark.parametrize("kind", NAMES)
def test_pools_that_never_give_a_finite_value_leave_the_result_of_the_stages_before_them(kind: str) -> None:
    ended = run_with(dict.fromkeys(range(15, 200), kind), DIAGONAL, PLAN)
    assert ended.finished
    alone = run_with({}, DIAGONAL, PLAN[:1])
    if kind != "loss explodes":  # all losses a billion times as large is another scale, and as good a function
        assert ended.skipped == [39, 64, 89]
        np.testing.assert_array_equal(ended.state.best_vector, alone.state.best_vector)


def test_pool_with_poisoned_contexts_leaves_the_weights_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def poisoned(*arguments: Any) -> Pool:
        pool = stretched_pool(*arguments)
        gram = pool.contexts.gram.copy()
        gram[7] = np.nan
        return pool._replace(contexts=pool.contexts._replace(gram=gram))

    monkeypatch.setattr(pools, "stretched_pool", poisoned)
    ended = run_with({}, DIAGONAL, PLAN[:3])
    alone = run_with({}, DIAGONAL, PLAN[:1])
    assert ended.skipped == [39, 64]
    np.testing.assert_array_equal(ended.state.vector, alone.state.vector)


def test_history_of_a_lost_pool_stage_is_json_with_null_for_what_is_not_finite(tmp_path: Path) -> None:
    losses = FaultyLosses(dict.fromkeys(range(15, 200), "gradient is NaN"))
    result = train(short_run(DIAGONAL, PLAN[:3], **losses.fields), out=tmp_path / "run", callbacks=[losses])
    lines = (tmp_path / "run" / "history.jsonl").read_text().splitlines()

    def refuse(text: str) -> None:
        raise AssertionError(f"{text} is not JSON")

    rows = [json.loads(line, parse_constant=refuse) for line in lines]
    lost = [row for row in rows if row["skipped"]]
    assert [row["loss"] for row in lost] == [None, None]
    assert result.skipped == 2
    assert np.isfinite(result.evaluation.adjusted_loss)


class Faulty:
    """A fault in one evaluation of the function, by its number."""

    def __init__(self, at: int, kind: str) -> None:
        self.at, self.kind, self.calls = at, kind, 0

    def __call__(self, losses: Array, gradient: Array) -> tuple[Array, Array]:
        self.calls += 1
        return FAULTS[self.kind](losses, gradient) if self.calls - 1 == self.at else (losses, gradient)


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("which", list(POOLS))
def test_fault_in_any_single_evaluation_of_a_pool_is_never_accepted(kind: str, which: str) -> None:
    """A fault in the middle of a line search: the honest value at the accepted weights still never rises."""
    task, stage = DIAGONAL.task, POOLS[which]
    model = rf.LinearTransformer.init("diag", layers=2, dim=3, scale=0.1, seed=4, dtype=np.float64)
    pool = sifted_pool(model, task, 64, 4, stage.stretch, 0, 0) if stage.sift else stretched_pool(task, 64, 1.3, 0, 0)
    honest = pool_function(model, pool, stage.saturation)
    assert np.isfinite(honest(model.flatten())[0])
    for at in range(1, 26):  # the start itself, number 0, is the subject of another test
        faulty = spoiled(Faulty(at, kind), losses_and_gradient_on)
        function = pool_function(model, pool, stage.saturation, losses_on=faulty)
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
