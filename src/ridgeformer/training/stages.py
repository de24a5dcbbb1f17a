"""Stages: the parts of a run. A stage trains with one method; it knows how to start and how to do one step.

A `Run` holds what its stages share and does not change. All progress is in a `TrainState`, which each step replaces by
a new one, so that a resumed run gives exactly the same result. To add a kind of stage, subclass `Stage` in a file of
its own, write ``step`` (and ``start``, if it has to prepare more than weights), and use it in a recipe.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ridgeformer.core.gradient import EXPLODED
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.objective import losses_and_gradient, losses_and_gradient_on
from ridgeformer.core.random import GramDraw, Purpose, token_rng
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError
from ridgeformer.evaluation import adjusted_losses
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.optimisers import Adam, Metric, QuasiNewton

_Drawn = TypeVar("_Drawn")
SCORE_SATURATION = 10.0
"""Losses of trained models stay below 5, so 10 hardly changes them; an exploding loss counts only by its logarithm."""
SMALLEST_FACTOR = 2.0**-8
"""Smallest factor of the step size: after eight rewinds, with less than this, nothing is learned any more."""
_NEW_SCALE = 0.02  # of the random q of a new layer or head
_SPLIT = 0.1  # by how much the q of the parts of a head differ, relative to the mean size of q in its layer


@dataclass(frozen=True)
class StepInfo:
    """What happened in a step: callbacks receive it, and it is a row of the history.

    >>> StepInfo("main", step=1, total=1, loss=0.5, smoothed=0.5, rate=1e-3).skipped
    False
    """

    stage: str
    """Name of the stage."""
    step: int
    """Steps done in this stage."""
    total: int
    """Steps done in the run."""
    loss: float
    """Plain mean loss of the batch."""
    smoothed: float
    """Running mean of the saturated loss."""
    rate: float
    """Step size; in a second-order stage the share of the full step."""
    skipped: bool = False
    """Whether the gradient was not used, because it or the losses had exploded."""
    rewound: bool = False
    """Whether the run went back to its last safe weights."""


@dataclass(frozen=True)
class TrainState:
    """The progress of a run. Immutable: a step makes a new one."""

    vector: Array
    """The parameters, float64."""
    adam: Adam
    safe_vector: Array
    """The last parameters that did not explode, to go back to when a run explodes."""
    best_vector: Array
    """Parameters of the best finished stage."""
    memory: GramDraw | None = None
    """Hard contexts, worst first."""
    curvature: QuasiNewton | Metric | None = None
    """What a second-order stage knows of the curvature; None in other stages, and before its first iteration."""
    finalists: tuple[tuple[float, Array], ...] = ()
    """Scores and parameters of the finished stages that compete, best first: as many as later stages go on from."""
    kind: str = ""
    """Kind of the model whose parameters these are."""
    plan: str = ""
    """Identifies the stages of the run: a run with other stages cannot use the state."""
    stage: int = 0
    """Number of stages that are done."""
    step: int = 0
    """Steps done in this stage."""
    total: int = 0
    """Steps done in the run; this number decides which contexts a step draws."""
    skipped: int = 0
    """Steps whose gradient was not used."""
    bad_in_a_row: int = 0
    rewinds: int = 0
    """Times the run went back to ``safe_vector`` and halved its step size."""
    rate_factor: float = 1.0
    smoothed: float = math.nan
    """Running mean of the saturated loss."""
    lowest: float = math.inf
    """Lowest value of ``smoothed`` since the last fresh start."""
    best_score: float = math.inf


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A part of a run, trained with one method."""

    name: str
    steps: int
    origin: str = "previous"
    """Where the weights come from: "init", random ones; "given", the model that the config names; "best", the best
    model so far; "shaken", the same, changed at random; "previous", the end of the stage before; "smaller", the best
    model so far, of a smaller kind; "finalist", the next best one of the stages that compete."""
    competes: bool = False
    """Whether a later stage with the origin "finalist" may go on from its result."""
    kind: str | None = None
    """Kind of the model that is trained, if it is not that of the run: a smaller kind, as the start of a larger one."""
    init_scale: float = 0.0
    """Standard deviation of fresh weights."""
    tolerance: float = 0.0
    """The result replaces the best one so far if its score is at most this share above it: a stage that controls the
    tail may make the saturated mean, by which stages are ranked, a little worse."""

    def start(self, run: Run, state: TrainState) -> TrainState:
        """The state before the first step, given the last state of the stage before."""
        kind, vector = self.kind or run.config.kind, state.vector
        if self.origin in ("init", "given", "shaken"):
            given = self.origin == "given"
            model = self.grown(run) if given else run.fresh(kind, state.stage, self.init_scale)
            if self.origin == "shaken":
                rng = token_rng(run.config.seed, Purpose.SHAKE, state.stage)
                model = shaken(run.template(kind).unflatten(state.best_vector), model, rng)
            vector, state = flat(model), replace(state, memory=None, lowest=math.inf)
        elif self.origin == "best":
            vector = state.best_vector
        elif self.origin == "finalist":
            if not state.finalists:
                raise InputError(f"The stage {self.name!r} goes on from a finalist, but no stage before it competes.")
            vector = state.finalists[0][1]
            state = replace(state, finalists=state.finalists[1:], memory=None, lowest=math.inf)
        elif self.origin == "smaller":
            vector = flat(run.model(state))
            state = replace(state, best_vector=vector, best_score=run.score(kind, vector))
        state = replace(state, step=0, curvature=None, bad_in_a_row=0, rate_factor=1.0, smoothed=math.nan)
        return replace(state, kind=kind, vector=vector, safe_vector=vector, adam=Adam.start(len(vector)))

    def grown(self, run: Run) -> LinearTransformer:
        """The given model as one of the run's, ready to be trained on."""
        return run.adopt(run.given)

    @property
    def contexts(self) -> int:
        """Roughly how many gradients of contexts it computes: how long it takes depends on that."""
        return 0

    def step(self, run: Run, state: TrainState) -> tuple[TrainState, StepInfo]:
        """(state after one more step, what happened in it)."""
        raise NotImplementedError


