"""``ridgeformer fit``: many small regressions from a table, for people who do not write Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from ridgeformer.cli import terminal
from ridgeformer.core.validation import InputError

if TYPE_CHECKING:
    from ridgeformer.estimators.tables import FitSummary


def fit(
    data: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DATA")]],
    target: Annotated[str, tyro.conf.arg(metavar="COLUMN")],
    group: Annotated[str | None, terminal.argument("COLUMN")] = None,
    features: Annotated[tuple[str, ...], terminal.argument("COLUMN…")] = (),
    intercept: Literal["own", "pooled", "correlated", "none"] = "own",
    predict: terminal.File = None,
    out: terminal.File = None,
    weights: terminal.File = None,
    plot: terminal.File = None,
    json: terminal.File = None,
) -> None:
    """Fit one linear regression for each group of rows in a table (GroupRidge).

    Groups learn from each other: a group with few or noisy rows is pulled more strongly towards the common weights.

    Example: ridgeformer fit sales.csv --target units --group store --out new.csv

    Args:
        data: CSV, TSV or Parquet file with a row for each observation.
        target: Column to predict.
        group: Column that says which group a row belongs to; without it all rows are one group.
        features: Columns to predict from; by default all other columns.
        intercept: own: one for each group. pooled: those of small groups are pulled to the common one. correlated:
            intercept and weights may depend on each other across groups. none: without.
        predict: File of rows to predict, which need no target; by default the rows of DATA.
        out: Write these rows with prediction, std (standard deviation, noise included), and low and high (95 %).
        weights: Also write each group's weights with their standard deviations, intercept and noise level.
        plot: Also draw noise levels and shrinkage, as .svg, .png or .pdf.
        json: Also write the summary as JSON.
    """
    from ridgeformer.estimators import tables  # the extra sklearn

    terminal.check_files(out, weights, plot, json)
    if plot is not None and plot.suffix not in (".svg", ".png", ".pdf"):
        raise InputError(f"A plot is an .svg, .png or .pdf file, not {plot.name}.")
    frame = tables.read_table(data)
    chosen = tables.choose_features(frame, target, group, features)
    asked = frame if predict is None else tables.read_table(predict)
    kind = {"own": True, "none": False}.get(intercept, intercept)
    with terminal.Progress(1.0) as progress:
        on_groups = lambda done, total: progress.show("groups", done / total)  # noqa: E731
        try:
            model, summary = tables.fit_table(frame, target, group, chosen, kind, on_groups)
            predictions, unknown = tables.predict_table(model, asked, group, chosen)
        except ValueError as wrong:  # tyro would take it for a wrong flag
            raise InputError(str(wrong)) from wrong
    _print(summary)
    if unknown:
        terminal.say(
            f"{unknown:,} rows belong to groups that are not in the data: they are predicted by the common weights."
        )
    if out is not None:
        tables.write_table(out, predictions)
        terminal.say(f"{len(predictions):,} predictions: {out}", to_copy=True)
    if weights is not None:
        tables.write_table(weights, tables.weights_table(model, group, chosen))
        terminal.say(f"Weights: {weights}", to_copy=True)
    if plot is not None:
        from ridgeformer.plots.fit_figure import fit_figure
        from ridgeformer.plots.render import save_figure

        save_figure(fit_figure(summary), plot.parent, plot.stem, (plot.suffix[1:],))
        terminal.say(f"Plot: {plot}", to_copy=True)
    terminal.write_json(json, summary)


def _print(summary: FitSummary) -> None:
    """The summary in sentences and two tables."""
    fewest, middle, most = summary.group_rows
    sizes = f"{fewest:,} to {most:,} rows, half of them below {middle:,}" if fewest < most else f"{most:,} rows each"
    groups = f"{summary.groups:,} groups of {sizes}" if summary.groups > 1 else "one group"
    terminal.say(f"{summary.rows:,} rows in {groups}; {len(summary.features)} features.")
    for note in summary.notes:
        terminal.say(f"Note: {note}")
    heads = ("feature", "mean weight", "± between groups", "standard error in a group")
    rows = [
        [one.name, *(terminal.number_text(value) for value in (one.mean, one.between, one.error))]
        for one in summary.features
    ]
    terminal.print_table("Weights, in units of the target for one unit of the feature", heads, rows)
    low, half, high = (terminal.number_text(value, 3) for value in summary.noise)
    kept = [f"{100 * share:.0f} %" for share in summary.kept]
    if summary.groups > 1:
        terminal.say(f"Noise level σ: a tenth of the groups below {low}, half below {half}, a tenth above {high}.")
        terminal.say(
            f"In the median group {kept[1]} of the weights come from its own rows, and the rest from what all groups "
            f"have in common. In a tenth of the groups this share is below {kept[0]}, in a tenth above {kept[2]}."
        )
    else:
        terminal.say(f"Noise level σ: {half}.")
    if summary.held_out is not None:
        held = summary.held_out
        errors = {
            "GroupRidge": held.group_ridge,
            "one regression for all groups, own means": held.one_regression,
            "each group's mean": held.group_means,
        }
        shown = [[name, f"{100 * error:.1f} %"] for name, error in errors.items()]
        title = f"Squared error on {held.rows:,} rows that were held out, in % of their variance"
        terminal.print_table(title, ("predictor", "error"), shown)
    if not summary.converged:
        terminal.say(
            f"The fit has not fully converged: what groups have in common still changed in round {summary.rounds}."
        )
