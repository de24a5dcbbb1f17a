"""The code of pages that are notebooks: Markdown with cells that run."""

from __future__ import annotations

import re
from pathlib import Path

_CELL = re.compile(
    r"^```\{code-cell\} python\n(?:---\n.*?^---\n|(?::[a-z]+:[^\n]*\n)*)(.*?)^```$", re.DOTALL | re.MULTILINE
)


def script_of(page: Path) -> str:
    """All cells of a page as one script, in which line numbers are those of the page."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * (text.count("\n") + 1)
    for cell in _CELL.finditer(text):
        first = text.count("\n", 0, cell.start(1))
        for number, line in enumerate(cell[1].splitlines()):
            lines[first + number] = line
    return "\n".join(lines).rstrip() + "\n"
