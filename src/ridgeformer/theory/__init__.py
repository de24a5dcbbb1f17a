"""The paper's theory as code: each result as a function of any model and any context, with a numerical check.

| result | says | module |
|---|---|---|
| Theorem 4.1, Lemma 4.3 | every layer keeps a linear model (M, u, a, w) of its context | `implicit_model` |
| the same with registers | every layer keeps 1 + r weight vectors | `registers` |
| Lemma 4.4 | a diagonal layer is gradient descent with momentum | `momentum` |
| Theorem 4.2 | x(1)² cannot be represented | `nonlinear_limit` |
| Theorem 5.1 | GD++ is a second-order method: O(log κ + log log 1/ε) layers | `second_order` |
| Theorem 5.2 | two layers reach optimal ridge regression at two noise levels | `two_layer` |
| Section 5.3 | ω_xy adapts the step size to the noise | `step_size` |

`run_checks` compares all of them with numbers, and `theory_curves` gives those that are limits as curves. Everything is
plain NumPy in float64. Errors in the printed formulas are named where they occur.
"""

from __future__ import annotations

from ridgeformer.theory.checks import Check, run_checks
from ridgeformer.theory.curves import Curves, theory_curves
from ridgeformer.theory.implicit_model import ImplicitModel, implicit_models
from ridgeformer.theory.momentum import MomentumLayer, momentum_layers
from ridgeformer.theory.registers import RegisterModel, register_models
from ridgeformer.theory.second_order import second_order_network
from ridgeformer.theory.step_size import StepSize, adaptive_step_network, effective_step_size
from ridgeformer.theory.two_layer import two_layer_network

__all__ = [
    "Check",
    "Curves",
    "ImplicitModel",
    "MomentumLayer",
    "RegisterModel",
    "StepSize",
    "adaptive_step_network",
    "effective_step_size",
    "implicit_models",
    "momentum_layers",
    "register_models",
    "run_checks",
    "second_order_network",
    "theory_curves",
    "two_layer_network",
]
