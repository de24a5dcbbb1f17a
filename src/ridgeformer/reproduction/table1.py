"""Table 1: every model of the grid and every baseline on fresh sequences, beside what the paper printed."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from ridgeformer.baselines import BASELINES
from ridgeformer.core.kinds import KINDS
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.predictor import Predictor
from ridgeformer.core.task import Task
from ridgeformer.evaluation import compare
from ridgeformer.reproduction.cells import PRIORS, Cell
from ridgeformer.reproduction.paper import printed_half_unit, printed_loss
from ridgeformer.reproduction.records import METHODS, Count, Heads, Layers, Method, Number, Record, Sequences, Text

_MEASURED = ("adjusted_loss", "standard_error", "median", "p99", "maximum", "diverged")
_OURS = " (ours)"
"""Marks the rows of models beyond the paper."""

Row = tuple[str, int | None, int]
"""Method, layers (of a model), heads."""


@dataclass(frozen=True)
class Entry:
    """One number of the table."""

    method: Method
    layers: Layers | None
    noise: Text
    adjusted_loss: Number
    standard_error: Number
    median: Number
    p99: Number
    maximum: Number
    diverged: Count
    printed: Number | None
    """What the paper has, if anything."""
    bayes_ratio: Number | None = None
    """The loss over that of the Bayes limit on the same sequences; None where that is zero, or the loss not finite."""
    heads: Heads = 1

    @property
    def row(self) -> Row:
        """The row of the table that it stands in."""
        return self.method, self.layers, self.heads

    @property
    def trained(self) -> bool:
        """Whether it is of a model rather than a baseline."""
        return self.layers is not None

    @property
    def beyond(self) -> bool:
        """Whether it is of a model that the paper does not have."""
        return self.layers is not None and Cell(self.method, self.layers, self.noise, heads=self.heads).beyond

    @property
    def verdict(self) -> str:
        """Against the printed number: "better", "equal" up to its rounding, "worse", or nothing to compare with."""
        if self.printed is None or printed_loss(self.method, self.layers, self.noise) is None:
            return ""
        margin = printed_half_unit(self.method, self.layers, self.noise)
        if self.adjusted_loss < self.printed - margin:
            return "better"
        return "equal" if self.adjusted_loss <= self.printed + margin else "worse"


@dataclass(frozen=True)
class Table1(Record):
    """The whole table."""

    record = "table1"
    entries: tuple[Entry, ...]
    sequences: Sequences
    seed: Count

    def entry(self, method: str, layers: int | None, noise: str, heads: int = 1) -> Entry | None:
        """One number, if it was measured."""
        wanted = (method, layers, heads), noise
        return next((entry for entry in self.entries if (entry.row, entry.noise) == wanted), None)

    @property
    def columns(self) -> tuple[str, ...]:
        """The noise priors, in the order of the paper."""
        return tuple(noise for noise in PRIORS if any(entry.noise == noise for entry in self.entries))

    @property
    def rows(self) -> tuple[Row, ...]:
        """In the order of the paper; models with several heads come after those with one, and baselines come last."""
        order = list(METHODS)
        rows = dict.fromkeys(entry.row for entry in self.entries)
        return tuple(sorted(rows, key=lambda row: (row[1] is None, row[2], row[1] or 0, order.index(row[0]))))

    def best(self, noise: str) -> Entry:
        """The best of a column, the Bayes limit left out."""
        column = [entry for entry in self.entries if entry.noise == noise and entry.method != "bayes"]
        return min(column, key=lambda entry: entry.adjusted_loss)

    def verdicts(self, methods: Iterable[str] = tuple(KINDS)) -> dict[str, list[Entry]]:
        """Entries by verdict; those of trained models unless other ``methods`` are named."""
        wanted, entries = set(methods), dict[str, list[Entry]](better=[], equal=[], worse=[])
        for entry in self.entries:
            if entry.method in wanted and entry.verdict:
                entries[entry.verdict].append(entry)
        return entries

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values with all their digits; an infinite loss is null."""
        rows = [
            {name: None if value == math.inf else value for name, value in asdict(entry).items()}
            | {"verdict": entry.verdict}
            for entry in self.entries
        ]
        return {"record": self.record, "sequences": self.sequences, "seed": self.seed, "entries": rows}

    def as_csv(self) -> str:
        """One line for each number."""
        out = io.StringIO()
        writer = csv.DictWriter(out, [*Entry.__dataclass_fields__, "verdict"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(entry) | {"verdict": entry.verdict} for entry in self.entries)
        return out.getvalue()

    def as_markdown(self) -> str:
        """Ours, the paper's in brackets, the best of a column in bold."""

        def cell(entry: Entry, best: bool) -> str:
            text = f"**{number(entry.adjusted_loss)}**" if best else number(entry.adjusted_loss)
            return text + (f" ({entry.printed:g})" if entry.printed is not None else "")

        return TextTable("", ["", *map(header, self.columns)], self.texts(cell)).markdown() + "\n"

    def as_latex(self) -> str:
        """A tabular environment; ours, the paper's in brackets, the best of a column in bold."""

        def cell(entry: Entry, best: bool) -> str:
            text = number(entry.adjusted_loss).replace("∞", r"$\infty$")
            text = rf"\textbf{{{text}}}" if best else text
            return text + (rf" {{\footnotesize({entry.printed:g})}}" if entry.printed is not None else "")

        def line(cells: Sequence[str]) -> str:
            return " & ".join(cells) + r" \\"

        heads = [header(noise).replace("{", r"$\{").replace("}", r"\}$") for noise in self.columns]
        body = [line([name.replace("++", r"\texttt{++}"), *cells]) for name, *cells in self.texts(cell)]
        first = [rf"\begin{{tabular}}{{l{'r' * len(heads)}}}", r"\hline", line([r"$\sigma$", *heads]), r"\hline"]
        return "\n".join([*first, *body, r"\hline", r"\end{tabular}"]) + "\n"

    def texts(self, cell: Callable[[Entry, bool], str]) -> list[list[str]]:
        """The lines of the table: the name of a row, and ``cell(entry, whether it is the best)`` for every column."""
        best, lines = {noise: self.best(noise) for noise in self.columns}, []
        for row in self.rows:
            entries = [self.entry(*row[:2], noise, row[2]) for noise in self.columns]
            ours = _OURS if all(entry is None or entry.beyond for entry in entries) else ""
            cells = ["" if entry is None else cell(entry, entry == best[entry.noise]) for entry in entries]
            lines.append([row_name(*row) + ours, *cells])
        return lines


class TextTable(NamedTuple):
    """A table for people to read, on a terminal or in a page."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """In GitHub's Markdown, without the title."""
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def number(value: float) -> str:
    """Four digits at most, as the table's numbers range from 1 to 1e-18."""
    if value == 0:
        return "0"
    if value == math.inf:
        return "∞"
    return f"{value:.2e}" if value < 5e-4 else f"{value:.4f}" if value < 0.1 else f"{value:.3f}"


def row_name(method: str, layers: int | None, heads: int = 1) -> str:
    """Such as "FULL 7", or "FULL 7 × 2 heads"."""
    size = "" if layers is None else f" {layers}"
    return METHODS[method].label + size + (f" × {heads} heads" if heads > 1 else "")


def header(noise: str) -> str:
    """U5 for uniform:5, {1,3} for categorical:1+3."""
    prior, _, levels = noise.partition(":")
    return f"U{levels}" if prior == "uniform" else "{" + levels.replace("+", ",") + "}"


def table1_baselines(task: Task) -> dict[str, Predictor]:
    """The baselines of the paper's table, and last the Bayes limit, all of them tuned to a task."""
    entries = [*(entry for entry in BASELINES.values() if entry.in_table1), BASELINES["bayes"]]
    return {entry.name: entry.make(task) for entry in entries}


def measure_table1(
    models: Mapping[Cell, LinearTransformer],
    columns: Sequence[str] = PRIORS,
    sequences: int = 100_000,
    seed: int = 1,
    on_chunk: Callable[[str, int], None] = lambda noise, done: None,
) -> Table1:
    """Measure the given models and all baselines, those of a column on the same fresh sequences."""
    entries: list[Entry] = []
    first_seed = min((cell.seed for cell in models), default=0)
    for noise in columns:
        task = Task(noise=noise)
        predictors: dict[Row, Predictor] = {
            (cell.kind, cell.layers, cell.heads): model
            for cell, model in sorted(models.items(), key=lambda item: item[0].layers)
            if cell.noise == noise and cell.seed == first_seed
        }
        predictors |= {(name, None, 1): baseline for name, baseline in table1_baselines(task).items()}
        named = {" ".join(map(str, row)): predictor for row, predictor in predictors.items()}

        def show(done: int, noise: str = noise) -> None:
            on_chunk(noise, done)

        evaluations = compare(named, task, sequences, seed, show, paired=False).evaluations
        column = [
            Entry(
                method,
                layers,
                noise,
                **{name: getattr(evaluation, name) for name in _MEASURED},
                printed=printed_loss(method, layers, noise) if heads == 1 else None,
                heads=heads,
            )
            for (method, layers, heads), evaluation in zip(predictors, evaluations.values(), strict=True)
        ]
        limit = column[-1].adjusted_loss
        entries += [replace(entry, bayes_ratio=_ratio(entry.adjusted_loss, limit)) for entry in column]
    return Table1(tuple(entries), sequences, seed)


def _ratio(loss: float, limit: float) -> float | None:
    return loss / limit if limit > 0 and loss < math.inf else None
