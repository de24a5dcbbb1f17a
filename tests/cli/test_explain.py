"""``ridgeformer explain``: from a model file to tables, JSON, figures and code, and what it says to bad input."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.analysis import few_constants, refit
from ridgeformer.cli.explain import explain
from ridgeformer.plots.render import save_figure
from ridgeformer.theory import Check, run_checks
from running import Capture, Patch, read_json, succeeds
from support import make_examples, one_sentence, relative_error, tame_model

TASK = {"dim": 3, "examples": 8, "noise": "uniform:2"}
EXAMPLES = make_examples(4, 8, 3, seed=1)


def make_model(path: Path, kind: str = "diag", layers: int = 2, heads: int = 1, **task: Any) -> Path:
    drawn = tame_model(kind, layers, heads, 3, EXAMPLES.gram)
    rf.LinearTransformer(kind, 3, drawn.parameters, {"task": {**TASK, **task}}).save(path)
    return path


def printed(capsys: Capture) -> str:
    """What was printed, on one line."""
    return " ".join(capsys.readouterr().out.split())


@pytest.fixture
def few_checks(monkeypatch: Patch) -> None:
    """Only those of the model, and of one result."""
    monkeypatch.setattr("ridgeformer.theory.run_checks", partial(run_checks, results=["Theorem 5.2"]))


def test_model_with_everything_gives_tables_json_figures_and_code(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.setattr(refit, "CONTEXTS", 256)
    out, file = tmp_path / "new" / "out", tmp_path / "e.json"
    path = make_model(tmp_path / "a.safetensors")
    text = " ".join(succeeds(capsys, "explain", path, "--out", out, "--json", file, "--sequences", 500).split())
    parts = "a: diag, layers: 2|In short. ŵ is within|Of the other parts|ω of every layer|after each layer"
    for part in f"{parts}|nearest to ŵ|Lemma 4.4|with parts switched off|the rest fitted again".split("|"):
        assert part in text
    found = read_json(file)
    assert found == read_json(out / "explanation.json")
    assert found["task"] == TASK
    assert found["sequences"] == 500
    assert np.allclose(found["omega"], rf.load(tmp_path / "a.safetensors").omega())
    expected = rf.evaluate(rf.load(tmp_path / "a.safetensors"), rf.Task(3, 8, "uniform:2"), 500).adjusted_loss
    assert found["progress"][-1]["total"]["adjusted_loss"] == pytest.approx(expected)
    assert len(found["ablations"]) == 6 + 8
    names = {"omega", "matrices", "filters", "implied-noise", "steps", "progress", "momentum", "ablations"}
    names |= {"ablation-bands"}
    assert {path.stem for path in out.glob("*.svg")} == {path.stem for path in out.glob("*.png")} == names
    assert "\\omega_{xx}" in (out / "algorithm.tex").read_text()
    compile((out / "algorithm.py").read_text(), "algorithm.py", "exec")


@pytest.mark.parametrize(
    ("kind", "layers", "heads", "noise"),
    [
        ("gdpp", 2, 2, "fixed:0"),
        ("full", 2, 2, "categorical:1+3"),
        ("diag", 2, 3, "fixed:1"),
        ("diag", 1, 1, "fixed:1"),
    ],
)
def test_any_kind_heads_and_noise(
    kind: str, layers: int, heads: int, noise: str, tmp_path: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(refit, "CONTEXTS", 256)
    path, out = make_model(tmp_path / "m.safetensors", kind, layers, heads), tmp_path / "out.json"
    examples, ablate = (2 if layers == 1 else 8), heads < 3  # one layer with fewer examples than features
    assert explain(str(path), noise=noise, examples=str(examples), sequences=120, json=out, ablate=ablate) == 0
    text = printed(capsys)
    assert f"n = {examples}, seed" in text
    assert f"σ ~ {noise}" in text
    assert ("defined for diag and gdpp models only" in text) == (kind == "full")
    assert ("blocks A, b, c and δ" in text) == (kind == "full")
    assert ("fitted again; compare with" in text) == ablate
    assert ("(exact)" in text) == (kind == "gdpp")
    assert read_json(out)["model"]["heads"] == heads


@pytest.mark.parametrize(
    ("task", "flags", "sentence"),
    [
        (None, {}, "It does not say what it was trained on."),
        (TASK, {"noise": "fixed:1"}, "It was trained for σ ~ uniform:2, d = 3, n = 8."),
        ({**TASK, "noise": [1, 2]}, {"noise": "fixed:1", "examples": 8}, "It does not say what it was trained on."),
        ({**TASK, "prior": "priors:Mine"}, {"noise": "fixed:1"}, "It does not say what it was trained on."),
    ],
)
def test_other_contexts_than_those_of_training_are_named(
    task: Any, flags: dict[str, Any], sentence: str, tmp_path: Path, capsys: Capture
) -> None:
    path = tmp_path / "m.safetensors"
    parameters = tame_model("diag", 2, 1, 3, EXAMPLES.gram).parameters
    rf.LinearTransformer("diag", 3, parameters, {} if task is None else {"task": task}).save(path)
    assert explain(str(path), sequences=60, ablate=False, **flags) == 0
    assert sentence in printed(capsys)
    if task is None:
        assert explain(str(path), as_code=True) == 0
        assert "Trained" not in printed(capsys)


def test_exploding_model_is_null_in_json_and_can_be_drawn(tmp_path: Path, monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setattr("ridgeformer.plots.render.save_figure", partial(save_figure, formats=("svg",)))
    path, out = tmp_path / "m.safetensors", tmp_path / "out.json"
    rf.LinearTransformer.init("diag", layers=8, dim=3, scale=3.0, seed=1).save(path)
    assert explain(str(path), sequences=60, ablate=False, json=out, out=tmp_path) == 0
    assert read_json(out)["progress"][-1]["total"]["adjusted_loss"] is None
    assert "not finite" in capsys.readouterr().out


@pytest.mark.usefixtures("few_checks")
def test_tables_at_80_columns_have_every_number_whole(tmp_path: Path, monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(refit, "CONTEXTS", 64)
    path = make_model(tmp_path / "m.safetensors", "full", 2, 2)
    assert explain(str(path), sequences=60, noise="categorical:1+2+3+4+5+6+7") == 0
    assert explain(str(path), check=True) == 0
    tables = [line for line in capsys.readouterr().out.splitlines() if line[:1] in "┏┃┡│└"]
    assert max(map(len, tables)) <= 80
    cells = [cell.strip() for line in tables for cell in line.split("│")[2:-1]]
    assert not any(re.search(r"\d…|^…", cell) for cell in cells)


def test_as_code_and_latex_print_the_algorithm_and_nothing_else(tmp_path: Path, capsys: Capture) -> None:
    path = make_model(tmp_path / "m.safetensors", layers=3)
    scope: dict[str, Any] = {}
    exec(succeeds(capsys, "explain", path, "--as-code"), scope)
    weights = np.stack([scope["fit"](X, y) for X, y in zip(EXAMPLES.X, EXAMPLES.y, strict=True)])
    assert relative_error(weights, rf.implicit_weights(rf.load(path), EXAMPLES.X, EXAMPLES.y)) < 1e-6
    lines = succeeds(capsys, "explain", path, "--latex").splitlines()
    assert lines[0].startswith("% The algorithm of m")
    assert lines[-1].startswith("\\end{tabular}")


def test_check_without_a_model_holds(tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "checks.json"
    assert explain(None, check=True, json=out) == 0
    text, found = capsys.readouterr().out, read_json(out)
    assert f"{len(found)} of {len(found)} hold." in text
    assert all(row["passed"] and row["name"] in text for row in found)


@pytest.mark.usefixtures("few_checks")
def test_check_with_a_folder_draws_the_curves_of_the_theory(tmp_path: Path, capsys: Capture) -> None:
    path, out = make_model(tmp_path / "m.safetensors"), tmp_path / "theory"
    assert explain(str(path), check=True, out=out) == 0
    assert "8 figures, theory.json" in capsys.readouterr().out
    names = {"theory-cosine", "theory-second-order", "theory-two-layer", "theory-step-size"}
    assert {file.stem for file in out.glob("*.svg")} == {file.stem for file in out.glob("*.png")} == names
    found = read_json(out / "theory.json")
    assert all(check["passed"] for check in found["checks"])
    assert found["curves"]["cosines"][0]["dim"] == 3  # of the model


def test_folder_and_model_named_like_markup_are_named_as_they_are(
    tmp_path: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    monkeypatch.setattr("ridgeformer.plots.analysis_figures.all_figures", lambda _: {})
    path = make_model(tmp_path / '[b]"""; raise SystemExit.safetensors')
    assert explain(str(path), sequences=60, ablate=False, out=Path("[/red]")) == 0
    text = capsys.readouterr().out
    assert "in [/red]" in text
    assert '[b]"""; raise SystemExit: diag' in text
    scope: dict[str, Any] = {}
    exec((tmp_path / "[" / "red]" / "algorithm.py").read_text(encoding="utf-8"), scope)
    assert scope["fit"](EXAMPLES.X[0], EXAMPLES.y[0]).shape == (3,)


