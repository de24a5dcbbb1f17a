"""Switching parts of a model off, to see what they are for.

A layer adds [[A, b], [cᵀ, δ]] = Σ_k P_k G Q_k to the identity. In a diagonal layer the blocks are ω_xx Σ, ω_xy α,
ω_yx αᵀ and ω_yy λ, so switching an ω off is emptying a block, which can be done to a model of any kind: rows of P
choose the coordinates that are written, columns of Q those of the token that they are multiples of. One head cannot do
without a single block; two can, so a model with blocks switched off has twice the heads. In a full model a block is
more than an ω: Σ, α and λ all enter each of the four through the columns of P and the rows of Q.

A part may matter only because the rest was trained to rely on it. So what is left is also fitted anew: the other ω, or
all other entries of P and Q. The model with nothing switched off is fitted anew as well, in the same form, and is what
to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ridgeformer.analysis.gauge import acting_matrices
from ridgeformer.analysis.omega import OMEGAS, inert, model_from_omega, natural_units, omega_of
from ridgeformer.analysis.retune import Tuner
from ridgeformer.analysis.samples import Measured, Sample, measure
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.validation import InputError, one_of

OnDone = Callable[[int, int], None] | None
"""Called with the number of ablations done and their total."""
_ITERATIONS = 100  # of each refit of ω; `Tuner.fit_entries` has its own number


@dataclass(frozen=True)
class Ablation:
    """A model with some blocks switched off, in one layer or in all."""

    blocks: tuple[str, ...]
    """Of "xx", "xy", "yx", "yy"; none for the control."""
    layer: int | None
    """Counted from 1; None for all layers."""
    inert: bool
    """Whether the model cannot change, because nothing reads what the block writes."""
    alone: Measured
    """Without anything else changed."""
    refitted: Measured | None = None
    """With all else fitted anew; the control's row is what to compare it with. None if inert, or not asked for."""
    omega: Array | None = None
    """(layers, 4) after refitting; None for full models."""

    @property
    def label(self) -> str:
        """Such as "ω_xy, layer 2"."""
        if not self.blocks:
            return "nothing"
        return " and ".join(f"ω_{block}" for block in self.blocks) + (
            ", all layers" if self.layer is None else f", layer {self.layer}"
        )


def switched_off(model: LinearTransformer, off: Array) -> LinearTransformer:
    """The model without the blocks marked in ``off`` (layers, 4) of bool; itself if there are none."""
    off = np.asarray(off, bool)
    if off.shape != (model.layers, 4):
        raise InputError(f"off must say for each of {model.layers} layers and 4 blocks whether it is off.")
    if not off.any():
        return model
    if model.kind != "full":
        return model_from_omega(np.where(off, 0.0, omega_of(model)), model.dim)
    return _full_without(model, off)[0]


def _full_without(model: LinearTransformer, off: Array) -> tuple[LinearTransformer, Array]:
    """(a full model of twice the heads without these blocks, which of its entries (size,) can change a prediction)."""
    P, Q = acting_matrices(model)
    acts = ~(off | inert(model.layers))
    parts: dict[str, list[Array]] = {"P": [], "Q": []}
    for target, rows in enumerate((slice(None, -1), slice(-1, None))):  # what is written: x, then y
        kept_P, kept_Q = np.zeros(P.shape, bool), np.zeros(Q.shape, bool)
        for place, columns in ((2 * target, slice(None, -1)), (2 * target + 1, slice(-1, None))):
            kept_P[acts[:, place], :, rows] = True
            kept_Q[acts[:, place], ..., columns] = True
        parts["P"].append(kept_P)
        parts["Q"].append(kept_Q)
    free = {name: np.concatenate(kept, axis=1) for name, kept in parts.items()}
    matrices = {name: np.where(free[name], np.tile(m, (1, 2, 1, 1)), 0.0) for name, m in (("P", P), ("Q", Q))}
    return LinearTransformer("full", model.dim, matrices), np.concatenate([free["P"].ravel(), free["Q"].ravel()])


def mark(layers: int, blocks: Sequence[str], layer: int | None) -> Array:
    """(layers, 4) of bool: these blocks, in one layer (counted from 1) or in all."""
    off = np.zeros((layers, 4), bool)
    rows = slice(None) if layer is None else layer - 1
    for block in blocks:
        off[rows, OMEGAS.index(one_of("block", block, OMEGAS))] = True
    return off


def ablations(
    model: LinearTransformer,
    sample: Sample,
    tuner: Tuner | None = None,
    on_done: OnDone = None,
    each_layer: bool = True,
) -> tuple[Ablation, ...]:
    """Nothing, each block in all layers, both that read a token's y, and unless told not to each block of each layer.

    Without both that read y a diagonal model is GD++. With a tuner, what is left is also fitted anew.
    """
    blocks = [(name,) for name in (OMEGAS if model.kind != "gdpp" else ("xx", "yx"))]
    both = [("xy", "yy")] if model.kind != "gdpp" else []
    wanted: list[tuple[tuple[str, ...], int | None]] = [((), None)]
    wanted += [(names, None) for names in blocks + both]
    if each_layer:
        wanted += [(names, layer) for layer in range(1, model.layers + 1) for names in blocks]
    found = []
    for number, (names, layer) in enumerate(wanted, 1):
        found.append(_ablation(model, sample, tuner, names, layer))
        if on_done is not None:
            on_done(number, len(wanted))
    return tuple(found)


def _ablation(
    model: LinearTransformer, sample: Sample, tuner: Tuner | None, blocks: tuple[str, ...], layer: int | None
) -> Ablation:
    off, dead = mark(model.layers, blocks, layer), inert(model.layers)
    alone = measure(switched_off(model, off), sample)
    unchanged = bool(blocks) and not (off & ~dead).any()
    free = ~(off | dead)
    nothing_left = not free[:, 2].any()  # without any ω_yx the query's y stays 0, whatever the rest
    if tuner is None or unchanged or nothing_left:
        return Ablation(blocks, layer, unchanged, alone, alone if tuner is not None and nothing_left else None)
    if model.kind == "full":
        left, entries = _full_without(model, off)
        fitted = tuner.fit_entries(left.astype(model.dtype), entries)
        return Ablation(blocks, layer, unchanged, alone, measure(fitted, sample))
    if model.kind == "gdpp":
        free[:, [1, 3]] = False
    omega, _ = tuner.fit_omega(omega_of(model), free, natural_units(sample.task), _ITERATIONS)
    return Ablation(blocks, layer, unchanged, alone, measure(model_from_omega(omega, model.dim), sample), omega)
