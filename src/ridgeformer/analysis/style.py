"""How figures look: colours that colour-blind readers can tell apart, lines that differ in grey as well."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ridgeformer.storage import write_whole

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
"""The palette of Okabe and Ito (*Color Universal Design*, 2008), its darker colours first."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
ORDERED = "cividis"
"""For things in order, such as layers and bands of noise: lightness grows evenly, for all kinds of sight."""
DIVERGING = "PuOr"
"""For signed entries of matrices; signs are also written into the cells, since grey cannot show them."""
_RC = {
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.5,
    "lines.markersize": 4.5,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "svg.hashsalt": "ridgeformer",  # so that the same figure is the same file
    "svg.fonttype": "none",
}
_DPI = 130
_LARGEST = 1e30


@contextmanager
def styled() -> Iterator[None]:
    """The look, for as long as a figure is made."""
    with mpl.rc_context(_RC):
        yield


def new_figure(rows: int, columns: int, width: float, height: float) -> tuple[Figure, list[list[Axes]]]:
    """A figure of panels of ``width`` by ``height`` inches each; call it within `styled`."""
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False)
    return figure, [list(row) for row in axes]


def ordered_colour(place: int, count: int) -> tuple[float, float, float, float]:
    """The colour of the ``place``-th of ``count`` things in order, light enough to see and dark enough to print."""
    share = place / max(count - 1, 1)
    red, green, blue, alpha = mpl.colormaps[ORDERED](0.9 * (1 - share))
    return float(red), float(green), float(blue), float(alpha)


def legend_beside(axis: Axes) -> None:
    """A legend to the right of a panel, where it hides nothing; none if all series were left out."""
    if axis.get_legend_handles_labels()[0]:
        axis.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def hide_empty(axes: list[list[Axes]], used: int) -> None:
    """Take away the panels of a grid that nothing was drawn in."""
    for axis in [axis for row in axes for axis in row][used:]:
        axis.set_visible(False)


def save_figure(figure: Figure, folder: Path, name: str) -> tuple[Path, Path]:
    """Write ``name``.svg and ``name``.png, whole or not at all; the same figure gives the same bytes."""
    paths = folder / f"{name}.svg", folder / f"{name}.png"
    with styled():
        for path, metadata in zip(paths, ({"Date": None}, {"Software": None}), strict=True):
            data = io.BytesIO()
            figure.savefig(data, format=path.suffix[1:], metadata=metadata, dpi=_DPI)
            write_whole(path, data.getvalue())
    return paths


def drawable(values: object) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Numbers to draw, with a gap where one is infinite or so large that no axis could hold it beside others."""
    array = np.asarray(values, np.float64)
    return np.where(np.abs(array) < _LARGEST, array, np.nan)
