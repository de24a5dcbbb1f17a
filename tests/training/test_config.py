from __future__ import annotations

import json
from pathlib import Path

import pytest

from ridgeformer import InputError
from ridgeformer.training import TrainConfig
from ridgeformer.training.recipes import legs


def test_config_survives_json_and_back() -> None:
    config = TrainConfig(model="diag", layers=3, noise="categorical:1+3", steps=10, rate=0.5)
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


def test_paper_recipe_is_what_the_paper_prints() -> None:
    (leg,) = legs(TrainConfig(recipe="paper"))
    assert (leg.steps, leg.rate, leg.batch, leg.objective) == (200_000, 1e-4, 2048, "sampled")
    assert (leg.final, leg.mining, leg.saturation) == (1.0, None, 0.0)


@pytest.mark.parametrize("model", ["gdpp", "diag", "full"])
@pytest.mark.parametrize("recipe", ["fast", "paper"])
def test_recipes_take_steps_batch_and_rate_from_the_config(model: str, recipe: str) -> None:
    plan = legs(TrainConfig(model=model, recipe=recipe, steps=40, batch=64, rate=0.25))
    assert max(leg.steps for leg in plan) == 40
    assert max(leg.batch for leg in plan) == 64
    assert max(leg.rate for leg in plan) == 0.25
    assert plan[0].start == "init"
