"""How long training takes to reach a loss, and what each ingredient of the recipes is worth: `docs/training.md`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ridgeformer.evaluation import Evaluation, evaluate
from ridgeformer.reproduction.paper import printed_loss
from ridgeformer.reproduction.records import Count, Layers, Number, Record, Text
from ridgeformer.reproduction.table1 import TextTable
from ridgeformer.training.adam_stage import AdamStage
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.natural_stage import NaturalStage
from ridgeformer.training.recipes import stages_of
from ridgeformer.training.stages import Run, Stage

_SEQUENCES = 1_000_000
_ADAM_BATCH, _ADAM_RATE = 1024, 2e-3  # what served models of seven layers best
_SEED = 7  # of the sequences that measure; those of training differ by purpose

TARGETS = {
    ("diag", 3, "uniform:5", 0): (0.115, 30.0),
    ("diag", 4, "uniform:5", 0): (0.0605, 60.0),
    ("diag", 7, "uniform:5", 0): (0.0475, 180.0),
    ("diag", 4, "uniform:5", 2): (0.0475, 60.0),
    ("diag", 7, "uniform:5", 3): (0.0403, 180.0),
    ("full", 4, "uniform:5", 0): (0.058, 60.0),
    ("full", 7, "uniform:5", 0): (0.0450, 240.0),
    ("full", 7, "categorical:1+3", 0): (0.0085, 240.0),
    ("full", 7, "uniform:2", 0): (0.0105, 300.0),
    ("full", 7, "uniform:7", 0): (0.0565, 300.0),
    ("gdpp", 4, "uniform:5", 0): (0.3445, 10.0),
    ("full", 7, "uniform:0", 0): (2.5e-12, 300.0),
}
"""Kind, layers, noise, registers: the loss to reach, from random weights, and the seconds it may take on two idle
cores."""
SEEDS = {("diag", 4, "uniform:5", 0): tuple(range(10))}
"""Of the targets that are tried with more seeds than 0."""


@dataclass(frozen=True)
class Trial:
    """One run and its result."""

    derived = ("printed", "met")
    what: Text
    kind: Text
    layers: Layers
    noise: Text
    seed: Count
    evaluation: Evaluation
    seconds: Number
    """Of training and measuring, as a user waits for it."""
    target: Number | None = None
    allowed: Number | None = None
    """Seconds that it may take."""
    registers: Count = 0

    @property
    def name(self) -> str:
        """For people to read."""
        more = f", {self.registers} registers" if self.registers else ""
        return f"{self.kind}, {self.layers} layers{more}, {self.noise}"

    def numbers(self) -> tuple[str, ...]:
        """Loss, standard error, median, largest loss and seconds, for people to read."""
        measured = self.evaluation
        losses = (f"{measured.adjusted_loss:.4g}", f"{measured.standard_error:.1g}", f"{measured.median:.4g}")
        return (*losses, f"{measured.maximum:.3g}", f"{self.seconds:.0f}")

    @property
    def printed(self) -> float | None:
        """The paper's loss, if it has the model."""
        return None if self.registers else printed_loss(self.kind, self.layers, self.noise)

    @property
    def met(self) -> bool | None:
        """Whether both the loss and the time are within what was asked; None if nothing was."""
        if self.target is None or self.allowed is None:
            return None
        return self.evaluation.adjusted_loss <= self.target and self.seconds <= self.allowed


@dataclass(frozen=True)
class TrialsRecord(Record):
    """What `ridgeformer bench --training` and ``--ablations`` measure."""

    record = "trials"
    digits = None
    machine: dict[str, Any]
    others: float | None
    """Share of the cores that other processes used meanwhile, if that is known."""
    targets: tuple[Trial, ...]
    ablations: tuple[Trial, ...]

    def tables(self) -> tuple[TextTable, TextTable]:
        """Times to target, and what the ingredients are worth, for people to read."""
        targets = list[tuple[str, ...]]()
        for trial in self.targets:
            loss, error, _, *rest = trial.numbers()
            bounds = (f"{trial.target:g}", f"{trial.allowed:g} s", "yes" if trial.met else "no")
            printed = "" if trial.printed is None else f"{trial.printed:g}"
            targets.append((trial.name, str(trial.seed), loss, error, *rest, *bounds, printed))
        ablations = [(trial.name, trial.what, *trial.numbers()) for trial in self.ablations]
        end, numbers = f"on {_SEQUENCES:,} fresh sequences", ("adjusted loss", "± s.e.")
        head = ("model", "seed", *numbers, "largest", "seconds", "target", "within", "met", "paper")
        other = ("model", "what", *numbers, "median", "largest", "seconds")
        return (
            TextTable(f"Time to target, {end}", head, targets),
            TextTable(f"What the ingredients are worth, {end}", other, ablations),
        )


