"""Short runs with legs of every kind, in place of the recipes: a second or less where a recipe takes minutes.

What recipes consist of is the subject of test_config.py; that runs can be cut, resumed and guarded holds for any legs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ridgeformer.training import TrainConfig, spectral, steps
from ridgeformer.training.hard_contexts import Mining
from ridgeformer.training.recipes import AdamLeg, DiagonalLeg, Leg, PoolLeg, SpectralLeg
from ridgeformer.training.steps import StepInfo

_SIZES: dict[str, Any] = {"dim": 3, "context": 8, "batch": 32, "sequences": 500}

ADAM = TrainConfig(kind="full", layers=2, noise="uniform:2", **_SIZES)
"""Random starts, then the best one with hard contexts; float32."""
POOLS = TrainConfig(kind="diag", layers=2, noise="uniform:2", **_SIZES)
"""Random starts, then L-BFGS on stretched and sifted pools; float32."""
SPECTRAL = TrainConfig(kind="diag", layers=2, noise="fixed:0", **_SIZES)
"""The GD++ fit, then sifted pools, then Adam; float64."""
LARGER = TrainConfig(kind="full", layers=2, noise="fixed:1", **_SIZES)
"""A DIAG model, trained by a run within the run, then L-BFGS on the FULL one; float32."""
WARM = TrainConfig(kind="diag", layers=2, noise="uniform:1", **_SIZES)
"""From a given model, to be named in ``start``; float32."""
GDPP = TrainConfig(kind="gdpp", layers=2, noise="uniform:2", **_SIZES)
"""The GD++ fit and nothing else."""
CONFIGS = {"Adam": ADAM, "pools": POOLS, "spectral": SPECTRAL, "larger": LARGER}
"""Runs that between them have every kind of leg and state."""


def _start(number: int, rate: float = 1e-2) -> AdamLeg:
    return AdamLeg(name=f"start {number}", steps=8, rate=rate, batch=32, start="init", init_scale=0.05, warmup=4)


SMALLER: tuple[Leg, ...] = (_start(1), PoolLeg(name="stretched", steps=8, pool=256))
"""The legs of the DIAG model that `LARGER` starts with."""

_PLANS: dict[TrainConfig, tuple[Leg, ...]] = {
    ADAM: (
        _start(1),
        _start(2, rate=1e-5),  # learns nothing, so that the first one is the better one
        AdamLeg(
            name="main",
            steps=30,
            rate=1e-3,
            batch=32,
            start="best",
            warmup=5,
            mining=Mining(first_step=6, every=5, pool=8, keep=16, memory=64),
            tolerance=0.05,
        ),
        AdamLeg(name="polish", steps=10, rate=1e-3, batch=32, square_decay=0.99, warmup=1),
    ),
    POOLS: (
        _start(1),
        _start(2),
        PoolLeg(name="saturated", steps=12, start="best", pool=256, saturation=100.0, tolerance=0.1),
        PoolLeg(name="stretched", steps=60, pool=512, widen=1.1),
        PoolLeg(name="sifted", steps=15, pool=256, sift=4, widen=1.1),
    ),
    SPECTRAL: (
        SpectralLeg(name="spectral", steps=1, start="init"),
        # Such tolerances that the result is that of the last leg, whatever its score.
        PoolLeg(name="sifted 1", steps=40, pool=256, sift=8, tolerance=100.0),
        PoolLeg(name="sifted 2", steps=10, pool=256, sift=8, tolerance=100.0),
        AdamLeg(name="adam", steps=6, rate=1e-4, batch=32, tolerance=100.0),
    ),
    LARGER: (
        DiagonalLeg(name="diagonal", steps=16, start="init", legs=SMALLER),
        PoolLeg(name="stretched", steps=12, pool=256, tolerance=0.1),
    ),
    WARM: (
        PoolLeg(name="from given", steps=10, start="given", pool=256, saturation=100.0),
        _start(1),
        PoolLeg(name="stretched", steps=8, start="best", pool=256),
    ),
    GDPP: (SpectralLeg(name="spectral", steps=1, start="init"),),
}


def plan_of(config: TrainConfig) -> tuple[Leg, ...]:
    """The legs of one of the configs above, whatever its seed."""
    alike = (config.kind, config.noise)
    return next(plan for known, plan in _PLANS.items() if (known.kind, known.noise) == alike)


def install(setattr_: Callable[[Any, str, Any], None] = setattr) -> None:
    """Let runs in this process have these legs, ranked on few contexts, and short fits of GD++ models."""
    setattr_(steps, "legs", plan_of)
    setattr_(steps, "_SELECT_SEQUENCES", 4096)
    for name, value in {"_STARTS": 2, "_ITERATIONS": 50}.items():
        setattr_(spectral, name, value)


class StopAfter:
    """A callback that presses Ctrl-C after this many steps of a run."""

    def __init__(self, total: int) -> None:
        self.total = total

    def __call__(self, info: StepInfo) -> None:
        if info.total >= self.total:
            raise KeyboardInterrupt


def fingerprint(folder: Path) -> dict[str, str]:
    """SHA-256 of the weights, the optimiser's last state, the history and the result."""
    last = sorted((folder / "checkpoints").glob("*.safetensors"))[-1]
    files = [folder / "history.jsonl", folder / "result.json", folder / "model.safetensors", last]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
