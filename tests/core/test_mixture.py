"""Mixtures: components in proportion, text that reads back, and training on one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.mixture import load_mixture, mixture_text, parse_mixture
from ridgeformer.core.random import branch_seed
from support import refused

BASE = rf.Task(3, 8, "uniform:2")
TEXT = "3*base | features=kappa:10+rotated,noise=fixed:1 | 0.5*weights=scale:3 | noise_shape=student:5 | examples=2..6"


def test_components_come_in_proportion_and_draw_what_they_would_alone() -> None:
    task = parse_mixture(TEXT, BASE)
    assert task.shares == pytest.approx(np.array([3, 1, 0.5, 1, 1]) / 6.5)
    draw = task.draw_contexts(20_000, seed=4)
    assert draw.parts
    counts = [len(part.sigma) for _, _, part in draw.parts]
    assert np.allclose(np.array(counts) / 20_000, task.shares, atol=5 * np.sqrt(0.25 / 20_000))
    start = 0
    for number, (component, seed, part) in enumerate(draw.parts):
        assert seed == branch_seed(4, number)
        alone = component.draw_contexts(len(part.sigma), seed=seed)
        rows = slice(start, start + len(part.sigma))
        np.testing.assert_array_equal(draw.context.gram[rows], alone.context.gram)
        np.testing.assert_array_equal(draw.oracle[rows], alone.oracle)
        assert isinstance(draw.context.examples, np.ndarray)
        assert (draw.context.examples[rows] == alone.context.examples).all()
        start = rows.stop
    assert draw.moment is not None
    assert draw.moment.shape == (20_000, 3, 3)


def test_text_reads_back_as_the_same_mixture() -> None:
    task = parse_mixture(TEXT, BASE)
    again = parse_mixture(task.text(), BASE)
    assert again.tasks == task.tasks
    assert again.shares == pytest.approx(task.shares)
    assert hash(again) is not None
    assert task.specs["mixture"] == task.text()


def test_mixture_of_a_file_is_that_of_its_text(tmp_path: Path) -> None:
    file = tmp_path / "mixture.txt"
    file.write_text("# a comment\n2*base\n\nfeatures=variances:4,1,0.5  # with commas\n")
    task = load_mixture(str(file), BASE)
    assert task.tasks[1].features.spec == "variances:4,1,0.5"
    assert mixture_text(str(file)) == "2*base | features=variances:4,1,0.5"


def test_reference_of_a_mixture_is_told_the_component() -> None:
    assert parse_mixture("base | features=skewed", BASE).reference.exact
    assert not parse_mixture(TEXT, BASE).reference.exact
    assert parse_mixture("base | noise=fixed:7", BASE).prior.spec == "uniform:2 | fixed:7"


def test_general_predictors_are_scored_on_every_component() -> None:
    task = parse_mixture("base | features=kappa:5+rotated | features=rows:0.5 | examples=2..5", BASE)
    linear = rf.baselines.ConstRR(1.0)

    def function(X: np.ndarray, y: np.ndarray, queries: np.ndarray) -> np.ndarray:
        return np.einsum("bmd,bd->bm", queries, linear.weights(rf.Context.from_tokens(X, y)))

    result = rf.compare({"linear": linear, "function": function}, task, sequences=3000)
    gap = result.difference("linear", "function")
    assert abs(gap.mean) < 4 * gap.standard_error
    assert gap.standard_error < 0.2 * result.evaluations["linear"].adjusted_loss


def test_mixture_can_be_trained_on_and_its_model_says_so() -> None:
    config = rf.TrainConfig(
        kind="diag", layers=1, dim=3, examples=8, steps=20, batch=32, sequences=500, mixture="base | features=skewed"
    )
    result = rf.train(config)
    assert result.model.info["task"]["mixture"] == "base | features=skewed"
    assert rf.evaluate(result.model, config.task, 500).sequences == 500


def test_unreadable_mixtures_say_what_would_be_right() -> None:
    for hint, text in {
        "at least one component": " | ",
        "Did you mean 'features'": "feature=skewed",
        "Did you mean 'skewed'": "features=skewd",
        "changes such as": "skewed",
        "needs a number": "x*base",
        "not all zero": "0*base",
    }.items():
        refused(hint, parse_mixture, text, BASE)
    refused("same number of features", rf.Mixture, [rf.Task(3, 8), rf.Task(4, 8)])
    refused("none of them a mixture", rf.Mixture, [rf.Mixture([BASE])])
    refused("not tokens", rf.Mixture([BASE]).draw_tokens, 3, seed=0)
    refused("needs one task", rf.curve, {"o": rf.baselines.OLS()}, rf.Mixture([BASE]), "sigma")
