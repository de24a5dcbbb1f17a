"""Training steps: what each kind of leg does, which result is kept, and that results do not depend on threads."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import plans
import pytest
from plans import ADAM, LARGER, POOLS, SMALLER, SPECTRAL

import ridgeformer as rf
from ridgeformer.training import TrainConfig, recipes, steps, train
from ridgeformer.training.recipes import AdamLeg, Leg, PoolLeg, SpectralLeg
from ridgeformer.training.spectral import fit_spectrum
from ridgeformer.training.state import TrainState
from ridgeformer.training.steps import StepInfo, Trainer


@pytest.fixture
def short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    plans.install(monkeypatch.setattr)


def states_of(config: TrainConfig, plan: Sequence[Leg] | None = None) -> list[tuple[TrainState, StepInfo]]:
    """The state and the report after every step of a run."""
    trainer = Trainer(config, plan=plan)
    state, trail = trainer.start(), []
    while not trainer.finished(state):
        state, info = trainer.step(state)
        trail.append((state, info))
    return trail


# --- runs of the recipes themselves -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "layers", "rate"), [("diag", 1, 1e-2), ("full", 4, 1e-2)])
def test_training_learns_and_calls_back_after_every_step(model: str, layers: int, rate: float) -> None:
    seen: list[StepInfo] = []
    config = TrainConfig(
        kind=model, layers=layers, dim=2, examples=6, steps=200, batch=64, sequences=5000, noise="uniform:2", rate=rate
    )
    result = train(config, callbacks=[seen.append])
    steps = {leg.name: leg.steps for leg in Trainer(config).legs}
    for before, after in itertools.pairwise(seen):
        # Every step is reported; a leg that converges early counts its remaining steps as done.
        assert after.total == before.total + 1 or after.step == steps[after.leg]
    assert seen[0].total == 1
    assert seen[-1].total == result.steps == Trainer(config).total_steps
    zero = rf.LinearTransformer.init(model, layers=layers, dim=2, scale=0.0)
    # One layer of gradient descent is far better than predicting zero; by how much depends on the task. The median,
    # since two hundred steps are not enough to tame the tail.
    assert result.evaluation.median < 0.5 * rf.evaluate(zero, config.task, 5000).median


@pytest.mark.parametrize("noise", ["fixed:1", "fixed:0"])
@pytest.mark.parametrize(("model", "layers"), [("gdpp", 1), ("diag", 1), ("full", 4)])
@pytest.mark.parametrize("recipe", ["fast", "paper"])
def test_every_recipe_runs_on_other_sizes_and_heads(
    model: str, layers: int, recipe: str, noise: str, short_fits: None
) -> None:
    config = TrainConfig(
        kind=model,
        recipe=recipe,
        layers=layers,
        heads=2,
        dim=4,
        examples=3,
        noise=noise,
        steps=4,
        batch=32,
        sequences=50,
    )
    result = train(config)
    assert np.isfinite(result.evaluation.adjusted_loss)
    assert result.model.dtype == config.dtype
    assert (result.model.kind, result.model.layers, result.model.heads) == (model, layers, 2)


@pytest.fixture
def short_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spectral fits as in short runs; legs as in the recipes."""
    plans.install(monkeypatch.setattr)
    monkeypatch.setattr(steps, "legs", recipes.legs)


@pytest.mark.parametrize("config", [ADAM, POOLS, SPECTRAL, LARGER], ids=lambda c: f"{c.model}, {c.noise}")
def test_training_does_not_depend_on_the_number_of_threads(config: TrainConfig, short_runs: None) -> None:
    one, two = (train(replace(config, seed=1), threads=threads) for threads in (1, 2))
    np.testing.assert_array_equal(one.model.flatten(), two.model.flatten())
    assert one.history == two.history


# --- pool legs --------------------------------------------------------------------------------------------------------


def test_pool_legs_only_ever_lower_the_loss_of_their_pool_and_end_when_converged(short_runs: None) -> None:
    trail, plan, early = states_of(POOLS), Trainer(POOLS).legs, 0
    for leg in plan:
        if isinstance(leg, PoolLeg):
            infos = [info for _, info in trail if info.leg == leg.name]
            assert (np.diff([info.loss for info in infos]) <= 0).all()
            assert infos[-1].step == leg.steps
            assert all(info.loss == info.smoothed for info in infos)
            assert all(0 <= info.rate <= 1 for info in infos)
            assert not any(info.skipped or info.rewound for info in infos)
            early += len(infos) < leg.steps
    assert early  # at least one converges early
    assert trail[-1][1].total == sum(leg.steps for leg in plan)


def test_curvature_is_part_of_the_state_in_pool_legs_only(short_runs: None) -> None:
    plan = Trainer(POOLS).legs
    for state, info in states_of(POOLS):
        within_pool = state.leg < len(plan) and isinstance(plan[state.leg], PoolLeg) and state.step > 0
        assert (state.curvature is not None) == within_pool, info


