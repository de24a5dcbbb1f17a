"""The measured parts of `docs/reproduction.md`, from a results folder."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ridgeformer.bench.machine import describe_machine
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.task import Task
from ridgeformer.reproduction.cells import DEPTH, Cell, beyond_cells, grid_cells
from ridgeformer.reproduction.grid import TIMES
from ridgeformer.reproduction.paper import PAPER_SEQUENCES, printed_half_unit, sampled_losses, sampling_error
from ridgeformer.reproduction.results import read_results
from ridgeformer.reproduction.table1 import Entry, Table1, TextTable, header, number, row_name
from ridgeformer.zoo import load

_AT_THE_BOUND = 1.005  # a GD++ model within half a percent of ConstRR, which no model linear in y can beat
_LIKELY = 3.0  # standard errors that chance may account for
_SEED = 2

Models = Mapping[Cell, LinearTransformer]


def reproduction_blocks(folder: Path) -> dict[str, str]:
    """Text by the name of its block. Models and times are those of the runs, if there are any; else of the zoo."""
    results, runs = read_results(folder), folder / "runs"
    table, claims = results.table1, results.claims.claims
    blocks = {} if not runs.is_dir() else {"time": _time(runs)}
    lines = [(claim.statement, claim.verdict, claim.numbers) for claim in claims]
    return blocks | {
        "table 1": f"{count(table)}\n\n{table.as_markdown().rstrip()}",
        "worse": worse(shortfalls(table, _models(table, runs))),
        "beyond": beyond(table),
        "claims": TextTable("", ("claim", "verdict", "numbers"), lines).markdown(),
    }


def _models(table: Table1, runs: Path) -> dict[Cell, LinearTransformer]:
    """Those of the cells that are worse than printed."""
    cells = [Cell(e.method, e.layers, e.noise) for e in table.verdicts()["worse"] if e.layers is not None]
    paths = {cell: runs / cell.name / "model.safetensors" for cell in cells}
    return {cell: load(path if path.exists() else cell.name) for cell, path in paths.items()}


# --- how long it took -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GridTimes:
    """Times of a set of cells."""

    cells: int
    wall_seconds: float
    """In which at least one of them was trained or measured."""
    core_seconds: float
    """In which the workers had a core: less than they ran if other programs wanted it too."""
    worker_seconds: float
    """That the workers ran, each counted for itself."""
    by_kind: dict[str, float]
    """Core seconds of each kind of model."""
    slowest: tuple[str, float]
    """The cell that took longest, and its core seconds."""

    @property
    def idle_seconds(self) -> float:
        """What the wall time would have been if the workers had had all of their cores."""
        return self.wall_seconds * self.core_seconds / self.worker_seconds


def read_times(folder: Path, cells: Iterable[Cell]) -> GridTimes | None:
    """The times of those of ``cells`` that are on record, each as of its last training; None if there are none."""
    kinds = {cell.name: cell.kind for cell in cells}
    spans: dict[str, tuple[float, float]] = {}
    busy: dict[str, float] = {}
    path = folder / TIMES
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError, KeyError, TypeError):  # a line that a crash tore
            row = json.loads(line)
            if row["cell"] in kinds:
                span, core = (float(row["started"]), float(row["finished"])), float(row["busy"])
                spans[row["cell"]], busy[row["cell"]] = span, core
    if not spans:
        return None
    by_kind = dict.fromkeys(kinds.values(), 0.0)
    for name, seconds in busy.items():
        by_kind[kinds[name]] += seconds
    slowest = max(busy, key=lambda name: busy[name])
    wall, worker_seconds = _union(spans.values()), sum(finished - started for started, finished in spans.values())
    return GridTimes(len(spans), wall, sum(busy.values()), worker_seconds, by_kind, (slowest, busy[slowest]))


def _union(spans: Iterable[tuple[float, float]]) -> float:
    """Length of the union of intervals: pauses between two invocations do not count."""
    total, reached = 0.0, float("-inf")
    for started, finished in sorted(spans):
        total += max(0.0, finished - max(started, reached))
        reached = max(reached, finished)
    return total


def _time(runs: Path) -> str:
    machine, lines = describe_machine(), []
    for what, cells in (
        ("of the paper's grid", grid_cells()),
        ("beyond the paper", [cell for cell in beyond_cells() if cell.beyond]),
    ):
        times = read_times(runs, cells)
        if times is not None:
            kinds = ", ".join(f"{kind} {seconds / 60:.0f}" for kind, seconds in times.by_kind.items())
            name, seconds = times.slowest
            lines.append(
                f"* {times.cells} models {what}: {times.wall_seconds / 60:.0f} minutes, in which the workers had "
                f"{times.core_seconds / times.worker_seconds:.0%} of a core each, so {times.idle_seconds / 60:.0f} "
                f"minutes on idle cores; {times.core_seconds / 60:.0f} core minutes ({kinds}), of which the slowest "
                f"model, {name}, took {seconds / 60:.1f}."
            )
    return f"Machine: {machine['cpu']}, {machine['cores']} cores.\n\n" + "\n".join(lines or ["Nothing is on record."])


# --- cells that are worse than printed --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shortfall:
    """One cell of Table 1 that is worse than printed."""

    entry: Entry
    printed_error: float
    """Standard error of the printed number."""
    over: float
    """How far ours is above the printed number, its rounding taken off, in standard errors of the two together."""
    reason: str


def shortfalls(table: Table1, models: Mapping[Cell, LinearTransformer]) -> list[Shortfall]:
    """All cells that are worse than printed, in the order of the table."""
    by_size = {(cell.kind, cell.layers, cell.noise): model for cell, model in models.items() if cell.seed == 0}
    cells = []
    for entry in table.verdicts()["worse"]:
        assert entry.layers is not None
        assert entry.printed is not None
        error = printed_error(by_size[entry.method, entry.layers, entry.noise], entry.noise)
        above = entry.adjusted_loss - entry.printed - printed_half_unit(entry.method, entry.layers, entry.noise)
        over = above / math.hypot(error, entry.standard_error)
        cells.append(Shortfall(entry, error, over, _reason(entry, table, over)))
    return cells


def printed_error(model: LinearTransformer, noise: str) -> float:
    """Standard error of the model's adjusted loss when it is measured as in the paper."""
    draws = Task(noise=noise).chunks(PAPER_SEQUENCES, _SEED)
    return sampling_error(sampled_losses(model.weights(draw.context), draw) for draw in draws)


