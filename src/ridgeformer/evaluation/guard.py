"""`predict` and `implicit_weights` for any data: they warn if an answer cannot be trusted.

A linear transformer is a polynomial of high degree in its data. On data like those of its training it is excellent; on
features three times as wide it can answer 1e86. Two things can be known without the true weights:

* whether the data are *far* from the training: the number of examples, the mean square of features and targets, and the
  largest eigenvalue of Σ, against what the recorded task makes possible;
* whether the answer is *sane*: weights that are finite, explain the examples no worse than predicting zero does, and
  are not far longer than those of ridge regression.

One warning says how many contexts have which problem. With ``guard=True`` answers that are not sane are also replaced:
by the answer after fewer layers, as many as possible, if that is sane, or else by AdaRR, which is ridge regression with
a penalty estimated from the residuals.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ridgeformer.baselines.ridge import AdaRR
from ridgeformer.core import forward
from ridgeformer.core.context import Context, check_tokens
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.task import ExampleRange, Task
from ridgeformer.core.validation import InputError, instance
from ridgeformer.evaluation.compare import trained_on

_RARE = 6.0
"""A context is far from training if it is more standard deviations away: of training contexts, about one in 10⁹ is."""
_EXAMPLES = 1.25
"""Up to this factor more or fewer examples than in training are not far from it: with d = 10, models of the zoo
trained on n = 20 beat AdaRR from n = 12 to 22, lose a little at 25 and are twice as bad at 28 to 30."""
_PRIOR_NODES = 64  # of the quadrature that finds the largest σ of a prior
_LONGER = 10.0  # weights are not sane if they are longer by this factor than those of ridge regression and typical ones


class UntrainedDataWarning(RuntimeWarning):
    """Data are unlike those that the model was trained on, or its answers are not plausible.

    >>> import ridgeformer as rf, warnings
    >>> tokens = rf.Task(dim=10, examples=20).draw_tokens(3, seed=0)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     weights = rf.implicit_weights(rf.load("diag-4-uniform-5"), tokens.X, 20 * tokens.y)
    >>> caught[0].category.__name__
    'UntrainedDataWarning'
    """


@dataclass(frozen=True)
class Doubts:
    """What a warning says about a batch of answers."""

    contexts: int
    far: Mapping[str, int]
    """How many contexts are far from the training, by reason."""
    unsound: int
    """How many answers are not sane."""
    replaced: Mapping[str, int] = field(default_factory=dict)
    """How many answers were replaced, by what replaced them."""

    def __bool__(self) -> bool:
        return bool(self.far or self.unsound)

    def __str__(self) -> str:
        total, parts = f"of {self.contexts:,} contexts", []
        if self.far:
            reasons = ", ".join(f"{reason} ({count:,})" for reason, count in self.far.items())
            parts.append(f"Data unlike those of the training, {total}: {reasons}")
        if self.unsound and not self.replaced:
            parts.append(
                f"Answers that are not finite, fit worse than predicting 0 or are far too long: {self.unsound:,} "
                f"{total}; guard=True replaces them"
            )
        elif self.unsound:
            how = ", ".join(f"{count:,} by {what}" for what, count in self.replaced.items())
            parts.append(f"Answers replaced: {self.unsound:,} {total} ({how})")
        return ". ".join(parts)


def implicit_weights(
    model: LinearTransformer,
    X: Any,
    y: Any,
    layers: int | None = None,
    backend: str = "auto",
    threads: int | None = None,
    guard: bool = False,
) -> Array:
    """Implicit weights ŵ of a model for your data: its prediction for any query x is <ŵ, x>.

    Parameters
    ----------
    model: a model for d features.
    X, y: examples, (batch, n, d) and (batch, n).
    layers, backend, threads: as in `context_weights`.
    guard: whether to replace answers that are not finite, fit the examples worse than predicting zero does, or are far
        too long: by the answer after fewer layers, or by AdaRR (ridge regression with an estimated penalty).

    Returns weights (batch, d). Warns once, with an `UntrainedDataWarning`, if data are far from those of the training
    or answers are as described; with ``guard`` the warning says how many were replaced. Raises `InputError` for arrays
    that are not finite, or whose shapes do not fit each other or the model.

    >>> import ridgeformer as rf
    >>> tokens = rf.Task(dim=10, examples=20).draw_tokens(3, seed=0)
    >>> rf.implicit_weights(rf.load("diag-4-uniform-5"), tokens.X, tokens.y).shape
    (3, 10)
    """
    return _weights(model, Context.from_tokens(X, y), layers, backend, threads, guard)


def predict(
    model: LinearTransformer,
    X: Any,
    y: Any,
    queries: Any,
    layers: int | None = None,
    backend: str = "auto",
    threads: int | None = None,
    guard: bool = False,
) -> Array:
    """Predictions of a model for queries, given the examples of each context.

    Parameters
    ----------
    model: a model for d features.
    X, y: examples, (batch, n, d) and (batch, n).
    queries: (batch, m, d).
    layers, backend, threads: as in `context_weights`.
    guard: as in `implicit_weights`.

    Returns predictions (batch, m). Warnings and errors are those of `implicit_weights`.

    >>> import ridgeformer as rf
    >>> tokens = rf.Task(dim=10, examples=20).draw_tokens(3, seed=0)
    >>> rf.predict(rf.load("diag-4-uniform-5"), tokens.X, tokens.y, tokens.query[:, None]).shape
    (3, 1)
    """
    X, y = check_tokens(X, y)
    queries = forward.check_queries(queries, X)
    with np.errstate(over="ignore", invalid="ignore"):  # of weights that are not finite, as the warning says
        return np.einsum(
            "bmd,bd->bm", queries, _weights(model, Context.from_tokens(X, y), layers, backend, threads, guard)
        )


def _weights(
    model: LinearTransformer, context: Context, layers: int | None, backend: str, threads: int | None, guard: bool
) -> Array:
    instance("guard", guard, bool)
    weights = forward.context_weights(model, context, layers, backend, threads)
    answer, doubts = guarded(model, context, weights, layers, guard)
    if doubts:
        warnings.warn(f"{doubts}.", UntrainedDataWarning, stacklevel=3)
    return answer


def guarded(
    model: LinearTransformer, context: Context, weights: Array, layers: int | None = None, replace: bool = True
) -> tuple[Array, Doubts]:
    """Weights (batch, d) of a model for these contexts, those that are not sane replaced if wanted; and all doubts.

    The fit is checked only for models that say what they were trained on, after their last layer: others need not fit.
    Weights that are not finite are never sane.
    """
    task = recorded_task(model)
    far = {} if task is None else far_contexts(task, context)
    trained = task is not None and layers in (None, model.layers)
    sane = sane_weights(weights, context) if trained else np.isfinite(weights).all(axis=1)
    unsound = np.flatnonzero(~np.asarray(sane))
    counts = {reason: int(mask.sum()) for reason, mask in far.items() if mask.any()}
    if not replace or not len(unsound):
        return weights, Doubts(len(weights), counts, len(unsound))
    part = _part(context, unsound)
    better, replaced = _replacements(model, part, model.layers if layers is None else layers)
    weights = weights.copy()
    weights[unsound] = better
    return weights, Doubts(len(weights), counts, len(unsound), replaced)


def _replacements(model: LinearTransformer, context: Context, layers: int) -> tuple[Array, dict[str, int]]:
    """For every context the sane answer with the most layers below ``layers``, or AdaRR; and how often each is used."""
    answer = AdaRR().weights(context)
    waiting, counts = np.ones(len(answer), bool), dict[str, int]()
    for depth in range(layers - 1, 0, -1):
        if not waiting.any():
            break
        part = _part(context, waiting)
        weights = forward.context_weights(model, part, depth, "reference")
        sane = sane_weights(weights, part)
        if sane.any():
            places = np.flatnonzero(waiting)[sane]
            answer[places] = weights[sane]
            waiting[places] = False
            counts[f"the read-out after layer {depth}"] = int(sane.sum())
    if waiting.any():
        counts["AdaRR"] = int(waiting.sum())
    return answer, counts


def recorded_task(model: LinearTransformer) -> Task | None:
    """The task that a model was trained on; None if its file does not say."""
    if not isinstance(model.info.get("task"), Mapping):
        return None
    try:
        return trained_on(model)
    except InputError:  # a user's own prior, which files cannot restore
        return None


def sane_weights(weights: Array, context: Context) -> Array:
    """(batch,): whether weights are finite, fit no worse than zero, and are not far longer than ridge regression's."""
    finite = np.asarray(np.isfinite(weights).all(axis=1))
    safe = np.where(finite[:, None], weights, 0.0).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        explained = 2 * np.einsum("bi,bi->b", safe, context.cross)
        fitted = np.einsum("bi,bij,bj->b", safe, context.scatter, safe)
        length = np.linalg.norm(safe, axis=1)
    # Σ(y − <ŵ, x>)² = λ − 2 ŵα + ŵΣŵ. To rounding: targets of 0 have weights of 0.
    sound = np.asarray(finite & (fitted - explained <= _ROUNDING * np.abs(context.energy)))
    long = sound & (length > _LONGER * math.sqrt(context.dim))  # weights are N(0, 1) each
    if long.any():
        ridge = AdaRR().weights(_part(context, long))
        sound[long] = length[long] <= _LONGER * np.linalg.norm(ridge, axis=1)
    return sound


