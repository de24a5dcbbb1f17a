"""Result records: what is measured against independent code, reading back, and files that cannot be trusted."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from made_up_results import RECORDS, made_up, write_results
from ridgeformer.baselines import AdaRR
from ridgeformer.core.validation import InputError
from ridgeformer.evaluation import draw_chunks, layerwise, profile, shift_table
from ridgeformer.reproduction import results as results_module
from ridgeformer.reproduction.cells import Cell
from ridgeformer.reproduction.records import (
    RECORD_PARTS,
    make_records,
    measure_profiles,
    measure_readouts,
    measure_shift,
    measure_training,
    measure_weights,
)
from ridgeformer.reproduction.records.profiles import profile_levels
from ridgeformer.reproduction.results import MissingRecordError, read_results
from ridgeformer.core.distributions import Fixed
from ridgeformer.core.task import Task
from support import one_sentence

SEQUENCES = 300


def cells(*names: tuple[str, int, str]) -> dict[Cell, rf.LinearTransformer]:
    """Models of the zoo."""
    found = [Cell(*name) for name in names]
    return {cell: rf.load(cell.name) for cell in found}


@pytest.fixture(scope="module")
def models() -> dict[Cell, rf.LinearTransformer]:
    return cells(("gdpp", 7, "uniform:5"), ("diag", 2, "uniform:5"), ("diag", 7, "uniform:5"), ("diag", 7, "uniform:1"))


# --- profiles ---------------------------------------------------------------------------------------------------------


def test_profiles_reach_beyond_the_prior() -> None:
    assert profile_levels("uniform:2") == tuple(0.25 * k for k in range(13))
    assert profile_levels("uniform:0")[-1] == 1
    assert profile_levels("categorical:1+3") == tuple(0.25 * k for k in range(25))
    assert profile_levels("categorical:1+3+5")[-1] == 8


def test_profiles_are_mean_losses_at_each_level(models: dict[Cell, rf.LinearTransformer]) -> None:
    """Against the NumPy reference of the model and a closed formula, on the sequences of the same seed."""
    record = measure_profiles(models, SEQUENCES, seed=5)
    assert [panel.noise for panel in record.panels] == ["uniform:1", "uniform:5"]
    panel = record.panel("uniform:5")
    assert panel is not None
    expected = [
        ("diag", 2),
        ("diag", 7),
        ("gdpp", 7),
        *((name, None) for name in ("constrr", "adarr", "tunedrr", "bayes")),
    ]
    assert sorted(map(str, ((s.method, s.layers) for s in panel.series))) == sorted(map(str, expected))
    place = panel.levels.index(2.5)
    (draw,) = draw_chunks(Task(noise=Fixed(2.5)), SEQUENCES, seed=5)
    diag, ada = panel.find("diag", 7), panel.find("adarr")
    assert diag is not None
    assert ada is not None
    model = models[Cell("diag", 7, "uniform:5")]
    for found, weights in (
        (diag, model_weights(model, draw.context)),
        (ada, AdaRR().weights(draw.context)),
    ):
        adjusted = 0.5 * ((weights - draw.oracle) ** 2).sum(axis=1)
        loss = 0.5 * ((weights - draw.weights) ** 2).sum(axis=1)
        assert found.adjusted[place] == pytest.approx(adjusted.mean(), rel=1e-4)  # the model is in float32
        assert found.unadjusted[place] == pytest.approx(loss.mean(), rel=1e-4)
        assert found.standard_error[place] == pytest.approx(adjusted.std(ddof=1) / math.sqrt(SEQUENCES), rel=1e-3)


def model_weights(model: rf.LinearTransformer, context: rf.Context) -> Any:
    from ridgeformer.core.forward import context_weights

    return context_weights(model.astype(np.float64), context, backend="reference")


def test_profiles_take_the_first_seed_and_no_models_beyond_the_papers(models: dict[Cell, rf.LinearTransformer]) -> None:
    seven = models[Cell("diag", 7, "uniform:1")]
    others = {
        Cell("diag", 7, "uniform:1"): seven,
        Cell("diag", 7, "uniform:1", seed=1): models[Cell("diag", 7, "uniform:5")],
        Cell("diag", 7, "uniform:1", heads=2): models[Cell("diag", 7, "uniform:5")],
        Cell("diag", 3, "uniform:1"): seven,
    }
    record = measure_profiles(others, 50, seed=1)
    assert record == measure_profiles({Cell("diag", 7, "uniform:1"): seven}, 50, seed=1)
    assert len(record.panels[0].series) == 1 + 4
    assert measure_profiles({}, 50).panels == ()


def test_measuring_reports_its_progress_in_order(models: dict[Cell, rf.LinearTransformer]) -> None:
    seen: list[tuple[int, int]] = []
    measure_profiles(
        {Cell("diag", 7, "uniform:1"): models[Cell("diag", 7, "uniform:1")]}, 20, on_part=lambda *p: seen.append(p)
    )
    assert seen == [(k, 9) for k in range(1, 10)]


# --- read-outs, weights, shift ----------------------------------------------------------------------------------------


def test_readouts_are_those_of_layerwise_and_profile(models: dict[Cell, rf.LinearTransformer]) -> None:
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


def test_shift_is_the_shift_table_of_deep_models_and_baselines(models: dict[Cell, rf.LinearTransformer]) -> None:
    record = measure_shift(models, 200, seed=2)
    assert record.predictors == ("GD++ 7", "DIAG 7", "ConstRR", "AdaRR", "TunedRR", "Bayes limit")
    assert [scenario.spec for scenario in record.scenarios][:2] == ["none", "examples:40"]
    deep = {"DIAG 7": models[Cell("diag", 7, "uniform:5")]}
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
    assert [loss for leg in curve.legs for loss in leg.loss] == [row["smoothed"] for row in history]
    assert [second for leg in curve.legs for second in leg.seconds] == times
    assert [leg.name for leg in curve.legs] == list(dict.fromkeys(row["leg"] for row in history))
    result = json.loads((run / "result.json").read_text())
    assert curve.final == result["evaluation"]["adjusted_loss"]
    assert curve.final_seconds == times[-1]
    assert record.find("diag", 1, "uniform:5") == curve


def test_training_of_other_seeds_and_shallow_models_of_other_priors_is_left_out(runs: Path) -> None:
    others = [Cell("diag", 1, "uniform:5", seed=1), Cell("diag", 1, "uniform:4")]
    assert measure_training(others, runs).curves == ()


def test_damaged_history_is_one_sentence(runs: Path, tmp_path: Path) -> None:
    run = tmp_path / "diag-1-uniform-5"
    run.mkdir()
    for file in (runs / run.name).iterdir():
        if file.is_file():
            (run / file.name).write_bytes(file.read_bytes())
    (run / "history.jsonl").write_text('{"total": 100}\n')
    with pytest.raises(InputError) as caught:
        measure_training([Cell("diag", 1, "uniform:5")], tmp_path)
    assert str(run) in one_sentence(caught.value)


# --- all of them ------------------------------------------------------------------------------------------------------


def test_all_records_are_written_and_do_not_depend_on_the_number_of_threads(
    models: dict[Cell, rf.LinearTransformer], runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {cell: model for cell, model in models.items() if cell.noise == "uniform:1"}
    stages: dict[str, tuple[int, list[int]]] = {}

    def on_stage(name: str, parts: int) -> Any:
        stages[name] = parts, []
        return stages[name][1].append

    for threads in ("1", "3"):
        monkeypatch.setenv("RIDGEFORMER_THREADS", threads)
        (tmp_path / threads).mkdir()
        written = make_records(small, runs, tmp_path / threads, 400, on_stage=on_stage)
        assert [path.name for path in written] == [
            f"{record}.json" for record in ("profiles", "readouts", "shift", "weights", "training")
        ]
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


# --- reading back -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", RECORDS)
def test_records_are_read_back_as_they_were_written(record: str, tmp_path: Path) -> None:
    results = read_results(write_results(tmp_path))
    expected = made_up(record)
    assert getattr(results, record).as_json() == expected.as_json()
    if record != "weights":  # arrays do not compare
        assert getattr(results, record) == expected


def test_numbers_that_are_not_finite_are_null_on_disk_and_infinite_when_read() -> None:
    record = made_up("readouts")
    first = replace(record.models[0], adjusted=(math.nan,), standard_error=(math.inf,))
    values = replace(record, models=(first,)).as_json()
    assert values["models"][0]["adjusted"] == [None]
    found = type(record).from_json(json.loads(json.dumps(values, allow_nan=False)))
    assert found.models[0].adjusted == found.models[0].standard_error == (math.inf,)


def smallest(record: str) -> dict[str, Any]:
    """A record with one item in every list of objects, as JSON."""
    values: dict[str, Any] = made_up(record).as_json()
    for name in ("entries", "panels", "models", "curves", "scenarios"):
        if name in values:
            values[name] = values[name][:1]
            if "series" in values[name][0]:
                values[name][0]["series"] = values[name][0]["series"][:1]
    return values


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths to everything in a JSON value, of long lists only to their first two items."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for name, item in items:
        yield from places(item, (*path, name))


def changed(values: dict[str, Any], path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    out = copy.deepcopy(values)
    inner = out
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = new
    return out


BAD: tuple[Any, ...] = ("x" * 1000, "\n", "$", [], [[]], {}, True, -1, 1.5, 10**400, 10**16, None)


@pytest.mark.parametrize("record", RECORDS)
def test_whatever_stands_in_a_record_is_read_or_refused_with_a_sentence(record: str, tmp_path: Path) -> None:
    values = smallest(record)
    file, tried, refused = tmp_path / f"{record}.json", 0, list[InputError]()
    for path in places(values):
        for new in BAD:
            file.write_text(json.dumps(changed(values, path, new)))
            tried += 1
            try:
                getattr(read_results(tmp_path), record)
            except InputError as wrong:
                refused.append(wrong)
    assert all(str(file) in one_sentence(wrong) for wrong in refused)
    assert len(refused) > tried / 3
    file.write_text(json.dumps(values))  # the control: as it was it is read
    assert getattr(read_results(tmp_path), record).as_json() == values


@pytest.mark.parametrize("record", RECORDS)
def test_field_that_is_missing_is_named(record: str, tmp_path: Path) -> None:
    values = smallest(record)
    name = next(name for name in ("entries", "panels", "models", "curves", "scenarios") if name in values)
    del values[name]
    (tmp_path / f"{record}.json").write_text(json.dumps(values))
    with pytest.raises(InputError, match=f"{record} has no {name}"):
        getattr(read_results(tmp_path), record)


@pytest.mark.parametrize("name", ["loss", "ratio_error", "excess"])
def test_negative_losses_and_errors_are_refused_but_an_excess_may_be_negative(name: str, tmp_path: Path) -> None:
    values = smallest("shift")
    values["scenarios"][0]["results"]["AdaRR"][name] = -0.5
    (tmp_path / "shift.json").write_text(json.dumps(values))
    if name == "excess":
        assert read_results(tmp_path).shift.scenarios[0].results["AdaRR"].excess == -0.5
    else:
        with pytest.raises(InputError, match=rf"AdaRR\.{name} must be a number of at least 0, not -0\.5"):
            _ = read_results(tmp_path).shift


FILES = {
    "empty": b"",
    "cut off": b'{"record": "shift", "predictors": [',
    "not text": b"\xff\xfe\x00",
    "NaN": b'{"record": "shift", "sequences": NaN}',
    "infinity": b'{"record": "shift", "sequences": -Infinity}',
    "deep": b"[" * 100_000,
    "a list": b"[]",
    "another record": b'{"record": "training", "curves": []}',
    "digits": b'{"record": "shift", "sequences": ' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize("name", FILES)
def test_file_that_is_no_record_is_one_sentence(name: str, tmp_path: Path) -> None:
    (tmp_path / "shift.json").write_bytes(FILES[name])
    with pytest.raises(InputError) as caught:
        _ = read_results(tmp_path).shift
    text = str(caught.value)
    assert str(tmp_path / "shift.json") in text
    assert "\n" not in text
    assert len(text) < 400
    assert not isinstance(caught.value, MissingRecordError)


def test_file_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_module, "_MOST_BYTES", 1000)
    write_results(tmp_path)
    with pytest.raises(InputError, match="is larger than"):
        _ = read_results(tmp_path).shift


def test_folder_in_place_of_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "shift.json").mkdir()
    with pytest.raises(InputError) as caught:
        _ = read_results(tmp_path).shift
    assert "Cannot read" in one_sentence(caught.value)


@pytest.mark.parametrize("folder", ["nowhere", "a" * 5000, "null\0byte"])
def test_folder_that_is_not_there_is_one_sentence_with_the_command(folder: str) -> None:
    with pytest.raises(MissingRecordError) as caught:
        read_results(folder)
    text = str(caught.value)
    assert "ridgeformer reproduce --out " in text
    assert "\n" not in text
    assert len(text) < 400
