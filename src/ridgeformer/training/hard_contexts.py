"""Hard contexts: the few on which a model is about to explode, found in advance and trained on.

A model can be right on a hundred thousand contexts and give 1e10 on the next, because its map has degree 3^L in the
data; what does it is a large energy λ = Σ y². Waiting for such contexts to turn up in ordinary batches is hopeless. So
from time to time a pool is drawn whose targets are *stretched*, y ↦ b·y with b between 1 and a little more, which makes
large λ common; the worst of the pool are kept, together with the worst of earlier pools, and their gradient is added to
each step. Stretching the targets stretches the oracle along, w* ↦ b·w*, so the aim stays the right one. Features can be
*widened* likewise, X ↦ b·X, where the oracle is computed anew.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.gradient import EXPLODED
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.random import GramDraw, Purpose, token_rng
from ridgeformer.core.task import ContextDraw, Task
from ridgeformer.evaluation import adjusted_losses, draw_chunks


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
    widen: float = 1.0
    """Largest factor of the features."""
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


def widened(contexts: GramDraw, sigma: Array, factors: Array, examples: int) -> GramDraw:
    """The contexts with features multiplied by ``factors`` and w and the noise as they were.

    With c = Xᵀξ = α − Σw:  Σ ↦ b²Σ,  α ↦ b²Σw + b c,  λ ↦ b²wᵀΣw + 2b⟨w, c⟩ + ‖ξ‖²,  and the oracle, as ever, is
    w + (Σ + σ²I)⁻¹(c − σ²w).
    """
    weights, scatter = contexts.weights, contexts.gram[:, :-1, :-1]
    pushed = np.einsum("bij,bj->bi", scatter, weights)
    noise = contexts.gram[:, :-1, -1] - pushed
    along, across = np.einsum("bi,bi->b", weights, pushed), np.einsum("bi,bi->b", weights, noise)
    b = factors[:, None]
    gram = contexts.gram.copy()
    gram[:, :-1, :-1] *= b[..., None] ** 2
    gram[:, :-1, -1] = gram[:, -1, :-1] = b**2 * pushed + b * noise
    gram[:, -1, -1] += (factors**2 - 1) * along + 2 * (factors - 1) * across
    if examples <= weights.shape[1]:  # Σ has no inverse, or hardly one
        oracle = Context(gram, examples).ridge(sigma**2)
        return GramDraw(gram, weights, contexts.query, oracle)
    variance = sigma[:, None] ** 2
    system = gram[:, :-1, :-1] + variance[..., None] * np.eye(weights.shape[1])
    aim = b * noise - variance * weights
    oracle = weights + np.linalg.solve(system, aim[..., None])[..., 0]
    return GramDraw(gram, weights, contexts.query, oracle)


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
        if mining.widen > 1.0:
            factors = 1 + (mining.widen - 1) * rng.random(len(draw.sigma))
            candidates = widened(candidates, draw.sigma, factors, task.examples)
        found.append(_worst(model, task, candidates, mining.keep))
    merged = GramDraw(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))
    return _worst(model, task, merged, mining.memory)


def _worst(model: LinearTransformer, task: Task, contexts: GramDraw, count: int) -> GramDraw:
    """The contexts with the largest losses below `EXPLODED`, worst first."""
    losses = adjusted_losses(model, Context(contexts.gram, task.examples), contexts.oracle)
    order = np.argsort(np.where(losses < EXPLODED, -losses, np.inf), kind="stable")[:count]
    return GramDraw(*(array[order] for array in contexts))
