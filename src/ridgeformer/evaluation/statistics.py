"""What an evaluation finds: means with error bars, and the tail, which tells whether to believe the means.

Losses come in chunks, in a fixed order; only what the quantiles need is kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ridgeformer.core.notation import Array
from ridgeformer.core.validation import one_of

NORMAL_95 = 1.959963984540054
"""The 97.5 % point of the standard normal: means of many sequences are normal, unless the tail dominates."""

TAIL_DOMINATED = 0.5
"""If the worst 1 % of the sequences make up more than this share of the mean, it and its error bar mean little.

Measured on σ ~ U(0, 5), 300 000 sequences: 0.06 to 0.19 for ConstRR, OLS, the Bayes limit, AdaRR and a trained model
that does not explode; 0.66 for the same model with its parameters a fifth too large; 1.0 for a model that looked fine
on its first 100 000 sequences and gave 1e11 on one of these. Losses with a Pareto tail of index a have the share
0.01^(1 − 1/a): 0.1 at a = 2, where the variance, and with it the error bar, ceases to exist, and 0.5 at a = 1.18, where
the mean nearly does.
"""

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


def interval(mean: float, error: float) -> tuple[float, float]:
    """The 95 % confidence interval of a mean."""
    if not (math.isfinite(mean) and math.isfinite(error)):
        return -math.inf, math.inf
    return mean - NORMAL_95 * error, mean + NORMAL_95 * error


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Adjusted loss of a predictor on fresh sequences. Look at the tail, not only at the mean.

    The adjusted loss is the loss above that of the oracle, which is ridge regression that is told σ.

    >>> Evaluation.of(np.array([0.1, 0.2, 0.6]))
    Evaluation on 3 sequences
      adjusted loss 0.3 ± 0.153  (median 0.2, 99 % below 0.6, largest 0.6)
      Tail-dominated: the worst 1 % of the sequences make up 67% of the mean.
    """

    adjusted_loss: float
    """Mean over the sequences; infinite if any sequence gave a loss that is not finite."""
    standard_error: float
    median: float
    p99: float
    """The loss that 99 % of the sequences stay below."""
    maximum: float
    sequences: int
    diverged: int
    """Sequences whose loss is not finite."""
    loss: float = math.nan
    """Mean of ½‖ŵ − w‖², the mean of ½(ŷ − y_t)² over queries; in expectation the adjusted loss plus the oracle's."""
    loss_error: float = math.nan
    """Standard error of ``loss``."""
    top_share: float = math.nan
    """Share of ``adjusted_loss`` that comes from the worst 1 % of the sequences."""

    @classmethod
    def of(cls, adjusted: Array, losses: Array | None = None) -> Evaluation:
        """The evaluation of sequences with these adjusted losses, and perhaps losses, (batch,) each."""
        tally = Tally(len(adjusted))
        safe = [np.where(np.isnan(values), np.inf, values) for values in (adjusted, losses) if values is not None]
        tally.add(safe[0], safe[-1])
        summary = tally.evaluation()
        return summary if losses is not None else cls(**{**vars(summary), "loss": math.nan, "loss_error": math.nan})

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval of ``adjusted_loss``; do not believe it if the mean is `tail_dominated`."""
        return interval(self.adjusted_loss, self.standard_error)

    @property
    def loss_interval(self) -> tuple[float, float]:
        """95 % confidence interval of ``loss``."""
        return interval(self.loss, self.loss_error)

    @property
    def tail_dominated(self) -> bool:
        """Whether a few sequences make up most of the mean, so that another sample could give a very different mean."""
        return self.top_share > TAIL_DOMINATED

    def __repr__(self) -> str:
        tail = f"median {self.median:.3g}, 99 % below {self.p99:.3g}, largest {self.maximum:.3g}"
        lines = [
            f"Evaluation on {self.sequences:,} sequences",
            f"  adjusted loss {self.adjusted_loss:.3g} ± {self.standard_error:.3g}  ({tail})",
        ]
        if math.isfinite(self.loss):
            lines.append(f"  loss {self.loss:.3g} ± {self.loss_error:.3g}")
        if self.diverged:
            lines.append(f"  Diverged: {self.diverged:,} sequences gave no finite loss.")
        elif self.tail_dominated:
            lines.append(f"  Tail-dominated: the worst 1 % of the sequences make up {self.top_share:.0%} of the mean.")
        return "\n".join(lines)


class Tally:
    """Collects the losses of one predictor."""

    def __init__(self, sequences: int) -> None:
        self._moments = Moments(2)
        self._tail = Tail(sequences)

    def add(self, adjusted: Array, losses: Array) -> None:
        """Take in the adjusted losses and the losses, (batch,) each, of more sequences."""
        self._moments.add(np.stack([adjusted, losses]))
        self._tail.add(adjusted)

    def evaluation(self) -> Evaluation:
        """The result, once all sequences have been added."""
        tail = self._tail
        mean, loss = (float(value) if np.isfinite(value) else math.inf for value in self._moments.mean)
        error, loss_error = map(float, self._moments.error)
        median, p99, top_share = tail.summary(mean)
        return Evaluation(
            adjusted_loss=mean,
            standard_error=error,
            median=median,
            p99=p99,
            maximum=tail.maximum,
            sequences=self._moments.count,
            diverged=tail.diverged,
            loss=loss,
            loss_error=loss_error,
            top_share=top_share,
        )


@dataclass(frozen=True)
class Difference:
    """Adjusted loss of ``first`` minus that of ``second`` on the same sequences: below 0 if ``first`` is better.

    What the two have in common cancels in each sequence. So the error bar, which is that of the difference itself, is
    usually far smaller than those of the two losses.

    >>> Difference("A", "B", mean=-0.2, standard_error=0.05).interval[1] < 0
    True
    """

    first: str
    second: str
    mean: float
    """Infinite or NaN if a predictor diverged."""
    standard_error: float

    @property
    def interval(self) -> tuple[float, float]:
        """95 % confidence interval."""
        return interval(self.mean, self.standard_error)

    def reversed(self) -> Difference:
        """``second`` minus ``first``."""
        return Difference(self.second, self.first, 0.0 - self.mean, self.standard_error)


@dataclass(frozen=True, repr=False)
class Comparison:
    """Several predictors, measured on the same sequences; made by `compare`.

    >>> import ridgeformer as rf
    >>> result = rf.compare({"AdaRR": rf.baselines.AdaRR(), "OLS": rf.baselines.OLS()}, "fixed:1", sequences=1000)
    >>> result.difference("AdaRR", "OLS").interval[1] < 0
    True
    """

    evaluations: Mapping[str, Evaluation]
    differences: tuple[Difference, ...]
    """One for every pair of predictors, in their order."""

    def difference(self, first: str, second: str) -> Difference:
        """Adjusted loss of ``first`` minus that of ``second``; any two names. `InputError` for an unknown name."""
        for name in (first, second):
            one_of("predictor", name, self.evaluations)
        if first == second:
            return Difference(first, second, 0.0, 0.0)
        for difference in self.differences:
            if (difference.first, difference.second) == (first, second):
                return difference
        return self.difference(second, first).reversed()

    def __repr__(self) -> str:
        best = min(self.evaluations, key=lambda name: self.evaluations[name].adjusted_loss)
        width = max(len(name) for name in self.evaluations)
        count = next(iter(self.evaluations.values())).sequences
        lines = [f"Comparison of {len(self.evaluations)} predictors on {count:,} sequences: adjusted loss ± s.e."]
        for name, evaluation in self.evaluations.items():
            line = f"  {name:{width}}  {evaluation.adjusted_loss:.4g} ± {evaluation.standard_error:.2g}"
            if name != best and self.differences:
                gap = self.difference(name, best)
                line += f"   {gap.mean:+.3g} ± {gap.standard_error:.2g} against {best}"
            lines.append(line + ("   (tail-dominated)" if evaluation.tail_dominated else ""))
        return "\n".join(lines)
