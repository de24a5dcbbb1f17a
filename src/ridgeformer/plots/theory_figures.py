"""Figures of the theory, from its curves: ``ridgeformer explain --check --out DIR``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ridgeformer.core.registry import BLACK, Look
from ridgeformer.plots.specification import Axis, Chart, Figure, Series, in_order, in_turn, line, lines, panels_figure
from ridgeformer.theory import Curves
from ridgeformer.theory.nonlinear_limit import PRINTED_BOUND

_SMALLEST_EXCESS = 1e-17  # where the curves of κ − 1 leave the figure
_SIZE = (5.4, 2.8)
_DASHED, _DOTTED = (4.0, 1.5), (1.0, 1.2)
_ITERATIONS: tuple[tuple[str, str, tuple[float, ...]], ...] = (
    ("gdpp_layers", "GD++ layers", ()),
    ("conjugate_gradients", "conjugate gradients", _DASHED),
    ("gradient_descent", "gradient descent", _DOTTED),
)


def theory_figures(curves: Curves) -> dict[str, Figure]:
    """Names and figures of all curves."""
    return {
        "theory-cosine": cosine_figure(curves),
        "theory-second-order": second_order_figure(curves),
        "theory-two-layer": two_layer_figure(curves),
        "theory-step-size": step_size_figure(curves),
    }


def cosine_figure(curves: Curves) -> Figure:
    """Theorem 4.2: cosines with x(1)² against n."""
    n = [record.examples for record in curves.cosines]
    measured = {
        "largest within reach of any model": [record.reachable for record in curves.cosines],
        "largest that was measured": [record.largest for record in curves.cosines],
    }
    expected = line("sqrt((d + 4)/n)", Look(BLACK, _DOTTED), n, (record.expected for record in curves.cosines))
    bound = Series("the paper’s bound", Look(BLACK, _DASHED, width=0.8), level=PRINTED_BOUND)
    x = Axis(f"examples n in a context, d = {curves.cosines[0].dim}", log=True)
    y = Axis("|cosine| of outputs with x(1)²", log=True)
    return panels_figure([Chart("", x, y, (*lines(n, measured), expected, bound))], _SIZE)


def second_order_figure(curves: Curves) -> Figure:
    """Theorem 5.1: κ − 1 layer by layer, and layers against steps of two other methods."""
    left, right = [], [Series(text, Look(BLACK, dashes)) for _, text, dashes in _ITERATIONS]
    for place, (kappa, excesses) in enumerate(curves.excesses.items(), 1):
        look = in_order(place, len(curves.excesses))
        shown = [(layer, excess) for layer, excess in enumerate(excesses) if excess > _SMALLEST_EXCESS]
        left.append(line(f"κ = {kappa:g}", look, *zip(*shown, strict=True)))
        rows = [row for row in curves.iterations if row.kappa == kappa]
        for name, _, dashes in _ITERATIONS:
            steps = np.array([getattr(row, name) for row in rows], float)  # None is NaN
            right.append(line("", Look(look.colour, dashes), (row.epsilon for row in rows), steps))
    epsilons = [row.epsilon for row in curves.iterations]
    accuracy = Axis("accuracy ε", (max(epsilons) * 1.5, min(epsilons) / 1.5), log=True)
    charts = [
        Chart("", Axis("preconditioning layers", whole=True), Axis("κ − 1 after the layers", log=True), tuple(left)),
        Chart("", accuracy, Axis("layers or steps to reach it", log=True), tuple(right)),
    ]
    return panels_figure(charts, (7.2, 2.8))


def two_layer_figure(curves: Curves) -> Figure:
    """Theorem 5.2: distance from optimal ridge regression against n."""
    series = []
    for place, (pair, rows) in enumerate(curves.convergence.items()):
        for which, sigma in enumerate(dict.fromkeys(pair)):
            own = [row for row in rows if row.sigma == sigma]
            name = f"made for σ = {pair[0]:g} and {pair[1]:g}, at σ = {sigma:g}"
            points = (row.examples for row in own), (row.error for row in own)
            series.append(line(name, in_turn(place, _DASHED if which else ()), *points))
    n = np.array(sorted({row.examples for row in next(iter(curves.convergence.values()))}), float)
    series.append(line("falling as n^(−1/2)", Look(BLACK, _DOTTED), n, 2 * n**-0.5))
    y = Axis("‖ŵ − w*‖ ÷ ‖w*‖, root mean squares", log=True)
    return panels_figure([Chart("", Axis("examples n in a context", log=True), y, tuple(series))], _SIZE)


def step_size_figure(curves: Curves) -> Figure:
    """Section 5.3: step sizes against the residuals, as they are and as printed."""
    steps, order = curves.steps, np.argsort(curves.steps.residuals)
    measured = {"in the first two layers": steps.at_start, "after layers that do the fit": steps.behind_fit}
    circles = [replace(one, points=True, hollow=True) for one in lines(steps.residuals, measured)]
    printed = line("as printed", Look(BLACK, width=1.0), steps.residuals[order], steps.printed[order])
    axes = Axis("Σ r² of OLS, d = 10, n = 20, σ ~ U(0, 5)"), Axis("step size ÷ (−ω_yx)")
    return panels_figure([Chart("", *axes, (*circles, printed))], _SIZE)
