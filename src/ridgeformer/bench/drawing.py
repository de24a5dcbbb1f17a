"""A kernel that draws the contexts of a step and does nothing with them, to see what drawing costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ridgeformer.kernels import engine
from ridgeformer.kernels.jit import kernel
from ridgeformer.kernels.pool import run_divided
from ridgeformer.kernels.sampling import draw_block, draw_query, solve_oracle
from ridgeformer.kernels.vectors import lane_count
from ridgeformer.streams import Purpose, philox_key
from ridgeformer.task import Task


@kernel
def draw_and_forget(source: Any, exact: bool, begin: int, end: int, block: Any) -> None:
    """Contexts ``begin`` … ``end`` of ``source``, block by block as `ridgeformer.kernels.full.full_gradient` does."""
    for first in range(begin, end, block.sigma.shape[0]):
        draw_block(block, source, first)
        if exact:
            solve_oracle(block)
        else:
            draw_query(block, source, first)


def draw_as_a_step_does(task: Task, batch: int, step: int, objective: str) -> None:
    """All that `ridgeformer.loss_and_gradient` does in float32 before the first layer: noise levels, G, w*, or x_t."""
    sigma = task.draw_sigma(batch, seed=0, step=step, purpose=Purpose.TRAIN)
    source = engine.make_source(sigma, task.context, step, 0, philox_key(0, Purpose.TRAIN), np.float32)
    lanes = lane_count(4)

    def work(begin: int, end: int) -> None:
        block = engine.block_workspace(task.dim + 1, np.float32)
        draw_and_forget(source, objective == "exact", begin * lanes, min(end * lanes, batch), block)

    run_divided(work, -(-batch // lanes))
