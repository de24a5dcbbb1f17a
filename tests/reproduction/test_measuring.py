"""Measuring the records: against independent code, on the same sequences, whatever the number of threads."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.baselines import AdaRR
from ridgeformer.core.distributions import Fixed
from ridgeformer.core.forward import context_weights
from ridgeformer.core.task import Task
from ridgeformer.evaluation import layerwise, profile, shift_table
from ridgeformer.reproduction.cells import Cell
from ridgeformer.reproduction.measuring import (
    RECORD_PARTS,
    make_records,
    measure_profiles,
    measure_readouts,
    measure_shift,
    measure_training,
    measure_weights,
    profile_levels,
)
from ridgeformer.reproduction.results import read_results
from support import refused

SEQUENCES = 300


Models = dict[Cell, rf.LinearTransformer]
GDPP, SHALLOW, DEEP = (Cell(kind, layers, "uniform:5") for kind, layers in (("gdpp", 7), ("diag", 2), ("diag", 7)))
QUIET = Cell("diag", 7, "uniform:1")


@pytest.fixture(scope="module")
def models() -> Models:
    return {cell: rf.load(cell.name) for cell in (GDPP, SHALLOW, DEEP, QUIET)}


# --- profiles ---------------------------------------------------------------------------------------------------------


def test_profiles_reach_beyond_the_prior() -> None:
    assert profile_levels("uniform:2") == tuple(0.25 * k for k in range(13))
    assert profile_levels("uniform:0")[-1] == 1
    assert profile_levels("categorical:1+3") == tuple(0.25 * k for k in range(25))
    assert profile_levels("categorical:1+3+5")[-1] == 8


def test_profiles_are_mean_losses_at_each_level(models: Models) -> None:
    """Against the NumPy reference of the model and a closed formula, on the sequences of the same seed."""
    record = measure_profiles(models, SEQUENCES, seed=5)
    assert [panel.noise for panel in record.panels] == ["uniform:1", "uniform:5"]
    panel = record.panel("uniform:5")
    assert panel is not None
    baselines = [(name, None) for name in ("constrr", "adarr", "tunedrr", "bayes")]
    assert [(one.method, one.layers) for one in panel.series] == [("diag", 2), ("gdpp", 7), ("diag", 7), *baselines]
    place = panel.levels.index(2.5)
    (draw,) = Task(noise=Fixed(2.5)).chunks(SEQUENCES, seed=5)
    diag, ada = panel.find("diag", 7), panel.find("adarr")
    assert diag is not None
    assert ada is not None
    model = models[DEEP]
    for found, weights in (
        (diag, context_weights(model.astype(np.float64), draw.context, backend="reference")),
        (ada, AdaRR().weights(draw.context)),
    ):
        adjusted = 0.5 * ((weights - draw.oracle) ** 2).sum(axis=1)
        loss = 0.5 * ((weights - draw.weights) ** 2).sum(axis=1)
        assert found.adjusted[place] == pytest.approx(adjusted.mean(), rel=1e-4)  # the model is in float32
        assert found.unadjusted[place] == pytest.approx(loss.mean(), rel=1e-4)
        assert found.standard_error[place] == pytest.approx(adjusted.std(ddof=1) / math.sqrt(SEQUENCES), rel=1e-3)


def test_profiles_take_the_first_seed_and_no_models_beyond_the_papers(models: Models) -> None:
    others = {
        QUIET: models[QUIET],
        replace(QUIET, seed=1): models[DEEP],
        replace(QUIET, heads=2): models[DEEP],
        replace(QUIET, registers=2): models[DEEP],
        replace(QUIET, layers=3): models[QUIET],
    }
    parts: list[tuple[int, int]] = []
    record = measure_profiles({QUIET: models[QUIET]}, 50, on_part=lambda *part: parts.append(part))
    assert parts == [(k, 9) for k in range(1, 10)]
    assert measure_profiles(others, 50) == record
    assert len(record.panels[0].series) == 1 + 4
    assert measure_profiles({}, 50).panels == ()


# --- read-outs, weights, shift ----------------------------------------------------------------------------------------


def test_readouts_are_those_of_layerwise_and_profile(models: Models) -> None:
    record = measure_readouts(models, SEQUENCES, 100, seed=3)
    assert [(m.method, m.layers, m.seed) for m in record.models] == [("gdpp", 7, 0), ("diag", 2, 0), ("diag", 7, 0)]
    assert (record.noise, record.levels[0], record.levels[-1], len(record.levels)) == ("uniform:5", 0, 10, 21)
    task = Task(noise="uniform:5")
    for found in record.models:
        model = models[Cell(found.method, found.layers, "uniform:5")]
        expected = layerwise(model, task, SEQUENCES, seed=3)
        assert found.adjusted == pytest.approx([e.adjusted_loss for e in expected], rel=1e-6)
        assert found.standard_error == pytest.approx([e.standard_error for e in expected], rel=1e-6)
        for layers in (1, found.layers):
            levels = profile({"": model.first_layers(layers)}, task, (0.0, 2.5, 5.0), 100, seed=3).evaluations[""]
            row = found.profile[layers - 1]
            assert [row[0], row[5], row[10]] == pytest.approx([e.adjusted_loss for e in levels], rel=1e-5)


def test_weights_are_the_same_map_whatever_the_scale_of_p_and_q() -> None:
    rng = np.random.default_rng(0)
    name = Cell("full", 4, "categorical:1+3")
    model = rf.LinearTransformer.init("full", layers=4, scale=0.1, dtype=np.float64)
    other = model.replace({"P": -3 * model.parameters["P"], "Q": model.parameters["Q"] / -3})
    first, second = (measure_weights({name: m, Cell("diag", 1, "uniform:5"): model}) for m in (model, other))
    (found,), (again,) = first.models, second.models
    assert found.name == "full-4-categorical-1+3"
    assert np.allclose(found.P, again.P, atol=1e-12)
    assert np.allclose(found.Q, again.Q, atol=1e-12)
    gram = rng.normal(size=(11, 11))
    for layer in range(3):  # the last layer has rows that do nothing
        expected = model.parameters["P"][layer, 0] @ gram @ model.parameters["Q"][layer, 0]
        assert np.allclose(found.P[layer, 0] @ gram @ found.Q[layer, 0], expected)


def test_shift_is_the_shift_table_of_deep_models_and_baselines(models: Models) -> None:
    wide = replace(DEEP, registers=2)
    record = measure_shift(models | {wide: models[QUIET]}, 200, seed=2)
    assert record.predictors == ("GD++ 7", "DIAG 7", "ConstRR", "AdaRR", "TunedRR", "Bayes limit")
    assert [scenario.spec for scenario in record.scenarios][:2] == ["none", "examples:40"]
    deep = {"DIAG 7": models[DEEP]}
    expected = shift_table(deep, Task(noise="uniform:5"), ("noise:2",), 200, seed=2)
    (found,) = (scenario for scenario in record.scenarios if scenario.spec == "noise:2")
    assert found.results["DIAG 7"] == expected.results["noise:2"]["DIAG 7"]
    assert found.results["AdaRR"] == expected.results["noise:2"]["AdaRR"]
    assert found.reference == expected.references["noise:2"]


# --- training ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for layers in (1, 2):
        config = rf.TrainConfig(
            kind="diag", layers=layers, dim=3, examples=6, recipe="paper", steps=400, batch=4, sequences=100
        )
        rf.train(config, out=folder / f"diag-{layers}-uniform-5")
    (folder / "diag-2-uniform-5" / "timing.jsonl").unlink()
    (folder / "diag-3-uniform-5").mkdir()
    return folder


def test_training_has_smoothed_losses_at_the_times_of_the_run(runs: Path) -> None:
    record = measure_training([Cell("diag", layers, "uniform:5") for layers in (1, 2, 3, 4)], runs)
    (curve,) = record.curves  # the others have no times, are not finished, or are not there
    assert (curve.name, curve.method, curve.layers, curve.start) == ("diag-1-uniform-5", "diag", 1, None)
    run = runs / "diag-1-uniform-5"
    history = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    times = [json.loads(line)["seconds"] for line in (run / "timing.jsonl").read_text().splitlines()]
    assert [loss for stage in curve.stages for loss in stage.loss] == [row["smoothed"] for row in history]
    assert [second for stage in curve.stages for second in stage.seconds] == times
    assert [stage.name for stage in curve.stages] == list(dict.fromkeys(row["stage"] for row in history))
    result = json.loads((run / "result.json").read_text())
    assert curve.final == result["evaluation"]["adjusted_loss"]
    assert curve.final_seconds == times[-1]
    assert record.find("diag", 1, "uniform:5") == curve


def test_training_reads_histories_in_which_stages_are_called_legs_and_refuses_damaged_ones(
    runs: Path, tmp_path: Path
) -> None:
    cells, copy = [Cell("diag", 1, "uniform:5")], tmp_path / "diag-1-uniform-5"
    shutil.copytree(runs / copy.name, copy)
    history = (copy / "history.jsonl").read_text().replace('"stage":', '"leg":')
    assert '"leg":' in history
    (copy / "history.jsonl").write_text(history)
    assert measure_training(cells, tmp_path) == measure_training(cells, runs)
    (copy / "history.jsonl").write_text('{"total": 100}\n')
    refused(str(copy), measure_training, cells, tmp_path)


def test_training_of_other_seeds_and_shallow_models_of_other_priors_is_left_out(runs: Path, tmp_path: Path) -> None:
    wide = Cell("diag", 1, "uniform:5", registers=2)
    shutil.copytree(runs / "diag-1-uniform-5", tmp_path / wide.name)
    assert measure_training([wide], tmp_path).curves == ()
    others = [Cell("diag", 1, "uniform:5", seed=1), Cell("diag", 1, "uniform:4")]
    assert measure_training(others, runs).curves == ()


# --- all of them ------------------------------------------------------------------------------------------------------


def test_all_records_are_written_and_do_not_depend_on_the_number_of_threads(
    models: Models, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {QUIET: models[QUIET]}
    stages: dict[str, tuple[int, list[int]]] = {}

    def on_stage(name: str, parts: int) -> Any:
        stages[name] = parts, []
        return stages[name][1].append

    for threads in ("1", "3"):
        monkeypatch.setenv("RIDGEFORMER_THREADS", threads)
        (tmp_path / threads).mkdir()
        written = make_records(small, runs, tmp_path / threads, 400, on_stage=on_stage)
        assert [path.stem for path in written] == ["profiles", "readouts", "shift", "weights", "training"]
    for path in (tmp_path / "1").iterdir():
        assert path.read_bytes() == (tmp_path / "3" / path.name).read_bytes()
    assert sum(parts for parts, _ in stages.values()) == RECORD_PARTS
    for parts, done in stages.values():
        assert done == sorted(done)
        assert done[-1] == parts
    results = read_results(tmp_path / "1")
    assert (results.profiles.sequences, results.readouts.sequences, results.shift.sequences) == (20, 80, 40)
    assert results.readouts.models == ()


def test_records_without_runs_leave_the_record_of_training_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "training.json").write_text("kept")
    assert "training.json" not in {path.name for path in make_records({}, None, tmp_path, 40)}
    assert (tmp_path / "training.json").read_text() == "kept"
