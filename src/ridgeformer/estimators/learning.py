"""Learning the prior of many problems from the problems themselves: empirical Bayes. NumPy only.

The model is that of `ridgeformer.estimators.empirical_bayes`: w_g ~ N(μ, diag τ²), σ_g ~ F. At the maximum of
Σ_g log p(y_g) all derivatives are zero. These steps, taken in turns, lead there:

    F_k  ← mean over g of p(σ_k | y_g)                                     (EM)
    μ    ← μ + H⁻¹ Σ_g E[u_g] / τ,   H = Σ_g (I − E[Cov_g | σ]) / ττᵀ      (generalised least squares)
    τ_j² ← τ_j² Σ_g E[u_gj²] / Σ_g (1 − Var_gj)                            (MacKay 1992: the fixed point of EM, faster)

The maximum itself would be too certain after a few hundred problems, so each part is regularised:

* μ and ln τ are estimates with standard errors. μ is pulled towards zero, and ln τ towards its common value, more
  strongly if the estimates differ by no more than those errors: empirical Bayes again, across features.
* EM for F starts from levels that are equally likely on a logarithmic scale. Each step makes F sharper, and in the end
  F would be a few spikes. When to stop, and whether F is really only a few levels, is decided by the likelihood of
  problems that were left out (two halves, each judged by what was learned from the other).
* F gets one more problem, of which nothing is known, so that every level stays possible.
* With fewer than `FEWEST_FOR_MEAN` problems μ = 0 and all features have the same τ, which is Bayesian ridge regression.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ridgeformer.core.notation import Array
from ridgeformer.estimators.empirical_bayes import NoiseLevels, Posteriors, Solver, WeightPrior

FEWEST_FOR_MEAN = 5
"""With fewer problems the mean of the weights is not learned: two or three problems say little about it."""
_ROUNDS = 60  # of learning at most; about six are usual
_CLOSE = 2e-3  # of τ: how much μ and τ may still change in a round; their own errors are mostly larger than that
_ROUGH_GROUPS = 512  # or a few more, from which the first rounds learn where a finer grid belongs
_FIRST_LEVELS, _FIRST_DEPTH = 28, 1e-5  # a first, coarse grid: levels, and the lowest over the highest
_FLOOR = 1e-11  # lowest σ² over the largest eigenvalue of any A: what rounding leaves of a noise-free problem
_STEP_WIDTHS = 0.75  # step of the grid of ln σ over the width 1/√(2(n − p)) of a posterior
_MOST_LEVELS = 96
_EXPECTED = 0.05  # expected number of problems at a level: levels beyond the last one with more are dropped
_TAIL = np.cumsum(
    np.geomspace(0.2, 1.2, 5)
)  # levels beyond each end of the grid, in ln σ: for problems that come later
_SMOOTH_STEPS = 10  # of EM while μ and τ are learned, which depend little on F
_STEPS = (3, 6, 12, 25, 50, 100)  # of EM, among which the likelihood of problems left out chooses
_ATOMS = 4  # levels of a distribution of a few levels, at most
_ATOM_STEPS = 8, 30  # of EM for them at most: to see how many there are, and to place them
_SETTLED = 2e-4  # change of ln σ that ends them
_TIE = 1.0  # in log-likelihood: more levels must be better by more than this than fewer levels
_MOST_TO_CHOOSE = 512  # problems that are left out or fitted to choose
_FEWEST_TO_CHOOSE = 12  # problems: below, F stays as smooth as the first few steps of EM leave it


class Learned(NamedTuple):
    """A prior, and how it was found."""

    prior: WeightPrior
    rounds: int
    converged: bool


def learn(
    examples: Array, gram: Array, solve: Solver, on_round: Callable[[int], None], mean: Array | None = None
) -> Learned:
    """The prior that explains these problems best.

    Parameters
    ----------
    examples: n of each problem, (groups,).
    gram: (groups, p + 1, p + 1), features of about unit variance.
    solve: gives posteriors.
    on_round: called after each round with its number.
    mean: μ to start from, (p,); zero unless given.

    Returns the prior, the number of rounds, and whether they ended because nothing changed any more.
    """
    prior, chosen, refined, number = _start(examples, gram), False, False, 0
    if mean is not None:
        prior = replace(prior, mean=mean)
    some = slice(None, None, max(1, len(gram) // _ROUGH_GROUPS))
    for number in range(1, _ROUNDS + 1):
        part = slice(None) if refined else some
        found = solve(examples[part], gram[part], prior, prior.scale, True)
        mean, variance, scale = _weights_step(found, prior)
        change = _change(prior, mean, scale, found)
        on_round(number)
        noise = prior.noise
        if not chosen:
            noise, expected = _em(found.log_likelihood, noise.levels, _SMOOTH_STEPS)
        if not refined and number >= 2:  # rough μ, τ and F say where a finer grid belongs
            noise, refined = _refined(noise.levels, expected, examples, gram.shape[1] - 1), True
        elif refined and not chosen and change < 4 * _CLOSE:
            noise, chosen = _chosen_noise(found.log_likelihood, prior.noise.levels), True
        elif chosen and change < _CLOSE:
            return Learned(WeightPrior(mean, scale, noise, variance), number, True)
        prior = WeightPrior(mean, scale, noise, variance)
    if not chosen:
        prior = replace(prior, noise=_chosen_noise(found.log_likelihood, noise.levels))
    return Learned(prior, number, False)


def _change(prior: WeightPrior, mean: Array, scale: Array, found: Posteriors) -> float:
    """How much μ changes, in units of τ, and ln τ; changes count less where the data say little about a weight."""
    determined = 1 - np.diagonal(found.within, axis1=1, axis2=2).mean(axis=0)  # mean of 1 − Var[u | σ]
    moved = np.sqrt(np.maximum(determined, 0.0)) * np.abs(mean - prior.mean) / prior.scale
    grown = determined * np.abs(np.log(scale / prior.scale))
    return float(max(moved.max(initial=0.0), grown.max(initial=0.0)))


def _start(examples: Array, gram: Array) -> WeightPrior:
    """No mean, half of the targets' variance for the features, and levels over five powers of ten."""
    p = gram.shape[1] - 1
    rows = np.maximum(examples, 1.0)
    energy = gram[:, -1, -1] / rows
    traces = np.trace(gram[:, :-1, :-1], axis1=1, axis2=2)
    features = float(traces.sum() / rows.sum()) or 1.0  # variance of all features together
    scale = np.full(p, np.sqrt(0.5 * (float(energy.mean()) or 1.0) / features))
    top = np.sqrt(max(2 * float(energy.max()), 1e-200))
    lowest = max(_FIRST_DEPTH * top, np.sqrt(_FLOOR * float(traces.max()) * float((scale**2).max(initial=0.0))))
    levels = np.geomspace(min(lowest, top / 2), top, _FIRST_LEVELS)
    return WeightPrior(np.zeros(p), scale, NoiseLevels(levels, _alike(levels)), np.zeros(p))


