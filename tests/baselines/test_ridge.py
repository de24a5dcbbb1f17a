"""OLS, Oracle, ConstRR, AdaRR and TunedRR against regressions done on the tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.baselines import OLS, AdaRR, Bayes, ConstRR, IterativeAdaRR, Oracle, TunedRR
from ridgeformer.baselines.least_squares import LeastSquares
from ridgeformer.core.notation import Array
from support import make_examples, refused, relative_error, run_python

# Σ has the squared condition number of the data, up to 1e4 here: 1e-16 · 1e4 and room for both solvers.
TIGHT = 1e-10
# No square matrices n = d here: their condition number has no bound.
SHAPES = [(1, 3), (5, 20), (10, 20), (10, 14), (5, 2), (8, 1), (3, 200)]
ALL: list[Any] = [OLS(), Oracle(1.3), ConstRR(0.7), AdaRR(), TunedRR(1.3, 2.0), IterativeAdaRR(20), Bayes("uniform:3")]


def ridge_by_rows(X: Array, y: Array, penalty: float) -> Array:
    """Least squares of least norm on the examples with √v I appended."""
    tall, right = np.vstack([X, np.sqrt(penalty) * np.eye(X.shape[1])]), np.concatenate([y, np.zeros(X.shape[1])])
    return np.linalg.lstsq(tall, right, rcond=1e-12)[0]


def residual_variance(X: Array, y: Array) -> float:
    """Σ (y − ŷ)² / (n − d) over the examples; for n ≤ d, by the energy that <w, x> leaves over."""
    n, dim = X.shape
    if n > dim:
        return float(((y - X @ np.linalg.lstsq(X, y)[0]) ** 2).sum() / (n - dim))
    left, scatter = float((y**2).mean() - (X**2).sum(axis=1).mean()), float(((X @ X.T) ** 2).sum()) * 2 / n**2
    return (left + (left**2 + scatter) ** 0.5) / 2


@pytest.mark.parametrize(("dim", "n"), SHAPES)
def test_ridge_baselines_equal_regressions_on_the_examples(dim: int, n: int) -> None:
    examples = make_examples(6, n, dim, seed=1)
    context = rf.Context.from_tokens(examples.X, examples.y)
    found = {p: p.weights(context) for p in (OLS(), Oracle(examples.sigma), ConstRR(0.7), AdaRR(), TunedRR(1.5, 0.8))}
    for number, (X, y) in enumerate(zip(examples.X, examples.y, strict=True)):
        variance = residual_variance(X, y)
        penalties = [0.0, examples.sigma[number] ** 2, 0.7, variance, 1.5 * min(variance, 0.8)]
        for (predictor, weights), penalty in zip(found.items(), penalties, strict=True):
            assert relative_error(weights[number], ridge_by_rows(X, y, penalty)) < TIGHT, predictor.describe()


def test_fewer_examples_than_features_use_the_energy_and_find_the_noise() -> None:
    """On average (λ − tr Σ)/n is σ²; made positive it is more, the less the larger σ. Its scatter is what τ says."""
    for sigma, most in ((0.0, 5.0), (3.0, 12.0), (30.0, 905.0)):
        draw = rf.Task(8, 6, f"fixed:{sigma:g}").draw_contexts(20_000, seed=0)
        scatter = draw.context.scatter
        z = (draw.context.energy - np.trace(scatter, axis1=1, axis2=2)) / 6
        assert abs(z.mean() - sigma**2) < 4 * z.std() / np.sqrt(20_000)
        estimate = LeastSquares.of(draw.context).noise_variance
        assert (estimate > np.maximum(z, 0)).all()
        assert sigma**2 < estimate.mean() < most
        if sigma == 0:
            assert np.mean(z**2 / (2 * (scatter**2).sum(axis=(1, 2)) / 36)) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize(("dim", "n", "noise"), [(10, 20, "uniform:5"), (10, 20, "uniform:0"), (6, 4, "uniform:5")])
def test_oracle_told_sigma_equals_the_oracle_of_the_draw(dim: int, n: int, noise: str) -> None:
    draw = rf.Task(dim, n, noise).draw_contexts(2000, seed=3)
    assert np.abs(Oracle(draw.sigma).weights(draw.context) - draw.oracle).max() < 1e-9
    assert np.abs(Oracle(draw.sigma + 0.01).weights(draw.context) - draw.oracle).max() > 1e-5  # the control


@pytest.mark.parametrize("sigma", [[[1, 2], [3]], [[1.0]], [1.0, float("nan")], "high", -1.0])
def test_oracle_told_what_is_no_noise_level_says_so(sigma: object) -> None:
    refused("sigma|noise level", Oracle, sigma)


def test_oracle_not_told_sigma_says_so() -> None:
    context = rf.Task().draw_contexts(2, seed=0).context
    refused("told sigma", Oracle().weights, context)
    refused("3 noise levels for 2", Oracle([1.0, 2.0, 3.0]).weights, context)


@pytest.mark.parametrize(
    "make", [OLS, AdaRR, lambda: TunedRR(1.3), lambda: Bayes("uniform:5"), lambda: Bayes("fixed:0")]
)
@pytest.mark.parametrize(("dim", "n"), [(10, 20), (10, 11), (3, 1000)])
def test_noise_free_contexts_give_the_true_weights(make: Any, dim: int, n: int) -> None:
    """A residual that is rounding must not count as noise, in either precision."""
    draw = rf.Task(dim, n, "fixed:0").draw_contexts(200, seed=1)
    assert np.abs(make().weights(draw.context) - draw.weights).max() < 1e-8  # condition numbers of 1e5 at n = d + 1
    for dtype in (np.float64, np.float32):
        narrow = rf.Context(draw.context.gram.astype(dtype), n)
        assert (LeastSquares.of(narrow).residual == 0).all()


def test_residual_above_rounding_is_kept() -> None:
    """The control of the test above: σ = 1e-5 is noise."""
    draw = rf.Task(10, 20, "fixed:1e-5").draw_contexts(200, seed=1)
    estimate = np.sqrt(LeastSquares.of(draw.context).noise_variance)
    assert 3e-6 < estimate.min() < 1e-5 < estimate.max() < 3e-5


@pytest.mark.parametrize("predictor", ALL, ids=lambda p: p.name)
@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.zeros((2, 5, 3)), np.zeros((2, 5))),
        (np.zeros((2, 5, 3)), np.ones((2, 5))),
        (np.ones((2, 5, 3)), np.ones((2, 5))),
        (np.ones((2, 2, 3)), np.arange(4.0).reshape(2, 2)),
        (1e-12 * np.ones((1, 4, 1)), np.ones((1, 4))),
        (1e12 * np.eye(3)[None], np.ones((1, 3))),
        (np.eye(3)[None], 1e12 * np.ones((1, 3))),
    ],
)
def test_degenerate_contexts_give_finite_weights_without_warnings(predictor: Any, X: Array, y: Array) -> None:
    """Warnings are errors here; and what no example says anything about gets weight zero."""
    weights = predictor.weights(rf.Context.from_tokens(X, y))
    assert weights.shape == (len(X), X.shape[2])
    assert np.isfinite(weights).all()
    if not X.any():
        assert not weights.any()


@pytest.mark.parametrize("predictor", ALL, ids=lambda p: p.name)
def test_float32_contexts_with_fewer_examples_than_features_give_sane_float64_weights(predictor: Any) -> None:
    examples = make_examples(50, 4, 9, seed=5)
    wide = predictor.weights(rf.Context.from_tokens(examples.X, examples.y))
    narrow = predictor.weights(rf.Context(examples.gram.astype(np.float32), 4))
    assert narrow.dtype == np.float64
    assert relative_error(narrow, wide) < 1e-3  # float32 rounding times condition numbers up to 1e3


def test_baselines_load_scipy_and_numba_only_for_tuning() -> None:
    code = """
