"""Losses of models and baselines against layers and against the noise level: the paper's figures 1, 2, 3 and 6."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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
from ridgeformer.reproduction.table1 import Entry

UNIFORM = tuple(noise for noise in PRIORS if noise.startswith("uniform"))
CATEGORICAL = tuple(noise for noise in PRIORS if noise not in UNIFORM)
RIDGES = ("constrr", "adarr", "tunedrr")
PAPER = Series("hollow: as printed in the paper", Look(spec.GREY, (), "D"), points=True, hollow=True)
_ROUNDING = 1e-20  # losses below it are what float64 leaves of zero
_HEAD_MARKERS = {2: "D", 3: "v", 4: "P"}
_RANGE = (5e-4, 5.0)
"""Ends of the loss axis of profiles. Losses below it are those of noise-free contexts, which a method solves exactly. A
loss above it is worse than predicting zero, which costs d/2 = 5."""
_UNADJUSTED_HIGH = 5.5  # a little above the 5 that predicting zero costs
_TICK_STEPS = ((1, 0.5), (4, 1), (math.inf, 2))
"""Distances of ticks for noise levels up to these."""
_LAYERS_CAPTION = "Adjusted loss (log scale) against the number of layers, with 95 % intervals."
_PROFILE_CAPTION = (
    "Adjusted loss (log scale) against the noise level σ. The shaded levels are those of the training. A line that "
    "leaves its panel continues outside: point at it, or open “Numbers” below."
)


# --- loss against layers ---------------------------------------------------------------------------------------------


def figure_1(results: Results) -> Figure:
    """Adjusted loss against layers, one panel for each σmax, with the paper's numbers and the Bayes limit as floor."""
    notes = Notes()
    charts = [layer_chart(results, noise, notes) for noise in _with_models(results, UNIFORM, "uniform")]
    legend = (*spec.method_keys(charts), PAPER)
    size = (spec.WIDTH, 3.9)
    return spec.panels_figure(charts, size, 4, legend=legend, caption=_LAYERS_CAPTION, notes=notes.lines())


def _with_models(results: Results, noises: Sequence[str], what: str) -> Sequence[str]:
    """These priors, if Table 1 has a model for any of them."""
    if any(entry.trained and entry.noise in noises for entry in results.table1.entries):
        return noises
    raise results.nothing("table1", f"models for {what} noise")


def layer_chart(results: Results, noise: str, notes: Notes) -> Chart:
    """One prior: models as points with 95 % intervals, baselines as levels, the Bayes limit as a floor."""
    table, title, series = results.table1, prior_title(noise), []
    for method in KINDS:
        rows = {layers: entry for layers in LAYERS if (entry := table.entry(method, layers, noise)) is not None}
        if len(rows) < len(LAYERS):
            notes.add(title, " ".join([METHODS[method].label, *(str(k) for k in LAYERS if k not in rows)]))
        series += model_series(method, rows)
    axes = spec.layer_axis(LAYERS), Axis(spec.LOSS, log=True)
    limit = table.entry("bayes", None, noise)
    if limit is not None and limit.adjusted_loss < _ROUNDING:
        remark = "all ridge regressions\nand the Bayes limit: 0"
        return with_floor(Chart(title, *axes, tuple(series), remark=remark), None)
    for method in (*RIDGES, "bayes"):
        level, entry = baseline(results, method, noise), table.entry(method, None, noise)
        if level is None or entry is None:
            notes.add(title, METHODS[method].label)
        elif method in RIDGES:
            series.append(level)
            if entry.printed:  # as a mark at the right end
                mark = replace(level.look, marker="D")
                series.append(_hollow(level.name, mark, {LAYERS[-1] + 0.3: entry.printed}))
    return with_floor(Chart(title, *axes, tuple(series)), baseline(results, "bayes", noise))


def model_series(method: str, rows: Mapping[int, Entry], heads: int = 1, joined: bool = False) -> list[Series]:
    """Models of one kind by layers, and hollow markers where the paper has a number.

    Where a model is missing there is a gap, unless they are to be ``joined``.
    """
    if not rows:
        return []
    depths: Sequence[int] = sorted(rows) if joined else range(min(rows), max(rows) + 1)
    name, look = METHODS[method].label, METHODS[method].look
    keys: tuple[str, ...] = (name,)
    if heads > 1:
        keys = (name, f"{heads} heads")
        name, look = ", ".join(keys), replace(look, marker=_HEAD_MARKERS.get(heads, "h"))
    loss = [rows[depth].adjusted_loss if depth in rows else math.nan for depth in depths]
    interval = spec.interval(loss, [rows[depth].standard_error if depth in rows else math.nan for depth in depths])
    ours = spec.line(name, look, depths, loss, bars=True, points=heads > 1, keys=keys, **interval)
    printed = {depth: entry.printed for depth, entry in rows.items() if entry.printed}
    if not printed:
        return [ours]
    notes = tuple(f"paper: {printed[depth]:g}" if depth in printed else "" for depth in depths)
    return [_hollow(name, look, printed), replace(ours, note=notes)]


def _hollow(name: str, look: Look, printed: Mapping[float, float] | Mapping[int, float]) -> Series:
    """The numbers that the paper prints, as hollow markers."""
    keys = (name, PAPER.name)
    return spec.line(f"{name}, paper", look, printed, printed.values(), points=True, hollow=True, keys=keys)


def baseline(results: Results, method: str, noise: str) -> Series | None:
    """The level of a baseline; None if there is no Table 1, or it does not have it, or no axis can hold it."""
    try:
        entry = results.table1.entry(method, None, noise)
    except MissingRecordError:
        return None
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
    record, notes = results.profiles, Notes()
    first: list[Chart] = []
    for noise in _with_models(results, CATEGORICAL, "categorical"):
        title = f"{prior_title(noise)}, {spec.layers_text(DEPTH)}"
        first += layer_chart(results, noise, notes), profile_chart(record, noise, DEPTH, title, notes)
    rows = Row(tuple(first)), *(_depth_row(record, noise, notes) for noise in CATEGORICAL)
    legend, caption = (*spec.method_keys(first), PAPER), f"{_LAYERS_CAPTION} {_PROFILE_CAPTION}"
    return Figure((View("", rows),), (spec.WIDTH, 5.4), legend, caption, notes=notes.lines())


def figure_6(results: Results) -> Figure:
    """Loss against σ, without subtracting the oracle's, for models of seven layers and every σmax."""
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
        label, profile = METHODS[method].label, panel.find(method, layers if method in KINDS else None)
        if profile is None:
            notes.add(where, label)
            continue
        # At one level of σ it is not a limit: it is the best only on average over the levels of the prior.
        name = "Bayes predictor" if method == "bayes" else label
        values = profile.unadjusted if unadjusted else profile.adjusted
        interval = spec.interval(values, profile.standard_error) if method in KINDS and not unadjusted else {}
        look = METHODS[method].look
        series.append(Series(name, look, panel.levels, values, marked=whole, keys=(label,), **interval))
    highest = panel.levels[-1]
    step = next(step for most, step in _TICK_STEPS if highest <= most)
    x = Axis(spec.NOISE_LEVEL, (0, highest), ticks=spec.floats(np.arange(0, highest + 0.1, step)))
    return Chart(title, x, y, tuple(series), shades=spec.trained_on(noise))
