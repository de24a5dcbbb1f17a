"""What each layer does to the weights, in the terms of the theory: step, rescaling and momentum, by noise level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgeformer.analysis.noise_bands import Sample, median_of
from ridgeformer.core.context import Context
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.theory.implicit_model import implicit_models
from ridgeformer.theory.momentum import momentum_layers
from ridgeformer.theory.numerics import times
from ridgeformer.theory.step_size import effective_step_size


@dataclass(frozen=True)
class StepBand:
    """One layer in one band of noise: medians over its contexts."""

    layer: int  # counted from 1
    band: str
    step: float  # η of the nearest multiple of steepest descent; times n, so that 1 is about a full step
    alignment: float  # cosine of the layer's step with steepest descent
    rescaling: float  # 1 + δ: what the layer multiplies w by
    scatter: float  # tr Σ^l / (n d) in front of the layer: what is left of the features, 1 at the start
    energy: float  # λ^l / n in front of the layer: what is left of the targets, d + σ² at the start


@dataclass(frozen=True)
class MomentumTerms:
    """Sizes of the terms of Lemma 4.4 in one layer: medians over contexts of the norm, over that of w'.

    u' = u − Λ u + Γ g ,  w' = w + s w − Π g − Φ u.
    """

    layer: int
    decay: float  # Λ u, over the size of u'
    gathered: float  # Γ g, over the size of u'
    rescaling: float  # s w
    gradient: float  # Π g
    momentum: float  # Φ u


def step_sizes(model: LinearTransformer, sample: Sample) -> tuple[StepBand, ...]:
    """Steps, rescaling and what they act on, of every layer and band of noise; for models of any kind."""
    n, dim = sample.task.typical_examples, sample.task.dim
    steps = []
    for size in effective_step_size(model, sample.context):
        arrays = size.step * n, size.alignment, size.rescaling, size.scatter / (n * dim), size.energy / n
        steps += [
            StepBand(size.layer, band.label, *(median_of(array[band.members]) for array in arrays))
            for band in sample.bands
        ]
    return tuple(steps)


def momentum_terms(model: LinearTransformer, context: Context) -> tuple[MomentumTerms, ...]:
    """How large the terms of Lemma 4.4 are in every layer of a diag or gdpp model; others are refused."""
    layers, states, terms = momentum_layers(model, context), implicit_models(model, context), []
    for number, (layer, before, after) in enumerate(zip(layers, states[:-1], states[1:], strict=True), 1):
        with np.errstate(over="ignore", invalid="ignore"):  # an exploding context shows in none of the medians
            of_u = times(layer.Lambda, before.u), times(layer.Gamma, layer.descent)
            of_w = layer.s[:, None] * before.w, times(layer.Pi, layer.descent), times(layer.Phi, before.u)
        shares = [_ratio(term, after.u) for term in of_u] + [_ratio(term, after.w) for term in of_w]
        terms.append(MomentumTerms(number, *shares))
    return tuple(terms)


def _ratio(term: Array, whole: Array) -> float:
    """Of roots of median squares over contexts: means would show only those that explode, which are NaN here."""
    with np.errstate(over="ignore", invalid="ignore"):
        part, size = (float(np.sqrt(median_of((vectors**2).sum(axis=1)))) for vectors in (term, whole))
    return part / size if size != 0 else 0.0
