"""What models are compared with: ridge regressions that choose their penalty in various ways, and the Bayes limit.

All are linear predictors, ``weights(context) -> (batch, d)``, for any d and n, and say in ``describe()`` what they are.
They work from Gram matrices alone, in float64. `BASELINES` lists them.
"""

from __future__ import annotations

from ridgeformer.baselines.bayes import Bayes
from ridgeformer.baselines.iterative import IterativeAdaRR
from ridgeformer.baselines.registry import BASELINES, Baseline
from ridgeformer.baselines.ridge import OLS, AdaRR, ConstRR, Oracle, TunedRR

__all__ = ["BASELINES", "OLS", "AdaRR", "Baseline", "Bayes", "ConstRR", "IterativeAdaRR", "Oracle", "TunedRR"]
