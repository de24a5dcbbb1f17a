"""Curves: every point is the comparison it stands for."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.baselines import BASELINES, GradientDescent
from ridgeformer.evaluation.curve import OVERS
from support import refused

TASK = rf.Task(3, 8, "uniform:2")
OLS = {"OLS": rf.baselines.OLS()}


def losses(curve: rf.Curve, name: str) -> list[float]:
    """The adjusted losses that are there."""
    return [one.adjusted_loss for one in curve.evaluations[name] if one is not None]


@pytest.mark.parametrize(
    ("over", "value", "task"),
    [
        ("examples", 5, replace(TASK, examples=5)),
        ("sigma", 1.5, replace(TASK, noise="fixed:1.5")),
        ("kappa", 10, replace(TASK, features="kappa:10")),
        ("dim", 2, replace(TASK, dim=2)),
        ("scale", 2, replace(TASK, weights="scale:2")),
        ("xscale", 2, replace(TASK, features="scale:2")),
        ("rows", 0.5, replace(TASK, features="rows:0.5")),
        ("degrees", 5, replace(TASK, noise_shape="student:5")),
        ("sparse", 2, replace(TASK, weights="sparse:2")),
        ("pool", 4, replace(TASK, weights="pool:4")),
    ],
)
def test_point_of_a_curve_is_the_comparison_on_that_task(over: str, value: float, task: rf.Task) -> None:
    predictors = {"AdaRR": rf.baselines.AdaRR(), **OLS}
    found = rf.curve(predictors, TASK, over, [value], sequences=300, seed=4)
    expected = rf.compare(predictors, task, 300, 4)
    assert found.evaluations["OLS"][0] == expected.evaluations["OLS"]
    assert found.differences["OLS"][0] == expected.difference("OLS", "AdaRR")


def test_every_number_has_values_worth_looking_at() -> None:
    for name, entry in OVERS.items():
        if name != "layers":
            found = rf.curve(OLS, rf.Task(10, 20), name, sequences=20)
            assert found.values == tuple(entry.values(rf.Task(10, 20)))


def test_kappa_changes_before_the_axes_are_turned() -> None:
    task = replace(TASK, features="kappa:3+rotated")
    found = rf.curve(OLS, task, "kappa", [10], sequences=200)
    expected = rf.evaluate(OLS["OLS"], replace(TASK, features="kappa:10+rotated"), 200)
    assert found.evaluations["OLS"] == (expected,)


def test_layers_are_read_out_beside_solvers_of_as_many_steps() -> None:
    model = rf.load("diag-4-uniform-5")
    predictors = {"model": model, "GD": GradientDescent(6), "AdaRR": rf.baselines.AdaRR()}
    found = rf.curve(predictors, "uniform:5", "layers", sequences=400)
    assert list(found.values) == [1, 2, 3, 4, 5, 6]
    expected = rf.layerwise(model, "uniform:5", 400)
    for place in range(4):
        assert losses(found, "model")[place] == pytest.approx(expected[place].adjusted_loss, rel=1e-5)
        own = rf.evaluate(GradientDescent(place + 1), "uniform:5", 400)
        assert losses(found, "GD")[place] == pytest.approx(own.adjusted_loss)
    assert [one is None for one in found.evaluations["model"][4:]] == [True, True]
    assert len(set(losses(found, "AdaRR"))) == 1
    assert rf.curve(predictors, "uniform:5", "layers", [2], sequences=50).values == (2,)


def test_baselines_are_made_again_for_every_task() -> None:
    found = rf.curve({"Bayes": BASELINES["bayes"]}, TASK, "sigma", [0.5, 2], sequences=200)
    assert losses(found, "Bayes") == pytest.approx([0, 0], abs=1e-20)
    assert rf.curve({**OLS, "Bayes": BASELINES["bayes"]}, TASK, "degrees", [5], sequences=50).evaluations["Bayes"] == (
        None,
    )


def test_models_of_few_numbers_follow_a_change_of_dim_and_full_ones_do_not() -> None:
    chosen = {"diag": rf.load("diag-2-uniform-5"), "full": rf.load("full-2-uniform-5")}
    found = rf.curve(chosen, "uniform:5", "dim", [4, 10], sequences=100)
    assert [one is None for one in found.evaluations["full"]] == [True, False]
    assert found.evaluations["diag"][0] is not None


def test_curve_as_json_and_csv_has_every_number() -> None:
    found = rf.curve({**OLS, "Ada": rf.baselines.AdaRR()}, TASK, "sigma", [0.5, 2], sequences=100)
    record = found.as_json()
    assert record["evaluations"]["Ada"][1]["adjusted_loss"] == losses(found, "Ada")[1]
    rows = list(csv.DictReader(io.StringIO(found.as_csv())))
    assert [(row["predictor"], float(row["sigma"])) for row in rows] == [
        ("OLS", 0.5),
        ("OLS", 2),
        ("Ada", 0.5),
        ("Ada", 2),
    ]
    gap = found.differences["Ada"][1]
    assert gap is not None
    assert float(rows[3]["minus_first"]) == pytest.approx(gap.mean)
    assert "sigma" in repr(found)


def test_bad_input_to_a_curve_is_one_sentence() -> None:
    for hint, arguments in {
        "Did you mean 'sigma'": (OLS, TASK, "sigmas"),
        "at least one predictor": ({}, TASK, "sigma"),
        "1 to 1000 values": (OLS, TASK, "sigma", []),
        "whole numbers": (OLS, TASK, "examples", [2.5]),
        "finite number": (OLS, TASK, "sigma", [np.inf]),
        "at least 1": (OLS, TASK, "kappa", [0.5]),
        "values of at least 1": ({"m": GradientDescent(2)}, TASK, "layers", [0]),
    }.items():
        refused(hint, rf.curve, *arguments)
