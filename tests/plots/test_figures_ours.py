"""Our figures beside the paper's, checked from the figure objects."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from made_up_results import PREDICTORS, made_up, write_results
from ridgeformer.core.notation import Array
from ridgeformer.plots import FIGURES
from ridgeformer.plots.look import LOOKS, prior_title
from ridgeformer.reproduction.cells import BEYOND_PRIORS, LAYERS, PRIORS
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.reproduction.records import ShiftRecord
from ridgeformer.reproduction.results import MissingRecordError, Results, read_results
from ridgeformer.reproduction.table1 import Table1

MODELS = {"GD++": "gdpp", "DIAG": "diag", "FULL": "full"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return read_results(write_results(tmp_path_factory.mktemp("results")))


def series(axis: Axes) -> dict[str, tuple[Array, Array]]:
    """x and y of all series that have a label, by it."""
    found = {}
    for handle, text in zip(*axis.get_legend_handles_labels(), strict=True):
        line: Any = handle[0] if isinstance(handle, tuple) else handle
        found[str(text)] = np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float)
    return found


def test_bayes_figure_has_every_prior_with_a_limit_for_every_kind(results: Results) -> None:
    drawing = FIGURES["bayes"](results)
    noises = [noise for noise in PRIORS if noise != "uniform:0"]
    assert drawing.notes == ()
    for axis, method in zip(drawing.figure.axes, MODELS.values(), strict=True):
        found = series(axis)
        assert list(found) == [prior_title(noise) for noise in noises]
        for noise in noises:
            x, y = found[prior_title(noise)]
            assert {*LAYERS} <= {*x}
            for layers, excess in zip(x, y, strict=True):
                entry = results.table1.entry(method, int(layers), noise)
                assert entry is not None
                assert excess == pytest.approx(entry.adjusted_loss / 0.01 - 1)
    assert drawing.figure.axes[0].get_ylabel() == "adjusted loss over the Bayes limit, less 1"


def test_depth_figure_has_deep_models_and_heads_of_every_prior_above_the_limit(results: Results) -> None:
    figure = FIGURES["depth"](results).figure
    assert [axis.get_title() for axis in figure.axes] == [prior_title(noise) for noise in BEYOND_PRIORS]
    for axis, noise in zip(figure.axes, BEYOND_PRIORS, strict=True):
        found = series(axis)
        names = {"DIAG", "FULL"}
        expected = names | {f"{n}, {what}" for n in names for what in ("paper", "2 heads", "4 heads")} | {"Bayes limit"}
        assert {*found} == expected
        assert list(found["FULL"][0]) == [3, 4, 5, 6, 7, 8, 10, 12]
        assert list(found["FULL, 2 heads"][0]) == [7, 12]
        entry = results.table1.entry("full", 12, noise, 2)
        assert entry is not None
        assert found["FULL, 2 heads"][1][-1] == entry.adjusted_loss
        assert list(found["DIAG, paper"][1]) == [printed_loss("diag", depth, noise) for depth in range(3, 8)]
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert {"2 heads", "4 heads"} <= {*texts}


def test_depth_figure_draws_what_is_there(tmp_path: Path) -> None:
    table: Table1 = made_up("table1")
    kept = tuple(
        e for e in table.entries if e.heads == 1 and ((e.layers or 0) <= 7 or (e.layers, e.noise) == (8, "uniform:5"))
    )
    found = read_results(write_results(tmp_path, table1=replace(table, entries=kept).as_json()))
    figure = FIGURES["depth"](found).figure
    assert len(figure.axes) == 1
    assert {*series(figure.axes[0])} == {"DIAG", "FULL", "DIAG, paper", "FULL, paper", "Bayes limit"}
    none = tuple(e for e in kept if (e.layers or 0) <= 7)
    found = read_results(write_results(tmp_path, table1=replace(table, entries=none).as_json()))
    with pytest.raises(MissingRecordError, match="no models of more than 7 layers or of several heads"):
        FIGURES["depth"](found)


def test_training_figure_has_best_so_far_end_printed_value_and_limit_of_every_model(results: Results) -> None:
    drawing = FIGURES["training"](results)
    assert drawing.notes == ()
    assert [axis.get_title() for axis in drawing.figure.axes] == ["1 layer", *(f"{k} layers" for k in range(2, 9))]
    for depth, axis in enumerate(drawing.figure.axes, 1):
        found = series(axis)
        for name, method in MODELS.items():
            x, y = found[name]
            assert list(x) == [0.5, 1.0, 2.0, 3.0, 4.0]
            assert list(y) == [2.0, 0.5, 0.4, 0.4, 0.2]  # never above an earlier leg
            curve = results.training.find(method, depth, "uniform:5")
            assert curve is not None
            assert [*found[f"{name}, finished"][0], *found[f"{name}, finished"][1]] == [5.0, curve.final]
            aim = printed_loss(method, depth, "uniform:5")
            assert (aim is None) == (f"{name}, paper" not in found) == (depth == 8)
            if aim is not None:
                assert set(found[f"{name}, paper"][1]) == {aim}
        assert set(found["Bayes limit"][1]) == {0.01}
        legs = [line for line in axis.get_lines() if line.get_label() == "_leg"]
        assert len(legs) == 2 * len(MODELS)
        assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")


def test_training_figure_without_table_1_has_no_limit(tmp_path: Path) -> None:
    drawing = FIGURES["training"](read_results(write_results(tmp_path, "table1")))
    assert "Bayes limit" not in series(drawing.figure.axes[0])
    assert "FULL" in series(drawing.figure.axes[0])


def test_shift_figure_has_every_predictor_in_every_scenario(results: Results) -> None:
    (axis,) = FIGURES["shift"](results).figure.axes
    assert tuple(series(axis)) == PREDICTORS
    scenarios = results.shift.scenarios
    assert [tick.get_text() for tick in axis.get_yticklabels()][:2] == ["no shift", "40 examples instead of 20"]
    assert len(axis.get_yticklabels()) == len(scenarios)
    drawn = [container.lines[0] for container in axis.containers]  # type: ignore[attr-defined]
    assert len(drawn) == len(scenarios) * len(PREDICTORS)
    for place, line in enumerate(drawn):
        result = scenarios[place // len(PREDICTORS)].results[PREDICTORS[place % len(PREDICTORS)]]
        assert float(line.get_xdata()[0]) == result.ratio
        assert line.get_fillstyle() == ("full" if result.survives else "none")


def test_shift_figure_says_how_far_beyond_the_edge_points_are(tmp_path: Path) -> None:
    record: ShiftRecord = made_up("shift")
    first = record.scenarios[0]
    changed = dict(first.results)
    changed["DIAG 7"] = replace(changed["DIAG 7"], ratio=math.inf, ratio_error=math.inf)
    changed["FULL 7"] = replace(changed["FULL 7"], ratio=589.0)
    scenarios = (replace(first, results=changed), *record.scenarios[1:])
    found = read_results(write_results(tmp_path, shift=replace(record, scenarios=scenarios).as_json()))
    (axis,) = FIGURES["shift"](found).figure.axes
    assert [text.get_text() for text in axis.texts] == ["→ ∞, 589"]
    assert all(float(x[-1]) <= axis.get_xlim()[1] for x, _ in series(axis).values())


@pytest.mark.parametrize("record", ["table1", "training", "shift"])
def test_missing_record_names_the_command_that_makes_it(record: str, tmp_path: Path) -> None:
    found = read_results(write_results(tmp_path / "made here", record))
    name = {"table1": "bayes"}.get(record, record)
    with pytest.raises(MissingRecordError) as caught:
        FIGURES[name](found)
    train = "--train " if record == "training" else ""
    assert str(caught.value) == (
        f"There is no {record}.json in {tmp_path / 'made here'}; "
        f"make it with: ridgeformer reproduce {train}--out '{tmp_path / 'made here'}'"
    )


def test_methods_differ_in_colour_and_in_grey() -> None:
    """In grey only dashes and markers are left."""
    assert len({look.colour for look in LOOKS.values()}) == len(LOOKS)
    assert len({(str(look.line), look.marker) for look in LOOKS.values()}) == len(LOOKS)
