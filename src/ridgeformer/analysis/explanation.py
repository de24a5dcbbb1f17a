"""`explain_model`: all analyses of a model on the same fresh contexts, in one record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ridgeformer._version import __version__
from ridgeformer.analysis.ablation import Ablation, ablations
from ridgeformer.analysis.algorithm import Algorithm, written_algorithm
from ridgeformer.analysis.diagonal import DiagonalFit, diagonal_fit, inert, natural_units, omega_of, refuse_registers
from ridgeformer.analysis.filters import Filters, ImpliedNoise, implied_noise, spectral_filters
from ridgeformer.analysis.layer_steps import MomentumTerms, StepBand, momentum_terms, step_sizes
from ridgeformer.analysis.noise_bands import Band, Measured, Sample
from ridgeformer.analysis.refit import DiagonalModel, Tuner, diagonal_model
from ridgeformer.core.forward import check_model
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.storage import plain
from ridgeformer.core.task import Task
from ridgeformer.core.validation import instance
from ridgeformer.theory.numerics import OnStage, is_diagonal, silent

_TRACED = 2000  # contexts on which the state of every layer is followed in NumPy


@dataclass(frozen=True)
class Explanation:
    """All analyses of one model; `explain_model` makes it."""

    label: str
    model: LinearTransformer
    task: Task
    seed: int
    sequences: int
    bands: tuple[Band, ...]
    omega: Array  # (layers, 4): the model's own, or those of the nearest diagonal model of a full one
    fit: DiagonalFit
    diagonal: DiagonalModel | None  # for full models: how well a diagonal model stands in for it
    filters: Filters
    implied: ImpliedNoise
    steps: tuple[StepBand, ...]
    momentum: tuple[MomentumTerms, ...] | None  # None for full models, for which Lemma 4.4 says nothing
    progress: tuple[Measured, ...]  # losses of the prediction after each layer
    ablations: tuple[Ablation, ...] | None  # None if not asked for

    @property
    def loss(self) -> Measured:
        """Of the model itself."""
        return self.progress[-1]

    def algorithm(self) -> Algorithm:
        """The learned algorithm with its constants; of a full model, its best diagonal approximation."""
        return written_algorithm(self.model, self.task, self.label, self.diagonal, self.loss.total)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON; a number that is not finite is null."""
        model, bands = self.model, self.bands
        of_model = {"kind": model.kind, "layers": model.layers, "heads": model.heads, "dim": model.dim}
        record = {
            "version": __version__,
            "model": {"label": self.label, **of_model},
            "task": self.task,
            "seed": self.seed,
            "sequences": self.sequences,
            "bands": [{"label": b.label, "low": b.low, "high": b.high, "sequences": len(b.members)} for b in bands],
            "omega": self.omega,
            "inert": inert(model.layers),
            "units": natural_units(self.task),
            "diagonal_fit": self.fit,
            "diagonal_model": self.diagonal,
            "filters": self.filters,
            "implied_noise": self.implied,
            "steps": self.steps,
            "momentum": self.momentum,
            "progress": self.progress,
            "ablations": self.ablations,
        }
        return {name: plain(value) for name, value in record.items()}


def explain_model(
    model: LinearTransformer,
    task: Task,
    *,
    label: str = "model",
    sequences: int | None = None,
    seed: int = 0,
    ablate: bool = True,
    pool: int | None = None,
    on_stage: OnStage = silent,
) -> Explanation:
    """Analyse a model on fresh contexts.

    Parameters
    ----------
    model: of any kind.
    task: contexts of the model's dimension.
    label: what to call the model.
    sequences, seed: how many fresh contexts, and which; by default 20 000, or what fits 64 MB.
    ablate: whether to switch parts off one at a time and fit the rest again, which takes most of the time.
    pool: number of contexts for these fits, by default 8192, or fewer above d = 10.
    on_stage: called with what is being done and the share of that stage that is done.

    Returns one record of everything. Raises `InputError` if model and task do not fit.

    >>> import ridgeformer as rf
    >>> explained = explain_model(rf.load("diag-2-uniform-5"), rf.Task(), sequences=500, ablate=False)
    >>> explained.omega.shape, len(explained.progress)
    ((2, 4), 2)
    """
    check_model(model, instance("task", task, Task).dim)
    refuse_registers(model)
    on_stage("fresh sequences", 0.0)
    sample = Sample.draw(task, sequences, seed)
    weights = sample.layer_weights(model)
    on_stage("nearest diagonal model", 0.0)
    fit, diagonal, own = diagonal_fit(model), None, is_diagonal(model)
    tuner = Tuner(task, pool, seed) if ablate or not own else None
    if tuner is not None and not own:
        diagonal = diagonal_model(model, fit, sample, weights[-1], tuner)
    on_stage("filters", 0.0)
    filters = spectral_filters(model, sample, weights)
    on_stage("implied noise", 0.0)
    implied = implied_noise(sample, weights)
    on_stage("steps", 0.0)
    traced = sample.first(_TRACED)
    parts = None
    if ablate:
        parts = ablations(model, sample, tuner, lambda done, total: on_stage("ablations", done / total))
    return Explanation(
        label=label,
        model=model,
        task=task,
        seed=seed,
        sequences=sample.sequences,
        bands=sample.bands,
        omega=omega_of(model) if own else fit.omega,
        fit=fit,
        diagonal=diagonal,
        filters=filters,
        implied=implied,
        steps=step_sizes(model, traced),
        momentum=momentum_terms(model, traced.context) if own else None,
        progress=tuple(Measured.of(read_out, sample) for read_out in weights),
        ablations=parts,
    )
