"""Noise priors: what they draw, what they integrate, what they are called, what they refuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import ridgeformer as rf
from ridgeformer.core.notation import Array
from support import one_sentence

levels = st.floats(0.0, 1e12, allow_nan=False, allow_infinity=False)
SAMPLES = 100_000


def drawn(prior: rf.NoisePrior, size: int = SAMPLES) -> Array:
    return prior.sample(np.random.default_rng(0), size)


def test_fixed_prior_draws_its_level_only() -> None:
    assert np.array_equal(drawn(rf.Fixed(1.5), 4), [1.5] * 4)


def test_uniform_prior_draws_within_its_range_with_its_mean_and_variance() -> None:
    sigma = drawn(rf.Uniform(5.0, low=1.0))
    assert sigma.shape == (SAMPLES,)
    assert sigma.min() >= 1.0
    assert sigma.max() <= 5.0
    # U(1, 5): mean 3, variance 16/12. 5 standard errors of the mean, and of the variance (E(x−3)⁴ = 4⁴/80).
    assert abs(sigma.mean() - 3.0) < 5 * math.sqrt(16 / 12 / SAMPLES)
    assert abs(sigma.var() - 16 / 12) < 5 * math.sqrt((4**4 / 80 - (16 / 12) ** 2) / SAMPLES)


def test_categorical_prior_draws_every_level_equally_often() -> None:
    values, counts = np.unique(drawn(rf.Categorical((1.0, 3.0, 5.0))), return_counts=True)
    assert values.tolist() == [1.0, 3.0, 5.0]
    # 5 standard deviations of a binomial count with probability 1/3.
    assert np.abs(counts - SAMPLES / 3).max() < 5 * math.sqrt(SAMPLES * 2 / 9)


@pytest.mark.parametrize("prior", [rf.Fixed(2.0), rf.Uniform(5.0), rf.Uniform(3.0, 1.0), rf.Categorical((1.0, 3.0))])
def test_samples_of_a_prior_depend_on_nothing_but_the_generator(prior: rf.NoisePrior) -> None:
    assert np.array_equal(drawn(prior, 50), drawn(prior, 50))
    assert drawn(prior, 50).dtype == np.float64


@pytest.mark.parametrize("nodes", [1, 2, 5, 16])
def test_uniform_quadrature_integrates_polynomials_up_to_twice_its_nodes_exactly(nodes: int) -> None:
    low, high = 1.0, 3.0
    points, weights = rf.Uniform(high, low).quadrature(nodes)
    assert len(points) == len(weights) == nodes
    for power in range(2 * nodes):  # Gauss-Legendre is exact for degree 2·nodes − 1
        exact = (high ** (power + 1) - low ** (power + 1)) / ((power + 1) * (high - low))
        # Rounding of a sum of at most 16 terms of one sign, of powers up to 31: a few hundred eps at most.
        assert weights @ points**power == pytest.approx(exact, rel=1e-12)


def test_uniform_quadrature_with_too_few_nodes_is_not_exact() -> None:
    points, weights = rf.Uniform(3.0, 1.0).quadrature(2)
    exact = (3.0**5 - 1.0) / (5 * 2.0)
    assert weights @ points**4 != pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize(
    ("prior", "mean", "square"),
    [
        (rf.Fixed(1.5), 1.5, 2.25),
        (rf.Uniform(5.0), 2.5, 25 / 3),
        (rf.Uniform(2.0, 2.0), 2.0, 4.0),
        (rf.Categorical((1.0, 3.0)), 2.0, 5.0),
    ],
)
def test_quadrature_has_the_moments_of_the_prior(prior: rf.NoisePrior, mean: float, square: float) -> None:
    points, weights = prior.quadrature(8)
    assert weights.sum() == pytest.approx(1.0, rel=1e-14)
    assert weights @ points == pytest.approx(mean, rel=1e-14)
    assert weights @ points**2 == pytest.approx(square, rel=1e-14)
    assert (points >= 0).all()


@pytest.mark.parametrize(
    ("spec", "prior"),
    [
        ("uniform:5", rf.Uniform(5.0)),
        ("uniform:0", rf.Uniform(0.0)),
        ("uniform:1-3", rf.Uniform(3.0, 1.0)),
        ("uniform:0.5", rf.Uniform(0.5)),
        ("uniform:1e-3", rf.Uniform(1e-3)),
        ("categorical:1+3", rf.Categorical((1.0, 3.0))),
        ("categorical:1+3+5", rf.Categorical((1.0, 3.0, 5.0))),
        ("categorical:2", rf.Categorical((2.0,))),
        ("fixed:1", rf.Fixed(1.0)),
        ("fixed:0", rf.Fixed(0.0)),
    ],
)
def test_parse_noise_of_a_spec_gives_the_prior(spec: str, prior: rf.NoisePrior) -> None:
    assert rf.parse_noise(spec) == prior


def test_spec_of_the_paper_s_priors_is_the_short_one() -> None:
    """Model files and the zoo are named after these."""
    assert [rf.Uniform(5.0).spec, rf.Uniform(3.0, 1.0).spec, rf.Fixed(1).spec] == [
        "uniform:5",
        "uniform:1-3",
        "fixed:1",
    ]
    assert rf.Categorical((1.0, 3.0)).spec == "categorical:1+3"


@given(levels)
@example(1 / 3)
@example(1e-05)
def test_spec_of_a_fixed_prior_parsed_gives_the_prior_back(level: float) -> None:
    assert rf.parse_noise(rf.Fixed(level).spec) == rf.Fixed(level)


@given(levels, levels)
@example(1e-05, 0.0)
@example(1.23456789, 1e-05)
def test_spec_of_a_uniform_prior_parsed_gives_the_prior_back(one: float, other: float) -> None:
    prior = rf.Uniform(max(one, other), min(one, other))
    assert rf.parse_noise(prior.spec) == prior


@given(st.lists(levels, min_size=1, max_size=4))
@example([1e16])
@example([1e6, 1 / 3])
def test_spec_of_a_categorical_prior_parsed_gives_the_prior_back(some: list[float]) -> None:
    prior = rf.Categorical(tuple(some))
    assert rf.parse_noise(prior.spec) == prior


def test_parse_noise_of_a_prior_passes_it_through() -> None:
    prior = rf.Uniform(2.0)
    assert rf.parse_noise(prior) is prior


@pytest.mark.parametrize(
    "spec",
    [
        "",
        ":",
        "uniform",
        "uniform:",
        "uniform:-1",
        "uniform:-1-3",
        "uniform:1--3",
        "uniform:3-1",
        "uniform:5-",
        "uniform:nan",
        "uniform:inf",
        "uniform:five",
        "Uniform:5",
        "normal:1",
        "fixed:",
        "fixed:-1",
        "fixed:nan",
        "fixed:inf",
        "fixed:1,2",
        "categorical:",
        "categorical:1+",
        "categorical:1++3",
        "categorical:1+-3",
        "categorical:1+nan",
    ],
)
def test_parse_noise_of_a_bad_spec_says_so_in_one_sentence(spec: str) -> None:
    with pytest.raises(rf.InputError) as caught:
        rf.parse_noise(spec)
    one_sentence(caught.value)


@pytest.mark.parametrize("not_a_prior", [None, 5, 5.0, ["uniform:5"], object(), rf.Uniform])
def test_parse_noise_of_something_else_is_refused(not_a_prior: Any) -> None:
    with pytest.raises(rf.InputError) as caught:
        rf.parse_noise(not_a_prior)
    one_sentence(caught.value)


@pytest.mark.parametrize("level", [-1.0, -1e-300, math.nan, math.inf, -math.inf, "1", None, [1.0], 1j])
def test_priors_of_a_bad_level_are_refused(level: Any) -> None:
    for make in (rf.Fixed, rf.Uniform, lambda v: rf.Uniform(5.0, v), lambda v: rf.Categorical((1.0, v))):
        with pytest.raises(rf.InputError) as caught:
            make(level)
        one_sentence(caught.value)


@pytest.mark.parametrize("some", [(), 3.0, "13", None])
def test_categorical_prior_without_levels_is_refused(some: Any) -> None:
    with pytest.raises(rf.InputError) as caught:
        rf.Categorical(some)
    one_sentence(caught.value)


def test_uniform_prior_with_low_above_high_is_refused() -> None:
    with pytest.raises(rf.InputError, match="low"):
        rf.Uniform(1.0, 2.0)


@pytest.mark.parametrize("nodes", [0, -1, 1.5, "8"])
def test_uniform_quadrature_with_a_bad_number_of_nodes_is_refused(nodes: Any) -> None:
    with pytest.raises(rf.InputError) as caught:
        rf.Uniform(1.0).quadrature(nodes)
    one_sentence(caught.value)


class HalfNormal:
    """A prior of the user's own: σ = |N(0, 1)|, with a quadrature of equally likely quantiles."""

    spec = "half-normal"

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return np.abs(rng.standard_normal(size))

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        return np.linspace(0, 2, nodes), np.full(nodes, 1 / nodes)


