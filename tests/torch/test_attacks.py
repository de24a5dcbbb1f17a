"""Attacks: exact where the answer is known, on target for modules and baselines, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.notation import Array
from support import make_examples, refusal, relative_error

torch = pytest.importorskip("torch", reason="needs torch: make test-torch installs it")
rt: Any = pytest.importorskip("ridgeformer.torch")

EXAMPLES = make_examples(6, 9, 3, seed=2, queries=1)
X, Y, QUERY = EXAMPLES.X, EXAMPLES.y, EXAMPLES.queries[:, 0]


def influence() -> Array:
    """(batch, n): how the prediction of least squares changes with each target."""
    return np.einsum("bd,bde,bne->bn", QUERY, np.linalg.inv(X.transpose(0, 2, 1) @ X), X)


@pytest.mark.parametrize("examples", [1, 3, 9])
def test_smallest_change_of_targets_under_least_squares_is_the_known_one(examples: int) -> None:
    """ŷ = <h, y> is linear in y: the smallest change of the k targets of largest |h| is the distance over its norm."""
    h = influence()
    before = np.einsum("bn,bn->b", h, Y)
    result = rt.attack(rf.baselines.OLS(), X, Y, QUERY, before + 2, examples=examples, change="y", restarts=3, steps=10)
    largest = np.sort(np.abs(h), axis=1)[:, -examples:]
    assert relative_error(result.size, 2 / np.linalg.norm(largest, axis=1)) < 1e-6
    assert relative_error(result.before, before) < 1e-9
    assert np.array_equal(result.X, X)
    assert ((result.y != Y).sum(axis=1) <= examples).all()


def tame_module() -> Any:
    model = rf.LinearTransformer.init("full", layers=2, dim=3, scale=0.05, dtype=np.float64)
    return rt.from_model(model)


@pytest.mark.parametrize("change", ["both", "x", "y"])
@pytest.mark.parametrize("name", ["linear", "softmax", "AdaRR", "function"])
def test_changed_examples_give_the_target_and_only_what_may_change_does(name: str, change: str) -> None:
    predictors = {
        "linear": tame_module(),
        "softmax": rt.Architecture("softmax", layers=2, dim=3).make(dtype="float64"),
        "AdaRR": rf.baselines.AdaRR(),
        "function": lambda X, y, queries: queries.sum(axis=-1) * y.mean(axis=1, keepdims=True),
    }
    predictor = predictors[name]
    general = rf.as_predictor(predictor)

    def predict(X: Array, y: Array) -> Array:
        if hasattr(general, "weights"):
            return np.einsum("bd,bd->b", general.weights(rf.Context.from_tokens(X, y)), QUERY)
        return general.predict(X, y, QUERY[:, None])[:, 0]

    before = predict(X, Y)
    target = before + 0.02 * np.abs(before).max()
    result = rt.attack(predictor, X, Y, QUERY, target, change=change, examples=2, restarts=3, steps=25)
    reached = np.isfinite(result.size)
    if name == "function" and change == "x":  # it does not look at X
        assert not reached.any()
        return
    assert reached.all()
    assert np.abs(predict(result.X, result.y) - target).max() <= 2e-3 * np.abs(target - before).max()
    assert change == "both" or np.array_equal(result.X if change == "y" else result.y, X if change == "y" else Y)
    moved = (result.X != X).any(axis=2) | (result.y != Y)
    assert (moved.sum(axis=1) <= 2).all()
    size = np.sqrt(((result.X - X) ** 2).sum(axis=(1, 2)) + ((result.y - Y) ** 2).sum(axis=1))
    assert relative_error(size, result.size) < 1e-9


def test_gradients_by_differences_are_those_of_torch() -> None:
    from ridgeformer.torch.attacks import _values

    module, tokens = tame_module(), np.concatenate([X, Y[..., None]], axis=-1)
    mask = np.ones(tokens.shape, bool)
    exact = _values(module)(tokens, QUERY, mask)
    by_differences = _values(module.predict)(tokens, QUERY, mask)
    for found, expected in zip(by_differences, exact, strict=True):
        assert relative_error(found, expected) < 1e-6


def test_more_restarts_never_find_a_larger_change_and_one_context_needs_no_batch() -> None:
    module = tame_module()
    before = module.predict(X, Y, QUERY[:, None])[:, 0]
    few, many = (rt.attack(module, X, Y, QUERY, before + 0.1, restarts=count, steps=15) for count in (1, 3))
    assert (many.size <= few.size).all()
    alone = rt.attack(module, X[0], Y[0], QUERY[0], before[0] + 0.1, restarts=1, steps=15)
    assert alone.size == pytest.approx(few.size[0], rel=1e-6)
    assert alone.X.shape == X[0].shape


@pytest.mark.parametrize(
    ("message", "call"),
    [
        ("query and target", lambda: rt.attack(tame_module(), X, Y, QUERY[:2], Y[:, 0])),
        ("change", lambda: rt.attack(tame_module(), X, Y, QUERY, Y[:, 0], change="z")),
        ("examples", lambda: rt.attack(tame_module(), X, Y, QUERY, Y[:, 0], examples=10)),
        ("NaN", lambda: rt.attack(tame_module(), X * np.nan, Y, QUERY, Y[:, 0])),
        ("predictor", lambda: rt.attack(5, X, Y, QUERY, Y[:, 0])),
    ],
)
def test_what_does_not_fit_is_refused_with_one_sentence(message: str, call: Callable[[], Any]) -> None:
    with refusal(message):
        call()
