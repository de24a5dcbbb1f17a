"""Rows of a benchmark run, and the three ways of showing them: tables, JSON, Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ridgeformer.bench.config import SECTIONS, BenchConfig


@dataclass(frozen=True)
class Target:
    """What a number should be."""

    bound: float
    """The least, or with ``at_most`` the largest, value that meets the target."""
    at_most: bool = False
    """Whether small is good."""
    aim: float | None = None
    """What we would like to see beyond the bound, if anything."""

    def met_by(self, value: float) -> bool:
        """Whether ``value`` is on the right side of the bound."""
        return value <= self.bound if self.at_most else value >= self.bound

    def text(self, unit: str) -> str:
        """Such as "≥ 10× (aim 20×)"."""
        aim = "" if self.aim is None else f" (aim {_number(self.aim, unit)})"
        return f"{'≤' if self.at_most else '≥'} {_number(self.bound, unit)}{aim}"


@dataclass(frozen=True)
class Row:
    """One measured number."""

    section: str
    """Name of the section, a key of `ridgeformer.bench.config.SECTIONS`."""
    what: str
    """What was measured."""
    value: float | None
    """The number, in most sections a ratio of two times of the same run; None if it could not be measured."""
    unit: str = "×"
    """Unit of the value; "" for a pure number."""
    target: Target | None = None
    """What the value should be, if anything was asked of it."""
    group: str = ""
    """Rows of one section that belong together, such as those of one list of sizes."""
    seconds: float | None = None
    """The time behind a ratio, for one call."""
    note: str = ""
    """Why there is no value, or what else one should know."""

    @property
    def met(self) -> bool | None:
        """Whether the target was met; None without a target or a value."""
        return None if self.target is None or self.value is None else self.target.met_by(self.value)

    def cells(self) -> list[str]:
        """As text: group, what, value, time, target, outcome, note."""
        value = "not measured" if self.value is None else _number(self.value, self.unit, measured=True)
        target = "" if self.target is None else self.target.text(self.unit)
        outcome = {None: "", True: "✓ met", False: "✗ missed"}[self.met]
        seconds = "" if self.seconds is None else _duration(self.seconds)
        return [self.group, self.what, value, seconds, target, outcome, self.note]


_HEADINGS = ("group", "what", "value", "time", "target", "outcome", "note")
_QUIET = 0.05  # of the machine used by others: so little seldom meets the best of several samples
_RIGHT_ALIGNED = ("value", "time")


@dataclass(frozen=True)
class BenchReport:
    """All that a run of ``ridgeformer bench`` found out."""

    config: BenchConfig
    """What was asked for."""
    machine: dict[str, Any]
    """See `ridgeformer.bench.machine`."""
    rows: tuple[Row, ...] = field(default=())
    """In the order of the sections."""
    seconds: float = 0.0
    """How long the run took."""

    def print(self, console: Console) -> None:
        """One table per section, then how many targets were met."""
        for line in (self._machine_line(), self._disturbance()):
            console.print(escape(line))
        for name, rows in self._sections():
            console.print(f"\n[bold]{name}[/bold]: {escape(SECTIONS[name])}")
            console.print(_rich_table(rows))
        console.print()
        console.print(escape(self._summary()))

    def as_json(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dicts."""
        return {
            "machine": dict(self.machine),
            "config": {**asdict(self.config), "only": list(self.config.only)},
            "seconds": self.seconds,
            "rows": [{**asdict(row), "met": row.met} for row in self.rows],
        }

    def as_markdown(self) -> str:
        """The page docs/performance.md: the same tables, and how they came about."""
        intro = (
            "This page is written by `ridgeformer bench --markdown docs/performance.md`; do not edit it. Ratios are of "
            f"times taken in turns within one run, best of {self.config.samples} samples each."
        )
        quick = ["This was a quick run on small sizes: its numbers are not to be quoted."] if self.config.quick else []
        parts = ["# Performance", intro, *quick, self._machine_line(), self._disturbance(), self._summary()]
        for name, rows in self._sections():
            parts += [f"## {name}", f"{SECTIONS[name]}.", _markdown_table(rows)]
        return "\n\n".join(parts) + "\n"

    def _sections(self) -> list[tuple[str, list[Row]]]:
        found = {name: [row for row in self.rows if row.section == name] for name in SECTIONS}
        return [(name, rows) for name, rows in found.items() if rows]

    def _machine_line(self) -> str:
        packages = ("ridgeformer", "python", "numpy", "numba", "jax", "torch")
        versions = ", ".join(f"{name} {self.machine[name]}" for name in packages if self.machine.get(name))
        where = f"{self.machine.get('cpu')}, {self.machine.get('cores')} cores, {self.machine.get('memory_gb')} GB"
        return f"{where}; {versions}."

    def _disturbance(self) -> str:
        share = self.machine.get("others_share")
        if share is None:
            return "How busy other processes kept the machine meanwhile is not known."
        advice = ": measure again when it is quiet" if share > _QUIET else ""
        return f"Other processes used {100 * share:.0f} % of the machine meanwhile{advice}."

    def _summary(self) -> str:
        judged = [row for row in self.rows if row.met is not None]
        missed = [f"{row.section}: {_label(row)}" for row in judged if not row.met]
        words = f"{len(judged) - len(missed)} of {len(judged)} targets met in {self.seconds:.0f} s"
        return f"{words}; missed: {', '.join(missed)}." if missed else f"{words}."


def _label(row: Row) -> str:
    return f"{row.group}, {row.what}" if row.group else row.what


def _columns(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells, without the columns that are empty in every row; a group is named in its first row only."""
    cells = [row.cells() for row in rows]
    for line, above in zip(reversed(cells), reversed(cells[:-1]), strict=False):
        line[0] = "" if line[0] == above[0] else line[0]
    kept = [i for i in range(len(_HEADINGS)) if any(line[i] for line in cells)]
    return [_HEADINGS[i] for i in kept], [[line[i] for i in kept] for line in cells]


def _rich_table(rows: Sequence[Row]) -> Table:
    headings, cells = _columns(rows)
    table = Table()
    for heading in headings:
        table.add_column(heading, justify="right" if heading in _RIGHT_ALIGNED else "left")
    colours = {True: "green", False: "red", None: None}
    for row, line, following in zip(rows, cells, [*rows[1:], None], strict=True):
        ends_group = following is not None and following.group != row.group
        table.add_row(*map(escape, line), style=colours[row.met], end_section=ends_group)
    return table


def _markdown_table(rows: Sequence[Row]) -> str:
    headings, cells = _columns(rows)
    rule = ["---:" if heading in _RIGHT_ALIGNED else "---" for heading in headings]
    escaped = [[cell.replace("|", "\\|") for cell in line] for line in cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in [headings, rule, *escaped])


def _number(value: float, unit: str, measured: bool = False) -> str:
    """A measured number gets three significant digits or so; one that we chose is shown as it was written."""
    if not measured:
        digits = f"{value:g}"
    elif abs(value) >= 100:
        digits = f"{value:.0f}"
    else:
        digits = f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
    return f"{digits}{unit}" if unit in {"", "×"} else f"{digits} {unit}"


def _duration(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= scale:
            return _number(seconds / scale, unit, measured=True)
    return _number(seconds * 1e6, "µs", measured=True)
