"""All figures, by name, drawn from a results folder and written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ridgeformer.core.validation import InputError, one_of
from ridgeformer.plots.categorical import figure_3
from ridgeformer.plots.layers import figure_1
from ridgeformer.plots.limits import figure_bayes, figure_depth
from ridgeformer.plots.look import Drawing, lay_out
from ridgeformer.plots.profiles import figure_2, figure_6
from ridgeformer.plots.readouts import figure_5, figure_7
from ridgeformer.plots.shift import figure_shift
from ridgeformer.plots.style import FORMATS, save_figure
from ridgeformer.plots.training import figure_training
from ridgeformer.plots.weights import figure_4
from ridgeformer.reproduction.results import MissingRecordError, Results

FIGURES: dict[str, Callable[[Results], Drawing]] = {
    "1": figure_1,
    "2": figure_2,
    "3": figure_3,
    "4": figure_4,
    "5": figure_5,
    "6": figure_6,
    "7": figure_7,
    "bayes": figure_bayes,
    "training": figure_training,
    "depth": figure_depth,
    "shift": figure_shift,
}
"""The paper's by their numbers, then ours."""
_DPI = 200  # of PNG files: sharp on a page of 7.2 inches


@dataclass(frozen=True)
class Written:
    """What became of one figure."""

    name: str
    paths: tuple[Path, ...]
    """Empty if it could not be drawn."""
    notes: tuple[str, ...]
    """What it lacks, and what makes it."""


def draw_all(
    results: Results,
    out: Path,
    formats: Sequence[str] = FORMATS,
    names: Sequence[str] | None = None,
    on_figure: Callable[[str], None] = lambda name: None,
) -> tuple[Written, ...]:
    """Draw figures and write each as ``figure-NAME`` in every format; ``on_figure(name)`` is called before each.

    All of them unless ``names`` are given. Of all, those whose record is missing are passed over with a note; one that
    was asked for by name is an error, as is a record that is damaged, or a folder with nothing to draw.
    """
    chosen = [one_of("figure", name, FIGURES) for name in (FIGURES if names is None else dict.fromkeys(names))]
    for suffix in formats:
        one_of("format", suffix, FORMATS)
    if not formats or not chosen:
        raise InputError(f"Name at least one format, {' or '.join(FORMATS)}, and one figure.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as failed:
        raise InputError(f"Cannot write {out}: {failed.strerror or failed}.") from failed
    written, missing = [], None
    for name in chosen:
        on_figure(name)
        try:
            drawing = FIGURES[name](results)
        except MissingRecordError as absent:
            if names is not None:
                raise
            missing = missing or absent
            written.append(Written(name, (), (str(absent),)))
            continue
        lay_out(drawing.figure)
        paths = save_figure(drawing.figure, out, f"figure-{name}", formats, _DPI)
        written.append(Written(name, paths, drawing.notes))
    if missing is not None and not any(found.paths for found in written):
        raise missing
    return tuple(written)
