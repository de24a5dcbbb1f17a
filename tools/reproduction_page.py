"""The measured parts of `docs/reproduction.md`, from a results folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ridgeformer.bench.machine import describe_machine
from ridgeformer.reproduction.cells import BEYOND_PRIORS, DEPTH, Cell, beyond_cells, grid_cells, register_cells
from ridgeformer.reproduction.results import read_results
from ridgeformer.reproduction.table1 import Entry, Table1, TextTable, header, number, row_name
from ridgeformer.sweeps.cell_work import ATTEMPTS, read_rows


def reproduction_blocks(folder: Path) -> dict[str, str]:
    """Text by the name of its block. There are only times of what was trained in this folder."""
    results, runs = read_results(folder), folder / "runs"
    table, claims = results.table1, results.claims.claims
    lines = [(claim.statement, claim.verdict, claim.numbers) for claim in claims]
    return _times(runs) | {
        "table 1": " ".join(table.headline()) + f"\n\n{table.as_markdown().rstrip()}",
        "worse": worse(table),
        "beyond": beyond(table),
        "registers": registers(table),
        "claims": TextTable("", ("claim", "verdict", "numbers"), lines).markdown(),
    }


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
    for name in kinds:
        for row in read_rows(folder / name / ATTEMPTS):
            if "finished" in row:
                spans[name], busy[name] = (float(row["started"]), float(row["finished"])), float(row["busy"])
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


def _times(runs: Path) -> dict[str, str]:
    machine, blocks = describe_machine(), {}
    for block, what, cells in (
        ("time of the grid", "of the paper's grid", grid_cells()),
        ("time beyond the paper", "beyond the paper", [cell for cell in beyond_cells() if cell.beyond]),
        ("time with registers", "with registers", [cell for cell in register_cells() if cell.registers]),
    ):
        times = read_times(runs, cells)
        if times is not None:
            kinds = ", ".join(f"{kind} {seconds / 60:.0f}" for kind, seconds in times.by_kind.items())
            name, seconds = times.slowest
            blocks[block] = (
                f"{times.cells} models {what} took {times.wall_seconds / 60:.0f} minutes on {machine['cores']} cores "
                f"of {machine['cpu']}. The workers had {times.core_seconds / times.worker_seconds:.0%} of a core each, "
                f"so idle cores would take {times.idle_seconds / 60:.0f} minutes. In total this is "
                f"{times.core_seconds / 60:.0f} core minutes ({kinds}). The slowest model, {name}, took "
                f"{seconds / 60:.1f} of them."
            )
    return blocks


# --- cells that are worse than printed, or printed below what is possible ---------------------------------------------


def worse(table: Table1) -> str:
    """The trained models that are worse than printed, and those whose printed number no such model can have."""
    verdicts = table.verdicts()
    head = ("model", "σ", "printed", "ours", "standard errors of both", "largest loss", "verdict")
    rows = [
        (
            row_name(*entry.row),
            header(entry.noise),
            f"{entry.printed:g} ± {entry.printed_error or 0:.1g}",
            f"{entry.adjusted_loss:.4g} ± {entry.standard_error:.1g}",
            f"{entry.excess:+.1f}",
            f"{entry.maximum:.3g}",
            entry.verdict,
        )
        for entry in (*verdicts["worse"], *verdicts["impossible as printed"])
    ]
    return TextTable("", head, rows).markdown() if rows else "None."


# --- all cells --------------------------------------------------------------------------------------------------------


def beyond(table: Table1) -> str:
    """Losses and their ratios to the Bayes limit, best ones of each prior first; without models that have registers."""
    table = replace(table, entries=tuple(entry for entry in table.entries if not entry.registers))
    columns = [noise for noise in table.columns if any(e.beyond and e.noise == noise for e in table.entries)]
    if not columns:
        return "None was measured."
    lines = []
    for noise in columns:
        best = min((e for e in table.entries if e.noise == noise and e.trained), key=lambda e: e.adjusted_loss)
        name, largest = row_name(*best.row), f"largest loss {best.maximum:.3g}"
        lines.append(f"* {header(noise)}: {name}, {_loss_and_ratio(best)}, {largest}.")
    rows = []
    for method, layers, heads, _ in table.rows:
        cells = [table.entry(method, layers, noise, heads) for noise in columns]
        if any(cell is not None and (cell.beyond or cell.layers == DEPTH) and cell.method != "gdpp" for cell in cells):
            texts = ("" if cell is None else _loss_and_ratio(cell) for cell in cells)
            rows.append((row_name(method, layers, heads), *texts))
    text = TextTable("", ("", *map(header, columns)), rows).markdown()
    return "Closest to the Bayes limit:\n\n" + "\n".join(lines) + "\n\n" + text


def _loss_and_ratio(entry: Entry) -> str:
    ratio = "" if entry.bayes_ratio is None else f" ({entry.bayes_ratio:.3f}×)"
    return number(entry.adjusted_loss) + ratio


# --- registers --------------------------------------------------------------------------------------------------------


def registers(table: Table1) -> str:
    """DIAG models by number of registers beside FULL, for some priors; then those with two registers for all priors."""
    own = [entry for entry in table.entries if entry.registers]
    parts = [_by_registers(table, noise) for noise in BEYOND_PRIORS if any(entry.noise == noise for entry in own)]
    parts += [_two_registers(table)] if any(entry.registers == 2 for entry in own) else []
    return "\n\n".join(parts) or "None was measured."


def _by_registers(table: Table1, noise: str) -> str:
    numbers = sorted({entry.registers for entry in table.entries if entry.registers})
    limit = _text(table.entry("bayes", None, noise))
    rows = []
    for layers in _depths(entry for entry in table.entries if entry.registers and entry.noise == noise):
        diag = [table.entry("diag", layers, noise, registers=number) for number in (0, *numbers)]
        rows.append((f"{layers}", *map(_text, (*diag, table.entry("full", layers, noise))), limit))
    names = ("DIAG", *(f"r = {number}" for number in numbers), "FULL", "Bayes limit")
    return f"{header(noise)}:\n\n" + TextTable("", ("layers", *names), rows).markdown()


def _two_registers(table: Table1) -> str:
    own = [entry for entry in table.entries if entry.registers == 2]
    columns = [noise for noise in table.columns if any(entry.noise == noise for entry in own)]

    def row(name: str, method: str, layers: int | None, registers: int) -> list[str]:
        return [name, *(_text(table.entry(method, layers, noise, registers=registers)) for noise in columns)]

    rows = [row(f"{layers}", "diag", layers, 2) for layers in _depths(own)]
    ratios = []
    for noise in columns:
        best = min((entry for entry in own if entry.noise == noise), key=lambda entry: entry.adjusted_loss)
        none = best.bayes_ratio is None or noise == "uniform:0"  # there the limit is zero but for rounding
        ratios.append("" if none else f"{best.bayes_ratio:.3f}×")
    rows += [row("Bayes limit", "bayes", None, 0), ["best ÷ limit", *ratios]]
    return "Two registers, all priors:\n\n" + TextTable("", ("layers", *map(header, columns)), rows).markdown()


def _depths(entries: Iterable[Entry]) -> list[int]:
    return sorted({entry.layers for entry in entries if entry.layers is not None})


def _text(entry: Entry | None) -> str:
    return "" if entry is None else number(entry.adjusted_loss)