@dataclass(frozen=True)
class Run:
    """What the stages of one run share."""

    config: TrainConfig
    stages: tuple[Stage, ...]
    threads: int | None = None
    given: LinearTransformer | None = None
    """The model that ``config.start`` names."""
    ranked_on: int = 65_536
    """Fresh contexts on which finished stages are ranked."""
    fresh_losses: Callable[..., tuple[Array, LinearTransformer]] = losses_and_gradient
    """The loss on fresh contexts of a task; tests of the guard wrap it."""
    losses_on: Callable[..., tuple[Array, LinearTransformer]] = losses_and_gradient_on
    """The loss on contexts that were drawn before; tests of the guard wrap it, too."""
    _templates: dict[str, LinearTransformer] = field(default_factory=dict, init=False, repr=False, compare=False)
    _drawn: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def task(self) -> Task:
        """The task that is trained on."""
        return self.config.task

    @property
    def plan(self) -> str:
        """A short name of the stages; the recipe of another version may have other stages."""
        return hashlib.sha256(repr(self.stages).encode()).hexdigest()[:16]

    def start(self) -> TrainState:
        """The state before the first step."""
        none = np.empty(0)
        state = self.stages[0].start(self, TrainState(none, Adam.start(0), none, none, plan=self.plan))
        return replace(state, best_vector=state.vector)

    def step(self, state: TrainState) -> tuple[TrainState, StepInfo]:
        """Do one step; after the last step of a stage, its result is ranked and the next stage starts."""
        stage = self.stages[state.stage]
        state, info = stage.step(self, state)
        if state.step < stage.steps:
            return state, info
        score = self.score(state.kind, state.vector)
        if score <= state.best_score * (1 + stage.tolerance):
            state = replace(state, best_score=score, best_vector=state.vector)
        if stage.competes:
            ranked = sorted([*state.finalists, (score, state.vector)], key=lambda finalist: finalist[0])
            places = sum(later.origin == "finalist" for later in self.stages)
            state = replace(state, finalists=tuple(ranked[:places]))
        state = replace(state, stage=state.stage + 1, step=0, curvature=None, rate_factor=1.0)
        return (state if self.finished(state) else self.stages[state.stage].start(self, state)), info

    def finished(self, state: TrainState) -> bool:
        """Whether all stages are done."""
        return state.stage == len(self.stages)

    def diverged(self, state: TrainState) -> bool:
        """Whether the run exploded too often to go on."""
        return state.rate_factor < SMALLEST_FACTOR

    def model(self, state: TrainState) -> LinearTransformer:
        """The run's result so far: the best finished stage, or the last safe weights if none is finished."""
        vector = state.best_vector if np.isfinite(state.best_score) else state.safe_vector
        model = self.template(state.kind).unflatten(vector)
        return model if state.kind == self.config.kind else self.adopt(model)

    def template(self, kind: str) -> LinearTransformer:
        """A model with the shape and precision of the run, to turn flat vectors into models."""
        if kind not in self._templates:
            self._templates[kind] = self.fresh(kind, 0, 0.0)
        return self._templates[kind]

    def fresh(self, kind: str, number: int, scale: float) -> LinearTransformer:
        """Random weights, different ones for every ``number``."""
        config = self.config
        shape = {"layers": config.layers, "heads": config.heads, "dim": config.dim, "registers": config.registers}
        return LinearTransformer.init(kind, **shape, seed=config.seed, start=number, scale=scale, dtype=config.dtype)

    def adopt(self, model: LinearTransformer | None) -> LinearTransformer:
        """``model`` as one of the run's kind, layers, heads, registers and precision that computes the same function.

        New layers come first and change nothing yet, so that the old first layer sees the tokens it was trained on. A
        new layer or head has p = 0 and a small random q: with both zero the gradient would always be zero. The same
        holds for new registers of old layers, which read only zeros so far.
        """
        config = self.config
        if model is None:
            raise InputError("This run starts from a given model, but none was given.")
        if model.dim != config.dim:
            raise InputError(f"The model to start from has {model.dim} features, the run has {config.dim}.")
        if model.layers > config.layers or model.heads > config.heads:
            raise InputError(
                f"The model to start from has {model.layers} layers and {model.heads} heads, more than the run's "
                f"{config.layers} and {config.heads}."
            )
        if model.registers > config.registers:
            raise InputError(
                f"The model to start from has {model.registers} registers, more than the run's {config.registers}."
            )
        own = model.embed(config.kind).astype(config.dtype)
        if config.layers > model.layers:
            # What the first layer did with empty registers did not matter so far, and may be anything. Now it would.
            own = own.replace(KINDS[own.kind].without_empty_registers(own.parameters))
        ones = own.replace({name: np.ones_like(array) for name, array in own.parameters.items()})
        old, known = (each.embed(config.kind, config.registers).parameters for each in (own, ones))
        fresh = self.fresh(config.kind, 0, _NEW_SCALE)
        parameters = {}
        for name, array in fresh.parameters.items():
            parameters[name] = np.zeros_like(array) if name in ("p", "P") else array.copy()
            place = parameters[name][config.layers - model.layers :, : model.heads]
            np.copyto(place, old[name], where=known[name] != 0)
        return fresh.replace(parameters)

    def score(self, kind: str, vector: Array) -> float:
        """Saturated mean loss on fresh contexts, by which stages are ranked."""
        model = self.template(kind).unflatten(vector)
        draws = self.task.chunks(self.ranked_on, self.config.seed, Purpose.SELECT, model.dtype)
        return saturated_mean(np.concatenate([adjusted_losses(model, d.context, d.oracle, d.moment) for d in draws]))

    def keep(self, name: Hashable, draw: Callable[[], _Drawn]) -> _Drawn:
        """What a stage draws once and uses in every step, under a name; only the latest is kept."""
        if name not in self._drawn:
            self._drawn.clear()
            self._drawn[name] = draw()
        return self._drawn[name]


