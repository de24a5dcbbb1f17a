"""How near models come to the Bayes limit: by depth for all priors, and beyond the paper's depths and heads."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ridgeformer.plots.layers import HEAD_MARKERS, UNIFORM, floor, model_points
from ridgeformer.plots.look import (
    LOOKS,
    LOSS,
    MODELS,
    WIDTH,
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
    whole_ticks,
)
from ridgeformer.plots.style import MARKERS, ordered_colour
from ridgeformer.reproduction.cells import LAYERS, PRIORS
from ridgeformer.reproduction.results import Results
from ridgeformer.reproduction.table1 import METHOD_NAMES, Entry, Table1

_DEEP = ("diag", "full")
"""More layers and heads are no use to GD++, which ends at ConstRR; see `ridgeformer.training.spectral`."""
_FIRST_LAYER = 3  # of the figure of deep models: shallower ones would set its scale


def figure_bayes(results: Results) -> Drawing:
    """Loss over the Bayes limit against layers, one panel for each kind of model, one line for each prior.

    What is drawn is the ratio less one: on a logarithmic axis a model that is 5 % above the limit stands apart from one
    that is 15 % above.
    """
    notes = Notes()
    noises = [noise for noise in PRIORS if noise != "uniform:0"]  # there the limit is zero
    found = [e for e in results.table1.entries if e.trained and e.heads == 1 and e.bayes_ratio and e.noise in noises]
    if not found:
        raise results.nothing("table1", "models beside the Bayes limit")
    depths = range(1, max(entry.layers or 1 for entry in found) + 1)
    low, high = bounds(_excess(entry) for entry in found)
    styles = {noise: _prior_style(noise, place) for place, noise in enumerate(noises)}
    with printed():
        figure = new_page(3.2)
        axes = figure.subplots(1, 3, sharey=True)
        for axis, method in zip(axes, MODELS, strict=True):
            axis.set_title(METHOD_NAMES[method])
            for noise, style in styles.items():
                rows = [entry for entry in found if (entry.method, entry.noise) == (method, noise)]
                rows.sort(key=lambda entry: entry.layers or 1)
                if not rows:
                    notes.add(prior_title(noise), METHOD_NAMES[method])
                axis.plot([entry.layers or 1 for entry in rows], [_excess(entry) for entry in rows], **style)
            whole_ticks(axis, depths)
            axis.set_xlabel("layers")
            log_axis(axis, low, high)
        axes[0].set_ylabel("adjusted loss over the Bayes limit, less 1")
        legend_below(figure, [Line2D([], [], **style) for style in styles.values()], 5)
    return Drawing(figure, notes.lines())


def _excess(entry: Entry) -> float:
    """How far a loss is above the Bayes limit, in units of the limit; not a number if chance has it below."""
    ratio = entry.bayes_ratio or 1.0
    return ratio - 1 if ratio > 1 else math.nan


def _prior_style(noise: str, place: int) -> dict[str, Any]:
    """Uniform priors darken with σmax; categorical ones are dashed."""
    style = {"marker": MARKERS[place % len(MARKERS)], "linewidth": 1.0, "label": prior_title(noise)}
    if noise in UNIFORM:
        return style | {"color": ordered_colour(place, len(UNIFORM) - 1), "linestyle": "-"}
    look = LOOKS["diag" if noise == "categorical:1+3" else "gdpp"]
    return style | {"color": look.colour, "linestyle": look.line}


def figure_depth(results: Results) -> Drawing:
    """Loss against depth for the priors that have models beyond the paper's: more layers, or several heads."""
    table = results.table1
    noises = [noise for noise in PRIORS if any(e.noise == noise and _deep(e) for e in table.entries)]
    if not noises:
        raise results.nothing("table1", "models of more than 7 layers or of several heads")
    with printed():
        figure = new_page(2.9, min(WIDTH, 3.6 * len(noises)))
        axes = list(figure.subplots(1, len(noises), squeeze=False)[0])
        for axis, noise in zip(axes, noises, strict=True):
            _depth_panel(axis, table, noise)
        axes[0].set_ylabel(LOSS)
        shown = [method_handle(method) for method in drawn_methods(axes)]
        heads = sorted({e.heads for e in table.entries if e.heads > 1})
        handles = [*shown, *(_heads_handle(count) for count in heads), paper_handle()]
        legend_below(figure, handles, len(handles) if len(noises) > 1 else 2)
    return Drawing(figure)


def _deep(entry: Entry) -> bool:
    return entry.method in _DEEP and ((entry.layers or 0) > LAYERS[-1] or entry.heads > 1)


def _depth_panel(axis: Axes, table: Table1, noise: str) -> None:
    column = [e for e in table.entries if e.noise == noise and (e.layers or 0) >= _FIRST_LAYER and e.method in _DEEP]
    axis.set_title(prior_title(noise))
    for method in _DEEP:
        for heads in sorted({entry.heads for entry in column}):
            rows = [entry for entry in column if (entry.method, entry.heads) == (method, heads)]
            if rows:
                model_points(axis, method, sorted(rows, key=lambda entry: entry.layers or 0), heads)
    seen = [loss for entry in column for loss in (entry.adjusted_loss, entry.printed or 0.0)]
    limit = table.entry("bayes", None, noise)
    low, high = bounds([*seen, 0.0 if limit is None else limit.adjusted_loss])
    if limit is not None:
        floor(axis, limit.adjusted_loss, low)
    log_axis(axis, low, high)
    whole_ticks(axis, range(_FIRST_LAYER, max(entry.layers or 0 for entry in column) + 1))
    axis.set_xlabel("layers")


def _heads_handle(heads: int) -> Line2D:
    marker = HEAD_MARKERS.get(heads, "h")
    return Line2D([], [], color="#555555", linestyle="none", marker=marker, markersize=4.5, label=f"{heads} heads")
