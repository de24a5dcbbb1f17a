"""Contexts as Gram matrices: all that a linear transformer, or ridge regression, can know about its examples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ridgeformer.core.notation import Array
from ridgeformer.core.validation import InputError, finite_array, whole_number


class Spectrum(NamedTuple):
    """Σ = V diag(s) Vᵀ of every context, and α in its eigenbasis; float64."""

    values: Array  # s, (batch, d), ascending, never negative
    vectors: Array  # V, (batch, d, d), columns
    cross: Array  # a = Vᵀ α, (batch, d)

    def rotate_back(self, filtered: Array) -> Array:
        """V·filtered: weights (batch, d) from their coordinates in the eigenbasis."""
        return np.einsum("bij,bj->bi", self.vectors, filtered)


_ASYMMETRY = 1e-5  # of the largest entry of G: products in float32 leave 1e-6


@dataclass(frozen=True)
class Context:
    """A batch of contexts, each reduced to G = Σ_i e_i e_iᵀ over its tokens e_i = (x_i, y_i).

    ``Context(gram, examples)`` takes Gram matrices (batch, d + 1, d + 1) and n; `Context.from_tokens` takes the tokens
    themselves. Raises `InputError` for matrices that are not finite, not symmetric or of another shape.

    >>> context = Context.from_tokens([[[1.0], [2.0]]], [[2.0, 4.0]])
    >>> context.gram.tolist(), context.examples, context.ridge(0.0).round(6).tolist()
    ([[[5.0, 10.0], [10.0, 20.0]]], 2, [[2.0]])
    """

    gram: Array
    """(batch, p, p), symmetric."""
    examples: int | Array
    """n, the number of examples in a context; an array (batch,) if contexts have different numbers."""

    def __post_init__(self) -> None:
        gram = finite_array("gram", self.gram, ("batch", "p", "p"))
        if gram.shape[1] != gram.shape[2] or gram.shape[1] < 2:
            raise InputError(f"gram must have the shape (batch, dim + 1, dim + 1), not {gram.shape}.")
        if (np.abs(gram - gram.transpose(0, 2, 1)) > _ASYMMETRY * np.abs(gram).max(initial=0.0)).any():
            raise InputError("gram must be symmetric: it is the sum of e eᵀ over the tokens e of a context.")
        object.__setattr__(self, "gram", gram)
        object.__setattr__(self, "examples", _check_examples(self.examples, len(gram)))

    @classmethod
    def from_tokens(cls, X: Any, y: Any) -> Context:
        """The contexts with features X (batch, n, d) and targets y (batch, n).

        Raises `InputError` for arrays that are not finite or do not fit each other.

        >>> Context.from_tokens([[[1.0], [2.0]]], [[2.0, 4.0]]).gram.tolist()
        [[[5.0, 10.0], [10.0, 20.0]]]
        """
        X, y = check_tokens(X, y)
        tokens = np.concatenate([X, y[..., None]], axis=-1)
        return cls(tokens.transpose(0, 2, 1) @ tokens, X.shape[1])

    @classmethod
    def unchecked(cls, gram: Array, examples: int | Array) -> Context:
        """From Gram matrices that the package computed itself, without checks."""
        context = object.__new__(cls)
        object.__setattr__(context, "gram", gram)
        object.__setattr__(context, "examples", examples)
        return context

    @property
    def dim(self) -> int:
        """d, the number of features."""
        return self.gram.shape[-1] - 1

    @property
    def scatter(self) -> Array:
        """Σ = Σ_i x_i x_iᵀ, (batch, d, d)."""
        return self.gram[:, :-1, :-1]

    @property
    def cross(self) -> Array:
        """α = Σ_i y_i x_i, (batch, d)."""
        return self.gram[:, :-1, -1]

    @property
    def energy(self) -> Array:
        """λ = Σ_i y_i², (batch,)."""
        return self.gram[:, -1, -1]

    @cached_property
    def spectrum(self) -> Spectrum:
        """Eigenvalues and eigenvectors of Σ, computed once: every kind of ridge regression needs them."""
        values, vectors = np.linalg.eigh(self.scatter.astype(np.float64))
        cross = np.einsum("bij,bi->bj", vectors, self.cross.astype(np.float64))
        return Spectrum(np.maximum(values, 0.0), vectors, cross)

    def ridge(self, penalty: Any) -> Array:
        """Ridge regression w*_v = (Σ + v I)⁻¹ α, (batch, d), in float64.

        ``penalty`` is v ≥ 0, one number or one for each context (batch,); other values raise `InputError`. With v = 0
        and fewer examples than features, directions without data get weight zero: the limit v → 0.

        >>> Context.from_tokens([[[1.0], [2.0]]], [[2.0, 4.0]]).ridge(5.0).round(6).tolist()
        [[1.0]]
        """
        axes = () if np.ndim(penalty) == 0 else ("batch",)
        penalty = finite_array("penalty", penalty, axes)
        if (penalty < 0).any() or (axes and len(penalty) != len(self.gram)):
            raise InputError("penalty must be one number of at least 0, or one for each context.")
        values, _, cross = spectrum = self.spectrum
        total = values + np.broadcast_to(np.asarray(penalty, np.float64), (len(self.gram),))[:, None]
        # Rounding leaves eigenvalues of empty directions at about eps times the largest.
        floor = values[:, -1:] * self.dim * np.finfo(self.gram.dtype).eps
        return spectrum.rotate_back(np.where(total > floor, cross / np.where(total > floor, total, 1.0), 0.0))


def _check_examples(examples: Any, batch: int) -> int | Array:
    """n, or n of every context."""
    if not isinstance(examples, np.ndarray) or examples.ndim == 0:
        return whole_number("examples", examples, 1)
    if examples.shape != (batch,) or examples.dtype.kind not in "iu" or (examples < 1).any():
        raise InputError(f"examples must be a whole number of at least 1, or one for each of the {batch} contexts.")
    return examples


def check_tokens(X: Any, y: Any) -> tuple[Array, Array]:
    """X (batch, n, d) and y (batch, n) as finite float arrays of one dtype, n ≥ 1 and d ≥ 1."""
    X = finite_array("X", X, ("batch", "n", "dim"))
    y = finite_array("y", y, ("batch", "n"))
    if X.shape[:2] != y.shape:
        raise InputError(f"X of shape {X.shape} and y of shape {y.shape} must agree in batch and n.")
    if X.shape[1] < 1 or X.shape[2] < 1:
        raise InputError(f"A context needs at least one example and one feature; X has shape {X.shape}.")
    dtype = np.result_type(X, y)
    return X.astype(dtype, copy=False), y.astype(dtype, copy=False)
