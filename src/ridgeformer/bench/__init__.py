"""Everything behind ``ridgeformer bench``: speed, memory and growth, measured on the machine it runs on, as data.

Files: `rows` (what to run, and the results), `machine` (how times are measured, and on what machine); the sections are
in `step`, `scaling`, `attention`, `processes`, `sweeping`, `modules` and `estimators`; the code that we compare with is
in `competitors`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from time import perf_counter

from ridgeformer.bench.machine import OthersWatch, describe_machine
from ridgeformer.bench.rows import SECTIONS, BenchConfig, BenchReport, Row, Target

__all__ = ["EXPECTED_SECONDS", "SECTIONS", "BenchConfig", "BenchReport", "Row", "Target", "run_bench"]


EXPECTED_SECONDS = dict(zip(SECTIONS, (40, 2, 30, 16, 6, 2, 18, 14, 14, 3, 40, 150, 60), strict=True))
"""How long each section takes on two cores of a Xeon of 2023, for the estimate of the time left."""
_FILES = {
    "step": ("step", "diag", "evaluate"),
    "scaling": ("sampling", "context-length", "growth"),
    "attention": ("attention",),
    "processes": ("flops", "start", "memory"),
    "sweeping": ("sweep",),
    "modules": ("torch",),
    "estimators": ("estimators",),
}


def section_function(name: str) -> Callable[[BenchConfig], list[Row]]:
    """What measures a section, such as `step_rows`; imported when a run begins, since some import numba."""
    module = import_module(f"ridgeformer.bench.{next(file for file, names in _FILES.items() if name in names)}")
    function: Callable[[BenchConfig], list[Row]] = getattr(module, f"{name.replace('-', '_')}_rows")
    return function


def run_bench(config: BenchConfig, on_section: Callable[[str], None] = lambda name: None) -> BenchReport:
    """Measure every section that ``config`` asks for; ``on_section(name)`` is called before each."""
    machine, watch, rows, begin = describe_machine(), OthersWatch(), list[Row](), perf_counter()
    for name in config.sections:
        on_section(name)
        rows += section_function(name)(config)
    machine["others_share"] = watch.share()
    return BenchReport(config, machine, tuple(rows), perf_counter() - begin)
