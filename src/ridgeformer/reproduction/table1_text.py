"""Table 1 as text: for the terminal, as Markdown and as LaTeX. Ours beside the paper's, best of a column in bold."""

from __future__ import annotations

from collections.abc import Callable

from rich.table import Table as RichTable

from markdown import markdown_table
from ridgeformer.reproduction.table1 import METHOD_NAMES, Entry, Table1

_OURS = " (ours)"
"""Marks the rows of models beyond the paper."""


def number(value: float) -> str:
    """Four digits at most, as the table's numbers range from 1 to 1e-18."""
    if value == 0:
        return "0"
    if value == float("inf"):
        return "∞"
    return f"{value:.2e}" if value < 5e-4 else f"{value:.4f}" if value < 0.1 else f"{value:.3f}"


def row_name(method: str, layers: int | None, heads: int = 1) -> str:
    """Such as "FULL 7", or "FULL 7 × 2 heads"."""
    return METHOD_NAMES[method] + ("" if layers is None else f" {layers}") + (f" × {heads} heads" if heads > 1 else "")


def printed_text(entry: Entry) -> str:
    """The paper's number as short as it is, or nothing."""
    return "" if entry.printed is None else f"{entry.printed:g}"


def _grid(table: Table1, cell: Callable[[Entry, bool], str]) -> list[list[str]]:
    rows = []
    for method, layers, heads in table.rows:
        found = [table.entry(method, layers, noise, heads) for noise in table.columns]
        beyond = all(entry is None or entry.beyond for entry in found)
        line = [row_name(method, layers, heads) + (_OURS if beyond else "")]
        line += ["" if entry is None else cell(entry, entry == table.best(entry.noise)) for entry in found]
        rows.append(line)
    return rows


def terminal_table(table: Table1) -> RichTable:
    """Ours over the paper's; green where better than printed, red where worse, bold for the best of a column."""
    colours = {"better": "green", "worse": "red", "equal": "default", "": "default"}
    out = RichTable("", *(header(noise) for noise in table.columns))

    def cell(entry: Entry, best: bool) -> str:
        style = f"{'bold ' if best else ''}{colours[entry.verdict]}"
        text = f"[{style}]{number(entry.adjusted_loss)}[/]"
        return text + (f"\n[dim]{printed_text(entry)}[/]" if entry.printed is not None else "")

    for line in _grid(table, cell):
        out.add_row(*line)
    return out


def header(noise: str) -> str:
    """U5 for uniform:5, {1,3} for categorical:1+3."""
    kind, _, levels = noise.partition(":")
    return f"U{levels}" if kind == "uniform" else "{" + levels.replace("+", ",") + "}"


def as_markdown(table: Table1) -> str:
    """Ours, the paper's in brackets."""

    def cell(entry: Entry, best: bool) -> str:
        text = f"**{number(entry.adjusted_loss)}**" if best else number(entry.adjusted_loss)
        return text + (f" ({printed_text(entry)})" if entry.printed is not None else "")

    head = ["", *(header(noise) for noise in table.columns)]
    return markdown_table(head, _grid(table, cell)) + "\n"


def as_latex(table: Table1) -> str:
    """A tabular environment; ours, the paper's in brackets."""

    def cell(entry: Entry, best: bool) -> str:
        text = number(entry.adjusted_loss).replace("∞", r"$\infty$")
        text = rf"\textbf{{{text}}}" if best else text
        return text + (rf" {{\footnotesize({printed_text(entry)})}}" if entry.printed is not None else "")

    def line(cells: list[str]) -> str:
        return " & ".join(cells) + r" \\"

    heads = [r"$\sigma$", *(_latex_header(noise) for noise in table.columns)]
    body = [line([cells[0].replace("++", r"\texttt{++}"), *cells[1:]]) for cells in _grid(table, cell)]
    columns = "l" + "r" * len(table.columns)
    rules = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", line(heads), r"\hline", *body, r"\hline", r"\end{tabular}"]
    return "\n".join(rules) + "\n"


def _latex_header(noise: str) -> str:
    return header(noise).replace("{", r"$\{").replace("}", r"\}$")
