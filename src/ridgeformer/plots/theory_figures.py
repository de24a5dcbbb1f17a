"""Figures of the theory, from its curves: `ridgeformer explain --check --out DIR`."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ridgeformer.plots.style import COLOURS, MARKERS, legend_beside, new_figure, ordered_colour, styled
from ridgeformer.theory import Curves
from ridgeformer.theory.nonlinear_limit import PRINTED_BOUND

_SMALLEST_EXCESS = 1e-17  # where the curves of κ − 1 leave the figure


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
    with styled():
        figure, [[axis]] = new_figure(1, 1, 6.6, 3.4)
        for place, (name, text) in enumerate(
            (("reachable", "largest within reach of any model"), ("largest", "largest that was measured"))
        ):
            values = [getattr(record, name) for record in curves.cosines]
            axis.plot(n, values, color=COLOURS[place], marker=MARKERS[place], label=text)
        expected = [record.expected for record in curves.cosines]
        axis.plot(n, expected, color="black", linestyle=":", label="sqrt((d + 4)/n)")
        axis.axhline(PRINTED_BOUND, color="black", linestyle="--", linewidth=0.8, label="the paper's bound")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel(f"examples n in a context, d = {curves.cosines[0].dim}")
        axis.set_ylabel("|cosine| of outputs with x(1)²")
        legend_beside(axis)
    return figure


def second_order_figure(curves: Curves) -> Figure:
    """Theorem 5.1: κ − 1 layer by layer, and layers against steps of two other methods."""
    kappas = list(curves.excesses)
    with styled():
        figure, [[left, right]] = new_figure(1, 2, 4.6, 3.4)
        for place, kappa in enumerate(kappas):
            colour, marker = ordered_colour(place, len(kappas)), MARKERS[place % len(MARKERS)]
            excesses = np.asarray(curves.excesses[kappa])
            kept = excesses > _SMALLEST_EXCESS
            left.plot(np.flatnonzero(kept), excesses[kept], color=colour, marker=marker, label=f"κ = {kappa:g}")
            _iterations(right, curves, kappa, colour)
        left.set_yscale("log")
        left.xaxis.set_major_locator(MaxNLocator(integer=True))
        left.set_xlabel("preconditioning layers")
        left.set_ylabel("κ − 1 of what is left")
        left.legend()
        right.set_xscale("log")
        right.set_yscale("log")
        right.invert_xaxis()
        right.set_xlabel("accuracy ε")
        right.set_ylabel("layers or steps to reach it")
        for line, text in (("-", "GD++ layers"), ("--", "conjugate gradients"), (":", "gradient descent")):
            right.plot([], [], color="black", linestyle=line, label=text)
        legend_beside(right)
    return figure


def _iterations(axis: Axes, curves: Curves, kappa: float, colour: tuple[float, float, float, float]) -> None:
    rows = [row for row in curves.iterations if row.kappa == kappa]
    epsilons = [row.epsilon for row in rows]
    for name, line in (("gdpp_layers", "-"), ("conjugate_gradients", "--"), ("gradient_descent", ":")):
        values = [np.nan if getattr(row, name) is None else getattr(row, name) for row in rows]
        axis.plot(epsilons, values, color=colour, linestyle=line, marker="." if line == "-" else "none")


def two_layer_figure(curves: Curves) -> Figure:
    """Theorem 5.2: distance from optimal ridge regression against n."""
    with styled():
        figure, [[axis]] = new_figure(1, 1, 6.6, 3.4)
        for place, (pair, rows) in enumerate(curves.convergence.items()):
            for which, sigma in enumerate(dict.fromkeys(pair)):
                own = [row for row in rows if row.sigma == sigma]
                axis.plot(
                    [row.examples for row in own],
                    [row.error for row in own],
                    color=COLOURS[place],
                    marker=MARKERS[place],
                    linestyle="-" if which == 0 else "--",
                    label=f"made for σ = {pair[0]:g} and {pair[1]:g}, at σ = {sigma:g}",
                )
        n = np.array([row.examples for row in next(iter(curves.convergence.values()))])
        axis.plot(n, 2 * n**-0.5, color="black", linestyle=":", label="falling as n^(−1/2)")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("examples n in a context")
        axis.set_ylabel("‖ŵ − w*‖ over ‖w*‖, root mean squares")
        legend_beside(axis)
    return figure


def step_size_figure(curves: Curves) -> Figure:
    """Section 5.3: step sizes against the residuals, as they are and as printed."""
    steps = curves.steps
    order = np.argsort(steps.residuals)
    with styled():
        figure, [[axis]] = new_figure(1, 1, 6.6, 3.4)
        for place, (values, text) in enumerate(
            ((steps.at_start, "in the first two layers"), (steps.behind_fit, "behind layers that do the fit"))
        ):
            axis.plot(
                steps.residuals, values, linestyle="none", marker=MARKERS[place], markersize=3, fillstyle="none",
                color=COLOURS[place], label=text,
            )  # fmt: skip
        axis.plot(steps.residuals[order], steps.printed[order], color="black", linewidth=1, label="as printed")
        axis.set_xlabel("Σ r² of OLS, d = 10, n = 20, σ ~ U(0, 5)")
        axis.set_ylabel("step size over −ω_yx")
        legend_beside(axis)
    return figure
