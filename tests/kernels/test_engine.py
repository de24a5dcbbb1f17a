"""The engine: the same bits for any number of threads, from any thread, in any process, in any batch."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw
from ridgeformer.kernels import engine
from ridgeformer.kernels.diagonal import diagonal_gradient
from ridgeformer.kernels.full import full_gradient
from ridgeformer.kernels.inference import diagonal_weights, full_weights
from support import (
    DTYPES,
    OBJECTIVES,
    VARIANTS,
    as_draw,
    gradient_on,
    kind_and_registers,
    make_examples,
    run_python,
    tame_model,
)

# One context, less than a vector, one more than a chunk of 128 (and not a multiple of any number of lanes); and, since
# chunks grow beyond 64 of 128, 33 chunks of 256, the last one of 108.
BATCHES = [1, 7, 130, 8300]


def small_model(kind: str, dtype: Any, layers: int = 3) -> rf.LinearTransformer:
    kind, registers = kind_and_registers(kind)
    return rf.LinearTransformer.init(kind, layers=layers, dim=5, registers=registers, seed=1, dtype=dtype)


def result(
    kind: str, dtype: Any, batch: int, objective: str, threads: int | None, saturation: float = 0.0
) -> tuple[Any, Any]:
    loss, gradient = rf.loss_and_gradient(
        small_model(kind, dtype),
        rf.Task(5, 8),
        batch=batch,
        seed=2,
        objective=objective,
        saturation=saturation,
        backend="fused",
        threads=threads,
    )
    return loss, gradient.flatten()


# --- the same bits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", VARIANTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("batch", BATCHES)
def test_everything_is_the_same_bits_for_any_number_of_threads(
    kind: str, dtype: Any, objective: str, batch: int
) -> None:
    examples, model = make_examples(batch, 8, 5, seed=0), small_model(kind, dtype)
    X, y, draw = examples.X.astype(dtype), examples.y.astype(dtype), as_draw(examples)

    def everything(threads: int | None) -> list[Array]:
        drawn = rf.Task(5, 8).draw_contexts(batch, seed=1, dtype=dtype, backend="fused", threads=threads)
        return [
            *(np.append(*result(kind, dtype, batch, objective, threads, s)[::-1]) for s in (0.0, 0.1)),
            *gradient_on(model, draw, objective, "fused", threads=threads),
            rf.implicit_weights(model, X, y, backend="fused", threads=threads),
            *drawn.as_gram_draw()[:4],
        ]

    alone = everything(1)
    assert all(array.any() for array in alone)
    for threads in (2, 3, 4, None):
        assert all(np.array_equal(one, other) for one, other in zip(alone, everything(threads), strict=True))


@pytest.mark.parametrize("batch", [1, 127, 128, 129, 8192, 8193, 100_000, 2**31 - 1])
def test_chunks_cover_the_batch_and_are_bounded_in_number(batch: int) -> None:
    chunk, chunks = engine._chunks(batch)
    assert chunk % 128 == 0  # a multiple of every number of lanes
    assert (chunks - 1) * chunk < batch <= chunks * chunk
    assert chunks <= 64
    assert engine._chunks(BATCHES[-1]) == (256, 33)


@pytest.mark.parametrize("kind", ["diag", "diag+2", "full"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_loss_of_a_context_does_not_depend_on_its_neighbours(kind: str, dtype: Any) -> None:
    draw, model = as_draw(make_examples(50, 8, 5, seed=3)), small_model(kind, dtype)
    arrays = draw.as_gram_draw()
    losses, _ = rf.losses_and_gradient_on(model, arrays, backend="fused")
    for begin, end in [(0, 1), (3, 20), (49, 50)]:
        alone, _ = rf.losses_and_gradient_on(model, arrays.rows(slice(begin, end)), backend="fused")
        assert np.array_equal(alone, losses[begin:end])


# --- several callers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_calls_from_several_threads_at_once_give_the_same_bits(kind: str) -> None:
    """Workspaces belong to threads, workers to all: neither may mix up two callers.

    4 000 contexts take a millisecond or more, long enough for two kernels to run at the same time.
    """
    names = [(dtype, batch, objective) for dtype in DTYPES for batch in (7, 600, 4000) for objective in OBJECTIVES]
    expected = {name: result(kind, *name, threads=1) for name in names}

    def call(number: int) -> bool:
        name = names[number % len(names)]
        loss, gradient = result(kind, *name, threads=1 + number % 4)
        return loss == expected[name][0] and np.array_equal(gradient, expected[name][1])

    with ThreadPoolExecutor(6) as several:
        assert all(several.map(call, range(120)))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this platform cannot fork")
def test_forked_child_gives_the_same_bits() -> None:
    """A child has none of its parent's worker threads and must not wait for them.

    In an interpreter of its own: JAX, which other tests load, does not survive a fork. Python 3.12 warns of any fork
    while threads run, which is what is tested here.
    """
    code = """
