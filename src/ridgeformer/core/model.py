"""The model: a stack of linear self-attention layers, in the paper's three parametrisations.

full    P, Q dense (p, p) for every head
diag    P = diag(p_x I, p_y), Q = diag(q_x I, q_y) for every head
gdpp    diag with q_y = 0: gradient descent with preconditioning (GD++)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ridgeformer.core.notation import Array
from ridgeformer.core.random import init_rng
from ridgeformer.core.task import MAX_DIM
from ridgeformer.core.validation import FLOATS, InputError, float_dtype, nonnegative, one_of, real_array, whole_number

KINDS = ("gdpp", "diag", "full")
MAX_LAYERS = 1000
MAX_HEADS = 1000

DEFAULT_SCALE = {"gdpp": 0.02, "diag": 0.02, "full": 0.002}
"""Standard deviation of initial parameters. The map has degree 3^L in the data: deep models explode from large ones."""


def parameter_shapes(kind: str, layers: int, heads: int, dim: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the parameters of a kind: exactly the tensors of its model file."""
    if kind == "full":
        return {"P": (layers, heads, dim + 1, dim + 1), "Q": (layers, heads, dim + 1, dim + 1)}
    # Last axis: the x and the y block of the diagonal. GD++ has no q_y.
    return {"p": (layers, heads, 2), "q": (layers, heads, 1 if kind == "gdpp" else 2)}


