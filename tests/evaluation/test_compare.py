"""`evaluate`, `compare`, `profile` and `layerwise` against brute force on stored losses and against each other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.baselines import OLS, AdaRR, ConstRR, Oracle
from ridgeformer.core import task as task_module
from ridgeformer.core.notation import Array
from ridgeformer.core.random import Purpose
from ridgeformer.evaluation import (
    adjusted_losses,
    compare,
    default_levels,
    evaluate,
    layerwise,
    profile,
    scoring,
    trained_on,
)
from support import KINDS, refused

TASK = rf.Task(dim=3, examples=8, noise="uniform:2")
SEQUENCES = 2500


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks, and a last one that is not full."""
    for module in (task_module, scoring):
        monkeypatch.setattr(module, "CHUNK", 700)


class Zero:
    """Predicts nothing."""

    def weights(self, context: rf.Context) -> Array:
        return np.zeros((len(context.gram), context.dim))


class Exploding(Zero):
    """Not finite wherever the energy is large."""

    def weights(self, context: rf.Context) -> Array:
        return np.where(context.energy[:, None] > 200, np.nan, 0.0) + super().weights(context)


def some_model(dtype: Any = np.float64, kind: str = "full", layers: int = 2) -> rf.LinearTransformer:
    return rf.LinearTransformer.init(kind, layers=layers, dim=3, scale=0.05, seed=1, dtype=dtype)


def predictors() -> dict[str, Any]:
    return {"model": some_model(), "ols": OLS(), "ridge": ConstRR(1.0), "oracle": Oracle(), "zero": Zero()}


def stored(chosen: Mapping[str, Any], seed: int) -> tuple[dict[str, Array], dict[str, Array]]:
    """All adjusted losses and losses by NumPy's own forward pass and ridge regression, none of them streamed."""
    adjusted: dict[str, list[Array]] = {name: [] for name in chosen}
    plain: dict[str, list[Array]] = {name: [] for name in chosen}
    for draw in TASK.chunks(SEQUENCES, seed):
        for name, predictor in chosen.items():
            if isinstance(predictor, rf.LinearTransformer):
                w = rf.context_weights(predictor, draw.context, backend="reference")
            elif isinstance(predictor, Oracle):
                w = draw.oracle
            else:
                w = predictor.weights(draw.context)
            adjusted[name].append(0.5 * ((w - draw.oracle) ** 2).sum(axis=1))
            plain[name].append(0.5 * ((w - draw.weights) ** 2).sum(axis=1))
    return ({n: np.concatenate(v) for n, v in adjusted.items()}, {n: np.concatenate(v) for n, v in plain.items()})


def test_paired_differences_are_those_of_stored_losses() -> None:
    chosen = predictors()
    adjusted, _ = stored(chosen, seed=5)
    found = compare(chosen, TASK, SEQUENCES, seed=5)
    names = list(chosen)
    assert len(found.differences) == len(names) * (len(names) - 1) // 2
    for first in names:
        for second in names:
            apart = adjusted[first] - adjusted[second]
            seen = found.difference(first, second)
            # The kernels and NumPy sum in different orders.
            assert seen.mean == pytest.approx(apart.mean(), rel=1e-9, abs=1e-12)
            assert seen.standard_error == pytest.approx(apart.std(ddof=1) / math.sqrt(SEQUENCES), rel=1e-9, abs=1e-12)
            assert (seen.first, seen.second) == (first, second)


def test_evaluations_of_a_comparison_are_those_of_stored_losses_and_of_evaluate() -> None:
    chosen = predictors()
    adjusted, plain = stored(chosen, seed=5)
    found = compare(chosen, TASK, SEQUENCES, seed=5).evaluations
    for name, predictor in chosen.items():
        assert found[name].adjusted_loss == pytest.approx(adjusted[name].mean(), rel=1e-9)
        assert found[name].loss == pytest.approx(plain[name].mean(), rel=1e-9)
        assert found[name].loss_error == pytest.approx(plain[name].std(ddof=1) / math.sqrt(SEQUENCES), rel=1e-9)
        assert found[name].median == pytest.approx(np.median(adjusted[name]), rel=1e-9)
        # A model alone is evaluated by a kernel that draws and scores in one go: the same to rounding.
        alone = asdict(evaluate(predictor, TASK, SEQUENCES, seed=5))
        assert alone == pytest.approx(asdict(found[name]), rel=1e-10)


def test_paired_error_is_smaller_than_that_of_unpaired_losses_where_predictors_are_alike() -> None:
    found = compare({"a": ConstRR(1.0), "b": ConstRR(1.05)}, TASK, SEQUENCES)
    unpaired = math.hypot(*(seen.standard_error for seen in found.evaluations.values()))
    assert found.difference("a", "b").standard_error < unpaired / 10


