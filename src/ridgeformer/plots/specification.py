"""What a figure is before anything draws it: panels, series and words as plain data, computed once from records.

Two renderers draw the same `Figure`: `ridgeformer.plots.render` with Matplotlib, and the page's JavaScript from what
`as_json` gives. Nothing here needs Matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from ridgeformer.core.distributions import Categorical, LogUniform, Uniform, parse_noise
from ridgeformer.core.notation import Array
from ridgeformer.core.registry import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, Look
from ridgeformer.evaluation.statistics import NORMAL_95
from ridgeformer.reproduction.records import METHODS
from ridgeformer.reproduction.results import Results

WIDTH = 7.2
"""Inches: both columns of a journal's page."""
GREY = "#555555"
COLOURS = (BLUE, VERMILLION, GREEN, PURPLE, SKY, ORANGE, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LOSS, NOISE_LEVEL = "adjusted loss", "noise level σ"
_DIGITS = 6  # of numbers in JSON: standard errors are in the third
_INFINITE = 1e308  # stands for infinity in JSON, which has none
SMALLEST, LARGEST = 1e-40, 1e30  # that an axis can hold beside others


@dataclass(frozen=True)
class Axis:
    """One axis of a chart."""

    label: str
    limits: tuple[float, float] | None = None  # what is beyond is cut; None leaves them to Matplotlib: not on the page
    log: bool = False
    whole: bool = False  # ticks at whole numbers only, and a little room at both ends
    ticks: tuple[float, ...] = ()  # where they are in print, if not wherever there is room
    names: tuple[str, ...] = ()  # words in place of the numbers of ``ticks``
    linear_below: float = 0.0  # of an axis with both signs: logarithmic beyond this size (Matplotlib only)


@dataclass(frozen=True)
class Series:
    """Points that belong together, or one ``level`` across the whole chart."""

    name: str
    look: Look  # its colour may also be "3/8", the third of eight things in order: see `in_order`
    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()  # one for each x; NaN is a gap
    level: float | None = None
    low: tuple[float, ...] = ()  # lower ends of intervals around y, one for each x, or none at all
    high: tuple[float, ...] = ()
    bars: bool = False  # intervals are bars, not a band
    points: bool = False  # markers without a line
    hollow: bool = False
    steps: bool = False  # y holds until the next x
    faint: bool = False  # a thin line behind the others
    marked: tuple[int, ...] | None = None  # places of the points that carry a marker; all of them if None
    keys: tuple[str, ...] = ()  # entries of the legend that it belongs to; its name if there are none
    note: str | tuple[str, ...] = ""  # what the page says of every point, or of each
    labels: tuple[str, ...] = ()  # what is written at each point (Matplotlib only)


@dataclass(frozen=True)
class Chart:
    """A panel of series."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    floor: Series | None = None  # a level that no predictor can be below
    shades: tuple[tuple[float, float], ...] = ()  # ranges of x with the noise of the training; a level has equal ends
    remark: str = ""  # written into the panel


@dataclass(frozen=True)
class HeatMap:
    """A matrix as colours: signed entries that grow as their logarithm, or ratios around 1."""

    title: str
    matrix: tuple[tuple[float, ...], ...]
    largest: float  # size of the entry with the strongest colour; the same for all maps of a figure
    ratios: bool = False
    texts: tuple[tuple[str, ...], ...] = ()  # what is written into the cells
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    scale: str = ""  # what the colours mean


@dataclass(frozen=True)
class Comparison:
    """Predictors under several conditions: dots in rows in print, a table on the page."""

    title: str
    rows: tuple[str, ...]
    columns: tuple[Series, ...]  # one for each predictor: x holds its ratio in every row, low and high the interval
    failed: tuple[tuple[bool, ...], ...]  # for each column: in which rows it does not survive
    label: str
    limits: tuple[float, float]  # of the ratios in print; what is beyond is named at the edge


Panel = Chart | HeatMap | Comparison


@dataclass(frozen=True)
class Row:
    """Panels that stand beside each other."""

    panels: tuple[Panel, ...]
    title: str = ""
    columns: int = 0  # how many stand beside each other in print, if not all


@dataclass(frozen=True)
class View:
    """One of the alternatives of a figure; the page shows one at a time, print all of them unless it is ``single``."""

    name: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Figure:
    """A whole figure."""

    views: tuple[View, ...]
    size: tuple[float, float]  # inches in print
    legend: tuple[Series, ...] = ()  # of all panels; without it every chart has a legend of its own beside it
    caption: str = ""  # what the axes are, in a sentence for the page
    choice: str = ""  # what the page calls the choice between views
    first: int = 0  # the view that the page opens with
    single: bool = False  # whether print has the first view only
    notes: tuple[str, ...] = ()  # what is missing, and what intervals are

    @property
    def panels(self) -> tuple[Panel, ...]:
        """All panels of all views."""
        return tuple(panel for view in self.views for row in view.rows for panel in row.panels)


@dataclass(frozen=True)
class FigureEntry:
    """A figure that can be asked for by name."""

    name: str
    title: str
    text: str  # what to see in it
    needs: tuple[str, ...]  # the records that it is made from
    build: Callable[[Results], Figure]  # raises `MissingRecordError` if a record is missing or has nothing to show


def as_json(value: Any) -> Any:
    """A specification as plain JSON values: fields that have their default are left out, and NaN is null.

    >>> as_json(Axis("layers", (1, 7), whole=True))
    {'label': 'layers', 'limits': [1, 7], 'whole': True}
    """
    if is_dataclass(value) and not isinstance(value, type):
        named = {field.name: (getattr(value, field.name), field.default) for field in fields(value)}
        kept = {name: as_json(own) for name, (own, usual) in named.items() if usual is MISSING or own != usual}
        return {"type": type(value).__name__, **kept} if isinstance(value, Panel) else kept
    if isinstance(value, tuple):
        return [as_json(item) for item in value]
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{min(max(value, -_INFINITE), _INFINITE):.{_DIGITS}g}")
    return value


def panels_figure(panels: Sequence[Panel], size: tuple[float, float], columns: int = 0, **values: Any) -> Figure:
    """A figure of one view with one row of panels."""
    return Figure((View("", (Row(tuple(panels), columns=columns),)),), size, **values)


def views_figure(views: Mapping[str, Sequence[Panel]], size: tuple[float, float], **values: Any) -> Figure:
    """A figure of named views, each a row of panels."""
    return Figure(tuple(View(name, (Row(tuple(panels)),)) for name, panels in views.items()), size, **values)


# --- looks and series ------------------------------------------------------------------------------------------------


def in_order(place: int, count: int, dashes: tuple[float, ...] = (), width: float = 1.1) -> Look:
    """The look of the ``place``-th of ``count`` things, counted from 1: darker one by one, each with another marker."""
    return Look(f"{place}/{count}", dashes, MARKERS[(place - 1) % len(MARKERS)], width)


def in_turn(place: int, dashes: tuple[float, ...] = ()) -> Look:
    """The look of the ``place``-th of a few things without an order, counted from 0."""
    return Look(COLOURS[place % len(COLOURS)], dashes, MARKERS[place % len(MARKERS)])


def floats(values: Iterable[float] | Array) -> tuple[float, ...]:
    """Numbers as a specification holds them."""
    return tuple(float(value) for value in values)


def line(name: str, look: Look, x: Iterable[float] | Array, y: Iterable[float] | Array, **values: Any) -> Series:
    """A series of any numbers."""
    return Series(name, look, floats(x), floats(y), **values)


def lines(x: Sequence[float] | Array, rows: Mapping[str, Iterable[float]], ordered: bool = False) -> tuple[Series, ...]:
    """A series for each named row, all at the same x: in colours without an order, or darker one by one."""
    looks = [in_order(place + 1, len(rows)) if ordered else in_turn(place) for place in range(len(rows))]
    return tuple(line(name, look, x, row) for look, (name, row) in zip(looks, rows.items(), strict=True))


def method_series(method: str, **values: Any) -> Series:
    """A series of a method, with its name and look unless others are given."""
    return Series(**{"name": METHODS[method].label, "look": METHODS[method].look, **values})


def method_keys(charts: Iterable[Chart]) -> tuple[Series, ...]:
    """Entries of a legend for the methods that charts show, in the usual order."""
    shown = {key for chart in charts for one in (*chart.series, chart.floor) if one for key in one.keys or (one.name,)}
    return tuple(method_series(method) for method in METHODS if METHODS[method].label in shown)


# --- words, axes and numbers that figures share ----------------------------------------------------------------------


def trained_on(noise: str) -> tuple[tuple[float, float], ...]:
    """The noise of a prior: a range, or a range without length for each level."""
    prior = parse_noise(noise)
    if isinstance(prior, Categorical):
        return tuple((level, level) for level in prior.levels)
    return ((prior.low, prior.high),) if isinstance(prior, Uniform | LogUniform) else ()


def layers_text(layers: int) -> str:
    """1 layer, 2 layers."""
    return f"{layers} layer{'s' * (layers > 1)}"


def count_text(number: int) -> str:
    """A whole number with thin spaces between thousands."""
    return f"{number:,}".replace(",", "\u202f")


def layer_axis(depths: Sequence[int], label: str = "layers") -> Axis:
    """An axis of whole numbers of layers."""
    return Axis(label, (depths[0], depths[-1]), whole=True)


def showable(value: float) -> bool:
    """Whether a logarithmic axis can hold a value beside others."""
    return SMALLEST < value < LARGEST


def bounds(values: Iterable[float]) -> tuple[float, float]:
    """Ends of a logarithmic axis that hold all values it can hold, with a margin of a twelfth of what they span."""
    positive = [value for value in values if showable(value)]
    if not positive:
        return 0.1, 1.0
    margin = max((max(positive) / min(positive)) ** (1 / 12), 1.05)
    return min(positive) / margin, max(positive) * margin


def interval(values: Sequence[float], errors: Sequence[float]) -> Mapping[str, Any]:
    """The 95 % intervals of a series, as its fields; none where a few sequences make up a mean, which says nothing."""
    middle, error = np.asarray(values, np.float64), NORMAL_95 * np.asarray(errors, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(np.isfinite(middle) & (error < 0.8 * middle), error, np.nan)
        return {"low": floats(middle - error), "high": floats(middle + error)}


def geometric(rows: Sequence[Sequence[float]]) -> tuple[Array, Array, Array]:
    """Of several seeds (seeds, points): geometric mean, and one standard deviation of the logarithm below and above.

    On a logarithmic axis these are mean and standard deviation of what is seen. Seeds that are not finite are left out.
    """
    with np.errstate(divide="ignore"):
        logs = np.ma.masked_invalid(np.log(np.asarray(rows, np.float64)))
    mean, spread = logs.mean(axis=0).filled(np.nan), logs.std(axis=0, ddof=1).filled(0.0)
    return np.exp(mean), np.exp(mean - spread), np.exp(mean + spread)


class Notes(dict[str, list[str]]):
    """What turns out to be missing while a figure is built, and in which panels."""

    def add(self, panel: str, what: str) -> None:
        """``what`` is missing in a panel."""
        self.setdefault(what, []).append(panel)

    def lines(self) -> tuple[str, ...]:
        """One sentence for each thing that is missing."""
        return tuple(f"Missing: {what} in {', '.join(panels)}." for what, panels in self.items())
