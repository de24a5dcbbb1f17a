"""Kinds of attention: how a token reads the examples. You can add your own to `ATTENTIONS`: see docs/extending.md.

An attention takes queries (batch, heads, N, e), keys (batch, heads, n, e) and values (batch, heads, n, v), and gives
(batch, heads, N, v). Keys and values come from the n examples; queries from all N = n + m tokens, m of them queries.
``seen`` (N,) says how many of the first examples each token may look at, for causal models; None means all of them.

linear       Σ_j ⟨q_i, k_j⟩ v_j                                    the paper's
normalised   the same divided by the number of examples           Ahn et al., NeurIPS 2023, and Zhang et al., JMLR 2024
softmax      Σ_j softmax_j(⟨q_i, k_j⟩ / √e) v_j                    Vaswani et al., NeurIPS 2017
elu, taylor  φ(q_i)ᵀ Σ_j φ(k_j) v_jᵀ / φ(q_i)ᵀ Σ_j φ(k_j)          Katharopoulos et al., ICML 2020

with φ = elu + 1 in the first, and in the second φ(x) = (1, x', (x' ⊗ x')/√2) for x' = x/e^¼, so that φ(q)ᵀφ(k) is the
Taylor polynomial 1 + s + s²/2 of exp(s), s = ⟨q, k⟩/√e (Arora et al., "Based", 2024). Both are never negative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional

from ridgeformer.core.registry import BLACK, BLUE, GREEN, ORANGE, PURPLE, Look, Registry
from ridgeformer.torch.module import Tensor

Attend = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
"""attend(queries, keys, values, seen), as above."""


@dataclass(frozen=True)
class Attention:
    """One entry of `ATTENTIONS`.

    >>> ATTENTIONS["softmax"].name
    'softmax'
    """

    name: str
    """In files and on the shell."""
    label: str
    """In tables and legends."""
    attend: Attend
    look: Look
    init_scale: float = 0.5
    """Standard deviation of initial weights, times the square root of their number of inputs. Where attention is a sum
    over examples the map has degree 3^L in the data, and large weights explode."""


def seen_mask(seen: Tensor, examples: int) -> Tensor:
    """(N, n): whether token i may look at example j."""
    return torch.arange(examples, device=seen.device) < seen[:, None]


def linear_attention(queries: Tensor, keys: Tensor, values: Tensor, seen: Tensor | None) -> Tensor:
    """Σ_j ⟨q_i, k_j⟩ v_j, with the small matrix Σ_j k_j v_jᵀ first: O(N) time; causal ones form the scores."""
    if seen is None:
        return queries @ (keys.mT @ values)
    return ((queries @ keys.mT) * seen_mask(seen, keys.shape[-2])) @ values


def normalised_attention(queries: Tensor, keys: Tensor, values: Tensor, seen: Tensor | None) -> Tensor:
    """`linear_attention` divided by the number of examples that it looks at."""
    total = linear_attention(queries, keys, values, seen)
    return total / (keys.shape[-2] if seen is None else seen.clamp(min=1)[:, None])


def softmax_attention(queries: Tensor, keys: Tensor, values: Tensor, seen: Tensor | None) -> Tensor:
    """torch's own softmax attention; a token that may look at no example gets zero."""
    if seen is None:
        return functional.scaled_dot_product_attention(queries, keys, values)
    mask = seen_mask(seen.clamp(min=1), keys.shape[-2])
    return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask) * (seen > 0)[:, None]


def kernelised(feature_map: Callable[[Tensor], Tensor]) -> Attend:
    """Attention by a feature map φ with φ(q)ᵀφ(k) > 0: O(N) time."""

    def attend(queries: Tensor, keys: Tensor, values: Tensor, seen: Tensor | None) -> Tensor:
        queries, keys = feature_map(queries), feature_map(keys)
        ones = torch.ones_like(values[..., :1])
        total = linear_attention(queries, keys, torch.cat([values, ones], dim=-1), seen)
        some = total[..., -1:] if seen is None else torch.where((seen > 0)[:, None], total[..., -1:], 1.0)
        return total[..., :-1] / some

    return attend


def elu_features(x: Tensor) -> Tensor:
    """elu(x) + 1: x + 1 above zero and exp(x) below."""
    return functional.elu(x) + 1


def taylor_features(x: Tensor) -> Tensor:
    """(1, x', (x' ⊗ x')/√2) with x' = x/e^¼: products of two are 1 + s + s²/2 ≥ ½, s = ⟨q, k⟩/√e."""
    scaled = x / x.shape[-1] ** 0.25
    squares = (scaled[..., :, None] * scaled[..., None, :]).flatten(-2) / 2**0.5
    return torch.cat([torch.ones_like(x[..., :1]), scaled, squares], dim=-1)


_SMALL = 0.06  # about the 0.02 at eleven inputs that FULL models of up to four layers start from
ATTENTIONS: Registry[Attention] = Registry("attention")
"""By name, in the order in which tables list them."""
for _attention in (
    Attention("linear", "linear", linear_attention, Look(BLUE, (), "^"), init_scale=_SMALL),
    Attention("normalised", "linear / n", normalised_attention, Look(BLACK, (1, 1), "v"), init_scale=4 * _SMALL),
    Attention("elu", "elu + 1", kernelised(elu_features), Look(GREEN, (4, 1.2, 1, 1.2), "o")),
    Attention("taylor", "Taylor", kernelised(taylor_features), Look(ORANGE, (6, 1.5), "D")),
    Attention("softmax", "softmax", softmax_attention, Look(PURPLE, (4, 1.5), "s")),
):
    ATTENTIONS.add(_attention)
