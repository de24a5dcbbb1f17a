"""The fewest constants that do nearly as well as a trained diagonal model.

First, ω are dropped one at a time, always the one that matters least after the others are fitted again. Then the
`FORMS` are fitted, which tie the remaining ω to each other. All fits are made on one fixed pool; all losses are
measured on the same fresh sequences, none of which is in the pool.

All forms count layers from l = 0 and measure ω_xx and ω_yx in units of 1/n, ω_xy and ω_yy in units of 1/(n d): n
and d are not among the constants. A *pattern* leaves ω_xy out of the first layer and ω_xx out of the second. Constants
are what is fitted, and round numbers count as well; the pattern, equalities, signs and exponents are choices, and every
form says which it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ridgeformer.analysis.diagonal import OMEGAS, inert, model_from_omega, omega_of, omega_of_kind, refuse_registers
from ridgeformer.analysis.refit import Tuner
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.predictor import Predictor
from ridgeformer.core.random import Purpose, check_seed, token_rng
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, instance, whole_number
from ridgeformer.evaluation import Difference, Evaluation, compare
from ridgeformer.theory.numerics import OnStage, silent

TOLERANCE = 0.05
"""How much more loss than that of the trained model counts as nearly as good."""
TRAINED = "trained"
_POOL, _TRIAL_POOL = 16_384, 4096  # contexts to fit on, and to try on which ω to drop
_TRIAL, _FINAL = 60, 200  # iterations of a fit that is one of many, and of one that is kept
_STARTS = 4  # of a form's fits
_SPREAD = 0.2  # of where they start
_FEWEST = 8  # ω down to which they are dropped

Constants = Sequence[float] | Array


@dataclass(frozen=True)
class ConstantForm:
    """ω as a function of a few constants."""

    name: str
    statement: str  # what is chosen, in one sentence
    sequences: Callable[..., tuple[Constants, float | Constants, Constants]]
    """(layers, constants one by one) ↦ four sizes, one ratio or four, and sizes of ω_yx and ω_yy in the last layer."""
    start: Mapping[str, float]  # what is fitted, and from where: values near those of four layers on σ ~ U(0, 5)
    round_numbers: int = 0  # constants that are set to round numbers rather than fitted
    control: bool = False  # whether it is there to show that a choice matters
    pattern: bool = True  # whether the two ω of the pattern are left out

    def omega(self, constants: Constants, layers: int, task: Task) -> Array:
        """(layers, 4) for contexts of ``task``: −size · ratio^l in all layers but the last, +size for its ω_yy."""
        n, d = task.typical_examples, task.dim
        whole_number("layers", layers, 3)
        sizes, ratios, last = self.sequences(layers, *np.asarray(constants, np.float64))
        omega = -np.asarray(sizes) * np.abs(np.broadcast_to(ratios, 4)) ** np.arange(layers)[:, None]
        if self.pattern:
            omega[0, 1] = omega[1, 0] = 0.0
        omega[-1] = 0.0, 0.0, -last[0], last[1]
        return omega * np.array([1 / n, 1 / (n * d), 1 / n, 1 / (n * d)])

    def fit(
        self, start: Constants, layers: int, tuner: Tuner, iterations: int, spread: float, rng: np.random.Generator
    ) -> Array:
        """The best constants of a few fits: the first from ``start``, others from e^(spread · z) times that."""
        first = np.asarray(start, np.float64)
        starts = [first, *(first * np.exp(spread * rng.standard_normal(len(first))) for _ in range(_STARTS - 1))]
        fits = [tuner.fit(lambda theta: self.omega(theta, layers, tuner.task), each, iterations) for each in starts]
        return min(fits, key=lambda fit: fit[1])[0]


# fmt: off
FORMS = (
    ConstantForm(
        "four sequences",
        "Each ω is a geometric sequence over all layers except the last, which has two of its own; the pattern leaves "
        "out ω_xy in the first layer and ω_xx in the second.",
        lambda L, *c: (c[:4], c[4:8], c[8:]),
        {"xx": 0.25, "xy": 0.24, "yx": 0.25, "yy": 0.06, "r_xx": 2.3, "r_xy": 2.7, "r_yx": 2.6, "r_yy": 2.6,
         "last yx": 9.8, "last yy": 2.6}),
    ConstantForm(
        "one ratio", "All four sequences share one ratio.",
        lambda L, *c: (c[:4], c[4], c[5:]),
        {"xx": 0.23, "xy": 0.27, "yx": 0.24, "yy": 0.06, "r": 2.37, "last yx": 9.5, "last yy": 2.1}),
    ConstantForm(
        "ω_xx = ω_yx", "Preconditioning and gradient step have the same size a r^l.",
        lambda L, a, xy, e, r, last_yx, last_yy: ((a, xy, a, e), r, (last_yx, last_yy)),
        {"a": 0.24, "xy": 0.27, "e": 0.063, "r": 2.39, "last yx": 9.8, "last yy": 2.3}),
    ConstantForm(
        "last ω_yy = −e r^L", "The last rescaling has the opposite sign and the exponent L, which skips one term.",
        lambda L, a, xy, e, r, last_yx: ((a, xy, a, e), r, (last_yx, e * abs(r) ** L)),
        {"a": 0.25, "xy": 0.25, "e": 0.056, "r": 2.42, "last yx": 10.0}),
    ConstantForm(
        "ω_xy = ω_xx", "In units of 1/(n d), ω_xy also has the size a r^l.",
        lambda L, a, e, r, last_yx: ((a, a, a, e), r, (last_yx, e * abs(r) ** L)),
        {"a": 0.246, "e": 0.055, "r": 2.41, "last yx": 9.8}),
    ConstantForm(
        "last ω_yx = a r^L", "The last gradient step has the exponent L too.",
        lambda L, a, e, r: ((a, a, a, e), r, (a * abs(r) ** L, e * abs(r) ** L)),
        {"a": 0.239, "e": 0.0525, "r": 2.475}),
    ConstantForm(
        "e = a/5", "The same, with the rescaling a round multiple of the step.",
        lambda L, a, r: ((a, a, a, a / 5), r, (a * abs(r) ** L, a / 5 * abs(r) ** L)),
        {"a": 0.243, "r": 2.44}, round_numbers=1),
    ConstantForm(
        "a = 1/4, e = 1/20", "The same, with two of the three constants set to round numbers.",
        lambda L, r: ((1 / 4, 1 / 4, 1 / 4, 1 / 20), r, (1 / 4 * abs(r) ** L, 1 / 20 * abs(r) ** L)),
        {"r": 2.43}, round_numbers=2),
    ConstantForm(
        "without the pattern", "As “one ratio”, with ω_xy in the first and ω_xx in the second layer.",
        lambda L, *c: (c[:4], c[4], c[5:]),
        {"xx": 0.136, "xy": 0.063, "yx": 0.17, "yy": 0.006, "r": 3.9, "last yx": 6.3, "last yy": 0.4},
        control=True, pattern=False),
    ConstantForm(
        "without the leap", "As “last ω_yx = a r^L”, with the exponent L − 1 in the last layer.",
        lambda L, a, e, r: ((a, a, a, e), r, (a * abs(r) ** (L - 1), e * abs(r) ** (L - 1))),
        {"a": 0.38, "e": 0.055, "r": 2.26}, control=True),
    ConstantForm(
        "without the turn", "As “last ω_yx = a r^L”, with the sign of the last rescaling kept.",
        lambda L, a, e, r: ((a, a, a, e), r, (a * abs(r) ** L, -e * abs(r) ** L)),
        {"a": 0.239, "e": 0.02, "r": 2.2}, control=True),
    ConstantForm(  # x and y both move along <x_j, x_i> + κ y_j y_i / d
        "one kernel", "One head whose q_y / q_x is the same in all layers, with geometric p_x and p_y.",
        lambda L, a, r_x, b, r_y, k: (
            (a, a * k, b, b * k), (r_x, r_x, r_y, r_y), (b * abs(r_y) ** (L - 1), -b * abs(r_y) ** (L - 1) * k)),
        {"p_x": 0.1, "r_x": 4.0, "p_y": 0.3, "r_y": 2.6, "κ": 0.1}, control=True, pattern=False),
    ConstantForm(
        "one layer", "The same four ω in every layer.",
        lambda L, *c: (c, 1.0, (c[2], -c[3])),
        {"xx": 0.3, "xy": 0.1, "yx": 0.4, "yy": 0.02}, control=True, pattern=False),
)
# fmt: on
"""From many constants to few, each form a special case of the one before it; then the controls, each with one choice
undone."""


@dataclass(frozen=True)
class Description:
    """One way of writing the algorithm, measured."""

    name: str
    statement: str
    constants: Mapping[str, float]  # what was fitted
    omega: Array  # (layers, 4)
    control: bool
    evaluation: Evaluation
    against_trained: Difference  # on the same sequences
    round_numbers: int = 0  # constants that were set to round numbers

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
    trained_constants: int  # of the trained model: see `effective_constants`
    dropped: tuple[Description, ...]  # with ω switched off, one more each time
    forms: tuple[Description, ...]
    references: Mapping[str, Evaluation]  # baselines on the same sequences

    @property
    def limit(self) -> float:
        """The largest loss that counts as nearly as good."""
        return self.trained.adjusted_loss * (1 + TOLERANCE)

    @property
    def best(self) -> Description | None:
        """The description with the fewest constants whose loss is within the limit, with 95 % confidence; or None."""
        allowed = TOLERANCE * self.trained.adjusted_loss
        within = [d for d in (*self.dropped, *self.forms) if d.against_trained.interval[1] <= allowed]
        return min(within, key=lambda d: (d.count, d.evaluation.adjusted_loss), default=None)


def effective_constants(model: LinearTransformer) -> int:
    """How many numbers of a diag or gdpp model matter: ω that act, minus one in each layer where one head ties them."""
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
    on_stage: OnStage = silent,
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
    refuse_registers(model)
    whole_number("layers of the model", model.layers, 3)
    tuner = Tuner(task, _POOL, check_seed(seed))
    tried: list[tuple[str, str, dict[str, float], Array, bool, int]] = []
    for name, omega in _eliminate(model, tuner, Tuner(task, _TRIAL_POOL, seed), on_stage):
        free = {f"{OMEGAS[block]}{layer + 1}": float(omega[layer, block]) for layer, block in np.argwhere(omega != 0)}
        tried.append((name, f"{len(free)} ω, each free.", free, omega, False, 0))
    drops = len(tried)
    for number, form in enumerate(FORMS):
        on_stage(f"form {form.name}", 0.5 + 0.4 * number / len(FORMS))
        rng = token_rng(seed, Purpose.EXPLORE, 0)
        theta = form.fit(list(form.start.values()), model.layers, tuner, _FINAL, _SPREAD, rng)
        constants = dict(zip(form.start, map(float, theta), strict=True))
        omega = form.omega(theta, model.layers, task)
        tried.append((form.name, form.statement, constants, omega, form.control, form.round_numbers))
    on_stage("fresh sequences", 0.9)
    models = {name: model_from_omega(omega, model.dim) for name, _, _, omega, _, _ in tried}
    comparison = compare({TRAINED: model, **models, **(references or {})}, task, sequences, seed)
    measured = comparison.evaluations
    described = tuple(
        Description(
            name, words, constants, omega, control, measured[name], comparison.difference(name, TRAINED), rounded
        )
        for name, words, constants, omega, control, rounded in tried
    )
    of_references = {name: measured[name] for name in references or {}}
    count = effective_constants(model)
    return Simplest(task, seed, measured[TRAINED], count, described[:drops], described[drops:], of_references)


def _eliminate(
    model: LinearTransformer, tuner: Tuner, trial_tuner: Tuner, on_stage: OnStage
) -> list[tuple[str, Array]]:
    """(name, ω) with all ω free, and after each drop."""
    free = ~inert(model.layers)
    omega, _ = tuner.fit_omega(omega_of(model), free, _FINAL)
    rounds = [("all ω free", omega)]
    total = int(free.sum())
    while free.sum() > max(_FEWEST, 1):
        on_stage(f"dropping one of {int(free.sum())} ω", 0.5 * (total - int(free.sum())) / (total - _FEWEST))
        trials = []
        for layer, block in np.argwhere(free):
            fewer = free.copy()
            fewer[layer, block] = False
            trial, loss = trial_tuner.fit_omega(omega, fewer, _TRIAL)
            trials.append((loss, layer, block, fewer, trial))
        _, layer, block, free, omega = min(trials, key=lambda trial: trial[0])
        omega, _ = tuner.fit_omega(omega, free, _FINAL)
        rounds.append((f"without ω_{OMEGAS[block]} of layer {layer + 1}", omega))
    return rounds
