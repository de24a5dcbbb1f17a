"""What all modules share: the same inputs, the same checks, and predictions for NumPy arrays, as a `Predictor` gives.

No file of this folder names a device: tensors are made where the parameters are. The modules were tested on the CPU
and, for shapes alone, on the "meta" device, but not on a GPU.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from ridgeformer.core.context import check_tokens
from ridgeformer.core.notation import Array
from ridgeformer.core.validation import InputError, finite_array, shortened

Tensor: TypeAlias = torch.Tensor
_SCORES = 1 << 24  # entries of all scores of one head in memory, 64 MB in float32: what `predict` takes at a time


class InContextModule(nn.Module):
    """A module that predicts in context: ``module(X, y, queries)``.

    A subclass sets ``dim``, the number of features, and writes ``forward(X, y, queries)`` → (batch, m) for X
    (batch, n, d), y (batch, n) and queries (batch, m, d). It is then a `Predictor`, so `ridgeformer.evaluate`,
    `compare`, `profile` and `shift_table` take it as it is.

    >>> import torch
    >>> class Mean(InContextModule):
    ...     def __init__(self, dim):
    ...         super().__init__()
    ...         self.dim, self.scale = dim, torch.nn.Parameter(torch.ones(()))
    ...     def forward(self, X, y, queries):
    ...         return self.scale * y.mean(dim=1, keepdim=True).expand(queries.shape[:2])
    >>> Mean(3).predict(np.ones((1, 2, 3)), np.array([[1.0, 3.0]]), np.zeros((1, 1, 3))).tolist()
    [[2.0]]
    """

    dim: int
    info: Mapping[str, Any]
    """Where the module comes from: kept in its file, never used in computation."""

    @abstractmethod
    def forward(self, X: Tensor, y: Tensor, queries: Tensor) -> Tensor:
        """(batch, m) predictions."""

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Of the parameters."""
        return next(self.parameters()).dtype

    @property
    def size(self) -> int:
        """Number of parameters."""
        return sum(parameter.numel() for parameter in self.parameters())

    def predict(self, X: Any, y: Any, queries: Any) -> Array:
        """Predictions (batch, m) as a NumPy array, for NumPy arrays; without gradients, in the module's precision.

        Raises `InputError` for arrays that are not finite, or of shapes that do not fit.
        """
        return predict_arrays(self, X, y, queries, self.dtype, self.device)

    def check_tensors(self, X: Tensor, y: Tensor, queries: Tensor) -> None:
        """Raise `InputError` for inputs that do not fit each other or the module."""
        for name, tensor in (("X", X), ("y", y), ("queries", queries)):
            if not isinstance(tensor, torch.Tensor):
                raise InputError(f"{name} must be a torch.Tensor, not {shortened(tensor)}; 'predict' takes arrays.")
            if tensor.device != self.device:
                raise InputError(f"{name} is on the device {tensor.device}, the module is on {self.device}.")
            if tensor.dtype != self.dtype:
                raise InputError(f"{name} is {tensor.dtype}, the module is {self.dtype}.")
        if X.ndim != 3 or y.ndim != 2 or queries.ndim != 3 or X.shape[1] < 1:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (X, y, queries))
            raise InputError(f"X, y and queries must be (batch, n, d), (batch, n) and (batch, m, d), not {shapes}.")
        if X.shape[:2] != y.shape or X.shape[0] != queries.shape[0]:
            shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (X, y, queries))
            raise InputError(f"X, y and queries must agree in batch and n; their shapes are {shapes}.")
        if X.shape[2] != self.dim or queries.shape[2] != self.dim:
            raise InputError(
                f"The module was made for {self.dim} features; X has {X.shape[2]}, a query {queries.shape[2]}."
            )


class ModulePredictor:
    """A predictor from any module with ``forward(X, y, queries)``, also one that is not of this package.

    >>> import torch
    >>> class Mean(torch.nn.Module):
    ...     def forward(self, X, y, queries):
    ...         return y.mean(dim=1, keepdim=True).expand(queries.shape[:2])
    >>> ModulePredictor(Mean()).predict(np.ones((1, 2, 3)), np.array([[1.0, 3.0]]), np.zeros((1, 1, 3))).tolist()
    [[2.0]]
    """

    def __init__(self, module: nn.Module) -> None:
        if not isinstance(module, nn.Module):
            raise InputError(f"module must be a torch.nn.Module, not {shortened(module)}.")
        self.module = module

    def predict(self, X: Any, y: Any, queries: Any) -> Array:
        """(batch, m) predictions, computed where the module's parameters are, in their precision."""
        first = next(self.module.parameters(), torch.empty(0, dtype=torch.float64))
        return predict_arrays(self.module, X, y, queries, first.dtype, first.device)


def predict_arrays(module: Any, X: Any, y: Any, queries: Any, dtype: Any, device: Any) -> Array:
    """A module's predictions for NumPy arrays, some contexts at a time, so that N × N scores fit in memory."""
    X, y = check_tokens(X, y)
    arrays = (X, y, finite_array("queries", queries, ("batch", "m", "dim")))
    batch, n, m = len(X), X.shape[1], arrays[2].shape[1]
    at_once = max(1, _SCORES // (n * (n + m)))
    pieces = []
    with torch.no_grad():
        for start in range(0, max(batch, 1), at_once):
            piece = (torch.as_tensor(array[start : start + at_once]).to(device, dtype) for array in arrays)
            pieces.append(module(*piece).to("cpu"))
    predictions = torch.cat(pieces)
    return (predictions if predictions.dtype == torch.float64 else predictions.float()).numpy()


def choose_device(device: str | torch.device | None) -> torch.device:
    """The device of that name; "auto" is the accelerator if there is one, else the CPU."""
    if device is None or device == "auto":
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return torch.device("cpu") if found is None else found
    try:
        chosen = torch.device(device)
        if chosen.type != "meta":
            torch.empty(1, device=chosen)
    except (RuntimeError, TypeError, AssertionError, NotImplementedError) as unknown:
        raise InputError(f"There is no device {shortened(device)} here; 'auto' chooses one that exists.") from unknown
    return chosen


def choose_dtype(dtype: Any) -> torch.dtype:
    """A floating-point type of torch, from its name, such as "float32", or from the type itself."""
    found = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise InputError(f"The precision must be a floating-point type such as 'float32', not {shortened(dtype)}.")
    return found


def as_array(tensor: Tensor) -> Array:
    """A copy of a tensor as a NumPy array."""
    return np.array(tensor.detach().to("cpu").numpy())
