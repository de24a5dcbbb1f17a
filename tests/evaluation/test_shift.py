"""Every shift is the task that it claims to be, and none of them changes anything at its neutral value."""

from __future__ import annotations

import math

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.task import TokenDraw
from ridgeformer.evaluation import garg_battery, parse_shift, shifted
from ridgeformer.evaluation.scoring import half_square
from ridgeformer.evaluation.shift import SHIFTS
from support import refused, within_standard_errors

TASK = rf.Task(dim=4, examples=12, noise="uniform:0.5-3")
BATCH = 20_000


def tokens(spec: str, task: rf.Task = TASK, batch: int = BATCH) -> TokenDraw:
    return shifted(task, spec).draw_tokens(batch, seed=0)


NEUTRAL = ["examples:12", "noise:1", "kappa:1", "student:inf", "outliers:0x10", "outliers:0.5x1", "scale:1", "rows:0"]


@pytest.mark.parametrize("spec", [*NEUTRAL, "+".join(NEUTRAL[:5] + NEUTRAL[6:])])
def test_shift_at_its_neutral_value_changes_nothing(spec: str) -> None:
    plain, found = tokens("none", batch=50), tokens(spec, batch=50)
    for name in ("X", "y", "weights", "sigma", "query"):
        np.testing.assert_array_equal(getattr(found, name), getattr(plain, name))


def test_sigma_at_the_tasks_own_fixed_level_changes_nothing() -> None:
    task = rf.Task(4, 12, "fixed:2")
    assert shifted(task, "sigma:2") == task


def test_scale_and_noise_multiply_weights_and_noise() -> None:
    plain, found = tokens("none", batch=50), tokens("scale:3+noise:2", batch=50)
    np.testing.assert_allclose(found.weights, 3 * plain.weights)
    np.testing.assert_allclose(found.sigma, 2 * plain.sigma)
    noise = plain.y - np.einsum("bnd,bd->bn", plain.X, plain.weights)
    np.testing.assert_allclose(found.y, np.einsum("bnd,bd->bn", plain.X, 3 * plain.weights) + 2 * noise)


def test_examples_and_sigma_change_what_is_drawn() -> None:
    found = tokens("sigma:8+examples:30", batch=2000)
    assert found.X.shape == (2000, 30, 4)
    assert (found.sigma == 8).all()
    noise = found.y - np.einsum("bnd,bd->bn", found.X, found.weights)
    assert within_standard_errors(noise.reshape(-1, 1) ** 2, 64.0)


def test_shifts_combine_in_any_order() -> None:
    specs = ["kappa:10", "student:5", "rows:0.5", "outliers:0.1x5", "scale:2", "noise:2", "examples:7"]
    one, other = (next(shifted(TASK, "+".join(order)).token_chunks(50, 3)) for order in (specs, specs[::-1]))
    np.testing.assert_allclose(one.context.gram, other.context.gram, rtol=1e-10)
    np.testing.assert_allclose(one.oracle, other.oracle, rtol=1e-8)
    assert one.context.examples == 7


GAUSSIAN = ["none", "kappa:10", "rows:0.8", "scale:2", "noise:2", "examples:3", "kappa:10+scale:0.5+rows:-0.5"]
GARG = ["skewed", "quadrants", "subspace", "examples:2+orthogonal", "xscale:3", "xstudent:5", "sparse:2", "pool:5"]


@pytest.mark.parametrize("spec", [*GAUSSIAN, *GARG])
def test_exact_reference_is_the_posterior_mean(spec: str) -> None:
    """Then its error is uncorrelated with any function of the data, such as α and itself."""
    task = shifted(TASK, spec)
    assert task.reference.exact
    draw = task.draw_contexts(BATCH, seed=0)
    error = draw.weights - draw.oracle
    assert within_standard_errors(error * draw.context.cross, 0.0)
    assert within_standard_errors(error * draw.oracle, 0.0)


def test_ridge_that_is_not_told_of_the_scale_fails_the_same_test() -> None:
    draw = shifted(TASK, "scale:2").draw_contexts(BATCH, seed=0)
    error = draw.weights - draw.context.ridge(draw.sigma**2)
    assert not within_standard_errors(error * draw.context.cross, 0.0)


@pytest.mark.parametrize("spec", ["kappa:10", "scale:2", "rows:0.8", "outliers:0.1x5", "student:5"])
def test_reference_has_the_best_penalty_of_all_ridge_regressions(spec: str) -> None:
    """Told the effective standard deviation, it is the best that is linear in y, whatever the noise looks like."""
    draw = shifted(rf.Task(4, 12, "fixed:2"), spec).draw_contexts(BATCH, seed=0)
    scale = 2.0 if spec == "scale:2" else 1.0
    own = half_square(draw.oracle, draw.weights, draw.moment)
    for factor in (0.5, 2.0):
        other = draw.context.ridge(factor * (draw.sigma / scale) ** 2)
        worse = half_square(other, draw.weights, draw.moment) - own
        assert worse.mean() > 2 * worse.std() / math.sqrt(BATCH)


def test_only_heavy_tails_and_outliers_have_no_exact_reference() -> None:
    for name, entry in SHIFTS.items():
        assert shifted(TASK, entry.form if name != "pool" else "pool:4").reference.exact == (
            name not in ("student", "outliers")
        )
    assert not shifted(TASK, "kappa:2+student:5").reference.exact


def test_garg_battery_is_readable_and_keeps_sizes() -> None:
    for spec in garg_battery(TASK):
        assert shifted(TASK, spec).dim == TASK.dim


def test_every_shift_reads_its_own_example() -> None:
    for name, entry in SHIFTS.items():
        (change,) = parse_shift(entry.form)
        assert isinstance(change(rf.Task(10, 20)), rf.Task)
        assert entry.form.startswith(f"{name}:")


UNREADABLE = {
    "Did you mean 'kappa'": ["kapa:10"],
    "Did you mean 'student'": ["studnet:3"],
    "Did you mean 'outliers'": ["kappa:10+outlier:0.1x3"],
    "Did you mean 'quadrants'": ["quadrant"],
    "must be one of": [""],
    "write for example kappa:10": ["kappa:"],
    "Cannot read": ["none+kappa:2"],
    "from 1 to": ["kappa", "kappa:0.5", "kappa:nan", "kappa:inf", "kappa:ten", "examples:0"],
    "from 1 to inf": ["student:0.5"],
    "a share and a factor": ["outliers:0.1"],
    "from 0 to 1": ["outliers:2x3", "noise:-1"],
    "from -1 to 1": ["rows:1.5"],
    "from 1e-06": ["scale:0"],
    "whole number": ["examples:2.5"],
    "takes no number": ["skewed:3"],
    "twice": ["kappa:2+kappa:3"],
    "fewer examples than features": ["orthogonal"],
}


@pytest.mark.parametrize("hint", UNREADABLE)
def test_unreadable_specs_say_what_would_be_right(hint: str) -> None:
    for spec in UNREADABLE[hint]:
        refused(hint, shifted, TASK, spec)


def test_sequences_too_long_to_hold_as_tokens_are_refused() -> None:
    task = shifted(rf.Task(10, 20), "examples:1000000")
    refused("at most 8000000 numbers", lambda: next(task.token_chunks(1, 0)))
