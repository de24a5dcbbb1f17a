"""Recipes: which stages a run consists of, kind by kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import pytest

from ridgeformer.training import TrainConfig, train
from ridgeformer.training.adam_stage import AdamStage
from ridgeformer.training.natural_stage import Calm, NaturalStage
from ridgeformer.training.pools import PoolStage
from ridgeformer.training.recipes import stages_of
from ridgeformer.training.spectral import SpectralStage
from ridgeformer.training.stages import Stage


@pytest.mark.parametrize("model", ["gdpp", "diag", "full"])
def test_paper_recipe_is_what_the_paper_prints(model: str) -> None:
    (stage,) = stages_of(TrainConfig(kind=model, recipe="paper"))
    assert isinstance(stage, AdamStage)
    assert (stage.steps, stage.rate, stage.batch, stage.objective) == (200_000, 1e-4, 2048, "sampled")
    assert (stage.final, stage.mining) == (1.0, None)
    # Only contexts that explode beyond measure are left out: a loss of 1000 has its own gradient to nine digits.
    assert stage.saturation >= 1e12


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


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_deep_recipe_takes_steps_batch_and_rate_from_the_config(kind: str) -> None:
    plan = stages_of(TrainConfig(kind=kind, layers=5, steps=40, batch=64, rate=0.1))
    main = next(stage for stage in plan if stage.name == "natural gradient")
    assert isinstance(main, NaturalStage)
    assert (main.steps, main.batch, main.origin) == (40, 64, "best")
    assert main.rate == pytest.approx(0.1 if kind == "diag" else 0.075)
    assert max(stage.steps for stage in plan) == {"diag": 3, "full": 4}[kind] * 40


def test_recipe_of_large_models_takes_steps_batch_and_rate_from_the_config() -> None:
    plan = stages_of(TrainConfig(kind="full", layers=4, heads=4, steps=40, batch=64, rate=0.25))
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


@pytest.mark.parametrize(("layers", "registers"), [(1, 0), (2, 0), (2, 1)])
def test_shallow_diagonal_recipe_is_random_starts_then_pools_from_the_best_one(layers: int, registers: int) -> None:
    plan = stages_of(TrainConfig(kind="diag", layers=layers, registers=registers, batch=64))
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


@pytest.mark.parametrize("start", [None, "a model"])
@pytest.mark.parametrize("layers", [3, 4, 5, 6, 8])
@pytest.mark.parametrize("kind", ["diag", "full"])
def test_deep_recipe_is_starts_then_natural_gradient_with_hard_contexts(
    kind: str, layers: int, start: str | None
) -> None:
    plan = stages_of(TrainConfig(kind=kind, layers=layers, start=start))
    place = next(number for number, stage in enumerate(plan) if stage.name == "natural gradient")
    before, main, after = plan[:place], plan[place], plan[place + 1 :]
    assert isinstance(main, NaturalStage)
    assert main.calm is not None
    assert (main.origin, main.calm.weight > 0) == ("best", True)
    # No start may replace a better one: only what calms a model may make it a little worse.
    assert {stage.tolerance for stage in before} == {0.0}
    assert (before[0].origin == "given") == (start is not None)  # first, or it would replace a better start
    starts = [stage.origin for stage in before if stage.origin not in ("given", "shaken", "finalist")]
    # Random starts that are compared only after a short natural gradient
    sharpened = kind == "diag" or layers <= 6
    assert starts == (["init", "previous"] * (len(starts) // 2) if sharpened else ["init"] * len(starts))
    assert any(stage.origin == "shaken" for stage in before) == (kind == "diag")
    assert [stage.name for stage in after] == (
        (["calm"] if kind == "full" else ["calm", "calm again"]) if layers > 3 else []
    )
    assert all(isinstance(stage, NaturalStage) and stage.unless_borne for stage in after)


def test_with_a_given_model_there_are_fewer_random_starts() -> None:
    for kind, layers in (("diag", 5), ("full", 4), ("full", 7)):
        config = TrainConfig(kind=kind, layers=layers)
        scratch, given = _origins(config)["init"], _origins(replace(config, start="a model"))["init"]
        assert given < scratch
        assert (given == 0) == (layers == 7)


def test_large_full_models_have_natural_gradient_only_from_a_given_model_of_which_adam_may_lose_much() -> None:
    config = TrainConfig(kind="full", layers=12, heads=2, steps=30)
    assert {type(stage) for stage in stages_of(config)} == {AdamStage}
    plan = stages_of(replace(config, start="a model"))
    assert [stage.name for stage in plan] == ["from given", "natural gradient", "calm"]


def test_full_models_with_several_heads_have_a_larger_pool_unless_they_are_very_deep() -> None:
    for kind, layers, larger in (("full", 7, 4), ("full", 12, 1), ("diag", 7, 1)):
        config = TrainConfig(kind=kind, layers=layers, start="a model")
        one, two = (_pools(stages_of(replace(config, heads=heads))) for heads in (1, 2))
        assert two == {larger * pool for pool in one}


def _pools(plan: Iterable[Stage]) -> set[int]:
    return {stage.pool for stage in plan if isinstance(stage, NaturalStage)}


def test_deep_diag_models_of_one_and_three_have_more_starts_instead_of_hops_which_explode_there() -> None:
    config = TrainConfig(kind="diag", layers=6, noise="categorical:1+3", start="a model")
    usual = _origins(replace(config, noise="categorical:1+3+5"))
    assert _origins(config)["shaken"] == 0 < usual["shaken"]
    assert _origins(config)["init"] > 2 * usual["init"]
    others = ({"layers": 5}, {"start": None}, {"registers": 1}, {"noise": "uniform:3"})
    assert all(_origins(replace(config, **other))["shaken"] for other in others)


def test_full_starts_of_four_layers_leave_adam_early_and_are_more() -> None:
    three, four, five = (stages_of(TrainConfig(kind="full", layers=layers)) for layers in (3, 4, 5))
    adam = [[stage.steps for stage in plan if stage.name.startswith("start")] for plan in (three, four, five)]
    sharpen = [{stage.steps for stage in plan if stage.name.startswith("sharpen")} for plan in (three, four, five)]
    assert (adam[0], sharpen[0]) == (adam[2], sharpen[2])
    assert max(adam[1]) < min(adam[0])
    assert min(sharpen[1]) > max(sharpen[0])
    assert len(adam[1]) > len(adam[0])


@pytest.mark.parametrize("start", [None, "a model"])
def test_full_starts_of_four_layers_are_compared_again_after_more_steps_from_the_best_few(start: str | None) -> None:
    plan = stages_of(TrainConfig(kind="full", layers=4, start=start))
    competing = [stage.name for stage in plan if stage.competes]
    finals = [number for number, stage in enumerate(plan) if stage.origin == "finalist"]
    assert competing == [stage.name for stage in plan if stage.name.startswith("sharpen")]
    assert 1 < len(finals) < len(competing)
    assert plan[finals[-1] + 1].name == "natural gradient"
    assert finals == list(range(finals[0], finals[-1] + 1))
    others = (TrainConfig(kind=kind, layers=layers) for kind, layers in (("full", 5), ("diag", 4)))
    assert not any(stage.competes or stage.origin == "finalist" for other in others for stage in stages_of(other))


@pytest.mark.parametrize("layers", [5, 7, 12])
def test_recipe_with_registers_is_that_of_deep_models_with_hops_and_from_a_given_model_no_starts(layers: int) -> None:
    plain = TrainConfig(kind="diag", layers=layers)
    wide = replace(plain, registers=2)
    assert 0 < _origins(wide)["init"] < _origins(plain)["init"]  # most minima are good
    assert 0 < _origins(wide)["shaken"] < _origins(plain)["shaken"]
    given = _origins(replace(wide, start="a model"))
    assert given["init"] == 0
    assert 0 < given["shaken"] < _origins(wide)["shaken"]
    assert _origins(replace(wide, layers=4, start="a model"))["init"] == _origins(wide)["init"]


def _origins(config: TrainConfig) -> Counter[str]:
    return Counter(stage.origin for stage in stages_of(config))


@pytest.mark.parametrize(
    ("kind", "layers", "registers", "noise"),
    [
        ("diag", 4, 0, "uniform:5"),
        ("full", 5, 0, "uniform:5"),
        ("diag", 8, 3, "uniform:5"),
        ("diag", 5, 2, "uniform:1"),
    ],
)
def test_no_model_needs_to_bear_more_in_the_last_stages_than_in_the_one_before(
    kind: str, layers: int, registers: int, noise: str
) -> None:
    config = TrainConfig(kind=kind, layers=layers, registers=registers, noise=noise)
    plan = {stage.name: stage for stage in stages_of(config)}
    before, after, again = plan["natural gradient"], plan["calm"], plan.get("calm again")
    assert isinstance(before, NaturalStage)
    assert isinstance(after, NaturalStage)
    assert after.calm is not None
    assert after.calm == after.unless_borne
    if kind == "diag":
        # The second time only if louder noise alone, or contexts near the task, explode it; it may cost more
        assert isinstance(again, NaturalStage)
        assert again.calm is not None
        # Far contexts, or with registers and little noise a milder stage
        assert (again.calm == after.calm) == (noise != "uniform:1")
        assert all(less <= more for less, more in zip(_reach(again.calm), _reach(after.calm), strict=True))
        borne = again.unless_borne
        assert borne is not None
        assert borne.loudest == (registers > 0 and noise != "uniform:1")
        assert all(less <= more for less, more in zip(_reach(borne), _reach(after.calm), strict=True))
        assert borne.exploding > after.calm.exploding
        assert again.tolerance > after.tolerance
    main, last = before.calm, after.calm
    assert main is not None
    assert (last.widen, last.weight > main.weight) == (main.widen, True)
    assert last.reach <= main.reach


def test_three_layers_with_registers_bear_loud_noise_or_push_harder_just_beyond_the_task() -> None:
    calms = {}
    for noise in ("uniform:1", "uniform:2", "uniform:4", "uniform:5", "uniform:7"):
        *_, main = stages_of(TrainConfig(kind="diag", layers=3, registers=2, noise=noise))
        assert isinstance(main, NaturalStage)
        assert main.calm is not None
        calms[noise] = main.calm
    assert calms["uniform:1"] == calms["uniform:5"]
    assert calms["uniform:4"] == calms["uniform:7"]
    assert calms["uniform:5"].reach > calms["uniform:7"].reach == calms["uniform:2"].reach
    assert calms["uniform:5"].weight < calms["uniform:2"].weight < calms["uniform:7"].weight


def _reach(calm: Calm) -> tuple[float, float, float]:
    return calm.widen, calm.stretch, calm.reach


@pytest.mark.parametrize(("layers", "heads"), [(4, 4), (7, 4), (15, 1)])
def test_recipe_of_large_models_is_starts_then_the_best_one_at_length_with_hard_contexts(
    layers: int, heads: int
) -> None:
    plan = stages_of(TrainConfig(kind="full", layers=layers, heads=heads, steps=600))
    adam = [stage for stage in plan if isinstance(stage, AdamStage)]
    assert len(adam) == len(plan)
    starts = [stage for stage in adam if stage.origin == "init"]
    assert adam[: len(starts)] == starts
    assert [stage.origin for stage in adam[len(starts) :]] == ["best", "previous"]
    assert [stage.mining is None for stage in adam] == [True] * len(starts) + [False, False]
    assert [stage.steps for stage in adam] == [100] * len(starts) + [600, 120]


@pytest.mark.parametrize("layers", [1, 4, 7])
@pytest.mark.parametrize("noise", ["uniform:5", "uniform:0"])
@pytest.mark.parametrize("kind", ["gdpp", "diag", "full"])
def test_every_stage_of_every_recipe_has_its_own_name(kind: str, noise: str, layers: int) -> None:
    plan = stages_of(TrainConfig(kind=kind, noise=noise, layers=layers))
    assert len({stage.name for stage in plan}) == len(plan)


@pytest.mark.parametrize("seed", [11, 12])
@pytest.mark.parametrize("kind", ["gdpp", "diag", "full"])
def test_paper_recipe_trains_seven_layers(kind: str, seed: int) -> None:
    config = TrainConfig(kind=kind, layers=7, noise="uniform:5", recipe="paper", steps=800, batch=256, seed=seed)
    result = train(replace(config, sequences=1000))  # with larger initial weights most steps have no finite gradient
    assert result.skipped == 0
    assert result.history[-1]["smoothed"] < result.history[0]["smoothed"]
