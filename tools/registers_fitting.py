"""Fits for `registers_study`: models with some parameters held at zero, and one model for many sizes of problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import ridgeformer as rf
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw
from ridgeformer.core.task import Task
from ridgeformer.training.config import TrainConfig
from ridgeformer.training.descent import Slope
from ridgeformer.training.natural_stage import Calm, NaturalStage
from ridgeformer.training.optimisers import Adam, Metric, clip_norm, warmup_cosine
from ridgeformer.training.pools import posterior_means
from ridgeformer.training.stages import Run, TrainState, flat

NOISE = "uniform:5"
SIZES = ((5, 5), (5, 10), (5, 20), (10, 10), (10, 20), (10, 40), (20, 20), (20, 40), (20, 80), (40, 40), (40, 160))
"""(d, n) on which the model that travels is trained."""
_HOME = (10, 20)
"""Where the models of the zoo were trained."""
_FEWEST = 256  # contexts in a batch
_PARTS = 8  # of the pool of each size; every step takes the next one
_LARGEST_CHANGE, _LARGEST_SHARE = 0.5, 0.05  # of answers, relative to the Bayes limit, and of parameters, in one step
_FIRST_WEIGHT = 1e-3  # of sizes unlike the start's


def bayes_pool(task: Task, count: int, seed: int) -> tuple[GramDraw, float]:
    """Contexts whose targets are posterior means, and the mean loss of these: the Bayes limit, as measured here."""
    contexts = task.draw_contexts(count, seed=seed, dtype=np.float64, backend="fused").as_gram_draw()
    targets = posterior_means(task, contexts)
    assert targets is not None
    return contexts._replace(oracle=targets), 0.5 * float(((targets - contexts.oracle) ** 2).sum(axis=1).mean())


# --- some parameters held at zero -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class HeldStage(NaturalStage):
    """Natural gradient on the parameters that are not zero at its start."""

    def prepare(self, run: Run, state: TrainState, model: rf.LinearTransformer) -> TrainState:
        """As in every stage; the curvature of the others is zero."""
        state = super().prepare(run, state, model)
        if isinstance(state.curvature, Metric):
            free = state.vector != 0
            state = replace(state, curvature=Metric(state.curvature.matrix * np.outer(free, free)))
        return state

    def slope(self, run: Run, state: TrainState, model: rf.LinearTransformer) -> Slope:
        """As in every stage; the slope of the others is zero."""
        found = super().slope(run, state, model)
        return found._replace(gradient=found.gradient * (state.vector != 0))


def run_for(model: rf.LinearTransformer) -> Run:
    """A run that fits such models. Use one for several fits: it keeps their pool of contexts."""
    return Run(TrainConfig(kind=model.kind, layers=model.layers, registers=model.registers, noise=NOISE), ())


def fitted(run: Run, model: rf.LinearTransformer, steps: int, calm: Calm | None) -> tuple[rf.LinearTransformer, Array]:
    """The model fitted again, with zeros where it has zeros; and the curvature at the end."""
    stage = HeldStage(name="held", steps=steps, warmup=1, calm=calm)
    if model.kind == "full":  # as in the recipe: for a thousand numbers the curvature needs more contexts
        stage = replace(stage, warmup=50, sample=8192, every=20, rate=0.15)
    none = np.empty(0)
    state = stage.start(run, TrainState(flat(model), Adam.start(0), none, none))
    for _ in range(steps):
        state, _ = stage.step(run, state)
    assert isinstance(state.curvature, Metric)
    return model.unflatten(state.vector.astype(model.dtype)), state.curvature.matrix


def prune(
    model: rf.LinearTransformer, fewest: int, steps: int, measure: Callable[[rf.LinearTransformer], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Drop parameters one at a time, the one that is missed least first, and fit the others again.

    How much a parameter is missed is θ²/(2 [H⁻¹]_kk), and the others move by −θ [H⁻¹]_:k/[H⁻¹]_kk to make up for it
    (Hassibi and Stork, 1993). Contexts from beyond the task are part of every fit, or the result would explode.
    """
    run, calm, rows = run_for(model), Calm(weight=0.003, rise=(0.0, 0.1)), []
    while True:
        model, matrix = fitted(run, model, steps, calm)
        vector = flat(model)
        free = vector != 0
        parameters = {name: array.tolist() for name, array in model.parameters.items()}
        rows.append({"left": int(free.sum()), **measure(model), **parameters})
        if free.sum() <= fewest:
            return rows
        scale = 1 / np.sqrt(np.maximum(matrix.diagonal(), 1e-8 * matrix.diagonal().max()))
        damped = matrix * np.outer(scale, scale) + 1e-3 * np.eye(len(scale))
        inverse = np.linalg.inv(damped) * np.outer(scale, scale)
        least = int(np.where(free, vector**2 / inverse.diagonal(), np.inf).argmin())
        vector = vector - vector[least] * inverse[least] / inverse[least, least] * free
        vector[least] = 0.0
        model = model.unflatten(vector.astype(model.dtype))


