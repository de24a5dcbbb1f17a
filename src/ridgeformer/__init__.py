"""ridgeformer: linear transformers that learn to solve noisy regressions in their context.

A reproduction and extension of Vladymyrov, von Oswald, Sandler, Ge, *Linear Transformers are Versatile In-Context
Learners*, NeurIPS 2024. Start with `load`, `Task` and `evaluate`; `train` trains new models.

>>> import ridgeformer as rf
>>> model = rf.load("diag-4-uniform-5")
>>> rf.compare({"model": model, "AdaRR": rf.baselines.AdaRR()}, "uniform:5", sequences=20_000)
Comparison of 2 predictors on 20,000 sequences: adjusted loss ± s.e.
  model  0.05973 ± 0.00067
  AdaRR  0.06854 ± 0.0012   +0.00881 ± 0.00092 against model
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ridgeformer.sweeps.sweep import SweepResult, sweep

try:
    from ridgeformer import baselines
    from ridgeformer._version import __version__
    from ridgeformer.core.context import Context
    from ridgeformer.core.distributions import Categorical, Fixed, LogUniform, NoisePrior, Uniform, parse_noise
    from ridgeformer.core.forward import context_weights, token_predictions, transform_tokens
    from ridgeformer.core.mixture import Mixture, parse_mixture
    from ridgeformer.core.model import LinearTransformer
    from ridgeformer.core.objective import Options, loss_and_gradient, losses_and_gradient_on
    from ridgeformer.core.predictor import Predictor, as_predictor
    from ridgeformer.core.task import ContextDraw, Task, TokenDraw
    from ridgeformer.core.validation import InputError, RidgeformerError
    from ridgeformer.evaluation import (
        Comparison,
        Curve,
        Evaluation,
        Scores,
        UntrainedDataWarning,
        compare,
        curve,
        evaluate,
        implicit_weights,
        layerwise,
        predict,
        profile,
        score,
        shift_table,
    )
    from ridgeformer.training import TrainConfig, TrainResult, train
    from ridgeformer.zoo import load
except KeyboardInterrupt:  # Ctrl-C right after the command was started: no traceback
    if not sys.argv or (sys.argv[0] != "-m" and os.path.basename(sys.argv[0]) != "ridgeformer"):
        raise
    sys.stderr.write("ridgeformer: interrupted.\n")
    sys.exit(130)

__all__ = [
    "Categorical",
    "Comparison",
    "Context",
    "ContextDraw",
    "Curve",
    "Evaluation",
    "Fixed",
    "InputError",
    "LinearTransformer",
    "LogUniform",
    "Mixture",
    "NoisePrior",
    "Options",
    "Predictor",
    "RidgeformerError",
    "Scores",
    "SweepResult",
    "Task",
    "TokenDraw",
    "TrainConfig",
    "TrainResult",
    "Uniform",
    "UntrainedDataWarning",
    "__version__",
    "as_predictor",
    "baselines",
    "compare",
    "context_weights",
    "curve",
    "evaluate",
    "implicit_weights",
    "layerwise",
    "load",
    "loss_and_gradient",
    "losses_and_gradient_on",
    "parse_mixture",
    "parse_noise",
    "predict",
    "profile",
    "score",
    "shift_table",
    "sweep",
    "token_predictions",
    "train",
    "transform_tokens",
]

_LATER = {"SweepResult": "ridgeformer.sweeps", "sweep": "ridgeformer.sweeps"}
"""Names that are imported when they are first used, and the package that each comes from."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    if name == "torch":  # an optional part; it says itself if PyTorch is not installed
        return import_module("ridgeformer.torch")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
