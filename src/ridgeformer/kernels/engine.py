"""The Python side of the kernels: workspaces, chunks, threads. `core.backend` loads it when it is first needed.

Every function takes a model as its kind hands it over (`core.kinds.Compiled`): dense matrices or blocks of ω.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from ridgeformer.core.gradient import GROUP, Options
from ridgeformer.core.kinds import Blocks, Compiled, Dense
from ridgeformer.core.notation import Array
from ridgeformer.core.random import ROUNDING, GaussianSource, GramDraw, Source
from ridgeformer.core.validation import check_memory
from ridgeformer.kernels.diagonal import DiagonalState, diagonal_gradient
from ridgeformer.kernels.full import FullState, full_gradient
from ridgeformer.kernels.gaussian import GaussianBlock, GaussianTask, draw_gaussian
from ridgeformer.kernels.inference import (
    InferenceState,
    diagonal_losses,
    diagonal_weights,
    draw_contexts,
    full_losses,
    full_weights,
)
from ridgeformer.kernels.sampling import Block
from ridgeformer.kernels.threads import run_divided, run_together
from ridgeformer.kernels.vectors import VECTOR_BYTES, lane_count

_CHUNK = 128  # contexts: a multiple of every lane count, and 16 pieces of a batch of 2048
_MAX_CHUNKS = 64  # bounds the memory for per-chunk sums of a very large batch
_KEPT_WORKSPACES = 6
# What all arguments are made to be, so that a kernel is compiled for one layout only.
_FOR_KERNELS: tuple[Literal["C"], Literal["W"]] = ("C", "W")

_Shapes = dict[str, tuple[int, ...]]
_Workspace = TypeVar("_Workspace")
_local = threading.local()


class KernelOptions(NamedTuple):
    """`core.gradient.Options` as kernels take them."""

    exact: bool
    saturation: float  # 0 for none; otherwise exploding contexts are left out of the gradient
    importance: Array  # (batch,), or empty for 1 each
    moment: Array  # M of the objective: (0, d, d) for I, (1, d, d) for all, (batch, d, d) for each context


class _Family(NamedTuple):
    """The kernels for one form of parameters; each takes its arrays first."""

    size: Callable[[Any, int], int]  # p, from (parameters, dim)
    state: Callable[..., Any]
    shapes: Callable[[Any, int], _Shapes]  # of the state, likewise
    gradient: Callable[..., None]
    losses: Callable[..., None]
    weights: Callable[..., None]


def _full_size(parameters: Dense, dim: int) -> int:
    return int(parameters.P.shape[-1])


def _full_shapes(parameters: Dense, dim: int) -> _Shapes:
    layers, heads, size, _ = every_head = parameters.P.shape
    square = (size, size)
    return {
        **dict.fromkeys(("gram", "layer_map"), (layers, *square)),
        **dict.fromkeys(("left", "left_total", "right_total"), every_head),
        **dict.fromkeys(("moved", "adjoint", "pushed", "map_adjoint", "product", "spread"), square),
        "rows": (layers + 1, size),
        "columns": (layers, size),
        "last": (2, 4, heads, size),
    }


def _diagonal_size(parameters: Blocks, dim: int) -> int:
    return dim + parameters.rest


def _diagonal_gradient(omega: Array, *arguments: Any) -> None:
    diagonal_gradient((0,) * Blocks(omega).rest, omega, *arguments)


def _diagonal_shapes(parameters: Blocks, dim: int) -> _Shapes:
    layers, rest = len(parameters.omega), parameters.rest
    return {
        "matrices": (layers, 2, dim, dim),
        "panels": (layers, 3, dim, rest),
        "smalls": (layers, 7, rest, rest),
        "vectors": (layers, 3, dim),
        "shorts": (layers, 6, rest),
        "adjoint": (3, dim, dim),
        "cross_adjoint": (7, dim, rest),
        "energy_adjoint": (7, rest, rest),
        "total": parameters.omega.shape,
    }


_FAMILIES: dict[type, _Family] = {
    Dense: _Family(_full_size, FullState, _full_shapes, full_gradient, full_losses, full_weights),
    Blocks: _Family(
        _diagonal_size, DiagonalState, _diagonal_shapes, _diagonal_gradient, diagonal_losses, diagonal_weights
    ),
}


def carve(shapes: _Shapes, dtype: Any) -> dict[str, Array]:
    """Zeroed lane arrays of these shapes, with a lane axis appended, one after the other in one aligned buffer.

    Separate arrays would all start at the same place within a page, and a load waits for an earlier store that is 4096
    bytes away: measured, that costs a fifth of the speed of a product.
    """
    lanes = lane_count(np.dtype(dtype).itemsize)
    counts = {name: int(np.prod(shape, dtype=np.int64)) for name, shape in shapes.items()}
    check_memory("This model", 2.0 * sum(counts.values()) * VECTOR_BYTES)
    buffer = np.zeros((sum(counts.values()) + 1) * VECTOR_BYTES, dtype=np.uint8)
    start = -buffer.ctypes.data % VECTOR_BYTES
    arrays = {}
    for name, shape in shapes.items():
        stop = start + counts[name] * VECTOR_BYTES
        arrays[name] = buffer[start:stop].view(dtype).reshape(*shape, lanes)
        start = stop
    return arrays


def _workspace(kind: Callable[..., _Workspace], shapes: _Shapes, dtype: Any) -> _Workspace:
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
    dim = size - 1
    shapes: _Shapes = {
        **dict.fromkeys(("gram", "factor", "system"), (size, size)),
        **dict.fromkeys(("weights", "query", "oracle"), (dim,)),
        **dict.fromkeys(("sigma", "loss"), ()),
        "noise_row": (size,),
        "normals": ((dim + size * dim // 2 + 3) // 4 * 4,),
    }
    return _workspace(Block, shapes, dtype)


def _inference_workspace(layers: int, size: int, dtype: Any) -> InferenceState:
    square = (size, size)
    shapes: _Shapes = {"gram": (2, *square), "layer_map": (layers, *square), "rows": (2, size)}
    shapes |= dict.fromkeys(("moved", "left"), square)
    return _workspace(InferenceState, shapes, dtype)


def _chunks(batch: int) -> tuple[int, int]:
    """(contexts per chunk, chunks): a function of the batch size alone."""
    chunk = -(-batch // (_CHUNK * _MAX_CHUNKS)) * _CHUNK
    return chunk, -(-batch // chunk)


def prepared(source: Source, dtype: Any) -> Source:
    """The source with its arrays as kernels take them."""
    key = np.require(source.key, np.uint32, _FOR_KERNELS)
    return source._replace(sigma=np.ascontiguousarray(source.sigma, dtype), key=key)


def _moments(contexts: GramDraw | Source, dim: int, dtype: Any) -> Array:
    """The moments of the queries, as kernels take them."""
    if isinstance(contexts, Source) or contexts.moment is None:
        return np.empty((0, dim, dim), dtype)
    return np.require(contexts.moment.reshape(-1, dim, dim), dtype, _FOR_KERNELS)


def _contexts(contexts: GramDraw | Source, size: int, dtype: Any) -> tuple[GramDraw, Source, int]:
    """(data, source, batch): one of the first two is empty."""
    if isinstance(contexts, Source):
        rows = np.empty((0, size - 1), dtype)
        no_data = GramDraw(np.empty((0, size, size), dtype), rows, rows, rows, _moments(contexts, size - 1, dtype))
        return no_data, prepared(contexts, dtype), len(contexts.sigma)
    gram, weights, query, oracle = (np.require(array, dtype, _FOR_KERNELS) for array in contexts[:4])
    no_moment = np.empty((0, size - 1, size - 1), dtype)  # those of the objective are an option
    data = GramDraw(gram, weights, query, oracle, no_moment)
    return data, Source(np.empty(0, dtype), 0, 0, 0, np.zeros(2, np.uint32)), len(data.gram)


def loss_and_gradient(
    parameters: Compiled, dim: int, contexts: GramDraw | Source, options: Options
) -> tuple[Array, tuple[Array, ...]]:
    """Each context's loss, and the sums over contexts of its gradient with respect to each parameter (float64)."""
    batch = len(contexts.sigma if isinstance(contexts, Source) else contexts.gram)
    losses, sums = _chunk_gradients(parameters, dim, contexts, options, *_chunks(batch))
    return losses, tuple(array.sum(axis=0) for array in sums)


