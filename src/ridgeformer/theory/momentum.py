"""Lemma 4.4: a layer of a diagonal linear transformer is a step of gradient descent with momentum.

With w* = OLS, r_i = y_i − <w*, x_i> its residuals, ρ = Σ r_i², and g = Σ (a w* − w):

    u' = (I − Λ) u + Γ g ,          Λ = −ω_xx Σ^l − ω_xy a² ρ I ,   Γ = a ω_xy (M + u w*ᵀ)
    w' = (1 + s) w − Π g − Φ u ,    s = ω_yy λ^l ,   Π = ω_yx Mᵀ (M + u w*ᵀ) ,   Φ = a ρ ω_yx Mᵀ .

Derivation: Lemma 4.3 with A = ω_xx Σ^l, b = ω_xy α^l, c = ω_yx α^l, δ = ω_yy λ^l, and y_i = <w*, x_i> + r_i in Theorem
4.1: x_i^l = (M + u w*ᵀ) x_i + r_i u, y_i^l = <a w* − w, x_i> + a r_i. As Σ_i r_i x_i = 0,

    α^l = (M + u w*ᵀ) g + a ρ u .

Only Σ_i r_i x_i = 0 is used, so the lemma holds for every solution of the normal equations: with n < d, where w* is the
one of least norm and ρ = 0, it holds unchanged.

g is minus the gradient of ½ Σ (a y_i − <w, x_i>)² with respect to w, so ω_yx < 0 descends.

Error in print: the proof has M + a u w*ᵀ in both Γ and Π. The factor a belongs to y_i^l, not to x_i^l, so it is wrong
here; `momentum_layers(..., printed=True)` puts it in, for comparison. The two agree while a = 1 or u = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.theory.implicit_model import implicit_models, in_float64
from ridgeformer.theory.numerics import outer, relative_difference, residual_energy, times, transposed


@dataclass(frozen=True)
class MomentumLayer:
    """The coefficients of Lemma 4.4 in one layer, for a batch of contexts; `momentum_layers` makes it.

    >>> import ridgeformer as rf
    >>> context = rf.Task(3, 8).draw_contexts(2, seed=0).context
    >>> layer = momentum_layers(rf.LinearTransformer.init("diag", layers=2, dim=3), context)[0]
    >>> u, w = layer.update(np.zeros((2, 3)), np.zeros((2, 3)))
    >>> u.shape, w.shape
    ((2, 3), (2, 3))
    """

    Lambda: Array  # (batch, d, d)
    Gamma: Array  # (batch, d, d)
    s: Array  # (batch,)
    Pi: Array  # (batch, d, d)
    Phi: Array  # (batch, d, d)
    descent: Array  # g = Σ (a w* − w), (batch, d): minus the gradient of ½ Σ (a y_i − <w, x_i>)²

    def update(self, u: Array, w: Array) -> tuple[Array, Array]:
        """(u, w) after the layer."""
        new_u = u - times(self.Lambda, u) + times(self.Gamma, self.descent)
        new_w = (1 + self.s)[:, None] * w - times(self.Pi, self.descent) - times(self.Phi, u)
        return new_u, new_w


def momentum_layers(model: LinearTransformer, context: Context, printed: bool = False) -> list[MomentumLayer]:
    """Λ, Γ, s, Π, Φ of Lemma 4.4 in every layer.

    Parameters
    ----------
    model: a diag or gdpp model of L layers.
    context: a batch of contexts of its dimension.
    printed: whether to keep the error of the printed proof.

    Returns L records of matrices (batch, d, d). Raises `InputError` for other kinds of model, which have no ω.

    >>> import ridgeformer as rf
    >>> context = rf.Task(3, 8).draw_contexts(2, seed=0).context
    >>> momentum_layers(rf.LinearTransformer.init("diag", layers=2, dim=3), context)[1].Pi.shape
    (2, 3, 3)
    """
    model, context = in_float64(model, context)
    best, rho = context.ridge(0.0), residual_energy(context)[:, None, None]  # w*, of least norm if n < d, and ρ
    layers = []
    with np.errstate(over="ignore", invalid="ignore"):  # an exploding model shows in its weights
        for (xx, xy, yx, yy), state in zip(model.omega(), implicit_models(model, context)[:-1], strict=True):
            M, a, statistics = state.M, state.a[:, None, None], state.statistics(context)
            moved = M + (a if printed else 1.0) * outer(state.u, best)  # x_i^l = (M + u w*ᵀ) x_i + r_i u
            layer = MomentumLayer(
                Lambda=-xx * statistics.scatter - xy * a**2 * rho * np.eye(context.dim),
                Gamma=xy * a * moved,
                s=yy * statistics.energy,
                Pi=yx * transposed(M) @ moved,
                Phi=yx * a * rho * transposed(M),
                descent=times(context.scatter, a[:, 0] * best - state.w),
            )
            layers.append(layer)
    return layers


def difference_from_recursion(model: LinearTransformer, context: Context, printed: bool = False) -> float:
    """How far Lemma 4.4 is from Lemma 4.3: largest relative difference of (u', w') over contexts and layers.

    Rounding grows like ‖w*‖² where Σ is nearly singular (n close to d), for the terms with w* cancel.
    """
    model, context = in_float64(model, context)
    states = implicit_models(model, context)
    worst = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for layer, before, after in zip(momentum_layers(model, context, printed), states[:-1], states[1:], strict=True):
            u, w = layer.update(before.u, before.w)
            differences = relative_difference(u, after.u), relative_difference(w, after.w)
            worst = float(np.max([worst, *differences]))
    return worst
