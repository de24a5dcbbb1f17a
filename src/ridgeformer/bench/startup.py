"""Sections ``start`` and ``memory``: what a fresh process needs before and during its first training steps."""

from __future__ import annotations

import tempfile
from typing import Any

from ridgeformer.bench.config import BATCH, DIM, LAYERS, BenchConfig
from ridgeformer.bench.report import Row, Target
from ridgeformer.bench.subprocesses import run_python

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
    return [
        Row(
            "start",
            "cold: import and first step, compiling",
            None if cold is None else cold["total"],
            "s",
            Target(20, at_most=True),
            note="left out of a quick run" if cold is None else "",
        ),
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
