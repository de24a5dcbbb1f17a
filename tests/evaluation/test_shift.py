"""Each shift has the statistics it claims, and none of them at its neutral value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import ridgeformer as rf
from ridgeformer.core.notation import Array
from ridgeformer.core.random import Purpose, token_rng
from ridgeformer.evaluation import Shifted, parse_shift, shift
from ridgeformer.evaluation.scoring import half_square
from ridgeformer.evaluation.shift import SHIFTS, Tokens
from support import refused, within_standard_errors

TASK = rf.Task(dim=4, examples=12, noise="uniform:0.5-3")
BATCH = 20_000


def tokens(spec: str, task: rf.Task = TASK, batch: int = BATCH, seed: int = 0) -> tuple[Tokens, Array]:
    return Shifted(task, spec).draw_tokens(batch, seed=seed)


# --- what each scenario does ------------------------------------------------------------------------------------------


def test_unshifted_tokens_are_those_of_the_task() -> None:
    found, y = tokens("none", batch=50)
    drawn = TASK.draw_tokens(50, seed=0)
    np.testing.assert_array_equal(found.X, drawn.X)
    np.testing.assert_array_equal(found.weights, drawn.weights)
    np.testing.assert_allclose(y, drawn.y, rtol=0, atol=1e-13)  # the noise is found by subtraction


NEUTRAL = ["examples:12", "noise:1", "kappa:1", "student:inf", "outliers:0x10", "outliers:0.5x1", "scale:1", "rows:0"]


@pytest.mark.parametrize("spec", [*NEUTRAL, "+".join(NEUTRAL[:5] + NEUTRAL[6:])])
def test_scenario_at_its_neutral_value_changes_nothing(spec: str) -> None:
    (plain, plain_y), (found, y) = tokens("none", batch=50), tokens(spec, batch=50)
    np.testing.assert_array_equal(y, plain_y)
    for name, value in vars(plain).items():
        np.testing.assert_array_equal(getattr(found, name), value)


def test_sigma_at_the_tasks_own_fixed_level_changes_nothing() -> None:
    task = rf.Task(4, 12, "fixed:2")
    np.testing.assert_array_equal(tokens("sigma:2", task, 50)[1], tokens("none", task, 50)[1])


@pytest.mark.parametrize("kappa", [10.0, 1000.0])
def test_kappa_gives_features_of_that_condition_number_and_trace_d(kappa: float) -> None:
    found, _ = tokens(f"kappa:{kappa:g}")
    assert found.variances.max() / found.variances.min() == pytest.approx(kappa)
    assert found.variances.sum() == pytest.approx(4)
    rows = found.X[:, 0]
    assert within_standard_errors(rows[:, :, None] * rows[:, None, :], np.diag(found.variances))
    assert not within_standard_errors(rows[:, :, None] * rows[:, None, :], np.eye(4))
    assert np.ptp(np.diff(np.log(found.variances))) < 1e-12  # evenly spaced on a log scale


@pytest.mark.parametrize("degrees", [3.0, 9.0])
def test_student_noise_has_t_quantiles_and_variance_sigma_squared(degrees: float) -> None:
    found, _ = tokens(f"student:{degrees:g}")
    t = (found.noise / found.sigma[:, None]).ravel() / math.sqrt((degrees - 2) / degrees)
    assert stats.kstest(t, "t", args=(degrees,)).pvalue > 1e-6
    assert stats.kstest(t, "norm").pvalue < 1e-6  # the control


def test_student_noise_has_the_kurtosis_of_its_degrees_of_freedom() -> None:
    """Excess kurtosis 6/(ν − 4): 0.75 at ν = 12, with a finite eighth moment, so that its estimate has an error bar."""
    found, _ = tokens("student:12")
    unit = (found.noise / found.sigma[:, None]).ravel()
    assert within_standard_errors(unit**2, 1.0)
    assert within_standard_errors(unit**4, 3.75)
    assert not within_standard_errors(unit**4, 3.0)


def test_student_noise_without_variance_is_scaled_by_sigma() -> None:
    found, _ = tokens("student:1.5")
    assert stats.kstest((found.noise / found.sigma[:, None]).ravel(), "t", args=(1.5,)).pvalue > 1e-6


def test_outliers_have_their_share_and_their_factor() -> None:
    (plain, _), (found, _) = tokens("none"), tokens("outliers:0.05x10")
    growth = found.noise / plain.noise
    hit = np.isclose(growth, 10)
    assert (hit | np.isclose(growth, 1)).all()
    assert within_standard_errors(hit.reshape(-1, 1).astype(float), 0.05)
    np.testing.assert_allclose(found.sigma, plain.sigma * math.sqrt(1 + 0.05 * 99))
    assert within_standard_errors((found.noise / found.sigma[:, None]).reshape(-1, 1) ** 2, 1.0)


@pytest.mark.parametrize("correlation", [0.8, -0.5])
def test_rows_are_autoregressive_with_unit_variance(correlation: float) -> None:
    X = tokens(f"rows:{correlation}")[0].X
    assert within_standard_errors(X**2, 1.0)
    for lag in (1, 2, 3):
        assert within_standard_errors(X[:, lag:, 0] * X[:, :-lag, 0], correlation**lag)
    assert within_standard_errors(X[:, 1:, 0] * X[:, :-1, 1], 0.0)  # features stay independent of each other


def test_scale_and_noise_multiply_weights_and_noise() -> None:
    plain, _ = tokens("none", batch=50)
    found, y = tokens("scale:3+noise:2", batch=50)
    np.testing.assert_allclose(found.weights, 3 * plain.weights)
    np.testing.assert_allclose(found.noise, 2 * plain.noise)
    np.testing.assert_allclose(found.sigma, 2 * plain.sigma)
    np.testing.assert_allclose(y, np.einsum("bnd,bd->bn", plain.X, 3 * plain.weights) + 2 * plain.noise)


def test_examples_and_sigma_change_what_is_drawn() -> None:
    found, y = tokens("examples:30+sigma:8")
    assert found.X.shape == (BATCH, 30, 4)
    assert (found.sigma == 8).all()
    noise = y - np.einsum("bnd,bd->bn", found.X, found.weights)
    assert within_standard_errors(noise.reshape(-1, 1) ** 2, 64.0)


def test_scenarios_combine_in_any_order() -> None:
    specs = ["kappa:10", "student:5", "rows:0.5", "outliers:0.1x5", "scale:2", "noise:2", "examples:7"]
    forth, back = ("+".join(order) for order in (specs, specs[::-1]))
    one, other = (Shifted(TASK, spec).draw(50, seed=3) for spec in (forth, back))
    np.testing.assert_allclose(one.context.gram, other.context.gram, rtol=1e-10)
    np.testing.assert_allclose(one.oracle, other.oracle, rtol=1e-8)
    assert one.context.examples == 7


def test_chunks_are_draws_of_consecutive_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shift, "_NUMBERS", 4 * 12 * 100)
    shifted = Shifted(TASK, "student:5")
    sizes = []
    for step, draw in enumerate(shifted.chunks(250, seed=1)):
        again = shifted.draw(len(draw.sigma), seed=1, step=step, purpose=Purpose.EVALUATE)
        np.testing.assert_array_equal(draw.context.gram, again.context.gram)
        sizes.append(len(draw.sigma))
    assert sizes == [100, 100, 50]


def test_what_scenarios_draw_comes_from_streams_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []

    def recorded(seed: int, purpose: Purpose, step: int) -> np.random.Generator:
        steps.append(step)
        return token_rng(seed, purpose, step)

    monkeypatch.setattr(shift, "token_rng", recorded)
    Shifted(TASK, "student:5+outliers:0.1x5").draw(5, seed=0, step=3)
    assert len(set(steps)) == 2
    assert min(steps) >= 2**63  # no task has such a step


# --- the reference ----------------------------------------------------------------------------------------------------

GAUSSIAN = ["none", "kappa:10", "rows:0.8", "scale:2", "noise:2", "examples:3", "kappa:10+scale:0.5+rows:-0.5"]


@pytest.mark.parametrize("spec", GAUSSIAN)
def test_reference_of_gaussian_shifts_is_the_posterior_mean(spec: str) -> None:
    """Then its error is uncorrelated with any function of the data, such as α and itself."""
    shifted = Shifted(TASK, spec)
    assert shifted.gaussian
    draw = shifted.draw(BATCH, seed=0)
    error = draw.weights - draw.oracle
    assert within_standard_errors(error * draw.context.cross, 0.0)
    assert within_standard_errors(error * draw.oracle, 0.0)


def test_ridge_that_is_not_told_of_the_scale_fails_the_same_test() -> None:
    draw = Shifted(TASK, "scale:2").draw(BATCH, seed=0)
    error = draw.weights - draw.context.ridge(draw.sigma**2)
    assert not within_standard_errors(error * draw.context.cross, 0.0)


@pytest.mark.parametrize("spec", ["kappa:10", "scale:2", "rows:0.8", "outliers:0.1x5", "student:5"])
def test_reference_has_the_best_penalty_of_all_ridge_regressions(spec: str) -> None:
    """Told the effective standard deviation, it is the best that is linear in y, whatever the noise looks like."""
    draw = Shifted(rf.Task(4, 12, "fixed:2"), spec).draw(BATCH, seed=0)
    scale = 2.0 if spec == "scale:2" else 1.0
    own = half_square(draw.oracle, draw.weights, draw.variances)
    for factor in (0.5, 2.0):
        other = draw.context.ridge(factor * (draw.sigma / scale) ** 2)
        worse = half_square(other, draw.weights, draw.variances) - own
        assert worse.mean() > 2 * worse.std() / math.sqrt(BATCH)


def test_loss_is_the_mean_over_queries_like_the_features() -> None:
    draw = Shifted(TASK, "kappa:50").draw(3, seed=0)
    guess = np.ones((3, 4))
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((200_000, 4)) * np.sqrt(draw.variances)
    sampled = 0.5 * (queries @ (guess - draw.weights).T) ** 2
    assert within_standard_errors(sampled, half_square(guess, draw.weights, draw.variances))
    assert not within_standard_errors(sampled, half_square(guess, draw.weights))


def test_only_heavy_tails_and_outliers_are_not_gaussian() -> None:
    others = {name for name, kind in SHIFTS.items() if not kind.gaussian}
    assert others == {"student", "outliers"}
    assert not Shifted(TASK, "kappa:2+student:5").gaussian


# --- specs ------------------------------------------------------------------------------------------------------------


def test_every_scenario_reads_its_own_example() -> None:
    for name, kind in SHIFTS.items():
        (found,) = parse_shift(kind.form)
        assert type(found) is kind
        assert kind.form.startswith(f"{name}:")


UNREADABLE = {
    "Did you mean 'kappa'": ["kapa:10"],
    "Did you mean 'student'": ["studnet:3"],
    "Did you mean 'outliers'": ["kappa:10+outlier:0.1x3"],
    "must be one of": [""],
    "write for example kappa:10": ["kappa"],
    "Cannot read": ["none+kappa:2"],
    "from 1 to": ["kappa:", "kappa:0.5", "kappa:nan", "kappa:inf", "kappa:ten", "examples:0"],
    "from 1 to inf": ["student:0.5"],
    "a share and a factor": ["outliers:0.1"],
    "from 0 to 1": ["outliers:2x3", "noise:-1"],
    "from -1 to 1": ["rows:1.5"],
    "from 1e-06": ["scale:0"],
    "whole number": ["examples:2.5"],
    "twice": ["kappa:2+kappa:3"],
}


@pytest.mark.parametrize("hint", UNREADABLE)
def test_unreadable_specs_say_what_would_be_right(hint: str) -> None:
    for spec in UNREADABLE[hint]:
        refused(hint, Shifted, TASK, spec)


def test_sequences_too_long_to_hold_as_tokens_are_refused() -> None:
    refused("at most 8000000 numbers", Shifted, rf.Task(10, 20), "examples:1000000")
