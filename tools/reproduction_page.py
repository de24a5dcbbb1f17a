"""The measured parts of `docs/reproduction.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from markdown import markdown_table, replace_block

from ridgeformer.bench.machine import describe_machine
from ridgeformer.core.model import LinearTransformer
from ridgeformer.reproduction.cells import Cell
from ridgeformer.reproduction.claims import Claim
from ridgeformer.reproduction.grid_times import read_times
from ridgeformer.reproduction.shortfalls import Shortfall, shortfalls
from ridgeformer.reproduction.table1 import Entry, Table1
from ridgeformer.reproduction.table1_text import as_markdown, header, number, row_name


def write_reproduction_page(
    page: Path,
    table: Table1,
    claims: Sequence[Claim],
    models: Mapping[Cell, LinearTransformer],
    runs: Path | None = None,
) -> None:
    """Put the table, the count, the cells worse than printed, those beyond and the claims between their markers.

    With the folder of the runs, also how long they took; without it that part of the page stays as it is.
    """
    if runs is not None:
        replace_block(page, "time", _time(models, runs))
    replace_block(page, "table 1", _count(table) + "\n\n" + as_markdown(table).rstrip())
    replace_block(page, "worse", _worse(shortfalls(table, models)))
    replace_block(page, "beyond", _beyond(table))
    lines = [(claim.statement, claim.verdict, claim.numbers) for claim in claims]
    replace_block(page, "claims", markdown_table(("claim", "verdict", "numbers"), lines))


def _time(models: Mapping[Cell, LinearTransformer], runs: Path) -> str:
    machine, lines = describe_machine(), []
    for what, cells in (
        ("of the paper's grid", [cell for cell in models if not cell.beyond]),
        ("beyond the paper", [cell for cell in models if cell.beyond]),
    ):
        found = read_times(runs, cells)
        if found is not None:
            kinds = ", ".join(f"{kind} {seconds / 60:.0f}" for kind, seconds in found.by_kind.items())
            name, seconds = found.slowest
            lines.append(
                f"* {found.cells} models {what}: {found.wall_seconds / 60:.0f} minutes, in which the workers had "
                f"{found.core_seconds / found.worker_seconds:.0%} of a core each, so {found.idle_seconds / 60:.0f} "
                f"minutes on idle cores; {found.core_seconds / 60:.0f} core minutes ({kinds}), of which the slowest "
                f"model, {name}, took {seconds / 60:.1f}."
            )
    return f"Machine: {machine['cpu']}, {machine['cores']} cores.\n\n" + "\n".join(lines or ["Nothing is on record."])


def _count(table: Table1) -> str:
    found = table.verdicts()
    trained = [entry for entries in found.values() for entry in entries]
    worst = max(trained, key=lambda entry: entry.maximum)
    return (
        f"On {table.sequences:,} fresh sequences, of {len(trained)} trained models {len(found['better'])} are better "
        f"than printed by more than its rounding, {len(found['equal'])} equal to the printed digits, "
        f"{len(found['worse'])} worse. The largest loss of any is {worst.maximum:.4g} ({_name(worst)}, "
        f"{header(worst.noise)}); {sum(entry.diverged for entry in trained)} losses are not finite."
    )


def _worse(cells: Sequence[Shortfall]) -> str:
    if not cells:
        return "None."
    reasons: dict[str, int] = {}
    for cell in cells:
        reasons[cell.reason] = reasons.get(cell.reason, 0) + 1
    counts = "; ".join(f"{count} × {reason}" for reason, count in reasons.items())
    head = ("model", "σ", "printed", "ours", "over by, standard errors of both", "largest loss", "")
    rows = [
        (
            _name(cell.entry),
            header(cell.entry.noise),
            f"{cell.entry.printed:g} ± {cell.printed_error:.1g}",
            f"{cell.entry.adjusted_loss:.4g} ± {cell.entry.standard_error:.1g}",
            f"{cell.over:.1f}",
            f"{cell.entry.maximum:.3g}",
            cell.reason,
        )
        for cell in cells
    ]
    return f"{counts}.\n\n" + markdown_table(head, rows)


def _beyond(table: Table1) -> str:
    """Losses and their ratios to the Bayes limit; the best ratio of each prior, among all models, comes first."""
    columns = [noise for noise in table.columns if any(e.beyond and e.noise == noise for e in table.entries)]
    if not columns:
        return "None was measured."
    lines = []
    for noise in columns:
        best = min((e for e in table.entries if e.noise == noise and e.trained), key=lambda e: e.adjusted_loss)
        lines.append(f"* {header(noise)}: {_name(best)}, {_loss_and_ratio(best)}, largest loss {best.maximum:.3g}.")
    rows = []
    for method, layers, heads in table.rows:
        cells = [table.entry(method, layers, noise, heads) for noise in columns]
        if any(cell is not None and (cell.beyond or cell.layers == 7) and cell.method != "gdpp" for cell in cells):
            name = row_name(method, layers, heads)
            rows.append((name, *("" if cell is None else _loss_and_ratio(cell) for cell in cells)))
    table_text = markdown_table(("", *(header(noise) for noise in columns)), rows)
    return "Closest to the Bayes limit:\n\n" + "\n".join(lines) + "\n\n" + table_text


def _loss_and_ratio(entry: Entry) -> str:
    ratio = "" if entry.bayes_ratio is None else f" ({entry.bayes_ratio:.3f}×)"
    return number(entry.adjusted_loss) + ratio


def _name(entry: Entry) -> str:
    return row_name(entry.method, entry.layers, entry.heads)
