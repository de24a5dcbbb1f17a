"""Our figures beside the paper's, as specifications."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from made_up_results import PREDICTORS, figure_of, made_up, made_up_figure, named
from ridgeformer.core.distributions import prior_title
from ridgeformer.core.kinds import KINDS
from ridgeformer.plots.specification import Comparison
from ridgeformer.reproduction.cells import BEYOND_PRIORS, LAYERS, PRIORS
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.reproduction.records import TrainingRecord
from ridgeformer.reproduction.results import MissingRecordError
from ridgeformer.reproduction.table1 import Table1


def test_bayes_figure_has_every_prior_with_a_limit_for_every_kind() -> None:
    figure, table = made_up_figure("bayes"), made_up("table1")
    noises = [noise for noise in PRIORS if noise != "uniform:0"]
    assert figure.notes == ()
    for chart, kind in zip(figure.panels, KINDS, strict=True):
        assert list(named(chart)) == [prior_title(noise) for noise in noises]
        for noise in noises:
            one = named(chart)[prior_title(noise)]
            assert {*LAYERS} <= {*one.x}
            expected = [table.entry(kind, int(layers), noise).adjusted_loss / 0.01 - 1 for layers in one.x]
            assert one.y == pytest.approx(expected, rel=1e-4)


def test_depth_figure_has_deep_models_and_heads_of_every_prior_above_the_limit() -> None:
    figure, table = made_up_figure("depth"), made_up("table1")
    assert [chart.title for chart in figure.panels] == [prior_title(noise) for noise in BEYOND_PRIORS]
    for chart, noise in zip(figure.panels, BEYOND_PRIORS, strict=True):
        series = named(chart)
        ours = {f"{kind}{more}" for kind in ("DIAG", "FULL") for more in ("", ", paper", ", 2 heads", ", 4 heads")}
        assert {*series} == {*ours, "Bayes limit"}
        assert series["FULL"].x == (3, 4, 5, 6, 7, 8, 10, 12)
        assert series["FULL, 2 heads"].x == (7, 12)
        assert series["FULL, 2 heads"].y[-1] == table.entry("full", 12, noise, 2).adjusted_loss
        assert series["DIAG, paper"].y == tuple(printed_loss("diag", depth, noise) for depth in range(3, 8))
    assert {"2 heads", "4 heads"} <= {key.name for key in figure.legend}


@pytest.mark.parametrize("name", ["bayes", "depth"])
def test_models_with_registers_change_no_figure(name: str) -> None:
    table: Table1 = made_up("table1")
    wide = tuple(
        replace(e, registers=2, adjusted_loss=9.0, bayes_ratio=9.0) for e in table.entries if e.method == "diag"
    )
    assert figure_of(name, table1=replace(table, entries=(*table.entries, *wide))) == made_up_figure(name)


def test_depth_figure_draws_what_is_there() -> None:
    table: Table1 = made_up("table1")
    kept = tuple(
        e for e in table.entries if e.heads == 1 and ((e.layers or 0) <= 7 or (e.layers, e.noise) == (8, "uniform:5"))
    )
    (chart,) = figure_of("depth", table1=replace(table, entries=kept)).panels
    assert {*named(chart)} == {"DIAG", "FULL", "DIAG, paper", "FULL, paper", "Bayes limit"}
    none = tuple(e for e in kept if (e.layers or 0) <= 7)
    with pytest.raises(MissingRecordError, match="no models of more than 7 layers or of several heads"):
        figure_of("depth", table1=replace(table, entries=none))


def test_training_figure_has_best_so_far_end_printed_value_and_limit_of_every_model() -> None:
    figure, record = made_up_figure("training"), made_up("training")
    assert [chart.title for chart in figure.panels] == ["1 layer", *(f"{k} layers" for k in range(2, 9))]
    for depth, chart in enumerate(figure.panels, 1):
        series: Any = named(chart)
        for kind in KINDS:
            name = KINDS[kind].label
            assert series[name].x == (0.5, 1.0, 2.0, 4.0)  # where it falls: never above an earlier stage
            assert series[name].y == (2.0, 0.5, 0.4, 0.2)
            finished = series[f"{name}, finished"]
            assert (finished.x, finished.y) == ((5.0,), (record.find(kind, depth, "uniform:5").final,))
            aim = printed_loss(kind, depth, "uniform:5")
            assert (series[f"{name}, paper"].level if aim else aim) == aim
        assert series["Bayes limit"].level == 0.01
        faint = [one for one in chart.series if one.faint]  # type: ignore[union-attr]
        assert len(faint) == 2 * len(KINDS)


def test_training_figure_draws_only_the_panels_that_it_has_runs_of() -> None:
    """After a live training of one model there is one panel, not eight of which seven are empty."""
    record: TrainingRecord = made_up("training")
    (run,) = [curve for curve in record.curves if (curve.method, curve.layers) == ("diag", 4)]
    figure = figure_of("training", "table1", training=TrainingRecord((run,)))
    (chart,) = figure.panels
    assert chart.title == "4 layers"
    assert {*named(chart)} == {"DIAG", "DIAG, start 1", "DIAG, start 2", "DIAG, finished", "DIAG, paper"}
    assert figure.size[0] < 4


def test_shift_figure_has_every_predictor_in_every_scenario() -> None:
    record = made_up("shift")
    (table,) = made_up_figure("shift").panels
    assert isinstance(table, Comparison)
    assert tuple(one.name for one in table.columns) == PREDICTORS
    assert table.rows[:2] == ("no shift", "40 examples instead of 20")
    assert "outliers: noise × 10 with probability 0.05" in table.rows
    for name, column, failed in zip(PREDICTORS, table.columns, table.failed, strict=True):
        expected = [scenario.results[name] for scenario in record.scenarios]
        assert column.x == tuple(result.ratio for result in expected)
        assert failed == tuple(not result.survives for result in expected)
        assert column.look.marker
    assert len({one.look.marker for one in table.columns}) == len(PREDICTORS)


def test_shift_figure_keeps_infinite_ratios() -> None:
    values = made_up("shift").as_json()
    values["scenarios"][0]["results"]["DIAG 7"] |= {"ratio": None, "ratio_error": None}
    (table,) = figure_of("shift", shift=values).panels
    assert isinstance(table, Comparison)
    assert table.columns[1].x[0] == math.inf
    assert math.isnan(table.columns[1].low[0])
