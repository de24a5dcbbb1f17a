"""From rows to posteriors in the user's units, and from posteriors to predictions. NumPy only; chunk by chunk.

Features are divided by their standard deviation within groups, targets by theirs, and results are scaled back at the
end. An intercept is treated in one of four ways:

* *free*: each group's rows are centred, which costs a degree of freedom: n becomes n − 1. The intercept is not shrunk.
* *pooled*: the same, and then each group's mean ȳ is pulled towards the prediction of a regression of all groups' means
  ȳ on x̄. It is pulled further if its own error E[σ²]/n is larger compared with the scatter around that regression.
* *correlated*: the intercept is the weight of one more feature, which is always 1. Weights may be correlated between
  groups, w_g ~ N(μ, Λ) with any Λ, as in linear mixed models. With w = β + R u and Λ = R diag(τ²) Rᵀ, the coordinates u
  are not correlated, and all other formulas hold for them, with features X R and targets y − Xβ. β is one regression of
  all rows. R is found in rounds, which set Λ to the mean over g of E[(w_g − μ)(w_g − μ)ᵀ] (EM).
* *none*: y is 0 where all features are 0.

In each case a group's answer is a value c at a centre x̄ and weights w, with one covariance matrix for (w, c), so that

    E[y] = c + (x − x̄)·w,      Var[y] = (x − x̄, 1) Cov (x − x̄, 1)ᵀ + E[σ²].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ridgeformer.core.backend import uses_kernels
from ridgeformer.core.notation import Array
from ridgeformer.estimators.empirical_bayes import NoiseLevels, Posteriors, Solver, WeightPrior, posteriors
from ridgeformer.estimators.learning import FEWEST_FOR_MEAN, Learned, learn
from ridgeformer.estimators.problems import GroupedRows, Problems

FREE, POOLED, CORRELATED, NONE = "free", "pooled", "correlated", "none"
LEARNING_GROUPS = 2048
"""The prior is learned from at most so many groups, drawn at random: its errors are then far below those of a group."""
_LEARNING_ENTRIES = 4_000_000  # of all matrices together while learning
_WORTH_COMPILING = (
    1_000_000  # entries of Gram matrices: NumPy takes half a second for them, loading the kernels as long
)
_CHUNK_ENTRIES = 1 << 21  # of covariance matrices that are gathered at a time for predictions
_SUBSET_SEED = 0

OnChunk = Callable[[int, int], None]
"""Called with groups done and groups in all."""


@dataclass(frozen=True)
class Scaling:
    """Units in which problems are solved."""

    centre: Array
    """(p,): overall means of the features."""
    features: Array
    """(p,): standard deviations of the features within groups; 1 where they do not vary."""
    target: float
    """Standard deviation of the target."""
    level: float
    """Overall mean of the target."""


class Coordinates(NamedTuple):
    """Coordinates u of weights w = β + R u that are not correlated between groups."""

    origin: Array  # β, (p + 1,)
    basis: Array  # R, (p + 1, p + 1)

    @classmethod
    def start(cls, gram: Array) -> Coordinates:
        """One regression of the rows of all groups as the origin."""
        total = gram.sum(axis=0)
        size = len(total) - 1
        ridge = _RIDGE * np.trace(total[:-1, :-1]) * np.eye(size)
        return cls(np.linalg.solve(total[:-1, :-1] + ridge, total[:-1, -1]), np.eye(size))

    def gram(self, gram: Array) -> Array:
        """Gram matrices of the tokens (Rᵀx, y − ⟨β, x⟩)."""
        whole = np.eye(len(self.origin) + 1)
        whole[:-1, :-1], whole[:-1, -1] = self.basis, -self.origin
        return np.asarray(whole.T @ gram @ whole)

    def weights(self, u: Array) -> Array:
        """w, (groups, p + 1)."""
        return self.origin + u @ self.basis.T

    def covariance(self, of_u: Array) -> Array:
        """Cov[w] from Cov[u], any number of them."""
        return np.asarray(self.basis @ of_u @ self.basis.T)


@dataclass(frozen=True)
class Between:
    """How groups differ as a whole, in the user's units."""

    mean: float
    """Mean over groups of the value at the overall centre of the features."""
    scale: float
    """Its standard deviation between groups."""
    level: float
    """The value at that centre of a regression of ȳ on x̄ over groups; only *pooled* uses it and the next two."""
    slopes: Array
    """(p,): of that regression."""
    around: float
    """Standard deviation of groups around it."""


