"""`attack`: the smallest change of a few examples that moves a prediction to a chosen target.

The prediction f(δ) is a function of the change δ of k examples. The search for the smallest δ with f(δ) = target solves
a sequence of linear problems: if f were f(δ_t) + g·(δ − δ_t), with g the gradient at δ_t, the smallest solution would
be δ = λ g with λ = (target − f(δ_t) + g·δ_t) / ‖g‖². The next δ is this one, or part of the way to it: the step is
halved until ½‖δ‖² + μ |f(δ) − target| falls, with μ above every |λ| so far. This is the classic line search of
sequential quadratic programming (Han, 1977; Nocedal and Wright, chapter 18). At its limits δ is parallel to g, as it
must be at the smallest δ; several starts, from other examples or another first δ, help against the other limits.

Gradients of modules are torch's. Anything else that predicts, such as a baseline, is differentiated by differences: a
context has a few hundred numbers at most, and all differences of all contexts are one batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from ridgeformer.core.context import Context, check_tokens
from ridgeformer.core.notation import Array
from ridgeformer.core.predictor import LinearPredictor, as_predictor
from ridgeformer.core.random import Purpose, query_rng
from ridgeformer.core.validation import InputError, finite_array, one_of, whole_number

_DIFFERENCE = 1e-5  # step of central differences: errors of 1e-10 from curvature and of 1e-11 from rounding
_TOLERANCE = 1e-3  # of the target, relative to the distance that the prediction has to move
_SHORTEST = 2.0**-12  # share of a step below which it is not worth trying
_PRICE = 1.5  # μ over the largest |λ|
_DECREASE = 1e-4  # share of the promised decrease that a step must keep (Armijo)
_FIRSTS = (0.0, 0.1, 1.0, 0.3, 3.0)  # sizes of random first changes, in turn; features have standard deviation 1
Values = Callable[[Array, Array, Array], tuple[Array, Array]]
"""(tokens, query, which may change) → predictions (batch,), gradients with respect to the tokens (batch, n, d + 1)."""


@dataclass(frozen=True)
class AttackResult:
    """What `attack` found, for every context.

    >>> import ridgeformer as rf
    >>> draw = rf.Task(3, 8, "fixed:1").draw_tokens(2, seed=0)
    >>> result = rf.torch.attack(rf.baselines.OLS(), draw.X, draw.y, draw.query, draw.target + 1)
    >>> result.X.shape, result.size.shape, result.examples.shape
    ((2, 8, 3), (2,), (2, 1))
    """

    X: Array  # (batch, n, d), changed
    y: Array  # (batch, n), changed
    size: Array  # (batch,), the Euclidean length of the change; infinite where the target was not reached
    prediction: Array  # (batch,), after the change
    examples: Array  # (batch, k), which examples were changed
    before: Array  # (batch,), the prediction without any change


def attack(
    predictor: Any,
    X: Any,
    y: Any,
    query: Any,
    target: Any,
    *,
    examples: int = 1,
    change: str = "both",
    restarts: int = 8,
    steps: int = 50,
    seed: int = 0,
) -> AttackResult:
    """Find the smallest change of ``examples`` examples that moves a prediction to a target.

    Parameters
    ----------
    predictor: a module, or anything that `ridgeformer.as_predictor` takes.
    X, y: contexts (batch, n, d) and (batch, n); or a single one, without the first axis.
    query, target: (batch, d) and (batch,): the query, and what the prediction should become.
    examples: k, how many examples may be changed; those on which the prediction depends most are tried first.
    change: "both" features and targets, "x" or "y".
    restarts: starts for each context; the smallest change counts. The second and later ones are random.
    steps: linear problems solved in each start.
    seed: names the random starts.

    Returns an `AttackResult`. Raises `InputError` for arguments that do not fit.

    >>> import numpy as np, ridgeformer as rf
    >>> draw = rf.Task(3, 8, "fixed:1").draw_tokens(2, seed=0)
    >>> result = rf.torch.attack(rf.baselines.OLS(), draw.X, draw.y, draw.query, draw.target + 1, change="y")
    >>> np.allclose(result.prediction, draw.target + 1), (result.size > 0).all()
    (True, np.True_)
    """
    X, y = np.asarray(X, np.float64), np.asarray(y, np.float64)
    alone = X.ndim == 2
    if alone:
        X, y, query, target = X[None], y[None], np.asarray(query)[None], np.asarray(target)[None]
    X, y = check_tokens(X, y)
    query, target = finite_array("query", query, ("batch", "dim")), finite_array("target", target, ("batch",))
    if query.shape != (len(X), X.shape[2]) or len(target) != len(X):
        raise InputError(f"query and target must have the shapes {(len(X), X.shape[2])} and {(len(X),)}.")
    one_of("change", change, ("both", "x", "y"))
    examples = whole_number("examples", examples, 1, X.shape[1])
    restarts, steps = whole_number("restarts", restarts, 1), whole_number("steps", steps, 1)
    values = _values(predictor)
    rng = query_rng(seed, Purpose.EXPLORE, 0)
    tokens = np.concatenate([X, y[..., None]], axis=-1)
    before, gradient = values(tokens, query, np.ones(tokens.shape, bool))
    best = AttackResult(X, y, np.full(len(X), np.inf), before, np.zeros((len(X), examples), int), before)
    for start in range(restarts):
        chosen = _choice(gradient if start < 2 else None, tokens.shape, examples, change, rng)
        mask = _mask(chosen, tokens.shape, change)
        first = np.where(mask, _FIRSTS[start % len(_FIRSTS)] * rng.standard_normal(tokens.shape), 0.0)
        found = _descend(values, tokens, query, target, mask, first, steps)
        best = _better(best, tokens, found, chosen, target)
    if alone:
        return AttackResult(*(getattr(best, name)[0] for name in AttackResult.__dataclass_fields__))
    return best


def _values(predictor: Any) -> Values:
    """Predictions and gradients of any predictor."""
    if isinstance(predictor, nn.Module):
        return lambda tokens, query, mask: _by_autograd(predictor, tokens, query)
    general = as_predictor(predictor)

    def predict(tokens: Array, query: Array) -> Array:
        X, y = tokens[..., :-1], tokens[..., -1]
        if isinstance(general, LinearPredictor):
            return np.einsum("bd,bd->b", np.asarray(general.weights(Context.from_tokens(X, y)), np.float64), query)
        return np.asarray(general.predict(X, y, query[:, None]), np.float64)[:, 0]

    return lambda tokens, query, mask: _by_differences(predict, tokens, query, mask)


def _by_autograd(module: nn.Module, tokens: Array, query: Array) -> tuple[Array, Array]:
    """Predictions (batch,) and gradients (batch, n, d + 1) of a module, in its own precision."""
    first = next(module.parameters(), torch.empty(0, dtype=torch.float64))
    given = torch.as_tensor(tokens).to(first.device, first.dtype).requires_grad_()
    asked = torch.as_tensor(query).to(first.device, first.dtype)
    with torch.enable_grad():
        predictions = module(given[..., :-1], given[..., -1], asked[:, None])[:, 0]
        (gradient,) = torch.autograd.grad(predictions.sum(), given)
    return tuple(t.detach().to("cpu", torch.float64).numpy() for t in (predictions, gradient))


def _by_differences(
    predict: Callable[[Array, Array], Array], tokens: Array, query: Array, mask: Array
) -> tuple[Array, Array]:
    """The same for anything else, by central differences in the numbers that may be changed, all in two batches."""
    rows, *places = np.nonzero(mask)
    gradient, moved, asked = np.zeros(tokens.shape), tokens[rows], query[rows]
    index = (np.arange(len(rows)), *places)
    moved[index] += _DIFFERENCE
    above = predict(moved, asked)
    moved[index] -= 2 * _DIFFERENCE
    gradient[rows, places[0], places[1]] = (above - predict(moved, asked)) / (2 * _DIFFERENCE)
    return predict(tokens, query), gradient


def _choice(
    gradient: Array | None, shape: tuple[int, ...], examples: int, change: str, rng: np.random.Generator
) -> Array:
    """(batch, k) examples to change: those with the largest gradient, or random ones."""
    order = rng.random(shape[:2])
    if gradient is not None:
        order = -np.linalg.norm(np.where(_mask(None, shape, change), gradient, 0.0), axis=-1)
    return np.sort(np.argsort(order, axis=1)[:, :examples], axis=1)


def _mask(chosen: Array | None, shape: tuple[int, ...], change: str) -> Array:
    """Which numbers may change."""
    mask = np.ones(shape, bool)
    if chosen is not None:
        mask[:] = False
        np.put_along_axis(mask, chosen[..., None], True, axis=1)
    if change != "both":
        mask[..., -1 if change == "x" else slice(None, -1)] = False
    return mask


def _descend(
    values: Values, tokens: Array, query: Array, target: Array, mask: Array, change: Array, steps: int
) -> tuple[Array, Array]:
    """(changes, predictions) after so many linear problems."""
    prediction, gradient = values(tokens + change, query, mask)
    price = np.zeros(len(tokens))  # μ
    for _ in range(steps):
        slope = np.where(mask, gradient, 0.0)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            multiplier = (target - prediction + _dot(slope, change)) / _dot(slope, slope)
            step = slope * multiplier[:, None, None] - change
        step[~np.isfinite(step).all(axis=(1, 2))] = 0.0
        price = np.maximum(price, _PRICE * np.abs(np.nan_to_num(multiplier, posinf=0.0, neginf=0.0)))
        miss = np.abs(target - prediction)
        merit, promise = 0.5 * _dot(change, change) + price * miss, price * miss - _dot(change, step)
        share, going = np.ones(len(tokens)), np.ones(len(tokens), bool)
        while going.any():
            trial = change + share[:, None, None] * step
            with np.errstate(over="ignore", invalid="ignore"):
                then, slopes = values(tokens + trial, query, mask)
                after = 0.5 * _dot(trial, trial) + price * np.abs(target - then)
                going = ~(after <= merit - _DECREASE * share * promise) & (share > 0)
            share = np.where(going, np.where(share > _SHORTEST, share / 2, 0.0), share)
        change, prediction, gradient = trial, then, slopes
    return change, prediction


def _dot(first: Array, second: Array) -> Array:
    """(batch,) inner products of changes."""
    return np.einsum("bij,bij->b", first, second)


def _better(
    best: AttackResult, tokens: Array, found: tuple[Array, Array], chosen: Array, target: Array
) -> AttackResult:
    """The smaller change of each context, of those that reach the target."""
    change, prediction = found
    size = np.sqrt((change**2).sum(axis=(1, 2)))
    reached = np.abs(prediction - target) <= _TOLERANCE * np.abs(target - best.before)
    wins = reached & (size < best.size)
    changed = tokens + change

    def pick(new: Array, old: Array) -> Array:
        return np.where(wins.reshape(-1, *[1] * (old.ndim - 1)), new, old)

    return AttackResult(
        pick(changed[..., :-1], best.X),
        pick(changed[..., -1], best.y),
        pick(size, best.size),
        pick(prediction, best.prediction),
        pick(chosen, best.examples),
        best.before,
    )
