"""Short runs with stages of every kind, in place of the recipes: a second or less where a recipe takes minutes.

What recipes consist of is the subject of test_recipes.py; that runs can be cut, resumed and guarded holds for any.
Also faults on purpose: losses and gradients that are not what they should be, at chosen steps of a run.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import safetensors.numpy

from ridgeformer import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.objective import losses_and_gradient, losses_and_gradient_on
from ridgeformer.training import Callback, StepInfo, TrainConfig, TrainingInterruptedError, TrainResult, train
from ridgeformer.training.adam_stage import AdamStage
from ridgeformer.training.natural_stage import Calm, NaturalStage
from ridgeformer.training.optimisers import Metric
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
NATURAL = TrainConfig(kind="diag", layers=3, noise="uniform:1-2", registers=1, **_SIZES)
"""A random start, then natural gradient with hard contexts; float32."""
CONTEST = TrainConfig(kind="diag", layers=2, noise="uniform:3", **_SIZES)
"""Three random starts, then more steps from the two best of them; float32."""
CONFIGS = {
    "Adam": ADAM,
    "pools": POOLS,
    "spectral": SPECTRAL,
    "larger": LARGER,
    "natural": NATURAL,
    "contest": CONTEST,
}
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
    NATURAL: (
        replace(_start(1), steps=60),
        NaturalStage(
            name="natural",
            steps=24,
            batch=64,
            warmup=4,
            pool=1024,
            sample=1024,
            every=5,
            calm=Calm(every=7, search=128, keep=64, batch=32),
        ),
    ),
    CONTEST: (
        *(replace(_start(number), competes=True) for number in (1, 2, 3)),
        *(replace(_start(number), name=f"final {number}", origin="finalist") for number in (1, 2)),
    ),
}


def short_run(config: TrainConfig, plan: Sequence[Stage] | None = None, **fields: Any) -> Run:
    """A run of one of the configs above, whatever its seed, or with other stages; stages are ranked on few contexts."""
    plans = {(known.kind, known.noise): stages for known, stages in _PLANS.items()}
    stages = plans[config.kind, config.noise] if plan is None else plan
    return Run(config, tuple(stages), **({"ranked_on": 4096} | fields))


def train_short(config: TrainConfig, out: Path | None = None, **options: Any) -> TrainResult:
    """As `ridgeformer.train`, with the stages of `short_run`."""
    return train(short_run(config), out=out, **options)


def trail_of(run: Run, callback: Callback = lambda info: None) -> list[tuple[TrainState, StepInfo]]:
    """The state and the report after every step, until the run has ended or diverged."""
    state, trail = run.start(), []
    while not (run.finished(state) or run.diverged(state)):
        state, info = run.step(state)
        callback(info)
        trail.append((state, info))
    return trail


def train_until(total: int, run: TrainConfig | Run, folder: Path, **options: Any) -> None:
    """Train, and press Ctrl-C after this many steps."""

    def stop(info: StepInfo) -> None:
        if info.total >= total:
            raise KeyboardInterrupt

    with pytest.raises(TrainingInterruptedError, match="ridgeformer train --resume"):
        train(run, out=folder, callbacks=stop, **options)


def fingerprint(folder: Path) -> dict[str, str]:
    """SHA-256 of the weights, the optimiser's last state, the history and the result."""
    last = sorted((folder / "checkpoints").glob("*.safetensors"))[-1]
    files = [folder / "history.jsonl", folder / "result.json", folder / "model.safetensors", last]
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def tiny_run(seed: int = 0, warm: bool = False) -> Run:
    """Five short stages, each with a row of the history: a hundredth of a second. A warm one starts from a model."""
    config = replace(POOLS, layers=1, batch=4, sequences=20, seed=seed, start="a name" if warm else None)
    given = LinearTransformer.init("diag", layers=1, dim=3, scale=0.05, seed=seed) if warm else None
    origins = ["given" if warm else "init", *["init"] * 4]
    stages = [
        AdamStage(name=str(n), steps=4, rate=1e-3, batch=4, origin=origin, init_scale=0.05)
        for n, origin in enumerate(origins)
    ]
    return short_run(config, stages, ranked_on=64, given=given)


