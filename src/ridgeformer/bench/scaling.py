"""Sections ``sampling``, ``context-length``, ``growth``: where the time of a step goes, and what it depends on."""

from __future__ import annotations

import hashlib
from itertools import count, product
from typing import Any

import numpy as np

from ridgeformer.bench.machine import Call, best_times
from ridgeformer.bench.rows import BATCH, DIM, EXAMPLES, LAYERS, NOISE, BenchConfig, Row, Target, exponent_row
from ridgeformer.bench.step import our_step
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.random import Purpose
from ridgeformer.core.task import Task
from ridgeformer.kernels import engine
from ridgeformer.kernels.jit import kernel
from ridgeformer.kernels.sampling import draw_block, draw_query
from ridgeformer.kernels.threads import run_divided

_SAMPLING_TARGETS = {"full": Target(20, at_most=True), "diag": None}
_LONG, _SHORT = 10_000, 20  # the long context that readers of the paper name, and the paper's own
_GROWTH_BATCH = 512  # for growth in d: a quarter of the usual batch, since d = 64 costs 200 times d = 10


def sampling_rows(config: BenchConfig) -> list[Row]:
    """Time of drawing alone, divided by that of the whole step, batch 2048; the two objectives draw different things.

    Both use one thread: with two, drawing alone would pay for handing work to the other thread as much as a whole step.
    """
    rows = []
    for objective in ("sampled", "exact"):
        calls = {("", 0): _drawing(objective)}
        for kind, layers in product(_SAMPLING_TARGETS, (3, LAYERS)):
            calls[kind, layers] = our_step(kind, layers, objective=objective, threads=1)
        (_, drawing), *steps = best_times(calls, config.samples, config.window).items()
        for (kind, layers), time in steps:
            what, target, note = (
                f"{KINDS[kind].label}, L = {layers}",
                _SAMPLING_TARGETS[kind],
                f"of {1e3 * time:.2f} ms",
            )
            share = 100 * drawing / time
            rows.append(Row("sampling", what, share, "%", target, f"{objective} objective", drawing, note))
    return rows


@kernel
def _draw_and_forget(source: Any, exact: bool, begin: int, end: int, block: Any) -> None:
    """Contexts ``begin`` … ``end`` of ``source``, block by block as `ridgeformer.kernels.full.full_gradient` does."""
    for first in range(begin, end, block.sigma.shape[0]):
        draw_block(block, source, first)
        if not exact:
            draw_query(block, source, first)


def _drawing(objective: str) -> Call:
    """One call: all that `ridgeformer.loss_and_gradient` draws in float32, on one thread: σ, w, G and perhaps x_t.

    The oracle w* of the exact objective is not drawn but computed, as the loss is.
    """
    task, steps = Task(DIM, EXAMPLES, NOISE), count(1)

    def call() -> None:
        source = engine.prepared(task.source(BATCH, seed=0, step=next(steps), purpose=Purpose.TRAIN), np.float32)
        _draw_and_forget(source, objective == "exact", 0, BATCH, engine.block_workspace(DIM + 1, np.float32))

    return call


def context_length_rows(config: BenchConfig) -> list[Row]:
    """A step at n = 10 000 over one at n = 20, L = 7, batch 2048."""
    targets = {"full": Target(1.1, at_most=True), "diag": None}
    calls = {(kind, n): our_step(kind, task=Task(DIM, n, NOISE)) for kind in targets for n in (_SHORT, _LONG)}
    seconds = best_times(calls, config.samples, config.window)
    rows = []
    for kind, target in targets.items():
        short, long = seconds[kind, _SHORT], seconds[kind, _LONG]
        what, note = f"{KINDS[kind].label}, n = {_LONG}", f"{1e3 * short:.2f} ms at n = {_SHORT}"
        rows.append(Row("context-length", what, long / short, target=target, seconds=long, note=note))
    return rows


def growth_rows(config: BenchConfig) -> list[Row]:
    """FULL, exact objective, unless said otherwise L = 7, d = 10, batch 2048, all cores."""
    dims = (5, 10, 20) if config.quick else (5, 10, 20, 40, 64)
    depths = (1, 2, 4) if config.quick else range(1, 13)
    batches = (128, 512) if config.quick else tuple(128 * 2**k for k in range(8))
    by_dim = {d: our_step("full", task=Task(d, 2 * d, NOISE), batch=_GROWTH_BATCH) for d in dims}
    lists: dict[tuple[str, str], dict[int, Call]] = {
        ("d", f"features, n = 2d, batch {_GROWTH_BATCH}"): by_dim,
        ("L", "layers"): {layers: our_step("full", layers) for layers in depths},
        ("batch", "batch"): {batch: our_step("full", batch=batch) for batch in batches},
        ("threads", "threads"): {threads: our_step("full", threads=threads) for threads in (1, 2, 4)},
        ("threads", "threads, for scale: SHA-256"): {threads: _hashing(threads) for threads in (1, 2, 4)},
    }
    rows = []
    for (symbol, group), calls in lists.items():
        seconds = best_times(calls, config.samples, config.window)
        first = next(iter(seconds.values()))
        for size, time in seconds.items():
            rows.append(Row("growth", f"{symbol} = {size}", time / first, group=group, seconds=time))
        if symbol != "threads":
            rows.append(exponent_row("growth", group, symbol, seconds))
    return rows


def _hashing(threads: int) -> Call:
    """The same work, 4 MB in 16 pieces, on more threads: what cores are worth here to code that shares nothing.

    Two virtual cores may be one real one; then more threads do not help anybody.
    """
    piece = bytes(1 << 18)

    def work(begin: int, end: int) -> None:
        for _ in range(begin, end):
            hashlib.sha256(piece).digest()

    return lambda: run_divided(work, 16, threads)
