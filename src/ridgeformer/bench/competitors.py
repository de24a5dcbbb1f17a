"""Whom we race against: the paper's model on tokens, in JAX and in PyTorch, on the CPU. Both libraries are optional.

Tokens are E (batch, n + 1, p), the query token last; E_c are the n context tokens, C = E_cᵀ E_c. A layer is
e_i ← e_i + P C Q e_i for every token, so E ← E + E Qᵀ C Pᵀ. That is linear attention, a few batched matrix products,
and only the bracketing is left to choose; the benchmark times them all and compares with the fastest. P, Q (L, p, p).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ridgeformer.bench.timing import Call
from ridgeformer.core.distributions import Uniform
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.task import Task

Loss = Callable[[Any, Any, Any, Any], Any]
"""loss(P, Q, tokens, target): the mean over the batch of ½(ŷ − y_t)², in the arrays of either library."""
_Layer = Callable[[Any, Any, Any, Any], Any]


def _token_loss(layer: _Layer) -> Loss:
    def loss(P: Any, Q: Any, tokens: Any, target: Any) -> Any:
        for P_layer, Q_layer in zip(P, Q, strict=True):
            tokens = tokens + layer(tokens, tokens[:, :-1], P_layer, Q_layer)
        return 0.5 * ((-tokens[:, -1, -1] - target) ** 2).mean()

    return loss


TOKEN_LOSSES: dict[str, Loss] = {
    "E(Qᵀ(EᵀE)Pᵀ)": _token_loss(lambda E, E_c, P, Q: E @ (Q.T @ (E_c.mT @ E_c) @ P.T)),
    "((EQᵀ)(EᵀE))Pᵀ": _token_loss(lambda E, E_c, P, Q: ((E @ Q.T) @ (E_c.mT @ E_c)) @ P.T),
    "(EQᵀ)(Eᵀ(EPᵀ))": _token_loss(lambda E, E_c, P, Q: (E @ Q.T) @ (E_c.mT @ (E_c @ P.T))),
    "((EQᵀ)Eᵀ)(EPᵀ)": _token_loss(lambda E, E_c, P, Q: ((E @ Q.T) @ E_c.mT) @ (E_c @ P.T)),
}
"""The token transformer with its products bracketed in four ways; the last forms n × n scores, as the paper does."""


def gram_loss(P: Any, Q: Any, tokens: Any, target: Any) -> Any:
    """The same loss by our own recursion (`ridgeformer.core.forward`), with T − I = P G Q, on the query token alone.

    T G = G + (T − I)G and T G Tᵀ = T G + T G (T − I)ᵀ. The hardest competitor: only kernels differ from ours.
    """
    context, query = tokens[:, :-1], tokens[:, -1:]
    gram = context.mT @ context
    for layer in range(len(P)):
        step = P[layer] @ gram @ Q[layer]
        query = query + query @ step.mT
        if layer < len(P) - 1:
            moved = gram + step @ gram
            gram = moved + moved @ step.mT
    return 0.5 * ((-query[:, 0, -1] - target) ** 2).mean()


def _single_head(model: LinearTransformer) -> tuple[Array, Array]:
    P, Q = model.attention_matrices()
    return P[:, 0], Q[:, 0]


def _bounds(task: Task) -> tuple[float, float]:
    assert isinstance(task.prior, Uniform)
    return task.prior.low, task.prior.high


class Jax:
    """The training step in JAX. Raises ImportError where it is not installed."""

    def __init__(self) -> None:
        import jax

        self.jax = jax

    def draw_tokens(self, key: Any, task: Task, batch: int) -> tuple[Any, Any]:
        """(tokens, target), float32: w, σ ~ U(low, high), X, ξ and x_t from JAX's own generator."""
        random, jnp = self.jax.random, self.jax.numpy
        w_key, sigma_key, x_key, noise_key, query_key = random.split(key, 5)
        # The type is named, since JAX's default depends on a global setting.
        normal = partial(random.normal, dtype=jnp.float32)
        weights = normal(w_key, (batch, task.dim))
        sigma = random.uniform(sigma_key, (batch, 1), jnp.float32, *_bounds(task))
        X = normal(x_key, (batch, task.examples, task.dim))
        y = jnp.einsum("bnd,bd->bn", X, weights) + sigma * normal(noise_key, (batch, task.examples))
        query = normal(query_key, (batch, 1, task.dim))
        rows = jnp.concatenate([X, query], axis=1)
        last = jnp.concatenate([y, jnp.zeros((batch, 1), jnp.float32)], axis=1)
        return jnp.concatenate([rows, last[..., None]], axis=-1), jnp.einsum("bd,bd->b", query[:, 0], weights)

    def loss_and_gradient_on(
        self, model: LinearTransformer, loss: Loss, tokens: Array, target: Array
    ) -> tuple[float, Array, Array]:
        """Loss and its gradients with respect to P and Q (L, p, p) on given tokens."""
        differentiate = self.jax.jit(self.jax.value_and_grad(loss, argnums=(0, 1)))
        value, (P_gradient, Q_gradient) = differentiate(*self._on_cpu(*_single_head(model), tokens, target))
        return float(value), np.asarray(P_gradient), np.asarray(Q_gradient)

    def make_steps(self, model: LinearTransformer, task: Task, batch: int, loss: Loss) -> dict[str, Call]:
        """One call: fresh tokens, loss and gradient, all inside a single jitted function, waited for.

        The key of a call is the base key with the step's number folded in, which also happens inside the jitted
        function. XLA uses all the cores it finds, and has no other setting within a process.
        """
        compiled = self._compiled(self.jax.value_and_grad(loss, argnums=(0, 1)), model, task, batch)
        done = 0

        def call() -> object:
            nonlocal done
            done += 1
            return self.jax.block_until_ready(compiled(done))

        return {"all cores": call}

    def make_evaluation(self, model: LinearTransformer, task: Task, batch: int, sequences: int, loss: Loss) -> Call:
        """One call: the mean loss of ``sequences`` or a few more fresh sequences, a batch in each jitted call."""
        compiled = self._compiled(loss, model, task, batch)
        return lambda: float(sum(compiled(number) for number in range(-(-sequences // batch))))

    def _compiled(self, function: Loss, model: LinearTransformer, task: Task, batch: int) -> Callable[[int], Any]:
        """``function`` of the model on tokens that are drawn from the number of a call, in one jitted function."""

        def on_fresh_tokens(P: Any, Q: Any, key: Any, number: Any) -> Any:
            return function(P, Q, *self.draw_tokens(self.jax.random.fold_in(key, number), task, batch))

        return partial(self.jax.jit(on_fresh_tokens), *self._on_cpu(*_single_head(model), self.jax.random.key(0)))

    def _on_cpu(self, *arrays: Any) -> list[Any]:
        """Where a GPU is the default, comparing it with our CPU code would say nothing."""
        cpu = self.jax.devices("cpu")[0]
        return [self.jax.device_put(array, cpu) for array in arrays]


class Torch:
    """The training step in PyTorch, eager. Raises ImportError where it is not installed.

    Eager, because `torch.compile` is slower on these shapes (measured with 2.13: 33 ms against 22 ms) and takes half a
    minute to compile.
    """

    def __init__(self) -> None:
        import torch

        self.torch = torch

    def draw_tokens(self, generator: Any, task: Task, batch: int) -> tuple[Any, Any]:
        """(tokens, target), float32: w, σ ~ U(low, high), X, ξ and x_t from torch's own generator."""
        torch, (low, high) = self.torch, _bounds(task)
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
        self, model: LinearTransformer, loss: Loss, tokens: Array, target: Array
    ) -> tuple[float, Array, Array]:
        """Loss and its gradients with respect to P and Q (L, p, p) on given tokens."""
        P, Q = self._parameters(model)
        value = loss(P, Q, self.torch.tensor(tokens), self.torch.tensor(target))
        P_gradient, Q_gradient = self.torch.autograd.grad(value, (P, Q))
        return float(value.detach()), P_gradient.numpy(), Q_gradient.numpy()

    def make_steps(self, model: LinearTransformer, task: Task, batch: int, loss: Loss) -> dict[str, Call]:
        """One call: fresh tokens, loss and gradient by autograd; with as many threads as torch takes, and with one.

        One, because torch's threads wait for each other after every operation: where another process keeps a core busy,
        two threads were measured to be 50 times slower than on a quiet machine, and one not at all.
        """
        torch, (P, Q) = self.torch, self._parameters(model)
        generator, usual = torch.Generator().manual_seed(0), torch.get_num_threads()

        def call(threads: int) -> object:
            torch.set_num_threads(threads)
            try:
                value = loss(P, Q, *self.draw_tokens(generator, task, batch))
                return value, torch.autograd.grad(value, (P, Q))
            finally:
                torch.set_num_threads(usual)

        names = {1: "1 thread", usual: f"{usual} threads" if usual > 1 else "1 thread"}
        return {name: partial(call, threads) for threads, name in names.items()}

    def _parameters(self, model: LinearTransformer) -> list[Any]:
        """P and Q of the only head, as leaves that want a gradient."""
        return [self.torch.tensor(matrix, requires_grad=True) for matrix in _single_head(model)]