import sys
import ridgeformer as rf
from ridgeformer.baselines import OLS, AdaRR, Bayes, IterativeAdaRR
context = rf.Task().draw_contexts(10, seed=0).context
for predictor in (OLS(), AdaRR(), Bayes("uniform:5"), IterativeAdaRR()):
    predictor.weights(context)
print(*{name.partition(".")[0] for name in sys.modules} & {"scipy", "numba"})
"""
    assert run_python(code).split() == []


def test_every_baseline_has_a_name_and_describes_its_parameters() -> None:
    for predictor in ALL:
        assert predictor.name == type(predictor).__name__
        assert predictor.describe().startswith(predictor.name)
    assert ConstRR(3.21).describe() == "ConstRR, v = 3.21"
    assert TunedRR(1.5).describe() == "TunedRR, v = 1.5 · min(σ̂², ∞)"
    assert Oracle(2).describe() == "Oracle, σ = 2"
    assert Bayes("categorical:1+3").describe() == "Bayes, σ ~ categorical:1+3"
    assert IterativeAdaRR(7).describe() == "IterativeAdaRR, 7 iterations"


BAD: dict[Any, list[tuple[Any, ...]]] = {
    ConstRR: [(-1.0,), (np.nan,), ("one",)],
    TunedRR: [(-1.0,), (np.inf,), (1.0, -1.0), (1.0, np.nan)],
    Oracle: [(-1.0,), ([1.0, -1.0],), ([[1.0]],), ("loud",)],
    IterativeAdaRR: [(0,)],
    Bayes: [("loud",), ("uniform:5", 0)],
}


@pytest.mark.parametrize("make", BAD)
def test_bad_parameters_are_refused_in_one_sentence(make: Any) -> None:
    for arguments in BAD[make]:
        refused("", make, *arguments)
