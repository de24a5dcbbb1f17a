"""Losses and gradients: fused kernels, NumPy reference, JAX autodiff on tokens and finite differences all agree."""

from __future__ import annotations

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.notation import Array
from support import KINDS, Examples, as_draw, gradient_on, make_examples, relative_error, tame_model

OBJECTIVES = ("exact", "sampled")

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


def agree(kind: str, layers: int, heads: int, dim: int, n: int, batch: int) -> None:
    examples = make_examples(batch, n, dim, seed=layers)
    model, draw = tame_model(kind, layers, heads, dim, examples.gram), as_draw(examples)
    for objective in OBJECTIVES:
        losses, gradient = gradient_on(model, draw, objective, "reference")
        fused_losses, fused_gradient = gradient_on(model, draw, objective, "fused")
        assert relative_error(fused_losses, losses) < REFERENCE_TOLERANCE
        assert relative_error(fused_gradient, gradient) < REFERENCE_TOLERANCE


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("layers", "heads"), DEPTHS)
@pytest.mark.parametrize(("dim", "n"), SHAPES)
def test_fused_gradient_over_shapes_equals_the_reference(kind: str, layers: int, heads: int, dim: int, n: int) -> None:
    agree(kind, layers, heads, dim, n, BATCH)


@pytest.mark.parametrize("kind", KINDS)
def test_fused_gradient_of_a_wide_model_equals_the_reference(kind: str) -> None:
    agree(kind, layers=3, heads=2, dim=64, n=70, batch=3)


@pytest.mark.parametrize("kind", KINDS)
def test_fused_gradient_over_several_chunks_equals_the_reference(kind: str) -> None:
    agree(kind, layers=3, heads=1, dim=3, n=6, batch=300)  # chunks of 128, 128 and 44 contexts


# Cases of the comparison with autodiff: each takes a second to compile.
AUTODIFF = [
    ("gdpp", 1, 1, 1, 1),
    ("gdpp", 2, 2, 3, 2),
    ("gdpp", 5, 1, 4, 9),
    ("diag", 1, 2, 2, 3),
    ("diag", 2, 1, 1, 4),
    ("diag", 3, 2, 5, 3),
    ("diag", 7, 1, 10, 20),
    ("full", 1, 1, 1, 1),
    ("full", 1, 2, 3, 7),
    ("full", 2, 2, 2, 2),
    ("full", 3, 1, 5, 3),
    ("full", 4, 3, 3, 8),
    ("full", 7, 1, 10, 20),
    ("full", 2, 1, 64, 10),
]


@pytest.mark.parametrize(("kind", "layers", "heads", "dim", "n"), AUTODIFF)
def test_gradients_equal_autodiff_of_the_token_transformer(
    kind: str, layers: int, heads: int, dim: int, n: int
) -> None:
    from oracles import autodiff_losses_and_gradients

    examples = make_examples(4, n, dim, seed=10 + layers)
    model, draw = tame_model(kind, layers, heads, dim, examples.gram), as_draw(examples)
    for objective, (losses, gradient) in autodiff_losses_and_gradients(model, examples).items():
        for backend in ("reference", "fused"):
            found_losses, found_gradient = gradient_on(model, draw, objective, backend)
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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(("layers", "heads", "dim", "n"), [(1, 1, 1, 1), (2, 2, 5, 3), (3, 1, 10, 20), (7, 1, 10, 20)])
def test_float32_gradients_stay_within_rounding_of_float64(
    kind: str, objective: str, layers: int, heads: int, dim: int, n: int
) -> None:
    examples = make_examples(40, n, dim, seed=30)
    model, draw = tame_model(kind, layers, heads, dim, examples.gram), as_draw(examples)
    losses, gradient = gradient_on(model, draw, objective, "reference")
    found_losses, found_gradient = gradient_on(model.astype(np.float32), draw, objective, "fused")
    assert found_losses.dtype == found_gradient.dtype == np.float32
    # Float32 rounds to 6e-8; the difference ŵ − w* and sums over contexts of both signs, which may all but cancel, cost
    # some digits. Measured, 1e-6 to 5e-5 depending on the draw; a wrong term shows at 1e-2.
    assert relative_error(found_losses, losses) < 1e-4
    assert relative_error(found_gradient, gradient) < 5e-4