# --- the noise --------------------------------------------------------------------------------------------------------


def _alike(levels: Array) -> Array:
    """Weights of levels that are equally likely on the logarithmic scale."""
    gaps = np.gradient(np.log(levels))
    return gaps / gaps.sum()


def _densities(likelihood: Array) -> Array:
    """p(y | σ_k) of each problem, up to a factor of its own."""
    return np.exp(likelihood - likelihood.max(axis=1, keepdims=True))


def _em_path(density: Array, base: Array, steps: tuple[int, ...]) -> dict[int, Array]:
    """Weights of F after so many steps of EM from ``base``, which also counts as one problem more."""
    weights, path = base, {}
    for step in range(1, max(steps) + 1):
        expected = weights * ((1 / (density @ weights)) @ density)
        weights = (expected + base) / (len(density) + 1)
        if step in steps:
            path[step] = weights
    return path


def _em(likelihood: Array, levels: Array, steps: int) -> tuple[NoiseLevels, Array]:
    """F after so many steps of EM, and the number of problems expected at each level."""
    base = _alike(levels)
    weights = _em_path(_densities(likelihood), base, (steps,))[steps]
    return NoiseLevels(levels, weights / weights.sum()), (len(likelihood) + 1) * weights - base


def _refined(levels: Array, expected: Array, examples: Array, p: int) -> NoiseLevels:
    """A finer grid over the levels that problems have, as fine as posteriors are narrow."""
    logarithm = np.log(levels)
    step = logarithm[1] - logarithm[0]
    used = np.flatnonzero(expected > min(_EXPECTED, 0.5 * float(expected.max())))
    low, high = logarithm[used[0]] - step, logarithm[used[-1]] + step
    typical = float(np.median(examples))
    width = 1 / np.sqrt(2 * max(typical - p, 0.2 * typical, 1.0))
    count = int(min(_MOST_LEVELS, max(16, np.ceil((high - low) / (_STEP_WIDTHS * width)))))
    finer = np.exp(np.concatenate([low - _TAIL[::-1], np.linspace(low, high, count), high + _TAIL]))
    return NoiseLevels(finer, _alike(finer))


