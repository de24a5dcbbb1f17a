"""Checks of what users pass in. Each raises `InputError` with one sentence, or returns the value in canonical form."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

import numpy as np

from ridgeformer.errors import InputError
from ridgeformer.types import Array

FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def whole_number(name: str, value: Any, at_least: int, at_most: int | None = None) -> int:
    """``value`` as an int within bounds."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"{name} must be a whole number, not {value!r}.")
    if value < at_least or (at_most is not None and value > at_most):
        bounds = f"at least {at_least}" if at_most is None else f"between {at_least} and {at_most}"
        raise InputError(f"{name} must be {bounds}, not {value}.")
    return int(value)


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    """``value`` if it is one of the choices; otherwise the error names the nearest one."""
    options = list(choices)
    if isinstance(value, str) and value in options:
        return value
    near = difflib.get_close_matches(str(value), options, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InputError(f"{name} must be one of {', '.join(options)}, not {value!r}.{hint}")


def float_dtype(dtype: Any) -> np.dtype[Any]:
    """float32 or float64 as a dtype."""
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found not in FLOATS:
        raise InputError(f"The precision must be float32 or float64, not {dtype!r}.")
    return found


def finite_array(name: str, value: Any, axes: tuple[str, ...]) -> Array:
    """``value`` as an array of finite floats with these axes; integers become float64."""
    try:
        array = np.asarray(value)
    except ValueError as ragged:
        raise InputError(f"{name} is not a rectangular array of numbers.") from ragged
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    if array.dtype.kind != "f":
        raise InputError(f"{name} must hold real numbers, not {array.dtype}.")
    if array.dtype not in FLOATS:
        array = array.astype(np.float64)
    if array.ndim != len(axes):
        raise InputError(f"{name} must have the axes ({', '.join(axes)}), but has shape {array.shape}.")
    if not np.isfinite(array).all():
        raise InputError(f"{name} holds NaN or infinite values.")
    return array
