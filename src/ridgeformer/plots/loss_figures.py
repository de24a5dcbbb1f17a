"""Losses of models and baselines against layers and against the noise level: the paper's figures 1, 2, 3 and 6."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ridgeformer.core.distributions import prior_title
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.registry import Look
from ridgeformer.plots import specification as spec
from ridgeformer.plots.specification import Axis, Chart, Figure, Notes, Row, Series, View
from ridgeformer.reproduction.cells import DEPTH, EVERY_DEPTH, LAYERS, PRIORS, SEEDED_PRIOR
from ridgeformer.reproduction.records import METHODS, ProfilesRecord
from ridgeformer.reproduction.results import MissingRecordError, Results
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
    charts = [layer_chart(table, noise, notes) for noise in UNIFORM]
    legend = (*spec.method_keys(charts), PAPER)
    size = (spec.WIDTH, 3.9)
    return spec.panels_figure(charts, size, 4, legend=legend, caption=_LAYERS_CAPTION, notes=notes.lines())


def layer_chart(table: Table1, noise: str, notes: Notes) -> Chart:
    """One prior: models as points with 95 % intervals, baselines as levels, the Bayes limit as a floor."""
    title, series = prior_title(noise), []
    for method in KINDS:
        rows = {layers: entry for layers in LAYERS if (entry := table.entry(method, layers, noise)) is not None}
        if len(rows) < len(LAYERS):
            notes.add(title, " ".join([METHODS[method].label, *(str(k) for k in LAYERS if k not in rows)]))
        series += model_series(method, rows)
    limit = table.entry("bayes", None, noise)
    without_noise = limit is not None and limit.adjusted_loss < _ROUNDING
    for method in () if without_noise else (*RIDGES, "bayes"):
        level = baseline(table, method, noise)
        if level is None:
            notes.add(title, METHODS[method].label)
        elif method in RIDGES:
            series += [level, *_printed_level(table.entry(method, None, noise), level)]
    chart = Chart(title, spec.layer_axis(LAYERS), Axis(spec.LOSS, log=True), tuple(series))
    if without_noise:
        chart = replace(chart, remark="all ridge regressions\nand the Bayes limit: 0")
    return with_floor(chart, None if without_noise else baseline(table, "bayes", noise))


def model_series(method: str, rows: dict[int, Entry], heads: int = 1, joined: bool = False) -> list[Series]:
    """Models of one kind by layers, and hollow markers where the paper has a number.

    Where a model is missing there is a gap, unless they are to be ``joined``.
    """
    if not rows:
        return []
    depths: Sequence[int] = sorted(rows) if joined else range(min(rows), max(rows) + 1)
    name, look = METHODS[method].label, METHODS[method].look
    keys = (name,) if heads == 1 else (name, f"{heads} heads")
    if heads > 1:
        name, look = f"{name}, {heads} heads", replace(look, marker=_HEAD_MARKERS.get(heads, "h"))
    loss = spec.floats(rows[depth].adjusted_loss if depth in rows else math.nan for depth in depths)
    error = spec.floats(rows[depth].standard_error if depth in rows else math.nan for depth in depths)
    ours = Series(name, look, spec.floats(depths), loss, bars=True, points=heads > 1, keys=keys)
    ours = replace(ours, **spec.interval(loss, error))
    printed = {depth: entry.printed for depth, entry in rows.items() if entry.printed}
    if not printed:
        return [ours]
    notes = tuple(f"paper: {printed[depth]:g}" if depth in printed else "" for depth in depths)
    return [_hollow(name, look, printed.items()), replace(ours, note=notes)]


def _hollow(name: str, look: Look, points: Iterable[tuple[float, float]]) -> Series:
    """What the paper has printed."""
    x, y = map(spec.floats, zip(*points, strict=True))
    return Series(f"{name}, paper", look, x, y, points=True, hollow=True, keys=(name, PAPER.name))


def _printed_level(entry: Entry | None, level: Series) -> list[Series]:
    """The paper's number for a baseline, as a mark at the right end."""
    if entry is None or not entry.printed:
        return []
    return [_hollow(level.name, replace(level.look, marker="D"), [(LAYERS[-1] + 0.3, entry.printed)])]


def table_or_none(results: Results) -> Table1 | None:
    """Table 1, if it is there."""
    try:
        return results.table1
    except MissingRecordError:
        return None


def baseline(table: Table1 | None, method: str, noise: str) -> Series | None:
    """The level of a baseline; None if the table does not have it, or no axis can hold it."""
    entry = None if table is None else table.entry(method, None, noise)
    shown = entry is not None and spec.showable(entry.adjusted_loss)
    return spec.method_series(method, level=entry.adjusted_loss) if entry and shown else None


