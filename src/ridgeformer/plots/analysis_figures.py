"""Figures of a model taken apart, each from the record it shows: ``ridgeformer explain --out DIR``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ridgeformer.analysis.ablation import Ablation
from ridgeformer.analysis.diagonal import OMEGAS, ROLES, Remainder, canonical_heads, inert, natural_units
from ridgeformer.analysis.explanation import Explanation
from ridgeformer.analysis.few_constants import Simplest
from ridgeformer.analysis.filters import Filters, ImpliedNoise
from ridgeformer.analysis.layer_steps import MomentumTerms, StepBand
from ridgeformer.analysis.noise_bands import Band, Measured
from ridgeformer.core.model import LinearTransformer
from ridgeformer.core.notation import Array
from ridgeformer.core.registry import BLACK, Look
from ridgeformer.plots import specification as spec
from ridgeformer.plots.inside_figures import head_titles, map_rows
from ridgeformer.plots.specification import Axis, Chart, Figure, HeatMap, Series, View, line, lines, panels_figure

OFF_SCALE = 20.0
"""A loss beyond it only means that the model explodes: predicting zero costs d/2 or less."""
_DARKEST = 10.0  # times the loss of the control: anything beyond is as bad
_MOST_PANELS = 12  # of one figure; deeper models show layers at even distances
_LINEAR_BELOW = 0.3  # size of the largest ω, in units, from which an axis needs a logarithm
_SMALLEST_SINGULAR = 1e-5  # singular values below are near rounding
_DASHED, _DOTTED = (4.0, 1.5), (1.0, 1.2)
_DASHES: tuple[tuple[float, ...], ...] = ((), _DASHED, _DOTTED, (4, 1.2, 1, 1.2))  # of heads


def all_figures(explanation: Explanation) -> dict[str, Figure]:
    """Names and figures of everything in an explanation."""
    figures = {
        "omega": omega_figure(explanation.omega / natural_units(explanation.task)),
        "matrices": matrices_figure(explanation.model),
        "filters": filters_figure(explanation.filters, explanation.bands),
        "implied-noise": implied_noise_figure(explanation.implied),
        "steps": steps_figure(explanation.steps, explanation.bands),
        "progress": progress_figure(explanation.progress, explanation.bands),
    }
    if explanation.momentum is not None:
        figures["momentum"] = momentum_figure(explanation.momentum)
    if explanation.ablations is not None:
        figures["ablations"] = ablations_figure(explanation.ablations)
        figures["ablation-bands"] = ablation_bands_figure(explanation.ablations, explanation.bands)
    if explanation.model.kind == "full":
        figures["remainder"] = remainder_figure(explanation.fit.remainders)
    return figures


def omega_figure(omega: Array) -> Figure:
    """ω of every layer in natural units; those that do nothing or are zero throughout are left out."""
    layers, shown = range(1, len(omega) + 1), np.where(inert(len(omega)), np.nan, omega)
    series = [
        line(f"ω_{name}, {role}", spec.in_turn(place), layers, shown[:, place])
        for place, (name, role) in enumerate(zip(OMEGAS, ROLES, strict=True))
        if np.nan_to_num(shown[:, place]).any()
    ]
    wide = np.nanmax(np.abs(shown)) > _LINEAR_BELOW
    y = Axis("ω in units of 1/n (xx, yx) and 1/E λ (xy, yy)", linear_below=0.1 * wide)
    zero = Series("", Look(BLACK, width=0.8), level=0.0)
    return panels_figure([Chart("", Axis("layer", whole=True), y, (*series, zero))], (6.0, 2.8))


def matrices_figure(model: LinearTransformer) -> Figure:
    """P and Q of every layer and head, in canonical form, on one scale; lines separate the blocks of x and y."""
    P, Q = (matrices.reshape(-1, model.dim + 1, model.dim + 1) for matrices in canonical_heads(model))
    titles = head_titles(model.layers, model.heads)
    acting = np.flatnonzero(P.any(axis=(1, 2)))
    chosen = acting[_places(len(acting))] if acting.size else [0]
    rows = map_rows({"P": P[chosen], "Q": Q[chosen]}, [titles[place] for place in chosen])
    return Figure((View("", rows),), (max(1.5 * len(chosen), 3.6) + 0.6, 3.4))


def filters_figure(filters: Filters, bands: Sequence[Band]) -> Figure:
    """s_j ŵ_j / a_j, the share of the least-squares answer that is kept, against s_j, beside ridge that is told σ."""
    colours = {band.label: spec.in_order(place, len(bands)).colour for place, band in enumerate(bands, 1)}
    charts = []
    for layer in (filters.layers[place] for place in _places(len(filters.layers))):
        series = []
        for band in (band for band in filters.bands if band.layer == layer.layer):
            s, name, colour = np.asarray(band.values), f"σ in {band.band}", colours[band.band]
            series.append(line(name, Look(colour), s, s * band.coefficients))
            series.append(line("", Look(colour, _DOTTED), s, s * band.ridge, keys=(name,)))
        title = f"layer {layer.layer}: {layer.band_share:.1%} explained"
        axes = Axis("eigenvalue s of Σ", log=True), Axis("s_j ŵ_j / a_j (dotted: ridge, told σ)")
        charts.append(Chart(title, *axes, tuple(series)))
    columns = min(4, len(charts))
    size = (max(1.8 * columns, 3.6), 0.6 + 2.0 * -(-len(charts) // columns))
    return panels_figure(charts, size, columns, legend=charts[0].series)


def implied_noise_figure(implied: ImpliedNoise) -> Figure:
    """√v of the nearest ridge regression against σ, for every layer, beside two estimators."""
    layers, references = sorted({band.layer for band in implied.bands}), implied.references
    sigma = spec.floats(band.sigma for band in references)
    series = [Series("true σ", Look("#999999", width=1.0), sigma, sigma)]
    for place, layer in enumerate(layers, 1):
        rows = [band for band in implied.bands if band.layer == layer]
        middle = spec.floats(band.median for band in rows)
        name = f"after layer {layer}" + ("" if np.isfinite(middle).any() else ": infinite")
        one = line(name, spec.in_order(place, len(layers)), (band.sigma for band in rows), middle)
        if layer == layers[-1]:
            low, high = map(spec.floats, zip(*(band.quartiles for band in rows), strict=True))
            one = replace(one, low=low, high=high)
        series.append(one)
    for name, values, marker in (
        ("σ̂ of AdaRR", [band.ada for band in references], "s"),
        ("posterior mean", [band.bayes for band in references], "^"),
    ):
        series.append(line(name, Look(spec.in_turn(1).colour, (), marker), sigma, values, points=True, hollow=True))
    axes = Axis("σ, median of the band"), Axis("√v of the nearest ridge regression")
    return panels_figure([Chart("", *axes, tuple(series))], (5.2, 3.0))


def steps_figure(steps: Sequence[StepBand], bands: Sequence[Band]) -> Figure:
    """Step, alignment and rescaling of every layer against the noise."""
    middles = [band.middle for band in bands]
    layers = sorted({step.layer for step in steps})
    charts = []
    for name, title in (
        ("step", "n · step size"),
        ("alignment", "cosine with steepest descent"),
        ("rescaling", "factor 1 + δ of w"),
    ):
        rows = {f"layer {layer}": [getattr(step, name) for step in steps if step.layer == layer] for layer in layers}
        charts.append(Chart(title, Axis("σ"), Axis(""), lines(middles, rows, ordered=True)))
    return panels_figure(charts, (7.2, 2.6), legend=charts[0].series)


def momentum_figure(terms: Sequence[MomentumTerms]) -> Figure:
    """Sizes of the terms of Lemma 4.4 in w' of every layer."""
    parts = {
        "gradient, Π g": [term.gradient for term in terms],
        "momentum, Φ u": [term.momentum for term in terms],
        "rescaling, s w": [term.rescaling for term in terms],
    }
    axes = Axis("layer", whole=True), Axis("size ÷ size of w after the layer")
    return panels_figure([Chart("", *axes, lines([term.layer for term in terms], parts))], (5.0, 2.6))


