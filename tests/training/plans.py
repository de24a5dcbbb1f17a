"""Short runs with stages of every kind, in place of the recipes: a second or less where a recipe takes minutes.

What recipes consist of is the subject of test_recipes.py; that runs can be cut, resumed and guarded holds for any.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ridgeformer.training import StepInfo, TrainConfig, TrainResult, train
from ridgeformer.training.adam_stage import AdamStage
from ridgeformer.training.pools import Mining, PoolStage
from ridgeformer.training.spectral import SpectralStage
from ridgeformer.training.stages import Run, Stage, TrainState

_SIZES: dict[str, Any] = {"dim": 3, "examples": 8, "batch": 32, "sequences": 500}

ADAM = TrainConfig(kind="full", layers=2, noise="uniform:2", **_SIZES)
"""Random starts, then the best one with hard contexts; float32."""
POOLS = TrainConfig(kind="diag", layers=2, noise="uniform:2", **_SIZES)
"""Random starts, then L-BFGS on stretched and sifted pools; float32."""
SPECTRAL = TrainConfig(kind="diag", layers=2, noise="fixed:0", **_SIZES)
"""The GD++ fit, then sifted pools, then Adam; float64."""
LARGER = TrainConfig(kind="full", layers=2, noise="fixed:1", **_SIZES)
"""A DIAG model first, then L-BFGS on the FULL one; float32."""
WARM = TrainConfig(kind="diag", layers=2, noise="uniform:1", **_SIZES)
"""From a given model, to be named in ``start``; float32."""
GDPP = TrainConfig(kind="gdpp", layers=2, noise="uniform:2", **_SIZES)
"""The GD++ fit and nothing else."""
CONFIGS = {"Adam": ADAM, "pools": POOLS, "spectral": SPECTRAL, "larger": LARGER}
"""Runs that between them have every kind of stage and state."""

SHORT_FIT = SpectralStage(name="spectral", origin="init", starts=2, iterations=50)


def _start(number: int, rate: float = 1e-2) -> AdamStage:
    return AdamStage(name=f"start {number}", steps=8, rate=rate, batch=32, origin="init", init_scale=0.05, warmup=4)


SMALLER: tuple[Stage, ...] = (_start(1), PoolStage(name="stretched", steps=8, pool=256))
"""The stages of the DIAG model that `LARGER` starts with."""

_PLANS: dict[TrainConfig, tuple[Stage, ...]] = {
    ADAM: (
        _start(1),
        _start(2, rate=1e-5),  # learns nothing, so that the first one is the better one
        AdamStage(
            name="main",
            steps=30,
            rate=1e-3,
            batch=32,
            origin="best",
            warmup=5,
            mining=Mining(first_step=6, every=5, pool=8, keep=16, memory=64),
            tolerance=0.05,
        ),
        AdamStage(name="polish", steps=10, rate=1e-3, batch=32, square_decay=0.99, warmup=1),
    ),
    POOLS: (
        _start(1),
        _start(2),
        PoolStage(name="saturated", steps=12, origin="best", pool=256, saturation=100.0, tolerance=0.1),
        PoolStage(name="stretched", steps=60, pool=512, widen=1.1),
        PoolStage(name="sifted", steps=15, pool=256, sift=4, widen=1.1),
    ),
    SPECTRAL: (
        SHORT_FIT,
        # Such tolerances that the result is that of the last stage, whatever its score.
        PoolStage(name="sifted 1", steps=40, pool=256, sift=8, tolerance=100.0),
        PoolStage(name="sifted 2", steps=10, pool=256, sift=8, tolerance=100.0),
        AdamStage(name="adam", steps=6, rate=1e-4, batch=32, tolerance=100.0),
    ),
    LARGER: (
        *(replace(stage, kind="diag", name=f"diagonal, {stage.name}") for stage in SMALLER),
        PoolStage(name="larger", steps=12, origin="smaller", pool=256, tolerance=0.1),
    ),
    WARM: (
        PoolStage(name="from given", steps=10, origin="given", pool=256, saturation=100.0),
        _start(1),
        PoolStage(name="stretched", steps=8, origin="best", pool=256),
    ),
    GDPP: (SHORT_FIT,),
}


def short_run(config: TrainConfig, plan: Sequence[Stage] | None = None, **fields: Any) -> Run:
    """A run of one of the configs above, whatever its seed, or with other stages; stages are ranked on few contexts."""
    alike = (config.kind, config.noise)
    stages = (
        next((s for known, s in _PLANS.items() if (known.kind, known.noise) == alike), ()) if plan is None else plan
    )
    return Run(config, tuple(stages), **({"ranked_on": 4096} | fields))


def train_short(config: TrainConfig, out: Path | None = None, **options: Any) -> TrainResult:
    """As `ridgeformer.train`, with the stages of `short_run`."""
    return train(short_run(config), out=out, **options)


def trail_of(run: Run) -> list[tuple[TrainState, StepInfo]]:
    """The state and the report after every step, until the run has ended or diverged."""
    state, trail = run.start(), []
    while not (run.finished(state) or run.diverged(state)):
        state, info = run.step(state)
        trail.append((state, info))
    return trail


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
