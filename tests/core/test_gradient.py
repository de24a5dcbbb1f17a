"""Losses and gradients: fused kernels, NumPy reference, JAX autodiff on tokens and finite differences all agree.

Then the two ways to change what a context adds to the gradient: saturation, s·ln(1 + loss/s), and importance.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.gradient import EXPLODED
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw
from support import (
    DTYPES,
    KINDS,
    OBJECTIVES,
    VARIANTS,
    as_draw,
    gradient_on,
    make_examples,
    refused,
    relative_error,
    tame_model,
)

# Fused and reference are the same formulas in another order of summation, in float64. Measured, the worst case below is
# 4e-15; a missing term of the adjoint shows at 1e-2 and more.
REFERENCE_TOLERANCE = 1e-12
# Autodiff goes another way, through n tokens and the solve for the oracle. Measured, 7e-15.
AUTODIFF_TOLERANCE = 1e-11

# (layers, heads). L = 1, 2, 3 are special cases of the kernels (the last two layers are vector work), 5 and 7 are not.
DEPTHS = [(1, 1), (1, 2), (2, 1), (2, 3), (3, 1), (3, 2), (5, 1), (7, 1)]
# (dim, n): d = 1, n = 1, n < d, n = d, n = d + 1, n > d; p = 2 … 11 has ragged tiles of every width.
SHAPES = [(1, 1), (1, 5), (2, 3), (3, 1), (5, 3), (5, 5), (6, 7), (10, 20)]
BATCH = 11  # more than the lanes of one vector, and not a multiple of them


TIGHT = REFERENCE_TOLERANCE


def example(
    kind: str, batch: int, layers: int = 3, heads: int = 2, dim: int = 4, n: int = 9
) -> tuple[rf.LinearTransformer, GramDraw]:
    examples = make_examples(batch, n, dim, seed=layers)
    return tame_model(kind, layers, heads, dim, examples.gram), as_draw(examples).as_gram_draw()


def agree(model: rf.LinearTransformer, draw: GramDraw, tolerance: float = TIGHT, **options: Any) -> None:
    """The fused losses and gradient are those of the reference in float64, for both objectives."""
    for objective in OBJECTIVES:
        losses, gradient = gradient_on(model.astype(np.float64), draw, objective, "reference", **options)
        fused_losses, fused_gradient = gradient_on(model, draw, objective, "fused", **options)
        assert fused_losses.dtype == fused_gradient.dtype == model.dtype
        assert relative_error(fused_losses, losses) < tolerance
        assert relative_error(fused_gradient, gradient) < tolerance


@pytest.mark.parametrize("kind", VARIANTS)
@pytest.mark.parametrize(("layers", "heads"), DEPTHS)
def test_fused_gradient_over_shapes_equals_the_reference(kind: str, layers: int, heads: int) -> None:
    for dim, n in SHAPES:
        agree(*example(kind, BATCH, layers, heads, dim, n))


@pytest.mark.parametrize("kind", VARIANTS)
def test_fused_gradient_of_a_wide_model_and_over_several_chunks_equals_the_reference(kind: str) -> None:
    agree(*example(kind, 3, dim=64, n=70))
    agree(*example(kind, 300, heads=1, dim=3, n=6))  # chunks of 128, 128 and 44 contexts


@pytest.mark.slow  # a kernel is compiled for every number of registers
@pytest.mark.parametrize("registers", [1, 3, 4, 5])
def test_fused_gradient_with_any_number_of_registers_equals_the_reference(registers: int) -> None:
    """Up to four the diagonal kernel has a form of its own; beyond, the dense kernel computes."""
    for layers, dim, n in [(1, 1, 3), (2, 3, 2), (3, 5, 9), (6, 10, 20)]:
        agree(*example(f"diag+{registers}", BATCH, layers, 2, dim, n))


# Cases of the comparison with autodiff: each takes a second to compile. The last number is the saturation.
AUTODIFF = [
    ("gdpp", 1, 1, 1, 1, 0.0),
    ("gdpp", 5, 2, 4, 3, 0.0),
    ("gdpp", 3, 2, 3, 6, 0.5),
    ("diag", 1, 2, 2, 3, 0.0),
    ("diag", 3, 2, 5, 3, 0.5),
    ("diag", 7, 1, 10, 20, 0.0),
    ("diag+1", 1, 2, 1, 1, 0.0),
    ("diag+2", 3, 2, 4, 6, 0.5),
    ("diag+2", 7, 1, 10, 20, 0.0),
    ("full+1", 3, 2, 3, 5, 0.0),
    ("full", 1, 1, 1, 1, 0.0),
    ("full", 2, 2, 2, 2, 0.0),
    ("full", 3, 2, 3, 6, 0.5),
    ("full", 4, 3, 3, 8, 0.0),
    ("full", 7, 1, 10, 20, 0.0),
    ("full", 2, 1, 64, 10, 0.0),
]


@pytest.mark.parametrize(("kind", "layers", "heads", "dim", "n", "saturation"), AUTODIFF)
def test_gradients_equal_autodiff_of_the_token_transformer(
    kind: str, layers: int, heads: int, dim: int, n: int, saturation: float
) -> None:
    from oracles import autodiff_losses_and_gradients

    examples = make_examples(4, n, dim, seed=10 + layers)
    model, draw = tame_model(kind, layers, heads, dim, examples.gram), as_draw(examples)
    for objective, (losses, gradient) in autodiff_losses_and_gradients(model, examples, saturation).items():
        for backend in ("reference", "fused"):
            found_losses, found_gradient = gradient_on(model, draw, objective, backend, saturation)
            assert relative_error(found_losses, losses) < AUTODIFF_TOLERANCE
            assert relative_error(found_gradient, gradient) < AUTODIFF_TOLERANCE


def difference_quotients(model: rf.LinearTransformer, draw: rf.ContextDraw, objective: str, backend: str) -> Array:
    """∂loss/∂θ for every parameter, by the fourth-order central formula (8 f(1) − 8 f(−1) − f(2) + f(−2)) / 12h."""
    flat = model.flatten()
    # Relative to the parameters: 1e-3 makes the error of the formula, h⁴ f⁽⁵⁾/30, and that of rounding, eps/h,
    # both about 1e-12 of the derivative.
    step = 1e-3 * np.abs(flat).max()

    def loss(number: int, steps: int) -> float:
        shifted = flat.copy()
        shifted[number] += steps * step
        return float(gradient_on(model.unflatten(shifted), draw, objective, backend)[0].mean())

    def quotient(number: int) -> float:
        near, far = loss(number, 1) - loss(number, -1), loss(number, 2) - loss(number, -2)
        return (8 * near - far) / (12 * step)

    return np.array([quotient(number) for number in range(model.size)])


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(
    ("kind", "layers", "heads", "dim", "n"),
    [("gdpp", 3, 2, 3, 5), ("diag", 4, 2, 4, 9), ("full", 1, 1, 1, 3), ("full", 3, 1, 2, 1), ("full", 2, 2, 2, 4)],
)
def test_gradients_equal_finite_differences(
    kind: str, layers: int, heads: int, dim: int, n: int, objective: str, backend: str
) -> None:
    examples = make_examples(3, n, dim, seed=20)
    model, draw = tame_model(kind, layers, heads, dim, examples.gram), as_draw(examples)
    _, gradient = gradient_on(model, draw, objective, backend)
    # Rounding of the loss, 1e-16, over the step, 1e-3, times loss / (θ · gradient), which is 1 to 100 for these models:
    # measured, 4e-12.
    assert relative_error(difference_quotients(model, draw, objective, backend), gradient) < 1e-9


@pytest.mark.parametrize("kind", VARIANTS)
@pytest.mark.parametrize(("layers", "heads", "dim", "n"), [(1, 1, 1, 1), (2, 2, 5, 3), (3, 1, 10, 20), (7, 1, 10, 20)])
def test_float32_gradients_stay_within_rounding_of_float64(
    kind: str, layers: int, heads: int, dim: int, n: int
) -> None:
    model, draw = example(kind, 40, layers, heads, dim, n)
    # Float32 rounds to 6e-8; the difference ŵ − w* and sums over contexts of both signs, which may all but cancel, cost
    # some digits. Measured, 1e-6 to 5e-5 depending on the draw; a wrong term shows at 1e-2.
    agree(model.astype(np.float32), draw, tolerance=5e-4)


def test_exact_loss_of_a_model_that_is_the_oracle_is_zero() -> None:
    """One context, one layer of gradient descent whose step is chosen to land on the oracle: d = 1, ŵ = −ω_yx α."""
    examples = make_examples(1, 5, 1, seed=40)
    draw = as_draw(examples)
    step = draw.oracle[0, 0] / draw.context.cross[0, 0]
    model = rf.LinearTransformer("gdpp", 1, {"p": np.array([[[0.0, -step]]]), "q": np.array([[[1.0]]])})
    for backend in ("reference", "fused"):
        losses, gradient = gradient_on(model, draw, "exact", backend)
        # ½ of a squared difference of rounding size, and a gradient proportional to the difference.
        assert losses[0] < 1e-28
        assert np.abs(gradient).max() < 1e-10


def test_sampled_loss_of_the_zero_model_is_half_the_squared_target() -> None:
    """The paper's convention: one half of the squared error (section 3)."""
    examples = make_examples(6, 5, 3, seed=41)
    model = rf.LinearTransformer.init("diag", layers=2, dim=3, scale=0.0, dtype=np.float64)
    targets = np.einsum("bd,bd->b", examples.queries[:, 0], examples.weights)
    for backend in ("reference", "fused"):
        losses, _ = gradient_on(model, as_draw(examples), "sampled", backend)
        assert losses == pytest.approx(0.5 * targets**2, rel=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_exploding_model_has_a_loss_that_is_not_finite_and_warns_of_nothing(
    kind: str, dtype: type, backend: str
) -> None:
    """The divergence guard of a training run looks at the loss; a warning would be an error here."""
    model = rf.LinearTransformer.init(kind, layers=5, dim=5, scale=1e4, dtype=dtype)
    for objective in OBJECTIVES:
        loss, _ = rf.loss_and_gradient(model, rf.Task(5, 10), batch=300, seed=0, backend=backend, objective=objective)
        assert not np.isfinite(loss)


# --- saturation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layers", "dim", "n"), [(1, 1, 1), (2, 3, 2), (3, 5, 9)])
@pytest.mark.parametrize("saturation", [0.01, 1.0, 100.0])
def test_saturated_gradient_is_the_same_on_both_back_ends_and_the_loss_stays_plain(
    kind: str, layers: int, dim: int, n: int, saturation: float
) -> None:
    model, draw = example(kind, 11, layers, 2, dim, n)
    agree(model, draw, saturation=saturation)
    for objective in OBJECTIVES:
        losses, plain = (gradient_on(model, draw, objective, "reference", s)[0] for s in (saturation, 0.0))
        assert relative_error(losses, plain) < TIGHT


@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_saturation_far_above_the_losses_changes_nothing_and_zero_means_none(backend: str) -> None:
    model, draw = example("full", 11, layers=2, heads=1, dim=3)
    losses, plain = gradient_on(model, draw, "exact", backend)
    # s ln(1 + x/s) = x − x²/2s + …: for losses below 10 and s = 1e9 the gradient changes by 1e-8 of itself.
    assert losses.max() < 10
    assert relative_error(gradient_on(model, draw, "exact", backend, 1e9)[1], plain) < 1e-7
    assert np.array_equal(gradient_on(model, draw, "exact", backend, 0.0)[1], plain)
    assert relative_error(gradient_on(model, draw, "exact", backend, 1.0)[1], plain) > 1e-2


class Mixed(NamedTuple):
    """Contexts of which some explode under the model: their Gram matrices are made enormous."""

    model: rf.LinearTransformer
    draw: GramDraw
    tame: Array  # mask of the contexts that do not explode
    calm_draw: GramDraw  # those


def mixed_contexts(kind: str, dtype: Any, exploding: tuple[int, ...], batch: int = 37) -> Mixed:
    """37 contexts: three vectors of lanes in float32, five in float64, the last one ragged."""
    model, draw = example(kind, batch, layers=4, heads=1)
    gram, tame = draw.gram.copy(), np.ones(batch, bool)
    tame[list(exploding)] = False
    gram[~tame] *= 1e10
    return Mixed(model.astype(dtype), draw._replace(gram=gram), tame, draw.rows(tame))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("exploding", [(0,), (5, 36), tuple(range(16)), (15, 16, 17), tuple(range(37))])
def test_contexts_that_explode_count_in_the_loss_and_not_in_the_saturated_gradient(
    kind: str, dtype: Any, backend: str, exploding: tuple[int, ...]
) -> None:
    """With their importance, which must stay with its context when others are left out."""
    model, draw, tame, calm = mixed_contexts(kind, dtype, exploding)
    # Float32: sums over contexts of both signs lose a digit to rounding.
    tolerance = LOOSE if dtype == np.float32 else TIGHT
    for objective in OBJECTIVES:
        for importance in (None, importances(37)):
            losses, gradient = gradient_on(model, draw, objective, backend, 1.0, importance=importance)
            assert not (losses[~tame] < EXPLODED).any()
            assert (losses[tame] < EXPLODED).all()
            if not tame.any():
                assert not gradient.any()
                continue
            left = None if importance is None else importance[tame]
            calm_losses, calm_gradient = gradient_on(model, calm, objective, backend, 1.0, importance=left)
            assert relative_error(losses[tame], calm_losses) < tolerance
            assert relative_error(gradient, calm_gradient.astype(np.float64) * tame.mean()) < tolerance


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_gradient_after_an_explosion_or_importance_is_what_it_was_before(kind: str, backend: str) -> None:
    """Workspaces are used again: nothing of another batch may stay in them."""
    model, draw, _, calm = mixed_contexts(kind, np.float64, (3, 20))
    before = gradient_on(model, calm, "exact", backend)
    for saturation, importance in ((0.0, None), (1.0, None), (0.0, importances(37))):
        gradient_on(model, draw, "exact", backend, saturation, importance=importance)
        after = gradient_on(model, calm, "exact", backend)
        assert np.array_equal(before[0], after[0])
        assert np.array_equal(before[1], after[1])


# --- importance -------------------------------------------------------------------------------------------------------

LOOSE = 5e-5  # float32: sums over contexts of both signs lose a digit or two; measured, 1e-6


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
@pytest.mark.parametrize("batch", BATCHES)
def test_fused_gradient_with_importance_equals_the_reference(kind: str, dtype: Any, batch: int) -> None:
    model, draw = example(kind, batch)
    model, importance = model.astype(dtype), importances(batch)
    for saturation in (0.0, 0.5):
        agree(model, draw, LOOSE if dtype == np.float32 else TIGHT, saturation=saturation, importance=importance)
        weighted = gradient_on(model, draw, "exact", "fused", saturation, importance=importance)[1]
        plain = gradient_on(model, draw, "exact", "fused", saturation)[1]
        assert relative_error(plain, weighted) > 1e-2  # the control: importance does matter


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layers", [1, 2, 5])
def test_fused_gradient_with_importance_equals_the_reference_at_every_depth(kind: str, layers: int) -> None:
    """The last two layers are vector work, so depths 1 and 2 are special cases of the kernels."""
    agree(*example(kind, 11, layers), importance=importances(11))


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("saturation", [0.0, 0.5])
def test_gradient_with_importance_is_the_weighted_sum_of_single_gradients(
    kind: str, objective: str, backend: str, saturation: float
) -> None:
    """Which also makes it linear in the importance, of either sign."""
    batch = 19
    model, draw = example(kind, batch)
    importance = importances(batch) - 0.1
    alone = [gradient_on(model, draw.rows(slice(i, i + 1)), objective, "reference", saturation) for i in range(batch)]
    losses, gradient = gradient_on(model, draw, objective, backend, saturation, importance=importance)
    assert relative_error(gradient, importance @ np.stack([single for _, single in alone]) / batch) < TIGHT
    assert relative_error(losses, np.concatenate([single for single, _ in alone])) < TIGHT  # losses stay plain


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_importance_of_one_for_all_is_none_at_all_and_zero_for_all_is_no_gradient(
    kind: str, dtype: Any, backend: str
) -> None:
    model, draw = example(kind, 21)
    model = model.astype(dtype)
    for saturation in (0.0, 0.5):
        losses, plain = gradient_on(model, draw, "exact", backend, saturation)
        for ones in (np.ones(21), np.ones(21, np.float32), np.ones(21, int), [1.0] * 21):
            same_losses, same = gradient_on(model, draw, "exact", backend, saturation, importance=ones)
            assert np.array_equal(same_losses, losses)
            assert np.array_equal(same, plain)
        assert not gradient_on(model, draw, "exact", backend, saturation, importance=np.zeros(21))[1].any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [7, 300])
def test_gradient_with_importance_is_the_same_bits_for_any_number_of_threads(kind: str, batch: int) -> None:
    model, draw = example(kind, batch)
    one, two, three = (
        gradient_on(model.astype(np.float32), draw, "exact", "fused", threads=n, importance=importances(batch))[1]
        for n in (1, 2, 3)
    )
    assert np.array_equal(one, two)
    assert np.array_equal(one, three)


@pytest.mark.parametrize("backend", ["auto", "reference", "fused"])
def test_importance_of_another_length_than_the_batch_is_refused(backend: str) -> None:
    model, draw = example("diag", 5)
    for count in (0, 1, 4, 6):
        options: dict[str, Any] = {"backend": backend, "importance": np.ones(count)}
        refused("importance", rf.losses_and_gradient_on, model, draw, **options)
        refused("importance", rf.loss_and_gradient, model, rf.Task(4, 9), batch=5, seed=0, **options)
