"""The study of registers: units, pruning, and the algorithm as code, against the models themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import registers_fitting as fitting
import registers_study as study
import ridgeformer as rf
from support import tame_model

TASK = rf.Task(noise="uniform:5")


def mild_model(layers: int = 4, registers: int = 1) -> rf.LinearTransformer:
    gram = TASK.draw_contexts(500, seed=5).context.gram
    return tame_model(f"diag+{registers}", layers, 1, 10, gram, strength=1.0)


@pytest.mark.parametrize(("dim", "examples"), [(10, 20), (5, 12), (7, 30)])
def test_model_in_natural_units_is_the_same_function_of_scaled_tokens(dim: int, examples: int) -> None:
    rng = np.random.default_rng(dim)
    X, y = rng.standard_normal((3, examples, dim)), rng.standard_normal((3, examples))
    model = mild_model()
    shape = {"layers": 4, "dim": dim, "registers": 1}
    unscaled = rf.LinearTransformer.init("diag", **shape, dtype=np.float64).replace(model.parameters)
    in_place = fitting.in_units(model, dim, examples).weights(rf.Context.from_tokens(X, y))
    of_x, of_y = np.sqrt(examples) + np.sqrt(dim), np.sqrt(examples * dim)
    # ⟨ŵ', x/of_x⟩ = ŷ/of_y, so ŵ = ŵ'·of_y/of_x.
    expected = of_y / of_x * unscaled.weights(rf.Context.from_tokens(X / of_x, y / of_y))
    np.testing.assert_allclose(in_place, expected, rtol=1e-9)


def test_model_of_the_zoo_in_natural_units_is_itself_at_home() -> None:
    model = rf.load("diag-4-registers-1-uniform-5").astype(np.float64)
    again = fitting.in_units(fitting.natural(model), 10, 20)
    np.testing.assert_allclose(again.flatten(), model.flatten(), rtol=1e-12)


def test_model_that_travels_gets_better_where_it_was_not_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = ((5, 10), (10, 20), (5, 20))
    monkeypatch.setattr(fitting, "SIZES", sizes)
    home = fitting.natural(rf.load("diag-4-registers-1-uniform-5"))
    moved = fitting.travel(home, steps=60, work=6400)
    tasks = [rf.Task(*size, noise="uniform:5") for size in sizes]
    before, after = (
        [rf.evaluate(fitting.in_units(model, task.dim, task.examples), task, 4000, 1).median for task in tasks]
        for model in (home, moved)
    )
    assert sum(after) < sum(before)
    assert after[2] < 0.8 * before[2]  # another n/d than in its training


def test_code_of_a_model_with_one_register_gives_its_answers() -> None:
    model, draw = mild_model(), TASK.draw_tokens(3, seed=1)
    found = {name: array.tolist() for name, array in model.parameters.items()}
    names: dict[str, Any] = {}
    exec("\n".join(study._code(found)), names)
    expected = rf.implicit_weights(model, draw.X, draw.y)
    for X, y, weights in zip(draw.X, draw.y, expected, strict=True):
        np.testing.assert_allclose(names["fit"](X, y), weights, rtol=1e-3, atol=1e-3)  # five digits of each number


def test_pruning_drops_one_number_at_a_time_and_fits_the_others_again() -> None:
    model = rf.load("diag-3-registers-1-uniform-5")
    found = fitting.prune(model, model.size - 3, 2, lambda model: {"loss": 1.0})
    assert [each["left"] for each in found] == [model.size - count for count in range(4)]
    zeros = [{place for place, value in enumerate(_numbers(each)) if value == 0} for each in found]
    assert [len(each) for each in zeros] == [0, 1, 2, 3]
    assert zeros[1] < zeros[2] < zeros[3]
    assert all(np.isfinite(_numbers(each)).all() for each in found)


def _numbers(found: dict[str, Any]) -> Any:
    return np.concatenate([np.ravel(found[name]) for name in ("p", "q")])


def test_first_layer_that_writes_targets_into_features() -> None:
    model = rf.LinearTransformer.init("full", layers=3, dim=10, scale=0.01, seed=1)
    P = model.parameters["P"].copy()
    P[0, 0, :-1, -1], P[1, 0, :-1, -1] = 1e-3, np.arange(10)
    assert study.first_write(model.replace({**model.parameters, "P": P})) == 1


@pytest.mark.parametrize("name", ["P_xy", "P_yx"])
def test_model_is_fitted_again_without_a_part_of_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "_STEPS", 2)
    model = rf.load("full-3-uniform-5")
    found = study.without(model, study._BLOCKS[name])
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


def test_table_of_what_is_left_names_the_numbers_that_are_not_zero() -> None:
    p, q = np.zeros((2, 2, 1, 5))
    q[0, 0, [0, 4]], p[0, 0, 4] = 1.0, 1.0  # reads x and y, and adds the sum of y to y: a step of gradient descent
    q[1, 0, 2], p[1, 0, [0, 3]] = 1.0, 1.0
    expected = [("x, y", "y to y"), ("m from y", "x to x, m to y")]
    assert list(study._left({"p": p.tolist(), "q": q.tolist()})) == expected


def test_page_says_where_the_model_that_travels_explodes() -> None:
    row = {"limit": 0.1, "median": 0.05, "largest": 3.0, "unmixed": 0.2}
    rows = [{"d": 5, "n": 5, **row, "loss": None, "largest": None}, {"d": 10, "n": 20, **row, "loss": 0.15}]
    *_, result, text = study._travels({"rows": rows})
    assert "| 5 | 5 | 0.1000 | explodes | 0.50 | 2.00 | ∞ |" in result
    assert "1.50 to 1.50 times the Bayes limit" in text
    assert "explodes on some contexts of d = 5, n = 5." in text
