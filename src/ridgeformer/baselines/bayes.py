"""The Bayes limit: no predictor that is not told σ can have a lower expected adjusted loss."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ridgeformer.baselines.least_squares import LeastSquares
from ridgeformer.baselines.posterior import Posterior, default_nodes, posterior
from ridgeformer.core.context import Context
from ridgeformer.core.distributions import NoisePrior, parse_noise
from ridgeformer.core.notation import Array
from ridgeformer.core.validation import whole_number

_ENTRIES = 1 << 15  # contexts times nodes at a time: arrays of 256 kB, a few of which fit a core's cache


@dataclass(frozen=True)
class Bayes:
    """The posterior mean of w when σ is drawn from ``prior``: E[w | D] = ∫ p(σ | D) w*_{σ²} dσ, for any d and n.

    The adjusted loss ½‖ŵ − w*_{σ²}‖² is a squared error: the mean of w*_{σ²} given the data minimises its expectation.
    """

    prior: NoisePrior | str
    """Prior of σ, or its spec, such as "uniform:5"."""
    nodes: int | None = None
    """Nodes of the quadrature over σ; by default enough for sharp posteriors, see `posterior.default_nodes`."""
    name: ClassVar[str] = "Bayes"

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", parse_noise(self.prior))
        if self.nodes is not None:
            object.__setattr__(self, "nodes", whole_number("nodes", self.nodes, 1))

    def weights(self, context: Context) -> Array:
        """(batch, d) weights."""
        fit = LeastSquares.of(context)
        mean = np.empty_like(fit.coordinates)
        for rows, part, (sigma, probability) in self._parts(fit):
            variance = sigma**2
            for direction, s in enumerate(part.divisors.T[..., None]):
                # w*_{σ²} is least squares shrunk to s / (s + σ²) of itself; this is the mean of that factor.
                mean[rows, direction] = (probability * (s / (s + variance))).sum(axis=1)
        return fit.rotate_back(fit.coordinates * mean)

    def noise_level(self, context: Context) -> Array:
        """E[σ | D], (batch,)."""
        parts = self._parts(LeastSquares.of(context))
        return np.concatenate([(probability * sigma).sum(axis=1) for _, _, (sigma, probability) in parts])

    def posterior(self, context: Context) -> Posterior:
        """p(σ | D): nodes σ (batch, nodes), each context's own, and their probabilities (batch, nodes)."""
        found = [part for _, _, part in self._parts(LeastSquares.of(context))]
        sigma, probability = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return Posterior(sigma, probability)

    def describe(self) -> str:
        """Name and parameters."""
        return f"Bayes, σ ~ {self._prior.spec}"

    @property
    def _prior(self) -> NoisePrior:
        assert not isinstance(self.prior, str)
        return self.prior

    def _parts(self, fit: LeastSquares) -> Iterator[tuple[slice, LeastSquares, Posterior]]:
        """The contexts a few at a time, so that memory stays bounded."""
        nodes = self.nodes or default_nodes(self._prior, fit.examples)
        count = max(1, _ENTRIES // nodes)
        for start in range(0, len(fit.residual), count):
            rows = slice(start, start + count)
            part = fit.rows(rows)
            yield rows, part, posterior(part, self._prior, nodes)
