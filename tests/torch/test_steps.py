"""One step of training by torch: its contexts are those of NumPy, its loss is that of the package."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.random import Purpose
from support import relative_error

torch = pytest.importorskip("torch", reason="needs torch: make test-torch installs it")
rt: Any = pytest.importorskip("ridgeformer.torch")
steps: Any = pytest.importorskip("ridgeformer.torch.steps")

TASK = rf.Task(3, 8, "uniform:2")


def test_contexts_are_bit_for_bit_those_that_numpy_draws() -> None:
    settings = rt.TrainSettings(batch=6, seed=3)
    module = rt.Architecture("softmax", layers=1, dim=3).make(dtype="float64")
    (batch,) = steps.draw_batches(module, TASK, settings, 5)
    drawn = TASK.draw_tokens(6, seed=3, step=5, purpose=Purpose.TRAIN)
    assert np.array_equal(batch.inputs[0].numpy(), drawn.X)
    assert np.array_equal(batch.inputs[1].numpy(), drawn.y)
    oracle = rf.Context.from_tokens(drawn.X, drawn.y).ridge(drawn.sigma**2)
    assert np.allclose(batch.aim.numpy(), np.einsum("bmd,bd->bm", batch.inputs[2].numpy(), oracle), rtol=1e-12)
    linear = rt.LinearTransformer("diag", layers=1, dim=3, dtype="float64")
    (batch,) = steps.draw_batches(linear, TASK, settings, 5)
    contexts = TASK.draw_contexts(6, seed=3, step=5, purpose=Purpose.TRAIN)
    assert np.array_equal(batch.inputs[0].numpy(), contexts.context.gram)
    assert np.array_equal(batch.aim.numpy(), contexts.oracle)


def test_loss_of_a_linear_module_is_that_of_the_package() -> None:
    model = rf.LinearTransformer.init("full", layers=2, dim=3, dtype=np.float64)
    module, settings = rt.from_model(model), rt.TrainSettings(batch=50)
    (batch,) = steps.draw_batches(module, TASK, settings, 0)
    found = steps.losses(module, module.gram_weights, batch).detach().numpy()
    expected, _ = rf.losses_and_gradient_on(model, TASK.draw_contexts(50, seed=0, purpose=Purpose.TRAIN))
    assert relative_error(found, expected) < 1e-12
