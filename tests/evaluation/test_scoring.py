"""How predictors are scored: general ones as linear ones are; what the error bars promise; what sequences cost."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

import ridgeformer as rf
from ridgeformer.baselines import OLS, AdaRR, ConstRR
from ridgeformer.core.notation import Array
from ridgeformer.core.random import Purpose
from ridgeformer.evaluation import compare, evaluate, scoring
from ridgeformer.evaluation.scoring import Probe, countable, draw_queries, half_square, probes_of
from support import refused, run_python

TASKS = {
    "more examples than features": rf.Task(3, 8, "uniform:2"),
    "one more": rf.Task(3, 4, "uniform:2"),
    "fewer": rf.Task(4, 3, "uniform:2"),
    "without noise": rf.Task(3, 8, "fixed:0"),
}


def ridge(X: Array, y: Array, queries: Array) -> Array:
    """`ConstRR(1.0)` as a function of tokens."""
    system = X.transpose(0, 2, 1) @ X + np.eye(X.shape[2])
    weights = np.linalg.solve(system, np.einsum("bnd,bn->bd", X, y)[..., None])
    return (queries @ weights)[..., 0]


def probed(task: rf.Task, count: int) -> tuple[rf.ContextDraw, list[Probe]]:
    draw = task.draw_contexts(count, seed=3, step=2, purpose=Purpose.EVALUATE)
    return draw, list(probes_of(draw, task, seed=3, step=2)())


# --- general predictors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TASKS)
def test_rule_given_as_a_function_is_scored_as_the_same_rule_given_as_weights(name: str) -> None:
    """The same sequences, and enough queries of each: the standard error grows by less than a tenth."""
    result = compare({"weights": ConstRR(1.0), "function": ridge}, TASKS[name], 20_000)
    by_weights, by_function = result.evaluations["weights"], result.evaluations["function"]
    difference = result.difference("function", "weights")
    assert abs(difference.mean) < 4 * difference.standard_error
    assert 0 < difference.standard_error < by_weights.standard_error  # paired: what is left is due to queries
    assert 0.9 * by_weights.standard_error < by_function.standard_error <= 1.1 * by_weights.standard_error
    assert abs(by_function.loss - by_weights.loss) < 4 * by_weights.loss_error
    assert by_function.loss_error <= 1.1 * by_weights.loss_error


def test_oracle_given_as_a_function_has_no_adjusted_loss() -> None:
    """Scored against the oracle on the same queries, not against y."""
    found = evaluate(ridge, rf.Task(3, 8, "fixed:1"), 500)
    assert found.maximum < 1e-20
    assert found.loss > 0.01


@pytest.mark.parametrize("name", TASKS)
def test_rows_behind_gram_matrices_have_exactly_those_gram_matrices(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = TASKS[name]
    monkeypatch.setattr(scoring, "_NUMBERS", 100 * task.examples * task.dim)
    draw, probes = probed(task, 250)
    assert [probe.rows for probe in probes] == [slice(0, 100), slice(100, 200), slice(200, 250)]
    X, y = (np.concatenate([getattr(probe, array) for probe in probes]) for array in ("X", "y"))
    assert X.shape == (250, task.examples, task.dim)
    gram = rf.Context.from_tokens(X, y).gram
    assert np.abs(gram - draw.context.gram).max() < 1e-13 * np.abs(gram).max()
    again = probed(task, 250)[1]
    assert all(np.array_equal(one.queries, other.queries) for one, other in zip(probes, again, strict=True))


def test_rows_behind_gram_matrices_are_distributed_as_tokens_are() -> None:
    """Features and noise are independent standard normals, of every row alike."""
    draw, (probe,) = probed(rf.Task(3, 6, "uniform:1-2"), 20_000)
    noise = (probe.y - np.einsum("bnd,bd->bn", probe.X, draw.weights)) / draw.sigma[:, None]
    tokens = np.concatenate([probe.X, noise[..., None]], axis=-1)
    flat = tokens.reshape(len(tokens), -1)
    assert min(stats.kstest(column, "norm").pvalue for column in flat.T) > 1e-6
    correlation = np.corrcoef(flat.T) - np.eye(flat.shape[1])
    assert np.abs(correlation).max() < 5.5 / math.sqrt(len(flat))  # 276 pairs: 1e-5


@pytest.mark.parametrize("dim", [1, 3, 25])
def test_queries_are_standard_normal_and_orthogonal_in_groups(dim: int) -> None:
    queries = draw_queries(np.random.default_rng(0), 3000, dim)
    groups = math.ceil(20 / dim)
    assert queries.shape == (3000, groups * dim, dim)
    for number in {0, groups * dim - 1}:
        flat = queries[:, number]
        assert stats.kstest(flat.ravel(), "norm").pvalue > 1e-6
        assert stats.kstest((flat**2).sum(axis=1), stats.chi2(dim).cdf).pvalue > 1e-6
    inner = queries @ queries.transpose(0, 2, 1)
    same_group = np.kron(np.eye(groups), np.ones((dim, dim))).astype(bool)
    np.fill_diagonal(same_group, False)
    assert np.abs(inner[:, same_group]).max(initial=0.0) < 1e-12 * inner.max()
    other_group = ~np.kron(np.eye(groups), np.ones((dim, dim))).astype(bool)
    assert not other_group.any() or np.abs(inner[:, other_group]).mean() > 0.1  # the control


def test_numbers_of_the_others_do_not_change_when_a_general_predictor_joins() -> None:
    for task in TASKS.values():
        alone = compare({"AdaRR": AdaRR(), "OLS": OLS()}, task, 500)
        joined = compare({"AdaRR": AdaRR(), "function": ridge, "OLS": OLS()}, task, 500)
        twice = compare({"function": ridge, "again": ridge}, task, 500).evaluations
        for name in ("AdaRR", "OLS"):
            assert joined.evaluations[name] == alone.evaluations[name]
        assert joined.difference("AdaRR", "OLS") == alone.difference("AdaRR", "OLS")
        assert twice["function"] == twice["again"] == joined.evaluations["function"]


def test_intervals_of_a_general_predictor_cover_the_truth() -> None:
    """Which is known from the same rule given as weights."""
    task, repeats = rf.Task(3, 8, "uniform:2"), 300
    truth = evaluate(ConstRR(1.0), task, 400_000, TRUTH_SEED).adjusted_loss
    found = [evaluate(ridge, task, 300, seed) for seed in range(repeats)]
    inside = np.mean([one.interval[0] <= truth <= one.interval[1] for one in found])
    # Binomial: 95 % of 300 has a standard deviation of 1.3 %; losses of 300 sequences are a little skewed.
    assert 0.91 <= inside <= 0.985
    narrow = np.mean([abs(one.adjusted_loss - truth) < 0.5 * 1.96 * one.standard_error for one in found])
    assert narrow < 0.78  # the control: 67 % in theory


def test_general_predictor_that_gives_no_numbers_is_counted_and_a_wrong_shape_refused() -> None:
    task = rf.Task(3, 8)
    found = evaluate(lambda X, y, queries: np.where(y[:, :1] > 3, np.nan, 0 * queries[..., 0]), task, 1000)
    assert 0 < found.diverged < 500
    assert found.adjusted_loss == math.inf
    assert evaluate(lambda X, y, queries: 1e20 + 0 * queries[..., 0], task, 10).diverged == 10
    refused(r"predictions of shape \(10, 21\)", evaluate, lambda X, y, queries: y, task, 10)


# --- losses beyond bounds ---------------------------------------------------------------------------------------------


def test_losses_beyond_the_largest_count_as_infinite_whatever_the_precision() -> None:
    for dtype in (np.float32, np.float64):
        losses = np.array([0.0, 1.0, 9e37, 3e38, np.inf, np.nan], dtype)
        assert countable(losses).tolist() == [0.0, 1.0, float(dtype(9e37)), math.inf, math.inf, math.inf]
    assert countable(np.array([1e200]))[0] == math.inf
    assert half_square(np.full((1, 2), 1e30), np.zeros((1, 2)))[0] == math.inf
    assert half_square(np.full((1, 2), 1e15, np.float32), np.zeros((1, 2)))[0] == pytest.approx(1e30)


def test_evaluate_and_compare_count_the_same_sequences_as_diverged() -> None:
    """A model on contexts four times as long as in training, in both precisions: losses from 0.01 to 1e300."""
    task, model = rf.Task(10, 80), rf.load("full-7-uniform-5")
    assert np.isfinite(rf.context_weights(model.astype(np.float64), task.draw_contexts(3000, seed=0).context)).all()
    counts = {
        found.diverged
        for each in (model, model.astype(np.float64))
        for found in (
            evaluate(each, task, 3000),
            compare({"model": each}, task, 3000).evaluations["model"],
            rf.layerwise(each, task, 3000)[-1],
        )
    }
    assert len(counts) == 1
    assert 5 < counts.pop() < 300


# --- coverage ---------------------------------------------------------------------------------------------------------

TRUTH_SEED = 10**6
# The truth is known 45 times as well as a sample tells, and moves no interval by much of its half width.
TRUTH = 2000


def predictors(task: rf.Task) -> dict[str, Any]:
    """One gradient step each, ŵ = η α: with the best η, 1/(n + d + 1 + E σ²), and with half of it."""
    sigma, weight = task.prior.quadrature(10)
    best = 1 / (task.examples + task.dim + 1 + float(weight @ sigma**2))
    return {
        name: rf.LinearTransformer("gdpp", task.dim, {"p": np.array([[[0.0, -eta]]]), "q": np.ones((1, 1, 1))})
        for name, eta in (("best", best), ("half", best / 2))
    }


class Covered(NamedTuple):
    """Shares of intervals that hold the truth."""

    adjusted: float
    loss: float
    difference: float
    half_as_wide: float


def coverage(task: rf.Task, sequences: int, repeats: int) -> Covered:
    truth = compare(predictors(task), task, TRUTH * sequences, TRUTH_SEED)
    exact = truth.evaluations["best"]
    apart = truth.difference("best", "half").mean
    hits = np.zeros((repeats, 4))
    for seed in range(repeats):
        found = compare(predictors(task), task, sequences, seed)
        seen = found.evaluations["best"]
        difference = found.difference("best", "half").interval
        hits[seed] = (
            seen.interval[0] <= exact.adjusted_loss <= seen.interval[1],
            seen.loss_interval[0] <= exact.loss <= seen.loss_interval[1],
            difference[0] <= apart <= difference[1],
            abs(seen.adjusted_loss - exact.adjusted_loss) < 0.5 * (seen.interval[1] - seen.adjusted_loss),
        )
    return Covered(*map(float, hits.mean(axis=0)))


def check(found: Covered) -> None:
    # Binomial: 95 % of 1000 has a standard deviation of 0.7 %.
    for share in found[:3]:
        assert 0.93 <= share <= 0.97
    assert found.half_as_wide < 0.75  # the control: 67 % in theory


def test_intervals_cover_the_truth_in_95_percent_of_a_thousand_small_evaluations() -> None:
    check(coverage(rf.Task(dim=3, examples=8, noise="uniform:2"), 1000, 1000))


@pytest.mark.slow
def test_intervals_cover_the_truth_in_95_percent_of_a_thousand_evaluations_of_the_papers_size() -> None:
    check(coverage(rf.Task(), 5000, 1000))


# --- memory -----------------------------------------------------------------------------------------------------------

# The kernel's own record of the largest resident memory. That of getrusage begins with the parent's, which pytest makes
# large.
MEASURE = """
import re
from pathlib import Path
import ridgeformer as rf
from ridgeformer.evaluation import compare

class Step:
    def __init__(self, rate):
        self.rate = rate
    def weights(self, context):
        return self.rate * context.cross

predictors = {str(rate): Step(rate) for rate in (0.01, 0.02, 0.03)}
predictors["model"] = rf.LinearTransformer.init("diag", layers=2)
for sequences in (1000, 900_000, 4_500_000):
    compare(predictors, rf.Task(), sequences)
    print(1024 * int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_ten_million_sequences_of_four_predictors_would_fit_in_a_gigabyte() -> None:
    """Extrapolated from five millions, at the paper's size. The fewer are enough for two chunks to overlap."""
    for _ in range(3):  # how far chunks overlap is chance: 50 MB of them look like 140 MB at ten million
        none, few, many = map(int, run_python(MEASURE).split())
        each = (many - few) / 3_600_000
        if few + 10_000_000 * each < 1e9:
            break
    assert few + 10_000_000 * each < 1e9
    assert many - none > 4 * 4 * 4_500_000  # the control: the numbers see the four bytes kept of every loss
