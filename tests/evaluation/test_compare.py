"""`evaluate` and `compare` against brute force on stored losses."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer import evaluation
from ridgeformer.baselines import OLS, AdaRR, ConstRR, Oracle
from ridgeformer.core.notation import Array
from ridgeformer.evaluation import Predictor, adjusted_losses, compare, evaluate, losses
from support import refusal

TASK = rf.Task(dim=3, examples=8, noise="uniform:2")
SEQUENCES = 2500


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several chunks, and a last one that is not full."""
    monkeypatch.setattr(losses, "CHUNK", 700)


class Zero:
    """Predicts nothing."""

    def weights(self, context: rf.Context) -> Array:
        return np.zeros((len(context.gram), context.dim))


class Exploding(Zero):
    """Not finite wherever the energy is large."""

    def weights(self, context: rf.Context) -> Array:
        return np.where(context.energy[:, None] > 200, np.nan, 0.0) + super().weights(context)


def some_model(dtype: Any = np.float64) -> rf.LinearTransformer:
    return rf.LinearTransformer.init("full", layers=2, dim=3, scale=0.05, seed=1, dtype=dtype)


def predictors() -> dict[str, rf.LinearTransformer | Predictor]:
    return {"model": some_model(), "ols": OLS(), "ridge": ConstRR(1.0), "oracle": Oracle(), "zero": Zero()}


def stored(
    chosen: Mapping[str, rf.LinearTransformer | Predictor], seed: int
) -> tuple[dict[str, Array], dict[str, Array]]:
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
    chosen: dict[str, rf.LinearTransformer | Predictor] = {"a": ConstRR(1.0), "b": ConstRR(1.0 + 1e-8)}
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
    assert not adjusted_losses(Oracle(), draw.context, draw.oracle).any()


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
    with refusal():
        compare(*BAD[name])


def test_difference_of_an_unknown_predictor_names_the_nearest() -> None:
    found = compare({"zero": Zero(), "ols": OLS()}, TASK, 10)
    with pytest.raises(rf.InputError, match="Did you mean 'zero'"):
        found.difference("zeri", "ols")


def test_names_that_training_imports_are_still_there() -> None:
    for name in ("CHUNK", "Predictor", "Evaluation", "evaluate", "draw_chunks", "adjusted_losses"):
        assert hasattr(evaluation, name)
    assert rf.evaluate is evaluation.evaluate
