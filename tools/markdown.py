"""Markdown tables, and pages in which a command replaces the tables it can measure again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ridgeformer.core.storage import write_whole
from ridgeformer.core.validation import InputError


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in GitHub's Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def replace_block(page: Path, name: str, text: str) -> None:
    """Replace what stands between ``<!-- begin name -->`` and ``<!-- end name -->`` in a Markdown page."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    try:
        before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    except OSError as failed:
        raise InputError(f"Cannot read {page}: {failed.strerror or failed}.") from failed
    _, found, after = rest.partition(end)
    if not found:
        raise InputError(f"{page} has no place for a table: the lines {begin} and {end}.")
    write_whole(page, f"{before}{begin}\n\n{text}\n\n{end}{after}".encode())
