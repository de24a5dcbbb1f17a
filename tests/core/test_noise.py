"""Shapes of the noise: their tails, their variance, and how specs name them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import ridgeformer as rf
from ridgeformer.core.noise import NOISE_SHAPES, parse_shape, total_growth
from ridgeformer.core.notation import Array
from support import refused, within_standard_errors

TASK: dict[str, Any] = {"dim": 4, "examples": 12, "noise": "uniform:0.5-3"}


def noise(shape: str) -> tuple[Array, Array]:
    """(noise, its standard deviation as the draw tells it)."""
    found = rf.Task(**TASK, noise_shape=shape).draw_tokens(20_000, seed=0)
    return found.y - np.einsum("bnd,bd->bn", found.X, found.weights), found.sigma


@pytest.mark.parametrize("degrees", [3.0, 9.0])
def test_student_noise_has_t_quantiles_and_variance_sigma_squared(degrees: float) -> None:
    found, sigma = noise(f"student:{degrees:g}")
    t = (found / sigma[:, None]).ravel() / math.sqrt((degrees - 2) / degrees)
    assert stats.kstest(t, "t", args=(degrees,)).pvalue > 1e-6
    assert stats.kstest(t, "norm").pvalue < 1e-6  # the control


def test_student_noise_has_the_kurtosis_of_its_degrees_of_freedom() -> None:
    """Excess kurtosis 6/(ν − 4): 0.75 at ν = 12, with a finite eighth moment, so that its estimate has an error bar."""
    found, sigma = noise("student:12")
    unit = (found / sigma[:, None]).ravel()
    assert within_standard_errors(unit**2, 1.0)
    assert within_standard_errors(unit**4, 3.75)
    assert not within_standard_errors(unit**4, 3.0)


def test_student_noise_without_variance_is_scaled_by_sigma() -> None:
    found, sigma = noise("student:1.5")
    assert stats.kstest((found / sigma[:, None]).ravel(), "t", args=(1.5,)).pvalue > 1e-6


def test_outliers_have_their_share_and_their_factor() -> None:
    (plain, level), (found, sigma) = noise("gaussian"), noise("outliers:0.05x10")
    growth = found / plain
    hit = np.isclose(growth, 10)
    assert (hit | np.isclose(growth, 1)).all()
    assert within_standard_errors(hit.reshape(-1, 1).astype(float), 0.05)
    np.testing.assert_allclose(sigma, level * math.sqrt(1 + 0.05 * 99))
    assert within_standard_errors((found / sigma[:, None]).reshape(-1, 1) ** 2, 1.0)


def test_shapes_draw_from_streams_of_their_own() -> None:
    both, one = noise("student:5+outliers:0.1x5")[0], noise("student:5")[0]
    same = np.isclose(both, one)
    assert 0.85 < same.mean() < 0.95
    assert total_growth(parse_shape("student:5+outliers:0.1x5")) == pytest.approx(math.sqrt(1 + 0.1 * 24))


def test_shapes_read_back_and_unreadable_ones_say_what_would_be_right() -> None:
    for entry in NOISE_SHAPES.values():
        assert parse_shape(entry.form).spec == entry.form
    for hint, spec in {
        "Did you mean 'student'": "studnet:3",
        "a share and a factor": "outliers:0.1",
        "from 1 to inf": "student:0.5",
        "takes no number": "gaussian:1",
    }.items():
        refused(hint, rf.Task, 3, 8, noise_shape=spec)
    refused("not 3", rf.Task, 3, 8, noise_shape=3)
