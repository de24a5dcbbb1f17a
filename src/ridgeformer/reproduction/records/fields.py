"""JSON values of records, written and read back. Records may come from anywhere, so nothing in them is trusted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ridgeformer.core.validation import one_of, shortened
from ridgeformer.core.validation import InputError
from ridgeformer.core.model import MAX_HEADS, MAX_LAYERS
from ridgeformer.core.distributions import parse_noise

_DIGITS = 6  # of numbers on disk: standard errors are in the third, and the files are half as long
_LONGEST_TEXT = 200  # characters; the longest name of ours has thirty
_LONGEST_PROSE = 10_000  # characters; a claim that fails in every cell has two thousand
_LARGEST_LEVEL = 1000.0  # σ; ours end at 10, and figures have a tick at every other one
_LARGEST_WHOLE = 10**15  # of sequences, layers and seeds in records: exact in every reader of JSON


def plain(value: Any) -> Any:
    """``value`` as JSON takes it: tuples as lists, numbers to six digits, and null for those that are not finite."""
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value


class Fields:
    """One object of a record, read field by field; what is not as it must be is an `InputError` that says where."""

    def __init__(self, values: Any, place: str) -> None:
        """``place`` is what errors call the object."""
        if not isinstance(values, dict):
            raise InputError(f"{place} must be an object, not {shortened(values, 60)}.")
        self._values, self.place = values, place

    def text(self, name: str) -> str:
        """A short string."""
        return _text(self._get(name), self._at(name))

    def prose(self, name: str) -> str:
        """A string of some length."""
        return _text(self._get(name), self._at(name), _LONGEST_PROSE)

    def choice(self, name: str, options: Iterable[str]) -> str:
        """One of a few strings."""
        return one_of(self._at(name), _text(self._get(name), self._at(name)), options)

    def noise(self, name: str = "noise") -> str:
        """The spec of a noise prior."""
        spec = self.text(name)
        parse_noise(spec)
        return spec

    def whole(self, name: str, at_least: int = 0) -> int:
        """A whole number."""
        value = self._get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not at_least <= value <= _LARGEST_WHOLE:
            raise _wrong(self._at(name), f"a whole number of at least {at_least}", value)
        return value

    def layers(self) -> int:
        """A number of layers."""
        return self._size("layers", MAX_LAYERS)

    def heads(self) -> int:
        """A number of heads."""
        return self._size("heads", MAX_HEADS)

    def layers_or_none(self) -> int | None:
        """A number of layers, or null for what has none."""
        return None if self._get("layers") is None else self.layers()

    def number(self, name: str) -> float:
        """A number of at least 0, as losses, errors and times are; null is infinity."""
        return _number(self._get(name), self._at(name), 0.0)

    def signed(self, name: str) -> float:
        """Any number; null is infinity."""
        return _number(self._get(name), self._at(name), -math.inf)

    def truth(self, name: str) -> bool:
        """True or false."""
        value = self._get(name)
        if not isinstance(value, bool):
            raise _wrong(self._at(name), "true or false", value)
        return value

    def numbers(self, name: str, count: int | None = None) -> tuple[float, ...]:
        """A list of numbers of at least 0, as many as there have to be; null is infinity."""
        return _numbers(self._get(name), self._at(name), count)

    def levels(self) -> tuple[float, ...]:
        """Noise levels, at least one."""
        found = self.numbers("levels")
        if not found or max(found) > _LARGEST_LEVEL:
            raise InputError(f"{self._at('levels')} must be at least one noise level σ of at most {_LARGEST_LEVEL:g}.")
        return found

    def rows(self, name: str, counts: tuple[int, int]) -> tuple[tuple[float, ...], ...]:
        """A list of lists of numbers, of this shape."""
        items = _list(self._get(name), self._at(name), counts[0])
        return tuple(_numbers(item, f"{self._at(name)}[{k}]", counts[1]) for k, item in enumerate(items))

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of short strings."""
        items = _list(self._get(name), self._at(name))
        return tuple(_text(item, f"{self._at(name)}[{k}]") for k, item in enumerate(items))

    def objects(self, name: str) -> Iterator[Fields]:
        """A list of objects."""
        for k, item in enumerate(_list(self._get(name), self._at(name))):
            yield Fields(item, f"{self._at(name)}[{k}]")

    def child(self, name: str) -> Fields:
        """An object within this one."""
        return Fields(self._get(name), self._at(name))

    def raw(self, name: str) -> Any:
        """Whatever is there."""
        return self._get(name)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def _get(self, name: str) -> Any:
        if name not in self._values:
            raise InputError(f"{self.place} has no {name}.")
        return self._values[name]

    def _size(self, name: str, largest: int) -> int:
        value = self.whole(name, 1)
        if value > largest:
            raise _wrong(self._at(name), f"at most {largest}", value)
        return value

    def _at(self, name: str) -> str:
        return f"{self.place}.{name}"


def _wrong(place: str, wanted: str, value: Any) -> InputError:
    return InputError(f"{place} must be {wanted}, not {shortened(value, 60)}.")


def _list(value: Any, place: str, count: int | None = None) -> list[Any]:
    if not isinstance(value, list):
        raise _wrong(place, "a list", value)
    if count is not None and len(value) != count:
        raise InputError(f"{place} must have {count} items, not {len(value)}.")
    return value


def _text(value: Any, place: str, longest: int = _LONGEST_TEXT) -> str:
    if not isinstance(value, str) or len(value) > longest or not value.isprintable():
        raise _wrong(place, f"a line of at most {longest} characters", value)
    return value


def _number(value: Any, place: str, at_least: float) -> float:
    if value is None:
        return math.inf
    wanted = "a number" if at_least < 0 else f"a number of at least {at_least:g}"
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= at_least:
        raise _wrong(place, wanted, value)
    try:
        return float(value)
    except OverflowError as huge:
        raise _wrong(place, wanted, value) from huge


def _numbers(value: Any, place: str, count: int | None = None) -> tuple[float, ...]:
    return tuple(_number(item, f"{place}[{k}]", 0.0) for k, item in enumerate(_list(value, place, count)))
