"""Everything behind ``ridgeformer bench``: speed, memory and growth, measured on the machine it runs on, as data.

Files: `rows` (what to run, and what comes out), `timing` (how a time is taken), `machine` (what it is taken on); the
sections are in `step`, `scaling`, `attention` and `processes`; whom we race against is in `competitors`.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from ridgeformer.bench.machine import OthersWatch, describe_machine
from ridgeformer.bench.rows import SECTIONS, BenchConfig, BenchReport, Row, Target

__all__ = ["EXPECTED_SECONDS", "SECTIONS", "BenchConfig", "BenchReport", "Row", "Target", "run_bench"]

EXPECTED_SECONDS = dict(zip(SECTIONS, (40, 2, 30, 16, 6, 2, 18, 14, 14, 3), strict=True))
"""How long each section takes on two cores of a Xeon of 2023, for the estimate of the time left."""


def section_functions() -> dict[str, Callable[[BenchConfig], list[Row]]]:
    """What measures each section; imported when a run begins, since some bring in numba."""
    from ridgeformer.bench.attention import attention_rows
    from ridgeformer.bench.processes import flop_rows, memory_rows, start_rows
    from ridgeformer.bench.scaling import context_length_rows, growth_rows, sampling_rows
    from ridgeformer.bench.step import diagonal_rows, evaluate_rows, step_rows

    return {
        "step": step_rows,
        "diag": diagonal_rows,
        "evaluate": evaluate_rows,
        "flops": flop_rows,
        "sampling": sampling_rows,
        "context-length": context_length_rows,
        "growth": growth_rows,
        "attention": attention_rows,
        "start": start_rows,
        "memory": memory_rows,
    }


def run_bench(config: BenchConfig, on_section: Callable[[str], None] = lambda name: None) -> BenchReport:
    """Measure every section that ``config`` asks for; ``on_section(name)`` is called before each."""
    machine, watch = describe_machine(), OthersWatch()
    functions, rows, begin = section_functions(), list[Row](), perf_counter()
    for name in config.sections:
        on_section(name)
        rows += functions[name](config)
    machine["others_share"] = watch.share()
    return BenchReport(config, machine, tuple(rows), perf_counter() - begin)
