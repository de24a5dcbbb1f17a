"""What is inside models: their weights, and what they would answer after each layer. The paper's figures 4, 5, 7."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ridgeformer.core.kinds import KINDS
from ridgeformer.core.notation import Array
from ridgeformer.core.registry import Look
from ridgeformer.plots import specification as spec
from ridgeformer.plots.loss_figures import RIDGES, with_floor
from ridgeformer.plots.specification import Axis, Chart, Figure, Notes, Row, Series, View
from ridgeformer.reproduction.cells import LAYERS, SEEDED_LAYERS, SHOWN
from ridgeformer.reproduction.records import ModelWeights, ReadoutsRecord
from ridgeformer.reproduction.results import MissingRecordError, Results

_SMALLEST_SCALE = 1e-30  # of a model whose weights are all zero
_MOST_MAPS = 8  # beside each other
_SIGN_AT = 0.1  # share of the largest entry from which a cell carries its sign, since grey cannot show it
_LARGEST_SIGNED = 24  # size of matrices up to which cells are large enough to write in
_PROFILE_DEPTHS = SEEDED_LAYERS[1:]
_PROFILE_RANGE = (4e-3, 20.0)
"""Ends of the loss axis of figure 7. What is above explodes: predicting zero costs d/2 = 5."""
_HIGHEST_READOUT = 20.0


# --- weights ---------------------------------------------------------------------------------------------------------


def figure_4(results: Results) -> Figure:
    """Q and P of every layer, on one scale; lines part the x from the y block. One view for each model."""
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
    largest = max(float(np.abs(P).max()), float(np.abs(Q).max()), _SMALLEST_SCALE)
    titles = head_titles(len(model.P), model.P.shape[1])
    rows = (
        Row(tuple(signed_map(f"{name}, {title}", matrix, largest) for title, matrix in zip(titles, matrices)))  # noqa: B905
        for name, matrices in (("Q", Q), ("P", P))
    )
    return View(model.name, tuple(rows))


def head_titles(layers: int, heads: int) -> list[str]:
    """What each head of each layer is called; heads are counted where there are several."""
    places = ((layer + 1, head + 1) for layer in range(layers) for head in range(heads))
    return [f"layer {layer}" + (f", head {head}" if heads > 1 else "") for layer, head in places]


def signed_map(title: str, matrix: Array, largest: float) -> spec.HeatMap:
    """A matrix whose last row and column belong to y; the signs of its large entries are written into the cells."""
    texts: tuple[tuple[str, ...], ...] = ()
    if len(matrix) <= _LARGEST_SIGNED:
        sign = np.where(np.abs(matrix) > _SIGN_AT * largest, np.where(matrix > 0, "+", "−"), "")
        texts = tuple(tuple(map(str, row)) for row in sign)
    names = tuple(
        "y" if k == len(matrix) - 1 else "x" if k == (len(matrix) - 2) // 2 else "" for k in range(len(matrix))
    )
    scale = "entry, with ‖P‖ = ‖Q‖ in every layer"
    return spec.HeatMap(
        title, tuple(map(spec.floats, matrix)), largest, texts=texts, rows=names, columns=names, scale=scale
    )


# --- read-outs -------------------------------------------------------------------------------------------------------


def figure_5(results: Results) -> Figure:
    """Loss of the prediction read out after K layers, for models of 1 to 7 layers; bars over seeds."""
    record, notes = _readouts(results), Notes()
    limit = _baseline(results, "bayes", record.noise)
    series = {m: [one for k in LAYERS for one in _readout(record, m, k, notes)] for m in KINDS}
    values = [value for own in series.values() for one in own for value in one.y]
    low, high = spec.bounds([*values, *(one.level or 0.0 for one in limit)])
    x, y = (
        spec.layer_axis(LAYERS, "read out after layer"),
        Axis(spec.LOSS, (low, min(high, _HIGHEST_READOUT)), log=True),
    )
    views = []
    for method, own in series.items():
        title = f"{METHODS[method].label}, {spec.prior_title(record.noise)}"
        views.append(View(METHODS[method].label, (Row((Chart(title, x, y, tuple(own), next(iter(limit), None)),)),)))
    return Figure(
        tuple(views),
        (spec.WIDTH, 3.0),
        (*(Series(_layers_text(k), spec.in_order(k, SEEDED_LAYERS[-1])) for k in LAYERS), *limit),
        choice="Models",
        first=len(views) - 1,
        notes=(*notes.lines(), _seeds_note(record)),
    )


def _readouts(results: Results) -> ReadoutsRecord:
    record = results.readouts
    if not record.models:
        raise results.nothing("readouts", "models")
    return record


def _seeds_note(record: ReadoutsRecord) -> str:
    counts = sorted({len(record.of(model.method, model.layers)) for model in record.models})
    text = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Geometric means of {text} seeds; bars and bands are one standard deviation of the logarithm."


def _layers_text(layers: int) -> str:
    return f"{layers} layer{'s' * (layers > 1)}"


def _readout(record: ReadoutsRecord, method: str, layers: int, notes: Notes) -> Iterable[Series]:
    """One depth."""
    models = record.of(method, layers)
    if not models:
        notes.add(f"{layers} layers", METHODS[method].label)
        return
    look = spec.in_order(layers, SEEDED_LAYERS[-1])
    yield _over_seeds(_layers_text(layers), look, range(1, layers + 1), [model.adjusted for model in models])


def _over_seeds(name: str, look: Look, x: Iterable[float], rows: Sequence[Sequence[float]], **values: Any) -> Series:
    """The mean of several seeds and its spread; one seed has none."""
    middle, low, high = map(spec.floats, spec.geometric(rows))
    if len(rows) == 1:
        return Series(name, look, spec.floats(x), middle, note="one seed", **values)
    note = f"mean and spread of {len(rows)} seeds"
    return Series(name, look, spec.floats(x), middle, low=low, high=high, note=note, **({"bars": True} | values))


def figure_7(results: Results) -> Figure:
    """Loss against σ of the prediction after each layer, for models of 2 to 8 layers; bands over seeds."""
    record, notes = _readouts(results), Notes()
    views = []
    for method in KINDS:
        if not any(model.method == method for model in record.models):
            notes.add("all panels", METHODS[method].label)
            continue
        charts = tuple(_profiles(record, method, layers, notes) for layers in _PROFILE_DEPTHS)
        views.append(View(METHODS[method].label, (Row(charts),)))
    return Figure(
        tuple(views),
        (spec.WIDTH, 0.7 + 1.35 * len(views)),
        tuple(Series(f"after layer {k}", spec.in_order(k, SEEDED_LAYERS[-1])) for k in SEEDED_LAYERS),
        "Adjusted loss (log scale) against the noise level σ; the shaded levels are those of the training.",
        choice="Models",
        first=len(views) - 1,
        notes=(*notes.lines(), _seeds_note(record)),
    )


def _profiles(record: ReadoutsRecord, method: str, layers: int, notes: Notes) -> Chart:
    """The predictions after each layer of the models of one depth."""
    models, levels = record.of(method, layers), record.levels
    if not models:
        notes.add(f"{layers} layers", METHODS[method].label)
    marked = tuple(place for place, level in enumerate(levels) if level % 2.5 == 0)
    series = []
    for layer in range(1, layers + 1) if models else ():
        look = spec.in_order(layer, SEEDED_LAYERS[-1], width=1.5 if layer == layers else 0.8)
        rows = [model.profile[layer - 1] for model in models]
        series.append(_over_seeds(f"after layer {layer}", look, levels, rows, bars=False, marked=marked))
    return Chart(
        f"{layers} layers",
        Axis(spec.NOISE_LEVEL, (0, levels[-1]), ticks=(0, 5, 10)),
        Axis(spec.LOSS, _PROFILE_RANGE, log=True),
        tuple(series),
        shades=spec.trained_on(record.noise),
        remark="" if models else "no record",
    )


# --- the first picture of the page -----------------------------------------------------------------------------------


def one_model(results: Results) -> Figure:
    """What one model would answer after each of its own layers, beside the baselines: the first picture of the page."""
    record = _readouts(results)
    model = max(record.models, key=lambda one: (one.layers == LAYERS[-1], list(KINDS).index(one.method), -one.seed))
    depths = range(1, model.layers + 1)
    name = f"{METHODS[model.method].label} {model.layers}"
    series = [spec.method_series(model.method, name=name, x=spec.floats(depths), y=tuple(model.adjusted))]
    series += [one for method in RIDGES for one in _baseline(results, method, record.noise)]
    title = f"One model, {name}, read out after each of its layers, {spec.prior_title(record.noise)}"
    chart = Chart(title, spec.layer_axis(depths, "read out after layer"), Axis(spec.LOSS, log=True), tuple(series))
    limit = [one.level for one in _baseline(results, "bayes", record.noise)]
    return Figure((View("", (Row((with_floor(chart, *limit),)),)),), (spec.WIDTH / 2, 2.6))


def _baseline(results: Results, method: str, noise: str) -> list[Series]:
    """The level of a baseline; nothing if Table 1 does not have it, or no axis can hold it."""
    try:
        entry = results.table1.entry(method, None, noise)
    except MissingRecordError:
        return []
    return (
        [spec.method_series(method, level=entry.adjusted_loss)] if entry and spec.showable(entry.adjusted_loss) else []
    )
