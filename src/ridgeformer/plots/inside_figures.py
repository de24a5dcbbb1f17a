"""What is inside models: their weights, and what they would answer after each layer. The paper's figures 4, 5, 7."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ridgeformer.core.distributions import prior_title
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.notation import Array
from ridgeformer.core.registry import Look
from ridgeformer.plots import specification as spec
from ridgeformer.plots.loss_figures import RIDGES, baseline, with_floor
from ridgeformer.plots.specification import Axis, Chart, Figure, HeatMap, Notes, Panel, Row, Series, View
from ridgeformer.reproduction.cells import LAYERS, SEEDED_LAYERS, SHOWN
from ridgeformer.reproduction.records import METHODS, ModelWeights, ReadoutsRecord
from ridgeformer.reproduction.results import Results

_SMALLEST_SCALE = 1e-30  # of a model whose weights are all zero
_MOST_MAPS = 8  # beside each other
_SIGN_AT = 0.1  # share of the largest entry from which a cell carries its sign, since grey cannot show it
_LARGEST_SIGNED = 24  # size of matrices up to which cells are large enough to write in
_AFTER = "read out after layer"
_PROFILE_RANGE = (4e-3, 20.0)
"""Ends of the loss axis of figure 7. A loss above them has exploded: predicting zero costs d/2 = 5."""
_HIGHEST_READOUT = 20.0


# --- weights ---------------------------------------------------------------------------------------------------------


def figure_4(results: Results) -> Figure:
    """Q and P of every layer, on one scale; lines separate the blocks of x and y. One view for each model."""
    models = results.weights.models
    if not models:
        raise results.nothing("weights", "FULL model of four layers")
    ordered = sorted(models, key=lambda model: SHOWN.index(model.name) if model.name in SHOWN else len(SHOWN))
    views = tuple(_weights_view(model) for model in ordered)
    notes = () if ordered[0].name == SHOWN[0] else (f"{SHOWN[0]} is missing; this is {ordered[0].name}.",)
    height = min(2 * spec.WIDTH / (len(views[0].rows[0].panels) + 0.6), 4.2) + 0.3
    return Figure(views, (spec.WIDTH, height), choice="Model", single=True, notes=notes)


def _weights_view(model: ModelWeights) -> View:
    P, Q = (matrices.reshape(-1, *matrices.shape[2:])[:_MOST_MAPS] for matrices in (model.P, model.Q))
    titles = head_titles(*model.P.shape[:2])[:_MOST_MAPS]
    return View(model.name, map_rows({"Q": Q, "P": P}, titles))


def head_titles(layers: int, heads: int) -> list[str]:
    """What each head of each layer is called; heads are counted where there are several."""
    places = ((layer + 1, head + 1) for layer in range(layers) for head in range(heads))
    return [f"layer {layer}" + (f", head {head}" if heads > 1 else "") for layer, head in places]


def map_rows(named: dict[str, Array], titles: Sequence[str]) -> tuple[Row, ...]:
    """A row of heat maps for each of the named stacks of matrices, all on one scale."""
    largest = max(*(float(np.abs(matrices).max()) for matrices in named.values()), _SMALLEST_SCALE)
    return tuple(
        Row(tuple(_map(f"{name}, {title}", matrix, largest) for title, matrix in zip(titles, matrices, strict=True)))
        for name, matrices in named.items()
    )


def _map(title: str, matrix: Array, largest: float) -> HeatMap:
    """A matrix whose last row and column belong to y; the signs of its large entries are written into the cells."""
    size = len(matrix)
    signs = np.where(np.abs(matrix) > _SIGN_AT * largest, np.where(matrix > 0, "+", "−"), "")
    names = tuple("y" if k == size - 1 else "x" if k == (size - 2) // 2 else "" for k in range(size))
    return HeatMap(
        title,
        tuple(map(spec.floats, matrix)),
        largest,
        texts=tuple(tuple(map(str, row)) for row in signs) if size <= _LARGEST_SIGNED else (),
        rows=names,
        columns=names,
        scale="entry, with ‖P‖ = ‖Q‖ in every layer",
    )


# --- answers after each layer ----------------------------------------------------------------------------------------


def figure_5(results: Results) -> Figure:
    """Loss of the prediction read out after K layers, for models of 1 to 7 layers; bars over seeds."""
    record, notes, series = _readouts(results), Notes(), dict[str, list[Series]]()
    for method in KINDS:
        series[method] = []
        for layers in LAYERS:
            rows, name = [model.adjusted for model in record.of(method, layers)], spec.layers_text(layers)
            if rows:
                series[method].append(_over_seeds(name, _layer_look(layers), range(1, layers + 1), rows, bars=True))
            else:
                notes.add(f"{layers} layers", METHODS[method].label)
    floor = baseline(results, "bayes", record.noise)
    values = [value for own in series.values() for one in own for value in one.y]
    low, high = spec.bounds([*values, *([floor.level or 0.0] if floor else [])])
    axes = spec.layer_axis(LAYERS, _AFTER), Axis(spec.LOSS, (low, min(high, _HIGHEST_READOUT)), log=True)
    views = {}
    for method, own in series.items():
        label = METHODS[method].label
        views[label] = [Chart(f"{label}, {prior_title(record.noise)}", *axes, tuple(own), floor)]
    legend = [Series(spec.layers_text(layers), _layer_look(layers)) for layers in LAYERS] + ([floor] if floor else [])
    return _by_kind(views, 3.0, legend, "", (*notes.lines(), _seeds_note(record)))


def figure_7(results: Results) -> Figure:
    """Loss against σ of the prediction after each layer, for models of 2 to 8 layers; bands over seeds."""
    record, notes, views = _readouts(results), Notes(), {}
    for method in KINDS:
        if any(model.method == method for model in record.models):
            depths = SEEDED_LAYERS[1:]
            views[METHODS[method].label] = [_profiles(record, method, layers, notes) for layers in depths]
        else:
            notes.add("all panels", METHODS[method].label)
    legend = [Series(f"after layer {layer}", _layer_look(layer)) for layer in SEEDED_LAYERS]
    caption = "Adjusted loss (log scale) against the noise level σ; the shaded levels are those of the training."
    return _by_kind(views, 0.7 + 1.35 * len(views), legend, caption, (*notes.lines(), _seeds_note(record)))


def _by_kind(
    views: Mapping[str, Sequence[Panel]], height: float, legend: Sequence[Series], caption: str, notes: tuple[str, ...]
) -> Figure:
    values = {"legend": tuple(legend), "caption": caption, "choice": "Models", "first": len(views) - 1, "notes": notes}
    return spec.views_figure(views, (spec.WIDTH, height), **values)


def _readouts(results: Results) -> ReadoutsRecord:
    record = results.readouts
    if not record.models:
        raise results.nothing("readouts", "models")
    return record


def _seeds_note(record: ReadoutsRecord) -> str:
    counts = sorted({len(record.of(model.method, model.layers)) for model in record.models})
    text = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Geometric means of {text} seeds. Bars and bands are one standard deviation of the logarithm over seeds."


def _layer_look(layer: int, width: float = 1.1) -> Look:
    return spec.in_order(layer, SEEDED_LAYERS[-1], width=width)


def _over_seeds(name: str, look: Look, x: Iterable[float], rows: Sequence[Sequence[float]], **values: Any) -> Series:
    """The mean of several seeds and its spread; one seed has none."""
    middle, low, high = map(spec.floats, spec.geometric(rows))
    if len(rows) == 1:
        return spec.line(name, look, x, middle, note="one seed", **values)
    return spec.line(name, look, x, middle, low=low, high=high, note=f"mean and spread of {len(rows)} seeds", **values)


def _profiles(record: ReadoutsRecord, method: str, layers: int, notes: Notes) -> Chart:
    """The predictions after each layer of the models of one depth."""
    models, levels = record.of(method, layers), record.levels
    if not models:
        notes.add(f"{layers} layers", METHODS[method].label)
    marked = tuple(place for place, level in enumerate(levels) if level % 2.5 == 0)
    series = []
    for layer in range(1, layers + 1) if models else ():
        rows, look = [model.profile[layer - 1] for model in models], _layer_look(layer, 1.5 if layer == layers else 0.8)
        series.append(_over_seeds(f"after layer {layer}", look, levels, rows, marked=marked))
    x, y = Axis(spec.NOISE_LEVEL, (0, levels[-1]), ticks=(0, 5, 10)), Axis(spec.LOSS, _PROFILE_RANGE, log=True)
    remark, shades = "" if models else "no record", spec.trained_on(record.noise)
    return Chart(f"{layers} layers", x, y, tuple(series), shades=shades, remark=remark)


def one_model(results: Results) -> Figure:
    """What one model would answer after each of its own layers, beside the baselines: the first picture of the page."""
    record, kinds = _readouts(results), list(KINDS)
    model = max(record.models, key=lambda one: (one.layers == LAYERS[-1], kinds.index(one.method), -one.seed))
    name, depths = f"{METHODS[model.method].label} {model.layers}", range(1, model.layers + 1)
    own = spec.method_series(model.method, name=name, x=spec.floats(depths), y=model.adjusted)
    levels = (baseline(results, method, record.noise) for method in RIDGES)
    title = f"One model, {name}, read out after each of its layers, {prior_title(record.noise)}"
    axes = spec.layer_axis(depths, _AFTER), Axis(spec.LOSS, log=True)
    chart = Chart(title, *axes, (own, *(level for level in levels if level)))
    return spec.panels_figure([with_floor(chart, baseline(results, "bayes", record.noise))], (3.6, 2.6))
