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


@pytest.mark.parametrize("registers", [1, 2])
def test_natural_gradient_takes_steps_batch_and_rate_from_the_config(registers: int) -> None:
    config = TrainConfig(kind="diag", layers=4, registers=registers, steps=40, batch=64, rate=0.1)
    *starts, main = stages_of(config)
    assert isinstance(main, NaturalStage)
    assert (main.steps, main.batch, main.rate, main.origin) == (40, 64, 0.1, "best")
    assert max(stage.steps for stage in starts) == 3 * 40
    assert starts[0].origin == "init"


def test_full_recipe_takes_steps_batch_and_rate_from_the_config() -> None:
    plan = stages_of(TrainConfig(kind="full", steps=40, batch=64, rate=0.25))
    adam = [stage for stage in plan if isinstance(stage, AdamStage)]
    assert max(stage.steps for stage in adam) == 40
    assert {stage.batch for stage in adam} == {64}
    assert max(stage.rate for stage in adam) == 0.25
    assert plan[0].origin == "init"


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


@pytest.mark.parametrize("layers", [1, 2, 3, 7])
def test_diagonal_recipe_is_random_starts_then_pools_from_the_best_one(layers: int) -> None:
    plan = stages_of(TrainConfig(kind="diag", layers=layers, batch=64))
    starts = [stage for stage in plan if isinstance(stage, AdamStage)]
    pools = [stage for stage in plan if isinstance(stage, PoolStage)]
    assert plan == (*starts, *pools)
    assert {stage.origin for stage in starts} == {"init"}
    assert (len(starts) > 1) == (layers > 1)  # one layer has no bad minima
    assert [stage.origin for stage in pools] == ["best"] + ["previous"] * (len(pools) - 1)
    assert (pools[0].pool, pools[1].pool) == (32 * 64, (512 if layers <= 3 else 256) * 64)
    # The plain mean only once the model no longer explodes.
    assert pools[0].saturation > 0
    assert {stage.saturation for stage in pools[1:]} == {0.0}


@pytest.mark.parametrize("layers", [4, 5, 7])
def test_recipe_with_registers_is_several_starts_then_natural_gradient_with_hard_contexts(layers: int) -> None:
    *starts, main = stages_of(TrainConfig(kind="diag", layers=layers, registers=2))
    assert sum(stage.origin == "init" for stage in starts) == 12
    # A start must not replace a better one: only the main stage may get a little worse for calmer tails.
    assert {stage.tolerance for stage in starts} == {0.0}
    assert isinstance(main, NaturalStage)
    assert main.origin == "best"
    assert main.calm is not None
    assert main.calm.weight > 0


def test_recipe_with_registers_goes_on_from_a_given_model_for_two_thirds_of_the_steps() -> None:
    (stage,) = stages_of(TrainConfig(kind="diag", layers=5, registers=1, start="a model"))
    *_, main = stages_of(TrainConfig(kind="diag", layers=5, registers=1))
    assert isinstance(stage, NaturalStage)
    assert (stage.origin, stage.steps) == ("given", main.steps * 2 // 3)


@pytest.mark.parametrize("layers", [4, 5, 7])
def test_deep_full_recipe_is_starts_then_the_best_one_at_length_with_hard_contexts(layers: int) -> None:
    plan = stages_of(TrainConfig(kind="full", layers=layers, steps=600))
    adam = [stage for stage in plan if isinstance(stage, AdamStage)]
    assert len(adam) == len(plan)
    starts = [stage for stage in adam if stage.origin == "init"]
    assert adam[: len(starts)] == starts
    assert [stage.origin for stage in adam[len(starts) :]] == ["best", "previous"]
    assert [stage.mining is None for stage in adam] == [True] * len(starts) + [False, False]
    assert [stage.steps for stage in adam] == [100] * len(starts) + [600, 120]


@pytest.mark.parametrize(
    ("noise", "layers", "fat_tails"),
    [("uniform:5", 3, True), ("uniform:2", 4, True), ("uniform:5", 4, False), ("uniform:2", 5, False)],
)
def test_full_recipe_of_few_layers_or_little_noise_ends_with_ever_wider_features(
    noise: str, layers: int, fat_tails: bool
) -> None:
    plan = stages_of(TrainConfig(kind="full", layers=layers, noise=noise))
    widened = [stage.widen for stage in plan if isinstance(stage, PoolStage)]
    assert bool(widened) == fat_tails
    assert widened == sorted(widened)
    assert all(isinstance(stage, PoolStage) for stage in plan[len(plan) - len(widened) :])


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