def progress_figure(progress: Sequence[Measured], bands: Sequence[Band]) -> Figure:
    """Loss of the read-out after each layer, against the layer and against the noise (the paper's figures 5 and 7)."""
    layers, y = range(1, len(progress) + 1), Axis(spec.LOSS, log=True)
    total = line("all", Look(BLACK, (), "o"), layers, (after.total.adjusted_loss for after in progress))
    losses = [[band.adjusted_loss for band in after.bands] for after in progress]
    by_band = {f"σ in {band.label}": row for band, row in zip(bands, np.transpose(losses), strict=True)}
    by_layer = {f"after layer {layer}": row for layer, row in zip(layers, losses, strict=True)}
    charts = [
        Chart("", Axis("layers", whole=True), y, (total, *lines(layers, by_band, ordered=True))),
        Chart("", Axis("σ"), y, lines([band.middle for band in bands], by_layer, ordered=True)),
    ]
    return panels_figure(charts, (7.2, 2.6))


def remainder_figure(remainders: Sequence[Remainder]) -> Figure:
    """Singular values of P and Q minus their diagonals, divided by the norm of the matrix; not those near rounding."""
    layers, several = sorted({one.layer for one in remainders}), any(one.head > 1 for one in remainders)
    charts = []
    for name in "PQ":
        series = []
        for one in (one for one in remainders if one.matrix == name):
            values = np.where(np.array(one.singular_values) > _SMALLEST_SINGULAR, one.singular_values, np.nan)
            look = spec.in_order(layers.index(one.layer) + 1, len(layers), _DASHES[(one.head - 1) % len(_DASHES)])
            label = f"layer {one.layer}" + (f", head {one.head}" if several else "")
            series.append(line(label, look, range(1, len(values) + 1), values))
        axes = Axis("singular value", whole=True), Axis("size ÷ norm of the matrix", log=True)
        charts.append(Chart(f"{name} minus its diagonal", *axes, tuple(series)))
    return panels_figure(charts, (7.2, 2.8), legend=charts[0].series)


