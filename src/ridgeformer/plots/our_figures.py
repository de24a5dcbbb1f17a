"""Figures that the paper does not have: distance from the Bayes limit, training time, more depth and heads, shifts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ridgeformer.core.kinds import KINDS
from ridgeformer.core.registry import Look
from ridgeformer.plots import specification as spec
from ridgeformer.plots.loss_figures import PAPER, UNIFORM, model_series, with_floor
from ridgeformer.plots.specification import Axis, Chart, Figure, Notes, Row, Series, View
from ridgeformer.reproduction.cells import LAYERS, PRIORS, SEEDED_LAYERS, SEEDED_PRIOR
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.reproduction.records import METHODS, TrainingCurve
from ridgeformer.reproduction.results import MissingRecordError, Results
from ridgeformer.reproduction.table1 import Entry, Table1

_DEEP = ("diag", "full")
"""More layers and heads are no use to GD++, which ends at ConstRR; see `ridgeformer.training.spectral`."""
_FIRST_LAYER = 3  # of the figure of deep models: shallower ones would set its scale
_HIGHEST_LOSS = 2.0  # at which an axis of training ends at the latest: untrained models have two to five
_LAST_SECONDS = 1e9  # thirty years
_FIRST_SECONDS = 0.1  # the axis of time begins here: what was earlier was compiling and setting up
_FINISHED = Series("finished, fresh sequences", Look(spec.GREY, (), "*"), points=True)
_PRINTED = Series("printed in the paper", Look(spec.GREY, (1, 1.2), width=0.9))
_HIGHEST_RATIO = 4.0  # at which the axis of shifts ends; what is beyond is named there
_MOST_ROWS, _MOST_PREDICTORS = 40, 12
_SHIFTS = {
    "none": "no shift",
    "examples": "{} examples instead of 20",
    "noise": "noise × {}",
    "sigma": "σ = {}",
    "kappa": "features of condition number {}",
    "student": "noise: Student’s t, ν = {}",
    "scale": "weights × {}",
    "rows": "examples correlated by {}",
}


# --- the Bayes limit -------------------------------------------------------------------------------------------------


def figure_bayes(results: Results) -> Figure:
    """Loss over the Bayes limit against layers, one panel for each kind of model, one line for each prior.

    What is drawn is the ratio less one: on a logarithmic axis a model that is 5 % above the limit stands apart from one
    that is 15 % above.
    """
    notes = Notes()
    noises = [noise for noise in PRIORS if noise != "uniform:0"]  # there the limit is zero
    entries = [e for e in results.table1.entries if e.trained and e.heads == 1 and e.bayes_ratio and e.noise in noises]
    if not entries:
        raise results.nothing("table1", "models beside the Bayes limit")
    x = spec.layer_axis(range(1, max(entry.layers or 1 for entry in entries) + 1))
    y = Axis("adjusted loss over the Bayes limit, less 1", spec.bounds(map(_excess, entries)), log=True)
    looks = {noise: _prior_look(noise, place) for place, noise in enumerate(noises)}
    views = []
    for method in KINDS:
        series = []
        for noise, look in looks.items():
            rows = sorted((e for e in entries if (e.method, e.noise) == (method, noise)), key=lambda e: e.layers or 1)
            if not rows:
                notes.add(spec.prior_title(noise), METHODS[method].label)
                continue
            values = spec.floats(e.layers or 1 for e in rows), spec.floats(map(_excess, rows))
            series.append(Series(spec.prior_title(noise), look, *values))
        views.append(View(METHODS[method].label, (Row((Chart(METHODS[method].label, x, y, tuple(series)),)),)))
    legend = tuple(Series(spec.prior_title(noise), look) for noise, look in looks.items())
    first = len(views) - 1
    return Figure(tuple(views), (spec.WIDTH, 3.2), legend, choice="Models", first=first, notes=notes.lines())


def _excess(entry: Entry) -> float:
    """How far a loss is above the Bayes limit, in units of the limit; not a number if chance has it below."""
    ratio = entry.bayes_ratio or 1.0
    return ratio - 1 if ratio > 1 else math.nan


def _prior_look(noise: str, place: int) -> Look:
    """Uniform priors darken with σmax; categorical ones are dashed."""
    if noise in UNIFORM:
        return spec.in_order(place + 1, len(UNIFORM) - 1, width=1.0)
    like = spec.look_of("diag" if noise == "categorical:1+3" else "gdpp")
    return replace(like, marker=spec.MARKERS[place % len(spec.MARKERS)], width=1.0)


# --- depth and heads -------------------------------------------------------------------------------------------------


def figure_depth(results: Results) -> Figure:
    """Loss against depth for the priors that have models beyond the paper's: more layers, or several heads."""
    table = results.table1
    noises = [noise for noise in PRIORS if any(e.noise == noise and _deep(e) for e in table.entries)]
    if not noises:
        raise results.nothing("table1", "models of more than 7 layers or of several heads")
    charts = [_depth_chart(table, noise) for noise in noises]
    heads = {key: one.look for chart in charts for one in chart.series for key in one.keys if key.endswith("heads")}
    marks = (Series(key, Look(spec.GREY, (), look.marker), points=True) for key, look in sorted(heads.items()))
    return Figure(
        tuple(View(chart.title, (Row((chart,)),)) for chart in charts),
        (min(spec.WIDTH, 3.6 * len(charts)), 2.9),
        (*spec.method_keys(charts), *marks, PAPER),
        choice="Noise prior",
    )


