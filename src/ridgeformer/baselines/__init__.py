"""What models are compared with: ridge regressions that choose their penalty in various ways, and the Bayes limit.

All are predictors, `weights(context) -> (batch, d)`, for any d and n, and have a ``name`` and a `describe()`. They work
from Gram statistics alone, in float64.
"""

from __future__ import annotations

from ridgeformer.baselines.bayes import Bayes
from ridgeformer.baselines.iterative import IterativeAdaRR
from ridgeformer.baselines.ridge import OLS, AdaRR, ConstRR, Oracle, TunedRR

__all__ = ["OLS", "AdaRR", "Bayes", "ConstRR", "IterativeAdaRR", "Oracle", "TunedRR"]
