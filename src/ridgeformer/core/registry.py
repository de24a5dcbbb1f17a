"""Registries: lists of named entries that anyone can extend: kinds of model, baselines, noise priors, shifts, figures.

An entry says everything about one thing: its name in files and on the shell, its label in tables and legends, how to
make it and how to draw it. Commands, tables, plots and the page all read the registry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from ridgeformer.core.validation import InputError, one_of


class Named(Protocol):
    """Anything with a name."""

    @property
    def name(self) -> str:
        """The name in files, specs and on the shell."""
        ...


_Entry = TypeVar("_Entry", bound=Named)


class Registry(Mapping[str, _Entry]):
    """Entries by name, in the order in which they were added.

    >>> from ridgeformer.core.kinds import KINDS
    >>> list(KINDS), KINDS["gdpp"].label
    (['gdpp', 'diag', 'full'], 'GD++')
    """

    def __init__(self, what: str) -> None:
        """``what`` is what errors call an entry, such as "kind"."""
        self.what = what
        self._entries: dict[str, _Entry] = {}

    def add(self, entry: _Entry) -> _Entry:
        """Add an entry; its name must be new. Returns the entry."""
        if entry.name in self._entries:
            raise InputError(f"There is already a {self.what} called {entry.name!r}.")
        self._entries[entry.name] = entry
        return entry

    def find(self, name: object) -> _Entry:
        """The entry with this name; otherwise an `InputError` that suggests the nearest name."""
        return self._entries[one_of(self.what, name, self._entries)]

    def __getitem__(self, name: str) -> _Entry:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(frozen=True)
class Look:
    """How a method is drawn, in print and on the page. Markers and dashes tell lines apart without colour."""

    colour: str
    """As #rrggbb."""
    dashes: tuple[float, ...] = ()
    """Lengths of strokes and gaps in turn, in line widths; empty for a solid line."""
    marker: str = ""
    """One of Matplotlib's: o s ^ D v P X; empty for a line without points."""
    width: float = 1.2
    """Of the line, in points."""


# The palette of Okabe and Ito (*Color Universal Design*, 2008): colour-blind readers can tell its colours apart.
BLUE, VERMILLION, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
SKY, ORANGE, BLACK = "#56B4E9", "#E69F00", "#000000"
