"""Adam (Kingma and Ba, 2015) on one flat vector, in float64 whatever the precision of the model, and its step size."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ridgeformer.core.notation import Array


@dataclass(frozen=True)
class Adam:
    """Running moments of the gradient. A step gives a new state and a change of the parameters; nothing is mutated."""

    mean: Array
    square: Array
    count: int = 0
    mean_decay: float = 0.9
    square_decay: float = 0.999
    epsilon: float = 1e-8

    @classmethod
    def start(cls, size: int, mean_decay: float = 0.9, square_decay: float = 0.999) -> Adam:
        """The state before the first step."""
        return cls(np.zeros(size), np.zeros(size), 0, mean_decay, square_decay)

    def step(self, gradient: Array, rate: float) -> tuple[Adam, Array]:
        """(state after the step, what to add to the parameters)."""
        count = self.count + 1
        mean = self.mean_decay * self.mean + (1 - self.mean_decay) * gradient
        square = self.square_decay * self.square + (1 - self.square_decay) * gradient**2
        unbiased = mean / (1 - self.mean_decay**count)
        scale = np.sqrt(square / (1 - self.square_decay**count)) + self.epsilon
        return replace(self, mean=mean, square=square, count=count), -rate * unbiased / scale


def clip_norm(gradient: Array, largest: float) -> Array:
    """The gradient, shortened to this Euclidean norm if it is longer; one that is not finite is left as it is."""
    norm = float(np.linalg.norm(gradient))
    return gradient * (largest / norm) if largest < norm < np.inf else gradient


def warmup_cosine(step: int, steps: int, warmup: int = 200, final: float = 0.01) -> float:
    """Factor of the base step size at ``step`` of ``steps``: a linear rise, then half a cosine down to ``final``."""
    rise = min(1.0, (step + 1) / warmup)
    fall = final + (1 - final) * 0.5 * (1 + math.cos(math.pi * step / steps))
    return rise * fall
