"""The Bayes limit of any task against brute force, and what is said where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

import ridgeformer as rf
from ridgeformer.baselines import Bayes, baselines_for, bayes_limit, reference_note
from ridgeformer.core.weights import FinitePool, parse_weights
from support import relative_error

D, N = 3, 6
LEVELS = (0.5, 1.0, 3.0)


def tokens(weights: str, batch: int = 5) -> rf.TokenDraw:
    return rf.Task(D, N, "categorical:0.5+1+3", weights=weights).draw_tokens(batch, seed=2)


@pytest.mark.parametrize("spec", ["normal", "kappa:10", "scale:2", "variances:4,1,0"])
def test_bayes_limit_of_gaussian_weights_is_the_mean_over_levels(spec: str) -> None:
    """Every level's posterior mean, weighted by the density of y, which is N(0, X Λ Xᵀ + σ² I)."""
    drawn, L = tokens(spec), parse_weights(spec).covariance(D)
    found = Bayes("categorical:0.5+1+3", of_weights=spec).weights(rf.Context.from_tokens(drawn.X, drawn.y))
    for X, y, mean in zip(drawn.X, drawn.y, found, strict=True):
        covariances = [X @ L @ X.T + level**2 * np.eye(N) for level in LEVELS]
        logs = [stats.multivariate_normal(np.zeros(N), C).logpdf(y) for C in covariances]
        means = [L @ X.T @ np.linalg.solve(C, y) for C in covariances]
        assert relative_error(mean, special.softmax(logs) @ np.array(means)) < 1e-9


def test_bayes_limit_of_a_pool_sums_over_vectors_and_levels() -> None:
    drawn, vectors = tokens("pool:4"), FinitePool(4).vectors(D)
    limit = Bayes("categorical:0.5+1+3", of_weights="pool:4")
    context = rf.Context.from_tokens(drawn.X, drawn.y)
    found, levels = limit.weights(context), limit.noise_level(context)
    for X, y, mean, level in zip(drawn.X, drawn.y, found, levels, strict=True):
        logs = np.array([[stats.norm(X @ w, s).logpdf(y).sum() for w in vectors] for s in LEVELS])
        share = special.softmax(logs)
        assert relative_error(mean, share.sum(axis=0) @ vectors) < 1e-9
        assert level == pytest.approx(share.sum(axis=1) @ np.array(LEVELS))


def test_quadrature_over_a_uniform_prior_is_a_fine_sum() -> None:
    drawn, vectors = tokens("pool:4"), FinitePool(4).vectors(D)
    found = Bayes("uniform:0.5-3", of_weights="pool:4").weights(rf.Context.from_tokens(drawn.X, drawn.y))
    grid = 0.5 + 2.5 * (np.arange(20_000) + 0.5) / 20_000
    for X, y, mean in zip(drawn.X, drawn.y, found, strict=True):
        squares = ((y - vectors @ X.T) ** 2).sum(axis=1)
        logs = -N * np.log(grid)[:, None] - squares / (2 * grid[:, None] ** 2)
        assert relative_error(mean, special.softmax(logs).sum(axis=0) @ vectors) < 1e-6


@pytest.mark.parametrize("weights", ["kappa:10", "sparse:1", "pool:8", "pool:8+scale:2"])
def test_bayes_limit_is_below_every_baseline_and_above_the_oracle(weights: str) -> None:
    task = rf.Task(D, N, "uniform:2", features="kappa:5+rotated", weights=weights)
    result = rf.compare(baselines_for(task), task, sequences=4000)
    for name in ("OLS", "ConstRR", "AdaRR", "TunedRR"):
        gap = result.difference("Bayes limit", name)
        assert gap.mean < 3 * gap.standard_error, name
    assert result.evaluations["Oracle"].adjusted_loss == 0
    assert result.evaluations["Bayes limit"].adjusted_loss > 0


def test_tuned_baselines_of_a_general_task_are_no_worse_than_neighbours() -> None:
    task = rf.Task(D, "4..9", "uniform:3", features="kappa:20", weights="scale:2")
    tuned = rf.baselines.ConstRR.tuned(task)
    others = {f"{factor:g}": rf.baselines.ConstRR(factor * tuned.v) for factor in (0.5, 2.0)}
    result = rf.compare({"tuned": tuned, **others}, task, sequences=20_000)
    for name in others:
        gap = result.difference("tuned", name)
        assert gap.mean < 2 * gap.standard_error


def test_tasks_without_a_limit_say_so() -> None:
    for task in (
        rf.Task(noise_shape="student:5"),
        rf.Task(20, 40, weights="sparse:9"),
        rf.parse_mixture("base | weights=scale:2", rf.Task()),
    ):
        assert bayes_limit(task) is None
        assert "no Bayes limit" in reference_note(task)
        assert "Bayes limit" not in baselines_for(task, ("adarr", "bayes"))
    assert "losses below it are possible" in reference_note(rf.Task(noise_shape="student:5"))
    assert bayes_limit(rf.parse_mixture("base | features=skewed | examples=5..9", rf.Task())) is not None
    assert "no predictor is better" in reference_note(rf.Task())


@pytest.mark.parametrize("examples", ["2..9", "5..30"])
def test_baselines_with_numbers_of_examples_that_differ_are_those_of_each_number(examples: str) -> None:
    draw = rf.Task(4, examples, "uniform:3").draw_contexts(200, seed=0)
    n = draw.context.examples
    assert isinstance(n, np.ndarray)
    for predictor in (rf.baselines.OLS(), rf.baselines.AdaRR(), Bayes("uniform:3"), Bayes("loguniform:0.1-3")):
        whole = predictor.weights(draw.context)
        for one in np.unique(n):
            rows = n == one
            alone = predictor.weights(rf.Context(draw.context.gram[rows], int(one)))
            np.testing.assert_allclose(whole[rows], alone, rtol=1e-6, atol=1e-9)
