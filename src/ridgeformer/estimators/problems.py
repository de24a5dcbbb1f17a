"""Rows of many small regressions as Gram matrices: sorted by group, centred, weighted, gaps filled. NumPy only.

A *problem* is the regression of one group. All that its posterior needs is n, the means of its features and target, and
the Gram matrix of its centred rows. Rows are read a chunk of groups at a time, so that memory stays bounded: the Gram
matrices of all groups together never exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ridgeformer.core.notation import Array

_CHUNK_ENTRIES = 1 << 20  # numbers of X that are read at a time: 8 MB
_CHUNK_GROUPS = 2048


class Problems(NamedTuple):
    """Some problems as Gram matrices of tokens (x, y); p features."""

    examples: Array  # n, (groups,): sums of sample weights
    gram: Array  # (groups, p + 1, p + 1): Σ_i weight_i (e_i − ē)(e_i − ē)ᵀ, or
    mean: Array  # ē, (groups, p + 1): means of features and target; NaN for a feature of which a group has no value
    missing: int  # feature values that were not there


@dataclass(frozen=True)
class GroupedRows:
    """The rows of all problems, in whatever order they came."""

    X: Array
    """(rows, p) with NaN where a value is missing."""
    y: Array
    """(rows,)"""
    order: Array | None
    """(rows,): row numbers sorted by group; None if the rows are sorted already."""
    starts: Array
    """(groups + 1,): where the rows of each group start in that order."""
    weights: Array | None = None
    """(rows,) sample weights ≥ 0, or None for 1 each."""

    @property
    def groups(self) -> int:
        """How many there are."""
        return len(self.starts) - 1

    @property
    def features(self) -> int:
        """p."""
        return int(self.X.shape[1])

    @property
    def sizes(self) -> Array:
        """(groups,) numbers of rows."""
        return np.diff(self.starts)

    @classmethod
    def from_codes(cls, X: Array, y: Array, codes: Array, groups: int, weights: Array | None = None) -> GroupedRows:
        """From the number 0 … groups − 1 of each row's group."""
        sorted_already = bool((np.diff(codes) >= 0).all())
        order = None if sorted_already else np.argsort(codes, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=groups))])
        return cls(X, y, order, starts, weights)

    def chunks(self, chosen: Array | None = None, largest: int = _CHUNK_GROUPS) -> Iterator[tuple[Array, Problems]]:
        """(numbers of groups, their problems): those chosen or all, a few at a time, groups of one size together."""
        numbers = np.arange(self.groups) if chosen is None else chosen
        sizes = self.sizes[numbers]
        if len(sizes) and sizes.min() != sizes.max():
            by_size = np.argsort(sizes, kind="stable")
            numbers, sizes = numbers[by_size], sizes[by_size]
        entries = np.cumsum(sizes * (self.features + 1))
        begin = 0
        while begin < len(numbers):
            limit = (entries[begin - 1] if begin else 0) + _CHUNK_ENTRIES
            end = min(begin + largest, max(begin + 1, int(np.searchsorted(entries, limit, side="right"))))
            yield numbers[begin:end], self.problems(numbers[begin:end], sizes[begin:end])
            begin = end

    def problems(self, numbers: Array, sizes: Array) -> Problems:
        """The problems of groups that are sorted by size."""
        p = self.features
        examples, missing = np.empty(len(numbers)), 0
        gram, mean = np.empty((len(numbers), p + 1, p + 1)), np.empty((len(numbers), p + 1))
        edges = np.flatnonzero(np.diff(sizes, prepend=-1, append=-1))
        for begin, end in pairwise(edges):
            tokens, weights = self._tokens(numbers[begin:end], int(sizes[begin]))
            count, absent = _fill(tokens, weights)
            missing += count
            if weights is None:
                examples[begin:end], mean[begin:end] = sizes[begin], tokens.mean(axis=1)
            else:
                examples[begin:end] = total = np.maximum(weights.sum(axis=1), _NOTHING)
                mean[begin:end] = (weights[..., None] * tokens).sum(axis=1) / total[:, None]
            tokens -= mean[begin:end, None]
            if absent is not None:
                mean[begin:end][absent] = np.nan
            weighted = tokens if weights is None else weights[..., None] * tokens
            np.matmul(weighted.transpose(0, 2, 1), tokens, out=gram[begin:end])
        return Problems(examples, gram, mean, missing)

    def _tokens(self, numbers: Array, size: int) -> tuple[Array, Array | None]:
        """(batch, size, p + 1) tokens (x, y) of groups of one size, and their weights."""
        first, last = int(self.starts[numbers[0]]), int(self.starts[numbers[-1] + 1])
        rows: slice | Array = slice(first, last)
        if self.order is not None or last - first != len(numbers) * size:
            places = (self.starts[numbers][:, None] + np.arange(size)).ravel()
            rows = places if self.order is None else self.order[places]
        tokens = np.empty((len(numbers), size, self.features + 1))
        flat = tokens.reshape(-1, self.features + 1)
        flat[:, :-1] = self.X[rows]
        flat[:, -1] = self.y[rows]
        return tokens, None if self.weights is None else self.weights[rows].reshape(len(numbers), size)


_NOTHING = 1e-300  # stands for the sum of weights that are all zero


def _fill(tokens: Array, weights: Array | None) -> tuple[int, Array | None]:
    """Replace missing values by the group's mean of the feature; returns their number, and where there is no mean."""
    if not np.isnan(tokens.sum()):  # much faster than to find which values are missing
        return 0, None
    gaps = np.isnan(tokens)
    count = int(gaps.sum())
    present = (~gaps if weights is None else ~gaps * weights[..., None]).astype(np.float64)
    total = present.sum(axis=1)
    means = np.where(gaps, 0.0, tokens * present).sum(axis=1) / np.where(total > 0, total, 1.0)
    np.copyto(tokens, np.broadcast_to(means[:, None], tokens.shape), where=gaps)
    return count, total == 0
