"""Section ``attention``: the time of a forward pass against the length of the context, for four kinds of attention."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ridgeformer.bench.attention import (
    kernelised_attention,
    linear_attention,
    predict_from_gram,
    predict_from_tokens,
    softmax_attention,
)
from ridgeformer.bench.config import DIM, BenchConfig
from ridgeformer.bench.report import Row
from ridgeformer.bench.subprocesses import blas_threads, run_python
from ridgeformer.bench.timing import Call, best_times, growth_exponent
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.task import Task

_LENGTHS = (100, 316, 1000, 3162, 10_000)  # two a decade, up to the length that readers of the paper name
_LAYERS = 4
_NOISE = "fixed:1"

_GRAM = "Gram space, O(N) once"
_KINDS: dict[str, Callable[[LinearTransformer, Array], float]] = {
    "softmax attention, O(N²)": partial(predict_from_tokens, softmax_attention),
    "kernelised attention, O(N)": partial(predict_from_tokens, kernelised_attention),
    "linear attention, O(N)": partial(predict_from_tokens, linear_attention),
    _GRAM: predict_from_gram,
}


def attention_rows(config: BenchConfig) -> list[Row]:
    """One context, d = 10, L = 4, float32; and for each kind the fitted exponent of its growth with N.

    In a process of its own whose BLAS has one thread: with more it changes its mind about using them as N grows, and
    the exponent would show that.
    """
    lengths = _LENGTHS[:3] if config.quick else _LENGTHS
    code = (
        "from ridgeformer.bench.long_contexts import write_times; "
        f"write_times({lengths}, {config.samples}, {config.window})"
    )
    found: dict[str, list[float]] = run_python(code, blas_threads(1))
    rows = []
    for kind, seconds in found.items():
        for length, time, gram_time in zip(lengths, seconds, found[_GRAM], strict=True):
            rows.append(Row("attention", f"N = {length}", time / gram_time, group=kind, seconds=time))
        slope = growth_exponent(lengths, seconds)
        rows.append(Row("attention", "exponent", slope, "", group=kind, note="time ∝ N^value, upper half"))
    return rows


def write_times(lengths: Sequence[int], repeats: int, window: float) -> None:
    """Seconds of each kind of attention at each length as JSON on stdout, for the process that started this one."""
    model = LinearTransformer.init("full", layers=_LAYERS, dim=DIM)
    found: dict[str, list[float]] = {kind: [] for kind in _KINDS}
    for length in lengths:
        tokens = one_context(length)
        calls: dict[str, Call] = {kind: partial(predict, model, tokens) for kind, predict in _KINDS.items()}
        for kind, seconds in best_times(calls, repeats, window).items():
            found[kind].append(seconds)
    json.dump(found, sys.stdout)


def one_context(length: int) -> Array:
    """N context tokens and the query token, (N + 1, p), float32."""
    drawn = Task(DIM, length, _NOISE).draw_tokens(1, seed=0, dtype=np.float32)
    rows = np.concatenate([drawn.X[0], drawn.query])
    return np.concatenate([rows, np.append(drawn.y[0], np.float32(0))[:, None]], axis=-1)