def run_trial(
    what: str, config: TrainConfig, plan: Sequence[Stage], target: tuple[float | None, float | None] = (None, None)
) -> Trial:
    """Train by a plan, such as that of the config's recipe, and measure on a million fresh sequences."""
    started = time.perf_counter()
    run = Run(config, tuple(plan))
    state = run.start()
    while not (run.finished(state) or run.diverged(state)):
        state, _ = run.step(state)
    evaluation = evaluate(run.model(state), run.task, _SEQUENCES, _SEED)
    seconds = time.perf_counter() - started
    names = (what, config.kind, config.layers, config.noise_spec, config.seed)
    return Trial(*names, evaluation, seconds, *target, registers=config.registers)


def time_to_target() -> Iterator[Trial]:
    """All targets, every seed of each, one after the other."""
    for key, target in TARGETS.items():
        kind, layers, noise, registers = key
        for seed in SEEDS.get(key, (0,)):
            config = TrainConfig(kind=kind, layers=layers, noise=noise, registers=registers, seed=seed)
            yield run_trial("recipe", config, stages_of(config), target)


def ablations() -> Iterator[Trial]:
    """The recipes with one ingredient left out or changed at a time."""
    return (run_trial(what, config, plan) for what, config, plan in _ablation_plans())


def _ablation_plans() -> Iterable[tuple[str, TrainConfig, Sequence[Stage]]]:
    wider = TrainConfig(kind="diag", layers=4, registers=2)
    yield "recipe", wider, stages_of(wider)
    yield "without hard contexts", wider, _natural(wider, calm=None)
    yield "oracles as targets", wider, _natural(wider, posterior=False)
    yield "Adam instead of natural gradient", wider, [_adam_for(stage) for stage in stages_of(wider)]
    yield "one start instead of several", wider, _one_start(wider)
    yield "no hops", wider, _without(wider, "hop")
    for layers in (3, 4, 7):
        diagonal = TrainConfig(kind="diag", layers=layers)
        yield "recipe", diagonal, stages_of(diagonal)
        yield "one start instead of several", diagonal, _one_start(diagonal)
        yield "starts compared as they are", diagonal, _without(diagonal, "sharpen")
        yield "without hard contexts", diagonal, _natural(diagonal, calm=None)
    for layers in (4, 7):
        full = TrainConfig(kind="full", layers=layers)
        yield "recipe", full, stages_of(full)
        yield "one start instead of several", full, _one_start(full)
        if layers == 4:
            yield "no finals", full, _without(full, "final")
            yield "eight starts with longer Adam, no finals", full, _other_starts(full, 3)
        yield "without hard contexts", full, _natural(full, calm=None)
        yield "Adam instead of natural gradient", full, [_adam_for(stage) for stage in stages_of(full)]
    shallow = TrainConfig(kind="full", layers=2)
    yield "recipe (from DIAG)", shallow, stages_of(shallow)
    yield "from random weights", shallow, stages_of(TrainConfig(kind="full", layers=4))
    linear = TrainConfig(kind="gdpp", layers=4)
    yield "recipe (on eigenvalues)", linear, stages_of(linear)
    yield "like DIAG", linear, stages_of(TrainConfig(kind="diag", layers=4))


def _natural(config: TrainConfig, **changes: Any) -> list[Stage]:
    """The recipe with other settings of natural gradient, and without what only follows to calm a model."""
    stages = [stage for stage in stages_of(config) if not stage.name.startswith("calm")]
    return [replace(stage, **changes) if isinstance(stage, NaturalStage) else stage for stage in stages]


def _adam_for(stage: Stage) -> Stage:
    """Adam on as many fresh contexts, in batches of 1024, instead of natural gradient."""
    if not isinstance(stage, NaturalStage):
        return stage
    steps = stage.steps * stage.batch // _ADAM_BATCH
    return AdamStage(
        name=stage.name,
        steps=steps,
        rate=_ADAM_RATE,
        batch=_ADAM_BATCH,
        origin=stage.origin,
        competes=stage.competes,
    )


def _without(config: TrainConfig, name: str) -> list[Stage]:
    """The recipe without the stages called ``name`` 1, 2, …"""
    return [stage for stage in stages_of(config) if not stage.name.startswith(f"{name} ")]


def _is_start(stage: Stage) -> bool:
    return stage.name.startswith(("start ", "sharpen ", "final "))


def _other_starts(config: TrainConfig, layers: int) -> list[Stage]:
    """The recipe with the random starts of that for another number of layers."""
    starts = [stage for stage in stages_of(replace(config, layers=layers)) if _is_start(stage)]
    return starts + [stage for stage in stages_of(config) if not _is_start(stage)]


def _one_start(config: TrainConfig) -> list[Stage]:
    kept = ("start 1", "sharpen 1")
    return [stage for stage in stages_of(config) if stage.name in kept or not _is_start(stage)]
