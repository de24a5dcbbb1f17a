"""Adam on fresh batches, with extra gradients from hard contexts, and a guard against divergence.

A step whose gradient is not finite, or whose losses have exploded, is skipped. After `_PATIENCE` such steps in a row
the run goes back to its last safe weights, with half the step size. A random start that does so too often is given up,
and the next one begins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ridgeformer.core.gradient import EXPLODED
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.training.optimisers import Adam, clip_norm, warmup_cosine
from ridgeformer.training.pools import Mining, mine
from ridgeformer.training.stages import SCORE_SATURATION, Run, Stage, StepInfo, TrainState, flat, saturated_mean

_SMOOTHING = 0.98  # a running mean over about fifty steps
_SAFE_EVERY = 100  # steps between snapshots to go back to
_PATIENCE = 20  # bad steps in a row before going back
_SPARE_FACTOR = 2.0**-3  # of the step size, for a random start when there are others: given up after three rewinds


@dataclass(frozen=True, kw_only=True)
class AdamStage(Stage):
    """Adam on fresh batches."""

    rate: float
    """Step size at its highest."""
    batch: int = 2048
    objective: str = "exact"
    saturation: float = 10.0
    """See `ridgeformer.Options`. Losses of a trained model stay below 5, so 10 hardly changes them."""
    warmup: int = 200
    final: float = 0.01
    """Share of the step size that is left at the end."""
    square_decay: float = 0.999
    largest_gradient: float = 1.0
    """A longer gradient is shortened to this norm."""
    mining: Mining | None = None

    def start(self, run: Run, state: TrainState) -> TrainState:
        """As in every stage, with moments that decay as they do here."""
        return self._with_fresh_moments(super().start(run, state))

    def step(self, run: Run, state: TrainState) -> tuple[TrainState, StepInfo]:
        """One step on a fresh batch, or none if the batch or its gradient has exploded."""
        model = run.template(state.kind).unflatten(state.vector)
        state = self._mined(run, state, model)
        losses, gradient = self._gradient(run, state, model)
        robust = saturated_mean(losses)
        rate = self.rate * state.rate_factor * warmup_cosine(state.step, self.steps, self.warmup, self.final)
        # Random weights may explode on most contexts; the gradient of the others still leads to better weights.
        exploded = not (losses < EXPLODED).any() or robust > 10 * state.lowest + 1  # far worse than the run has been
        bad, rewound = exploded or not np.isfinite(gradient).all(), False
        state = replace(state, step=state.step + 1, total=state.total + 1)
        if bad:
            state = replace(state, skipped=state.skipped + 1, bad_in_a_row=state.bad_in_a_row + 1)
            if state.bad_in_a_row >= _PATIENCE:
                state, rewound = self._rewind(run, state), True
        else:
            state = _advance(state, gradient, rate, robust)
        with np.errstate(over="ignore", invalid="ignore"):
            loss = float(losses.mean(dtype=np.float64))
        return state, StepInfo(self.name, state.step, state.total, loss, state.smoothed, rate, bad, rewound)

    def _mined(self, run: Run, state: TrainState, model: LinearTransformer) -> TrainState:
        """The state with new hard contexts, in the steps in which they are searched."""
        mining = self.mining
        if mining is None or state.step < mining.first_step or (state.step - mining.first_step) % mining.every:
            return state
        names = {"batch": self.batch, "seed": run.config.seed, "step": state.total}
        return replace(state, memory=mine(model, run.task, mining, **names, memory=state.memory))

    def _gradient(self, run: Run, state: TrainState, model: LinearTransformer) -> tuple[Array, Array]:
        """(losses of a fresh batch, its gradient and that of the hard contexts, each shortened on its own)."""
        batch = {"batch": self.batch, "seed": run.config.seed, "step": state.total}
        options = {"objective": self.objective, "saturation": self.saturation, "threads": run.threads}
        losses, gradient = run.fresh_losses(model, run.task, **batch, **options)
        vector = clip_norm(flat(gradient), self.largest_gradient)
        if self.mining is not None and state.memory is not None:
            hard = state.memory.rows(slice(self.mining.keep))
            _, push = run.losses_on(model, hard, saturation=SCORE_SATURATION, threads=run.threads)
            vector = vector + clip_norm(flat(push), self.mining.largest_gradient)
        return losses, vector

    def _rewind(self, run: Run, state: TrainState) -> TrainState:
        """Back to the last safe weights, with half the step size and fresh moments; or on to the next random start."""
        factor = state.rate_factor / 2
        if factor < _SPARE_FACTOR and self._spare(run, state):
            state, factor = replace(state, step=self.steps, total=state.total + self.steps - state.step), 1.0
        state = replace(state, vector=state.safe_vector, bad_in_a_row=0, rewinds=state.rewinds + 1, rate_factor=factor)
        return self._with_fresh_moments(state)

    def _spare(self, run: Run, state: TrainState) -> bool:
        """Whether this stage is one random start among others that can take its place."""
        later = any(stage.origin == "init" for stage in run.stages[state.stage + 1 :])
        return self.origin == "init" and (later or bool(np.isfinite(state.best_score)))

    def _with_fresh_moments(self, state: TrainState) -> TrainState:
        return replace(state, adam=Adam.start(len(state.vector), square_decay=self.square_decay))


def _advance(state: TrainState, gradient: Array, rate: float, robust: float) -> TrainState:
    adam, change = state.adam.step(gradient, rate)
    smoothed = robust if np.isnan(state.smoothed) else _SMOOTHING * state.smoothed + (1 - _SMOOTHING) * robust
    if state.step % _SAFE_EVERY == 0:
        state = replace(state, safe_vector=state.vector)
    state = replace(state, vector=state.vector + change, adam=adam, bad_in_a_row=0)
    return replace(state, smoothed=smoothed, lowest=min(state.lowest, smoothed))
