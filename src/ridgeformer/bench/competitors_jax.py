"""The training step in JAX, on the CPU: imported only where jax is installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ridgeformer.bench.token_losses import Loss
from ridgeformer.core.distributions import Uniform
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.task import Task


def draw_tokens(key: Any, task: Task, batch: int) -> tuple[Any, Any]:
    """(tokens, target) as in `token_losses`, float32: w, σ ~ U(low, high), X, ξ and x_t from JAX's own generator."""
    assert isinstance(task.prior, Uniform)
    low, high = task.prior.low, task.prior.high
    w_key, sigma_key, x_key, noise_key, query_key = jax.random.split(key, 5)
    # The type is named, since JAX's default depends on a global setting.
    normal = partial(jax.random.normal, dtype=jnp.float32)
    weights = normal(w_key, (batch, task.dim))
    sigma = jax.random.uniform(sigma_key, (batch, 1), jnp.float32, low, high)
    X = normal(x_key, (batch, task.examples, task.dim))
    y = jnp.einsum("bnd,bd->bn", X, weights) + sigma * normal(noise_key, (batch, task.examples))
    query = normal(query_key, (batch, 1, task.dim))
    rows = jnp.concatenate([X, query], axis=1)
    last = jnp.concatenate([y, jnp.zeros((batch, 1), jnp.float32)], axis=1)
    return jnp.concatenate([rows, last[..., None]], axis=-1), jnp.einsum("bd,bd->b", query[:, 0], weights)


def loss_and_gradient_on(
    model: LinearTransformer, loss: Loss, tokens: Array, target: Array
) -> tuple[float, Array, Array]:
    """Loss and its gradients with respect to P and Q (L, p, p) on given tokens."""
    differentiate = jax.jit(jax.value_and_grad(loss, argnums=(0, 1)))
    value, (P_gradient, Q_gradient) = differentiate(*_on_cpu(*_single_head(model), tokens, target))
    return float(value), np.asarray(P_gradient), np.asarray(Q_gradient)


def make_steps(model: LinearTransformer, task: Task, batch: int, loss: Loss) -> dict[str, Callable[[], object]]:
    """One call: fresh tokens, loss and gradient, all inside a single jitted function, waited for.

    The key of a call is the base key with the step's number folded in, which also happens inside the jitted function.
    XLA uses all the cores it finds, and has no other setting within a process.
    """

    def step(P: Any, Q: Any, key: Any, number: Any) -> Any:
        tokens, target = draw_tokens(jax.random.fold_in(key, number), task, batch)
        return jax.value_and_grad(loss, argnums=(0, 1))(P, Q, tokens, target)

    compiled = jax.jit(step)
    P, Q = _on_cpu(*_single_head(model))
    key = _on_cpu(jax.random.key(0))[0]
    done = 0

    def call() -> object:
        nonlocal done
        done += 1
        return jax.block_until_ready(compiled(P, Q, key, done))

    return {"all cores": call}


def make_evaluation(
    model: LinearTransformer, task: Task, batch: int, sequences: int, loss: Loss
) -> Callable[[], object]:
    """One call: the mean loss of at least ``sequences`` fresh sequences, a batch in each jitted call, waited for."""

    def batch_loss(P: Any, Q: Any, key: Any, number: Any) -> Any:
        return loss(P, Q, *draw_tokens(jax.random.fold_in(key, number), task, batch))

    compiled = jax.jit(batch_loss)
    P, Q = _on_cpu(*_single_head(model))
    key = _on_cpu(jax.random.key(0))[0]
    return lambda: float(sum(compiled(P, Q, key, number) for number in range(-(-sequences // batch))))


def _single_head(model: LinearTransformer) -> tuple[Array, Array]:
    P, Q = model.attention_matrices()
    return P[:, 0], Q[:, 0]


def _on_cpu(*arrays: Any) -> list[Any]:
    """Where a GPU is the default, comparing it with our CPU code would say nothing."""
    cpu = jax.devices("cpu")[0]
    return [jax.device_put(array, cpu) for array in arrays]
