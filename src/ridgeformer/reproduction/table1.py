"""Table 1: every model of the grid and every baseline on fresh sequences, beside the paper's printed numbers."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ridgeformer.baselines import BASELINES
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.predictor import LinearPredictor, Predictor
from ridgeformer.core.task import Task
from ridgeformer.evaluation import compare
from ridgeformer.reproduction.cells import PRIORS, SEEDED_PRIOR, Cell
from ridgeformer.reproduction.paper import (
    PAPER_SEQUENCES,
    printed_half_unit,
    printed_loss,
    sampled_losses,
    sampling_error,
)
from ridgeformer.reproduction.records import (
    METHODS,
    Count,
    Heads,
    Layers,
    Method,
    Number,
    Record,
    Registers,
    Sequences,
    Text,
)

VERDICTS = ("better", "same", "impossible as printed", "worse")
"""How one of our numbers compares with the paper's: see `Entry.verdict`."""
_LIKELY = 3.0  # standard errors that chance may account for
_PRINTED_SEED = 2  # of the sequences that tell how much the paper's estimates scatter
_MEASURED = ("adjusted_loss", "standard_error", "median", "p99", "maximum", "diverged")


class Row(NamedTuple):
    """What a row of the table is about: a model, or a baseline, which has no layers."""

    method: str
    layers: int | None = None
    heads: int = 1
    registers: int = 0


@dataclass(frozen=True)
class Entry:
    """One number of the table."""

    derived = ("verdict",)
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
    """The number that the paper prints, if it has one."""
    bayes_ratio: Number | None = None
    """The loss divided by the Bayes limit on the same sequences; None if the limit is zero or the loss not finite."""
    heads: Heads = 1
    printed_error: Number | None = None
    """Standard error of the printed number, a mean over the paper's 100,000 sequences."""
    linear_bound: Number | None = None
    """The lowest possible loss, if this model is linear in y: that of ConstRR on the same sequences."""
    registers: Registers = 0

    @property
    def row(self) -> Row:
        """The row of the table that it stands in."""
        return Row(self.method, self.layers, self.heads, self.registers)

    @property
    def trained(self) -> bool:
        """Whether it is of a model rather than a baseline."""
        return self.layers is not None

    @property
    def beyond(self) -> bool:
        """Whether it is of a model that the paper does not have."""
        size = {"heads": self.heads, "registers": self.registers}
        return self.layers is not None and Cell(self.method, self.layers, self.noise, **size).beyond

    @property
    def excess(self) -> float:
        """How far ours is from the printed number beyond its rounding, in standard errors of the two together."""
        assert self.printed is not None
        difference = self.adjusted_loss - self.printed
        beyond = max(0.0, abs(difference) - printed_half_unit(self.method, self.layers, self.noise))
        error = math.hypot(self.standard_error, self.printed_error or 0.0)
        return 0.0 if beyond == 0 else math.copysign(beyond / error if error else math.inf, difference)

    @property
    def verdict(self) -> str:
        """One of `VERDICTS`, or nothing if there is no printed number to compare with.

        Two numbers are the same if rounding and three standard errors of both together explain the difference. A
        printed number is impossible if it is that far below what any model linear in y can reach.
        """
        if self.printed is None or printed_loss(self.method, self.layers, self.noise) is None:
            return ""
        largest = printed_half_unit(self.method, self.layers, self.noise) + _LIKELY * (self.printed_error or 0.0)
        if self.linear_bound is not None and self.printed + largest < self.linear_bound:
            return "impossible as printed"
        if not math.isfinite(self.adjusted_loss):
            return "worse"
        return "better" if self.excess < -_LIKELY else "worse" if self.excess > _LIKELY else "same"


