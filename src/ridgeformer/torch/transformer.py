"""Transformers with any attention, on the paper's tokens and with its read-out.

A token is (x, y); the token of a query is (x, 0). Layers change tokens by what they read from the n examples. The
prediction is minus the last coordinate of the query's token. With a ``width``, a linear map embeds the tokens first,
and another one reads out the prediction. With linear attention, merged projections and nothing else, this is the
paper's FULL model.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ridgeformer.core.kinds import KINDS
from ridgeformer.core.model import MAX_HEADS, MAX_LAYERS
from ridgeformer.core.random import init_rng
from ridgeformer.core.task import MAX_DIM
from ridgeformer.core.validation import InputError, one_of, whole_number
from ridgeformer.torch.attention import ATTENTIONS
from ridgeformer.torch.linear import LinearTransformer
from ridgeformer.torch.module import InContextModule, Tensor, choose_device, choose_dtype

_MOST_WIDTH = 8192
_MOST_MLP = 64


@dataclass(frozen=True)
class Architecture:
    """What a module is made of. Values out of range raise `InputError`.

    >>> Architecture("softmax", layers=2, heads=4, width=32, mlp=2, norm=True).kind
    'softmax'
    """

    kind: str = "softmax"
    """Attention: linear, normalised, elu, taylor, softmax; or one of the paper's kinds: gdpp, diag, full."""
    layers: int = 4
    """Number of layers, L."""
    heads: int = 1
    """Attention heads in each layer, H."""
    dim: int = 10
    """Number of features of an example, d."""
    registers: int = 0
    """For diag and full: extra coordinates of each token that start at zero."""
    projections: str = "merged"
    """merged: two matrices a head, Q for the scores, P for the values, as in the paper. separate: four, Q, K, V, P."""
    width: int | None = None
    """Length of embedded tokens; None: no embedding, tokens have d + 1 numbers."""
    mlp: int = 0
    """Hidden units of an MLP after the attention, as a multiple of the width; 0 for none."""
    norm: bool = False
    """Use a LayerNorm before attention and MLP, and before the prediction is read."""
    tied: bool = False
    """Use the weights of one layer L times (a looped transformer)."""
    causal: bool = False
    """Each example sees only itself and those before it, so that one pass predicts after every example."""

    def __post_init__(self) -> None:
        one_of("kind", self.kind, (*ATTENTIONS, *KINDS))
        whole_number("layers", self.layers, 1, MAX_LAYERS)
        whole_number("heads", self.heads, 1, MAX_HEADS)
        whole_number("dim", self.dim, 1, MAX_DIM)
        whole_number("registers", self.registers, 0)
        one_of("projections", self.projections, ("merged", "separate"))
        if self.width is not None:
            whole_number("width", self.width, 1, _MOST_WIDTH)
        whole_number("mlp", self.mlp, 0, _MOST_MLP)
        for name in ("norm", "tied", "causal"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} must be true or false, not {getattr(self, name)!r}.")
        changed = {name for name, value in asdict(self).items() if value != getattr(type(self), name)}
        if self.kind in KINDS and (others := sorted(changed - {"kind", "layers", "heads", "dim", "registers"})):
            raise InputError(
                f"A {self.kind} model has no {', '.join(others)}; 'linear' has the same attention and takes them."
            )
        if self.kind in ATTENTIONS and self.registers:
            raise InputError(f"Registers are for {', '.join(KINDS)}; give {self.kind} attention a width instead.")
        if self.projections == "separate" and (self.width or self.dim + 1) < self.heads:
            raise InputError(f"{self.heads} heads with separate projections need a width of at least {self.heads}.")

    @classmethod
    def from_json(cls, values: Any, source: str = "The architecture") -> Architecture:
        """From what `as_json` gave; unknown names are rejected with the nearest valid one."""
        if not isinstance(values, Mapping):
            raise InputError(f"{source} must be a JSON object.")
        for name in values:
            one_of(f"{source}: a name", name, cls.__dataclass_fields__)
        return cls(**values)

    def as_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)

    def make(self, *, seed: int = 0, device: Any = None, dtype: Any = "float32") -> LinearTransformer | Transformer:
        """A module of this architecture with random weights: equal seeds give equal ones."""
        if self.kind in KINDS:
            sizes: dict[str, Any] = {"layers": self.layers, "heads": self.heads, "dim": self.dim, "seed": seed}
            sizes["registers"] = self.registers
            scale = 0.02 if self.kind == "full" and self.layers <= 4 else None  # shallow models learn sooner from more
            return LinearTransformer(self.kind, **sizes, scale=scale, device=device, dtype=dtype)
        return Transformer(self, seed=seed, device=device, dtype=dtype)


