"""Tables and figures of docs/architectures.md, from what tools/architectures.py measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ridgeformer.bench.rows import NUMBER_HEADS, BenchReport, table_text
from ridgeformer.core.registry import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION, Look
from ridgeformer.plots.render import save_figure
from ridgeformer.plots.specification import Axis, Chart, Series, bounds, panels_figure
from write_docs import replace_block

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "architectures.md"
FIGURES = DOCS / "figures"
TITLES = {"uniform:5": "σ ~ U(0, 5)", "categorical:1+3": "σ ∈ {1, 3}"}
LOOKS = {
    "linear": Look(BLUE, (), "^"),
    "linear / n": Look(SKY, (2, 1), "v"),
    "elu + 1": Look(GREEN, (4, 1.2, 1, 1.2), "o"),
    "Taylor": Look(ORANGE, (6, 1.5), "D"),
    "softmax": Look(PURPLE, (4, 1.5), "s"),
    "softmax, MLP, LayerNorm": Look(VERMILLION, (), "P"),
    "linear, MLP, LayerNorm": Look("#8B6F4E", (5, 2), "X"),
    "FULL of the zoo": Look(BLUE, (1, 1.2), ""),
    "AdaRR": Look("#777777", (1, 2)),
    "Bayes limit": Look(BLACK, (), "", 0.9),
}


def write_page(known: Mapping[str, Any], speed: Mapping[str, Any] | None, labels: Sequence[str]) -> None:
    """All blocks and figures for which there is something measured."""
    order = [*labels, "linear / n", "FULL of the zoo", "DIAG of the zoo", "OLS", "AdaRR", "Bayes limit"]
    makers = {
        "trained": trained_table,
        "losses": loss_table,
        "profiles": profile_table,
        "lengths": length_table,
        "shifts": shift_table,
        "attacks": attack_table,
    }
    for name, make in makers.items():
        if name in known:
            replace_block(PAGE, f"architectures {name}", make(known[name], order))
    if speed is not None:
        replace_block(PAGE, "architectures speed", speed_table(speed))
    draw_figures(known)


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; the first column is words, the others numbers."""
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def number(evaluation: Any) -> str:
    """A loss with its standard error, as short as it may be."""
    if evaluation is None:
        return ""
    loss, error = evaluation.get("adjusted_loss"), evaluation.get("standard_error")
    if loss is None or loss > 1e4:
        return "explodes"
    if loss > 10:
        return f"{loss:.0f}"
    return f"{loss:.3g}" + (f" ± {error:.1g}" if error is not None else "")


def in_order(names: Any, order: Sequence[str]) -> list[str]:
    """Those of the names that are there, in the order of the page."""
    return [name for name in order if name in names]


# --- tables -----------------------------------------------------------------------------------------------------------


def trained_table(record: Mapping[str, Any], order: Sequence[str]) -> str:
    """What was trained, and how."""
    rows = []
    for label in in_order({entry["family"] for entry in record.values()}, order):
        entries = [entry for entry in record.values() if entry["family"] == label]
        first = entries[0]
        sizes = {entry["layers"]: f"{entry['size']:,}" for entry in sorted(entries, key=lambda entry: entry["layers"])}
        depths = ", ".join(map(str, sizes))
        rows.append([label, depths, ", ".join(sizes.values()), f"{first['rate']:g}", f"{first['steps']:,}"])
    return markdown(("attention", "layers", "weights", "rate", "steps"), rows)


def loss_table(record: Mapping[str, Any], order: Sequence[str]) -> str:
    """Adjusted loss by depth, one table a task."""
    parts = []
    for noise, by_depth in record.items():
        depths = [depth for depth in by_depth if depth != "references"]
        names = in_order({name for depth in depths for name in by_depth[depth]}, order)
        rows = [[name, *(number(by_depth[depth].get(name)) for depth in depths)] for name in names]
        blank = [""] * (len(depths) - 1)
        last = by_depth["references"]
        rows += [[name, number(last[name]), *blank] for name in in_order(last, order)]
        heads = (TITLES[noise], *(f"{depth} layer{'s' * (depth != '1')}" for depth in depths))
        parts.append(markdown(heads, rows))
    return "\n\n".join(parts)


def profile_table(record: Mapping[str, Any], order: Sequence[str]) -> str:
    """Loss at fixed σ."""
    parts = []
    for noise, part in record.items():
        names = in_order(part["evaluations"], order)
        rows = [[name, *(short(one) for one in part["evaluations"][name])] for name in names]
        parts.append(markdown((f"{TITLES[noise]}; σ =", *(f"{level:g}" for level in part["levels"])), rows))
    return "\n\n".join(parts)


def length_table(record: Mapping[str, Any], order: Sequence[str]) -> str:
    """Loss against n."""
    names = in_order(record["evaluations"], order)
    rows = [[name, *(short(one) for one in record["evaluations"][name])] for name in names]
    return markdown(("n =", *(f"{length:,}" for length in record["lengths"])), rows)


