"""A model taken apart: all analyses on the same fresh contexts, in one record."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from ridgeformer._version import __version__
from ridgeformer.analysis.ablation import Ablation, ablations
from ridgeformer.analysis.diagonal import DiagonalFit, diagonal_fit
from ridgeformer.analysis.diagonal_model import DiagonalModel, diagonal_model
from ridgeformer.analysis.distil import Algorithm
from ridgeformer.analysis.filters import Filters, spectral_filters
from ridgeformer.analysis.implied_noise import ImpliedNoise, implied_noise
from ridgeformer.analysis.omega import inert, natural_units, omega_of
from ridgeformer.analysis.retune import Tuner
from ridgeformer.analysis.roles import MomentumTerms, StepBand, momentum_terms, step_sizes
from ridgeformer.analysis.samples import Band, Measured, Sample, layer_progress
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError
from ridgeformer.evaluation import Evaluation

_TRACED = 2000  # contexts on which the state of every layer is followed in NumPy
OnStage = Callable[[str, float], None] | None
"""Called with what is being done and the share of that stage that is done."""


@dataclass(frozen=True)
class Explanation:
    """What there is to know of one model."""

    label: str
    model: LinearTransformer
    task: Task
    seed: int
    sequences: int
    bands: tuple[Band, ...]
    omega: Array
    """(layers, 4): the model's own, or those of the nearest diagonal model of a full one."""
    fit: DiagonalFit
    diagonal: DiagonalModel | None
    """For full models: how well a diagonal model stands in for it."""
    filters: Filters
    implied: ImpliedNoise
    steps: tuple[StepBand, ...]
    momentum: tuple[MomentumTerms, ...] | None
    """None for full models, for which Lemma 4.4 says nothing."""
    progress: tuple[Measured, ...]
    ablations: tuple[Ablation, ...] | None
    """None if not asked for."""

    @property
    def loss(self) -> Measured:
        """Of the model itself."""
        return self.progress[-1]

    def as_json(self) -> dict[str, Any]:
        """Plain JSON; a number that is not finite is null."""
        model = self.model
        shape = {"kind": model.kind, "layers": model.layers, "heads": model.heads, "dim": model.dim}
        return {
            "version": __version__,
            "model": {"label": self.label, **shape},
            "task": task_as_json(self.task),
            "seed": self.seed,
            "sequences": self.sequences,
            "bands": [
                {"label": b.label, "low": b.low, "high": b.high, "sequences": len(b.members)} for b in self.bands
            ],
            "omega": plain(self.omega),
            "inert": plain(inert(model.layers)),
            "units": plain(natural_units(self.task)),
            "diagonal_fit": plain(self.fit),
            "diagonal_model": plain(self.diagonal),
            "filters": plain(self.filters),
            "implied_noise": plain(self.implied),
            "steps": plain(self.steps),
            "momentum": plain(self.momentum),
            "progress": plain(self.progress),
            "ablations": plain(self.ablations),
        }


def explain_model(
    model: LinearTransformer,
    task: Task,
    *,
    label: str = "model",
    sequences: int | None = None,
    seed: int = 0,
    ablate: bool = True,
    on_stage: OnStage = None,
) -> Explanation:
    """Take a model apart on fresh contexts of ``task``; `Sample.draw` has the default number of sequences."""
    said = on_stage or (lambda _name, _share: None)
    if model.dim != task.dim:
        raise InputError(f"The model was made for {model.dim} features; the task has {task.dim}.")
    said("fresh sequences", 0.0)
    sample = Sample.draw(task, sequences, seed)
    weights = sample.layer_weights(model)
    said("nearest diagonal model", 0.0)
    fit = diagonal_fit(model)
    full = model.kind == "full"
    tuner = Tuner(task, seed=seed) if full or ablate else None
    diagonal = diagonal_model(model, fit, sample, weights[-1], tuner) if full and tuner is not None else None
    said("filters", 0.0)
    filters = spectral_filters(model, sample, weights)
    said("implied noise", 0.0)
    implied = implied_noise(sample, weights)
    said("steps", 0.0)
    traced = sample.first(_TRACED)
    found = None
    if ablate:
        found = ablations(model, sample, tuner, lambda done, total: said("ablations", done / total))
    return Explanation(
        label=label,
        model=model,
        task=task,
        seed=seed,
        sequences=sample.sequences,
        bands=sample.bands,
        omega=fit.omega if full else omega_of(model),
        fit=fit,
        diagonal=diagonal,
        filters=filters,
        implied=implied,
        steps=step_sizes(model, traced),
        momentum=None if full else momentum_terms(model, traced.context),
        progress=layer_progress(sample, weights),
        ablations=found,
    )