@dataclass(frozen=True)
class Table1(Record):
    """The whole table."""

    record = "table1"
    digits = None
    entries: tuple[Entry, ...]
    sequences: Sequences
    seed: Count

    def entry(self, method: str, layers: int | None, noise: str, heads: int = 1, registers: int = 0) -> Entry | None:
        """One number, if it was measured."""
        wanted = Row(method, layers, heads, registers), noise
        return next((entry for entry in self.entries if (entry.row, entry.noise) == wanted), None)

    @property
    def columns(self) -> tuple[str, ...]:
        """The noise priors, in the order of the paper."""
        return tuple(noise for noise in PRIORS if any(entry.noise == noise for entry in self.entries))

    @property
    def rows(self) -> tuple[Row, ...]:
        """In the order of the paper, then models with several heads, then those with registers; baselines come last."""
        order = list(METHODS)

        def place(row: Row) -> tuple[int, ...]:
            return row.layers is None, row.registers, row.heads, row.layers or 0, order.index(row.method)

        return tuple(sorted(dict.fromkeys(entry.row for entry in self.entries), key=place))

    def best(self, noise: str) -> Entry:
        """The best number of a column, without the Bayes limit."""
        column = [entry for entry in self.entries if entry.noise == noise and entry.method != "bayes"]
        return min(column, key=lambda entry: entry.adjusted_loss)

    def verdicts(self) -> dict[str, list[Entry]]:
        """The trained models by verdict."""
        entries: dict[str, list[Entry]] = {verdict: [] for verdict in VERDICTS}
        for entry in self.entries:
            if entry.trained and entry.verdict:
                entries[entry.verdict].append(entry)
        return entries

    def headline(self) -> list[str]:
        """A summary of the table in three sentences."""
        verdicts = self.verdicts()
        trained = [entry for entries in verdicts.values() for entry in entries]
        counts = ", ".join(f"{len(entries)} {verdict}" for verdict, entries in verdicts.items())
        lines = [f"{len(trained)} models against the paper's numbers: {counts}."] if trained else []
        column = [entry for entry in self.entries if entry.noise == SEEDED_PRIOR and entry.trained]
        if column:
            best = min(column, key=lambda entry: entry.adjusted_loss)
            ratio = "" if best.bayes_ratio is None else f", {best.bayes_ratio:.3f} times the Bayes limit"
            lines.append(f"Best on {header(SEEDED_PRIOR)}: {row_name(*best.row)}, {number(best.adjusted_loss)}{ratio}.")
        if trained:
            worst = max(trained, key=lambda entry: entry.maximum)
            where = f"{row_name(*worst.row)} on {header(worst.noise)}"
            lines.append(f"Largest loss on {self.sequences:,} sequences: {worst.maximum:.3g} ({where}).")
        return lines

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values with all their digits, the entries last."""
        values = super().as_json()
        entries = values.pop("entries")
        return {**values, "entries": entries}

    def as_csv(self) -> str:
        """One line for each number."""
        out = io.StringIO()
        writer = csv.DictWriter(out, [*Entry.__dataclass_fields__, "verdict"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(entry) | {"verdict": entry.verdict} for entry in self.entries)
        return out.getvalue()

    def as_markdown(self) -> str:
        """Ours, the paper's in brackets, the best of a column in bold."""
        lines = self.texts(lambda entry, best: _styled(entry, "**{}**" if best else "{}", " ({:g})"))
        return TextTable("", ["", *map(header, self.columns)], lines).markdown() + "\n"

    def as_latex(self) -> str:
        """A tabular environment; ours, the paper's in brackets, the best of a column in bold."""
        printed = r" {{\footnotesize({:g})}}"
        lines = self.texts(lambda entry, best: _styled(entry, r"\textbf{{{}}}" if best else "{}", printed))
        names = [header(noise).replace("{", r"$\{").replace("}", r"\}$") for noise in self.columns]
        head, *body = (" & ".join(line) + r" \\" for line in [[r"$\sigma$", *names], *lines])
        texts = [line.replace("++", r"\texttt{++}").replace("∞", r"$\infty$") for line in body]
        first = [rf"\begin{{tabular}}{{l{'r' * len(names)}}}", r"\hline", head, r"\hline"]
        return "\n".join([*first, *texts, r"\hline", r"\end{tabular}"]) + "\n"

    def texts(self, cell: Callable[[Entry, bool], str]) -> list[list[str]]:
        """The lines of the table: the name of a row, and ``cell(entry, whether it is the best)`` for every column."""
        best, lines = {noise: self.best(noise) for noise in self.columns}, []
        for row in self.rows:
            entries = [self.entry(row.method, row.layers, noise, *row[2:]) for noise in self.columns]
            ours = " (ours)" if all(entry is None or entry.beyond for entry in entries) else ""
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


def _styled(entry: Entry, ours: str, printed: str) -> str:
    """Our number and the paper's, each in its format."""
    return ours.format(number(entry.adjusted_loss)) + ("" if entry.printed is None else printed.format(entry.printed))


