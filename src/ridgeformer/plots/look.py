"""What all figures share: one look for each method, titles of priors, axes, legends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ridgeformer.core.distributions import Categorical, Uniform, parse_noise
from ridgeformer.core.notation import Array
from ridgeformer.plots.style import COLOURS, drawable, styled
from ridgeformer.reproduction.table1 import METHOD_NAMES

WIDTH = 7.2
"""Inches: both columns of a journal's page."""
MODELS = ("gdpp", "diag", "full")
RIDGES = ("constrr", "adarr", "tunedrr")
LOSS = "adjusted loss"
NOISE_LEVEL = "noise level σ"
PAPER = "hollow: as printed in the paper"
_PRINTED = {
    "font.size": 7.0,
    "axes.titlesize": 7.5,
    "axes.labelsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.titlepad": 3.0,
    "axes.labelpad": 2.5,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.size": 0.0,
    "ytick.minor.size": 1.5,
    "xtick.major.pad": 2.0,
    "ytick.major.pad": 2.0,
    "legend.fontsize": 7.0,
    "legend.handlelength": 2.4,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.2,
    "hatch.linewidth": 0.4,
}
"""Sizes for print at `WIDTH`."""


_TICKS = ((0.7, (1, 1.5, 2, 3, 4, 5, 6, 8)), (1.6, (1, 2, 5)), (2.3, (1, 3)), (math.inf, (1,)))
"""Decades of a logarithmic axis, and what is labelled in each if there are fewer."""
_MOST_TICKS = 16
_SMALLEST, _LARGEST = 1e-40, 1e30  # that an axis can hold beside others
_PLAIN_DECADES = 6  # up to which labels are 0.01 rather than a power of ten


@dataclass(frozen=True)
class Look:
    """How one method is drawn: in its colour, and by marker and dashes in grey."""

    colour: str
    line: Any
    marker: str = ""
    width: float = 1.2


_DOTS, _DASHES, _DASH_DOT = (0, (1, 1.2)), (0, (4, 1.5)), (0, (4, 1.2, 1, 1.2))
BLUE, VERMILLION, GREEN, PURPLE, SKY, ORANGE, BLACK = COLOURS
LOOKS = {
    "gdpp": Look(GREEN, _DASH_DOT, "o"),
    "diag": Look(VERMILLION, _DASHES, "s"),
    "full": Look(BLUE, "-", "^"),
    "constrr": Look(PURPLE, _DOTS, width=1.4),
    "adarr": Look(ORANGE, (0, (6, 1.5, 1, 1.5, 1, 1.5)), width=1.0),
    "tunedrr": Look(SKY, (0, (2, 1)), width=1.4),
    "bayes": Look(BLACK, "-", width=0.9),
}


@dataclass(frozen=True)
class Drawing:
    """A figure, and what it should have shown but could not."""

    figure: Figure
    notes: tuple[str, ...] = ()


@dataclass
class Notes:
    """Series that are left out, as they are found missing, and the panels that they are missing from."""

    missing: dict[str, list[str]] = field(default_factory=dict)

    def add(self, where: str, what: str) -> None:
        """``what`` is missing in the panel ``where``."""
        self.missing.setdefault(what, []).append(where)

    def lines(self) -> tuple[str, ...]:
        """One sentence for each thing that is missing."""
        return tuple(f"Without {what} in: {', '.join(where)}." for what, where in self.missing.items())


@contextmanager
def printed() -> Iterator[None]:
    """The look for print, for as long as a figure is made."""
    with styled(_PRINTED):
        yield