# --- contexts drawn by name -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(("dim", "n"), [(1, 2), (3, 2), (3, 3), (3, 4), (10, 20), (64, 70)])
@pytest.mark.parametrize("step", [0, 2**40 + 1])
def test_loss_and_gradient_of_a_named_batch_is_the_same_on_both_back_ends(
    kind: str, objective: str, dim: int, n: int, step: int
) -> None:
    task = rf.Task(dim, n)
    gram = task.draw_contexts(50, seed=3, step=step).context.gram
    model = tame_model(kind, 3, 1, dim, gram, strength=0.2)
    results = {
        backend: rf.loss_and_gradient(model, task, batch=50, seed=3, step=step, objective=objective, backend=backend)
        for backend in ("reference", "fused", "auto")
    }
    loss, gradient = results["reference"]
    for backend in ("fused", "auto"):
        # The kernels' own normals and χ differ from NumPy's by a few eps: measured, 5e-15 in the gradient. The smallest
        # eigenvalue of Σ can cost the oracle digits when n = d + 1.
        assert results[backend][0] == pytest.approx(loss, rel=1e-10)
        assert relative_error(results[backend][1].flatten(), gradient.flatten()) < 1e-10


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [2, 8])
def test_loss_and_gradient_equals_that_on_the_contexts_of_the_same_name(kind: str, n: int) -> None:
    from ridgeformer.core.random import Purpose

    task = rf.Task(3, n)
    draw = task.draw_contexts(20, seed=4, step=5, purpose=Purpose.TRAIN)
    model = tame_model(kind, 2, 2, 3, draw.context.gram)
    for objective in OBJECTIVES:
        loss, gradient = rf.loss_and_gradient(model, task, batch=20, seed=4, step=5, objective=objective)
        losses, expected = gradient_on(model, draw, objective, "reference")
        assert loss == pytest.approx(losses.mean(), rel=1e-10)
        assert relative_error(gradient.flatten(), expected) < 1e-10


@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_loss_and_gradient_of_other_seeds_and_steps_differs(backend: str) -> None:
    model = rf.LinearTransformer.init("diag", layers=2, dim=3)
    names = [(0, 0), (1, 0), (0, 1), (0, 2**32)]
    losses = {
        rf.loss_and_gradient(model, rf.Task(3, 8), batch=20, seed=seed, step=step, backend=backend)[0]
        for seed, step in names
    }
    assert len(losses) == len(names)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradient_is_a_model_of_the_same_kind_shape_and_precision(kind: str, dtype: type) -> None:
    model = rf.LinearTransformer.init(kind, layers=2, heads=2, dim=3, dtype=dtype)
    for backend in ("reference", "fused"):
        loss, gradient = rf.loss_and_gradient(model, rf.Task(3, 8), batch=5, seed=0, backend=backend)
        assert type(loss) is float
        assert (gradient.kind, gradient.layers, gradient.heads, gradient.dim) == (kind, 2, 2, 3)
        assert gradient.dtype == np.dtype(dtype)


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
    examples: Examples = make_examples(6, 5, 3, seed=41)
    model = rf.LinearTransformer.init("diag", layers=2, dim=3, scale=0.0, dtype=np.float64)
    targets = np.einsum("bd,bd->b", examples.queries[:, 0], examples.weights)
    for backend in ("reference", "fused"):
        losses, _ = gradient_on(model, as_draw(examples), "sampled", backend)
        assert losses == pytest.approx(0.5 * targets**2, rel=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_exploding_model_has_a_loss_that_is_not_finite_and_warns_of_nothing(
    kind: str, dtype: type, backend: str
) -> None:
    """The divergence guard of a training run looks at the loss; a warning would be an error here."""
    model = rf.LinearTransformer.init(kind, layers=5, dim=5, scale=1e4, dtype=dtype)
    for objective in OBJECTIVES:
        loss, _ = rf.loss_and_gradient(model, rf.Task(5, 10), batch=300, seed=0, backend=backend, objective=objective)
        assert not np.isfinite(loss)
