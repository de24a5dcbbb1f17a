"""Figures 1, 2, 3 and 6 as specifications: every panel and series is there, with the numbers of the record."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from made_up_results import figure_of, made_up, made_up_figure, named, write_results
from ridgeformer.core.kinds import KINDS
from ridgeformer.plots import FIGURES
from ridgeformer.reproduction.cells import LAYERS
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.reproduction.records import METHODS, ProfilesRecord
from ridgeformer.reproduction.results import MissingRecordError, read_results
from ridgeformer.reproduction.table1 import Table1

RIDGES = ("constrr", "adarr", "tunedrr")
LABELS = {METHODS[name].label for name in (*KINDS, *RIDGES)}
PAPER = {f"{label}, paper" for label in LABELS}


# --- loss against layers ----------------------------------------------------------------------------------------------


def test_figure_1_has_a_panel_for_each_noise_with_all_series() -> None:
    figure = made_up_figure("1")
    titles = ["no noise (σmax = 0)", *(f"σ ~ U(0, {high})" for high in range(1, 8))]
    assert [chart.title for chart in figure.panels] == titles
    for chart in figure.panels[1:]:
        assert set(named(chart)) == {*LABELS, *PAPER, "Bayes limit"}
    silent = {METHODS[name].label for name in KINDS}
    assert set(named(figure.panels[0])) == {*silent, *(f"{label}, paper" for label in silent)}
    assert [key.name for key in figure.legend] == [
        *(METHODS[name].label for name in (*KINDS, *RIDGES, "bayes")),
        "hollow: as printed in the paper",
    ]
    assert figure.notes == ()


def test_figure_1_has_the_numbers_of_the_record_and_the_paper_with_95_percent_bars() -> None:
    table: Table1 = made_up("table1")
    chart: Any = made_up_figure("1").panels[5]
    series = named(chart)
    for kind in KINDS:
        entries: Any = [table.entry(kind, layers, "uniform:5") for layers in LAYERS]
        label = KINDS[kind].label
        ours, paper = series[label], series[f"{label}, paper"]
        assert (ours.x, ours.y) == (LAYERS, tuple(entry.adjusted_loss for entry in entries))
        assert ours.high == pytest.approx([e.adjusted_loss + 1.96 * e.standard_error for e in entries], 1e-4)
        assert paper.y == tuple(printed_loss(kind, depth, "uniform:5") for depth in LAYERS)
        assert paper.keys == (label, "hollow: as printed in the paper")
    for name in RIDGES:
        entry: Any = table.entry(name, None, "uniform:5")
        assert series[METHODS[name].label].level == entry.adjusted_loss
        assert series[f"{METHODS[name].label}, paper"].y == (printed_loss(name, None, "uniform:5"),)
    assert chart.floor.level == 0.01
    assert chart.y.limits[0] < 0.01
    assert chart.y.limits[1] > 0.9


def test_figure_1_has_a_gap_where_a_model_is_missing_and_names_it() -> None:
    table: Table1 = made_up("table1")
    kept = tuple(e for e in table.entries if (e.method, e.layers, e.noise) != ("full", 4, "uniform:5"))
    figure = figure_of("1", table1=replace(table, entries=kept))
    assert figure.notes == ("Missing: FULL 4 in σ ~ U(0, 5).",)
    assert [math.isnan(y) for y in named(figure.panels[5])["FULL"].y] == [False] * 3 + [True] + [False] * 3


# --- loss against the noise level -------------------------------------------------------------------------------------


def test_figure_2_has_every_noise_and_every_depth_with_the_numbers_of_the_record() -> None:
    record: ProfilesRecord = made_up("profiles")
    by_noise, by_depth = made_up_figure("2").views[0].rows
    assert len(by_noise.panels) == 8
    assert [chart.title for chart in by_depth.panels] == [f"{depth} layers" for depth in range(2, 8)]
    for chart, noise, depth in ((by_noise.panels[3], "uniform:3", 7), (by_depth.panels[2], "uniform:5", 4)):
        panel: Any = record.panel(noise)
        assert set(named(chart)) == {*LABELS, "Bayes predictor"}
        for kind in KINDS:
            series = named(chart)[KINDS[kind].label]
            assert (series.x, series.y) == (panel.levels, panel.find(kind, depth).adjusted)


def test_figures_2_and_3_shade_the_noise_of_the_training() -> None:
    for high, chart in enumerate(made_up_figure("2").views[0].rows[0].panels):
        assert chart.shades == ((0, high),)  # type: ignore[union-attr]
        assert chart.x.limits == (0, high + 1)  # type: ignore[union-attr]
    levels: Any = made_up_figure("3").panels[3]
    assert levels.shades == ((1, 1), (3, 3), (5, 5))


def test_figure_2_clips_the_axis_and_not_the_data_of_exploding_models() -> None:
    record: ProfilesRecord = made_up("profiles")
    panels = [
        replace(p, series=tuple(replace(s, adjusted=(*s.adjusted[:-2], 1e10, math.inf)) for s in p.series))
        for p in record.panels
    ]
    figure = figure_of("2", profiles=replace(record, panels=tuple(panels)))
    assert named(figure.panels[5])["FULL"].y[-2:] == (1e10, math.inf)
    assert {chart.y.limits for chart in figure.panels} == {(5e-4, 5.0)}  # type: ignore[union-attr]


def test_figure_3_has_layers_profiles_and_depths_for_both_priors() -> None:
    first, *depths = made_up_figure("3").views[0].rows
    for place, noise in enumerate(("categorical:1+3", "categorical:1+3+5")):
        layers, seven = first.panels[2 * place : 2 * place + 2]
        assert set(named(layers)) == {*LABELS, *PAPER, "Bayes limit"}
        assert named(layers)["FULL, paper"].y == tuple(printed_loss("full", depth, noise) for depth in LAYERS)
        panel = made_up("profiles").panel(noise)
        assert named(seven)["FULL"].y == panel.find("full", 7).adjusted
        for depth, chart in zip(range(2, 8), depths[place].panels, strict=True):
            assert named(chart)["GD++"].y == panel.find("gdpp", depth).adjusted


def test_figure_6_has_unadjusted_losses_from_zero() -> None:
    panels: Any = made_up_figure("6").panels
    for high, chart in enumerate(panels):
        panel = made_up("profiles").panel(f"uniform:{high}")
        assert named(chart)["FULL"].y == panel.find("full", 7).unadjusted
        assert (chart.y.log, chart.y.limits[0], chart.y.label) == (False, 0, "loss")


def test_profiles_without_a_prior_leave_its_panel_empty_and_say_so() -> None:
    record: ProfilesRecord = made_up("profiles")
    cut = replace(record, panels=tuple(panel for panel in record.panels if panel.noise != "uniform:6"))
    for name in ("2", "6"):
        figure = figure_of(name, profiles=cut)
        assert figure.notes == ("Missing: everything in σ ~ U(0, 6) 7 layers.",)
        assert figure.panels[6].remark == "no record"  # type: ignore[union-attr]


# --- nothing to draw --------------------------------------------------------------------------------------------------

EMPTY = {
    "table1": {"record": "table1", "sequences": 2, "seed": 0, "entries": []},
    "profiles": {"record": "profiles", "sequences": 2, "seed": 0, "panels": []},
    "weights": {"record": "weights", "models": []},
    "readouts": made_up("readouts").as_json() | {"models": []},
    "training": {"record": "training", "curves": []},
    "shift": made_up("shift").as_json() | {"predictors": [], "scenarios": []},
}


@pytest.mark.parametrize("name", FIGURES)
def test_figure_with_nothing_to_show_names_the_command_that_makes_its_record(name: str, tmp_path: Path) -> None:
    record = FIGURES[name].needs[0]
    found = read_results(write_results(tmp_path / "r", **{record: EMPTY[record]}))
    with pytest.raises(MissingRecordError) as caught:
        FIGURES[name].build(found)
    train = "--train " if record == "training" else ""
    assert str(caught.value).endswith(f"make it again with: ridgeformer reproduce {train}--out {tmp_path / 'r'}")
    assert f"{record}.json has no " in str(caught.value)
    (tmp_path / "r" / f"{record}.json").unlink()
    with pytest.raises(MissingRecordError, match=rf"There is no {record}\.json in .*; make it with: ridgeformer"):
        FIGURES[name].build(read_results(tmp_path / "r"))


def test_methods_differ_in_colour_and_in_grey() -> None:
    """In grey only dashes and markers are left."""
    looks = [METHODS[name].look for name in (*KINDS, *RIDGES, "bayes")]
    assert len({look.colour for look in looks}) == len(looks)
    assert len({(look.dashes, look.marker) for look in looks}) == len(looks)
