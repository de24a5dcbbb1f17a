"""Recipes: which legs a run consists of. The numbers were found by trial on the tasks of the paper.

A leg is a stretch of Adam with its own schedule. It starts from fresh random weights, from the best model so far, or
from where the leg before it ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from ridgeformer.training.config import TrainConfig
from ridgeformer.training.hard_contexts import Mining


@dataclass(frozen=True)
class Leg:
    """One stretch of training."""

    name: str
    steps: int
    rate: float
    """Step size of Adam at its highest."""
    batch: int = 2048
    start: str = "previous"
    """"init": fresh weights; "best": the best model so far; "previous": where the leg before ended."""
    init_scale: float = 0.0
    """Standard deviation of fresh weights."""
    objective: str = "exact"
    saturation: float = 10.0
    """See `loss_and_gradient`. Losses of a trained model stay below 5, so 10 leaves them alone."""
    warmup: int = 200
    final: float = 0.01
    """Share of the step size that is left at the end."""
    square_decay: float = 0.999
    largest_gradient: float = 1.0
    """Norm to which a gradient is shortened."""
    mining: Mining | None = None


def legs(config: TrainConfig) -> tuple[Leg, ...]:
    """The legs of a run, with the config's own steps, batch and rate put in."""
    chosen = _paper(config) if config.recipe == "paper" else _FAST[config.model](config)
    return chosen


def _paper(config: TrainConfig) -> tuple[Leg, ...]:
    """Section 3 of the paper: Adam, 1e-4, 200 000 steps of 2048 sequences with one query each; nothing else."""
    return (
        Leg(
            name="as printed",
            steps=config.steps or 200_000,
            rate=config.rate or 1e-4,
            batch=config.batch or 2048,
            start="init",
            init_scale=_full_scale(config.layers),
            objective="sampled",
            saturation=0.0,
            warmup=1,
            final=1.0,
        ),
    )


def _full_scale(layers: int) -> float:
    """Initial standard deviation: shallow models learn sooner from larger weights, deep ones explode."""
    return 0.02 if layers <= 4 else 0.002


def _fast_full(config: TrainConfig) -> tuple[Leg, ...]:
    """A few short starts for shallow models, some of which end in a poor minimum; the best one at length; a polish."""
    starts = 3 if config.layers <= 4 else 1
    steps = config.steps or (12_000 if config.layers <= 4 else 20_000)
    batch = config.batch or 2048
    rate = config.rate or 1e-3
    scale = _full_scale(config.layers)
    mining = Mining(first_step=max(1, steps // 10), every=max(1, min(500, steps // 20)))
    short = [
        Leg(f"start {number + 1}", max(1, steps // 6), rate, batch, "init", init_scale=scale, final=0.1)
        for number in range(starts)
    ]
    main = Leg("main", steps, rate, batch, start="best", mining=mining)
    polish = Leg(
        "polish",
        max(1, steps // 5),
        rate * 0.2,
        batch,
        square_decay=0.99,
        warmup=50,
        final=0.02,
        mining=Mining(every=200, pool=256, keep=1024, first_step=0),
    )
    return (*short, main, polish)


def _fast_diagonal(config: TrainConfig) -> tuple[Leg, ...]:
    """Many short starts, since most random ones end in a poor minimum; then the best one at length."""
    starts = 16 if config.layers > 1 else 2
    steps = config.steps or 6000
    batch = config.batch or 2048
    rate = config.rate or 1e-2
    short = [
        Leg(f"start {number + 1}", max(1, steps // 2), rate, max(1, batch // 2), "init", init_scale=0.1, final=0.05)
        for number in range(starts)
    ]
    polish = Leg(
        "polish",
        steps,
        rate * 0.3,
        batch,
        start="best",
        square_decay=0.99,
        warmup=50,
        final=0.02,
        mining=Mining(every=100, pool=128, keep=512, stretch=1.1, largest_gradient=1.0, first_step=0),
    )
    return (*short, polish)


_FAST = {"full": _fast_full, "diag": _fast_diagonal, "gdpp": _fast_diagonal}
