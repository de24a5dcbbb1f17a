"""Small versions of the studies in docs/tasks.md: results that others published, found again in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
import task_studies
from ridgeformer.analysis.filters import implied_penalty
from ridgeformer.baselines import Bayes, Oracle, bayes_limit
from ridgeformer.core.objective import losses_and_gradient_on
from task_studies import best_single_layer

C = np.array([4.0, 1.0, 0.25])
COVARIANCE = rf.Task(3, 8, "fixed:1", features="variances:4,1,0.25")


def single_layer(a: np.ndarray) -> rf.LinearTransformer:
    """ŵ = diag(a) α as a FULL model of one layer."""
    P, Q = np.zeros((2, 1, 1, 4, 4))
    P[0, 0, 3, 3] = -1.0
    Q[0, 0, :3, :3] = np.diag(a)
    return rf.LinearTransformer("full", 3, {"P": P, "Q": Q})


def test_closed_form_of_one_layer_has_no_slope_and_its_own_loss() -> None:
    """Ahn et al. 2023, Theorem 1, with noise."""
    a, loss = best_single_layer(C, 8, 1.0)
    measured = rf.evaluate(single_layer(a), COVARIANCE, 60_000)
    assert abs(measured.loss - loss) < 4 * measured.loss_error
    for factor in (0.9, 1.1):
        other = rf.compare({"best": single_layer(a), "other": single_layer(factor * a)}, COVARIANCE, 30_000)
        gap = other.difference("other", "best")
        assert gap.mean > 4 * gap.standard_error
    draw = COVARIANCE.draw_contexts(60_000, seed=3)
    _, gradient = losses_and_gradient_on(single_layer(a), draw)
    slope = np.diagonal(gradient.parameters["Q"][0, 0])[:3]
    _, away = losses_and_gradient_on(single_layer(1.1 * a), draw)
    assert np.abs(slope).max() < 0.1 * np.abs(np.diagonal(away.parameters["Q"][0, 0])[:3]).max()


def test_training_one_layer_finds_the_closed_form(tmp_path: Path) -> None:
    settings = {
        "kind": "full",
        "layers": 1,
        "precision": "float64",
        "steps": 150,
        "sequences": 1000,
        **COVARIANCE.specs,
    }
    model = rf.train(rf.TrainConfig(**settings)).model
    P, Q = model.attention_matrices()
    learned = -P[0, 0, -1, -1] * np.diagonal(Q[0, 0])[:-1]
    np.testing.assert_allclose(learned, best_single_layer(C, 8, 1.0)[0], rtol=0.1)


def test_least_squares_peaks_at_n_equal_d_and_ridge_does_not() -> None:
    """Garg et al. 2022: the reference curves of loss against n."""
    chosen = {"OLS": rf.baselines.OLS(), "ridge": Oracle()}
    curve = rf.curve(chosen, rf.Task(6, 12, "fixed:1"), "examples", [2, 4, 6, 8, 12, 24], sequences=4000)
    losses = {name: [one.loss for one in row if one is not None] for name, row in curve.evaluations.items()}
    assert int(np.argmax(losses["OLS"])) == 2
    assert (np.diff(losses["ridge"]) < 0).all()


def test_discrete_posterior_mean_becomes_ridge_as_the_pool_grows() -> None:
    """Raventós et al. 2023: the two references, on the pool and on new weights."""
    gaps = []
    for m in (1, 16, 4096):
        task = rf.Task(3, 6, "fixed:1", weights=f"pool:{m}")
        discrete, ridge = bayes_limit(task), Bayes("fixed:1")
        assert discrete is not None
        on_pool = rf.compare({"d": discrete, "r": ridge}, task, 4000)
        on_new = rf.compare({"d": discrete, "r": ridge}, rf.Task(3, 6, "fixed:1"), 4000)
        gaps.append([result.evaluations["r"].loss - result.evaluations["d"].loss for result in (on_pool, on_new)])
    (one_pool, one_new), (some_pool, some_new), (many_pool, many_new) = gaps
    assert one_pool > some_pool > many_pool > -1e-6
    assert one_new < some_new < many_new < 0
    assert abs(many_new) < 0.02


def test_model_of_one_noise_level_is_ridge_regression_with_that_penalty() -> None:
    settings: dict[str, Any] = {"kind": "diag", "layers": 3, "dim": 3, "examples": 12, "steps": 300, "sequences": 1000}
    model = rf.train(rf.TrainConfig(noise="fixed:2", **settings)).model
    for level in (0.5, 2.0, 4.0):
        draw = rf.Task(3, 12, f"fixed:{level:g}").draw_contexts(2000, seed=1)
        values, vectors, cross = draw.context.spectrum
        weights = np.einsum("bji,bj->bi", vectors, model.weights(draw.context))
        found = float(np.nanmedian(np.sqrt(implied_penalty(weights, values, cross, 12))))
        assert found == pytest.approx(2.0, abs=0.25)


def test_every_study_has_its_place_on_the_page() -> None:
    page = task_studies._PAGE.read_text(encoding="utf-8")
    for name in task_studies.STUDIES:
        assert f"<!-- begin study {name} -->" in page
        assert f"<!-- end study {name} -->" in page
