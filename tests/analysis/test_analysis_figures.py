"""Figures, checked from the figure object: which series, panels and labels are there."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from ridgeformer.plots.ablation_figures import OFF_SCALE, ablations_figure
from ridgeformer.plots.axes import label_few_decades
from ridgeformer.plots.style import COLOURS, new_figure, ordered_colour, save_figure, styled

import ridgeformer as rf
from ridgeformer.analysis import Explanation, explain_model, retune
from ridgeformer.plots.analysis_figures import all_figures, matrices_figure, omega_figure
from support import make_examples, tame_model

TASK = rf.Task(3, 9, "uniform:2")
GRAM = make_examples(6, 9, 3, seed=1).gram


@pytest.fixture(scope="module")
def found() -> Explanation:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retune, "CONTEXTS", 256)
        return explain_model(tame_model("diag", 3, 1, 3, GRAM), TASK, sequences=600)


@pytest.fixture(scope="module")
def figures(found: Explanation) -> dict[str, Figure]:
    return all_figures(found)


def labels(figure: Figure, panel: int = 0) -> list[str]:
    return [str(text) for text in figure.axes[panel].get_legend_handles_labels()[1]]


def test_every_part_of_a_diagonal_model_has_a_figure(figures: dict[str, Figure]) -> None:
    expected = {"omega", "matrices", "filters", "implied-noise", "steps", "progress", "momentum", "ablations"}
    assert set(figures) == expected | {"ablation-bands"}


def test_omega_figure_has_four_series_without_inert_values(figures: dict[str, Figure]) -> None:
    lines = figures["omega"].axes[0].get_lines()[:4]
    assert [str(line.get_label())[:4] for line in lines] == ["ω_xx", "ω_xy", "ω_yx", "ω_yy"]
    values = np.array([line.get_ydata() for line in lines], float)
    assert np.isnan(values[:2, -1]).all()
    assert np.isfinite(values[2:]).all()


def test_filters_figure_has_every_band_beside_ridge(found: Explanation, figures: dict[str, Figure]) -> None:
    panels = [axis for axis in figures["filters"].axes if axis.get_visible()]
    assert len(panels) == 3
    lines = panels[-1].get_lines()
    assert len(lines) == 2 * len(found.bands)
    last = next(band for band in found.filters.bands if band.layer == 3)
    assert np.allclose(np.asarray(lines[0].get_ydata(), float), np.array(last.values) * last.coefficients)
    assert np.allclose(np.asarray(lines[1].get_ydata(), float), np.array(last.values) * last.ridge)


def test_implied_noise_figure_has_layers_and_references(figures: dict[str, Figure]) -> None:
    expected = ["true σ", "after layer 1", "after layer 2", "after layer 3", "σ̂ of AdaRR", "posterior mean"]
    assert labels(figures["implied-noise"]) == expected


def test_progress_and_steps_figures_have_all_layers(found: Explanation, figures: dict[str, Figure]) -> None:
    assert labels(figures["progress"]) == ["all", *(f"σ in {band.label}" for band in found.bands)]
    for figure, panel in (("progress", 1), ("steps", 0), ("steps", 2)):
        assert len(labels(figures[figure], panel)) == 3
    total = np.asarray(figures["progress"].axes[0].get_lines()[0].get_ydata(), float)
    assert total[-1] == pytest.approx(found.loss.total.adjusted_loss)


def test_ablations_figure_names_all_parts_that_act(found: Explanation, figures: dict[str, Figure]) -> None:
    assert found.ablations is not None
    texts = [tick.get_text() for tick in figures["ablations"].axes[0].get_yticklabels()]
    assert texts == [ablation.label for ablation in found.ablations if not ablation.inert]
    assert labels(figures["ablations"]) == ["as it is", "rest fitted anew"]


def test_ablations_figure_has_an_arrow_for_every_loss_that_is_out_of_it(found: Explanation) -> None:
    assert found.ablations is not None
    control, *others = found.ablations
    shown = [a for a in others if not a.inert][:3]
    losses = (1e40, float("inf"), 1.0)
    changed = [replace(a, alone=replace(a.alone, total=replace(a.alone.total, adjusted_loss=loss)))
               for a, loss in zip(shown, losses, strict=True)]  # fmt: skip
    figure = ablations_figure([control, *changed])
    (axis,) = figure.axes
    points = [np.asarray(group.get_offsets(), float) for group in axis.collections[:2]]
    assert [len(group) for group in points] == [2, 2]  # circles, arrows
    assert (points[1][:, 0] == OFF_SCALE).all()
    assert labels(figure)[-1].startswith("beyond")
    low, high = axis.get_xlim()
    assert low < OFF_SCALE < high


def test_ablation_bands_figure_has_every_band_and_part_over_the_control(
    found: Explanation, figures: dict[str, Figure]
) -> None:
    assert found.ablations is not None
    axis = figures["ablation-bands"].axes[0]
    kept = [a for a in found.ablations[1:] if a.refitted is not None]
    assert [tick.get_text() for tick in axis.get_yticklabels()] == [a.label for a in kept]
    assert [tick.get_text() for tick in axis.get_xticklabels()] == [band.label for band in found.bands]
    control = found.ablations[0].refitted
    assert control is not None
    first = kept[0].refitted
    assert first is not None
    ratio = first.bands[0].adjusted_loss / control.bands[0].adjusted_loss
    assert axis.texts[0].get_text() == (f"{ratio:.2f}" if ratio < 100 else "≥ 100")


def test_few_decades_get_numbers_and_many_keep_powers() -> None:
    with styled():
        _, [[narrow, few, many]] = new_figure(1, 3, 3, 3)
    for axis, low, top in ((narrow, 0.055, 0.18), (few, 0.3, 4.0), (many, 0.3, 1e9)):
        axis.plot([0, 1], [low, top])
        axis.set_yscale("log")
        label_few_decades(axis.yaxis)
    assert {tick.get_text() for tick in narrow.get_yticklabels()} >= {"0.06", "0.08", "0.1"}
    assert {tick.get_text() for tick in few.get_yticklabels()} >= {"0.5", "1", "2"}
    assert any("10^" in tick.get_text() for tick in many.get_yticklabels())


def test_matrices_figure_has_one_scale_and_marks_the_blocks() -> None:
    figure = matrices_figure(tame_model("full", 2, 2, 3, GRAM))
    panels = [axis for axis in figure.axes if axis.get_images()]
    assert len(panels) == 2 * 2 * 2
    limits = {axis.get_images()[0].get_clim() for axis in panels}
    assert len(limits) == 1
    (low, high) = limits.pop()
    assert low == -high
    assert all(len(axis.get_lines()) == 2 for axis in panels)  # the border between x and y
    assert panels[0].get_title() == "P, layer 1, head 1"


def test_matrices_figure_does_not_depend_on_scale_of_heads() -> None:
    model = tame_model("full", 2, 1, 3, GRAM)
    other = model.replace({"P": -5 * model.parameters["P"], "Q": model.parameters["Q"] / -5})
    images = [
        [np.asarray(axis.get_images()[0].get_array()) for axis in matrices_figure(m).axes if axis.get_images()]
        for m in (model, other)
    ]
    for first, second in zip(*images, strict=True):
        assert np.allclose(first, second, rtol=1e-9, atol=1e-12)


def test_remainder_figure_is_there_for_full_models_only() -> None:
    found = explain_model(tame_model("full", 2, 1, 3, GRAM), TASK, sequences=200, ablate=False)
    figures = all_figures(found)
    assert "remainder" in figures
    assert "momentum" not in figures
    assert "ablations" not in figures
    assert [len(axis.get_lines()) for axis in figures["remainder"].axes] == [2, 2]


def test_deep_models_show_some_layers(found: Explanation) -> None:
    figure = matrices_figure(tame_model("diag", 30, 1, 3, GRAM))
    titles = [axis.get_title() for axis in figure.axes if axis.get_images()]
    assert len(titles) == 24
    assert titles[-1] == "Q, layer 30"


def test_saved_figures_are_the_same_bytes_each_time(tmp_path: Path) -> None:
    files = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        paths = save_figure(omega_figure(np.full((3, 4), -0.5)), tmp_path / folder, "omega")
        assert [path.suffix for path in paths] == [".svg", ".png"]
        files.append([path.read_bytes() for path in paths])
    assert files[0] == files[1]
    assert files[0][0].startswith(b"<?xml")
    assert files[0][1].startswith(b"\x89PNG")


def test_colours_in_order_darken_in_grey() -> None:
    def grey(colour: tuple[float, ...]) -> float:
        return 0.2126 * colour[0] + 0.7152 * colour[1] + 0.0722 * colour[2]

    greys = [grey(ordered_colour(place, 7)) for place in range(7)]
    assert greys == sorted(greys, reverse=True)
    assert min(a - b for a, b in pairwise(greys)) > 0.03
    assert len(set(COLOURS)) == len(COLOURS)
