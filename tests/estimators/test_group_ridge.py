"""`GroupRidge`: scikit-learn's own checks, coverage of its intervals, all ways to pass groups, and what it refuses."""

from __future__ import annotations

import pickle
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from grouped import Grouped, made_up_groups
from ridgeformer.core.notation import Array
from ridgeformer.estimators import DataError, DataWarning, GroupRidge
from ridgeformer.estimators.fitting import fit_groups
from ridgeformer.estimators.problems import GroupedRows

DATA = made_up_groups(60, 3, (4, 12), mean=1.0, scale=0.5, intercept=4.0)


def fitted(data: Grouped, **options: Any) -> GroupRidge:
    return GroupRidge(**options).fit(data.X, data.y, data.groups)


@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_finds_nothing_wrong_with_it() -> None:
    results = check_estimator(GroupRidge(), on_fail=None)
    assert not [result["check_name"] for result in results if result["status"] in ("failed", "xfail")]


SETTINGS: dict[str, dict[str, Any]] = {
    "the paper's": {"p": 10, "sizes": 20},
    "eight rows": {"p": 3, "sizes": 8, "noise": "lognormal", "mean": 1.0, "intercept": 3.0},
    "fewer rows than features": {"p": 20, "sizes": 15, "noise": "lognormal", "scale": 0.5},
    "ragged, two levels": {"p": 5, "sizes": (3, 40), "noise": "two", "mean": 0.5, "scale": 0.3, "intercept": 2.0},
    "eight rows, ten features": {"p": 10, "sizes": 8},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_intervals_of_two_deviations_hold_95_percent(name: str) -> None:
    data = made_up_groups(1000, **SETTINGS[name], seed=1)
    for intercept in (True, "pooled", "correlated"):
        model = fitted(data, fit_intercept=intercept)
        mean, std = model.predict(data.fresh_features, data.fresh_groups, return_std=True)
        assert (np.abs(mean - data.fresh_y) < 1.96 * std).mean() == pytest.approx(0.95, abs=0.02)
        assert (np.abs(model.coef_ - data.weights) < 1.96 * model.coef_std_).mean() == pytest.approx(0.95, abs=0.02)


def correlated_groups(count: int, n: int, seed: int) -> tuple[Array, Array, Array, Array]:
    """Features, targets and groups of growth curves that cross at one point: who grows faster started higher; and Λ."""
    rng = np.random.default_rng(seed)
    covariance = np.array([[1.0, 0.0, 0.9], [0.0, 0.25, 0.0], [0.9, 0.0, 1.0]])  # of two weights and the intercept
    drawn = rng.multivariate_normal([2.0, -1.0, 10.0], covariance, size=count)
    groups, X = np.repeat(np.arange(count), n), rng.standard_normal((count * n, 2))
    y = (X * drawn[groups, :2]).sum(axis=1) + drawn[groups, 2] + 1.5 * rng.standard_normal(count * n)
    return X, y, groups, drawn


def test_correlated_weights_and_intercepts_are_found_and_used() -> None:
    X, y, groups, drawn = correlated_groups(300, 4, seed=0)
    model = GroupRidge(fit_intercept="correlated").fit(X, y, groups)
    errors = {}
    for kind in (True, "pooled", "correlated"):
        own = GroupRidge(fit_intercept=kind).fit(X, y, groups)
        errors[kind] = ((np.column_stack([own.coef_, own.intercept_]) - drawn) ** 2).mean()
    # Ridge regression that is told μ, Λ and σ: no linear method is better.
    tokens, told = np.column_stack([X, np.ones(len(X))]), np.empty_like(drawn)
    mean, precision = np.array([2.0, -1.0, 10.0]), np.linalg.inv(np.cov(drawn.T))
    for group in range(300):
        rows = groups == group
        system = tokens[rows].T @ tokens[rows] / 1.5**2 + precision
        told[group] = np.linalg.solve(system, tokens[rows].T @ y[rows] / 1.5**2 + precision @ mean)
    best = ((told - drawn) ** 2).mean()
    assert best < errors["correlated"] < 1.06 * best
    assert errors["correlated"] < 0.9 * min(errors[True], errors["pooled"])
    np.testing.assert_allclose(model.prior_.mean, [2.0, -1.0], atol=0.2)
    np.testing.assert_allclose(model.prior_.scale, [1.0, 0.5], atol=0.25)
    assert model.prior_.value_scale == pytest.approx(1.0, abs=0.2)


def test_correlated_groups_that_come_later_or_are_unknown_are_predicted_with_what_was_learned() -> None:
    X, y, groups, _ = correlated_groups(200, 6, seed=1)
    early, late = groups < 150, groups >= 150
    model = GroupRidge(fit_intercept="correlated").fit(X[early], y[early], groups[early])
    with pytest.warns(DataWarning, match="None of these groups was fitted"):
        mean, std = model.predict(X[late], groups[late], return_std=True)
    assert (np.abs(mean - y[late]) < 1.96 * std).mean() > 0.94  # F leaves room for levels that no group had
    model.add_groups(X[late], y[late], groups[late])
    whole = GroupRidge(fit_intercept="correlated").fit(X, y, groups)
    assert np.abs(model.coef_ - whole.coef_).mean() < 0.1 * whole.coef_.std()  # the prior has changed a little
    gaps = np.where(np.arange(X.size).reshape(X.shape) % 17 == 0, np.nan, X)
    with pytest.warns(DataWarning, match="missing"):
        whole.fit(gaps, y, groups)
    assert np.isfinite(whole.coef_).all()


def test_it_predicts_better_than_a_regression_for_each_group() -> None:
    ours = ((fitted(DATA).predict(DATA.fresh_features, DATA.fresh_groups) - DATA.fresh_y) ** 2).mean()
    theirs = np.empty(len(DATA.fresh_y))
    for group in np.unique(DATA.groups):
        own, asked = DATA.groups == group, DATA.fresh_groups == group
        theirs[asked] = BayesianRidge().fit(DATA.X[own], DATA.y[own]).predict(DATA.fresh_features[asked])
    assert ours < 0.9 * ((theirs - DATA.fresh_y) ** 2).mean()


@pytest.mark.parametrize("kind", ["free", "pooled", "correlated", "none"])
def test_compiled_kernel_and_reference_give_the_same_answers(kind: str) -> None:
    rows = GroupedRows.from_codes(DATA.X, DATA.y, DATA.groups, 60)
    reference, fused = (fit_groups(rows, kind, lambda *_: None, backend) for backend in ("reference", "fused"))
    np.testing.assert_allclose(fused.weights, reference.weights, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(fused.covariance, reference.covariance, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(fused.noise, reference.noise, rtol=1e-5)


def test_arrays_with_three_axes_a_group_column_and_shuffled_rows_give_the_same() -> None:
    data = made_up_groups(20, 3, 7, intercept=2.0)
    flat = fitted(data)
    solid = GroupRidge().fit(data.X.reshape(20, 7, 3), data.y.reshape(20, 7))
    np.testing.assert_allclose(solid.coef_, flat.coef_)
    asked = solid.predict(data.fresh_features.reshape(20, 4, 3))
    assert asked.shape == (20, 4)
    np.testing.assert_allclose(asked.ravel(), flat.predict(data.fresh_features, data.fresh_groups))
    order = np.random.default_rng(0).permutation(len(data.y))
    mixed = GroupRidge().fit(data.X[order], data.y[order], data.groups[order])
    frame = pd.DataFrame(data.X, columns=list("abc")).assign(shop=[f"s{g}" for g in data.groups])
    named = GroupRidge(group="shop").fit(frame, data.y)
    assert list(named.groups_[:2]) == ["s0", "s1"]
    assert list(named.feature_names_in_) == ["a", "b", "c"]
    for model in (mixed, named):
        np.testing.assert_allclose(sorted(model.coef_[:, 0]), sorted(flat.coef_[:, 0]), rtol=1e-6)
    numbered = GroupRidge(group=3).fit(np.column_stack([data.X, data.groups]), data.y)
    np.testing.assert_allclose(numbered.coef_, flat.coef_)


def test_answers_follow_the_units_of_features_and_targets() -> None:
    plain = fitted(DATA)
    stretched = GroupRidge().fit(DATA.X * [1e3, 1.0, 1e-2] + [5.0, 0.0, 7.0], 1e4 * DATA.y - 3, DATA.groups)
    np.testing.assert_allclose(stretched.coef_, 1e4 * plain.coef_ / [1e3, 1.0, 1e-2], rtol=1e-5)
    np.testing.assert_allclose(stretched.noise_, 1e4 * plain.noise_, rtol=1e-5)


def test_an_intercept_is_not_pulled_anywhere_unless_it_is_pooled() -> None:
    far = DATA.y + 1000.0 * (DATA.groups == 7)
    moved, plain = GroupRidge().fit(DATA.X, far, DATA.groups), fitted(DATA)
    np.testing.assert_allclose(moved.coef_, plain.coef_, rtol=1e-6)
    assert moved.intercept_[7] - plain.intercept_[7] == pytest.approx(1000.0)
    small = made_up_groups(200, 1, 3, noise="two", scale=0.1)  # all groups have the same level
    own, pooled = fitted(small), fitted(small, fit_intercept="pooled")
    assert np.abs(pooled.intercept_).mean() < 0.5 * np.abs(own.intercept_).mean()
    assert GroupRidge(fit_intercept=False).fit(small.X, small.y, small.groups).intercept_ == pytest.approx(0.0)


def test_sample_weights_are_repetitions_and_rows_of_weight_zero_are_not_there() -> None:
    rng = np.random.default_rng(4)
    weights = rng.integers(0, 3, len(DATA.y))
    weights[np.unique(DATA.groups, return_index=True)[1]] = 1  # no group without any
    weighted = GroupRidge().fit(DATA.X, DATA.y, DATA.groups, sample_weight=weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # some groups are left with one row
        repeated = GroupRidge().fit(*(np.repeat(array, weights, axis=0) for array in (DATA.X, DATA.y, DATA.groups)))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-3, atol=1e-5)


def test_unknown_groups_get_what_all_have_in_common_with_more_uncertainty() -> None:
    model = fitted(made_up_groups(300, 2, 8, mean=2.0, scale=0.3, intercept=1.0))
    mean, std = model.predict([[1.0, 0.0], [1.0, 0.0]], [0, 9999], return_std=True)
    assert mean[1] == pytest.approx(model.prior_.value_mean + model.prior_.mean[0], abs=0.1)
    spread = model.prior_.noise.variance + model.prior_.value_scale**2
    assert std[1] > np.sqrt(spread)
    with pytest.warns(DataWarning, match="None of these groups"):
        model.predict([[1.0, 0.0]], ["zero"])


def test_groups_added_later_get_the_same_answers_as_groups_fitted_with_the_same_prior() -> None:
    model = fitted(DATA)
    more = made_up_groups(5, 3, 9, mean=1.0, scale=0.5, seed=8)
    before = model.coef_.copy()
    model.add_groups(more.X, more.y, more.groups + 1000)
    assert len(model.groups_) == 65
    np.testing.assert_array_equal(model.coef_[:60], before)
    again = fitted(DATA).add_groups(DATA.X, DATA.y, DATA.groups + 100)
    np.testing.assert_allclose(again.coef_[60:], before)
    with pytest.raises(DataError, match=r"1000.* known already"):
        model.add_groups(more.X, more.y, more.groups + 1000)


def test_missing_values_are_filled_told_and_widen_predictions() -> None:
    X = DATA.X.copy()
    X[5, 1] = X[17, 0] = np.nan
    with pytest.warns(DataWarning, match="2 of .* feature values are missing"):
        model = GroupRidge().fit(X, DATA.y, DATA.groups)
    assert model.n_missing_ == 2
    np.testing.assert_allclose(model.coef_[20:], fitted(DATA).coef_[20:], rtol=0.05, atol=0.02)
    mean, std = model.predict([[0.5, np.nan, 0.0], [0.5, 0.0, 0.0]], [3, 3], return_std=True)
    assert np.isfinite(mean).all()
    assert std[0] > std[1]


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_few_groups_constant_columns_and_fewer_rows_than_features_do_not_panic(groups: int) -> None:
    data = made_up_groups(groups, 6, 5, noise="small")
    X = np.column_stack([data.X, np.ones(len(data.y))])
    model = GroupRidge().fit(X, data.y, data.groups)
    assert np.isfinite(model.coef_).all()
    assert np.abs(model.coef_[:, -1]).max() < 1e-6
    assert np.isfinite(model.predict(X, data.groups, return_std=True)).all()


def test_pipelines_grid_search_clone_and_pickle_work() -> None:
    frame = pd.DataFrame(DATA.X, columns=list("abc")).assign(g=DATA.groups)
    keep = ColumnTransformer([("scale", StandardScaler(), list("abc"))], remainder="passthrough").set_output(
        transform="pandas"
    )
    pipeline = make_pipeline(keep, GroupRidge(group="remainder__g"))
    search = GridSearchCV(
        pipeline, {"groupridge__fit_intercept": [True, "pooled"]}, cv=KFold(3, shuffle=True, random_state=0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # folds may leave groups with one row
        search.fit(frame, DATA.y)
    assert search.best_score_ > 0.3
    model = fitted(DATA)
    back = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(back.predict(DATA.X, DATA.groups), model.predict(DATA.X, DATA.groups))
    assert clone(model).get_params() == model.get_params()


def test_progress_is_told_and_ends_with_all_groups() -> None:
    told: list[tuple[int, int]] = []
    fitted(DATA, on_progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (60, 60)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def with_value(array: Array, row: int, value: float) -> Array:
    changed = array.copy()
    changed[row] = value
    return changed


REFUSED: dict[str, tuple[str, Any]] = {
    "missing target": (
        r"target is missing \(NaN\) or infinite in row 3",
        lambda: GroupRidge().fit(DATA.X, with_value(DATA.y, 3, np.nan), DATA.groups),
    ),
    "infinite feature": (
        r"infinite \(inf\) values in row 2, columns 0, 1 and 2",
        lambda: GroupRidge().fit(with_value(DATA.X, 2, np.inf), DATA.y, DATA.groups),
    ),
    "text column": (
        "column 'town' holds text, such as 'Faro' in rows 0, 1",
        lambda: GroupRidge().fit(pd.DataFrame({"town": ["Faro"] * 4, "x": [1.0, 2, 3, 4]}), [1.0, 2, 3, 4]),
    ),
    "unknown group column": (
        "no column 'shop' .* columns are a, b and c",
        lambda: GroupRidge(group="shop").fit(pd.DataFrame(DATA.X, columns=list("abc")), DATA.y),
    ),
    "missing group": (
        "group is missing in rows 1 and 2",
        lambda: GroupRidge().fit(DATA.X[:4], DATA.y[:4], ["a", None, None, "b"]),
    ),
    "too few labels": ("one label for each", lambda: GroupRidge().fit(DATA.X, DATA.y, DATA.groups[:-1])),
    "negative weight": (
        "sample_weight .* not in row 5",
        lambda: GroupRidge().fit(DATA.X, DATA.y, DATA.groups, with_value(np.ones(len(DATA.y)), 5, -1)),
    ),
    "no groups at prediction": ("pass the groups of these rows", lambda: fitted(DATA).predict(DATA.X)),
    "shapes that disagree": ("must agree", lambda: GroupRidge().fit(np.ones((2, 3, 1)), np.ones((2, 4)))),
    "ragged rows": ("X must be a rectangular array", lambda: GroupRidge().fit([[1, 2], [3]], [1, 2])),
    "ragged targets": ("y must be a rectangular array", lambda: GroupRidge().fit([[1], [3]], [1, [2]])),
    "ragged groups": ("groups must be a rectangular", lambda: fitted(DATA).predict([[1.0] * 5], [[1], 2])),
    "unknown intercept": ("pooled", lambda: GroupRidge(fit_intercept="poled").fit(DATA.X, DATA.y)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_in_one_sentence_that_names_the_rows(name: str) -> None:
    hint, attempt = REFUSED[name]
    with pytest.raises(Exception, match=hint) as raised:
        attempt()
    assert type(raised.value).__module__.startswith("ridgeformer.")
    assert not re.search(r"[.!?] (?!Did you mean)[A-Z]", str(raised.value))


def test_groups_of_one_row_and_targets_that_are_all_equal_are_told() -> None:
    with pytest.warns(DataWarning, match=r"1 group has one row only \(b\)"):
        model = GroupRidge().fit(DATA.X[:9], DATA.y[:9], list("aaaaaaaab"))
    assert np.isfinite(model.coef_).all()
    with pytest.warns(DataWarning, match="All targets are 3"):
        constant = GroupRidge().fit(DATA.X, np.full(len(DATA.y), 3.0), DATA.groups)
    np.testing.assert_allclose(constant.predict(DATA.X, DATA.groups), 3.0)
