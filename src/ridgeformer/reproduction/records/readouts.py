"""What models would say after each of their layers: figures 5 and 7."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from ridgeformer.core.validation import whole_number
from ridgeformer.evaluation import draw_chunks
from ridgeformer.evaluation.losses import half_square
from ridgeformer.evaluation.statistics import Moments
from ridgeformer.reproduction.cells import SEEDED_PRIOR, Cell
from ridgeformer.reproduction.records.fields import Fields, plain
from ridgeformer.reproduction.records.parallel import OnPart, in_parallel, no_news
from ridgeformer.core.model import KINDS, LinearTransformer
from ridgeformer.core.distributions import Fixed
from ridgeformer.core.task import Task

LEVELS = tuple(0.5 * k for k in range(21))
"""σ = 0 … 10, twice as far as the models were trained."""


@dataclass(frozen=True)
class ModelReadout:
    """One model, read out after K = 1 … L layers."""

    method: str
    layers: int
    seed: int
    adjusted: tuple[float, ...]
    """After each layer, on the prior."""
    standard_error: tuple[float, ...]
    profile: tuple[tuple[float, ...], ...]
    """Adjusted losses after each layer, at each level."""


@dataclass(frozen=True)
class ReadoutsRecord:
    """All models for one prior, of all seeds."""

    noise: str
    sequences: int
    levels: tuple[float, ...]
    level_sequences: int
    """At every level; the same ones but for σ."""
    models: tuple[ModelReadout, ...]

    def of(self, method: str, layers: int) -> tuple[ModelReadout, ...]:
        """All seeds of one model."""
        return tuple(model for model in self.models if (model.method, model.layers) == (method, layers))

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"record": "readouts", **plain(asdict(self))}

    @classmethod
    def from_json(cls, values: Any) -> ReadoutsRecord:
        """The reverse of `as_json`."""
        fields = Fields(values, "readouts")
        levels = fields.levels()
        return cls(
            fields.noise(),
            fields.whole("sequences", 1),
            levels,
            fields.whole("level_sequences", 1),
            tuple(_read_model(model, len(levels)) for model in fields.objects("models")),
        )


def _read_model(fields: Fields, levels: int) -> ModelReadout:
    layers = fields.layers()
    return ModelReadout(
        fields.choice("method", KINDS),
        layers,
        fields.whole("seed"),
        fields.numbers("adjusted", layers),
        fields.numbers("standard_error", layers),
        fields.rows("profile", (layers, levels)),
    )


def measure_readouts(
    models: Mapping[Cell, LinearTransformer],
    sequences: int = 20_000,
    level_sequences: int = 5_000,
    seed: int = 1,
    on_part: OnPart = no_news,
) -> ReadoutsRecord:
    """The paper's models for `SEEDED_PRIOR`, on the prior and at every level; all of them on the same sequences."""
    sequences = whole_number("sequences", sequences, 2)
    level_sequences = whole_number("level_sequences", level_sequences, 2)
    order = list(KINDS)
    cells = [cell for cell in models if cell.noise == SEEDED_PRIOR and not cell.beyond]
    cells.sort(key=lambda cell: (order.index(cell.model), cell.layers, cell.seed))
    chosen = [models[cell] for cell in cells]
    jobs = [partial(_layer_losses, chosen, Task(noise=SEEDED_PRIOR), sequences, seed)]
    jobs += [partial(_layer_losses, chosen, Task(noise=Fixed(level)), level_sequences, seed) for level in LEVELS]
    on_prior, *at_levels = in_parallel(jobs, on_part)
    found = [
        ModelReadout(
            cell.model,
            cell.layers,
            cell.seed,
            _means(on_prior[place]),
            tuple(map(float, on_prior[place].error)),
            tuple(zip(*(_means(level[place]) for level in at_levels), strict=True)),
        )
        for place, cell in enumerate(cells)
    ]
    return ReadoutsRecord(SEEDED_PRIOR, sequences, LEVELS, level_sequences, tuple(found))


def _layer_losses(models: Sequence[LinearTransformer], task: Task, sequences: int, seed: int) -> list[Moments]:
    """Of every model, the moments of its adjusted losses after each layer; contexts are drawn once for all models."""
    from ridgeformer.kernels import engine

    moments = [Moments(model.layers) for model in models]
    parameters = [model.attention_matrices() if model.kind == "full" else model.omega() for model in models]
    for draw in draw_chunks(task, sequences, seed):
        for own, seen in zip(parameters, moments, strict=True):
            weights = engine.weights_from_gram(own, draw.context.gram, every_layer=True)
            seen.add(half_square(weights, draw.oracle))
    return moments


def _means(moments: Moments) -> tuple[float, ...]:
    return tuple(float(mean) if math.isfinite(mean) else math.inf for mean in moments.mean)
