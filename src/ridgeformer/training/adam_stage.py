"""Adam on fresh batches, with extra gradients from hard contexts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.training.descent import DescentStage, Slope
from ridgeformer.training.optimisers import Adam, clip_norm
from ridgeformer.training.pools import Mining, mine
from ridgeformer.training.stages import SCORE_SATURATION, Run, TrainState, flat, saturated_mean


@dataclass(frozen=True, kw_only=True)
class AdamStage(DescentStage):
    """Adam on fresh batches."""

    objective: str = "exact"
    square_decay: float = 0.999
    largest_gradient: float = 1.0
    """A longer gradient is shortened to this norm."""
    mining: Mining | None = None

    def refreshed(self, state: TrainState) -> TrainState:
        """The state with fresh moments."""
        return replace(state, adam=Adam.start(len(state.vector), square_decay=self.square_decay))

    def prepare(self, run: Run, state: TrainState, model: LinearTransformer) -> TrainState:
        """The state with new hard contexts, in the steps in which they are searched."""
        mining = self.mining
        if mining is None or state.step < mining.first_step or (state.step - mining.first_step) % mining.every:
            return state
        names = {"batch": self.batch, "seed": run.config.seed, "step": state.total}
        return replace(state, memory=mine(model, run.task, mining, **names, memory=state.memory))

    def slope(self, run: Run, state: TrainState, model: LinearTransformer) -> Slope:
        """Losses of a fresh batch, its gradient and that of the hard contexts, each shortened on its own."""
        batch = {"batch": self.batch, "seed": run.config.seed, "step": state.total}
        options = {"objective": self.objective, "saturation": self.saturation, "threads": run.threads}
        losses, gradient = run.fresh_losses(model, run.task, **batch, **options)
        vector = clip_norm(flat(gradient), self.largest_gradient)
        if self.mining is not None and state.memory is not None:
            hard = state.memory.rows(slice(self.mining.keep))
            _, push = run.losses_on(model, hard, saturation=SCORE_SATURATION, threads=run.threads)
            vector = vector + clip_norm(flat(push), self.mining.largest_gradient)
        return Slope(losses, saturated_mean(losses), vector)

    def change(self, state: TrainState, gradient: Array, rate: float) -> tuple[TrainState, Array]:
        """A step of Adam."""
        adam, change = state.adam.step(gradient, rate)
        return replace(state, adam=adam), change
