"""Sections ``flops``, ``start``, ``memory``: what is measured in fresh processes.

How much of the machine's float32 multiply-add rate the FULL kernel uses, with a BLAS that was told its threads at its
start, and what a process needs before and during its first training steps.
"""

from __future__ import annotations

import tempfile
from functools import partial
from typing import Any

import numpy as np

from ridgeformer.bench.machine import Call, best_times, run_python, run_with_blas_threads
from ridgeformer.bench.rows import BATCH, DIM, EXAMPLES, LAYERS, NOISE, BenchConfig, Row, Target
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.objective import losses_and_gradient_on
from ridgeformer.core.task import Task
from ridgeformer.kernels.threads import default_threads

MATRIX = 2048  # size of the matrix product that sets the standard: large enough for BLAS to reach its best
LARGE_BATCH = 16384  # eight times the usual: the fixed cost of a step disappears
_MORE_SAMPLES = (
    2  # times the usual: one matrix product takes 0.1 s, and on a busy machine few such spans are undisturbed
)


def multiply_adds(layers: int, heads: int, size: int) -> int:
    """Multiply-adds for one context's loss and gradient, counted as `ridgeformer.kernels.full` performs them.

    With p = ``size``: a product of matrices has p³, a symmetric one p·p(p + 1)/2, its lower triangle; a matrix times a
    vector, or an outer product, p². What has only p (the loss, adding I) is left out. H heads, layers 0 … L − 1:

        forward, l < L−1        2H products: P G, (P G)Q
                 l < L−2        T G, and half of (T G)Tᵀ
                 l = L−1        H(4) vectors: T(G(Tᵀp)) and Qᵀ·                     (H(2) if L = 1, where G is there)
        rows, columns           2 vectors for each l < L−1
        backward, l = L−1       H(5) vectors: Qv, T(G(Tᵀq)) and an outer product     (H(3) if L = 1)
                  l = L−2       1 + 2H outer products; 3H products: ∂T Qᵀ, ·G, (P G)ᵀ∂T
                  l < L−2       D T, (D T)G, one outer product; the same 3H products
                  l > 0         H products Pᵀ(∂T Qᵀ), and half of Tᵀ(D T), for which l = L−2 has H outer products

    The flop rate is 2 · multiply_adds · batch / seconds, on contexts that are already drawn.
    """
    product, half, vector = size**3, size * size * (size + 1) // 2, size**2
    seen_behind = vector if layers == 1 else 3 * vector  # G_{L−1} times a vector
    total = heads * (2 * seen_behind + 3 * vector)
    for layer in range(layers - 1):
        below_last = layer == layers - 2
        total += heads * 5 * product + 2 * vector  # two forward, three backward; rows and columns
        total += vector * (1 + 2 * heads) if below_last else 3 * product + vector + half
        if layer > 0:
            total += heads * product + (heads * vector if below_last else half)
    return total


def flop_rates(threads: int, repeats: int, window: float, settle: float) -> dict[str, dict[str, float]]:
    """Flops per second and seconds of NumPy's matrix product and of the kernel for two batch sizes, taken in turns."""
    model = LinearTransformer.init("full", layers=LAYERS, dim=DIM)
    matrix = np.random.default_rng(0).standard_normal((MATRIX, MATRIX)).astype(np.float32)
    calls: dict[str, Call] = {"sgemm": lambda: matrix @ matrix}
    flops = {"sgemm": 2.0 * MATRIX**3}
    for batch in (BATCH, LARGE_BATCH):
        contexts = Task(DIM, EXAMPLES, NOISE).draw_contexts(batch, seed=0, dtype=np.float32).as_gram_draw()
        calls[str(batch)] = partial(losses_and_gradient_on, model, contexts, threads=threads)
        flops[str(batch)] = 2.0 * multiply_adds(LAYERS, 1, DIM + 1) * batch
    seconds = best_times(calls, repeats, window, settle)
    return {name: {"rate": flops[name] / seconds[name], "seconds": seconds[name]} for name in calls}


