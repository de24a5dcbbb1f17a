"""``ridgeformer report``: figures and a page from what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ridgeformer.cli.terminal import Folder, output_console

if TYPE_CHECKING:
    from ridgeformer.plots import Written
    from ridgeformer.reproduction.results import Results

_FORMATS = ("pdf", "svg", "png")


def report(
    results: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="RESULTS")]] = Path("reproduction"),
    out: Folder = None,
    formats: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FORMAT…")] = _FORMATS,
    figures: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME…")] = (),
    page: bool = True,
) -> int:
    """Draw the paper's figures 1 to 7 and ours from a results folder, and write one page with everything (20 seconds).

    Nothing is trained or measured: 'ridgeformer reproduce' made the records that are drawn.

    Args:
        results: Folder that 'ridgeformer reproduce' wrote its records into.
        out: Where to put figures and page; by default the subfolder report of the results.
        formats: Formats of the figures: pdf, svg, png.
        figures: Only these: 1 to 7, bayes (loss over the Bayes limit), training (loss against time), depth (deeper than
            7 layers, several heads), shift (off the training distribution).
        page: Write the page, index.html, too.
    """
    from ridgeformer.reproduction.results import read_results

    found = read_results(results)
    folder = results / "report" if out is None else out
    console = output_console()
    written = _draw(found, folder, formats, figures)
    for figure in written:
        for note in figure.notes:
            console.print(f"Figure {figure.name}: {note}", highlight=False, markup=False, soft_wrap=True)
    drawn = [figure for figure in written if figure.paths]
    names = ", ".join(figure.name for figure in drawn)
    console.print(f"Figures {names} as {', '.join(formats)} in {folder}", highlight=False, markup=False, soft_wrap=True)
    if page:
        from ridgeformer.page import write_page

        path = write_page(results, folder)
        console.print(f"Page: {path}", highlight=False, markup=False, soft_wrap=True)
    return 0


def _draw(found: Results, folder: Path, formats: tuple[str, ...], names: tuple[str, ...]) -> tuple[Written, ...]:
    from ridgeformer.plots import FIGURES, draw_all

    errors = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, disable=not errors.is_terminal, transient=True) as bar:
        task = bar.add_task("figures", total=len(names or FIGURES))
        done = 0

        def show(name: str) -> None:
            nonlocal done
            bar.update(task, completed=done, description=f"figure {name}")
            done += 1

        return draw_all(found, folder, formats, names or None, show)
