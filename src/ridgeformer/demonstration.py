"""A minute of the real thing: train one model from scratch, measure it on fresh sequences, compare with the paper.

It stands in for the reproduction of Table 1 and uses what that will use: the fused step, Adam, the exact objective.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ridgeformer.checks import whole_number
from ridgeformer.forward import context_weights
from ridgeformer.model import LinearTransformer
from ridgeformer.objective import loss_and_gradient
from ridgeformer.paper import printed_loss
from ridgeformer.streams import Purpose
from ridgeformer.task import Task
from ridgeformer.training.adam import Adam, clip_norm
from ridgeformer.training.schedule import warmup_cosine
from ridgeformer.types import Array

# Found by trial for four layers: larger inits and steps diverge, smaller ones are slower.
_INIT_SCALE, _RATE, _BATCH = 0.02, 1e-3, 2048
_CHUNK = 32_768


@dataclass(frozen=True)
class DemonstrationConfig:
    """What ``ridgeformer reproduce`` does until it reproduces all of Table 1: one cell of it, from scratch."""

    layers: int = 4
    """Layers of the full model that is trained on σ ~ U(0, 5)."""
    steps: int = 12_000
    """Training steps of 2048 contexts each."""
    sequences: int = 1_000_000
    """Fresh sequences the trained model is measured on."""
    seed: int = 0
    """Seed of the initial weights and the training contexts."""

    def __post_init__(self) -> None:
        whole_number("layers", self.layers, 1, 12)
        whole_number("steps", self.steps, 1)
        whole_number("sequences", self.sequences, 2)


@dataclass(frozen=True)
class Demonstration:
    """What came out."""

    model: LinearTransformer
    seconds: float
    sequences: int
    adjusted_loss: float
    standard_error: float
    median: float
    maximum: float
    untrained_loss: float
    """Adjusted loss of predicting zero, on the same sequences."""
    paper: float | None

    def as_json(self) -> dict[str, object]:
        """Everything but the weights."""
        fields = {name: value for name, value in self.__dict__.items() if name != "model"}
        return {"model": f"full-{self.model.layers}-uniform-5", **fields}


def demonstrate(config: DemonstrationConfig, on_step: Callable[[int, float], None]) -> Demonstration:
    """Train and measure; ``on_step(steps done, loss)`` is called after every step."""
    task = Task(noise="uniform:5")
    model = LinearTransformer.init("full", layers=config.layers, seed=config.seed, scale=_INIT_SCALE)
    started = time.perf_counter()
    vector = model.flatten().astype(np.float64)
    adam = Adam.start(len(vector))
    for step in range(config.steps):
        loss, gradient = loss_and_gradient(model, task, batch=_BATCH, seed=config.seed, step=step)
        clipped = clip_norm(gradient.flatten().astype(np.float64), 1.0)
        adam, change = adam.step(clipped, _RATE * warmup_cosine(step, config.steps))
        vector = vector + change
        model = model.unflatten(vector)
        on_step(step + 1, loss)
    seconds = time.perf_counter() - started
    losses, untrained = _measure(model, task, config.sequences)
    return Demonstration(
        model=model,
        seconds=seconds,
        sequences=len(losses),
        adjusted_loss=float(losses.mean()),
        standard_error=float(losses.std(ddof=1) / np.sqrt(len(losses))),
        median=float(np.median(losses)),
        maximum=float(losses.max()),
        untrained_loss=float(untrained.mean()),
        paper=printed_loss("full", config.layers, "uniform:5"),
    )


def _measure(model: LinearTransformer, task: Task, sequences: int) -> tuple[Array, Array]:
    """½‖ŵ − w*‖² and ½‖w*‖² of fresh sequences: the adjusted losses of the model and of predicting zero."""
    losses, untrained = [], []
    for number, start in enumerate(range(0, sequences, _CHUNK)):
        count = min(_CHUNK, sequences - start)
        draw = task.draw_contexts(count, seed=1, step=number, purpose=Purpose.EVALUATE, dtype=model.dtype)
        weights, oracle = context_weights(model, draw.context).astype(np.float64), draw.oracle.astype(np.float64)
        losses.append(0.5 * ((weights - oracle) ** 2).sum(axis=-1))
        untrained.append(0.5 * (oracle**2).sum(axis=-1))
    return np.concatenate(losses), np.concatenate(untrained)
