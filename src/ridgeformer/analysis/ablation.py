"""Switching parts of a model off, to see what they are for.

A layer adds [[A, b], [cᵀ, δ]] = Σ_k P_k G Q_k to the identity. In a diagonal layer the blocks are ω_xx Σ, ω_xy α,
ω_yx αᵀ and ω_yy λ. So to switch an ω off is to set a block to zero, which is possible in a model of any kind: rows of P
choose the coordinates that are written, and columns of Q the coordinates of the token that they are multiples of. With
one head, a single block cannot be zero alone; with two it can, so a model with blocks switched off has twice as many
heads. In a full model a block is more than an ω: Σ, α and λ all enter each of the four blocks through the columns of P
and the rows of Q.

A part may matter only because the rest was trained to rely on it. So the rest is also fitted again: the other ω, or all
other entries of P and Q. The control is the model with nothing switched off, fitted again in the same form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ridgeformer.analysis.diagonal import (
    OMEGAS,
    acting_matrices,
    inert,
    model_from_omega,
    omega_of,
    omega_of_kind,
    refuse_registers,
)
from ridgeformer.analysis.noise_bands import Measured, Sample, measure
from ridgeformer.analysis.refit import Tuner
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.validation import InputError, instance, one_of
from ridgeformer.theory.numerics import is_diagonal

_ITERATIONS = 100  # of each refit of ω; `Tuner.fit_entries` has its own number


@dataclass(frozen=True)
class Ablation:
    """The losses of a model with some blocks switched off, in one layer or in all; `ablations` makes it."""

    blocks: tuple[str, ...]  # of "xx", "xy", "yx", "yy"; none for the control
    layer: int | None  # counted from 1; None for all layers
    inert: bool  # whether the model cannot change, because nothing reads what the block writes
    alone: Measured  # without anything else changed
    refitted: Measured | None  # with all else fitted again, to compare with the control's; None if inert, or not asked
    omega: Array | None  # (layers, 4) after refitting; None for full models

    @property
    def label(self) -> str:
        """Such as "ω_xy, layer 2"."""
        where = "all layers" if self.layer is None else f"layer {self.layer}"
        return f"{' and '.join(f'ω_{block}' for block in self.blocks)}, {where}" if self.blocks else "nothing"


def switched_off(model: LinearTransformer, off: Array) -> LinearTransformer:
    """The model without some blocks of its layers.

    Parameters
    ----------
    model: of any kind.
    off: (layers, 4) of bool, true for the blocks xx, xy, yx, yy to be switched off; `mark` makes it.

    Returns a model of twice the heads, or the model itself if nothing is off. Raises `InputError` for another shape.

    >>> import ridgeformer as rf
    >>> model = rf.LinearTransformer.init("diag", layers=2, dim=3)
    >>> switched_off(model, mark(2, ["xy"], layer=None)).omega()[:, 1].tolist()
    [0.0, 0.0]
    """
    refuse_registers(model)
    off = np.asarray(off, bool)
    if off.shape != (model.layers, 4):
        raise InputError(f"off must say for each of {model.layers} layers and 4 blocks whether it is off.")
    if not off.any():
        return model
    if is_diagonal(model):
        return model_from_omega(np.where(off, 0.0, omega_of(model)), model.dim)
    return _dense_without(model, off)[0]


def _dense_without(model: LinearTransformer, off: Array) -> tuple[LinearTransformer, Array]:
    """(a full model of twice the heads without these blocks, which of its entries (size,) can change a prediction)."""
    acts = ~(off | inert(model.layers)).reshape(-1, 2, 2)  # (layer, block that is written, block that is read)
    block = np.r_[np.zeros(model.dim, int), 1]  # of every coordinate: x, or y at the end
    writes = acts[..., 0] | acts[..., 1]
    rows = writes[..., None] & (block == np.arange(2)[:, None])  # of P that act, (layers, 2, p); then columns of Q
    masks = rows[..., None], acts[..., block][:, :, None]
    doubled = [np.tile(matrix, (1, 2, 1, 1)) for matrix in acting_matrices(model)]  # heads that write x, that write y
    free = [np.broadcast_to(np.repeat(mask, model.heads, axis=1), doubled[0].shape) for mask in masks]
    matrices = {name: np.where(mask, matrix, 0.0) for name, mask, matrix in zip("PQ", free, doubled, strict=True)}
    return LinearTransformer("full", model.dim, matrices), np.concatenate([mask.ravel() for mask in free])


def mark(layers: int, blocks: Sequence[str], layer: int | None) -> Array:
    """(layers, 4) of bool for `switched_off`: these blocks, in one layer (counted from 1) or in all.

    >>> mark(2, ["xx", "xy"], layer=1).sum(axis=1).tolist()
    [2, 0]
    """
    off = np.zeros((layers, 4), bool)
    rows = slice(None) if layer is None else layer - 1
    for block in blocks:
        off[rows, OMEGAS.index(one_of("block", block, OMEGAS))] = True
    return off


def ablations(
    model: LinearTransformer,
    sample: Sample,
    tuner: Tuner | None = None,
    on_done: Callable[[int, int], None] | None = None,
    each_layer: bool = True,
) -> tuple[Ablation, ...]:
    """Measure losses with parts switched off: nothing, each block in all layers, both that read y, each in each layer.

    Parameters
    ----------
    model: of any kind; without both blocks that read y a diagonal model is GD++.
    sample: contexts of its dimension, to measure losses on.
    tuner: if given, the rest is also fitted again.
    on_done: called with the number of ablations done and their total.
    each_layer: whether to switch blocks off in single layers too.

    Returns the ablations, nothing switched off first. Raises `InputError` if model and sample do not fit.

    >>> import ridgeformer as rf
    >>> model = rf.LinearTransformer.init("gdpp", layers=2, dim=3)
    >>> [part.label for part in ablations(model, Sample.draw(rf.Task(3, 8), 100), each_layer=False)]
    ['nothing', 'ω_xx, all layers', 'ω_yx, all layers']
    """
    own = omega_of_kind(instance("model", model, LinearTransformer).kind)
    blocks = [(name,) for name, has in zip(OMEGAS, own, strict=True) if has]
    both = [("xy", "yy")] if own.all() else []
    wanted: list[tuple[tuple[str, ...], int | None]] = [((), None)]
    wanted += [(names, None) for names in blocks + both]
    if each_layer:
        wanted += [(names, layer) for layer in range(1, model.layers + 1) for names in blocks]
    measured = []
    for number, (names, layer) in enumerate(wanted, 1):
        measured.append(_ablation(model, sample, tuner, names, layer))
        if on_done is not None:
            on_done(number, len(wanted))
    return tuple(measured)


def _ablation(
    model: LinearTransformer, sample: Sample, tuner: Tuner | None, blocks: tuple[str, ...], layer: int | None
) -> Ablation:
    off, dead = mark(model.layers, blocks, layer), inert(model.layers)
    alone = measure(switched_off(model, off), sample)
    unchanged, free = bool(blocks) and not (off & ~dead).any(), ~(off | dead)
    refitted, omega = None, None
    if tuner is not None and not unchanged:
        if not free[:, 2].any():  # without any ω_yx the query's y stays 0, whatever the rest
            refitted = alone
        elif is_diagonal(model):
            omega, _ = tuner.fit_omega(omega_of(model), free & omega_of_kind(model.kind), _ITERATIONS)
            refitted = measure(model_from_omega(omega, model.dim), sample)
        else:
            left, entries = _dense_without(model, off)
            refitted = measure(tuner.fit_entries(left.astype(model.dtype), entries), sample)
    return Ablation(blocks, layer, unchanged, alone, refitted, omega)