def group_gradients(parameters: Compiled, dim: int, contexts: GramDraw, options: Options) -> tuple[Array, ...]:
    """The sums of gradients of each `GROUP` contexts; the groups are the first axis."""
    groups = -(-len(contexts.gram) // GROUP)
    return _chunk_gradients(parameters, dim, contexts, options, GROUP, groups)[1]


def _chunk_gradients(
    parameters: Compiled, dim: int, contexts: GramDraw | Source, options: Options, chunk: int, chunks: int
) -> tuple[Array, tuple[Array, ...]]:
    """Each context's loss, and for each chunk of contexts the sums of their gradients."""
    family, size = _FAMILIES[type(parameters)], dim + 1
    dtype = parameters[0].dtype
    data, source, batch = _contexts(contexts, size, dtype)
    losses, tickets = np.empty(batch, dtype), np.zeros(1, np.int64)
    sums = [np.empty((chunks, *array.shape)) for array in parameters]
    importance = np.empty(0, dtype)
    if options.importance is not None:
        importance = np.require(options.importance, dtype, _FOR_KERNELS)
    settings = KernelOptions(options.exact, float(options.saturation), importance, _moments(contexts, dim, dtype))
    shapes = family.shapes(parameters, dim)

    def work() -> None:
        state, block = _workspace(family.state, shapes, dtype), block_workspace(size, dtype)
        family.gradient(*parameters, data, source, settings, chunk, tickets, block, state, losses, *sums)

    run_together(work, chunks, options.threads)
    return losses, tuple(sums)


def losses(parameters: Compiled, dim: int, source: Source, threads: int | None = None) -> Array:
    """(2, batch): ½‖ŵ − w*‖² and ½‖ŵ − w‖² of contexts that are drawn on the way and not kept."""
    family, dtype, layers, batch = (
        _FAMILIES[type(parameters)],
        parameters[0].dtype,
        len(parameters[0]),
        len(source.sigma),
    )
    size = family.size(parameters, dim)
    source, out, lanes = prepared(source, dtype), np.empty((2, batch), dtype), lane_count(dtype.itemsize)

    def work(begin: int, end: int) -> None:
        state, block = _inference_workspace(layers, size, dtype), block_workspace(dim + 1, dtype)
        family.losses(*parameters, source, begin * lanes, min(end * lanes, batch), block, state, out)

    run_divided(work, -(-batch // lanes), threads)
    return out


def weights(parameters: Compiled, gram: Array, every_layer: bool = False, threads: int | None = None) -> Array:
    """Implicit weights (batch, d); with ``every_layer``, those after 1, 2, … layers, (L, batch, d)."""
    family, dtype, layers = _FAMILIES[type(parameters)], parameters[0].dtype, len(parameters[0])
    batch, dim = len(gram), gram.shape[1] - 1
    gram, lanes = np.require(gram, dtype, _FOR_KERNELS), lane_count(dtype.itemsize)
    out = np.empty((layers if every_layer else 1, batch, dim), dtype)

    def work(begin: int, end: int) -> None:
        state = _inference_workspace(layers, family.size(parameters, dim), dtype)
        family.weights(*parameters, gram, every_layer, begin * lanes, min(end * lanes, batch), state, out)

    run_divided(work, -(-batch // lanes), threads)
    return out if every_layer else out[0]


def draw(dim: int, source: Source | GaussianSource, dtype: Any, threads: int | None = None) -> GramDraw:
    """Draw contexts and keep them, as arrays."""
    batch, dtype = len(source.sigma), np.dtype(dtype)
    (weights, query, oracle), lanes = np.empty((3, batch, dim), dtype), lane_count(dtype.itemsize)
    turned = batch if isinstance(source, GaussianSource) and source.rotates else 0
    moment = np.empty((turned, dim, dim), dtype)
    data = GramDraw(np.empty((batch, dim + 1, dim + 1), dtype), weights, query, oracle, moment)
    work: Callable[[int, int], None]
    if isinstance(source, GaussianSource):
        task, shapes = _gaussian_task(source, dim, dtype), _gaussian_shapes(dim)

        def work(begin: int, end: int) -> None:
            block = _workspace(GaussianBlock, shapes, dtype)
            draw_gaussian(data, task, begin * lanes, min(end * lanes, batch), block)

    else:
        plain = prepared(source, dtype)

        def work(begin: int, end: int) -> None:
            draw_contexts(data, plain, begin * lanes, min(end * lanes, batch), block_workspace(dim + 1, dtype))

    run_divided(work, -(-batch // lanes), threads)
    if isinstance(source, Source):
        return data._replace(moment=None)
    return data if turned else data._replace(moment=(source.features @ source.features.T).astype(dtype))


def _gaussian_task(source: GaussianSource, dim: int, dtype: Any) -> GaussianTask:
    """The source as its kernel takes it."""
    features, whitening = np.eye(dim + 1), np.eye(dim + 1)
    features[:-1, :-1], whitening[:-1, :-1] = source.features, source.weights.T
    arrays = (source.sigma, source.examples, features, source.weights, whitening, source.given)
    sigma, examples, F, L, LT, given = (np.require(array, dtype, _FOR_KERNELS) for array in arrays)
    n, scale = int(source.examples[0]), float(source.weights[0, 0])
    return GaussianTask(
        sigma=sigma,
        examples=examples,
        every=n if n > dim and (source.examples == n).all() else 0,
        step=source.step,
        first=source.first,
        key=np.require(source.key, np.uint32, _FOR_KERNELS),
        features=F,
        weights=L,
        whitening=LT,
        rotates=source.rotates,
        stretches=bool(np.array_equal(source.features, np.diag(np.diagonal(source.features)))),
        scale=scale if np.array_equal(source.weights, scale * np.eye(dim)) else 0.0,
        rounding=ROUNDING * float(np.finfo(dtype).eps) if source.singular else 0.0,
        given=given,
    )


def _gaussian_shapes(dim: int) -> _Shapes:
    size, normals = dim + 1, max(dim + (dim + 1) * dim // 2, dim * (dim + 1) // 2)
    return {
        **dict.fromkeys(("gram", "factor", "mapped", "turned", "moment"), (size, size)),
        **dict.fromkeys(("unit", "weights", "query", "oracle"), (dim,)),
        "sigma": (),
        "examples": (1,),
        "noise_row": (size,),
        "normals": ((normals + 3) // 4 * 4,),
    }
