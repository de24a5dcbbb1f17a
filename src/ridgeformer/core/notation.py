"""The legend: every symbol of the code and the documentation, its name, shape and where the paper defines it.

Paper: Vladymyrov, von Oswald, Sandler, Ge, *Linear Transformers are Versatile In-Context Learners*, NeurIPS 2024,
arXiv 2402.14180. ``batch`` is the number of contexts, and ``p`` is d + 1 + r. Shapes are those of one context.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FloatArray = NDArray[np.floating[Any]]


class Symbol(NamedTuple):
    """One line of the legend."""

    symbol: str
    name: str
    shape: str
    meaning: str


LEGEND: tuple[Symbol, ...] = (
    Symbol("d", "dim", "", "number of features of an example"),
    Symbol("n", "examples", "", "number of examples in a context (`Task.examples`)"),
    Symbol("r", "registers", "", "number of registers of a token; 0 in the paper"),
    Symbol("p", "size", "", "d + 1 + r, the length of a token"),
    Symbol("L", "layers", "", "number of layers"),
    Symbol("H", "heads", "", "number of attention heads of a layer"),
    Symbol("x_i", "X", "(n, d)", "features of the examples, N(0, I)"),
    Symbol("y_i", "y", "(n,)", "targets, <w, x_i> + ξ_i"),
    Symbol("w", "weights", "(d,)", "true weights of a context, N(0, I)"),
    Symbol("σ", "sigma", "", "standard deviation of the noise ξ, one per context; the model does not know it"),
    Symbol("x_t", "query", "(d,)", "features to predict for; the query token is (x_t, 0, 0)"),
    Symbol("m_i", "registers", "(n, r)", "extra coordinates of a token, zero before the first layer"),
    Symbol("e_i", "tokens", "(n, p)", "(x_i, m_i, y_i), what a layer transforms"),
    Symbol("Σ", "scatter", "(d, d)", "Σ_i x_i x_iᵀ, the x block of G"),
    Symbol("α", "cross", "(d,)", "Σ_i y_i x_i, the off-diagonal block of G"),
    Symbol("λ", "energy", "", "Σ_i y_i², the last entry of G"),
    Symbol("G", "gram", "(p, p)", "Σ_i e_i e_iᵀ, all that a layer sees of the examples"),
    Symbol("P, Q", "P, Q", "(L, H, p, p)", "W_P W_V and W_Kᵀ W_Q of every head (the paper's section 3)"),
    Symbol("p_x, p_y, q_x, q_y", "p, q", "(L, H, 2)", "diagonals of P and Q of a DIAG model, on the x and the y block"),
    Symbol("ω", "omega", "(L, 4)", "ω_xx, ω_xy, ω_yx, ω_yy: sums over heads of p_x q_x, p_x q_y, p_y q_x, p_y q_y"),
    Symbol("T", "layer_map", "(p, p)", "I + Σ_k P_k G Q_k, what a layer does to a token"),
    Symbol("c", "query_row", "(p,)", "e_pᵀ T_{L−1} … T_0, the last coordinate of a token after all layers"),
    Symbol("ŵ", "implicit weights", "(d,)", "−c[:d]: the prediction for x_t is <ŵ, x_t>"),
    Symbol("w*_v", "ridge", "(d,)", "(Σ + v I)⁻¹ α, ridge regression with penalty v; the oracle has v = σ²"),
)
