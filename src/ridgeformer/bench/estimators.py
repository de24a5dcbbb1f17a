"""Section ``estimators``: GroupRidge against one scikit-learn regressor for each group; growth and memory.

A loop over groups takes the same time for each, so it is measured on some of the groups and scaled up.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import numpy as np

from ridgeformer.bench.machine import Call, best_times, run_python
from ridgeformer.bench.rows import DIM, EXAMPLES, BenchConfig, Row, Target
from ridgeformer.core.notation import Array

GROUPS = 10_000
_LOOPED = 50  # groups of a loop that are really fitted
_MILLION = 1_000_000

# Draws float32 rows a chunk at a time, so that memory is the data's and the estimator's own.
_MEMORY_CODE = """
import json, sys, time
import numpy as np
from ridgeformer.estimators import GroupRidge
groups, n, p = {groups}, {n}, {p}
rng = np.random.default_rng(0)
X, y = np.empty((groups, n, p), np.float32), np.empty((groups, n), np.float32)
for begin in range(0, groups, 10_000):
    part = X[begin : begin + 10_000]
    rng.standard_normal(out=part.reshape(-1), dtype=np.float32)
    w = rng.standard_normal((len(part), p), dtype=np.float32)
    noise = 5 * rng.random((len(part), 1), dtype=np.float32) * rng.standard_normal((len(part), n), dtype=np.float32)
    y[begin : begin + 10_000] = np.einsum("gnp,gp->gn", part, w) + noise
begin = time.perf_counter()
GroupRidge().fit(X, y)
seconds = time.perf_counter() - begin
def peak():
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1e6
    except (OSError, StopIteration):
        import resource
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e9 if sys.platform == "darwin" else 1e6)
json.dump({{"seconds": seconds, "peak": peak()}}, sys.stdout)
"""


def estimators_rows(config: BenchConfig) -> list[Row]:
    """Fit and predict 10 000 groups of 20 × 10, by all; then ten times as many; then a million."""
    try:
        from ridgeformer.estimators.group_ridge import GroupRidge
        from ridgeformer.estimators.one_by_one import predict_one_by_one
    except Exception as missing:  # the extra says what is not there
        return [Row("estimators", "GroupRidge", None, note=str(missing))]
    groups = 1000 if config.quick else GROUPS
    X, y, codes, queries = _problems(groups)
    few = codes < _LOOPED
    calls: dict[str, Call] = {"GroupRidge": lambda: GroupRidge().fit(X, y, codes).predict(queries, codes)}
    for name in ("RidgeCV, its own 3 penalties", "RidgeCV", "BayesianRidge"):
        calls[name] = partial(predict_one_by_one, name, X[few], y[few], codes[few], queries[few], codes[few])
    seconds = best_times(calls, config.samples, config.window, config.settle)
    ours, group = seconds.pop("GroupRidge"), f"{groups:,} groups"
    rows = [Row("estimators", "GroupRidge", 1.0, group=group, seconds=ours, note="fit and predict, × is over this")]
    for name, of_some in seconds.items():
        scaled = of_some * groups / _LOOPED
        note = f"a loop, measured on {_LOOPED} groups and scaled"
        target = None if config.quick else Target(100, aim=300)
        rows.append(Row("estimators", name, scaled / ours, "×", target, group, scaled, note))
    rows.append(_growth(config, ours, groups))
    if not config.quick:
        rows += _million()
    return rows


def _problems(groups: int) -> tuple[Array, Array, Array, Array]:
    """Rows (x, y), the group of each, and as many rows to predict; σ ~ U(0, 5)."""
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(groups), EXAMPLES)
    X, queries = rng.standard_normal((2, len(codes), DIM))
    w, sigma = rng.standard_normal((groups, DIM)), 5 * rng.random(groups)
    y = np.einsum("ij,ij->i", X, w[codes]) + sigma[codes] * rng.standard_normal(len(codes))
    return X, y, codes, queries


def _growth(config: BenchConfig, ours: float, groups: int) -> Row:
    """Ten times as many groups: at most ten times the time, if cost is linear."""
    from ridgeformer.estimators.group_ridge import GroupRidge

    X, y, codes, queries = _problems(10 * groups)
    call: Call = lambda: GroupRidge().fit(X, y, codes).predict(queries, codes)  # noqa: E731
    more = best_times({"more": call}, min(config.samples, 3), config.window)["more"]
    note = "time over that of a tenth of the groups"
    return Row(
        "estimators", f"{10 * groups:,} groups", more / ours, "×", Target(11, at_most=True), "growth", more, note
    )


def _million() -> list[Row]:
    code = _MEMORY_CODE.format(groups=_MILLION, n=EXAMPLES, p=DIM)
    found: dict[str, Any] = json.loads(json.dumps(run_python(code, {})))
    what = f"{_MILLION:,} groups"
    note = "whole process, with 0.88 GB of data in float32"
    return [
        Row("estimators", what, found["peak"], "GB", Target(2, at_most=True), "memory", found["seconds"], note),
    ]