@pytest.mark.parametrize(("dim", "context"), [(3, 8), (3, 2)])
@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_prior_of_the_user_s_own_draws_the_contexts_of_a_task(dim: int, context: int, backend: str) -> None:
    task = rf.Task(dim, context, HalfNormal())
    sigma = task.draw_sigma(1000, seed=0)
    assert np.array_equal(task.draw_contexts(1000, seed=0, backend=backend).sigma, sigma)
    assert np.array_equal(task.draw_tokens(1000, seed=0).sigma, sigma)
    # E|N(0, 1)| = sqrt(2/π), variance 1 − 2/π; 5 standard errors.
    assert abs(sigma.mean() - math.sqrt(2 / math.pi)) < 5 * math.sqrt((1 - 2 / math.pi) / 1000)
    model = rf.LinearTransformer.init("diag", layers=1, dim=dim, dtype=np.float64)
    loss, gradient = rf.loss_and_gradient(model, task, batch=10, seed=0, backend=backend)
    assert loss > 0
    assert np.isfinite(gradient.flatten()).all()


class Broken(HalfNormal):
    """A prior that draws whatever it is told to."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return self.result(size)


@pytest.mark.parametrize(
    "result",
    [
        lambda size: np.full(size, -1.0),
        lambda size: np.full(size, np.nan),
        lambda size: np.full(size, np.inf),
        lambda size: np.ones(size + 1),
        lambda size: np.ones((size, 1)),
        lambda size: 1.0,
        lambda size: None,
        lambda size: ["loud"] * size,
        lambda size: [[1.0], [1.0, 2.0], 3.0, 4.0],
    ],
)
def test_prior_that_draws_something_else_is_refused_by_the_task(result: Any) -> None:
    task = rf.Task(2, 5, Broken(result))
    model = rf.LinearTransformer.init("diag", layers=1, dim=2)
    for draw in (
        lambda: task.draw_sigma(4, seed=0),
        lambda: task.draw_tokens(4, seed=0),
        lambda: task.draw_contexts(4, seed=0),
        lambda: rf.loss_and_gradient(model, task, batch=4, seed=0, backend="reference"),
    ):
        with pytest.raises(rf.InputError, match="half-normal") as caught:
            draw()
        one_sentence(caught.value)
