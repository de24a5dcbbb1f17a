"""What a benchmark run measures, its rows, and their text, which is the same in the terminal and in the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ridgeformer.bench.machine import SPINNING, growth_exponent
from ridgeformer.core.validation import one_of, whole_number

SECTIONS: dict[str, str] = {
    "step": "One training step (draw contexts, loss, gradient); × is the time divided by ours, sampled objective",
    "diag": "The same step for small kinds of model; × is the time of FULL divided by theirs",
    "evaluate": "The adjusted loss of a model on fresh sequences; × is the time divided by ours",
    "flops": "Multiply-adds per second of FULL's loss and gradient, as a share of NumPy's float32 matrix product",
    "sampling": "Share of a step spent drawing contexts: σ, w, G and, for the sampled objective, x_t; on one thread",
    "context-length": "Time of a step with n = 10 000 examples in a context, divided by that with n = 20",
    "growth": "How the time of a step grows; × is the time divided by the first of each list",
    "attention": "One forward pass over one context of N tokens, one thread; × is the time over that of Gram space",
    "start": "A fresh process: import and first training step, without and with compiled kernels on disk",
    "memory": "Peak resident memory of a process that trains with batches of 2048",
    "sweep": "Many trainings in separate processes: what a cell costs, and what a second worker brings",
    "torch": "PyTorch modules, four layers, one thread; × is the time divided by that of our Gram form, or of float32",
    "estimators": "Many small regressions, n = 20, d = 10: GroupRidge against scikit-learn's in a loop over groups",
}
"""Names of the sections in the order they run, and what their numbers mean."""

# The paper's setting: d = 10, n = 20, seven layers, batches of 2048; mixed noise σ ~ U(0, 5).
LAYERS, DIM, EXAMPLES, BATCH, NOISE = 7, 10, 20, 2048, "uniform:5"
_QUIET = 0.05  # of the machine used by others: so little rarely disturbs the best of several samples


@dataclass(frozen=True)
class BenchConfig:
    """What ``ridgeformer bench`` measures, and how thoroughly."""

    repeats: int = 7
    """Samples per competitor, taken in turns; the best one counts, since others' work only ever adds time."""
    quick: bool = False
    """A run of about 25 seconds on smaller sizes, to see that everything works; its numbers are not to be quoted."""
    only: tuple[str, ...] = ()
    """Names of the sections to run; empty means all."""

    def __post_init__(self) -> None:
        whole_number("repeats", self.repeats, 1)
        for name in self.only:
            one_of("only", name, SECTIONS)

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections to run, in their usual order."""
        return tuple(name for name in SECTIONS if not self.only or name in self.only)

    @property
    def samples(self) -> int:
        """How many samples are really taken: two in a quick run, so that taking turns is tried too."""
        return min(self.repeats, 2) if self.quick else self.repeats

    @property
    def window(self) -> float:
        """Seconds that one sample lasts at least: many calls of a fast function, so that the clock does not matter."""
        return 0.005 if self.quick else 0.05

    @property
    def settle(self) -> float:
        """Seconds to wait for a competitor's threads to rest; see `ridgeformer.bench.machine.SPINNING`."""
        return 0.0 if self.quick else SPINNING


@dataclass(frozen=True)
class Target:
    """What a number should be."""

    bound: float  # the least, or with at_most the largest, value that meets the target
    at_most: bool = False  # whether small is good
    aim: float | None = None  # what we would like to see beyond the bound, if anything

    def text(self, unit: str) -> str:
        """Such as "≥ 10× (aim 20×)"."""
        aim = "" if self.aim is None else f" (aim {_with_unit(f'{self.aim:g}', unit)})"
        return f"{'≤' if self.at_most else '≥'} {_with_unit(f'{self.bound:g}', unit)}{aim}"


