"""Diagonal layers as four numbers: ω_xx, ω_xy, ω_yx, ω_yy, each free of the others.

One head has ω_xx ω_yy = ω_xy ω_yx, so that no single ω of it can be switched off. Two heads, p = (1, 0) with
q = (ω_xx, ω_xy) and p = (0, 1) with q = (ω_yx, ω_yy), have any four ω whatever: that is the form all work is done in.
"""

from __future__ import annotations

import numpy as np

from ridgeformer.core.distributions import NoisePrior
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError

OMEGAS = ("xx", "xy", "yx", "yy")
"""The order of ω everywhere: target block first. ω_xy moves x by multiples of y."""
ROLES = ("preconditioning", "noise-adaptive step", "gradient step", "rescaling")
"""What the paper says each is for."""
_NODES = 64  # of the quadrature of E σ²


def omega_of(model: LinearTransformer) -> Array:
    """(layers, 4) of a diag or gdpp model, float64."""
    if model.kind == "full":
        raise InputError(
            "Only diag and gdpp models have four numbers ω a layer; a full model has matrices, of which "
            "`diagonal_fit` gives the nearest ω."
        )
    return model.astype(np.float64).omega()


def model_from_omega(omega: Array, dim: int) -> LinearTransformer:
    """The diag model with these ω (layers, 4): two heads, float64."""
    omega = np.asarray(omega, np.float64)
    p = np.broadcast_to(np.eye(2), (len(omega), 2, 2))
    return LinearTransformer("diag", dim, {"p": p, "q": omega.reshape(-1, 2, 2)})


def inert(layers: int) -> Array:
    """(layers, 4) of bool: the ω that cannot change any prediction.

    The prediction is read from the query's y, so nothing reads the x that the last layer writes: its ω_xx and ω_xy do
    nothing. In a model of one layer ω_yy does nothing either, since the query's y is still zero.
    """
    dead = np.zeros((layers, 4), bool)
    dead[-1, :2] = True
    if layers == 1:
        dead[-1, 3] = True
    return dead


def expected_variance(prior: NoisePrior) -> float:
    """E σ²."""
    levels, weights = prior.quadrature(_NODES)
    return float(weights @ levels**2)


def natural_units(task: Task) -> Array:
    """(4,): the size of an ω that matters in a first layer, where Σ is about n I and λ about n (d + E σ²).

    1/n for ω_xx and ω_yx, which multiply Σ and α; 1/E λ for ω_xy and ω_yy, which multiply y α and λ.
    """
    of_scatter = 1 / task.examples
    of_energy = 1 / (task.examples * (task.dim + expected_variance(task.prior)))
    return np.array([of_scatter, of_energy, of_scatter, of_energy])
