"""One training step, as a pure function of the config and the state, with a guard against divergence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ridgeformer.adjoint import EXPLODED
from ridgeformer.draws import GramDraw
from ridgeformer.evaluation import adjusted_losses, draw_chunks
from ridgeformer.model import LinearTransformer
from ridgeformer.objective import losses_and_gradient, losses_and_gradient_on
from ridgeformer.streams import Purpose
from ridgeformer.training.adam import Adam, clip_norm
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.hard_contexts import mine
from ridgeformer.training.recipes import Leg, legs
from ridgeformer.training.schedule import warmup_cosine
from ridgeformer.training.state import TrainState
from ridgeformer.types import Array

Tamper = Callable[[int, Array, Array], tuple[Array, Array]]
"""For tests of the guard: (total step, losses, gradient) → what the step is to believe they were."""

_SMOOTHING = 0.98  # a running mean over about fifty steps
_SCORE_SATURATION = 10.0  # losses of trained models stay below 5; an exploding one costs what it weighs in the log
_SAFE_EVERY = 100  # steps between snapshots to go back to
_PATIENCE = 20  # bad steps in a row before going back
_MOST_REWINDS = 8  # each halves the step size: beyond a factor 256 nothing is learned any more
_SELECT_SEQUENCES = 65_536  # to rank finished legs


@dataclass(frozen=True)
class StepInfo:
    """What happened in a step."""

    leg: str
    step: int
    """Steps done in this leg."""
    total: int
    """Steps done in the run."""
    loss: float
    """Plain mean loss of the batch."""
    smoothed: float
    """Running mean of the saturated loss."""
    rate: float
    skipped: bool
    rewound: bool


class Trainer:
    """The legs of one run. Holds nothing that changes: all of a run's progress is in its `TrainState`."""

    def __init__(self, config: TrainConfig, threads: int | None = None, tamper: Tamper | None = None) -> None:
        self.config = config
        self.task = config.task
        self.legs = legs(config)
        self.total_steps = sum(leg.steps for leg in self.legs)
        self._template = self._fresh(self.legs[0], 0)
        self._threads = threads
        self._tamper = tamper

    def start(self) -> TrainState:
        """The state before the first step."""
        return TrainState.start(self._template.flatten().astype(np.float64))

    def finished(self, state: TrainState) -> bool:
        """Whether all legs are done."""
        return state.leg == len(self.legs)

    def diverged(self, state: TrainState) -> bool:
        """Whether the guard has given up."""
        return state.rewinds > _MOST_REWINDS

    def model(self, state: TrainState) -> LinearTransformer:
        """The run's result so far: the best finished leg, or the last safe weights if none is finished."""
        vector = state.best_vector if np.isfinite(state.best_score) else state.safe_vector
        return self._template.unflatten(vector)

    def step(self, state: TrainState) -> tuple[TrainState, StepInfo]:
        """Do one step."""
        leg = self.legs[state.leg]
        model = self._template.unflatten(state.vector)
        state = self._mined(state, leg, model)
        losses, gradient = self._gradient(state, leg, model)
        robust = _saturated_mean(losses)
        rate = leg.rate * state.rate_factor * warmup_cosine(state.step, leg.steps, leg.warmup, leg.final)
        bad = not np.isfinite(gradient).all() or _exploded(losses, robust, state)
        state = replace(state, step=state.step + 1, total=state.total + 1)
        rewound = False
        if bad:
            state = replace(state, skipped=state.skipped + 1, bad_in_a_row=state.bad_in_a_row + 1)
            if state.bad_in_a_row >= _PATIENCE:
                state, rewound = _rewind(state, leg), True
        else:
            state = _advance(state, gradient, rate, robust)
        info = StepInfo(leg.name, state.step, state.total, _mean(losses), state.smoothed, rate, bad, rewound)
        if state.step == leg.steps:
            state = self._next_leg(state)
        return state, info

    def _mined(self, state: TrainState, leg: Leg, model: LinearTransformer) -> TrainState:
        mining = leg.mining
        if mining is None or state.step < mining.first_step or (state.step - mining.first_step) % mining.every:
            return state
        names = {"batch": leg.batch, "seed": self.config.seed, "step": state.total}
        return replace(state, memory=mine(model, self.task, mining, **names, memory=state.memory))

    def _gradient(self, state: TrainState, leg: Leg, model: LinearTransformer) -> tuple[Array, Array]:
        losses, gradient = losses_and_gradient(
            model,
            self.task,
            batch=leg.batch,
            seed=self.config.seed,
            step=state.total,
            objective=leg.objective,
            saturation=leg.saturation,
            threads=self._threads,
        )
        vector = gradient.flatten().astype(np.float64)
        if self._tamper is not None:
            losses, vector = self._tamper(state.total, losses, vector)
        vector = clip_norm(vector, leg.largest_gradient)
        if leg.mining is not None and state.memory is not None:
            hard = GramDraw(*(array[: leg.mining.keep] for array in state.memory))
            _, push = losses_and_gradient_on(model, hard, saturation=_SCORE_SATURATION, threads=self._threads)
            vector = vector + clip_norm(push.flatten().astype(np.float64), leg.mining.largest_gradient)
        return losses, vector

    def _next_leg(self, state: TrainState) -> TrainState:
        """Score the finished leg, and get the parameters that the next one starts from."""
        score = self._score(self._template.unflatten(state.vector))
        if score < state.best_score:
            state = replace(state, best_score=score, best_vector=state.vector)
        number = state.leg + 1
        vector, memory, lowest = state.vector, state.memory, state.lowest
        if number < len(self.legs):
            leg = self.legs[number]
            if leg.start == "init":
                vector, memory = self._fresh(leg, number).flatten().astype(np.float64), None
                lowest = float("inf")
            elif leg.start == "best":
                vector = state.best_vector
            adam = Adam.start(len(vector), square_decay=leg.square_decay)
        else:
            adam = state.adam
        return replace(
            state,
            leg=number,
            step=0,
            vector=vector,
            safe_vector=vector,
            adam=adam,
            memory=memory,
            bad_in_a_row=0,
            rate_factor=1.0,
            smoothed=float("nan"),
            lowest=lowest,
        )

    def _fresh(self, leg: Leg, number: int) -> LinearTransformer:
        config = self.config
        return LinearTransformer.init(
            config.model,
            layers=config.layers,
            dim=config.dim,
            heads=config.heads,
            seed=config.seed * 1000 + number,  # every leg its own start
            scale=leg.init_scale,
            dtype=config.precision,
        )

    def _score(self, model: LinearTransformer) -> float:
        """Saturated mean loss on fresh contexts, by which legs are ranked."""
        draws = draw_chunks(self.task, _SELECT_SEQUENCES, self.config.seed, Purpose.SELECT, model.dtype)
        return _saturated_mean(np.concatenate([adjusted_losses(model, draw.context, draw.oracle) for draw in draws]))


