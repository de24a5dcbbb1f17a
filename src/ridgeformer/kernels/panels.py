"""Sums of products for matrices with few columns, and for symmetric ones: what the diagonal kernel is made of.

A *panel* is a lane array (d, s, LANES), a *small* matrix (s, s, LANES) or (s², LANES). A small matrix may also be
*shared*: a flat array of s² numbers that are the same for every lane. s is known when a kernel is compiled: it is the
length of ``width``, a tuple whose entries mean nothing. So loops over it are written out, and a row of a panel stays in
registers.

The sums take a tuple of steps, which act on the result in turn, as one would write the formula:
``panel_sum(width, out, (Times(X, A), Scale(c), Add(Y, 1.0)))`` is out = c X·A + Y. The result of a sum may be one of
the matrices of an `Add`, but none of the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ridgeformer.kernels.emission import I64, Code, call_emitted, index_value, lowered_argument
from ridgeformer.kernels.vectors import WIDE, lanes_of

_TILE = 4 if WIDE else 3  # of symmetric results: accumulators, a row and a column must fit 32 or 16 registers
_ROWS = {1: 10, 2: 5, 3: 5 if WIDE else 4, 4: 4 if WIDE else 3}  # of a tile of `matrix_times_panel`, by its columns
_FEW_ROWS = 3  # with more columns


class Times(NamedTuple):
    """+ left·right, where right is small and left a panel or small."""

    left: Any
    right: Any


class TimesT(NamedTuple):
    """+ left·rightᵀ, likewise."""

    left: Any
    right: Any


class TTimes(NamedTuple):
    """+ leftᵀ·right, both small."""

    left: Any
    right: Any


class Outer(NamedTuple):
    """+ column·rowᵀ, of a (d,) or (s,) and an (s,) lane array."""

    column: Any
    row: Any


class Add(NamedTuple):
    """+ factor·matrix, of the result's own shape."""

    matrix: Any
    factor: Any


class AddT(NamedTuple):
    """+ factor·matrixᵀ, a small one."""

    matrix: Any
    factor: Any


class Scale(NamedTuple):
    """All that came before, times a number."""

    factor: Any


class Product(NamedTuple):
    """+ left·right, two (d, d) matrices; the sum of all products must be symmetric."""

    left: Any
    right: Any


class Both(NamedTuple):
    """+ left·rightᵀ + right·leftᵀ, two panels or two (d,) lane arrays."""

    left: Any
    right: Any


def _unpacked(builder: Any, steps: Any, value: Any) -> tuple[list[Any], list[Any]]:
    """Types and values of all that the steps hold."""
    kinds, values = [], []
    for step, part in zip(steps, cgutils.unpack_tuple(builder, value, len(steps)), strict=True):
        kinds += list(step)
        values += cgutils.unpack_tuple(builder, part, len(step))
    return kinds, values


def _tags(steps: Any) -> list[type]:
    return [step.instance_class for step in steps]


def _name(kind: str, width: Any, steps: Any) -> str:
    return f"{kind}_{len(width)}_{'_'.join(tag.__name__ for tag in _tags(steps))}"


def _paired(tags: list[type], arguments: Any) -> Iterator[tuple[type, Any, Any]]:
    """(tag, first, second argument) of every step; a `Scale` has only the second."""
    given = iter(arguments)
    for tag in tags:
        yield tag, None if tag is Scale else next(given), next(given)


# --- results with few columns -----------------------------------------------------------------------------------------


