from __future__ import annotations

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.gradient import EXPLODED
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw
from ridgeformer.core.task import ContextDraw
from ridgeformer.evaluation import adjusted_losses
from ridgeformer.training.hard_contexts import Mining, mine, stretched, widened

TASK = rf.Task(dim=3, examples=8, noise="uniform:2")
MINING = Mining(pool=40, keep=50, memory=120, stretch=1.5)


def shaky_model() -> rf.LinearTransformer:
    """Weights large enough that some contexts explode, and most do not."""
    return rf.LinearTransformer.init("diag", layers=4, dim=3, scale=0.12, seed=3, dtype=np.float64)


def losses_of(model: rf.LinearTransformer, found: GramDraw) -> Array:
    return adjusted_losses(model, rf.Context(found.gram, TASK.context), found.oracle)


def test_stretched_contexts_are_those_of_stretched_targets() -> None:
    tokens = TASK.draw_tokens(20, seed=1)
    draw = ContextDraw(
        rf.Context.from_tokens(tokens.X, tokens.y),
        tokens.weights,
        tokens.sigma,
        tokens.query,
        rf.Context.from_tokens(tokens.X, tokens.y).ridge(tokens.sigma**2),
    )
    factors = np.linspace(1, 2, 20)
    found = stretched(draw, factors)
    by_hand = rf.Context.from_tokens(tokens.X, tokens.y * factors[:, None])
    # Sums of eight products in float64 differ by their rounding.
    np.testing.assert_allclose(found.gram, by_hand.gram, rtol=1e-13)
    # w*_v = (Σ + v)⁻¹ α is linear in α, that is in y.
    np.testing.assert_allclose(found.oracle, by_hand.ridge(tokens.sigma**2), rtol=1e-9)


def test_mine_gives_the_worst_contexts_first_and_leaves_out_the_exploded() -> None:
    model = shaky_model()
    losses = losses_of(model, mine(model, TASK, MINING, batch=100, seed=0, step=0, memory=None))
    assert len(losses) == MINING.keep
    assert (np.diff(losses) <= 0).all()
    assert losses.max() < EXPLODED
    draw = TASK.draw_contexts(4000, seed=5)
    ordinary = adjusted_losses(model, draw.context, draw.oracle)
    assert np.median(losses) > 5 * np.median(ordinary[np.isfinite(ordinary)])


def test_mine_remembers_earlier_contexts_up_to_its_memory() -> None:
    model = shaky_model()
    first = mine(model, TASK, MINING, batch=100, seed=0, step=0, memory=None)
    second = mine(model, TASK, MINING, batch=100, seed=0, step=1, memory=first)
    third = mine(model, TASK, MINING, batch=100, seed=0, step=2, memory=second)
    assert [len(found.gram) for found in (first, second, third)] == [50, 100, 120]
    assert losses_of(model, second).max() >= losses_of(model, first).max()


def test_mine_depends_on_seed_and_step_only() -> None:
    model = shaky_model()
    again = [
        mine(model, TASK, MINING, batch=100, seed=s, step=t, memory=None).gram
        for s, t in ((0, 7), (0, 8), (0, 7), (1, 7))
    ]
    np.testing.assert_array_equal(again[0], again[2])
    assert not np.array_equal(again[0], again[1])
    assert not np.array_equal(again[0], again[3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mine_keeps_the_precision_of_the_model(dtype: type) -> None:
    found = mine(shaky_model().astype(dtype), TASK, MINING, batch=100, seed=0, step=0, memory=None)
    assert {array.dtype for array in found} == {np.dtype(dtype)}


@pytest.mark.parametrize(("dim", "n"), [(3, 8), (4, 5), (5, 5), (5, 3), (1, 1)])
@pytest.mark.parametrize("sigma", [0.5, 2.0])
def test_widened_contexts_are_those_of_tokens_with_larger_features(dim: int, n: int, sigma: float) -> None:
    """Made from tokens: y = <w, b x> + ξ with the same w and ξ."""
    rng = np.random.default_rng(dim + 10 * n)
    X, w, noise = (
        rng.standard_normal((40, n, dim)),
        rng.standard_normal((40, dim)),
        sigma * rng.standard_normal((40, n)),
    )
    factors, query = rng.uniform(1, 1.5, 40), rng.standard_normal((40, dim))
    plain = rf.Context.from_tokens(X, np.einsum("bnd,bd->bn", X, w) + noise)
    wide_X = X * factors[:, None, None]
    wide = rf.Context.from_tokens(wide_X, np.einsum("bnd,bd->bn", wide_X, w) + noise)
    levels = np.full(40, sigma)
    found = widened(GramDraw(plain.gram, w, query, plain.ridge(levels**2)), levels, factors, n)
    np.testing.assert_allclose(found.gram, wide.gram, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.oracle, wide.ridge(levels**2), rtol=1e-8, atol=1e-8)