class _Projected(nn.Module):
    """Attention with H heads on tokens of ``width`` numbers."""

    def __init__(self, architecture: Architecture, width: int) -> None:
        super().__init__()
        self.attend = ATTENTIONS[architecture.kind].attend
        heads, self.merged = architecture.heads, architecture.projections == "merged"
        if self.merged:
            self.Q, self.P = (nn.Parameter(torch.empty(heads, width, width)) for _ in range(2))
        else:
            size = width // heads
            self.Q, self.K, self.V = (nn.Parameter(torch.empty(heads, size, width)) for _ in range(3))
            self.P = nn.Parameter(torch.empty(heads, width, size))

    def forward(self, tokens: Tensor, examples: int, seen: Tensor | None) -> Tensor:
        """What every token takes from the first ``examples`` tokens, (batch, N, width)."""
        context = tokens[:, :examples]
        if self.merged:
            keys = context[:, None].expand(-1, len(self.Q), -1, -1)
            return self.attend(_by_head(tokens, self.Q), keys, _by_head(context, self.P), seen).sum(dim=1)
        found = self.attend(_by_head(tokens, self.Q), _by_head(context, self.K), _by_head(context, self.V), seen)
        return functional.linear(found.transpose(1, 2).flatten(-2), self.P.transpose(0, 1).flatten(-2))


def _by_head(tokens: Tensor, weights: Tensor) -> Tensor:
    """Every head's matrix (H, out, width) times every token: (batch, H, N, out), in one product rather than H."""
    return functional.linear(tokens, weights.flatten(0, 1)).unflatten(-1, weights.shape[:2]).transpose(1, 2)


class Block(nn.Module):
    """One layer: attention and perhaps an MLP, each added to the tokens, each after a LayerNorm if there is one."""

    def __init__(self, architecture: Architecture, width: int) -> None:
        super().__init__()
        self.attention = _Projected(architecture, width)
        self.attention_norm = nn.LayerNorm(width) if architecture.norm else nn.Identity()
        self.mlp: nn.Module | None = None
        if architecture.mlp:
            hidden = architecture.mlp * width
            self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
            self.mlp_norm = nn.LayerNorm(width) if architecture.norm else nn.Identity()

    def forward(self, tokens: Tensor, examples: int, seen: Tensor | None) -> Tensor:
        """All tokens (batch, N, width) after the layer; the first ``examples`` of them are the examples."""
        tokens = tokens + self.attention(self.attention_norm(tokens), examples, seen)
        return tokens if self.mlp is None else tokens + self.mlp(self.mlp_norm(tokens))


