"""Tail control and L-BFGS on pools.

Pools stand for the task, see more of its tail, can be drawn again; mined contexts are the worst. The function that is
minimised on a pool has its gradient, and faults are stepped back from.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from plans import FAULTS, NAMES, Fault, FaultyLosses, run_with, short_run, spoiled
from ridgeformer.core.gradient import EXPLODED
from ridgeformer.core.notation import Array
from ridgeformer.core.objective import losses_and_gradient_on
from ridgeformer.core.random import GramDraw, Purpose, token_rng
from ridgeformer.core.storage import strict_json
from ridgeformer.evaluation import adjusted_losses
from ridgeformer.training import TrainConfig, pools, train
from ridgeformer.training.adam_stage import AdamStage
from ridgeformer.training.optimisers import QuasiNewton
from ridgeformer.training.pools import (
    Mining,
    Pool,
    PoolStage,
    mine,
    pool_function,
    sifted_pool,
    stretched,
    stretched_pool,
    widened,
)
from ridgeformer.training.stages import Stage
from support import as_draw, make_examples, relative_error, tame_model

LEVELS = 4  # of stretching
# n ≥ d + 1, drawn as Gram matrices; n < d and n = d, drawn as tokens; noise that is large, small, of a few levels, none
# at all, and none in half of the contexts.
TASKS = [
    (3, 8, "uniform:2"),
    (10, 20, "uniform:5"),
    (5, 3, "uniform:2"),
    (4, 4, "fixed:1"),
    (3, 8, "categorical:1+3"),
    (3, 8, "fixed:0.001"),
    (3, 8, "fixed:0"),
    (5, 3, "fixed:0"),
    (3, 8, "categorical:0+3"),
]


def mild_model(task: rf.Task, kind: str = "diag", layers: int = 2) -> rf.LinearTransformer:
    return tame_model(kind, layers, 1, task.dim, task.draw_contexts(1000, seed=5).context.gram, strength=1.0)


def losses_of(model: rf.LinearTransformer, contexts: GramDraw) -> Array:
    return losses_and_gradient_on(model, contexts)[0]


def statistics(model: rf.LinearTransformer, contexts: GramDraw) -> dict[str, Array]:
    """One number per context of each kind; λ² and ‖w‖⁴ feel the tail."""
    energy, square = contexts.gram[:, -1, -1], (contexts.weights**2).sum(axis=-1)
    return {
        "1": np.ones(len(energy)),
        "λ": energy,
        "λ²": energy**2,
        "‖w‖²": square,
        "‖w‖⁴": square**2,
        "‖Σ‖²": (contexts.gram[:, :-1, :-1] ** 2).sum(axis=(1, 2)),
        "loss": losses_of(model, contexts),
    }


def deviations(model: rf.LinearTransformer, pool: Pool, plain: GramDraw) -> dict[str, float]:
    """How many standard errors the weighted mean of the pool is away from that of plain draws."""
    ordinary, result = statistics(model, plain), {}
    for name, values in statistics(model, pool.contexts).items():
        counted, expected = pool.importance * values, ordinary[name]
        error = np.sqrt(counted.var() / len(counted) + expected.var() / len(expected))
        result[name] = float((counted.mean() - expected.mean()) / error)
    return result


# --- stretched pools --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stretch", "widen"), [(1.1, 1.0), (1.3, 1.0), (1.6, 1.0), (1.2, 1.1), (1.2, 1.3)])
@pytest.mark.parametrize(("dim", "n", "noise"), TASKS)
def test_stretched_pool_weighted_by_importance_has_the_means_of_the_task(
    dim: int, n: int, noise: str, stretch: float, widen: float
) -> None:
    task = rf.Task(dim, n, noise)
    model, pool = mild_model(task), stretched_pool(task, 20_000, stretch, seed=1, number=0, widen=widen)
    plain = task.draw_contexts(40_000, seed=2, backend="fused").as_gram_draw()
    errors = deviations(model, pool, plain)
    assert max(map(abs, errors.values())) < 4, errors
    # The control: without importance they are far off.
    for name in ("λ", "‖Σ‖²") if widen > 1 else ("λ",):
        even, expected = (statistics(model, contexts)[name].mean() for contexts in (pool.contexts, plain))
        assert even > 1.05 * expected


def test_stretched_pool_importance_is_the_ratio_of_densities() -> None:
    """z = (w, ξ/σ), recovered from the stretched Gram matrix alone; densities by SciPy, level by level."""
    from scipy.stats import multivariate_normal

    dim, n, sigma, stretch = 2, 5, 1.5, 1.4
    pool = stretched_pool(rf.Task(dim, n, f"fixed:{sigma}"), 300, stretch, seed=4, number=0)
    gram, w = pool.contexts.gram, pool.contexts.weights
    noise = gram[:, -1, -1] - 2 * np.einsum("bi,bi->b", w, gram[:, :-1, -1])
    noise += np.einsum("bi,bij,bj->b", w, gram[:, :-1, :-1], w)
    length = np.sqrt((w**2).sum(axis=-1) + noise / sigma**2)
    place = length[:, None] * np.eye(dim + n)[0]  # densities depend on the length only
    densities = [
        multivariate_normal(np.zeros(dim + n), b**2 * np.eye(dim + n)).pdf(place)
        for b in np.linspace(1, stretch, LEVELS)
    ]
    np.testing.assert_allclose(pool.importance, densities[0] / np.mean(densities, axis=0), rtol=1e-9)


@pytest.mark.parametrize(("dim", "n", "noise"), TASKS)
def test_stretched_pool_sees_larger_energies_and_has_importances_within_bounds(dim: int, n: int, noise: str) -> None:
    task = rf.Task(dim, n, noise)
    contexts, importance = stretched_pool(task, 5000, 1.3, seed=6, number=0)
    assert importance.shape == (5000,)
    assert (importance > 0).all()
    assert importance.max() <= LEVELS
    energies = contexts.gram[:, -1, -1]
    plain = task.draw_contexts(5000, seed=7).context.energy
    for share in (0.9, 0.99, 0.999):
        assert np.quantile(energies, share) > 1.1 * np.quantile(plain, share)


def arrays(pool: Pool) -> list[Array]:
    return [*(array for array in pool.contexts if array is not None), pool.importance]


def test_stretched_pool_depends_on_seed_and_number_alone() -> None:
    task = rf.Task(3, 8, "uniform:2")
    first, again, *others = [stretched_pool(task, 500, 1.3, *names) for names in ((0, 0), (0, 0), (0, 1), (1, 0))]
    assert all(map(np.array_equal, arrays(first), arrays(again)))
    for other in others:
        assert not np.isin(first.contexts.gram[:, 0, 0], other.contexts.gram[:, 0, 0]).any()
    assert first.contexts.gram.dtype == first.importance.dtype == np.float64


def test_stretched_pool_of_no_stretch_is_a_plain_one() -> None:
    task = rf.Task(3, 8, "uniform:2")
    pool = stretched_pool(task, 40_000, 1.0, seed=9, number=2)
    np.testing.assert_allclose(pool.importance, 1.0, rtol=1e-12)
    pool_seed = int(token_rng(9, Purpose.MINE, 2).integers(2**63))
    drawn = [draw.context.gram for draw in task.chunks(40_000, pool_seed, Purpose.MINE)]
    assert len(drawn) == 2  # chunks
    np.testing.assert_array_equal(pool.contexts.gram, np.concatenate(drawn))


# --- sifted pools -----------------------------------------------------------------------------------------------------

SIFT_TASKS = [(3, 8, "fixed:0"), (3, 8, "uniform:2"), (4, 3, "fixed:1")]


def rows(gram: Array) -> dict[bytes, int]:
    """Where to find each Gram matrix."""
    return {matrix.tobytes(): place for place, matrix in enumerate(gram)}


@pytest.mark.parametrize(("stretch", "widen"), [(1.0, 1.0), (1.3, 1.0), (1.1, 1.1)])
@pytest.mark.parametrize("sift", [1, 8, 40])
@pytest.mark.parametrize(("dim", "n", "noise"), SIFT_TASKS)
def test_sifted_pool_holds_the_very_worst_and_its_weighted_mean_is_that_of_all(
    dim: int, n: int, noise: str, sift: int, stretch: float, widen: float
) -> None:
    task, total = rf.Task(dim, n, noise), 1000 * sift
    model = mild_model(task)
    pool = sifted_pool(model, task, 1000, sift, stretch, seed=1, number=3, widen=widen)
    # All it was taken from; 40 000 come in two chunks.
    whole = stretched_pool(task, total, stretch, seed=1, number=3, widen=widen)
    share = whole.importance * adjusted_losses(model, rf.Context(whole.contexts.gram, n), whole.contexts.oracle)
    where = rows(whole.contexts.gram)
    taken = np.array([where[matrix.tobytes()] for matrix in pool.contexts.gram])
    assert len(set(taken)) == len(taken)  # none comes twice
    np.testing.assert_array_equal(taken[:250], np.argsort(-share, kind="stable")[:250])  # the worst, worst first
    assert pool.contexts.moment is None
    for found, known in zip(pool.contexts[:4], whole.contexts[:4], strict=True):
        np.testing.assert_array_equal(found, known[taken])
    # About 750 of all were sampled; those among the worst are left out, and the others stand for all that were not.
    others = len(taken) - 250
    expected = 750 * (1 - 250 / total)
    assert abs(others - expected) < 4 * np.sqrt(expected)
    counts = np.r_[np.ones(250), np.full(others, (total - 250) / others)]
    assert counts.sum() == pytest.approx(total)
    np.testing.assert_allclose(pool.importance, whole.importance[taken] * counts * len(taken) / total, rtol=1e-12)
    if stretch == widen == 1:  # nothing is stretched
        assert pool.importance.mean() == pytest.approx(1, rel=1e-12)
    # The one source of error is which of the easy contexts were sampled.
    found_mean = (pool.importance * losses_of(model, pool.contexts)).mean()
    error = share[taken[250:]].std() / np.sqrt(others)
    assert abs(found_mean - share.mean()) < 4 * error
    if sift > 1:  # the control: an even mean over the pool is something else
        assert abs(losses_of(model, pool.contexts).mean() - share.mean()) > 8 * error


@pytest.mark.parametrize(("dim", "n", "noise"), SIFT_TASKS)
def test_sifted_pool_weighted_by_importance_has_the_mean_loss_of_the_task(dim: int, n: int, noise: str) -> None:
    task = rf.Task(dim, n, noise)
    model = mild_model(task)
    drawn = (sifted_pool(model, task, 500, 16, 1.3, seed, number=0, widen=1.1) for seed in range(10))
    means = np.array([(pool.importance * losses_of(model, pool.contexts)).mean() for pool in drawn])
    plain = losses_of(model, task.draw_contexts(50_000, seed=2, backend="fused").as_gram_draw())
    error = np.sqrt(means.var(ddof=1) / len(means) + plain.var() / len(plain))
    assert abs(means.mean() - plain.mean()) < 4 * error
    assert error < 0.03 * plain.mean()  # or else this would show nothing


def test_sifted_pool_depends_on_seed_and_number_and_the_model_alone() -> None:
    task = rf.Task(3, 8, "fixed:0")
    model, deeper = mild_model(task), mild_model(task, layers=3)
    names = ((model, 0, 0), (model, 0, 0), (model, 0, 1), (model, 1, 0), (deeper, 0, 0))
    first, again, *others = [sifted_pool(which, task, 200, 8, 1.3, seed, number) for which, seed, number in names]
    assert all(map(np.array_equal, arrays(first), arrays(again)))
    for other in others:
        assert rows(other.contexts.gram).keys() != rows(first.contexts.gram).keys()


def test_sifted_pool_of_a_model_that_explodes_holds_the_explosions() -> None:
    task = rf.Task(3, 8, "fixed:0")
    model = rf.LinearTransformer.init("diag", layers=5, dim=3, scale=1.0, seed=1, dtype=np.float64)
    pool = sifted_pool(model, task, 200, 8, 1.3, 0, 0)
    assert not np.isfinite(losses_of(model, pool.contexts)[:50]).all()
    assert np.isfinite(pool.importance).all()
    assert pool_function(model, pool, 0.0)(model.flatten())[0] == np.inf


@pytest.mark.parametrize("sigma", ["0", "1e-7"])
def test_widened_pool_with_fewer_examples_than_features_and_hardly_any_noise_has_the_ridge_oracle(sigma: str) -> None:
    """Σ has no inverse, so the oracle cannot come from a plain solve."""
    pool = stretched_pool(rf.Task(5, 3, f"fixed:{sigma}"), 1000, 1.3, 0, 0, widen=1.1)
    expected = rf.Context(pool.contexts.gram, 3).ridge(float(sigma) ** 2)
    np.testing.assert_allclose(pool.contexts.oracle, expected, atol=1e-4)


# --- mined, stretched and widened contexts ----------------------------------------------------------------------------

TASK = rf.Task(dim=3, examples=8, noise="uniform:2")
MINING = Mining(pool=40, keep=50, memory=120, stretch=1.5)


def shaky_model() -> rf.LinearTransformer:
    """Weights large enough that some contexts explode, and most do not."""
    return rf.LinearTransformer.init("diag", layers=4, dim=3, scale=0.12, seed=3, dtype=np.float64)


def test_stretched_contexts_are_those_of_stretched_targets() -> None:
    examples, factors = make_examples(20, 8, 3, seed=1), np.linspace(1, 2, 20)
    found = stretched(as_draw(examples).as_gram_draw(), factors)
    by_hand = rf.Context.from_tokens(examples.X, examples.y * factors[:, None])
    # Sums of eight products in float64 differ by their rounding.
    np.testing.assert_allclose(found.gram, by_hand.gram, rtol=1e-13)
    # w*_v = (Σ + v)⁻¹ α is linear in α, that is in y.
    np.testing.assert_allclose(found.oracle, by_hand.ridge(examples.sigma**2), rtol=1e-9)


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
    names = ((0, 7), (0, 7), (0, 8), (1, 7))
    grams = [mine(model, TASK, MINING, batch=100, seed=s, step=t, memory=None).gram for s, t in names]
    assert [np.array_equal(grams[0], gram) for gram in grams[1:]] == [True, False, False]


def test_mine_takes_no_random_number_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    factors: list[Array] = []

    def spy(draw: GramDraw, drawn: Array) -> GramDraw:
        factors.append(drawn)
        return stretched(draw, drawn)

    monkeypatch.setattr(pools, "stretched", spy)
    mine(shaky_model(), TASK, MINING, batch=1, seed=0, step=7, memory=None)
    stream = 1 + 0.5 * token_rng(0, Purpose.MINE, 7).random(41)  # its first number is the seed of the contexts
    np.testing.assert_array_equal(factors[0], stream[1:])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mine_keeps_the_precision_of_the_model(dtype: type) -> None:
    found = mine(shaky_model().astype(dtype), TASK, MINING, batch=100, seed=0, step=0, memory=None)
    assert {array.dtype for array in found if array is not None} == {np.dtype(dtype)}


@pytest.mark.parametrize(("dim", "n"), [(3, 8), (4, 5), (5, 5), (5, 3), (1, 1)])
@pytest.mark.parametrize("sigma", [0.5, 2.0])
@pytest.mark.parametrize("loud", [False, True])
def test_widened_contexts_are_those_of_tokens_with_larger_features(dim: int, n: int, sigma: float, loud: bool) -> None:
    """Made from tokens: y = <w, b x> + l ξ with the same w and ξ."""
    rng = np.random.default_rng(dim + 10 * n)
    X, w = rng.standard_normal((40, n, dim)), rng.standard_normal((40, dim))
    noise = sigma * rng.standard_normal((40, n))
    factors, query = rng.uniform(1, 1.5, 40), rng.standard_normal((40, dim))
    plain = rf.Context.from_tokens(X, np.einsum("bnd,bd->bn", X, w) + noise)
    wide_X = X * factors[:, None, None]
    louder = rng.uniform(1, 2, 40) if loud else np.ones(40)
    wide = rf.Context.from_tokens(wide_X, np.einsum("bnd,bd->bn", wide_X, w) + louder[:, None] * noise)
    levels = np.full(40, sigma)
    given = GramDraw(plain.gram, w, query, plain.ridge(levels**2))
    found = widened(given, levels, factors, n, louder if loud else None)
    np.testing.assert_allclose(found.gram, wide.gram, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.oracle, wide.ridge((louder * levels) ** 2), rtol=1e-8, atol=1e-8)


# --- the function that is minimised -----------------------------------------------------------------------------------


def difference_quotients(function: Callable[[Array], tuple[float, Array]], vector: Array) -> Array:
    """∂/∂θ for every parameter, by the fourth-order central formula (8 f(1) − 8 f(−1) − f(2) + f(−2)) / 12h."""
    # Relative to the parameters: 1e-3 makes the error of the formula, h⁴ f⁽⁵⁾/30, and that of rounding, eps/h,
    # both about 1e-12 of the derivative.
    step = 1e-3 * np.abs(vector).max()

    def value(number: int, steps: int) -> float:
        shifted = vector.copy()
        shifted[number] += steps * step
        return function(shifted)[0]

    def quotient(number: int) -> float:
        near, far = value(number, 1) - value(number, -1), value(number, 2) - value(number, -2)
        return (8 * near - far) / (12 * step)

    return np.array([quotient(number) for number in range(len(vector))])


@pytest.mark.parametrize("kind", ["gdpp", "diag", "full"])
@pytest.mark.parametrize("saturation", [0.0, 0.5, 100.0])
@pytest.mark.parametrize("make", ["stretched", "sifted"])
def test_pool_function_is_the_logarithm_of_the_weighted_mean_and_has_its_gradient(
    kind: str, saturation: float, make: str
) -> None:
    task = rf.Task(3, 6, "uniform:2")
    model = mild_model(task, kind)
    pool = stretched_pool(task, 50, 1.3, 1, 1) if make == "stretched" else sifted_pool(model, task, 40, 4, 1.3, 1, 1)
    function = pool_function(model, pool, saturation)
    value, gradient = function(model.flatten())
    losses = adjusted_losses(model, rf.Context(pool.contexts.gram, 6), pool.contexts.oracle)
    bounded = saturation * np.log1p(losses / saturation) if saturation else losses
    assert value == pytest.approx(np.log(np.average(bounded * pool.importance)), rel=1e-12)
    # As in test_objective.py: rounding of the loss over the step; measured, 2e-11.
    assert relative_error(difference_quotients(function, model.flatten()), gradient) < 1e-9
    _, even = pool_function(model, pool._replace(importance=np.ones(len(losses))), saturation)(model.flatten())
    assert relative_error(even, gradient) > 1e-3  # the control: importance is in it


@pytest.mark.parametrize("saturation", [0.0, 100.0])
def test_pool_function_is_infinite_where_the_model_explodes(saturation: float) -> None:
    task = rf.Task(3, 8, "uniform:2")
    model = rf.LinearTransformer.init("diag", layers=4, dim=3, scale=0.1, dtype=np.float64)
    function = pool_function(model, stretched_pool(task, 100, 1.3, 0, 0), saturation)
    assert np.isfinite(function(0.1 * model.flatten())[0])
    for factor in (1e4, 1e10, 1e100, 1e300):
        assert function(factor * model.flatten())[0] == np.inf


@pytest.mark.parametrize("saturation", [0.0, 10.0])
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["one loss", "all losses", "gradient"])
def test_pool_function_is_infinite_when_anything_is_not_finite(where: str, poison: float, saturation: float) -> None:
    task = rf.Task(3, 8, "uniform:2")
    model, pool = mild_model(task), stretched_pool(task, 100, 1.3, 0, 0)

    def fault(losses: Array, flat: Array) -> tuple[Array, Array]:
        if where == "gradient":
            return losses, np.r_[flat[:-1], poison]
        return (np.r_[poison, losses[1:]] if where == "one loss" else np.full_like(losses, poison)), flat

    function = pool_function(model, pool, saturation, losses_on=spoiled(fault, losses_and_gradient_on))
    assert function(model.flatten())[0] == np.inf


def test_pool_function_does_not_depend_on_the_number_of_threads() -> None:
    task = rf.Task(3, 8, "uniform:2")
    model, pool = mild_model(task, "full"), stretched_pool(task, 3000, 1.3, 0, 0)
    one, two = (pool_function(model, pool, 0.0, threads)(model.flatten()) for threads in (1, 2))
    assert one[0] == two[0]
    np.testing.assert_array_equal(one[1], two[1])


# --- faults -----------------------------------------------------------------------------------------------------------

DIAGONAL = TrainConfig(kind="diag", layers=2, dim=3, examples=8, batch=32, sequences=500, noise="uniform:2")
POOLS = {
    "stretched, saturated": PoolStage(name="stretched, saturated", steps=25, pool=256, saturation=100.0),
    "stretched": PoolStage(name="stretched", steps=25, pool=256),
    "sifted": PoolStage(name="sifted", steps=25, pool=256, sift=4),
}
PLAN: list[Stage] = [
    AdamStage(name="start", steps=15, rate=1e-2, batch=32, origin="init", init_scale=0.1),
    *POOLS.values(),
]


@pytest.mark.parametrize("phase", [1, 2, 3, 4])
def test_faults_at_every_fourth_step_of_pool_stages_are_stepped_back_from(phase: int) -> None:
    """Four runs with 18 or 19 faults each, at all steps of the pool stages except the first, one after the other."""
    points = [15 + 25 * stage + step for stage in range(3) for step in range(phase, 25, 4)]
    faults = {total: NAMES[(number + phase) % len(NAMES)] for number, total in enumerate(points)}
    ended = run_with(faults, DIAGONAL, PLAN)
    assert ended.finished
    assert not ended.skipped
    met = 0
    for before, info in zip(ended.infos[:-1], ended.infos[1:], strict=True):
        if info.stage in POOLS and info.stage == before.stage:
            assert info.loss <= before.loss
            if info.total - 1 in faults:
                met += 1
                assert (info.loss, info.rate) == (before.loss, 0.0)  # nothing was accepted in that step
    assert met >= 12  # stages may converge before their last faults
    assert ended.infos[-1].loss < ended.infos[14].loss


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("stage", list(POOLS))
def test_fault_at_the_first_step_of_a_pool_stage_costs_that_stage_at_most(kind: str, stage: str) -> None:
    plan = [PLAN[0], POOLS[stage], replace(POOLS[stage], name="next")]
    ended = run_with({15: kind}, DIAGONAL, plan)
    assert ended.finished
    infos = ended.of(stage)
    if kind == "loss explodes":  # finite, so the stage goes on from there
        assert len(infos) > 1
        assert not ended.skipped
    else:
        assert len(infos) == 1
        assert [info.total for info in ended.infos if info.skipped] == [40]  # the stage's 25 steps count as done
    after = ended.of("next")
    assert after[-1].loss < 0.8 * after[0].loss  # the next stage goes down from there


@pytest.mark.parametrize("kind", NAMES)
def test_pools_that_never_give_a_finite_value_leave_the_result_of_the_stages_before_them(kind: str) -> None:
    ended = run_with(dict.fromkeys(range(15, 200), kind), DIAGONAL, PLAN)
    assert ended.finished
    alone = run_with({}, DIAGONAL, PLAN[:1])
    if kind != "loss explodes":  # all losses a billion times as large is another scale, and as good a function
        assert ended.skipped == [39, 64, 89]
        np.testing.assert_array_equal(ended.state.best_vector, alone.state.best_vector)


def test_pool_with_poisoned_contexts_leaves_the_weights_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def poisoned(*arguments: Any) -> Pool:
        pool = stretched_pool(*arguments)
        gram = pool.contexts.gram.copy()
        gram[7] = np.nan
        return pool._replace(contexts=pool.contexts._replace(gram=gram))

    monkeypatch.setattr(pools, "stretched_pool", poisoned)
    ended = run_with({}, DIAGONAL, PLAN[:3])
    alone = run_with({}, DIAGONAL, PLAN[:1])
    assert ended.skipped == [39, 64]
    np.testing.assert_array_equal(ended.state.vector, alone.state.vector)


def test_history_of_a_lost_pool_stage_is_json_with_null_for_what_is_not_finite(tmp_path: Path) -> None:
    losses = FaultyLosses(dict.fromkeys(range(15, 200), "gradient is NaN"))
    result = train(short_run(DIAGONAL, PLAN[:3], **losses.fields), out=tmp_path / "run", callbacks=[losses])
    history = [strict_json(line) for line in (tmp_path / "run" / "history.jsonl").read_text().splitlines()]
    assert [row["loss"] for row in history if row["skipped"]] == [None, None]
    assert result.skipped == 2
    assert np.isfinite(result.evaluation.adjusted_loss)


def fault_at(number: int, kind: str) -> Fault:
    """A fault in one evaluation of the function, by its number."""
    calls = itertools.count()
    return lambda losses, gradient: FAULTS[kind](losses, gradient) if next(calls) == number else (losses, gradient)


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("which", list(POOLS))
def test_fault_in_any_single_evaluation_of_a_pool_is_never_accepted(kind: str, which: str) -> None:
    """A fault in the middle of a line search: the honest value at the accepted weights still never rises."""
    task, stage = DIAGONAL.task, POOLS[which]
    model = rf.LinearTransformer.init("diag", layers=2, dim=3, scale=0.1, seed=4, dtype=np.float64)
    pool = sifted_pool(model, task, 64, 4, stage.stretch, 0, 0) if stage.sift else stretched_pool(task, 64, 1.3, 0, 0)
    honest = pool_function(model, pool, stage.saturation)
    assert np.isfinite(honest(model.flatten())[0])
    for at in range(1, 26):  # the start itself, number 0, is the subject of another test
        faulty = spoiled(fault_at(at, kind), losses_and_gradient_on)
        function = pool_function(model, pool, stage.saturation, losses_on=faulty)
        vector = model.flatten()
        state = QuasiNewton.start(function, vector)
        for _ in range(20):
            before = state.value
            state, vector, _ = state.iterate(function, vector)
            assert state.value <= before
            assert state.value == honest(vector)[0]
            assert np.isfinite(vector).all()
            assert all(np.isfinite(array).all() for array in (state.gradient, state.steps, state.changes))
            if state.converged:
                break
