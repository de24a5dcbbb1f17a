"""Figures 1 to 7 of the paper and ours, computed once from result records as plain data; nothing here trains.

`FIGURES` has them by name. `ridgeformer.plots.render` draws them with Matplotlib; the page draws the same data itself.
"""

from __future__ import annotations

from ridgeformer.plots.figures import FIGURES
from ridgeformer.plots.specification import Figure, FigureEntry, as_json

__all__ = ["FIGURES", "Figure", "FigureEntry", "as_json"]
