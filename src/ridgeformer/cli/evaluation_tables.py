"""The tables of ``ridgeformer evaluate``, and the sentences below them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ridgeformer.cli.evaluation_report import EvaluationReport
from ridgeformer.evaluation.profiles import Profile
from ridgeformer.evaluation.result import Evaluation
from ridgeformer.evaluation.shift import UNSHIFTED
from ridgeformer.evaluation.shift_table import SURVIVAL_FACTOR, YARDSTICK, ShiftResult, ShiftTable
from ridgeformer.reproduction.paper import printed_loss

BAYES = "Bayes"
_MARK = " †"


def print_report(report: EvaluationReport, console: Console) -> None:
    """All parts that the report has."""
    _comparison(report, console)
    if report.profile is not None:
        _profile(report.profile, console)
    if report.layers is not None:
        _layers(report.layers, report, console)
    if report.shifts is not None:
        _shifts(report.shifts, console)


def _comparison(report: EvaluationReport, console: Console) -> None:
    found = report.comparison
    first, *others = found.evaluations
    title = f"Measured on {report.sequences:,} fresh sequences, {_setting(report)}, seed {report.seed}"
    table = _table(title, "predictor", "adjusted loss ± s.e.", "median", "p99", "largest", "worst 1 %", "loss ± s.e.")
    rivals = {}
    if others:
        rivals["minus first"] = first
    if BAYES in others:
        rivals["minus Bayes"] = BAYES
    for heading in rivals:
        table.add_column(heading, justify="right")
    printed = {name: _printed(report, name) for name in found.evaluations}
    if any(printed.values()):
        table.add_column("paper", justify="right")
    for name, seen in found.evaluations.items():
        cells = [_with_error(seen.adjusted_loss, seen.standard_error) + _mark(seen)]
        cells += [_number(value) for value in (seen.median, seen.p99, seen.maximum)]
        cells += [f"{seen.top_share:.0%}", _with_error(seen.loss, seen.loss_error)]
        for rival in rivals.values():
            apart = found.difference(name, rival)
            cells.append("" if name == rival else _with_error(apart.mean, apart.standard_error))
        if any(printed.values()):
            cells.append(printed[name])
        table.add_row(escape(name), *cells)
    console.print(table)
    for description in report.descriptions().values():
        console.print(f"  {escape(description)}", highlight=False, soft_wrap=True)
    _warn(found.evaluations, console)


def _warn(evaluations: Mapping[str, Evaluation], console: Console) -> None:
    """A sentence for every row whose mean is not to be believed."""
    for name, seen in evaluations.items():
        if not seen.tail_dominated:
            continue
        if seen.diverged:
            why = f"{seen.diverged:,} sequences gave no finite loss, so it has no mean"
        else:
            share = f"{seen.top_share:.0%} of the adjusted loss"
            why = f"the worst 1 % of the sequences make up {share}, so its mean and error bar say little"
        text = f"†  {escape(name)}: {why}; the median is {_number(seen.median)}."
        console.print(text, highlight=False, soft_wrap=True)


def _profile(profile: Profile, console: Console) -> None:
    count = next(iter(profile.evaluations.values()))[0].sequences
    title = f"Adjusted loss ± s.e. at fixed noise, {count:,} sequences a level, the same draws at every level"
    table = _table(title, "σ", *map(escape, profile.evaluations))
    for number, level in enumerate(profile.levels):
        row = [seen[number] for seen in profile.evaluations.values()]
        table.add_row(
            f"{level:g}", *(_with_error(seen.adjusted_loss, seen.standard_error) + _mark(seen) for seen in row)
        )
    console.print(table)
    _explain_mark([seen for row in profile.evaluations.values() for seen in row], console)


def _layers(layers: Mapping[str, tuple[Evaluation, ...]], report: EvaluationReport, console: Console) -> None:
    title = f"Adjusted loss ± s.e. read out after each layer, {report.sequences:,} sequences"
    table = _table(title, "layer", *map(escape, layers))
    for number in range(max(map(len, layers.values()))):
        cells = [seen[number] if number < len(seen) else None for seen in layers.values()]
        table.add_row(
            str(number + 1),
            *(
                "" if seen is None else _with_error(seen.adjusted_loss, seen.standard_error) + _mark(seen)
                for seen in cells
            ),
        )
    console.print(table)
    _explain_mark([seen for row in layers.values() for seen in row], console)


def _shifts(shifts: ShiftTable, console: Console) -> None:
    results = shifts.results
    count = next(iter(next(iter(results.values())).values())).sequences
    title = f"Loss under shift, and its ratio to ridge regression told the truth; {count:,} sequences each"
    table = _table(title, "predictor", *(escape("unshifted" if spec == UNSHIFTED else spec) for spec in results))
    table.add_row("told the truth", *(_number(shifts.references[spec]) for spec in results))
    failed = False
    for name in next(iter(results.values())):
        cells = [results[spec][name] for spec in results]
        failed |= not all(cell.survives for cell in cells)
        table.add_row(escape(name), *map(_shift_cell, cells))
    console.print(table)
    if failed:
        console.print(
            f"✗  does not survive: a loss that is not finite, or of which the worst 1 % of the sequences make up more "
            f"than half, or more than {SURVIVAL_FACTOR:g} times that of {YARDSTICK}.",
            highlight=False,
            soft_wrap=True,
        )


def _shift_cell(cell: ShiftResult) -> str:
    return f"{_number(cell.loss)} ({_number(cell.ratio, 3)}×){'' if cell.survives else ' ✗'}"


def _explain_mark(evaluations: list[Evaluation], console: Console) -> None:
    if any(seen.tail_dominated for seen in evaluations):
        text = "†  the worst 1 % of the sequences make up more than half of the mean, which says little then."
        console.print(text, highlight=False, soft_wrap=True)


def _table(title: str, first: str, *headings: str) -> Table:
    table = Table(first, title=title)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _setting(report: EvaluationReport) -> str:
    return f"σ ~ {report.task.prior.spec}, d = {report.task.dim}, n = {report.task.examples}"


def _printed(report: EvaluationReport, name: str) -> str:
    """The paper's number for a model or baseline like this, or nothing."""
    task = report.task
    if (task.dim, task.examples) != (10, 20):
        return ""
    model = report.models.get(name)
    if model is None:
        value = printed_loss(name.lower(), None, task.prior.spec)
    else:
        value = printed_loss(model.kind, model.layers, task.prior.spec) if model.heads == 1 else None
    return "" if value is None else f"{value:g}"


def _mark(seen: Evaluation) -> str:
    return _MARK if seen.tail_dominated else ""


def _number(value: float, digits: int = 4) -> str:
    return f"{value:.{digits}g}" if math.isfinite(value) else "not finite"


def _with_error(value: float, error: float) -> str:
    return f"{value:.4g} ± {error:.2g}" if math.isfinite(error) else _number(value)
