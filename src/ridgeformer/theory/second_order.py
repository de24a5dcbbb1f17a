"""Theorem 5.1: GD++ is a second-order method. This file constructs the model and counts its layers.

Let Σ have eigenvalues in [μ, ν], κ = ν / μ. (The paper prints the range as [ν, μ], which is empty for κ = ν / μ > 1.)

Preconditioning layers have ω_xx = −γ only. They turn Σ into (I − γΣ) Σ (I − γΣ), so each eigenvalue s into
s (1 − γ s)². With γ = 1/(3ν) this map increases on [0, ν]: its derivative is (1 − γs)(1 − 3γs). The new largest
eigenvalue is 4ν/9 and the new condition number κ' = 4κ³ / (3κ − 1)². Subtracting 1 and factoring gives, exactly,

    κ' − 1 = (κ − 1)² (4κ − 1) / (3κ − 1)² .

For κ ≥ 2, κ'/κ ≤ 16/25. For every κ, ¾(κ' − 1) ≤ (¾(κ − 1))², because the fraction decreases from ¾ at κ = 1.

The last layer has ω_yx = −2/(ν + μ), with the μ and ν that the other layers leave. As M is a polynomial in Σ, and
α = Σ w*, its implicit weights are −ω_yx Mᵀ M Σ w* = −ω_yx Σ^l w*. They differ from w* by at most (κ − 1)/(κ + 1) of
‖w*‖. So ε is reached once κ ≤ (1 + ε)/(1 − ε): the factor 1/(2κ) on ε in the printed proof is not needed. Hence

    layers ≤ 1 + ⌈log(κ/2) / log(25/16)⌉ + ⌈log₂( log(1/(1.5 ε)) / log(4/3) )⌉ ,  each bracket at least 0:
    O(log κ + log log 1/ε).

With noise in y nothing changes: the model then approaches OLS. If n < d, κ is that of the eigenvalues that are not
zero, and w* the solution of least norm. In float64 the smallest eigenvalue is known to about κ·1e-16, and so is the
result.

A layer of the model costs products of d × d matrices, a step of the other methods only one product of a matrix and a
vector: the comparison is of depth, not of arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.validation import InputError, finite_array, nonnegative, whole_number

SHRINKS_ABOVE_2 = 16 / 25
"""κ'/κ = 4κ²/(3κ − 1)² decreases in κ and is 16/25 at κ = 2."""


@dataclass(frozen=True)
class IterationCount:
    """How much work three methods need for ‖ŵ − w*‖ ≤ ε ‖w*‖ on one spectrum."""

    kappa: float
    epsilon: float
    gdpp_layers: int  # of `second_order_network`: enough for every spectrum of this condition number
    gradient_descent: int  # steps of the best fixed size, 2/(ν + μ), from zero
    conjugate_gradients: int | None  # None where rounding in float64 prevents it


def next_excess(excess: float) -> float:
    """κ' − 1 from κ − 1: one preconditioning layer. Written in κ − 1, which stays accurate when κ is close to 1."""
    kappa = 1 + excess
    return excess**2 * (4 * kappa - 1) / (3 * kappa - 1) ** 2


def condition_excesses(kappa: float, layers: int) -> list[float]:
    """κ − 1 before the first and after each of so many preconditioning layers: the doubly logarithmic curve."""
    excesses = [_check_kappa(kappa) - 1]
    for _ in range(whole_number("layers", layers, 0)):
        excesses.append(next_excess(excesses[-1]))
    return excesses


def error_on_both_ends(kappa: float, layers: int) -> float:
    """‖ŵ − w*‖ / ‖w*‖ after so many layers, the last a gradient step, if Σ has no eigenvalues but μ and ν = κ μ.

    The step 2/(ν + μ) turns an eigenvalue s into an error |1 − 2s/(ν + μ)|: (κ − 1)/(κ + 1) at both ends of what the
    other layers left, and less between them.
    """
    excess = condition_excesses(kappa, whole_number("layers", layers, 1) - 1)[-1]
    return excess / (2 + excess)


def layers_needed(kappa: float, epsilon: float) -> int:
    """Layers of `second_order_network` for κ and ε: preconditioning layers, and one gradient step."""
    excess, epsilon = _check_kappa(kappa) - 1, _check_epsilon(epsilon)
    layers = 1
    while excess > 2 * epsilon / (1 - epsilon):  # κ > (1 + ε)/(1 − ε)
        excess = next_excess(excess)
        layers += 1
    return layers


def layer_bound(kappa: float, epsilon: float) -> int:
    """The closed form that `layers_needed` never exceeds: O(log κ + log log 1/ε) with its constants."""
    kappa, epsilon = _check_kappa(kappa), _check_epsilon(epsilon)
    first = math.ceil(max(0.0, math.log(kappa / 2) / -math.log(SHRINKS_ABOVE_2)))
    # ¾(κ − 1) ≤ (3/4)^(2^k) after k layers from κ ≤ 2; enough once that is below ¾·2ε.
    wanted = math.log(1 / (1.5 * epsilon)) / math.log(4 / 3)
    second = math.ceil(math.log2(wanted)) if wanted > 1 else 0
    return 1 + first + second


