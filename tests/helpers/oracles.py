"""An independent implementation of the model, in JAX, on tokens: what the package's formulas are held against.

It shares nothing with the package but the names of the parameters: no Gram matrix, no row recursion, no adjoint. The
tokens of one context move as section 3 of the paper prints it, the loss is read off query tokens, and gradients come
from JAX's reverse mode in float64.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ridgeformer as rf
from ridgeformer.core.notation import Array
from support import Examples

jax.config.update("jax_enable_x64", True)


def _dense(kind: str, dim: int, parameters: Any) -> tuple[Any, Any]:
    """P and Q of every layer and head, (L, H, p, p), from the kind's own parameters."""
    if kind == "full":
        return parameters["P"], parameters["Q"]
    p, q = parameters["p"], parameters["q"]
    if kind == "gdpp":
        q = jnp.concatenate([q, jnp.zeros_like(q)], axis=-1)

    def spread(numbers: Any) -> Any:
        first, *others = numbers
        side = math.isqrt(len(others))
        return jax.scipy.linalg.block_diag(first * jnp.eye(dim), jnp.array(others).reshape(side, side))

    return tuple(jax.vmap(jax.vmap(spread))(numbers) for numbers in (p, q))


def _query_outputs(P: Any, Q: Any, X: Any, y: Any, queries: Any) -> Any:
    """Predictions for ``queries`` (m, d) of one context X (n, d), y (n,)."""
    registers = P.shape[-1] - X.shape[1] - 1
    context = jnp.hstack([X, jnp.zeros((len(X), registers)), y[:, None]])
    asked = jnp.hstack([queries, jnp.zeros((len(queries), registers + 1))])

    def layer(tokens: Any, matrices: Any) -> Any:
        context, asked = tokens
        P_heads, Q_heads = matrices

        def attend(token: Any) -> Any:
            scores = jnp.einsum("ni,hij,j->hn", context, Q_heads, token)
            return token + jnp.einsum("hij,nj,hn->i", P_heads, context, scores)

        return (jax.vmap(attend)(context), jax.vmap(attend)(asked)), None

    (_, asked), _ = jax.lax.scan(layer, (context, asked), (P, Q))  # compiled once, whatever the depth
    return -asked[:, -1]


def _oracle(X: Array, y: Array, sigma: float) -> Array:
    """Ridge regression with penalty σ², as least squares on the data with σ I appended."""
    dim = X.shape[1]
    return np.linalg.lstsq(np.vstack([X, sigma * np.eye(dim)]), np.concatenate([y, np.zeros(dim)]))[0]


def _losses(kind: str, parameters: Any, X: Any, y: Any, query: Any, weights: Any, oracle: Any) -> Any:
    """The exact and the sampled loss of one context."""
    dim = X.shape[1]
    P, Q = _dense(kind, dim, parameters)
    # Predictions for the unit vectors are the implicit weights.
    outputs = _query_outputs(P, Q, X, y, jnp.vstack([jnp.eye(dim), query[None]]))
    exact = 0.5 * jnp.sum((outputs[:dim] - oracle) ** 2)
    sampled = 0.5 * (outputs[dim] - query @ weights) ** 2
    return jnp.stack([exact, sampled])


def autodiff_losses_and_gradients(
    model: rf.LinearTransformer, examples: Examples, saturation: float = 0.0
) -> dict[str, tuple[Array, Array]]:
    """For each objective: every context's loss, and the gradient of their mean as one vector.

    With ``saturation`` s > 0, the gradient of the mean of s·ln(1 + loss/s).
    """
    oracles = np.stack([_oracle(*one) for one in zip(examples.X, examples.y, examples.sigma, strict=True)])
    per_context = (examples.X, examples.y, examples.queries[:, 0], examples.weights, oracles)

    def means_and_losses(parameters: Any) -> Any:
        losses = jax.vmap(lambda *context: _losses(model.kind, parameters, *context))(*per_context)
        minimised = saturation * jnp.log1p(losses / saturation) if saturation > 0 else losses
        return minimised.mean(axis=0), losses

    # Run once, so compiled without the optimisations that would take longer than the run.
    options = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    differentiate = jax.jit(jax.jacrev(means_and_losses, has_aux=True), compiler_options=options)
    gradients, losses = differentiate({name: jnp.asarray(value) for name, value in model.parameters.items()})
    return {
        objective: (
            np.asarray(losses)[:, number],
            np.concatenate([np.ravel(gradients[name][number]) for name in model.parameters]),
        )
        for number, objective in enumerate(("exact", "sampled"))
    }
