"""What a user sees while the grid is trained: one bar over everything, with time left and the cells at work."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from ridgeformer.reproduction.cells import Cell
from ridgeformer.reproduction.grid import GridEvent
from ridgeformer.training.recipes import SHALLOW

_PLAIN_SECONDS = 30.0  # between lines when there is no terminal to draw a bar on


def expected_seconds(cell: Cell) -> float:
    """Of one core, roughly, for the estimate of the time left; measured on a Xeon of 2023."""
    if cell.model == "gdpp" or cell.noise == "uniform:0":
        return 3.0
    if cell.model == "diag":
        return 6.0 + cell.layers * (1.0 if cell.parent else 2.0)
    if cell.layers < SHALLOW:
        return 12.0
    if cell.layers == SHALLOW:
        return 90.0
    return cell.layers * (1 + cell.heads) * (2.0 if cell.parent else 3.0)


class GridProgress:
    """Takes the events of `train_grid`."""

    def __init__(self, cells: Sequence[Cell], console: Console) -> None:
        self._console = console
        self._left = {cell.name: expected_seconds(cell) for cell in cells}
        self._total = sum(self._left.values())
        self._new_work = 0.0
        self._running: dict[str, float] = {}
        self._started = self._shown = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        left = TextColumn("{task.fields[left]}")
        self._bar = Progress(*columns, left, console=console, disable=not console.is_terminal)
        self._task = self._bar.add_task("grid", total=self._total, left="")

    def __enter__(self) -> GridProgress:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def __call__(self, event: GridEvent) -> None:
        """Show an event."""
        name = event.cell.name
        if event.what in ("kept", "finished", "failed"):
            expected = self._left.pop(name, 0.0)
            self._running.pop(name, None)
            self._new_work += 0.0 if event.what == "kept" else expected
        else:
            self._running[name] = event.share
        if event.what == "failed":
            self._console.print(f"ridgeformer: {name}: {event.message}", highlight=False, soft_wrap=True)
        self._show(event)

    def _show(self, event: GridEvent) -> None:
        under_way = sum(share * self._left.get(name, 0.0) for name, share in self._running.items())
        remaining = sum(self._left.values()) - under_way
        elapsed, done = time.monotonic() - self._started, self._new_work + under_way
        left = f"about {elapsed * remaining / done / 60:.0f} min left" if done > 0 else ""
        text = ", ".join(self._running) or "grid"
        self._bar.update(self._task, completed=self._total - remaining, description=text, left=left)
        if not self._console.is_terminal and time.monotonic() - self._shown >= _PLAIN_SECONDS:
            self._shown = time.monotonic()
            text = f"{self._total - remaining:.0f} of {self._total:.0f} parts done, at {event.cell.name}, {left}"
            self._console.print(text, highlight=False, soft_wrap=True)
