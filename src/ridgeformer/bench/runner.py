"""Runs the sections one after the other and shows how far it has come."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ridgeformer.bench.config import BenchConfig
from ridgeformer.bench.evaluating import evaluate_rows
from ridgeformer.bench.flops import flop_rows
from ridgeformer.bench.long_contexts import attention_rows
from ridgeformer.bench.machine import OthersWatch, describe_machine
from ridgeformer.bench.report import BenchReport, Row
from ridgeformer.bench.sampling import sampling_rows
from ridgeformer.bench.scaling import context_length_rows, growth_rows
from ridgeformer.bench.startup import memory_rows, start_rows
from ridgeformer.bench.step import diagonal_rows, step_rows

_SECTION_ROWS: dict[str, Callable[[BenchConfig], list[Row]]] = {
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

_EXPECTED_SECONDS = dict(zip(_SECTION_ROWS, (40, 2, 30, 16, 6, 2, 18, 14, 14, 3), strict=True))
"""How long each section takes on two cores of a Xeon of 2023, for the estimate of the time left."""


def run_bench(config: BenchConfig) -> BenchReport:
    """Measure every section that ``config`` asks for; progress goes to stderr if it is a terminal."""
    console = Console(stderr=True)
    machine, watch = describe_machine(), OthersWatch()
    rows: list[Row] = []
    begin = perf_counter()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("sections"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    hidden = not console.is_terminal
    # Redrawn between sections only: a thread that does it all the time would take some from what is measured.
    with Progress(*columns, console=console, transient=True, auto_refresh=False, disable=hidden) as progress:
        bar = progress.add_task("bench", total=len(config.sections), left="")
        for number, name in enumerate(config.sections):
            seconds = _time_left(config.sections, number, perf_counter() - begin)
            left = "" if config.quick else f"about {seconds:.0f} s left"
            progress.update(bar, description=name, completed=number, left=left, refresh=True)
            rows += _SECTION_ROWS[name](config)
    machine["others_share"] = watch.share()
    return BenchReport(config, machine, tuple(rows), perf_counter() - begin)


def _time_left(sections: tuple[str, ...], done: int, elapsed: float) -> float:
    """The expected time of the sections to come, corrected by how those done compare with what was expected of them."""
    expected_so_far = sum(_EXPECTED_SECONDS[name] for name in sections[:done])
    pace = elapsed / expected_so_far if done else 1.0
    return pace * sum(_EXPECTED_SECONDS[name] for name in sections[done:])