def number(value: float) -> str:
    """Four digits at most, as the table's numbers range from 1 to 1e-18."""
    if value == 0:
        return "0"
    if value == math.inf:
        return "∞"
    return f"{value:.2e}" if value < 5e-4 else f"{value:.4f}" if value < 0.1 else f"{value:.3f}"


def row_name(method: str, layers: int | None, heads: int = 1, registers: int = 0) -> str:
    """Such as "FULL 7", "FULL 7 × 2 heads", or "DIAG 7, 2 registers"."""
    name = METHODS[method].label + ("" if layers is None else f" {layers}") + (f" × {heads} heads" if heads > 1 else "")
    return name + (f", {registers} register{'s' if registers > 1 else ''}" if registers else "")


def header(noise: str) -> str:
    """U5 for uniform:5, {1,3} for categorical:1+3."""
    prior, _, levels = noise.partition(":")
    return f"U{levels}" if prior == "uniform" else "{" + levels.replace("+", ",") + "}"


def table1_baselines(task: Task) -> dict[str, Predictor]:
    """The baselines of the paper's table, and last the Bayes limit, all of them tuned to a task."""
    entries = [*(entry for entry in BASELINES.values() if entry.in_table1), BASELINES["bayes"]]
    made = {entry.name: entry.make(task) for entry in entries}
    return {name: baseline for name, baseline in made.items() if baseline is not None}


def models_of(models: Mapping[Cell, LinearTransformer], noise: str) -> dict[Cell, LinearTransformer]:
    """Those for one prior, of the first seed that there is, shallow ones first."""
    first_seed = min((cell.seed for cell in models), default=0)
    chosen = [cell for cell in models if (cell.noise, cell.seed) == (noise, first_seed)]
    return {cell: models[cell] for cell in sorted(chosen, key=lambda cell: cell.layers)}


def measure_table1(
    models: Mapping[Cell, LinearTransformer],
    columns: Sequence[str] = PRIORS,
    sequences: int = 100_000,
    seed: int = 1,
    on_chunk: Callable[[str, int], None] = lambda noise, done: None,
) -> Table1:
    """Measure the given models and all baselines, those of a column on the same fresh sequences."""
    entries: list[Entry] = []
    for noise in columns:
        task, chosen = Task(noise=noise), models_of(models, noise)
        rows: dict[Row, Predictor] = {
            Row(cell.kind, cell.layers, cell.heads, cell.registers): model for cell, model in chosen.items()
        }
        rows |= {Row(name): baseline for name, baseline in table1_baselines(task).items()}
        named = {row_name(*row): predictor for row, predictor in rows.items()}
        evaluations = compare(named, task, sequences, seed, partial(on_chunk, noise), paired=False).evaluations.values()
        *_, limit = (evaluation.adjusted_loss for evaluation in evaluations)  # that of Bayes
        bound = next(one.adjusted_loss for row, one in zip(rows, evaluations, strict=True) if row == Row("constrr"))
        printed = {row: printed_loss(row.method, row.layers, noise) for row in rows if row[2:] == (1, 0)}
        errors = printed_errors({row: rows[row] for row, value in printed.items() if value is not None}, task)
        for row, evaluation in zip(rows, evaluations, strict=True):
            measured = {name: getattr(evaluation, name) for name in _MEASURED}
            finite = limit > 0 and evaluation.adjusted_loss < math.inf
            entry = Entry(
                row.method,
                row.layers,
                noise,
                **measured,
                printed=printed.get(row),
                bayes_ratio=evaluation.adjusted_loss / limit if finite else None,
                heads=row.heads,
                printed_error=errors.get(row),
                linear_bound=bound if row.method == "gdpp" else None,
                registers=row.registers,
            )
            entries.append(entry)
    return Table1(tuple(entries), sequences, seed)


def printed_errors(predictors: Mapping[Row, Predictor], task: Task) -> dict[Row, float]:
    """Standard errors of losses measured as in the paper: with one query for each of 100,000 sequences."""
    losses: dict[Row, list[Array]] = {row: [] for row in predictors}
    for draw in task.chunks(PAPER_SEQUENCES, _PRINTED_SEED):
        for row, predictor in predictors.items():
            assert isinstance(predictor, LinearPredictor)
            losses[row].append(sampled_losses(predictor.weights(draw.context), draw))
    with np.errstate(over="ignore", invalid="ignore"):
        return {row: sampling_error(chunks) for row, chunks in losses.items()}