def new_page(height: float, width: float = WIDTH) -> Figure:
    """An empty figure, of full width by default; call it within `printed`."""
    layout = ConstrainedLayoutEngine(w_pad=0.03, h_pad=0.03, wspace=0.02, hspace=0.02)
    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def lay_out(figure: Figure) -> None:
    """Find places for panels and legend for good, instead of anew for each format, which takes most of the time."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")


def prior_title(noise: str) -> str:
    """σ ~ U(0, 5) for uniform:5, σ ∈ {1, 3} for categorical:1+3."""
    prior = parse_noise(noise)
    if isinstance(prior, Uniform) and prior.high == 0:
        return "no noise (σmax = 0)"
    if isinstance(prior, Uniform):
        return f"σ ~ U({prior.low:g}, {prior.high:g})"
    if isinstance(prior, Categorical):
        return f"σ ∈ {{{', '.join(f'{level:g}' for level in prior.levels)}}}"
    return f"σ = {prior.spec.partition(':')[2]}"


def literal(text: str) -> str:
    """Text from a record as it is: a dollar sign would begin mathematics, which need not be well formed."""
    return text.replace("$", r"\$")


def shade_prior(axis: Axes, noise: str) -> None:
    """Mark the noise that models were trained on: a band, or a line for each level."""
    prior = parse_noise(noise)
    if isinstance(prior, Categorical):
        for level in prior.levels:
            axis.axvline(level, color="#bbbbbb", linewidth=2.5, zorder=0)
    elif isinstance(prior, Uniform):
        axis.axvspan(prior.low, prior.high, color="#ececec", linewidth=0, zorder=0)


def log_axis(axis: Axes, low: float, high: float) -> None:
    """A logarithmic y axis with these ends; 1, 2, 5 are labelled where there are few decades."""
    axis.set_yscale("log")
    axis.set_ylim(low, high)
    decades = math.log10(high / low)
    steps = next(steps for most, steps in _TICKS if decades < most)
    axis.yaxis.set_major_locator(LogLocator(subs=steps, numticks=12))
    if decades < _PLAIN_DECADES:
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())


def showable(value: float) -> bool:
    """Whether a logarithmic axis can hold a value beside others."""
    return _SMALLEST < value < _LARGEST


def bounds(values: Iterable[float]) -> tuple[float, float]:
    """Ends of a logarithmic axis that hold all values it can hold, with a margin of a twelfth of what they span."""
    positive = [value for value in values if showable(value)]
    if not positive:
        return 0.1, 1.0
    margin = max((max(positive) / min(positive)) ** (1 / 12), 1.05)
    return min(positive) / margin, max(positive) * margin


def whole_ticks(axis: Axes, ticks: Sequence[int]) -> None:
    """A tick for each of these numbers, or for some if there are many, and a little room at both ends."""
    axis.set_xticks(list(ticks[:: 1 + len(ticks) // _MOST_TICKS]))
    axis.set_xlim(ticks[0] - 0.4, ticks[-1] + 0.4)


def geometric(rows: Sequence[Sequence[float]]) -> tuple[Array, Array, Array]:
    """Of several seeds (seeds, points): geometric mean, and one standard deviation of the logarithm below and above.

    On a logarithmic axis these are mean and standard deviation of what is seen. Seeds that are not finite are left out.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(drawable(rows))
    usable = np.isfinite(logs)
    count = usable.sum(axis=0)
    safe = np.where(usable, logs, 0.0)
    mean = np.where(count > 0, safe.sum(axis=0) / np.maximum(count, 1), np.nan)
    squares = (np.where(usable, logs - mean, 0.0) ** 2).sum(axis=0)
    spread = np.sqrt(squares / np.maximum(count - 1, 1))
    return np.exp(mean), np.exp(mean - spread), np.exp(mean + spread)


def method_key(label: str) -> str | None:
    """The method that a label such as "FULL 7" or "Bayes limit" begins with."""
    return next((key for key, name in METHOD_NAMES.items() if label == name or label.startswith(f"{name} ")), None)


def method_handle(method: str) -> Line2D:
    """The entry of a method in a legend."""
    look = LOOKS[method]
    style = {"color": look.colour, "linestyle": look.line, "marker": look.marker, "linewidth": look.width}
    return Line2D([], [], **style, label=METHOD_NAMES[method])


def paper_handle() -> Line2D:
    """The entry that says what hollow markers are."""
    return Line2D([], [], color="#555555", linestyle="none", marker="D", markersize=4.5, fillstyle="none", label=PAPER)


def drawn_methods(axes: Iterable[Axes]) -> list[str]:
    """The methods that have a series in any of the panels, in order."""
    labels = {str(text) for axis in axes for text in axis.get_legend_handles_labels()[1]}
    return [method for method, name in METHOD_NAMES.items() if name in labels]


def legend_below(figure: Figure, handles: Sequence[Line2D], columns: int | None = None) -> None:
    """One legend for all panels, below them, to be read line by line."""
    columns = min(columns or len(handles), len(handles))
    by_column = [handle for column in range(columns) for handle in handles[column::columns]]  # as Matplotlib fills it
    figure.legend(handles=by_column, loc="outside lower center", ncols=columns, columnspacing=1.4, handletextpad=0.5)
