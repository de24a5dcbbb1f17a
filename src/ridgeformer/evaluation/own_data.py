"""`score`: measure predictors on your own data, on rows that are held out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ridgeformer.core.context import Context, check_tokens
from ridgeformer.core.forward import context_weights
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.predictor import LinearPredictor, Predictor
from ridgeformer.core.random import check_seed
from ridgeformer.core.validation import InputError, real_array, whole_number
from ridgeformer.evaluation.compare import check_predictors


@dataclass(frozen=True)
class Score:
    """How well a predictor does on rows that it has not seen; `Scores` has one for each predictor.

    >>> Score(error=0.5, standard_error=0.1, share=0.25, not_finite=0).share
    0.25
    """

    error: float
    """Mean squared error."""
    standard_error: float
    """Standard error of that mean: over contexts, or over splits if there is only one context."""
    share: float
    """The error divided by that of always predicting 0."""
    not_finite: int
    """How many contexts have a prediction that is not finite; the means leave them out."""


@dataclass(frozen=True)
class Scores:
    """Scores of several predictors on the same held-out rows, made by `score`.

    >>> import ridgeformer as rf
    >>> tokens = rf.Task(dim=3, examples=12, noise="fixed:1").draw_tokens(50, seed=0)
    >>> rf.score({"zero": lambda X, y, queries: 0 * queries[..., 0]}, tokens.X, tokens.y)["zero"].share
    1.0
    """

    scores: Mapping[str, Score]
    contexts: int
    held_out: int
    """How many rows of each context are held out in a split."""
    splits: int

    def __getitem__(self, name: str) -> Score:
        return self.scores[name]

    def __repr__(self) -> str:
        rows = f"{self.held_out} held-out row{'s' * (self.held_out > 1)}"
        lines = [f"Mean squared error ± s.e. on {self.contexts:,} contexts, {self.splits} splits, {rows} each:"]
        width = max(map(len, self.scores))
        for name, one in self.scores.items():
            note = f", {one.not_finite:,} contexts not finite" if one.not_finite else ""
            lines.append(
                f"  {name:{width}}  {one.error:.4g} ± {one.standard_error:.2g}   {one.share:.1%} of predicting 0{note}"
            )
        return "\n".join(lines)


def score(
    predictors: Mapping[str, Any], X: Any, y: Any, held_out: int | None = None, splits: int = 5, seed: int = 0
) -> Scores:
    """Measure predictors on your own data: some rows of every context are held out and predicted from the others.

    Parameters
    ----------
    predictors: a mapping from names to predictors: models, baselines, scikit-learn regressors or functions of
        (X, y, queries); see `as_predictor`.
    X, y: (batch, n, d) and (batch, n), or (n, d) and (n,) for one context. They are used as they are: centre and scale
        them first, or pass `ridgeformer.estimators.ContextRegressor(model)`, which does that.
    held_out: how many rows of each context to hold out; None for a quarter.
    splits: how many times rows are chosen at random to be held out.
    seed: the same seed gives the same splits; all predictors get the same ones.

    Returns `Scores`. Raises `InputError` if a predictor and the data do not fit, or no row would be left.

    >>> import ridgeformer as rf
    >>> tokens = rf.Task(dim=3, examples=12, noise="fixed:1").draw_tokens(200, seed=0)
    >>> scores = rf.score({"OLS": rf.baselines.OLS(), "AdaRR": rf.baselines.AdaRR()}, tokens.X, tokens.y)
    >>> scores["AdaRR"].error < scores["OLS"].error
    True
    """
    X, y = real_array("X", X), real_array("y", y)
    if X.ndim == 2:
        X, y = X[None], y[None]
    X, y = check_tokens(X, y)
    batch, n, _ = X.shape
    held = max(1, n // 4) if held_out is None else whole_number("held_out", held_out, 1)
    if held >= n:
        raise InputError(f"Of {n} rows, {held} cannot be held out: none would be left to learn from.")
    splits = whole_number("splits", splits, 1)
    chosen = check_predictors(predictors)
    rng = np.random.default_rng(check_seed(seed))
    errors = {name: np.empty((splits, batch)) for name in chosen}
    squares = np.empty((splits, batch))
    for split in range(splits):
        order = np.argsort(rng.random((batch, n)), axis=1)
        rows, out = np.arange(batch)[:, None], order[:, :held]
        inside = np.sort(order[:, held:], axis=1)
        given, asked, targets = (X[rows, inside], y[rows, inside]), X[rows, out], y[rows, out]
        squares[split] = (targets.astype(np.float64) ** 2).mean(axis=1)
        for name, predictor in chosen.items():
            with np.errstate(over="ignore", invalid="ignore"):
                errors[name][split] = ((_predictions(predictor, *given, asked) - targets) ** 2).mean(axis=1)
    return Scores({name: _score(own, squares) for name, own in errors.items()}, batch, held, splits)


def _predictions(predictor: Predictor, X: Array, y: Array, queries: Array) -> Array:
    """(batch, m) predictions in float64."""
    if not isinstance(predictor, LinearPredictor):
        return np.asarray(predictor.predict(X, y, queries), np.float64)
    context = Context.from_tokens(X, y)
    if isinstance(predictor, LinearTransformer):
        weights = context_weights(predictor, context)
    else:
        weights = predictor.weights(context)
    return np.einsum("bmd,bd->bm", queries, weights).astype(np.float64)


def _score(errors: Array, squares: Array) -> Score:
    finite = np.asarray(np.isfinite(errors).all(axis=0))
    if not finite.any():
        return Score(math.inf, math.nan, math.inf, len(finite))
    kept = errors[:, finite]
    units = kept.mean(axis=0) if kept.shape[1] > 1 else kept[:, 0]
    spread = float(units.std(ddof=1) / math.sqrt(len(units))) if len(units) > 1 else math.nan
    mean = float(kept.mean())
    return Score(mean, spread, mean / (float(squares[:, finite].mean()) or 1.0), int((~finite).sum()))
