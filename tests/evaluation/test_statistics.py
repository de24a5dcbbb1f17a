"""Streaming statistics against NumPy on the whole array."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from ridgeformer.core.notation import Array
from ridgeformer.evaluation import Comparison, Difference, Evaluation, statistics
from ridgeformer.evaluation.statistics import TAIL_DOMINATED, Moments, Tail, Tally

# Sums of 10 000 float64 numbers: a few hundred roundings at most, pairwise.
CLOSE = 1e-12


def in_chunks(values: Array, chunk: int) -> list[Array]:
    return [values[..., start : start + chunk] for start in range(0, values.shape[-1], chunk)]


def heavy(count: int, seed: int = 0) -> Array:
    return np.exp(2 * np.random.default_rng(seed).standard_normal(count))


@pytest.mark.parametrize("chunk", [1, 7, 333, 4096, 10_001, 20_000])
def test_moments_of_chunks_are_those_of_the_whole(chunk: int) -> None:
    rng = np.random.default_rng(0)
    # A mean 10⁶ times the spread, where the textbook formula E x² − (E x)² keeps four digits of the variance.
    values = np.stack([heavy(10_001), 1e6 + rng.standard_normal(10_001), rng.standard_normal(10_001)])
    moments = Moments(3)
    for part in in_chunks(values, chunk):
        moments.add(part)
    assert moments.count == 10_001
    np.testing.assert_allclose(moments.mean, values.mean(axis=1), rtol=CLOSE, atol=CLOSE)
    # Of 1e6 + z, the deviations themselves are only known to 1e6·eps.
    np.testing.assert_allclose(moments.variance, values.var(axis=1, ddof=1), rtol=1e-10)
    np.testing.assert_allclose(moments.error, np.sqrt(values.var(axis=1, ddof=1) / 10_001), rtol=1e-10)


def test_textbook_variance_fails_the_same_test() -> None:
    values = 1e6 + np.random.default_rng(0).standard_normal(10_001)
    textbook = (values**2).mean() - values.mean() ** 2
    assert abs(textbook / values.var() - 1) > 1e-10


def test_moments_of_one_value_have_no_error() -> None:
    moments = Moments(1)
    moments.add(np.ones((1, 1)))
    assert moments.error[0] == math.inf


@pytest.mark.parametrize("count", [1, 2, 3, 99, 100, 101, 1000, 10_001])
@pytest.mark.parametrize("chunk", [7, 333])
def test_evaluation_of_chunks_is_that_of_numpy_on_the_whole(count: int, chunk: int) -> None:
    adjusted, losses = heavy(count), heavy(count, seed=1)
    tally = Tally(count)
    for a, b in zip(in_chunks(adjusted, chunk), in_chunks(losses, chunk), strict=True):
        tally.add(a, b)
    found = tally.evaluation()
    assert found.median == np.median(adjusted)
    assert found.p99 == np.quantile(adjusted, 0.99, method="higher")
    assert found.maximum == adjusted.max()
    assert (found.sequences, found.diverged) == (count, 0)
    assert found.adjusted_loss == pytest.approx(adjusted.mean(), rel=CLOSE)
    assert found.loss == pytest.approx(losses.mean(), rel=CLOSE)
    worst = np.sort(adjusted)[-max(1, math.ceil(count / 100)) :]
    assert found.top_share == pytest.approx(worst.sum() / adjusted.sum(), rel=CLOSE)
    if count > 1:
        assert found.standard_error == pytest.approx(adjusted.std(ddof=1) / math.sqrt(count), rel=1e-10)
        assert found.loss_error == pytest.approx(losses.std(ddof=1) / math.sqrt(count), rel=1e-10)


def test_quantiles_of_very_many_sequences_are_right_to_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "EXACT_QUANTILES", 1000)
    values = heavy(1001)
    tail = Tail(1001)
    tail.add(values)
    median, p99, top_share = tail.summary(float(values.mean()))
    half_a_step = 2.0**-24  # rounding to 24 bits
    assert median == pytest.approx(np.median(values), rel=half_a_step)
    assert median != np.median(values)  # the control: values are indeed kept in float32
    assert p99 == pytest.approx(np.quantile(values, 0.99, method="higher"), rel=half_a_step)
    assert top_share == pytest.approx(np.sort(values)[-11:].sum() / values.sum(), rel=half_a_step)
    assert tail.maximum == values.max()


def test_losses_beyond_float32_are_counted_as_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "EXACT_QUANTILES", 0)
    found = Evaluation.of(np.array([1.0, 2.0, 1e60]))
    assert (found.diverged, found.maximum, found.median) == (0, 1e60, 2.0)
    assert found.adjusted_loss == pytest.approx(1e60 / 3)
    assert found.top_share == 1.0


def test_sequences_that_are_not_finite_make_the_mean_infinite_and_are_counted() -> None:
    losses = np.r_[np.ones(500), np.inf, np.nan, np.ones(500)]
    tally = Tally(1002)
    for part in in_chunks(np.where(np.isnan(losses), np.inf, losses), 100):
        tally.add(part, part)
    for found in (tally.evaluation(), Evaluation.of(losses, losses)):
        assert found.adjusted_loss == found.standard_error == found.loss == found.loss_error == math.inf
        assert (found.median, found.p99, found.diverged) == (1.0, 1.0, 2)
        assert found.top_share == 1.0
        assert found.tail_dominated
        assert found.interval == (-math.inf, math.inf)


def test_evaluation_keeps_its_first_fields_and_adds_new_ones_with_defaults() -> None:
    """Other code builds it from seven numbers and writes it with asdict."""
    found = Evaluation(1.0, 0.1, 0.5, 3.0, 9.0, 100, 0)
    names = ["adjusted_loss", "standard_error", "median", "p99", "maximum", "sequences", "diverged"]
    assert list(dataclasses.asdict(found)) == [*names, "loss", "loss_error", "top_share"]
    assert not found.tail_dominated


def test_interval_is_two_standard_errors_to_either_side() -> None:
    found = Evaluation(1.0, 0.1, 0.5, 3.0, 9.0, 100, 0, loss=2.0, loss_error=0.2)
    assert found.interval == pytest.approx((0.804, 1.196), abs=1e-3)  # 1.96 standard errors
    assert found.loss_interval == pytest.approx((1.608, 2.392), abs=1e-3)


@pytest.mark.parametrize(("index", "dominated"), [(3.0, False), (2.0, False), (1.05, True)])
def test_pareto_tails_are_called_dominating_when_the_mean_hardly_exists(index: float, dominated: bool) -> None:
    """The share of the worst 1 % is 0.01^(1 − 1/a): 0.05, 0.1 and 0.8; the threshold is at a = 1.18."""
    places = (np.arange(100_000) + 0.5) / 100_000
    found = Evaluation.of(places ** (-1 / index))
    assert found.tail_dominated == dominated
    assert dominated == (0.01 ** (1 - 1 / index) > TAIL_DOMINATED)
    if not dominated:  # the grid stands in for the distribution where its mean converges
        assert found.top_share == pytest.approx(0.01 ** (1 - 1 / index), rel=0.05)


def test_no_loss_at_all_has_no_tail() -> None:
    found = Evaluation.of(np.zeros(1000), np.ones(1000))
    assert (found.adjusted_loss, found.standard_error, found.top_share) == (0.0, 0.0, 0.01)


# --- in words ---------------------------------------------------------------------------------------------------------

EXTREMES = [0.0, 1e-300, 1.23456789e-5, 0.123456789, 123456.789, 1.2345e300, math.inf, math.nan]


@pytest.mark.parametrize("value", EXTREMES)
def test_repr_of_an_evaluation_is_a_few_short_lines(value: float) -> None:
    found = Evaluation(value, value, value, value, value, 10**9, 10**9, value, value, 0.9)
    lines = repr(found).splitlines()
    assert lines[0] == "Evaluation on 1,000,000,000 sequences"
    assert len(lines) <= 4
    assert max(map(len, lines)) <= 100
    assert "Diverged: 1,000,000,000 sequences" in lines[-1]
    assert "Tail-dominated" in repr(dataclasses.replace(found, diverged=0))


@pytest.mark.parametrize("value", EXTREMES)
def test_repr_of_a_comparison_is_a_line_for_each_predictor(value: float) -> None:
    names = ["model", "Bayes limit", "IterativeAdaRR"]
    cells = {name: Evaluation(value, value, value, value, value, 10**9, 0, top_share=0.9) for name in names}
    cells["model"] = Evaluation(0.05, 0.001, 0.04, 0.1, 0.2, 10**9, 0)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    for differences in ((), tuple(Difference(a, b, value, value) for a, b in pairs)):
        title, *lines = repr(Comparison(cells, differences)).splitlines()
        assert title.startswith("Comparison of 3 predictors on 1,000,000,000 sequences")
        assert [line[2:16].strip() for line in lines] == names
        assert max(map(len, [title, *lines])) <= 100
        assert ["tail-dominated" in line for line in lines] == [False, True, True]
        assert ("against" in "".join(lines)) == bool(differences)
