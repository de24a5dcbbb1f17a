"""Figures of an explanation and of the theory, as specifications: which series, panels and labels are there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.analysis import Explanation, explain_model, refit
from ridgeformer.plots.analysis_figures import OFF_SCALE, ablations_figure, all_figures, matrices_figure
from ridgeformer.plots.render import render
from ridgeformer.plots.specification import Figure, HeatMap
from ridgeformer.plots.theory_figures import theory_figures
from ridgeformer.theory import theory_curves
from support import make_examples, tame_model

TASK = rf.Task(3, 9, "uniform:2")
GRAM = make_examples(6, 9, 3, seed=1).gram


@pytest.fixture(scope="module")
def explanation() -> Explanation:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refit, "CONTEXTS", 256)
        return explain_model(tame_model("diag", 3, 1, 3, GRAM), TASK, sequences=600)


@pytest.fixture(scope="module")
def figures(explanation: Explanation) -> dict[str, Figure]:
    return all_figures(explanation)


def series(figure: Figure, panel: int = 0) -> tuple[Any, ...]:
    return figure.panels[panel].series  # type: ignore[union-attr]


def labels(figure: Figure, panel: int = 0) -> list[str]:
    return [one.name for one in series(figure, panel) if one.name]


def test_every_part_of_a_diagonal_model_has_a_figure_that_can_be_drawn(figures: dict[str, Figure]) -> None:
    expected = {"omega", "matrices", "filters", "implied-noise", "steps", "progress", "momentum", "ablations"}
    assert set(figures) == expected | {"ablation-bands"}
    for figure in figures.values():
        picture = render(figure)
        assert len(picture.axes) >= len(figure.panels)
        picture.draw_without_rendering()


def test_omega_figure_has_four_series_without_inert_values(figures: dict[str, Figure]) -> None:
    assert [name[:4] for name in labels(figures["omega"])] == ["ω_xx", "ω_xy", "ω_yx", "ω_yy"]
    values = np.array([one.y for one in series(figures["omega"])[:4]])
    assert np.isnan(values[:2, -1]).all()
    assert np.isfinite(values[2:]).all()


def test_filters_figure_has_every_band_beside_ridge(explanation: Explanation, figures: dict[str, Figure]) -> None:
    assert len(figures["filters"].panels) == 3
    lines = series(figures["filters"], 2)
    assert len(lines) == 2 * len(explanation.bands)
    last = next(band for band in explanation.filters.bands if band.layer == 3)
    assert lines[0].y == pytest.approx(np.array(last.values) * last.coefficients)
    assert lines[1].y == pytest.approx(np.array(last.values) * last.ridge)


def test_implied_noise_figure_has_layers_and_references(figures: dict[str, Figure]) -> None:
    expected = ["true σ", "after layer 1", "after layer 2", "after layer 3", "σ̂ of AdaRR", "posterior mean"]
    assert labels(figures["implied-noise"]) == expected


def test_progress_and_steps_figures_have_all_layers(explanation: Explanation, figures: dict[str, Figure]) -> None:
    assert labels(figures["progress"]) == ["all", *(f"σ in {band.label}" for band in explanation.bands)]
    for name, panel in (("progress", 1), ("steps", 0), ("steps", 2)):
        assert len(labels(figures[name], panel)) == 3
    assert series(figures["progress"])[0].y[-1] == pytest.approx(explanation.loss.total.adjusted_loss)


def test_ablations_figure_has_an_arrow_for_every_loss_that_is_out_of_it(explanation: Explanation) -> None:
    assert explanation.ablations is not None
    control, *others = explanation.ablations
    changed = [
        replace(a, alone=replace(a.alone, total=replace(a.alone.total, adjusted_loss=loss)))
        for a, loss in zip([a for a in others if not a.inert][:3], (1e40, float("inf"), 1.0), strict=True)
    ]
    figure = ablations_figure([control, *changed])
    _, circles, arrows, *_ = series(figure)
    assert (len(circles.x), arrows.x, arrows.look.marker) == (2, (OFF_SCALE,) * 2, ">")
    assert labels(figure)[-1].startswith("beyond")
    (chart,) = figure.panels
    assert chart.x.limits[0] < OFF_SCALE < chart.x.limits[1]  # type: ignore[index, union-attr]


def test_ablation_figures_have_every_part_that_acts_and_every_band_over_the_control(
    explanation: Explanation, figures: dict[str, Figure]
) -> None:
    assert explanation.ablations is not None
    (chart,) = figures["ablations"].panels
    assert chart.y.names == tuple(one.label for one in explanation.ablations if not one.inert)  # type: ignore[union-attr]
    assert labels(figures["ablations"]) == ["rest unchanged", "rest fitted again"]
    (heat,) = figures["ablation-bands"].panels
    assert isinstance(heat, HeatMap)
    control, *others = [a for a in explanation.ablations if a.refitted]
    assert heat.rows == tuple(one.label for one in others)
    assert heat.columns == tuple(f"σ in {band.label}" for band in explanation.bands)
    first, whole = (one.refitted.bands[0].adjusted_loss for one in (others[0], control))  # type: ignore[union-attr]
    assert heat.matrix[0][0] == pytest.approx(first / whole)


def test_matrices_figure_has_one_scale_for_all_heads_and_does_not_depend_on_theirs() -> None:
    model = tame_model("full", 2, 2, 3, GRAM)
    other = model.replace({"P": -5 * model.parameters["P"], "Q": model.parameters["Q"] / -5})
    panels: Any = matrices_figure(model).panels
    assert len(panels) == 2 * 2 * 2
    assert len({panel.largest for panel in panels}) == 1
    assert panels[0].title == "P, layer 1, head 1"
    for one, two in zip(panels, matrices_figure(other).panels, strict=True):
        assert np.allclose(one.matrix, two.matrix, rtol=1e-9, atol=1e-12)  # type: ignore[union-attr]
    deep = matrices_figure(tame_model("diag", 30, 1, 3, GRAM)).panels
    assert (len(deep), deep[-1].title) == (24, "Q, layer 30")  # at even distances


def test_remainder_figure_is_there_for_full_models_only() -> None:
    full = explain_model(tame_model("full", 2, 1, 3, GRAM), TASK, sequences=200, ablate=False)
    figures = all_figures(full)
    assert "remainder" in figures
    assert not {"momentum", "ablations"} & set(figures)
    assert [len(series(figures["remainder"], panel)) for panel in (0, 1)] == [2, 2]


# --- theory -----------------------------------------------------------------------------------------------------------


def test_figures_of_the_theory_have_every_curve_and_bound() -> None:
    curves = theory_curves(0)
    figures = theory_figures(curves)
    assert len(labels(figures["theory-cosine"])) == 4
    assert series(figures["theory-cosine"])[0].y == pytest.approx([record.reachable for record in curves.cosines])
    second = figures["theory-second-order"]
    assert labels(second) == [f"κ = {kappa:g}" for kappa in curves.excesses]
    assert labels(second, 1) == ["GD++ layers", "conjugate gradients", "gradient descent"]
    assert len([one for one in series(second, 1) if one.x]) == 3 * len(curves.excesses)
    for low, high in curves.convergence:
        for sigma in (low, high):
            assert f"made for σ = {low:g} and {high:g}, at σ = {sigma:g}" in labels(figures["theory-two-layer"])
    assert len(labels(figures["theory-step-size"])) == 3
    assert labels(figures["theory-step-size"])[-1] == "as printed"
    for figure in figures.values():
        render(figure).draw_without_rendering()
