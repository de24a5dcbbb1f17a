"""Stages: what each kind does, which result is kept, and that results do not depend on threads."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from plans import ADAM, LARGER, POOLS, SHORT_FIT, SMALLER, SPECTRAL, short_run, trail_of
from ridgeformer.training import StepInfo, TrainConfig, TrainingInterruptedError, train
from ridgeformer.training.adam_stage import AdamStage
from ridgeformer.training.natural_stage import NaturalStage
from ridgeformer.training.pools import PoolStage
from ridgeformer.training.recipes import stages_of
from ridgeformer.training.spectral import SpectralStage, fit_spectrum
from ridgeformer.training.stages import Run, shaken
from support import refused, relative_error, tame_model

# --- runs of the recipes themselves -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "layers", "rate"), [("diag", 1, 1e-2), ("full", 4, 1e-2)])
def test_training_learns_and_calls_back_after_every_step(model: str, layers: int, rate: float) -> None:
    infos: list[StepInfo] = []
    config = TrainConfig(
        kind=model, layers=layers, dim=2, examples=6, steps=200, batch=64, sequences=900, noise="uniform:4.5", rate=rate
    )
    result = train(config, callbacks=infos.append)
    steps = {stage.name: stage.steps for stage in stages_of(config)}
    for before, after in itertools.pairwise(infos):
        # Every step is reported; a stage that converges early counts its remaining steps as done.
        assert after.total == before.total + 1 or after.step == steps[after.stage]
    assert infos[0].total == 1
    assert infos[-1].total == result.steps == sum(steps.values())
    zero = rf.LinearTransformer.init(model, layers=layers, dim=2, scale=0.0)
    # One layer of gradient descent is far better than predicting zero; by how much depends on the task. The median,
    # since two hundred steps are not enough to control the tail.
    assert result.evaluation.median < 0.5 * rf.evaluate(zero, config.task, 900).median


@pytest.mark.parametrize("noise", ["fixed:1", "fixed:0"])
@pytest.mark.parametrize(("model", "layers"), [("gdpp", 1), ("diag", 1), ("full", 4)])
@pytest.mark.parametrize("recipe", ["fast", "paper"])
def test_every_recipe_runs_on_other_sizes_and_heads(model: str, layers: int, recipe: str, noise: str) -> None:
    sizes = {"layers": layers, "heads": 2, "dim": 4, "examples": 3, "steps": 4, "batch": 32, "sequences": 50}
    config = TrainConfig(kind=model, recipe=recipe, noise=noise, **sizes)  # type: ignore[arg-type]
    stages = [SHORT_FIT if isinstance(stage, SpectralStage) else stage for stage in stages_of(config)]
    small = [replace(stage, pool=512) if isinstance(stage, PoolStage) else stage for stage in stages]
    result = train(short_run(config, small))
    assert np.isfinite(result.evaluation.adjusted_loss)
    assert result.model.dtype == config.dtype
    assert (result.model.kind, result.model.layers, result.model.heads) == (model, layers, 2)


@pytest.mark.parametrize("config", [ADAM, POOLS, SPECTRAL, LARGER], ids=lambda config: f"{config.kind}, {config.noise}")
def test_training_does_not_depend_on_the_number_of_threads(config: TrainConfig) -> None:
    one, two = (train(short_run(replace(config, seed=1), threads=threads)) for threads in (1, 2))
    np.testing.assert_array_equal(one.model.flatten(), two.model.flatten())
    assert one.history == two.history


# --- pool stages ------------------------------------------------------------------------------------------------------


def test_pool_stages_only_ever_lower_the_loss_of_their_pool_and_end_when_converged() -> None:
    run, early = short_run(POOLS), 0
    trail = trail_of(run)
    for stage in run.stages:
        if isinstance(stage, PoolStage):
            infos = [info for _, info in trail if info.stage == stage.name]
            assert (np.diff([info.loss for info in infos]) <= 0).all()
            assert infos[-1].step == stage.steps
            assert all(info.loss == info.smoothed and 0 <= info.rate <= 1 for info in infos)
            assert not any(info.skipped or info.rewound for info in infos)
            early += len(infos) < stage.steps
    assert early  # at least one converges early
    assert trail[-1][1].total == sum(stage.steps for stage in run.stages)


def test_curvature_is_part_of_the_state_in_pool_stages_only_which_work_in_float64() -> None:
    run, vectors = short_run(POOLS), []
    assert POOLS.dtype == "float32"
    for state, info in trail_of(run):
        within_pool = not run.finished(state) and isinstance(run.stages[state.stage], PoolStage) and state.step > 0
        assert (state.curvature is not None) == within_pool, info
        vectors += [state.vector] * within_pool
    assert all(vector.dtype == np.float64 for vector in vectors)
    assert any((vector != vector.astype(np.float32)).any() for vector in vectors)


def test_pool_of_a_stage_is_the_same_whenever_it_is_drawn_again() -> None:
    """A process that takes over in the middle of a stage draws the pool from the weights that it started from."""
    for config in (POOLS, SPECTRAL):
        for (before, _), (after, _) in itertools.pairwise(trail_of(short_run(config))):
            if before.curvature is not None and before.step % 7 == 3:
                again, _ = short_run(config).step(before)
                np.testing.assert_array_equal(again.vector, after.vector)


# --- models of a smaller kind as a start ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "config"),
    [
        ("diag+0", {"kind": "diag", "layers": 2, "registers": 1}),
        ("diag+1", {"kind": "diag", "layers": 4, "registers": 3, "heads": 2}),
        ("diag+2", {"kind": "full", "layers": 2, "registers": 2}),
        ("full+1", {"kind": "full", "layers": 3, "registers": 2}),
    ],
)
def test_model_with_fewer_registers_is_taken_over_as_the_same_function_that_can_learn_to_use_the_new_ones(
    source: str, config: dict[str, Any]
) -> None:
    task = rf.Task(3, 8)
    draw = task.draw_contexts(40, seed=0)
    given = tame_model(source, 2, 1, 3, draw.context.gram).astype(np.float32)
    start = Run(TrainConfig(dim=3, examples=8, **config), ()).adopt(given)
    assert (start.kind, start.layers, start.registers) == (config["kind"], config["layers"], config["registers"])
    weights = [rf.context_weights(model.astype(np.float64), draw.context) for model in (given, start)]
    assert relative_error(*weights) < 1e-12  # the same sums, some with more terms that are zero
    _, gradient = rf.losses_and_gradient_on(start.astype(np.float64), draw)
    # Nothing is in the new registers yet, so p learns to write into them first; the last layer's would be in vain.
    written = gradient.attention_matrices()[0][-2, 0, given.dim + given.registers : -1]
    assert written.any(axis=-1).all()


NATURAL = NaturalStage(name="natural gradient", steps=1, origin="given")


@pytest.mark.parametrize(("kind", "used", "heads"), [("gdpp", 1, 2), ("diag", 1, 3), ("full", 2, 4), ("full", 2, 3)])
def test_model_with_fewer_heads_is_split_into_the_same_function_in_which_every_number_matters(
    kind: str, used: int, heads: int
) -> None:
    draw = rf.Task(3, 8).draw_contexts(40, seed=0)
    given = tame_model(kind, 3, used, 3, draw.context.gram)
    config = TrainConfig(kind=kind, layers=3, heads=heads, dim=3, examples=8, precision="float64")
    start = NATURAL.grown(Run(config, (), given=given))
    weights = [rf.context_weights(model, draw.context) for model in (given, start)]
    assert relative_error(*weights) < 1e-12  # the same sums in another order
    _, gradient = rf.losses_and_gradient_on(start, draw)
    for name, array in gradient.parameters.items():
        below_last = array[:-1]  # of the last layer only the last row matters
        assert (below_last != 0).all(), name
    assert len({array.tobytes() for array in start.parameters[name].swapaxes(0, 1)}) == heads  # no two are the same


def test_model_with_as_many_heads_as_the_run_is_taken_over_bit_for_bit() -> None:
    given = rf.LinearTransformer.init("full", layers=2, heads=2, dim=3, scale=0.1)
    run = Run(TrainConfig(kind="full", layers=2, heads=2, dim=3, examples=8), (), given=given)
    np.testing.assert_array_equal(NATURAL.grown(run).flatten(), given.flatten())


def test_only_the_natural_gradient_splits_heads_and_adam_gets_new_ones_that_do_nothing_yet() -> None:
    given = rf.LinearTransformer.init("full", layers=2, heads=1, dim=3, scale=0.1)
    run = Run(TrainConfig(kind="full", layers=2, heads=2, dim=3, examples=8), (), given=given)
    old, new = np.moveaxis(AdamStage(name="main", steps=1, rate=1e-3, origin="given").grown(run).parameters["P"], 1, 0)
    np.testing.assert_array_equal(old, given.parameters["P"][:, 0])
    assert not new.any()
    assert NATURAL.grown(run).parameters["P"][:, 1].all()


def test_model_with_more_registers_than_the_run_is_refused() -> None:
    given = rf.LinearTransformer.init("diag", layers=1, registers=2)
    refused("2 registers, more than the run's 1", Run(TrainConfig(kind="diag", registers=1), ()).adopt, given)


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_training_with_registers_learns_and_does_not_depend_on_threads_or_on_being_resumed(
    kind: str, tmp_path: Path
) -> None:
    config = TrainConfig(kind=kind, layers=2, registers=2, dim=3, examples=8, noise="uniform:2", sequences=500)
    adam = AdamStage(name="adam", steps=60, rate=1e-2, batch=64, origin="init", init_scale=0.1, warmup=5)
    plan = [adam, PoolStage(name="finish", steps=20, pool=2048, saturation=10.0)]
    one, two = (train(short_run(config, plan, threads=threads)) for threads in (1, 2))
    zero = rf.LinearTransformer.init(kind, layers=2, dim=3, scale=0.0)
    assert one.evaluation.median < 0.7 * rf.evaluate(zero, config.task, 500).median
    assert one.model.registers == 2
    np.testing.assert_array_equal(one.model.flatten(), two.model.flatten())

    def stop(info: StepInfo) -> None:
        if info.total == 30:
            raise KeyboardInterrupt

    with pytest.raises(TrainingInterruptedError):
        train(short_run(config, plan), out=tmp_path / "run", callbacks=stop)
    resumed = train(short_run(config, plan), out=tmp_path / "run", resume=True)
    np.testing.assert_array_equal(resumed.model.flatten(), one.model.flatten())
    assert rf.load(tmp_path / "run" / "model.safetensors").registers == 2


@pytest.mark.parametrize(("model", "heads"), [("gdpp", 1), ("diag", 2), ("full", 2)])
def test_spectral_stage_takes_over_the_best_gdpp_model(model: str, heads: int) -> None:
    config = replace(POOLS, kind=model, heads=heads)
    run = short_run(config, [SHORT_FIT], ranked_on=65_536)
    ((state, info),) = trail_of(run)
    assert (info.step, info.total, info.skipped) == (1, 1, False)
    result, expected = run.model(state), fit_spectrum(config.task, config.layers, config.seed, None, 2, 50)
    assert (result.kind, result.heads, result.dtype.name) == (model, heads, "float32")
    for result_side, expected_side in zip(result.attention_matrices(), expected.attention_matrices(), strict=True):
        np.testing.assert_array_equal(result_side[:, :1], expected_side.astype(np.float32))
    context = config.task.draw_contexts(100, seed=1).context
    # The same function, whatever further heads hold; float32 rounds to 6e-8.
    np.testing.assert_allclose(
        rf.context_weights(result.astype(np.float64), context), rf.context_weights(expected, context), atol=1e-5
    )
    fresh = rf.evaluate(expected, config.task, 20_000)
    assert info.loss == pytest.approx(fresh.adjusted_loss, rel=0.1)  # saturated, and on other sequences


def test_stage_with_the_smaller_origin_takes_over_the_result_of_a_run_of_the_smaller_kind() -> None:
    run, alone = short_run(LARGER), short_run(replace(LARGER, kind="diag"), SMALLER)
    state, info = next((state, info) for state, info in trail_of(run) if state.kind == "full")
    smaller = alone.model(trail_of(alone)[-1][0])
    np.testing.assert_array_equal(state.vector, smaller.embed("full").flatten())
    np.testing.assert_array_equal(state.best_vector, state.vector)
    assert (info.stage, info.total, state.step) == ("diagonal, stretched", 16, 0)
    assert state.best_score == run.score("full", state.vector)


def test_result_of_a_run_that_stops_within_the_smaller_kind_is_of_the_larger_one() -> None:
    run = short_run(LARGER)
    state, _ = run.step(run.start())
    assert (state.kind, run.model(state).kind) == ("diag", "full")


# --- which result is kept ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tolerance", "scores", "kept"),
    [(0.0, [2.0, 1.0], 1), (0.0, [1.0, 1.0], 1), (0.0, [1.0, 1.01], 0), (0.1, [1.0, 1.09], 1), (0.1, [1.0, 1.11], 0)],
)
def test_result_of_a_stage_is_kept_when_it_is_no_worse_than_its_tolerance_allows(
    tolerance: float, scores: list[float], kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    adam = AdamStage(name="first", steps=2, rate=1e-3, batch=8, origin="init", init_scale=0.02)
    answers = iter(scores)
    monkeypatch.setattr(Run, "score", lambda *arguments: next(answers))
    trail = trail_of(short_run(ADAM, [adam, replace(adam, name="second", origin="previous", tolerance=tolerance)]))
    state, ends = trail[-1][0], [state.vector for state, info in trail if info.step == 2]
    np.testing.assert_array_equal(state.best_vector, ends[kept])
    assert state.best_score == scores[kept]
    assert not np.array_equal(ends[0], ends[1])


def test_stage_starts_where_it_says() -> None:
    adam = AdamStage(name="one", steps=1, rate=0.5, batch=8, origin="init", init_scale=0.02, warmup=1)
    origins = ("init", "init", "previous", "best")
    run = short_run(ADAM, [replace(adam, name=str(number), origin=origin) for number, origin in enumerate(origins)])
    trail = [state for state, _ in trail_of(run)]
    fresh = [run.fresh("full", number, 0.02).flatten() for number in (0, 1)]
    np.testing.assert_array_equal(trail[0].vector, fresh[1])  # the state after a stage holds the start of the next
    assert not np.array_equal(fresh[0], fresh[1])
    other = short_run(replace(ADAM, seed=1), run.stages).fresh("full", 0, 0.02)
    assert not np.array_equal(run.fresh("full", 1000, 0.02).flatten(), other.flatten())  # not seed · 1000 + number
    assert trail[1].step == 0
    np.testing.assert_array_equal(trail[2].vector, trail[2].best_vector)
    assert not np.array_equal(trail[1].vector, trail[0].vector)
    assert trail[2].adam.count == 0


def test_finalists_are_the_best_of_the_stages_that_compete_best_first(monkeypatch: pytest.MonkeyPatch) -> None:
    adam = AdamStage(name="start", steps=1, rate=1e-3, batch=8, origin="init", init_scale=0.02, competes=True)
    stages = [replace(adam, name=f"start {number}") for number in range(4)]
    # The third has the lowest score, but it does not compete; the fourth comes in before the first.
    stages[2] = replace(stages[2], competes=False)
    final = replace(adam, origin="finalist", competes=False)
    run = short_run(ADAM, [*stages, *(replace(final, name=f"final {number}") for number in range(2))])
    answers = iter([3.0, 4.0, 1.0, 2.0, 9.0, 9.0])
    monkeypatch.setattr(Run, "score", lambda *arguments: next(answers))
    state, ends = run.start(), []
    for stage in run.stages:
        inside, _ = stage.step(run, state)
        ends.append(inside.vector)
        state, _ = run.step(state)
        if len(ends) == 3:
            assert [score for score, _ in state.finalists] == [3.0, 4.0]
        if len(ends) == 4:
            np.testing.assert_array_equal(state.vector, ends[3])
            assert [score for score, _ in state.finalists] == [3.0]
        if len(ends) == 5:
            np.testing.assert_array_equal(state.vector, ends[0])
            assert state.finalists == ()


def test_stage_that_needs_a_finalist_where_none_is_left_says_so() -> None:
    adam = AdamStage(name="start", steps=1, rate=1e-3, batch=8, origin="init", init_scale=0.02)
    run = short_run(ADAM, [adam, replace(adam, name="final", origin="finalist")])
    refused("'final' goes on from a finalist", run.step, run.start())


# --- hops -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_shaken_models_have_all_parameters_changed_or_one_layer_replaced_by_an_empty_one(kind: str) -> None:
    model = rf.LinearTransformer.init(kind, layers=4, dim=3, scale=0.1, seed=1, dtype=np.float64)
    fresh = rf.LinearTransformer.init(kind, layers=4, dim=3, scale=0.5, seed=2, dtype=np.float64)
    first = next(iter(model.parameters))  # p or P: what a layer writes
    old = [layer.tobytes() for layer in model.parameters[first]]
    places, changed = set(), 0
    for seed in range(60):
        found = shaken(model, fresh, np.random.default_rng(seed)).parameters
        empty = [number for number, layer in enumerate(found[first]) if not layer.any()]
        if not empty:
            changed += 1
            for name, array in found.items():
                np.testing.assert_allclose(array, model.parameters[name] * (1 + fresh.parameters[name]))
            continue
        (place,) = empty
        places.add(place)
        kept = [layer.tobytes() for number, layer in enumerate(found[first]) if number != place]
        assert kept in [old[:number] + old[number + 1 :] for number in range(4)]  # the others, in their order
        assert all(array[place].any() for name, array in found.items() if name != first)  # or it could not learn
    assert 15 < changed < 45
    assert places == {0, 1, 2, 3}


def test_hops_start_near_the_best_weights_so_far_and_each_somewhere_else() -> None:
    adam = AdamStage(name="one", steps=1, rate=1e-3, batch=8, origin="init", init_scale=0.02, warmup=1)
    hop = replace(adam, origin="shaken", init_scale=0.5)
    run = short_run(ADAM, [adam, *(replace(hop, name=f"hop {number}") for number in range(12))])
    state, starts = run.start(), []
    for _ in range(12):
        best = state.best_score
        state, _ = run.step(state)
        assert state.best_score <= best
        starts.append(state.vector)
    assert len({start.tobytes() for start in starts}) == 12
    layers = [run.template("full").unflatten(start).parameters["P"] for start in starts]
    assert len({all(layer.any() for layer in model) for model in layers}) == 2  # both kinds of change
    again = run.start()
    for start in starts:
        again, _ = run.step(again)
        assert (again.vector == start).all()
