"""Figures of the theory, checked from the figure object."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.figure import Figure

from ridgeformer.plots.theory_figures import theory_figures
from ridgeformer.theory import Curves, theory_curves


@pytest.fixture(scope="module")
def curves() -> Curves:
    return theory_curves(0)


@pytest.fixture(scope="module")
def figures(curves: Curves) -> dict[str, Figure]:
    return theory_figures(curves)


def labels(figure: Figure, panel: int = 0) -> list[str]:
    return [str(text) for text in figure.axes[panel].get_legend_handles_labels()[1]]


def test_cosine_figure_has_measured_reachable_derived_and_bound(curves: Curves, figures: dict[str, Figure]) -> None:
    assert len(labels(figures["theory-cosine"])) == 4
    line = figures["theory-cosine"].axes[0].get_lines()[0]
    assert np.allclose(np.asarray(line.get_ydata(), float), [record.reachable for record in curves.cosines])


def test_second_order_figure_has_three_methods_for_every_condition_number(
    curves: Curves, figures: dict[str, Figure]
) -> None:
    left, right = figures["theory-second-order"].axes
    assert len(labels(figures["theory-second-order"], 0)) == len(left.get_lines()) == len(curves.excesses)
    assert labels(figures["theory-second-order"], 1) == ["GD++ layers", "conjugate gradients", "gradient descent"]
    drawn = [line for line in right.get_lines() if len(np.asarray(line.get_xdata()))]
    assert len(drawn) == 3 * len(curves.excesses)


def test_two_layer_figure_has_both_levels_of_every_pair(curves: Curves, figures: dict[str, Figure]) -> None:
    names = labels(figures["theory-two-layer"])
    for low, high in curves.convergence:
        for sigma in (low, high):
            assert f"made for σ = {low:g} and {high:g}, at σ = {sigma:g}" in names


def test_step_size_figure_has_both_places_and_print(figures: dict[str, Figure]) -> None:
    assert labels(figures["theory-step-size"])[-1] == "as printed"
    assert len(labels(figures["theory-step-size"])) == 3
