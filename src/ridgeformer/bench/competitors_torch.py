"""The training step in PyTorch, eager, on the CPU: imported only where torch is installed.

Eager, because `torch.compile` is slower on these shapes (measured with 2.13: 33 ms against 22 ms) and takes half a
minute to compile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ridgeformer.bench.token_losses import Loss
from ridgeformer.core.distributions import Uniform
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.task import Task


def draw_tokens(generator: Any, task: Task, batch: int) -> tuple[Any, Any]:
    """(tokens, target) as in `token_losses`, float32: w, σ ~ U(low, high), X, ξ and x_t from torch's own generator."""
    assert isinstance(task.prior, Uniform)
    low, high = task.prior.low, task.prior.high
    # The type is named, since torch's default is a global setting.
    normal = partial(torch.randn, generator=generator, dtype=torch.float32)
    weights = normal(batch, task.dim)
    sigma = low + (high - low) * torch.rand(batch, 1, generator=generator, dtype=torch.float32)
    rows = normal(batch, task.examples + 1, task.dim)
    clean = (rows @ weights[..., None])[..., 0]
    noisy = clean[:, :-1] + sigma * normal(batch, task.examples)
    last = torch.cat([noisy, torch.zeros_like(sigma)], dim=1)
    return torch.cat([rows, last[..., None]], dim=-1), clean[:, -1]


def loss_and_gradient_on(
    model: LinearTransformer, loss: Loss, tokens: Array, target: Array
) -> tuple[float, Array, Array]:
    """Loss and its gradients with respect to P and Q (L, p, p) on given tokens."""
    P, Q = _parameters(model)
    value = loss(P, Q, torch.tensor(tokens), torch.tensor(target))
    P_gradient, Q_gradient = torch.autograd.grad(value, (P, Q))
    return float(value.detach()), P_gradient.numpy(), Q_gradient.numpy()


def make_steps(model: LinearTransformer, task: Task, batch: int, loss: Loss) -> dict[str, Callable[[], object]]:
    """One call: fresh tokens, loss and gradient by autograd; with as many threads as torch takes, and with one.

    One, because torch's threads wait for each other after every operation: where another process keeps a core busy, two
    threads were measured to be 50 times slower than on a quiet machine, and one not at all.
    """
    P, Q = _parameters(model)
    generator = torch.Generator().manual_seed(0)
    usual = torch.get_num_threads()

    def call(threads: int) -> object:
        torch.set_num_threads(threads)
        try:
            value = loss(P, Q, *draw_tokens(generator, task, batch))
            return value, torch.autograd.grad(value, (P, Q))
        finally:
            torch.set_num_threads(usual)

    names = {1: "1 thread", usual: f"{usual} threads" if usual > 1 else "1 thread"}
    return {name: partial(call, threads) for threads, name in names.items()}


def _parameters(model: LinearTransformer) -> tuple[Any, Any]:
    """P and Q of the only head, as leaves that want a gradient."""
    P, Q = model.attention_matrices()
    return torch.tensor(P[:, 0], requires_grad=True), torch.tensor(Q[:, 0], requires_grad=True)
