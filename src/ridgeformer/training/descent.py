"""What stages that go down a gradient share: a schedule of the step size, and a guard against divergence.

A step whose gradient is not finite, or whose losses have exploded, is skipped. After `_PATIENCE` such steps in a row
the run goes back to its last safe weights, with half the step size. A random start that does so too often is given up,
and the next one begins; so is a stage that goes on from such a start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ridgeformer.core.gradient import EXPLODED
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.training.optimisers import warmup_cosine
from ridgeformer.training.stages import Run, Stage, StepInfo, TrainState

_SMOOTHING = 0.98  # a running mean over about fifty steps
_SAFE_EVERY = 100  # steps between snapshots to go back to
_PATIENCE = 20  # bad steps in a row before going back
_SPARE_FACTOR = 2.0**-3  # of the step size, for a random start when there are others: given up after three rewinds


class Slope(NamedTuple):
    """What a step has measured."""

    losses: Array
    """Of the batch."""
    robust: float
    """The mean of the saturated losses."""
    gradient: Array
    """The direction that the optimiser gets, flat."""


@dataclass(frozen=True, kw_only=True)
class DescentStage(Stage):
    """A stage of small steps along a gradient; subclasses say which gradient and which steps."""

    rate: float
    """Step size at its highest."""
    batch: int = 2048
    saturation: float = 10.0
    """See `ridgeformer.Options`. Losses of a trained model stay below 5, so 10 hardly changes them."""
    warmup: int = 200
    final: float = 0.01
    """Share of the step size that is left at the end."""

    @property
    def contexts(self) -> int:
        """One batch for each step."""
        return self.steps * self.batch

    def start(self, run: Run, state: TrainState) -> TrainState:
        """As in every stage, with an optimiser that knows nothing yet."""
        return self.refreshed(super().start(run, state))

    def refreshed(self, state: TrainState) -> TrainState:
        """The state with an optimiser that knows nothing yet."""
        raise NotImplementedError

    def prepare(self, run: Run, state: TrainState, model: LinearTransformer) -> TrainState:
        """The state with what the next step needs, and not every step."""
        return state

    def slope(self, run: Run, state: TrainState, model: LinearTransformer) -> Slope:
        """Losses and gradient of the next batch."""
        raise NotImplementedError

    def change(self, state: TrainState, gradient: Array, rate: float) -> tuple[TrainState, Array]:
        """The state with the optimiser's new memory, and the change of the parameters."""
        raise NotImplementedError

    def step(self, run: Run, state: TrainState) -> tuple[TrainState, StepInfo]:
        """One step, or none if the batch or its gradient has exploded."""
        model = run.template(state.kind).unflatten(state.vector)
        state = self.prepare(run, state, model)
        losses, robust, gradient = self.slope(run, state, model)
        rate = self.rate * state.rate_factor * warmup_cosine(state.step, self.steps, self.warmup, self.final)
        # Random weights may explode on most contexts; the gradient of the others still leads to better weights.
        exploded = not (losses < EXPLODED).any() or robust > 10 * state.lowest + 1  # far worse than the run has been
        bad, rewound = exploded or not np.isfinite(gradient).all(), False
        if bad:
            state = replace(state, skipped=state.skipped + 1, bad_in_a_row=state.bad_in_a_row + 1)
            state = replace(state, step=state.step + 1, total=state.total + 1)
            if state.bad_in_a_row >= _PATIENCE:
                state, rewound = self._rewind(run, state), True
        else:
            state = self._advance(state, gradient, rate, robust)
        with np.errstate(over="ignore", invalid="ignore"):
            loss = float(losses.mean(dtype=np.float64))
        return state, StepInfo(self.name, state.step, state.total, loss, state.smoothed, rate, bad, rewound)

    def _advance(self, state: TrainState, gradient: Array, rate: float, robust: float) -> TrainState:
        smoothed = robust if np.isnan(state.smoothed) else _SMOOTHING * state.smoothed + (1 - _SMOOTHING) * robust
        vector, step = state.vector, state.step + 1
        state, change = self.change(state, gradient, rate)
        return replace(  # all at once: with a small batch each copy of the state is 3 % of a step
            state,
            vector=vector + change,
            safe_vector=vector if step % _SAFE_EVERY == 0 else state.safe_vector,
            step=step,
            total=state.total + 1,
            bad_in_a_row=0,
            smoothed=smoothed,
            lowest=min(state.lowest, smoothed),
        )

    def _rewind(self, run: Run, state: TrainState) -> TrainState:
        """Back to the last safe weights, with half the step size; or on to the next random start."""
        factor = state.rate_factor / 2
        if factor < _SPARE_FACTOR and self._spare(run, state):
            state, factor = replace(state, step=self.steps, total=state.total + self.steps - state.step), 1.0
        state = replace(state, vector=state.safe_vector, bad_in_a_row=0, rewinds=state.rewinds + 1, rate_factor=factor)
        return self.refreshed(state)

    def _spare(self, run: Run, state: TrainState) -> bool:
        """Whether this stage is a random start, or goes on from one, among others that can take its place."""
        later = any(stage.origin == "init" for stage in run.stages[state.stage + 1 :])
        return self.origin in ("init", "shaken", "finalist", "previous") and (
            later or bool(np.isfinite(state.best_score))
        )