def with_floor(chart: Chart, floor: Series | None) -> Chart:
    """The chart with the Bayes limit as floor, and with limits of its loss axis that hold everything."""
    levels = (one.level or math.nan for one in (*chart.series, floor) if one)
    limits = spec.bounds((*levels, *(y for one in chart.series for y in one.y)))
    return replace(chart, y=replace(chart.y, limits=limits), floor=floor)


# --- loss against the noise level ------------------------------------------------------------------------------------


def figure_2(results: Results) -> Figure:
    """Loss against σ: models of seven layers for every σmax, and of 2 to 7 layers for σmax = 5."""
    record, notes = _uniform_profiles(results), Notes()
    charts = [profile_chart(record, noise, DEPTH, prior_title(noise), notes) for noise in UNIFORM]
    rows = Row(tuple(charts), spec.layers_text(DEPTH), 4), _depth_row(record, SEEDED_PRIOR, notes)
    legend = spec.method_keys(charts)
    return Figure((View("", rows),), (spec.WIDTH, 5.4), legend, _PROFILE_CAPTION, notes=notes.lines())


def figure_3(results: Results) -> Figure:
    """Loss against layers and profiles of seven layers for {1, 3} and {1, 3, 5}; below, profiles of 2 to 7 layers."""
    table, record, notes = results.table1, results.profiles, Notes()
    if not any(entry.trained and entry.noise in CATEGORICAL for entry in table.entries):
        raise results.nothing("table1", "models for categorical noise")
    first: list[Chart] = []
    for noise in CATEGORICAL:
        title = f"{prior_title(noise)}, {spec.layers_text(DEPTH)}"
        first += layer_chart(table, noise, notes), profile_chart(record, noise, DEPTH, title, notes)
    rows = Row(tuple(first)), *(_depth_row(record, noise, notes) for noise in CATEGORICAL)
    legend, caption = (*spec.method_keys(first), PAPER), f"{_LAYERS_CAPTION} {_PROFILE_CAPTION}"
    return Figure((View("", rows),), (spec.WIDTH, 5.4), legend, caption, notes=notes.lines())


def figure_6(results: Results) -> Figure:
    """Loss from which that of the oracle is not subtracted, against σ, for models of seven layers and every σmax."""
    record, notes = _uniform_profiles(results), Notes()
    charts = [profile_chart(record, noise, DEPTH, prior_title(noise), notes, unadjusted=True) for noise in UNIFORM]
    caption = "Loss (not adjusted) against the noise level σ; the shaded levels are those of the training."
    legend, size = spec.method_keys(charts), (spec.WIDTH, 3.7)
    return spec.panels_figure(charts, size, 4, legend=legend, caption=caption, notes=notes.lines())


def _uniform_profiles(results: Results) -> ProfilesRecord:
    record = results.profiles
    if not any(record.panel(noise) for noise in UNIFORM):
        raise results.nothing("profiles", "models for uniform noise")
    return record


def _depth_row(record: ProfilesRecord, noise: str, notes: Notes) -> Row:
    depths = (*EVERY_DEPTH, DEPTH)
    charts = (profile_chart(record, noise, depth, spec.layers_text(depth), notes) for depth in depths)
    return Row(tuple(charts), prior_title(noise))


def profile_chart(
    record: ProfilesRecord, noise: str, layers: int, title: str, notes: Notes, unadjusted: bool = False
) -> Chart:
    """All kinds of model of one depth, with 95 % intervals, and all baselines against σ, for one prior."""
    where = f"{prior_title(noise)} {layers} layers"
    y = Axis("loss", (0, _UNADJUSTED_HIGH)) if unadjusted else Axis(spec.LOSS, _RANGE, log=True)
    panel = record.panel(noise)
    if panel is None:
        notes.add(where, "everything")
        return Chart(title, Axis(spec.NOISE_LEVEL, (0, 1)), y, (), remark="no record")
    whole = tuple(place for place, level in enumerate(panel.levels) if level == int(level))
    series = []
    for method in ("bayes", *RIDGES, *KINDS):
        label, found = METHODS[method].label, panel.find(method, layers if method in KINDS else None)
        if found is None:
            notes.add(where, label)
            continue
        # At one level of σ it is no limit: it is the best on average over the levels of the prior.
        name = "Bayes predictor" if method == "bayes" else label
        values = found.unadjusted if unadjusted else found.adjusted
        one = spec.method_series(method, name=name, x=panel.levels, y=values, marked=whole, keys=(label,))
        has_interval = method in KINDS and not unadjusted
        series.append(replace(one, **spec.interval(values, found.standard_error)) if has_interval else one)
    highest = panel.levels[-1]
    step = next(step for most, step in _TICK_STEPS if highest <= most)
    x = Axis(spec.NOISE_LEVEL, (0, highest), ticks=spec.floats(np.arange(0, highest + 0.1, step)))
    return Chart(title, x, y, tuple(series), shades=spec.trained_on(noise))
