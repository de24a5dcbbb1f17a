"""What models would say after each layer: figures 5 and 7."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ridgeformer.plots.look import (
    LOSS,
    MODELS,
    Drawing,
    Notes,
    bounds,
    geometric,
    legend_below,
    log_axis,
    new_page,
    printed,
    prior_title,
    shade_prior,
    whole_ticks,
)
from ridgeformer.plots.style import MARKERS, ordered_colour
from ridgeformer.reproduction.cells import LAYERS, SEEDED_LAYERS
from ridgeformer.reproduction.records.readouts import ReadoutsRecord
from ridgeformer.reproduction.results import Results
from ridgeformer.reproduction.table1 import METHOD_NAMES

_PROFILE_DEPTHS = SEEDED_LAYERS[1:]
_PROFILE_RANGE = (4e-3, 20.0)
"""Ends of the loss axis of figure 7. What is above explodes: predicting zero costs d/2 = 5."""
_HIGHEST_READOUT = 20.0


def figure_5(results: Results) -> Drawing:
    """Loss of the prediction read out after K layers, for models of 1 to 7 layers; bars over seeds."""
    record, notes = _record(results), Notes()
    with printed():
        figure = new_page(3.0)
        axes = figure.subplots(1, 3, sharey=True)
        seen: list[float] = []
        for axis, method in zip(axes, MODELS, strict=True):
            axis.set_title(f"{METHOD_NAMES[method]}, {prior_title(record.noise)}")
            for layers in LAYERS:
                seen += _readout(axis, record, method, layers, notes)
            whole_ticks(axis, LAYERS)
            axis.set_xlabel("read out after layer")
        low, high = bounds(seen)
        for axis in axes:
            log_axis(axis, low, min(high, _HIGHEST_READOUT))
        axes[0].set_ylabel(LOSS)
        legend_below(figure, [_handle(layers, "layer" + "s" * (layers > 1)) for layers in LAYERS])
    return Drawing(figure, (*notes.lines(), _seeds_note(record)))


def _record(results: Results) -> ReadoutsRecord:
    record = results.readouts
    if not record.models:
        raise results.nothing("readouts", "models")
    return record


def _seeds_note(record: ReadoutsRecord) -> str:
    counts = sorted({len(record.of(model.method, model.layers)) for model in record.models})
    text = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Geometric means of {text} seeds; bars and bands are one standard deviation of the logarithm."


def _handle(place: int, text: str) -> Line2D:
    """One number of layers; markers tell them apart in grey."""
    colour, marker = _colour(place), MARKERS[(place - 1) % len(MARKERS)]
    return Line2D([], [], color=colour, marker=marker, linewidth=1.1, label=f"{place} {text}")


def _colour(place: int) -> tuple[float, float, float, float]:
    return ordered_colour(place - 1, SEEDED_LAYERS[-1])


def _readout(axis: Axes, record: ReadoutsRecord, method: str, layers: int, notes: Notes) -> list[float]:
    """One depth; the losses that should be seen, which are all but those of exploding read-outs."""
    models = record.of(method, layers)
    if not models:
        notes.add(f"{layers} layers", METHOD_NAMES[method])
        return []
    middle, low, high = geometric([model.adjusted for model in models])
    axis.errorbar(
        np.arange(1, layers + 1),
        middle,
        yerr=[middle - low, high - middle] if len(models) > 1 else None,
        color=_colour(layers),
        marker=MARKERS[(layers - 1) % len(MARKERS)],
        linewidth=1.1,
        elinewidth=0.7,
        capsize=1.5,
        capthick=0.7,
        label=f"{layers} layers",
    )
    return [float(value) for value in middle]


def figure_7(results: Results) -> Drawing:
    """Loss against σ of the prediction after each layer, for models of 2 to 8 layers; bands over seeds."""
    record, notes = _record(results), Notes()
    methods = [method for method in MODELS if any(model.method == method for model in record.models)]
    for method in MODELS:
        if method not in methods:
            notes.add("all panels", METHOD_NAMES[method])
    with printed():
        figure = new_page(0.7 + 1.35 * len(methods))
        axes = figure.subplots(len(methods), len(_PROFILE_DEPTHS), sharex=True, sharey=True, squeeze=False)
        for row, method in zip(axes, methods, strict=True):
            for axis, layers in zip(row, _PROFILE_DEPTHS, strict=True):
                _profiles(axis, record, method, layers, notes)
                axis.set_title(f"{layers} layers" if method == methods[0] else "")
            row[0].set_ylabel(f"{METHOD_NAMES[method]}\n{LOSS}")
        for axis in axes[-1]:
            axis.set_xlabel("σ")
        legend_below(figure, [_profile_handle(layer) for layer in SEEDED_LAYERS], 4)
    return Drawing(figure, (*notes.lines(), _seeds_note(record)))


def _profile_handle(layer: int) -> Line2D:
    marker = MARKERS[(layer - 1) % len(MARKERS)]
    return Line2D([], [], color=_colour(layer), marker=marker, markersize=2.6, label=f"after layer {layer}")


def _profiles(axis: Axes, record: ReadoutsRecord, method: str, layers: int, notes: Notes) -> None:
    models = record.of(method, layers)
    shade_prior(axis, record.noise)
    log_axis(axis, *_PROFILE_RANGE)
    axis.set_xlim(0, record.levels[-1])
    axis.set_xticks([0, 5, 10])
    if not models:
        notes.add(f"{layers} layers", METHOD_NAMES[method])
        axis.text(0.5, 0.5, "no record", transform=axis.transAxes, ha="center", color="#777777", fontsize=6)
        return
    marked = [place for place, level in enumerate(record.levels) if level % 2.5 == 0]
    for layer in range(1, layers + 1):
        _profile(axis, record.levels, [model.profile[layer - 1] for model in models], layer, layer == layers, marked)


def _profile(
    axis: Axes, levels: Sequence[float], rows: Sequence[Sequence[float]], layer: int, last: bool, marked: list[int]
) -> None:
    middle, low, high = geometric(rows)
    axis.plot(
        levels,
        middle,
        color=_colour(layer),
        linewidth=1.5 if last else 0.8,
        marker=MARKERS[(layer - 1) % len(MARKERS)],
        markevery=marked,
        markersize=2.2,
        label=f"after layer {layer}",
    )
    if len(rows) > 1:
        axis.fill_between(levels, low, high, color=_colour(layer), alpha=0.25, linewidth=0)
