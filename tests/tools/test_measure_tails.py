"""The tool that measures the zoo's tails: what it writes, and that what is measured is left alone."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import ridgeformer as rf
from measure_tails import (
    COMMAND,
    Beyond,
    ModelTail,
    Tail,
    TailsRecord,
    gdpp_name,
    levels_beyond,
    measure_tail,
    measure_tails,
)
from ridgeformer.core.distributions import Fixed
from ridgeformer.evaluation import adjusted_losses
from ridgeformer.reproduction.results import read_record
from ridgeformer.zoo import load, zoo_folder
from support import refused


def test_tool_writes_the_measurement_into_the_file_and_keeps_the_weights(tmp_path: Path) -> None:
    model = load("diag-2-uniform-5")
    for name in ("a", "b"):
        model.save(tmp_path / f"{name}.safetensors")
    out, sequences = tmp_path / "tails.json", 1000  # fewer than the file has
    assert measure_tails(tmp_path, out, sequences) == 0
    rf.LinearTransformer(model.kind, model.dim, model.parameters, {**model.info, "evaluation": {}}).save(
        tmp_path / "b.safetensors"
    )
    assert measure_tails(tmp_path, out, sequences, seed=7) == 1
    measured = load(tmp_path / "b.safetensors")
    expected = rf.evaluate(model, rf.Task(noise="uniform:5"), sequences, seed=7)
    assert measured.flatten().tobytes() == model.flatten().tobytes()
    assert measured.info["training"] == model.info["training"]
    assert measured.info["evaluation"]["maximum"] == expected.maximum
    assert (measured.info["evaluation"]["sequences"], measured.info["evaluation"]["seed"]) == (sequences, 7)
    assert measure_tails(tmp_path, out, sequences, seed=7) == 0
    assert measure_tails(tmp_path, out, sequences, seed=8) == 1  # other sequences
    assert not out.exists()  # neither is a model of the grid


def test_record_has_the_grid_with_tails_and_levels_beyond_the_training_and_is_resumed(tmp_path: Path) -> None:
    names = ("diag-2-uniform-3", "gdpp-1-uniform-3", "gdpp-2-uniform-3")
    for name in names:
        shutil.copy(zoo_folder() / f"{name}.safetensors", tmp_path)
    out = tmp_path / "tails.json"
    assert measure_tails(tmp_path, out, 3000, 200, seed=7) == 3
    record = read_record(TailsRecord, out, COMMAND)
    assert (record.sequences, record.level_sequences) == (3000, 200)
    assert tuple(model.name for model in record.models) == names
    diag, *others = record.models
    assert [model.beyond for model in others] == [(), ()]
    expected = rf.evaluate(load(names[0]), "uniform:3", 3000, seed=7)
    assert diag.tail.largest == pytest.approx(expected.maximum, rel=1e-5)
    (beyond,) = diag.beyond
    assert beyond.levels == (3.0, 3.25, 3.5, 3.75, 4.0)
    for name, losses in ((names[0], beyond.losses), (names[2], beyond.gdpp)):
        at_four = rf.evaluate(load(name), rf.Task(noise=Fixed(4)), 200, seed=7)
        assert losses[-1] == pytest.approx(at_four.adjusted_loss, rel=1e-5)
    written = out.read_bytes()
    assert measure_tails(tmp_path, out, 3000, 200, seed=7) == 0
    replace(record, models=(replace(diag, digest="old"), *others)).save(out)
    assert measure_tails(tmp_path, out, 3000, 200, seed=7) == 1
    assert out.read_bytes() == written
    replace(record, models=(replace(diag, seed=8), *others)).save(out)
    assert measure_tails(tmp_path, out, 3000, 200, seed=7) == 1
    assert out.read_bytes() == written
    refused("measured on other numbers of sequences", measure_tails, tmp_path, out, 4000, 200)


def test_losses_above_the_limits_are_counted(tmp_path: Path) -> None:
    model, task = load("diag-2-uniform-0"), rf.Task(noise="uniform:0")
    found, tail = measure_tail(model, task, 20_000, seed=1)
    draws = task.chunks(20_000, 1)
    losses = [loss for draw in draws for loss in adjusted_losses(model, draw.context, draw.oracle)]
    assert tail.above_10 == sum(loss > 10 for loss in losses) > 0
    assert tail.above_100 == sum(loss > 100 for loss in losses)
    assert (tail.mean, tail.largest) == (found.adjusted_loss, found.maximum)


@pytest.mark.parametrize(
    ("noise", "first", "last"),
    [("uniform:0", 0, 1), ("uniform:5", 5, 10), ("uniform:7", 7, 8), ("categorical:1+3", 3, 6)],
)
def test_levels_go_as_far_as_the_figures(noise: str, first: float, last: float) -> None:
    levels = levels_beyond(noise)
    assert (levels[0], levels[-1]) == (first, last)


def test_deep_models_are_compared_with_the_deepest_gdpp_model_of_their_prior() -> None:
    models = {name: load(name) for name in ("gdpp-6-categorical-1+3", "gdpp-7-categorical-1+3", "gdpp-8-uniform-5")}
    assert gdpp_name(load("full-12-categorical-1+3"), models) == "gdpp-7-categorical-1+3"
    assert gdpp_name(load("full-8-uniform-5-seed-1"), models) == "gdpp-8-uniform-5"
    assert gdpp_name(load("full-5-uniform-5"), models) is None
    assert gdpp_name(load("diag-7-registers-2-robust"), models) is None
    assert gdpp_name(models["gdpp-8-uniform-5"], models) is None


def test_first_level_where_a_model_is_worse() -> None:
    levels, gdpp = (3.0, 3.5, 4.0), (0.5, 1.0, 2.0)
    assert Beyond(levels, (0.1, 1.005, 2.01), gdpp).worse_from is None
    assert Beyond(levels, (0.1, 1.1, float("inf")), gdpp).worse_from == (3.5, 1.1, 1.0)
    assert Beyond((0.0,), (3e-19,), (2e-19,)).worse_from is None


def test_losses_that_are_not_finite_survive_the_record(tmp_path: Path) -> None:
    tail = Tail(float("inf"), float("inf"), float("inf"), 7, 7)
    record = TailsRecord(10, 5, (ModelTail("m", "diag", 3, "d", 7, tail, (Beyond((1.0,), (float("inf"),), (0.5,)),)),))
    record.save(tmp_path / "tails.json")
    assert read_record(TailsRecord, tmp_path / "tails.json", COMMAND) == record


def test_tail_that_the_file_knows_is_not_measured_again(tmp_path: Path) -> None:
    model, out = load("gdpp-3-uniform-3"), tmp_path / "tails.json"
    known = {"adjusted_loss": 0.5, "standard_error": 0.25, "maximum": 9.0, "sequences": 3000, "seed": 7}
    for largest, expected in ((9.0, 9.0), (11.0, rf.evaluate(model, "uniform:3", 3000, seed=7).maximum)):
        evaluation = {**known, "maximum": largest}
        replace(model, info={**model.info, "evaluation": evaluation}).save(tmp_path / "gdpp-3-uniform-3.safetensors")
        out.unlink(missing_ok=True)
        assert measure_tails(tmp_path, out, 3000, 200, seed=7) == 1
        (found,) = read_record(TailsRecord, out, COMMAND).models
        assert found.tail.largest == pytest.approx(expected, rel=1e-5)
