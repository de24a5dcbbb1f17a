"""Sections ``context-length`` and ``growth``: how the time of a step depends on what it is given."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from ridgeformer.bench.config import DIM, NOISE, BenchConfig
from ridgeformer.bench.report import Row, Target
from ridgeformer.bench.step import our_step
from ridgeformer.bench.timing import Call, best_times, growth_exponent
from ridgeformer.core.task import Task
from ridgeformer.kernels.threads import run_divided

_LONG, _SHORT = 10_000, 20  # the long context that readers of the paper name, and the paper's own
_GROWTH_BATCH = 512  # for growth in d: a quarter of the usual batch, since d = 64 costs 200 times d = 10


def context_length_rows(config: BenchConfig) -> list[Row]:
    """A step at n = 10 000 over one at n = 20, L = 7, batch 2048."""
    names = {"full": ("FULL", Target(1.1, at_most=True)), "diag": ("DIAG", None)}
    calls = {f"{kind} {n}": our_step(kind, task=Task(DIM, n, NOISE)) for kind in names for n in (_SHORT, _LONG)}
    seconds = best_times(calls, config.samples, config.window)
    rows = []
    for kind, (name, target) in names.items():
        short, long = seconds[f"{kind} {_SHORT}"], seconds[f"{kind} {_LONG}"]
        note = f"{1e3 * short:.2f} ms at n = {_SHORT}"
        rows.append(Row("context-length", f"{name}, n = {_LONG}", long / short, target=target, seconds=long, note=note))
    return rows


def growth_rows(config: BenchConfig) -> list[Row]:
    """FULL, exact objective, unless said otherwise L = 7, d = 10, batch 2048, all cores."""
    dims = (5, 10, 20) if config.quick else (5, 10, 20, 40, 64)
    depths = (1, 2, 4) if config.quick else range(1, 13)
    batches = (128, 512) if config.quick else tuple(128 * 2**k for k in range(8))
    by_dim = {d: our_step("full", task=Task(d, 2 * d, NOISE), batch=_GROWTH_BATCH) for d in dims}
    by_depth = {layers: our_step("full", layers) for layers in depths}
    by_batch = {batch: our_step("full", batch=batch) for batch in batches}
    by_threads = {threads: our_step("full", threads=threads) for threads in (1, 2, 4)}
    hashing = {threads: _hashing(threads) for threads in (1, 2, 4)}
    return [
        *_list_rows(f"features, n = 2d, batch {_GROWTH_BATCH}", "d", by_dim, config, exponent=True),
        *_list_rows("layers", "L", by_depth, config, exponent=True),
        *_list_rows("batch", "batch", by_batch, config, exponent=True),
        *_list_rows("threads", "threads", by_threads, config),
        *_list_rows("threads, for scale: SHA-256", "threads", hashing, config),
    ]


def _list_rows(
    group: str, symbol: str, calls: Mapping[int, Call], config: BenchConfig, exponent: bool = False
) -> list[Row]:
    seconds = best_times(calls, config.samples, config.window)
    times = list(seconds.values())
    rows = [
        Row("growth", f"{symbol} = {size}", time / times[0], group=group, seconds=time)
        for size, time in zip(calls, times, strict=True)
    ]
    if exponent:
        value = growth_exponent(list(calls), times)
        rows.append(Row("growth", "exponent", value, "", group=group, note=f"time ∝ {symbol}^value, upper half"))
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
