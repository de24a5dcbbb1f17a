"""Faults on purpose: losses and gradients that are not what they should be, at chosen steps of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from plans import short_run

from ridgeformer import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.objective import losses_and_gradient, losses_and_gradient_on
from ridgeformer.training import StepInfo, TrainConfig
from ridgeformer.training.stages import Run, Stage, TrainState

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
    state, infos = run.start(), []
    while not run.finished(state) and not run.diverged(state):
        state, info = run.step(state)
        losses(info)
        infos.append(info)
        for vector in (state.vector, state.safe_vector, state.best_vector, state.adam.mean, state.adam.square):
            assert np.isfinite(vector).all()
        if state.curvature is not None:
            known = state.curvature
            assert np.isfinite(known.value)
            assert all(np.isfinite(array).all() for array in (known.gradient, known.steps, known.changes))
    assert state.skipped == sum(info.skipped for info in infos)
    assert state.rewinds == sum(info.rewound for info in infos)
    assert np.isfinite(run.model(state).flatten()).all()
    return Ended(run, infos, state)
