"""Figures of what happens when parts of a model are switched off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from ridgeformer.analysis.ablation import Ablation
from ridgeformer.analysis.samples import Band
from ridgeformer.core.notation import Array
from ridgeformer.plots.axes import label_few_decades
from ridgeformer.plots.style import COLOURS, DIVERGING, legend_beside, new_figure, styled

OFF_SCALE = 20.0
"""A loss beyond it means nothing but "explodes": predicting zero costs less than d/2."""
_DARKEST = 10.0  # times the loss of the control: anything beyond is as bad


def ablations_figure(ablations: Sequence[Ablation]) -> Figure:
    """Loss with parts switched off, as they are and with the rest fitted anew."""
    shown = [ablation for ablation in ablations if not ablation.inert]
    rows = np.arange(len(shown))[::-1]
    control = shown[0]
    with styled():
        figure, [[axis]] = new_figure(1, 1, 6.0, 1.0 + 0.2 * len(shown))
        alone = np.array([ablation.alone.total.adjusted_loss for ablation in shown])
        refitted = np.array([np.nan if a.refitted is None else a.refitted.total.adjusted_loss for a in shown])
        _losses_or_arrows(axis, alone, rows, "as it is", facecolors="white", edgecolors=COLOURS[1])
        if control.refitted is not None:
            _losses_or_arrows(axis, refitted, rows, "rest fitted anew", color=COLOURS[0], zorder=3)
            axis.axvline(control.refitted.total.adjusted_loss, color=COLOURS[0], linewidth=0.8)
        axis.axvline(control.alone.total.adjusted_loss, color=COLOURS[1], linewidth=0.8, linestyle="--")
        axis.set_xscale("log")
        label_few_decades(axis.xaxis)
        if any((losses > OFF_SCALE).any() for losses in (alone, refitted)):
            axis.set_xlim(right=1.5 * OFF_SCALE)
            axis.scatter([], [], marker=">", facecolors="white", edgecolors="black", label=f"beyond {OFF_SCALE:g}")
        axis.set_yticks(rows, [ablation.label for ablation in shown])
        axis.set_xlabel("adjusted loss")
        legend_beside(axis)
    return figure


def _losses_or_arrows(axis: Axes, losses: Array, rows: Array, label: str, **look: Any) -> None:
    """A circle at every loss, or an arrow at the edge where it is out of the figure."""
    far = losses > OFF_SCALE
    axis.scatter(losses[~far], rows[~far], label=label, **look)
    axis.scatter(np.full(far.sum(), OFF_SCALE), rows[far], marker=">", **look)


def ablation_bands_figure(ablations: Sequence[Ablation], bands: Sequence[Band]) -> Figure:
    """Which noise suffers from what: losses over those with nothing switched off, after refitting if there is any."""
    refits = ablations[0].refitted is not None
    kept = [(a.label, a.refitted if refits else a.alone) for a in ablations if not a.inert]
    losses = [(label, [seen.adjusted_loss for seen in found.bands]) for label, found in kept if found is not None]
    (_, control), *rows = losses
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratios = np.array([np.asarray(row) / control for _, row in rows]).reshape(-1, len(bands))
    with styled():
        figure, [[axis]] = new_figure(1, 1, 2.6 + 0.8 * len(bands), 1.4 + 0.2 * len(ratios))
        colours = np.clip(np.nan_to_num(ratios, nan=_DARKEST, posinf=_DARKEST), 1 / _DARKEST, _DARKEST)
        norm = LogNorm(1 / _DARKEST, _DARKEST)
        image = axis.imshow(colours, cmap=DIVERGING, norm=norm, aspect="auto", interpolation="nearest")
        for i, j in np.ndindex(ratios.shape):
            dark = colours[i, j] > _DARKEST**0.6 or colours[i, j] < _DARKEST**-0.6
            text = f"{ratios[i, j]:.2f}" if ratios[i, j] < 100 else "≥ 100"
            axis.text(j, i, text, ha="center", va="center", fontsize=7, color="white" if dark else "black")
        axis.set_yticks(range(len(rows)), [label for label, _ in rows])
        axis.set_xticks(range(len(bands)), [band.label for band in bands])
        axis.grid(False)
        axis.set_xlabel("σ")
        axis.set_title("loss over that with nothing switched off" + (", rest fitted anew" if refits else ""))
        ticks = [1 / _DARKEST, 1.0, _DARKEST]
        bar = figure.colorbar(image, ax=axis, shrink=0.7)
        bar.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
        bar.ax.minorticks_off()
    return figure