def _reason(entry: Entry, table: Table1, over: float) -> str:
    ridge = table.entry("constrr", None, entry.noise)
    if entry.method == "gdpp" and ridge is not None and 0 < entry.adjusted_loss <= _AT_THE_BOUND * ridge.adjusted_loss:
        return "ours is at the bound of models linear in y; the printed number is below it"
    if over <= _LIKELY:
        return "within the sampling error of the printed number"
    return "see below"


def worse(cells: Sequence[Shortfall]) -> str:
    """How many there are for which reason, and all of them."""
    if not cells:
        return "None."
    reasons: dict[str, int] = {}
    for cell in cells:
        reasons[cell.reason] = reasons.get(cell.reason, 0) + 1
    counts = "; ".join(f"{count} × {reason}" for reason, count in reasons.items())
    head = ("model", "σ", "printed", "ours", "over by, standard errors of both", "largest loss", "")
    rows = [
        (
            row_name(*cell.entry.row),
            header(cell.entry.noise),
            f"{cell.entry.printed:g} ± {cell.printed_error:.1g}",
            f"{cell.entry.adjusted_loss:.4g} ± {cell.entry.standard_error:.1g}",
            f"{cell.over:.1f}",
            f"{cell.entry.maximum:.3g}",
            cell.reason,
        )
        for cell in cells
    ]
    return f"{counts}.\n\n" + TextTable("", head, rows).markdown()


# --- all cells --------------------------------------------------------------------------------------------------------


def count(table: Table1) -> str:
    """How many models are better, equal and worse, and the largest loss."""
    verdicts = table.verdicts()
    trained = [entry for entries in verdicts.values() for entry in entries]
    worst = max(trained, key=lambda entry: entry.maximum)
    return (
        f"On {table.sequences:,} fresh sequences, of {len(trained)} trained models {len(verdicts['better'])} are "
        f"better than printed by more than its rounding, {len(verdicts['equal'])} equal to the printed digits, "
        f"{len(verdicts['worse'])} worse. The largest loss of any is {worst.maximum:.4g} ({row_name(*worst.row)}, "
        f"{header(worst.noise)}); {sum(entry.diverged for entry in trained)} losses are not finite."
    )


def beyond(table: Table1) -> str:
    """Losses and their ratios to the Bayes limit; the best ratio of each prior, among all models, comes first."""
    columns = [noise for noise in table.columns if any(e.beyond and e.noise == noise for e in table.entries)]
    if not columns:
        return "None was measured."
    lines = []
    for noise in columns:
        best = min((e for e in table.entries if e.noise == noise and e.trained), key=lambda e: e.adjusted_loss)
        name, largest = row_name(*best.row), f"largest loss {best.maximum:.3g}"
        lines.append(f"* {header(noise)}: {name}, {_loss_and_ratio(best)}, {largest}.")
    rows = []
    for method, layers, heads in table.rows:
        cells = [table.entry(method, layers, noise, heads) for noise in columns]
        if any(cell is not None and (cell.beyond or cell.layers == DEPTH) and cell.method != "gdpp" for cell in cells):
            texts = ("" if cell is None else _loss_and_ratio(cell) for cell in cells)
            rows.append((row_name(method, layers, heads), *texts))
    text = TextTable("", ("", *map(header, columns)), rows).markdown()
    return "Closest to the Bayes limit:\n\n" + "\n".join(lines) + "\n\n" + text


def _loss_and_ratio(entry: Entry) -> str:
    ratio = "" if entry.bayes_ratio is None else f" ({entry.bayes_ratio:.3f}×)"
    return number(entry.adjusted_loss) + ratio
