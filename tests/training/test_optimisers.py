"""L-BFGS on functions whose minima are known: it gets there, never uphill, never into an explosion, the same way."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, cast

import numpy as np
import pytest
import scipy.optimize

from ridgeformer.core.notation import Array
from ridgeformer.training import optimisers
from ridgeformer.training.optimisers import Function, QuasiNewton


def quadratic(size: int, condition: float) -> tuple[Function, Array]:
    """(½(x − c)ᵀH(x − c), c) with a random eigenbasis of H."""
    rng = np.random.default_rng([size, int(condition)])
    basis = np.linalg.qr(rng.standard_normal((size, size)))[0]
    hessian = basis @ np.diag(np.geomspace(1, condition, size)) @ basis.T
    centre = rng.standard_normal(size)
    return lambda x: (float(0.5 * (x - centre) @ hessian @ (x - centre)), hessian @ (x - centre)), centre


def rosenbrock(x: Array) -> tuple[float, Array]:
    return float(scipy.optimize.rosen(x)), scipy.optimize.rosen_der(x)


def logarithm_of(function: Function) -> Function:
    """ln f, as training minimises it: its gain counts as none below a millionth of f, however small f is."""

    def logarithm(x: Array) -> tuple[float, Array]:
        value, gradient = function(x)
        return (float(np.log(value)), gradient / value) if value > 0 else (float("inf"), gradient)

    return logarithm


def minimise(function: Function, start: Array, most: int = 2000) -> tuple[QuasiNewton, Array, list[float]]:
    """(last state, parameters, values along the way), run until it has converged."""
    state, vector = QuasiNewton.start(function, start), start
    values = [state.value]
    for _ in range(most):
        if state.converged:
            return state, vector, values
        state, vector, _ = state.iterate(function, vector)
        values.append(state.value)
    pytest.fail(f"not converged after {most} iterations, at {state.value}")


STARTS = [np.array([-1.2, 1.0]), np.array([-1.2, 1.0, -1.2, 1.0]), np.full(10, 0.3)]


# --- where it ends ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "condition"), [(1, 1), (2, 1), (5, 100), (10, 10_000)])
def test_quadratic_is_minimised_to_1e_8(size: int, condition: float) -> None:
    function, centre = quadratic(size, condition)
    state, vector, _ = minimise(function, np.ones(size))
    assert 0 <= state.value < 1e-8
    # The smallest curvature is 1, so ½‖x − c‖² ≤ f.
    assert np.linalg.norm(vector - centre) <= np.sqrt(2e-8)


@pytest.mark.parametrize("start", STARTS, ids=len)
def test_rosenbrock_is_minimised_to_1e_8_and_its_logarithm_far_below_where_its_value_would_count_as_nothing(
    start: Array,
) -> None:
    state, vector, _ = minimise(rosenbrock, start)
    assert state.value < 1e-8
    np.testing.assert_allclose(vector, 1.0, atol=1e-4)  # curvature along the valley is 0.4: √(2e-8/0.4) ≈ 2e-4
    _, vector, _ = minimise(logarithm_of(rosenbrock), start)
    assert rosenbrock(vector)[0] < 1e-25
    np.testing.assert_allclose(vector, 1.0, rtol=1e-10)


def test_minimum_of_a_function_that_is_not_zero_there_is_that_of_scipy() -> None:
    def function(x: Array) -> tuple[float, Array]:
        """Convex, and not quadratic."""
        return float(np.sum(np.cosh(x - 0.3)) + x[0] * x[1] / 4), np.sinh(x - 0.3) + np.r_[x[1], x[0], 0] / 4

    start = np.array([2.0, -1.0, 1.0])
    state, vector, _ = minimise(function, start)
    options: Any = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000}
    found = scipy.optimize.minimize(cast(Any, function), start, jac=True, method="L-BFGS-B", options=options)
    # A gain below 1e-6 three times in a row ends it; each is some percent of what is left to gain, or far more.
    assert state.value == pytest.approx(float(found.fun), abs=1e-7)
    np.testing.assert_allclose(vector, found.x, atol=1e-3)


# --- how it goes there ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", STARTS, ids=len)
@pytest.mark.parametrize("function", [rosenbrock, logarithm_of(rosenbrock)], ids=["plain", "log"])
def test_value_never_rises_and_is_that_of_the_parameters(function: Function, start: Array) -> None:
    state, vector = QuasiNewton.start(function, start), start
    for _ in range(100):
        before = state.value
        state, vector, share = state.iterate(function, vector)
        assert state.value <= before
        assert 0 <= share <= 1
        value, gradient = function(vector)
        assert state.value == value
        np.testing.assert_array_equal(state.gradient, gradient)


class Walled:
    """A function with its minimum at 1 that is infinite beyond a wall; counts how often it was asked there."""

    def __init__(self, wall: float, gradient_beyond: float = np.nan) -> None:
        self.wall, self.beyond, self.gradient_beyond = wall, 0, gradient_beyond

    def __call__(self, x: Array) -> tuple[float, Array]:
        if x.max() > self.wall:
            self.beyond += 1
            return float("inf"), np.full_like(x, self.gradient_beyond)
        return float(50 * ((x - 1) ** 2).sum() + ((x - 1) ** 4).sum()), 100 * (x - 1) + 4 * (x - 1) ** 3


@pytest.mark.parametrize("gradient_beyond", [np.nan, np.inf, 0.0, 1.0])
@pytest.mark.parametrize("wall", [1.001, 0.9])
def test_steps_into_a_region_where_the_function_is_infinite_are_taken_back(wall: float, gradient_beyond: float) -> None:
    function = Walled(wall, gradient_beyond)
    state, vector = QuasiNewton.start(function, np.array([0.5, -3.0])), np.array([0.5, -3.0])
    for _ in range(200):
        before = state.value
        state, vector, _ = state.iterate(function, vector)
        assert state.value <= before
        assert vector.max() <= wall
        assert all(np.isfinite(array).all() for array in (vector, state.gradient, state.steps, state.changes))
        if state.converged:
            break
    assert function.beyond > 0  # it did look beyond
    assert state.converged
    if wall > 1:
        assert state.value < 1e-6
    else:  # the minimum is out of reach; it still got closer
        assert state.value < function(np.array([0.5, -3.0]))[0] / 2


def test_value_that_is_not_a_number_is_never_accepted() -> None:
    start = np.array([0.5, -3.0])
    honest = Walled(np.inf)

    def function(x: Array) -> tuple[float, Array]:
        return honest(x) if np.array_equal(x, start) else (float("nan"), np.full_like(x, np.nan))

    state, vector, share = QuasiNewton.start(function, start).iterate(function, start)
    np.testing.assert_array_equal(vector, start)
    assert share == 0
    assert np.isfinite(state.value)
    assert state.converged  # there is no curvature to forget: nothing else can be tried


def test_one_parameter_changes_by_at_most_half_its_scale_in_an_iteration() -> None:
    state, vector = QuasiNewton.start(rosenbrock, STARTS[0]), STARTS[0]
    np.testing.assert_array_equal(state.scale, np.abs(STARTS[0]) + optimisers.SMALLEST_SCALE)
    for _ in range(40):
        moved, after, _ = state.iterate(rosenbrock, vector)
        assert (np.abs(after - vector) <= 0.5 * state.scale * (1 + 1e-12)).all()  # 1e-12: rounding
        np.testing.assert_array_equal(moved.scale, state.scale)
        state, vector = moved, after


def test_iteration_is_a_pure_function_of_its_state() -> None:
    """The same inputs give the same bits, whatever was done in between, and nothing that was passed in changes."""
    (function, _), trail = quadratic(20, 1000), []
    state, vector = QuasiNewton.start(function, np.ones(20)), np.ones(20)
    for _ in range(45):  # more than the pairs that are kept
        kept = ({f.name: np.copy(getattr(state, f.name)) for f in fields(state)}, vector.copy())
        after = state.iterate(function, vector)
        trail.append((state, vector, kept, after))
        state, vector, _ = after
    assert len(state.steps) == optimisers._PAIRS
    for state, vector, (known, place), (expected, arrived, share) in reversed(trail):
        again, again_vector, again_share = state.iterate(function, vector)
        np.testing.assert_array_equal(again_vector, arrived)
        assert again_share == share
        np.testing.assert_array_equal(vector, place)
        for name, array in known.items():
            np.testing.assert_array_equal(getattr(state, name), array)
            np.testing.assert_array_equal(getattr(again, name), getattr(expected, name))


# --- the direction ----------------------------------------------------------------------------------------------------


def dense_direction(state: QuasiNewton) -> Array:
    """−H g with the dense inverse-Hessian update of BFGS, H ← (I − ρ s yᵀ) H (I − ρ y sᵀ) + ρ s sᵀ, pair by pair.

    It starts from γ diag(scale²) with γ = sᵀy / yᵀ diag(scale²) y of the latest pair.
    """
    first, size = np.diag(state.scale**2), len(state.gradient)
    step, change = state.steps[-1], state.changes[-1]
    inverse = first * (step @ change) / (change @ first @ change)
    for step, change in zip(state.steps, state.changes, strict=True):
        rho = 1 / (step @ change)
        left = np.eye(size) - rho * np.outer(step, change)
        inverse = left @ inverse @ left.T + rho * np.outer(step, step)
    return -inverse @ state.gradient


@pytest.mark.parametrize("pairs", [1, 2, 5, 30])
@pytest.mark.parametrize("size", [1, 3, 12])
def test_direction_is_that_of_dense_bfgs_from_the_same_pairs(pairs: int, size: int) -> None:
    rng = np.random.default_rng([pairs, size])
    factor = rng.standard_normal((size, size))
    hessian = factor @ factor.T + np.eye(size)
    steps = rng.standard_normal((pairs, size))
    scale = rng.uniform(0.1, 3.0, size)
    state = QuasiNewton(0.0, rng.standard_normal(size), scale, steps, steps @ hessian)
    expected = dense_direction(state)
    # Thirty updates of a 12 × 12 matrix in float64; measured, 1e-15.
    np.testing.assert_allclose(state.direction(), expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())
    if pairs > 1 and size > 1:  # the control: the comparison sees a lost pair
        lost = replace(state, steps=state.steps[1:], changes=state.changes[1:])
        assert not np.allclose(lost.direction(), expected, rtol=1e-6)


def test_direction_of_a_quadratic_with_all_its_curvature_known_is_newtons() -> None:
    """BFGS with conjugate pairs that span the space has the exact inverse Hessian (Nocedal and Wright, theorem 6.4)."""
    hessian = np.diag([1.0, 4.0, 9.0, 100.0])
    state = QuasiNewton(0.0, np.array([1.0, -2.0, 3.0, 5.0]), np.ones(4), np.eye(4), hessian)
    np.testing.assert_allclose(state.direction(), -np.array([1.0, -0.5, 1 / 3, 0.05]), rtol=1e-12)


def test_first_direction_is_steepest_descent_in_the_scale_of_the_parameters() -> None:
    state = QuasiNewton.start(rosenbrock, STARTS[0])
    direction = state.direction()
    np.testing.assert_allclose(
        direction / (state.gradient * state.scale**2), direction[0] / 215.6 / -(state.scale[0] ** 2)
    )
    assert np.linalg.norm(direction / state.scale) == pytest.approx(0.05)  # in that scale


@pytest.mark.parametrize("change", [np.zeros(2), np.array([-1.0, 0.0])])
def test_pair_without_positive_curvature_is_not_remembered(change: Array) -> None:
    state = QuasiNewton.start(rosenbrock, STARTS[0])
    assert state._remembering(np.array([1.0, 0.0]), change) is state


# --- when it ends -----------------------------------------------------------------------------------------------------


def test_start_where_the_function_is_infinite_counts_as_converged() -> None:
    assert QuasiNewton.start(Walled(0.0), np.ones(2)).converged
    assert not QuasiNewton.start(Walled(2.0), np.zeros(2)).converged


def test_start_at_a_minimum_converges_without_moving() -> None:
    start = np.ones(3)
    state, vector, values = minimise(rosenbrock, start)
    np.testing.assert_array_equal(vector, start)
    assert values == [0.0, 0.0]  # one iteration: the gradient is zero, and there is no curvature to forget
    assert state.converged


def test_three_iterations_in_a_row_without_gain_converge_and_a_gain_starts_the_count_again() -> None:
    function, centre = quadratic(3, 1)
    slow = replace(QuasiNewton.start(function, centre + 1e-5), stalled=1)
    state, vector, share = slow.iterate(function, centre + 1e-5)
    assert share > 0
    assert slow.value - state.value < 1e-6  # an improvement too small to count
    assert state.stalled == 2
    assert not state.converged
    assert state.iterate(function, vector)[0].converged
    fast = replace(QuasiNewton.start(function, np.ones(3)), stalled=2)
    assert fast.iterate(function, np.ones(3))[0].stalled == 0


def test_failed_line_search_forgets_the_curvature_first_and_gives_up_only_without_any() -> None:
    start = np.array([-1.2, 1.0])
    state, vector = QuasiNewton.start(rosenbrock, start), start
    for _ in range(5):
        state, vector, _ = state.iterate(rosenbrock, vector)
    assert len(state.steps)

    def blocked(x: Array) -> tuple[float, Array]:
        return float("inf"), np.full_like(x, np.nan)

    once, same, share = state.iterate(blocked, vector)
    np.testing.assert_array_equal(same, vector)
    assert (share, len(once.steps), len(once.changes), once.stalled, once.converged) == (0.0, 0, 0, 1, False)
    assert (once.value, once.gradient.tolist()) == (state.value, state.gradient.tolist())
    assert once.iterate(blocked, vector)[0].converged
    recovered, _, _ = once.iterate(rosenbrock, vector)  # a passing fault costs the curvature and nothing else
    assert recovered.value < state.value
    assert recovered.stalled == 0
