"""The paper's model as a module: its state_dict is the tensors of a model file.

The parameters are those of the kind (`ridgeformer.core.kinds`), and the kind says which matrices P and Q they stand
for. A kind copies each parameter to some entries of P and Q and leaves the others zero. To find out which entries, we
ask it for the matrices of the parameters 1, 2, 3, …: these matrices are then a table of places. Torch can take numbers
from a vector by such a table, and differentiate, compile and run this anywhere. A kind that does more than copy is
called in NumPy each time instead, with its own gradient.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from ridgeformer.core.context import Context
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.model import LinearTransformer as Model
from ridgeformer.core.notation import Array
from ridgeformer.core.validation import InputError, instance, one_of
from ridgeformer.torch.module import InContextModule, Tensor, as_array, choose_device, choose_dtype

FORMS = ("auto", "tokens", "gram")
_KEPT = (torch.float32, torch.float64)  # what model files hold


class LinearTransformer(InContextModule):
    """L layers of linear self-attention as a `torch.nn.Module`, on the same files as `ridgeformer.LinearTransformer`.

    Parameters
    ----------
    model: parameters, kind and info; or the name of a kind, with what `ridgeformer.LinearTransformer.init` takes.
    form: "tokens" computes as the paper prints it, "gram" on d + 1 by d + 1 matrices, "auto" whichever costs less.
    device, dtype: where and in which precision; those of the model by default.
    init: for a kind, ``layers``, ``dim``, ``heads``, ``seed`` and so on.

    Raises `InputError` for anything that does not fit.

    >>> import torch, ridgeformer as rf
    >>> module = rf.torch.LinearTransformer("diag", layers=2, dim=3)
    >>> {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    {'p': (2, 1, 2), 'q': (2, 1, 2)}
    >>> module(torch.ones(5, 8, 3), torch.ones(5, 8), torch.ones(5, 1, 3)).shape
    torch.Size([5, 1])
    """

    def __init__(
        self, model: Model | str, *, form: str = "auto", device: Any = None, dtype: Any = None, **init: Any
    ) -> None:
        super().__init__()
        if isinstance(model, str):
            model = Model.init(model, **init)
        elif init:
            raise InputError(f"A model has its own {', '.join(init)}; pass the name of a kind to choose them.")
        self._template = instance("model", model, Model)
        self.dim, self.form = model.dim, one_of("form", form, FORMS)
        self.info: Mapping[str, Any] = dict(model.info)
        device = torch.device("cpu") if device is None else choose_device(device)
        precision = choose_dtype(model.dtype.name if dtype is None else dtype)
        for name, array in model.parameters.items():
            values = torch.empty(array.shape) if device.type == "meta" else torch.from_numpy(array.copy())
            self.register_parameter(name, nn.Parameter(values.to(device, precision)))
        self._size = int(model.attention_matrices()[0].shape[-1])  # p
        places = _places(model)
        self._copies = places is not None
        for name, table in zip(("_P_places", "_Q_places"), places or (), strict=False):
            self.register_buffer(name, torch.from_numpy(table).to(device), persistent=False)

    @property
    def kind(self) -> str:
        """Of the parameters: gdpp, diag, full or one of your own."""
        return self._template.kind

    @property
    def layers(self) -> int:
        """L."""
        return self._template.layers

    @property
    def heads(self) -> int:
        """H."""
        return self._template.heads

    @property
    def registers(self) -> int:
        """r, how many further coordinates a token has."""
        return self._size - self.dim - 1

    def attention_matrices(self) -> tuple[Tensor, Tensor]:
        """P and Q, each (L, H, p, p), differentiable with respect to the parameters."""
        values = tuple(self.parameters())
        if not self._copies:
            P, Q = _Matrices.apply(self._template, *values)
            return P, Q
        flat = [value.reshape(self.layers, self.heads, -1) for value in values]
        flat.insert(0, torch.zeros_like(flat[0][..., :1]))  # place 0 is that of a zero
        pool = torch.cat(flat, dim=-1)
        return pool[..., self._P_places], pool[..., self._Q_places]

    def forward(self, X: Tensor, y: Tensor, queries: Tensor) -> Tensor:
        """Predictions (batch, m) for queries (batch, m, d), given X (batch, n, d) and y (batch, n)."""
        self.check_tensors(X, y, queries)
        P, Q = self.attention_matrices()
        if self.chosen_form(X.shape[1], queries.shape[1]) == "tokens":
            return self._token_predictions(P, Q, X, y, queries)
        tokens = self._embed(X, y)
        weights = self._weights(P, Q, tokens.mT @ tokens)
        return torch.einsum("bmd,bd->bm", queries, weights)

    def chosen_form(self, examples: int, queries: int = 1) -> str:
        """What "auto" is for contexts of so many examples and queries: the form with fewer multiplications."""
        if self.form != "auto":
            return self.form
        n, m, p, heads = examples, queries, self._size, self.heads
        tokens = self.layers * heads * (2 * n * p * p + 2 * (n + m) * n * p)
        gram = n * p * p + self.layers * (2 * heads + 2) * p**3
        return "tokens" if tokens < gram else "gram"

    def gram_weights(self, gram: Tensor) -> Tensor:
        """Implicit weights ŵ (batch, d), given G (batch, d + 1, d + 1); the prediction for a query x is <ŵ, x>."""
        if self.registers:  # they begin as zeros
            after_x = functional.pad(gram[..., -1:], (self.registers, 0))
            gram = torch.cat([gram[..., :-1], after_x], dim=-1)
            last = functional.pad(gram[..., -1:, :], (0, 0, self.registers, 0))
            gram = torch.cat([gram[..., :-1, :], last], dim=-2)
        P, Q = self.attention_matrices()
        return self._weights(P, Q, gram)

    def weights(self, context: Context) -> Array:
        """Implicit weights (batch, d) of contexts as NumPy has them: what makes the module a linear `Predictor`."""
        gram = torch.as_tensor(context.gram).to(self.device, self.dtype)
        if context.dim != self.dim:
            raise InputError(f"The model was made for {self.dim} features; these contexts have {context.dim}.")
        with torch.no_grad():
            found = self.gram_weights(gram)
        return as_array(found if found.dtype == torch.float64 else found.float())

    def first_layers(self, layers: int | None) -> LinearTransformer:
        """A copy that stops after this many layers."""
        return LinearTransformer(self.to_model().first_layers(layers), form=self.form, device=self.device)

    def to_model(self) -> Model:
        """The same weights as a `ridgeformer.LinearTransformer`; half precision becomes float32."""
        if self.device.type == "meta":
            raise InputError("A module on the meta device has no weights.")
        wide = {name: value if value.dtype in _KEPT else value.float() for name, value in self.named_parameters()}
        arrays = {name: as_array(value) for name, value in wide.items()}
        return replace(self._template, parameters=arrays, info=self.info)

    def save_pretrained(self, path: str | Path) -> None:
        """Write the model file that `ridgeformer.load` reads: weights, kind, info and digest.

        Raises `InputError` if a weight is not finite or the file cannot be written.
        """
        self.to_model().save(path)

    save = save_pretrained

    def _embed(self, X: Tensor, y: Tensor) -> Tensor:
        """Tokens (x, 0, y): registers, if the kind has any, begin as zeros."""
        registers = X.new_zeros(*X.shape[:2], self._size - self.dim - 1)
        return torch.cat([X, registers, y[..., None]], dim=-1)

    def _token_predictions(self, P: Tensor, Q: Tensor, X: Tensor, y: Tensor, queries: Tensor) -> Tensor:
        """As printed: e_i ← e_i + Σ_k Σ_j (e_jᵀ Q_k e_i) P_k e_j over context tokens j."""
        n = X.shape[1]
        tokens = torch.cat([self._embed(X, y), self._embed(queries, torch.zeros_like(queries[..., 0]))], dim=1)
        for layer in range(self.layers):
            context = tokens[:, None, :n]
            scores = tokens[:, None] @ (context @ Q[layer]).mT
            tokens = tokens + (scores @ (context @ P[layer].mT)).sum(dim=1)
        return -tokens[:, n:, -1]

    def _weights(self, P: Tensor, Q: Tensor, gram: Tensor) -> Tensor:
        """ŵ = −c[:d] with c = e_pᵀ T_{L−1} … T_0 and T = I + Σ_k P_k G Q_k; tokens move as e ↦ T e, so G ↦ T G Tᵀ."""
        moves = []  # T − I of every layer
        for layer in range(self.layers):
            moves.append((P[layer] @ gram[:, None] @ Q[layer]).sum(dim=1))
            if layer < self.layers - 1:
                moved = gram + moves[-1] @ gram
                gram = moved + moved @ moves[-1].mT
        row = moves[-1][:, -1:] + torch.eye(self._size, dtype=gram.dtype, device=gram.device)[-1:]
        for move in reversed(moves[:-1]):
            row = row + row @ move
        return -row[:, 0, : self.dim]


class _Matrices(torch.autograd.Function):
    """P and Q by the kind's own NumPy code, for kinds that do more than copy."""

    @staticmethod
    def forward(ctx: Any, template: Model, *values: Tensor) -> tuple[Tensor, Tensor]:
        ctx.template, ctx.like = template, values[0]
        ctx.parameters = {name: as_array(value) for name, value in zip(template.parameters, values, strict=True)}
        P, Q = KINDS[template.kind].matrices(ctx.parameters, template.dim)
        return torch.tensor(P).to(values[0]), torch.tensor(Q).to(values[0])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:  # type: ignore[override, unused-ignore]
        kind = KINDS[ctx.template.kind]
        found = kind.gradient(ctx.parameters, *(as_array(gradient) for gradient in gradients))
        return None, *(torch.tensor(found[name]).to(ctx.like) for name in ctx.parameters)


def _places(model: Model) -> tuple[Array, Array] | None:
    """Which parameter of a head each entry of P and Q holds: 1 is the first, 0 a zero; None if they are no copies."""
    shapes = {name: array.shape for name, array in model.parameters.items()}
    counts = [math.prod(shape[2:]) for shape in shapes.values()]
    starts = np.cumsum([1, *counts[:-1]])
    wide = model.astype(np.float64)

    def matrices(values: Array) -> tuple[Array, Array]:
        """P and Q of the first head, given the parameters of every head as one vector after a zero."""
        arrays = {
            name: np.broadcast_to(values[start : start + count].reshape(shape[2:]), shape)
            for (name, shape), start, count in zip(shapes.items(), starts, counts, strict=True)
        }
        P, Q = wide.replace(arrays).attention_matrices()
        return P[0, 0], Q[0, 0]

    numbers = np.arange(1.0 + sum(counts))
    tables = [matrix.astype(np.int64) for matrix in matrices(numbers)]
    trial = np.concatenate([[0.0], np.random.default_rng(0).uniform(1, 2, sum(counts))])  # any numbers would do
    inside = all(((table >= 0) & (table < len(trial))).all() for table in tables)
    if inside and all(
        np.array_equal(trial[table], given) for table, given in zip(tables, matrices(trial), strict=True)
    ):
        return tables[0], tables[1]
    return None


def from_model(model: Model, *, form: str = "auto", device: Any = None, dtype: Any = None) -> LinearTransformer:
    """A `ridgeformer.LinearTransformer` as a module; ``module.to_model()`` is the way back.

    >>> import ridgeformer as rf
    >>> module = rf.torch.from_model(rf.load("diag-4-uniform-5"))
    >>> module.kind, module.layers, module.to_model().info["training"]["seed"]
    ('diag', 4, 0)
    """
    return LinearTransformer(instance("model", model, Model), form=form, device=device, dtype=dtype)