import multiprocessing, warnings
import numpy as np
import ridgeformer as rf

def compute():
    results = []
    for kind in ("diag", "full"):
        model = rf.LinearTransformer.init(kind, layers=2, dim=3)
        loss, gradient = rf.loss_and_gradient(model, rf.Task(3, 8), batch=600, seed=0, threads=3)
        results += [loss, *gradient.flatten().tolist()]
    return results

def child(connection):
    connection.send(compute())

before = compute()
warnings.simplefilter("ignore")
fork = multiprocessing.get_context("fork")
for _ in range(3):
    mine, its = fork.Pipe()
    process = fork.Process(target=child, args=(its,), daemon=True)
    process.start()
    its.close()
    assert mine.poll(30), "the child hangs"
    assert mine.recv() == before
    process.join(30)
    assert process.exitcode == 0
assert compute() == before
print("same")
"""
    assert run_python(code).strip() == "same"


# --- workspaces, read-outs, types -------------------------------------------------------------------------------------


def test_results_stay_the_same_while_workspaces_come_and_go() -> None:
    """More shapes than a thread keeps workspaces for, twice around."""
    shapes = [(kind, layers, dim) for kind in ("diag", "full") for layers in (1, 2, 4) for dim in (2, 3)]
    assert len(shapes) > engine._KEPT_WORKSPACES

    def run(kind: str, layers: int, dim: int) -> Array:
        model = rf.LinearTransformer.init(kind, layers=layers, dim=dim)
        return rf.loss_and_gradient(model, rf.Task(dim, 8), batch=20, seed=0, threads=1)[1].flatten()

    first = [run(*shape) for shape in shapes]
    for shape, expected in zip(shapes, first, strict=True):
        assert np.array_equal(run(*shape), expected)


@pytest.mark.parametrize("kind", VARIANTS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [1, 40])
def test_weights_of_every_layer_equal_stopping_after_each(kind: str, dtype: Any, batch: int) -> None:
    gram = make_examples(batch, 9, 4, seed=5).gram
    model = tame_model(kind, 5, 2, 4, gram).astype(dtype)
    every = engine.weights(model.compiled(), gram, every_layer=True)
    assert every.shape == (5, batch, 4)
    assert every.dtype == np.dtype(dtype)
    context = rf.Context(gram.astype(dtype), 9)
    for K in range(1, 6):
        stopped = rf.context_weights(model, context, layers=K, backend="fused")
        assert np.array_equal(every[K - 1], stopped)
        assert K == 1 or not np.isclose(every[K - 1], every[K - 2], rtol=1e-3, atol=0).all()


def signatures() -> int:
    kernels = (full_gradient, diagonal_gradient, full_weights, diagonal_weights)
    return sum(len(kernel.signatures) for kernel in kernels)


@pytest.mark.parametrize("kind", ["diag", "full"])
def test_layout_of_the_arguments_does_not_compile_a_kernel_anew(kind: str) -> None:
    """Ten seconds each time: read-only, strided or Fortran-ordered arrays and whole numbers must not cost them."""
    draw, model = as_draw(make_examples(20, 8, 5, seed=6)), small_model(kind, np.float64)
    arrays = draw.as_gram_draw()
    losses, gradient = rf.losses_and_gradient_on(model, arrays, backend="fused", saturation=1.0)
    weights = rf.context_weights(model, draw.context, backend="fused")
    compiled = signatures()
    for change in (
        lambda a: a.copy(order="F"),
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),  # read-only
    ):
        changed = GramDraw(*(change(array) for array in arrays[:4]))
        again = rf.losses_and_gradient_on(model, changed, backend="fused", saturation=1.0)
        assert np.array_equal(again[0], losses)
        assert np.array_equal(again[1].flatten(), gradient.flatten())
        assert signatures() == compiled
        context = rf.Context(changed.gram, 8)
        assert np.array_equal(rf.context_weights(model, context, backend="fused"), weights)
        assert signatures() == compiled
    whole_number: Any = 1
    again = rf.losses_and_gradient_on(model, arrays, backend="fused", saturation=whole_number)
    assert np.array_equal(again[1].flatten(), gradient.flatten())
    assert signatures() == compiled


def test_contexts_drawn_inside_and_contexts_given_share_one_compiled_kernel() -> None:
    """In an interpreter of its own, where nothing else has been compiled: two kernels would take twice the time."""
    code = """
import ridgeformer as rf
from ridgeformer.kernels.diagonal import diagonal_gradient
model, task = rf.LinearTransformer.init("diag", layers=2, dim=3), rf.Task(3, 8)
rf.loss_and_gradient(model, task, batch=4, seed=0, backend="fused")
rf.losses_and_gradient_on(model, task.draw_contexts(4, seed=0), backend="fused")
print(len(diagonal_gradient.signatures))
"""
    assert run_python(code).strip() == "1"
