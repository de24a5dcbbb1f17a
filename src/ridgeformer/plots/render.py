"""Specifications drawn with Matplotlib and written to files; nothing else in the package needs Matplotlib.

Colours that colour-blind readers can tell apart, lines that differ in grey as well, files that are the same bytes for
the same figure.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize, SymLogNorm
from matplotlib.figure import Figure as Picture
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from ridgeformer.core.notation import Array
from ridgeformer.core.registry import Look
from ridgeformer.core.storage import write_whole
from ridgeformer.core.validation import InputError, one_of
from ridgeformer.plots.figures import FIGURES
from ridgeformer.plots.specification import LARGEST, Axis, Chart, Comparison, Figure, HeatMap, Panel, Series
from ridgeformer.reproduction.results import MissingRecordError, Results

FORMATS = ("svg", "png", "pdf")
_ORDERED = "cividis"  # for things in order, such as layers: lightness grows evenly, for all kinds of sight
_DIVERGING = "PuOr"  # for signed entries and for ratios; what grey cannot show is written into the cells
_RC = mpl.rc_params_from_file(str(resources.files(__package__) / "print.mplstyle"), use_default_template=False)
# What would differ from one run to the next is left out.
_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_DPI = 200  # of PNG files: sharp on a page of 7.2 inches
_TICKS = ((0.7, (1, 1.5, 2, 3, 4, 5, 6, 8)), (1.6, (1, 2, 5)), (2.3, (1, 3)), (math.inf, (1,)))
"""Decades of a logarithmic axis, and what is labelled in each if there are fewer."""
_PLAIN_DECADES = 6  # up to which labels are 0.01 rather than a power of ten
_MOST_TICKS = 16  # at whole numbers
_CROWD = 50  # points of a series from which markers are small
_DARK = 0.7  # strength of a colour from which text on it is white
_LINEAR_SHARE = 1 / 30  # of the largest entry of a heat map, up to which colours grow linearly
_RATIO_TICKS = (0.7, 0.8, 1, 1.2, 1.5, 2, 3, 4)


# --- files -----------------------------------------------------------------------------------------------------------


class Written(NamedTuple):
    """What became of one figure."""

    name: str
    paths: tuple[Path, ...]  # none if it could not be drawn
    notes: tuple[str, ...]  # what it lacks, and what makes it


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
    entries = [FIGURES.find(name) for name in (FIGURES if names is None else dict.fromkeys(names))]
    for suffix in formats:
        one_of("format", suffix, FORMATS)
    if not formats or not entries:
        raise InputError(f"Name at least one format, {' or '.join(FORMATS)}, and one figure.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as failed:
        raise InputError(f"Cannot write {out}: {failed.strerror or failed}.") from failed
    written = []
    for entry in entries:
        on_figure(entry.name)
        try:
            figure = entry.build(results)
        except MissingRecordError as absent:
            if names is not None:
                raise
            written.append(Written(entry.name, (), (str(absent),)))
        else:
            paths = save_figure(figure, out, f"figure-{entry.name}", formats)
            written.append(Written(entry.name, paths, figure.notes))
    if not any(one.paths for one in written):
        raise MissingRecordError(written[0].notes[0])
    return tuple(written)


def save_figure(figure: Figure, folder: Path, name: str, formats: Sequence[str] = ("svg", "png")) -> tuple[Path, ...]:
    """Draw a figure and write it in each of the formats, whole or not at all; the same figure gives the same bytes."""
    paths = tuple(folder / f"{name}.{one_of('format', suffix, FORMATS)}" for suffix in formats)
    picture = render(figure)
    engine = picture.get_layout_engine()
    if engine is not None:  # once for all formats: it takes most of the time
        engine.execute(picture)
        picture.set_layout_engine("none")
    with mpl.rc_context(_RC):
        for path, suffix in zip(paths, formats, strict=True):
            data = io.BytesIO()
            picture.savefig(data, format=suffix, metadata=_METADATA[suffix], dpi=_DPI)
            write_whole(path, data.getvalue())
    return paths


# --- a figure --------------------------------------------------------------------------------------------------------


def render(figure: Figure) -> Picture:
    """A figure, drawn: views beside each other if each is one panel, below each other otherwise."""
    lines = _lines(figure)
    columns = math.lcm(*(width for width, _, _ in lines))
    with mpl.rc_context(_RC):
        layout = ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.02)
        picture = Picture(figsize=figure.size, layout=layout)
        FigureCanvasAgg(picture)
        grid = picture.add_gridspec(len(lines), columns)
        for at, (width, title, panels) in enumerate(lines):
            # Where the next line has the same titles or x axes, one of them says it.
            same_titles = at > 0 and _all("title", panels) == _all("title", lines[at - 1][2])
            same_x = at + 1 < len(lines) and _all("x", panels) == _all("x", lines[at + 1][2])
            span = columns // width
            for place, panel in enumerate(panels):
                axes = picture.add_subplot(grid[at, span * place : span * (place + 1)])
                if isinstance(panel, Comparison):
                    _comparison(axes, panel)
                    continue
                axes.set_title("" if same_titles else _literal(panel.title))
                if isinstance(panel, HeatMap):
                    _heat_map(axes, panel)
                    continue
                _chart(axes, panel)
                _outer_labels(axes, panel, panels[:place], title, same_x)
                if not figure.legend:
                    axes.legend(handles=_handles(panel.series), loc="upper left", bbox_to_anchor=(1.0, 1.0))
        if isinstance(figure.panels[0], HeatMap):
            _colour_bar(picture, figure.panels[0])
            picture.suptitle(_literal(figure.views[0].name), fontsize=8)
        if figure.legend:
            _legend_below(picture, _handles(figure.legend))
    return picture


def _lines(figure: Figure) -> list[tuple[int, str, Sequence[Panel]]]:
    """Panels line by line, each with the number of panels that its line has room for and what it is called."""
    views = figure.views[:1] if figure.single else figure.views
    if all(len(view.rows) == 1 and len(view.rows[0].panels) == 1 for view in views):
        return [(len(views), "", [view.rows[0].panels[0] for view in views])]
    lines: list[tuple[int, str, Sequence[Panel]]] = []
    for view in views:
        for row in view.rows:
            width, title = row.columns or len(row.panels), view.name if len(views) > 1 else row.title
            lines += [(width, title, row.panels[at : at + width]) for at in range(0, len(row.panels), width)]
    return lines


def _all(name: str, panels: Sequence[Panel]) -> list[Any]:
    return [getattr(panel, name, None) for panel in panels]


def _outer_labels(axes: Axes, chart: Chart, left: Sequence[Panel], title: str, said_below: bool) -> None:
    """Labels at the left and at the bottom only, and numbers at the left only where panels share their y axis."""
    before = left[-1].y if left and isinstance(left[-1], Chart) else None
    axes.set_xlabel("" if said_below else chart.x.label)
    axes.tick_params(labelbottom=not said_below, labelleft=before is None or not before.limits or before != chart.y)
    if before is None or before.label != chart.y.label:
        axes.set_ylabel(f"{title}\n{chart.y.label}" if title and not left else chart.y.label)


def _handles(series: Sequence[Series]) -> list[Line2D]:
    """Entries of a legend, each name once."""
    named = {one.name: one for one in reversed(series) if one.name and not one.faint}
    return [Line2D([], [], **_style(one), label=_literal(one.name)) for one in reversed(named.values())]


def _legend_below(picture: Picture, handles: Sequence[Line2D]) -> None:
    """One legend for all panels, below them, to be read line by line, in lines of about the same length."""
    needed = sum(0.5 + 0.052 * len(str(handle.get_label())) for handle in handles)  # inches: a handle, and letters
    columns = math.ceil(len(handles) / math.ceil(needed / picture.get_figwidth()))
    by_column = [handle for column in range(columns) for handle in handles[column::columns]]  # as Matplotlib fills it
    picture.legend(handles=by_column, loc="outside lower center", ncols=columns, columnspacing=1.4, handletextpad=0.5)


# --- charts ----------------------------------------------------------------------------------------------------------


def _chart(axes: Axes, chart: Chart) -> None:
    for low, high in chart.shades:
        if low == high:
            axes.axvline(low, color="#bbbbbb", linewidth=2.5, zorder=0)
        else:
            axes.axvspan(low, high, color="#ececec", linewidth=0, zorder=0)
    if chart.floor is not None and chart.floor.level is not None and chart.y.limits:
        hatched: dict[str, Any] = {"facecolor": "#f2f2f2", "edgecolor": "#bbbbbb", "hatch": "/////", "linewidth": 0}
        axes.axhspan(chart.y.limits[0], chart.floor.level, zorder=0.5, **hatched)
        _series(axes, chart.floor)
    for one in chart.series:
        _series(axes, one)
    _axis(axes, chart.x, "x")
    _axis(axes, chart.y, "y")
    if chart.remark:
        axes.text(0.04, 0.05, chart.remark, transform=axes.transAxes, fontsize=6, color="#555555")


def _axis(axes: Axes, axis: Axis, name: Literal["x", "y"]) -> None:
    """Scale, limits and ticks."""
    drawn = axes.xaxis if name == "x" else axes.yaxis
    set_scale = axes.set_xscale if name == "x" else axes.set_yscale
    if axis.linear_below:
        set_scale("symlog", linthresh=axis.linear_below)
    elif axis.log:
        set_scale("log")
    if axis.limits is not None:
        room = 0.4 * axis.whole
        axes.set(**{f"{name}lim": (axis.limits[0] - room, axis.limits[1] + room)})
    if axis.ticks:
        drawn.set_ticks(axis.ticks, [_literal(text) for text in axis.names] or None)
        axes.grid(axis=name, visible=not axis.names)
    elif axis.whole and axis.limits is not None:
        ticks = range(round(axis.limits[0]), round(axis.limits[1]) + 1)
        drawn.set_ticks(ticks[:: 1 + len(ticks) // _MOST_TICKS])
    elif axis.whole:
        drawn.set_major_locator(MaxNLocator(integer=True))
    elif axis.log:
        _log_ticks(drawn)


def _log_ticks(drawn: Any) -> None:
    """Numbers at 1, 2 and 5 on a logarithmic axis of few decades, where Matplotlib has one number or too many."""
    low, high = sorted(drawn.get_view_interval())
    if not 0 < low < high:
        return
    decades = math.log10(high / low)
    steps = next(steps for most, steps in _TICKS if decades < most)
    drawn.set_major_locator(LogLocator(subs=steps, numticks=12 if drawn.axis_name == "y" else 7))
    if decades < _PLAIN_DECADES:
        drawn.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    drawn.set_minor_formatter(NullFormatter())


def _series(axes: Axes, series: Series) -> None:
    style = _style(series) | {"label": series.name}
    if series.level is not None:
        axes.axhline(series.level, **style | {"marker": ""})
        return
    y = _drawable(series.y)
    if series.marked is not None:
        style |= {"markevery": [place for place in series.marked if place < len(y)], "markersize": 2.4}
    if series.bars and series.low:
        # As lists: Matplotlib would ask whether the first of two arrays is finite, which NumPy 2.1 warns about.
        below, above = (y - _drawable(series.low)).tolist(), (_drawable(series.high) - y).tolist()
        axes.errorbar(series.x, y, yerr=[below, above], **style, elinewidth=0.7, capsize=1.2, capthick=0.7)
    else:
        axes.plot(series.x, y, **style, drawstyle="steps-post" if series.steps else "default")
        if series.low:
            low, high = _drawable(series.low), _drawable(series.high)
            axes.fill_between(series.x, low, high, color=style["color"], alpha=0.22, linewidth=0)
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5}
    turned: dict[str, Any] = {
        "rotation": 35,
        "rotation_mode": "anchor",
        "ha": "left",
        "va": "bottom",
    }  # neighbours meet less
    for x, height, text in zip(series.x, y, series.labels, strict=False):
        if text and np.isfinite(height):
            at = x, float(height)
            axes.annotate(_literal(text), at, (2, 4), textcoords="offset points", **turned, fontsize=5.5, bbox=box)


def _style(series: Series) -> dict[str, Any]:
    """Matplotlib's words for a look. Hollow markers stand around others."""
    look = series.look
    style: dict[str, Any] = {
        "color": _colour(look),
        "linestyle": "none" if series.points else (0, look.dashes) if look.dashes else "-",
        "marker": look.marker,
        "linewidth": look.width,
    }
    if series.faint:
        style |= {"linestyle": "-", "marker": "", "linewidth": 0.5, "alpha": 0.45}
    elif series.hollow:
        style |= {"fillstyle": "none", "markeredgewidth": 0.6, "markersize": 5.0}
    elif look.marker == "*":
        style |= {"markersize": 6.5, "markeredgecolor": "white", "markeredgewidth": 0.4, "zorder": 4}
    elif series.points:
        style |= {"markersize": 4.2}
    if len(series.x) > _CROWD:
        style |= {"markersize": 2.5}
    return style


