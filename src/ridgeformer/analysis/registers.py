"""What registers hold: by Theorem 4.1 with registers (`theory.registers`), each holds a linear model of its own.

Register m of a token holds A_m y_i − <w_m, x_i>. So after every layer there are r weight vectors w_m beside the model's
own ŵ, and each can be compared with what an algorithm might keep there: ŵ itself (a copy, or another step size), the
change of ŵ in this layer (momentum), the first gradient α, ridge regression that is told the noise.

Only what registers hold together has a meaning: a model whose registers are mixed by an invertible matrix, and unmixed
wherever they are read, computes the same function. With one register only its scale is free, which cosines ignore. So
`span` is given as well: how much of ŵ's change in the next layer lies in the span of all w_m and ŵ.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ridgeformer._version import __version__
from ridgeformer.analysis.noise_bands import Measured, Sample, median_of
from ridgeformer.core.forward import check_model
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.storage import plain
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, instance
from ridgeformer.theory.registers import register_models

_TRACED = 2000  # contexts on which the state of every layer is followed in NumPy


@dataclass(frozen=True)
class RegisterReadout:
    """One register after one layer; medians over contexts."""

    layer: int
    register: int
    target: float  # A_m, the share of y in it
    size: float  # ‖w_m‖ over ‖ŵ‖
    own: float  # cosines of w_m: with ŵ,
    change: float  # with what this layer added to ŵ,
    gradient: float  # with α, minus the gradient at zero,
    oracle: float  # and with ridge regression that is told σ
    span: float | None  # share of the next change of ŵ in the span of all w_m and ŵ; None after the last layer


@dataclass(frozen=True)
class RegisterExplanation:
    """What the registers of a model hold after each layer; `explain_registers` makes it."""

    label: str
    model: LinearTransformer
    task: Task
    seed: int
    sequences: int
    readouts: tuple[RegisterReadout, ...]
    progress: tuple[Measured, ...]  # losses of what the model would say after each layer

    def as_json(self) -> dict[str, Any]:
        """Plain JSON; a number that is not finite is null."""
        names = ("kind", "layers", "heads", "registers", "dim")
        record = {
            "version": __version__,
            "model": {"label": self.label, **{name: getattr(self.model, name) for name in names}},
            "task": self.task,
            "seed": self.seed,
            "sequences": self.sequences,
            "registers": self.readouts,
            "progress": self.progress,
        }
        return {name: plain(value) for name, value in record.items()}


def explain_registers(
    model: LinearTransformer, task: Task, *, label: str = "model", sequences: int | None = None, seed: int = 0
) -> RegisterExplanation:
    """Measure what the registers of a model hold after every layer.

    Parameters
    ----------
    model: with at least one register.
    task: contexts of the model's dimension.
    label: what to call the model.
    sequences, seed: how many fresh contexts, and which; by default 20 000, or what fits 64 MB.

    Returns a record. Raises `InputError` if model and task do not fit, or there is no register.

    >>> import ridgeformer as rf
    >>> model = rf.LinearTransformer.init("diag", layers=3, dim=3, registers=2)
    >>> explained = explain_registers(model, rf.Task(3, 8), sequences=100)
    >>> len(explained.readouts), len(explained.progress)
    (6, 3)
    """
    if not check_model(model, instance("task", task, Task).dim).registers:
        raise InputError("This model has no registers; use ridgeformer.analysis.explain_model.")
    sample = Sample.draw(task, sequences, seed)
    progress = tuple(Measured.of(read_out, sample) for read_out in sample.layer_weights(model))
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # an exploding model shows in the numbers
        readouts = tuple(_readouts(model, sample.first(_TRACED)))
    return RegisterExplanation(label, model, task, seed, sample.sequences, readouts, progress)


def _readouts(model: LinearTransformer, sample: Sample) -> list[RegisterReadout]:
    states, found = register_models(model, sample.context), []
    changes = [after.W[:, -1] - before.W[:, -1] for before, after in pairwise(states)]
    for layer, state in enumerate(states[1:], 1):
        own = state.W[:, -1]
        span = _share(changes[layer], state.W) if layer < model.layers else None
        for register in range(model.registers):
            held = state.W[:, register]
            size = np.linalg.norm(held, axis=-1) / np.linalg.norm(own, axis=-1)
            known = (own, changes[layer - 1], sample.context.cross, sample.oracle)
            numbers = (state.A[:, register], size, *(_cosine(held, other) for other in known))
            target, length, of_own, of_change, of_gradient, of_oracle = map(median_of, numbers)
            cosines = (of_own, of_change, of_gradient, of_oracle)
            found.append(RegisterReadout(layer, register + 1, target, length, *cosines, span))
    return found


def _cosine(first: Array, second: Array) -> Array:
    """Of each context's two vectors; NaN where one is zero."""
    return (first * second).sum(axis=-1) / (np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1))


def _share(vectors: Array, rows: Array) -> float:
    """Median share of the square of ``vectors`` (batch, d) that lies in the span of ``rows`` (batch, s, d)."""
    finite = np.isfinite(vectors).all(axis=-1) & np.isfinite(rows).all(axis=(1, 2))
    if not finite.any():
        return float("nan")
    _, values, basis = np.linalg.svd(rows[finite], full_matrices=False)
    kept = values > 1e-10 * values[:, :1]  # float64 leaves 1e-16 of rows that depend on one another
    inside = (np.where(kept, np.einsum("bsd,bd->bs", basis, vectors[finite]), 0.0) ** 2).sum(axis=-1)
    return median_of(inside / (vectors[finite] ** 2).sum(axis=-1))
