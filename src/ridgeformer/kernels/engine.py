"""The Python side of the kernels: workspaces, chunks, threads. The only module other packages import from here."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import numpy as np

from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw
from ridgeformer.kernels.diagonal import DiagonalState, diagonal_gradient
from ridgeformer.kernels.full import FullState, full_gradient
from ridgeformer.kernels.inference import (
    InferenceState,
    diagonal_losses,
    diagonal_weights,
    draw_contexts,
    full_losses,
    full_weights,
)
from ridgeformer.kernels.sampling import Block, Source
from ridgeformer.kernels.threads import run_divided, run_together
from ridgeformer.kernels.vectors import lane_count
from ridgeformer.kernels.workspace import carve

_CHUNK = 128  # contexts: a multiple of every lane count, and 16 pieces of a batch of 2048
_MAX_CHUNKS = 64  # bounds the memory for per-chunk sums of a very large batch

_Workspace = TypeVar("_Workspace")
_local = threading.local()
_KEPT_WORKSPACES = 6
# What all arguments are made to be, so that a kernel is compiled for one layout only.
_FOR_KERNELS: tuple[Literal["C"], Literal["W"]] = ("C", "W")


def _workspace(kind: Callable[..., _Workspace], shapes: dict[str, tuple[int, ...]], dtype: Any) -> _Workspace:
    """This thread's workspace of these shapes; the last few are kept, so that a training loop allocates nothing."""
    kept: OrderedDict[Any, Any] = _local.__dict__.setdefault("workspaces", OrderedDict())
    key = (kind, tuple(shapes.items()), np.dtype(dtype))
    if key in kept:
        kept.move_to_end(key)
    else:
        kept[key] = kind(**carve(shapes, dtype))
        if len(kept) > _KEPT_WORKSPACES:
            kept.popitem(last=False)
    workspace: _Workspace = kept[key]
    return workspace