def short(evaluation: Any) -> str:
    """A loss without its error."""
    return number(evaluation).partition(" ±")[0]


def shift_table(record: Mapping[str, Any], order: Sequence[str]) -> str:
    """Ratios to ridge regression that is told the truth."""
    names = in_order({name for cells in record.values() for name in cells}, order)
    rows = []
    for name in names:
        cells = [cells.get(name) for cells in record.values()]
        rows.append([name, *(ratio_text(cell) for cell in cells)])
    return markdown(("loss over the oracle's", *record), rows)


def ratio_text(cell: Any) -> str:
    """How many times the loss of the oracle."""
    if cell is None:
        return ""
    ratio = cell.get("ratio")
    return "explodes" if ratio is None or ratio > 1e3 else f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


def attack_table(record: Mapping[str, Any], order: Sequence[str]) -> str:
    """Median size of the change, and how often it was found."""
    rows = []
    for name in in_order(record, order):
        cells = [record[name][change] for change in ("y", "both")]
        texts = (f"{cell['median']:.2f}" if cell["median"] is not None else "–" for cell in cells)
        shares = (f"{100 * cell['reached']:.0f} %" for cell in cells)
        rows.append([name, *(text for pair in zip(texts, shares, strict=True) for text in pair)])
    return markdown(("predictor", "change of one y", "found", "change of one example", "found"), rows)


def speed_table(record: Mapping[str, Any]) -> str:
    """The section of the benchmark, with what it was measured on."""
    report = BenchReport.from_json(dict(record))
    heads, cells = table_text([row for row in report.rows if row.section == "torch"])
    marks = "|".join("---:" if head in NUMBER_HEADS else "---" for head in heads)
    lines = [f"| {' | '.join(heads)} |", f"|{marks}|", *(f"| {' | '.join(line)} |" for line in cells)]
    return "\n\n".join([" ".join(report.about()[:2]), "\n".join(lines)])


# --- figures ----------------------------------------------------------------------------------------------------------


def series(name: str, xs: Sequence[float], evaluations: Sequence[Any]) -> Series:
    """One line. Losses that are not finite, or zero up to rounding, are gaps."""
    ys = [math.nan if one is None or one["adjusted_loss"] is None else one["adjusted_loss"] for one in evaluations]
    return Series(name, LOOKS[name], tuple(xs), tuple(y if 1e-12 < y < 1e3 else math.nan for y in ys))


def draw_figures(known: Mapping[str, Any]) -> None:
    """Depth, noise and length, as SVG and PNG."""
    if "losses" in known:
        panels = [depth_chart(noise, part) for noise, part in known["losses"].items()]
        caption = "Adjusted loss against depth, all trained alike, beside the Bayes limit."
        save_figure(panels_figure(panels, (7.2, 3.0), caption=caption), FIGURES, "architectures-depth")
    if "profiles" in known:
        panels = [
            line_chart(TITLES[noise], Axis("noise level σ", (0, 7)), part["levels"], part["evaluations"])
            for noise, part in known["profiles"].items()
        ]
        caption = "Adjusted loss of four layers at fixed noise levels."
        save_figure(panels_figure(panels, (7.2, 3.0), caption=caption), FIGURES, "architectures-noise")
    if "lengths" in known:
        part = known["lengths"]
        axis = Axis("examples n", (min(part["lengths"]), max(part["lengths"])), log=True)
        panel = line_chart("trained on n = 20", axis, part["lengths"], part["evaluations"])
        caption = "Adjusted loss of four layers against the number of examples."
        save_figure(panels_figure([panel], (4.5, 3.2), caption=caption), FIGURES, "architectures-length")


def depth_chart(noise: str, part: Mapping[str, Any]) -> Chart:
    """Loss against depth on one task."""
    depths = [depth for depth in part if depth != "references"]
    lines = []
    for name in in_order({name for depth in depths for name in part[depth]}, list(LOOKS)):
        there = [depth for depth in depths if name in part[depth]]
        lines.append(series(name, [float(depth) for depth in there], [part[depth][name] for depth in there]))
    limit = part["references"]["Bayes limit"]["adjusted_loss"]
    values = [y for line in lines for y in line.y] + [limit]
    return Chart(
        TITLES[noise],
        x=Axis("layers", (0.8, max(map(float, depths)) + 0.2), whole=True),
        y=Axis("adjusted loss", bounds(values), log=True),
        series=tuple(lines),
        floor=Series("Bayes limit", LOOKS["Bayes limit"], level=limit),
    )


def line_chart(title: str, axis: Axis, xs: Sequence[float], evaluations: Mapping[str, Any]) -> Chart:
    """One line for each predictor."""
    lines = [series(name, xs, evaluations[name]) for name in in_order(evaluations, list(LOOKS))]
    values = [y for line in lines for y in line.y if math.isfinite(y)]
    return Chart(title, x=axis, y=Axis("adjusted loss", bounds(values), log=True), series=tuple(lines))
