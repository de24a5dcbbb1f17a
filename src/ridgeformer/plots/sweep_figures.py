"""The figure of a sweep: a loss against any field of its cells, a line for each combination of the others.

Cells that differ only in their seed make one point, their geometric mean, in a band of one standard deviation of the
logarithm. Rows are those of `ridgeformer.sweeps.table.collect`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ridgeformer.core.kinds import KINDS
from ridgeformer.core.registry import Look
from ridgeformer.core.validation import InputError, one_of
from ridgeformer.plots import specification as spec
from ridgeformer.plots.specification import Axis, Chart, Figure, Series
from ridgeformer.sweeps.table import LOSS, SETTINGS

_MOST_LINES = 20  # that a reader can tell apart, and more than that
_SEED = "seed"
_NOT_A_LINE = ("start", _SEED)  # a start follows from the other fields, as a rule
_LOG_SPAN = 8.0  # of largest over smallest number from which an axis is logarithmic

Rows = Sequence[Mapping[str, Any]]


def varying(rows: Rows) -> list[str]:
    """Settings that have more than one value, in their usual order."""
    names = [name for name in rows[0] if name in SETTINGS and name not in _NOT_A_LINE]
    return [name for name in names if len({row[name] for row in rows}) > 1]


def sweep_figure(rows: Rows, x: str | None = None, value: str = LOSS) -> Figure:
    """``value``, a column of numbers, against the field ``x``, by default the first that is a number and varies."""
    fields = varying(rows)
    if not fields:
        raise InputError("All cells have the same settings, except for their seeds: there is nothing to draw.")
    numbers = [name for name in fields if all(_is_number(row[name]) for row in rows)]
    x = (numbers or fields)[0] if x is None else one_of("x", x, fields)
    one_of("value", value, [name for name in rows[0] if any(_is_number(row[name]) for row in rows)])
    others = [name for name in fields if name != x]
    groups: dict[tuple[Any, ...], dict[Any, list[float]]] = {}
    for row in rows:
        if _is_number(row[value]) and row[x] is not None:
            line = groups.setdefault(tuple(row[name] for name in others), {})
            line.setdefault(row[x], []).append(row[value])
    if not groups:
        raise InputError(f"No cell has a number in {value} and a value of {x}.")
    if len(groups) > _MOST_LINES:
        raise InputError(
            f"There would be {len(groups)} lines, one for every combination of {', '.join(others)}. That is too many: "
            f"choose some cells, such as --where {others[0]}={next(iter(groups))[0]}."
        )
    places = sorted({place for line in groups.values() for place in line}, key=lambda place: (str(type(place)), place))
    whole = all(isinstance(place, int) for place in places)
    at = {place: float(place) if x in numbers else float(number) for number, place in enumerate(places)}
    series = tuple(
        _series(_line_name(others, values), _look(number, others, values), line, at)
        for number, (values, line) in enumerate(groups.items())
    )
    ends = min(at.values()), max(at.values())
    log_x = x in numbers and ends[0] > 0 and ends[1] / ends[0] >= _LOG_SPAN
    names = () if x in numbers else tuple(map(str, places))
    across = Axis(
        x,
        ends,
        whole=(whole or not numbers) and not log_x,
        log=log_x,
        ticks=tuple(at.values()) if names else (),
        names=names,
    )
    losses = [end for one in series for ends in (one.y, one.low, one.high) for end in ends]
    chart = Chart("", across, Axis(value.replace("_", " "), spec.bounds(losses), log=True), series)
    seeds = len({row[_SEED] for row in rows})
    what = f"Points are geometric means over up to {seeds} seeds; bands are one standard deviation of the logarithm."
    note = (what,) if seeds > 1 else ()
    caption = f"{value.replace('_', ' ')} against {x}.".capitalize()
    return spec.panels_figure([chart], (spec.WIDTH * 0.75, 3.2), legend=series, caption=caption, notes=note)


def _series(name: str, look: Look, line: Mapping[Any, Sequence[float]], at: Mapping[Any, float]) -> Series:
    """Means and bands over seeds, from left to right."""
    points = []
    for place in sorted(line, key=lambda place: at[place]):
        mean, low, high = (float(values[0]) for values in spec.geometric([[loss] for loss in line[place]]))
        points.append((at[place], mean, low, high))
    x, y, low_ends, high_ends = (tuple(column) for column in np.array(points).T.tolist())
    several = any(len(losses) > 1 for losses in line.values())
    return Series(name, look, x, y, low=low_ends if several else (), high=high_ends if several else ())


def _line_name(others: Sequence[str], values: Sequence[Any]) -> str:
    words = [
        str(value) if isinstance(value, str) else f"{name} {value}" for name, value in zip(others, values, strict=True)
    ]
    return ", ".join(words) or "all cells"


def _look(number: int, others: Sequence[str], values: Sequence[Any]) -> Look:
    """That of the kind, if lines differ in nothing else."""
    return KINDS[values[0]].look if list(others) == ["kind"] and values[0] in KINDS else spec.in_turn(number)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