@intrinsic
def small_sum(typing: Any, width: Any, out: Any, steps: Any) -> Any:
    """The small matrix that the steps `Times`, `TimesT`, `TTimes`, `Outer`, `Add`, `AddT` and `Scale` make."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code, size = (Code(builder, context.get_value_type(lanes_of(out))), range(len(width)))
        _, place = lowered_argument(context, builder, out, out, arguments[1])
        given = zip(*_unpacked(builder, steps, arguments[2]), strict=True)
        lowered = [lowered_argument(context, builder, out, kind, value)[1] for kind, value in given]
        totals: Any = {(a, b): None for a in size for b in size}
        for tag, first, second in _paired(_tags(steps), lowered):
            totals = _emit_small_step(code, len(width), tag, first, second, totals)
        for (a, b), total in totals.items():
            code.store(total, place, a * len(width) + b)
        return context.get_dummy_value()

    return types.void(width, out, steps), emit


def _emit_small_step(code: Code, width: int, tag: type, first: Any, second: Any, totals: Any) -> Any:
    if tag is Scale:
        factor = code.splat(second)
        return {place: code.builder.fmul(total, factor) for place, total in totals.items()}
    if tag in (Add, AddT):
        factor, turn = code.splat(second), tag is AddT
        entries = {(a, b): code.load(first, b * width + a if turn else a * width + b) for a, b in totals}
        return {place: code.fma(entries[place], factor, total) for place, total in totals.items()}
    if tag is Outer:
        column, row = ([code.load(vector, a) for a in range(width)] for vector in (first, second))
        return {(a, b): code.fma(column[a], row[b], total) for (a, b), total in totals.items()}
    left, right = ([code.load(small, place) for place in range(width * width)] for small in (first, second))
    for c in range(width):
        totals = {
            (a, b): code.fma(
                left[c * width + a if tag is TTimes else a * width + c],
                right[b * width + c if tag is TimesT else c * width + b],
                total,
            )
            for (a, b), total in totals.items()
        }
    return totals


@intrinsic
def panel_sum(typing: Any, width: Any, out: Any, steps: Any) -> Any:
    """The panel that the steps `Times`, `TimesT`, `Outer`, `Add` and `Scale` make."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, values = _unpacked(builder, steps, arguments[2])

        def body(code: Code, given: Any) -> None:
            _emit_panel_sum(code, given, len(width), _tags(steps))

        name = _name("panel", width, steps)
        return call_emitted(context, builder, name, [out, *kinds], [arguments[1], *values], body)

    return types.void(width, out, steps), emit


def _emit_panel_sum(code: Code, given: Any, width: int, tags: list[type]) -> None:
    rows, out, *arguments = given
    columns, held = range(width), []
    for tag, first, second in _paired(tags, arguments):  # whatever all rows need is loaded once
        if tag in (Scale, Add):
            factors: Any = code.splat(second)
        elif tag is Outer:
            factors = [code.load(second, a) for a in columns]
        else:
            places = [[a * width + b if tag is TimesT else b * width + a for b in columns] for a in columns]
            factors = [[code.load(second, place) for place in line] for line in places]
        held.append((tag, first, factors))
    with cgutils.for_range(code.builder, rows) as loop:
        begin = code.builder.mul(loop.index, index_value(width))
        totals: list[Any] = [None] * width
        for tag, array, factors in held:
            if tag is Scale:
                totals = [code.builder.fmul(total, factors) for total in totals]
            elif tag is Outer:
                entry = code.load(code.at(array, loop.index))
                totals = [code.fma(entry, factors[a], totals[a]) for a in columns]
            else:
                row = code.at(array, begin)
                entries = [code.load(row, b) for b in columns]
                if tag is Add:
                    totals = [code.fma(entries[a], factors, totals[a]) for a in columns]
                else:
                    for b in columns:
                        totals = [code.fma(entries[b], factors[a][b], totals[a]) for a in columns]
        row = code.at(out, begin)
        for a in columns:
            code.store(totals[a], row, a)


