"""Curves: losses of predictors while one number of the task, or of the predictors, changes.

Every point is `compare` on the task with that number, so all predictors see the same sequences there. Tasks with the
same seed use the same random numbers where possible, so curves are smoother than their error bars suggest.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ridgeformer.baselines.solvers import Solver
from ridgeformer.core.backend import engine
from ridgeformer.core.distributions import Fixed, NoisePrior
from ridgeformer.core.features import Chain, Condition, CorrelatedRows, ScaledFeatures, parts_of
from ridgeformer.core.mixture import Mixture
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.noise import Student
from ridgeformer.core.predictor import Predictor, as_predictor
from ridgeformer.core.registry import Registry
from ridgeformer.core.task import ContextDraw, Task
from ridgeformer.core.validation import InputError, whole_number
from ridgeformer.core.weights import FinitePool, Sparse, scaled_weights
from ridgeformer.evaluation.compare import OnChunk, as_task, compare, default_levels, offset
from ridgeformer.evaluation.scoring import Probes, half_square, probes_of, score
from ridgeformer.evaluation.statistics import Difference, Evaluation, Tally

_MOST_VALUES = 1000


@dataclass(frozen=True)
class Over:
    """A number that a curve can be drawn over; an entry of `OVERS`.

    >>> OVERS["kappa"].label, OVERS["kappa"].values(Task())
    ('condition number κ', (1, 2, 5, 10, 20, 50, 100))
    """

    name: str
    label: str
    """Label of the axis."""
    change: Callable[[Task, float], Task] | None
    """Gives the task with this number; None if the number is not a part of the task."""
    values: Callable[[Task], Sequence[float]]
    """The default values."""
    log: bool = False
    """Whether the axis is logarithmic."""
    whole: bool = False
    """Whether the number is whole."""


def _with_part(task: Task, part: Any) -> Task:
    """The task with a part of its features in place of the one of the same class, or behind the others."""
    old = parts_of(task.features)
    kept = tuple(part if type(other) is type(part) else other for other in old)
    parts = kept if any(type(other) is type(part) for other in old) else (*kept, part)
    return replace(task, features=parts[0] if len(parts) == 1 else Chain(parts))


def _kappa(task: Task, value: float) -> Task:
    """Before everything else, so that ``rotated`` turns it."""
    others = tuple(part for part in parts_of(task.features) if not isinstance(part, Condition))
    return replace(task, features=Chain((Condition(_at_least(1.0, value)), *others)))


def _at_least(low: float, value: float) -> float:
    if not value >= low:
        raise InputError(f"This curve needs values of at least {low:g}, not {value:g}.")
    return float(value)


def _scaled_examples(task: Task) -> tuple[float, ...]:
    d = task.dim
    return tuple(sorted({1, *(max(1, round(share * d)) for share in (0.2, 0.5, 0.8, 1, 1.2, 1.5, 2, 2.5, 3, 4))}))


OVERS: Registry[Over] = Registry("number to draw a curve over")
"""What curves can be drawn over. Add your own with ``OVERS.add``."""
for _over in (
    Over("layers", "layers, or steps", None, lambda task: (), whole=True),
    Over("examples", "examples n", lambda task, n: replace(task, examples=int(n)), _scaled_examples, whole=True),
    Over(
        "sigma", "noise level σ", lambda task, s: replace(task, noise=Fixed(s)), lambda task: default_levels(task.prior)
    ),
    Over("kappa", "condition number κ", _kappa, lambda task: (1, 2, 5, 10, 20, 50, 100), log=True),
    Over("dim", "features d", lambda task, d: replace(task, dim=int(d)), lambda task: (2, 5, 10, 15, 19), whole=True),
    Over(
        "scale",
        "scale of w",
        lambda task, s: replace(task, weights=scaled_weights(task.weights, _at_least(1e-6, s))),
        lambda task: (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4),
        log=True,
    ),
    Over(
        "xscale",
        "scale of x",
        lambda task, s: _with_part(task, ScaledFeatures(_at_least(1e-6, s))),
        lambda task: (0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3),
        log=True,
    ),
    Over(
        "rows",
        "correlation of rows ρ",
        lambda task, r: _with_part(task, CorrelatedRows(r)),
        lambda task: (0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95),
    ),
    Over(
        "degrees",
        "degrees of freedom of the noise",
        lambda task, v: replace(task, noise_shape=Student(_at_least(1.0, v))),
        lambda task: (3, 4, 5, 7, 10, 20, 50),
        log=True,
    ),
    Over(
        "sparse",
        "entries of w that are not zero",
        lambda task, k: replace(task, weights=Sparse(int(k))),
        lambda task: tuple(range(1, task.dim + 1)),
        whole=True,
    ),
    Over(
        "pool",
        "vectors in the pool of w",
        lambda task, m: replace(task, weights=FinitePool(int(m))),
        lambda task: tuple(2**k for k in range(0, 13, 2)),
        log=True,
        whole=True,
    ),
):
    OVERS.add(_over)


@dataclass(frozen=True, repr=False)
class Curve:
    """Losses of predictors at every value of one number; made by `curve`.

    >>> import ridgeformer as rf
    >>> rf.curve({"OLS": rf.baselines.OLS()}, rf.Task(3, 8), over="examples", values=[5, 20], sequences=200).values
    (5, 20)
    """

    over: str
    label: str
    values: tuple[float, ...]
    evaluations: Mapping[str, tuple[Evaluation | None, ...]]
    """For every predictor, one for each value; None where it does not fit the task or has fewer layers."""
    differences: Mapping[str, tuple[Difference | None, ...]]
    """For every predictor except the first: its adjusted loss minus that of the first, paired by sequence."""
    task: Task
    sequences: int
    """How many sequences at each value."""
    seed: int
    log: bool = False

    def as_json(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "over": self.over,
            "values": list(self.values),
            "task": self.task.specs,
            "sequences": self.sequences,
            "seed": self.seed,
            "evaluations": {
                name: [None if one is None else vars(one) for one in row] for name, row in self.evaluations.items()
            },
            "differences": {
                name: [None if one is None else vars(one) for one in row] for name, row in self.differences.items()
            },
        }

    def as_csv(self) -> str:
        """One line for every predictor and value."""
        text, names = io.StringIO(), [field.name for field in fields(Evaluation)]
        gap = ["minus_first", "minus_first_error"]
        writer = csv.DictWriter(text, ["predictor", self.over, *names, *gap], lineterminator="\n")
        writer.writeheader()
        for name, row in self.evaluations.items():
            gaps = self.differences.get(name, (None,) * len(row))
            for value, one, difference in zip(self.values, row, gaps, strict=True):
                if one is not None:
                    pair = (difference.mean, difference.standard_error) if difference else ("", "")
                    own = dict(zip(gap, pair, strict=True))
                    writer.writerow({"predictor": name, self.over: value, **vars(one), **own})
        return text.getvalue()

    def __repr__(self) -> str:
        lines = [f"Curve over {self.over}, {self.sequences:,} sequences a value, {self.task.setting}: adjusted loss"]
        width = max(map(len, (self.over, *self.evaluations)))
        lines.append(f"  {self.over:{width}}  " + "  ".join(f"{value:8g}" for value in self.values))
        for name, row in self.evaluations.items():
            cells = ("       –" if one is None else f"{one.adjusted_loss:8.4g}" for one in row)
            lines.append(f"  {name:{width}}  " + "  ".join(cells))
        return "\n".join(lines)


def curve(
    predictors: Mapping[str, Any],
    task: Task | NoisePrior | str,
    over: str = "examples",
    values: Sequence[float] | None = None,
    sequences: int = 10_000,
    seed: int = 0,
    on_chunk: OnChunk = None,
) -> Curve:
    """Measure predictors while one number changes.

    Parameters
    ----------
    predictors: a mapping from names to predictors, each anything that `evaluate` takes, or an entry of ``BASELINES``,
        which is tuned again for the task of every value.
    task: the task to change, as in `evaluate`.
    over: what changes, a name in ``OVERS``: "examples", "sigma", "kappa", "dim", "layers", … With "layers", the
        prediction of a model after each layer is measured, and solvers such as ``rf.baselines.GradientDescent`` get as
        many steps.
    values: values of that number; None takes default ones.
    sequences: how many sequences at each value.
    seed, on_chunk: as in `compare`.

    Returns a `Curve`. With "dim", GD++ and DIAG models are used for every number of features, because their parameters
    do not depend on it. Raises `InputError` for a name or value that does not fit.

    >>> import ridgeformer as rf
    >>> rf.curve({"OLS": rf.baselines.OLS()}, rf.Task(3, 8, "fixed:1"), over="sigma", values=[1, 2], sequences=500)
    Curve over sigma, 500 sequences a value, σ ~ fixed:1, d = 3, n = 8: adjusted loss
      sigma         1         2
      OLS      0.1055    0.8362
    """
    entry = OVERS.find(over)
    sequences = whole_number("sequences", sequences, 1)
    if not isinstance(predictors, Mapping) or not predictors:
        raise InputError("predictors must be a mapping from names to at least one predictor.")
    models = [thing for thing in predictors.values() if isinstance(thing, LinearTransformer)]
    task = as_task(task, models)
    if entry.change is None:
        return _over_layers(predictors, task, values, sequences, seed, on_chunk)
    if isinstance(task, Mixture):
        raise InputError(f"A curve over {over} needs one task to change, not a mixture.")
    chosen = _checked_values(entry, task, values)
    evaluations: dict[str, list[Evaluation | None]] = {name: [] for name in predictors}
    differences: dict[str, list[Difference | None]] = {name: [] for name in list(predictors)[1:]}
    for number, value in enumerate(chosen):
        changed = entry.change(task, value)
        made = {name: _for_task(thing, changed) for name, thing in predictors.items()}
        there = {name: predictor for name, predictor in made.items() if predictor is not None}
        result = compare(there, changed, sequences, seed, offset(on_chunk, number * sequences)) if there else None
        first = next(iter(predictors))
        for name in predictors:
            found = result is not None and name in there
            evaluations[name].append(result.evaluations[name] if result is not None and found else None)
            if name in differences:
                both = result is not None and found and first in there
                differences[name].append(result.difference(name, first) if result is not None and both else None)
    return Curve(
        over,
        entry.label,
        chosen,
        {name: tuple(row) for name, row in evaluations.items()},
        {name: tuple(row) for name, row in differences.items()},
        task,
        sequences,
        seed,
        entry.log,
    )


def _checked_values(entry: Over, task: Task, values: Sequence[float] | None) -> tuple[float, ...]:
    chosen = tuple(entry.values(task) if values is None else values)
    if not 1 <= len(chosen) <= _MOST_VALUES or isinstance(values, str):
        raise InputError(f"A curve needs 1 to {_MOST_VALUES} values.")
    for value in chosen:
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
            raise InputError(f"A value of a curve must be a finite number, not {value!r}.")
        if entry.whole and value != int(value):
            raise InputError(f"A curve over {entry.name} needs whole numbers, not {value:g}.")
    return tuple(int(value) if entry.whole else float(value) for value in chosen)


def _for_task(thing: Any, task: Task) -> Predictor | None:
    """The predictor for a task; None if it does not fit the task."""
    if callable(getattr(thing, "make", None)):
        made: Predictor | None = thing.make(task)
        return made
    predictor = as_predictor(thing)
    if isinstance(predictor, LinearTransformer) and predictor.dim != task.dim:
        if predictor.kind not in ("gdpp", "diag"):
            return None
        return LinearTransformer(predictor.kind, task.dim, dict(predictor.parameters))
    return predictor


# --- over layers, in one pass over the sequences ----------------------------------------------------------------------


def _over_layers(
    predictors: Mapping[str, Any],
    task: Task,
    values: Sequence[float] | None,
    sequences: int,
    seed: int,
    on_chunk: OnChunk,
) -> Curve:
    """Models after each layer, solvers after each step; other predictors have the same loss at every value."""
    made = {name: _for_task(thing, task) for name, thing in predictors.items()}
    there = {name: predictor for name, predictor in made.items() if predictor is not None}
    depths = [p.layers for p in there.values() if isinstance(p, LinearTransformer)]
    depths += [p.steps for p in there.values() if isinstance(p, Solver)]
    default = tuple(range(1, max(depths, default=1) + 1))
    chosen = _checked_values(OVERS["layers"], task, default if values is None else values)
    if min(chosen) < 1:
        raise InputError("A curve over layers needs values of at least 1.")
    tallies = {name: [Tally(sequences) if _has(p, k) else None for k in chosen] for name, p in there.items()}
    done = 0
    for step, draw in enumerate(task.chunks(sequences, seed)):
        for name, predictor in there.items():
            rows = _scores_by_layer(predictor, draw, chosen, probes_of(draw, task, seed, step))
            for tally, row in zip(tallies[name], rows, strict=True):
                if tally is not None and row is not None:
                    tally.add(*row)
        done += len(draw.sigma)
        if on_chunk is not None:
            on_chunk(done)
    evaluations = {
        name: tuple(None if tally is None else tally.evaluation() for tally in row) for name, row in tallies.items()
    }
    label = OVERS["layers"].label
    return Curve("layers", label, chosen, evaluations, {}, task, sequences, seed)


def _has(predictor: Predictor, layers: float) -> bool:
    return not isinstance(predictor, LinearTransformer) or layers <= predictor.layers


def _scores_by_layer(
    predictor: Predictor, draw: ContextDraw, values: Sequence[float], probes: Probes
) -> list[tuple[Any, Any] | None]:
    """(adjusted losses, losses) after each number of layers or steps."""
    if isinstance(predictor, LinearTransformer):
        every = engine().weights(predictor.compiled(), draw.context.gram, every_layer=True)
        by_layer: dict[float, Any] = dict(enumerate(every, 1))
    elif isinstance(predictor, Solver):
        longest = replace(predictor, steps=int(max(values)))
        by_layer = {k: weights for k, weights in enumerate(longest.every_step(draw.context), 1) if k in values}
    else:
        return [score(predictor, draw, probes)] * len(values)
    return [
        (half_square(by_layer[k], draw.oracle, draw.moment), half_square(by_layer[k], draw.weights, draw.moment))
        if k in by_layer
        else None
        for k in values
    ]
