"""Figures of a model taken apart, each from the record it shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import SymLogNorm
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from ridgeformer.analysis.diagonal import Remainder
from ridgeformer.analysis.explanation import Explanation
from ridgeformer.analysis.few_constants import Simplest
from ridgeformer.analysis.filters import Filters
from ridgeformer.analysis.gauge import canonical_heads
from ridgeformer.analysis.implied_noise import ImpliedNoise
from ridgeformer.analysis.omega import OMEGAS, ROLES, inert, natural_units
from ridgeformer.analysis.roles import MomentumTerms, StepBand
from ridgeformer.analysis.samples import Band, Measured
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.plots.ablation_figures import OFF_SCALE, ablation_bands_figure, ablations_figure
from ridgeformer.plots.axes import label_few_decades
from ridgeformer.plots.style import (
    COLOURS,
    DIVERGING,
    MARKERS,
    drawable,
    hide_empty,
    legend_beside,
    new_figure,
    ordered_colour,
    styled,
)

_T = TypeVar("_T")
_MOST_PANELS = 12  # of one figure; deeper models show layers at even distances
_LINEAR_BELOW = 0.3  # size of the largest ω, in units, from which an axis needs a logarithm
_SIGN_AT = 0.1  # share of the largest entry from which a cell carries its sign
_LARGEST_SIGNED = 24  # size of matrices up to which cells are large enough to write in


def all_figures(found: Explanation) -> dict[str, Figure]:
    """Names and figures of all that was found out."""
    figures = {
        "omega": omega_figure(found.omega / natural_units(found.task)),
        "matrices": matrices_figure(found.model),
        "filters": filters_figure(found.filters, found.bands),
        "implied-noise": implied_noise_figure(found.implied),
        "steps": steps_figure(found.steps, found.bands),
        "progress": progress_figure(found.progress, found.bands),
    }
    if found.momentum is not None:
        figures["momentum"] = momentum_figure(found.momentum)
    if found.ablations is not None:
        figures["ablations"] = ablations_figure(found.ablations)
        figures["ablation-bands"] = ablation_bands_figure(found.ablations, found.bands)
    if found.model.kind == "full":
        figures["remainder"] = remainder_figure(found.fit.remainders)
    return figures


def omega_figure(omega: Array) -> Figure:
    """ω of every layer in natural units; those that do nothing or are zero throughout are left out."""
    with styled():
        figure, [[axis]] = new_figure(1, 1, 6.5, 3.2)
        layers = np.arange(1, len(omega) + 1)
        shown = np.where(inert(len(omega)), np.nan, drawable(omega))
        for place, (name, role) in enumerate(zip(OMEGAS, ROLES, strict=True)):
            if np.nan_to_num(shown[:, place]).any():
                colour, marker = COLOURS[place], MARKERS[place]
                axis.plot(layers, shown[:, place], color=colour, marker=marker, label=f"ω_{name}, {role}")
        axis.axhline(0, color="black", linewidth=0.8)
        if np.nanmax(np.abs(shown)) > _LINEAR_BELOW:
            axis.set_yscale("symlog", linthresh=0.1)
        axis.margins(y=0.1)
        axis.set_xticks(layers)
        axis.set_xlabel("layer")
        axis.set_ylabel("ω in units of 1/n (xx, yx) and 1/E λ (xy, yy)")
        legend_beside(axis)
    return figure


def matrices_figure(model: LinearTransformer) -> Figure:
    """P and Q of every layer and head, in canonical form, on one scale; lines part the x from the y block."""
    P, Q = canonical_heads(model)
    chosen = [(layer, head) for layer in range(model.layers) for head in range(model.heads) if P[layer, head].any()]
    chosen = _thinned(chosen) or [(0, 0)]
    largest = max(float(np.abs(P).max()), float(np.abs(Q).max())) or 1.0
    norm = SymLogNorm(linthresh=largest / 30, vmin=-largest, vmax=largest)
    with styled():
        figure, axes = new_figure(2, len(chosen), max(1.7, 4.0 / len(chosen)), 1.8)
        for column, (layer, head) in enumerate(chosen):
            for row, (name, matrix) in enumerate((("P", P), ("Q", Q))):
                axis = axes[row][column]
                image = _heat_map(axis, matrix[layer, head], norm, largest)
                of_head = f", head {head + 1}" if model.heads > 1 else ""
                axis.set_title(f"{name}, layer {layer + 1}{of_head}")
        bar = figure.colorbar(image, ax=[axis for row in axes for axis in row], shrink=0.7)
        ticks = [share * largest for share in (-1, -0.1, 0, 0.1, 1)]
        bar.set_ticks(ticks, labels=[f"{tick:.2g}" for tick in ticks])
        bar.ax.minorticks_off()
        bar.set_label("entry, linear near zero")
    return figure


def _heat_map(axis: Axes, matrix: Array, norm: SymLogNorm, largest: float) -> AxesImage:
    size = len(matrix)
    image = axis.imshow(matrix, cmap=DIVERGING, norm=norm, interpolation="nearest")
    for place in (axis.axhline, axis.axvline):
        place(size - 1.5, color="black", linewidth=0.8)
    if size <= _LARGEST_SIGNED:
        for i, j in np.argwhere(np.abs(matrix) > _SIGN_AT * largest):
            axis.text(j, i, "+" if matrix[i, j] > 0 else "−", ha="center", va="center", fontsize=5)
    axis.set_xticks([])
    axis.set_yticks([])
    axis.grid(False)
    return image


def filters_figure(filters: Filters, bands: Sequence[Band]) -> Figure:
    """s_j ŵ_j / a_j, the share of least squares that is kept, against s_j, beside ridge regression that is told σ."""
    layers = _thinned([found.layer for found in filters.layers])
    columns = min(4, len(layers))
    rows = -(-len(layers) // columns)
    names = [band.label for band in bands]
    with styled():
        figure, axes = new_figure(rows, columns, 2.9, 2.6)
        for axis in (axis for row in axes for axis in row):
            axis.sharey(axes[0][0])
        panels = dict(zip(layers, (axis for row in axes for axis in row), strict=False))
        for found in filters.bands:
            if found.layer not in panels:
                continue
            axis, colour = panels[found.layer], ordered_colour(names.index(found.band), len(names))
            s = np.asarray(found.values)
            axis.plot(s, s * found.coefficients, color=colour, label=f"σ in {found.band}")
            axis.plot(s, s * found.ridge, color=colour, linestyle=":", linewidth=1.2)
        shares = {found.layer: found for found in filters.layers}
        for layer, axis in panels.items():
            share = shares[layer]
            axis.set_title(f"layer {layer}: {share.band_share:.1%} explained")
            axis.set_xscale("log")
            label_few_decades(axis.xaxis)
            axis.set_xlabel("eigenvalue s of Σ")
        for row in axes:
            row[0].set_ylabel("s_j ŵ_j / a_j (dotted: ridge, told σ)")
        legend_beside(axes[0][columns - 1])
        hide_empty(axes, len(layers))
    return figure


def implied_noise_figure(found: ImpliedNoise) -> Figure:
    """√v of the nearest ridge regression against σ, for every layer, beside two estimators."""
    layers = sorted({band.layer for band in found.bands})
    with styled():
        figure, [[axis]] = new_figure(1, 1, 6.2, 3.6)
        sigma = [band.sigma for band in found.references]
        axis.plot(sigma, sigma, color="#999999", linewidth=1, label="true σ")
        for place, layer in enumerate(layers):
            rows = [band for band in found.bands if band.layer == layer]
            middle = drawable([band.median for band in rows])
            at = [band.sigma for band in rows]
            label = f"after layer {layer}" + ("" if np.isfinite(middle).any() else ": infinite")
            axis.plot(at, middle, color=ordered_colour(place, len(layers)), marker=".", label=label)
            if layer == layers[-1]:
                low, high = (drawable([band.quartiles[side] for band in rows]) for side in (0, 1))
                axis.fill_between(at, low, high, color=ordered_colour(place, len(layers)), alpha=0.2, linewidth=0)
        for name, values, marker in (
            ("σ̂ of AdaRR", [band.ada for band in found.references], "s"),
            ("posterior mean", [band.bayes for band in found.references], "^"),
        ):
            axis.plot(sigma, values, linestyle="none", marker=marker, fillstyle="none", color=COLOURS[1], label=name)
        axis.set_xlabel("σ, median of the band")
        axis.set_ylabel("√v of the nearest ridge regression")
        legend_beside(axis)
    return figure


def steps_figure(steps: Sequence[StepBand], bands: Sequence[Band]) -> Figure:
    """Step, alignment and rescaling of every layer against the noise."""
    middle = {band.label: band.middle for band in bands}
    layers = sorted({step.layer for step in steps})
    panels = (
        ("step", "n · step size"),
        ("alignment", "cosine with steepest descent"),
        ("rescaling", "factor 1 + δ of w"),
    )
    with styled():
        figure, [axes] = new_figure(1, 3, 3.2, 2.9)
        for axis, (name, text) in zip(axes, panels, strict=True):
            for place, layer in enumerate(layers):
                rows = [step for step in steps if step.layer == layer]
                values = drawable([getattr(step, name) for step in rows])
                at = [middle[step.band] for step in rows]
                colour, marker = ordered_colour(place, len(layers)), MARKERS[place % len(MARKERS)]
                axis.plot(at, values, color=colour, marker=marker, label=f"layer {layer}")
            axis.set_xlabel("σ")
            axis.set_title(text)
        legend_beside(axes[-1])
    return figure


def momentum_figure(terms: Sequence[MomentumTerms]) -> Figure:
    """Sizes of the terms of Lemma 4.4 in w' of every layer."""
    with styled():
        figure, [[axis]] = new_figure(1, 1, 5.5, 3.0)
        layers = np.array([term.layer for term in terms])
        parts = (("gradient", "gradient, Π g"), ("momentum", "momentum, Φ u"), ("rescaling", "rescaling, s w"))
        for place, (name, text) in enumerate(parts):
            sizes = drawable([getattr(term, name) for term in terms])
            axis.bar(layers + 0.27 * (place - 1), sizes, 0.25, color=COLOURS[place], label=text, edgecolor="black")
        axis.set_xticks(layers)
        axis.set_xlabel("layer")
        axis.set_ylabel("size over that of w after the layer")
        legend_beside(axis)
    return figure


