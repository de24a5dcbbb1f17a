"""`ContextRegressor`: a trained transformer, or any linear predictor, as a scikit-learn regressor.

It scales the data into the range of the training, and replaces answers that are implausible."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ridgeformer.baselines.least_squares import LeastSquares
from ridgeformer.baselines.ridge import AdaRR
from ridgeformer.core.context import Context
from ridgeformer.core.distributions import mean_variance
from ridgeformer.core.forward import context_weights
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.predictor import LinearPredictor, Predictor, as_predictor
from ridgeformer.core.task import Task
from ridgeformer.estimators.checks import DataError, DataWarning, some
from ridgeformer.estimators.fitting import FREE, NONE, scaling_of
from ridgeformer.estimators.group_ridge import GroupedRegressor
from ridgeformer.estimators.problems import GroupedRows
from ridgeformer.evaluation.guard import UntrainedDataWarning, examples_range, guarded, recorded_task
from ridgeformer.zoo import load

AUTO = "auto"
_DEFAULT = "diag-7-uniform-5"
_LAYERS = 7  # of the model that warnings and errors advise to train


class _Answers(NamedTuple):
    """One entry for each group, in the user's units."""

    centre: Array  # (groups, p)
    value: Array  # (groups,)
    weights: Array  # (groups, p)
    covariance: Array  # of the weights, (groups, p, p)
    variance: Array  # σ̂², (groups,)
    examples: Array  # (groups,)


