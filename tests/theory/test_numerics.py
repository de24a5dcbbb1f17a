"""How two computations of the same thing are compared."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.theory.numerics import is_diagonal, relative_difference


def test_relative_difference_is_the_worst_context_s() -> None:
    expected = np.array([[1.0, 2.0], [100.0, 0.0], [0.0, 0.0]])
    found = expected + np.array([[0.0, 0.2], [1.0, 1.0], [0.0, 0.0]])
    assert relative_difference(found, expected) == pytest.approx(0.1)
    assert relative_difference(expected, expected) == 0
    assert np.isnan(relative_difference(np.array([[np.nan]]), np.array([[1.0]])))
    assert relative_difference(np.empty((0, 3)), np.empty((0, 3))) == 0


def test_models_given_by_omega_are_those_of_diagonal_kinds() -> None:
    models = [rf.LinearTransformer.init(kind, layers=1, dim=2) for kind in ("gdpp", "diag", "full")]
    assert [is_diagonal(model) for model in models] == [True, True, False]
    with pytest.raises(rf.InputError, match="model must be a LinearTransformer"):
        is_diagonal("diag")  # type: ignore[arg-type]
