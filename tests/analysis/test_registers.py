"""Registers, read out: what they hold is what was put there."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.analysis import algorithm, diagonal_fit, explain_model, explain_registers, mark, simplest, switched_off
from support import refused

TASK = rf.Task(3, 8, "fixed:1")


def copying_model(factor: float) -> rf.LinearTransformer:
    """Two layers of gradient descent, ŵ ← ŵ + η α and so on, whose register gets ``factor`` times what y gets."""
    p, q = np.zeros((2, 1, 5)), np.zeros((2, 1, 5))
    p[..., 4], p[..., 2], q[..., 0] = -0.02, -0.02 * factor, 1.0  # P_yy, P_my and q_x
    return rf.LinearTransformer("diag", 3, {"p": p, "q": q})


@pytest.mark.parametrize("factor", [2.0, -0.5])
def test_register_that_gets_a_multiple_of_what_the_target_gets_holds_a_multiple_of_the_weights(factor: float) -> None:
    explained = explain_registers(copying_model(factor), TASK, sequences=200)
    assert [(readout.layer, readout.register) for readout in explained.readouts] == [(1, 1), (2, 1)]
    first, second = explained.readouts
    for readout in (first, second):
        assert readout.size == pytest.approx(abs(factor))
        assert readout.own == pytest.approx(np.sign(factor))
        assert readout.target == pytest.approx(0.0)  # nothing of y itself is written: q_y = 0
    assert first.gradient == first.change == pytest.approx(np.sign(factor))  # one step from zero, along α
    assert abs(second.gradient) < 1 - 1e-4
    assert second.span is None
    assert first.span is not None
    assert 0 < first.span < 1  # the next step has a direction of its own


def test_losses_after_each_layer_end_with_the_loss_of_the_model_and_everything_is_json() -> None:
    model = copying_model(1.0)
    explained = explain_registers(model, TASK, label="copy", sequences=300, seed=4)
    assert explained.progress[-1].total.adjusted_loss == pytest.approx(rf.evaluate(model, TASK, 300, 4).adjusted_loss)
    record = explained.as_json()
    assert record["model"] == {"label": "copy", "kind": "diag", "layers": 2, "heads": 1, "registers": 1, "dim": 3}
    assert len(record["registers"]) == 2


def test_analyses_of_single_omegas_refuse_registers_in_one_sentence() -> None:
    model = rf.LinearTransformer.init("diag", layers=3, dim=3, registers=1)
    refused("explain_registers", explain_model, model, TASK)
    refused("explain_registers", diagonal_fit, model)
    refused("explain_registers", algorithm, model, TASK)
    refused("explain_registers", simplest, model, TASK)
    refused("explain_registers", switched_off, model, mark(3, ["xy"], None))
    refused("no registers", explain_registers, rf.LinearTransformer.init("diag", layers=3, dim=3), TASK)
