"""What a context counts for: its importance multiplies its part of the gradient, on both back ends alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw
from support import KINDS, as_draw, make_examples, refusal, relative_error, tame_model

OBJECTIVES = ("exact", "sampled")
DTYPES = (np.float32, np.float64)
TIGHT = 1e-12  # float64 rounding through the same sums in another order; measured, 2e-15
LOOSE = 5e-5  # float32: sums over contexts of both signs lose a digit or two; measured, 1e-6


def tolerance(dtype: Any) -> float:
    return LOOSE if dtype == np.float32 else TIGHT


def weighted(
    model: rf.LinearTransformer, draw: GramDraw, importance: Any, backend: str, objective: str, saturation: float = 0.0
) -> tuple[Array, Array]:
    """Losses and the gradient as one vector."""
    losses, gradient = rf.losses_and_gradient_on(
        model, draw, objective=objective, saturation=saturation, backend=backend, importance=importance
    )
    return losses, gradient.flatten()


def example(kind: str, batch: int, dtype: Any = np.float64, layers: int = 3) -> tuple[rf.LinearTransformer, GramDraw]:
    examples = make_examples(batch, 9, 4, seed=layers)
    return tame_model(kind, layers, 2, 4, examples.gram).astype(dtype), as_draw(examples).as_gram_draw()


def importances(batch: int) -> Array:
    """From one ten-thousandth to a hundred, with a zero when there is room for one."""
    rng = np.random.default_rng(batch)
    values = 10 ** rng.uniform(-4, 2, batch)
    values[1 : batch // 2 : 7] = 0.0
    return values


# One context; less than, exactly and one more than a vector of 8 or 16 lanes; one more than a chunk of 128; several
# chunks, the last one ragged.
BATCHES = [1, 3, 8, 9, 16, 17, 129, 300]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("batch", BATCHES)
def test_fused_gradient_with_importance_equals_the_reference(kind: str, dtype: Any, objective: str, batch: int) -> None:
    model, draw = example(kind, batch, dtype)
    importance = importances(batch)
    for saturation in (0.0, 0.5):
        losses, gradient = weighted(model.astype(np.float64), draw, importance, "reference", objective, saturation)
        found_losses, found = weighted(model, draw, importance, "fused", objective, saturation)
        assert found.dtype == found_losses.dtype == dtype
        assert relative_error(found_losses, losses) < tolerance(dtype)
        assert relative_error(found, gradient) < tolerance(dtype)
        _, plain = weighted(model, draw, None, "fused", objective, saturation)
        assert relative_error(plain, gradient) > 1e-2  # the control: importance does matter


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [1, 2, 5])
def test_fused_gradient_with_importance_equals_the_reference_at_every_depth(kind: str, layers: int) -> None:
    """The last two layers are vector work, so depths 1 and 2 are special cases of the kernels."""
    model, draw = example(kind, 11, layers=layers)
    for objective in OBJECTIVES:
        (_, reference), (_, fused) = (
            weighted(model, draw, importances(11), backend, objective) for backend in ("reference", "fused")
        )
        assert relative_error(fused, reference) < TIGHT


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("saturation", [0.0, 0.5])
def test_gradient_with_importance_is_the_weighted_sum_of_single_gradients(
    kind: str, objective: str, backend: str, saturation: float
) -> None:
    batch = 19
    model, draw = example(kind, batch)
    importance = importances(batch)
    alone = [
        weighted(model, GramDraw(*(array[i : i + 1] for array in draw)), None, "reference", objective, saturation)
        for i in range(batch)
    ]
    losses, gradient = weighted(model, draw, importance, backend, objective, saturation)
    assert relative_error(gradient, importance @ np.stack([single for _, single in alone]) / batch) < TIGHT
    assert relative_error(losses, np.concatenate([single for single, _ in alone])) < TIGHT  # losses stay plain


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_importance_of_one_for_all_is_none_at_all_and_zero_for_all_is_no_gradient(
    kind: str, dtype: Any, backend: str
) -> None:
    model, draw = example(kind, 21, dtype)
    for objective in OBJECTIVES:
        for saturation in (0.0, 0.5):
            losses, plain = weighted(model, draw, None, backend, objective, saturation)
            for ones in (np.ones(21), np.ones(21, np.float32), np.ones(21, int), [1.0] * 21):
                same_losses, same = weighted(model, draw, ones, backend, objective, saturation)
                np.testing.assert_array_equal(same_losses, losses)
                np.testing.assert_array_equal(same, plain)
            assert not weighted(model, draw, np.zeros(21), backend, objective, saturation)[1].any()


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_is_linear_in_the_importance(kind: str, backend: str) -> None:
    model, draw = example(kind, 21)
    one, two = importances(21), np.linspace(-1, 3, 21)
    parts = [weighted(model, draw, each, backend, "exact")[1] for each in (one, two)]
    whole = weighted(model, draw, 2 * one - 3 * two, backend, "exact")[1]
    assert relative_error(whole, 2 * parts[0] - 3 * parts[1]) < TIGHT


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [7, 300])
def test_gradient_with_importance_is_the_same_bits_for_any_number_of_threads(kind: str, batch: int) -> None:
    model, draw = example(kind, batch, np.float32)
    results = [
        rf.losses_and_gradient_on(model, draw, threads=threads, importance=importances(batch))[1].flatten()
        for threads in (1, 2, 3)
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("kind", KINDS)
def test_importance_stays_with_its_context_when_others_explode(kind: str, backend: str) -> None:
    """Contexts that explode are left out of a saturated gradient; the importance of the others must not shift."""
    model, draw = example(kind, 37)
    exploding = [0, 5, 16, 17, 36]
    tame = np.delete(np.arange(37), exploding)
    gram = draw.gram.copy()
    gram[exploding] *= 1e12
    importance = importances(37)
    for objective in OBJECTIVES:
        losses, gradient = weighted(model, draw._replace(gram=gram), importance, backend, objective, saturation=1.0)
        assert not (losses[exploding] < 1e12).any()
        kept = GramDraw(*(array[tame] for array in draw))
        _, expected = weighted(model, kept, importance[tame], "reference", objective, saturation=1.0)
        assert relative_error(gradient, expected * len(tame) / 37) < TIGHT


def test_gradient_without_importance_is_the_same_after_one_with_it() -> None:
    """Workspaces are used again: no importance may stay in them."""
    model, draw = example("full", 21)
    before = weighted(model, draw, None, "fused", "exact")[1]
    weighted(model, draw, importances(21), "fused", "exact")
    np.testing.assert_array_equal(weighted(model, draw, None, "fused", "exact")[1], before)


@pytest.mark.parametrize("backend", ["auto", "reference", "fused"])
@pytest.mark.parametrize(
    "importance",
    [
        np.ones(4),
        np.ones(6),
        np.ones(0),
        np.ones((5, 1)),
        np.ones((1, 5)),
        1.0,
        np.array([1, 1, np.nan, 1, 1]),
        np.array([1, 1, 1, 1, np.inf]),
        np.array([1, -np.inf, 1, 1, 1]),
        np.ones(5) * 1j,
        ["1"] * 5,
        "11111",
        [[1.0], [1.0, 2.0]],
        [None] * 5,
    ],
    ids=str,
)
def test_importance_that_does_not_fit_or_is_not_finite_is_one_clear_error(backend: str, importance: Any) -> None:
    model, draw = example("diag", 5)
    with refusal("importance"):
        weighted(model, draw, importance, backend, "exact")
