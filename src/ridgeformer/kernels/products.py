"""Matrix products of lane arrays: out = A·B for LANES contexts at once.

A product is computed in register tiles of a few rows by a few columns: every step of the k loop loads one column piece
of A and one row piece of B and feeds all the tile's accumulators, so loads stay below multiplications and the multiply
units stay busy. Sizes are run-time values; the ragged last row and column of tiles get their own, smaller, code.

Either factor may be *shared*: a plain (p, p) array, the same for every lane, whose entries are broadcast as they are
loaded. Otherwise it is a lane array (p, p, LANES).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ridgeformer.kernels.vectors import (
    VECTOR_BYTES,
    WIDE,
    lanes_of,
    llvm_function,
    splat_value,
    vector_pointer,
)

# Accumulators plus one row and one column of operands must fit the vector registers: 32 with AVX-512, 16 otherwise.
TILE_ROWS, TILE_COLUMNS = (4, 4) if WIDE else (2, 4)

_I64 = ir.IntType(64)


def _i64(value: int) -> ir.Constant:
    return ir.Constant(_I64, value)


class _Operand:
    """Emits loads and stores of one matrix; knows whether it is shared and whether it is read transposed."""

    def __init__(self, builder: Any, pointer: Any, vector: Any, size: Any, transposed: bool) -> None:
        self.builder = builder
        self.pointer = pointer
        self.vector = vector
        self.size = size
        self.transposed = transposed

    def _place(self, row: Any, column: Any) -> Any:
        if self.transposed:
            row, column = column, row
        return self.builder.gep(self.pointer, [self.builder.add(self.builder.mul(row, self.size), column)])

    def load(self, row: Any, column: Any) -> Any:
        value = self.builder.load(self._place(row, column))
        if value.type != self.vector:  # a shared matrix: broadcast the scalar
            return splat_value(self.builder, value, self.vector)
        value.align = VECTOR_BYTES
        return value

    def store(self, row: Any, column: Any, value: Any) -> None:
        self.builder.store(value, self._place(row, column)).align = VECTOR_BYTES


def _emit_tile(
    builder: Any, out: _Operand, left: _Operand, right: _Operand, start_at: Any, terms: Any, place: Any, shape: Any
) -> None:
    """out[i, j] = start_at(i, j) + Σ_k left[i, k]·right[k, j] over k < terms, for the entries of one tile."""
    (i0, j0), (rows, columns) = place, shape
    row_index = [builder.add(i0, _i64(a)) for a in range(rows)]
    column_index = [builder.add(j0, _i64(b)) for b in range(columns)]
    entries = [(a, b) for a in range(rows) for b in range(columns)]
    start = {(a, b): start_at(row_index[a], column_index[b]) for a, b in entries}

    before, loop, after = builder.block, builder.append_basic_block("k"), builder.append_basic_block("k.end")
    builder.branch(loop)
    builder.position_at_end(loop)
    k = builder.phi(_I64)
    k.add_incoming(_i64(0), before)
    totals = {}
    for ab in entries:
        totals[ab] = builder.phi(out.vector)
        totals[ab].add_incoming(start[ab], before)
    a_column = [left.load(i, k) for i in row_index]
    b_row = [right.load(k, j) for j in column_index]
    fma = llvm_function(builder, "fma", out.vector, 3)
    updated = {(a, b): builder.call(fma, [a_column[a], b_row[b], totals[a, b]]) for a, b in entries}
    next_k = builder.add(k, _i64(1))
    k.add_incoming(next_k, loop)
    for ab in entries:
        totals[ab].add_incoming(updated[ab], loop)
    builder.cbranch(builder.icmp_signed("<", next_k, terms), loop, after)
    builder.position_at_end(after)
    for a, b in entries:
        out.store(row_index[a], column_index[b], updated[a, b])


def _emit_tiles(builder: Any, size: Any, lower_only: bool, emit_tile: Callable[[Any, Any], None]) -> None:
    """Call ``emit_tile((i0, j0), (rows, columns))`` for every tile, the ragged ones by a switch on their shape."""

    def extent(start: Any, full: int) -> Any:
        rest = builder.sub(size, start)
        return builder.select(builder.icmp_signed("<", rest, _i64(full)), rest, _i64(full))

    with cgutils.for_range_slice(builder, _i64(0), size, _i64(TILE_ROWS), _I64) as (i0, _):
        rows = extent(i0, TILE_ROWS)
        # The tiles that hold an entry on or below the diagonal are those starting at a column below i0 + rows.
        stop = builder.add(i0, rows) if lower_only else size
        with cgutils.for_range_slice(builder, _i64(0), stop, _i64(TILE_COLUMNS), _I64) as (j0, _):
            columns = extent(j0, TILE_COLUMNS)
            shape_code = builder.add(builder.mul(rows, _i64(TILE_COLUMNS + 1)), columns)
            done = builder.append_basic_block("tile.end")
            switch = builder.switch(shape_code, done)
            for tile_rows in range(1, TILE_ROWS + 1):
                for tile_columns in range(1, TILE_COLUMNS + 1):
                    block = builder.append_basic_block(f"tile.{tile_rows}x{tile_columns}")
                    switch.add_case(_i64(tile_rows * (TILE_COLUMNS + 1) + tile_columns), block)
                    builder.position_at_end(block)
                    emit_tile((i0, j0), (tile_rows, tile_columns))
                    builder.branch(done)
            builder.position_at_end(done)


@dataclass(frozen=True)
class _Product:
    """One way of multiplying; see `make_product`."""

    start: str = "zero"
    transpose_left: bool = False
    transpose_right: bool = False
    lower_only: bool = False
    triangular: bool = False

    def emit_call(self, context: Any, builder: Any, arrays: Any, arguments: Any) -> Any:
        """Emit the call for (out, left, right[, column, row]).

        One function per combination of types, called and never inlined: the code stays small and compiles once.
        """
        out = arrays[0]
        size = builder.extract_value(context.make_array(out)(context, builder, arguments[0]).shape, 0)
        shared = [array.ndim == 2 and number < 3 for number, array in enumerate(arrays)]
        pointers = [
            context.make_array(array)(context, builder, value).data
            if is_shared
            else vector_pointer(context, builder, array, value)
            for array, value, is_shared in zip(arrays, arguments, shared, strict=True)
        ]
        flags = "_".join(str(flag) for flag in (*astuple(self), *shared[1:3]))
        name = f"ridgeformer_product_{out.dtype}_{flags}"
        function = builder.module.globals.get(name)
        if function is None:
            function_type = ir.FunctionType(ir.VoidType(), [_I64, *(pointer.type for pointer in pointers)])
            function = ir.Function(builder.module, function_type, name)
            function.linkage = "linkonce_odr"
            function.attributes.add("noinline")
            self._emit_body(function, context.get_value_type(lanes_of(out)))
        builder.call(function, [size, *pointers])
        return context.get_dummy_value()

    def _emit_body(self, function: ir.Function, vector: ir.VectorType) -> None:
        builder = ir.IRBuilder(function.append_basic_block())
        size, out_pointer, left_pointer, right_pointer, *outer = function.args
        out = _Operand(builder, out_pointer, vector, size, False)
        left = _Operand(builder, left_pointer, vector, size, self.transpose_left)
        right = _Operand(builder, right_pointer, vector, size, self.transpose_right)

        def start_at(i: Any, j: Any) -> Any:
            if self.start == "out":
                return out.load(i, j)
            if self.start == "outer":
                factors = [builder.load(builder.gep(p, [k])) for p, k in zip(outer, (i, j), strict=True)]
                for factor in factors:
                    factor.align = VECTOR_BYTES
                return builder.fmul(*factors)
            return ir.Constant(vector, [0.0] * vector.count)

        def emit_tile(place: Any, shape: Any) -> None:
            terms = builder.add(place[1], _i64(shape[1])) if self.triangular else size
            _emit_tile(builder, out, left, right, start_at, terms, place, shape)

        _emit_tiles(builder, size, self.lower_only, emit_tile)
        builder.ret_void()


def make_product(
    *,
    transpose_left: bool = False,
    transpose_right: bool = False,
    add: bool = False,
    lower_only: bool = False,
    triangular: bool = False,
) -> Any:
    """An intrinsic ``product(out, left, right)``: out = op(left)·op(right), or out += … with ``add``.

    ``lower_only`` computes the tiles that touch the lower triangle and leaves the others as they were: for results
    known to be symmetric. ``triangular`` says that op(right)[k, j] is zero for k > j, and stops each sum in time.
    ``out`` must not overlap a factor.
    """
    kind = _Product("out" if add else "zero", transpose_left, transpose_right, lower_only, triangular)

    @intrinsic
    def product(typing: Any, out: Any, left: Any, right: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return kind.emit_call(context, builder, signature.args, arguments)

        return types.void(out, left, right), emit

    return product


_from_outer = _Product("outer")


@intrinsic
def multiply_add_outer(typing: Any, out: Any, left: Any, right: Any, column: Any, row: Any) -> Any:
    """out = left·right + column·rowᵀ."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _from_outer.emit_call(context, builder, signature.args, arguments)

    return types.void(out, left, right, column, row), emit
