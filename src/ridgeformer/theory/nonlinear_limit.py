"""Theorem 4.2: a linear transformer cannot represent x(1)², however deep it is.

By Theorem 4.1 the outputs y^l = a y − X w of a layer lie in the span of the d columns of X and of y. Whatever the
weights, the cosine between y^l and the targets x(1)² is therefore at most that of their projection onto this span,
`reachable_cosine`, which needs no model at all. For x ~ N(0, I) and large n its square is

    (1/‖x(1)²‖²) Σ_k (Σ_i x_i(k) x_i(1)²)² / Σ_i x_i(k)²  ≈  (E x(1)⁶ + (d − 1) E x(1)⁴) / (n E x(1)⁴)  =  (d + 4) / n ,

as E x⁴ = 3 and E x⁶ = 15; noise in y adds a direction independent of the targets, which catches 1/n of their square.
So the paper's bound of 0.1 needs about n ≥ 100 (d + 4) examples: 1400 for d = 10. The paper says "n ≫ d" and has
noise-free y; here the number is explicit, and y may be noisy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.validation import InputError, whole_number
from ridgeformer.theory.implicit_model import implicit_models, in_float64, tokens_in_float64
from ridgeformer.theory.numerics import random_model, random_tokens

PRINTED_BOUND = 0.1  # Theorem 4.2


@dataclass(frozen=True)
class CosineRecord:
    """Cosines between outputs and x(1)² in contexts of one size."""

    examples: int
    dim: int
    largest: float  # |cosine|, over contexts, models and layers
    reachable: float  # the largest that any linear transformer could have had in these contexts
    expected: float  # `expected_cosine`: what ``reachable`` is about in one context, for large n


def output_cosines(model: LinearTransformer, X: Any, y: Any) -> Array:
    """(layers + 1, batch): |cosine| of the context's y-tokens with x(1)², before the first layer and after each.

    Computed from (M, u, a, w), so that n may be large: the token transformer would build n × n scores.
    """
    X, y = tokens_in_float64(X, y)
    model, context = in_float64(model, Context.from_tokens(X, y))
    targets = X[..., 0] ** 2
    with np.errstate(over="ignore", invalid="ignore"):  # an exploding model has NaN for a cosine
        outputs = [s.a[:, None] * y - np.einsum("bnd,bd->bn", X, s.w) for s in implicit_models(model, context)]
        return np.stack([_cosine(output, targets) for output in outputs])


def reachable_cosine(X: Any, y: Any) -> Array:
    """(batch,): the largest |cosine| with x(1)² of anything in the span of the columns of X and y."""
    X, y = tokens_in_float64(X, y)
    columns, targets = np.concatenate([X, y[..., None]], axis=-1), X[..., 0] ** 2
    # Columns that depend on the others (noise-free y, n < d) have no singular value: pinv leaves them out. The cut-off
    # is that of the columns' own rank, squared.
    cut_off = max(columns.shape[1:]) * np.finfo(np.float64).eps
    inverse = np.linalg.pinv(columns.transpose(0, 2, 1) @ columns, rcond=cut_off, hermitian=True)
    nearest = np.einsum("bni,bij,bj->bn", columns, inverse, np.einsum("bni,bn->bi", columns, targets))
    return _cosine(nearest, targets)


def expected_cosine(dim: int, examples: int, noisy: bool = False) -> float:
    """sqrt((d + 4) / n): the size of `reachable_cosine` for x ~ N(0, I) and large n; d + 5 with noise in y."""
    return min(1.0, math.sqrt((dim + 4 + noisy) / examples))


def examples_needed(dim: int) -> int:
    """The n from which `expected_cosine` of noise-free contexts is at most `PRINTED_BOUND`."""
    return math.ceil(round((dim + 4) / PRINTED_BOUND**2, 6))  # 0.1² is not quite 0.01


def cosine_records(
    dim: int,
    sizes: Sequence[int],
    rng: np.random.Generator,
    model: LinearTransformer | None = None,
    made_for: int | None = None,
) -> list[CosineRecord]:
    """Cosines in 8 noise-free contexts of each of several sizes n: of random models of all kinds, or of ``model``.

    A model was made for contexts of some size, ``made_for`` (2 d unless told, the paper's ratio), and explodes on much
    longer ones, since Σ grows with n. Its P are therefore divided by n / made_for: it is then a model of its kind that
    treats the averages of a long context as it treats those of a short one.
    """
    if model is not None and model.dim != dim:
        raise InputError(f"The model was made for {model.dim} features, not {dim}.")
    records = []
    for n in sizes:
        tokens = random_tokens(rng, 8, whole_number("examples", n, 1), dim, sigma=0.0)
        gram = tokens.context.gram
        if model is None:
            models = [random_model(rng, kind, layers=3, heads=2, dim=dim, gram=gram) for kind in KINDS]
        else:
            models = [with_scaled_attention(model.astype(np.float64), (made_for or 2 * dim) / n)]
        largest = max(float(output_cosines(each, tokens.X, tokens.y).max()) for each in models)
        reachable = float(reachable_cosine(tokens.X, tokens.y).max())
        records.append(CosineRecord(n, dim, largest, reachable, expected_cosine(dim, n)))
    return records


def with_scaled_attention(model: LinearTransformer, factor: float) -> LinearTransformer:
    """The model whose P are multiplied by ``factor``: attention weighs every example by it."""
    first = next(iter(model.parameters))  # P, or the p that it is made of
    return model.replace({**model.parameters, first: model.parameters[first] * factor})


def _cosine(left: Array, right: Array) -> Array:
    """(batch,) |cosine|; 0 where an output vanishes, which represents nothing."""
    # Scaled first: a deep model's outputs may be beyond the square root of the largest float.
    size = np.abs(left).max(axis=-1, keepdims=True)
    left = left / np.where(size == 0, 1.0, size)
    norms = np.linalg.norm(left, axis=-1) * np.linalg.norm(right, axis=-1)
    return np.abs(np.einsum("bn,bn->b", left, right)) / np.where(norms == 0, 1.0, norms)
