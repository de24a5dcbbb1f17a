"""The training objective as users call it: mean loss over a batch of contexts, and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from ridgeformer.core.backend import engine
from ridgeformer.core.forward import check_model
from ridgeformer.core.gradient import GROUP, Options, reference_loss_and_gradient
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw, Purpose, Source
from ridgeformer.core.task import MAX_BATCH, ContextDraw, Task
from ridgeformer.core.validation import InputError, instance, one_of, real_array, whole_number

__all__ = ["Options", "loss_and_gradient", "losses_and_gradient", "losses_and_gradient_on"]


def loss_and_gradient(
    model: LinearTransformer, task: Task, *, batch: int, seed: int, step: int = 0, **options: Any
) -> tuple[float, LinearTransformer]:
    """Mean loss over fresh contexts, and its gradient.

    Parameters
    ----------
    model: a model with as many features as the task.
    task: what contexts are drawn from.
    batch: how many contexts.
    seed, step: the same two give the same contexts, for every model, precision, back end and number of threads.
    options: fields of `Options`: ``objective``, ``saturation``, ``importance``, ``backend``, ``threads``.

    Returns the mean of the losses, and the gradient as a model of the same kind, with derivatives in place of
    parameters. Raises `InputError` for arguments that are out of range or do not fit.

    >>> import ridgeformer as rf
    >>> model = rf.LinearTransformer.init("diag", layers=2, dim=3)
    >>> loss, gradient = rf.loss_and_gradient(model, rf.Task(3, 8), batch=64, seed=0, backend="reference")
    >>> round(loss, 4), gradient.parameters["p"].shape
    (0.7281, (2, 1, 2))
    """
    losses, gradient = losses_and_gradient(model, task, batch=batch, seed=seed, step=step, **options)
    return float(losses.mean(dtype=np.float64)), gradient


def losses_and_gradient(
    model: LinearTransformer, task: Task, *, batch: int, seed: int, step: int = 0, **options: Any
) -> tuple[Array, LinearTransformer]:
    """As `loss_and_gradient`, but returns the loss of each context (batch,) instead of their mean."""
    batch = whole_number("batch", batch, 1, MAX_BATCH)
    settings = _options(options, batch)
    step = whole_number("step", step, 0, 2**63 - 1)
    check_model(model, instance("task", task, Task).dim)
    if settings.backend != "reference" and task.standard:
        return _fused(model, task.source(batch, seed=seed, step=step, purpose=Purpose.TRAIN), settings)
    chosen = "reference" if settings.backend == "reference" else "fused"
    dtype = model.dtype if task.gram_drawable else np.float64
    names: dict[str, Any] = {"seed": seed, "step": step, "purpose": Purpose.TRAIN}
    draw = task.draw_contexts(batch, **names, dtype=dtype, backend=chosen, threads=settings.threads)
    return losses_and_gradient_on(model, draw, **options)


def losses_and_gradient_on(
    model: LinearTransformer, contexts: ContextDraw | GramDraw, objective: str = "exact", **options: Any
) -> tuple[Array, LinearTransformer]:
    """The loss of each context, and the gradient of the mean, on contexts that were drawn before.

    Parameters
    ----------
    model: a model with as many features as the contexts.
    contexts: what `Task.draw_contexts` returned.
    objective: "exact" or "sampled", see `Options`.
    options: the other fields of `Options`; ``importance`` (batch,) multiplies what each context adds to the gradient.

    Returns the losses (batch,), and the gradient as a model of the same kind, with derivatives in place of parameters.
    Raises `InputError` for arguments that are out of range or do not fit.

    >>> import ridgeformer as rf
    >>> draw = rf.Task(3, 8).draw_contexts(4, seed=0)
    >>> model = rf.LinearTransformer.init("diag", layers=2, dim=3)
    >>> rf.losses_and_gradient_on(model, draw, backend="reference")[0].shape
    (4,)
    """
    arrays = contexts.as_gram_draw() if isinstance(contexts, ContextDraw) else contexts
    instance("contexts", arrays, GramDraw)
    given = zip(GramDraw._fields, arrays, strict=True)
    checked: list[Any] = [None if array is None else real_array(name, array) for name, array in given]
    arrays = GramDraw(*checked)
    check_model(model, arrays.gram.shape[-1] - 1 if arrays.gram.ndim else -1)
    batch, dim = len(arrays.gram), model.dim
    shapes = [array.shape for array in arrays if array is not None]
    moments = shapes[4:] in ([], [(dim, dim)], [(batch, dim, dim)])
    if shapes[:4] != [(batch, dim + 1, dim + 1), *[(batch, dim)] * 3] or not moments or batch < 1:
        raise InputError(f"contexts must be arrays of one batch and dim {dim}, not {shapes}.")
    arrays = arrays.astype(model.dtype)
    settings = _options({"objective": objective, **options}, batch)
    if settings.backend == "reference":
        return reference_loss_and_gradient(model, arrays, settings)
    return _fused(model, arrays, settings)


def group_gradients(
    model: LinearTransformer, contexts: GramDraw, importance: Array, backend: str = "fused", threads: int | None = None
) -> Array:
    """The sum of the gradients of each `GROUP` contexts, flat: (groups, size), float64. Curvature is made of these."""
    contexts = contexts.astype(model.dtype)
    if backend == "reference":
        rows = []
        for start in range(0, len(importance), GROUP):
            part = slice(start, start + GROUP)
            options = Options(importance=importance[part], backend=backend)
            _, gradient = reference_loss_and_gradient(model, contexts.rows(part), options)
            rows.append(gradient.flatten().astype(np.float64) * len(importance[part]))
        return np.array(rows)
    options = Options(importance=importance, threads=threads)
    sums = engine().group_gradients(model.compiled(), model.dim, contexts, options)
    return KINDS[model.kind].compiled_gradients(model.parameters, sums)


def _options(options: dict[str, Any], batch: int) -> Options:
    for name in options:
        one_of("An option", name, Options.__dataclass_fields__)
    settings = Options(**options)
    importance = settings.importance
    if importance is not None and len(importance) != batch:
        raise InputError(f"importance must have one number for each of the {batch} contexts, not {len(importance)}.")
    return settings


def _fused(model: LinearTransformer, contexts: GramDraw | Source, options: Options) -> tuple[Array, LinearTransformer]:
    losses, sums = engine().loss_and_gradient(model.compiled(), model.dim, contexts, options)
    mean = tuple(total / len(losses) for total in sums)
    return losses, model.replace(KINDS[model.kind].compiled_gradient(model.parameters, mean))