def _deep(entry: Entry) -> bool:
    return entry.method in _DEEP and ((entry.layers or 0) > LAYERS[-1] or entry.heads > 1)


def _depth_chart(table: Table1, noise: str) -> Chart:
    column = [e for e in table.entries if e.noise == noise and (e.layers or 0) >= _FIRST_LAYER and e.method in _DEEP]
    column.sort(key=lambda entry: entry.layers or 0)
    series = []
    for method in _DEEP:
        for heads in sorted({entry.heads for entry in column}):
            rows = {e.layers or 0: e for e in column if (e.method, e.heads) == (method, heads)}
            series += model_series(method, rows, heads, joined=True)
    x = spec.layer_axis(range(_FIRST_LAYER, max(entry.layers or 0 for entry in column) + 1))
    return with_floor(
        Chart(spec.prior_title(noise), x, Axis(spec.LOSS, log=True), tuple(series)), table.entry("bayes", None, noise)
    )


# --- training time ---------------------------------------------------------------------------------------------------


def figure_training(results: Results) -> Figure:
    """Loss against seconds of training, one panel for each depth that there are runs of; one view for each prior.

    Thin lines are the stages of a run, of which there is one for every start; the thick one is the least loss so far.
    """
    record = results.training
    kinds = [(method, layers) for layers in SEEDED_LAYERS for method in KINDS]
    noises = [noise for noise in (SEEDED_PRIOR, *PRIORS) if any(curve.noise == noise for curve in record.curves)]
    curves = [c for noise in dict.fromkeys(noises) for kind in kinds if (c := record.find(*kind, noise)) and c.stages]
    if not curves:
        raise results.nothing("training", "timed runs")
    noises = list(dict.fromkeys(curve.noise for curve in curves))
    views = tuple(_training_view([c for c in curves if c.noise == noise], results) for noise in noises)
    charts = [panel for panel in views[0].rows[0].panels if isinstance(panel, Chart)]
    lines = -(-len(charts) // 4)
    return Figure(
        views,
        (min(spec.WIDTH, 3.6 * len(charts)), 0.9 + 1.5 * lines + 0.5 * (lines == 1)),
        (*spec.method_keys(charts), _FINISHED, _PRINTED),
        "Adjusted loss against seconds of training (both log scale). Thin: the smoothed loss of every stage of the run; "
        "thick: the least so far.",
        choice="Noise prior",
        single=True,
    )


def _training_view(curves: list[TrainingCurve], results: Results) -> View:
    noise = curves[0].noise
    times = [curve.final_seconds for curve in curves if curve.final_seconds < _LAST_SECONDS]
    x = Axis("seconds of training", (_FIRST_SECONDS, max(2 * max(times, default=0.0), 10.0)), log=True)
    charts = []
    for layers in sorted({curve.layers for curve in curves}):
        series = [one for curve in curves if curve.layers == layers for one in _curve(curve)]
        chart = Chart(f"{layers} layer{'s' * (layers > 1)}", x, Axis(spec.LOSS, log=True), tuple(series))
        charts.append(_with_training_limits(chart, _bayes_limit(results, noise)))
    return View(spec.prior_title(noise), (Row(tuple(charts), columns=min(4, len(charts))),))


def _with_training_limits(chart: Chart, limit: float | None) -> Chart:
    """The loss axis holds what runs end with, what is printed, and where they begin unless that is far above."""
    needed = (
        one.level if one.level is not None else one.y[0] if one.points else min(one.y[0], _HIGHEST_LOSS)
        for one in chart.series
        if not one.faint
    )
    floored = with_floor(chart, limit)
    values = [*needed, *([] if floored.floor is None else [floored.floor.level or math.nan])]
    return replace(floored, y=replace(chart.y, limits=spec.bounds(values)))


def _bayes_limit(results: Results, noise: str) -> float | None:
    try:
        entry = results.table1.entry("bayes", None, noise)
    except MissingRecordError:
        return None
    return None if entry is None else entry.adjusted_loss


def _curve(curve: TrainingCurve) -> Iterable[Series]:
    """One run: its stages, the least loss so far, the finished model, and what the paper has."""
    name, look = METHODS[curve.method].label, METHODS[curve.method].look
    begun = "" if curve.start is None else f", started from {curve.start}"
    for stage in curve.stages:
        yield Series(
            f"{name}, {stage.name}",
            look,
            stage.seconds,
            stage.loss,
            faint=True,
            keys=(name,),
            note=f"{stage.name}{begun}",
        )
    times = np.concatenate([stage.seconds for stage in curve.stages])
    order = np.argsort(times, kind="stable")
    best = np.minimum.accumulate(np.concatenate([stage.loss for stage in curve.stages])[order])
    better = np.flatnonzero(np.diff(best, prepend=np.inf) < 0)
    places = np.unique([0, *better, len(best) - 1])
    yield Series(name, look, spec.floats(times[order][places]), spec.floats(best[places]), steps=True, marked=(0,))
    done, star = spec.floats([curve.final_seconds]), replace(look, marker="*")
    yield Series(f"{name}, finished", star, done, (curve.final,), points=True, keys=(name, _FINISHED.name))
    aim = printed_loss(curve.method, curve.layers, curve.noise)
    if aim is not None:
        dotted = replace(look, dashes=_PRINTED.look.dashes, marker="", width=0.9)
        yield Series(f"{name}, paper", dotted, level=aim, keys=(name, _PRINTED.name))


# --- other distributions ---------------------------------------------------------------------------------------------


def figure_shift(results: Results) -> Figure:
    """Loss over that of ridge regression that is told the shift; hollow where a predictor does not survive it."""
    record = results.shift
    if not record.scenarios or not record.predictors:
        raise results.nothing("shift", "scenarios")
    scenarios, predictors = record.scenarios[:_MOST_ROWS], record.predictors[:_MOST_PREDICTORS]
    columns, failed = [], []
    for place, name in enumerate(predictors):
        found = [scenario.results[name] for scenario in scenarios]
        ratios = spec.floats(result.ratio for result in found)
        interval = spec.interval(ratios, [result.ratio_error for result in found])
        columns.append(Series(name, _shift_look(name, place), ratios, **interval))
        failed.append(tuple(not result.survives for result in found))
    lowest = min((x for one in columns for x in one.x if 0 < x < math.inf), default=1.0)
    panel = spec.Comparison(
        f"Loss over that of ridge regression that is told the shift, on {spec.count_text(record.sequences)} sequences",
        tuple(_shift_name(scenario.spec) for scenario in scenarios),
        tuple(columns),
        tuple(failed),
        f"loss over that of ridge regression told the shift (trained on {spec.prior_title(record.noise)})",
        (min(0.95, lowest / 1.06), _HIGHEST_RATIO),
    )
    hollow = Series("hollow: does not survive", Look(spec.GREY, (), "o"), points=True, hollow=True)
    legend = (*(Series(one.name, one.look, points=True) for one in columns), hollow)
    caption = "Marked ▴: more than a quarter above AdaRR, or a mean that a few sequences make."
    return Figure((View("", (Row((panel,)),)),), (spec.WIDTH, 1.0 + 0.42 * len(scenarios)), legend, caption)


def _shift_name(spec: str) -> str:
    """A shift in words; one that is not known stays as it is written."""
    kind, _, value = spec.partition(":")
    if kind == "outliers" and "x" in value and "+" not in value:
        share, _, factor = value.partition("x")
        return f"a share {share} of outliers × {factor}"
    return _SHIFTS[kind].format(value) if kind in _SHIFTS and "+" not in spec else spec


def _shift_look(name: str, place: int) -> Look:
    """That of the method that a name such as "FULL 7" begins with, and always with a marker."""
    labels = {method: METHODS[method].label for method in METHODS}
    method = next((m for m, label in labels.items() if name == label or name.startswith(f"{label} ")), None)
    look = Look(spec.GREY) if method is None else METHODS[method].look
    return look if look.marker else replace(look, marker=spec.MARKERS[place % len(spec.MARKERS)])
