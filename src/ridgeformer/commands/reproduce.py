"""``ridgeformer reproduce``: the paper's numbers, measured here."""

from __future__ import annotations

from ridgeformer.commands.output import File
from ridgeformer.commands.train import run_training
from ridgeformer.training.config import TrainConfig


def reproduce(layers: int = 4, seed: int = 0, threads: int | None = None, json: File = None) -> int:
    """Train one model of the paper's Table 1 from scratch and measure it on a million fresh sequences (a minute).

    Args:
        layers: Layers of the full model that is trained on σ ~ U(0, 5).
        seed: Seed of the initial weights and of all contexts.
        threads: Threads to use; the result does not depend on it.
        json: Also write the result as JSON.
    """
    return run_training(TrainConfig(model="full", layers=layers, seed=seed), threads=threads, json=json)
