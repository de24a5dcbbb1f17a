"""The fewest constants that do nearly as well as a trained diagonal model.

First ω are dropped one at a time, always the one whose loss hurts least once the others are fitted again; then the
`FORMS` are fitted, which tie what is left. All fits are made on one fixed pool; all losses are measured on the same
fresh sequences, none of which is in the pool.

All forms count layers from l = 0 and measure ω_xx and ω_yx in units of 1/n, ω_xy and ω_yy in units of 1/(n d): n
and d are not among the constants. A *pattern* leaves ω_xy out of the first layer and ω_xx out of the second. Constants
are what is fitted, and round numbers count as well; the pattern, equalities, signs and exponents are choices, and every
form says which it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ridgeformer.analysis.diagonal import OMEGAS, inert, model_from_omega, natural_units, omega_of, omega_of_kind
from ridgeformer.analysis.refit import Tuner
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.predictor import Predictor
from ridgeformer.core.random import Purpose, check_seed, token_rng
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, instance, whole_number
from ridgeformer.evaluation import Difference, Evaluation, compare
from ridgeformer.theory.numerics import OnStage

TOLERANCE = 0.05
"""How much more loss than the trained model counts as nearly as well."""
TRAINED = "trained"
_POOL, _TRIAL_POOL = 16_384, 4096  # contexts to fit on, and to try on which ω to drop
_TRIAL, _FINAL = 60, 200  # iterations of a fit that is one of many, and of one that is kept
_STARTS, _SPREAD = 4, 0.2  # of a form's fits: the first from where it says, others from e^(0.2 z) times that
_FEWEST = 8  # ω down to which they are dropped

Constants = Sequence[float] | Array


# --- forms ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ConstantForm:
    """ω as a function of a few constants."""

    name: str
    statement: str
    """What is chosen, in one sentence."""
    build: Callable[..., Array]
    """(layers, constants one by one) ↦ (layers, 4), in the units above."""
    start: Mapping[str, float]
    """Names of what is fitted, and where fits start from: values near those of four layers on σ ~ U(0, 5)."""
    round_numbers: int = 0
    """Constants that are set to round numbers rather than fitted."""
    control: bool = False
    """Whether it is there to show that a choice matters."""

    def omega(self, constants: Constants, layers: int, task: Task) -> Array:
        """(layers, 4) for contexts of ``task``."""
        n, d = task.examples, task.dim
        units = np.array([1 / n, 1 / (n * d), 1 / n, 1 / (n * d)])
        return self.build(whole_number("layers", layers, 3), *np.asarray(constants, np.float64)) * units

    def fit(
        self, start: Constants, layers: int, task: Task, tuner: Tuner, factors: Sequence[Array | float], iterations: int
    ) -> Array:
        """The best constants of a few fits, each from ``start`` times one of the ``factors``."""
        build = lambda constants: self.omega(constants, layers, task)  # noqa: E731
        fits = [tuner.fit(build, np.asarray(start, np.float64) * factor, iterations) for factor in factors]
        return min(fits, key=lambda fit: fit[1])[0]


def geometric(
    layers: int, sizes: Constants, ratios: Constants, last: tuple[float, float], pattern: bool = True
) -> Array:
    """ω_ab = −size · ratio^l in all layers but the last, which has ω_yx = −last[0] and ω_yy = +last[1]."""
    powers = np.abs(np.asarray(ratios, np.float64)) ** np.arange(layers)[:, None]
    omega = -np.asarray(sizes) * powers
    if pattern:
        omega[0, 1] = omega[1, 0] = 0.0
    omega[-1] = 0.0, 0.0, -last[0], last[1]
    return omega


def tied(
    layers: int,
    a: float,
    e: float,
    r: float,
    xy: float | None = None,
    yx: float | None = None,
    last_yx: float | None = None,
    last_yy: float | None = None,
    pattern: bool = True,
) -> Array:
    """Sequences of one ratio r: of size e for ω_yy and of size a for all others, unless they have sizes of their own.

    The last layer is the next but one of its sequences, with the sign of ω_yy turned, unless it has numbers of its own.
    """
    sizes = a, a if xy is None else xy, a if yx is None else yx, e
    top = abs(r) ** layers
    last = a * top if last_yx is None else last_yx, e * top if last_yy is None else last_yy
    return geometric(layers, sizes, [r] * 4, last, pattern)


def _without_leap(layers: int, a: float, e: float, r: float) -> Array:
    last = abs(r) ** (layers - 1)
    return tied(layers, a, e, r, last_yx=a * last, last_yy=e * last)


def _one_kernel(layers: int, a: float, r_x: float, b: float, r_y: float, kappa: float) -> Array:
    """Geometric p_x and p_y with one κ = q_y / q_x: x and y both move along <x_j, x_i> + κ y_j y_i / d."""
    last = b * abs(r_y) ** (layers - 1)
    return geometric(layers, (a, a * kappa, b, b * kappa), [r_x, r_x, r_y, r_y], (last, -last * kappa), pattern=False)


# fmt: off
FORMS = (
    ConstantForm(
        "four sequences",
        "Each ω is a geometric sequence over the layers but the last, with the pattern; the last has its own two.",
        lambda layers, *c: geometric(layers, c[:4], c[4:8], (c[8], c[9])),
        {"xx": 0.25, "xy": 0.24, "yx": 0.25, "yy": 0.06, "r_xx": 2.3, "r_xy": 2.7, "r_yx": 2.6, "r_yy": 2.6,
         "last yx": 9.8, "last yy": 2.6}),
    ConstantForm(
        "one ratio", "All four sequences share one ratio.",
        lambda layers, xx, xy, yx, yy, r, last_yx, last_yy: tied(layers, xx, yy, r, xy, yx, last_yx, last_yy),
        {"xx": 0.23, "xy": 0.27, "yx": 0.24, "yy": 0.06, "r": 2.37, "last yx": 9.5, "last yy": 2.1}),
    ConstantForm(
        "ω_xx = ω_yx", "Preconditioning and gradient step have the same size a r^l.",
        lambda layers, a, xy, e, r, last_yx, last_yy: tied(layers, a, e, r, xy, a, last_yx, last_yy),
        {"a": 0.24, "xy": 0.27, "e": 0.063, "r": 2.39, "last yx": 9.8, "last yy": 2.3}),
    ConstantForm(
        "last ω_yy = −e r^L", "The last rescaling is the next but one of the sequence, with its sign turned.",
        lambda layers, a, xy, e, r, last_yx: tied(layers, a, e, r, xy, a, last_yx),
        {"a": 0.25, "xy": 0.25, "e": 0.056, "r": 2.42, "last yx": 10.0}),
    ConstantForm(
        "ω_xy = ω_xx", "In units of 1/(n d), ω_xy has the size a r^l too.",
        lambda layers, a, e, r, last_yx: tied(layers, a, e, r, last_yx=last_yx),
        {"a": 0.246, "e": 0.055, "r": 2.41, "last yx": 9.8}),
    ConstantForm(
        "last ω_yx = a r^L", "The last gradient step is the next but one of its sequence as well.",
        tied, {"a": 0.239, "e": 0.0525, "r": 2.475}),
    ConstantForm(
        "e = a/5", "The same with the rescaling tied to the step by a round number.",
        lambda layers, a, r: tied(layers, a, a / 5, r), {"a": 0.243, "r": 2.44}, round_numbers=1),
    ConstantForm(
        "a = 1/4, e = 1/20", "The same with two of the three constants set to round numbers.",
        lambda layers, r: tied(layers, 1 / 4, 1 / 20, r), {"r": 2.43}, round_numbers=2),
    ConstantForm(
        "without the pattern", "As “one ratio”, with ω_xy in the first and ω_xx in the second layer.",
        lambda layers, xx, xy, yx, yy, r, last_yx, last_yy: tied(layers, xx, yy, r, xy, yx, last_yx, last_yy, False),
        {"xx": 0.136, "xy": 0.063, "yx": 0.17, "yy": 0.006, "r": 3.9, "last yx": 6.3, "last yy": 0.4}, control=True),
    ConstantForm(
        "without the leap", "As “last ω_yx = a r^L”, with the exponent L − 1 in the last layer.",
        _without_leap, {"a": 0.38, "e": 0.055, "r": 2.26}, control=True),
    ConstantForm(
        "without the turn", "As “last ω_yx = a r^L”, with the sign of the last rescaling kept.",
        lambda layers, a, e, r: tied(layers, a, e, r, last_yy=-e * abs(r) ** layers),
        {"a": 0.239, "e": 0.02, "r": 2.2}, control=True),
    ConstantForm(
        "one kernel", "One head whose q_y / q_x is the same in all layers, with geometric p_x and p_y.",
        _one_kernel, {"p_x": 0.1, "r_x": 4.0, "p_y": 0.3, "r_y": 2.6, "κ": 0.1}, control=True),
    ConstantForm(
        "one layer", "The same four ω in every layer.",
        lambda layers, *c: geometric(layers, c, [1.0] * 4, (c[2], -c[3]), pattern=False),
        {"xx": 0.3, "xy": 0.1, "yx": 0.4, "yy": 0.02}, control=True),
)
# fmt: on
"""From many constants to few, each form a special case of the one before it; then the controls, each with one choice
undone."""


# --- the search -------------------------------------------------------------------------------------------------------


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
    """All descriptions that were tried; `simplest` makes it."""

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
    acting = ~inert(model.layers) & omega_of_kind(model.kind)
    tied = int(acting.all(axis=1).sum()) if model.heads == 1 else 0
    return int(acting.sum()) - tied


def simplest(
    model: LinearTransformer,
    task: Task,
    *,
    sequences: int = 500_000,
    seed: int = 0,
    references: Mapping[str, Predictor] | None = None,
    on_stage: OnStage = None,
) -> Simplest:
    """Look for the fewest constants that do nearly as well as a trained model (three minutes).

    Parameters
    ----------
    model: a diag model of at least three layers.
    task: what it was trained on.
    sequences, seed: how many fresh sequences every description is measured on, and which.
    references: baselines to measure on the same sequences, by name.
    on_stage: called with what is being done and the share of all work that is done.

    Returns every description that was tried; `Simplest.best` is the answer. Raises `InputError` for other models.

    >>> import ridgeformer as rf
    >>> simplest(rf.load("gdpp-3-uniform-5"), rf.Task())
    Traceback (most recent call last):
    ...
    ridgeformer.core.validation.InputError: Only diag models are described in few constants; a gdpp model has two ω.
    """
    if instance("model", model, LinearTransformer).kind != "diag":
        other = "matrices" if omega_of_kind(model.kind).all() else "two ω"
        raise InputError(f"Only diag models are described in few constants; a {model.kind} model has {other}.")
    whole_number("layers of the model", model.layers, 3)
    report = on_stage or (lambda _name, _share: None)
    tuner = Tuner(task, _POOL, check_seed(seed))
    rounds = _eliminate(model, task, tuner, Tuner(task, _TRIAL_POOL, seed), report)
    fitted = []
    for number, form in enumerate(FORMS):
        report(f"form {form.name}", 0.5 + 0.4 * number / len(FORMS))
        rng = token_rng(seed, Purpose.EXPLORE, 0)
        factors = [np.exp(_SPREAD * rng.standard_normal(len(form.start))) if again else 1.0 for again in range(_STARTS)]
        theta = form.fit(list(form.start.values()), model.layers, task, tuner, factors, _FINAL)
        fitted.append((form, theta, form.omega(theta, model.layers, task)))
    named = [*rounds, *((form.name, omega) for form, _, omega in fitted)]
    predictors: dict[str, Predictor] = {TRAINED: model}
    predictors |= {name: model_from_omega(omega, model.dim) for name, omega in named}
    report("fresh sequences", 0.9)
    comparison = compare({**predictors, **(references or {})}, task, sequences, seed)

    def measured(name: str) -> tuple[Evaluation, Difference]:
        return comparison.evaluations[name], comparison.difference(name, TRAINED)

    dropped = []
    for name, omega in rounds:
        free = {f"{OMEGAS[block]}{layer + 1}": float(omega[layer, block]) for layer, block in np.argwhere(omega != 0)}
        dropped.append(Description(name, f"{len(free)} ω, each free.", free, omega, False, *measured(name)))
    forms = []
    for form, theta, omega in fitted:
        constants = dict(zip(form.start, map(float, theta), strict=True))
        parts = form.name, form.statement, constants, omega, form.control, *measured(form.name)
        forms.append(Description(*parts, form.round_numbers))
    evaluations = comparison.evaluations
    of_references = {name: evaluations[name] for name in references or {}}
    count = effective_constants(model)
    return Simplest(task, seed, evaluations[TRAINED], count, tuple(dropped), tuple(forms), of_references)


def _eliminate(
    model: LinearTransformer, task: Task, tuner: Tuner, trial_tuner: Tuner, report: Callable[[str, float], None]
) -> list[tuple[str, Array]]:
    """(name, ω) with all ω free, and after each drop."""
    units, free = natural_units(task), ~inert(model.layers)
    omega, _ = tuner.fit_omega(omega_of(model), free, units, _FINAL)
    rounds = [("all ω free", omega)]
    total = int(free.sum())
    while free.sum() > max(_FEWEST, 1):
        report(f"dropping one of {int(free.sum())} ω", 0.5 * (total - int(free.sum())) / (total - _FEWEST))
        trials = []
        for layer, block in np.argwhere(free):
            fewer = free.copy()
            fewer[layer, block] = False
            trial, loss = trial_tuner.fit_omega(omega, fewer, units, _TRIAL)
            trials.append((loss, layer, block, fewer, trial))
        _, layer, block, free, omega = min(trials, key=lambda trial: trial[0])
        omega, _ = tuner.fit_omega(omega, free, units, _FINAL)
        rounds.append((f"without ω_{OMEGAS[block]} of layer {layer + 1}", omega))
    return rounds
