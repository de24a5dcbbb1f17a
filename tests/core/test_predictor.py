"""What counts as a predictor, and what `as_predictor` makes of it; test_predictor_contract.py has what all must do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.notation import Array
from ridgeformer.core.predictor import (
    EstimatorPredictor,
    FunctionPredictor,
    GeneralPredictor,
    Informed,
    LinearPredictor,
    as_predictor,
)
from support import make_examples, refused


class Mean:
    """An estimator without scikit-learn: the mean of the targets."""

    fits = 0

    def fit(self, X: Array, y: Array) -> Mean:
        self.fits += 1
        self.mean = float(np.mean(y))
        return self

    def predict(self, X: Array) -> list[float]:
        return [self.mean] * len(X)


class General:
    def predict(self, X: Array, y: Array, queries: Array) -> Array:
        return 0 * queries[..., 0]


def test_linear_predictors_pass_through() -> None:
    for linear in (rf.LinearTransformer.init("diag", layers=1), rf.baselines.AdaRR(), rf.baselines.Oracle()):
        assert as_predictor(linear) is linear
        assert isinstance(linear, LinearPredictor)
    assert isinstance(rf.baselines.Oracle(), Informed)
    assert not isinstance(rf.baselines.AdaRR(), Informed)


def test_functions_methods_and_estimators_become_general_predictors() -> None:
    def function(X: Array, y: Array, queries: Array) -> Array:
        return y.mean(axis=1, keepdims=True) + 0 * queries[..., 0]

    examples = make_examples(4, 6, 3, seed=0)
    expected = np.repeat(examples.y.mean(axis=1, keepdims=True), 3, axis=1)
    for thing, kind in ((function, FunctionPredictor), (Mean(), EstimatorPredictor), (General(), FunctionPredictor)):
        predictor: Any = as_predictor(thing)
        assert isinstance(predictor, kind)
        assert isinstance(predictor, GeneralPredictor)
        assert not isinstance(predictor, LinearPredictor)
        again: Any = as_predictor(predictor)
        assert again.predict(examples.X, examples.y, examples.queries).shape == (4, 3)
        if not isinstance(thing, General):
            np.testing.assert_allclose(predictor.predict(examples.X, examples.y, examples.queries), expected)


def test_estimator_is_fitted_afresh_to_every_context_and_stays_as_it_was() -> None:
    examples, estimator = make_examples(5, 6, 3, seed=1), Mean()
    EstimatorPredictor(estimator).predict(examples.X, examples.y, examples.queries)
    assert estimator.fits == 0
    assert not hasattr(estimator, "mean")


def test_predictions_of_another_shape_are_refused() -> None:
    examples = make_examples(4, 6, 3, seed=2, queries=5)
    for wrong in (examples.y, examples.queries, 0.0, examples.queries[:, :, :1], [[1.0] * 5] * 3):
        refused(r"shape \(4, 5\)", FunctionPredictor(lambda *_, wrong=wrong: wrong).predict, *examples[:3])


@pytest.mark.parametrize("thing", [None, 5, "diag-4-uniform-5", [], {}, object(), np.zeros(3)])
def test_anything_else_is_refused(thing: Any) -> None:
    refused("A predictor is a model or a baseline", as_predictor, thing)


@pytest.mark.parametrize("forgotten", [rf.baselines.AdaRR, Mean, General])
def test_class_instead_of_an_object_is_refused(forgotten: Any) -> None:
    refused(rf"not the class {forgotten.__name__}: write {forgotten.__name__}\(", as_predictor, forgotten)