def trained_on(model: LinearTransformer) -> Task | None:
    """The task that a model says it was trained on; None if it does not say."""
    told = model.info.get("task")
    if told is None:
        return None
    if not isinstance(told, Mapping) or not isinstance(told.get("noise", ""), str):
        raise InputError("The model does not say in a readable form what it was trained on.")
    return Task(model.dim, **{name: told[name] for name in ("context", "noise") if name in told})


def algorithm(
    model: LinearTransformer, task: Task, label: str = "model", seed: int = 0, sequences: int | None = None
) -> Algorithm:
    """The learned algorithm with its constants; of a full model its best diagonal approximation."""
    if model.kind != "full":
        return _exact_algorithm(model, label)
    sample = Sample.draw(task, sequences, seed)
    weights = sample.layer_weights(model)[-1]
    stand_in = diagonal_model(model, diagonal_fit(model), sample, weights, Tuner(task, seed=seed))
    return _stand_in(model, task, label, stand_in, Measured.of(sample.losses(weights), sample).total)


def explained_algorithm(found: Explanation) -> Algorithm:
    """As `algorithm`, from what is already known."""
    if found.diagonal is None:
        return _exact_algorithm(found.model, found.label)
    return _stand_in(found.model, found.task, found.label, found.diagonal, found.loss.total)


def _exact_algorithm(model: LinearTransformer, label: str) -> Algorithm:
    try:
        told = trained_on(model)
    except InputError:  # what it was trained on makes no difference to what it does
        told = None
    trained = "" if told is None else f"Trained for {_where(told)}. "
    return Algorithm(omega_of(model), _title(model, label), f"{trained}Agrees with the model to rounding.")


def _stand_in(model: LinearTransformer, task: Task, label: str, stand_in: DiagonalModel, own: Evaluation) -> Algorithm:
    other = stand_in.fitted.total
    note = (
        f"An approximation: a full model has matrices, not four numbers a layer. These are of the diagonal model\n"
        f"whose predictions come nearest, for {_where(task)}.\n"
        f"Adjusted loss on {other.sequences} fresh sequences: {other.adjusted_loss:.4g} ± {other.standard_error:.2g}, "
        f"where the full model has {own.adjusted_loss:.4g} ± {own.standard_error:.2g}.\n"
        f"It explains {share_text(stand_in.fitted_share)} of the full model's predictions."
    )
    return Algorithm(stand_in.omega, _title(model, label), note)


def _title(model: LinearTransformer, label: str) -> str:
    # A label is a file's name, which may hold anything; this goes into a docstring and a LaTeX comment.
    safe = "".join(c if c.isalnum() or c in " ._+-/" else "_" for c in label)
    return f"The algorithm of {safe}, a {model.kind} linear transformer of depth {model.layers}."


def _where(task: Task) -> str:
    return f"σ ~ {task.prior.spec}, d = {task.dim}, n = {task.examples}"


def share_text(share: float) -> str:
    """A share of something that is explained; nothing, where guessing zero would have been nearer."""
    return f"{share:.1%}" if share >= 0 else "nothing"


def task_as_json(task: Task) -> dict[str, Any]:
    """The task as evaluation reports have it."""
    return {"dim": task.dim, "context": task.examples, "noise": task.prior.spec}


def plain(value: Any) -> Any:
    """``value`` as JSON can hold it: records as mappings, arrays as lists, numbers that are not finite as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
