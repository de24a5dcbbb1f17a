"""Statistics of streams of losses: a chunk at a time, in fixed order, without keeping more than the quantiles need."""

from __future__ import annotations

import math

import numpy as np

from ridgeformer.core.notation import Array

EXACT_QUANTILES = 1_000_000
"""Up to this many sequences losses are kept in float64 and quantiles are exact. Beyond, they are kept in float32:
quantiles are then right to a relative 6e-8, a loss above 3.4e38 counts as infinite in them, and ten million sequences
take 40 MB a predictor. Means, errors and the count of diverged sequences never come from the rounded values."""

TOP = 0.01
"""The share of sequences whose part in the mean is `Tail.top_share`."""


class Moments:
    """Running means and variances of ``rows`` streams, in float64.

    A chunk's own mean and sum of squares about it are merged by the update of Chan, Golub and LeVeque (*Algorithms for
    computing the sample variance*, The American Statistician 37, 1983): nothing large is subtracted, so the variance
    keeps its digits whatever the mean is.
    """

    def __init__(self, rows: int) -> None:
        self.count = 0
        self.mean = np.zeros(rows)
        self._squares = np.zeros(rows)

    def add(self, values: Array) -> None:
        """Take in (rows, batch) more values. A row that is not finite anywhere stays without a mean."""
        batch = values.shape[1]
        total = self.count + batch
        with np.errstate(over="ignore", invalid="ignore"):
            mean = values.mean(axis=1)
            step = mean - self.mean
            self.mean += step * (batch / total)
            self._squares += ((values - mean[:, None]) ** 2).sum(axis=1) + step**2 * (self.count * batch / total)
        self.count = total

    @property
    def variance(self) -> Array:
        """Sample variances, (rows,); infinite for a single value, or if any value was not finite."""
        if self.count < 2:
            return np.full(len(self.mean), np.inf)
        return np.where(np.isfinite(self._squares), self._squares / (self.count - 1), np.inf)

    @property
    def error(self) -> Array:
        """Standard errors of the means, (rows,)."""
        return np.sqrt(self.variance / max(self.count, 1))


class Tail:
    """The losses of one stream, kept for their quantiles and for what the largest of them contribute."""

    def __init__(self, sequences: int) -> None:
        self._kept = np.empty(sequences, np.float64 if sequences <= EXACT_QUANTILES else np.float32)
        self._filled = 0
        self.diverged = 0
        """Sequences whose loss is not finite."""
        self.maximum = 0.0

    def add(self, losses: Array) -> None:
        """Take in (batch,) more losses: at least 0, or infinite."""
        end = self._filled + len(losses)
        with np.errstate(over="ignore"):  # a loss beyond float32 is kept as infinite
            self._kept[self._filled : end] = losses
        self._filled = end
        self.diverged += int(np.isinf(losses).sum())
        self.maximum = max(self.maximum, float(losses.max()))

    def summary(self, mean: float) -> tuple[float, float, float]:
        """(median, p99, top_share), given the mean of all losses."""
        count = len(self._kept)
        assert self._filled == count
        low, high = (count - 1) // 2, count // 2
        p99 = math.ceil(0.99 * (count - 1))
        top = max(1, math.ceil(TOP * count))
        self._kept.partition(sorted({low, high, p99, count - top}))
        median = (float(self._kept[low]) + float(self._kept[high])) / 2
        return median, float(self._kept[p99]), self._top_share(top, mean)

    def _top_share(self, top: int, mean: float) -> float:
        if mean == 0:  # nothing to share: all contribute alike
            return top / len(self._kept)
        largest = float(self._kept[-top:].sum(dtype=np.float64))
        # Infinite losses outweigh all others; rounding can take the share a little above 1.
        return min(1.0, largest / (mean * len(self._kept))) if math.isfinite(largest) else 1.0
