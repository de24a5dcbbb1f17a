"""Ridge regressions w*_v = (Σ + v I)⁻¹ α that differ in how they choose the penalty v."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ridgeformer.baselines.least_squares import LeastSquares
from ridgeformer.baselines.tuning import tuned_parameters
from ridgeformer.core.context import Context
from ridgeformer.core.notation import Array
from ridgeformer.core.task import ContextDraw, Task
from ridgeformer.core.validation import InputError, finite_array, nonnegative, real_array


@dataclass(frozen=True)
class OLS:
    """Ordinary least squares: ridge regression with penalty v = 0. With n < d it is the solution with the least norm.

    >>> OLS().weights(Context.from_tokens([[[1.0], [2.0]]], [[2.0, 4.0]])).round(6).tolist()
    [[2.0]]
    """

    name: ClassVar[str] = "OLS"

    def weights(self, context: Context) -> Array:
        return LeastSquares.of(context).ridge(0.0)

    def describe(self) -> str:
        return "OLS, v = 0"


@dataclass(frozen=True, eq=False)
class Oracle:
    """Ridge regression that is told the noise level: penalty v = σ². By definition its adjusted loss is zero.

    Without ``sigma`` it can be evaluated on a task, where σ is known, but not used on other data.

    >>> Oracle(sigma=5**0.5).weights(Context.from_tokens([[[1.0], [2.0]]], [[2.0, 4.0]])).round(6).tolist()
    [[1.0]]
    """

    sigma: Any = None
    """σ: one number, or one for each context (batch,)."""
    name: ClassVar[str] = "Oracle"

    def __post_init__(self) -> None:
        if self.sigma is not None:
            sigma = real_array("sigma", self.sigma)
            sigma = finite_array("sigma", sigma, () if sigma.ndim == 0 else ("batch",))
            if (sigma < 0).any():
                raise InputError("A noise level σ must be at least 0.")
            object.__setattr__(self, "sigma", sigma.astype(np.float64))

    def weights_from_draw(self, draw: ContextDraw) -> Array:
        """Weights (batch, d); without ``sigma``, with the σ of the draw."""
        return draw.oracle if self.sigma is None else self.weights(draw.context)

    def weights(self, context: Context) -> Array:
        if self.sigma is None:
            raise InputError("The oracle must be told sigma, the noise level of each context.")
        if self.sigma.ndim == 1 and len(self.sigma) != len(context.gram):
            raise InputError(f"The oracle was told {len(self.sigma)} noise levels for {len(context.gram)} contexts.")
        return LeastSquares.of(context).ridge(self.sigma**2)

    def describe(self) -> str:
        if self.sigma is None:
            return "Oracle, v = σ² of every sequence"
        return f"Oracle, σ = {float(self.sigma):.4g}" if self.sigma.ndim == 0 else "Oracle, σ of each context"


@dataclass(frozen=True)
class ConstRR:
    """ConstRR: ridge regression with the same penalty v ≥ 0 for all contexts; `ConstRR.tuned` finds the best v.

    >>> ConstRR(5.0).weights(Context.from_tokens([[[1.0], [2.0]]], [[2.0, 4.0]])).round(6).tolist()
    [[1.0]]
    """

    v: float
    name: ClassVar[str] = "ConstRR"

    def __post_init__(self) -> None:
        object.__setattr__(self, "v", nonnegative("The penalty v", self.v))

    @classmethod
    def tuned(cls, task: Task) -> ConstRR:
        """With the penalty that has the least expected adjusted loss on ``task``; see `baselines.tuning`."""
        return cls(tuned_parameters(task).v)

    def weights(self, context: Context) -> Array:
        return LeastSquares.of(context).ridge(self.v)

    def describe(self) -> str:
        return f"ConstRR, v = {self.v:.4g}"


@dataclass(frozen=True)
class AdaRR:
    """AdaRR: adaptive ridge regression. Its penalty v = σ̂² is the noise variance estimated from each context.

    σ̂² is the sum of squared residuals of least squares, divided by n − d. With n ≤ d there is no residual; then σ̂²
    comes from the mean square of the targets, see `least_squares.estimated_variance`.

    >>> AdaRR().weights(Context.from_tokens([[[1.0], [2.0]]], [[2.0, 4.0]])).round(6).tolist()
    [[2.0]]
    """

    name: ClassVar[str] = "AdaRR"

    def weights(self, context: Context) -> Array:
        fit = LeastSquares.of(context)
        return fit.ridge(fit.noise_variance)

    def describe(self) -> str:
        return "AdaRR, v = σ̂²"


@dataclass(frozen=True)
class TunedRR:
    """TunedRR: AdaRR with penalty v = c · min(σ̂², cap), with c, cap ≥ 0; `TunedRR.tuned` finds the best two numbers.

    >>> TunedRR(c=1.3, cap=14).describe()
    'TunedRR, v = 1.3 · min(σ̂², 14)'
    """

    c: float
    cap: float = float("inf")
    name: ClassVar[str] = "TunedRR"

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", nonnegative("The factor c", self.c))
        if not (isinstance(self.cap, float) and self.cap == float("inf")):
            object.__setattr__(self, "cap", nonnegative("The cap of σ̂²", self.cap))

    @classmethod
    def tuned(cls, task: Task) -> TunedRR:
        """With the (c, cap) that have the least expected adjusted loss on ``task``; see `baselines.tuning`."""
        tuned = tuned_parameters(task)
        return cls(tuned.c, tuned.cap)

    def weights(self, context: Context) -> Array:
        fit = LeastSquares.of(context)
        return fit.ridge(self.c * np.minimum(fit.noise_variance, self.cap))

    def describe(self) -> str:
        return f"TunedRR, v = {self.c:.4g} · min(σ̂², {'∞' if self.cap == float('inf') else f'{self.cap:.4g}'})"
