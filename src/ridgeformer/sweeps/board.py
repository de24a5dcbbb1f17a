"""Which cells are next, which are done, and reports about them: shared by the local engine and the cluster."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ridgeformer.core.validation import RidgeformerError
from ridgeformer.sweeps.cell_work import Job
from ridgeformer.sweeps.study import Cell

_REPORT_EVERY = 1.0  # seconds between reports of progress
MOST_DEATHS = 10
"""Deaths of processes in a cell without a new checkpoint, before the cell is given up. Random kills are too rare."""


@dataclass(frozen=True)
class Event:
    """What happened to a cell; `sweep` calls ``on_event`` with it.

    >>> import ridgeformer as rf
    >>> from ridgeformer.sweeps import Cell
    >>> Event(Cell("tiny", rf.TrainConfig(layers=1)), "running", share=0.5).cell.name
    'tiny'
    """

    cell: Cell
    what: str
    """"kept" from an earlier sweep, "started", "running", "finished", "failed" or "skipped"."""
    share: float = 0.0
    """The share of its steps that are done."""
    message: str = ""
    """Why it failed or was skipped."""


OnEvent = Callable[[Event], object]


class Board:
    """The cells of a sweep that still have to be trained."""

    def __init__(self, cells: Sequence[Cell], jobs: Mapping[str, Job], on_event: OnEvent) -> None:
        """``cells``: all of them, parents first; ``jobs``: those that are not done yet, by name."""
        self.jobs, self._on_event = dict(jobs), on_event
        self.cells = {cell.name: cell for cell in cells}
        self.open = dict.fromkeys(self.jobs)  # names in order
        self.failed: dict[str, str] = {}
        self.skipped: dict[str, str] = {}
        self.finished: list[str] = []
        self._children: dict[str, list[str]] = {}
        self._order = {cell.name: number for number, cell in enumerate(cells)}
        self._ready: list[tuple[int, str]] = []
        self._deaths: dict[str, tuple[int, int]] = {}
        self._reported = time.monotonic()
        for name in self.jobs:
            parent = self.cells[name].parent
            if parent in self.jobs:
                self._children.setdefault(parent, []).append(name)
            else:
                heapq.heappush(self._ready, (self._order[name], name))

    def next_ready(self) -> Job | None:
        """The first cell of the study whose parent is done and that no worker has yet."""
        return self.jobs[heapq.heappop(self._ready)[1]] if self._ready else None

    def children(self, name: str) -> list[str]:
        """Cells that are to be done and start from this one."""
        return self._children.get(name, [])

    def start(self, name: str) -> None:
        """A worker has it."""
        self._say(name, "started")

    def finish(self, name: str) -> None:
        """It is done."""
        del self.open[name]
        self.finished.append(name)
        for child in self.children(name):
            heapq.heappush(self._ready, (self._order[child], child))
        self._say(name, "finished", 1.0)

    def fail(self, name: str, error: BaseException | str) -> None:
        """Note that a cell cannot be trained, and neither can those that start from it."""
        known = isinstance(error, str | RidgeformerError)
        message = str(error) if known else f"{type(error).__name__}: {error}."
        del self.open[name]
        self.failed[name] = message
        self._say(name, "failed", 1.0, message)
        below = list(self.children(name))
        for child in below:
            below += self.children(child)
            del self.open[child]
            self.skipped[child] = name
            self._say(child, "skipped", 1.0, f"It starts from {name}, which failed.")

    def may_go_on(self, name: str) -> bool:
        """Note that a process died in a cell; returns False if the cell makes no progress, and then it has failed."""
        saved = self.jobs[name].saved_steps()
        before, deaths = self._deaths.get(name, (saved, 0))
        deaths = deaths + 1 if saved == before else 1
        self._deaths[name] = saved, deaths
        if deaths < MOST_DEATHS:
            return True
        self.fail(name, f"Its process died {deaths} times without progress; is there enough memory?")
        return False

    def report(self, running: Iterable[str]) -> None:
        """Report the progress of the cells in training, if the last report was not a moment ago."""
        if time.monotonic() - self._reported >= _REPORT_EVERY:
            for name in running:
                self._say(name, "running", self.jobs[name].share())
            self._reported = time.monotonic()

    def _say(self, name: str, what: str, *values: Any) -> None:
        self._on_event(Event(self.cells[name], what, *values))
