"""What a user sees of a run while it goes on, and at its end."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from ridgeformer.baselines import Bayes
from ridgeformer.evaluation import evaluate
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.steps import StepInfo
from ridgeformer.training.train import TrainResult

_REFRESH = 0.2  # seconds between updates of the display; a step takes about a millisecond
_BAYES_SEQUENCES = 16_384  # to show the Bayes limit within a percent or two after half a second
_PLAIN_SHARE = 10  # lines written over a run when there is no terminal to draw a bar on


class TrainProgress:
    """A callback: a bar with losses, speed and time left on a terminal, a few plain lines elsewhere."""

    def __init__(self, config: TrainConfig, total: int, console: Console) -> None:
        self._console = console
        self._total = total
        self._name = f"{config.kind}, {config.layers} layers, {config.noise}"
        self._printed = printed_cell(config)
        self.bayes_limit = evaluate(Bayes(config.task.prior), config.task, _BAYES_SEQUENCES).adjusted_loss
        self._started = self._shown = time.monotonic()
        self._first: int | None = None
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal)
        self._task = self._bar.add_task(self._name, total=total)

    def __enter__(self) -> TrainProgress:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def __call__(self, info: StepInfo) -> None:
        """Show a step."""
        now = time.monotonic()
        if self._first is None:
            self._first = info.total - 1
        if self._console.is_terminal:
            if now - self._shown < _REFRESH and info.total < self._total:
                return
        elif info.total % max(1, self._total // _PLAIN_SHARE) and info.total < self._total:
            return
        self._shown = now
        speed = (info.total - self._first) / max(now - self._started, 1e-9)
        text = f"{self._name} · {info.leg}: loss {info.loss:.4g}, smoothed {info.smoothed:.4g}"
        text += f" (Bayes limit {self.bayes_limit:.3g}"
        text += ")" if self._printed is None else f", paper {self._printed:g})"
        text += f", {speed:.0f} steps/s"
        if self._console.is_terminal:
            self._bar.update(self._task, completed=info.total, description=text)
        else:
            self._console.print(f"step {info.total}/{self._total} {text}", highlight=False, soft_wrap=True)


def printed_cell(config: TrainConfig) -> float | None:
    """What the paper printed for this model and task, if it did."""
    if (config.dim, config.examples, config.heads) != (10, 20, 1):
        return None
    return printed_loss(config.kind, config.layers, config.noise)


def result_table(config: TrainConfig, result: TrainResult, bayes_limit: float) -> Table:
    """The run's verdict beside the paper's number and the Bayes limit."""
    found = result.evaluation
    setting = f"σ ~ {config.noise}, d = {config.dim}, n = {config.examples}"
    title = f"Adjusted loss on {found.sequences:,} fresh sequences, {setting}"
    table = Table("model", "adjusted loss", "± s.e.", "median", "p99", "largest", "source", title=title)
    printed = printed_cell(config)
    label = f"{config.kind}, {config.layers} layers"
    if printed is not None:
        table.add_row(label, f"{printed:g}", "", "", "", "", "printed in the paper")
    numbers = (found.adjusted_loss, found.standard_error, found.median, found.p99, found.maximum)
    table.add_row(label, *(f"{number:.4g}" for number in numbers), f"trained here in {result.seconds:.0f} s")
    table.add_row("Bayes limit", f"{bayes_limit:.3g}", "", "", "", "", f"on {_BAYES_SEQUENCES:,} sequences")
    return table
