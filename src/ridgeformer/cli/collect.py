"""``ridgeformer collect``: one table and a plot of a folder of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from ridgeformer.cli import terminal
from ridgeformer.core.validation import InputError, one_of, shortened
from ridgeformer.sweeps import collect as collect_rows
from ridgeformer.sweeps import write_table
from ridgeformer.sweeps.table import LOSS

_MOST_LINES = 40  # of the table on the terminal; the files have all of it


def collect(
    folder: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="FOLDER")]],
    out: terminal.Folder = None,
    where: Annotated[tuple[str, ...], terminal.argument("FIELD=VALUE…")] = (),
    x: Annotated[str | None, terminal.argument("FIELD")] = None,
    value: Annotated[str, tyro.conf.arg(metavar="COLUMN")] = LOSS,
    plot: bool = True,
    formats: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FORMAT…")] = ("pdf", "svg", "png"),
) -> None:
    """Make one table and one plot of all finished runs in a folder.

    Nothing is trained or measured. The table is written as CSV and JSON, and as Parquet if pyarrow is installed. The
    plot shows the mean over seeds, with a band for their spread.

    Args:
        folder: Folder with runs, such as the one that 'ridgeformer sweep' wrote.
        out: Folder for the table and the plot; by default the folder with the runs.
        where: Use only runs with these values, such as kind=full noise=uniform:5.
        x: Setting on the horizontal axis; by default the first one that varies, such as layers.
        value: Column on the vertical axis, such as p99, or 'adjusted_loss noise fixed:3' if the study measured that.
        plot: Draw the plot.
        formats: Formats of the plot: pdf, svg, png.
    """
    rows = [row for row in collect_rows(folder) if all(_matches(row, choice) for choice in where)]
    if not rows:
        raise InputError(f"No finished run has {' and '.join(map(shortened, where))}.")
    one_of("value", value, rows[0])
    into = terminal.make_folder(folder if out is None else out) or folder
    from ridgeformer.plots.sweep_figures import sweep_figure, varying

    written: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    if plot and (x is not None or varying(rows)):
        from ridgeformer.plots.render import save_figure  # brings in matplotlib

        figure = sweep_figure(rows, x, value)
        written, notes = save_figure(figure, into, "plot", formats), figure.notes
    written = (*write_table(rows, into), *written)
    _print(rows, varying(rows), value)
    for note in notes:
        terminal.say(note)
    terminal.say(f"Written: {', '.join(map(str, written))}", to_copy=True)


def _matches(row: Mapping[str, Any], choice: str) -> bool:
    name, equals, value = choice.partition("=")
    if not equals:
        raise InputError(f"Write --where FIELD=VALUE, such as --where kind=full, not {shortened(choice)}.")
    return str(row[one_of("The field of --where", name, row)]) == value


def _print(rows: Sequence[Mapping[str, Any]], fields: Sequence[str], value: str) -> None:
    """A line for each combination of settings: the mean over its seeds and, with several seeds, their spread."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in fields), []).append(row)
    lines = []
    for values, own in list(groups.items())[:_MOST_LINES]:
        numbers = np.array([np.nan if row[value] is None else row[value] for row in own], np.float64)
        error = float(numbers.std(ddof=1)) if len(own) > 1 else float("nan")
        worst = terminal.number_text(float(numbers.max()))
        mean, scatter = (
            terminal.number_text(float(numbers.mean())),
            terminal.number_text(error, 2) if len(own) > 1 else "",
        )
        lines.append([*map(str, values), str(len(own)), mean, scatter, worst])
    heads = (*fields, "cells", f"mean {value.replace('_', ' ')}", "± over seeds", "largest")
    words = [number for number, name in enumerate(fields) if any(isinstance(row[name], str) for row in rows)]
    terminal.print_table(f"{len(rows)} finished cells", heads, lines, words=words)
    if len(groups) > _MOST_LINES:
        terminal.say(f"{len(groups) - _MOST_LINES} more lines: see the files.")
