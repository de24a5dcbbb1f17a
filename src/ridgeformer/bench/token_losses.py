"""The paper's model and sampled loss, written for jax.numpy and torch alike: both know ``@``, ``.T`` and ``.mT``.

Tokens are E (batch, n + 1, p), the query token last; E_c are the n context tokens, C = E_cᵀ E_c. A layer is
e_i ← e_i + P C Q e_i for every token, so E ← E + E Qᵀ C Pᵀ. That is linear attention, a few batched matrix products,
and only the bracketing is left to choose; the benchmark times them all and compares with the fastest. P, Q (L, p, p).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Loss = Callable[[Any, Any, Any, Any], Any]
"""loss(P, Q, tokens, target): the mean over the batch of ½(ŷ − y_t)²."""
_Layer = Callable[[Any, Any, Any, Any], Any]


def _map_first(tokens: Any, context: Any, P: Any, Q: Any) -> Any:
    return tokens @ (Q.T @ (context.mT @ context) @ P.T)


def _token_by_token(tokens: Any, context: Any, P: Any, Q: Any) -> Any:
    return ((tokens @ Q.T) @ (context.mT @ context)) @ P.T


def _keys_and_values(tokens: Any, context: Any, P: Any, Q: Any) -> Any:
    return (tokens @ Q.T) @ (context.mT @ (context @ P.T))


def _scores(tokens: Any, context: Any, P: Any, Q: Any) -> Any:
    return ((tokens @ Q.T) @ context.mT) @ (context @ P.T)


def _token_loss(layer: _Layer) -> Loss:
    def loss(P: Any, Q: Any, tokens: Any, target: Any) -> Any:
        for P_layer, Q_layer in zip(P, Q, strict=True):
            tokens = tokens + layer(tokens, tokens[:, :-1], P_layer, Q_layer)
        return 0.5 * ((-tokens[:, -1, -1] - target) ** 2).mean()

    return loss


TOKEN_LOSSES: dict[str, Loss] = {
    "E(Qᵀ(EᵀE)Pᵀ)": _token_loss(_map_first),
    "((EQᵀ)(EᵀE))Pᵀ": _token_loss(_token_by_token),
    "(EQᵀ)(Eᵀ(EPᵀ))": _token_loss(_keys_and_values),
    "((EQᵀ)Eᵀ)(EPᵀ)": _token_loss(_scores),
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
