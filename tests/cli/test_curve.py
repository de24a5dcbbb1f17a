"""``ridgeformer curve``: a table, a picture, JSON and CSV; and what it says to bad input."""

from __future__ import annotations

import csv
from pathlib import Path

from running import Capture, read_json, refuses, succeeds


def test_curve_over_layers_is_the_default_and_shows_solvers(tmp_path: Path, capsys: Capture) -> None:
    out = succeeds(capsys, "curve", "diag-2-uniform-5", "--sequences", "200")
    for text in ("over layers", "GD", "CG", "Newton", "Bayes limit", "ridge regression that is told σ"):
        assert text in out
    names = {file.name for file in Path("curves").iterdir()}
    assert names == {"layers.svg", "layers.png", "layers.json", "layers.csv"}
    assert read_json(Path("curves/layers.json"))["values"] == [1, 2]


def test_curve_of_baselines_alone_on_any_task(tmp_path: Path, capsys: Capture) -> None:
    flags = ["--features", "kappa:10+rotated", "--weights", "sparse:3", "--noise-shape", "student:5"]
    files = ["--json", "a.json", "--csv", "a.csv", "--out", "figures"]
    ask = ["--over", "examples", "--values", "5", "30", "--baselines", "adarr", "ols", "bayes", "--sequences", "100"]
    out = succeeds(capsys, "curve", *ask, *flags, *files, "--loss")
    assert "no Bayes limit is known" in out
    assert "Loss ± s.e." in out
    record = read_json(Path("a.json"))
    assert record["task"]["features"] == "kappa:10+rotated"
    assert record["evaluations"]["Bayes limit"] == [None, None]
    rows = list(csv.DictReader(Path("a.csv").read_text().splitlines()))
    assert [row["examples"] for row in rows if row["predictor"] == "OLS"] == ["5", "30"]
    assert Path("figures/examples-loss.svg").exists()


def test_bad_arguments_of_curve_are_one_sentence(capsys: Capture) -> None:
    for hint, flags in {
        "Did you mean 'sigma'": ["--over", "sigm"],
        "Did you mean 'adarr'": ["--baselines", "adar"],
        "Did you mean 'kappa'": ["--features", "kapa:3"],
        "at least one model": ["--baselines", "none"],
        "Cannot import": ["--features", "no_such_module:Thing"],
    }.items():
        refuses(capsys, hint, "curve", *flags)
