"""Shifts: named ways in which sequences differ from those of training, one at a time or several at once.

A shift turns a task into another task: ``kappa:10`` stretches its features, ``student:5`` gives its noise heavy tails,
``kappa:10+student:5`` does both. At its neutral value (``kappa:1``) it changes nothing. Every name of
`core.features.FEATURES` that is not in `SHIFTS` is a shift as well. `core.task` says what the loss and the reference
are under a shift.

**Heavy tails.** A model of L layers is a polynomial of degree up to 3^L in its tokens. Under Student's t its expected
loss is infinite for every ν that is used in practice. If the mean over a sample is finite, the sample just has no
extreme value: `tail_dominated` warns of that. For ν ≤ 4 even the loss of ridge regression has no variance, and so no
error bar.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ridgeformer.core.distributions import Fixed, scaled_prior
from ridgeformer.core.features import FEATURES, Chain, Isotropic, parts_of
from ridgeformer.core.noise import NOISE_SHAPES, Gaussian, Shapes, shape_parts
from ridgeformer.core.registry import Registry
from ridgeformer.core.specs import LARGEST, read_count, read_number
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, one_of, shortened
from ridgeformer.core.weights import WEIGHTS, scaled_weights

Change = Callable[[Task], Task]


@dataclass(frozen=True)
class Shift:
    """One entry of `SHIFTS`: a named way in which sequences differ from those of training.

    >>> SHIFTS["examples"].read("40")(Task(examples=20)).examples
    40
    """

    name: str
    """What specs begin with."""
    form: str
    """An example of a spec."""
    read: Callable[[str], Change]
    """Reads the text after the colon; the result changes a task."""


def with_features(task: Task, part: Any) -> Task:
    """The task with one more part at the end of its chain of features."""
    parts = (*parts_of(task.features), part)
    return replace(task, features=parts[0] if len(parts) == 1 else Chain(parts))


def with_shape(task: Task, part: Any) -> Task:
    """The task with one more shape of its noise."""
    parts = (*shape_parts(task.noise_shape), part)
    return replace(task, noise_shape=parts[0] if len(parts) == 1 else Shapes(parts))


def _examples(text: str) -> Change:
    count = read_count("examples:40", text)
    return lambda task: replace(task, examples=count)


def _noise(text: str) -> Change:
    factor = read_number("noise:2", text)
    return lambda task: replace(task, noise=scaled_prior(task.prior, factor))


def _level(text: str) -> Change:
    level = read_number("sigma:8", text)
    return lambda task: replace(task, noise=Fixed(level))


def _scale(text: str) -> Change:
    factor = read_number("scale:2", text, 1 / LARGEST)
    return lambda task: replace(task, weights=scaled_weights(task.weights, factor))


def _feature(name: str) -> Callable[[str], Change]:
    def read(text: str) -> Change:
        part = FEATURES[name].read(text)
        return lambda task: task if isinstance(part, Isotropic) else with_features(task, part)

    return read


def _shape(name: str) -> Callable[[str], Change]:
    def read(text: str) -> Change:
        part = NOISE_SHAPES[name].read(text)
        return lambda task: task if isinstance(part, Gaussian) else with_shape(task, part)

    return read


def _weights(name: str) -> Callable[[str], Change]:
    def read(text: str) -> Change:
        weights = WEIGHTS[name].read(text)
        return lambda task: replace(task, weights=weights)

    return read


SHIFTS: Registry[Shift] = Registry("shift")
"""All shifts, by the name that specs begin with. Add your own `Shift` with ``SHIFTS.add``."""
for _entry in (
    Shift("examples", "examples:40", _examples),
    Shift("noise", "noise:2", _noise),
    Shift("sigma", "sigma:8", _level),
    Shift("kappa", "kappa:10", _feature("kappa")),
    Shift("student", "student:5", _shape("student")),
    Shift("outliers", "outliers:0.05x10", _shape("outliers")),
    Shift("scale", "scale:2", _scale),
    Shift("rows", "rows:0.8", _feature("rows")),
    Shift("xscale", "xscale:2", _feature("scale")),
    Shift("xstudent", "xstudent:5", _feature("student")),
    Shift("sparse", "sparse:3", _weights("sparse")),
    Shift("pool", "pool:64", _weights("pool")),
):
    SHIFTS.add(_entry)

UNSHIFTED = "none"
GARG = (
    *("skewed", "quadrants", "subspace", "examples:{few}+orthogonal"),
    *("xscale:0.333", "xscale:0.5", "xscale:2", "xscale:3"),
    *("scale:0.333", "scale:0.5", "scale:2", "scale:3"),
)
"""The shifts of Garg et al. (2022). Queries orthogonal to the examples need n < d, so n is half of d there."""


def garg_battery(task: Task) -> tuple[str, ...]:
    """The shifts of `GARG` for a task with its number of features.

    >>> garg_battery(Task(dim=10))[:4]
    ('skewed', 'quadrants', 'subspace', 'examples:5+orthogonal')
    """
    return tuple(spec.format(few=max(1, task.dim // 2)) for spec in GARG)


def _entry_of(name: str) -> Shift:
    if name in SHIFTS:
        return SHIFTS[name]
    return Shift(name, FEATURES[name].form, _feature(name))


def parse_shift(spec: str) -> tuple[Change, ...]:
    """The changes that a spec such as ``kappa:10+student:5`` stands for, in order; ``none`` changes nothing.

    The number of examples is changed first, because other changes may depend on it. Raises `InputError` for a spec that
    cannot be read.

    >>> len(parse_shift("kappa:10+student:5"))
    2
    """
    if spec == UNSHIFTED:
        return ()
    changes: dict[str, Change] = {}
    known = [*SHIFTS, *(name for name in FEATURES if name not in SHIFTS), UNSHIFTED]
    for part in str(spec).split("+"):
        name, colon, text = part.partition(":")
        one_of("A shift", name, known)
        if name == UNSHIFTED or bool(colon) != bool(text):
            form = SHIFTS["scale"].form if name == UNSHIFTED else _entry_of(name).form
            raise InputError(f"Cannot read the shift {shortened(spec)}; write for example {form}.")
        if name in changes:
            raise InputError(f"The shift {shortened(spec)} names {name} twice.")
        changes[name] = _entry_of(name).read(text)
    return tuple(changes[name] for name in sorted(changes, key=lambda name: name != "examples"))


def shifted(task: Task, spec: str = UNSHIFTED) -> Task:
    """The task under a shift.

    >>> shifted(Task(3, 8), "kappa:10+noise:2")
    Task(dim=3, examples=8, noise=Uniform(high=10.0, low=0.0), features=Condition(kappa=10.0))
    """
    for change in parse_shift(spec):
        task = change(task)
    return task
