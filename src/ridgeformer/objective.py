"""The training objective: mean loss over a batch of contexts, and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ridgeformer.adjoint import reference_loss_and_gradient
from ridgeformer.checks import one_of, whole_number
from ridgeformer.draws import GramDraw
from ridgeformer.errors import InputError
from ridgeformer.model import LinearTransformer
from ridgeformer.streams import Purpose, philox_key
from ridgeformer.task import BACKENDS, ContextDraw, Task
from ridgeformer.types import Array

if TYPE_CHECKING:
    from ridgeformer.kernels.sampling import Source

OBJECTIVES = ("exact", "sampled")
MAX_BATCH = 2**31 - 1  # contexts of a step are numbered by 32-bit counters


def loss_and_gradient(
    model: LinearTransformer,
    task: Task,
    *,
    batch: int,
    seed: int,
    step: int = 0,
    objective: str = "exact",
    saturation: float = 0.0,
    backend: str = "auto",
    threads: int | None = None,
) -> tuple[float, LinearTransformer]:
    """Mean loss over ``batch`` fresh contexts of ``task``, and its gradient as a model of the same kind.

    ``objective``: "exact" is ½‖ŵ − w*‖², whose mean is the adjusted loss; "sampled" is the paper's ½(ŷ − y_t)² with one
    query per context. They have the same expected gradient. (seed, step) names the batch: the same contexts whatever
    the model, the precision, the back end or the number of threads.

    ``saturation`` s > 0 makes the gradient that of the mean of s·ln(1 + loss/s), to which a context that explodes
    contributes little; the loss returned is the plain mean all the same.
    """
    losses, gradient = losses_and_gradient(
        model,
        task,
        batch=batch,
        seed=seed,
        step=step,
        objective=objective,
        saturation=saturation,
        backend=backend,
        threads=threads,
    )
    return float(losses.mean(dtype=np.float64)), gradient


def losses_and_gradient(
    model: LinearTransformer,
    task: Task,
    *,
    batch: int,
    seed: int,
    step: int = 0,
    objective: str = "exact",
    saturation: float = 0.0,
    backend: str = "auto",
    threads: int | None = None,
) -> tuple[Array, LinearTransformer]:
    """As `loss_and_gradient`, with every context's loss (batch,) instead of their mean."""
    one_of("objective", objective, OBJECTIVES)
    one_of("backend", backend, BACKENDS)
    batch = whole_number("batch", batch, 1, MAX_BATCH)
    step = whole_number("step", step, 0, 2**63 - 1)
    _check_dim(model, task.dim)
    _check_saturation(saturation)
    if backend != "reference" and task.gram_drawable:
        from ridgeformer.kernels import engine

        sigma = task.draw_sigma(batch, seed=seed, step=step, purpose=Purpose.TRAIN)
        source = engine.make_source(sigma, task.context, step, 0, philox_key(seed, Purpose.TRAIN), model.dtype)
        return _fused(model, source, objective == "exact", saturation, threads)
    chosen = "reference" if backend == "reference" else "auto"
    draw = task.draw_contexts(batch, seed=seed, step=step, purpose=Purpose.TRAIN, backend=chosen)
    return losses_and_gradient_on(model, draw, objective, saturation, backend, threads)


def losses_and_gradient_on(
    model: LinearTransformer,
    contexts: ContextDraw | GramDraw,
    objective: str = "exact",
    saturation: float = 0.0,
    backend: str = "auto",
    threads: int | None = None,
) -> tuple[Array, LinearTransformer]:
    """Every context's loss (batch,), and the gradient of their mean, on contexts that are already there."""
    _check_saturation(saturation)
    one_of("objective", objective, OBJECTIVES)
    one_of("backend", backend, BACKENDS)
    arrays = contexts.as_gram_draw() if isinstance(contexts, ContextDraw) else contexts
    _check_dim(model, arrays.gram.shape[-1] - 1)
    arrays = GramDraw(*(array.astype(model.dtype, copy=False) for array in arrays))
    if backend == "reference":
        return reference_loss_and_gradient(model, arrays, objective == "exact", saturation)
    return _fused(model, arrays, objective == "exact", saturation, threads)


def _fused(
    model: LinearTransformer, contexts: GramDraw | Source, exact: bool, saturation: float, threads: int | None
) -> tuple[Array, LinearTransformer]:
    from ridgeformer.kernels import engine

    if model.kind == "full":
        P, Q = model.attention_matrices()
        losses, P_sum, Q_sum = engine.full_loss_and_gradient(P, Q, contexts, exact, threads, saturation)
        return losses, model.replace({"P": P_sum / len(losses), "Q": Q_sum / len(losses)})
    omega, size = model.omega(), model.dim + 1
    losses, omega_sum = engine.diagonal_loss_and_gradient(omega, size, contexts, exact, threads, saturation)
    return losses, model.omega_gradient(omega_sum / len(losses))


def _check_dim(model: LinearTransformer, dim: int) -> None:
    if model.dim != dim:
        raise InputError(f"The model was made for {model.dim} features, the contexts have {dim}.")


def _check_saturation(saturation: float) -> None:
    if not (np.isfinite(saturation) and saturation >= 0):
        raise InputError(f"saturation must be a finite number of at least 0, not {saturation!r}.")
