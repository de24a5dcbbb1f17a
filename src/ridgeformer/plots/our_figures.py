"""Figures that the paper does not have: distance from the Bayes limit, training time, more depth and heads, shifts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ridgeformer.core.distributions import prior_title
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.registry import Look
from ridgeformer.plots import specification as spec
from ridgeformer.plots.loss_figures import PAPER, UNIFORM, baseline, model_series, with_floor
from ridgeformer.plots.specification import Axis, Chart, Comparison, Figure, Notes, Row, Series, View
from ridgeformer.reproduction.cells import LAYERS, PRIORS, SEEDED_LAYERS, SEEDED_PRIOR
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.reproduction.records import METHODS, TrainingCurve
from ridgeformer.reproduction.results import Results
from ridgeformer.reproduction.table1 import Entry

_DEEP = ("diag", "full")
"""More layers and heads do not help GD++, which cannot be better than ConstRR; see `ridgeformer.training.spectral`."""
_FIRST_LAYER = 3  # of the figure of deep models: shallower ones would set its scale
_PANELS = 4  # of training, beside each other
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
    "kappa": "features with condition number {}",
    "student": "noise: Student’s t, ν = {}",
    "outliers": "outliers: noise × {1} with probability {0}",
    "scale": "weights × {}",
    "rows": "correlation {} between examples",
}


# --- the Bayes limit -------------------------------------------------------------------------------------------------


def figure_bayes(results: Results) -> Figure:
    """Loss divided by the Bayes limit, against layers, one panel for each kind of model, one line for each prior.

    It draws the ratio minus one: on a logarithmic axis, this separates a model that is 5 % above the limit from one
    that is 15 % above.
    """
    notes = Notes()
    noises = [noise for noise in PRIORS if noise != "uniform:0"]  # there the limit is zero
    plain = [e for e in results.table1.entries if e.trained and (e.heads, e.registers) == (1, 0)]
    entries = [entry for entry in plain if entry.bayes_ratio and entry.noise in noises]
    if not entries:
        raise results.nothing("table1", "models beside the Bayes limit")
    entries.sort(key=lambda entry: entry.layers or 1)
    x = spec.layer_axis(range(1, (entries[-1].layers or 1) + 1))
    y = Axis("adjusted loss ÷ Bayes limit − 1", spec.bounds(map(_excess, entries)), log=True)
    looks = {noise: _prior_look(noise, place) for place, noise in enumerate(noises)}
    views = {}
    for method in KINDS:
        label, series = METHODS[method].label, []
        for noise, look in looks.items():
            rows = [entry for entry in entries if (entry.method, entry.noise) == (method, noise)]
            if rows:
                depths = (entry.layers or 1 for entry in rows)
                series.append(spec.line(prior_title(noise), look, depths, map(_excess, rows)))
            else:
                notes.add(prior_title(noise), label)
        views[label] = [Chart(label, x, y, tuple(series))]
    legend, first = tuple(Series(prior_title(noise), look) for noise, look in looks.items()), len(views) - 1
    values = {"legend": legend, "choice": "Models", "first": first, "notes": notes.lines()}
    return spec.views_figure(views, (spec.WIDTH, 3.2), **values)


def _excess(entry: Entry) -> float:
    """How far a loss is above the Bayes limit, as a share of the limit; NaN if it is below the limit by chance."""
    ratio = entry.bayes_ratio or 1.0
    return ratio - 1 if ratio > 1 else math.nan


def _prior_look(noise: str, place: int) -> Look:
    """Uniform priors darken with σmax; categorical ones are dashed."""
    if noise in UNIFORM:
        return spec.in_order(place + 1, len(UNIFORM) - 1, width=1.0)
    like = METHODS["diag" if noise == "categorical:1+3" else "gdpp"].look
    return replace(like, marker=spec.MARKERS[place % len(spec.MARKERS)], width=1.0)


# --- depth and heads -------------------------------------------------------------------------------------------------


def figure_depth(results: Results) -> Figure:
    """Loss against depth for the priors that have models beyond the paper's: more layers, or several heads."""
    entries = [e for e in results.table1.entries if e.method in _DEEP and not e.registers]
    deep = {entry.noise for entry in entries if (entry.layers or 0) > LAYERS[-1] or entry.heads > 1}
    noises = [noise for noise in PRIORS if noise in deep]
    if not noises:
        raise results.nothing("table1", "models of more than 7 layers or of several heads")
    charts = [_depth_chart(results, noise) for noise in noises]
    heads = {key: one.look for chart in charts for one in chart.series for key in one.keys if key.endswith("heads")}
    marks = (Series(key, Look(spec.GREY, (), look.marker), points=True) for key, look in sorted(heads.items()))
    legend, size = (*spec.method_keys(charts), *marks, PAPER), (min(spec.WIDTH, 3.6 * len(charts)), 2.9)
    return spec.views_figure({chart.title: [chart] for chart in charts}, size, legend=legend, choice="Noise prior")


