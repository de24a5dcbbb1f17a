"""Training: a config says what a run is, a recipe of which stages it consists, a stage does a step, `train` does all.

`config` → `recipes` → `stages` (`adam_stage`, `pools`, `spectral`) → `train`, with `optimisers` to step with and
`run_directory` to keep a run on disk.
"""

from __future__ import annotations

from ridgeformer.training.config import TrainConfig
from ridgeformer.training.stages import StepInfo
from ridgeformer.training.train import Callback, TrainingDivergedError, TrainingInterruptedError, TrainResult, train

__all__ = [
    "Callback",
    "StepInfo",
    "TrainConfig",
    "TrainResult",
    "TrainingDivergedError",
    "TrainingInterruptedError",
    "train",
]
