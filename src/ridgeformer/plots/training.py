"""Loss against training time."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from ridgeformer.plots.layers import floor
from ridgeformer.plots.look import (
    LOOKS,
    LOSS,
    MODELS,
    Drawing,
    Notes,
    bounds,
    drawn_methods,
    legend_below,
    log_axis,
    method_handle,
    new_page,
    printed,
)
from ridgeformer.plots.style import drawable
from ridgeformer.reproduction.cells import SEEDED_LAYERS, SEEDED_PRIOR
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.reproduction.records.training import TrainingCurve
from ridgeformer.reproduction.results import MissingRecordError, Results
from ridgeformer.reproduction.table1 import METHOD_NAMES

_HIGHEST = 2.0  # loss at which an axis ends at the latest: two to five is what untrained models have
_LAST_SECONDS = 1e9  # thirty years
_FIRST_SECONDS = 0.1  # the axis of time begins here: what was earlier was compiling and setting up


def figure_training(results: Results) -> Drawing:
    """Loss against seconds of training for σ ~ U(0, 5), one panel for each depth.

    Thin lines are the legs of a run, of which there is one for every start; the thick one is the least loss so far.
    """
    record, notes = results.training, Notes()
    if not any(curve.noise == SEEDED_PRIOR and curve.legs for curve in record.curves):
        raise results.nothing("training", f"timed runs for {SEEDED_PRIOR}")
    limit = _bayes_limit(results)
    with printed():
        figure = new_page(3.9)
        axes = figure.subplots(2, 4, sharex=True)
        for axis, layers in zip(axes.flat, SEEDED_LAYERS, strict=True):
            title = f"{layers} layer{'s' * (layers > 1)}"
            axis.set_title(title)
            seen = [] if limit is None else [limit]
            for method in MODELS:
                curve = record.find(method, layers, SEEDED_PRIOR)
                if curve is None or not curve.legs:
                    notes.add(title, METHOD_NAMES[method])
                else:
                    seen += _curve(axis, curve)
            low, high = bounds(seen)
            if limit is not None:
                floor(axis, limit, low)
            log_axis(axis, low, high)
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(LogLocator(numticks=9))
            axis.xaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
            axis.xaxis.set_minor_formatter(NullFormatter())
        times = [curve.final_seconds for curve in record.curves if curve.noise == SEEDED_PRIOR]
        longest = max((seconds for seconds in times if seconds < _LAST_SECONDS), default=0.0)
        axes[0][0].set_xlim(_FIRST_SECONDS, max(2 * longest, 10.0))
        for axis in axes[:, 0]:
            axis.set_ylabel(LOSS)
        for axis in axes[1]:
            axis.set_xlabel("seconds of training")
        marks = [
            Line2D(
                [], [], color="#555555", marker="*", markersize=6, linestyle="none", label="finished, fresh sequences"
            ),
            Line2D([], [], color="#555555", linestyle=":", linewidth=0.9, label="printed in the paper"),
        ]
        legend_below(figure, [*(method_handle(method) for method in drawn_methods(figure.axes)), *marks], 6)
    return Drawing(figure, notes.lines())


def _bayes_limit(results: Results) -> float | None:
    try:
        entry = results.table1.entry("bayes", None, SEEDED_PRIOR)
    except MissingRecordError:
        return None
    return None if entry is None else entry.adjusted_loss


def _curve(axis: Axes, curve: TrainingCurve) -> list[float]:
    """One run, leg by leg, and the least loss so far; the losses that must be seen."""
    look = LOOKS[curve.method]
    for leg in curve.legs:
        axis.plot(leg.seconds, drawable(leg.loss), color=look.colour, linewidth=0.5, alpha=0.45, label="_leg")
    times = np.concatenate([leg.seconds for leg in curve.legs])
    order = np.argsort(times, kind="stable")
    best = np.minimum.accumulate(np.concatenate([leg.loss for leg in curve.legs])[order])
    axis.plot(
        times[order],
        drawable(best),
        color=look.colour,
        linestyle=look.line,
        linewidth=look.width,
        marker=look.marker,
        markevery=[0],
        drawstyle="steps-post",
        label=METHOD_NAMES[curve.method],
    )
    axis.plot(
        [curve.final_seconds],
        drawable([curve.final]),
        color=look.colour,
        marker="*",
        markersize=6,
        markeredgecolor="white",
        markeredgewidth=0.4,
        linestyle="none",
        zorder=4,
        label=f"{METHOD_NAMES[curve.method]}, finished",
    )
    aim = printed_loss(curve.method, curve.layers, curve.noise)
    if aim is not None:
        label = f"{METHOD_NAMES[curve.method]}, paper"
        axis.axhline(aim, color=look.colour, linestyle=":", linewidth=0.9, label=label)
    return [curve.final, aim or curve.final, min(float(best[0]), _HIGHEST)]
