"""Emits LLVM code for functions on lane arrays: loads, stores, multiply-adds, loops and tiles of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from ridgeformer.kernels.vectors import VECTOR_BYTES, lanes_of, llvm_function, splat_value, vector_pointer

I64 = ir.IntType(64)


class Code:
    """Emits vector arithmetic."""

    def __init__(self, builder: ir.IRBuilder, vector: ir.VectorType) -> None:
        self.builder = builder
        self.vector = vector
        self.zero = ir.Constant(vector, [0.0] * vector.count)

    def at(self, pointer: Any, *indices: Any) -> Any:
        """The address of entry number index, or row·columns + column.

        What is the same for a whole tile is to be an address of its own, so that the rest are constant offsets.
        """
        index = index_value(indices[0])
        if len(indices) > 1:
            row, columns, column = indices
            index = self.builder.add(self.builder.mul(index_value(row), index_value(columns)), index_value(column))
        return self.builder.gep(pointer, [index])

    def load(self, pointer: Any, offset: int = 0) -> Any:
        """What stands at an address, some entries on: a vector, or a shared number in every lane."""
        value = self.builder.load(self.at(pointer, offset))
        if value.type != self.vector:
            return self.splat(value)
        value.align = VECTOR_BYTES
        return value

    def store(self, value: Any, pointer: Any, offset: int = 0) -> None:
        """The reverse of `load`."""
        self.builder.store(value, self.at(pointer, offset)).align = VECTOR_BYTES

    def splat(self, number: Any) -> Any:
        """The number in every lane."""
        return splat_value(self.builder, number, self.vector)

    def fma(self, first: Any, second: Any, third: Any) -> Any:
        """first·second + third; a third that is None is zero."""
        if third is None:
            return self.builder.fmul(first, second)
        return self.builder.call(llvm_function(self.builder, "fma", self.vector, 3), [first, second, third])

    def shifted(self, start: Any, offset: int) -> Any:
        """start + offset."""
        return self.builder.add(start, index_value(offset)) if offset else start

    def loop(self, count: Any, start: dict[Any, Any], body: Callable[[Any, dict[Any, Any]], dict[Any, Any]]) -> Any:
        """Carry values through ``count`` ≥ 1 rounds of ``body(k, values)``; values that are None start at zero."""
        builder = self.builder
        before, inside, after = (builder.block, builder.append_basic_block("k"), builder.append_basic_block("k.end"))
        builder.branch(inside)
        builder.position_at_end(inside)
        k = builder.phi(I64)
        k.add_incoming(index_value(0), before)
        values = {}
        for key, value in start.items():
            values[key] = builder.phi(self.vector)
            values[key].add_incoming(self.zero if value is None else value, before)
        updated = body(k, values)
        following = builder.add(k, index_value(1))
        k.add_incoming(following, builder.block)
        for key, phi in values.items():
            phi.add_incoming(updated[key], builder.block)
        builder.cbranch(builder.icmp_signed("<", following, count), inside, after)
        builder.position_at_end(after)
        return updated

    def tiles(self, size: Any, step: int) -> Iterator[tuple[Any, Any]]:
        """Once, inside the loop over tiles of rows: (first row, number of rows)."""
        with cgutils.for_range_slice(self.builder, index_value(0), size, index_value(step), I64) as (first, _):
            rest = self.builder.sub(size, first)
            short = self.builder.icmp_signed("<", rest, index_value(step))
            yield first, self.builder.select(short, rest, index_value(step))

    def switch(self, value: Any, most: int, body: Callable[[int], None]) -> None:
        """Run ``body(value)``, for a value of 1 … most."""
        done = self.builder.append_basic_block("case.end")
        branches = self.builder.switch(value, done)
        for case in range(1, most + 1):
            block = self.builder.append_basic_block(f"case.{case}")
            branches.add_case(index_value(case), block)
            self.builder.position_at_end(block)
            body(case)
            self.builder.branch(done)
        self.builder.position_at_end(done)


def index_value(value: Any) -> Any:
    """A whole number, or what already is a value, as a 64-bit value."""
    return ir.Constant(I64, value) if isinstance(value, int) else value


def lowered_argument(context: Any, builder: Any, out: Any, kind: Any, value: Any) -> tuple[str, Any]:
    """A mark of what it is, and an address or a number of the type of ``out``."""
    if not isinstance(kind, types.Array):
        return "n", context.cast(builder, value, kind, out.dtype)
    if kind.ndim == 1:
        return "s", context.make_array(kind)(context, builder, value).data
    return str(kind.ndim), vector_pointer(context, builder, kind, value)


def call_emitted(
    context: Any, builder: Any, name: str, kinds: Any, values: Any, emit: Callable[[Code, Any], None]
) -> Any:
    """Call a function of (rows of the first array, one argument for each array or number), emitted on first use.

    It is never inlined: the code stays small and compiles once for each combination of types.
    """
    out = kinds[0]
    rows = builder.extract_value(context.make_array(out)(context, builder, values[0]).shape, 0)
    lowered = [lowered_argument(context, builder, out, kind, value) for kind, value in zip(kinds, values, strict=True)]
    arguments = [rows, *(argument for _, argument in lowered)]
    name = f"ridgeformer_{name}_{out.dtype}_{''.join(mark for mark, _ in lowered)}"
    function = builder.module.globals.get(name)
    if function is None:
        function_type = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
        function = ir.Function(builder.module, function_type, name)
        function.linkage = "linkonce_odr"
        function.attributes.add("noinline")
        code = Code(ir.IRBuilder(function.append_basic_block()), context.get_value_type(lanes_of(out)))
        emit(code, function.args)
        code.builder.ret_void()
    builder.call(function, arguments)
    return context.get_dummy_value()
