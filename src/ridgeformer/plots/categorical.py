"""Categorical noise: figure 3."""

from __future__ import annotations

from ridgeformer.plots.layers import layer_handles, layer_panel
from ridgeformer.plots.look import LOSS, NOISE_LEVEL, Drawing, Notes, legend_below, new_page, printed, prior_title
from ridgeformer.plots.profiles import profile_panel
from ridgeformer.reproduction.records.profiles import DEPTH, EVERY_DEPTH
from ridgeformer.reproduction.results import Results

PRIORS = ("categorical:1+3", "categorical:1+3+5")


def figure_3(results: Results) -> Drawing:
    """Loss against layers and profiles of seven layers for {1, 3} and {1, 3, 5}; below, profiles of 2 to 7 layers."""
    table, record, notes = results.table1, results.profiles, Notes()
    if not any(entry.trained and entry.noise in PRIORS for entry in table.entries):
        raise results.nothing("table1", "models for categorical noise")
    with printed():
        figure = new_page(5.4)
        grid = figure.add_gridspec(3, 12, height_ratios=(1.25, 1, 1))
        for row, noise in enumerate(PRIORS):
            left = 6 * row
            axis = figure.add_subplot(grid[0, left : left + 3])
            layer_panel(axis, table, noise, notes)
            axis.set_xlabel("layers")
            axis.set_ylabel(LOSS)
            axis = figure.add_subplot(grid[0, left + 3 : left + 6])
            profile_panel(axis, record, noise, DEPTH, f"{prior_title(noise)}, {DEPTH} layers", notes)
            axis.set_xlabel(NOISE_LEVEL)
            for place, layers in enumerate((*EVERY_DEPTH, DEPTH)):
                axis = figure.add_subplot(grid[row + 1, 2 * place : 2 * place + 2])
                profile_panel(axis, record, noise, layers, f"{layers} layers", notes)
                if place == 0:
                    axis.set_ylabel(f"{prior_title(noise)}\n{LOSS}")
                axis.tick_params(labelleft=place == 0)
                if row == 1:
                    axis.set_xlabel(NOISE_LEVEL)
        legend_below(figure, layer_handles(figure.axes), 4)
    return Drawing(figure, notes.lines())
