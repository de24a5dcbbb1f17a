"""All analyses of one model in one record: complete, plain JSON, and what it says to bad input."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.analysis import explain_model
from ridgeformer.core.storage import plain
from support import KINDS, make_examples, one_sentence, tame_model

TASK = rf.Task(3, 9, "uniform:2")
GRAM = make_examples(6, 9, 3, seed=1).gram


@pytest.mark.parametrize("kind", KINDS)
def test_explanation_of_every_kind_is_complete_and_plain_json(kind: str) -> None:
    model, stages = tame_model(kind, 2, 1, 3, GRAM), dict[str, float]()
    explanation = explain_model(model, TASK, sequences=200, pool=64, on_stage=stages.__setitem__)
    found = explanation.as_json()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["task"] == {"dim": 3, "examples": 9, "noise": "uniform:2"}
    assert (found["diagonal_model"] is not None) == (found["momentum"] is None) == (kind == "full")
    assert len(found["ablations"]) == (7 if kind == "gdpp" else 14)
    assert explanation.loss.total.adjusted_loss == pytest.approx(rf.evaluate(model, TASK, 200).adjusted_loss, rel=1e-12)
    assert stages["ablations"] == 1.0


def test_plain_values_have_null_for_what_is_not_finite() -> None:
    value = {("a", 1): np.array([1.0, np.nan]), "b": (np.float32(2), np.int64(3), float("inf"), None, TASK)}
    task = {"dim": 3, "examples": 9, "noise": "uniform:2"}
    assert plain(value) == {"('a', 1)": [1.0, None], "b": [2.0, 3, None, None, task]}


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ({"model": "diag-4-uniform-5"}, "rf.load"),
        ({"task": "uniform:5"}, "task must be a Task"),
        ({"task": rf.Task(4, 9)}, "made for 3 features"),
        ({"sequences": 0}, "sequences must be"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_explanation_of_bad_input_is_refused_in_one_sentence(arguments: dict[str, Any], hint: str) -> None:
    with pytest.raises(rf.InputError, match=hint) as caught:
        explain_model(**{"model": tame_model("diag", 2, 1, 3, GRAM), "task": TASK, **arguments})
    one_sentence(caught.value)
