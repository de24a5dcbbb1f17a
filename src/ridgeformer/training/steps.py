"""One training step, as a pure function of the config and the state, with a guard against divergence."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ridgeformer.core.gradient import EXPLODED
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.objective import losses_and_gradient, losses_and_gradient_on
from ridgeformer.core.random import GramDraw, Purpose
from ridgeformer.evaluation import adjusted_losses, draw_chunks
from ridgeformer.training.adam import Adam, clip_norm
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.hard_contexts import mine
from ridgeformer.training.pools import Pool, pool_function, sifted_pool, stretched_pool
from ridgeformer.training.quasi_newton import QuasiNewton
from ridgeformer.training.recipes import AdamLeg, DiagonalLeg, Leg, PoolLeg, SpectralLeg, legs
from ridgeformer.training.schedule import warmup_cosine
from ridgeformer.training.spectral import fit_spectrum
from ridgeformer.training.state import TrainState
from ridgeformer.training.warm_start import warm_start

Tamper = Callable[[int, Array, Array], tuple[Array, Array]]
"""For tests of the guard: (total step, losses, gradient) → what the step is to believe they were."""

_SMOOTHING = 0.98  # a running mean over about fifty steps
_SCORE_SATURATION = 10.0  # losses of trained models stay below 5; an exploding one costs what it weighs in the log
_SAFE_EVERY = 100  # steps between snapshots to go back to
_PATIENCE = 20  # bad steps in a row before going back
_SMALLEST_FACTOR = 2.0**-8  # of the step size: with less, after eight rewinds, nothing is learned any more
_SPARE_FACTOR = 2.0**-3  # for a random start when there are others: it is given up after three rewinds
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
    """Step size; in a second-order leg the share of the full step."""
    skipped: bool
    rewound: bool


class Trainer:
    """The legs of one run. Its progress is in a `TrainState`; kept here is only what can be drawn again."""

    def __init__(
        self,
        config: TrainConfig,
        threads: int | None = None,
        tamper: Tamper | None = None,
        plan: Sequence[Leg] | None = None,
        given: LinearTransformer | None = None,
    ) -> None:
        self.config = config
        self.given = given
        self.task = config.task
        self.legs = tuple(legs(config) if plan is None else plan)
        self.total_steps = sum(leg.steps for leg in self.legs)
        self._template = self._fresh(self.legs[0], 0)
        self._threads = threads
        self._tamper = tamper
        self._pools: dict[int, Pool] = {}
        self._inner: Trainer | None = None

    def start(self) -> TrainState:
        """The state before the first step."""
        return TrainState.start(self._template.flatten().astype(np.float64), self.plan)

    @property
    def plan(self) -> str:
        """A short name of the legs; another version's recipe may have others."""
        return hashlib.sha256(repr(self.legs).encode()).hexdigest()[:16]

    def finished(self, state: TrainState) -> bool:
        """Whether all legs are done."""
        return state.leg == len(self.legs)

    def diverged(self, state: TrainState) -> bool:
        """Whether the guard has given up."""
        return state.rate_factor < _SMALLEST_FACTOR

    def model(self, state: TrainState) -> LinearTransformer:
        """The run's result so far: the best finished leg, or the last safe weights if none is finished."""
        vector = state.best_vector if np.isfinite(state.best_score) else state.safe_vector
        return self._template.unflatten(vector)

    def step(self, state: TrainState) -> tuple[TrainState, StepInfo]:
        """Do one step."""
        leg = self.legs[state.leg]
        if isinstance(leg, AdamLeg):
            state, info = self._adam_step(state, leg)
        elif isinstance(leg, PoolLeg):
            state, info = self._pool_step(state, leg)
        elif isinstance(leg, DiagonalLeg):
            state, info = self._diagonal_step(state, leg)
        else:
            state, info = self._spectral_step(state, leg)
        return (self._next_leg(state) if state.step >= leg.steps else state), info

    def _adam_step(self, state: TrainState, leg: AdamLeg) -> tuple[TrainState, StepInfo]:
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
                state, rewound = self._rewind(state, leg), True
        else:
            state = _advance(state, gradient, rate, robust)
        return state, StepInfo(leg.name, state.step, state.total, _mean(losses), state.smoothed, rate, bad, rewound)

    def _rewind(self, state: TrainState, leg: AdamLeg) -> TrainState:
        """Back to the last safe weights, with half the step size and fresh moments; or on to the next random start."""
        factor = state.rate_factor / 2
        if factor < _SPARE_FACTOR and self._spare(state):
            rest = leg.steps - state.step
            state, factor = replace(state, step=leg.steps, total=state.total + rest), 1.0
        return replace(
            state,
            vector=state.safe_vector,
            adam=Adam.start(len(state.vector), square_decay=leg.square_decay),
            bad_in_a_row=0,
            rewinds=state.rewinds + 1,
            rate_factor=factor,
        )

    def _spare(self, state: TrainState) -> bool:
        """Whether this leg is one random start among others that can take its place."""
        later = any(leg.start == "init" for leg in self.legs[state.leg + 1 :])
        return self.legs[state.leg].start == "init" and (later or np.isfinite(state.best_score))

    def _pool_step(self, state: TrainState, leg: PoolLeg) -> tuple[TrainState, StepInfo]:
        """One iteration of L-BFGS. When it has converged the rest of the leg's steps count as done."""
        function = pool_function(
            self._template.astype(np.float64),
            self._pool(state.leg, leg, state.safe_vector),
            leg.saturation,
            self._threads,
            None if self._tamper is None else partial(self._tamper, state.total),
        )
        curvature = state.curvature or QuasiNewton.start(function, state.vector)
        vector, share = state.vector, 0.0
        lost = not np.isfinite(curvature.value)
        if not curvature.converged:
            curvature, vector, share = curvature.iterate(function, vector)
        done = leg.steps - state.step if curvature.converged else 1
        loss = float(np.exp(curvature.value))
        state = replace(
            state,
            vector=vector,
            curvature=curvature,
            step=state.step + done,
            total=state.total + done,
            skipped=state.skipped + lost,
            smoothed=loss,
        )
        return state, StepInfo(leg.name, state.step, state.total, loss, loss, share, lost, False)

    def _pool(self, number: int, leg: PoolLeg, start: Array) -> Pool:
        """The leg's pool: decided by the run's seed, the leg and the weights it started from; the latest is kept."""
        if number not in self._pools:
            self._pools.clear()
            tails = (leg.stretch, self.config.seed, number, leg.widen)
            if leg.sift:
                model = self._template.astype(np.float64).unflatten(start)
                self._pools[number] = sifted_pool(model, self.task, leg.pool, leg.sift, *tails)
            else:
                self._pools[number] = stretched_pool(self.task, leg.pool, *tails)
        return self._pools[number]

    def _spectral_step(self, state: TrainState, leg: SpectralLeg) -> tuple[TrainState, StepInfo]:
        """Fit a GD++ model and take it over, in one step of a second or few."""
        found = fit_spectrum(self.task, self.config.layers, self.config.seed, self.given)
        vector = warm_start(found, self.config).flatten().astype(np.float64)
        loss = self._score(self._template.unflatten(vector))
        state = replace(state, vector=vector, step=1, total=state.total + 1, smoothed=loss)
        return state, StepInfo(leg.name, 1, state.total, loss, loss, 1.0, False, False)

    def _diagonal_step(self, state: TrainState, leg: DiagonalLeg) -> tuple[TrainState, StepInfo]:
        """One step of the DIAG model's own run; its result is taken over at the end."""
        trainer = self._diagonal_trainer(leg)
        inner, info = trainer.step(state.inner or trainer.start())
        done = leg.steps - state.step if trainer.diverged(inner) else inner.total - state.step
        state = replace(
            state,
            inner=inner,
            step=state.step + done,
            total=state.total + done,
            skipped=state.skipped + info.skipped,
            rewinds=state.rewinds + info.rewound,
            smoothed=info.smoothed,
        )
        if state.step >= leg.steps:
            vector = warm_start(trainer.model(inner), self.config).flatten().astype(np.float64)
            state = replace(state, vector=vector, inner=None)
        name = f"{leg.name}, {info.leg}"
        return state, replace(info, leg=name, step=state.step, total=state.total)

    def _diagonal_trainer(self, leg: DiagonalLeg) -> Trainer:
        if self._inner is None:
            plain = replace(self.config, kind="diag", recipe="fast", steps=None, batch=None, rate=None)
            self._inner = Trainer(plain, self._threads, self._tamper, leg.legs)
        return self._inner

    def _mined(self, state: TrainState, leg: AdamLeg, model: LinearTransformer) -> TrainState:
        mining = leg.mining
        if mining is None or state.step < mining.first_step or (state.step - mining.first_step) % mining.every:
            return state
        names = {"batch": leg.batch, "seed": self.config.seed, "step": state.total}
        return replace(state, memory=mine(model, self.task, mining, **names, memory=state.memory))

    def _gradient(self, state: TrainState, leg: AdamLeg, model: LinearTransformer) -> tuple[Array, Array]:
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
        if score <= state.best_score * (1 + self.legs[state.leg].tolerance):
            state = replace(state, best_score=score, best_vector=state.vector)
        number = state.leg + 1
        vector, memory, lowest, adam = state.vector, state.memory, state.lowest, state.adam
        if number < len(self.legs):
            leg = self.legs[number]
            if leg.start in ("init", "given"):
                vector, memory = self._fresh(leg, number).flatten().astype(np.float64), None
                lowest = float("inf")
            elif leg.start == "best":
                vector = state.best_vector
            if isinstance(leg, AdamLeg):
                adam = Adam.start(len(vector), square_decay=leg.square_decay)
        return replace(
            state,
            leg=number,
            step=0,
            vector=vector,
            safe_vector=vector,
            adam=adam,
            memory=memory,
            curvature=None,
            bad_in_a_row=0,
            rate_factor=1.0,
            smoothed=float("nan"),
            lowest=lowest,
        )

    def _fresh(self, leg: Leg, number: int) -> LinearTransformer:
        config = self.config
        if leg.start == "given":
            assert self.given is not None
            return warm_start(self.given, config)
        return LinearTransformer.init(
            config.kind,
            layers=config.layers,
            dim=config.dim,
            heads=config.heads,
            seed=config.seed * 1000 + number,  # every leg its own start
            scale=leg.init_scale,
            dtype=config.dtype,
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
    """Whether every context explodes, or the batch is far worse than the run has been: ten times its lowest loss.

    Random weights may explode on most contexts; as long as some are left there is a gradient that leads away.
    """
    return not (losses < EXPLODED).any() or robust > 10 * state.lowest + 1


def _saturated_mean(losses: Array) -> float:
    bounded = np.where(losses < EXPLODED, losses, EXPLODED).astype(np.float64)  # NaN too
    return float((_SCORE_SATURATION * np.log1p(bounded / _SCORE_SATURATION)).mean())


def _mean(losses: Array) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(losses.mean(dtype=np.float64))
