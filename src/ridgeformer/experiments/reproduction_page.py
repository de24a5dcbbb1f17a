"""The measured parts of `docs/reproduction.md`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ridgeformer.experiments.claims import Claim
from ridgeformer.experiments.markdown import markdown_table, replace_block
from ridgeformer.experiments.table1 import Table1
from ridgeformer.experiments.table1_text import as_markdown, header, row_name


def write_reproduction_page(page: Path, table: Table1, claims: Sequence[Claim]) -> None:
    """Put the table, the count, the cells that are worse than printed and the claims between their markers."""
    found = table.verdicts()
    total = sum(map(len, found.values()))
    trained = [entry for entries in found.values() for entry in entries]
    worst = max(trained, key=lambda entry: entry.maximum)
    count = (
        f"On {table.sequences:,} fresh sequences, of {total} trained models {len(found['better'])} are better than "
        f"printed by more than its rounding, {len(found['equal'])} equal to the printed digits, {len(found['worse'])} "
        f"worse. The largest loss of any is {worst.maximum:.4g} ({row_name(worst.method, worst.layers)}, "
        f"{header(worst.noise)}); {sum(entry.diverged for entry in trained)} losses are not finite."
    )
    replace_block(page, "table 1", count + "\n\n" + as_markdown(table).rstrip())
    head = ("model", "σ", "printed", "ours", "± s.e.", "over the Bayes limit")
    rows = [
        (
            row_name(entry.method, entry.layers),
            header(entry.noise),
            f"{entry.printed:g}",
            f"{entry.adjusted_loss:.4g}",
            f"{entry.standard_error:.1g}",
            "" if entry.bayes_ratio is None else f"{entry.bayes_ratio:.3g}×",
        )
        for entry in found["worse"]
    ]
    replace_block(page, "worse", markdown_table(head, rows) if rows else "None.")
    lines = [(claim.statement, claim.verdict, claim.numbers) for claim in claims]
    replace_block(page, "claims", markdown_table(("claim", "verdict", "numbers"), lines))
