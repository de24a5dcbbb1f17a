"""The step size over a run."""

from __future__ import annotations

import math


def warmup_cosine(step: int, steps: int, warmup: int = 200, final: float = 0.01) -> float:
    """Factor of the base step size at ``step`` of ``steps``: a linear rise, then half a cosine down to ``final``."""
    rise = min(1.0, (step + 1) / warmup)
    fall = final + (1 - final) * 0.5 * (1 + math.cos(math.pi * step / steps))
    return rise * fall
