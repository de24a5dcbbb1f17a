"""What models are compared with: ridge regressions that choose their penalty in different ways, and the Bayes limit.

All are linear predictors for any d and n: ``weights(context)`` gives weights (batch, d), in float64, and ``describe()``
says in words what the baseline is. They use only the Gram matrices of a context. `BASELINES` lists them.
"""

from __future__ import annotations

from ridgeformer.baselines.bayes import Bayes
from ridgeformer.baselines.iterative import IterativeAdaRR
from ridgeformer.baselines.references import bayes_limit, reference_note
from ridgeformer.baselines.registry import BASELINES, Baseline, baselines_for
from ridgeformer.baselines.ridge import OLS, AdaRR, ConstRR, Oracle, TunedRR
from ridgeformer.baselines.solvers import SOLVERS, ConjugateGradient, GradientDescent, Newton

__all__ = [
    "BASELINES",
    "OLS",
    "SOLVERS",
    "AdaRR",
    "Baseline",
    "Bayes",
    "ConjugateGradient",
    "ConstRR",
    "GradientDescent",
    "IterativeAdaRR",
    "Newton",
    "Oracle",
    "TunedRR",
    "baselines_for",
    "bayes_limit",
    "reference_note",
]
