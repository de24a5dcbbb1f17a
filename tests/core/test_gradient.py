"""The saturating objective: the gradient of s·ln(1 + loss/s), and contexts that explode left out of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import ridgeformer as rf
from ridgeformer.core.gradient import EXPLODED
from ridgeformer.core.notation import Array
from ridgeformer.core.random import Purpose
from support import KINDS, as_draw, gradient_on, make_examples, refusal, relative_error, tame_model

OBJECTIVES = ("exact", "sampled")
TIGHT = 1e-12  # float64 rounding through the same sums in another order; measured, 1e-15


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(("layers", "dim", "n"), [(1, 1, 1), (2, 3, 2), (3, 5, 9)])
@pytest.mark.parametrize("saturation", [0.01, 1.0, 100.0])
def test_saturated_gradient_is_the_same_on_both_back_ends_and_the_loss_stays_plain(
    kind: str, objective: str, layers: int, dim: int, n: int, saturation: float
) -> None:
    examples = make_examples(11, n, dim, seed=layers)
    model, draw = tame_model(kind, layers, 2, dim, examples.gram), as_draw(examples)
    plain, _ = gradient_on(model, draw, objective, "reference")
    losses, gradient = gradient_on(model, draw, objective, "reference", saturation)
    fused_losses, fused_gradient = gradient_on(model, draw, objective, "fused", saturation)
    assert relative_error(losses, plain) < TIGHT
    assert relative_error(fused_losses, plain) < TIGHT
    assert relative_error(fused_gradient, gradient) < TIGHT


@pytest.mark.parametrize("kind", KINDS)
def test_saturated_gradient_equals_autodiff_of_the_logarithm(kind: str) -> None:
    from oracles import autodiff_losses_and_gradients

    examples = make_examples(5, 6, 3, seed=1)
    model, draw = tame_model(kind, 3, 2, 3, examples.gram), as_draw(examples)
    for objective, (losses, gradient) in autodiff_losses_and_gradients(model, examples, saturation=0.5).items():
        for backend in ("reference", "fused"):
            found_losses, found_gradient = gradient_on(model, draw, objective, backend, 0.5)
            assert relative_error(found_losses, losses) < 1e-11  # as in test_objective.py
            assert relative_error(found_gradient, gradient) < 1e-11


@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_saturation_far_above_the_losses_changes_nothing_and_zero_means_none(backend: str) -> None:
    examples = make_examples(11, 9, 3, seed=2)
    model, draw = tame_model("full", 2, 1, 3, examples.gram), as_draw(examples)
    losses, plain = gradient_on(model, draw, "exact", backend)
    # s ln(1 + x/s) = x − x²/2s + …: for losses below 10 and s = 1e9 the gradient changes by 1e-8 of itself.
    assert losses.max() < 10
    assert relative_error(gradient_on(model, draw, "exact", backend, 1e9)[1], plain) < 1e-7
    assert np.array_equal(gradient_on(model, draw, "exact", backend, 0.0)[1], plain)
    assert relative_error(gradient_on(model, draw, "exact", backend, 1.0)[1], plain) > 1e-2


class Mixed(NamedTuple):
    """Contexts of which some explode under the model: their Gram matrices are made enormous."""

    model: rf.LinearTransformer
    draw: rf.ContextDraw
    tame: Array  # mask of the contexts that do not explode


def mixed_contexts(kind: str, dtype: Any, exploding: tuple[int, ...], batch: int = 37) -> Mixed:
    """37 contexts: three vectors of lanes in float32, five in float64, the last one ragged."""
    examples = make_examples(batch, 9, 3, seed=3)
    draw = as_draw(examples)
    model = tame_model(kind, 4, 1, 3, examples.gram).astype(dtype)
    gram, tame = draw.context.gram.copy(), np.ones(batch, bool)
    tame[list(exploding)] = False
    gram[~tame] *= 1e8
    return Mixed(model, rf.ContextDraw(rf.Context(gram, 9), draw.weights, draw.sigma, draw.query, draw.oracle), tame)


def only(draw: rf.ContextDraw, kept: Array) -> rf.ContextDraw:
    context = rf.Context(draw.context.gram[kept], draw.context.examples)
    return rf.ContextDraw(context, draw.weights[kept], draw.sigma[kept], draw.query[kept], draw.oracle[kept])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("exploding", [(0,), (5, 36), tuple(range(16)), (15, 16, 17)])
def test_contexts_that_explode_count_in_the_loss_and_not_in_the_saturated_gradient(
    kind: str, dtype: Any, backend: str, exploding: tuple[int, ...]
) -> None:
    model, draw, tame = mixed_contexts(kind, dtype, exploding)
    for objective in OBJECTIVES:
        losses, gradient = gradient_on(model, draw, objective, backend, 1.0)
        assert not (losses[~tame] < EXPLODED).any()
        assert (losses[tame] < EXPLODED).all()
        kept_losses, kept_gradient = gradient_on(model, only(draw, tame), objective, backend, 1.0)
        # Float32: sums over contexts of both signs lose a digit to rounding, as in test_objective.py.
        tolerance = 2e-5 if dtype == np.float32 else TIGHT
        assert relative_error(losses[tame], kept_losses) < tolerance
        assert relative_error(gradient, kept_gradient.astype(np.float64) * tame.mean()) < tolerance


@pytest.mark.parametrize("backend", ["reference", "fused"])
@pytest.mark.parametrize("kind", KINDS)
def test_saturated_gradient_of_nothing_but_explosions_is_zero(kind: str, backend: str) -> None:
    model, draw, _ = mixed_contexts(kind, np.float64, tuple(range(37)))
    losses, gradient = gradient_on(model, draw, "exact", backend, 1.0)
    assert not (losses < EXPLODED).any()
    assert not gradient.any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_gradient_after_an_explosion_is_what_it_was_before(kind: str, backend: str) -> None:
    """Workspaces are used again: nothing of an exploded batch may stay in them."""
    model, draw, tame = mixed_contexts(kind, np.float64, (3, 20))
    before = gradient_on(model, only(draw, tame), "exact", backend)
    for saturation in (0.0, 1.0):
        gradient_on(model, draw, "exact", backend, saturation)
        after = gradient_on(model, only(draw, tame), "exact", backend)
        assert np.array_equal(before[0], after[0])
        assert np.array_equal(before[1], after[1])


def exploding_model(kind: str, contexts: rf.ContextDraw, objective: str) -> rf.LinearTransformer:
    """The tamest model of a growing series under which at least a twentieth of the contexts explode."""
    for doublings in np.arange(0, 8, 0.25):
        scale = float(0.02 * 2**doublings)
        model = rf.LinearTransformer.init(kind, layers=4, dim=3, scale=scale, dtype=np.float64, seed=1)
        losses, _ = rf.losses_and_gradient_on(model, contexts, objective=objective)
        if np.mean(~(losses < EXPLODED)) >= 0.05:
            assert (losses < EXPLODED).any()
            return model
    pytest.fail("no model of the series explodes")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_saturated_gradient_of_a_named_batch_is_the_same_on_both_back_ends(kind: str, objective: str) -> None:
    """Drawn contexts explode too: the second pass over a block must not draw them anew."""
    task = rf.Task(3, 4)
    contexts = task.draw_contexts(200, seed=3, purpose=Purpose.TRAIN)
    model = exploding_model(kind, contexts, objective)
    results = [
        rf.loss_and_gradient(model, task, batch=200, seed=3, objective=objective, saturation=2.0, backend=backend)[1]
        for backend in ("reference", "fused")
    ]
    # Large losses below the limit, up to 1e12, magnify rounding in their gradient; measured, 1e-13.
    assert relative_error(results[1].flatten(), results[0].flatten()) < 1e-9


@pytest.mark.parametrize("saturation", [-1.0, np.nan, np.inf, "1", None, [1.0, 2.0], 1j])
@pytest.mark.parametrize("backend", ["reference", "fused"])
def test_bad_saturation_is_refused(saturation: Any, backend: str) -> None:
    model, task = rf.LinearTransformer.init("diag", layers=1, dim=2), rf.Task(2, 5)
    draw = task.draw_contexts(2, seed=0)
    for use in (
        lambda: rf.loss_and_gradient(model, task, batch=2, seed=0, saturation=saturation, backend=backend),
        lambda: rf.losses_and_gradient_on(model, draw, saturation=saturation, backend=backend),
    ):
        with refusal("saturation"):
            use()
