"""Profiles over σ and read-outs after each layer, each against plain evaluations."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.baselines import OLS, AdaRR, Oracle
from ridgeformer.core.random import Purpose
from ridgeformer.evaluation import Predictor, default_levels, evaluate, layerwise, losses, profile
from support import KINDS, refusal

TASK = rf.Task(dim=3, examples=8, noise="uniform:2")


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "CHUNK", 700)


def some_model(kind: str, layers: int = 3, dtype: Any = np.float64) -> rf.LinearTransformer:
    return rf.LinearTransformer.init(kind, layers=layers, dim=3, scale=0.05, seed=1, dtype=dtype)


def test_profile_at_a_level_is_the_evaluation_at_that_fixed_noise() -> None:
    chosen: dict[str, rf.LinearTransformer | Predictor]
    chosen = {"model": some_model("diag"), "ada": AdaRR(), "oracle": Oracle()}
    found = profile(chosen, TASK, [0, 0.5, 3.0], 1500, seed=4)
    assert found.levels == (0.0, 0.5, 3.0)
    for name, predictor in chosen.items():
        for level, seen in zip(found.levels, found.evaluations[name], strict=True):
            alone = evaluate(predictor, replace(TASK, noise=f"fixed:{level}"), 1500, seed=4)
            assert asdict(seen) == pytest.approx(asdict(alone), rel=1e-10)  # a model alone has a kernel of its own


@pytest.mark.parametrize("context", [3, 8])
def test_profile_uses_the_same_draws_at_every_level(context: int) -> None:
    """Common random numbers: w and Σ are the same, and α − Σw = Xᵀξ is proportional to σ. Tokens and Gram draws."""
    task = rf.Task(3, context)
    low, high = (
        replace(task, noise=f"fixed:{sigma}").draw_contexts(50, seed=2, step=1, purpose=Purpose.EVALUATE)
        for sigma in (1, 3)
    )
    np.testing.assert_array_equal(low.weights, high.weights)
    np.testing.assert_array_equal(low.context.scatter, high.context.scatter)
    one, three = (
        draw.context.cross - np.einsum("bij,bj->bi", draw.context.scatter, draw.weights) for draw in (low, high)
    )
    np.testing.assert_allclose(three, 3 * one, atol=1e-12)  # sums of eight products of order ten


def test_loss_of_least_squares_grows_with_the_square_of_the_noise_exactly() -> None:
    """ŵ − w = Σ⁻¹Xᵀξ, so that with common random numbers the ratio is exact, however large the error bars are."""
    low, high = profile({"ols": OLS()}, TASK, [1, 2], 2000).evaluations["ols"]
    assert high.loss / low.loss == pytest.approx(4, rel=1e-9)
    assert low.loss_error > 0.01 * low.loss


def test_profile_counts_sequences_over_all_levels() -> None:
    seen: list[int] = []
    profile({"ols": OLS()}, TASK, [0, 1], 1000, on_chunk=seen.append)
    assert seen == [700, 1000, 1700, 2000]


@pytest.mark.parametrize(
    ("spec", "levels"),
    [("uniform:5", 13), ("categorical:1+3", 9), ("fixed:1", 5), ("uniform:0", 3), ("uniform:2.5", 9)],
)
def test_default_levels_reach_one_beyond_the_prior(spec: str, levels: int) -> None:
    found = default_levels(rf.parse_noise(spec))
    assert len(found) == levels
    assert found[0] == 0
    assert set(np.diff(found)) == {0.5}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_layerwise_is_the_evaluation_of_the_first_layers(kind: str, dtype: Any) -> None:
    model = some_model(kind, layers=4, dtype=dtype)
    found = layerwise(model, TASK, 1500, seed=3)
    assert len(found) == 4
    assert len({seen.adjusted_loss for seen in found}) == 4  # the control: the layers differ
    for number, seen in enumerate(found, 1):
        expected = evaluate(model.first_layers(number), TASK, 1500, seed=3)
        # The kernel takes the last row of a shorter model in another order of products: a few roundings of ŵ.
        tolerance = 100 * float(np.finfo(dtype).eps)
        for name, value in vars(expected).items():
            assert getattr(seen, name) == pytest.approx(value, rel=tolerance), name


def test_layerwise_counts_sequences() -> None:
    seen: list[int] = []
    layerwise(some_model("diag"), TASK, 1500, on_chunk=seen.append)
    assert seen == [700, 1400, 1500]


def test_bad_input_to_profile_and_layerwise_is_one_sentence() -> None:
    model: Any = some_model("diag")
    for function, arguments in (
        (profile, ({"m": model}, TASK, [])),
        (profile, ({"m": model}, TASK, [-1.0])),
        (profile, ({"m": model}, TASK, [float("nan")])),
        (profile, ({}, TASK, [1.0])),
        (profile, ({"m": model}, TASK, [1.0], 0)),
        (layerwise, (OLS(), TASK)),
        (layerwise, (model, rf.Task(4, 8))),
        (layerwise, (model, TASK, 0)),
    ):
        with refusal():
            function(*arguments)