_ROUNDING = 1e-5  # of float32 sums


def far_contexts(task: Task, context: Context) -> dict[str, Array]:
    """For every reason, which contexts (batch,) are far from those of a task.

    Scales are checked only for tasks with independent standard normal features and weights: others have no such bounds.
    """
    n, dim = np.broadcast_to(np.asarray(context.examples), len(context.gram)), context.dim
    fewest, most = examples_range(task)
    far = {f"other numbers of examples than {fewest} to {most}": (n < fewest) | (n > most)}
    if type(task) is not Task or not task.isotropic:
        return far
    squares = np.trace(context.scatter, axis1=1, axis2=2)
    far["features too small or too wide for N(0, 1)"] = wide = _outside(squares, *_chi_square_range(n * dim))
    low_weights, high_weights = _chi_square_range(dim)
    low_targets, high_targets = _chi_square_range(n)
    loudest = float(np.max(task.prior.quadrature(_PRIOR_NODES)[0]))
    limits = low_weights * low_targets, (high_weights + loudest**2) * high_targets
    far["targets too small or too large"] = _outside(context.energy, *limits)
    # The largest singular value of a Gaussian matrix exceeds √n + √d + t with probability e^(−t²/2) at most.
    bound = (np.sqrt(n) + math.sqrt(dim) + _RARE) ** 2
    suspect = ~wide & (np.linalg.norm(context.scatter, axis=(1, 2)) > bound)  # the eigenvalue is no larger than that
    if suspect.any():
        suspect[suspect] = np.linalg.eigvalsh(context.scatter[suspect].astype(np.float64))[:, -1] > bound[suspect]
    far["features far from independent, with a large eigenvalue of Σ"] = suspect
    return far


def examples_range(task: Task) -> tuple[int, int]:
    """Fewest and most examples that are not far from those of a task."""
    low = task.examples.low if isinstance(task.examples, ExampleRange) else int(task.examples)
    return math.ceil(low / _EXAMPLES), math.floor(task.most_examples * _EXAMPLES)


def _outside(values: Array, low: Any, high: Any) -> Array:
    return np.asarray((values < low) | (values > high))


def _chi_square_range(degrees: Any) -> tuple[Any, Any]:
    """The range of χ² within `_RARE` standard deviations, by the cube root of Wilson and Hilferty (1931)."""
    variance = 2 / (9 * np.asarray(degrees, np.float64))
    low, high = (np.maximum(0.0, 1 - variance + sign * _RARE * np.sqrt(variance)) ** 3 for sign in (-1, 1))
    return degrees * low, degrees * high


def _part(context: Context, chosen: Array) -> Context:
    """Some of the contexts."""
    n = context.examples
    return Context.unchecked(context.gram[chosen], n if isinstance(n, int) else n[chosen])
