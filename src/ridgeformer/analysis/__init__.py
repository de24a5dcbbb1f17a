"""What a trained model does: measurements of its algorithm, and the algorithm in as few numbers as it needs.

| question | answered by | exact for |
|---|---|---|
| which four ω has each layer? | `omega_of`, `diagonal_fit` | diag, gdpp |
| what do P and Q look like, however they are written? | `canonical_heads` | all |
| which filter of Σ is it, and which noise level does it assume? | `filters` | gdpp |
| how long are its steps, how much is momentum? | `layer_steps` | diag, gdpp |
| what is each ω for? | `ablations`, `switched_off` | all |
| what is the algorithm, as code? | `algorithm` | diag, gdpp |
| what do its registers hold? | `explain_registers` | diag, full |
| how few constants does it need? | `simplest` | – |

`explain_model` answers all questions except the last two, on the same fresh contexts. It is for models without
registers.
"""

from __future__ import annotations

from ridgeformer.analysis.ablation import Ablation, ablations, mark, switched_off
from ridgeformer.analysis.algorithm import Algorithm, algorithm
from ridgeformer.analysis.diagonal import DiagonalFit, canonical_heads, diagonal_fit, model_from_omega, omega_of
from ridgeformer.analysis.explanation import Explanation, explain_model
from ridgeformer.analysis.few_constants import Simplest, simplest
from ridgeformer.analysis.noise_bands import Sample
from ridgeformer.analysis.refit import Tuner
from ridgeformer.analysis.registers import RegisterExplanation, explain_registers

__all__ = [
    "Ablation",
    "Algorithm",
    "DiagonalFit",
    "Explanation",
    "RegisterExplanation",
    "Sample",
    "Simplest",
    "Tuner",
    "ablations",
    "algorithm",
    "canonical_heads",
    "diagonal_fit",
    "explain_model",
    "explain_registers",
    "mark",
    "model_from_omega",
    "omega_of",
    "simplest",
    "switched_off",
]
