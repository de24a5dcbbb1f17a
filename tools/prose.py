"""Blocks of Markdown, and claims that are only made if they hold."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from ridgeformer.core.validation import RidgeformerError

_WIDTH = 120


def claim(text: str, holds: bool) -> str:
    """``text``, if it holds; otherwise the page cannot be written."""
    if not holds:
        raise RidgeformerError(f"This no longer holds, so the page is not written: {text}")
    return text


def paragraph(*sentences: str) -> str:
    """One paragraph, wrapped."""
    return textwrap.fill(" ".join(sentences), _WIDTH, break_long_words=False, break_on_hyphens=False)


def bullet(*sentences: str) -> str:
    """One item of a list, wrapped."""
    return textwrap.fill(
        "* " + " ".join(sentences), _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is aligned to the left, all others to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
