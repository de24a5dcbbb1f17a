"""``ridgeformer report``: figures and a page from what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from ridgeformer.cli import terminal
from ridgeformer.plots import FIGURES
from ridgeformer.reproduction.results import read_results


def report(
    results: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="RESULTS")]] = Path("reproduction"),
    out: terminal.Folder = None,
    formats: Annotated[tuple[str, ...], tyro.conf.arg(metavar="FORMAT…")] = ("pdf", "svg", "png"),
    figures: Annotated[tuple[str, ...], terminal.argument("NAME…")] = (),
    page: bool = True,
) -> None:
    """Draw the paper's figures and write one page with all results (20 seconds).

    Nothing is trained or measured: the command draws what 'ridgeformer reproduce' measured. Besides figures 1 to 7 of
    the paper there are bayes (loss above the Bayes limit), training (loss against time), depth (more than 7 layers,
    several heads) and shift (other sequences than in training).

    Args:
        results: Folder that 'ridgeformer reproduce' wrote its records into.
        out: Folder for the figures and the page; by default the subfolder report of RESULTS.
        formats: Formats of the figures: pdf, svg, png.
        figures: Draw only these figures, by the names above; by default all that can be drawn.
        page: Also write the page, index.html.
    """
    from ridgeformer.plots.render import draw_all  # brings in matplotlib

    records = read_results(results)
    folder = results / "report" if out is None else out
    with terminal.Progress(len(figures or FIGURES)) as progress:
        written = draw_all(
            records, folder, formats, figures or None, lambda name: progress.begin(f"figure {name}", 1.0)
        )
    for figure in written:
        for note in figure.notes:
            terminal.say(f"Figure {figure.name}: {note}")
    names = ", ".join(figure.name for figure in written if figure.paths)
    terminal.say(f"Figures {names} as {', '.join(formats)} in {folder}", to_copy=True)
    if page:
        from ridgeformer.page import write_page

        terminal.say(f"Page: {write_page(results, folder)}", to_copy=True)