class Transformer(InContextModule):
    """A transformer of any `Architecture`.

    Parameters
    ----------
    architecture: what it is made of.
    seed: names the initial weights, which do not depend on torch's generators.
    device, dtype: where and in which precision.
    info: where it comes from, kept in its file.

    >>> import torch
    >>> module = Transformer(Architecture("softmax", layers=2, dim=3))
    >>> module(torch.ones(5, 8, 3), torch.ones(5, 8), torch.ones(5, 4, 3)).shape
    torch.Size([5, 4])
    """

    def __init__(
        self,
        architecture: Architecture,
        *,
        seed: int = 0,
        device: Any = None,
        dtype: Any = "float32",
        info: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(architecture, Architecture) or architecture.kind not in ATTENTIONS:
            raise InputError(f"A Transformer is made of an Architecture with one of {', '.join(ATTENTIONS)}.")
        self.architecture, self.dim, self.info = architecture, architecture.dim, dict(info or {})
        width = architecture.width or architecture.dim + 1
        embedded = architecture.width is not None
        device, dtype = torch.device("cpu") if device is None else choose_device(device), choose_dtype(dtype)
        with torch.device("meta"):  # torch's own initial weights are never drawn
            self.embedding = nn.Linear(architecture.dim + 1, width) if embedded else nn.Identity()
            count = 1 if architecture.tied else architecture.layers
            self.blocks = nn.ModuleList(Block(architecture, width) for _ in range(count))
            self.final_norm = nn.LayerNorm(width) if architecture.norm else nn.Identity()
            self.readout = nn.Linear(width, 1) if embedded else None
        self.to(dtype)
        self.to_empty(device=device)
        if device.type != "meta":
            self._draw_weights(seed)

    @property
    def kind(self) -> str:
        """Of the attention."""
        return self.architecture.kind

    @property
    def layers(self) -> int:
        """L."""
        return self.architecture.layers

    @property
    def heads(self) -> int:
        """H."""
        return self.architecture.heads

    @property
    def registers(self) -> int:
        """0: these modules have a width instead of registers."""
        return 0

    @torch.no_grad()
    def _draw_weights(self, seed: int) -> None:
        """N(0, s²/inputs) for matrices, s smaller by √L for those that write to the tokens; LayerNorms start at 1."""
        rng, scale = init_rng(seed), ATTENTIONS[self.architecture.kind].init_scale
        writes = scale / self.layers**0.5
        for name, parameter in self.named_parameters():
            if parameter.ndim == 1:
                parameter.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
                continue
            last = name.rpartition(".")[2]
            own = writes if last == "P" or "mlp.2" in name else scale if last in "QKV" else 1.0
            drawn = rng.standard_normal(tuple(parameter.shape)) * (own / parameter.shape[-1] ** 0.5)
            parameter.copy_(torch.from_numpy(drawn))

    def forward(self, X: Tensor, y: Tensor, queries: Tensor, prefixes: Tensor | None = None) -> Tensor:
        """Predictions (batch, m) for queries (batch, m, d), given X (batch, n, d) and y (batch, n).

        ``prefixes`` (m,), for causal models: how many of the first examples each query may look at; all by default.
        """
        self.check_tensors(X, y, queries)
        n, m = X.shape[1], queries.shape[1]
        seen = None
        if self.architecture.causal:
            asked = torch.full((m,), n, device=X.device) if prefixes is None else prefixes
            seen = torch.cat([torch.arange(1, n + 1, device=X.device), asked])
        elif prefixes is not None:
            raise InputError("Only a causal module can be asked about prefixes of its examples.")
        rows = torch.cat([X, queries], dim=1)
        targets = torch.cat([y, torch.zeros_like(queries[..., 0])], dim=1)
        tokens = self.embedding(torch.cat([rows, targets[..., None]], dim=-1))
        for layer in range(self.layers):
            tokens = self.blocks[layer % len(self.blocks)](tokens, n, seen)
        asked_tokens = self.final_norm(tokens[:, n:])
        return -asked_tokens[..., -1] if self.readout is None else -self.readout(asked_tokens)[..., 0]

    def prefix_predictions(self, X: Tensor, y: Tensor) -> Tensor:
        """Predictions (batch, n) of every target from the examples before it, by a causal module in one pass."""
        return self(X, y, X, torch.arange(X.shape[1], device=X.device))

    def first_layers(self, layers: int | None) -> Transformer:
        """A module with the same weights that stops after this many layers, with the same read-out."""
        layers = whole_number("layers", self.layers if layers is None else layers, 1, self.layers)
        shorter = copy.deepcopy(self)
        shorter.architecture = Architecture(**{**asdict(self.architecture), "layers": layers})
        if not self.architecture.tied:
            shorter.blocks = shorter.blocks[:layers]
        return shorter

    def save_pretrained(self, path: str | Path) -> None:
        """Write a safetensors file that `ridgeformer.torch.load` reads: weights, architecture, info and digest."""
        from ridgeformer.torch.files import save_module  # it reads modules, which this one is

        save_module(self, Path(path))

    save = save_pretrained
