"""What all commands share: kinds of arguments, consoles, tables that fit the terminal, progress, files to write."""

from __future__ import annotations

import json
import math
import os
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

import tyro
from rich import progress as bars
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ridgeformer.core.distributions import NoisePrior, load_noise
from ridgeformer.core.storage import plain, write_whole, writing
from ridgeformer.core.validation import InputError, printable, shortened


def argument(metavar: str, help: str | None = None) -> Any:
    """How an argument without a default of its own is shown in the help."""
    return tyro.conf.arg(metavar=metavar, help=help, help_behavior_hint="")


File = Annotated[Path | None, argument("FILE")]
Folder = Annotated[Path | None, argument("DIR")]
Spec = Annotated[str | None, argument("SPEC")]
Count = Annotated[int | None, argument("N")]
Noise = Annotated[
    str | None,
    argument("SPEC", "Distribution of the noise level σ, such as uniform:5, or your own as module:Class(1)."),
]
Examples = Annotated[
    str | None, argument("N|A..B", "Number of examples in a context, or a range of numbers, such as 10..40.")
]
Features = Annotated[str | None, argument("SPEC", "Distribution of the features x, such as kappa:10+rotated.")]
Weights = Annotated[str | None, argument("SPEC", "Distribution of the true weights w, such as sparse:3 or pool:64.")]
NoiseShape = Annotated[
    str | None, argument("SPEC", "Shape of the noise at a given level σ, such as student:5 or outliers:0.05x10.")
]
MixtureText = Annotated[
    str | None,
    argument("TEXT|FILE", "Several tasks at once, separated by |: 3*base | features=skewed | weights=scale:2."),
]

PRIORS = tyro.constructors.ConstructorRegistry()
"""Tells tyro how to read the noise prior of a `TrainConfig`."""


@PRIORS.primitive_rule
def _prior_rule(kind: tyro.constructors.PrimitiveTypeInfo) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
    if kind.type != NoisePrior | str:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="SPEC",
        instance_from_str=lambda texts: load_noise(texts[0]),
        is_instance=lambda value: True,
        str_from_instance=lambda prior: [prior if isinstance(prior, str) else prior.spec],
    )


ERRORS = Console(stderr=True)
"""For progress and error messages: one console, so that a line printed while a bar is drawn does not break the bar."""
_PIPE_WIDTH = 180  # columns of the widest table, that of the default shifts
_NARROWEST = 12  # columns to which words are folded before a table is cut in two
_LONGEST_WORD = 24  # columns to which a word in a heading, such as the name of a model, is folded
_BORDER = 3  # columns that rich puts around each column of a table
_LONGEST_LINE = 5000  # characters that are printed of one line
_REFRESH = 0.2  # seconds between updates of a bar; a training step takes about a millisecond
_PLAIN_SECONDS = 10.0  # between lines when there is no terminal to draw a bar on; short work stays silent

# --- output -----------------------------------------------------------------------------------------------------------


def output_console() -> Console:
    """Standard output; at full width when it is a file or a pipe, unless COLUMNS says how wide it is."""
    console = Console()
    return console if console.is_terminal or os.environ.get("COLUMNS") else Console(width=_PIPE_WIDTH)


def say(text: str, to_copy: bool = False, console: Console | None = None) -> None:
    """Print a sentence as it is; wrapped on a terminal, unless it has a path or a command ``to_copy`` in it."""
    console = output_console() if console is None else console
    console.print(_clean(text), highlight=False, markup=False, soft_wrap=to_copy or not console.is_terminal)


def _clean(text: str) -> str:
    """Lines without characters that could command a terminal: names and specs may come from files."""
    return "\n".join(printable(line, _LONGEST_LINE) for line in text.split("\n"))


def warn(text: str) -> None:
    """Print a sentence on stderr."""
    say(text, console=ERRORS)


def print_table(
    title: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str | Text]],
    words: Sequence[int] = (0,),
    styles: Sequence[str | None] = (),
    ends: Sequence[bool] = (),
) -> None:
    """Print a table in which no number is broken over two lines, also on a narrow terminal.

    Columns in ``words`` hold words, which may be wrapped; all others hold numbers, which may not. Columns that do not
    fit next to the first one are printed below, in another table. ``styles`` are those of the rows; ``ends`` says after
    which rows a line is drawn.
    """
    console = output_console()
    cells = [[cell if isinstance(cell, Text) else Text(_clean(cell)) for cell in row] for row in rows]
    widths = []
    for number, head in enumerate(heads):
        needed = max((line.cell_len for row in cells for line in row[number].split("\n")), default=0)
        folded = min(needed, _NARROWEST) if number in words else needed
        widths.append(max(folded, *(min(cell_len(word), _LONGEST_WORD) for word in head.split(" "))))
    parts = [[0]]
    for number in range(1, len(heads)):
        used = 1 + sum(widths[place] + _BORDER for place in (*parts[-1], number))
        if len(parts[-1]) > 1 and used > console.width:
            parts.append([0])
        parts[-1].append(number)
    for place, columns in enumerate(parts):
        table = Table(title=Text(title) if place == 0 and title else None)
        for number in columns:
            folded_head = Text(textwrap.fill(heads[number], max(1, widths[number])))
            if number in words:
                table.add_column(folded_head, overflow="fold", min_width=widths[number])
            else:
                table.add_column(folded_head, justify="right", no_wrap=True, min_width=widths[number])
        for row, style, end in zip(cells, styles or [None] * len(cells), ends or [False] * len(cells), strict=True):
            table.add_row(*(row[number] for number in columns), style=style, end_section=end)
        console.print(table)


