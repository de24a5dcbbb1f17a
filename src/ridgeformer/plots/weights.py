"""Heat maps of the weights of a FULL model: figure 4."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import SymLogNorm
from matplotlib.image import AxesImage

from ridgeformer.core.notation import Array
from ridgeformer.plots.look import WIDTH, Drawing, literal, new_page, printed
from ridgeformer.plots.style import DIVERGING
from ridgeformer.reproduction.records.weights import SHOWN
from ridgeformer.reproduction.results import Results

_LINEAR_SHARE = 1 / 30  # of the largest entry, up to which colours grow linearly
_SIGN_AT = 0.1  # share of the largest entry from which a cell carries its sign
_LARGEST_SIGNED = 24  # size of matrices up to which cells are large enough to write in
_SMALLEST_SCALE = 1e-30  # of a model whose weights are all zero
_MOST_COLUMNS = 8


def figure_4(results: Results) -> Drawing:
    """Q and P of every layer, on one scale; lines part the x from the y block."""
    models = results.weights.models
    if not models:
        raise results.nothing("weights", "FULL model of four layers")
    model = next((found for name in SHOWN if (found := results.weights.find(name)) is not None), models[0])
    notes = () if model.name == SHOWN[0] else (f"{SHOWN[0]} is missing; this is {model.name}.",)
    P, Q = ((matrices.reshape(-1, *matrices.shape[2:]))[:_MOST_COLUMNS] for matrices in (model.P, model.Q))
    largest = max(float(np.abs(P).max()), float(np.abs(Q).max()), _SMALLEST_SCALE)
    norm = SymLogNorm(linthresh=largest * _LINEAR_SHARE, vmin=-largest, vmax=largest)
    heads = model.P.shape[1]
    with printed():
        figure = new_page(min(2 * WIDTH / (len(P) + 0.6), 4.2) + 0.3)
        axes = figure.subplots(2, len(P), squeeze=False)
        for row, (name, matrices) in enumerate((("Q", Q), ("P", P))):
            for column, matrix in enumerate(matrices):
                image = _heat_map(axes[row][column], matrix, norm, largest)
                layer, head = divmod(column, heads)
                axes[row][column].set_title(f"{name}, layer {layer + 1}" + (f", head {head + 1}" if heads > 1 else ""))
        bar = figure.colorbar(image, ax=axes, shrink=0.85, pad=0.015, aspect=30)
        ticks = [share * largest for share in (-1, -0.3, -0.1, 0, 0.1, 0.3, 1)]
        bar.set_ticks(ticks, labels=[f"{tick:.2g}".replace("-", "−") for tick in ticks])
        bar.ax.minorticks_off()
        bar.set_label("entry, with ‖P‖ = ‖Q‖ in every layer")
        figure.suptitle(literal(model.name), fontsize=8)
    return Drawing(figure, notes)


def _heat_map(axis: Axes, matrix: Array, norm: SymLogNorm, largest: float) -> AxesImage:
    size = len(matrix)
    image = axis.imshow(matrix, cmap=DIVERGING, norm=norm, interpolation="nearest")
    for part in (axis.axhline, axis.axvline):
        part(size - 1.5, color="black", linewidth=0.7)
    if size <= _LARGEST_SIGNED:
        for i, j in np.argwhere(np.abs(matrix) > _SIGN_AT * largest):
            dark = abs(matrix[i, j]) > 0.4 * largest
            sign, colour = "+" if matrix[i, j] > 0 else "−", "white" if dark else "black"
            axis.text(j, i, sign, ha="center", va="center", fontsize=5.5, color=colour)
    middle, last = (size - 2) / 2, size - 1
    axis.set_xticks([middle, last], ["x", "y"])
    axis.set_yticks([middle, last], ["x", "y"])
    axis.tick_params(length=0)
    axis.grid(False)
    axis.spines[["top", "right"]].set_visible(True)
    return image
