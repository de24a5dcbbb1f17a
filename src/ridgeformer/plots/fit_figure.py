"""The figure of ``ridgeformer fit``: how noisy groups are, and how much of each answer comes from its own rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ridgeformer.core.registry import BLACK, BLUE, Look
from ridgeformer.plots.specification import Axis, Chart, Figure, line, panels_figure

if TYPE_CHECKING:
    from ridgeformer.estimators.tables import FitSummary

_ROOM = 1.5  # factor beyond the lowest and the highest noise level of a group
_SMALLEST = 1e-4  # of the highest level: groups without noise are at the edge


def fit_figure(summary: FitSummary) -> Figure:
    """Two panels from the summary of a fit."""
    levels, below = summary.noise_levels, np.cumsum(summary.noise_weights)
    groups = np.sort(summary.group_noise)
    learned = line("learned", Look(BLACK), levels, below, steps=True)
    shares = (np.arange(len(groups)) + 0.5) / len(groups)
    own = line("of each group", Look(BLUE, (), "o"), groups, shares, points=True, hollow=True)
    smallest, largest = max(float(groups[0]), _SMALLEST * float(groups[-1])), float(groups[-1])
    noise = Axis("noise level σ, in units of the target", (smallest / _ROOM, largest * _ROOM), log=True)
    order = np.argsort(summary.group_noise)
    kept = line("", Look(BLUE, (), "o"), summary.group_noise[order], 100 * summary.group_kept[order], points=True)
    charts = [
        Chart("Noise levels", noise, Axis("share of groups below", (0.0, 1.0)), (learned, own)),
        Chart("Shrinkage", noise, Axis("% of the weights from own rows", (0.0, 100.0)), (kept,)),
    ]
    return panels_figure(
        charts, (7.2, 2.8), caption="Noise levels of groups, and how much of their weights comes from their own rows."
    )