@pytest.mark.usefixtures("few_checks")
def test_check_of_an_exploding_model_says_that_it_explodes(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "m.safetensors"
    rf.LinearTransformer.init("diag", layers=6, dim=3, scale=100.0).save(path)
    assert explain(str(path), check=True) == 1
    assert "Theorem 4.1, this model: not finite, because the model explodes" in capsys.readouterr().out


def test_check_that_fails_has_exit_code_one(tmp_path: Path, monkeypatch: Patch, capsys: Capture) -> None:
    seen: list[Any] = []

    def fake(seed: int, model: Any, examples: int | None) -> list[Check]:
        seen.append((seed, model.layers, examples))
        return [Check("A", "Fine.", 0.0, 1.0), Check("B", "Wrong.", 2.0, 1.0)]

    monkeypatch.setattr("ridgeformer.theory.run_checks", fake)
    assert explain(str(make_model(tmp_path / "m.safetensors")), check=True, seed=5) == 1
    assert seen == [(5, 2, 8)]
    text = capsys.readouterr().out
    assert "FAILS" in text
    assert "1 of 2 hold." in text


def test_simplest_prints_a_ladder(tmp_path: Path, monkeypatch: Patch, capsys: Capture) -> None:
    for name, value in {"_POOL": 64, "_TRIAL_POOL": 64, "_TRIAL": 2, "_FINAL": 4, "_STARTS": 1, "_FEWEST": 10}.items():
        monkeypatch.setattr(few_constants, name, value)
    path = make_model(tmp_path / "m.safetensors", layers=3)
    assert explain(str(path), simplest=True, sequences=200, out=tmp_path, json=tmp_path / "s.json") == 0
    text = capsys.readouterr().out
    for part in ("all ω free", "one ratio", "control: one layer", "Bayes"):
        assert part in text
    found = read_json(tmp_path / "s.json")
    assert found["task"] == TASK
    assert len(found["forms"]) == 13
    assert (tmp_path / "simplest.svg").exists()


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"model": None}, "Name a model file"),
    "no such file": ({"model": "nowhere.safetensors"}, "nowhere.safetensors"),
    "two at once": ({"check": True, "as_code": True}, "Choose one of"),
    "no sequences": ({"sequences": 0}, "sequences must be"),
    "negative seed": ({"seed": -1}, "seed must be"),
    "bad noise": ({"noise": "unifrom:5"}, "Cannot read the noise prior"),
    "bad examples": ({"examples": 0}, "examples must be"),
    "unreadable task": ({"model": "hostile.safetensors"}, "readable form"),
    "too many sequences": ({"sequences": 10**12}, "at most"),
    "no folder": ({"json": Path("nowhere/out.json")}, "no folder"),
    "a folder for a file": ({"json": Path()}, "not an ordinary file"),
    "code to a folder": ({"as_code": True, "out": Path("out")}, "only print"),
    "latex to a file": ({"latex": True, "json": Path("a.json")}, "only print"),
    "check of so many": ({"check": True}, "leave out --sequences"),
    "a file for a folder": ({"out": Path("a.safetensors")}, "Cannot write"),
    "simplest of full": ({"model": "full.safetensors", "simplest": True}, "Only diag models"),
    "no ablations of a check": ({"check": True, "sequences": None, "ablate": False}, "leave out --no-ablate"),
    "examples of no model": (
        {"model": None, "check": True, "sequences": None, "examples": 5},
        "--examples without a model",
    ),
    "simplest of two layers": ({"simplest": True}, "layers of the model must be"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_bad_input_is_one_sentence(name: str) -> None:
    make_model(Path("a.safetensors"))
    make_model(Path("full.safetensors"), "full")
    make_model(Path("hostile.safetensors"), noise=[1, 2])
    arguments, hint = ERRORS[name]
    with pytest.raises(rf.InputError, match=hint) as caught:
        explain(**{"model": "a.safetensors", "sequences": 20, **arguments})
    one_sentence(caught.value)