def flops_rows(config: BenchConfig) -> list[Row]:
    """Rates with one thread and with all, each in a process whose BLAS was told the same number at its start."""
    rows = []
    for threads in sorted({1, default_threads()}):
        group = "1 thread" if threads == 1 else f"{threads} threads"
        arguments = threads, _MORE_SAMPLES * config.samples, config.window, config.settle
        rates: dict[str, dict[str, float]] = run_with_blas_threads(threads, flop_rates, *arguments)
        standard = rates["sgemm"]
        for batch in (BATCH, LARGE_BATCH):
            rate = rates[str(batch)]
            share = 100 * rate["rate"] / standard["rate"]
            note = f"{rate['rate'] / 1e9:.0f} of {standard['rate'] / 1e9:.0f} Gflop/s"
            rows.append(Row("flops", f"batch {batch}", share, "%", Target(30, aim=50), group, rate["seconds"], note))
    return rows


_STEP = f"rf.loss_and_gradient(model, rf.Task(dim={DIM}), batch={BATCH}, seed=0, step=step)"
_MODEL = f'model = rf.LinearTransformer.init("full", layers={LAYERS}, dim={DIM})'

_START_CODE = f"""
import json, sys, time
begin = time.perf_counter()
import ridgeformer as rf
imported = time.perf_counter()
{_MODEL}
step = 0
{_STEP}
json.dump({{"import": imported - begin, "total": time.perf_counter() - begin}}, sys.stdout)
"""

# On Linux ru_maxrss survives exec: a child of a process with jax and torch in it would start at their gigabyte. VmHWM
# belongs to the new program alone. ru_maxrss counts bytes on macOS and kilobytes elsewhere.
_MEMORY_CODE = f"""
import json, sys
def peak():
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1e3
    except (OSError, StopIteration):
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
start = peak()
import numpy
numpy_only = peak()
import ridgeformer as rf
imported = peak()
import ridgeformer.kernels.engine
engine = peak()
{_MODEL}
for step in range(5):
    {_STEP}
json.dump({{"numpy": numpy_only, "imported": imported, "engine": engine, "stepped": peak()}}, sys.stdout)
"""
_WARM_STARTS = 3  # a start takes a second or two, and its best time settles quickly


def start_rows(config: BenchConfig) -> list[Row]:
    """Seconds from before ``import ridgeformer`` to the end of the first FULL step, L = 7, batch 2048."""
    with tempfile.TemporaryDirectory() as folder:
        # A quick run takes kernels as the user's own cache has them, and leaves out the cold start.
        environment = {} if config.quick else {"RIDGEFORMER_CACHE_DIR": folder}
        cold = None if config.quick else run_python(_START_CODE, environment)
        runs: list[dict[str, float]] = [run_python(_START_CODE, environment) for _ in range(_WARM_STARTS)]
    warm = min(runs, key=lambda run: run["total"])
    seconds, note = (None, "left out of a quick run") if cold is None else (cold["total"], "")
    return [
        Row("start", "cold: import and first step, compiling", seconds, "s", Target(20, at_most=True), note=note),
        Row("start", "warm: import and first step", warm["total"], "s", Target(2, at_most=True)),
        Row("start", "of which import ridgeformer", min(run["import"] for run in runs), "s"),
    ]


def memory_rows(config: BenchConfig) -> list[Row]:
    """Peak resident megabytes (10⁶ bytes) of FULL steps, L = 7, batch 2048, with compiled kernels on disk."""
    runs: list[dict[str, Any]] = [run_python(_MEMORY_CODE, {}) for _ in range(2)]  # the first may have to compile
    peak = runs[-1]
    above_import = peak["stepped"] - peak["imported"]
    return [
        Row("memory", "steps above `import ridgeformer`", above_import, "MB", Target(200, at_most=True)),
        Row("memory", "of which importing numba and the kernels", peak["engine"] - peak["imported"], "MB"),
        Row("memory", "of which the steps", peak["stepped"] - peak["engine"], "MB"),
        Row("memory", "`import ridgeformer` above NumPy", peak["imported"] - peak["numpy"], "MB"),
        Row("memory", "whole process", peak["stepped"], "MB"),
    ]
