"""Made-up groups for the tests of the estimators: weights and noise levels are known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ridgeformer.core.notation import Array


class Grouped(NamedTuple):
    """Rows with their groups, what they were made from, and as many fresh rows."""

    X: Array  # (rows, p)
    y: Array  # (rows,)
    groups: Array  # (rows,)
    weights: Array  # (groups, p)
    sigma: Array  # (groups,)
    fresh_features: Array  # (4 · groups, p)
    fresh_y: Array
    fresh_groups: Array


def made_up_groups(
    count: int,
    p: int,
    sizes: int | tuple[int, int],
    noise: str = "uniform",
    mean: float = 0.0,
    scale: float = 1.0,
    intercept: float = 0.0,
    seed: int = 0,
) -> Grouped:
    """``count`` groups of N(mean, scale²) weights, noise of "uniform" U(0, 5), "two" levels 1 and 3, or "lognormal"."""
    rng = np.random.default_rng(seed)
    n = np.full(count, sizes) if isinstance(sizes, int) else rng.integers(sizes[0], sizes[1] + 1, count)
    sigma = {
        "uniform": 5 * rng.random(count),
        "two": rng.choice([1.0, 3.0], count),
        "lognormal": np.exp(0.7 * rng.standard_normal(count)),
        "small": np.full(count, 1e-4),
    }[noise]
    weights = mean + scale * rng.standard_normal((count, p))
    level = intercept * rng.standard_normal(count)

    def rows(groups: Array) -> tuple[Array, Array]:
        X = rng.standard_normal((len(groups), p))
        clean = level[groups] + np.einsum("ij,ij->i", X, weights[groups])
        return X, clean + sigma[groups] * rng.standard_normal(len(groups))

    groups, fresh = np.repeat(np.arange(count), n), np.repeat(np.arange(count), 4)
    X, y = rows(groups)
    fresh_features, fresh_y = rows(fresh)
    return Grouped(X, y, groups, weights, sigma, fresh_features, fresh_y, fresh)
