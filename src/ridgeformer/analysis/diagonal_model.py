"""How well a diagonal model stands in for a full one: as it is projected, and after fitting its ω anew."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgeformer.analysis.diagonal import DiagonalFit
from ridgeformer.analysis.omega import inert, model_from_omega, natural_units
from ridgeformer.analysis.retune import Tuner
from ridgeformer.analysis.samples import Measured, Sample, median_of, typical
from ridgeformer.types import Array

_ITERATIONS = 300  # of the refit: far from a minimum at the start


@dataclass(frozen=True)
class DiagonalModel:
    """The nearest diagonal model of a full one, held against it."""

    function_share: float
    """1 − Σ‖ŵ − ŵ_diag‖² / Σ‖ŵ‖² over typical contexts, the share of the predictions it explains; may be negative."""
    median_gap: float
    """Median of ‖ŵ − ŵ_diag‖² / ‖ŵ‖²."""
    projected: Measured
    """Losses of the projection."""
    refitted: Measured
    """Losses after its ω are fitted to the task."""
    omega: Array
    """(layers, 4) after refitting."""
    refitted_share: float
    """As ``function_share``, after refitting."""


def diagonal_model(fit: DiagonalFit, sample: Sample, weights: Array, tuner: Tuner) -> DiagonalModel:
    """Measure the projection ``fit`` of a model that predicts ``weights`` (batch, d)."""
    dim, layers = sample.task.dim, len(fit.omega)
    projected = sample.layer_weights(model_from_omega(fit.omega, dim))[-1]
    omega, _ = tuner.fit_omega(fit.omega, ~inert(layers), natural_units(sample.task), _ITERATIONS)
    refitted = sample.layer_weights(model_from_omega(omega, dim))[-1]
    with np.errstate(over="ignore", invalid="ignore"):  # an exploding model shows in the median
        gaps = ((weights - projected) ** 2).sum(axis=1) / np.maximum((weights**2).sum(axis=1), np.finfo(float).tiny)
    return DiagonalModel(
        function_share=_share(sample, weights, projected),
        median_gap=median_of(gaps),
        projected=Measured.of(sample.losses(projected), sample),
        refitted=Measured.of(sample.losses(refitted), sample),
        omega=omega,
        refitted_share=_share(sample, weights, refitted),
    )


def _share(sample: Sample, weights: Array, other: Array) -> float:
    """Over the contexts on which neither explodes."""
    kept = typical(sample.losses(weights)) & typical(sample.losses(other))
    total = float((weights[kept] ** 2).sum())
    return 1 - float(((weights - other)[kept] ** 2).sum()) / total if total > 0 else float("nan")
