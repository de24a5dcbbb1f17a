"""A kernel that draws the contexts of a step and does nothing with them, to see what drawing costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ridgeformer.core.random import Purpose, philox_key
from ridgeformer.core.task import Task
from ridgeformer.kernels import engine
from ridgeformer.kernels.jit import kernel
from ridgeformer.kernels.sampling import draw_block, draw_query


@kernel
def draw_and_forget(source: Any, exact: bool, begin: int, end: int, block: Any) -> None:
    """Contexts ``begin`` … ``end`` of ``source``, block by block as `ridgeformer.kernels.full.full_gradient` does."""
    for first in range(begin, end, block.sigma.shape[0]):
        draw_block(block, source, first)
        if not exact:
            draw_query(block, source, first)


def draw_as_a_step_does(task: Task, batch: int, step: int, objective: str) -> None:
    """All that `ridgeformer.loss_and_gradient` draws in float32, on one thread: noise levels, w, G and perhaps x_t.

    The oracle w* of the exact objective is not drawn but computed, as the loss is.
    """
    sigma = task.draw_sigma(batch, seed=0, step=step, purpose=Purpose.TRAIN)
    source = engine.make_source(sigma, task.examples, step, 0, philox_key(0, Purpose.TRAIN), np.float32)
    draw_and_forget(source, objective == "exact", 0, batch, engine.block_workspace(task.dim + 1, np.float32))
