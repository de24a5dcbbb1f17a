"""A learned algorithm taken apart, and written down again in as few numbers as it needs.

| question | answered by | exact for |
|---|---|---|
| which four ω a layer is it? | `omega_of`, `diagonal_fit` | diag, gdpp |
| what do P and Q look like, however they are written? | `canonical_heads` | all |
| which filter of Σ is it? | `spectral_filters`, `gdpp_filter` | gdpp |
| which noise does it act on? | `implied_noise` | – |
| how long are its steps, how much is momentum? | `step_sizes`, `momentum_terms` | diag, gdpp |
| what is each ω for? | `ablations` | all |
| what is the algorithm, as code? | `algorithm` | diag, gdpp |
| how few constants does it need? | `simplest` | – |

`explain_model` answers all but the last, on the same fresh contexts.
"""

from __future__ import annotations

from ridgeformer.analysis.ablation import Ablation, ablations, mark, switched_off
from ridgeformer.analysis.diagonal import DiagonalFit, Remainder, diagonal_fit, low_rank_split
from ridgeformer.analysis.diagonal_model import DiagonalModel, diagonal_model
from ridgeformer.analysis.distil import Algorithm
from ridgeformer.analysis.explanation import Explanation, algorithm, explain_model, explained_algorithm
from ridgeformer.analysis.few_constants import Description, Simplest, simplest
from ridgeformer.analysis.filters import Filters, gdpp_filter, spectral_filters
from ridgeformer.analysis.forms import FORMS, ConstantForm
from ridgeformer.analysis.gauge import canonical_heads
from ridgeformer.analysis.implied_noise import ImpliedNoise, implied_noise, implied_penalty
from ridgeformer.analysis.omega import OMEGAS, inert, model_from_omega, natural_units, omega_of
from ridgeformer.analysis.retune import Tuner
from ridgeformer.analysis.roles import MomentumTerms, StepBand, momentum_terms, step_sizes
from ridgeformer.analysis.samples import Band, Measured, Sample, layer_progress, measure

__all__ = [
    "FORMS",
    "OMEGAS",
    "Ablation",
    "Algorithm",
    "Band",
    "ConstantForm",
    "Description",
    "DiagonalFit",
    "DiagonalModel",
    "Explanation",
    "Filters",
    "ImpliedNoise",
    "Measured",
    "MomentumTerms",
    "Remainder",
    "Sample",
    "Simplest",
    "StepBand",
    "Tuner",
    "ablations",
    "algorithm",
    "canonical_heads",
    "diagonal_fit",
    "diagonal_model",
    "explain_model",
    "explained_algorithm",
    "gdpp_filter",
    "implied_noise",
    "implied_penalty",
    "inert",
    "layer_progress",
    "low_rank_split",
    "mark",
    "measure",
    "model_from_omega",
    "momentum_terms",
    "natural_units",
    "omega_of",
    "simplest",
    "spectral_filters",
    "step_sizes",
    "switched_off",
]
