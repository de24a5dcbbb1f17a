"""Configs: what is refused, JSON and back, and what a config decides."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ridgeformer.training import TrainConfig
from ridgeformer.training.recipes import stages_of
from ridgeformer.training.stages import Run
from support import refused


def test_config_survives_json_and_back() -> None:
    config = TrainConfig(kind="diag", layers=3, noise="categorical:1+3", steps=10, rate=0.5)
    assert TrainConfig.from_json(json.loads(json.dumps(config.as_json()))) == config


def test_config_with_unknown_name_suggests_the_nearest() -> None:
    refused("Did you mean 'layers'", TrainConfig.from_json, {"layer": 3})


BAD: dict[str, list[object]] = {
    "model": ["ful"],
    "layers": [0, 2.5],
    "noise": ["uniform:-1", "gauss:1", 5],
    "rate": [0.0, float("nan"), "fast"],
    "precision": ["float16", None],
    **{"steps": [0], "batch": [-1], "recipe": ["slow"], "seed": [-1], "dim": [0], "context": [0], "sequences": [1]},
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in BAD.items() for value in values])
def test_config_with_a_bad_value_is_one_clear_error(name: str, value: object) -> None:
    refused("", TrainConfig.from_json, {name: value})


@pytest.mark.parametrize("text", ["", "[", "[1]", "null", "[" * 100_000])
def test_config_file_that_is_not_an_object_is_one_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    refused("JSON", TrainConfig.from_file, path)


def test_config_file_that_is_missing_is_one_clear_error(tmp_path: Path) -> None:
    refused("There is no file", TrainConfig.from_file, tmp_path / "none.json")


@pytest.mark.parametrize(
    ("noise", "free"),
    [
        *((noise, True) for noise in ("uniform:0", "fixed:0", "categorical:0", "categorical:0+0")),
        *((noise, False) for noise in ("uniform:5", "fixed:1e-9", "categorical:0+1", "uniform:0-1e-9")),
    ],
)
def test_precision_is_float64_for_tasks_where_sigma_is_always_zero_unless_told_otherwise(
    noise: str, free: bool
) -> None:
    for precision, dtype in (("auto", "float64" if free else "float32"), ("float32",) * 2, ("float64",) * 2):
        config = TrainConfig(precision=precision, noise=noise, layers=1, dim=2, examples=4)
        assert (config.noise_free, config.dtype) == (free, dtype)
        run = Run(config, stages_of(config))
        assert run.model(run.start()).dtype == dtype


def test_config_that_is_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.json")
    refused("is not a regular file", TrainConfig.from_file, tmp_path / "config.json")
