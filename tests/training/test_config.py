from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ridgeformer import InputError
from ridgeformer.training import TrainConfig
from ridgeformer.training.recipes import AdamLeg, PoolLeg, SpectralLeg, legs
from ridgeformer.training.steps import Trainer


def test_config_survives_json_and_back() -> None:
    config = TrainConfig(kind="diag", layers=3, noise="categorical:1+3", steps=10, rate=0.5)
    assert TrainConfig.from_json(json.loads(json.dumps(config.as_json()))) == config


def test_config_with_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match="Did you mean 'layers'"):
        TrainConfig.from_json({"layer": 3})


@pytest.mark.parametrize(
    "values",
    [
        {"model": "ful"},
        {"layers": 0},
        {"layers": 2.5},
        {"noise": "uniform:-1"},
        {"noise": "gauss:1"},
        {"steps": 0},
        {"batch": -1},
        {"rate": 0.0},
        {"rate": float("nan")},
        {"precision": "float16"},
        {"precision": None},
        {"recipe": "slow"},
        {"seed": -1},
        {"dim": 0},
        {"context": 0},
        {"sequences": 1},
        {"noise": 5},
        {"rate": "fast"},
    ],
)
def test_config_with_a_bad_value_is_one_clear_error(values: dict[str, object]) -> None:
    with pytest.raises(InputError) as raised:
        TrainConfig.from_json(values)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", ["", "[", "[1]", "null", "[" * 100_000])
def test_config_file_that_is_not_an_object_is_one_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InputError):
        TrainConfig.from_file(path)


def test_config_file_that_is_missing_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot read"):
        TrainConfig.from_file(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("precision", "noise", "dtype"),
    [
        ("auto", "uniform:5", "float32"),
        ("auto", "categorical:0+1", "float32"),
        ("auto", "uniform:0-0.1", "float32"),
        ("auto", "uniform:0", "float64"),
        ("auto", "fixed:0", "float64"),
        ("auto", "categorical:0", "float64"),
        ("float32", "fixed:0", "float32"),
        ("float64", "uniform:5", "float64"),
    ],
)
def test_precision_is_float64_for_tasks_without_noise_unless_told_otherwise(
    precision: str, noise: str, dtype: str
) -> None:
    config = TrainConfig(precision=precision, noise=noise, layers=1, dim=2, examples=4)
    assert config.dtype == dtype
    assert Trainer(config).model(Trainer(config).start()).dtype == dtype


@pytest.mark.parametrize(
    ("noise", "free"),
    [
        ("uniform:0", True),
        ("fixed:0", True),
        ("categorical:0", True),
        ("categorical:0+0", True),
        ("uniform:1", False),
        ("fixed:1e-9", False),
        ("categorical:0+1", False),
        ("uniform:0-1e-9", False),
    ],
)
def test_noise_free_says_whether_sigma_is_always_zero(noise: str, free: bool) -> None:
    assert TrainConfig(noise=noise).noise_free is free


# --- recipes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["gdpp", "diag", "full"])
def test_paper_recipe_is_what_the_paper_prints(model: str) -> None:
    (leg,) = legs(TrainConfig(kind=model, recipe="paper"))
    assert isinstance(leg, AdamLeg)
    assert (leg.steps, leg.rate, leg.batch, leg.objective) == (200_000, 1e-4, 2048, "sampled")
    assert (leg.final, leg.mining, leg.saturation) == (1.0, None, 0.0)


@pytest.mark.parametrize(
    ("model", "recipe"), [("diag", "fast"), ("full", "fast"), ("gdpp", "paper"), ("diag", "paper"), ("full", "paper")]
)
def test_recipes_take_steps_batch_and_rate_from_the_config(model: str, recipe: str) -> None:
    plan = legs(TrainConfig(kind=model, recipe=recipe, steps=40, batch=64, rate=0.25))
    adam = [leg for leg in plan if isinstance(leg, AdamLeg)]
    assert max(leg.steps for leg in adam) == 40
    assert {leg.batch for leg in adam} == {64}
    assert max(leg.rate for leg in adam) == 0.25
    assert plan[0].start == "init"


@pytest.mark.parametrize("layers", [1, 2, 7])
@pytest.mark.parametrize("noise", ["uniform:5", "uniform:0"])
def test_gdpp_is_one_spectral_leg_whatever_steps_batch_and_rate_are(layers: int, noise: str) -> None:
    plain = TrainConfig(kind="gdpp", layers=layers, noise=noise)
    (leg,) = legs(plain)
    assert isinstance(leg, SpectralLeg)
    assert leg.steps == 1
    assert legs(replace(plain, steps=40, batch=64, rate=0.25)) == (leg,)


@pytest.mark.parametrize("model", ["diag", "full"])
@pytest.mark.parametrize("layers", [1, 7])
def test_recipe_without_noise_begins_with_the_spectral_fit(model: str, layers: int) -> None:
    first, *_ = legs(TrainConfig(kind=model, layers=layers, noise="fixed:0"))
    assert isinstance(first, SpectralLeg)


@pytest.mark.parametrize("layers", [1, 2, 3, 7])
def test_diagonal_recipe_is_random_starts_then_pools_from_the_best_one(layers: int) -> None:
    plan = legs(TrainConfig(kind="diag", layers=layers, batch=64))
    starts = [leg for leg in plan if isinstance(leg, AdamLeg)]
    pools = [leg for leg in plan if isinstance(leg, PoolLeg)]
    assert plan == (*starts, *pools)
    assert {leg.start for leg in starts} == {"init"}
    assert (len(starts) > 1) == (layers > 1)  # one layer has no bad minima
    assert [leg.start for leg in pools] == ["best"] + ["previous"] * (len(pools) - 1)
    assert (pools[0].pool, pools[1].pool) == (32 * 64, (512 if layers <= 3 else 256) * 64)
    # The plain mean only once the model no longer explodes.
    assert pools[0].saturation > 0
    assert {leg.saturation for leg in pools[1:]} == {0.0}


@pytest.mark.parametrize("layers", [4, 5, 7])
def test_deep_full_recipe_is_starts_then_the_best_one_at_length_with_hard_contexts(layers: int) -> None:
    plan = legs(TrainConfig(kind="full", layers=layers, steps=600))
    adam = [leg for leg in plan if isinstance(leg, AdamLeg)]
    assert len(adam) == len(plan)
    starts = [leg for leg in adam if leg.start == "init"]
    assert adam[: len(starts)] == starts
    assert [leg.start for leg in adam[len(starts) :]] == ["best", "previous"]
    assert [leg.mining is None for leg in adam] == [True] * len(starts) + [False, False]
    assert [leg.steps for leg in adam] == [100] * len(starts) + [600, 120]


@pytest.mark.parametrize(
    ("noise", "layers", "tamed"),
    [("uniform:5", 3, True), ("uniform:2", 4, True), ("uniform:5", 4, False), ("uniform:2", 5, False)],
)
def test_full_recipe_of_few_layers_or_little_noise_ends_with_ever_wider_features(
    noise: str, layers: int, tamed: bool
) -> None:
    plan = legs(TrainConfig(kind="full", layers=layers, noise=noise))
    widened = [leg.widen for leg in plan if isinstance(leg, PoolLeg)]
    assert bool(widened) == tamed
    assert widened == sorted(widened)
    assert all(isinstance(leg, PoolLeg) for leg in plan[len(plan) - len(widened) :])


def test_every_leg_of_every_recipe_has_its_own_name() -> None:
    for model in ("gdpp", "diag", "full"):
        for noise in ("uniform:5", "uniform:0"):
            for layers in (1, 4, 7):
                plan = legs(TrainConfig(kind=model, noise=noise, layers=layers))
                assert len({leg.name for leg in plan}) == len(plan)
