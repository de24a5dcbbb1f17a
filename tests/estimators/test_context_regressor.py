"""`ContextRegressor`: scikit-learn's checks, scaling into the model's range, guarding, and shapes it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

import ridgeformer as rf
from ridgeformer.core.notation import Array
from ridgeformer.estimators import ContextRegressor, DataError, DataWarning

TASK = rf.Task(10, 20, "uniform:5")


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_finds_nothing_wrong_with_it() -> None:
    results = check_estimator(ContextRegressor(), on_fail=None)
    assert not [result["check_name"] for result in results if result["status"] in ("failed", "xfail")]


def test_data_of_any_scale_and_level_get_the_answers_of_the_training_distribution() -> None:
    draw = TASK.draw_tokens(500, seed=2)
    oracle = rf.Context.from_tokens(draw.X, draw.y).ridge(draw.sigma**2)

    def loss(weights: Array) -> float:
        return float(0.5 * ((weights - oracle) ** 2).sum(axis=1).mean())

    name = "diag-7-uniform-5"
    raw = loss(rf.implicit_weights(rf.load(name), draw.X, draw.y))
    assert loss(ContextRegressor(name, fit_intercept=False).fit(draw.X, draw.y).coef_) < 1.05 * raw
    plain = ContextRegressor(name).fit(draw.X, draw.y)
    moved = ContextRegressor(name).fit(3 * draw.X + 2, 100 * draw.y + 50)
    assert moved.replaced_ == {}
    np.testing.assert_allclose(moved.coef_ * 3 / 100, plain.coef_, rtol=1e-4, atol=1e-5)
    assert loss(plain.coef_) < loss(ContextRegressor(rf.baselines.AdaRR()).fit(draw.X, draw.y).coef_)


def test_any_linear_predictor_answers_and_standard_deviations_cover() -> None:
    draw = rf.Task(4, 12, "fixed:1").draw_tokens(400, seed=3)
    model = ContextRegressor(rf.baselines.AdaRR(), fit_intercept=False).fit(draw.X, draw.y)
    mean, std = model.predict(draw.query[:, None], return_std=True)
    target = draw.target + np.random.default_rng(0).standard_normal(400)
    assert 0.9 < (np.abs(mean[:, 0] - target) < 1.96 * std[:, 0]).mean() < 0.99
    assert (model.coef_std_ > 0).all()


def test_shapes_that_no_model_was_trained_on_are_told_with_what_to_train() -> None:
    draw = rf.Task(4, 12).draw_tokens(3, seed=0)
    with pytest.warns(DataWarning, match="ridgeformer train --kind diag --layers 7 --dim 4 --examples 8"):
        model = ContextRegressor().fit(draw.X, draw.y)
    assert sum(model.replaced_.values()) == 3
    with pytest.raises(DataError, match="made for 10 features; these data have 4: train one with"):
        ContextRegressor("diag-7-uniform-5").fit(draw.X, draw.y)
    long = rf.Task(10, 60).draw_tokens(3, seed=0)
    with pytest.raises(DataError, match="trained for 16 to 25 rows; a group of these data has 60"):
        ContextRegressor("diag-7-uniform-5").fit(long.X, long.y)


def test_answers_that_are_not_sane_are_replaced_and_counted() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 20, 10))
    X[:, 0] *= 100  # one row far out, so that scaling leaves the others tiny
    y = X[..., 0] + rng.standard_normal((20, 20))
    with pytest.warns(rf.UntrainedDataWarning, match="replaced, of 20 problems"):
        model = ContextRegressor("full-7-uniform-5").fit(X, y)
    assert sum(model.replaced_.values()) > 0
    assert np.isfinite(model.predict(X)).all()


def test_groups_that_were_not_fitted_are_refused() -> None:
    draw = TASK.draw_tokens(2, seed=0)
    model = ContextRegressor().fit(draw.X.reshape(-1, 10), draw.y.ravel(), np.repeat(["a", "b"], 20))
    with pytest.raises(DataError, match="rows 1 were not fitted"):
        model.predict(draw.X[0, :2], ["a", "c"])
