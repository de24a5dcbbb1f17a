"""Fresh contexts for analyses, sorted into bands of noise, and a model's losses on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ridgeformer.core.backend import engine
from ridgeformer.core.context import Context
from ridgeformer.core.distributions import NoisePrior, Uniform
from ridgeformer.core.forward import check_model
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.random import check_seed
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, instance, whole_number
from ridgeformer.evaluation import Evaluation
from ridgeformer.evaluation.scoring import half_square

_BANDS = 5
_MOST_LEVELS = 8  # of a prior with few levels of noise, each of which is then a band
_MEMORY = 64e6  # bytes of Gram matrices: 66 000 contexts at d = 10, 780 at d = 100
_MOST_MEMORY = 5e8  # bytes of Gram matrices that may be asked for; all analyses together hold some five times that
_FEWEST, _DEFAULT = 200, 20_000
_TYPICAL = 0.999
"""Share of contexts in sums of squares: without a limit, the few on which a model explodes would dominate."""


@dataclass(frozen=True)
class Band:
    """The contexts of a sample whose σ lies between two levels."""

    low: float
    high: float
    members: Array  # their places in the sample

    @property
    def label(self) -> str:
        """Such as "1–2", or "3" for a single level."""
        return f"{self.low:g}" if self.low == self.high else f"{self.low:.3g}–{self.high:.3g}"

    @property
    def middle(self) -> float:
        """Where the band is drawn."""
        return (self.low + self.high) / 2


@dataclass(frozen=True)
class Sample:
    """Contexts of a task: the first ones that `ridgeformer evaluate` draws for the same seed. `Sample.draw` makes it.

    >>> import ridgeformer as rf
    >>> sample = Sample.draw(rf.Task(3, 8, "uniform:2"), sequences=100)
    >>> sample.sequences, [band.label for band in sample.bands]
    (100, ['0–0.4', '0.4–0.8', '0.8–1.2', '1.2–1.6', '1.6–2'])
    """

    task: Task
    context: Context  # all that a model sees
    sigma: Array  # (batch,)
    oracle: Array  # (batch, d): ridge regression that is told σ

    @classmethod
    def draw(cls, task: Task, sequences: int | None = None, seed: int = 0) -> Sample:
        """``sequences`` fresh contexts in float64; by default 20 000, or what fits 64 MB."""
        size = 8 * (instance("task", task, Task).dim + 1) ** 2
        if sequences is None:
            sequences = max(_FEWEST, min(_DEFAULT, int(_MEMORY / size)))
        most = max(_FEWEST, int(_MOST_MEMORY / size))
        if whole_number("sequences", sequences, 1) > most:
            raise InputError(
                f"A model of dim {task.dim} is analysed on at most {most:,} sequences, which memory holds at once; "
                "ridgeformer evaluate takes any number."
            )
        chunks = list(task.chunks(sequences, check_seed(seed)))
        parts = [(c.context.gram, c.sigma, c.oracle) for c in chunks]
        gram, sigma, oracle = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        n = task.examples
        if not isinstance(n, int):
            n = np.concatenate([np.broadcast_to(c.context.examples, len(c.sigma)) for c in chunks])
        return cls(task, Context.unchecked(gram, n), sigma, oracle)

    @property
    def sequences(self) -> int:
        """How many contexts there are."""
        return len(self.sigma)

    @cached_property
    def bands(self) -> tuple[Band, ...]:
        """Five bands of σ, or one for each level of a prior with few levels; bands without a context are left out."""
        return noise_bands(self.sigma, self.task.prior)

    def first(self, count: int) -> Sample:
        """The first ``count`` contexts."""
        n = self.context.examples
        context = Context.unchecked(self.context.gram[:count], n if isinstance(n, int) else n[:count])
        return Sample(self.task, context, self.sigma[:count], self.oracle[:count])

    def layer_weights(self, model: LinearTransformer) -> Array:
        """ŵ after every layer, (layers, batch, d), float64."""
        model = check_model(model, self.task.dim).astype(np.float64)
        return engine().weights(model.compiled(), self.context.gram, every_layer=True)

    def rotated(self, weights: Array) -> Array:
        """ŵ (batch, d) in the eigenbasis of each context's Σ."""
        return np.einsum("bij,bi->bj", self.context.spectrum.vectors, weights)

    def losses(self, weights: Array) -> Array:
        """½‖ŵ − w*‖² of every context, (batch,); infinite where a model exploded."""
        return half_square(weights, self.oracle)


def noise_bands(sigma: Array, prior: NoisePrior) -> tuple[Band, ...]:
    """The contexts sorted by their noise σ (batch,)."""
    levels = np.unique(sigma)
    if len(levels) <= _MOST_LEVELS:
        return tuple(Band(float(level), float(level), np.flatnonzero(sigma == level)) for level in levels)
    if isinstance(prior, Uniform):
        edges = np.linspace(prior.low, prior.high, _BANDS + 1)
    else:
        edges = np.quantile(sigma, np.linspace(0, 1, _BANDS + 1))
    place = np.clip(np.searchsorted(edges, sigma, side="right") - 1, 0, _BANDS - 1)
    bands = (Band(float(edges[k]), float(edges[k + 1]), np.flatnonzero(place == k)) for k in range(_BANDS))
    return tuple(band for band in bands if len(band.members))


def median_of(values: Array) -> float:
    """The median of all that are numbers; NaN if none is."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")


def typical(losses: Array) -> Array:
    """(batch,) of bool: all but the thousandth with the largest losses, and none without a finite loss."""
    return np.isfinite(losses) & (losses <= np.quantile(losses, _TYPICAL, method="inverted_cdf"))


@dataclass(frozen=True)
class Measured:
    """Adjusted losses on a sample, over all of it and band by band."""

    total: Evaluation
    bands: tuple[Evaluation, ...]

    @classmethod
    def of(cls, weights: Array, sample: Sample) -> Measured:
        """Of predictions ``weights`` (batch, d) for the sample's contexts."""
        losses = sample.losses(weights)
        return cls(Evaluation.of(losses), tuple(Evaluation.of(losses[band.members]) for band in sample.bands))


def measure(model: LinearTransformer, sample: Sample) -> Measured:
    """Losses of a model's prediction."""
    return Measured.of(sample.layer_weights(model)[-1], sample)