@dataclass(frozen=True)
class Row:
    """One measured number."""

    section: str  # a key of SECTIONS
    what: str  # was measured
    value: float | None  # in most sections a ratio of two times of the same run; None if it could not be measured
    unit: str = "×"  # "" for a pure number
    target: Target | None = None
    group: str = ""  # rows of one section that belong together, such as those of one list of sizes
    seconds: float | None = None  # the time behind a ratio, for one call
    note: str = ""  # why there is no value, or what else one should know

    @property
    def met(self) -> bool | None:
        """Whether the target was met; None without a target or a value."""
        if self.target is None or self.value is None:
            return None
        return self.value <= self.target.bound if self.target.at_most else self.value >= self.target.bound

    def cells(self) -> list[str]:
        """As text: group, what, value, time, target, outcome, note."""
        value = "not measured" if self.value is None else _with_unit(_digits(self.value), self.unit)
        target = "" if self.target is None else self.target.text(self.unit)
        outcome = {None: "", True: "✓ met", False: "✗ missed"}[self.met]
        return [self.group, self.what, value, _duration(self.seconds), target, outcome, self.note]


def exponent_row(section: str, group: str, symbol: str, seconds: Mapping[int, float]) -> Row:
    """The exponent of growth with a size that has this symbol."""
    value = growth_exponent(list(seconds), list(seconds.values()))
    return Row(section, "exponent", value, "", group=group, note=f"time ∝ {symbol}^value, upper half")


_HEADS = ("group", "what", "value", "time", "target", "outcome", "note")
NUMBER_HEADS = ("value", "time")
"""Headings of columns that hold numbers."""


@dataclass(frozen=True)
class BenchReport:
    """All that a run of ``ridgeformer bench`` measured."""

    config: BenchConfig
    machine: dict[str, Any]  # see `ridgeformer.bench.machine`
    rows: tuple[Row, ...] = ()  # in the order of the sections
    seconds: float = 0.0  # that the run took

    def as_json(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dicts."""
        return {
            "machine": dict(self.machine),
            "config": {**asdict(self.config), "only": list(self.config.only)},
            "seconds": self.seconds,
            "rows": [{**asdict(row), "met": row.met} for row in self.rows],
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> BenchReport:
        """The reverse of `as_json`, for values that it wrote."""
        config = BenchConfig(**{**values["config"], "only": tuple(values["config"]["only"])})
        rows = []
        for row in values["rows"]:
            target = None if row["target"] is None else Target(**row["target"])
            rows.append(Row(**{name: value for name, value in row.items() if name != "met"} | {"target": target}))
        return cls(config, values["machine"], tuple(rows), values["seconds"])

    def sections(self) -> Iterator[tuple[str, list[Row]]]:
        """The sections that have rows, by name."""
        for name in dict.fromkeys(row.section for row in self.rows):
            yield name, [row for row in self.rows if row.section == name]

    def about(self) -> list[str]:
        """Sentences: what the machine is, whether it was quiet, how many targets were met."""
        machine = self.machine
        packages = ("ridgeformer", "python", "numpy", "numba", "jax", "torch")
        versions = ", ".join(f"{name} {machine[name]}" for name in packages if machine.get(name))
        where = f"{machine.get('cpu')}, {machine.get('cores')} cores, {machine.get('memory_gb')} GB; {versions}."
        share = machine.get("others_share")
        advice = ": measure again when it is quiet" if share is not None and share > _QUIET else ""
        others = "It is not known how much of the machine other processes used meanwhile."
        if share is not None:
            others = f"Other processes used {100 * share:.0f} % of the machine meanwhile{advice}."
        judged = [row for row in self.rows if row.met is not None]
        missed = [f"{row.section}: {row.group and f'{row.group}, '}{row.what}" for row in judged if not row.met]
        met = f"{len(judged) - len(missed)} of {len(judged)} targets met in {self.seconds:.0f} s"
        return [where, others, f"{met}; missed: {', '.join(missed)}." if missed else f"{met}."]


def table_text(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Headings and cells, without the columns that are empty in every row; a group is named in its first row only."""
    cells = [row.cells() for row in rows]
    for line, above in zip(reversed(cells), reversed(cells[:-1]), strict=False):
        line[0] = "" if line[0] == above[0] else line[0]
    used = [i for i in range(len(_HEADS)) if any(line[i] for line in cells)]
    return [_HEADS[i] for i in used], [[line[i] for i in used] for line in cells]


def _digits(value: float) -> str:
    """Three significant digits or so."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _with_unit(digits: str, unit: str) -> str:
    return f"{digits}{unit}" if unit in {"", "×"} else f"{digits} {unit}"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    scale, unit = (1.0, "s") if seconds >= 1 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")
    return f"{_digits(seconds * scale)} {unit}"
