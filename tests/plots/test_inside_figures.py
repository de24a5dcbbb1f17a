"""Figures 4, 5 and 7 and the page's first picture as specifications."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_up_results import figure_of, made_up, made_up_figure, write_results
from ridgeformer.core.kinds import KINDS
from ridgeformer.plots.inside_figures import one_model
from ridgeformer.plots.specification import geometric
from ridgeformer.reproduction.cells import LAYERS
from ridgeformer.reproduction.records import ReadoutsRecord
from ridgeformer.reproduction.results import read_results


def test_figure_4_has_q_and_p_of_four_layers_of_every_model_on_one_scale() -> None:
    figure, record = made_up_figure("4"), made_up("weights")
    assert [view.name for view in figure.views] == [model.name for model in record.models]
    for view, model in zip(figure.views, record.models, strict=True):
        panels: Any = [panel for row in view.rows for panel in row.panels]
        assert [panel.title for panel in panels] == [f"{name}, layer {k}" for name in "QP" for k in range(1, 5)]
        assert len({panel.largest for panel in panels}) == 1
        for panel, matrix in zip(panels, np.concatenate([model.Q, model.P])[:, 0], strict=True):
            assert np.array_equal(np.array(panel.matrix), matrix)
            assert np.array_equal(np.array(panel.texts) == "+", matrix > 0.1 * panel.largest)
    assert figure.single


def test_figure_4_of_another_model_says_so() -> None:
    values = made_up("weights").as_json()
    del values["models"][0]
    assert figure_of("4", weights=values).notes == (
        "full-4-categorical-1+3 is missing; this is full-4-categorical-1+3+5.",
    )


def test_figure_5_has_every_depth_of_every_kind_with_bars_over_seeds() -> None:
    figure, record = made_up_figure("5"), made_up("readouts")
    for chart, kind in zip(figure.panels, KINDS, strict=True):
        series: Any = chart.series  # type: ignore[union-attr]
        assert [one.name for one in series] == ["1 layer", *(f"{depth} layers" for depth in LAYERS[1:])]
        for depth, one in zip(LAYERS, series, strict=True):
            logs = np.log([model.adjusted for model in record.of(kind, depth)])
            assert one.x == tuple(range(1, depth + 1))
            assert one.y == pytest.approx(np.exp(logs.mean(axis=0)))
            assert np.log(one.high) - np.log(one.low) == pytest.approx(2 * logs.std(axis=0, ddof=1))
            assert one.bars
        assert chart.floor.level == 0.01  # type: ignore[union-attr]
    assert "Geometric means of 5 seeds" in figure.notes[-1]


def test_figure_7_has_every_layer_of_every_depth_with_bands_over_seeds() -> None:
    figure, record = made_up_figure("7"), made_up("readouts")
    assert [view.name for view in figure.views] == ["GD++", "DIAG", "FULL"]
    for view, kind in zip(figure.views, KINDS, strict=True):
        for depth, chart in zip(range(2, 9), view.rows[0].panels, strict=True):
            series: Any = chart.series  # type: ignore[union-attr]
            assert chart.title == f"{depth} layers"
            assert [one.name for one in series] == [f"after layer {layer}" for layer in range(1, depth + 1)]
            rows = [model.profile[depth - 1] for model in record.of(kind, depth)]
            assert series[-1].x == record.levels
            assert series[-1].y == pytest.approx(np.exp(np.mean(np.log(rows), axis=0)))
            assert not series[-1].bars


def test_readouts_of_one_seed_have_no_spread_and_missing_depths_are_named() -> None:
    record: ReadoutsRecord = made_up("readouts")
    models = tuple(m for m in record.models if m.seed == 0 and (m.method, m.layers) != ("full", 6))
    for name in ("5", "7"):
        figure = figure_of(name, readouts=replace(record, models=models))
        assert all(one.low == () for chart in figure.panels for one in chart.series)  # type: ignore[union-attr]
        assert figure.notes[0] == "Missing: FULL in 6 layers."


def test_first_picture_of_the_page_is_one_model_read_out_after_each_of_its_layers(tmp_path: Path) -> None:
    record: ReadoutsRecord = made_up("readouts")
    (chart,) = one_model(read_results(write_results(tmp_path))).panels
    own, *levels = chart.series  # type: ignore[union-attr]
    (model,) = [m for m in record.models if (m.method, m.layers, m.seed) == ("full", 7, 0)]
    assert (own.name, own.x, own.y) == ("FULL 7", tuple(range(1, 8)), model.adjusted)
    assert all(one.level is not None for one in levels)
    assert "One model, FULL 7, read out after each of its layers" in chart.title


def test_geometric_mean_leaves_out_seeds_that_are_not_finite() -> None:
    middle, low, high = geometric([[1.0, math.inf, math.inf], [4.0, 3.0, math.inf]])
    assert middle[:2] == pytest.approx([2.0, 3.0])
    assert high[0] / low[0] == pytest.approx(math.exp(2 * np.std(np.log([1, 4]), ddof=1)))
    assert high[1] == low[1] == pytest.approx(3.0)
    assert np.isnan(middle[2])
