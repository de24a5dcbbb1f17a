"""Table 1: every model of the grid and every baseline on fresh sequences, beside what the paper printed."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from ridgeformer.baselines import AdaRR, Bayes, ConstRR, TunedRR
from ridgeformer.evaluation.comparison import AnyPredictor, compare
from ridgeformer.reproduction.cells import PRIORS, Cell
from ridgeformer.core.model import LinearTransformer
from ridgeformer.reproduction.paper import printed_half_unit, printed_loss
from ridgeformer.core.task import Task

BASELINES = ("constrr", "adarr", "tunedrr", "bayes")
METHOD_NAMES = {
    "gdpp": "GD++",
    "diag": "DIAG",
    "full": "FULL",
    "constrr": "ConstRR",
    "adarr": "AdaRR",
    "tunedrr": "TunedRR",
    "bayes": "Bayes limit",
}


@dataclass(frozen=True)
class Entry:
    """One number of the table."""

    method: str
    layers: int | None
    noise: str
    adjusted_loss: float
    standard_error: float
    median: float
    p99: float
    maximum: float
    diverged: int
    printed: float | None
    """What the paper has, if anything."""
    bayes_ratio: float | None = None
    """The loss over that of the Bayes limit on the same sequences; None where that is zero, or the loss not finite."""
    heads: int = 1

    @property
    def trained(self) -> bool:
        """Whether it is of a model rather than a baseline."""
        return self.layers is not None

    @property
    def beyond(self) -> bool:
        """Whether it is of a model that the paper has not."""
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


Row = tuple[str, int | None, int]
"""Method, layers (of a model), heads."""


@dataclass(frozen=True)
class Table1:
    """The whole table."""

    entries: tuple[Entry, ...]
    sequences: int
    seed: int

    def entry(self, method: str, layers: int | None, noise: str, heads: int = 1) -> Entry | None:
        """One number, if it was measured."""
        wanted = (method, layers, noise, heads)
        return next((e for e in self.entries if (e.method, e.layers, e.noise, e.heads) == wanted), None)

    @property
    def columns(self) -> tuple[str, ...]:
        """The noise priors, in the order of the paper."""
        return tuple(noise for noise in PRIORS if any(entry.noise == noise for entry in self.entries))

    @property
    def rows(self) -> tuple[Row, ...]:
        """(method, layers, heads), in the order of the paper, with those of several heads last but for baselines."""
        found = {(entry.method, entry.layers, entry.heads): None for entry in self.entries}
        order = list(METHOD_NAMES)
        return tuple(sorted(found, key=lambda row: (row[1] is None, row[2], row[1] or 0, order.index(row[0]))))

    def best(self, noise: str) -> Entry:
        """The best of a column but for the Bayes limit."""
        column = [e for e in self.entries if e.noise == noise and e.method != "bayes"]
        return min(column, key=lambda entry: entry.adjusted_loss)

    def verdicts(self, methods: Iterable[str] = ("gdpp", "diag", "full")) -> dict[str, list[Entry]]:
        """Entries of trained models by verdict."""
        found: dict[str, list[Entry]] = {"better": [], "equal": [], "worse": []}
        for entry in self.entries:
            if entry.method in set(methods) and entry.verdict:
                found[entry.verdict].append(entry)
        return found

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values; an infinite loss is null."""
        rows = [
            {name: None if value == float("inf") else value for name, value in asdict(entry).items()}
            | {"verdict": entry.verdict}
            for entry in self.entries
        ]
        return {"record": "table1", "sequences": self.sequences, "seed": self.seed, "entries": rows}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Table1:
        """The reverse of `as_json`."""
        entries = []
        for row in values["entries"]:
            fields = {name: value for name, value in row.items() if name != "verdict"}
            for name in ("adjusted_loss", "standard_error", "median", "p99", "maximum"):
                fields[name] = float("inf") if fields[name] is None else fields[name]
            entries.append(Entry(**fields))
        return cls(tuple(entries), values["sequences"], values["seed"])

    def as_csv(self) -> str:
        """One line for each number."""
        out = io.StringIO()
        writer = csv.DictWriter(out, [*Entry.__dataclass_fields__, "verdict"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(entry) | {"verdict": entry.verdict} for entry in self.entries)
        return out.getvalue()


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
        predictors: dict[Row, AnyPredictor] = {
            (cell.model, cell.layers, cell.heads): model
            for cell, model in sorted(models.items(), key=lambda item: item[0].layers)
            if cell.noise == noise and cell.seed == first_seed
        }
        baselines: tuple[AnyPredictor, ...] = (ConstRR.tuned(task), AdaRR(), TunedRR.tuned(task), Bayes(task.prior))
        predictors |= {(name, None, 1): baseline for name, baseline in zip(BASELINES, baselines, strict=True)}
        named = {" ".join(map(str, row)): predictor for row, predictor in predictors.items()}

        def show(done: int, noise: str = noise) -> None:
            on_chunk(noise, done)

        found = compare(named, task, sequences, seed, show, paired=False).evaluations
        column = [
            Entry(
                method,
                layers,
                noise,
                evaluation.adjusted_loss,
                evaluation.standard_error,
                evaluation.median,
                evaluation.p99,
                evaluation.maximum,
                evaluation.diverged,
                printed_loss(method, layers, noise) if heads == 1 else None,
                heads=heads,
            )
            for (method, layers, heads), evaluation in zip(predictors, found.values(), strict=True)
        ]
        limit = column[-1].adjusted_loss
        entries += [replace(e, bayes_ratio=_ratio(e.adjusted_loss, limit)) for e in column]
    return Table1(tuple(entries), sequences, seed)


def _ratio(loss: float, limit: float) -> float | None:
    return loss / limit if limit > 0 and loss < float("inf") else None
