"""What a user sees of an evaluation while it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

_PLAIN_SECONDS = 10.0  # between lines when there is no terminal to draw a bar on; short work stays silent


class EvaluationProgress:
    """A bar with time left over all stages on a terminal, a plain line now and then elsewhere."""

    def __init__(self, work: int, console: Console) -> None:
        """``work``: the sum over stages of sequences times predictors."""
        self._console, self._work = console, work
        self._before = self._stage_work = 0
        self._started = self._shown = time.monotonic()
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        self._bar = Progress(
            *columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal, transient=True
        )
        self._task = self._bar.add_task("", total=work)

    def __enter__(self) -> EvaluationProgress:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def stage(self, name: str, sequences: int, predictors: int) -> Callable[[int], None]:
        """Begin a stage of this many sequences; the result is its ``on_chunk``."""
        self._before += self._stage_work
        self._stage_work = sequences * predictors
        before = self._before
        self._bar.update(self._task, completed=before, description=name)

        def on_chunk(done: int) -> None:
            self._show(name, before + done * predictors)

        return on_chunk

    def _show(self, name: str, done: int) -> None:
        now = time.monotonic()
        if self._console.is_terminal:
            self._bar.update(self._task, completed=done)
        elif now - self._shown >= _PLAIN_SECONDS:
            self._shown = now
            left = (now - self._started) * (self._work - done) / done
            text = f"{name}: {done / self._work:.0%} of all, about {left:.0f} s left"
            self._console.print(text, highlight=False, soft_wrap=True)