def progress_figure(progress: Sequence[Measured], bands: Sequence[Band]) -> Figure:
    """Loss of the read-out after each layer, against the layer and against the noise (the paper's figures 5 and 7)."""
    layers = np.arange(1, len(progress) + 1)
    with styled():
        figure, [axes] = new_figure(1, 2, 4.6, 3.0)
        total = drawable([found.total.adjusted_loss for found in progress])
        axes[0].plot(layers, total, color="black", marker="o", label="all")
        for place, band in enumerate(bands):
            losses = drawable([found.bands[place].adjusted_loss for found in progress])
            colour = ordered_colour(place, len(bands))
            axes[0].plot(layers, losses, color=colour, marker=".", linewidth=1, label=f"σ in {band.label}")
        for place, (layer, found) in enumerate(zip(layers, progress, strict=True)):
            losses = drawable([band.adjusted_loss for band in found.bands])
            at = [band.middle for band in bands]
            colour, marker = ordered_colour(place, len(layers)), MARKERS[place % len(MARKERS)]
            axes[1].plot(at, losses, color=colour, marker=marker, label=f"after layer {layer}")
        axes[0].set_xticks(layers)
        axes[0].set_xlabel("layers")
        axes[1].set_xlabel("σ")
        axes[0].set_ylabel("adjusted loss")
        for axis in axes:
            axis.set_yscale("log")
            label_few_decades(axis.yaxis)
            legend_beside(axis)
    return figure