def _make_inner(adds: bool) -> Any:
    """`set_inner` or `add_inner`."""

    @intrinsic
    def inner(typing: Any, width: Any, out: Any, left: Any, right: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kinds, values = ([left, right, out], [arguments[2], arguments[3], arguments[1]])
            return call_emitted(context, builder, f"inner_{len(width)}_{adds}", kinds, values, body)

        def body(code: Code, given: Any) -> None:
            rows, left, right, out = given
            size = len(width)
            places = [(a, b) for a in range(size) for b in range(size)]
            start = {(a, b): code.load(out, a * size + b) if adds else None for a, b in places}

            def add_row(row: Any, totals: Any) -> Any:
                x_row, y_row = code.at(left, row, size, 0), code.at(right, row, size, 0)
                x, y = ([code.load(line, a) for a in range(size)] for line in (x_row, y_row))
                return {(a, b): code.fma(x[a], y[b], totals[a, b]) for a, b in places}

            for (a, b), total in code.loop(rows, start, add_row).items():
                code.store(total, out, a * size + b)

        return types.void(width, out, left, right), emit

    return inner


set_inner = _make_inner(adds=False)
"""set_inner(width, out, left, right): the small matrix out = leftᵀ·right of two panels."""
add_inner = _make_inner(adds=True)
"""out += leftᵀ·right."""


@intrinsic
def matrix_times_panel(typing: Any, width: Any, out: Any, matrix: Any, panel: Any) -> Any:
    """out = matrix·panel, of a (d, d) matrix; with a width of one, panels may be (d,) lane arrays."""
    columns, most = range(len(width)), _ROWS.get(len(width), _FEW_ROWS)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, values = [out, matrix, panel], list(arguments[1:])
        return call_emitted(context, builder, f"matrix_times_{len(width)}", kinds, values, body)

    def body(code: Code, given: Any) -> None:
        size, out, left, right = given

        def tile(first: Any, rows: int) -> None:
            x_rows = [code.at(left, code.shifted(first, a), size, 0) for a in range(rows)]

            def add(k: Any, totals: Any) -> Any:
                y_row = code.at(right, k, len(width), 0)
                y = [code.load(y_row, b) for b in columns]
                x = [code.load(code.at(row, k)) for row in x_rows]
                return {(a, b): code.fma(x[a], y[b], totals[a, b]) for a, b in totals}

            place = code.at(out, first, len(width), 0)
            start = dict.fromkeys((a, b) for a in range(rows) for b in columns)
            for (a, b), total in code.loop(size, start, add).items():
                code.store(total, place, a * len(width) + b)

        for first, rows in code.tiles(size, most):
            code.switch(rows, most, lambda case, first=first: tile(first, case))  # type: ignore[misc]

    return types.void(width, out, matrix, panel), emit


# --- symmetric results ------------------------------------------------------------------------------------------------


@intrinsic
def symmetric_sum(typing: Any, width: Any, out: Any, steps: Any) -> Any:
    """The symmetric (d, d) matrix that the steps `Product`, `Both`, `Add` and `Scale` make.

    Only the lower triangle is computed; it is stored twice.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, values = _unpacked(builder, steps, arguments[2])

        def body(code: Code, given: Any) -> None:
            widths = [len(width) if isinstance(step[0], types.Array) and step[0].ndim == 3 else 1 for step in steps]
            _emit_symmetric_sum(code, given, widths, _tags(steps))

        name = _name("symmetric", width, steps)
        return call_emitted(context, builder, name, [out, *kinds], [arguments[1], *values], body)

    return types.void(width, out, steps), emit


def _emit_symmetric_sum(code: Code, given: Any, widths: list[int], tags: list[type]) -> None:
    size, out, *arguments = given
    held = [
        (tag, width, first, code.splat(second) if tag in (Scale, Add) else second)
        for width, (tag, first, second) in zip(widths, _paired(tags, arguments), strict=True)
    ]

    def tile(i: Any, rows: int, j: Any, columns: int) -> None:
        """The entries (i + a, j + b) on and below the diagonal."""
        places = [(a, b) for a in range(rows) for b in range(columns) if i is not j or b <= a]
        totals: dict[Any, Any] = dict.fromkeys(places)
        for tag, width, first, second in held:
            if tag is Scale:
                totals = {place: code.builder.fmul(total, second) for place, total in totals.items()}
            elif tag is Add:
                lines = [code.at(first, code.shifted(i, a), size, j) for a in range(rows)]
                totals = {(a, b): code.fma(code.load(lines[a], b), second, totals[a, b]) for a, b in places}
            elif tag is Product:
                totals = _emit_product(code, size, first, second, (i, rows, j, columns), totals)
            else:
                for left, right in ((first, second), (second, first)):
                    x_rows, y_rows = (code.at(left, i, width, 0), code.at(right, j, width, 0))
                    for c in range(width):
                        x = [code.load(x_rows, a * width + c) for a in range(rows)]
                        y = [code.load(y_rows, b * width + c) for b in range(columns)]
                        totals = {(a, b): code.fma(x[a], y[b], totals[a, b]) for a, b in places}
        below = [code.at(out, code.shifted(i, a), size, j) for a in range(rows)]
        above = [code.at(out, code.shifted(j, b), size, i) for b in range(columns)]
        for (a, b), total in totals.items():
            code.store(total, below[a], b)
            if i is not j or a != b:
                code.store(total, above[b], a)

    for i, rows in code.tiles(size, _TILE):
        with cgutils.for_range_slice(code.builder, index_value(0), i, index_value(_TILE), I64) as (j, _):
            code.switch(rows, _TILE, lambda case, i=i, j=j: tile(i, case, j, _TILE))  # type: ignore[misc]
        code.switch(rows, _TILE, lambda case, i=i: tile(i, case, i, case))  # type: ignore[misc]


def _emit_product(code: Code, size: Any, left: Any, right: Any, place: Any, totals: Any) -> Any:
    """totals[a, b] + Σ_k left[i + a, k]·right[k, j + b]."""
    i, rows, j, columns = place
    x_rows = [code.at(left, code.shifted(i, a), size, 0) for a in range(rows)]

    def add(k: Any, values: Any) -> Any:
        y_row = code.at(right, k, size, j)
        y = [code.load(y_row, b) for b in range(columns)]
        x = [code.load(code.at(row, k)) for row in x_rows]
        return {(a, b): code.fma(x[a], y[b], values[a, b]) for a, b in values}

    return code.loop(size, totals, add)
