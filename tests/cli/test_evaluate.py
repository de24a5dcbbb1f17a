"""``ridgeformer evaluate``: from model files to tables, JSON and CSV, and what it says to bad input."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest

import ridgeformer as rf
from ridgeformer.cli.evaluate import evaluate, model_labels
from running import Capture, Patch, leave_untuned, read_json, refuses, succeeds
from support import one_sentence

TASK = {"dim": 3, "examples": 8, "noise": "uniform:2"}


@pytest.fixture(autouse=True)
def _no_tuning(monkeypatch: Patch) -> None:
    leave_untuned(monkeypatch)


def make_model(path: Path, scale: float = 0.05, layers: int = 2, dim: int = 3, **task: Any) -> Path:
    info = {"task": {**TASK, "dim": dim, **task}}
    drawn = rf.LinearTransformer.init("diag", layers=layers, dim=dim, scale=scale, seed=1)
    rf.LinearTransformer("diag", dim, drawn.parameters, info).save(path)
    return path


def test_two_models_with_everything_give_tables_json_and_csv(tmp_path: Path, capsys: Capture) -> None:
    wild = make_model(tmp_path / "b.safetensors", scale=0.25, layers=4)  # a few contexts explode
    models = make_model(tmp_path / "a.safetensors"), wild
    files = tmp_path / "out.json", tmp_path / "out.csv"
    flags = ["--baselines", "--profile", "--layerwise", "--sequences", "2000", "--shift", "default", "--json"]
    out = succeeds(capsys, "evaluate", *models, *flags, files[0], "--csv", files[1])
    for text in ("uniform:2, d = 3, n = 8", "minus", "TunedRR, v = 1.5", "read out after each layer", "kappa:10"):
        assert text in out
    for baseline in rf.baselines.BASELINES.values():
        assert baseline.summary in out
    (sentence,) = [line for line in out.splitlines() if line.startswith("†  b: ")]
    assert sentence.endswith(".")
    record = read_json(files[0])
    assert record["task"] == TASK
    assert list(record["models"]) == ["a", "b"]
    labels = [baseline.label for baseline in rf.baselines.BASELINES.values()]
    assert list(record["evaluations"]) == ["a", "b", *labels]
    assert len(record["differences"]) == 9 * 8 // 2
    assert record["evaluations"]["Oracle"]["adjusted_loss"] == 0
    assert record["evaluations"]["b"]["tail_dominated"]
    assert not record["evaluations"]["a"]["tail_dominated"]
    assert record["profile"]["levels"] == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    assert [len(row) for row in record["layerwise"].values()] == [2, 4]
    assert len(record["shift"]["results"]) == 8
    assert record["shift"]["results"]["none"]["AdaRR"]["survives"] is True
    rows = list(csv.DictReader(files[1].read_text().splitlines()))
    parts = [row["part"] for row in rows]
    assert {part: parts.count(part) for part in parts} == {"evaluation": 9, "profile": 63, "layerwise": 6, "shift": 72}
    assert float(rows[0]["adjusted_loss"]) == record["evaluations"]["a"]["adjusted_loss"]


def test_tables_at_80_columns_have_every_number_whole(tmp_path: Path, capsys: Capture, monkeypatch: Patch) -> None:
    path = make_model(tmp_path / "a-model-with-a-rather-long-name.safetensors")
    arguments = ("evaluate", path, "--baselines", "--profile", "--sequences", 500)
    wide = succeeds(capsys, *arguments)
    monkeypatch.setenv("COLUMNS", "80")
    narrow = succeeds(capsys, *arguments)
    tables = [line for line in narrow.splitlines() if line.startswith("│")]
    assert max(map(len, tables)) <= 80
    numbers = set(re.findall(r"[\d.e+-]+ ± [\d.e+-]+", wide))
    assert len(numbers) > 60
    assert numbers == set(re.findall(r"[\d.e+-]+ ± [\d.e+-]+", narrow))


def test_json_holds_what_the_library_measures(tmp_path: Path, capsys: Capture) -> None:
    path, out = make_model(tmp_path / "m.safetensors"), tmp_path / "out.json"
    evaluate((str(path),), sequences=500, seed=3, json=out)
    measured = read_json(out)["evaluations"]["m"]
    model, task = rf.load(path), rf.Task(3, 8, "uniform:2")
    expected = rf.compare({"m": model}, task, 500, seed=3).evaluations["m"]
    assert {name: measured[name] for name in vars(expected)} == vars(expected)
    alone = rf.evaluate(model, task, 500, seed=3)  # draws in the model's float32, compare in float64
    assert measured["adjusted_loss"] == pytest.approx(alone.adjusted_loss, rel=1e-6)
    assert "minus" not in capsys.readouterr().out  # nothing to compare with


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        ({"noise": "fixed:1", "examples": 12, "baselines": True}, "σ ~ fixed:1, d = 10, n = 12"),
        ({"models": ("told",), "noise": "categorical:1+3", "examples": 5}, "σ ~ categorical:1+3, d = 3, n = 5"),
        ({"models": ("untold",)}, "σ ~ uniform:5, d = 4, n = 20"),
        ({"models": ("diag-1-uniform-5",)}, "σ ~ uniform:5, d = 10, n = 20"),  # the zoo's files say "context"
    ],
)
def test_task_is_as_asked_or_else_as_in_training_or_else_the_default(
    arguments: dict[str, Any], setting: str, capsys: Capture
) -> None:
    make_model(Path("told"))
    rf.LinearTransformer.init("gdpp", layers=1, dim=4, scale=0.01).save(Path("untold"))
    evaluate(**{"models": (), "sequences": 50, **arguments})
    out = capsys.readouterr().out
    assert setting in out
    for text in ("ConstRR, v = 1.25", "min(σ̂², 2.5)", "Bayes"):
        assert (text in out) == ("baselines" in arguments)


def test_diverged_model_is_null_in_json_and_not_finite_in_the_table(tmp_path: Path, capsys: Capture) -> None:
    path, out = make_model(tmp_path / "m.safetensors", scale=3.0, layers=8), tmp_path / "out.json"
    other = make_model(tmp_path / "n.safetensors")
    evaluate((str(path), str(other)), sequences=200, json=out, csv=tmp_path / "out.csv")
    record = read_json(out)
    assert record["evaluations"]["m"]["adjusted_loss"] is None
    assert record["evaluations"]["m"]["diverged"] > 0
    assert record["differences"][0]["mean"] is None
    text = capsys.readouterr().out
    assert "not finite" in text
    assert "sequences gave no finite loss, so it has no mean" in text


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"models": ()}, "at least one model"),
    "no model to read out": ({"models": (), "baselines": True, "layerwise": True}, "at least one model"),
    "no such file": ({"models": ("nowhere.safetensors",)}, "nowhere.safetensors"),
    "the same twice": ({"models": ("a.safetensors", "a.safetensors")}, "named twice"),
    "other noise": ({"models": ("a.safetensors", "noise.safetensors")}, "choose one with --noise"),
    "other number of examples": ({"models": ("a.safetensors", "examples.safetensors")}, "choose one with --examples"),
    "other dim": ({"models": ("a.safetensors", "dim.safetensors")}, "number of features"),
    "unreadable task": ({"models": ("hostile.safetensors",)}, "readable form"),
    "prior of one's own": ({"models": ("own.safetensors",)}, "pass it again, with --noise priors:Mine"),
    "called like a baseline": ({"models": ("OLS.safetensors",), "baselines": True}, "name of a baseline"),
    "no sequences": ({"sequences": 0}, "sequences must be"),
    "negative seed": ({"seed": -1}, "seed must be"),
    "bad noise": ({"noise": "unifrom:5"}, "Cannot read the noise prior"),
    "bad shift": ({"shift": ("kapa:10",)}, "Did you mean 'kappa'"),
    "no folder": ({"json": Path("nowhere/out.json")}, "no folder"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_bad_input_is_one_sentence(name: str) -> None:
    files: dict[str, dict[str, Any]] = {
        "a": {},
        "OLS": {},
        "noise": {"noise": "uniform:3"},
        "examples": {"examples": 9},
    }
    files |= {"dim": {"dim": 4}, "hostile": {"noise": [1, 2]}, "own": {"prior": "priors:Mine"}}
    for file, task in files.items():
        make_model(Path(f"{file}.safetensors"), **task)
    arguments, hint = ERRORS[name]
    with pytest.raises(rf.InputError, match=hint) as caught:
        evaluate(**{"models": ("a.safetensors",), "sequences": 20, **arguments})
    one_sentence(caught.value)


def test_former_name_of_examples_still_works_in_the_shell(capsys: Capture) -> None:
    assert "n = 7" in succeeds(capsys, "evaluate", "diag-1-uniform-5", "--sequences", 50, "--context", 7)


@pytest.mark.parametrize(
    ("names", "labels"),
    [
        (["runs/a/model.safetensors", "runs/b/model.safetensors"], ["a", "b"]),
        (["x/net.safetensors", "y/net.safetensors"], ["x/net", "y/net"]),
        (["full-7-uniform-5"], ["full-7-uniform-5"]),
        (["model.safetensors"], ["model"]),
        (["a.safetensors", "a"], ["a.safetensors", "a"]),
        ([""], [""]),
        ([], []),
    ],
)
def test_labels_are_as_short_as_tells_models_apart(names: list[str], labels: list[str]) -> None:
    assert model_labels(names) == labels


def test_any_task_can_be_evaluated_and_its_reference_is_named(capsys: Capture) -> None:
    flags = ["--baselines", "--sequences", "300", "--examples", "6..9", "--features", "kappa:10+rotated"]
    out = succeeds(capsys, "evaluate", *flags, "--weights", "pool:8", "--noise", "uniform:2", "--json", "a.json")
    assert "n = 6..9, x ~ kappa:10+rotated, w ~ pool:8" in out
    assert "told σ and the distribution of w" in out
    assert read_json(Path("a.json"))["task"]["weights"] == "pool:8"
    out = succeeds(capsys, "evaluate", *flags, "--noise-shape", "student:5")
    assert "no Bayes limit is known" in out
    assert "Bayes limit  " not in out
    out = succeeds(capsys, "evaluate", "--baselines", "--sequences", "200", "--mixture", "base | weights=scale:2")
    assert "2 kinds of tasks" in out


def test_models_are_evaluated_on_what_they_were_trained_on(tmp_path: Path, capsys: Capture) -> None:
    a = make_model(tmp_path / "a.safetensors", features="kappa:10", examples="5..9")
    assert "n = 5..9, x ~ kappa:10" in succeeds(capsys, "evaluate", a, "--sequences", "50")
    assert "x ~ skewed" in succeeds(capsys, "evaluate", a, "--sequences", "50", "--features", "skewed")
    mixed = make_model(tmp_path / "m.safetensors", mixture="base | features=skewed")
    assert "2 kinds of tasks" in succeeds(capsys, "evaluate", mixed, "--sequences", "50")
    assert "2 kinds" not in succeeds(capsys, "evaluate", mixed, "--sequences", "50", "--noise", "uniform:1")
    b = make_model(tmp_path / "b.safetensors")
    refuses(capsys, "choose one with --features", "evaluate", a, b, "--examples", "8")


def test_garg_battery_is_a_shift_of_its_own_name(tmp_path: Path, capsys: Capture) -> None:
    model = make_model(tmp_path / "a.safetensors", dim=4, examples=9)
    out = succeeds(capsys, "evaluate", model, "--sequences", "100", "--shift", "garg")
    for spec in ("skewed", "quadrants", "subspace", "examples:2+orthogonal", "xscale:3", "scale:0.333"):
        assert spec in out
