"""The shift table as a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from ridgeformer.core.notation import Array
from ridgeformer.evaluation.result import NORMAL_95
from ridgeformer.evaluation.shift_table import ShiftResult
from ridgeformer.plots.look import (
    LOOKS,
    Drawing,
    legend_below,
    literal,
    method_key,
    new_page,
    printed,
    prior_title,
)
from ridgeformer.reproduction.records.shift import ShiftScenario
from ridgeformer.reproduction.results import Results

_MARKERS = {"gdpp": "o", "diag": "s", "full": "^", "constrr": "v", "adarr": "D", "tunedrr": "P", "bayes": "X"}
_HIGHEST = 4.0  # the ratio at which the axis ends; what is beyond is named there
_MOST_ROWS, _MOST_PREDICTORS = 40, 12
_WORDS = {
    "none": "no shift",
    "examples": "{} examples instead of 20",
    "noise": "noise × {}",
    "sigma": "σ = {}",
    "kappa": "features of condition number {}",
    "student": "noise: Student's t, ν = {}",
    "scale": "weights × {}",
    "rows": "examples correlated by {}",
}


def figure_shift(results: Results) -> Drawing:
    """Loss over that of ridge regression that is told the shift; hollow where a predictor does not survive it."""
    record = results.shift
    if not record.scenarios or not record.predictors:
        raise results.nothing("shift", "scenarios")
    scenarios, predictors = record.scenarios[:_MOST_ROWS], record.predictors[:_MOST_PREDICTORS]
    with printed():
        figure = new_page(1.0 + 0.42 * len(scenarios))
        axis = figure.subplots()
        for row, scenario in enumerate(scenarios):
            if row % 2 == 0:
                axis.axhspan(row - 0.5, row + 0.5, color="#f4f4f4", linewidth=0, zorder=0)
            heights = row + 0.84 * ((np.arange(len(predictors)) + 0.5) / len(predictors) - 0.5)
            for name, height in zip(predictors, heights, strict=True):
                _mark(axis, name, scenario.results[name], float(height), row == 0)
            _say_how_far(axis, [scenario.results[name].ratio for name in predictors], heights)
        axis.axvline(1, color="black", linewidth=0.8)
        axis.set_yticks(range(len(scenarios)), [literal(_words(scenario)) for scenario in scenarios])
        axis.set_ylim(len(scenarios) - 0.5, -0.5)
        axis.set_xscale("log")
        lowest = min((r.ratio for s in scenarios for r in s.results.values() if 0 < r.ratio < math.inf), default=1.0)
        axis.set_xlim(min(0.95, lowest / 1.06), _HIGHEST * 1.6)
        axis.set_xticks([ratio for ratio in (0.7, 0.8, 1, 1.2, 1.5, 2, 3, 4) if ratio >= min(0.95, lowest / 1.06)])
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.grid(axis="y", visible=False)
        axis.set_xlabel(f"loss over that of ridge regression told the shift (trained on {prior_title(record.noise)})")
        hollow = Line2D(
            [], [], color="#555555", marker="o", fillstyle="none", linestyle="none", label="hollow: does not survive"
        )
        legend_below(figure, [*(_handle(name) for name in predictors), hollow], 4)
    return Drawing(figure)


def _words(scenario: ShiftScenario) -> str:
    kind, _, value = scenario.spec.partition(":")
    if kind == "outliers" and "x" in value and "+" not in value:
        share, _, factor = value.partition("x")
        return f"a share {share} of outliers × {factor}"
    return _WORDS[kind].format(value) if kind in _WORDS and "+" not in scenario.spec else scenario.spec


def _look(name: str) -> tuple[str, str]:
    method = method_key(name)
    return ("#555555", "h") if method is None else (LOOKS[method].colour, _MARKERS[method])


def _handle(name: str) -> Line2D:
    colour, marker = _look(name)
    return Line2D([], [], color=colour, marker=marker, linestyle="none", markersize=4, label=literal(name))


def _mark(axis: Axes, name: str, result: ShiftResult, row: float, labelled: bool) -> None:
    """A point with its 95 % interval; at the edge if it is beyond."""
    colour, marker = _look(name)
    beyond = not result.ratio <= _HIGHEST
    error = NORMAL_95 * result.ratio_error
    axis.errorbar(
        [_HIGHEST if beyond else result.ratio],
        [row],
        xerr=None if beyond or not math.isfinite(error) else [min(error, 0.9 * result.ratio)],
        color=colour,
        marker=marker,
        markersize=4,
        fillstyle="full" if result.survives else "none",
        linestyle="none",
        elinewidth=0.8,
        label=literal(name) if labelled else "_another row",
    )


def _say_how_far(axis: Axes, ratios: Sequence[float], heights: Array) -> None:
    """The ratios of all points of a scenario that are at the edge, behind them, from top to bottom."""
    beyond = [place for place, ratio in enumerate(ratios) if not ratio <= _HIGHEST]
    if not beyond:
        return
    texts = ("∞" if math.isinf(r) else f"{r:.0f}" if r < 1e4 else f"{r:.0e}" for r in (ratios[p] for p in beyond))
    at = _HIGHEST, float(np.mean(heights[beyond]))
    axis.annotate("→ " + ", ".join(texts), at, (5, 0), textcoords="offset points", va="center", fontsize=6.5)
