"""Losses of what a model would say after each of its layers."""

from __future__ import annotations

from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.task import Task
from ridgeformer.core.validation import InputError, whole_number
from ridgeformer.evaluation.comparison import OnChunk
from ridgeformer.evaluation.losses import draw_chunks, half_square
from ridgeformer.evaluation.result import Evaluation, Tally


def layerwise(
    model: LinearTransformer, task: Task, sequences: int = 100_000, seed: int = 0, on_chunk: OnChunk = None
) -> tuple[Evaluation, ...]:
    """Evaluations of the read-out after 1, 2, … L layers, in one pass over the sequences of `evaluate`.

    The prediction is read from the query token as it is after a layer, without the layers behind it (the paper's
    figure 5): the evaluation of `LinearTransformer.first_layers`.
    """
    if not isinstance(model, LinearTransformer):
        raise InputError(f"Only a model has layers to read out after; a {type(model).__name__} has none.")
    if model.dim != task.dim:
        raise InputError(f"The model was made for {model.dim} features, the task has {task.dim}.")
    from ridgeformer.kernels import engine

    sequences = whole_number("sequences", sequences, 1)
    parameters = model.attention_matrices() if model.kind == "full" else model.omega()
    tallies, done = [Tally(sequences) for _ in range(model.layers)], 0
    for draw in draw_chunks(task, sequences, seed):
        every_layer = engine.weights_from_gram(parameters, draw.context.gram, every_layer=True)
        for weights, tally in zip(every_layer, tallies, strict=True):
            tally.add(half_square(weights, draw.oracle), half_square(weights, draw.weights))
        done += len(draw.sigma)
        if on_chunk is not None:
            on_chunk(done)
    return tuple(tally.evaluation() for tally in tallies)
