"""How well a diagonal model stands in for a full one: as it is projected, and with its ω fitted to the predictions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgeformer.analysis.diagonal import DiagonalFit
from ridgeformer.analysis.omega import inert, model_from_omega, natural_units
from ridgeformer.analysis.retune import Tuner
from ridgeformer.analysis.samples import Measured, Sample, median_of, typical
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array

_ITERATIONS = 300  # of the fit: far from a minimum at the start


@dataclass(frozen=True)
class DiagonalModel:
    """The nearest diagonal model of a full one, held against it."""

    function_share: float
    """1 − Σ‖ŵ − ŵ_diag‖² / Σ‖ŵ‖² over typical contexts, the share of the predictions it explains; may be negative."""
    median_gap: float
    """Median of ‖ŵ − ŵ_diag‖² / ‖ŵ‖²."""
    projected: Measured
    """Losses of the projection."""
    fitted: Measured
    """Losses after its ω are fitted to the predictions of the full model."""
    omega: Array
    """(layers, 4) after fitting."""
    fitted_share: float
    """As ``function_share``, after fitting."""


def diagonal_model(
    model: LinearTransformer, fit: DiagonalFit, sample: Sample, weights: Array, tuner: Tuner
) -> DiagonalModel:
    """Measure the projection ``fit`` of ``model``, which predicts ``weights`` (batch, d), and what is nearest to it.

    Nearest in the mean of ‖ŵ − ŵ_diag‖² over the contexts of ``tuner``, from where the projection leads.
    """
    dim, layers = sample.task.dim, len(fit.omega)
    projected = sample.layer_weights(model_from_omega(fit.omega, dim))[-1]
    nearer = tuner.towards(model)
    omega, _ = nearer.fit_omega(fit.omega, ~inert(layers), natural_units(sample.task), _ITERATIONS)
    fitted = sample.layer_weights(model_from_omega(omega, dim))[-1]
    with np.errstate(over="ignore", invalid="ignore"):  # an exploding model shows in the median
        gaps = ((weights - projected) ** 2).sum(axis=1) / np.maximum((weights**2).sum(axis=1), np.finfo(float).tiny)
    return DiagonalModel(
        function_share=_share(sample, weights, projected),
        median_gap=median_of(gaps),
        projected=Measured.of(sample.losses(projected), sample),
        fitted=Measured.of(sample.losses(fitted), sample),
        omega=omega,
        fitted_share=_share(sample, weights, fitted),
    )


def _share(sample: Sample, weights: Array, other: Array) -> float:
    """Over the contexts on which neither explodes."""
    kept = typical(sample.losses(weights)) & typical(sample.losses(other))
    total = float((weights[kept] ** 2).sum())
    return 1 - float(((weights - other)[kept] ** 2).sum()) / total if total > 0 else float("nan")