# --- many sizes -------------------------------------------------------------------------------------------------------


def units(dim: int, examples: int) -> tuple[float, float]:
    """The squares of natural units of x and y: (√n + √d)², the largest eigenvalue of Σ for large n and d, and nd."""
    return (examples**0.5 + dim**0.5) ** 2, examples * dim


def in_units(model: rf.LinearTransformer, dim: int, examples: int) -> rf.LinearTransformer:
    """A DIAG model of natural units for tokens as they are: q_x and Q_s divided by the squares of the units."""
    shape = {"layers": model.layers, "heads": model.heads, "dim": dim, "registers": model.registers}
    empty = rf.LinearTransformer.init("diag", **shape, scale=0.0, dtype=np.float64)
    return empty.replace(_scaled(model, *(1 / square for square in units(dim, examples))).parameters)


def natural(model: rf.LinearTransformer) -> rf.LinearTransformer:
    """A model of the zoo in natural units."""
    return _scaled(model.astype(np.float64), *units(*_HOME))


def _scaled(model: rf.LinearTransformer, of_x: float, of_rest: float) -> rf.LinearTransformer:
    q = model.parameters["q"].copy()
    q[..., :1] *= of_x
    q[..., 1:] *= of_rest
    return model.replace({"p": model.parameters["p"], "q": q})


def travel(start: rf.LinearTransformer, steps: int, work: int = 102_400) -> rf.LinearTransformer:
    """One model for all `SIZES`, in natural units: natural gradient on losses relative to the Bayes limit of each size.

    ``start`` is a model of natural units. Sizes with another n/d than that of its training matter little at first. A
    batch has ``work``/d² contexts: with few features losses differ more, and tails are heavier.
    """
    vector, home = start.flatten(), _HOME[1] / _HOME[0]
    ones = start.replace({name: np.ones_like(array) for name, array in start.parameters.items()})
    places = [_Place.at(start, dim, examples, steps, max(_FEWEST, work // dim**2)) for dim, examples in SIZES]
    for step in range(steps):
        gradient, matrix = np.zeros_like(vector), np.zeros((len(vector), len(vector)))
        late = max(0.0, 1 - 2 * step / steps)
        for place in places:
            dim, examples = place.run.config.dim, place.run.task.most_examples
            weight = (1.0 if examples == home * dim else _FIRST_WEIGHT**late) / place.limit
            chain = in_units(ones, dim, examples).flatten()
            slope, curvature = place.look(in_units(start.unflatten(vector), dim, examples), step)
            gradient += weight * chain * slope
            matrix += weight * np.outer(chain, chain) * curvature
        change = Metric(matrix).natural(gradient, _LARGEST_CHANGE)
        change = clip_norm(change, _LARGEST_SHARE * float(np.linalg.norm(vector)))
        vector = vector - 0.3 * warmup_cosine(step, steps, 20, 0.05) * change
    return start.unflatten(vector)


@dataclass
class _Place:
    """A size of problem, with a stage of natural gradient that measures slopes and curvatures there."""

    run: Run
    stage: NaturalStage
    state: TrainState
    limit: float
    """The Bayes limit."""

    @classmethod
    def at(cls, model: rf.LinearTransformer, dim: int, examples: int, steps: int, batch: int) -> _Place:
        config = TrainConfig(kind="diag", layers=model.layers, registers=model.registers, noise=NOISE)
        run = Run(replace(config, dim=dim, examples=examples), ())
        calm = Calm(weight=0.003, search=4 * batch, keep=batch, batch=batch // 4)
        stage = NaturalStage(name="place", steps=steps, batch=batch, pool=_PARTS * batch, sample=batch, calm=calm)
        none = np.empty(0)
        return cls(run, stage, TrainState(none, Adam.start(0), none, none), bayes_pool(run.task, _PARTS * batch, 0)[1])

    def look(self, model: rf.LinearTransformer, step: int) -> tuple[Array, Array]:
        """The slope and the curvature of the mean loss, with hard contexts from beyond the task."""
        model = model.astype(np.float32)
        self.state = self.stage.prepare(self.run, replace(self.state, step=step, total=step), model)
        assert isinstance(self.state.curvature, Metric)
        return self.stage.slope(self.run, self.state, model).gradient, self.state.curvature.matrix
