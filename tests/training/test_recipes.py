"""Recipes: which stages a run consists of, kind by kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ridgeformer.training import TrainConfig, train
from ridgeformer.training.adam_stage import AdamStage
from ridgeformer.training.natural_stage import NaturalStage
from ridgeformer.training.pools import PoolStage
from ridgeformer.training.recipes import stages_of
from ridgeformer.training.spectral import SpectralStage


@pytest.mark.parametrize("model", ["gdpp", "diag", "full"])
def test_paper_recipe_is_what_the_paper_prints(model: str) -> None:
    (stage,) = stages_of(TrainConfig(kind=model, recipe="paper"))
    assert isinstance(stage, AdamStage)
    assert (stage.steps, stage.rate, stage.batch, stage.objective) == (200_000, 1e-4, 2048, "sampled")
    assert (stage.final, stage.mining, stage.saturation) == (1.0, None, 0.0)


@pytest.mark.parametrize("model", ["gdpp", "diag", "full"])
def test_paper_recipe_takes_steps_batch_and_rate_from_the_config(model: str) -> None:
    (stage,) = stages_of(TrainConfig(kind=model, recipe="paper", steps=40, batch=64, rate=0.25))
    assert isinstance(stage, AdamStage)
    assert (stage.steps, stage.batch, stage.rate, stage.origin) == (40, 64, 0.25, "init")


@pytest.mark.parametrize(("model", "registers"), [("diag", 0), ("diag", 2), ("full", 0)])
def test_main_stage_takes_steps_batch_and_rate_from_the_config(model: str, registers: int) -> None:
    config = TrainConfig(kind=model, layers=4, registers=registers, steps=40, batch=64, rate=0.1)
    *starts, main = stages_of(config)
    assert isinstance(main, NaturalStage)
    assert (main.steps, main.batch, main.origin) == (40, 64, "best")
    assert main.rate == pytest.approx(0.1 if model == "diag" else 0.075)
    assert max(stage.steps for stage in starts if stage.origin == "init") <= 3 * 40
    assert starts[0].origin == "init"


@pytest.mark.parametrize("layers", [1, 2, 7])
@pytest.mark.parametrize(
    ("kind", "noise"), [("gdpp", "uniform:5"), ("gdpp", "uniform:0"), ("diag", "fixed:0"), ("full", "fixed:0")]
)
def test_gdpp_and_tasks_without_noise_are_one_spectral_stage_whatever_steps_batch_and_rate_are(
    kind: str, noise: str, layers: int
) -> None:
    plain = TrainConfig(kind=kind, layers=layers, noise=noise)
    (stage,) = stages_of(plain)
    assert isinstance(stage, SpectralStage)
    assert stage.steps == 1
    assert stages_of(replace(plain, steps=40, batch=64, rate=0.25)) == (stage,)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_shallow_diagonal_recipe_is_random_starts_then_pools_from_the_best_one(layers: int) -> None:
    plan = stages_of(TrainConfig(kind="diag", layers=layers, batch=64))
    starts = [stage for stage in plan if isinstance(stage, AdamStage)]
    pools = [stage for stage in plan if isinstance(stage, PoolStage)]
    assert plan == (*starts, *pools)
    assert {stage.origin for stage in starts} == {"init"}
    assert (len(starts) > 1) == (layers > 1)  # one layer has no bad minima
    assert [stage.origin for stage in pools] == ["best"] + ["previous"] * (len(pools) - 1)
    assert (pools[0].pool, pools[1].pool) == (32 * 64, 512 * 64)
    # The plain mean only once the model no longer explodes.
    assert pools[0].saturation > 0
    assert {stage.saturation for stage in pools[1:]} == {0.0}


@pytest.mark.parametrize("kind", ["diag", "full"])
@pytest.mark.parametrize("layers", [4, 5, 7])
def test_deeper_recipes_are_several_starts_then_natural_gradient_with_hard_contexts(kind: str, layers: int) -> None:
    *starts, main = stages_of(TrainConfig(kind=kind, layers=layers))
    assert sum(stage.origin == "init" for stage in starts) > 1
    assert isinstance(main, NaturalStage)
    assert main.origin == "best"
    assert main.calm is not None
    assert main.calm.weight > 0


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_deeper_recipes_go_on_from_a_given_model_for_half_as_many_steps(kind: str) -> None:
    (stage,) = stages_of(TrainConfig(kind=kind, layers=5, start="a model"))
    *_, main = stages_of(TrainConfig(kind=kind, layers=5))
    assert isinstance(stage, NaturalStage)
    assert (stage.origin, stage.steps) == ("given", main.steps // 2)


@pytest.mark.parametrize("start", [None, "a model"])
def test_models_with_too_many_parameters_for_a_matrix_are_trained_by_adam(start: str | None) -> None:
    plan = stages_of(TrainConfig(kind="full", layers=7, heads=2, start=start))
    assert all(isinstance(stage, AdamStage) for stage in plan)
    assert plan[0].origin == ("init" if start is None else "given")


@pytest.mark.parametrize(("noise", "widened"), [("uniform:5", 6), ("uniform:3", 10), ("uniform:2", 0)])
def test_full_recipe_of_three_layers_ends_with_ever_wider_features_or_starts_from_diag(
    noise: str, widened: int
) -> None:
    plan = stages_of(TrainConfig(kind="full", layers=3, noise=noise))
    wider = [stage for stage in plan if stage.name.startswith("widen ")]
    assert len(wider) == widened
    assert list(plan[len(plan) - widened :]) == wider
    assert (plan[0].kind == "diag") == (widened == 0)


@pytest.mark.parametrize("layers", [1, 4, 7])
@pytest.mark.parametrize("noise", ["uniform:5", "uniform:0"])
@pytest.mark.parametrize("kind", ["gdpp", "diag", "full"])
def test_every_stage_of_every_recipe_has_its_own_name(kind: str, noise: str, layers: int) -> None:
    plan = stages_of(TrainConfig(kind=kind, noise=noise, layers=layers))
    assert len({stage.name for stage in plan}) == len(plan)


@pytest.mark.parametrize("seed", [11, 12])
@pytest.mark.parametrize("kind", ["gdpp", "diag", "full"])
def test_paper_recipe_trains_seven_layers(kind: str, seed: int) -> None:
    config = TrainConfig(kind=kind, layers=7, noise="uniform:5", recipe="paper", steps=300, batch=256, seed=seed)
    result = train(replace(config, sequences=1000))  # with larger initial weights it ends as diverged
    assert result.history[-1]["smoothed"] < result.history[0]["smoothed"]
