"""Losses of models and baselines against layers and against the noise level: the paper's figures 1, 2, 3 and 6."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ridgeformer.core.kinds import KINDS
from ridgeformer.core.registry import Look
from ridgeformer.plots import specification as spec
from ridgeformer.plots.specification import Axis, Chart, Figure, Notes, Row, Series, View
from ridgeformer.reproduction.cells import DEPTH, EVERY_DEPTH, LAYERS, PRIORS, SEEDED_PRIOR
from ridgeformer.reproduction.records import ProfilePanel, ProfilesRecord
from ridgeformer.reproduction.results import Results
from ridgeformer.reproduction.table1 import Entry, Table1

UNIFORM = tuple(noise for noise in PRIORS if noise.startswith("uniform"))
CATEGORICAL = tuple(noise for noise in PRIORS if noise not in UNIFORM)
RIDGES = ("constrr", "adarr", "tunedrr")
PAPER = Series("hollow: as printed in the paper", Look(spec.GREY, (), "D"), points=True, hollow=True)
_ROUNDING = 1e-20  # losses below it are what float64 leaves of zero
_HEAD_MARKERS = {2: "D", 3: "v", 4: "P"}
_RANGE = (5e-4, 5.0)
"""Ends of the loss axis of profiles. Below are noise-free contexts that a method solves exactly; above, predicting zero
would be better, which costs d/2 = 5."""
_UNADJUSTED_HIGH = 5.5  # a little above the 5 that predicting zero costs
_TICK_STEPS = ((1, 0.5), (4, 1), (math.inf, 2))
"""Distances of ticks for noise levels up to these."""
_DEPTHS = (*EVERY_DEPTH, DEPTH)
_LAYERS_CAPTION = "Adjusted loss (log scale) against the number of layers, with 95 % intervals."
_PROFILE_CAPTION = (
    "Adjusted loss (log scale) against the noise level σ; the shaded levels are those of the training. A line that "
    "leaves its panel goes on outside: point at it, or open the numbers."
)


# --- loss against layers ---------------------------------------------------------------------------------------------


def figure_1(results: Results) -> Figure:
    """Adjusted loss against layers, one panel for each σmax, with the paper's numbers and the Bayes limit as floor."""
    table, notes = results.table1, Notes()
    if not any(entry.trained and entry.noise in UNIFORM for entry in table.entries):
        raise results.nothing("table1", "models for uniform noise")
    charts = tuple(layer_chart(table, noise, notes) for noise in UNIFORM)
    view = View("", (Row(charts, columns=4),))
    return Figure((view,), (spec.WIDTH, 3.9), (*spec.method_keys(charts), PAPER), _LAYERS_CAPTION, notes=notes.lines())


def layer_chart(table: Table1, noise: str, notes: Notes) -> Chart:
    """One prior: models as points with 95 % intervals, baselines as levels, the Bayes limit as a floor."""
    title, series = spec.prior_title(noise), []
    for method in KINDS:
        rows = {layers: entry for layers in LAYERS if (entry := table.entry(method, layers, noise)) is not None}
        if len(rows) < len(LAYERS):
            gone = [str(layers) for layers in LAYERS if layers not in rows]
            notes.add(title, f"{METHODS[method].label} {' '.join(gone)}")
        series += model_series(method, rows)
    limit = table.entry("bayes", None, noise)
    if limit is not None and limit.adjusted_loss < _ROUNDING:
        remark = "all ridge regressions\nand the Bayes limit: 0"
    else:
        remark = ""
        series += _ridge_levels(table, noise, notes)
    return with_floor(
        Chart(title, spec.layer_axis(LAYERS), Axis(spec.LOSS, log=True), tuple(series), remark=remark), limit
    )


def model_series(method: str, rows: dict[int, Entry], heads: int = 1, joined: bool = False) -> list[Series]:
    """Models of one kind by layers, and hollow markers where the paper has a number.

    Where a model is missing there is a gap, unless they are to be ``joined``.
    """
    if not rows:
        return []
    name, look, keys = METHODS[method].label, METHODS[method].look, [METHODS[method].label]
    depths: Sequence[int] = sorted(rows) if joined else range(min(rows), max(rows) + 1)
    if heads > 1:
        keys.append(f"{heads} heads")
        name, look = f"{name}, {heads} heads", replace(look, marker=_HEAD_MARKERS.get(heads, "h"))
    loss = spec.floats(rows[depth].adjusted_loss if depth in rows else math.nan for depth in depths)
    error = spec.floats(rows[depth].standard_error if depth in rows else math.nan for depth in depths)
    printed = {depth: entry.printed for depth, entry in rows.items() if entry.printed}
    ours = Series(
        name,
        look,
        spec.floats(depths),
        loss,
        **spec.interval(loss, error),
        bars=True,
        points=heads > 1,
        keys=tuple(keys),
        note=tuple(f"paper: {printed[depth]:g}" if depth in printed else "" for depth in depths) if printed else "",
    )
    if not printed:
        return [ours]
    marks = spec.floats(printed), spec.floats(value or 0.0 for value in printed.values())
    return [Series(f"{name}, paper", look, *marks, points=True, hollow=True, keys=(name, PAPER.name)), ours]


def _ridge_levels(table: Table1, noise: str, notes: Notes) -> list[Series]:
    """The baselines, and the paper's numbers as a mark at the right end."""
    series = []
    for method in RIDGES:
        entry = table.entry(method, None, noise)
        if entry is None or not spec.showable(entry.adjusted_loss):
            notes.add(spec.prior_title(noise), METHODS[method].label)
            continue
        series.append(spec.method_series(method, level=entry.adjusted_loss))
        if entry.printed:
            look, name = replace(METHODS[method].look, marker="D"), METHODS[method].label
            mark = (LAYERS[-1] + 0.3,), (entry.printed,)
            series.append(Series(f"{name}, paper", look, *mark, points=True, hollow=True, keys=(name, PAPER.name)))
    if table.entry("bayes", None, noise) is None:
        notes.add(spec.prior_title(noise), METHODS["bayes"].label)
    return series