def _colour(look: Look) -> Any:
    """A colour, or that of a place in an order: light enough to see and dark enough to print."""
    place, _, count = look.colour.partition("/")
    if not count:
        return look.colour
    share = (int(place) - 1) / max(int(count) - 1, 1)
    return tuple(float(part) for part in mpl.colormaps[_ORDERED](0.9 * (1 - share)))


def _drawable(values: object) -> Array:
    """Numbers to draw, with a gap where one is infinite or so large that no axis could hold it beside others."""
    array = np.asarray(values, np.float64)
    return np.where(np.abs(array) < LARGEST, array, np.nan)


def _literal(text: str) -> str:
    """Text from a record as it is: a dollar sign would begin mathematics, which need not be well formed."""
    return text.replace("$", r"\$")


# --- heat maps -------------------------------------------------------------------------------------------------------


def _norm(heat: HeatMap) -> Normalize:
    if heat.ratios:
        return LogNorm(1 / heat.largest, heat.largest)
    return SymLogNorm(linthresh=heat.largest * _LINEAR_SHARE, vmin=-heat.largest, vmax=heat.largest)


def _heat_map(axes: Axes, heat: HeatMap) -> None:
    matrix, norm = np.array(heat.matrix), _norm(heat)
    if heat.ratios:
        matrix = np.clip(np.nan_to_num(matrix, nan=heat.largest), 1 / heat.largest, heat.largest)
    else:
        axes.axhline(len(matrix) - 1.5, color="black", linewidth=0.7)  # the row and the column of y
        axes.axvline(len(matrix) - 1.5, color="black", linewidth=0.7)
    axes.imshow(matrix, cmap=_DIVERGING, norm=norm, interpolation="nearest", aspect="auto" if heat.ratios else "equal")
    dark = np.abs(2 * np.asarray(norm(matrix)) - 1) > _DARK
    for (i, j), text in np.ndenumerate(np.array(heat.texts)):
        axes.text(j, i, text, ha="center", va="center", fontsize=5.5, color="white" if dark[i, j] else "black")
    for drawn, names in ((axes.xaxis, heat.columns), (axes.yaxis, heat.rows)):
        drawn.set_ticks([k for k, name in enumerate(names) if name], [_literal(name) for name in names if name])
    axes.tick_params(length=0)
    axes.grid(False)
    axes.spines[["top", "right"]].set_visible(True)


