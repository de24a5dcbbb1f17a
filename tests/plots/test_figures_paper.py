"""Figures 1 to 7, checked from the figure objects: every panel and series is there, with the numbers of the record."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from made_up_results import made_up, write_results
from ridgeformer.core.notation import Array
from ridgeformer.plots import FIGURES, Drawing
from ridgeformer.plots.look import geometric
from ridgeformer.reproduction.cells import LAYERS
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.reproduction.records import ProfilesRecord, ReadoutsRecord
from ridgeformer.reproduction.results import MissingRecordError, Results, read_results
from ridgeformer.reproduction.table1 import Table1
from support import one_sentence

MODELS = {"GD++": "gdpp", "DIAG": "diag", "FULL": "full"}
RIDGES = {"ConstRR": "constrr", "AdaRR": "adarr", "TunedRR": "tunedrr"}
ALL = {*MODELS, *RIDGES, "Bayes limit"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return read_results(write_results(tmp_path_factory.mktemp("results")))


@pytest.fixture(scope="module")
def draw(results: Results) -> Callable[[str], Drawing]:
    kept: dict[str, Drawing] = {}

    def drawn(name: str) -> Drawing:
        if name not in kept:
            kept[name] = FIGURES[name](results)
        return kept[name]

    return drawn


def labels(axis: Axes) -> list[str]:
    return [str(text) for text in axis.get_legend_handles_labels()[1]]


def points(axis: Axes, label: str) -> tuple[Array, Array]:
    """x and y of a series."""
    for handle, text in zip(*axis.get_legend_handles_labels(), strict=True):
        if text == label:
            line: Any = handle[0] if isinstance(handle, tuple) else handle
            return np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
    raise AssertionError(f"{label} is not among {labels(axis)}")


def legend_texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


# --- figure 1 ---------------------------------------------------------------------------------------------------------


def test_figure_1_has_a_panel_for_each_noise_with_all_series(draw: Callable[[str], Drawing]) -> None:
    figure, notes = draw("1").figure, draw("1").notes
    assert [axis.get_title() for axis in figure.axes] == [
        "no noise (σmax = 0)",
        *(f"σ ~ U(0, {high})" for high in range(1, 8)),
    ]
    assert notes == ()
    for axis in figure.axes[1:]:
        assert set(labels(axis)) == {*ALL, *(f"{name}, paper" for name in (*MODELS, *RIDGES))}
        assert axis.get_yscale() == "log"
    assert set(labels(figure.axes[0])) == {*MODELS, *(f"{name}, paper" for name in MODELS)}
    assert legend_texts(figure).count("hollow: as printed in the paper") == 1
    assert {*legend_texts(figure)} >= ALL


def test_figure_1_draws_the_numbers_of_the_record_and_the_paper(
    results: Results, draw: Callable[[str], Drawing]
) -> None:
    axis = draw("1").figure.axes[5]
    for name, method in MODELS.items():
        entries = [results.table1.entry(method, layers, "uniform:5") for layers in LAYERS]
        x, y = points(axis, name)
        assert list(x) == list(LAYERS)
        assert list(y) == [entry.adjusted_loss for entry in entries if entry is not None]
        assert list(points(axis, f"{name}, paper")[1]) == [printed_loss(method, depth, "uniform:5") for depth in LAYERS]
    for name, method in RIDGES.items():
        entry = results.table1.entry(method, None, "uniform:5")
        assert entry is not None
        assert set(points(axis, name)[1]) == {entry.adjusted_loss}
        assert points(axis, f"{name}, paper")[1] == [printed_loss(method, None, "uniform:5")]
    assert set(points(axis, "Bayes limit")[1]) == {0.01}
    low, high = axis.get_ylim()
    assert low < 0.01
    assert high > 0.9


def test_figure_1_has_error_bars(draw: Callable[[str], Drawing]) -> None:
    bars = draw("1").figure.axes[5].containers[0].lines[2]  # type: ignore[attr-defined]
    assert len(bars[0].get_segments()) == len(LAYERS)


def test_figure_1_does_not_join_models_over_a_gap_and_names_what_is_missing(tmp_path: Path) -> None:
    table: Table1 = made_up("table1")
    gone = [e for e in table.entries if (e.method, e.layers, e.noise) == ("full", 4, "uniform:5")]
    cut = replace(table, entries=tuple(e for e in table.entries if e not in gone))
    drawing = FIGURES["1"](read_results(write_results(tmp_path, table1=cut.as_json())))
    assert drawing.notes == ("Without FULL 4 in: σ ~ U(0, 5).",)
    lines = [c.lines[0].get_xdata() for c in drawing.figure.axes[5].containers if c.get_label() == "FULL"]  # type: ignore[attr-defined]
    assert [list(x) for x in lines] == [[1, 2, 3], [5, 6, 7]]


# --- figures 2, 3 and 6 -----------------------------------------------------------------------------------------------


def test_figure_2_has_every_noise_and_every_depth_with_all_series(
    results: Results, draw: Callable[[str], Drawing]
) -> None:
    figure = draw("2").figure
    assert len(figure.axes) == 8 + 6
    assert [axis.get_title() for axis in figure.axes[8:]] == [f"{depth} layers" for depth in range(2, 8)]
    for axis in figure.axes:
        assert set(labels(axis)) == ALL
    three = results.profiles.panel("uniform:3")
    assert three is not None
    found = three.find("diag", 7)
    assert found is not None
    x, y = points(figure.axes[3], "DIAG")
    assert (list(x), list(y)) == (list(three.levels), list(found.adjusted))
    four_layers = results.profiles.panel("uniform:5")
    assert four_layers is not None
    assert list(points(figure.axes[10], "FULL")[1]) == list(four_layers.find("full", 4).adjusted)  # type: ignore[union-attr]


def test_figure_2_shades_the_training_range_up_to_sigma_max(draw: Callable[[str], Drawing]) -> None:
    for high, axis in enumerate(draw("2").figure.axes[:8]):
        spans = [patch.get_extents().transformed(axis.transData.inverted()) for patch in axis.patches]
        assert any(math.isclose(span.x1, high, abs_tol=1e-9) and abs(span.x0) < 1e-9 for span in spans)
        assert axis.get_xlim() == (0, high + 1)


def test_figure_2_clips_the_axis_and_not_the_data_of_exploding_models(tmp_path: Path) -> None:
    record: ProfilesRecord = made_up("profiles")
    panel = record.panel("uniform:5")
    assert panel is not None
    wild = tuple(replace(s, adjusted=(*s.adjusted[:-2], 1e10, math.inf)) for s in panel.series)
    panels = [replace(panel, series=wild) if p is panel else p for p in record.panels]
    figure = FIGURES["2"](
        read_results(write_results(tmp_path, profiles=replace(record, panels=tuple(panels)).as_json()))
    ).figure
    y = points(figure.axes[5], "FULL")[1]
    assert y[-2] == 1e10
    assert np.isnan(y[-1])
    assert figure.axes[5].get_ylim()[1] == 5
    assert {axis.get_ylim() for axis in figure.axes} == {figure.axes[0].get_ylim()}  # one scale for all


def test_figure_3_has_layers_profiles_and_depths_for_both_priors(
    results: Results, draw: Callable[[str], Drawing]
) -> None:
    figure = draw("3").figure
    assert len(figure.axes) == 2 * (1 + 1 + 6)
    for first, noise in ((0, "categorical:1+3"), (8, "categorical:1+3+5")):
        layers, seven, *depths = figure.axes[first : first + 8]
        assert set(labels(layers)) == {*ALL, *(f"{name}, paper" for name in (*MODELS, *RIDGES))}
        assert list(points(layers, "FULL, paper")[1]) == [printed_loss("full", depth, noise) for depth in LAYERS]
        assert all(set(labels(axis)) == ALL for axis in (seven, *depths))
        assert [axis.get_title() for axis in depths] == [f"{depth} layers" for depth in range(2, 8)]
        panel = results.profiles.panel(noise)
        assert panel is not None
        for depth, axis in zip(range(2, 8), depths, strict=True):
            assert list(points(axis, "GD++")[1]) == list(panel.find("gdpp", depth).adjusted)  # type: ignore[union-attr]
        assert list(points(seven, "FULL")[1]) == list(panel.find("full", 7).adjusted)  # type: ignore[union-attr]


def test_figure_3_marks_the_levels_of_the_prior(draw: Callable[[str], Drawing]) -> None:
    marks = [float(np.asarray(line.get_xdata())[0]) for line in draw("3").figure.axes[9].get_lines()[:3]]
    assert marks == [1, 3, 5]


def test_figure_6_has_unadjusted_losses_from_zero(results: Results, draw: Callable[[str], Drawing]) -> None:
    figure = draw("6").figure
    assert len(figure.axes) == 8
    for high, axis in enumerate(figure.axes):
        assert set(labels(axis)) == ALL
        panel = results.profiles.panel(f"uniform:{high}")
        assert panel is not None
        assert list(points(axis, "FULL")[1]) == list(panel.find("full", 7).unadjusted)  # type: ignore[union-attr]
        assert axis.get_yscale() == "linear"
        assert axis.get_ylim()[0] == 0
    assert figure.axes[0].get_ylabel() == "loss"


def test_profiles_without_a_prior_leave_its_panel_empty_and_say_so(tmp_path: Path) -> None:
    record: ProfilesRecord = made_up("profiles")
    cut = replace(record, panels=tuple(panel for panel in record.panels if panel.noise != "uniform:6"))
    for name in ("2", "6"):
        drawing = FIGURES[name](read_results(write_results(tmp_path, profiles=cut.as_json())))
        assert drawing.notes == ("Without everything in: σ ~ U(0, 6) 7 layers.",)
        assert labels(drawing.figure.axes[6]) == []


# --- figure 4 ---------------------------------------------------------------------------------------------------------


def test_figure_4_has_q_and_p_of_four_layers_on_one_scale_with_the_blocks_marked(
    results: Results, draw: Callable[[str], Drawing]
) -> None:
    figure = draw("4").figure
    panels = [axis for axis in figure.axes if axis.get_images()][:8]
    assert [axis.get_title() for axis in panels] == [f"{name}, layer {layer}" for name in "QP" for layer in range(1, 5)]
    assert len({axis.get_images()[0].get_clim() for axis in panels}) == 1
    low, high = panels[0].get_images()[0].get_clim()
    assert low == -high
    model = results.weights.models[0]
    assert model.name == "full-4-categorical-1+3"
    for layer in range(4):
        for axis, expected in ((panels[layer], model.Q), (panels[4 + layer], model.P)):
            assert np.array_equal(np.asarray(axis.get_images()[0].get_array()), expected[layer, 0])
    for axis in panels:
        assert len(axis.get_lines()) == 2
        assert [tick.get_text() for tick in axis.get_xticklabels()] == ["x", "y"]


def test_figure_4_of_another_model_says_so(tmp_path: Path) -> None:
    values = made_up("weights").as_json()
    del values["models"][0]
    drawing = FIGURES["4"](read_results(write_results(tmp_path, weights=values)))
    assert drawing.notes == ("full-4-categorical-1+3 is missing; this is full-4-categorical-1+3+5.",)


# --- figures 5 and 7 --------------------------------------------------------------------------------------------------


def test_figure_5_has_every_depth_of_every_kind_with_bars_over_seeds(
    results: Results, draw: Callable[[str], Drawing]
) -> None:
    figure = draw("5").figure
    for axis, method in zip(figure.axes, MODELS.values(), strict=True):
        assert labels(axis) == [f"{depth} layers" for depth in LAYERS]
        for depth in LAYERS:
            rows = [model.adjusted for model in results.readouts.of(method, depth)]
            x, y = points(axis, f"{depth} layers")
            assert list(x) == list(range(1, depth + 1))
            assert np.allclose(y, np.exp(np.mean(np.log(rows), axis=0)))
        bars = axis.containers[2].lines[2][0].get_segments()  # type: ignore[attr-defined]
        spread = np.log([float(bar[1, 1] / bar[0, 1]) for bar in bars])
        logs = np.log([model.adjusted for model in results.readouts.of(method, 3)])
        assert np.allclose(spread, 2 * logs.std(axis=0, ddof=1))
    assert "Geometric means of 5 seeds" in draw("5").notes[-1]


def test_figure_7_has_every_layer_of_every_depth_with_bands_over_seeds(
    results: Results, draw: Callable[[str], Drawing]
) -> None:
    figure = draw("7").figure
    assert len(figure.axes) == 3 * 7
    for place, axis in enumerate(figure.axes):
        method, depth = list(MODELS.values())[place // 7], 2 + place % 7
        assert labels(axis) == [f"after layer {layer}" for layer in range(1, depth + 1)]
        rows = [model.profile[depth - 1] for model in results.readouts.of(method, depth)]
        x, y = points(axis, f"after layer {depth}")
        assert list(x) == list(results.readouts.levels)
        assert np.allclose(y, np.exp(np.mean(np.log(rows), axis=0)))
        assert len(axis.collections) == depth  # one band each
    assert [axis.get_title() for axis in figure.axes[:7]] == [f"{depth} layers" for depth in range(2, 9)]


def test_readouts_of_one_seed_have_no_bars_and_missing_depths_are_named(tmp_path: Path) -> None:
    record: ReadoutsRecord = made_up("readouts")
    models = tuple(m for m in record.models if m.seed == 0 and (m.method, m.layers) != ("full", 6))
    found = read_results(write_results(tmp_path, readouts=replace(record, models=models).as_json()))
    five, seven = FIGURES["5"](found), FIGURES["7"](found)
    assert all(container.lines[2] == () for axis in five.figure.axes for container in axis.containers)  # type: ignore[attr-defined]
    assert not any(axis.collections for axis in seven.figure.axes)
    assert five.notes[0] == seven.notes[0] == "Without FULL in: 6 layers."


def test_geometric_mean_leaves_out_seeds_that_are_not_finite() -> None:
    middle, low, high = geometric([[1.0, math.inf, math.inf], [4.0, 3.0, math.inf]])
    assert middle[:2] == pytest.approx([2.0, 3.0])
    assert high[0] / low[0] == pytest.approx(math.exp(2 * np.std(np.log([1, 4]), ddof=1)))
    assert high[1] == low[1] == pytest.approx(3.0)
    assert np.isnan(middle[2])


# --- nothing to draw --------------------------------------------------------------------------------------------------

EMPTY = {
    "1": ("table1", {"record": "table1", "sequences": 2, "seed": 0, "entries": []}),
    "2": ("profiles", {"record": "profiles", "sequences": 2, "seed": 0, "panels": []}),
    "6": ("profiles", {"record": "profiles", "sequences": 2, "seed": 0, "panels": []}),
    "3": ("table1", {"record": "table1", "sequences": 2, "seed": 0, "entries": []}),
    "4": ("weights", {"record": "weights", "models": []}),
    "5": ("readouts", made_up("readouts").as_json() | {"models": []}),
    "7": ("readouts", made_up("readouts").as_json() | {"models": []}),
}


@pytest.mark.parametrize("name", EMPTY)
def test_figure_with_nothing_to_show_names_the_command_that_makes_its_record(name: str, tmp_path: Path) -> None:
    record, values = EMPTY[name]
    found = read_results(write_results(tmp_path / "r", **{record: values}))
    with pytest.raises(MissingRecordError) as caught:
        FIGURES[name](found)
    assert str(caught.value).endswith(f"make it again with: ridgeformer reproduce --out {tmp_path / 'r'}")
    assert f"{record}.json has no " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sentences_about_missing_folders_are_sentences() -> None:
    with pytest.raises(MissingRecordError) as caught:
        read_results("no such folder")
    assert "ridgeformer reproduce --out 'no such folder'" in str(caught.value)
    assert one_sentence(ValueError(str(caught.value) + "."))
