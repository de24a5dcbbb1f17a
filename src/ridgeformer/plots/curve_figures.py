"""Curves over one number of the task: a line for each predictor, with 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ridgeformer.baselines import BASELINES, SOLVERS
from ridgeformer.core.registry import Look
from ridgeformer.evaluation.curve import Curve
from ridgeformer.evaluation.statistics import Evaluation
from ridgeformer.plots import specification as spec
from ridgeformer.plots.specification import Axis, Chart, Figure, Series

_HIGHEST = 1e3
"""Times the lowest loss: lines that leave the panel at the top have exploded, and would flatten the others."""


def curve_figure(curve: Curve, plain: bool = False) -> Figure:
    """One panel; ``plain`` shows losses instead of adjusted losses."""
    looks = {entry.label: entry.look for entry in BASELINES.values()} | {s.name: s.look for s in SOLVERS}
    series, place = [], 0
    for name, row in curve.evaluations.items():
        look = looks.get(name)
        if look is None:
            look, place = spec.in_turn(place), place + 1
        series.append(_series(name, look, curve, row, plain))
    values = [y for one in series for y in one.y if spec.showable(y)]
    low, high = spec.bounds(values)
    limits = (low, min(high, low * _HIGHEST))
    ends = (min(curve.values), max(curve.values))
    if ends[0] == ends[1]:
        ends = (ends[0] * 0.9 - 0.1, ends[1] * 1.1 + 0.1)
    axis = Axis(curve.label, ends, log=curve.log and ends[0] > 0, whole=curve.over == "layers")
    label = "loss" if plain else spec.LOSS
    chart = Chart(curve.task.setting, axis, Axis(label, limits, log=True), tuple(series))
    caption = f"{label.capitalize()} (log scale) against {curve.label}, with 95 % intervals."
    return spec.panels_figure([chart], (5.6, 3.4), caption=caption)


def _series(name: str, look: Look, curve: Curve, row: Sequence[Evaluation | None], plain: bool) -> Series:
    """Points that are there; what is not finite is a gap."""
    xs, ys, errors = [], [], []
    for value, one in zip(curve.values, row, strict=True):
        if one is None:
            continue
        y, error = (one.loss, one.loss_error) if plain else (one.adjusted_loss, one.standard_error)
        xs.append(float(value))
        ys.append(y if math.isfinite(y) and y > 0 else math.nan)
        errors.append(error if math.isfinite(error) else math.nan)
    return spec.line(name, look, xs, ys, **spec.interval(ys, errors))
