"""Second order: L-BFGS on a fixed pool of contexts, in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.objective import losses_and_gradient_on
from ridgeformer.training.pools import Pool, sifted_pool, stretched_pool
from ridgeformer.training.quasi_newton import Function, QuasiNewton
from ridgeformer.training.stages import Run, Stage, StepInfo
from ridgeformer.training.state import TrainState


@dataclass(frozen=True, kw_only=True)
class PoolStage(Stage):
    """L-BFGS on a fixed pool of contexts; ends early when it has converged."""

    pool: int
    """Contexts of the pool."""
    saturation: float = 0.0
    stretch: float = 1.3
    """Largest factor by which targets of the pool are multiplied; see `stretched_pool`."""
    widen: float = 1.0
    """Largest factor by which features of the pool are multiplied."""
    sift: int = 0
    """If positive, the pool is made of this many times as many contexts; see `sifted_pool`."""
    stream: int | None = None
    """Number of the random stream of the pool; None for the stage's place in the run."""

    def step(self, run: Run, state: TrainState) -> tuple[TrainState, StepInfo]:
        """One iteration. When it has converged the rest of the stage's steps count as done."""
        template = run.template(state.kind).astype(np.float64)
        pool = run.keep(state.stage, lambda: self._draw(run, state, template))
        function = pool_function(template, pool, self.saturation, run.threads, run.losses_on)
        curvature = state.curvature or QuasiNewton.start(function, state.vector)
        vector, share = state.vector, 0.0
        lost = not np.isfinite(curvature.value)
        if not curvature.converged:
            curvature, vector, share = curvature.iterate(function, vector)
        done = self.steps - state.step if curvature.converged else 1
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
        return state, StepInfo(self.name, state.step, state.total, loss, loss, share, lost, False)

    def _draw(self, run: Run, state: TrainState, template: LinearTransformer) -> Pool:
        """The pool: decided by the run's seed, the stage and, if sifted, the weights that the stage started from."""
        tails = (self.stretch, run.config.seed, state.stage if self.stream is None else self.stream, self.widen)
        if self.sift:
            return sifted_pool(template.unflatten(state.safe_vector), run.task, self.pool, self.sift, *tails)
        return stretched_pool(run.task, self.pool, *tails)


def pool_function(
    template: LinearTransformer,
    pool: Pool,
    saturation: float,
    threads: int | None = None,
    losses_on: Callable[..., tuple[Array, LinearTransformer]] = losses_and_gradient_on,
) -> Function:
    """Flat parameters → (ln of the pool's mean loss, gradient); infinite where the model explodes."""

    def function(vector: Array) -> tuple[float, Array]:
        model = template.unflatten(vector)
        options = {"saturation": saturation, "importance": pool.importance, "backend": "fused", "threads": threads}
        losses, gradient = losses_on(model, pool.contexts, **options)
        slopes = gradient.flatten()
        with np.errstate(over="ignore", invalid="ignore"):
            bounded = saturation * np.log1p(losses / saturation) if saturation else losses
            mean = float((pool.importance * bounded).mean())
        if not (0 < mean < np.inf) or not np.isfinite(slopes).all():
            return float("inf"), slopes
        return float(np.log(mean)), slopes / mean

    return function
