"""Checks of what users pass in. Each raises `InputError` with one sentence, or returns the value in canonical form."""

from __future__ import annotations

import difflib
import functools
import os
from collections.abc import Callable, Iterable
from numbers import Real
from typing import Any, TypeVar

import numpy as np

from ridgeformer.core.notation import Array

_LONGEST_MESSAGE = 2000  # characters: what files hold can be of any length


class RidgeformerError(Exception):
    """Base class of all errors that the package raises; the command line prints the message and exits with code 2."""

    def __init__(self, message: str = "") -> None:
        """The message may contain text from files, so it is made printable and short."""
        super().__init__(printable(message, _LONGEST_MESSAGE))


class InputError(RidgeformerError):
    """An argument, a file or an environment variable is not what it must be.

    It is not a ValueError, because the parser of the command line would catch that and add words of its own.
    """


class MissingExtraError(InputError, ImportError):
    """A part of the package needs an optional library that is not installed."""


class InterruptedRunError(RidgeformerError):
    """The user stopped a run. Its progress is saved, and the message says how to continue."""


_Class = TypeVar("_Class")
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def printable(text: str, longest: int = 200) -> str:
    """Text that is safe for a terminal: control characters become �, and long text is cut."""
    text = text if len(text) <= longest else f"{text[:longest]}…"
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def check_memory(what: str, needed: float) -> None:
    """Refuse work that needs more memory than the machine has, before it begins."""
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not known here
        return
    if needed > there:
        needs, has = (f"{size / 2**30:,.0f} GiB" for size in (needed, there))
        raise InputError(f"{what} would take {needs} of memory; this machine has {has}.")


def shortened(value: Any, longest: int = 100) -> str:
    """``value`` as text for a message: on one line, and cut if it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= longest else f"{text[:longest]}…"


def whole_number(name: str, value: Any, at_least: int, at_most: int | None = None) -> int:
    """``value`` as an int within bounds."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"{name} must be a whole number, not {value!r}.")
    if value < at_least or (at_most is not None and value > at_most):
        bounds = f"at least {at_least}" if at_most is None else f"between {at_least} and {at_most}"
        raise InputError(f"{name} must be {bounds}, not {shortened(value)}.")
    return int(value)


def nonnegative(name: str, value: Any) -> float:
    """``value`` as a finite float of at least 0."""
    try:
        number = float(value) if isinstance(value, Real) and value is not True and value is not False else -1.0
    except OverflowError:  # a whole number larger than any float
        number = np.inf
    if not 0 <= number < np.inf:
        raise InputError(f"{name} must be a finite number of at least 0, not {shortened(value)}.")
    return number


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    """``value`` if it is one of the choices; otherwise an `InputError` that suggests the nearest one."""
    options = list(choices)
    if isinstance(value, str) and value in options:
        return value
    near = difflib.get_close_matches(str(value), options, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InputError(f"{name} must be one of {', '.join(options)}, not {value!r}.{hint}")


def instance(name: str, value: Any, kind: type[_Class], hint: str = "") -> _Class:
    """``value`` if it is of this class; otherwise an `InputError` that says what it must be; ``hint`` is added."""
    if isinstance(value, kind):
        return value
    article = "an" if kind.__name__[0] in "AEIO" else "a"
    raise InputError(f"{name} must be {article} {kind.__name__}, not {shortened(value)}.{hint}")


def items_of(name: str, value: Any) -> tuple[Any, ...]:
    """The items of a list, tuple or the like; `InputError` for a text, and for anything without items."""
    try:
        if not isinstance(value, str):
            return tuple(value)
    except TypeError:
        pass
    raise InputError(f"{name} must be a list, not {shortened(value)}.")


def float_dtype(dtype: Any) -> np.dtype[Any]:
    """float32 or float64 as a dtype."""
    try:
        parsed = np.dtype(dtype) if dtype is not None else None
    except (TypeError, ValueError, SyntaxError):
        parsed = None
    if parsed is None or parsed not in FLOATS:  # a dtype equals None, since np.dtype(None) is float64
        raise InputError(f"The precision must be float32 or float64, not {dtype!r}.")
    return parsed


def real_array(name: str, value: Any) -> Array:
    """``value`` as a C-contiguous array of real numbers, of any shape and precision; they need not be finite."""
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(f"{name} is a masked array; fill its gaps or leave those rows out.")
    try:
        array = np.asarray(value)
    except ValueError as ragged:
        raise InputError(f"{name} is not a rectangular array of numbers.") from ragged
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must hold real numbers, not {array.dtype}.")
    return np.ascontiguousarray(array).reshape(array.shape)


def finite_array(name: str, value: Any, axes: tuple[str, ...]) -> Array:
    """``value`` as an array of finite floats with these axes; integers become float64."""
    array = real_array(name, value)
    if array.dtype not in FLOATS:
        array = array.astype(np.float64)
    if array.ndim != len(axes):
        raise InputError(f"{name} must have the axes ({', '.join(axes)}), but has shape {array.shape}.")
    if not np.isfinite(array).all():
        raise InputError(f"{name} holds NaN or infinite values.")
    return array


def former_names(**names: str) -> Callable[[type[_Class]], type[_Class]]:
    """Let a class also accept old names of keywords: ``@former_names(context="examples")``."""

    def decorate(cls: type[_Class]) -> type[_Class]:
        plain = cls.__init__

        @functools.wraps(plain)
        def init(self: _Class, *values: Any, **keywords: Any) -> None:
            for former, name in names.items():
                if former in keywords:
                    if name in keywords:
                        raise InputError(f"{former} is the former name of {name}; pass only one of them.")
                    keywords[name] = keywords.pop(former)
            plain(self, *values, **keywords)

        cls.__init__ = init  # type: ignore[method-assign, assignment]
        return cls

    return decorate
