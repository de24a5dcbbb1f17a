"""One contract for everything that predicts: every kind of model, every baseline, a function and an estimator.

A predictor of yours should pass it too: add it to `MAKERS`, by how it is made for a task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.baselines import BASELINES, tuning
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.notation import Array
from ridgeformer.core.predictor import Informed, LinearPredictor, as_predictor
from support import Examples, as_draw, make_examples, relative_error, tame_model


def nearest(X: Array, y: Array, queries: Array) -> Array:
    """The target of the nearest example: not linear in anything."""
    distance = ((queries[:, :, None] - X[:, None]) ** 2).sum(axis=-1)
    return np.take_along_axis(y, distance.argmin(axis=-1), axis=1)


def model_of(kind: str) -> Callable[[rf.Task], rf.LinearTransformer]:
    return lambda task: tame_model(kind, 2, 1, task.dim, task.draw_contexts(50, seed=0).context.gram)


def estimator(task: rf.Task) -> Any:
    from sklearn.linear_model import Ridge

    return Ridge(alpha=1.0)


MAKERS: dict[str, Callable[[rf.Task], Any]] = {
    **{kind: model_of(kind) for kind in KINDS},
    **{name: baseline.make for name, baseline in BASELINES.items()},
    "function": lambda task: nearest,
    "estimator": estimator,
}
# (batch, n, d): more, as many and fewer examples than features; one of everything.
SHAPES = [(5, 12, 3), (3, 4, 4), (4, 2, 5), (1, 1, 1)]
TASK = rf.Task(3, 12, "uniform:2")


@pytest.fixture(autouse=True, scope="module")
def _quick_tuning(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "cache_root", lambda: folder)
        patch.setattr(tuning, "_known", {})
        patch.setattr(tuning, "_CONTEXTS", 500)
        yield


@cache
def made(name: str, dim: int, n: int) -> Any:
    return MAKERS[name](rf.Task(dim, n, "uniform:2"))


def answers(name: str, examples: Examples) -> Array:
    """(batch, m) predictions for the queries."""
    X, y, queries = examples[:3]
    predictor = as_predictor(made(name, X.shape[2], X.shape[1]))
    if not isinstance(predictor, LinearPredictor):
        return predictor.predict(X, y, queries)
    draw = as_draw(examples)
    weights = predictor.weights_from_draw(draw) if isinstance(predictor, Informed) else predictor.weights(draw.context)
    assert weights.shape == (len(X), X.shape[2])
    return np.einsum("bmd,bd->bm", queries, weights)


def changed(examples: Examples, change: Callable[[Array], Array]) -> Examples:
    """The same contexts with their rows changed."""
    return examples._replace(X=change(examples.X), y=change(examples.y))


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(("batch", "n", "dim"), SHAPES)
def test_predictions_have_their_shape_are_finite_and_depend_on_the_data_alone(
    name: str, batch: int, n: int, dim: int
) -> None:
    examples = make_examples(batch, n, dim, seed=1, queries=4)
    expected = answers(name, examples)
    assert expected.shape == (batch, 4)
    assert np.isfinite(expected).all()
    assert np.array_equal(answers(name, examples), expected)
    order = np.random.default_rng(0).permutation(n)
    assert relative_error(answers(name, changed(examples, lambda rows: rows[:, order])), expected) < 1e-9
    alone = Examples(*(array[:1] for array in examples))  # whatever else is in the batch
    assert relative_error(answers(name, alone), expected[:1]) < 1e-9
    narrow = Examples(*(array.astype(np.float32) for array in examples))
    assert relative_error(answers(name, narrow), expected) < 1e-3  # float32 times condition numbers up to 1e3
    other = changed(examples, lambda rows: rows + 1)
    assert relative_error(answers(name, other), expected) > 1e-6  # the control: it looks at the data


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("task", [TASK, rf.Task(4, 2, "fixed:1")], ids=["n > d", "n < d"])
def test_predictor_is_accepted_by_everything_that_measures(name: str, task: rf.Task) -> None:
    predictor = made(name, task.dim, task.examples)
    alone = rf.evaluate(predictor, task, 60)
    together = rf.compare({"it": predictor, "AdaRR": rf.baselines.AdaRR()}, task, 60)
    assert math.isfinite(alone.adjusted_loss)
    assert alone.adjusted_loss == pytest.approx(together.evaluations["it"].adjusted_loss, rel=1e-9)
    assert (alone.adjusted_loss == 0) == (name == "oracle")
    assert together.difference("it", "AdaRR").standard_error > 0 or name == "adarr"
    levels = rf.profile({"it": predictor}, task, [0, 2], 30).evaluations["it"]
    assert all(math.isfinite(level.adjusted_loss) for level in levels)
    table = rf.shift_table({"it": predictor}, task, ["none", "kappa:10", "student:5"], 30)
    for cells in table.results.values():
        assert cells["it"].diverged == 0
        assert cells["it"].loss > 0


def test_contract_names_everything_that_predicts() -> None:
    assert {*KINDS, *BASELINES} < set(MAKERS)
