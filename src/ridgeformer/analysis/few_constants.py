"""The fewest constants that do nearly as well as a trained diagonal model.

First ω are dropped one at a time, always the one whose loss hurts least once the others are fitted anew; then the forms
of `forms` are fitted, which tie what is left. All fits are made on one fixed pool; all losses are measured on the same
fresh sequences, none of which is in the pool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ridgeformer.analysis.forms import FORMS, ConstantForm
from ridgeformer.analysis.omega import OMEGAS, inert, model_from_omega, natural_units, omega_of
from ridgeformer.analysis.retune import Tuner
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.random import Purpose, check_seed, token_rng
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, whole_number
from ridgeformer.evaluation import Difference, Evaluation, compare
from ridgeformer.evaluation.comparison import AnyPredictor

TOLERANCE = 0.05
"""How much more loss than the trained model counts as nearly as well."""
TRAINED = "trained"
_POOL, _TRIAL_POOL = 16_384, 4096  # contexts to fit on, and to try on which ω to drop
_TRIAL, _FINAL = 60, 200  # iterations of a fit that is one of many, and of one that is kept
_STARTS, _SPREAD = 4, 0.2  # of a form's fits: the first from where it says, others from e^(0.2 z) times that
_FEWEST = 8  # ω down to which they are dropped
OnStage = Callable[[str, float], None] | None
"""Called with what is being done and the share of all work that is done."""


@dataclass(frozen=True)
class Description:
    """One way of writing the algorithm, measured."""

    name: str
    statement: str
    constants: Mapping[str, float]
    """What was fitted."""
    omega: Array
    """(layers, 4)."""
    control: bool
    evaluation: Evaluation
    against_trained: Difference
    """On the same sequences."""

    round_numbers: int = 0
    """Constants that were set to round numbers."""

    @property
    def count(self) -> int:
        """How many constants it has, fitted or round."""
        return len(self.constants) + self.round_numbers


@dataclass(frozen=True)
class Simplest:
    """All descriptions that were tried."""

    task: Task
    seed: int
    trained: Evaluation
    trained_constants: int
    """Of the trained model: numbers that can change a prediction, less those that the rest determines."""
    dropped: tuple[Description, ...]
    """With ω switched off, one more each time."""
    forms: tuple[Description, ...]
    references: Mapping[str, Evaluation]
    """Baselines on the same sequences."""

    @property
    def limit(self) -> float:
        """The largest loss that counts as nearly as well."""
        return self.trained.adjusted_loss * (1 + TOLERANCE)

    @property
    def best(self) -> Description | None:
        """Of all within the limit, with 95 % confidence, the one with fewest constants; None if none is."""
        allowed = TOLERANCE * self.trained.adjusted_loss
        within = [d for d in (*self.dropped, *self.forms) if d.against_trained.interval[1] <= allowed]
        return min(within, key=lambda d: (d.count, d.evaluation.adjusted_loss), default=None)


def effective_constants(model: LinearTransformer) -> int:
    """Numbers of a diag or gdpp model that matter: ω that act, less one a layer where one head ties four together."""
    omega_of(model)  # refuses full models
    acting = ~inert(model.layers)
    if model.kind == "gdpp":
        return int(acting[:, [0, 2]].sum())
    tied = int(acting.all(axis=1).sum()) if model.heads == 1 else 0
    return int(acting.sum()) - tied


def simplest(
    model: LinearTransformer,
    task: Task,
    *,
    sequences: int = 500_000,
    seed: int = 0,
    references: Mapping[str, AnyPredictor] | None = None,
    on_stage: OnStage = None,
) -> Simplest:
    """Try all descriptions of a trained diag model of at least three layers."""
    if model.kind != "diag":
        raise InputError(
            "Descriptions in few constants are sought for diag models, which have four ω a layer; "
            + f"a {model.kind} model has {'only two' if model.kind == 'gdpp' else 'matrices instead'}."
        )
    whole_number("layers of the model", model.layers, 3)
    tuner = Tuner(task, _POOL, check_seed(seed))
    rounds = _eliminate(model, task, tuner, Tuner(task, _TRIAL_POOL, seed), on_stage)
    fitted = []
    for number, form in enumerate(FORMS):
        if on_stage is not None:
            on_stage(f"form {form.name}", 0.5 + 0.4 * number / len(FORMS))
        fitted.append((form, *_fit(form, model.layers, task, tuner, seed)))
    predictors: dict[str, AnyPredictor] = {TRAINED: model}
    for name, omega in rounds:
        predictors[name] = model_from_omega(omega, model.dim)
    for form, _, omega in fitted:
        predictors[form.name] = model_from_omega(omega, model.dim)
    if on_stage is not None:
        on_stage("fresh sequences", 0.9)
    found = compare({**predictors, **(references or {})}, task, sequences, seed)

    def measured(name: str) -> tuple[Evaluation, Difference]:
        return found.evaluations[name], found.difference(name, TRAINED)

    dropped = []
    for name, omega in rounds:
        kept = {f"{OMEGAS[block]}{layer + 1}": float(omega[layer, block]) for layer, block in np.argwhere(omega != 0)}
        dropped.append(Description(name, f"{len(kept)} ω, each free.", kept, omega, False, *measured(name)))
    forms = []
    for form, theta, omega in fitted:
        constants = dict(zip(form.constants, map(float, theta), strict=True))
        parts = form.name, form.statement, constants, omega, form.control, *measured(form.name)
        forms.append(Description(*parts, form.round_numbers))
    return Simplest(
        task=task,
        seed=seed,
        trained=found.evaluations[TRAINED],
        trained_constants=effective_constants(model),
        dropped=tuple(dropped),
        forms=tuple(forms),
        references={name: found.evaluations[name] for name in references or {}},
    )


def _eliminate(
    model: LinearTransformer, task: Task, tuner: Tuner, trial_tuner: Tuner, on_stage: OnStage
) -> list[tuple[str, Array]]:
    """(name, ω) with all ω free, and after each drop."""
    units, free = natural_units(task), ~inert(model.layers)
    omega, _ = tuner.fit_omega(omega_of(model), free, units, _FINAL)
    found = [("all ω free", omega)]
    total = int(free.sum())
    while free.sum() > max(_FEWEST, 1):
        if on_stage is not None:
            on_stage(f"dropping one of {int(free.sum())} ω", 0.5 * (total - int(free.sum())) / (total - _FEWEST))
        trials = []
        for layer, block in np.argwhere(free):
            kept = free.copy()
            kept[layer, block] = False
            trial, loss = trial_tuner.fit_omega(omega, kept, units, _TRIAL)
            trials.append((loss, layer, block, kept, trial))
        _, layer, block, free, omega = min(trials, key=lambda trial: trial[0])
        omega, _ = tuner.fit_omega(omega, free, units, _FINAL)
        found.append((f"without ω_{OMEGAS[block]} of layer {layer + 1}", omega))
    return found


def _fit(form: ConstantForm, layers: int, task: Task, tuner: Tuner, seed: int) -> tuple[Array, Array]:
    """(constants, ω) of the best of a few fits."""
    rng = token_rng(seed, Purpose.EXPLORE, 0)
    fits = []
    for start in range(_STARTS):
        factors = np.exp(_SPREAD * rng.standard_normal(len(form.start))) if start else 1.0
        fits.append(tuner.fit(lambda c: form.omega(c, layers, task), np.array(form.start) * factors, _FINAL))
    theta, _ = min(fits, key=lambda fit: fit[1])
    return theta, form.omega(theta, layers, task)