def test_pool_leg_of_a_float32_run_works_in_float64(short_runs: None) -> None:
    assert POOLS.dtype == "float32"
    pool = [state.vector for state, _ in states_of(POOLS) if state.curvature is not None]
    assert all(vector.dtype == np.float64 for vector in pool)
    assert any((vector != vector.astype(np.float32)).any() for vector in pool)


def test_pool_of_a_leg_is_the_same_whenever_it_is_drawn_again(short_runs: None) -> None:
    """A trainer that takes over in the middle of a leg draws the pool from the weights that the leg started from."""
    for config in (POOLS, SPECTRAL):
        trail = states_of(config)
        for (before, _), (after, _) in itertools.pairwise(trail):
            if before.curvature is not None and before.step % 7 == 3:
                again, _ = Trainer(config).step(before)
                np.testing.assert_array_equal(again.vector, after.vector)


# --- legs of one step -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "heads"), [("gdpp", 1), ("diag", 2), ("full", 2)])
def test_spectral_leg_takes_over_the_best_gdpp_model(model: str, heads: int, short_fits: None) -> None:
    config = replace(POOLS, kind=model, heads=heads)
    trainer = Trainer(config, plan=[SpectralLeg(name="spectral", steps=1, start="init")])
    state, info = trainer.step(trainer.start())
    assert trainer.finished(state)
    assert (info.step, info.total, info.skipped) == (1, 1, False)
    found, expected = trainer.model(state), fit_spectrum(config.task, config.layers, config.seed)
    assert (found.kind, found.heads, found.dtype.name) == (model, heads, "float32")
    for found_side, expected_side in zip(found.attention_matrices(), expected.attention_matrices(), strict=True):
        np.testing.assert_array_equal(found_side[:, :1], expected_side.astype(np.float32))
    context = config.task.draw_contexts(100, seed=1).context
    # The same function, whatever further heads hold; float32 rounds to 6e-8.
    np.testing.assert_allclose(
        rf.context_weights(found.astype(np.float64), context), rf.context_weights(expected, context), atol=1e-5
    )
    fresh = rf.evaluate(expected, config.task, 20_000)
    assert info.loss == pytest.approx(fresh.adjusted_loss, rel=0.1)  # saturated, and on other sequences


def test_diagonal_leg_takes_over_the_result_of_a_run_of_the_smaller_kind(short_runs: None) -> None:
    trainer = Trainer(LARGER)
    state, info = trainer.step(trainer.start())
    while state.leg == 0:
        assert state.inner is not None
        state, info = trainer.step(state)
    smaller = Trainer(replace(LARGER, kind="diag"), plan=SMALLER)
    alone = smaller.start()
    while not smaller.finished(alone):
        alone, _ = smaller.step(alone)
    found = trainer._template.unflatten(state.vector)
    np.testing.assert_array_equal(found.flatten(), smaller.model(alone).embed("full").flatten())
    assert (info.step, info.total, state.inner) == (16, 16, None)
    assert info.leg == "diagonal, stretched"


# --- which result is kept ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tolerance", "scores", "kept"),
    [
        (0.0, [2.0, 1.0], 1),
        (0.0, [1.0, 1.0], 1),
        (0.0, [1.0, 1.01], 0),
        (0.1, [1.0, 1.09], 1),
        (0.1, [1.0, 1.11], 0),
    ],
)
def test_result_of_a_leg_is_kept_when_it_is_no_worse_than_its_tolerance_allows(
    tolerance: float, scores: list[float], kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    adam = AdamLeg(name="first", steps=2, rate=1e-3, batch=8, start="init", init_scale=0.02)
    trainer = Trainer(ADAM, plan=[adam, replace(adam, name="second", start="previous", tolerance=tolerance)])
    answers = iter(scores)
    monkeypatch.setattr(trainer, "_score", lambda model: next(answers))
    state, ends = trainer.start(), []
    while not trainer.finished(state):
        state, info = trainer.step(state)
        if info.step == 2:
            ends.append(state.vector)
    np.testing.assert_array_equal(state.best_vector, ends[kept])
    assert state.best_score == scores[kept]
    assert not np.array_equal(ends[0], ends[1])


def test_leg_starts_where_it_says() -> None:
    adam = AdamLeg(name="one", steps=1, rate=0.5, batch=8, start="init", init_scale=0.02, warmup=1)
    plan = [
        adam,
        replace(adam, name="two"),
        replace(adam, name="three", start="previous"),
        replace(adam, name="four", start="best"),
    ]
    trail = [state for state, _ in states_of(ADAM, plan)]
    fresh = [Trainer(ADAM, plan=plan)._fresh(adam, number).flatten() for number in (0, 1)]
    np.testing.assert_array_equal(trail[0].vector, fresh[1])  # the state after a leg holds the start of the next
    assert not np.array_equal(fresh[0], fresh[1])
    assert trail[1].step == 0
    np.testing.assert_array_equal(trail[2].vector, trail[2].best_vector)
    assert not np.array_equal(trail[1].vector, trail[0].vector)
    assert trail[2].adam.count == 0