@dataclass(frozen=True, eq=False)
class LinearTransformer:
    """L layers of linear self-attention with H heads on tokens of d + 1 numbers. Immutable; arrays are read-only."""

    kind: str
    """"gdpp", "diag" or "full"."""
    dim: int
    """d, the number of features."""
    parameters: Mapping[str, Array]
    """The kind's own parameters; see `parameter_shapes`."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Where the model comes from (task, training, …): kept in its file, never used in computation."""

    def __post_init__(self) -> None:
        one_of("kind", self.kind, KINDS)
        object.__setattr__(self, "dim", whole_number("dim", self.dim, 1, MAX_DIM))
        if not isinstance(self.parameters, Mapping) or not isinstance(self.info, Mapping):
            raise InputError("parameters and info of a model must be mappings.")
        arrays = {name: real_array(name, value).copy() for name, value in self.parameters.items()}
        first = next(iter(arrays.values()), np.empty(0))
        layers, heads = first.shape[:2] if first.ndim >= 2 else (0, 0)
        whole_number("layers", layers, 1, MAX_LAYERS)
        whole_number("heads", heads, 1, MAX_HEADS)
        expected = parameter_shapes(self.kind, layers, heads, self.dim)
        found = {name: array.shape for name, array in arrays.items()}
        if found != expected:
            raise InputError(
                f"A {self.kind} model with dim {self.dim} needs parameters of shapes {expected}, not {found}."
            )
        if first.dtype not in FLOATS or len({array.dtype for array in arrays.values()}) != 1:
            raise InputError("The parameters of a model must all be float32 or all be float64.")
        for array in arrays.values():
            array.flags.writeable = False
        object.__setattr__(self, "parameters", {name: arrays[name] for name in expected})

    @classmethod
    def init(
        cls,
        kind: str,
        *,
        layers: int,
        dim: int = 10,
        heads: int = 1,
        seed: int = 0,
        scale: float | None = None,
        dtype: Any = np.float32,
    ) -> LinearTransformer:
        """Parameters drawn from N(0, scale²); see `DEFAULT_SCALE`."""
        one_of("kind", kind, KINDS)
        layers = whole_number("layers", layers, 1, MAX_LAYERS)
        heads = whole_number("heads", heads, 1, MAX_HEADS)
        dim = whole_number("dim", dim, 1, MAX_DIM)
        scale = DEFAULT_SCALE[kind] if scale is None else nonnegative("scale", scale)
        rng = init_rng(seed)
        shapes = parameter_shapes(kind, layers, heads, dim)
        drawn = {name: scale * rng.standard_normal(shape) for name, shape in shapes.items()}
        return cls(kind, dim, {name: array.astype(float_dtype(dtype)) for name, array in drawn.items()})

    @property
    def layers(self) -> int:
        """L."""
        return int(next(iter(self.parameters.values())).shape[0])

    @property
    def heads(self) -> int:
        """H."""
        return int(next(iter(self.parameters.values())).shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return next(iter(self.parameters.values())).dtype

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(array.size for array in self.parameters.values())

    def attention_matrices(self) -> tuple[Array, Array]:
        """P and Q, each (layers, heads, dim + 1, dim + 1), dense, whatever the kind."""
        if self.kind == "full":
            return self.parameters["P"], self.parameters["Q"]
        p, q = self._diagonals()
        place = np.arange(self.dim + 1)
        P, Q = np.zeros((2, self.layers, self.heads, self.dim + 1, self.dim + 1), self.dtype)
        for matrix, diagonal in ((P, p), (Q, q)):
            matrix[..., place, place] = np.repeat(diagonal, [self.dim, 1], axis=-1)
        return P, Q

    def omega(self) -> Array:
        """(layers, 4): ω_xx, ω_xy, ω_yx, ω_yy, sums over heads of products of p and q (the paper's section 3)."""
        p, q = self._diagonals()
        return np.einsum("lha,lhb->lab", p, q).reshape(self.layers, 4)

    def _diagonals(self) -> tuple[Array, Array]:
        """p and q, each (layers, heads, 2)."""
        if self.kind == "full":
            raise InputError("A full model has no ω of its own; only gdpp and diag models do.")
        p, q = self.parameters["p"], self.parameters["q"]
        if self.kind == "gdpp":
            q = np.concatenate([q, np.zeros_like(q)], axis=-1)
        return p, q

    def omega_gradient(self, omega_gradient: Array) -> LinearTransformer:
        """The gradient with respect to p and q, given that with respect to ω (layers, 4)."""
        p, q = self._diagonals()
        by_block = np.asarray(omega_gradient).reshape(self.layers, 2, 2)
        p_gradient = np.einsum("lab,lhb->lha", by_block, q)
        q_gradient = np.einsum("lab,lha->lhb", by_block, p)
        kept = self.parameters["q"].shape[-1]
        return self.replace({"p": p_gradient, "q": q_gradient[..., :kept]})

    def embed(self, kind: str) -> LinearTransformer:
        """The same function as a model of a larger kind: gdpp ⊂ diag ⊂ full."""
        one_of("kind", kind, KINDS)
        if KINDS.index(kind) < KINDS.index(self.kind):
            raise InputError(f"A {self.kind} model is not a {kind} model; only gdpp ⊂ diag ⊂ full holds.")
        if kind == self.kind:
            return self
        names = ("P", "Q") if kind == "full" else ("p", "q")
        values = self.attention_matrices() if kind == "full" else self._diagonals()
        return LinearTransformer(kind, self.dim, dict(zip(names, values, strict=True)), self.info)

    def first_layers(self, layers: int | None) -> LinearTransformer:
        """The model that stops after this many layers; None means all of them."""
        if layers is None:
            return self
        layers = whole_number("layers", layers, 1, self.layers)
        return self.replace({name: array[:layers] for name, array in self.parameters.items()})

    def astype(self, dtype: Any) -> LinearTransformer:
        """The same model in another precision."""
        dtype = float_dtype(dtype)
        return LinearTransformer(
            self.kind, self.dim, {name: a.astype(dtype) for name, a in self.parameters.items()}, self.info
        )

    def replace(self, parameters: Mapping[str, Any]) -> LinearTransformer:
        """A model of the same kind and precision with other parameters."""
        cast = {name: real_array(name, value).astype(self.dtype) for name, value in parameters.items()}
        return LinearTransformer(self.kind, self.dim, cast, self.info)

    def flatten(self) -> Array:
        """All parameters in one vector, in the order of `parameter_shapes`."""
        return np.concatenate([array.ravel() for array in self.parameters.values()])

    def unflatten(self, vector: Array) -> LinearTransformer:
        """The reverse of `flatten`, for a vector of this model's size."""
        vector = real_array("vector", vector)
        if vector.shape != (self.size,):
            raise InputError(f"This model has {self.size} parameters; got an array of shape {vector.shape}.")
        cuts = np.cumsum([array.size for array in self.parameters.values()])[:-1]
        pieces = np.split(np.asarray(vector), cuts)
        items = zip(self.parameters.items(), pieces, strict=True)
        return self.replace({name: piece.reshape(array.shape) for (name, array), piece in items})

    def save(self, path: str | Path) -> None:
        """Write the model as one safetensors file, whole or not at all."""
        from ridgeformer.core.model_file import save_model

        save_model(self, Path(path))
