"""How good a predictor is on fresh sequences, with error bars, tails, and what happens off the training distribution.

The adjusted loss is the loss ½(ŷ − y_t)² minus that of the oracle, ridge regression that is told σ. Averaged over the
query and over w given the data it is ½‖ŵ − w*‖² for every sequence, which is what is measured here: the same
expectation as the paper's estimate with far less variance, and never negative.
"""

from __future__ import annotations

from ridgeformer.evaluation.comparison import compare, evaluate
from ridgeformer.evaluation.layers import layerwise
from ridgeformer.evaluation.losses import CHUNK, Predictor, adjusted_losses, draw_chunks
from ridgeformer.evaluation.profiles import Profile, default_levels, profile
from ridgeformer.evaluation.result import Comparison, Difference, Evaluation
from ridgeformer.evaluation.shift import Shifted, ShiftedDraw, parse_shift
from ridgeformer.evaluation.shift_table import ShiftResult, ShiftTable, default_scenarios, shift_table

__all__ = [
    "CHUNK",
    "Comparison",
    "Difference",
    "Evaluation",
    "Predictor",
    "Profile",
    "ShiftResult",
    "ShiftTable",
    "Shifted",
    "ShiftedDraw",
    "adjusted_losses",
    "compare",
    "default_levels",
    "default_scenarios",
    "draw_chunks",
    "evaluate",
    "layerwise",
    "parse_shift",
    "profile",
    "shift_table",
]