def number_text(value: float, digits: int = 4) -> str:
    """A number with this many digits; in words if it is not finite."""
    return f"{value:.{digits}g}" if math.isfinite(value) else "not finite"


def error_text(value: float, error: float) -> str:
    """A number with its standard error, if it has one."""
    return f"{value:.4g} ± {error:.2g}" if math.isfinite(error) else number_text(value)


# --- progress ---------------------------------------------------------------------------------------------------------


class _Bar(bars.Progress):
    """A line of text with a bar below it, so that both have room."""

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from (Text(task.description) for task in self.tasks)
        yield self.make_tasks_table(self.tasks)


class Progress:
    """How far a command has come: on a terminal a bar with the time left, elsewhere a plain line every ten seconds."""

    def __init__(self, total: float, redraw: bool = True) -> None:
        """``total`` is all the work, in any unit. Without ``redraw`` no thread redraws the bar and disturbs timings."""
        self._total, self._begun, self._stage_work = total, 0.0, 0.0
        self._started = self._shown = time.monotonic()
        self._bar = _Bar(
            bars.BarColumn(),
            bars.TaskProgressColumn(),
            bars.TimeElapsedColumn(),
            bars.TextColumn("{task.fields[left]}"),
            console=ERRORS,
            disable=not ERRORS.is_terminal,
            transient=True,
            auto_refresh=redraw,
        )
        self._task = self._bar.add_task("", total=total, left="")

    def __enter__(self) -> Self:
        if ERRORS.is_terminal:  # elsewhere rich before version 15 prints an empty line at the end
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if ERRORS.is_terminal:
            self._bar.stop()

    def begin(self, name: str, work: float) -> None:
        """Begin a stage of this much work; the stage before it is done."""
        self._begun += self._stage_work
        self._stage_work = work
        self.show(name, self._begun, now=True)

    def stage(self, name: str, units: float, weight: float = 1.0) -> Callable[[float], None]:
        """Begin a stage of ``units`` units, each of ``weight`` work; call the result with how many are done."""
        self.begin(name, units * weight)
        begun = self._begun
        return lambda done: self.show(name, begun + done * weight)

    def show(self, text: str, done: float, kept: float = 0.0, now: bool = False) -> None:
        """Say what is going on and how much is done. ``kept`` was done by an earlier run: the speed leaves it out."""
        moment = time.monotonic()
        elapsed, fresh = moment - self._started, done - kept
        seconds = elapsed * (self._total - done) / fresh if fresh > 0 else 0.0
        left = f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"
        left = f"about {left} left" if fresh > 0 else ""
        since = moment - self._shown
        if ERRORS.is_terminal:
            if now or since >= _REFRESH or done >= self._total:
                self._shown = moment
                self._bar.update(self._task, completed=done, description=text, left=left, refresh=now)
        elif since >= _PLAIN_SECONDS:
            self._shown = moment
            warn(f"{text}: {done / self._total:.0%} done{left and ', '}{left}")


# --- what is refused before any work is done, and files to write ------------------------------------------------------


def refuse(reason: str, flags: Mapping[str, object]) -> None:
    """Raise an error if one of these options is given, because it would have no effect."""
    for flag, given in flags.items():
        if given:
            raise InputError(f"{reason}: leave out {flag}.")


def check_files(*files: Path | None) -> None:
    """Refuse files that could not be written later."""
    for file in files:
        if file is None:
            continue
        if not file.parent.is_dir():
            raise InputError(f"There is no folder {shortened(str(file.parent))} to write {file.name} in.")
        if file.exists() and not file.is_file():
            raise InputError(f"Cannot write {file}: it is not an ordinary file.")
        with writing(file):
            tempfile.TemporaryFile(dir=file.parent).close()


def make_folder(folder: Path | None) -> Path | None:
    """The folder, made if it does not exist; an error if nothing can be written there."""
    if folder is not None:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=folder).close()
    return folder


def write_json(path: Path | None, value: Any) -> None:
    """Write a value as a JSON file, if one is wanted; a number that is not finite is null."""
    if path is not None:
        write_whole(path, (json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())