TINY = tiny_run()


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def without_digests(path: Path, change: Callable[[dict[str, Any]], object] = lambda numbers: None) -> None:
    """Rewrite a checkpoint as older versions wrote it, with other values in its fields."""
    data = path.read_bytes()
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    metadata = json.loads(header["__metadata__"]["ridgeformer-checkpoint"])
    change(metadata["state"])
    kept = {name: metadata[name] for name in ("state", "history_bytes")}
    tensors = safetensors.numpy.load(data)
    path.write_bytes(safetensors.numpy.save(tensors, {"ridgeformer-checkpoint": json.dumps(kept)}))


# --- faults -----------------------------------------------------------------------------------------------------------

Fault = Callable[[Array, Array], tuple[Array, Array]]
"""(losses, gradient) → what to take them for."""

FAULTS: dict[str, Fault] = {
    "loss is NaN": lambda losses, gradient: (np.full_like(losses, np.nan), gradient),
    "loss is infinite": lambda losses, gradient: (np.full_like(losses, np.inf), gradient),
    "loss explodes": lambda losses, gradient: (losses * 1e9, gradient),
    "gradient is NaN": lambda losses, gradient: (losses, np.full_like(gradient, np.nan)),
    "gradient has one infinity": lambda losses, gradient: (losses, np.r_[np.inf, gradient[1:]]),
}
NAMES = list(FAULTS)


def spoiled(fault: Fault, loss_function: Callable[..., Any]) -> Callable[..., tuple[Array, LinearTransformer]]:
    """A loss function whose answers go through ``fault``."""

    def function(*arguments: Any, **options: Any) -> tuple[Array, LinearTransformer]:
        losses, gradient = loss_function(*arguments, **options)
        losses, vector = fault(losses, gradient.flatten())
        return losses, gradient.unflatten(vector)

    return function


class FaultyLosses:
    """The loss functions of a run, with faults at some of its steps. Has to be told how far the run is: a callback."""

    def __init__(self, faults: Mapping[int, str]) -> None:
        self.faults, self.total = faults, 0
        self.fields = {
            "fresh_losses": spoiled(self._fault, losses_and_gradient),
            "losses_on": spoiled(self._fault, losses_and_gradient_on),
        }
        """For a `Run`."""

    def _fault(self, losses: Array, gradient: Array) -> tuple[Array, Array]:
        name = self.faults.get(self.total)
        return (losses, gradient) if name is None else FAULTS[name](losses, gradient)

    def __call__(self, info: StepInfo) -> None:
        self.total = info.total


class Ended(NamedTuple):
    """A run that has been stepped to its end."""

    run: Run
    infos: list[StepInfo]
    state: TrainState

    @property
    def finished(self) -> bool:
        return self.run.finished(self.state)

    @property
    def skipped(self) -> list[int]:
        return [info.total - 1 for info in self.infos if info.skipped]

    @property
    def rewinds(self) -> dict[str, int]:
        """By stage."""
        return dict(Counter(info.stage for info in self.infos if info.rewound))

    def of(self, stage: str) -> list[StepInfo]:
        return [info for info in self.infos if info.stage == stage]


def run_with(faults: Mapping[int, str], config: TrainConfig, plan: Sequence[Stage], **fields: Any) -> Ended:
    """All steps of a run with faults at these steps; nothing but finite weights on the way."""
    losses = FaultyLosses(faults)
    run = short_run(config, plan, ranked_on=1024, **(losses.fields | fields))
    trail = trail_of(run, losses)
    for state, _ in trail:
        arrays = [state.vector, state.safe_vector, state.best_vector, state.adam.mean, state.adam.square]
        if isinstance(known := state.curvature, Metric):
            arrays.append(known.matrix)
        elif known is not None:
            arrays += [np.array(known.value), known.gradient, known.steps, known.changes]
        assert all(np.isfinite(array).all() for array in arrays)
    state, infos = trail[-1][0], [info for _, info in trail]
    assert state.skipped == sum(info.skipped for info in infos)
    assert state.rewinds == sum(info.rewound for info in infos)
    assert np.isfinite(run.model(state).flatten()).all()
    return Ended(run, infos, state)