def with_floor(chart: Chart, limit: Entry | float | None = None) -> Chart:
    """The chart with limits of its loss axis, and with the Bayes limit as floor if an axis can hold it."""
    value = limit.adjusted_loss if isinstance(limit, Entry) else math.nan if limit is None else limit
    values = [*(y for one in chart.series for y in (*one.y, one.level or math.nan)), value]
    floor = spec.method_series("bayes", level=value) if spec.showable(value) and value >= _ROUNDING else None
    return replace(chart, y=replace(chart.y, limits=spec.bounds(values if floor else values[:-1])), floor=floor)


# --- loss against the noise level ------------------------------------------------------------------------------------


def figure_2(results: Results) -> Figure:
    """Loss against σ: models of seven layers for every σmax, and of 2 to 7 layers for σmax = 5."""
    record, notes = _uniform_profiles(results), Notes()
    by_noise = [profile_chart(record, noise, DEPTH, spec.prior_title(noise), notes) for noise in UNIFORM]
    rows = Row(tuple(by_noise), f"{DEPTH} layers", 4), _depth_row(record, SEEDED_PRIOR, notes)
    charts = [*by_noise, *rows[1].panels]
    return Figure((View("", rows),), (spec.WIDTH, 5.4), spec.method_keys(charts), _PROFILE_CAPTION, notes=notes.lines())


def figure_3(results: Results) -> Figure:
    """Loss against layers and profiles of seven layers for {1, 3} and {1, 3, 5}; below, profiles of 2 to 7 layers."""
    table, record, notes = results.table1, results.profiles, Notes()
    if not any(entry.trained and entry.noise in CATEGORICAL for entry in table.entries):
        raise results.nothing("table1", "models for categorical noise")
    first: list[Chart] = []
    for noise in CATEGORICAL:
        first.append(layer_chart(table, noise, notes))
        first.append(profile_chart(record, noise, DEPTH, f"{spec.prior_title(noise)}, {DEPTH} layers", notes))
    rows = Row(tuple(first)), *(_depth_row(record, noise, notes) for noise in CATEGORICAL)
    legend = (*spec.method_keys(first), PAPER)
    return Figure(
        (View("", rows),), (spec.WIDTH, 5.4), legend, f"{_LAYERS_CAPTION} {_PROFILE_CAPTION}", notes=notes.lines()
    )


def figure_6(results: Results) -> Figure:
    """Loss from which that of the oracle is not subtracted, against σ, for models of seven layers and every σmax."""
    record, notes = _uniform_profiles(results), Notes()
    charts = [profile_chart(record, noise, DEPTH, spec.prior_title(noise), notes, unadjusted=True) for noise in UNIFORM]
    caption = "Loss (not adjusted) against the noise level σ; the shaded levels are those of the training."
    view = View("", (Row(tuple(charts), columns=4),))
    return Figure((view,), (spec.WIDTH, 3.7), spec.method_keys(charts), caption, notes=notes.lines())


def _uniform_profiles(results: Results) -> ProfilesRecord:
    record = results.profiles
    if not any(record.panel(noise) for noise in UNIFORM):
        raise results.nothing("profiles", "models for uniform noise")
    return record


def _depth_row(record: ProfilesRecord, noise: str, notes: Notes) -> Row:
    charts = (profile_chart(record, noise, layers, f"{layers} layers", notes) for layers in _DEPTHS)
    return Row(tuple(charts), spec.prior_title(noise))


def profile_chart(
    record: ProfilesRecord, noise: str, layers: int, title: str, notes: Notes, unadjusted: bool = False
) -> Chart:
    """All kinds of model of one depth and all baselines against σ, for one prior."""
    where = f"{spec.prior_title(noise)} {layers} layers"
    y = Axis("loss", (0, _UNADJUSTED_HIGH)) if unadjusted else Axis(spec.LOSS, _RANGE, log=True)
    panel = record.panel(noise)
    if panel is None:
        notes.add(where, "everything")
        return Chart(title, Axis(spec.NOISE_LEVEL, (0, 1)), y, (), remark="no record")
    series = []
    for method in ("bayes", *RIDGES, *KINDS):
        one = _profile(panel, method, layers if method in KINDS else None, unadjusted)
        if one is None:
            notes.add(where, METHODS[method].label)
        else:
            series.append(one)
    highest = panel.levels[-1]
    step = next(step for most, step in _TICK_STEPS if highest <= most)
    x = Axis(spec.NOISE_LEVEL, (0, highest), ticks=spec.floats(np.arange(0, highest + 0.1, step)))
    return Chart(title, x, y, tuple(series), shades=spec.trained_on(noise))


def _profile(panel: ProfilePanel, method: str, layers: int | None, unadjusted: bool) -> Series | None:
    """One predictor, if it is there; models have 95 % intervals."""
    found = panel.find(method, layers)
    if found is None:
        return None
    values: Sequence[float] = found.unadjusted if unadjusted else found.adjusted
    whole = tuple(place for place, level in enumerate(panel.levels) if level == int(level))
    # At one level of σ it is no limit: it is the best on average over the levels of the prior.
    name = "Bayes predictor" if method == "bayes" else METHODS[method].label
    series = spec.method_series(
        method, name=name, x=panel.levels, y=tuple(values), marked=whole, keys=(METHODS[method].label,)
    )
    with_interval = method in KINDS and not unadjusted
    return replace(series, **spec.interval(values, found.standard_error)) if with_interval else series
