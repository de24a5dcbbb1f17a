"""`GroupRidge`: many small regressions at once, each with as much shrinkage as its own noise needs.

This file checks data and names results; the mathematics is in `fitting`, `learning` and `empirical_bayes`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ridgeformer.core.notation import Array
from ridgeformer.core.validation import one_of
from ridgeformer.estimators import checks
from ridgeformer.estimators.checks import DataError, DataWarning
from ridgeformer.estimators.empirical_bayes import NoiseLevels
from ridgeformer.estimators.fitting import CORRELATED, FREE, NONE, POOLED, Fitted, fit_groups
from ridgeformer.estimators.problems import GroupedRows


@dataclass(frozen=True)
class Prior:
    """What `GroupRidge` learned across groups, in the units of the data."""

    mean: Array
    """(features,): what the weights of all groups have in common."""
    scale: Array
    """(features,): standard deviation of the weights between groups."""
    noise: NoiseLevels
    """Distribution of the noise level σ: ``noise.levels`` and ``noise.weights``."""
    value_mean: float
    """Mean over groups of the target where all features have their mean."""
    value_scale: float
    """Standard deviation of that between groups."""
    groups: int
    """From how many groups this was learned."""


class GroupedRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """What both estimators share: they turn rows with groups into one problem for each group."""

    group: Hashable | None

    def _read(self, X: Any, y: Any, groups: Any, sample_weight: Any, reset: bool) -> tuple[GroupedRows, pd.Index]:
        """Checked rows, and the labels of their groups; without groups all rows are one."""
        checks.check_rectangular(X=X, y=y, groups=groups)
        checks.check_targets(y)
        solid = checks.three_dimensional(X, y, groups) if self.group is None else None
        if solid is not None:
            return self._read_solid(*solid, sample_weight, reset)
        table = checks.without_group_column(X, self.group)
        groups = table.groups if groups is None else groups
        checks.check_text_columns(table.X)
        X, y = validate_data(
            self, table.X, y, reset=reset, dtype=(np.float64, np.float32), ensure_all_finite=False, y_numeric=True
        )
        checks.check_infinite(X)
        weights = checks.check_weights(sample_weight, len(X))
        if groups is None:
            if len(X) < 2:
                raise DataError("One row is not enough for a regression: n_samples = 1.")
            codes, labels = np.zeros(len(X), np.intp), pd.RangeIndex(1)
        else:
            codes, labels = checks.group_codes(groups, len(X))
        if reset:
            self._grouped = groups is not None
        rows = GroupedRows.from_codes(X, np.asarray(y, np.float64), codes, len(labels), weights)
        self._note(rows, labels)
        return rows, labels

    def _read_solid(
        self, X: Array, y: Array, labels: pd.Index, sample_weight: Any, reset: bool
    ) -> tuple[GroupedRows, pd.Index]:
        count, n, p = X.shape
        if reset:
            self.n_features_in_, self._grouped = p, True
        elif p != self.n_features_in_:
            raise DataError(f"X has {p} features, but {type(self).__name__} is expecting {self.n_features_in_}.")
        checks.check_infinite(X)
        weights = checks.check_weights(sample_weight, count * n)
        flat, targets = X.reshape(-1, p), np.asarray(y).reshape(-1)
        rows = GroupedRows(flat, targets, None, np.arange(0, count * n + 1, n), weights)
        self._note(rows, labels)
        return rows, labels

    def _note(self, rows: GroupedRows, labels: pd.Index) -> None:
        """Warn about data whose results may surprise."""
        if sentence := checks.note_small_groups(rows, labels):
            warnings.warn(sentence, DataWarning, stacklevel=4)
        if len(rows.y) > 1 and (rows.y == rows.y[0]).all():
            warnings.warn(
                f"All targets are {rows.y[0]:g}, so there is nothing to learn: all predictions will be this number.",
                DataWarning,
                stacklevel=4,
            )

    def _queries(self, X: Any, groups: Any, labels: pd.Index) -> tuple[Array, Array, tuple[int, ...]]:
        """Features (rows, p), the number of each row's group, −1 if it is not known, and the shape of the answer."""
        checks.check_rectangular(X=X, groups=groups)
        if self.group is None and checks.is_solid(X):
            solid = np.asarray(X)
            if solid.shape[2] != self.n_features_in_:
                raise DataError(f"X has {solid.shape[2]} features, but {self.n_features_in_} are expected.")
            names = pd.RangeIndex(len(solid)) if groups is None else np.asarray(groups)
            if len(names) != len(solid):
                raise DataError(f"groups must hold {len(solid)} labels, one for each group of X.")
            checks.check_infinite(solid)
            codes = np.repeat(labels.get_indexer(names), solid.shape[1])
            return solid.reshape(-1, solid.shape[2]).astype(np.float64), codes, solid.shape[:2]
        table = checks.without_group_column(X, self.group)
        groups = table.groups if groups is None else groups
        checks.check_text_columns(table.X)
        features = validate_data(self, table.X, reset=False, dtype=np.float64, ensure_all_finite=False)
        checks.check_infinite(features)
        if not self._grouped:
            return features, np.zeros(len(features), np.intp), (len(features),)
        if groups is None:
            raise DataError("This estimator was fitted with groups: pass the groups of these rows too.")
        own, known = checks.group_codes(groups, len(features))
        found = labels.get_indexer(known)
        if len(found) and (found < 0).all():
            warnings.warn(
                f"None of these groups was fitted ({checks.some(known, len(known))}): "
                "all predictions come from what the groups have in common.",
                DataWarning,
                stacklevel=3,
            )
        return features, found[own], (len(features),)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class GroupRidge(GroupedRegressor):
    """Ridge regression for many groups at once, with noise levels and shrinkage learned across the groups.

    Each group has its own weights and its own noise level. From all groups together, the estimator learns the mean and
    the scale of each feature's weight, and the distribution of the noise level. The answer for a group is the posterior
    mean of its weights: a noisy or small group is pulled towards the common mean, a precise one is not. Nothing has to
    be tuned.

    Parameters
    ----------
    fit_intercept: True gives each group its own intercept, without shrinkage; "pooled" also pulls the intercepts of
        small groups towards the common mean; "correlated" also learns how intercept and weights depend on each other
        across groups, as mixed models do; False means that y is 0 where all features are 0.
    group: the column of X that holds the groups: its name in a DataFrame, or its number. With it, pipelines and
        GridSearchCV work, which pass only X and y. None if groups are passed to `fit`, or if there are none.
    on_progress: called with (groups done, number of groups).

    Attributes
    ----------
    groups_: labels in order of appearance.
    coef_, coef_std_: (groups, features) weights and their standard deviations; without groups (features,).
    intercept_: (groups,), or one number.
    noise_: (groups,) expected noise level σ, or one number.
    prior_: `Prior`, what was learned across groups.
    n_iter_, converged_: rounds of learning, and whether they ended because nothing changed any more.
    n_missing_: number of feature values that were missing. Each is replaced by its group's mean, or by the overall mean
        where the group has none. In predictions, a missing value makes the standard deviation larger.

    Features are scaled inside. A sample weight of 2 is the same as having the row twice. Standard deviations of
    predictions are those of a new target, noise included: about 95 % of new targets are within ±1.96 of them
    (docs/real-data.md).

    >>> import numpy as np
    >>> from ridgeformer.estimators import GroupRidge
    >>> rng = np.random.default_rng(0)
    >>> groups, X = np.repeat(np.arange(50), 8), rng.standard_normal((400, 3))
    >>> weights, level = 1 + 0.5 * rng.standard_normal((50, 3)), rng.uniform(0.1, 3, 50)
    >>> y = (X * weights[groups]).sum(axis=1) + level[groups] * rng.standard_normal(400)
    >>> model = GroupRidge().fit(X, y, groups)
    >>> model.coef_.shape, model.prior_.mean.round(1).tolist()
    ((50, 3), [1.0, 1.3, 0.9])
    >>> mean, std = model.predict(X[:2], groups[:2], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((2,), True)
    """

    def __init__(
        self,
        *,
        fit_intercept: bool | str = True,
        group: Hashable | None = None,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        self.fit_intercept = fit_intercept
        self.group = group
        self.on_progress = on_progress

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Learn the prior from all groups, then the weights of each group.

        Parameters
        ----------
        X: features, (rows, features), NaN where a value is missing; or (groups, n, features).
        y: targets, (rows,); or (groups, n).
        groups: the label of each row's group, (rows,), or of each group of a three-dimensional X; None for one group.
        sample_weight: weights of the rows, at least 0, with as many numbers as y; None for 1 each.

        Returns the estimator itself. Raises `DataError`, which is a ValueError, with a sentence that names the rows
        that cannot be used.
        """
        rows, labels = self._read(X, y, groups, sample_weight, reset=True)
        self._keep(fit_groups(rows, self._intercept(), self._report()), labels)
        if self.n_missing_:
            warnings.warn(
                f"{self.n_missing_:,} of {rows.X.size:,} feature values are missing and are replaced by means.",
                DataWarning,
                stacklevel=2,
            )
        return self

    def add_groups(self, X: Any, y: Any, groups: Any, sample_weight: Any = None) -> Self:
        """Add groups that arrive later, with the parameters of `fit`. The learned prior does not change, so it is fast.

        Raises `DataError` for groups that are known already, and for an estimator that was fitted without groups.
        """
        check_is_fitted(self)
        if not self._grouped:
            raise DataError("This estimator was fitted without groups: there is nothing to add a group to.")
        rows, labels = self._read(X, y, groups, sample_weight, reset=False)
        known = labels.intersection(self._labels, sort=False)
        if len(known):
            raise DataError(f"Groups can be added only once: {checks.some(known, len(known))} are known already.")
        self._keep(self._fitted.extended(rows, self._report()), self._labels.append(labels))
        return self

    def predict(self, X: Any, groups: Any = None, return_std: bool = False) -> Any:
        """Predict the targets of rows.

        Parameters
        ----------
        X: features, (rows, features); or (groups, n, features).
        groups: as in `fit`. A group that was not fitted gets what all groups have in common, and a warning.
        return_std: whether to return standard deviations of new targets too: from the noise, and from what is not known
            of the weights.

        Returns the expected targets, (rows,) or (groups, n), or a pair of these and the standard deviations. Raises
        `DataError` for X that cannot be used.
        """
        check_is_fitted(self)
        features, codes, shape = self._queries(X, groups, self._labels)
        mean, deviation = self._fitted.predict(features, codes, return_std)
        return (mean.reshape(shape), deviation.reshape(shape)) if return_std else mean.reshape(shape)

    def _keep(self, fitted: Fitted, labels: pd.Index) -> None:
        self._fitted, self._labels = fitted, labels
        self.groups_ = np.asarray(labels)
        which: Any = slice(None) if self._grouped else 0
        self.coef_, self.intercept_ = fitted.weights[which], fitted.intercepts[which]
        self.noise_ = fitted.noise[which]
        prior = fitted.prior
        self.prior_ = Prior(
            prior.mean, prior.scale, prior.noise, fitted.between.mean, fitted.between.scale, fitted.learned_groups
        )
        self.n_iter_, self.converged_, self.n_missing_ = fitted.rounds, fitted.converged, fitted.missing

    @property
    def coef_std_(self) -> Array:
        """Standard deviations of ``coef_``."""
        check_is_fitted(self)
        deviations = self._fitted.weight_deviations
        return deviations if self._grouped else deviations[0]

    def _intercept(self) -> str:
        if isinstance(self.fit_intercept, str):
            return one_of("fit_intercept", self.fit_intercept, (POOLED, CORRELATED))
        return FREE if self.fit_intercept else NONE

    def _report(self) -> Callable[[int, int], None]:
        return self.on_progress or (lambda done, total: None)
