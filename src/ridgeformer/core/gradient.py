"""Loss and gradient in plain NumPy. The compiled kernels are tested against this; their formulas are derived here.

Forward (`core.forward`):  T_l = I + Σ_k P_k G_l Q_k ,  G_{l+1} = T_l G_l T_lᵀ ,  c = r_0 with r_l = r_{l+1} T_l.

Backward. Write ∂A for ∂loss/∂A, and D_l = 2 ∂G_l, kept symmetric. The loss depends on T_l through
c = (r_{l+1} T_l)(T_{l−1} … T_0), and through G_{l+1} = T_l G_l T_lᵀ:

    v_0 = ∂c ,  v_{l+1} = T_l v_l                      (so that dc · v_0 = r_{l+1} dT_l v_l)
    ∂T_l = r_{l+1}ᵀ v_lᵀ + D_{l+1} T_l G_l              (d<∂G', T G Tᵀ> = 2 <∂G' T G, dT> for symmetric ∂G')
    ∂P_k = ∂T_l Q_kᵀ G_l ,   ∂Q_k = (P_k G_l)ᵀ ∂T_l      (from dT = dP G Q and dT = P G dQ)
    D_l = T_lᵀ D_{l+1} T_l + S + Sᵀ ,  S = Σ_k P_kᵀ ∂T_l Q_kᵀ    (from dT = P dG Q, symmetrised since dG is symmetric)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ridgeformer.core.backend import BACKENDS
from ridgeformer.core.forward import gram_weights, layer_maps, query_rows
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw
from ridgeformer.core.validation import finite_array, nonnegative, one_of

EXPLODED = 1e12
"""Above this loss the gradient of a context may overflow in float32: its intermediate values are powers of the loss."""
GROUP = 16
"""Contexts in a group of `group_gradients`: as many as the widest vectors of a processor have lanes."""

OBJECTIVES = ("exact", "sampled")


@dataclass(frozen=True)
class Options:
    """How loss and gradient are computed.

    >>> Options(objective="sampled").exact
    False
    """

    objective: str = "exact"
    """"exact" is ½‖ŵ − w*‖², whose mean is the adjusted loss; "sampled" is the paper's ½(ŷ − y_t)² with one query per
    context. They have the same expected gradient."""
    saturation: float = 0.0
    """s > 0: the gradient is that of the mean of s·ln(1 + loss/s). A context with a huge loss then adds little to it,
    and one with a loss above `EXPLODED` nothing. The returned losses do not change."""
    importance: Array | None = None
    """(batch,) factors that multiply what each context adds to the gradient. The returned losses do not change."""
    backend: str = "auto"
    """"reference" is NumPy, "fused" and "auto" the compiled kernels; they agree to rounding."""
    threads: int | None = None
    """Of the kernels; None for ``RIDGEFORMER_THREADS`` or one per core. Results do not depend on it."""

    def __post_init__(self) -> None:
        one_of("objective", self.objective, OBJECTIVES)
        one_of("backend", self.backend, BACKENDS)
        object.__setattr__(self, "saturation", nonnegative("saturation", self.saturation))
        if self.importance is not None:
            object.__setattr__(self, "importance", finite_array("importance", self.importance, ("batch",)))

    @property
    def exact(self) -> bool:
        """Whether the objective is the exact one."""
        return self.objective == "exact"


def reference_loss_and_gradient(
    model: LinearTransformer, contexts: GramDraw, options: Options
) -> tuple[Array, LinearTransformer]:
    """Each context's loss, and the gradient of their mean as a model of the same kind."""
    saturation, importance = options.saturation, options.importance
    with np.errstate(over="ignore", invalid="ignore"):  # an exploding model shows in the losses
        if saturation > 0:
            losses, _ = score(gram_weights(model, contexts.gram), contexts, options.exact)
            calm = losses < EXPLODED
            if not calm.any():
                return losses, model.replace({name: np.zeros_like(a) for name, a in model.parameters.items()})
            remaining = contexts.rows(calm)
            calm_options = replace(options, importance=None if importance is None else importance[calm])
            _, gradient = _loss_and_gradient(model, remaining, calm_options)
            share = calm.mean(dtype=model.dtype)
            return losses, model.replace({name: share * value for name, value in gradient.parameters.items()})
        return _loss_and_gradient(model, contexts, options)


def _loss_and_gradient(
    model: LinearTransformer, contexts: GramDraw, options: Options
) -> tuple[Array, LinearTransformer]:
    saturation, importance = options.saturation, options.importance
    P, Q = model.attention_matrices()
    maps, grams = layer_maps(model, contexts.gram.astype(model.dtype, copy=False))
    rows = query_rows(maps)
    losses, weights_adjoint = score(-rows[0][:, : model.dim], contexts, options.exact)
    if saturation > 0:
        weights_adjoint = weights_adjoint / (1 + losses / saturation)[:, None]
    if importance is not None:
        weights_adjoint = weights_adjoint * importance.astype(model.dtype)[:, None]
    rest = np.zeros((len(losses), 1 + model.registers), model.dtype)
    columns = [np.concatenate([-weights_adjoint, rest], axis=-1)]
    for T in maps[:-1]:
        columns.append(np.einsum("bij,bj->bi", T, columns[-1]))
    P_gradient, Q_gradient = np.zeros_like(P), np.zeros_like(Q)
    adjoint = np.zeros_like(grams[0])
    for layer in reversed(range(model.layers)):
        T, gram = maps[layer], grams[layer]
        map_adjoint = rows[layer + 1][:, :, None] * columns[layer][:, None, :] + adjoint @ T @ gram
        spread = np.zeros_like(gram)
        for k in range(model.heads):
            product = map_adjoint @ Q[layer, k].T
            P_gradient[layer, k] = np.einsum("bij,bjk->ik", product, gram)
            Q_gradient[layer, k] = np.einsum("bji,bjk->ik", P[layer, k] @ gram, map_adjoint)
            spread += P[layer, k].T @ product
        adjoint = T.transpose(0, 2, 1) @ adjoint @ T + spread + spread.transpose(0, 2, 1)
    own = KINDS[model.kind].gradient(model.parameters, P_gradient / len(losses), Q_gradient / len(losses))
    return losses, model.replace(own)


def score(weights: Array, contexts: GramDraw, exact: bool) -> tuple[Array, Array]:
    """Each context's loss and its gradient with respect to the implicit weights.

    exact:    ½‖ŵ − w*‖² with the oracle w* = w*_{σ²}.  Given the data, w has mean w* and E ½‖ŵ − w‖² = ½‖ŵ − w*‖² + a
              term free of ŵ; so its mean is the adjusted loss, and its gradient the paper's with less variance.
              Queries with moment M = E[x_t x_tᵀ] make it ½(ŵ − w*)ᵀM(ŵ − w*).
    sampled:  ½(<ŵ, x_t> − <w, x_t>)², the paper's own, with one query per context.
    """
    if exact:
        difference = weights - contexts.oracle
        if contexts.moment is None:
            return 0.5 * (difference**2).sum(axis=-1), difference
        slope = (contexts.moment.astype(difference.dtype) @ difference[..., None])[..., 0]
        return 0.5 * (difference * slope).sum(axis=-1), slope
    error = np.einsum("bd,bd->b", weights - contexts.weights, contexts.query)
    return 0.5 * error**2, error[:, None] * contexts.query
