"""How long training takes to reach a loss, and what each ingredient of the recipes is worth: `docs/training.md`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ridgeformer.evaluation import Evaluation, evaluate
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.recipes import AdamLeg, Leg, PoolLeg, legs
from ridgeformer.training.steps import Trainer

_SEQUENCES = 1_000_000
_SEED = 7  # of the sequences that measure; those of training differ by purpose


@dataclass(frozen=True)
class Target:
    """A loss to reach, from random weights, in some time on two idle cores."""

    model: str
    layers: int
    noise: str
    loss: float
    seconds: float
    seeds: tuple[int, ...] = (0,)


TARGETS = (
    Target("diag", 3, "uniform:5", 0.115, 30),
    Target("diag", 4, "uniform:5", 0.0605, 60, tuple(range(10))),
    Target("diag", 7, "uniform:5", 0.0475, 180),
    Target("full", 4, "uniform:5", 0.058, 60),
    Target("full", 7, "uniform:5", 0.0450, 240),
    Target("full", 7, "categorical:1+3", 0.0085, 240),
    Target("full", 7, "uniform:2", 0.0105, 300),
    Target("full", 7, "uniform:7", 0.0565, 300),
    Target("gdpp", 4, "uniform:5", 0.3445, 10),
    Target("full", 7, "uniform:0", 2.5e-12, 300),
)


@dataclass(frozen=True)
class Trial:
    """One run and what came of it."""

    what: str
    model: str
    layers: int
    noise: str
    seed: int
    evaluation: Evaluation
    seconds: float
    """Of training and measuring, as a user waits for it."""
    target: float | None = None
    allowed: float | None = None
    """Seconds that it may take."""

    @property
    def met(self) -> bool | None:
        """Whether both the loss and the time are within what was asked; None if nothing was."""
        if self.target is None or self.allowed is None:
            return None
        return self.evaluation.adjusted_loss <= self.target and self.seconds <= self.allowed

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        found = {name: None if value == float("inf") else value for name, value in asdict(self.evaluation).items()}
        return asdict(self) | {
            "evaluation": found,
            "printed": printed_loss(self.model, self.layers, self.noise),
            "met": self.met,
        }


def run_trial(what: str, config: TrainConfig, plan: Sequence[Leg] | None = None, target: Target | None = None) -> Trial:
    """Train by the config's recipe, or by ``plan``, and measure on a million fresh sequences."""
    started = time.perf_counter()
    trainer = Trainer(config, plan=plan)
    state = trainer.start()
    while not (trainer.finished(state) or trainer.diverged(state)):
        state, _ = trainer.step(state)
    found = evaluate(trainer.model(state), trainer.task, _SEQUENCES, _SEED)
    seconds = time.perf_counter() - started
    bounds = (None, None) if target is None else (target.loss, target.seconds)
    return Trial(what, config.kind, config.layers, config.noise, config.seed, found, seconds, *bounds)


def time_to_target(on_trial: Callable[[Trial], None], targets: Iterable[Target] = TARGETS) -> list[Trial]:
    """All targets, every seed of each; ``on_trial`` gets each result as it comes."""
    trials = []
    for target in targets:
        for seed in target.seeds:
            config = TrainConfig(kind=target.model, layers=target.layers, noise=target.noise, seed=seed)
            trials.append(run_trial("recipe", config, None, target))
            on_trial(trials[-1])
    return trials


def ablations(on_trial: Callable[[Trial], None]) -> list[Trial]:
    """The recipes with one ingredient left out or changed at a time."""
    trials = []
    for what, config, plan in _ablation_plans():
        trials.append(run_trial(what, config, plan))
        on_trial(trials[-1])
    return trials


def _ablation_plans() -> Iterable[tuple[str, TrainConfig, Sequence[Leg]]]:
    deep = TrainConfig(kind="full", layers=7)
    yield "recipe", deep, legs(deep)
    yield "no hard contexts mined", deep, _adam(deep, mining=None)
    yield "nor a saturated loss", deep, _adam(deep, mining=None, saturation=0.0)
    yield "sampled objective", deep, _adam(deep, objective="sampled")
    slow = replace(deep, rate=5e-4)
    yield "a quarter of the step size", slow, legs(slow)
    middle = TrainConfig(kind="full", layers=4)
    yield "recipe", middle, legs(middle)
    one = [leg for leg in legs(middle) if leg.name not in ("start 2", "start 3")]
    yield "one start instead of three", middle, one
    shallow = TrainConfig(kind="full", layers=2)
    yield "recipe (from DIAG)", shallow, legs(shallow)
    random = replace(middle, layers=2)
    yield "from random weights", random, _deep_plan(random)
    diagonal = TrainConfig(kind="diag", layers=4)
    yield "recipe", diagonal, legs(diagonal)
    yield "one start instead of twelve", diagonal, [leg for leg in legs(diagonal) if not _later_start(leg)]
    yield "Adam only", diagonal, [leg for leg in legs(diagonal) if not isinstance(leg, PoolLeg)]
    heavy = TrainConfig(kind="diag", layers=3)
    yield "recipe", heavy, legs(heavy)
    plain = [replace(leg, stretch=1.0) if isinstance(leg, PoolLeg) else leg for leg in legs(heavy)]
    yield "pools not stretched", heavy, plain
    yield "nor sifted", heavy, [leg for leg in plain if leg.name != "sifted"]
    linear = TrainConfig(kind="gdpp", layers=4)
    yield "recipe (on eigenvalues)", linear, legs(linear)
    as_diag = [leg for leg in legs(replace(linear, kind="diag")) if not _later_start(leg)]
    yield "like DIAG, one start", linear, as_diag


def _adam(config: TrainConfig, **changes: Any) -> list[Leg]:
    return [replace(leg, **changes) if isinstance(leg, AdamLeg) else leg for leg in legs(config)]


def _deep_plan(config: TrainConfig) -> tuple[Leg, ...]:
    """What a four-layer model is trained by, for a shallower one."""
    return legs(replace(config, layers=4))


def _later_start(leg: Leg) -> bool:
    return leg.name.startswith("start ") and leg.name != "start 1"