def _colour_bar(picture: Picture, heat: HeatMap) -> None:
    colours = ScalarMappable(_norm(heat), _DIVERGING)
    bar = picture.colorbar(colours, ax=picture.axes, shrink=0.85, pad=0.015, aspect=30)
    shares = (-1, -0.3, -0.1, 0, 0.1, 0.3, 1)
    ticks = (1 / heat.largest, 1, heat.largest) if heat.ratios else [share * heat.largest for share in shares]
    bar.set_ticks(list(ticks), labels=[f"{tick:.2g}".replace("-", "−") for tick in ticks])
    bar.ax.minorticks_off()
    bar.set_label(heat.scale)


# --- predictors in rows ----------------------------------------------------------------------------------------------


def _comparison(axes: Axes, table: Comparison) -> None:
    """A row of dots for each condition, with 95 % intervals; what is beyond the edge is named there."""
    (low, edge), rows = table.limits, range(len(table.rows))
    offsets = 0.84 * ((np.arange(len(table.columns)) + 0.5) / len(table.columns) - 0.5)
    for row in rows[::2]:
        axes.axhspan(row - 0.5, row + 0.5, color="#f4f4f4", linewidth=0, zorder=0)
    for series, failed, offset in zip(table.columns, table.failed, offsets, strict=True):
        style = _style(series) | {"linestyle": "none", "markersize": 4, "elinewidth": 0.8}
        for row, ratio in enumerate(series.x):
            ends = np.abs(np.array([[series.low[row]], [series.high[row]]]) - ratio)
            style["fillstyle"] = "none" if failed[row] else "full"
            bar = ends if ratio <= edge and np.isfinite(ends).all() else None
            axes.errorbar([min(ratio, edge)], [row + offset], xerr=bar, **style)
    for row in rows:
        far = [place for place, one in enumerate(table.columns) if not one.x[row] <= edge]
        if far:
            text = "→ " + ", ".join(_ratio_text(table.columns[place].x[row]) for place in far)
            at = edge, row + float(offsets[far].mean())
            axes.annotate(text, at, (5, 0), textcoords="offset points", va="center", fontsize=6.5)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", xlim=(low, edge * 1.6), ylim=(len(rows) - 0.5, -0.5), xlabel=table.label)
    axes.set_yticks(rows, [_literal(name) for name in table.rows])
    shown = [ratio for ratio in _RATIO_TICKS if ratio >= low]
    axes.set_xticks(shown, [f"{ratio:g}" for ratio in shown])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y", visible=False)


def _ratio_text(ratio: float) -> str:
    return "∞" if math.isinf(ratio) else f"{ratio:.0f}" if ratio < 1e4 else f"{ratio:.0e}"