def block_workspace(size: int, dtype: Any) -> Block:
    """This thread's room for drawing and holding one block of contexts."""
    dim, square = size - 1, (size, size)
    shapes: dict[str, tuple[int, ...]] = {
        "gram": square,
        "weights": (dim,),
        "query": (dim,),
        "oracle": (dim,),
        "sigma": (),
        "loss": (),
        "factor": square,
        "noise_row": (size,),
        "system": square,
        "normals": ((dim + size * dim // 2 + 3) // 4 * 4,),
    }
    return _workspace(Block, shapes, dtype)


def _chunks(batch: int) -> tuple[int, int]:
    """(contexts per chunk, chunks): a function of the batch size alone."""
    chunk = -(-batch // (_CHUNK * _MAX_CHUNKS)) * _CHUNK
    return chunk, -(-batch // chunk)


def _no_data(size: int, dtype: Any) -> GramDraw:
    rows = np.empty((0, size - 1), dtype)
    return GramDraw(np.empty((0, size, size), dtype), rows, rows, rows)


def _no_source(dtype: Any) -> Source:
    return Source(np.empty(0, dtype), 0, 0, 0, np.zeros(2, np.uint32))


def make_source(sigma: Array, examples: int, step: int, first: int, key: Array, dtype: Any) -> Source:
    """Describe contexts to draw; see `ridgeformer.core.random.draw_gram` for the arguments."""
    return Source(np.ascontiguousarray(sigma, dtype), examples, step, first, np.require(key, np.uint32, _FOR_KERNELS))


def _contexts(contexts: GramDraw | Source, size: int, dtype: Any) -> tuple[GramDraw, Source, int]:
    """(data, source, batch): one of the first two is empty."""
    if isinstance(contexts, Source):
        return _no_data(size, dtype), contexts, len(contexts.sigma)
    data = GramDraw(*(np.require(array, dtype, _FOR_KERNELS) for array in contexts))
    return data, _no_source(dtype), len(data.gram)


def _importance(importance: Array | None, dtype: Any) -> Array:
    return np.empty(0, dtype) if importance is None else np.require(importance, dtype, _FOR_KERNELS)


def full_loss_and_gradient(
    P: Array,
    Q: Array,
    contexts: GramDraw | Source,
    exact: bool,
    threads: int | None = None,
    saturation: float = 0.0,
    importance: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Each context's loss, and the sums over contexts of its gradient with respect to P and Q (float64)."""
    layers, heads, size, _ = P.shape
    dtype, square = P.dtype, (size, size)
    data, source, batch = _contexts(contexts, size, dtype)
    chunk, chunks = _chunks(batch)
    losses, importance = np.empty(batch, dtype), _importance(importance, dtype)
    left_sums, right_sums = np.empty((2, chunks, *P.shape))
    shapes: dict[str, tuple[int, ...]] = {
        "gram": (layers, *square),
        "layer_map": (layers, *square),
        "left": (layers, heads, *square),
        "rows": (layers + 1, size),
        "columns": (layers, size),
        "moved": square,
        "adjoint": square,
        "pushed": square,
        "map_adjoint": square,
        "product": square,
        "spread": square,
        "last": (2, 4, heads, size),
        "left_total": (layers, heads, *square),
        "right_total": (layers, heads, *square),
    }

    tickets = np.zeros(1, np.int64)

    def work() -> None:
        state, block = _workspace(FullState, shapes, dtype), block_workspace(size, dtype)
        sums = left_sums, right_sums
        options = exact, float(saturation), importance
        full_gradient(P, Q, data, source, *options, chunk, tickets, block, state, losses, *sums)

    run_together(work, chunks, threads)
    return losses, left_sums.sum(axis=0), right_sums.sum(axis=0)


def diagonal_loss_and_gradient(
    omega: Array,
    size: int,
    contexts: GramDraw | Source,
    exact: bool,
    threads: int | None = None,
    saturation: float = 0.0,
    importance: Array | None = None,
) -> tuple[Array, Array]:
    """Each context's loss, and the sum over contexts of its gradient with respect to ω (L, 4), in float64."""
    layers, dtype, square = len(omega), omega.dtype, (size, size)
    data, source, batch = _contexts(contexts, size, dtype)
    chunk, chunks = _chunks(batch)
    losses, importance = np.empty(batch, dtype), _importance(importance, dtype)
    omega_sums = np.empty((chunks, layers, 4))
    shapes: dict[str, tuple[int, ...]] = {
        "gram": (layers, *square),
        "layer_map": (layers, *square),
        "moved": (layers, *square),
        "rows": (layers + 1, size),
        "columns": (layers, size),
        "adjoint": square,
        "pushed": square,
        "map_adjoint": square,
        "last": (2, 4, size),
        "omega_total": (layers, 4),
    }

    tickets = np.zeros(1, np.int64)

    def work() -> None:
        state, block = _workspace(DiagonalState, shapes, dtype), block_workspace(size, dtype)
        options = exact, float(saturation), importance
        diagonal_gradient(omega, data, source, *options, chunk, tickets, block, state, losses, omega_sums)

    run_together(work, chunks, threads)
    return losses, omega_sums.sum(axis=0)


def _inference_workspace(layers: int, size: int, dtype: Any) -> InferenceState:
    square = (size, size)
    shapes: dict[str, tuple[int, ...]] = {
        "gram": (2, *square),
        "layer_map": (layers, *square),
        "moved": square,
        "left": square,
        "rows": (2, size),
    }
    return _workspace(InferenceState, shapes, dtype)


def losses_from_source(
    parameters: tuple[Array, Array] | Array, dim: int, source: Source, threads: int | None = None
) -> Array:
    """(2, batch): ½‖ŵ − w*‖² and ½‖ŵ − w‖² of contexts that are drawn on the way and not kept."""
    first = parameters[0] if isinstance(parameters, tuple) else parameters
    dtype, layers, batch, size = first.dtype, len(first), len(source.sigma), dim + 1
    out = np.empty((2, batch), dtype)
    lanes = lane_count(dtype.itemsize)

    def work(begin: int, end: int) -> None:
        state, block = _inference_workspace(layers, size, dtype), block_workspace(size, dtype)
        span = begin * lanes, min(end * lanes, batch)
        if isinstance(parameters, tuple):
            full_losses(*parameters, source, *span, block, state, out)
        else:
            diagonal_losses(parameters, source, *span, block, state, out)

    run_divided(work, -(-batch // lanes), threads)
    return out


def weights_from_gram(
    parameters: tuple[Array, Array] | Array, gram: Array, every_layer: bool = False, threads: int | None = None
) -> Array:
    """Implicit weights (batch, d) of a model given as (P, Q) or as ω; with ``every_layer``, (L, batch, d)."""
    first = parameters[0] if isinstance(parameters, tuple) else parameters
    dtype, layers = first.dtype, len(first)
    batch, size, _ = gram.shape
    gram = np.require(gram, dtype, _FOR_KERNELS)
    out = np.empty((layers if every_layer else 1, batch, size - 1), dtype)

    def work(begin: int, end: int) -> None:
        state = _inference_workspace(layers, size, dtype)
        if isinstance(parameters, tuple):
            P, Q = parameters
            full_weights(P, Q, gram, every_layer, begin * lanes, min(end * lanes, batch), state, out)
        else:
            diagonal_weights(parameters, gram, every_layer, begin * lanes, min(end * lanes, batch), state, out)

    lanes = lane_count(dtype.itemsize)
    run_divided(work, -(-batch // lanes), threads)
    return out if every_layer else out[0]


def draw(dim: int, source: Source, threads: int | None = None) -> GramDraw:
    """Draw contexts and keep them, as arrays."""
    batch, dtype = len(source.sigma), source.sigma.dtype
    rows = [np.empty((batch, dim), dtype) for _ in range(3)]
    data = GramDraw(np.empty((batch, dim + 1, dim + 1), dtype), *rows)
    lanes = lane_count(dtype.itemsize)

    def work(begin: int, end: int) -> None:
        draw_contexts(data, source, begin * lanes, min(end * lanes, batch), block_workspace(dim + 1, dtype))

    run_divided(work, -(-batch // lanes), threads)
    return data
