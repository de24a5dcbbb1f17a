"""Steps, rescaling and momentum of every layer, against the theory."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.analysis import Sample
from ridgeformer.analysis.layer_steps import momentum_terms, step_sizes
from ridgeformer.core.forward import gram_weights
from ridgeformer.theory import momentum_layers
from support import make_examples, relative_error, tame_model

TASK = rf.Task(4, 12, "uniform:2")
SAMPLE = Sample.draw(TASK, 500, seed=1)
CONTEXT = rf.Context.from_tokens(*make_examples(8, 12, 4, seed=3)[:2])


def test_first_layer_is_a_plain_gradient_step_whatever_the_noise() -> None:
    model = tame_model("diag", 3, 1, 4, SAMPLE.context.gram, seed=4)
    first = [step for step in step_sizes(model, SAMPLE) if step.layer == 1]
    assert np.allclose([step.alignment for step in first], 1)
    assert np.allclose([step.step for step in first], -TASK.examples * model.omega()[0, 2])
    assert [step.energy for step in first] == sorted(step.energy for step in first)


def test_momentum_terms_are_norms_of_the_lemma() -> None:
    model = tame_model("diag", 3, 2, 4, CONTEXT.gram)
    found = momentum_terms(model, CONTEXT)
    layer = momentum_layers(model, CONTEXT)[0]
    gradient = np.einsum("bij,bj->bi", layer.Pi, layer.descent)
    assert found[0].momentum == 0.0  # u = 0 at the start
    assert found[0].gradient == pytest.approx(1.0)
    assert relative_error(gradient, -gram_weights(model.first_layers(1), CONTEXT.gram)) < 1e-10
