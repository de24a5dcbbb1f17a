"""Theorem 5.2: two diagonal layers reach optimal ridge regression at two noise levels, as n grows.

Setting: w ~ N(0, I), x_i ~ N(0, I/n), ξ_i ~ N(0, σ²) with σ one of σ1, σ2, y_i = <w, x_i> + ξ_i. As n → ∞, Σ → I, so
the oracle (Σ + σ² I)⁻¹ α → α / (1 + σ²); and λ / n → σ², because the part of y that comes from x adds only ‖w‖².

    layer 1, only ω_yx:  w¹ = −ω_yx α = A α                         A = −ω_yx
    layer 2, only ω_yy:  w² = (1 + ω_yy λ¹) w¹ → (A + B σ²) α        B = A n ω_yy ,  as λ¹/n → σ² too.

A + B σ² = 1/(1 + σ²) at σ1 and σ2 is solved by the line through two points of 1/(1 + v), v = σ²:

    B = −1 / ((1 + σ1²)(1 + σ2²)) ,   A = (1 + σ1² + σ2²) / ((1 + σ1²)(1 + σ2²)) ;

for σ1 = σ2 that is the tangent, and between the two the line lies above the curve. One head is enough for either layer:
ω_yx alone is p_y q_x, ω_yy alone p_y q_y. The distance to the oracle is that of Σ from I and of λ¹/n from σ², n^(−1/2).

Scaling: dividing x ~ N(0, I) and y by √n turns a context of `Task` with noise σ √n into one of this theorem: its σ is
that of the task divided by √n, the level at which noise still matters in long contexts.

Error in print: the proof has w¹ = +ω_yx α and requires (1 + n σ² ω_yy) ω_yx = 1/(1 + σ²). By Theorem 4.1, which it
uses, y¹ = y − <w¹, x>, so w¹ = −ω_yx α; with the printed sign the model predicts minus the ridge solution.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.distributions import Fixed
from ridgeformer.core.forward import gram_weights
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.task import ContextDraw, Task
from ridgeformer.core.validation import nonnegative, whole_number


@dataclass(frozen=True)
class Convergence:
    """Distance of a model from the oracle in contexts of one size and one noise level."""

    examples: int
    sigma: float
    error: float  # root mean square of ‖ŵ − w*‖, relative to that of ‖w*‖


def line_through(sigma_1: float, sigma_2: float) -> tuple[float, float]:
    """(A, B) with A + B σ² = 1/(1 + σ²) at both noise levels; the tangent if they are equal."""
    v1, v2 = nonnegative("sigma_1", sigma_1) ** 2, nonnegative("sigma_2", sigma_2) ** 2
    scale = 1 / ((1 + v1) * (1 + v2))
    return (1 + v1 + v2) * scale, -scale


def two_layer_network(
    dim: int, examples: int, sigma_1: float, sigma_2: float, printed: bool = False
) -> LinearTransformer:
    """The diag model of Theorem 5.2: optimal ridge regression at two noise levels, as n grows.

    Parameters
    ----------
    dim, examples: d and n of the contexts it is made for.
    sigma_1, sigma_2: the two noise levels, at least 0.
    printed: whether to keep the printed sign of ω_yx, which is wrong.

    Returns a model of two layers and one head. Raises `InputError` for numbers out of range.

    >>> two_layer_network(5, 100, 1.0, 3.0).layers
    2
    """
    A, B = line_through(sigma_1, sigma_2)
    omega_yx = A if printed else -A
    omega_yy = B / (A * whole_number("examples", examples, 1))
    # (p_x, p_y) and (q_x, q_y) of the two layers, one head each.
    p = np.array([[[0.0, omega_yx]], [[0.0, 1.0]]])
    q = np.array([[[1.0, 0.0]], [[0.0, omega_yy]]])
    return LinearTransformer("diag", whole_number("dim", dim, 1), {"p": p, "q": q})


def draw_scaled_contexts(dim: int, examples: int, sigma: float, batch: int, seed: int = 0) -> ContextDraw:
    """Contexts of the theorem, with their oracle: those of `Task` with noise σ √n, x and y divided by √n.

    Drawn as Gram matrices, so n may be in the millions. Ridge regression with penalty n σ² before the division is ridge
    regression with σ² after it, so w* needs no change.
    """
    task = Task(dim, examples, Fixed(sigma * math.sqrt(examples)))
    draw = task.draw_contexts(batch, seed=seed)
    context = Context(draw.context.gram / examples, examples)
    return ContextDraw(context, draw.weights, draw.sigma / math.sqrt(examples), draw.query, draw.oracle)


def convergence(
    sigma_1: float,
    sigma_2: float,
    dim: int = 5,
    sizes: Sequence[int] = (100, 1000, 10_000, 100_000),
    batch: int = 400,
    seed: int = 0,
    printed: bool = False,
) -> list[Convergence]:
    """Errors of the two-layer model of the theorem at both noise levels, for every n."""
    rows = []
    for n in sizes:
        model = two_layer_network(dim, n, sigma_1, sigma_2, printed)
        for sigma in dict.fromkeys((sigma_1, sigma_2)):
            draw = draw_scaled_contexts(dim, n, sigma, batch, seed)
            rows.append(Convergence(n, sigma, oracle_distance(model, draw)))
    return rows


def oracle_distance(model: LinearTransformer, draw: ContextDraw) -> float:
    """Root mean square of ‖ŵ − w*‖, divided by that of ‖w*‖."""
    gap = gram_weights(model.astype(np.float64), draw.context.gram.astype(np.float64)) - draw.oracle
    return float(np.sqrt((gap**2).sum() / (draw.oracle**2).sum()))


def fitted_rate(rows: Sequence[Convergence], sigma: float) -> float:
    """The slope of log error against log n at one noise level; −1/2 is what the theorem's proof gives."""
    chosen = [row for row in rows if row.sigma == sigma]
    slope, _ = np.polyfit(np.log([row.examples for row in chosen]), np.log([row.error for row in chosen]), 1)
    return float(slope)