def remainder_figure(remainders: Sequence[Remainder]) -> Figure:
    """Singular values of P and Q less their diagonal, over the norm of the matrix; those near rounding left out."""
    layers, several = sorted({found.layer for found in remainders}), any(found.head > 1 for found in remainders)
    with styled():
        figure, [axes] = new_figure(1, 2, 3.8, 3.0)
        for axis, name in zip(axes, "PQ", strict=True):
            for found in (found for found in remainders if found.matrix == name):
                colour = ordered_colour(layers.index(found.layer), len(layers))
                values = np.array(found.singular_values)
                values = np.where(values > _SMALLEST_SINGULAR, values, np.nan)
                label = f"layer {found.layer}" + (f", head {found.head}" if several else "")
                line = _LINES[(found.head - 1) % len(_LINES)]
                axis.plot(np.arange(1, len(values) + 1), values, color=colour, marker=".", linestyle=line, label=label)
            axis.set_yscale("log")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
            axis.set_title(f"{name} less its diagonal")
            axis.set_xlabel("singular value")
        axes[0].set_ylabel("over the norm of the matrix")
        legend_beside(axes[-1])
    return figure


_SMALLEST_SINGULAR = 1e-5
_LINES = ("-", "--", ":", "-.")  # of heads


def ladder_figure(found: Simplest) -> Figure:
    """Loss against the number of fitted constants of every description; the controls stand apart."""
    groups = (
        ("ω dropped one by one", found.dropped),
        ("tied to each other", [description for description in found.forms if not description.control]),
        ("controls", [description for description in found.forms if description.control]),
    )
    with styled():
        figure, [[axis]] = new_figure(1, 1, 8.5, 4.2)
        for place, (label, descriptions) in enumerate(groups):
            counts = [description.count for description in descriptions]
            losses = drawable([description.evaluation.adjusted_loss for description in descriptions])
            losses = np.where(losses <= OFF_SCALE, losses, np.nan)
            line = "-" if place < 2 else "none"
            axis.plot(counts, losses, color=COLOURS[place], marker=MARKERS[place], linestyle=line, label=label)
            for description, count, loss in zip(descriptions, counts, losses, strict=True):
                if place > 0 and np.isfinite(loss) and not description.round_numbers:
                    _label(axis, description.name, count, float(loss))
        trained = found.trained.adjusted_loss
        axis.plot(
            [found.trained_constants],
            [trained],
            color="black",
            marker="*",
            markersize=11,
            linestyle="none",
            label="trained",
        )
        axis.axhline(found.limit, color="black", linestyle="--", linewidth=0.8, label="trained + 5 %")
        axis.set_yscale("log")
        label_few_decades(axis.yaxis)
        axis.set_xlabel("constants")
        axis.set_ylabel("adjusted loss")
        legend_beside(axis)
    return figure


def _label(axis: Axes, text: str, count: int, loss: float) -> None:
    """A name at a point, slanted so that neighbours do not meet."""
    axis.annotate(
        text,
        (count, loss),
        xytext=(2, 5),
        textcoords="offset points",
        rotation=35,
        rotation_mode="anchor",
        ha="left",
        va="bottom",
        fontsize=7,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.5},
    )


def _thinned(items: list[_T]) -> list[_T]:
    """At most `_MOST_PANELS` of them, at even distances, the last one always."""
    if len(items) <= _MOST_PANELS:
        return items
    places = np.linspace(0, len(items) - 1, _MOST_PANELS).round().astype(int)
    return [items[place] for place in places]
