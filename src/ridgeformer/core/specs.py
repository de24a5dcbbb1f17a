"""Specs: the short texts, such as ``kappa:10+rows:0.8``, that name distributions in files and on the shell.

A spec is one part or several joined by ``+``. A part is a name, or a name, a colon and numbers. Reading a spec never
imports or runs anything, because specs may come from files. Only `load_own` imports what a user types on the shell.
"""

from __future__ import annotations

import ast
import importlib
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

from ridgeformer.core.validation import InputError, one_of, shortened

LARGEST = 1e6
"""Largest factor or level in a spec: squares of targets then stay far from overflow, also in float32."""
MOST_PARTS = 16
"""Largest number of parts in a spec."""


class Readable(Protocol):
    """A class whose objects a spec can name."""

    name: str
    """What the spec begins with."""
    form: str
    """An example of a spec."""

    def read(self, text: str) -> Any:
        """The object for the text after the colon; the text is empty if there is no colon."""
        ...


def read_number(form: str, text: str, low: float = 0.0, high: float = LARGEST) -> float:
    """The number in a part of the given form, within bounds."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise InputError(f"A spec {form} needs a number from {low:g} to {high:g}, not {shortened(text)}.")
    return value


def read_count(form: str, text: str, low: int = 1, high: int = 2**31 - 1) -> int:
    """The whole number in a part of the given form, within bounds."""
    value = read_number(form, text, low, high)
    if value != int(value):
        raise InputError(f"A spec {form} needs a whole number, not {shortened(text)}.")
    return int(value)


class NameOnly:
    """A part of a spec that is a name without numbers, such as ``rotated``."""

    name: ClassVar[str]

    @property
    def spec(self) -> str:
        """The name."""
        return self.name

    @classmethod
    def read(cls, text: str) -> Self:
        """The part; `InputError` if numbers follow the name."""
        if text:
            raise InputError(f"A spec {cls.name} takes no number, but has {shortened(text)}.")
        return cls()


class OneNumber:
    """A part of a spec that is a name and one number, such as ``kappa:10``: a dataclass with one field."""

    name: ClassVar[str]
    form: ClassVar[str]
    bounds: ClassVar[tuple[float, float]] = (0.0, LARGEST)
    """The smallest and the largest number that a spec may have."""

    @property
    def spec(self) -> str:
        """The name and the number."""
        (number,) = fields(self)  # type: ignore[arg-type]  # of the dataclass that a subclass is
        return f"{self.name}:{number_text(getattr(self, number.name))}"

    @classmethod
    def read(cls, text: str) -> Self:
        """The part with this number; `InputError` if it is out of bounds."""
        return cls(read_number(cls.form, text, *cls.bounds))  # type: ignore[call-arg]  # as above


def read_parts(what: str, spec: str, known: Mapping[str, Readable]) -> list[Any]:
    """The parts of a spec, each read by its class; the error for an unknown name suggests the nearest one."""
    texts = spec.split("+")
    if len(texts) > MOST_PARTS:
        raise InputError(f"{what} may have at most {MOST_PARTS} parts, not {len(texts)}.")
    parts, names = [], set()
    for text in texts:
        name, colon, numbers = text.strip().partition(":")
        one_of(what, name, known)
        if name in names:
            raise InputError(f"{what} {shortened(spec)} names {name} twice.")
        names.add(name)
        if colon and not numbers:
            raise InputError(f"Cannot read {shortened(text)}; write for example {known[name].form}.")
        parts.append(known[name].read(numbers))
    return parts


def number_text(value: float) -> str:
    """The shortest text that reads back as the same number; without a plus sign, which separates parts."""
    short = f"{value:g}"
    return (short if float(short) == value else repr(float(value))).replace("e+", "e")


def class_name(thing: object) -> str:
    """``module:Class``: what files store for an object that is not of this package."""
    return f"{type(thing).__module__}:{type(thing).__qualname__}"


def load_own(what: str, text: str, known: Mapping[str, Any], parse: Callable[[Any], Any]) -> Any:
    """Read a spec with ``parse``, or make a user's own object from ``module:Class(1, high=3)``. For the shell only.

    The module is imported, from the current folder or from wherever Python finds it. Arguments are plain literals.
    """
    own = re.fullmatch(r"([A-Za-z_][\w.]*):([A-Za-z_]\w*)(\(.*\))?", text)
    if own is None or own[1] in known:
        return parse(text)
    arguments, keywords = _literals(own[3] or "()", what, text)
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        make = getattr(importlib.import_module(own[1]), own[2])
        return parse(make(*arguments, **keywords))
    except ImportError as missing:
        raise InputError(f"Cannot import {own[1]}, which the {what} {shortened(text)} is in: {missing}.") from missing
    except AttributeError as missing:
        raise InputError(f"{own[1]} has no {own[2]}, which the {what} {shortened(text)} names.") from missing
    except (TypeError, ValueError) as unfit:
        raise InputError(f"Cannot make the {what} {shortened(text)}: {unfit}.") from unfit


def _literals(call: str, what: str, text: str) -> tuple[list[Any], dict[str, Any]]:
    """Arguments written as in a call, numbers and strings only."""
    try:
        parsed = ast.parse(f"f{call}", mode="eval").body
        if not isinstance(parsed, ast.Call) or not isinstance(parsed.func, ast.Name):
            raise ValueError("more than one call")
        named = {word.arg or "**": ast.literal_eval(word.value) for word in parsed.keywords}
        if "**" in named:
            raise ValueError("keywords without names")
        return [ast.literal_eval(value) for value in parsed.args], named
    except (SyntaxError, ValueError) as wrong:
        raise InputError(f"The arguments of the {what} {shortened(text)} must be plain numbers.") from wrong