def _advance(state: TrainState, gradient: Array, rate: float, robust: float) -> TrainState:
    adam, change = state.adam.step(gradient, rate)
    smoothed = robust if np.isnan(state.smoothed) else _SMOOTHING * state.smoothed + (1 - _SMOOTHING) * robust
    safe = state.vector if state.step % _SAFE_EVERY == 0 else state.safe_vector
    return replace(
        state,
        vector=state.vector + change,
        adam=adam,
        safe_vector=safe,
        bad_in_a_row=0,
        smoothed=smoothed,
        lowest=min(state.lowest, smoothed),
    )


def _exploded(losses: Array, robust: float, state: TrainState) -> bool:
    """Whether most contexts explode, or the batch is far worse than the run has been: ten times its lowest loss."""
    return bool((~(losses < EXPLODED)).mean() > 0.5) or robust > 10 * state.lowest + 1


def _rewind(state: TrainState, leg: Leg) -> TrainState:
    """Back to the last safe weights, with half the step size and fresh moments."""
    return replace(
        state,
        vector=state.safe_vector,
        adam=Adam.start(len(state.vector), square_decay=leg.square_decay),
        bad_in_a_row=0,
        rewinds=state.rewinds + 1,
        rate_factor=state.rate_factor / 2,
    )


def _saturated_mean(losses: Array) -> float:
    bounded = np.where(losses < EXPLODED, losses, EXPLODED).astype(np.float64)  # NaN too
    return float((_SCORE_SATURATION * np.log1p(bounded / _SCORE_SATURATION)).mean())


def _mean(losses: Array) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(losses.mean(dtype=np.float64))
