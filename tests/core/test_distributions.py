"""Noise priors: what they draw, what they integrate, what they are called, what they refuse; and priors of the user."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

import ridgeformer as rf
from ridgeformer.core.distributions import PRIORS, is_builtin, load_noise, mean_variance, prior_name, prior_title
from ridgeformer.core.notation import Array
from support import refused

levels = st.floats(0.0, 1e6, allow_nan=False, allow_infinity=False)
positive = st.floats(1e-12, 1e6)
SAMPLES = 100_000
ONE_OF_EACH = [
    rf.Fixed(2.0),
    rf.Uniform(5.0),
    rf.Uniform(3.0, 1.0),
    rf.LogUniform(0.1, 10.0),
    rf.Categorical((1.0, 3.0)),
]


def drawn(prior: rf.NoisePrior, size: int = SAMPLES) -> Array:
    return prior.sample(np.random.default_rng(0), size)


# --- samples ----------------------------------------------------------------------------------------------------------


def test_fixed_prior_draws_its_level_only() -> None:
    assert np.array_equal(drawn(rf.Fixed(1.5), 4), [1.5] * 4)


def test_uniform_and_loguniform_priors_draw_from_their_distribution_functions() -> None:
    """And fail against each other's: the control."""
    uniform, loguniform = stats.uniform(0.5, 4.5).cdf, stats.loguniform(0.5, 5.0).cdf
    for prior, own, other in (
        (rf.Uniform(5.0, 0.5), uniform, loguniform),
        (rf.LogUniform(0.5, 5.0), loguniform, uniform),
    ):
        sigma = drawn(prior)
        assert (sigma.min() >= 0.5, sigma.max() <= 5.0) == (True, True)
        assert stats.kstest(sigma, own).pvalue > 1e-6
        assert stats.kstest(sigma, other).pvalue < 1e-6


def test_categorical_prior_draws_every_level_equally_often() -> None:
    values, counts = np.unique(drawn(rf.Categorical((1.0, 3.0, 5.0))), return_counts=True)
    assert values.tolist() == [1.0, 3.0, 5.0]
    # 5 standard deviations of a binomial count with probability 1/3.
    assert np.abs(counts - SAMPLES / 3).max() < 5 * math.sqrt(SAMPLES * 2 / 9)


@pytest.mark.parametrize("prior", ONE_OF_EACH)
def test_samples_of_a_prior_depend_on_nothing_but_the_generator(prior: rf.NoisePrior) -> None:
    assert np.array_equal(drawn(prior, 50), drawn(prior, 50))
    assert drawn(prior, 50).dtype == np.float64


# --- quadrature -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [1, 2, 5, 16])
def test_uniform_quadrature_integrates_polynomials_up_to_twice_its_nodes_exactly(nodes: int) -> None:
    low, high = 1.0, 3.0
    points, weights = rf.Uniform(high, low).quadrature(nodes)
    assert len(points) == len(weights) == nodes
    for power in range(2 * nodes):  # Gauss-Legendre is exact for degree 2·nodes − 1
        exact = (high ** (power + 1) - low ** (power + 1)) / ((power + 1) * (high - low))
        # Rounding of a sum of at most 16 terms of one sign, of powers up to 31: a few hundred eps at most.
        assert weights @ points**power == pytest.approx(exact, rel=1e-12)


def test_quadrature_with_too_few_nodes_is_not_exact() -> None:
    for prior, exact in ((rf.Uniform(3.0, 1.0), (3.0**5 - 1.0) / 10), (rf.LogUniform(1.0, 3.0), 80 / 4 / math.log(3))):
        points, weights = prior.quadrature(2)
        assert weights @ points**4 != pytest.approx(exact, rel=1e-3)


def log_mean(power: float, low: float, high: float) -> float:
    """E σᵏ of a loguniform σ: ∫ σ^(k−1) dσ / ln(high / low)."""
    return (high**power - low**power) / (power * math.log(high / low))


@pytest.mark.parametrize(
    ("prior", "mean", "square"),
    [
        (rf.Fixed(1.5), 1.5, 2.25),
        (rf.Uniform(5.0), 2.5, 25 / 3),
        (rf.Uniform(2.0, 2.0), 2.0, 4.0),
        (rf.LogUniform(0.5, 3.0), log_mean(1, 0.5, 3.0), log_mean(2, 0.5, 3.0)),
        (rf.LogUniform(0.1, 10.0), log_mean(1, 0.1, 10.0), log_mean(2, 0.1, 10.0)),
        (rf.LogUniform(2.0, 2.0), 2.0, 4.0),
        (rf.Categorical((1.0, 3.0)), 2.0, 5.0),
    ],
)
def test_quadrature_has_the_moments_of_the_prior(prior: rf.NoisePrior, mean: float, square: float) -> None:
    points, weights = prior.quadrature(24)  # e^(2 ln σ) over two decades needs about 20 for the last digit
    assert weights.sum() == pytest.approx(1.0, rel=1e-13)
    assert weights @ points == pytest.approx(mean, rel=1e-13)
    assert weights @ points**2 == pytest.approx(square, rel=1e-13)
    assert mean_variance(prior) == pytest.approx(square, rel=1e-13)
    assert (points >= 0).all()