def _chosen_noise(likelihood: Array, levels: Array) -> NoiseLevels:
    """F as smooth, or with as few levels, as best explains problems that it was not learned from."""
    base, count = _alike(levels), len(likelihood)
    if count < _FEWEST_TO_CHOOSE:
        return _em(likelihood, levels, _STEPS[0])[0]
    judged = likelihood[:: -(-count // _MOST_TO_CHOOSE)]
    density = _densities(judged)
    smooth = dict.fromkeys(_STEPS, 0.0)
    halves = (slice(0, None, 2), slice(1, None, 2))
    for inside, outside in (halves, halves[::-1]):
        for steps, weights in _em_path(density[inside], base, _STEPS).items():
            smooth[steps] += float(np.log(density[outside] @ weights).sum())
    steps = max(smooth, key=lambda number: smooth[number])
    number = 0
    if steps >= _STEPS[-2]:  # otherwise a sharper F is already worse
        pairs = [(judged[inside], judged[outside]) for inside, outside in (halves, halves[::-1])]
        number = _number_of_atoms(pairs, levels, smooth[steps])
    if number == 0:
        # Sharpness grows with the number of problems: twice as many can tell twice as sharply.
        steps = min(_STEPS[-1], round(steps * 2 * count / len(judged)))
        weights = _em_path(_densities(likelihood), base, (steps,))[steps]
        return NoiseLevels(levels, weights / weights.sum())
    places, weights = _atoms(likelihood, levels, number, _ATOM_STEPS[1])
    every = np.concatenate([levels, np.exp(places)])
    shares = np.concatenate([base, weights * count]) / (count + 1)
    order = np.argsort(every)
    return NoiseLevels(every[order], shares[order])


def _number_of_atoms(halves: list[tuple[Array, Array]], levels: Array, smooth: float) -> int:
    """How many levels F has if it has only a few; 0 if a smooth F, whose score is given, explains problems better."""
    base = _alike(levels)
    scores: list[float] = []
    for number in range(1, _ATOMS + 1):
        score = 0.0
        for inside, outside in halves:
            places, weights = _atoms(inside, levels, number, _ATOM_STEPS[0])
            heights = np.exp(_at(outside, levels, places) - outside.max(axis=1, keepdims=True)) @ weights
            mixed = (heights * len(inside) + _densities(outside) @ base) / (len(inside) + 1)
            score += float(np.log(mixed).sum())
        scores.append(score)
        gained = scores[-1] - scores[-2] if number > 1 else np.inf
        if gained < 0 or gained * (_ATOMS - number) < smooth - scores[-1]:  # more will not make up for what is missing
            break
    best = max(scores)
    return 0 if best < smooth else 1 + next(place for place, score in enumerate(scores) if score >= best - _TIE)


def _atoms(likelihood: Array, levels: Array, count: int, steps: int) -> tuple[Array, Array]:
    """ln σ and weights of so many levels, by EM over both."""
    logarithm = np.log(levels)
    smooth = _em_path(_densities(likelihood), _alike(levels), _STEPS[:1])[_STEPS[0]]
    places = np.interp((np.arange(count) + 0.5) / count, np.cumsum(smooth) / smooth.sum(), logarithm)
    weights = np.full(count, 1 / count)
    for _ in range(steps):
        at_places = _at(likelihood, levels, places)
        responsible = np.exp(at_places - at_places.max(axis=1, keepdims=True)) * weights
        responsible /= responsible.sum(axis=1, keepdims=True)
        before, weights = places, responsible.mean(axis=0)
        places = np.array([_peak(logarithm, curve) for curve in responsible.T @ likelihood])
        if np.abs(places - before).max() < _SETTLED:
            break
    return places, weights


def _peak(x: Array, curve: Array) -> float:
    """Where a smooth curve on a grid is highest, to a fiftieth of a step."""
    top = min(max(int(curve.argmax()), 1), len(x) - 2)
    places = np.linspace(x[top - 1], x[top + 1], 101)
    near = _near(x, top)
    return float(places[(_lagrange(x[near], places) @ curve[near]).argmax()])


def _near(x: Array, middle: int) -> slice:
    """The five points of a grid around one of them."""
    first = min(max(middle - 2, 0), len(x) - 5)
    return slice(first, first + 5)


def _lagrange(near: Array, places: Array) -> Array:
    """(places, 5): the weight of each of five points in the polynomial through all five, at any places."""
    factors = (places[:, None, None] - near) / (near[:, None] - near + _SELF)
    factors[:, _SELF > 0] = 1.0
    return factors.prod(axis=2)


_SELF = np.eye(5)


def _at(likelihood: Array, levels: Array, places: Array) -> Array:
    """log p(y | σ) at any places of ln σ, (problems, places), from its values on the grid."""
    x = np.log(levels)
    out = np.empty((len(likelihood), len(places)))
    for column, place in enumerate(places):
        near = _near(x, int(np.abs(x - place).argmin()))
        out[:, column] = likelihood[:, near] @ _lagrange(x[near], places[column : column + 1])[0]
    return out


# --- the weights ------------------------------------------------------------------------------------------------------


def _weights_step(found: Posteriors, prior: WeightPrior) -> tuple[Array, Array, Array]:
    """μ, the variance of what was learned of it, and τ."""
    groups, p = found.mean.shape
    scale = prior.scale
    deviation = (found.mean - prior.mean) / scale  # E[u]
    known = np.maximum(1 - np.diagonal(found.within, axis1=1, axis2=2), 0.0)  # 1 − Var[u | σ]
    spread = np.diagonal(found.covariance, axis1=1, axis2=2) / scale**2 - (1 - known)  # Var of E[u | σ]
    squares, counts = (deviation**2 + spread).sum(axis=0), known.sum(axis=0)
    if groups < FEWEST_FOR_MEAN:
        common = (squares.sum() + _TINY) / (counts.sum() + _TINY)
        return np.zeros(p), np.zeros(p), scale * np.sqrt(np.clip(common, _SLOWEST, 1 / _SLOWEST))
    H = (np.eye(p) * (groups + _TINY) - found.within.sum(axis=0)) / (scale[:, None] * scale)
    estimate = prior.mean + np.linalg.solve(H, deviation.sum(axis=0) / scale)
    size = _typical_size(estimate, np.diagonal(np.linalg.inv(H)))
    held = H + np.eye(p) / size**2
    mean, variance = np.linalg.solve(held, H @ estimate), np.diagonal(np.linalg.inv(held))
    counts = np.maximum(counts - counts / groups, _TINY)  # a degree of freedom went into the mean
    logarithm = np.log(np.clip((squares + _TINY) / counts, _SLOWEST, 1 / _SLOWEST) * scale**2)
    error = 2 / counts
    common = np.average(logarithm, weights=1 / error)
    differ = _typical_size(logarithm - common, error) ** 2
    return mean, variance, np.exp(0.5 * (common + (logarithm - common) * differ / (differ + error)))


_TINY = 1e-9  # of a problem: keeps divisions finite for features of which nothing is known
_SLOWEST = 0.01  # factor by which τ² changes in a round, at most


def _typical_size(estimates: Array, variances: Array) -> float:
    """The standard deviation κ of values around zero, given estimates of them with these variances.

    The geometric mean over p(κ | estimates), κ equally likely on a logarithmic scale: small where the estimates do not
    differ from zero by more than their errors.
    """
    errors = np.sqrt(variances)
    kappa = np.geomspace(0.03 * errors.min(), 30 * max(float(np.abs(estimates).max()), float(errors.min())), 48)
    total = variances + kappa[:, None] ** 2
    score = -0.5 * (np.log(total) + estimates**2 / total).sum(axis=1)
    share = np.exp(score - score.max())
    return float(np.exp(share @ np.log(kappa) / share.sum()))