@dataclass(frozen=True)
class Fitted:
    """All groups' posteriors, in the user's units; p features."""

    intercept: str
    scaling: Scaling
    prior: WeightPrior
    """Of the features' weights, in the user's units."""
    between: Between
    new: Array
    """Cov[(w, c)] of a group without rows, c at the overall centre of the features, (p + 1, p + 1)."""
    inner: WeightPrior
    """The prior in the units of ``scaling`` and, if weights are correlated, in their ``coordinates``."""
    coordinates: Coordinates | None
    """Of *correlated*."""
    centre: Array
    """x̄, (groups, p)."""
    value: Array
    """c, (groups,)."""
    weights: Array
    """E[w], (groups, p)."""
    covariance: Array
    """Cov[(w, c)], (groups, p + 1, p + 1), float32."""
    noise: Array
    """E[σ], (groups,)."""
    variance: Array
    """E[σ²], (groups,)."""
    rows: Array
    """n, (groups,)."""
    missing: int
    learned_groups: int
    rounds: int
    converged: bool

    def predict(self, X: Array, groups: Array, spread: bool = False) -> tuple[Array, Array]:
        """Means (rows,) and, with ``spread``, standard deviations of new targets; group −1 is a new group."""
        mean, deviation = np.empty(len(X)), np.empty(len(X) if spread else 0)
        weights = np.concatenate([self.weights, self.prior.mean[None]])
        unknown = self.between.mean - self.scaling.centre @ self.prior.mean
        intercepts = np.append(self.intercepts, unknown)
        for part in _parts(len(X), self.weights.shape[1] ** 2 if spread else self.weights.shape[1]):
            chosen, rows = groups[part], X[part]
            if spread or np.isnan(rows.sum()):
                centre = np.where((chosen < 0)[:, None], self.scaling.centre, self.centre[chosen])
                gaps = np.isnan(rows)
                rows = np.where(gaps, centre, rows)
            mean[part] = intercepts[chosen] + np.einsum("ij,ij->i", rows, weights[chosen])
            if spread:
                variance = self._variances(chosen, rows - centre)
                if gaps.any():  # a missing value could have been any other, which adds to the variance
                    spans = (weights[chosen] ** 2 + self._weight_variances(chosen)) * self.scaling.features**2
                    variance += np.where(gaps, spans, 0.0).sum(axis=1)
                deviation[part] = np.sqrt(variance)
        return mean, deviation

    def _variances(self, chosen: Array, offset: Array) -> Array:
        """Var[y] at (x − x̄), (rows,)."""
        new = chosen < 0
        token = np.concatenate([offset, np.ones((len(offset), 1))], axis=1)
        C = self.covariance[chosen] if len(self.covariance) else np.zeros((len(offset), 1, 1))
        variance = np.einsum("ij,ijk,ik->i", token, C, token) + self.variance[chosen]
        if new.any():
            variance[new] = np.einsum("ij,jk,ik->i", token[new], self.new, token[new]) + self.prior.noise.variance
        return np.maximum(variance, 0.0)

    def _weight_variances(self, chosen: Array) -> Array:
        own = np.diagonal(self.covariance, axis1=1, axis2=2)[chosen, :-1]
        return np.where((chosen < 0)[:, None], self.prior.spread**2, own)

    @property
    def weight_deviations(self) -> Array:
        """(groups, p): standard deviations of the weights."""
        return np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2)[:, :-1].astype(np.float64))

    @property
    def intercepts(self) -> Array:
        """(groups,): values where all features are 0."""
        return self.value - np.einsum("ij,ij->i", self.centre, self.weights)

    def extended(self, rows: GroupedRows, on_chunk: OnChunk) -> Fitted:
        """With more groups, whose posteriors use the prior that was learned before."""
        solve = _solver(rows, "auto")
        more = _solve_all(rows, self.intercept, self.scaling, self.inner, self.coordinates, on_chunk, solve)
        if self.intercept == POOLED:
            _pool(more, self.scaling, self.between)
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(self, name), value]) for name, value in more.items() if name != "missing"
        }
        return replace(self, **joined, missing=self.missing + more["missing"])


