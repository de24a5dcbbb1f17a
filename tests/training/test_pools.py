"""Pools: weighted by importance they stand for the task, see more of its tail, and can be drawn again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.notation import Array
from ridgeformer.core.objective import losses_and_gradient_on
from ridgeformer.core.random import GramDraw, Purpose, token_rng
from ridgeformer.evaluation import adjusted_losses, draw_chunks
from ridgeformer.training.pools import Pool, pool_function, sifted_pool, stretched_pool
from support import relative_error, tame_model

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


# Without noise, and with fewer examples than features, a widened context has no unique oracle.


def task_of(dim: int, n: int, noise: str) -> rf.Task:
    return rf.Task(dim, n, noise)


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


@pytest.mark.parametrize("stretch", [1.1, 1.3, 1.6])
@pytest.mark.parametrize(("dim", "n", "noise"), TASKS)
def test_stretched_pool_weighted_by_importance_has_the_means_of_the_task(
    dim: int, n: int, noise: str, stretch: float
) -> None:
    task = task_of(dim, n, noise)
    pool = stretched_pool(task, 20_000, stretch, seed=1, number=0)
    plain = task.draw_contexts(40_000, seed=2, backend="fused").as_gram_draw()
    found = deviations(mild_model(task), pool, plain)
    assert max(map(abs, found.values())) < 4, found
    # The control: without importance they are far off.
    even = statistics(mild_model(task), pool.contexts)["λ"].mean()
    assert even > 1.05 * statistics(mild_model(task), plain)["λ"].mean()


@pytest.mark.parametrize("widen", [1.1, 1.3])
@pytest.mark.parametrize(("dim", "n", "noise"), TASKS)
def test_widened_pool_weighted_by_importance_has_the_means_of_the_task(
    dim: int, n: int, noise: str, widen: float
) -> None:
    task = task_of(dim, n, noise)
    pool = stretched_pool(task, 20_000, 1.2, seed=1, number=0, widen=widen)
    plain = task.draw_contexts(40_000, seed=2, backend="fused").as_gram_draw()
    found = deviations(mild_model(task), pool, plain)
    assert max(map(abs, found.values())) < 4, found
    even = statistics(mild_model(task), pool.contexts)["‖Σ‖²"].mean()
    assert even > 1.1 * statistics(mild_model(task), plain)["‖Σ‖²"].mean()  # the control: there is something to weigh


@pytest.mark.parametrize(("dim", "n", "noise"), TASKS)
def test_widened_contexts_are_those_of_widened_features(dim: int, n: int, noise: str) -> None:
    """The same pool with and without: X is b times what it was, w and ξ are the same, and the oracle fits."""
    task = task_of(dim, n, noise)
    narrow = stretched_pool(task, 300, 1.0, seed=5, number=0).contexts
    wide = stretched_pool(task, 300, 1.0, seed=5, number=0, widen=1.3).contexts
    np.testing.assert_array_equal(wide.weights, narrow.weights)
    b = np.sqrt(wide.gram[:, 0, 0] / narrow.gram[:, 0, 0])
    np.testing.assert_allclose(wide.gram[:, :-1, :-1], narrow.gram[:, :-1, :-1] * (b**2)[:, None, None], rtol=1e-10)
    assert len(np.unique(b.round(9))) == LEVELS
    # In the basis (X, ξ) tokens are (x, ξ) = T (x, y) with y = ⟨w, x⟩ + ξ: there, b multiplies x alone.
    change = np.tile(np.eye(dim + 1), (300, 1, 1))
    change[:, -1, :-1] = -narrow.weights
    scale = np.ones((300, dim + 1))
    scale[:, :-1] = b[:, None]
    before = change @ narrow.gram @ change.transpose(0, 2, 1)
    after = change @ wide.gram @ change.transpose(0, 2, 1)
    np.testing.assert_allclose(after, scale[:, :, None] * before * scale[:, None, :], rtol=1e-8, atol=1e-10)
    if noise.startswith("fixed"):
        oracle = rf.Context(wide.gram, n).ridge(float(noise.removeprefix("fixed:")) ** 2)
        np.testing.assert_allclose(wide.oracle, oracle, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("dim", "n", "noise"), TASKS)
def test_stretched_pool_importance_is_positive_and_at_most_the_number_of_levels(dim: int, n: int, noise: str) -> None:
    importance = stretched_pool(task_of(dim, n, noise), 5000, 1.3, seed=3, number=1).importance
    assert importance.shape == (5000,)
    assert (importance > 0).all()
    assert importance.max() <= LEVELS


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
def test_stretched_pool_sees_larger_energies_than_a_plain_one_of_its_size(dim: int, n: int, noise: str) -> None:
    task = task_of(dim, n, noise)
    stretched = stretched_pool(task, 5000, 1.3, seed=6, number=0).contexts.gram[:, -1, -1]
    plain = task.draw_contexts(5000, seed=7).context.energy
    for share in (0.9, 0.99, 0.999):
        assert np.quantile(stretched, share) > 1.1 * np.quantile(plain, share)


def test_stretched_contexts_keep_the_oracle_of_their_noise() -> None:
    """Stretching w and ξ by b stretches the noise level along, so the penalty of the oracle stays σ²."""
    task = rf.Task(3, 8, "fixed:1")
    contexts = stretched_pool(task, 200, 1.5, seed=8, number=0).contexts
    np.testing.assert_allclose(contexts.oracle, rf.Context(contexts.gram, 8).ridge(1.0), rtol=1e-9)


def test_stretched_pool_depends_on_seed_and_number_alone() -> None:
    task = rf.Task(3, 8, "uniform:2")
    pools = [stretched_pool(task, 500, 1.3, seed, number) for seed, number in ((0, 0), (0, 1), (1, 0), (0, 0))]
    for first, second in ((pools[0], pools[3]),):
        for a, b in zip((*first.contexts, first.importance), (*second.contexts, second.importance), strict=True):
            np.testing.assert_array_equal(a, b)
    assert not np.isin(pools[0].contexts.gram[:, 0, 0], pools[1].contexts.gram[:, 0, 0]).any()
    assert not np.isin(pools[0].contexts.gram[:, 0, 0], pools[2].contexts.gram[:, 0, 0]).any()
    assert pools[0].contexts.gram.dtype == pools[0].importance.dtype == np.float64


def test_stretched_pool_of_no_stretch_is_a_plain_one() -> None:
    task = rf.Task(3, 8, "uniform:2")
    pool = stretched_pool(task, 40_000, 1.0, seed=9, number=2)
    np.testing.assert_allclose(pool.importance, 1.0, rtol=1e-12)
    pool_seed = int(token_rng(9, Purpose.MINE, 2).integers(2**63))
    drawn = [draw.context.gram for draw in draw_chunks(task, 40_000, pool_seed, Purpose.MINE)]
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
    task, total = task_of(dim, n, noise), 1000 * sift
    model = mild_model(task)
    pool = sifted_pool(model, task, 1000, sift, stretch, seed=1, number=3, widen=widen)
    # All it was taken from; 40 000 come in two chunks.
    whole = stretched_pool(task, total, stretch, seed=1, number=3, widen=widen)
    share = whole.importance * adjusted_losses(model, rf.Context(whole.contexts.gram, n), whole.contexts.oracle)
    where = rows(whole.contexts.gram)
    taken = np.array([where[matrix.tobytes()] for matrix in pool.contexts.gram])
    assert len(set(taken)) == len(taken)  # none comes twice
    np.testing.assert_array_equal(taken[:250], np.argsort(-share, kind="stable")[:250])  # the worst, worst first
    for found, known in zip(pool.contexts, whole.contexts, strict=True):
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
    task = task_of(dim, n, noise)
    model = mild_model(task)
    pools = [sifted_pool(model, task, 500, 16, 1.3, seed, number=0, widen=1.1) for seed in range(10)]
    means = np.array([(pool.importance * losses_of(model, pool.contexts)).mean() for pool in pools])
    plain = losses_of(model, task.draw_contexts(50_000, seed=2, backend="fused").as_gram_draw())
    error = np.sqrt(means.var(ddof=1) / len(means) + plain.var() / len(plain))
    assert abs(means.mean() - plain.mean()) < 4 * error
    assert error < 0.03 * plain.mean()  # or else this would show nothing


def test_sifted_pool_depends_on_seed_and_number_and_the_model_alone() -> None:
    task = rf.Task(3, 8, "fixed:0")
    model, other = mild_model(task), mild_model(task, layers=3)
    pools = [
        sifted_pool(which, task, 200, 8, 1.3, seed, number)
        for which, seed, number in ((model, 0, 0), (model, 0, 1), (model, 1, 0), (other, 0, 0), (model, 0, 0))
    ]
    for a, b in zip((*pools[0].contexts, pools[0].importance), (*pools[4].contexts, pools[4].importance), strict=True):
        np.testing.assert_array_equal(a, b)
    for pool in pools[1:4]:
        assert rows(pool.contexts.gram).keys() != rows(pools[0].contexts.gram).keys()


def test_sifted_pool_of_a_model_that_explodes_holds_the_explosions() -> None:
    task = rf.Task(3, 8, "fixed:0")
    model = rf.LinearTransformer.init("diag", layers=5, dim=3, scale=1.0, seed=1, dtype=np.float64)
    pool = sifted_pool(model, task, 200, 8, 1.3, 0, 0)
    assert not np.isfinite(losses_of(model, pool.contexts)[:50]).all()
    assert np.isfinite(pool.importance).all()
    assert pool_function(model, pool, 0.0)(model.flatten())[0] == np.inf


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


def test_pool_function_lets_its_watch_decide_what_losses_and_gradient_were() -> None:
    task = rf.Task(3, 8, "uniform:2")
    model, pool = mild_model(task), stretched_pool(task, 100, 1.3, 0, 0)
    honest, gradient = pool_function(model, pool, 0.0)(model.flatten())
    seen: list[tuple[Array, Array]] = []

    def watch(losses: Array, flat: Array) -> tuple[Array, Array]:
        seen.append((losses, flat))
        return 2 * losses, 6 * flat

    value, found = pool_function(model, pool, 0.0, watch=watch)(model.flatten())
    assert value == pytest.approx(honest + np.log(2), rel=1e-12)
    np.testing.assert_allclose(found, 3 * gradient, rtol=1e-12)
    ((losses, flat),) = seen
    np.testing.assert_array_equal(losses, losses_of(model, pool.contexts))
    np.testing.assert_allclose(flat, gradient * np.exp(honest), rtol=1e-12)


@pytest.mark.parametrize("saturation", [0.0, 10.0])
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["one loss", "all losses", "gradient"])
def test_pool_function_is_infinite_when_anything_is_not_finite(where: str, poison: float, saturation: float) -> None:
    task = rf.Task(3, 8, "uniform:2")
    model, pool = mild_model(task), stretched_pool(task, 100, 1.3, 0, 0)

    def watch(losses: Array, flat: Array) -> tuple[Array, Array]:
        if where == "gradient":
            return losses, np.r_[flat[:-1], poison]
        return (np.r_[poison, losses[1:]] if where == "one loss" else np.full_like(losses, poison)), flat

    assert pool_function(model, pool, saturation, watch=watch)(model.flatten())[0] == np.inf


def test_pool_function_does_not_depend_on_the_number_of_threads() -> None:
    task = rf.Task(3, 8, "uniform:2")
    model, pool = mild_model(task, "full"), stretched_pool(task, 3000, 1.3, 0, 0)
    one, two = (pool_function(model, pool, 0.0, threads)(model.flatten()) for threads in (1, 2))
    assert one[0] == two[0]
    np.testing.assert_array_equal(one[1], two[1])


@pytest.mark.parametrize("sigma", ["0", "1e-7"])
def test_widened_pool_with_fewer_examples_than_features_and_hardly_any_noise_has_the_ridge_oracle(sigma: str) -> None:
    """Σ has no inverse, so the oracle cannot come from a plain solve."""
    pool = stretched_pool(rf.Task(5, 3, f"fixed:{sigma}"), 1000, 1.3, 0, 0, widen=1.1)
    expected = rf.Context(pool.contexts.gram, 3).ridge(float(sigma) ** 2)
    np.testing.assert_allclose(pool.contexts.oracle, expected, atol=1e-4)
