"""What ``ridgeformer explain`` prints."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ridgeformer.analysis.ablation import Ablation
from ridgeformer.analysis.explanation import Explanation, share_text, trained_on
from ridgeformer.analysis.few_constants import TOLERANCE, Description, Simplest
from ridgeformer.analysis.omega import OMEGAS, inert, natural_units
from ridgeformer.analysis.samples import Band, Measured
from ridgeformer.core.validation import InputError
from ridgeformer.evaluation import Evaluation
from ridgeformer.theory import Check


def print_explanation(found: Explanation, console: Console) -> None:
    """All tables, with a sentence where a table needs one."""
    model, task, total = found.model, found.task, found.loss.total
    console.print(
        f"[bold]{escape(found.label)}[/bold]: {model.kind}, layers: {model.layers}, heads: {model.heads}, "
        f"d = {model.dim}. Adjusted loss {_number(total.adjusted_loss)} ± {_number(total.standard_error)}, median "
        f"{_number(total.median)}, largest {_number(total.maximum)}, on {found.sequences:,} fresh sequences with "
        f"σ ~ {task.prior.spec}, n = {task.examples}, seed {found.seed}.{_training(found)}",
        highlight=False,
    )
    if total.tail_dominated:
        console.print(f"The worst 1 % of them make up {total.top_share:.0%} of this loss: do not trust its mean.")
    console.print(f"[bold]In short.[/bold] {_in_short(found)}", highlight=False)
    console.print()
    _omega(found, console)
    _diagonal(found, console)
    _progress(found.progress, found.bands, console)
    _implied(found, console)
    _filters(found, console)
    _steps(found, console)
    _momentum(found, console)
    if found.ablations is not None:
        print_ablations(found.ablations, found.bands, console, full=model.kind == "full")


def _training(found: Explanation) -> str:
    """What to say of a model that is taken apart on other contexts than it was trained on, or may be."""
    try:
        told = trained_on(found.model)
    except InputError:
        told = None
    if told is None:
        return " It does not say what it was trained on."
    if (told.examples, told.prior.spec) == (found.task.examples, found.task.prior.spec):
        return ""
    return f" It was trained for σ ~ {told.prior.spec}, n = {told.examples}."


def _in_short(found: Explanation) -> str:
    """The answers that one looks for first, in sentences."""
    last = [seen.distance for seen in found.implied.bands if seen.layer == found.model.layers]
    correlation, share = found.implied.correlations["Bayes"], found.filters.layers[-1].common_share
    sentences = []
    if last and math.isfinite(max(last)):
        sentences.append(
            f"ŵ is within {max(last):.2%} (squared, relative) of a ridge regression in every band of noise, whose √v "
            f"has a rank correlation of {correlation:.3f} with the posterior mean of σ."
        )
    sentences.append(f"One filter of Σ for all contexts explains {share_text(share)} of ŵ.")
    everywhere = [a for a in found.ablations or () if a.layer is None and len(a.blocks) < 2 and a.blocks != ("yx",)]
    losses = [(a.refitted.total.adjusted_loss, a.label) for a in everywhere if a.refitted is not None]
    if len(losses) > 1:
        control, (loss, label) = losses[0], max(losses[1:])
        sentences.append(
            f"Besides ω_yx, without which ŵ = 0, it misses {label.removesuffix(', all layers')} most: {_number(loss)} "
            f"instead of {_number(control[0])}, each with all else fitted anew."
        )
    return " ".join(sentences)


def _omega(found: Explanation, console: Console) -> None:
    units, dead = natural_units(found.task), inert(len(found.omega))
    own = found.model.kind != "full"
    title = "ω of every layer" if own else "ω of the nearest diagonal layers"
    table = _table("layer", *(f"ω_{name}" for name in OMEGAS), *(f"{name}, in units" for name in OMEGAS))
    if not own:
        table.add_column("share of the layer", justify="right")
    for layer, (row, inactive) in enumerate(zip(found.omega, dead, strict=True)):
        cells = [f"({value:.4g})" if off else f"{value:.4g}" for value, off in zip(row, inactive, strict=True)]
        cells += ["" if off else f"{value:+.3f}" for value, off in zip(row / units, inactive, strict=True)]
        table.add_row(str(layer + 1), *cells, *([] if own else [f"{found.fit.shares[layer]:.1%}"]))
    note = "Units: 1/n for xx and yx, 1/E λ for xy and yy. In brackets: does nothing in the last layer."
    _print(console, title, table, note)


def _diagonal(found: Explanation, console: Console) -> None:
    if found.diagonal is None:
        return
    stand_in = found.diagonal
    console.print(
        f"The diagonal model with these ω explains {share_text(stand_in.function_share)} of ŵ (median gap "
        f"{stand_in.median_gap:.1%}) and has a loss of {_number(stand_in.projected.total.adjusted_loss)} (median "
        f"{_number(stand_in.projected.total.median)}); with its ω fitted to ŵ, it explains "
        f"{share_text(stand_in.fitted_share)} and has {_number(stand_in.fitted.total.adjusted_loss)}.\n",
        highlight=False,
    )
    table = _table(
        "layer", "head", "matrix", "norm", "on x", "on y", "diagonal share", "rank", "rank for 90 %",
        "singular values / norm",
    )  # fmt: skip
    for part in found.fit.remainders:
        values = " ".join(f"{value:.2f}" for value in part.singular_values[:4])
        x, y = part.diagonal
        sizes = f"{part.norm:.3g}", f"{x:.3g}", f"{y:.3g}", f"{part.diagonal_share:.1%}"
        ranks = str(part.rank), str(part.effective_rank)
        table.add_row(str(part.layer), str(part.head), part.matrix, *sizes, *ranks, f"{values} …")
    _print(console, "P and Q, as a diagonal and a remainder of least nuclear norm", table)


def _progress(progress: Sequence[Measured], bands: Sequence[Band], console: Console) -> None:
    table = _table("layer", "all", *_names(bands))
    for layer, found in enumerate(progress, 1):
        table.add_row(str(layer), *_losses(found))
    _print(console, "Adjusted loss of what the model would say after each layer", table)


def _implied(found: Explanation, console: Console) -> None:
    table = _table("", *_names(found.bands))
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
    pairs = ", ".join(f"{value:.3f} with {name}" for name, value in found.implied.correlations.items())
    title = "√v of the ridge regression nearest to ŵ: the noise the model acts on (medians)"
    _print(console, title, table, f"Rank correlation after the last layer: {pairs}.")


def _filters(found: Explanation, console: Console) -> None:
    table = _table("layer", "one f(s)", "one a band")
    for layer in found.filters.layers:
        table.add_row(str(layer.layer), f"{layer.common_share:.2%}", f"{layer.band_share:.2%}")
    exact = found.filters.exact_difference
    note = "" if exact is None else f"From the polynomial of its ω, ŵ differs by {exact:.1e} (exact)."
    _print(console, "ŵ as a filter of α in the eigenbasis of Σ: share of ŵ explained", table, note)


def _steps(found: Explanation, console: Console) -> None:
    ends = dict.fromkeys((found.bands[0].label, found.bands[-1].label))  # one, if there is one band
    names = [f"{what}, σ in {band}" for what in ("step", "factor") for band in ends]
    table = _table("layer", *names, "least alignment")
    for layer in range(1, found.model.layers + 1):
        rows = {step.band: step for step in found.steps if step.layer == layer}
        cells = [_number(getattr(rows[band], name)) for name in ("step", "rescaling") for band in ends]
        table.add_row(str(layer), *cells, f"{min(row.alignment for row in rows.values()):.2f}")
    _print(
        console,
        "Gradient steps (times n) and factors 1 + δ of w, with little and much noise",
        table,
        "Alignment: cosine of the step with steepest descent. In layer 1 w is still zero: its factor acts on a alone.",
    )


def _momentum(found: Explanation, console: Console) -> None:
    if found.momentum is None:
        console.print("Momentum (Lemma 4.4) is defined for diag and gdpp models only: a full model has no ω.\n")
        return
    table = _table("layer", "gradient Π g", "momentum Φ u", "rescaling s w", "gathered Γ g (u)", "decay Λ u (u)")
    for term in found.momentum:
        sizes = term.gradient, term.momentum, term.rescaling, term.gathered, term.decay
        table.add_row(str(term.layer), *(f"{size:.3f}" for size in sizes))
    _print(console, "Terms of Lemma 4.4, over the size of w (u) after the layer", table)


def print_ablations(ablations: Sequence[Ablation], bands: Sequence[Band], console: Console, full: bool = False) -> None:
    """Losses with parts switched off, as they are and after fitting the rest anew."""
    table = _table("", "all", "median", *_names(bands))
    for found in ablations:
        total, *of_bands = _losses(found.alone)
        cells = (total, _number(found.alone.total.median), *of_bands)
        table.add_row(found.label, *(cells if not found.inert else ("unchanged: nothing reads it",)))
    note = "In a full model these are the blocks A, b, c and δ of a layer, of which ω are the diagonal part."
    _print(console, "Adjusted loss with parts switched off, all else as it is", table, note if full else "")
    refitted = [(found, found.refitted) for found in ablations if found.refitted is not None]
    if not refitted:
        return
    table = _table("", "all", "median", *_names(bands))
    for found, seen in refitted:
        total, *of_bands = _losses(seen)
        table.add_row(found.label, total, _number(seen.total.median), *of_bands)
    _print(console, "The same with all else fitted anew, to be compared with nothing switched off", table)


def _losses(found: Measured) -> list[str]:
    return [_number(seen.adjusted_loss) for seen in (found.total, *found.bands)]


def print_checks(checks: Sequence[Check], console: Console) -> None:
    """Every result of the theory, held against numbers."""
    table = _table("result", "measured", "", "bound", "")
    table.add_column("statement")
    for check in checks:
        verdict = "holds" if check.passed else "[bold]FAILS[/bold]"
        cells = escape(check.name), f"{check.measured:.2g}", check.relation, f"{check.bound:.2g}", verdict
        table.add_row(*cells, escape(check.statement))
    _print(console, "The paper's theory, held against numbers", table)
    failed = [check for check in checks if not check.passed]
    console.print(f"{len(checks) - len(failed)} of {len(checks)} hold.", highlight=False)
    for check in failed:
        seen = check.detail if math.isfinite(check.measured) else f"not finite, for the model explodes ({check.detail})"
        console.print(f"{escape(check.name)}: {escape(seen)}.", highlight=False)


def print_simplest(found: Simplest, console: Console) -> None:
    """Descriptions by their number of constants."""
    trained = found.trained
    title = f"Descriptions in few constants, {trained.sequences:,} fresh sequences, σ ~ {found.task.prior.spec}"
    table = _table("description", "constants", "loss ± s.e.", "of trained", "p99", "largest", "worst 1 %")
    table.add_row("trained", str(found.trained_constants), *_loss_cells(found, trained))
    for part, rows in (
        ("", found.dropped),
        ("", [d for d in found.forms if not d.control]),
        ("control: ", _controls(found)),
    ):
        table.add_section()
        for row in rows:
            note = f" ({row.round_numbers} round)" if row.round_numbers else ""
            table.add_row(escape(part + row.name), f"{row.count}{note}", *_loss_cells(found, row.evaluation))
    if found.references:
        table.add_section()
    for name, seen in found.references.items():
        table.add_row(escape(name), "", *_loss_cells(found, seen))
    _print(console, title, table)
    best = found.best
    if best is None:
        console.print(f"None comes within {TOLERANCE:.0%} of the trained model.")
        return
    constants = ", ".join(f"{name} = {value:.5g}" for name, value in best.constants.items())
    console.print(f"Fewest within {TOLERANCE:.0%}: {best.name}, with {constants}. {best.statement}", highlight=False)


def _controls(found: Simplest) -> list[Description]:
    return [description for description in found.forms if description.control]


def _loss_cells(found: Simplest, seen: Evaluation) -> list[str]:
    ratio = seen.adjusted_loss / found.trained.adjusted_loss
    loss = f"{_number(seen.adjusted_loss)} ± {seen.standard_error:.1g}"
    tail = _number(seen.p99), _number(seen.maximum), f"{seen.top_share:.0%}"
    return [loss, f"{ratio:.3f}" if ratio < 100 else "", *tail]


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _print(console: Console, title: str, table: Table, note: str = "") -> None:
    """A table under its title, which may be wider, with a note and an empty line after it."""
    console.print(f"[bold]{escape(title)}[/bold]", highlight=False)
    console.print(table)
    if note:
        console.print(f"  {note}", highlight=False)
    console.print()


def _names(bands: Sequence[Band]) -> list[str]:
    return [f"σ in {band.label}" for band in bands]


def _number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "not finite"
