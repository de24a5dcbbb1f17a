"""Section 5.3: ω_xy, then ω_yx, is one gradient step whose size depends on the noise.

A layer with ω_xy alone moves x_i by ω_xy y_i α and leaves y; one with ω_yx alone then takes a gradient step. Between
them α is Σ_i y_i (x_i + ω_xy y_i α) = (1 + ω_xy λ) α, so at the start of a model, exactly and for every query,

    ŵ = η α ,   η = −ω_yx (1 + ω_xy λ) ,   λ = Σ_i y_i² ,

one gradient step from zero of size η: y_i is the residual of w = 0. With ω_xy < 0 noisier contexts take smaller steps.
After other layers, in the state (M, u, a, w), the same two layers give, exactly (`two_layer_update`),

    w'' = (1 − η ω_xy ‖α^l‖²) w + η Mᵀ α^l ,   η = −ω_yx (1 + ω_xy λ^l) ,   λ^l = Σ_i (y_i^l)² .

The printed formula is approximate: it is η = −ω_yx (1 + ω_xy Σ r_i²) with the residuals r_i of OLS, without the part of
y_i that OLS explains. As λ^l = (a w* − w)ᵀ Σ (a w* − w) + a² Σ r_i², it is right once the fit is done. At the start it
leaves out w*ᵀ Σ w*, which is most of λ unless the noise is strong.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.validation import whole_number
from ridgeformer.theory.implicit_model import ImplicitModel, implicit_models, in_float64, layer_blocks
from ridgeformer.theory.numerics import dot, times, transposed


@dataclass(frozen=True)
class StepSize:
    """What one layer does to w, read as a gradient step; arrays (batch,). `effective_step_size` makes it.

    >>> import ridgeformer as rf
    >>> context = rf.Task(3, 8).draw_contexts(2, seed=0).context
    >>> effective_step_size(adaptive_step_network(3, -0.01, -0.1), context)[1].rescaling.tolist()
    [1.0, 1.0]
    """

    layer: int  # counted from 1
    scatter: Array  # tr Σ^l in front of the layer
    energy: Array  # λ^l = Σ_i (y_i^l)²: the energy of the residuals in front of the layer
    step: Array  # η: the multiple of g = Σ (a w* − w) that is nearest to the layer's −Mᵀ c; 0 where g = 0
    alignment: Array  # cosine between −Mᵀ c and g: 1 where the layer is a plain gradient step, 0 where both vanish
    rescaling: Array  # 1 + δ: what the layer multiplies w by


def adaptive_step_network(dim: int, omega_xy: float, omega_yx: float) -> LinearTransformer:
    """The two-layer diag model of section 5.3, whose one gradient step depends on the noise.

    Parameters
    ----------
    dim: d.
    omega_xy, omega_yx: the only ω that is not zero in the first and in the second layer.

    Returns a model of one head: ω_xy alone is p_x q_y, ω_yx alone p_y q_x. Raises `InputError` for a ``dim`` below 1.

    >>> adaptive_step_network(3, -0.01, -0.1).omega()[0].tolist()
    [0.0, -0.01, 0.0, 0.0]
    """
    p = np.array([[[float(omega_xy), 0.0]], [[0.0, float(omega_yx)]]])
    q = np.array([[[0.0, 1.0]], [[1.0, 0.0]]])
    return LinearTransformer("diag", whole_number("dim", dim, 1), {"p": p, "q": q})


def adaptive_step(omega_xy: float, omega_yx: float, energy: Array) -> Array:
    """η = −ω_yx (1 + ω_xy λ^l), (batch,): exact with λ^l of the tokens, as printed with `residual_energy`."""
    return -omega_yx * (1 + omega_xy * energy)


def two_layer_update(state: ImplicitModel, context: Context, omega_xy: float, omega_yx: float) -> Array:
    """w after a layer with ω_xy alone and one with ω_yx alone, from any state; (batch, d)."""
    _, cross, energy = state.statistics(context)
    step = adaptive_step(omega_xy, omega_yx, energy)
    factor = 1 - step * omega_xy * dot(cross, cross)
    return factor[:, None] * state.w + step[:, None] * times(transposed(state.M), cross)


def effective_step_size(model: LinearTransformer, context: Context) -> list[StepSize]:
    """Every layer's change of w, apart from rescaling by 1 + δ, measured against the direction of steepest descent.

    w' = (1 + δ) w − Mᵀ c by Lemma 4.3, and g = a α − Σ w is minus the gradient of ½ Σ (a y_i − <w, x_i>)². η is exact
    where ``alignment`` is 1, and a least-squares fit elsewhere: preconditioning and momentum turn the step away from g.

    Parameters
    ----------
    model: of any kind and L layers.
    context: a batch of contexts of its dimension.

    Returns L records with arrays (batch,). Raises `InputError` if model and context do not fit.

    >>> import ridgeformer as rf
    >>> context = rf.Task(3, 8).draw_contexts(2, seed=0).context
    >>> effective_step_size(adaptive_step_network(3, -0.01, -0.1), context)[1].alignment.round(6).tolist()
    [1.0, 1.0]
    """
    model, context = in_float64(model, context)
    P, Q = model.attention_matrices()
    sizes = []
    with np.errstate(over="ignore", invalid="ignore"):  # an exploding model shows in its step sizes
        for layer, state in enumerate(implicit_models(model, context)[:-1]):
            statistics = state.statistics(context)
            blocks = layer_blocks(P[layer], Q[layer], statistics)
            change = -times(transposed(state.M), blocks.c)
            descent = state.a[:, None] * context.cross - times(context.scatter, state.w)
            along, square = dot(change, descent), dot(descent, descent)
            norms = np.sqrt(square) * np.sqrt(dot(change, change))
            step, alignment = (along / np.where(size == 0, 1.0, size) for size in (square, norms))
            scatter = np.trace(statistics.scatter, axis1=1, axis2=2)
            sizes.append(StepSize(layer + 1, scatter, statistics.energy, step, alignment, 1 + blocks.delta))
    return sizes
