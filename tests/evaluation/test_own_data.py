"""`score`: held-out rows of a user's own data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import ridgeformer as rf

DRAW = rf.Task(4, 16, "fixed:1").draw_tokens(300, seed=0)


def test_scores_are_errors_on_rows_that_predictors_do_not_see() -> None:
    seen: list[tuple[int, int]] = []

    def watch(X: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
        seen.append((X.shape[1], queries.shape[1]))
        together = np.concatenate([X, queries], axis=1)
        assert np.allclose(np.sort(together, axis=1), np.sort(DRAW.X, axis=1))  # every row once
        return 0 * queries[..., 0]

    scores = rf.score({"zero": watch, "OLS": rf.baselines.OLS()}, DRAW.X, DRAW.y, splits=3)
    assert seen == [(12, 4)] * 3
    assert scores["zero"].share == pytest.approx(1.0)
    # Least squares with n = 12: σ² (1 + d / (n − d − 1)).
    assert scores["OLS"].error == pytest.approx(1 + 4 / 7, abs=4 * scores["OLS"].standard_error)


def test_models_estimators_and_functions_are_scored_on_the_same_rows() -> None:
    draw = rf.Task(10, 25).draw_tokens(30, seed=1)
    predictors = {"model": rf.load("diag-7-uniform-5"), "linear": LinearRegression(fit_intercept=False)}
    scores = rf.score({**predictors, "OLS": rf.baselines.OLS()}, draw.X, draw.y, held_out=5, splits=2)
    assert scores["linear"].error == pytest.approx(scores["OLS"].error)
    assert scores["model"].error < scores["OLS"].error
    assert "5 held-out rows each" in repr(scores)
    assert rf.score(predictors, draw.X, draw.y, 5, 2)["model"] == scores["model"]


def test_one_context_and_predictions_that_are_not_finite_are_scored_too() -> None:
    scores = rf.score({"OLS": rf.baselines.OLS()}, DRAW.X[0], DRAW.y[0], splits=4)
    assert scores.contexts == 1
    assert scores["OLS"].standard_error > 0
    bad = rf.score({"nan": lambda X, y, queries: np.nan * queries[..., 0]}, DRAW.X, DRAW.y)
    assert bad["nan"].not_finite == 300
    assert "not finite" in repr(bad)


def test_ragged_rows_are_refused() -> None:
    with pytest.raises(rf.InputError, match="X is not a rectangular array"):
        rf.score({"OLS": rf.baselines.OLS()}, [[1, 2], [3]], [1, 2])


def test_holding_out_every_row_is_refused() -> None:
    with pytest.raises(rf.InputError, match="none would be left"):
        rf.score({"OLS": rf.baselines.OLS()}, DRAW.X, DRAW.y, held_out=16)
