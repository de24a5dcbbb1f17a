"""The study of registers: units, pruning, and the algorithm as code, against the models themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import registers_study as study
import ridgeformer as rf
from support import tame_model

TASK = rf.Task(noise="uniform:5")


def mild_model(layers: int = 4, registers: int = 1) -> rf.LinearTransformer:
    gram = TASK.draw_contexts(500, seed=5).context.gram
    return tame_model(f"diag+{registers}", layers, 1, 10, gram, strength=1.0)


@pytest.mark.parametrize(("dim", "examples"), [(10, 20), (5, 12), (7, 30)])
def test_model_in_natural_units_is_the_same_function_of_scaled_tokens(dim: int, examples: int) -> None:
    """x/√n and y/√(nd) as tokens of a model without scaling: ŵ in these units is ŵ·√d of the plain ones over √d."""
    rng = np.random.default_rng(dim)
    X, y = rng.standard_normal((3, examples, dim)), rng.standard_normal((3, examples))
    natural = mild_model()
    shape = {"layers": 4, "dim": dim, "registers": 1}
    unscaled = rf.LinearTransformer.init("diag", **shape, dtype=np.float64).replace(natural.parameters)
    in_place = study.in_units(natural, dim, examples).weights(rf.Context.from_tokens(X, y))
    scaled = rf.Context.from_tokens(X / np.sqrt(examples), y / np.sqrt(examples * dim))
    # ⟨ŵ', x/√n⟩ = ŷ/√(nd), so ŵ = ŵ'·√d.
    np.testing.assert_allclose(in_place, np.sqrt(dim) * unscaled.weights(scaled), rtol=1e-9)


def test_code_of_a_model_with_one_register_gives_its_answers() -> None:
    model, draw = mild_model(), TASK.draw_tokens(3, seed=1)
    found = {name: array.tolist() for name, array in model.parameters.items()}
    names: dict[str, Any] = {}
    exec("\n".join(study._code(found)), names)
    expected = rf.implicit_weights(model, draw.X, draw.y)
    for X, y, weights in zip(draw.X, draw.y, expected, strict=True):
        np.testing.assert_allclose(names["fit"](X, y), weights, rtol=1e-3, atol=1e-3)  # five digits of each number


def test_pruning_drops_one_number_at_a_time_and_keeps_the_others_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"_POOL": 512, "_BATCH": 256, "_SEQUENCES": 500}.items():
        monkeypatch.setattr(study, name, value)
    model = mild_model(layers=2)
    found = study.prune(model, model.size - 3, steps=2)
    assert [each["left"] for each in found] == [model.size - count for count in range(4)]
    zeros = [sum(value == 0 for name in ("p", "q") for value in np.ravel(each[name])) for each in found]
    assert zeros == [0, 1, 2, 3]
    assert all(np.isfinite(each["loss"]) for each in found)


def test_first_layer_that_writes_targets_into_features() -> None:
    model = rf.LinearTransformer.init("full", layers=3, dim=10, scale=0.01, seed=1)
    P = model.parameters["P"].copy()
    P[0, 0, :-1, -1], P[1, 0, :-1, -1] = 1e-3, np.arange(10)
    assert study.first_write(model.replace({**model.parameters, "P": P})) == 1


@pytest.mark.parametrize("name", ["P_xy", "P_yx"])
def test_model_is_fitted_again_without_a_part_of_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "_POOL", 512)
    monkeypatch.setattr(study, "_BATCH", 256)
    monkeypatch.setattr(study, "_STEPS", 4)
    model = tame_model("full", 2, 1, 10, TASK.draw_contexts(500, seed=5).context.gram, strength=1.0)
    found = study.refitted(model, study.bayes_pool(TASK, 512, 0)[0], study._BLOCKS[name])
    zero = found.parameters["P"] == 0
    assert zero[study._BLOCKS[name]].all()
    assert zero.sum() == zero[study._BLOCKS[name]].size
    assert not (found.parameters["Q"] == model.parameters["Q"]).all()


def test_penalties_of_a_model_that_is_one_gradient_step_are_as_large_as_they_can_be() -> None:
    """α is the limit of ridge regression's direction for large penalties."""
    model = rf.LinearTransformer.init("diag", layers=1, registers=1, scale=0.0, dtype=np.float64)
    p, q = (model.parameters[name].copy() for name in "pq")
    p[..., 1:], q[..., 0] = np.eye(2).ravel(), -0.01
    for found in study.penalties(model.replace({"p": p, "q": q}), TASK):
        if found["register"] is None:
            assert set(found["bands"]) == {100.0}
            assert found["cosine"] > 0.9999
