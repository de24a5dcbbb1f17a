"""ridgeformer: linear transformers that learn to solve noisy regressions in their context.

A reproduction and extension of Vladymyrov, von Oswald, Sandler, Ge, *Linear Transformers are Versatile In-Context
Learners*, NeurIPS 2024. Start with `LinearTransformer`, `Task`, `loss_and_gradient` and `implicit_weights`.
"""

from __future__ import annotations

from ridgeformer import baselines
from ridgeformer._version import __version__
from ridgeformer.core.context import Context
from ridgeformer.core.distributions import Categorical, Fixed, NoisePrior, Uniform, parse_noise
from ridgeformer.core.forward import context_weights, implicit_weights, predict, token_predictions, transform_tokens
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.objective import loss_and_gradient, losses_and_gradient_on
from ridgeformer.core.task import ContextDraw, Task, TokenDraw
from ridgeformer.core.validation import InputError, RidgeformerError
from ridgeformer.evaluation import Comparison, Evaluation, compare, evaluate, layerwise, profile, shift_table
from ridgeformer.training import TrainConfig, TrainResult, train
from ridgeformer.zoo import load

__all__ = [
    "Categorical",
    "Comparison",
    "Context",
    "ContextDraw",
    "Evaluation",
    "Fixed",
    "InputError",
    "LinearTransformer",
    "NoisePrior",
    "RidgeformerError",
    "Task",
    "TokenDraw",
    "TrainConfig",
    "TrainResult",
    "Uniform",
    "__version__",
    "baselines",
    "compare",
    "context_weights",
    "evaluate",
    "implicit_weights",
    "layerwise",
    "load",
    "loss_and_gradient",
    "losses_and_gradient_on",
    "parse_noise",
    "predict",
    "profile",
    "shift_table",
    "token_predictions",
    "train",
    "transform_tokens",
]
