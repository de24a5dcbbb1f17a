"""Random contexts and random models to try the theory on."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.model import LinearTransformer, parameter_shapes
from ridgeformer.core.notation import Array


class Sample(NamedTuple):
    """Contexts as tokens, with queries."""

    X: Array  # (batch, n, d)
    y: Array  # (batch, n)
    queries: Array  # (batch, m, d)

    @property
    def context(self) -> Context:
        """The same contexts as Gram statistics."""
        return Context.from_tokens(self.X, self.y)


def random_sample(
    rng: np.random.Generator, batch: int, examples: int, dim: int, sigma: float = 1.0, queries: int = 2
) -> Sample:
    """Contexts of the task: w ~ N(0, I), x ~ N(0, I), y = <w, x> + σ·N(0, 1)."""
    X, weights = rng.standard_normal((batch, examples, dim)), rng.standard_normal((batch, dim))
    y = np.einsum("bnd,bd->bn", X, weights) + sigma * rng.standard_normal((batch, examples))
    return Sample(X, y, rng.standard_normal((batch, queries, dim)))


def random_model(
    rng: np.random.Generator, kind: str, layers: int, heads: int, dim: int, gram: Array, strength: float = 1.0
) -> LinearTransformer:
    """A float64 model with Gaussian parameters whose L layers together move these tokens by about ``strength``.

    ‖P G Q‖ is about scale² tr G for scalars p and q, and p times that for dense p × p matrices; heads add like random
    walks. Larger steps would explode: the map has degree 3^L in the data.
    """
    spread = (dim + 1 if kind == "full" else 1) * np.sqrt(heads)
    scale = np.sqrt(strength / (layers * spread * np.trace(gram, axis1=1, axis2=2).max()))
    shapes = parameter_shapes(kind, layers, heads, dim)
    return LinearTransformer(kind, dim, {name: scale * rng.standard_normal(shape) for name, shape in shapes.items()})
