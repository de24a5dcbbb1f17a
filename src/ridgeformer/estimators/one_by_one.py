"""The usual methods, for comparison: a separate regression for each group, and one regression for all rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import BayesianRidge, LinearRegression, RidgeCV

from ridgeformer.core.notation import Array

_PENALTIES = np.logspace(-3, 3, 13)

LOOPS: dict[str, Callable[[], Any]] = {
    "OLS": LinearRegression,
    "RidgeCV": lambda: RidgeCV(alphas=_PENALTIES),
    "RidgeCV, its own 3 penalties": RidgeCV,
    "BayesianRidge": BayesianRidge,
}
"""Regressors of scikit-learn, to be fitted to each group."""


def predict_one_by_one(name: str, X: Array, y: Array, codes: Array, queries: Array, asked: Array) -> Array:
    """Predictions for queries (rows, p) of groups ``asked``, by one regressor for each group of ``codes``.

    Features are scaled alike for all groups, as `GroupRidge` does inside.
    """
    centre, scale = X.mean(axis=0), X.std(axis=0)
    scale[scale == 0] = 1.0
    X, queries = (X - centre) / scale, (queries - centre) / scale
    order, wanted = np.argsort(codes, kind="stable"), np.argsort(asked, kind="stable")
    groups = np.unique(asked)
    rows = np.searchsorted(codes[order], [groups, groups + 1])
    places = np.searchsorted(asked[wanted], [groups, groups + 1])
    out = np.empty(len(queries))
    for begin, end, first, last in zip(*rows, *places, strict=True):
        given, where = order[begin:end], wanted[first:last]
        out[where] = LOOPS[name]().fit(X[given], y[given]).predict(queries[where])
    return out


def predict_pooled(X: Array, y: Array, queries: Array) -> Array:
    """One regression for all rows, whatever their group."""
    return np.asarray(LinearRegression().fit(X, y).predict(queries))


def predict_own_means(X: Array, y: Array, codes: Array, queries: Array, asked: Array) -> Array:
    """One regression for all rows with a mean for each group, "fixed effects"."""
    counts = np.bincount(codes)
    means = np.stack([np.bincount(codes, column) / counts for column in X.T], axis=1)
    middle = np.bincount(codes, y) / counts
    slopes = np.linalg.lstsq(X - means[codes], y - middle[codes], rcond=None)[0]
    return middle[asked] + (queries - means[asked]) @ slopes
