"""The objective on contexts drawn by name, and that its exact and its sampled form have the same expected gradient.

Both draw the same contexts for the same (seed, step), so their difference, step by step, must have mean zero:

    E[½(ŷ − y_t)² | data] = ½‖ŵ − w*‖² + a term free of the model.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

import ridgeformer as rf
from ridgeformer.core.gradient import EXPLODED
from ridgeformer.core.notation import Array
from ridgeformer.core.random import Purpose
from support import KINDS, OBJECTIVES, gradient_on, relative_error, tame_model

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


# --- exact and sampled ------------------------------------------------------------------------------------------------

STEPS, BATCH = 400, 128
ONE_IN_A_MILLION = 1e-6  # false alarms over all parameters of a model together (Bonferroni); seeds are fixed

TASKS = {"more examples than features": rf.Task(3, 5, "categorical:1+3"), "fewer": rf.Task(3, 2, "categorical:1+3")}


@cache
def gradients(kind: str, task_name: str) -> dict[str, Array]:
    """(STEPS, parameters) gradients of each objective at one model, on the same contexts."""
    task = TASKS[task_name]
    model = tame_model(kind, 2, 1, 3, task.draw_contexts(1000, seed=0).context.gram, strength=2.0)
    return {
        objective: np.stack(
            [
                rf.loss_and_gradient(model, task, batch=BATCH, seed=1, step=step, objective=objective)[1].flatten()
                for step in range(STEPS)
            ]
        )
        for objective in ("exact", "sampled")
    }


def have_the_same_mean(one: Array, other: Array) -> bool:
    """No parameter's mean difference is further from zero than its standard error allows."""
    difference = one - other
    spread = difference.std(axis=0, ddof=1) / math.sqrt(STEPS)
    limit = stats.norm.isf(ONE_IN_A_MILLION / (2 * difference.shape[1]))
    return bool((np.abs(difference.mean(axis=0)) <= limit * spread).all())


CASES = [(kind, name) for kind in KINDS for name in TASKS]


@pytest.mark.parametrize(("kind", "task"), CASES)
def test_exact_and_sampled_gradients_have_the_same_mean(kind: str, task: str) -> None:
    found = gradients(kind, task)
    assert not np.isclose(found["exact"], found["sampled"]).all()
    assert have_the_same_mean(found["exact"], found["sampled"])


@pytest.mark.parametrize(("kind", "task"), CASES)
def test_gradient_with_one_sign_flipped_or_a_wrong_factor_fails_the_same_test(kind: str, task: str) -> None:
    """The control: the test above has the power to see an error in a single parameter, or of a third in all."""
    found = gradients(kind, task)
    flipped = found["exact"].copy()
    flipped[:, np.abs(flipped.mean(axis=0)).argmax()] *= -1
    assert not have_the_same_mean(flipped, found["sampled"])
    assert not have_the_same_mean(found["exact"] * 4 / 3, found["sampled"])
    assert not have_the_same_mean(found["exact"] * 2 / 3, found["sampled"])


@pytest.mark.parametrize(("kind", "task"), CASES)
def test_exact_gradient_has_less_variance_than_the_sampled_one(kind: str, task: str) -> None:
    found = gradients(kind, task)
    variance = {objective: values.var(axis=0).sum() for objective, values in found.items()}
    # Measured: 0.13 to 0.28; with other seeds heavy tails brought one to 0.65.
    assert variance["exact"] < 0.8 * variance["sampled"]


@pytest.mark.parametrize("task", TASKS)
def test_exact_loss_is_the_sampled_loss_minus_that_of_the_oracle(task: str) -> None:
    """Its mean is the adjusted loss: E ½(ŷ − y_t)² − E ½(ŷ_oracle − y_t)²."""
    draw = TASKS[task].draw_contexts(100_000, seed=2)
    model = tame_model("diag", 2, 1, 3, draw.context.gram, strength=2.0)
    exact, _ = rf.losses_and_gradient_on(model, draw, objective="exact")
    sampled, _ = rf.losses_and_gradient_on(model, draw, objective="sampled")
    oracle = 0.5 * np.einsum("bd,bd->b", draw.oracle - draw.weights, draw.query) ** 2
    difference = exact - (sampled - oracle)
    assert abs(difference.mean()) < 5 * difference.std() / math.sqrt(len(difference))  # 5 standard errors: 6e-7
    assert abs(exact.mean() - sampled.mean()) > 10 * difference.std() / math.sqrt(len(difference))  # the control
