"""``ridgeformer zoo``: the models that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from ridgeformer.cli.terminal import File, output_console, write_json
from ridgeformer.zoo import build_zoo, zoo_entries


def zoo(
    names: tyro.conf.Positional[Annotated[tuple[str, ...], tyro.conf.arg(metavar="TEXT…")]] = (),
    build: Annotated[Path | None, tyro.conf.arg(metavar="RUNS")] = None,
    into: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    json: File = None,
) -> int:
    """List the trained models that come with the package, with their measured losses.

    Load one with rf.load("full-7-uniform-5"), or name it wherever a command takes a model file.

    Args:
        names: Only models whose names contain one of these texts.
        build: Make a zoo from the run directories that 'ridgeformer reproduce --train' left in this folder.
        into: Where to put it; by default into the package itself.
        json: Also write the list as JSON.
    """
    console = output_console()
    if build is not None:
        written = build_zoo(build, into)
        console.print(f"{len(written)} models, {sum(written.values()):,} bytes in all.", highlight=False)
        return 0
    entries = [entry for entry in zoo_entries() if not names or any(text in entry.name for text in names)]
    title = "Adjusted loss when trained; 'ridgeformer evaluate NAME --baselines' measures again"
    table = Table("name", "adjusted loss", "± s.e.", "largest", "sequences", "sha256", title=title)
    for entry in entries:
        found = entry.evaluation
        numbers = (f"{found['adjusted_loss']:.4g}", f"{found['standard_error']:.1g}", f"{found['maximum']:.3g}")
        table.add_row(entry.name, *numbers, f"{found['sequences']:,}", entry.sha256[:12])
    console.print(table)
    console.print(f"{len(entries)} models.", highlight=False)
    if json is not None:
        rows = [
            {"name": e.name, "sha256": e.sha256, "evaluation": e.evaluation, "training": e.training} for e in entries
        ]
        write_json(json, rows)
    return 0
