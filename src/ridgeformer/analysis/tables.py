"""What ``ridgeformer explain`` prints."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ridgeformer.analysis.ablation import Ablation
from ridgeformer.analysis.explanation import Explanation
from ridgeformer.analysis.few_constants import TOLERANCE, Description, Simplest
from ridgeformer.analysis.omega import OMEGAS, inert, natural_units
from ridgeformer.analysis.samples import Band, Measured
from ridgeformer.theory import Check


def print_explanation(found: Explanation, console: Console) -> None:
    """All tables, with a sentence where a table needs one."""
    model, task, total = found.model, found.task, found.loss.total
    console.print(
        f"[bold]{escape(found.label)}[/bold]: {model.kind}, layers: {model.layers}, heads: {model.heads}, "
        f"d = {model.dim}. Adjusted loss {_number(total.adjusted_loss)} ± {_number(total.standard_error)}, median "
        f"{_number(total.median)}, largest {_number(total.maximum)}, on {found.sequences:,} fresh sequences with "
        f"σ ~ {task.prior.spec}, "
        f"n = {task.context}, seed {found.seed}.",
        highlight=False,
    )
    if total.tail_dominated:
        console.print(f"The worst 1 % of them make up {total.top_share:.0%} of this loss: do not trust its mean.")
    _omega(found, console)
    _diagonal(found, console)
    _progress(found.progress, found.bands, console)
    _implied(found, console)
    _filters(found, console)
    _steps(found, console)
    _momentum(found, console)
    if found.ablations is not None:
        print_ablations(found.ablations, found.bands, console)


def _omega(found: Explanation, console: Console) -> None:
    units, dead = natural_units(found.task), inert(len(found.omega))
    own = found.model.kind != "full"
    title = "ω of every layer" if own else "ω of the nearest diagonal layers"
    table = _table(title, "layer", *(f"ω_{name}" for name in OMEGAS), *(f"{name}, in units" for name in OMEGAS))
    if not own:
        table.add_column("share of the layer", justify="right")
    for layer, (row, inactive) in enumerate(zip(found.omega, dead, strict=True)):
        cells = [f"({value:.4g})" if off else f"{value:.4g}" for value, off in zip(row, inactive, strict=True)]
        cells += ["" if off else f"{value:+.3f}" for value, off in zip(row / units, inactive, strict=True)]
        table.add_row(str(layer + 1), *cells, *([] if own else [f"{found.fit.shares[layer]:.1%}"]))
    console.print(table)
    console.print("  Units: 1/n for xx and yx, 1/E λ for xy and yy. In brackets: does nothing in the last layer.\n")


def _diagonal(found: Explanation, console: Console) -> None:
    if found.diagonal is None:
        return
    stand_in = found.diagonal
    console.print(
        f"The diagonal model with these ω explains {stand_in.function_share:.1%} of ŵ (median gap "
        f"{stand_in.median_gap:.1%}) and has a loss of {_number(stand_in.projected.total.adjusted_loss)} (median "
        f"{_number(stand_in.projected.total.median)}); with its ω fitted anew, "
        f"{_number(stand_in.refitted.total.adjusted_loss)}, explaining {stand_in.refitted_share:.1%}.",
        highlight=False,
    )
    table = _table(
        "P and Q, as a diagonal and a remainder of least nuclear norm",
        "layer", "head", "matrix", "on x", "on y", "diagonal share", "rank", "rank for 90 %", "singular values / norm",
    )  # fmt: skip
    for part in found.fit.remainders:
        values = " ".join(f"{value:.2f}" for value in part.singular_values[:4])
        x, y = part.diagonal
        cells = (part.layer, part.head, part.matrix, f"{x:.3g}", f"{y:.3g}", f"{part.diagonal_share:.1%}", part.rank)
        table.add_row(*map(str, cells), str(part.effective_rank), f"{values} …")
    console.print(table)


def _progress(progress: Sequence[Measured], bands: Sequence[Band], console: Console) -> None:
    table = _table("Adjusted loss of what the model would say after each layer", "layer", "all", *_names(bands))
    for layer, found in enumerate(progress, 1):
        losses = (seen.adjusted_loss for seen in (found.total, *found.bands))
        table.add_row(str(layer), *map(_number, losses))
    console.print(table)


def _implied(found: Explanation, console: Console) -> None:
    title = "√v of the ridge regression nearest to ŵ: the noise the model acts on (medians)"
    table = _table(title, "", *_names(found.bands))
    references = {seen.band: seen for seen in found.implied.references}
    for name, field in (("true σ", "sigma"), ("AdaRR", "ada"), ("posterior mean", "bayes")):
        table.add_row(name, *(_number(getattr(references[band.label], field)) for band in found.bands))
    for layer in range(1, found.model.layers + 1):
        rows = {seen.band: seen for seen in found.implied.bands if seen.layer == layer}
        cells = [_number(rows[band.label].median) if band.label in rows else "" for band in found.bands]
        table.add_row(f"after layer {layer}", *cells)
    last = {seen.band: seen for seen in found.implied.bands if seen.layer == found.model.layers}
    table.add_row(
        "distance from ridge", *(f"{last[b.label].distance:.2%}" if b.label in last else "" for b in found.bands)
    )
    console.print(table)
    pairs = ", ".join(f"{value:.3f} with {name}" for name, value in found.implied.correlations.items())
    console.print(f"  Rank correlation after the last layer: {pairs}.\n", highlight=False)


def _filters(found: Explanation, console: Console) -> None:
    table = _table("ŵ as a filter of α in the eigenbasis of Σ: share of ŵ explained", "layer", "one f(s)", "one a band")
    for layer in found.filters.layers:
        table.add_row(str(layer.layer), f"{layer.common_share:.2%}", f"{layer.band_share:.2%}")
    console.print(table)
    if found.filters.exact_difference is not None:
        console.print(f"  From the polynomial of its ω, ŵ differs by {found.filters.exact_difference:.1e} (exact).\n")


def _steps(found: Explanation, console: Console) -> None:
    names = [f"{what}, σ in {band.label}" for what in ("step", "factor") for band in (found.bands[0], found.bands[-1])]
    table = _table(
        "Gradient steps (times n) and rescaling of w, with little and much noise", "layer", *names, "alignment"
    )
    for layer in range(1, found.model.layers + 1):
        rows = [step for step in found.steps if step.layer == layer]
        ends = rows[0], rows[-1]
        steps, factors = ([_number(getattr(end, name)) for end in ends] for name in ("step", "rescaling"))
        table.add_row(str(layer), *steps, *factors, f"{min(row.alignment for row in rows):.2f}")
    console.print(table)


def _momentum(found: Explanation, console: Console) -> None:
    if found.momentum is None:
        console.print("  Momentum (Lemma 4.4) is defined for diag and gdpp models only: a full model has no ω.\n")
        return
    title = "Terms of Lemma 4.4, over the size of w (u) after the layer"
    table = _table(title, "layer", "gradient Π g", "momentum Φ u", "rescaling s w", "gathered Γ g (u)", "decay Λ u (u)")
    for term in found.momentum:
        sizes = term.gradient, term.momentum, term.rescaling, term.gathered, term.decay
        table.add_row(str(term.layer), *(f"{size:.3f}" for size in sizes))
    console.print(table)


def print_ablations(ablations: Sequence[Ablation], bands: Sequence[Band], console: Console) -> None:
    """Losses with parts switched off."""
    refits = any(found.refitted is not None for found in ablations)
    heads = ["loss as it is", "median"] + (["rest fitted anew", *_names(bands)] if refits else _names(bands))
    table = _table("Switched off", "", *heads)
    for found in ablations:
        if found.inert:
            table.add_row(found.label, "unchanged: nothing reads it")
            continue
        cells = [_number(found.alone.total.adjusted_loss), _number(found.alone.total.median)]
        shown = found.refitted if refits else found.alone
        if shown is not None:
            cells += [_number(shown.total.adjusted_loss)] * refits + [_number(b.adjusted_loss) for b in shown.bands]
        table.add_row(found.label, *cells)
    console.print(table)
    if not refits:
        console.print("  Not fitted anew: a full model has so many numbers that it would fit the pool, not the task.\n")


def print_checks(checks: Sequence[Check], console: Console) -> None:
    """Every result of the theory, held against numbers."""
    table = _table("The paper's theory, held against numbers", "result", "measured", "", "bound", "", "statement")
    for check in checks:
        verdict = "holds" if check.passed else "[bold]FAILS[/bold]"
        cells = escape(check.name), f"{check.measured:.2g}", check.relation, f"{check.bound:.2g}", verdict
        table.add_row(*cells, escape(check.statement))
    console.print(table)
    failed = sum(not check.passed for check in checks)
    console.print(f"{len(checks) - failed} of {len(checks)} hold.", highlight=False)


def print_simplest(found: Simplest, console: Console) -> None:
    """Descriptions by their number of constants."""
    trained = found.trained
    title = f"Descriptions in few constants, {trained.sequences:,} fresh sequences, σ ~ {found.task.prior.spec}"
    table = _table(title, "description", "constants", "loss ± s.e.", "of trained", "p99", "largest", "worst 1 %")
    table.add_row("trained", str(found.trained_constants), *_loss_cells(trained.adjusted_loss, found, trained))
    for part, rows in (
        ("", found.dropped),
        ("", [d for d in found.forms if not d.control]),
        ("control: ", _controls(found)),
    ):
        table.add_section()
        for row in rows:
            cells = _loss_cells(row.evaluation.adjusted_loss, found, row.evaluation)
            note = f" ({row.round_numbers} round)" if row.round_numbers else ""
            table.add_row(escape(part + row.name), f"{row.count}{note}", *cells)
    if found.references:
        table.add_section()
    for name, seen in found.references.items():
        table.add_row(escape(name), "", *_loss_cells(seen.adjusted_loss, found, seen))
    console.print(table)
    best = found.best
    if best is None:
        console.print(f"None comes within {TOLERANCE:.0%} of the trained model.")
        return
    constants = ", ".join(f"{name} = {value:.5g}" for name, value in best.constants.items())
    console.print(f"Fewest within {TOLERANCE:.0%}: {best.name}, with {constants}. {best.statement}", highlight=False)


def _controls(found: Simplest) -> list[Description]:
    return [description for description in found.forms if description.control]


def _loss_cells(loss: float, found: Simplest, seen: object) -> list[str]:
    from ridgeformer.evaluation import Evaluation

    assert isinstance(seen, Evaluation)
    ratio = loss / found.trained.adjusted_loss
    tail = [_number(seen.p99), _number(seen.maximum), f"{seen.top_share:.0%}"]
    return [f"{_number(loss)} ± {seen.standard_error:.1g}", f"{ratio:.3f}" if ratio < 100 else "", *tail]


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _names(bands: Sequence[Band]) -> list[str]:
    return [f"σ in {band.label}" for band in bands]


def _number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "not finite"
