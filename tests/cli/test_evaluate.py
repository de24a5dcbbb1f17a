"""``ridgeformer evaluate``: from model files to tables, JSON and CSV, and what it says to bad input."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import ridgeformer

import ridgeformer as rf
from ridgeformer.baselines import ConstRR, TunedRR
from ridgeformer.cli.evaluate import evaluate, model_labels
from support import one_sentence

TASK = {"dim": 3, "context": 8, "noise": "uniform:2"}


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return ridgeformer("evaluate", *arguments)


def make_model(path: Path, scale: float = 0.05, layers: int = 2, dim: int = 3, **task: Any) -> Path:
    info = {"task": {**TASK, "dim": dim, **task}}
    drawn = rf.LinearTransformer.init("diag", layers=layers, dim=dim, scale=scale, seed=1)
    rf.LinearTransformer("diag", dim, drawn.parameters, info).save(path)
    return path


def exploding_model(path: Path) -> Path:
    """Weights large enough that a few contexts explode."""
    return make_model(path, scale=0.25, layers=4)


def read_json(path: Path) -> Any:
    """Strict: NaN and Infinity are not JSON."""
    return json.loads(path.read_text(), parse_constant=pytest.fail)


def test_two_models_with_everything_give_tables_json_and_csv(tmp_path: Path) -> None:
    models = make_model(tmp_path / "a.safetensors"), exploding_model(tmp_path / "b.safetensors")
    files = tmp_path / "out.json", tmp_path / "out.csv"
    flags = ["--baselines", "--profile", "--layerwise", "--sequences", "2000", "--shift", "default", "--json"]
    done = run(*models, *flags, files[0], "--csv", files[1])
    assert done.returncode == 0, done.stderr
    for text in ("uniform:2, d = 3, n = 8", "minus Bayes", "TunedRR, v =", "read out after each layer", "kappa:10"):
        assert text in done.stdout
    (sentence,) = [line for line in done.stdout.splitlines() if line.startswith("†  b: ")]
    assert sentence.endswith(".")
    found = read_json(files[0])
    assert found["task"] == TASK
    assert list(found["models"]) == ["a", "b"]
    names = ["a", "b", "Oracle", "OLS", "ConstRR", "AdaRR", "TunedRR", "IterativeAdaRR", "Bayes"]
    assert list(found["evaluations"]) == names
    assert len(found["differences"]) == 9 * 8 // 2
    assert found["evaluations"]["Oracle"]["adjusted_loss"] == 0
    assert found["evaluations"]["b"]["tail_dominated"]
    assert not found["evaluations"]["a"]["tail_dominated"]
    assert found["profile"]["levels"] == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    assert [len(row) for row in found["layerwise"].values()] == [2, 4]
    assert len(found["shift"]["results"]) == 8
    assert found["shift"]["results"]["none"]["AdaRR"]["survives"] is True
    rows = list(csv.DictReader(files[1].read_text().splitlines()))
    parts = [row["part"] for row in rows]
    assert {part: parts.count(part) for part in parts} == {"evaluation": 9, "profile": 63, "layerwise": 6, "shift": 72}
    assert float(rows[0]["adjusted_loss"]) == found["evaluations"]["a"]["adjusted_loss"]


def test_json_holds_what_the_library_measures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = make_model(tmp_path / "m.safetensors"), tmp_path / "out.json"
    assert evaluate((str(path),), sequences=500, seed=3, json=out) == 0
    found = read_json(out)["evaluations"]["m"]
    model, task = rf.load(path), rf.Task(3, 8, "uniform:2")
    expected = rf.compare({"m": model}, task, 500, seed=3).evaluations["m"]
    assert {name: found[name] for name in vars(expected)} == vars(expected)
    alone = rf.evaluate(model, task, 500, seed=3)  # draws in the model's float32, compare in float64
    assert found["adjusted_loss"] == pytest.approx(alone.adjusted_loss, rel=1e-6)
    assert "minus" not in capsys.readouterr().out  # nothing to compare with


def test_baselines_alone_need_no_model(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConstRR, "tuned", lambda task: ConstRR(1.25))  # tuning takes ten seconds
    monkeypatch.setattr(TunedRR, "tuned", lambda task: TunedRR(1.5, 2.5))
    assert evaluate((), noise="fixed:1", context=12, sequences=200, baselines=True) == 0
    out = capsys.readouterr().out
    for text in ("σ ~ fixed:1, d = 10, n = 12", "ConstRR, v = 1.25", "min(σ̂², 2.5)", "Bayes"):
        assert text in out


def test_flags_overrule_what_a_model_was_trained_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make_model(tmp_path / "m.safetensors")
    assert evaluate((str(path),), noise="categorical:1+3", context=5, sequences=50) == 0
    assert "σ ~ categorical:1+3, d = 3, n = 5" in capsys.readouterr().out


def test_model_that_does_not_tell_its_task_gets_the_default(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.safetensors"
    rf.LinearTransformer.init("gdpp", layers=1, dim=4, scale=0.01).save(path)
    assert evaluate((str(path),), sequences=50) == 0
    assert "σ ~ uniform:5, d = 4, n = 20" in capsys.readouterr().out


def test_diverged_model_is_null_in_json_and_not_finite_in_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = make_model(tmp_path / "m.safetensors", scale=3.0, layers=8), tmp_path / "out.json"
    other = make_model(tmp_path / "n.safetensors")
    assert evaluate((str(path), str(other)), sequences=200, json=out, csv=tmp_path / "out.csv") == 0
    found = read_json(out)
    assert found["evaluations"]["m"]["adjusted_loss"] is None
    assert found["evaluations"]["m"]["diverged"] > 0
    assert found["differences"][0]["mean"] is None
    text = capsys.readouterr().out
    assert "not finite" in text
    assert "sequences gave no finite loss, so it has no mean" in text


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"models": ()}, "at least one model"),
    "no model to read out": ({"models": (), "baselines": True, "layerwise": True}, "at least one model"),
    "no such file": ({"models": ("nowhere.safetensors",)}, "nowhere.safetensors"),
    "the same twice": ({"models": ("a.safetensors", "a.safetensors")}, "named twice"),
    "other noise": ({"models": ("a.safetensors", "noise.safetensors")}, "choose one with --noise"),
    "other context": ({"models": ("a.safetensors", "context.safetensors")}, "choose one with --context"),
    "other dim": ({"models": ("a.safetensors", "dim.safetensors")}, "number of features"),
    "unreadable task": ({"models": ("hostile.safetensors",)}, "readable form"),
    "called like a baseline": ({"models": ("OLS.safetensors",), "baselines": True}, "name of a baseline"),
    "no sequences": ({"sequences": 0}, "sequences must be"),
    "negative seed": ({"seed": -1}, "seed must be"),
    "bad noise": ({"noise": "unifrom:5"}, "Cannot read the noise prior"),
    "bad shift": ({"shift": ("kapa:10",)}, "Did you mean 'kappa'"),
    "no folder": ({"json": Path("nowhere/out.json")}, "no folder"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_bad_input_is_one_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for file in ("a", "OLS"):
        make_model(Path(f"{file}.safetensors"))
    make_model(Path("noise.safetensors"), noise="uniform:3")
    make_model(Path("context.safetensors"), context=9)
    make_model(Path("dim.safetensors"), dim=4)
    make_model(Path("hostile.safetensors"), noise=[1, 2])
    arguments, hint = ERRORS[name]
    with pytest.raises(rf.InputError, match=hint) as caught:
        evaluate(**{"models": ("a.safetensors",), "sequences": 20, **arguments})
    one_sentence(caught.value)


def test_errors_of_the_command_go_to_stderr_with_exit_code_2(tmp_path: Path) -> None:
    done = run(make_model(tmp_path / "m.safetensors"), "--shift", "student:3", "studnet:3")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("ridgeformer: A shift must be one of")
    assert done.stderr.count("\n") == 1


def test_help_names_every_flag() -> None:
    done = run("--help")
    assert done.returncode == 0
    for flag in ["noise", "context", "sequences", "seed", "baselines", "profile", "layerwise", "shift", "json", "csv"]:
        assert f"--{flag}" in done.stdout


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


def test_exploding_and_ordinary_test_models_differ_in_their_tail() -> None:
    """The control of the flags above: an ordinary model is not flagged, and a wild one is not wild everywhere."""
    task = rf.Task(3, 8, "uniform:2")
    drawn = rf.LinearTransformer.init("diag", layers=4, dim=3, scale=0.25, seed=1)
    found = rf.evaluate(drawn, task, 2000)
    assert found.tail_dominated
    assert np.isfinite(found.median)
