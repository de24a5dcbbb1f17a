"""How figures look, and how they are written: the same for what `analysis` and `figures` draw.

Colours that colour-blind readers can tell apart, lines that differ in grey as well, files that are the same bytes for
the same figure.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from ridgeformer.core.storage import write_whole
from ridgeformer.core.validation import one_of

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
    "pdf.fonttype": 42,  # TrueType: text in a PDF can be searched, and journals accept it
}
FORMATS = ("svg", "png", "pdf")
# What would differ from one run to the next is left out.
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_DPI = 130
_LARGEST = 1e30


@contextmanager
def styled(changes: Mapping[str, Any] | None = None) -> Iterator[None]:
    """The look, for as long as a figure is made; ``changes`` are settings of Matplotlib that differ from it."""
    with mpl.rc_context({**_RC, **(changes or {})}):
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


def save_figure(
    figure: Figure, folder: Path, name: str, formats: Sequence[str] = ("svg", "png"), dpi: float = _DPI
) -> tuple[Path, ...]:
    """Write ``name`` in each of the formats, whole or not at all; the same figure gives the same bytes."""
    paths = tuple(folder / f"{name}.{one_of('format', suffix, FORMATS)}" for suffix in formats)
    with styled():
        for path, suffix in zip(paths, formats, strict=True):
            data = io.BytesIO()
            figure.savefig(data, format=suffix, metadata=_METADATA[suffix], dpi=dpi)
            write_whole(path, data.getvalue())
    return paths


def drawable(values: object) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Numbers to draw, with a gap where one is infinite or so large that no axis could hold it beside others."""
    array = np.asarray(values, np.float64)
    return np.where(np.abs(array) < _LARGEST, array, np.nan)
