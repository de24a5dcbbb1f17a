"""The figure of a sweep: a point over seeds, a line for each combination, and what cannot be drawn."""

from __future__ import annotations

import math
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from ridgeformer.plots.render import save_figure
from ridgeformer.plots.specification import Chart
from ridgeformer.plots.sweep_figures import sweep_figure, varying
from support import refused


def made_up(**fields: list[Any]) -> list[dict[str, Any]]:
    """Rows as `collect` gives them; the loss is e to the power of minus the layers, plus the seed over ten."""
    usual = {"kind": "diag", "layers": 1, "noise": "uniform:5", "seed": 0, "start": None, "rate": None}
    rows = []
    for values in product(*fields.values()):
        row = {**usual, **dict(zip(fields, values, strict=True))}
        rows.append(
            {"name": str(values), **row, "adjusted_loss": math.exp(-row["layers"] + row["seed"] / 10), "p99": 1.0}
        )
    return rows


def chart_of(rows: list[dict[str, Any]], *choices: str) -> Chart:
    (chart,) = sweep_figure(rows, *choices).panels
    assert isinstance(chart, Chart)
    return chart


def test_point_is_the_geometric_mean_over_seeds_in_a_band_of_one_deviation() -> None:
    (line,) = chart_of(made_up(layers=[3, 1, 2], seed=[0, 2, 4])).series
    assert line.x == (1.0, 2.0, 3.0)
    assert line.y == pytest.approx([math.exp(-layers + 0.2) for layers in (1, 2, 3)])
    assert line.low == pytest.approx([math.exp(-layers) for layers in (1, 2, 3)])
    assert line.high == pytest.approx([math.exp(-layers + 0.4) for layers in (1, 2, 3)])


def test_every_combination_of_other_fields_is_a_line_and_one_seed_has_no_band() -> None:
    rows = made_up(kind=["diag", "full"], noise=["uniform:3", "uniform:5"], layers=[1, 2])
    chart = chart_of(rows)
    assert [line.name for line in chart.series] == [
        "diag, uniform:3", "diag, uniform:5", "full, uniform:3", "full, uniform:5",
    ]  # fmt: skip
    assert all(line.low == () for line in chart.series)
    assert varying(rows) == ["kind", "layers", "noise"]


def test_field_of_words_has_them_at_its_ticks() -> None:
    chart = chart_of(made_up(kind=["diag", "full", "gdpp"], layers=[1, 2]), "kind")
    assert chart.x.names == ("diag", "full", "gdpp")
    assert chart.x.ticks == (0.0, 1.0, 2.0)
    assert [line.name for line in chart.series] == ["layers 1", "layers 2"]


def test_field_over_a_wide_range_has_a_logarithmic_axis() -> None:
    assert chart_of(made_up(rate=[1e-4, 1e-3, 1e-2])).x.log
    assert not chart_of(made_up(layers=[1, 2, 4])).x.log


def test_any_column_of_numbers_can_be_drawn_and_gaps_are_left_out() -> None:
    rows = made_up(layers=[1, 2, 3])
    rows[1]["p99"] = None
    (line,) = chart_of(rows, "layers", "p99").series
    assert line.x == (1.0, 3.0)


def test_figure_is_drawn(tmp_path: Path) -> None:
    figure = sweep_figure(made_up(kind=["diag", "full"], layers=[1, 2, 3], seed=[0, 1]))
    (path,) = save_figure(figure, tmp_path, "plot", ("svg",))
    assert path.stat().st_size > 1000
    assert "2 seeds" in figure.notes[0]


def test_what_cannot_be_drawn_is_one_sentence() -> None:
    refused("nothing to draw", sweep_figure, made_up(seed=[0, 1, 2]))
    refused("Did you mean 'layers'", sweep_figure, made_up(layers=[1, 2]), "layer")
    refused("value must be one of", sweep_figure, made_up(layers=[1, 2]), "layers", "name")
    refused("too many: choose some", sweep_figure, made_up(layers=[1, 2], noise=[f"uniform:{n}" for n in range(30)]))
