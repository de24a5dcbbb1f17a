"""Hard contexts: the few on which a model is about to explode, found in advance and trained on.

A model can be right on a hundred thousand contexts and give 1e10 on the next, because its map has degree 3^L in the
data; what does it is a large energy λ = Σ y². Waiting for such contexts to turn up in ordinary batches is hopeless. So
from time to time a pool is drawn whose targets are *stretched*, y ↦ b·y with b between 1 and a little more, which makes
large λ common; the worst of the pool are kept, together with the worst of earlier pools, and their gradient is added to
each step. Stretching the targets stretches the oracle along, w* ↦ b·w*, so the aim stays the right one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgeformer.adjoint import EXPLODED
from ridgeformer.context import Context
from ridgeformer.draws import GramDraw
from ridgeformer.evaluation import adjusted_losses, draw_chunks
from ridgeformer.model import LinearTransformer
from ridgeformer.streams import Purpose, token_rng
from ridgeformer.task import ContextDraw, Task
from ridgeformer.types import Array


@dataclass(frozen=True)
class Mining:
    """How hard contexts are found and used."""

    every: int = 500
    """Steps between pools."""
    pool: int = 64
    """Stretched contexts drawn for each pool, in batches of the step."""
    keep: int = 512
    """Hard contexts whose gradient joins each step."""
    memory: int = 4096
    """Hard contexts remembered from one pool to the next."""
    stretch: float = 1.5
    """Largest factor b of the targets."""
    largest_gradient: float = 0.2
    """Norm to which the gradient of the hard contexts is shortened: how much they may push."""
    first_step: int = 1000
    """Step of the first pool: before it the model is far from anything worth defending."""


def stretched(draw: ContextDraw, factors: Array) -> GramDraw:
    """The contexts with targets multiplied by ``factors`` (batch,): G's last row and column, and the oracle, scale."""
    factors = factors.astype(draw.oracle.dtype)[:, None]
    gram = draw.context.gram.copy()
    gram[:, -1, :] *= factors
    gram[:, :, -1] *= factors
    return GramDraw(gram, draw.weights * factors, draw.query, draw.oracle * factors)


def mine(
    model: LinearTransformer, task: Task, mining: Mining, *, batch: int, seed: int, step: int, memory: GramDraw | None
) -> GramDraw:
    """The worst contexts of a new pool and of ``memory``, worst first, at most ``mining.memory`` of them.

    Contexts beyond `EXPLODED` are passed over: their gradient overflows, and less extreme ones teach the same.
    """
    rng = token_rng(seed, Purpose.MINE, step)
    found: list[GramDraw] = [] if memory is None else [memory]
    pool_seed = int(token_rng(seed, Purpose.MINE, step).integers(2**63))
    for draw in draw_chunks(task, mining.pool * batch, pool_seed, Purpose.MINE, model.dtype):
        candidates = stretched(draw, 1 + (mining.stretch - 1) * rng.random(len(draw.sigma)))
        found.append(_worst(model, task, candidates, mining.keep))
    merged = GramDraw(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))
    return _worst(model, task, merged, mining.memory)


def _worst(model: LinearTransformer, task: Task, contexts: GramDraw, count: int) -> GramDraw:
    """The contexts with the largest losses below `EXPLODED`, worst first."""
    losses = adjusted_losses(model, Context(contexts.gram, task.context), contexts.oracle)
    order = np.argsort(np.where(losses < EXPLODED, -losses, np.inf), kind="stable")[:count]
    return GramDraw(*(array[order] for array in contexts))
