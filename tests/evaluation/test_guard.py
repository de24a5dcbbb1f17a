"""What `predict` and `implicit_weights` say of data unlike the training, and what ``guard`` replaces."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.evaluation.guard import far_contexts, guarded, sane_weights

MODEL = rf.load("full-7-uniform-5")
DRAW = rf.Task(10, 20).draw_tokens(50, seed=1)


def test_data_of_the_training_pass_without_a_word_and_unchanged() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = rf.implicit_weights(MODEL, DRAW.X, DRAW.y)
        assert (rf.implicit_weights(MODEL, DRAW.X, DRAW.y, guard=True) == plain).all()
    many = rf.Task(10, 20).draw_contexts(20_000, seed=2).context
    assert not any(mask.any() for mask in far_contexts(rf.Task(10, 20), many).values())


@pytest.mark.parametrize(
    ("X", "y", "reason"),
    [
        (DRAW.X + 2, DRAW.y, "features too small or too wide"),
        (3 * DRAW.X, DRAW.y, "features too small or too wide"),
        (0.2 * DRAW.X, DRAW.y, "features too small or too wide"),
        (DRAW.X, DRAW.y + 50, "targets too small or too large"),
        (np.repeat(DRAW.X[..., :1], 10, axis=2), DRAW.y, "large eigenvalue"),
        (np.tile(DRAW.X, (1, 2, 1)), np.tile(DRAW.y, (1, 2)), "other numbers of examples than 16 to 25"),
    ],
)
def test_one_warning_says_what_is_far_from_the_training(X: np.ndarray, y: np.ndarray, reason: str) -> None:
    with pytest.warns(rf.UntrainedDataWarning, match=reason) as caught:
        rf.predict(MODEL, X, y, X[:, :2])
    assert len(caught) == 1
    assert "of 50 contexts" in str(caught[0].message)


def test_guard_replaces_what_is_not_sane_and_says_by_what() -> None:
    with pytest.warns(rf.UntrainedDataWarning, match=r"guard=True replaces"):
        wild = rf.predict(MODEL, 3 * DRAW.X, DRAW.y, 3 * DRAW.X)
    assert not np.isfinite(wild).all()
    with pytest.warns(rf.UntrainedDataWarning, match=r"Answers replaced: 50 of 50 contexts \(.*AdaRR"):
        calm = rf.predict(MODEL, 3 * DRAW.X, DRAW.y, 3 * DRAW.X, guard=True)
    assert ((calm - DRAW.y) ** 2).sum() < (DRAW.y**2).sum()


def test_guard_takes_the_deepest_read_out_that_is_sane() -> None:
    draw = rf.Task(10, 20).draw_tokens(200, seed=1)
    context = rf.Context.from_tokens(1.7 * draw.X, draw.y)
    depths = np.array([rf.context_weights(MODEL, context, depth) for depth in range(1, 8)])
    sane = np.array([sane_weights(weights, context) for weights in depths])
    with pytest.warns(rf.UntrainedDataWarning, match="by the read-out after layer"):
        answer = rf.implicit_weights(MODEL, 1.7 * draw.X, draw.y, guard=True)
    several = np.flatnonzero(~sane[-1] & (sane[:-1].sum(axis=0) >= 2))
    assert len(several) >= 5
    for place in several:
        deepest = np.flatnonzero(sane[:, place])[-1]
        np.testing.assert_allclose(answer[place], depths[deepest, place], rtol=1e-4)


def test_only_answers_that_are_not_sane_are_replaced() -> None:
    X = DRAW.X.copy()
    X[:3] *= 4
    context = rf.Context.from_tokens(X, DRAW.y)
    plain = rf.context_weights(MODEL, context)
    answer, doubts = guarded(MODEL, context, plain)
    assert doubts.unsound == 3
    assert sum(doubts.replaced.values()) == 3
    np.testing.assert_array_equal(answer[3:], plain[3:])


def test_weights_are_sane_only_if_finite_fitting_and_not_far_too_long() -> None:
    context = rf.Context.from_tokens(np.ones((4, 3, 1)), np.ones((4, 3)))
    weights = np.array([[1.0], [np.nan], [-0.5], [2.5]])
    assert sane_weights(weights, context).tolist() == [True, False, False, False]
    thin = rf.Context.from_tokens(1e-3 * np.ones((1, 3, 1)), np.zeros((1, 3)))
    assert sane_weights(np.zeros((1, 1)), thin).all()
    assert not sane_weights(np.full((1, 1), 1e3), thin).any()


def test_a_model_that_does_not_say_what_it_was_trained_on_is_told_of_only_where_it_is_not_finite() -> None:
    model = rf.LinearTransformer.init("diag", layers=3, dim=10, scale=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rf.predict(model, 0.01 * DRAW.X, DRAW.y, DRAW.X)
    with pytest.warns(rf.UntrainedDataWarning, match="not finite"):
        rf.predict(model, 1e30 * DRAW.X, DRAW.y, DRAW.X)


def test_guard_that_is_not_a_truth_value_is_refused() -> None:
    for guard in (np.array([1, 2]), "yes", None):
        with pytest.raises(rf.InputError, match="guard must be a bool"):
            rf.implicit_weights(MODEL, DRAW.X, DRAW.y, guard=guard)  # type: ignore[arg-type]
