"""Mixtures: each context comes from one of several tasks, chosen at random.

**As text**, for the shell and for files: components are separated by ``|`` or by line breaks. A component is ``base``,
or a list of changes to the base task, ``name=spec`` joined by commas. A weight and a ``*`` may come before it:

    3*base | features=skewed | 0.5*weights=scale:3,noise=uniform:2

The oracle of a context is that of its component: besides σ, it is told which component the context comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.features import Isotropic
from ridgeformer.core.noise import Gaussian
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw, Purpose, branch_seed, examples_rng, joined
from ridgeformer.core.specs import number_text, read_number
from ridgeformer.core.storage import read_whole
from ridgeformer.core.task import CHUNK, ContextDraw, ExampleRange, Reference, Task, TokenDraw
from ridgeformer.core.validation import InputError, instance, nonnegative, one_of, shortened, whole_number
from ridgeformer.core.weights import Normal

_MOST_COMPONENTS = 64
_MOST_BYTES = 1 << 16  # of a file
_CHANGES = ("examples", "noise", "features", "weights", "noise_shape")


class MixedPrior:
    """The distribution of σ over all components."""

    def __init__(self, tasks: Sequence[Task], shares: Array) -> None:
        self._tasks, self._shares = tuple(tasks), shares

    @property
    def spec(self) -> str:
        """The priors of the components, each once."""
        return " | ".join(dict.fromkeys(task.prior.spec for task in self._tasks))

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """(size,) levels."""
        chosen = rng.choice(len(self._tasks), size=size, p=self._shares)
        levels = np.stack([task.prior.sample(rng, size) for task in self._tasks])
        return levels[chosen, np.arange(size)]

    def quadrature(self, nodes: int) -> tuple[Array, Array]:
        """The quadratures of the components together."""
        pairs = [task.prior.quadrature(nodes) for task in self._tasks]
        levels = np.concatenate([pair[0] for pair in pairs])
        return levels, np.concatenate([s * pair[1] for s, pair in zip(self._shares, pairs, strict=True)])


class Mixture(Task):
    """A task whose contexts come from several tasks, in proportion to ``weights``.

    ``tasks`` have the same number of features; without ``weights`` all are equally likely. Raises `InputError` if they
    do not fit.

    >>> task = Mixture([Task(3, 8), Task(3, 8, features="kappa:10")], [3, 1])
    >>> task.draw_contexts(5, seed=0).context.gram.shape
    (5, 4, 4)
    """

    tasks: tuple[Task, ...]
    shares: tuple[float, ...]
    """Probabilities of the components; they sum to 1."""

    def __init__(self, tasks: Sequence[Task], weights: Sequence[float] | None = None) -> None:
        """``weights``: how often each task is drawn, relative to the others; by default all equally often."""
        tasks = tuple(instance("A component", task, Task) for task in tasks)
        if not 1 <= len(tasks) <= _MOST_COMPONENTS or any(isinstance(task, Mixture) for task in tasks):
            raise InputError(f"A mixture has 1 to {_MOST_COMPONENTS} components, none of them a mixture.")
        given = [1.0] * len(tasks) if weights is None else [nonnegative("A weight", weight) for weight in weights]
        if len(given) != len(tasks) or not sum(given) > 0:
            raise InputError(f"A mixture of {len(tasks)} components needs as many weights, not all zero.")
        if len({task.dim for task in tasks}) > 1:
            raise InputError("The components of a mixture must have the same number of features.")
        shares = np.asarray(given) / sum(given)
        low = min(t.examples.low if isinstance(t.examples, ExampleRange) else t.examples for t in tasks)
        high = max(task.most_examples for task in tasks)
        values: dict[str, Any] = {
            "dim": tasks[0].dim,
            "examples": low if low == high else ExampleRange(low, high),
            "noise": tasks[0].prior if len({task.prior.spec for task in tasks}) == 1 else MixedPrior(tasks, shares),
            "features": Isotropic(),
            "weights": Normal(),
            "noise_shape": Gaussian(),
            "tasks": tasks,
            "shares": tuple(map(float, shares)),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mixture) and (self.tasks, self.shares) == (other.tasks, other.shares)

    def __hash__(self) -> int:
        return hash((self.tasks, self.shares))

    def __repr__(self) -> str:
        return f"Mixture({list(self.tasks)!r}, {[round(share, 4) for share in self.shares]!r})"

    @property
    def isotropic(self) -> bool:
        return False

    @property
    def gram_drawable(self) -> bool:
        return False

    @property
    def builtin(self) -> bool:
        return all(task.builtin for task in self.tasks)

    @property
    def specs(self) -> dict[str, Any]:
        """As `Task.specs`, with the mixture as text."""
        examples = self.examples if isinstance(self.examples, int) else self.examples.spec
        return {"dim": self.dim, "examples": examples, "noise": self.prior.spec, "mixture": self.text()}

    @property
    def setting(self) -> str:
        return f"{len(self.tasks)} kinds of tasks, d = {self.dim}, n = {self.examples}, σ ~ {self.prior.spec}"

    def text(self) -> str:
        """The components as `parse_mixture` reads them."""
        lines = []
        for share, task in zip(self.shares, self.tasks, strict=True):
            changes = {name: spec for name, spec in task.specs.items() if name != "dim"}
            parts = ",".join(f"{name}={spec}" for name, spec in changes.items())
            lines.append(f"{number_text(share)}*{parts}")
        return " | ".join(lines)

    @property
    def reference(self) -> Reference:
        exact = all(task.reference.exact for task in self.tasks)
        kind = "the posterior mean of w" if exact else "the best predictor that is linear in y for some components"
        return Reference(exact, f"{kind}, told σ and the component")

    def draw_contexts(
        self,
        batch: int,
        *,
        seed: int,
        step: int = 0,
        purpose: Purpose = Purpose.EXPLORE,
        dtype: Any = np.float64,
        backend: str = "auto",
        threads: int | None = None,
    ) -> ContextDraw:
        """As `Task.draw_contexts`: the contexts of the first component come first, then those of the second, …"""
        batch = whole_number("batch", batch, 1)
        how = {"step": step, "purpose": purpose, "dtype": dtype, "backend": backend, "threads": threads}
        counts = examples_rng(seed, purpose, step).multinomial(batch, self.shares)
        parts = []
        for number, (task, count) in enumerate(zip(self.tasks, counts, strict=True)):
            if count:
                own_seed = branch_seed(seed, number)
                parts.append((task, own_seed, task.draw_contexts(int(count), seed=own_seed, **how)))
        draws = [draw for _, _, draw in parts]
        arrays: GramDraw = joined([draw.as_gram_draw() for draw in draws])
        sigma = np.concatenate([draw.sigma for draw in draws])
        context = Context.unchecked(arrays.gram, self._counts(draws))
        named = (arrays.weights, sigma, arrays.query, arrays.oracle, arrays.moment)
        return ContextDraw(context, *named, parts=tuple(parts))

    def _counts(self, draws: Sequence[ContextDraw]) -> int | Array:
        if isinstance(self.examples, int):
            return self.examples
        counts = [np.broadcast_to(draw.context.examples, len(draw.sigma)) for draw in draws]
        return np.concatenate(counts).astype(np.int64)

    def draw_tokens(
        self, batch: int, *, seed: int, step: int = 0, purpose: Purpose = Purpose.EXPLORE, dtype: Any = np.float64
    ) -> TokenDraw:
        """Raises `InputError`: only the components can draw tokens."""
        raise InputError("A mixture draws contexts, not tokens; draw the tokens of its components.")

    @property
    def chunk(self) -> int:
        return min(CHUNK, *(task.chunk for task in self.tasks))


def parse_mixture(text: str, base: Task) -> Mixture:
    """Read a mixture from its text; a component is the ``base`` task with the changes that the text names.

    Raises `InputError` for a text that cannot be read.

    >>> parse_mixture("3*base | features=skewed", Task(3, 8)).shares
    (0.75, 0.25)
    """
    tasks, weights = [], []
    for line in _components(str(text)):
        before, star, after = line.partition("*")
        weights.append(read_number("3*base", before) if star else 1.0)
        tasks.append(parse_component(after.strip() if star else line, base))
    if not tasks:
        raise InputError("A mixture needs at least one component, such as 3*base | features=skewed.")
    return Mixture(tasks, weights)


def parse_component(text: str, base: Task) -> Task:
    """The base task with the changes that are written as ``name=spec``, joined by commas."""
    if text == "base":
        return base
    changes: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, spec = part.partition("=")
        if not equals and changes:  # a comma within a spec, as in variances:4,1
            last = next(reversed(changes))
            changes[last] += f",{part}"
            continue
        if not equals:
            raise InputError(f"Cannot read {shortened(text)}: a component is base, or changes such as features=skewed.")
        changes[one_of("A component's name", name.strip().replace("-", "_"), _CHANGES)] = spec.strip()
    if changes.get("examples", "").isdecimal():
        changes["examples"] = int(changes["examples"])
    return replace(base, **changes)


def mixture_text(text: str) -> str:
    """The text of a mixture on one line; if ``text`` is the name of a file, the text is read from there."""
    if not isinstance(text, str):
        raise InputError(f"A mixture is a text such as 3*base | features=skewed, not {shortened(text)}.")
    if "=" not in text and "|" not in text and text != "base" and Path(text).is_file():
        try:
            text = read_whole(Path(text), _MOST_BYTES).decode()
        except UnicodeDecodeError as broken:
            raise InputError(f"{text} is not a text file.") from broken
    return " | ".join(_components(text))


def load_mixture(text: str, base: Task) -> Mixture:
    """As `parse_mixture`; ``text`` may also be the name of a file that holds the text."""
    return parse_mixture(mixture_text(text), base)


def _components(text: str) -> list[str]:
    lines = [line.split("#")[0] for line in text.splitlines()]
    return [part.strip() for line in lines for part in line.split("|") if part.strip()]