def second_order_network(dim: int, kappa: float, epsilon: float, largest: float = 1.0) -> LinearTransformer:
    """The GD++ model of Theorem 5.1: ‖ŵ − w*‖ ≤ ε ‖w*‖ wherever Σ has eigenvalues in [largest/κ, largest] only.

    Parameters
    ----------
    dim: d.
    kappa, epsilon: condition number κ ≥ 1 and accuracy 0 < ε < 1.
    largest: ν, the largest eigenvalue, above 0.

    Returns a gdpp model of `layers_needed` layers and one head. Raises `InputError` for numbers out of range.

    >>> second_order_network(3, kappa=100.0, epsilon=1e-6).layers
    11
    """
    dim = whole_number("dim", dim, 1)
    layers = layers_needed(kappa, epsilon)
    if nonnegative("largest", largest) == 0:
        raise InputError("largest, an eigenvalue of Σ, must be above 0.")
    p, q = np.zeros((layers, 1, 2)), np.ones((layers, 1, 1))  # q_x = 1, so that ω_xx = p_x and ω_yx = p_y
    top, excess = float(largest), kappa - 1
    for layer in range(layers - 1):
        p[layer, 0, 0] = -1 / (3 * top)  # ω_xx = −γ, γ = 1/(3ν)
        top, excess = 4 / 9 * top, next_excess(excess)
    p[-1, 0, 1] = -2 / (top + top / (1 + excess))  # ω_yx = −2/(ν + μ)
    return LinearTransformer("gdpp", dim, {"p": p, "q": q})


def log_spectrum(dim: int, kappa: float, largest: float = 1.0) -> Array:
    """(d,) eigenvalues from largest/κ to largest, evenly spaced in their logarithm."""
    kappa = _check_kappa(kappa)
    return largest * kappa ** np.linspace(-1.0, 0.0, dim) if dim > 1 else np.array([largest])


def context_with_spectrum(values: Any, weights: Any, rng: np.random.Generator, residual_energy: float = 0.0) -> Context:
    """One context whose Σ has these eigenvalues in random directions and whose OLS solution is ``weights``.

    ``residual_energy`` is ρ = Σ r_i², 0 without noise.
    """
    values, weights = finite_array("values", values, ("dim",)), finite_array("weights", weights, ("dim",))
    vectors, _ = np.linalg.qr(rng.standard_normal((len(values), len(values))))
    scatter = (vectors * values) @ vectors.T
    cross = scatter @ weights
    energy = weights @ cross + residual_energy
    return Context(np.block([[scatter, cross[:, None]], [cross[None], np.array([[energy]])]])[None], len(values) + 1)


def gradient_descent_steps(values: Array, weights: Array, epsilon: float) -> int:
    """Steps of size 2/(ν + μ) from zero until ‖ŵ − w*‖ ≤ ε ‖w*‖; eigenvalues and w* in the eigenbasis of Σ."""
    shrink = np.abs(1 - 2 * values / (values.max() + values.min()))
    wanted = _check_epsilon(epsilon) * np.linalg.norm(weights)

    def reached(steps: int) -> bool:  # after k steps the error in each direction is (1 − η s)^k of its start
        return bool(np.linalg.norm(shrink ** float(steps) * weights) <= wanted)

    low, high = 0, 1
    while not reached(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def conjugate_gradient_steps(values: Array, weights: Array, epsilon: float) -> int | None:
    """Steps of conjugate gradients (Hestenes and Stiefel, 1952) from zero until ‖ŵ − w*‖ ≤ ε ‖w*‖.

    Exact arithmetic needs at most d steps. With rounding it may need more, or never succeed: None after 10 d steps.
    """
    wanted = _check_epsilon(epsilon) * np.linalg.norm(weights)
    estimate = np.zeros_like(weights)
    residual = values * weights
    direction, energy = residual, residual @ residual
    for step in range(1, 10 * len(values) + 1):
        moved = values * direction
        curvature = direction @ moved
        if curvature == 0:
            return None
        size = energy / curvature
        estimate, residual = estimate + size * direction, residual - size * moved
        if np.linalg.norm(estimate - weights) <= wanted:
            return step
        energy, before = residual @ residual, energy
        direction = residual + energy / before * direction
    return None


def iteration_counts(kappas: Sequence[float], epsilons: Sequence[float], dim: int = 400) -> list[IterationCount]:
    """Layers of GD++ against steps of gradient descent and conjugate gradients, for every κ and ε.

    On log-even spectra of ``dim`` eigenvalues, enough that conjugate gradients cannot finish early by running out of
    dimensions, with the same weight in each direction.
    """
    counts = []
    for kappa in kappas:
        values, weights = log_spectrum(dim, kappa), np.ones(dim)
        for epsilon in epsilons:
            by_descent = gradient_descent_steps(values, weights, epsilon)
            by_conjugate = conjugate_gradient_steps(values, weights, epsilon)
            counts.append(IterationCount(kappa, epsilon, layers_needed(kappa, epsilon), by_descent, by_conjugate))
    return counts


def _check_kappa(kappa: float) -> float:
    if not 1 <= nonnegative("A condition number κ", kappa) < 1e100:  # its cube must be a float
        raise InputError(f"A condition number κ must be between 1 and 1e100, not {kappa!r}.")
    return float(kappa)


def _check_epsilon(epsilon: float) -> float:
    if not 0 < nonnegative("An accuracy ε", epsilon) < 1:
        raise InputError(f"An accuracy ε must be above 0 and below 1, not {epsilon!r}.")
    return float(epsilon)
