"""Loss against the number of layers: figure 1, and the panels that figure 3 shares with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ridgeformer.evaluation.result import NORMAL_95
from ridgeformer.plots.look import (
    LOOKS,
    LOSS,
    MODELS,
    RIDGES,
    Drawing,
    Notes,
    bounds,
    drawn_methods,
    legend_below,
    log_axis,
    method_handle,
    new_page,
    paper_handle,
    printed,
    prior_title,
    showable,
    whole_ticks,
)
from ridgeformer.plots.style import drawable
from ridgeformer.reproduction.cells import LAYERS, PRIORS
from ridgeformer.reproduction.results import Results
from ridgeformer.reproduction.table1 import METHOD_NAMES, Entry, Table1

UNIFORM = tuple(noise for noise in PRIORS if noise.startswith("uniform"))
_ROUNDING = 1e-20  # losses below it are what float64 leaves of zero
HEAD_MARKERS = {2: "D", 3: "v", 4: "P"}
_PAPER_SIZE = 5.5  # points; hollow markers stand around ours


def figure_1(results: Results) -> Drawing:
    """Adjusted loss against layers, one panel for each σmax, with the paper's numbers and the Bayes limit as floor."""
    table, notes = results.table1, Notes()
    if not any(entry.trained and entry.noise in UNIFORM for entry in table.entries):
        raise results.nothing("table1", "models for uniform noise")
    with printed():
        figure = new_page(3.9)
        axes = figure.subplots(2, 4)
        for axis, noise in zip(axes.flat, UNIFORM, strict=True):
            layer_panel(axis, table, noise, notes)
        for axis in axes[:, 0]:
            axis.set_ylabel(LOSS)
        for axis in axes[1]:
            axis.set_xlabel("layers")
        legend_below(figure, layer_handles(axes.flat), 4)
    return Drawing(figure, notes.lines())


def layer_handles(axes: Iterable[Axes]) -> list[Line2D]:
    """The legend of panels drawn by `layer_panel`."""
    return [*(method_handle(method) for method in drawn_methods(axes)), paper_handle()]


def layer_panel(axis: Axes, table: Table1, noise: str, notes: Notes) -> None:
    """One prior: models as points with 95 % intervals, baselines as lines, the Bayes limit as a floor."""
    title = prior_title(noise)
    axis.set_title(title)
    whole_ticks(axis, LAYERS)
    seen = []
    for method in MODELS:
        found = [table.entry(method, layers, noise) for layers in LAYERS]
        there = [entry for entry in found if entry is not None]
        if len(there) < len(LAYERS):
            gone = [str(layers) for layers, entry in zip(LAYERS, found, strict=True) if entry is None]
            notes.add(title, f"{METHOD_NAMES[method]} {' '.join(gone)}")
        for run in _runs(there):
            model_points(axis, method, run)
        seen += [entry.adjusted_loss for entry in there] + [entry.printed or 0.0 for entry in there]
    limit = table.entry("bayes", None, noise)
    if limit is not None and limit.adjusted_loss < _ROUNDING:
        axis.text(0.04, 0.05, "all ridge regressions\nand the Bayes limit: 0", transform=axis.transAxes, fontsize=6)
    else:
        seen += _ridge_lines(axis, table, noise, notes)
    low, high = bounds(seen)
    if limit is not None:
        floor(axis, limit.adjusted_loss, low)
    log_axis(axis, low, high)


def _runs(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Entries cut where layers are missing between them: no line is drawn over a gap."""
    runs: list[list[Entry]] = []
    for entry in entries:
        if runs and (runs[-1][-1].layers or 0) + 1 == entry.layers:
            runs[-1].append(entry)
        else:
            runs.append([entry])
    return runs


def model_points(axis: Axes, method: str, entries: Sequence[Entry], heads: int = 1) -> None:
    """Models of one kind with 95 % intervals, and hollow markers where the paper has a number."""
    look, name = LOOKS[method], METHOD_NAMES[method]
    known = [(entry.layers or 0, entry.printed) for entry in entries if entry.printed]
    if known:
        axis.plot(
            [layers for layers, _ in known],
            [loss for _, loss in known],
            color=look.colour,
            linestyle="none",
            marker=look.marker,
            markersize=_PAPER_SIZE,
            fillstyle="none",
            markeredgewidth=0.6,
            label=f"{name}, paper",
        )
    losses = drawable([entry.adjusted_loss for entry in entries])
    errors = drawable([entry.standard_error for entry in entries])
    axis.errorbar(
        [entry.layers or 0 for entry in entries],
        losses,
        yerr=np.fmin(NORMAL_95 * errors, 0.8 * losses),  # a bar that reaches zero has no end on a logarithmic axis
        color=look.colour,
        linestyle=look.line if heads == 1 else "none",
        linewidth=look.width,
        marker=look.marker if heads == 1 else HEAD_MARKERS.get(heads, "h"),
        markersize=2.6 if heads == 1 else 4.5,
        elinewidth=0.7,
        label=name if heads == 1 else f"{name}, {heads} heads",
    )


def _ridge_lines(axis: Axes, table: Table1, noise: str, notes: Notes) -> list[float]:
    """The baselines; their losses, and the paper's as a mark at the right end."""
    seen = []
    for method in RIDGES:
        entry, look = table.entry(method, None, noise), LOOKS[method]
        if entry is None or not showable(entry.adjusted_loss):
            notes.add(prior_title(noise), METHOD_NAMES[method])
            continue
        axis.axhline(
            entry.adjusted_loss,
            color=look.colour,
            linestyle=look.line,
            linewidth=look.width,
            label=METHOD_NAMES[method],
        )
        seen.append(entry.adjusted_loss)
        if entry.printed:
            axis.plot(
                [LAYERS[-1] + 0.3],
                [entry.printed],
                color=look.colour,
                marker="D",
                fillstyle="none",
                markersize=3.5,
                markeredgewidth=0.7,
                linestyle="none",
                label=f"{METHOD_NAMES[method]}, paper",
            )
            seen.append(entry.printed)
    limit = table.entry("bayes", None, noise)
    if limit is None:
        notes.add(prior_title(noise), METHOD_NAMES["bayes"])
    return seen if limit is None else [*seen, limit.adjusted_loss]


def floor(axis: Axes, limit: float, low: float) -> None:
    """The Bayes limit, hatched below: no predictor has a lower expected loss. Nothing if it is below the axis."""
    look = LOOKS["bayes"]
    if not low < limit or not showable(limit):
        return
    axis.axhspan(low, limit, facecolor="#f2f2f2", edgecolor="#bbbbbb", hatch="/////", linewidth=0, zorder=0.5)
    axis.axhline(limit, color=look.colour, linewidth=look.width, label=METHOD_NAMES["bayes"])
