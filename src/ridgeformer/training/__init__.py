"""Training: configs, recipes, the step with its guard, runs on disk.

`config` says what a run is, `recipes` which legs it consists of, `steps` does one step, `hard_contexts` finds the
contexts on which a model is about to explode, `state` and `run_directory` keep a run on disk, `train` puts it together.
"""

from __future__ import annotations

from ridgeformer.training.config import TrainConfig
from ridgeformer.training.train import (
    Callback,
    TrainingDivergedError,
    TrainingInterruptedError,
    TrainResult,
    train,
)

__all__ = ["Callback", "TrainConfig", "TrainResult", "TrainingDivergedError", "TrainingInterruptedError", "train"]
