"""Products for batches of contexts, comparisons of two computations, and random cases for the checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.kinds import KINDS, Diag
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.validation import instance

ROUNDING = 1e-10
"""Bound for equalities in float64. Measured: 1e-14, and 1e-12 for Lemma 4.4 where Σ is nearly singular (n = d)."""
OnStage = Callable[[str, float], None]
"""Called with what is being computed and the share of that stage, or of all work, that is done."""


def silent(_stage: str, _share: float) -> None:
    """The `OnStage` that reports nothing."""


# The first axis of every array counts contexts.
def transposed(matrices: Array) -> Array:
    """Mᵀ of each."""
    return matrices.transpose(0, 2, 1)


def times(matrices: Array, vectors: Array) -> Array:
    """M v of each."""
    return np.einsum("bij,bj->bi", matrices, vectors)


def outer(left: Array, right: Array) -> Array:
    """l rᵀ of each."""
    return left[:, :, None] * right[:, None]


def dot(left: Array, right: Array) -> Array:
    """<l, r> of each."""
    return np.einsum("bd,bd->b", left, right)


def residual_energy(context: Context) -> Array:
    """ρ = Σ_i r_i² of the residuals of OLS, (batch,): λ − <α, w*>, not below 0 for rounding."""
    return np.maximum(context.energy - dot(context.cross, context.ridge(0.0)), 0.0)


def relative_difference(computed: Array, expected: Array) -> float:
    """The largest, over contexts (the first axis), of max |computed − expected| / max |expected|.

    NaN if either holds one, so that no bound accepts it; 0 if there is no context or both are zero.
    """
    if len(computed) == 0:
        return 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # an exploding model compares as NaN
        axes = tuple(range(1, np.ndim(computed)))
        gap, size = np.abs(computed - expected).max(axis=axes), np.abs(expected).max(axis=axes)
        return float(np.where(gap == 0, 0.0, gap / np.where(size == 0, np.finfo(float).tiny, size)).max())


def is_diagonal(model: LinearTransformer) -> bool:
    """Whether a model's layers are given by four numbers ω each, as those of diag and gdpp models without registers."""
    diagonal = isinstance(KINDS[instance("model", model, LinearTransformer).kind], Diag)
    return diagonal and not model.registers


class Tokens(NamedTuple):
    """Contexts as tokens, with queries."""

    X: Array  # (batch, n, d)
    y: Array  # (batch, n)
    queries: Array  # (batch, m, d)

    @property
    def context(self) -> Context:
        """The same contexts as Gram statistics."""
        return Context.from_tokens(self.X, self.y)


def random_tokens(rng: np.random.Generator, batch: int, examples: int, dim: int, sigma: float = 1.0) -> Tokens:
    """Contexts of the task, w ~ N(0, I), x ~ N(0, I), y = <w, x> + σ·N(0, 1), with two queries each."""
    X, weights = rng.standard_normal((batch, examples, dim)), rng.standard_normal((batch, dim))
    y = np.einsum("bnd,bd->bn", X, weights) + sigma * rng.standard_normal((batch, examples))
    return Tokens(X, y, rng.standard_normal((batch, 2, dim)))


def random_model(
    rng: np.random.Generator, kind: str, layers: int, heads: int, dim: int, gram: Array, registers: int = 0
) -> LinearTransformer:
    """A float64 model with Gaussian parameters whose L layers together move these tokens by about their length.

    ‖P G Q‖ is about scale² tr G for scalars p and q, and p times that for dense p × p matrices; heads add like random
    walks. Larger steps would explode: the map has degree 3^L in the data.
    """
    spread = (1 + registers if isinstance(KINDS[kind], Diag) else dim + 1 + registers) * np.sqrt(heads)
    scale = np.sqrt(1 / (layers * spread * np.trace(gram, axis1=1, axis2=2).max()))
    shapes = KINDS[kind].shapes_with(layers, heads, dim, registers)
    return LinearTransformer(kind, dim, {name: scale * rng.standard_normal(shape) for name, shape in shapes.items()})