def ladder_figure(simplest: Simplest) -> Figure:
    """Loss against the number of fitted constants of every description; controls have markers of their own."""
    groups = (
        ("ω dropped one by one", simplest.dropped),
        ("tied to each other", [form for form in simplest.forms if not form.control]),
        ("controls", [form for form in simplest.forms if form.control]),
    )
    series = []
    for place, (label, descriptions) in enumerate(groups):
        losses = [one.evaluation.adjusted_loss for one in descriptions]
        shown = [loss if loss <= OFF_SCALE else math.nan for loss in losses]
        names = tuple("" if place == 0 or one.round_numbers else one.name for one in descriptions)
        counts = [one.count for one in descriptions]
        series.append(line(label, spec.in_turn(place), counts, shown, points=place == 2, labels=names))
    end = [simplest.trained_constants], [simplest.trained.adjusted_loss]
    series.append(line("trained", Look(BLACK, (), "*"), *end, points=True))
    series.append(Series("trained + 5 %", Look(BLACK, _DASHED, width=0.8), level=simplest.limit))
    return panels_figure([Chart("", Axis("constants"), Axis(spec.LOSS, log=True), tuple(series))], (7.2, 3.6))


# --- parts switched off ----------------------------------------------------------------------------------------------


def ablations_figure(ablations: Sequence[Ablation]) -> Figure:
    """Loss with parts switched off: without and with fitting the rest again. Arrows mark losses beyond the axis."""
    shown = [ablation for ablation in ablations if not ablation.inert]
    rows, series, known = np.arange(len(shown))[::-1], [], []
    for name, place, hollow, measured in (
        ("rest unchanged", 1, True, [ablation.alone for ablation in shown]),
        ("rest fitted again", 0, False, [ablation.refitted for ablation in shown]),
    ):
        if measured[0] is None:  # the control, with which nothing is switched off
            continue
        losses = np.array([math.nan if one is None else one.total.adjusted_loss for one in measured])
        colour, far = spec.in_turn(place).colour, losses > OFF_SCALE
        control = Look(colour, _DASHED if hollow else (), width=0.8)
        series.append(line("", control, losses[[0, 0]], (-1, len(rows))))
        series.append(line(name, Look(colour, (), "o"), losses[~far], rows[~far], points=True, hollow=hollow))
        edge = np.full(far.sum(), OFF_SCALE)
        series.append(line("", Look(colour, (), ">"), edge, rows[far], points=True, hollow=hollow))
        known += [*losses[~np.isnan(losses)]]
    far_away = max(known) > OFF_SCALE
    if far_away:
        series.append(Series(f"beyond {OFF_SCALE:g}", Look(BLACK, (), ">"), points=True, hollow=True))
    x = Axis(spec.LOSS, (min(known) / 1.1, 1.5 * OFF_SCALE if far_away else max(known) * 1.1), log=True)
    names = tuple(ablation.label for ablation in shown)
    y = Axis("", (-0.7, len(shown) - 0.3), ticks=spec.floats(rows), names=names)
    return panels_figure([Chart("", x, y, tuple(series))], (5.4, 0.9 + 0.17 * len(shown)))


def ablation_bands_figure(ablations: Sequence[Ablation], bands: Sequence[Band]) -> Figure:
    """Losses by noise level, divided by those with nothing switched off; after refitting, where it was done."""
    refits = ablations[0].refitted is not None
    measured = [(a.label, a.refitted if refits else a.alone) for a in ablations if not a.inert]
    losses = {label: [band.adjusted_loss for band in one.bands] for label, one in measured if one is not None}
    (_, control), *rows = losses.items()
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratios = np.array([np.asarray(row) / control for _, row in rows]).reshape(-1, len(bands))
    heat = HeatMap(
        "loss ÷ loss with nothing switched off" + (", rest fitted again" if refits else ""),
        tuple(map(spec.floats, ratios)),
        _DARKEST,
        ratios=True,
        texts=tuple(tuple(f"{ratio:.2f}" if ratio < 100 else "≥ 100" for ratio in row) for row in ratios),
        rows=tuple(label for label, _ in rows),
        columns=tuple(f"σ in {band.label}" for band in bands),
    )
    return panels_figure([heat], (2.2 + 0.75 * len(bands), 1.0 + 0.17 * len(rows)))


def _places(count: int) -> list[int]:
    """Places of at most `_MOST_PANELS` of so many things, at even distances, the last one always."""
    return [round(place) for place in np.linspace(0, count - 1, min(count, _MOST_PANELS))]
