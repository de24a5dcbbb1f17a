"""Curves as figures: a line for each predictor that is there, gaps where there is nothing to show."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import ridgeformer as rf
from ridgeformer.plots.curve_figures import curve_figure
from ridgeformer.plots.render import save_figure
from ridgeformer.plots.specification import Chart


def test_curve_becomes_lines_with_intervals_and_looks_of_the_registry(tmp_path: Path) -> None:
    chosen = {"mine": rf.baselines.OLS(), "AdaRR": rf.baselines.AdaRR()}
    curve = rf.curve(chosen, rf.Task(3, 8), "kappa", [1, 10], sequences=100)
    figure = curve_figure(curve)
    (chart,) = figure.panels
    assert isinstance(chart, Chart)
    assert [series.name for series in chart.series] == ["mine", "AdaRR"]
    assert chart.series[1].look == rf.baselines.BASELINES["adarr"].look
    assert chart.x.log
    assert chart.series[0].y == tuple(one.adjusted_loss for one in curve.evaluations["mine"] if one is not None)
    assert chart.series[0].low[0] < chart.series[0].y[0] < chart.series[0].high[0]
    assert len(save_figure(figure, tmp_path, "curve", ("svg",))) == 1


def test_missing_points_are_left_out_and_infinite_ones_are_gaps() -> None:
    curve = rf.curve({"mine": rf.baselines.OLS()}, rf.Task(3, 8), "sigma", [1, 2, 3], sequences=50)
    first, second, third = curve.evaluations["mine"]
    assert second is not None
    broken = replace(curve, evaluations={"mine": (first, replace(second, adjusted_loss=math.inf), None)})
    (chart,) = curve_figure(broken, plain=False).panels
    assert isinstance(chart, Chart)
    assert chart.series[0].x == (1.0, 2.0)
    assert math.isnan(chart.series[0].y[1])
    assert third is not None
