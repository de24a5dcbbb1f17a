"""Loss against the noise level: figures 2 and 6, and the panels that figure 3 shares with them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ridgeformer.evaluation.result import NORMAL_95
from ridgeformer.plots.layers import UNIFORM
from ridgeformer.plots.look import (
    LOOKS,
    LOSS,
    MODELS,
    NOISE_LEVEL,
    RIDGES,
    Drawing,
    Notes,
    drawn_methods,
    legend_below,
    log_axis,
    method_handle,
    new_page,
    printed,
    prior_title,
    shade_prior,
)
from ridgeformer.plots.style import drawable
from ridgeformer.reproduction.cells import SEEDED_PRIOR
from ridgeformer.reproduction.records.profiles import DEPTH, EVERY_DEPTH, ProfilePanel, ProfilesRecord
from ridgeformer.reproduction.results import Results
from ridgeformer.reproduction.table1 import METHOD_NAMES

DEPTHS = (*EVERY_DEPTH, DEPTH)
_RANGE = (5e-4, 5.0)
"""Ends of the loss axis of every panel. Below are noise-free contexts that a method solves exactly; above, predicting
zero would be better, which costs d/2 = 5."""
_UNADJUSTED_HIGH = 5.5  # a little above the 5 that predicting zero costs
_TICK_STEPS = ((1, 0.5), (4, 1), (math.inf, 2))
"""Distances of ticks for noise levels up to these."""


def figure_2(results: Results) -> Drawing:
    """Loss against σ: models of seven layers for every σmax, and of 2 to 7 layers for σmax = 5."""
    record, notes = _record(results), Notes()
    with printed():
        figure = new_page(5.4)
        grid = figure.add_gridspec(3, 12)
        for place, noise in enumerate(UNIFORM):
            axis = figure.add_subplot(grid[place // 4, 3 * (place % 4) : 3 * (place % 4) + 3])
            profile_panel(axis, record, noise, DEPTH, prior_title(noise), notes)
            _inner(axis, place % 4 == 0, place >= 4)
        for place, layers in enumerate(DEPTHS):
            axis = figure.add_subplot(grid[2, 2 * place : 2 * place + 2])
            profile_panel(axis, record, SEEDED_PRIOR, layers, f"{layers} layers", notes)
            _inner(axis, place == 0, True, f"{prior_title(SEEDED_PRIOR)}\n{LOSS}")
        legend_below(figure, [method_handle(method) for method in drawn_methods(figure.axes)])
    return Drawing(figure, notes.lines())


def figure_6(results: Results) -> Drawing:
    """Loss without that of the oracle taken off, against σ, for models of seven layers and every σmax."""
    record, notes = _record(results), Notes()
    with printed():
        figure = new_page(3.7)
        axes = figure.subplots(2, 4)
        for place, (axis, noise) in enumerate(zip(axes.flat, UNIFORM, strict=True)):
            profile_panel(axis, record, noise, DEPTH, prior_title(noise), notes, unadjusted=True)
            _inner(axis, place % 4 == 0, place >= 4, "loss")
        legend_below(figure, [method_handle(method) for method in drawn_methods(figure.axes)])
    return Drawing(figure, notes.lines())


def _record(results: Results) -> ProfilesRecord:
    record = results.profiles
    if not any(record.panel(noise) for noise in UNIFORM):
        raise results.nothing("profiles", "models for uniform noise")
    return record


def _inner(axis: Axes, left: bool, bottom: bool, label: str = LOSS) -> None:
    """Labels at the left and at the bottom only; all panels have the same loss axis."""
    if left:
        axis.set_ylabel(label)
    else:
        axis.tick_params(labelleft=False)
    if bottom:
        axis.set_xlabel(NOISE_LEVEL)


def profile_panel(
    axis: Axes, record: ProfilesRecord, noise: str, layers: int, title: str, notes: Notes, unadjusted: bool = False
) -> None:
    """All kinds of model of one depth and all baselines, for one prior."""
    where = f"{prior_title(noise)} {layers} layers"
    axis.set_title(title)
    shade_prior(axis, noise)
    panel = record.panel(noise)
    if panel is None:
        notes.add(where, "everything")
        axis.text(0.5, 0.5, "no record", transform=axis.transAxes, ha="center", color="#777777")
    else:
        for method in ("bayes", *RIDGES, *MODELS):
            if not _series(axis, panel, method, layers if method in MODELS else None, unadjusted):
                notes.add(where, METHOD_NAMES[method])
        highest = panel.levels[-1]
        axis.set_xlim(0, highest)
        axis.set_xticks(np.arange(0, highest + 0.1, next(step for most, step in _TICK_STEPS if highest <= most)))
    if unadjusted:
        axis.set_ylim(0, _UNADJUSTED_HIGH)
    else:
        log_axis(axis, *_RANGE)


def _series(axis: Axes, panel: ProfilePanel, method: str, layers: int | None, unadjusted: bool) -> bool:
    """Draw one predictor, if it is there."""
    series, look = panel.find(method, layers), LOOKS[method]
    if series is None:
        return False
    values = drawable(series.unadjusted if unadjusted else series.adjusted)
    style: dict[str, Any] = {"color": look.colour, "linestyle": look.line, "linewidth": look.width}
    if look.marker:
        whole = [place for place, level in enumerate(panel.levels) if level == int(level)]
        style |= {"marker": look.marker, "markevery": whole, "markersize": 2.6}
    axis.plot(panel.levels, values, label=METHOD_NAMES[method], **style)
    if not unadjusted and method in MODELS:
        error = NORMAL_95 * drawable(series.standard_error)
        known = error < 0.5 * values  # where a few sequences make up the mean, an interval says nothing
        axis.fill_between(
            panel.levels, values - error, values + error, where=known, color=look.colour, alpha=0.2, linewidth=0
        )
    return True
