"""Section ``sweep``: the cost of a cell beyond its training, the gain of a second worker, the time to see it done."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from ridgeformer.bench.rows import BenchConfig, Row, Target
from ridgeformer.kernels.threads import default_threads
from ridgeformer.sweeps import Event, read_study, sweep
from ridgeformer.training import train

_TINY: dict[str, Any] = {
    "kind": "diag",
    "layers": 1,
    "dim": 3,
    "examples": 8,
    "recipe": "paper",
    "steps": 5,
    "batch": 8,
}
_MANY = 10_000  # finished cells that are seen again "in seconds"


def sweep_rows(config: BenchConfig) -> list[Row]:
    """On all cores, in folders that are removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            *_tiny_rows(Path(folder, "tiny"), 24 if config.quick else 400),
            _scaling_row(Path(folder), config.quick),
        ]


def _tiny_rows(folder: Path, cells: int) -> list[Row]:
    """Cells of a few milliseconds: the overhead includes all that they write, and the start of the processes."""
    study = read_study({"grid": {**_TINY, "sequences": 100, "seed": list(range(cells))}})
    own = [cell.config for cell in study.cells[: min(cells, 50)]]
    train(own[0], threads=1)  # kernels are compiled, or read
    seconds = time.perf_counter()
    for config in own:
        train(config, threads=1)
    alone, workers = (time.perf_counter() - seconds) / len(own), default_threads()
    seconds = time.perf_counter()
    sweep(study, out=folder, workers=workers)
    each = (time.perf_counter() - seconds) * workers / cells
    seconds = time.perf_counter()
    sweep(study, out=folder)
    again = (time.perf_counter() - seconds) / cells * _MANY
    beyond, note = (each - alone) * 1e3, f"{cells} cells, {workers} workers; training alone takes {alone * 1e3:.0f} ms"
    return [
        Row("sweep", "a tiny cell, beyond its training", beyond, "ms", Target(50.0, at_most=True), note=note),
        Row(
            "sweep",
            f"{_MANY:,} finished cells seen again",
            again,
            "s",
            Target(10.0, at_most=True),
            note=f"from {cells}",
        ),
    ]


def _scaling_row(folder: Path, quick: bool) -> Row:
    """Cells a second with two workers, divided by one, from the first finished cell to the last, after all starts."""
    steps, cells = (100, 5) if quick else (1000, 9)
    grid = {"kind": "full", "layers": 4, "recipe": "paper", "steps": steps, "batch": 512, "sequences": 20_000}
    study, rates = read_study({"grid": {**grid, "seed": list(range(cells))}}), dict[int, float]()
    for workers in (1, 2):
        moments: list[float] = []

        def note(event: Event, moments: list[float] = moments) -> None:
            if event.what == "finished":
                moments.append(time.perf_counter())

        sweep(study, out=folder / f"workers-{workers}", workers=workers, on_event=note)
        rates[workers] = (cells - 1) / (moments[-1] - moments[0])
    target = Target(1.8) if default_threads() > 1 else None
    what, seconds = "cells a second, two workers over one", 1 / rates[1]
    return Row("sweep", what, rates[2] / rates[1], target=target, seconds=seconds, note="time: a cell on one worker")