def test_differences_of_nearly_equal_predictors_keep_their_digits() -> None:
    """A difference of one part in 10⁸ has a variance of one part in 10¹⁶, which covariances would lose."""
    chosen: dict[str, Any] = {"a": ConstRR(1.0), "b": ConstRR(1.0 + 1e-8)}
    adjusted, _ = stored(chosen, seed=0)
    apart = adjusted["a"] - adjusted["b"]
    found = compare(chosen, TASK, SEQUENCES).difference("a", "b")
    assert found.standard_error == pytest.approx(apart.std(ddof=1) / math.sqrt(SEQUENCES), rel=1e-6, abs=0)
    (a, b), n = adjusted.values(), SEQUENCES
    covariance = ((a - a.mean()) * (b - b.mean())).sum() / (n - 1)
    by_covariances = a.var(ddof=1) + b.var(ddof=1) - 2 * covariance
    assert by_covariances != pytest.approx(apart.var(ddof=1), rel=0.01, abs=0)  # the control


def test_oracle_has_adjusted_loss_exactly_zero_and_the_least_loss() -> None:
    found = compare(predictors(), TASK, SEQUENCES).evaluations
    oracle = found["oracle"]
    assert (oracle.adjusted_loss, oracle.standard_error, oracle.maximum, oracle.diverged) == (0.0, 0.0, 0.0, 0)
    assert oracle.loss == min(seen.loss for seen in found.values())
    assert evaluate(Oracle(), TASK, 100).maximum == 0.0
    draw = TASK.draw_contexts(10, seed=0)
    assert adjusted_losses(Oracle(draw.sigma), draw.context, draw.oracle).max() < 1e-20  # the square of rounding


def test_oracle_told_a_level_uses_it() -> None:
    found = evaluate(Oracle(1.0), TASK, SEQUENCES)
    assert found.adjusted_loss == pytest.approx(evaluate(ConstRR(1.0), TASK, SEQUENCES).adjusted_loss, rel=1e-9)
    assert found.adjusted_loss > 0


def test_loss_is_in_expectation_the_adjusted_loss_and_the_oracles() -> None:
    found = compare({"ridge": ConstRR(0.5), "oracle": Oracle()}, TASK, 100_000).evaluations
    apart = found["ridge"].loss - found["oracle"].loss - found["ridge"].adjusted_loss
    # Given the data, w − w* is independent of ŵ − w*: the two losses differ by the adjusted loss and a product of the
    # two, whose standard deviation is at most sqrt(2 · adjusted · 2 · oracle's).
    bound = 5 * 2 * math.sqrt(found["ridge"].adjusted_loss * found["oracle"].loss / 100_000)
    assert abs(apart) < bound
    assert bound < found["ridge"].adjusted_loss / 2  # the control: the test would see the adjusted loss counted twice


def test_diverged_predictor_leaves_the_others_alone() -> None:
    found = compare({"zero": Zero(), "bad": Exploding(), "worse": Exploding()}, TASK, SEQUENCES)
    assert found.evaluations["zero"] == evaluate(Zero(), TASK, SEQUENCES)
    bad = found.evaluations["bad"]
    assert bad.adjusted_loss == math.inf
    assert 0 < bad.diverged < SEQUENCES / 2
    assert math.isfinite(bad.median)
    assert found.difference("bad", "zero").mean == math.inf
    assert found.difference("zero", "bad").mean == -math.inf
    assert math.isnan(found.difference("bad", "worse").mean)
    assert found.difference("bad", "worse").standard_error == math.inf


def test_on_chunk_is_told_how_many_sequences_are_done() -> None:
    seen: list[int] = []
    compare({"zero": Zero()}, TASK, SEQUENCES, on_chunk=seen.append)
    assert seen == [700, 1400, 2100, 2500]


def test_evaluation_depends_on_the_seed_and_on_nothing_else() -> None:
    one, again, other = (evaluate(some_model(), TASK, 1000, seed=seed) for seed in (0, 0, 1))
    assert one == again
    assert one.adjusted_loss != other.adjusted_loss


def test_model_is_evaluated_in_its_own_precision() -> None:
    narrow, wide = (evaluate(some_model(dtype), TASK, SEQUENCES) for dtype in (np.float32, np.float64))
    assert narrow.adjusted_loss == pytest.approx(wide.adjusted_loss, rel=1e-4)  # float32 weights have 24 bits
    assert narrow.adjusted_loss != wide.adjusted_loss


def test_contexts_with_fewer_examples_than_features_can_be_compared() -> None:
    found = compare({"ada": AdaRR(), "oracle": Oracle()}, rf.Task(4, 3, "uniform:2"), 500).evaluations
    assert found["oracle"].maximum == 0.0
    assert found["ada"].adjusted_loss > 0


