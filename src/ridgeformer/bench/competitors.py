"""What we compare with: the paper's model on tokens, in JAX and in PyTorch, on the CPU. Both libraries are optional.

Tokens are E (batch, n + 1, p), the query token last; E_c are the n context tokens, C = E_cᵀ E_c. A layer is
e_i ← e_i + P C Q e_i for every token, so E ← E + E Qᵀ C Pᵀ. That is linear attention, a few batched matrix products,
and only the bracketing is left to choose; the benchmark times them all and compares with the fastest. P, Q (L, p, p).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from ridgeformer.bench.machine import Call
from ridgeformer.core.distributions import Uniform
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.task import Task

Loss = Callable[[Any, Any, Any, Any], Any]
"""loss(P, Q, tokens, target): the mean over the batch of ½(ŷ − y_t)², in the arrays of either library."""
_Layer = Callable[[Any, Any, Any, Any], Any]
_Draw = Callable[..., Any]  # of a shape


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


def _draw_tokens(
    normal: _Draw, uniform: _Draw, concatenate: Callable[[list[Any], int], Any], task: Task, batch: int
) -> tuple[Any, Any]:
    """(tokens, target): w, σ ~ U(low, high), rows x and ξ, in the arrays of either library."""
    assert isinstance(task.prior, Uniform)
    weights = normal(batch, task.dim)
    sigma = task.prior.low + (task.prior.high - task.prior.low) * uniform(batch, 1)
    rows = normal(batch, task.examples + 1, task.dim)
    clean = (rows @ weights[..., None])[..., 0]
    noisy = clean[:, :-1] + sigma * normal(batch, task.examples)
    last = concatenate([noisy, 0 * sigma], 1)
    return concatenate([rows, last[..., None]], -1), clean[:, -1]


class Jax:
    """The training step in JAX. Raises ImportError where it is not installed."""

    def __init__(self) -> None:
        import jax

        self.jax = jax

    def draw_tokens(self, key: Any, task: Task, batch: int) -> tuple[Any, Any]:
        """(tokens, target) of `_draw_tokens`, by JAX's own generator."""
        random, keys = self.jax.random, iter(self.jax.random.split(key, 4))
        # The type is named, since JAX's default depends on a global setting.
        return _draw_tokens(
            lambda *shape: random.normal(next(keys), shape, "float32"),
            lambda *shape: random.uniform(next(keys), shape, "float32"),
            self.jax.numpy.concatenate,
            task,
            batch,
        )

    def loss_and_gradient_on(
        self, model: LinearTransformer, loss: Loss, tokens: Array, target: Array
    ) -> tuple[float, Array, Array]:
        """Loss and its gradients with respect to P and Q (L, p, p) on given tokens."""
        differentiate = self.jax.jit(self.jax.value_and_grad(loss, argnums=(0, 1)))
        value, (P_gradient, Q_gradient) = differentiate(*self._on_cpu(*_single_head(model), tokens, target))
        return float(value), np.asarray(P_gradient), np.asarray(Q_gradient)

    def make_steps(self, model: LinearTransformer, task: Task, batch: int, loss: Loss) -> dict[str, Call]:
        """One call: fresh tokens, loss and gradient, all inside a single jitted function; it waits for the result.

        The key of a call is the base key with the step's number folded in, which also happens inside the jitted
        function. XLA uses all the cores it finds, and has no other setting within a process.
        """
        compiled = self._compiled(self.jax.value_and_grad(loss, argnums=(0, 1)), model, task, batch)
        steps = count(1)
        return {"all cores": lambda: self.jax.block_until_ready(compiled(next(steps)))}

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
        """(tokens, target) of `_draw_tokens`, by torch's own generator."""
        # The type is named, since torch's default is a global setting.
        options = {"generator": generator, "dtype": self.torch.float32}
        normal, uniform = (partial(draw, **options) for draw in (self.torch.randn, self.torch.rand))
        return _draw_tokens(normal, uniform, self.torch.cat, task, batch)

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
