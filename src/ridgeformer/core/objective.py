"""The training objective: mean loss over a batch of contexts, and its gradient."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ridgeformer.core.gradient import reference_loss_and_gradient
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw, Purpose, philox_key
from ridgeformer.core.task import BACKENDS, MAX_BATCH, ContextDraw, Task
from ridgeformer.core.validation import InputError, finite_array, nonnegative, one_of, real_array, whole_number

if TYPE_CHECKING:
    from ridgeformer.kernels.sampling import Source

OBJECTIVES = ("exact", "sampled")


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
    saturation = nonnegative("saturation", saturation)
    if backend != "reference" and task.gram_drawable:
        from ridgeformer.kernels import engine

        sigma = task.draw_sigma(batch, seed=seed, step=step, purpose=Purpose.TRAIN)
        source = engine.make_source(sigma, task.examples, step, 0, philox_key(seed, Purpose.TRAIN), model.dtype)
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
    importance: Array | None = None,
) -> tuple[Array, LinearTransformer]:
    """Every context's loss (batch,), and the gradient of their mean, on contexts that are already there.

    ``importance`` (batch,) multiplies what each context adds to the gradient, but not the losses that are returned.
    """
    saturation = nonnegative("saturation", saturation)
    one_of("objective", objective, OBJECTIVES)
    one_of("backend", backend, BACKENDS)
    arrays = contexts.as_gram_draw() if isinstance(contexts, ContextDraw) else contexts
    arrays = GramDraw(*(real_array(name, array) for name, array in zip(GramDraw._fields, arrays, strict=True)))
    _check_dim(model, arrays.gram.shape[-1] - 1 if arrays.gram.ndim else -1)
    batch, dim = len(arrays.gram), model.dim
    if [array.shape for array in arrays] != [(batch, dim + 1, dim + 1), *[(batch, dim)] * 3] or batch < 1:
        raise InputError(f"contexts must be arrays of one batch and dim {dim}, not {[a.shape for a in arrays]}.")
    arrays = GramDraw(*(array.astype(model.dtype, copy=False) for array in arrays))
    if importance is not None:
        importance = finite_array("importance", importance, ("batch",))
        if len(importance) != batch:
            raise InputError(
                f"importance must have one number for each of the {batch} contexts, not {len(importance)}."
            )
    if backend == "reference":
        return reference_loss_and_gradient(model, arrays, objective == "exact", saturation, importance)
    return _fused(model, arrays, objective == "exact", saturation, threads, importance)


def _fused(
    model: LinearTransformer,
    contexts: GramDraw | Source,
    exact: bool,
    saturation: float,
    threads: int | None,
    importance: Array | None = None,
) -> tuple[Array, LinearTransformer]:
    from ridgeformer.kernels import engine

    if model.kind == "full":
        P, Q = model.attention_matrices()
        losses, P_sum, Q_sum = engine.full_loss_and_gradient(P, Q, contexts, exact, threads, saturation, importance)
        return losses, model.replace({"P": P_sum / len(losses), "Q": Q_sum / len(losses)})
    omega, size = model.omega(), model.dim + 1
    losses, omega_sum = engine.diagonal_loss_and_gradient(omega, size, contexts, exact, threads, saturation, importance)
    return losses, model.omega_gradient(omega_sum / len(losses))


def _check_dim(model: LinearTransformer, dim: int) -> None:
    if model.dim != dim:
        raise InputError(f"The model was made for {model.dim} features, the contexts have {dim}.")
