"""Anything that predicts: models, baselines, your function or your scikit-learn estimator. One protocol for all.

A *linear* predictor gives weights for each context, ``weights(context)``, and predicts <ŵ, x> for any query x. A
*general* one gives predictions for tokens, ``predict(X, y, queries)``, and need not be linear in the query.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.notation import Array
from ridgeformer.core.validation import InputError, shortened

if TYPE_CHECKING:
    from ridgeformer.core.task import ContextDraw


@runtime_checkable
class LinearPredictor(Protocol):
    """Turns contexts into weights."""

    def weights(self, context: Context) -> Array:
        """(batch, d) weights ŵ; the prediction for a query x is <ŵ, x>."""
        ...


@runtime_checkable
class GeneralPredictor(Protocol):
    """Turns examples and queries into predictions."""

    def predict(self, X: Array, y: Array, queries: Array) -> Array:
        """(batch, m) predictions for queries (batch, m, d), given X (batch, n, d) and y (batch, n)."""
        ...


@runtime_checkable
class Informed(Protocol):
    """A linear predictor that may see how contexts were drawn, such as the oracle, which is told σ."""

    def weights_from_draw(self, draw: ContextDraw) -> Array:
        """(batch, d) weights."""
        ...


Predictor = LinearPredictor | GeneralPredictor


class FunctionPredictor:
    """A function (X, y, queries) → predictions as a general predictor."""

    def __init__(self, function: Callable[[Array, Array, Array], Any]) -> None:
        self.function = function

    def predict(self, X: Array, y: Array, queries: Array) -> Array:
        """What the function gives, checked to be of shape (batch, m)."""
        predictions = np.asarray(self.function(X, y, queries))
        if predictions.shape != queries.shape[:2]:
            raise InputError(
                f"A predictor must give predictions of shape {queries.shape[:2]} for queries of shape {queries.shape}, "
                f"not {predictions.shape}."
            )
        return predictions


class EstimatorPredictor:
    """A scikit-learn regressor. A copy of it is fitted to each context, so the regressor itself does not change."""

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def predict(self, X: Array, y: Array, queries: Array) -> Array:
        """One fit for each context."""
        rows = [
            deepcopy(self.estimator).fit(*given).predict(asked) for *given, asked in zip(X, y, queries, strict=True)
        ]
        return np.stack([np.asarray(row, np.float64) for row in rows])


def as_predictor(thing: Any) -> Predictor:
    """Turn anything that predicts into a predictor.

    Parameters
    ----------
    thing: a model; a baseline; an object with ``weights(context)`` or ``predict(X, y, queries)``; a scikit-learn
        regressor, which is fitted to each context; or a function of (X, y, queries) with arrays (batch, n, d),
        (batch, n) and (batch, m, d) that returns predictions (batch, m).

    Returns a `LinearPredictor` or a `GeneralPredictor`. Raises `InputError` for anything else.

    >>> mean = as_predictor(lambda X, y, queries: y.mean(axis=1, keepdims=True) + 0 * queries[..., 0])
    >>> mean.predict(np.ones((1, 2, 3)), np.array([[1.0, 3.0]]), np.zeros((1, 2, 3))).tolist()
    [[2.0, 2.0]]
    """
    if isinstance(thing, type):
        raise InputError(f"A predictor is an object, not the class {thing.__name__}: write {thing.__name__}(…).")
    if isinstance(thing, LinearPredictor) and callable(thing.weights):
        return thing
    if callable(getattr(thing, "fit", None)) and callable(getattr(thing, "predict", None)):
        return EstimatorPredictor(thing)
    if callable(getattr(thing, "predict", None)):
        return FunctionPredictor(thing.predict)
    if callable(thing):
        return FunctionPredictor(thing)
    raise InputError(
        f"A predictor is a model or a baseline, has weights(context) or predict(X, y, queries), or is a function of "
        f"(X, y, queries); {shortened(thing)} is none of these."
    )