# --- specs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "prior", "title"),
    [
        ("uniform:5", rf.Uniform(5.0), "σ ~ U(0, 5)"),
        ("uniform:0", rf.Uniform(0.0), "no noise (σmax = 0)"),
        ("uniform:1-3", rf.Uniform(3.0, 1.0), "σ ~ U(1, 3)"),
        ("uniform:0.5", rf.Uniform(0.5), "σ ~ U(0, 0.5)"),
        ("uniform:0.001", rf.Uniform(1e-3), "σ ~ U(0, 0.001)"),
        ("loguniform:0.1-10", rf.LogUniform(0.1, 10.0), "ln σ ~ U(ln 0.1, ln 10)"),
        ("loguniform:1e-05-0.5", rf.LogUniform(1e-5, 0.5), "ln σ ~ U(ln 1e-05, ln 0.5)"),
        ("categorical:1+3", rf.Categorical((1.0, 3.0)), "σ ∈ {1, 3}"),
        ("categorical:2", rf.Categorical((2.0,)), "σ ∈ {2}"),
        ("fixed:1", rf.Fixed(1.0), "σ = 1"),
        ("fixed:0", rf.Fixed(0.0), "σ = 0"),
    ],
)
def test_parse_noise_of_a_spec_gives_the_prior_which_has_this_spec(spec: str, prior: Any, title: str) -> None:
    """Model files and the zoo are named after the short specs."""
    assert rf.parse_noise(spec) == prior
    assert prior.spec == spec
    assert prior_title(spec) == prior_title(prior) == title
    assert rf.parse_noise(prior) is prior


@given(levels)
@example(1 / 3)
@example(1e-05)
def test_spec_of_a_fixed_prior_parsed_gives_the_prior_back(level: float) -> None:
    assert rf.parse_noise(rf.Fixed(level).spec) == rf.Fixed(level)


@given(levels, levels, positive, positive)
@example(1e-05, 0.0, 1e-05, 1e6)
@example(1.23456789, 1e-05, 1 / 3, 1 / 3)
def test_spec_of_an_interval_parsed_gives_the_prior_back(a: float, b: float, c: float, d: float) -> None:
    for prior in (rf.Uniform(max(a, b), min(a, b)), rf.LogUniform(min(c, d), max(c, d))):
        assert rf.parse_noise(prior.spec) == prior


@given(st.lists(levels, min_size=1, max_size=4))
@example([999999.5])
@example([1e6, 1 / 3])
def test_spec_of_a_categorical_prior_parsed_gives_the_prior_back(some: list[float]) -> None:
    prior = rf.Categorical(tuple(some))
    assert rf.parse_noise(prior.spec) == prior


def test_every_prior_of_the_registry_reads_its_own_example() -> None:
    assert list(PRIORS) == ["uniform", "loguniform", "categorical", "fixed"]
    for name, entry in PRIORS.items():
        prior = rf.parse_noise(entry.form)
        assert (type(prior), prior.spec) == (entry, entry.form)
        assert name == entry.name
        assert is_builtin(prior)


BAD_SPECS = """
 : uniform uniform: uniform:-1 uniform:-1-3 uniform:1--3 uniform:3-1 uniform:5- uniform:nan uniform:inf uniform:five
Uniform:5 normal:1 fixed: fixed:-1 fixed:nan fixed:inf fixed:1,2 categorical: categorical:1+ categorical:1++3
categorical:1+-3 categorical:1+nan loguniform: loguniform:5 loguniform:0-1 loguniform:2-1 loguniform:-1-1
loguniform:1-inf loguniform:1-2-3 uniform:5(1) os:getcwd os:getcwd()
"""


@pytest.mark.parametrize("spec", ["", *BAD_SPECS.split(), "uniform:5\n", "uniform:" + "9" * 10_000 + "x"])
def test_bad_spec_is_refused_in_one_sentence(spec: str) -> None:
    refused("", rf.parse_noise, spec)
    if not spec.startswith("os"):  # a class of a module, to `load_noise`
        refused("", load_noise, spec)