def shaken(model: LinearTransformer, fresh: LinearTransformer, rng: np.random.Generator) -> LinearTransformer:
    """A model near another one, to start again from: a minimum next to a good one may be better.

    Either every parameter changes, by its share in ``fresh``; or one layer is taken out, and a layer of ``fresh`` that
    changes nothing yet is put in somewhere. (Such moves are known as *basin hopping*: Wales and Doye, 1997.)
    """
    old, new = model.parameters, fresh.parameters
    if rng.random() < 0.5:
        return model.replace({name: array * (1 + new[name]) for name, array in old.items()})
    out, place = rng.integers(model.layers, size=2)
    parameters = {}
    for name, array in old.items():
        layer = np.zeros_like(array[0]) if name in ("p", "P") else new[name][out]
        parameters[name] = np.insert(np.delete(array, out, axis=0), place, layer, axis=0)
    return model.replace(parameters)


def split_heads(model: LinearTransformer, used: int) -> LinearTransformer:
    """A model that computes the same, given one that uses only its first heads, as many as ``used`` says.

    The other heads, which have p = 0 and a random q, become parts of the first ones. The parts of a head share its p
    equally, and their q differ by random amounts whose sum is zero. (Growing a network by splitting its units is known
    as *Net2Net*: Chen, Goodfellow and Shlens, ICLR 2016.)
    """
    source = np.arange(model.heads) % used
    parts = np.bincount(source)[source]
    parameters = {}
    for name, array in model.parameters.items():
        whole = array[:, source]
        if name in ("p", "P"):
            parameters[name] = whole / parts.reshape(-1, *[1] * (array.ndim - 2))
            continue
        size = np.abs(array[:, :used]).mean(axis=tuple(range(1, array.ndim)), keepdims=True)
        change = np.zeros_like(array)
        for head in range(used, model.heads):
            change[:, head] = (_SPLIT / _NEW_SCALE) * size[:, 0] * array[:, head]
            change[:, source[head]] -= change[:, head]
        parameters[name] = whole + change
    return model.replace(parameters)


def flat(model: LinearTransformer) -> Array:
    """The parameters as a state holds them: one vector, always float64."""
    return model.flatten().astype(np.float64)


def saturated_mean(losses: Array, importance: Array | float = 1.0) -> float:
    """The mean of s·ln(1 + loss/s) with s = `SCORE_SATURATION`: a single explosion does not dominate it."""
    bounded = np.where(losses < EXPLODED, losses, EXPLODED).astype(np.float64)  # NaN too
    return float((importance * SCORE_SATURATION * np.log1p(bounded / SCORE_SATURATION)).mean())