class ContextRegressor(GroupedRegressor):
    """A trained transformer as a regressor: it reads each group's rows as its context, and nothing is trained.

    Features and targets are centred and scaled into the model's range: features to unit variance, targets to the
    variance d + E σ² of its training. An implausible answer is replaced by the answer after an earlier layer, or by
    AdaRR (ridge regression whose penalty is estimated from the residuals), and a warning says how many were replaced.

    Parameters
    ----------
    model: "auto" takes the model diag-7-uniform-5 of the zoo for groups of the shape that it was trained on (10
        features, 16 to 25 rows) and AdaRR for all others, and warns which model to train for them. Otherwise a name of
        the zoo, a file, a `LinearTransformer`, or any linear predictor. A model takes only its own shape.
    fit_intercept: whether to centre each group's rows.
    group: column of X that holds the groups, as in `GroupRidge`.

    Attributes
    ----------
    groups_, coef_, intercept_, noise_: as in `GroupRidge`.
    replaced_: how many answers were replaced, by what took their place.

    Standard deviations are those of ridge regression with the estimated noise. Unlike those of `GroupRidge`, they use
    nothing from other groups. Missing feature values are replaced by their group's means.

    >>> import ridgeformer as rf
    >>> from ridgeformer.estimators import ContextRegressor
    >>> tokens = rf.Task(dim=10, examples=20, noise="fixed:2").draw_tokens(30, seed=0)
    >>> ContextRegressor("diag-7-uniform-5").fit(tokens.X, tokens.y).predict(tokens.X).shape
    (30, 20)
    """

    def __init__(self, model: Any = AUTO, *, fit_intercept: bool = True, group: Hashable | None = None) -> None:
        self.model = model
        self.fit_intercept = fit_intercept
        self.group = group

    def fit(self, X: Any, y: Any, groups: Any = None, sample_weight: Any = None) -> Self:
        """Compute the answers for all groups; parameters and errors are those of `GroupRidge.fit`."""
        rows, labels = self._read(X, y, groups, sample_weight, reset=True)
        predictor = self._predictor(rows.features)
        self._labels, self.groups_ = labels, np.asarray(labels)
        self._answers = self._solve(rows, predictor, labels)
        which: Any = slice(None) if self._grouped else 0
        answers = self._answers
        intercepts = answers.value - np.einsum("ij,ij->i", answers.centre, answers.weights)
        self.coef_, self.intercept_ = answers.weights[which], intercepts[which]
        self.noise_ = np.sqrt(answers.variance)[which]
        return self

    def predict(self, X: Any, groups: Any = None, return_std: bool = False) -> Any:
        """Predict targets, as `GroupRidge.predict` does; raises `DataError` for groups that were not fitted."""
        check_is_fitted(self)
        features, codes, shape = self._queries(X, groups, self._labels)
        if (codes < 0).any():
            bad = np.flatnonzero(codes < 0)
            raise DataError(
                f"The groups of rows {some(bad, len(bad))} were not fitted, and this estimator cannot predict new "
                "groups: GroupRidge can."
            )
        answers = self._answers
        offset = features - answers.centre[codes]
        offset[np.isnan(offset)] = 0.0
        mean = answers.value[codes] + np.einsum("ij,ij->i", offset, answers.weights[codes])
        if not return_std:
            return mean.reshape(shape)
        spread = np.einsum("ij,ijk,ik->i", offset, answers.covariance[codes], offset)
        noise = answers.variance[codes] * (1 + (1 / answers.examples[codes] if self.fit_intercept else 0.0))
        return mean.reshape(shape), np.sqrt(spread + noise).reshape(shape)

    @property
    def coef_std_(self) -> Array:
        """Standard deviations of ``coef_``."""
        check_is_fitted(self)
        deviations = np.sqrt(np.diagonal(self._answers.covariance, axis1=1, axis2=2))
        return deviations if self._grouped else deviations[0]

    def _predictor(self, features: int) -> LinearPredictor:
        """The predictor that answers; the error for a model of another shape says what to do."""
        chosen = _DEFAULT if isinstance(self.model, str) and self.model == AUTO else self.model
        chosen = load(chosen) if isinstance(chosen, str) else chosen
        if isinstance(chosen, LinearTransformer) and chosen.dim != features:
            if self.model == AUTO:
                return AdaRR()
            raise DataError(
                f"The model was made for {chosen.dim} features; these data have {features}: {_advice(features, None)}"
            )
        predictor: Predictor = as_predictor(chosen)
        if not isinstance(predictor, LinearPredictor):
            raise DataError("ContextRegressor takes only predictors that have a method weights(context).")
        return predictor

    def _solve(self, rows: GroupedRows, predictor: LinearPredictor, labels: pd.Index) -> _Answers:
        intercept, p = FREE if self.fit_intercept else NONE, rows.features
        parts = list(rows.chunks())
        scaling, solvable = scaling_of([problems for _, problems in parts], intercept)
        task = recorded_task(predictor) if isinstance(predictor, LinearTransformer) else None
        spread = np.sqrt(p + mean_variance((task or Task(p, 2 * p)).prior))
        units = scaling.features, scaling.target / spread
        stretch = np.append(np.ones(p), spread)
        answers = _Answers(*(np.empty((rows.groups, *shape)) for shape in ((p,), (), (p,), (p, p), (), ())))
        counts: dict[str, int] = {}
        for (numbers, problems), (_, gram, mean) in zip(parts, solvable, strict=True):
            stretched = gram * (stretch[:, None] * stretch)
            sizes = np.maximum(np.rint(problems.examples), 1).astype(int)
            for size in np.unique(sizes):
                same = sizes == size
                context = Context.unchecked(stretched[same], int(size) - int(intercept == FREE and size > 1))
                weights = self._weights(predictor, context, int(size), task, counts)
                fit = LeastSquares.of(context)
                noise = fit.noise_variance
                values, vectors, _ = context.spectrum
                shrunk = noise[:, None] / np.maximum(values + noise[:, None], _TINY)
                covariance = (vectors * shrunk[:, None]) @ vectors.transpose(0, 2, 1)
                chosen, unit = numbers[same], units[1] / units[0]
                answers.centre[chosen], answers.value[chosen] = mean[same, :-1], mean[same, -1]
                answers.weights[chosen] = weights * unit
                answers.covariance[chosen] = covariance * (unit[:, None] * unit)
                answers.variance[chosen] = noise * units[1] ** 2
                answers.examples[chosen] = np.maximum(problems.examples[same], 1.0)
        self.replaced_ = counts
        self._warn(counts, rows.groups, p)
        return answers

    def _weights(
        self, predictor: LinearPredictor, context: Context, size: int, task: Task | None, counts: dict[str, int]
    ) -> Array:
        """(batch, p); a model's implausible answers are replaced, and counted in ``counts``."""
        if not isinstance(predictor, LinearTransformer):
            if self.model == AUTO:
                counts[_OTHER_SHAPE] = counts.get(_OTHER_SHAPE, 0) + len(context.gram)
            return predictor.weights(context)
        fewest, most = (1, size) if task is None else examples_range(task)
        if not fewest <= size <= most:
            if self.model != AUTO:
                raise DataError(
                    f"The model was trained for {fewest} to {most} rows; a group of these data has {size}: "
                    f"{_advice(context.dim, size)}"
                )
            counts[_OTHER_SHAPE] = counts.get(_OTHER_SHAPE, 0) + len(context.gram)
            return AdaRR().weights(context)
        answer, doubts = guarded(predictor, context, context_weights(predictor, context))
        for what, count in doubts.replaced.items():
            counts[what] = counts.get(what, 0) + count
        return answer

    def _warn(self, counts: dict[str, int], groups: int, features: int) -> None:
        """Say what was replaced, once."""
        if other := counts.get(_OTHER_SHAPE, 0):
            sentence = f"{other:,} of {groups:,} problems have a shape that no model was trained on, so AdaRR answers: "
            warnings.warn(sentence + _advice(features, None), DataWarning, stacklevel=4)
        replaced = {what: count for what, count in counts.items() if what != _OTHER_SHAPE}
        if replaced:
            how = ", ".join(f"{count:,} by {what}" for what, count in replaced.items())
            sentence = f"Implausible answers were replaced, of {groups:,} problems: {how}."
            warnings.warn(sentence, UntrainedDataWarning, stacklevel=4)


_OTHER_SHAPE = "AdaRR, because there is no model for this shape"
_TINY = 1e-300


def _advice(features: int, rows: int | None) -> str:
    """How to get a model of the right shape."""
    count = 2 * features if rows is None else rows
    return (
        f"train one with 'ridgeformer train --kind diag --layers {_LAYERS} --dim {features} --examples {count}' and "
        "pass its file as model, or use GroupRidge, which takes any shape."
    )
