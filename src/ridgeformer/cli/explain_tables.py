"""What ``ridgeformer explain`` prints."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.text import Text

from ridgeformer.analysis.ablation import Ablation
from ridgeformer.analysis.algorithm import recorded_task, share_text
from ridgeformer.analysis.diagonal import OMEGAS, inert, natural_units
from ridgeformer.analysis.explanation import Explanation
from ridgeformer.analysis.few_constants import TOLERANCE, Simplest
from ridgeformer.analysis.noise_bands import Band, Measured
from ridgeformer.analysis.registers import RegisterExplanation
from ridgeformer.cli.terminal import error_text, number_text, print_table, say
from ridgeformer.core.validation import InputError
from ridgeformer.evaluation import Evaluation
from ridgeformer.theory import Check

_DIGITS = 3  # of losses by bands of noise: with more digits the columns would not fit 80 characters


def print_explanation(explanation: Explanation) -> None:
    """All tables, with a sentence where a table needs one."""
    model, task, total = explanation.model, explanation.task, explanation.loss.total
    shape = f"{model.kind}, layers: {model.layers}, heads: {model.heads}, d = {model.dim}"
    loss = error_text(total.adjusted_loss, total.standard_error)
    say(
        f"{explanation.label}: {shape}. Adjusted loss {loss}, median {number_text(total.median)}, largest "
        f"{number_text(total.maximum)}, on {explanation.sequences:,} fresh sequences with {task.setting}, "
        f"seed {explanation.seed}.{_training(explanation)}",
    )
    if total.tail_dominated:
        say(f"The worst 1 % of them make up {total.top_share:.0%} of this loss: do not trust its mean.")
    say(f"In short. {_in_short(explanation)}\n")
    _omega(explanation)
    _diagonal(explanation)
    heads = ["layer", "all", *_names(explanation.bands)]
    losses = [[str(layer), *_losses(measured)] for layer, measured in enumerate(explanation.progress, 1)]
    _print("Adjusted loss of what the model would say after each layer", heads, losses)
    _implied(explanation)
    _filters(explanation)
    _steps(explanation)
    _momentum(explanation)
    if explanation.ablations is not None:
        print_ablations(explanation.ablations, explanation.bands, explanation.diagonal is not None)


def print_registers(explanation: RegisterExplanation) -> None:
    """What the registers hold, and the loss after each layer."""
    model, total = explanation.model, explanation.progress[-1].total
    shape = f"{model.kind}, layers: {model.layers}, heads: {model.heads}, registers: {model.registers}, d = {model.dim}"
    say(
        f"{explanation.label}: {shape}. Adjusted loss {error_text(total.adjusted_loss, total.standard_error)} on "
        f"{explanation.sequences:,} fresh sequences with {explanation.task.setting}, seed {explanation.seed}.",
    )
    say(
        "Each register holds a linear model of its own, A y − <w, x>. Only all registers together have a meaning, "
        "because a model that mixes them computes the same. Analyses of single ω are for models without registers.\n"
    )
    heads = ["layer", "reg.", "A", "‖w‖/‖ŵ‖", "ŵ", "change", "α", "oracle", "span"]
    names = ("target", "size", "own", "change", "gradient", "oracle", "span")
    rows = []
    for readout in explanation.readouts:
        values = (getattr(readout, name) for name in names)
        numbers = ("" if value is None else format(value, ".2g") for value in values)
        rows.append([str(readout.layer), str(readout.register), *numbers])
    title = "Registers after each layer: size, cosines of w with ŵ, its change, α and the oracle; medians"
    print_table(title, heads, rows)
    progress = [
        [str(layer), error_text(measured.total.adjusted_loss, measured.total.standard_error)]
        for layer, measured in enumerate(explanation.progress, 1)
    ]
    print_table("Adjusted loss of what the model would say after each layer", ["layer", "adjusted loss"], progress)


def _training(explanation: Explanation) -> str:
    """A sentence for a model that is explained on other contexts than those of its training, or may be."""
    try:
        recorded = recorded_task(explanation.model)
    except InputError:
        recorded = None
    if recorded is None:
        return " It does not say what it was trained on."
    if recorded.specs == explanation.task.specs:
        return ""
    return f" It was trained for {recorded.setting}."


def _in_short(explanation: Explanation) -> str:
    """The main results, in sentences."""
    implied, share = explanation.implied, explanation.filters.layers[-1].common_share
    distances = [band.distance for band in implied.bands if band.layer == explanation.model.layers]
    sentences = []
    if distances and math.isfinite(max(distances)):
        sentences.append(
            f"ŵ is within {max(distances):.2%} (squared, relative) of a ridge regression in every band of noise, whose "
            f"√v has a rank correlation of {implied.correlations['Bayes']:.3f} with the posterior mean of σ."
        )
    sentences.append(f"One filter of Σ for all contexts explains {share_text(share)} of ŵ.")
    everywhere = [a for a in explanation.ablations or () if a.layer is None and len(a.blocks) < 2]
    losses = [(a.refitted.total.adjusted_loss, a.label) for a in everywhere if a.refitted and a.blocks != ("yx",)]
    if len(losses) > 1:
        control, (loss, label) = losses[0], max(losses[1:])
        sentences.append(
            f"Without ω_yx ŵ is 0. Of the other parts {label.removesuffix(', all layers')} matters most: without it "
            f"the loss is {number_text(loss)} instead of {number_text(control[0])}, with the rest fitted again."
        )
    return " ".join(sentences)


def _omega(explanation: Explanation) -> None:
    omega, units, dead = explanation.omega, natural_units(explanation.task), inert(len(explanation.omega))
    heads, own, in_units = ["layer", *(f"ω_{name}" for name in OMEGAS)], [], []
    for layer, (row, inactive) in enumerate(zip(omega, dead, strict=True), 1):
        pairs, scaled = zip(row, inactive, strict=True), zip(row / units, inactive, strict=True)
        own.append([str(layer), *(f"({value:.4g})" if off else f"{value:.4g}" for value, off in pairs)])
        in_units.append([str(layer), *("" if off else f"{value:+.3f}" for value, off in scaled)])
    title = "ω of every layer"
    if explanation.diagonal is not None:
        title, heads = "ω of the nearest diagonal layers", [*heads, "share of the layer"]
        own = [[*cells, f"{share:.1%}"] for cells, share in zip(own, explanation.fit.shares, strict=True)]
    _print(title, heads, own, "Numbers in brackets have no effect, because they are in the last layer.")
    _print("The same in units: 1/n for xx and yx, 1/E λ for xy and yy", heads[:5], in_units)


def _diagonal(explanation: Explanation) -> None:
    stand_in = explanation.diagonal
    if stand_in is None:
        return
    projected, fitted = stand_in.projected.total, stand_in.fitted.total
    say(
        f"The diagonal model with these ω explains {share_text(stand_in.function_share)} of ŵ (median gap "
        f"{stand_in.median_gap:.1%}) and has a loss of {number_text(projected.adjusted_loss)} (median "
        f"{number_text(projected.median)}); with its ω fitted to ŵ, it explains {share_text(stand_in.fitted_share)} "
        f"and has {number_text(fitted.adjusted_loss)}.\n",
    )
    heads = ["of", "norm", "on x", "on y", "diagonal share", "rank", "rank for 90 %", "singular values / norm"]
    rows = []
    for part in explanation.fit.remainders:
        values = " ".join(f"{value:.2f}" for value in part.singular_values[:4])
        numbers = [f"{number:.3g}" for number in (part.norm, *part.diagonal)]
        ranks = [f"{part.diagonal_share:.1%}", str(part.rank), str(part.effective_rank)]
        rows.append([f"{part.matrix}, layer {part.layer}, head {part.head}", *numbers, *ranks, f"{values} …"])
    _print("P and Q, as a diagonal and a remainder of least nuclear norm", heads, rows)


def _implied(explanation: Explanation) -> None:
    bands, implied = explanation.bands, explanation.implied
    names = {"true σ": "sigma", "AdaRR": "ada", "posterior mean": "bayes"}
    rows = [[name, *(number_text(getattr(r, field)) for r in implied.references)] for name, field in names.items()]
    distances = []
    for layer in range(1, explanation.model.layers + 1):
        of_layer = {band.band: band for band in implied.bands if band.layer == layer}
        of_bands = [of_layer.get(band.label) for band in bands]
        rows.append([f"after layer {layer}", *("" if band is None else number_text(band.median) for band in of_bands)])
        distances = ["" if band is None else f"{band.distance:.2%}" for band in of_bands]
    pairs = ", ".join(f"{value:.3f} with {name}" for name, value in implied.correlations.items())
    title = "√v of the ridge regression nearest to ŵ: the noise the model acts on (medians)"
    note = f"Rank correlation after the last layer: {pairs}."
    _print(title, ["", *_names(bands)], [*rows, ["distance from ridge", *distances]], note)


def _filters(explanation: Explanation) -> None:
    filters = explanation.filters
    rows = [[str(part.layer), f"{part.common_share:.2%}", f"{part.band_share:.2%}"] for part in filters.layers]
    exact = filters.exact_difference
    note = "" if exact is None else f"From the polynomial of its ω, ŵ differs by {exact:.1e} (exact)."
    title = "ŵ as a filter of α in the eigenbasis of Σ: share of ŵ explained"
    _print(title, ["layer", "one f(s)", "one a band"], rows, note)


def _steps(explanation: Explanation) -> None:
    ends = dict.fromkeys((explanation.bands[0].label, explanation.bands[-1].label))  # one, if there is one band
    heads = [f"{what}, σ in {band}" for what in ("step", "factor") for band in ends]
    rows = []
    for layer in range(1, explanation.model.layers + 1):
        steps = {step.band: step for step in explanation.steps if step.layer == layer}
        cells = [number_text(getattr(steps[band], name)) for name in ("step", "rescaling") for band in ends]
        rows.append([str(layer), *cells, f"{min(step.alignment for step in steps.values()):.2f}"])
    title = "Gradient steps (times n) and factors 1 + δ of w, with little and much noise"
    alignment = "Alignment: cosine of the step with steepest descent."
    note = f"{alignment} In layer 1 w is still zero: its factor acts on a alone."
    _print(title, ["layer", *heads, "least alignment"], rows, note)


def _momentum(explanation: Explanation) -> None:
    if explanation.momentum is None:
        say("Momentum (Lemma 4.4) is defined for diag and gdpp models only: a full model has no ω.\n")
        return
    heads = ["layer", "gradient Π g", "momentum Φ u", "rescaling s w", "gathered Γ g (u)", "decay Λ u (u)"]
    names = ("gradient", "momentum", "rescaling", "gathered", "decay")
    rows = [[str(term.layer), *(f"{getattr(term, name):.3f}" for name in names)] for term in explanation.momentum]
    _print("Terms of Lemma 4.4, over the size of w (u) after the layer", heads, rows)


def print_ablations(ablations: Sequence[Ablation], bands: Sequence[Band], full: bool = False) -> None:
    """Losses with parts switched off, as they are and after fitting the rest again."""
    heads = ["", "median", "all", *_names(bands)]
    alone = [[part.label, *_losses(part.alone, median=True)] for part in ablations if not part.inert]
    unchanged = ", ".join(part.label for part in ablations if part.inert)
    notes = [f"Unchanged, because nothing reads it: {unchanged}."] if unchanged else []
    if full:
        notes.append("In a full model these are the blocks A, b, c and δ of a layer, of which ω are the diagonal part.")
    _print("Adjusted loss with parts switched off, everything else unchanged", heads, alone, " ".join(notes))
    again = [(part.label, part.refitted) for part in ablations if part.refitted is not None]
    if again:
        refitted = [[label, *_losses(measured, median=True)] for label, measured in again]
        title = "The same with the rest fitted again; compare with the row where nothing is switched off"
        _print(title, heads, refitted)


def _losses(measured: Measured, median: bool = False) -> list[str]:
    """Of all contexts and of each band; the median of all first, if wanted."""
    losses = [each.adjusted_loss for each in (measured.total, *measured.bands)]
    return [number_text(loss, _DIGITS) for loss in ([measured.total.median] if median else []) + losses]


def _names(bands: Sequence[Band]) -> list[str]:
    return [f"σ in {band.label}" for band in bands]


def print_checks(checks: Sequence[Check]) -> None:
    """Every result of the theory, checked numerically."""
    rows: list[list[str | Text]] = []
    for check in checks:
        verdict = "holds" if check.passed else Text("FAILS", "bold")
        measured = f"{check.measured:.2g} {check.relation} {check.bound:.2g}"
        rows.append([check.name, measured, verdict, check.statement])
    heads = ["result", "measured", "", "statement"]
    print_table("The paper's theory, checked numerically", heads, rows, words=(0, 3))
    say("")
    failed = [check for check in checks if not check.passed]
    say(f"{len(checks) - len(failed)} of {len(checks)} hold.")
    for check in failed:
        finite = math.isfinite(check.measured)
        say(f"{check.name}: {'' if finite else 'not finite, because the model explodes; '}{check.detail}.")


def print_simplest(simplest: Simplest) -> None:
    """Descriptions by their number of constants."""
    trained, best = simplest.trained, simplest.best
    rows, ends = [["trained", str(simplest.trained_constants), *_tail(simplest, trained)]], [True]
    for control in (None, False, True):
        group = simplest.dropped if control is None else [form for form in simplest.forms if form.control == control]
        for part in group:
            count = f"{part.count} ({part.round_numbers} round)" if part.round_numbers else str(part.count)
            rows.append([f"{'control: ' * part.control}{part.name}", count, *_tail(simplest, part.evaluation)])
        ends += [False] * (len(group) - 1) + [True]
    rows += [[name, "", *_tail(simplest, evaluation)] for name, evaluation in simplest.references.items()]
    title = f"Descriptions in few constants, {trained.sequences:,} fresh sequences, σ ~ {simplest.task.prior.spec}"
    heads = ["description", "constants", "loss ± s.e.", "of trained", "p99", "largest", "worst 1 %"]
    print_table(title, heads, rows, words=(0, 1), ends=ends + [False] * (len(rows) - len(ends)))
    if best is None:
        say(f"No description comes within {TOLERANCE:.0%} of the trained model.")
        return
    constants = ", ".join(f"{name} = {value:.5g}" for name, value in best.constants.items())
    say(f"Fewest constants within {TOLERANCE:.0%} of it: {best.name}, with {constants}. {best.statement}")


def _tail(simplest: Simplest, evaluation: Evaluation) -> list[str]:
    ratio = evaluation.adjusted_loss / simplest.trained.adjusted_loss
    loss = f"{number_text(evaluation.adjusted_loss)} ± {evaluation.standard_error:.1g}"
    tail = number_text(evaluation.p99), number_text(evaluation.maximum), f"{evaluation.top_share:.0%}"
    return [loss, f"{ratio:.3f}" if ratio < 100 else "", *tail]


def _print(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], note: str = "") -> None:
    """A table with a note and an empty line after it."""
    print_table(title, heads, rows)
    say(f"{note}\n" if note else "")