def _depth_chart(results: Results, noise: str) -> Chart:
    entries = [e for e in results.table1.entries if e.noise == noise and e.method in _DEEP and not e.registers]
    column = [entry for entry in entries if (entry.layers or 0) >= _FIRST_LAYER]
    column.sort(key=lambda entry: entry.layers or 0)
    series = []
    for method in _DEEP:
        for heads in sorted({entry.heads for entry in column}):
            rows = {e.layers or 0: e for e in column if (e.method, e.heads) == (method, heads)}
            series += model_series(method, rows, heads, joined=True)
    x = spec.layer_axis(range(_FIRST_LAYER, (column[-1].layers or 0) + 1))
    chart = Chart(prior_title(noise), x, Axis(spec.LOSS, log=True), tuple(series))
    return with_floor(chart, baseline(results, "bayes", noise))


# --- training time ---------------------------------------------------------------------------------------------------


def figure_training(results: Results) -> Figure:
    """Loss against seconds of training: one panel for each depth that has runs, one view for each prior.

    Thin lines are the stages of a run, one for each starting point; the thick line is the lowest loss so far.
    """
    record = results.training
    curves: dict[str, list[TrainingCurve]] = {}
    for noise in dict.fromkeys((SEEDED_PRIOR, *PRIORS)):
        runs = [record.find(method, layers, noise) for layers in SEEDED_LAYERS for method in KINDS]
        curves |= {noise: scores} if (scores := [run for run in runs if run is not None and run.stages]) else {}
    if not curves:
        raise results.nothing("training", "timed runs")
    views = [_training_view(runs, baseline(results, "bayes", noise)) for noise, runs in curves.items()]
    charts = [panel for panel in views[0].rows[0].panels if isinstance(panel, Chart)]
    lines = -(-len(charts) // _PANELS)
    return Figure(
        tuple(views),
        (min(spec.WIDTH, 3.6 * len(charts)), 0.9 + 1.5 * lines + 0.5 * (lines == 1)),
        (*spec.method_keys(charts), _FINISHED, _PRINTED),
        "Adjusted loss against seconds of training (both log scale). Thin lines: the smoothed loss of every stage of a "
        "run. Thick lines: the lowest loss so far.",
        choice="Noise prior",
        single=True,
    )


def _training_view(curves: Sequence[TrainingCurve], floor: Series | None) -> View:
    times = [curve.final_seconds for curve in curves if curve.final_seconds < _LAST_SECONDS]
    x = Axis("seconds of training", (_FIRST_SECONDS, max(2 * max(times, default=0.0), 10.0)), log=True)
    charts = []
    for layers in dict.fromkeys(curve.layers for curve in curves):
        series = tuple(one for curve in curves if curve.layers == layers for one in _curve(curve))
        # The axis holds what runs end with, what is printed, and where they begin unless that is far above.
        needed = (one.level or min(one.y[0], _HIGHEST_LOSS) for one in (*series, floor) if one and not one.faint)
        y = Axis(spec.LOSS, spec.bounds(needed), log=True)
        charts.append(Chart(spec.layers_text(layers), x, y, series, floor))
    return View(prior_title(curves[0].noise), (Row(tuple(charts), columns=min(_PANELS, len(charts))),))


def _curve(curve: TrainingCurve) -> Iterable[Series]:
    """One run: its stages, the lowest loss so far, the finished model, and the number that the paper prints."""
    name, look = METHODS[curve.method].label, METHODS[curve.method].look
    begun = "" if curve.start is None else f", started from {curve.start}"
    for stage in curve.stages:
        note = f"{stage.name}{begun}"
        yield Series(f"{name}, {stage.name}", look, stage.seconds, stage.loss, faint=True, keys=(name,), note=note)
    times = np.concatenate([stage.seconds for stage in curve.stages])
    order = np.argsort(times, kind="stable")
    best = np.minimum.accumulate(np.concatenate([stage.loss for stage in curve.stages])[order])
    places = np.unique([0, *np.flatnonzero(np.diff(best) < 0) + 1, len(best) - 1])  # where it falls, and both ends
    yield spec.line(name, look, times[order][places], best[places], steps=True, marked=(0,))
    star, keys = replace(look, marker="*"), (name, _FINISHED.name)
    yield Series(f"{name}, finished", star, (curve.final_seconds,), (curve.final,), points=True, keys=keys)
    aim = printed_loss(curve.method, curve.layers, curve.noise)
    if aim is not None:
        dotted = replace(look, dashes=_PRINTED.look.dashes, marker="", width=0.9)
        yield Series(f"{name}, paper", dotted, level=aim, keys=(name, _PRINTED.name))


# --- other distributions ---------------------------------------------------------------------------------------------


def figure_shift(results: Results) -> Figure:
    """Loss divided by that of ridge regression told the shift; hollow where a predictor does not survive the shift."""
    record = results.shift
    if not record.scenarios or not record.predictors:
        raise results.nothing("shift", "scenarios")
    scenarios, columns, failed = record.scenarios[:_MOST_ROWS], [], []
    for place, name in enumerate(record.predictors[:_MOST_PREDICTORS]):
        scores = [scenario.results[name] for scenario in scenarios]
        ratios = spec.floats(result.ratio for result in scores)
        interval = spec.interval(ratios, [result.ratio_error for result in scores])
        columns.append(Series(name, _shift_look(name, place), ratios, **interval))
        failed.append(tuple(not result.survives for result in scores))
    lowest = min((ratio for one in columns for ratio in one.x if 0 < ratio < math.inf), default=1.0)
    panel = Comparison(
        "Loss divided by the loss of ridge regression that is told the shift, on "
        f"{spec.count_text(record.sequences)} sequences",
        tuple(_shift_name(scenario.spec) for scenario in scenarios),
        tuple(columns),
        tuple(failed),
        f"loss ÷ loss of ridge regression told the shift (trained on {prior_title(record.noise)})",
        (min(0.95, lowest / 1.06), _HIGHEST_RATIO),
    )
    hollow = Series("hollow: does not survive", Look(spec.GREY, (), "o"), points=True, hollow=True)
    legend = (*(Series(one.name, one.look, points=True) for one in columns), hollow)
    caption = (
        "▴ marks a method that does not survive the shift: its loss is more than a quarter above AdaRR’s, or "
        "comes from a few sequences only."
    )
    return spec.panels_figure([panel], (spec.WIDTH, 1.0 + 0.42 * len(scenarios)), legend=legend, caption=caption)


def _shift_name(shift: str) -> str:
    """A shift in words; one that is not known stays as it is written."""
    kind, _, value = shift.partition(":")
    share, _, factor = value.partition("x")
    return _SHIFTS[kind].format(share, factor) if kind in _SHIFTS and "+" not in shift else shift


def _shift_look(name: str, place: int) -> Look:
    """That of the method that a name such as "FULL 7" begins with, and always with a marker."""
    own = (method for method in METHODS.values() if name == method.label or name.startswith(f"{method.label} "))
    look = next((method.look for method in own), Look(spec.GREY))
    return look if look.marker else replace(look, marker=spec.MARKERS[place % len(spec.MARKERS)])
