"""Training: a config defines a run, a recipe lists its stages, a stage does one step at a time, `train` runs them all.

`config` → `recipes` → `stages` (`adam_stage`, `pools`, `spectral`) → `train`. `optimisers` compute the steps, and
`run_directory` stores a run on disk.
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