def _parts(count: int, width: int) -> Iterator[slice]:
    step = max(1, _CHUNK_ENTRIES // max(1, width))
    for begin in range(0, count, step):
        yield slice(begin, begin + step)


def fit_groups(rows: GroupedRows, intercept: str, on_chunk: OnChunk, backend: str = "auto") -> Fitted:
    """Learn the prior from the groups, then give each its posterior.

    Parameters
    ----------
    rows: of all groups.
    intercept: "free", "pooled", "correlated" or "none"; with fewer than `learning.FEWEST_FOR_MEAN` groups, pooled and
        correlated are free.
    on_chunk: called with the groups done so far and all groups.
    backend: "reference" is NumPy, "fused" is the compiled kernel, "auto" is whichever is faster.
    """
    if intercept in (POOLED, CORRELATED) and rows.groups < FEWEST_FOR_MEAN:
        intercept = FREE
    p = rows.features
    most = max(64, min(LEARNING_GROUPS, _LEARNING_ENTRIES // (p + 1) ** 2))
    subset = None
    if rows.groups > most:
        subset = np.sort(np.random.default_rng(_SUBSET_SEED).choice(rows.groups, most, replace=False))
    numbers, parts = zip(*rows.chunks(subset), strict=True)
    scaling, solvable = scaling_of(parts, intercept)
    order = np.argsort(np.concatenate(numbers))  # as they came, since chunks are sorted by size
    examples, gram = (np.concatenate(arrays)[order] for arrays in list(zip(*solvable, strict=True))[:2])
    solve = _solver(rows, backend)
    coordinates, on_round = None, lambda number: on_chunk(0, rows.groups)
    if intercept == CORRELATED:
        coordinates, learned = _learn_correlated(examples, gram, solve, on_round)
    else:
        learned = learn(examples, gram, solve, on_round)
    solved = _solve_all(rows, intercept, scaling, learned.prior, coordinates, on_chunk, solve)
    prior = _outer(learned.prior, scaling, coordinates)
    between = _between(solved, scaling, intercept, subset)
    if intercept == POOLED:
        _pool(solved, scaling, between)
    new = np.diag(np.append(prior.spread, between.scale) ** 2)
    if coordinates is not None:
        new = coordinates.covariance(np.diag(learned.prior.spread**2)) * _unit(scaling, p + 1)
        between = replace(between, scale=float(np.sqrt(new[p, p])))
    return Fitted(
        intercept,
        scaling,
        prior,
        between,
        new,
        learned.prior,
        coordinates,
        **solved,
        learned_groups=len(gram),
        rounds=learned.rounds,
        converged=learned.converged,
    )


def _learn_correlated(
    examples: Array, gram: Array, solve: Solver, on_round: Callable[[int], None]
) -> tuple[Coordinates, Learned]:
    """Coordinates in which weights are not correlated, and the prior of the weights in them."""
    coordinates, mean = Coordinates.start(gram), None
    size, groups = len(coordinates.origin), len(gram)
    for _ in range(_TURNS):
        turned = coordinates.gram(gram)
        learned = learn(examples, turned, solve, on_round, mean)
        found = solve(examples, turned, learned.prior, learned.prior.scale, False)
        left = found.mean - learned.prior.mean
        moments = (left.T @ left + found.covariance.sum(axis=0)) / groups
        # As if `size` more groups showed no correlation: a few groups say little about so many numbers.
        moments = (groups * moments + size * np.diag(np.diagonal(moments))) / (groups + size)
        deviations = np.sqrt(np.diagonal(moments))
        correlations = moments / (deviations[:, None] * deviations) - np.eye(size)
        if np.abs(correlations).max() < _UNCORRELATED:
            break
        values, vectors = np.linalg.eigh(moments)
        turn = vectors * np.sqrt(np.maximum(values, _RIDGE * values[-1]))
        mean = np.linalg.solve(turn, learned.prior.mean)
        coordinates = coordinates._replace(basis=coordinates.basis @ turn)
    return coordinates, learned


def _between(solved: dict[str, Any], scaling: Scaling, intercept: str, subset: Array | None) -> Between:
    """How groups differ as a whole, from those that the prior was learned from."""
    p, chosen = len(scaling.features), slice(None) if subset is None else subset
    centre, value, weights = (solved[name][chosen] for name in ("centre", "value", "weights"))
    at_centre = value + np.einsum("ij,ij->i", scaling.centre - centre, weights)
    mean = float(at_centre.mean())
    if intercept != POOLED or len(value) < FEWEST_FOR_MEAN:
        return Between(mean, float(at_centre.std()), mean, np.zeros(p), np.inf)
    error = solved["variance"][chosen] / np.maximum(solved["rows"][chosen], _NO_ROWS)
    columns = np.ones((len(value), 1))
    if len(value) > _GROUPS_A_SLOPE * (p + 1):
        columns = np.column_stack([columns, (centre - scaling.centre) / scaling.features])
    around, wider = float(value.var()), np.ones(len(value))
    for _ in range(_BETWEEN_ROUNDS):  # EM for the scatter around the regression, whose weights depend on it
        share = 1 / (wider * around + error + _TINY)
        weighted = columns * share[:, None]
        system = weighted.T @ columns
        coefficients = np.linalg.solve(system + _RIDGE * np.trace(system) * np.eye(len(system)), weighted.T @ value)
        wider, expected = _heavy(value - columns @ coefficients, error, around, wider)
        around = float((expected / wider).sum() / (len(value) - len(system)))
    slopes = np.zeros(p)
    slopes[: len(system) - 1] = coefficients[1:] / scaling.features[: len(system) - 1]
    return Between(mean, float(at_centre.std(ddof=1)), float(coefficients[0]), slopes, float(np.sqrt(around)))


def _pool(solved: dict[str, Any], scaling: Scaling, between: Between) -> None:
    """Pull the groups' means towards what the regression between groups expects."""
    error = solved["variance"] / np.maximum(solved["rows"], _NO_ROWS)
    expected = between.level + (solved["centre"] - scaling.centre) @ between.slopes
    left, wider = solved["value"] - expected, np.ones(len(error))
    for _ in range(_HEAVY_ROUNDS):
        wider, _ = _heavy(left, error, between.around**2, wider)
    share = 1 / (1 + error / np.maximum(wider * between.around**2, _TINY))
    solved["value"] = expected + share * left
    solved["covariance"][:, -1, -1] = share * error


def _heavy(left: Array, error: Array, around: float, wider: Array) -> tuple[Array, Array]:
    """The factor on each group's variance around the regression, and its expected square. One step of EM.

    Student's t as a mixture of normals: a group that is far from the regression is not pulled towards it.
    """
    share = 1 / (1 + error / np.maximum(wider * around, _TINY))
    expected = (share * left) ** 2 + share * error
    return (_FREEDOM + expected / max(around, _TINY)) / (_FREEDOM + 1), expected


def _solver(rows: GroupedRows, backend: str) -> Solver:
    """The compiled kernel where it is worth loading."""
    fused = uses_kernels(backend, rows.groups * (rows.features + 1) ** 2 >= _WORTH_COMPILING)
    return _compiled if fused else posteriors


def _compiled(examples: Array, gram: Array, prior: WeightPrior, scale: Array, learning: bool = True) -> Posteriors:
    """`posteriors` by the compiled kernel."""
    from ridgeformer.kernels.group_posteriors import group_posteriors

    found = group_posteriors(examples, gram, prior.mean, scale, prior.noise.levels, prior.noise.weights, learning)
    covariance = (scale[:, None] * scale) * found.total
    return Posteriors(
        prior.mean + scale * found.mean, covariance, found.within, found.probability, found.log_likelihood
    )


def scaling_of(parts: Sequence[Problems], intercept: str) -> tuple[Scaling, list[tuple[Array, Array, Array]]]:
    """The units for these problems, and n, Gram matrices and centres of each part in these units."""
    scaling = _scaling(parts)
    return scaling, [_solvable(part, intercept, scaling) for part in parts]


def _scaling(parts: Sequence[Problems]) -> Scaling:
    """From the problems that the prior is learned from."""
    examples = np.concatenate([part.examples for part in parts])
    means = np.concatenate([part.mean for part in parts])
    present = ~np.isnan(means)
    shares = examples[:, None] * present
    centre = (np.where(present, means, 0.0) * shares).sum(axis=0)
    centre = centre / np.where(shares.sum(axis=0) > 0, shares.sum(axis=0), 1.0)
    squares = sum(np.diagonal(part.gram, axis1=1, axis2=2).sum(axis=0) for part in parts)
    freedom = max(float(np.maximum(examples - 1, 0.0).sum()), 1.0)
    between = (np.where(present, means - centre, 0.0) ** 2 * shares).sum(axis=0)
    deviation = np.sqrt(squares / freedom)
    overall = np.sqrt((squares + between) / max(float(examples.sum()), 1.0))
    # A feature that varies by no more than rounding is constant within groups; then take its variation between groups.
    still = deviation <= _ROUNDING * (np.abs(centre) + overall)
    deviation = np.where(still, np.where(overall > _ROUNDING * np.abs(centre), overall, 1.0), deviation)
    return Scaling(centre[:-1], deviation[:-1], float(deviation[-1]) or 1.0, float(centre[-1]))


_ROUNDING = 1e-13


def _solvable(problems: Problems, intercept: str, scaling: Scaling) -> tuple[Array, Array, Array]:
    """n (groups,), Gram matrices in the units of ``scaling``, and the centres x̄ and ȳ (groups, p + 1) of problems.

    With *correlated* the Gram matrices have one more row and column, before those of y: the feature that is always 1.
    """
    examples, gram, mean, _ = problems
    units = np.append(scaling.features, scaling.target)
    centre = np.append(scaling.centre, scaling.level if intercept == CORRELATED else 0.0)
    mean = np.where(np.isnan(mean), centre, mean)
    gram = gram / (units[:, None] * units)
    if intercept in (FREE, POOLED):
        return np.maximum(examples - 1, 0.0), gram, mean
    if intercept == NONE:
        centre = np.zeros_like(centre)
    offset = (mean - centre) / units
    if intercept == CORRELATED:
        ones = gram.shape[1] - 1
        gram = np.insert(np.insert(gram, ones, 0.0, axis=1), ones, 0.0, axis=2)
        offset = np.insert(offset, ones, 1.0, axis=1)
    gram = gram + examples[:, None, None] * offset[:, :, None] * offset[:, None]
    return examples, gram, np.broadcast_to(centre, mean.shape)


def _solve_all(
    rows: GroupedRows,
    intercept: str,
    scaling: Scaling,
    prior: WeightPrior,
    coordinates: Coordinates | None,
    on_chunk: OnChunk,
    solve: Solver,
) -> dict[str, Any]:
    """The arrays of `Fitted` that hold one entry for each group."""
    p, groups = rows.features, rows.groups
    out: dict[str, Array] = {
        "centre": np.empty((groups, p)),
        "value": np.empty(groups),
        "weights": np.empty((groups, p)),
        "covariance": np.empty((groups, p + 1, p + 1), np.float32),
        "noise": np.empty(groups),
        "variance": np.empty(groups),
        "rows": np.empty(groups),
    }
    levels = prior.noise.levels
    missing = done = 0
    largest = max(1, min(2048, _LEARNING_ENTRIES // ((p + 1) * (p + 1 + len(levels)))))
    for numbers, problems in rows.chunks(largest=largest):
        examples, gram, mean = _solvable(problems, intercept, scaling)
        gram = gram if coordinates is None else coordinates.gram(gram)
        found = solve(examples, gram, prior, prior.spread, False)
        variance = found.levels @ levels**2
        weights, own, value = found.mean, found.covariance, mean[:, -1]
        if coordinates is not None:
            weights, own = coordinates.weights(weights), coordinates.covariance(own)
            value = value + scaling.target * weights[:, p]
        size = weights.shape[1]  # p, or p + 1
        C = np.zeros((len(numbers), p + 1, p + 1))
        C[:, :size, :size] = own * _unit(scaling, size)
        if intercept in (FREE, POOLED):
            C[:, p, p] = scaling.target**2 * variance / np.maximum(problems.examples, _NO_ROWS)
        entries = (mean[:, :-1], value, weights[:, :p] * (scaling.target / scaling.features), C)
        for name, array in zip(("centre", "value", "weights", "covariance"), entries, strict=True):
            out[name][numbers] = array
        out["noise"][numbers] = scaling.target * (found.levels @ levels)
        out["variance"][numbers] = scaling.target**2 * variance
        out["rows"][numbers] = problems.examples
        missing += problems.missing
        done += len(numbers)
        on_chunk(done, groups)
    return {**out, "missing": missing}


_TINY = 1e-300
_RIDGE = 1e-12  # keeps a regression solvable whose columns are not independent
_GROUPS_A_SLOPE = 5  # groups for each slope between groups: with fewer it is not worth learning
_BETWEEN_ROUNDS, _HEAVY_ROUNDS = 60, 10
_FREEDOM = 4  # degrees of freedom of the distribution of groups' means: heavy tails, yet with a variance
_NO_ROWS = 1e-3  # rows of a group without any: its value is then known to some thirty times the noise


_TURNS = 30  # of the coordinates of correlated weights, at most
_UNCORRELATED = 0.02  # correlation of coordinates that is left as it is


def _unit(scaling: Scaling, size: int) -> Array:
    """What covariances of weights, or of weights and intercept, are multiplied with to be in the user's units."""
    unit = np.append(scaling.target / scaling.features, scaling.target)[:size]
    return unit[:, None] * unit


def _outer(inner: WeightPrior, scaling: Scaling, coordinates: Coordinates | None) -> WeightPrior:
    """The prior of the features' weights in the user's units."""
    p, unit = len(scaling.features), scaling.target / scaling.features
    noise = NoiseLevels(inner.noise.levels * scaling.target, inner.noise.weights)
    mean, variance, uncertain = inner.mean, inner.scale**2, inner.mean_variance
    if coordinates is not None:
        mean = coordinates.weights(mean)[:p]
        variance, uncertain = (np.diagonal(coordinates.covariance(np.diag(own)))[:p] for own in (variance, uncertain))
    return WeightPrior(mean * unit, np.sqrt(variance) * unit, noise, uncertain * unit**2)
