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


def test_model_without_directions_treats_these_alike_and_the_others_as_before() -> None:
    draw = TASK.draw_contexts(200, seed=5)
    model = tame_model("full", 2, 1, 10, draw.context.gram, strength=1.0)
    frame = np.linalg.qr(np.random.default_rng(0).standard_normal((10, 10)))[0]
    directions, rest = frame[:, :3], frame[:, 3:]
    changed = study.without_directions(model, directions)
    turn = rest @ rest.T + directions @ np.roll(np.eye(3), 1, axis=0) @ directions.T
    whole = np.eye(11)
    whole[:10, :10] = turn
    turned = rf.Context(whole @ draw.context.gram @ whole.T, 20)
    np.testing.assert_allclose(changed.weights(turned), changed.weights(draw.context) @ turn.T, rtol=1e-8, atol=1e-10)
    assert not np.allclose(model.weights(turned), model.weights(draw.context) @ turn.T, rtol=1e-3)
    blocks = [each.parameters["P"][:, :, :10, :10] for each in (model.astype(np.float64), changed)]
    np.testing.assert_allclose(rest.T @ blocks[1] @ rest, rest.T @ blocks[0] @ rest, rtol=1e-8, atol=1e-12)
