"""Products for a batch of contexts: the first axis counts contexts."""

from __future__ import annotations

import numpy as np

from ridgeformer.core.notation import Array


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