@pytest.mark.parametrize("not_a_prior", [None, 5, 5.0, ["uniform:5"], object(), rf.Uniform])
def test_parse_noise_of_something_else_is_refused(not_a_prior: Any) -> None:
    refused("A noise prior is", rf.parse_noise, not_a_prior)
    refused("A noise prior is", load_noise, not_a_prior)


@pytest.mark.parametrize("level", [-1.0, -1e-300, math.nan, math.inf, -math.inf, "1", None, [1.0], 1j])
def test_priors_of_a_bad_level_are_refused(level: Any) -> None:
    refused("level", rf.Fixed, level)
    refused("level", rf.Uniform, level)
    refused("level", rf.Uniform, 5.0, level)
    refused("level", rf.LogUniform, 1.0, level)
    refused("level", rf.LogUniform, level, 1.0)
    refused("level", rf.Categorical, (1.0, level))


@pytest.mark.parametrize("some", [(), 3.0, "13", None])
def test_categorical_prior_without_levels_is_refused(some: Any) -> None:
    refused("at least one level", rf.Categorical, some)


def test_prior_with_low_above_high_or_a_loguniform_from_zero_is_refused() -> None:
    refused("low ≤ high", rf.Uniform, 1.0, 2.0)
    refused("low ≤ high", rf.LogUniform, 2.0, 1.0)
    refused("low > 0", rf.LogUniform, 0.0, 1.0)


@pytest.mark.parametrize("nodes", [0, -1, 1.5, "8"])
def test_quadrature_with_a_bad_number_of_nodes_is_refused(nodes: Any) -> None:
    refused("nodes", rf.Uniform(1.0).quadrature, nodes)
    refused("nodes", rf.LogUniform(1.0, 2.0).quadrature, nodes)


# --- priors of the user -----------------------------------------------------------------------------------------------


class HalfNormal:
    """A prior of the user's own: σ = |N(0, 1)|, with a quadrature of equally likely quantiles."""

    spec = "half-normal"

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return np.abs(rng.standard_normal(size))

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        return np.linspace(0, 2, nodes), np.full(nodes, 1 / nodes)


@pytest.mark.parametrize("examples", [8, 2])
@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_prior_of_the_user_s_own_draws_the_contexts_of_a_task(examples: int, backend: str) -> None:
    task = rf.Task(3, examples, HalfNormal())
    sigma = task.draw_sigma(1000, seed=0)
    assert np.array_equal(task.draw_contexts(1000, seed=0, backend=backend).sigma, sigma)
    assert np.array_equal(task.draw_tokens(1000, seed=0).sigma, sigma)
    # E|N(0, 1)| = sqrt(2/π), variance 1 − 2/π; 5 standard errors.
    assert abs(sigma.mean() - math.sqrt(2 / math.pi)) < 5 * math.sqrt((1 - 2 / math.pi) / 1000)
    model = rf.LinearTransformer.init("diag", layers=1, dim=3, dtype=np.float64)
    loss, gradient = rf.loss_and_gradient(model, task, batch=10, seed=0, backend=backend)
    assert loss > 0
    assert np.isfinite(gradient.flatten()).all()


def test_prior_of_the_user_s_own_is_named_and_is_no_built_in_one_whatever_its_spec() -> None:
    impostor = type("Loud", (rf.Uniform,), {})(5)
    assert (impostor.spec, is_builtin(impostor)) == ("uniform:5", False)
    assert not is_builtin(HalfNormal())
    assert prior_name(HalfNormal()).endswith("test_distributions:HalfNormal")
    assert prior_title(HalfNormal()) == "σ ~ half-normal"
    assert prior_title(impostor) == "σ ~ uniform:5"
    assert rf.Task(noise=impostor) != rf.Task(noise="uniform:5")


class Broken(HalfNormal):
    """A prior that draws whatever it is told to."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return self.result(size)


@pytest.mark.parametrize(
    "result",
    [
        *(lambda size, bad=bad: np.full(size, bad) for bad in (-1.0, np.nan, np.inf)),
        lambda size: np.ones(size + 1),
        lambda size: np.ones((size, 1)),
        lambda size: 1.0,
        lambda size: None,
        lambda size: ["loud"] * size,
        lambda size: [[1.0], [1.0, 2.0], 3.0, 4.0],
    ],
)
def test_prior_that_draws_something_else_is_refused_by_the_task(result: Any) -> None:
    task, model = rf.Task(2, 5, Broken(result)), rf.LinearTransformer.init("diag", layers=1, dim=2)
    for draw in (task.draw_sigma, task.draw_tokens, task.draw_contexts):
        refused("half-normal", draw, 4, seed=0)
    refused("half-normal", rf.loss_and_gradient, model, task, batch=4, seed=0, backend="reference")


# --- priors named on the shell ----------------------------------------------------------------------------------------

MODULE = """
from pathlib import Path
Path(__file__).with_suffix(".imported").touch()

