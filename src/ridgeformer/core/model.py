"""The linear transformer: its parameters, and what can be done to them. `core.kinds` says which parameters a kind has.

One layer with heads k = 1 … H changes every token e_i by Σ_k Σ_j (e_jᵀ Q_k e_i) P_k e_j, a sum over context tokens j.
A token is (x, y), or (x, m, y) with r registers m that are zero before the first layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ridgeformer.core.context import Context
from ridgeformer.core.kinds import KINDS, Compiled, Diag
from ridgeformer.core.notation import Array
from ridgeformer.core.random import init_rng
from ridgeformer.core.task import MAX_DIM
from ridgeformer.core.validation import (
    FLOATS,
    InputError,
    float_dtype,
    instance,
    nonnegative,
    one_of,
    real_array,
    shortened,
    whole_number,
)

MAX_LAYERS = 1000
MAX_HEADS = 1000
MAX_REGISTERS = 100


@dataclass(frozen=True, eq=False)
class LinearTransformer:
    """L layers of linear self-attention with H heads on tokens of d + 1 + r numbers. Immutable; arrays are read-only.

    `LinearTransformer.init`, `ridgeformer.load` and `ridgeformer.train` make models. The kind decides which arrays
    ``parameters`` has and their shapes (`ridgeformer.core.kinds`); other shapes raise `InputError`.

    >>> import ridgeformer as rf
    >>> model = rf.LinearTransformer.init("diag", layers=2, dim=3)
    >>> model.layers, model.size
    (2, 8)
    >>> rf.load("full-7-uniform-5")
    LinearTransformer: FULL, 7 layers, 1 head, 10 features, float32, 1694 parameters
      trained on σ ~ uniform:5, n = 20, seed 0
      adjusted loss 0.0406 ± 3e-05, largest 6, on 10,000,000 sequences
    """

    kind: str
    """"gdpp" (GD++), "diag" or "full": which parameters a layer has."""
    dim: int
    """d, the number of features."""
    parameters: Mapping[str, Array]
    """The parameters of the layers, by name."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Where the model comes from (task, training, …): saved in its file, never used in computation."""

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
        kind, given = KINDS[self.kind], {name: array.shape for name, array in arrays.items()}
        registers = whole_number("registers", kind.registers(given, self.dim), 0, MAX_REGISTERS)
        expected = kind.shapes_with(layers, heads, self.dim, registers)
        if given != expected:
            raise InputError(
                f"A {self.kind} model with dim {self.dim} needs parameters of shapes {expected}, not {given}."
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
        registers: int = 0,
        seed: int = 0,
        start: int = 0,
        scale: float | None = None,
        dtype: Any = np.float32,
    ) -> LinearTransformer:
        """A model with parameters drawn from N(0, scale²).

        Parameters
        ----------
        kind: "gdpp", "diag" or "full".
        layers, heads, dim: L, H and d.
        registers: r, extra coordinates of a token that start at zero; gdpp models have none.
        seed, start: the same two numbers give the same model. A run that tries several starts numbers them.
        scale: standard deviation of the parameters; None takes the default of the kind, at which models do not explode.
        dtype: float32 or float64.

        Returns a model; raises `InputError` for anything out of range.

        >>> LinearTransformer.init("full", layers=1, dim=2).parameters["P"].shape
        (1, 1, 3, 3)
        >>> LinearTransformer.init("diag", layers=4, registers=2)
        LinearTransformer: DIAG, 4 layers, 1 head, 2 registers, 10 features, float32, 80 parameters
        """
        one_of("kind", kind, KINDS)
        layers = whole_number("layers", layers, 1, MAX_LAYERS)
        heads = whole_number("heads", heads, 1, MAX_HEADS)
        dim = whole_number("dim", dim, 1, MAX_DIM)
        scale = KINDS[kind].init_scale if scale is None else nonnegative("scale", scale)
        rng = init_rng(seed, whole_number("start", start, 0))
        registers = whole_number("registers", registers, 0, MAX_REGISTERS)
        shapes = KINDS[kind].shapes_with(layers, heads, dim, registers)
        drawn = {name: scale * rng.standard_normal(shape) for name, shape in shapes.items()}
        return cls(kind, dim, {name: array.astype(float_dtype(dtype)) for name, array in drawn.items()})

    @property
    def layers(self) -> int:
        """L, the number of layers."""
        return int(next(iter(self.parameters.values())).shape[0])

    @property
    def heads(self) -> int:
        """H, the number of attention heads in each layer."""
        return int(next(iter(self.parameters.values())).shape[1])

    @property
    def registers(self) -> int:
        """r, the number of registers."""
        return KINDS[self.kind].registers({name: array.shape for name, array in self.parameters.items()}, self.dim)

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return next(iter(self.parameters.values())).dtype

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(array.size for array in self.parameters.values())

    def attention_matrices(self) -> tuple[Array, Array]:
        """P and Q, each a dense array (layers, heads, p, p) with p = dim + 1 + registers, for every kind."""
        return KINDS[self.kind].matrices(self.parameters, self.dim)

    def compiled(self) -> Compiled:
        """The parameters in the form that the compiled kernels take."""
        return KINDS[self.kind].compiled(self.parameters, self.dim)

    def omega(self) -> Array:
        """(layers, 4): ω_xx, ω_xy, ω_yx, ω_yy, sums over heads of products of p and q (the paper's section 3)."""
        return self._diagonal_kind().omega(self.parameters)

    def omega_gradient(self, omega_gradient: Array) -> LinearTransformer:
        """The gradient with respect to p and q, given the gradient with respect to ω (layers, 4)."""
        return self.replace(self._diagonal_kind().omega_gradient(self.parameters, omega_gradient))

    def _diagonal_kind(self) -> Diag:
        kind = KINDS[self.kind]
        if not isinstance(kind, Diag):
            raise InputError(f"A {self.kind} model has no ω of its own; only gdpp and diag models do.")
        if self.registers:
            raise InputError("A model with registers has no ω: its layers have matrices instead of the four numbers ω.")
        return kind

    def weights(self, context: Context, layers: int | None = None) -> Array:
        """Implicit weights ŵ (batch, d), in the precision of the model: its prediction for a query x is <ŵ, x>.

        ``layers``: how many layers to use; None for all. The compiled kernels compute them; with
        `ridgeformer.context_weights` you can choose NumPy. Raises `InputError` if model and contexts do not fit.
        """
        from ridgeformer.core.forward import context_weights  # that module imports this one

        gram = instance("context", context, Context).gram.astype(self.dtype, copy=False)
        in_precision = Context.unchecked(gram, context.examples)
        return context_weights(self, in_precision, layers, backend="fused")

    def embed(self, kind: str, registers: int | None = None) -> LinearTransformer:
        """A model that computes the same, of a larger kind (gdpp ⊂ diag ⊂ full) or with more registers.

        New registers come after the others; no layer writes or reads them. None keeps the number of registers. Raises
        `InputError` if the kind is not larger.

        >>> LinearTransformer.init("diag", layers=2, dim=3).embed("full")
        LinearTransformer: FULL, 2 layers, 1 head, 3 features, float32, 64 parameters
        """
        larger, own = KINDS.find(kind), self.registers
        registers = own if registers is None else whole_number("registers", registers, own, MAX_REGISTERS)
        parameters = larger.embedded(KINDS[self.kind], self.parameters, self.dim)
        if parameters is None:
            raise InputError(f"A {self.kind} model is not a {kind} model; only gdpp ⊂ diag ⊂ full holds.")
        if registers > own:
            parameters = larger.widened(parameters, registers - own)
        elif kind == self.kind:
            return self
        return LinearTransformer(kind, self.dim, parameters, self.info)

    def first_layers(self, layers: int | None) -> LinearTransformer:
        """A model with only the first layers, as many as given; None means all of them.

        >>> LinearTransformer.init("diag", layers=4, dim=3).first_layers(2).layers
        2
        """
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
        if not isinstance(parameters, Mapping):
            raise InputError(f"parameters must be a mapping of names to arrays, not {shortened(parameters)}.")
        cast = {name: real_array(name, value).astype(self.dtype) for name, value in parameters.items()}
        own = self.parameters
        if cast.keys() != own.keys() or any(array.shape != own[name].shape for name, array in cast.items()):
            return LinearTransformer(self.kind, self.dim, cast, self.info)
        # Nothing is left to check: a training step makes two such models.
        for array in cast.values():
            array.flags.writeable = False
        model = object.__new__(LinearTransformer)
        fields = {"kind": self.kind, "dim": self.dim, "parameters": {name: cast[name] for name in own}}
        model.__dict__.update(fields, info=self.info)
        return model

    def flatten(self) -> Array:
        """All parameters in one vector, in the order of the kind's `shapes`."""
        return np.concatenate([array.ravel() for array in self.parameters.values()])

    def unflatten(self, vector: Array) -> LinearTransformer:
        """The reverse of `flatten`, for a vector of this model's size."""
        vector = real_array("vector", vector)
        if vector.shape != (self.size,):
            raise InputError(f"This model has {self.size} parameters; got an array of shape {vector.shape}.")
        pieces, begin = {}, 0
        for name, array in self.parameters.items():
            pieces[name] = vector[begin : begin + array.size].reshape(array.shape)
            begin += array.size
        return self.replace(pieces)

    def save(self, path: str | Path) -> None:
        """Write the model as one safetensors file, which `ridgeformer.load` reads.

        After a crash there is either the old file or the whole new one. Raises `InputError` if a parameter is not
        finite or the file cannot be written.
        """
        from ridgeformer.core.model_file import save_model

        save_model(self, Path(path))

    def __repr__(self) -> str:
        heads = f"{self.heads} head{'s' if self.heads > 1 else ''}"
        registers = f"{self.registers} register{'s' if self.registers > 1 else ''}"
        size = (f"{self.layers} layers", heads, *([registers] if self.registers else []), f"{self.dim} features")
        parts = (KINDS[self.kind].label, *size, self.dtype.name)
        lines = [f"LinearTransformer: {', '.join(parts)}, {self.size} parameters"]
        task, training, measured = (self.info.get(name) for name in ("task", "training", "evaluation"))
        if isinstance(task, Mapping) and isinstance(training, Mapping):
            recorded = (task.get("noise"), task.get("examples", task.get("context")), training.get("seed"))
            noise, examples, seed = (" ".join(str(value).split())[:24] for value in recorded)  # files hold anything
            lines.append(f"  trained on σ ~ {noise}, n = {examples}, seed {seed}")
        if isinstance(measured, Mapping):
            names = ("adjusted_loss", "standard_error", "maximum", "sequences")
            loss, error, largest, count = (measured.get(name) for name in names)
            if all(isinstance(number, float) for number in (loss, error, largest)) and isinstance(count, int):
                counted = f"largest {largest:.3g}, on {count:,} sequences"
                lines.append(f"  adjusted loss {loss:.3g} ± {error:.1g}, {counted}")
            elif isinstance(measured.get("diverged"), int) and measured["diverged"] and isinstance(count, int):
                lines.append(f"  no finite loss on {measured['diverged']:,} of {count:,} sequences")
        return "\n".join(lines)
