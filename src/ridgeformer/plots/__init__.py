"""Figures 1 to 7 of the paper and ours beside them, drawn from result records; nothing here trains or measures.

Every figure is a function of a `ridgeformer.reproduction.results.Results` and gives a Matplotlib figure with notes on
what it lacks. One method looks the same everywhere; see `look`.
"""

from __future__ import annotations

from ridgeformer.plots.all import FIGURES, Written, draw_all
from ridgeformer.plots.look import Drawing

__all__ = ["FIGURES", "Drawing", "Written", "draw_all"]
