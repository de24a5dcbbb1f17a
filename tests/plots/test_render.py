"""Specifications drawn by Matplotlib: files, formats, what is passed over and what is refused, and what is on paper."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from made_up_results import RECORDS, figure_of, made_up, made_up_figure, write_results
from ridgeformer.core.registry import Look
from ridgeformer.core.validation import InputError
from ridgeformer.plots import FIGURES, as_json
from ridgeformer.plots.render import FORMATS, draw_all, render, save_figure
from ridgeformer.plots.specification import Axis, Chart, HeatMap, Series, in_order, panels_figure
from ridgeformer.reproduction.records import ProfilesRecord, TrainingRecord
from ridgeformer.reproduction.results import MissingRecordError, read_results
from ridgeformer.reproduction.table1 import Table1
from support import refusal

STARTS = {".pdf": b"%PDF", ".svg": b"<?xml", ".png": b"\x89PNG"}


# --- files ------------------------------------------------------------------------------------------------------------


def test_figures_are_written_in_every_format_and_the_same_bytes_for_the_same_records_only(tmp_path: Path) -> None:
    results = read_results(write_results(tmp_path / "r"))
    begun: list[str] = []
    (first,) = draw_all(results, tmp_path / "a", FORMATS, ["shift"], begun.append)
    (second,) = draw_all(read_results(tmp_path / "r"), tmp_path / "b", FORMATS, ["shift"])
    assert begun == ["shift"] == [first.name]
    assert [path.name for path in first.paths] == [f"figure-shift.{suffix}" for suffix in FORMATS]
    for path, again in zip(first.paths, second.paths, strict=True):
        assert path.read_bytes().startswith(STARTS[path.suffix])
        assert path.read_bytes() == again.read_bytes()
    values = made_up("shift").as_json()
    values["scenarios"][0]["results"]["AdaRR"]["ratio"] = 1.01
    save_figure(figure_of("shift", shift=values), tmp_path, "other", ["svg"])
    assert (tmp_path / "other.svg").read_bytes() != (tmp_path / "a" / "figure-shift.svg").read_bytes()


def test_figures_without_a_record_are_passed_over_with_the_command_that_makes_it(tmp_path: Path) -> None:
    results = read_results(write_results(tmp_path / "r", *(record for record in RECORDS if record != "shift")))
    written = {one.name: one for one in draw_all(results, tmp_path / "out", ("svg",))}
    assert list(written) == list(FIGURES)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["figure-shift.svg"]
    for name, one in written.items():
        assert (one.paths == ()) == (name != "shift")
        assert name == "shift" or "make it with: ridgeformer reproduce" in one.notes[0]
    with pytest.raises(MissingRecordError, match=r"There is no training\.json"):
        draw_all(results, tmp_path / "out", ("svg",), ["training"])  # asked for by name
    (tmp_path / "empty").mkdir()
    with pytest.raises(MissingRecordError, match=r"There is no table1\.json"):
        draw_all(read_results(tmp_path / "empty"), tmp_path / "out", ("svg",))


@pytest.mark.parametrize(
    ("formats", "names", "sentence"),
    [
        (("gif",), None, "format must be one of"),
        (("svg",), ["8"], "figure must be one of"),
        (("svg",), ["trainin"], "Did you mean 'training'?"),
        ((), None, "Name at least one format"),
    ],
)
def test_unknown_formats_and_figures_are_one_sentence_before_anything_is_written(
    formats: tuple[str, ...], names: list[str] | None, sentence: str, tmp_path: Path
) -> None:
    results = read_results(write_results(tmp_path / "r"))
    with refusal(re.escape(sentence)):
        draw_all(results, tmp_path / "out", formats, names)
    assert not (tmp_path / "out").exists()
    with refusal("format must be one of svg, png, pdf"):
        save_figure(made_up_figure("4"), tmp_path, "x", ("gif",))


def test_damaged_record_and_file_in_the_way_of_the_folder_are_one_sentence(tmp_path: Path) -> None:
    results = read_results(write_results(tmp_path / "r"))
    (tmp_path / "r" / "table1.json").write_text("{")
    with pytest.raises(InputError, match="is cut off or is not JSON"):
        draw_all(results, tmp_path / "out", ("svg",))
    with refusal(r"Cannot write .*table1\.json.out: "):
        draw_all(results, tmp_path / "r" / "table1.json" / "out", ("svg",), ["shift"])


# --- one specification, two renderers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_json_with_limits_that_both_renderers_need(name: str) -> None:
    figure = made_up_figure(name)
    values = json.loads(json.dumps(as_json(figure), allow_nan=False))
    assert len(values["views"]) == len(figure.views)
    for chart in (panel for panel in figure.panels if isinstance(panel, Chart)):
        assert chart.x.limits is not None
        assert chart.y.limits is not None
        assert all(len(one.x) == len(one.y) and bool(one.x) == (one.level is None) for one in chart.series)
        used = {key for one in chart.series for key in one.keys or (one.name,)}
        assert used <= {key.name for key in figure.legend}


def test_json_leaves_out_defaults_and_holds_gaps_and_infinities() -> None:
    series = Series("a", Look("#000000"), (1.0, 2.0, 3.0), (1 / 3, math.nan, math.inf))
    assert as_json(series) == {"name": "a", "look": {"colour": "#000000"}, "x": [1, 2, 3], "y": [0.333333, None, 1e308]}


def lines_of(axes: Any) -> dict[str, tuple[list[float], list[float]]]:
    """x and y of all lines that have a label."""
    drawn = {line.get_label(): line for line in axes.get_lines()}
    drawn |= {box.get_label(): box.lines[0] for box in axes.containers}
    return {name: (list(line.get_xdata()), list(line.get_ydata())) for name, line in drawn.items()}


@pytest.mark.parametrize("name", ["1", "2", "5", "training"])
def test_drawn_panels_have_the_titles_scales_and_numbers_of_the_specification(name: str) -> None:
    figure = made_up_figure(name)
    for axes, chart in zip(render(figure).axes, figure.panels, strict=True):
        assert isinstance(chart, Chart)
        assert axes.get_title() == chart.title
        assert (axes.get_xscale() == "log", axes.get_yscale() == "log") == (chart.x.log, chart.y.log)
        assert axes.get_ylim() == chart.y.limits
        for one in chart.series:
            if one.level is None and not one.faint:
                x, y = lines_of(axes)[one.name]
                assert x == list(one.x)
                assert y == pytest.approx(list(one.y))


def test_drawn_views_stand_beside_or_below_each_other_under_one_legend() -> None:
    five, seven = render(made_up_figure("5")), render(made_up_figure("7"))
    assert [axes.get_ylabel() for axes in five.axes] == ["adjusted loss", "", ""]
    labels = [axes.get_ylabel() for axes in seven.axes]
    assert labels == [f"{kind}\nadjusted loss" if k == 0 else "" for kind in ("GD++", "DIAG", "FULL") for k in range(7)]
    assert [axes.get_title() for axes in seven.axes] == [*(f"{k} layers" for k in range(2, 9)), *[""] * 14]
    texts = [text.get_text() for text in seven.legends[0].get_texts()]
    assert sorted(texts) == [f"after layer {layer}" for layer in range(1, 9)]
    assert len([axes for axes in render(made_up_figure("4")).axes if axes.get_images()]) == 8  # the first model only


def test_points_beyond_the_edge_of_a_comparison_are_named_there() -> None:
    values = made_up("shift").as_json()
    first = values["scenarios"][0]["results"]
    first["DIAG 7"] |= {"ratio": None, "ratio_error": None}
    first["FULL 7"] |= {"ratio": 589.0}
    figure = figure_of("shift", shift=values)
    (axes,) = render(figure).axes
    assert [text.get_text() for text in axes.texts] == ["→ ∞, 589"]
    fills = [box.lines[0].get_fillstyle() for box in axes.containers]  # type: ignore[attr-defined]
    failed = [bad for column in figure.panels[0].failed for bad in column]  # type: ignore[union-attr]
    assert fills == ["none" if bad else "full" for bad in failed]


def test_colours_in_order_darken_in_grey() -> None:
    series = [Series(str(place), in_order(place, 7), (0.0, 1.0), (0.0, 1.0)) for place in range(1, 8)]
    (axes,) = render(panels_figure([Chart("", Axis(""), Axis(""), tuple(series))], (3, 3))).axes
    lines: Any = axes.get_lines()
    greys = [np.dot(line.get_color()[:3], (0.2126, 0.7152, 0.0722)) for line in lines]
    assert (np.diff(greys) < -0.03).all()


def test_few_decades_get_numbers_and_many_keep_powers() -> None:
    charts = [
        Chart("", Axis(""), Axis("", (low, high), log=True), (Series("", Look("#000000"), (0.0, 1.0), (low, high)),))
        for low, high in ((0.055, 0.18), (0.3, 4.0), (0.3, 1e9))
    ]
    drawn = render(panels_figure(charts, (7, 3))).axes
    texts = [{tick.get_text() for tick in axes.get_yticklabels()} for axes in drawn]
    assert texts[0] >= {"0.06", "0.08", "0.1"}
    assert texts[1] >= {"0.5", "1", "2"}
    assert any("10^" in text for text in texts[2])


def test_ratios_of_a_heat_map_are_written_into_cells_that_stay_readable() -> None:
    texts = ("1.00", "≥ 100"), ("0.10", "?")
    heat = HeatMap("", ((1.0, 100.0), (0.1, math.nan)), 10.0, True, texts, ("a", "b"), ("c", "d"))
    axes = render(panels_figure([heat], (3, 3))).axes[0]
    assert [text.get_text() for text in axes.texts] == [*texts[0], *texts[1]]
    assert [text.get_color() for text in axes.texts] == ["black", "white", "white", "white"]


# --- hostile but well-formed records ----------------------------------------------------------------------------------


def wild_records() -> Iterator[tuple[str, Any]]:
    """Records that are read, with what no measurement gives."""
    table: Table1 = made_up("table1")
    losses = (0.0, math.inf, 1e300, 1e-300)
    entries = tuple(
        replace(entry, adjusted_loss=losses[k % 4], standard_error=losses[(k + 1) % 4], bayes_ratio=losses[(k + 2) % 4])
        for k, entry in enumerate(table.entries)
    )
    yield "table1", replace(table, entries=entries, sequences=10**15)
    profiles: ProfilesRecord = made_up("profiles")
    panels = [
        replace(p, series=tuple(replace(s, adjusted=(math.inf,) * len(p.levels)) for s in p.series))
        for p in profiles.panels
    ]
    yield "profiles", replace(profiles, panels=tuple(panels))
    training: TrainingRecord = made_up("training")
    first = replace(training.curves[0], final_seconds=1e308, final=math.inf)
    yield "training", TrainingRecord((first, *training.curves[1:]))
    weights = made_up("weights").as_json()
    weights["models"] = [weights["models"][0] | {"name": r"$\frac{1}$ <script> %s \alpha $"}]
    yield "weights", weights
    shift, hostile = made_up("shift").as_json(), r"$x_{$ <b>"
    shift["predictors"][0] = hostile
    for scenario in shift["scenarios"]:
        scenario["results"][hostile] = scenario["results"].pop("GD++ 7") | {"ratio": 1e300, "ratio_error": None}
        scenario["spec"] = r"$\unknown$ {}{0}:1"
    yield "shift", shift


@pytest.mark.filterwarnings("ignore:constrained_layout not applied")  # of Matplotlib before 3.11
def test_wild_but_readable_records_are_drawn(tmp_path: Path) -> None:
    results = read_results(write_results(tmp_path / "r", **dict(wild_records())))
    names = ["1", "bayes", "depth", "2", "training", "4", "shift"]
    for written in draw_all(results, tmp_path / "out", ("svg",), names):
        text = written.paths[0].read_text(encoding="utf-8")
        assert "<script>" not in text
        assert "<b>" not in text