# --- tasks by their noise ---------------------------------------------------------------------------------------------


class Loud(rf.Uniform):
    """A prior of the user with the spec of another."""

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return 2 + super().sample(rng, size)

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        levels, weights = super().quadrature(nodes)
        return 2 + levels, weights


def with_info(**task: Any) -> rf.LinearTransformer:
    return replace(some_model(), info={"task": task})


def test_noise_prior_in_place_of_a_task_is_the_one_the_model_was_trained_on_with_that_noise() -> None:
    expected = evaluate(some_model(), TASK, 200)
    for recorded in ({"examples": 8}, {"context": 8}):
        model = with_info(noise="uniform:5", **recorded)
        assert trained_on(model) == rf.Task(3, 8, "uniform:5")
        for noise in ("uniform:2", rf.Uniform(2)):
            assert trained_on(model, noise) == TASK
            assert evaluate(model, noise, 200) == expected
            assert compare({"zero": Zero(), "m": model}, noise, 200).evaluations["m"].sequences == 200
    assert trained_on(some_model()) == rf.Task(3, 6, "uniform:5")  # nothing recorded: n = 2d
    assert evaluate(OLS(), "uniform:2", 200) == evaluate(OLS(), rf.Task(noise="uniform:2"), 200)


def test_prior_of_the_user_is_evaluated_and_never_replaced_by_a_built_in_one_of_the_same_spec() -> None:
    own, built_in = (evaluate(OLS(), rf.Task(3, 8, prior), 500).loss for prior in (Loud(2), rf.Uniform(2)))
    assert own > 2 * built_in
    assert evaluate(some_model(), Loud(2), 500).loss == evaluate(some_model(), rf.Task(3, 6, Loud(2)), 500).loss
    assert default_levels(Loud(2)) == default_levels(rf.Uniform(4))
    model = with_info(noise="uniform:2", prior="my_priors:Loud")
    refused("my_priors:Loud; pass it", trained_on, model)
    assert trained_on(model, Loud(2)).prior == Loud(2)


# --- profile and layerwise --------------------------------------------------------------------------------------------


def test_profile_at_a_level_is_the_evaluation_at_that_fixed_noise() -> None:
    chosen: dict[str, Any] = {"model": some_model(kind="diag"), "ada": AdaRR(), "oracle": Oracle()}
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
    model = some_model(dtype, kind, 4)
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
    layerwise(some_model(kind="diag"), TASK, 1500, on_chunk=seen.append)
    assert seen == [700, 1400, 1500]


def test_bad_input_to_profile_and_layerwise_is_one_sentence() -> None:
    model: Any = some_model(kind="diag")
    for arguments in (
        ({"m": model}, TASK, []),
        ({"m": model}, TASK, [-1.0]),
        ({"m": model}, TASK, [float("nan")]),
        ({}, TASK, [1.0]),
        ({"m": model}, TASK, [1.0], 0),
    ):
        refused("", profile, *arguments)
    refused("layerwise needs a model", layerwise, OLS(), TASK)
    refused("features", layerwise, model, rf.Task(4, 8))
    refused("sequences", layerwise, model, TASK, 0)


# --- bad input --------------------------------------------------------------------------------------------------------


class Wrong:
    """Weights of the wrong shape."""

    def weights(self, context: rf.Context) -> Array:
        return np.zeros((len(context.gram), context.dim + 1))


BAD: dict[str, tuple[Any, ...]] = {
    "no predictors": ({}, TASK),
    "a list": ([Zero()], TASK),
    "not a predictor": ({"x": 3}, TASK),
    "weights of the wrong shape": ({"x": Wrong()}, TASK),
    "a model of other dim": ({"x": rf.LinearTransformer.init("diag", layers=1, dim=4)}, TASK),
    "no sequences": ({"x": Zero()}, TASK, 0),
    "half a sequence": ({"x": Zero()}, TASK, 1.5),
    "negative seed": ({"x": Zero()}, TASK, 10, -1),
}


@pytest.mark.parametrize("name", BAD)
def test_compare_refuses_bad_input_in_one_sentence(name: str) -> None:
    refused("", compare, *BAD[name])


def test_difference_of_an_unknown_predictor_names_the_nearest() -> None:
    found = compare({"zero": Zero(), "ols": OLS()}, TASK, 10)
    refused("Did you mean 'zero'", found.difference, "zeri", "ols")


def test_profile_of_a_prior_that_reaches_far_asks_for_its_levels_instead_of_running_for_ever() -> None:
    refused("would have 1,999,308 levels", rf.profile, {"OLS": rf.baselines.OLS()}, rf.Task(3, 8, "uniform:1e6"))
