"""How good a predictor is on fresh sequences: means with error bars, tails, and losses on other data than in training.

The adjusted loss is the loss ½(ŷ − y_t)² minus that of the oracle, which is ridge regression that is told σ. Averaged
over the query, and over w given the data, it is ½‖ŵ − w*‖² for every sequence. That is what is measured here: it has
the same expectation as the paper's estimate, far less variance, and is never negative.
"""

from __future__ import annotations

from ridgeformer.evaluation.compare import (
    Profile,
    compare,
    default_levels,
    evaluate,
    layerwise,
    profile,
    trained_on,
)
from ridgeformer.evaluation.curve import OVERS, Curve, Over, curve
from ridgeformer.evaluation.guard import UntrainedDataWarning, implicit_weights, predict
from ridgeformer.evaluation.own_data import Score, Scores, score
from ridgeformer.evaluation.scoring import adjusted_losses, half_square
from ridgeformer.evaluation.shift import SHIFTS, Shift, garg_battery, parse_shift, shifted
from ridgeformer.evaluation.shift_table import ShiftResult, ShiftTable, default_scenarios, shift_table
from ridgeformer.evaluation.statistics import Comparison, Difference, Evaluation

__all__ = [
    "OVERS",
    "SHIFTS",
    "Comparison",
    "Curve",
    "Difference",
    "Evaluation",
    "Over",
    "Profile",
    "Score",
    "Scores",
    "Shift",
    "ShiftResult",
    "ShiftTable",
    "UntrainedDataWarning",
    "adjusted_losses",
    "compare",
    "curve",
    "default_levels",
    "default_scenarios",
    "evaluate",
    "garg_battery",
    "half_square",
    "implicit_weights",
    "layerwise",
    "parse_shift",
    "predict",
    "profile",
    "score",
    "shift_table",
    "shifted",
    "trained_on",
]