class Two:
    spec = "two"
    def __init__(self, first=1.0, second=2.0, *, name="two"):
        self.levels = (first, second)
        self.spec = name
    def sample(self, rng, size):
        return rng.choice(self.levels, size)
    def quadrature(self, nodes):
        return self.levels, (0.5, 0.5)

class Bare:
    pass

def fails():
    raise ValueError("not today")

number = 5
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module in the current folder; its import leaves the file that is returned."""
    (tmp_path / "my_priors.py").write_text(MODULE)
    (tmp_path / "broken_priors.py").write_text("import no_such_module")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_priors", raising=False)
    return tmp_path / "my_priors.imported"


@pytest.mark.parametrize(
    ("text", "levels", "spec"),
    [
        ("my_priors:Two", (1.0, 2.0), "two"),
        ("my_priors:Two()", (1.0, 2.0), "two"),
        ("my_priors:Two(3)", (3, 2.0), "two"),
        ("my_priors:Two(0.5, second=1e-3)", (0.5, 1e-3), "two"),
        ("my_priors:Two(-1, name='mine')", (-1, 2.0), "mine"),
    ],
)
def test_load_noise_makes_the_prior_that_is_named(own_module: Path, text: str, levels: Any, spec: str) -> None:
    prior: Any = load_noise(text)
    assert (prior.levels, prior.spec, prior_name(prior)) == (levels, spec, "my_priors:Two")
    assert own_module.exists()


def test_load_noise_of_specs_and_priors_is_parse_noise_and_imports_nothing(own_module: Path) -> None:
    before = list(sys.path)
    for entry in PRIORS.values():
        assert load_noise(entry.form) == rf.parse_noise(entry.form)
    prior = HalfNormal()
    assert load_noise(prior) is prior
    assert sys.path == before
    assert not own_module.exists()


@pytest.mark.parametrize("text", ["my_priors:Two", "my_priors:Two(1)", "my_priors", "my_priors:", "my_priors.Two"])
def test_nothing_but_load_noise_ever_imports(own_module: Path, text: str) -> None:
    """Specs come from files too: a model file could name any module."""
    model = rf.LinearTransformer(
        "diag", 3, {"p": np.ones((1, 1, 2)), "q": np.ones((1, 1, 2))}, {"task": {"noise": text}}
    )
    refused("Cannot read the noise prior", rf.parse_noise, text)
    refused("Cannot read the noise prior", rf.Task, noise=text)
    refused("Cannot read the noise prior", rf.evaluate, model, text)
    refused("Cannot read the noise prior", rf.baselines.Bayes, text)
    assert text in repr(model) or "training" not in model.info
    assert not own_module.exists()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("no_such_module:Prior", "Cannot import no_such_module"),
        ("broken_priors:Two", "Cannot import broken_priors.*no_such_module"),
        ("my_priors:Three", "my_priors has no Three"),
        ("my_priors:Bare", "A noise prior is"),
        ("my_priors:number", "Cannot make the noise prior"),
        ("my_priors:fails", "Cannot make.*not today"),
        ("my_priors:Two(1, 2, 3)", "Cannot make"),
        ("my_priors:Two(colour=1)", "Cannot make.*colour"),
        ("my_priors:Two(open('x'))", "must be plain numbers"),
        ("my_priors:Two(1 if 2 else 3)", "must be plain numbers"),
        ("my_priors:Two(*[1, 2])", "must be plain numbers"),
        ("my_priors:Two(**{'first': 1})", "must be plain numbers"),
        ("my_priors:Two(1", "Cannot read"),
        ("my_priors:Two)(", "Cannot read"),
        ("my_priors:Two(1)(2)", "must be plain numbers"),
        ("my_priors:Two.levels", "Cannot read"),
    ],
)
def test_load_noise_that_fails_says_why_in_one_sentence(own_module: Path, text: str, match: str) -> None:
    refused(match, load_noise, text)
    assert not Path("x").exists()
    if "plain numbers" in match or "read" in match:
        assert not own_module.exists()


@pytest.mark.parametrize(
    "spec", ["fixed:1e308", "uniform:1e9", "uniform:0-1e7", "categorical:1+1e20", "loguniform:1-1e9"]
)
def test_levels_whose_squares_could_overflow_are_refused(spec: str) -> None:
    refused("must be at most 1e", rf.parse_noise, spec)
