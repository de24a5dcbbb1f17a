"""A SIMD value for numba: one number per *lane*, a lane being one context.

Kernels work on LANES contexts at a time, in arrays whose last axis is the lane, and are written as if for one context:
``load`` brings one matrix entry of all lanes into a register, arithmetic acts on all lanes at once, ``store`` writes it
back. The vectors are LLVM vector values, so nothing is left to the auto-vectoriser, and the generated code is the same
whatever the matrix size. A block of LANES contexts fills exactly one vector register of the widest kind the CPU has.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

_FEATURES = llvm.get_host_cpu_features()
WIDE = bool(_FEATURES.get("avx512f", False))
"""True where the CPU has 32 registers of 64 bytes; otherwise 32-byte vectors are used."""
VECTOR_BYTES = 64 if WIDE else 32

_I32 = ir.IntType(32)


def lane_count(itemsize: int) -> int:
    """How many contexts of this item size one vector holds."""
    return VECTOR_BYTES // itemsize


class Lanes(types.Type):
    """Numba type of a vector: ``element`` is the scalar type, ``count`` the number of lanes."""

    def __init__(self, element: types.Type, count: int) -> None:
        self.element = element
        self.count = count
        super().__init__(name=f"Lanes({element} x {count})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        element = ir.IntType(1) if lanes.element == types.boolean else manager[lanes.element].get_value_type()
        super().__init__(manager, lanes, ir.VectorType(element, lanes.count))


def lanes_of(array: types.Array) -> Lanes:
    """The vector type that holds one entry of a lane array."""
    return Lanes(array.dtype, lane_count(array.dtype.bitwidth // 8))


def _words(like: Lanes) -> Lanes:
    return Lanes(types.uint32, like.count)


def _is_float(value: types.Type) -> bool:
    return isinstance(value, Lanes) and isinstance(value.element, types.Float)


def splat_value(builder: ir.IRBuilder, scalar: ir.Value, vector: ir.VectorType) -> ir.Value:
    """Emit the broadcast of a scalar to every lane."""
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(_I32, 0))
    mask = ir.Constant(ir.VectorType(_I32, vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, undefined, mask)


def llvm_function(builder: ir.IRBuilder, name: str, vector: ir.VectorType, arity: int) -> ir.Function:
    """Declare the LLVM vector intrinsic ``llvm.<name>``."""
    width = 32 if isinstance(vector.element, ir.FloatType) else 64
    signature = ir.FunctionType(vector, [vector] * arity)
    return cgutils.get_or_insert_function(builder.module, signature, f"llvm.{name}.v{vector.count}f{width}")


def vector_pointer(context: Any, builder: ir.IRBuilder, array: types.Array, value: ir.Value) -> ir.Value:
    """Emit the address of a C-contiguous lane array, as a pointer to its first vector."""
    data = context.make_array(array)(context, builder, value).data
    return builder.bitcast(data, context.get_value_type(lanes_of(array)).as_pointer())


# --- memory -----------------------------------------------------------------------------------------------------------


@intrinsic
def load_flat(typing: Any, array: Any, index: Any) -> Any:
    """Entry number ``index`` (counted over all axes but the lane axis) of a lane array."""
    signature = lanes_of(array)(array, types.intp)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = builder.load(builder.gep(vector_pointer(context, builder, array, arguments[0]), [arguments[1]]))
        value.align = VECTOR_BYTES
        return value

    return signature, emit


@intrinsic
def store_flat(typing: Any, array: Any, index: Any, vector: Any) -> Any:
    """Write one vector into a lane array."""
    signature = types.void(array, types.intp, lanes_of(array))

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.gep(vector_pointer(context, builder, array, arguments[0]), [arguments[1]])
        builder.store(arguments[2], place).align = VECTOR_BYTES
        return context.get_dummy_value()

    return signature, emit


def _entry(context: Any, builder: ir.IRBuilder, array: types.Array, arguments: Any) -> ir.Value:
    """Emit the address of entry (i, j) of a lane matrix; ``arguments`` starts with the array, i and j."""
    columns = builder.extract_value(context.make_array(array)(context, builder, arguments[0]).shape, 1)
    index = builder.add(builder.mul(arguments[1], columns), arguments[2])
    return builder.gep(vector_pointer(context, builder, array, arguments[0]), [index])


@intrinsic
def get(typing: Any, matrix: Any, i: Any, j: Any) -> Any:
    """matrix[i, j] of every lane."""
    signature = lanes_of(matrix)(matrix, types.intp, types.intp)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = builder.load(_entry(context, builder, matrix, arguments))
        value.align = VECTOR_BYTES
        return value

    return signature, emit


@intrinsic
def put(typing: Any, matrix: Any, i: Any, j: Any, vector: Any) -> Any:
    """matrix[i, j] = vector in every lane."""
    signature = types.void(matrix, types.intp, types.intp, lanes_of(matrix))

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[3], _entry(context, builder, matrix, arguments)).align = VECTOR_BYTES
        return context.get_dummy_value()

    return signature, emit


@intrinsic
def splat(typing: Any, array: Any, scalar: Any) -> Any:
    """The same number in every lane, of the type of ``array``."""
    signature = lanes_of(array)(array, array.dtype)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return splat_value(builder, arguments[1], context.get_value_type(signature.return_type))

    return signature, emit


@intrinsic
def splat_word(typing: Any, array: Any, word: Any) -> Any:
    """The same 32-bit word in every lane."""
    signature = _words(lanes_of(array))(array, types.uint32)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return splat_value(builder, arguments[1], context.get_value_type(signature.return_type))

    return signature, emit


@intrinsic
def lane_numbers(typing: Any, array: Any) -> Any:
    """0, 1, 2, … along the lanes, as 32-bit words."""
    signature = _words(lanes_of(array))(array)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = context.get_value_type(signature.return_type)
        return ir.Constant(vector, list(range(vector.count)))

    return signature, emit


@intrinsic
def lane_sum(typing: Any, vector: Any) -> Any:
    """Sum over the lanes, by halves: (0 + 4, 1 + 5, …), then (0 + 2, 1 + 3), then 0 + 1 of eight lanes."""
    signature = vector.element(vector)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total, count = arguments[0], vector.count
        while count > 1:
            count //= 2
            halves = [
                ir.Constant(ir.VectorType(_I32, count), list(range(start, start + count))) for start in (0, count)
            ]
            total = builder.fadd(*(builder.shuffle_vector(total, total, half) for half in halves))
        return builder.extract_element(total, ir.Constant(_I32, 0))

    return signature, emit


@intrinsic
def take_ticket(typing: Any, counter: Any) -> Any:
    """counter[0], which then goes up by one; no two threads get the same."""
    signature = types.int64(counter)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = context.make_array(counter)(context, builder, arguments[0]).data
        return builder.atomic_rmw("add", place, ir.Constant(ir.IntType(64), 1), "monotonic")

    return signature, emit


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _define_operator(python_operator: Any, on_floats: Any, on_words: Any) -> None:
    """Give two equal vectors an operator; ``on_floats`` and ``on_words`` are methods of the IR builder, or None."""

    @type_callable(python_operator)
    def declare(context: Any) -> Any:
        def result(first: Any, second: Any) -> Any:
            if isinstance(first, Lanes) and first == second and (on_floats if _is_float(first) else on_words):
                return first
            return None

        return result

    @lower_builtin(python_operator, Lanes, Lanes)
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return (on_floats if _is_float(signature.return_type) else on_words)(builder, *arguments)


_define_operator(operator.add, ir.IRBuilder.fadd, ir.IRBuilder.add)
_define_operator(operator.sub, ir.IRBuilder.fsub, ir.IRBuilder.sub)
_define_operator(operator.mul, ir.IRBuilder.fmul, None)
_define_operator(operator.truediv, ir.IRBuilder.fdiv, None)
_define_operator(operator.xor, None, ir.IRBuilder.xor)
_define_operator(operator.and_, None, ir.IRBuilder.and_)
_define_operator(operator.or_, None, ir.IRBuilder.or_)


@type_callable(operator.neg)
def _declare_negation(context: Any) -> Any:
    return lambda value: value if _is_float(value) else None


@lower_builtin(operator.neg, Lanes)
def _emit_negation(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    return builder.fneg(arguments[0])


@intrinsic
def less(typing: Any, first: Any, second: Any) -> Any:
    """Mask of the lanes where the first is smaller; false where either is NaN."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fcmp_ordered("<", *arguments)

    return Lanes(types.boolean, first.count)(first, second), emit


@intrinsic
def fma(typing: Any, first: Any, second: Any, third: Any) -> Any:
    """first · second + third, rounded once."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(llvm_function(builder, "fma", arguments[0].type, 3), arguments)

    return first(first, second, third), emit


@intrinsic
def sqrt(typing: Any, value: Any) -> Any:
    """Square root in every lane."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(llvm_function(builder, "sqrt", arguments[0].type, 1), arguments)

    return value(value), emit


@intrinsic
def select(typing: Any, mask: Any, chosen: Any, otherwise: Any) -> Any:
    """``chosen`` in the lanes where the mask is true, ``otherwise`` elsewhere."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.select(*arguments)

    return chosen(mask, chosen, otherwise), emit


@intrinsic
def all_lanes(typing: Any, mask: Any) -> Any:
    """True if the mask is true in every lane."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = ir.IntType(mask.count)
        packed = builder.bitcast(arguments[0], bits)
        return builder.icmp_unsigned("==", packed, ir.Constant(bits, 2**mask.count - 1))

    return types.boolean(mask), emit


# --- 32-bit words: what the random numbers are made of ----------------------------------------------------------------


@intrinsic
def multiply_words(typing: Any, first: Any, second: Any) -> Any:
    """(high, low) halves of the 64-bit product of two vectors of words."""
    signature = types.UniTuple(first, 2)(first, second)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.VectorType(ir.IntType(64), first.count)
        product = builder.mul(builder.zext(arguments[0], wide), builder.zext(arguments[1], wide))
        high = builder.trunc(builder.lshr(product, ir.Constant(wide, [32] * first.count)), arguments[0].type)
        low = builder.mul(arguments[0], arguments[1])
        return context.make_tuple(builder, signature.return_type, (high, low))

    return signature, emit


@intrinsic
def word_to_unit(typing: Any, array: Any, word: Any) -> Any:
    """(word + ½) / 2³² as a number of (0, 1], of the type of ``array``; small values keep full relative precision."""
    signature = lanes_of(array)(array, word)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = context.get_value_type(signature.return_type)
        scale = ir.Constant(vector, [2.0**-32] * word.count)
        half = ir.Constant(vector, [2.0**-33] * word.count)
        return builder.call(
            llvm_function(builder, "fma", vector, 3), [builder.uitofp(arguments[1], vector), scale, half]
        )

    return signature, emit


@intrinsic
def low_bits_centred(typing: Any, array: Any, word: Any) -> Any:
    """The low 30 bits of a word as a number of (−⅛, ⅛): (bits + ½)/2³² − ⅛."""
    signature = lanes_of(array)(array, word)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = context.get_value_type(signature.return_type)
        words = arguments[1].type
        low = builder.and_(arguments[1], ir.Constant(words, [2**30 - 1] * word.count))
        signed = builder.sub(low, ir.Constant(words, [2**29] * word.count))
        scale, half = (ir.Constant(vector, [c] * word.count) for c in (2.0**-32, 2.0**-33))
        return builder.call(llvm_function(builder, "fma", vector, 3), [builder.sitofp(signed, vector), scale, half])

    return signature, emit


def bit_is_set(bit: int) -> Any:
    """An intrinsic: the mask of the lanes whose word has this bit."""

    @intrinsic
    def test(typing: Any, word: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            words = arguments[0].type
            kept = builder.and_(arguments[0], ir.Constant(words, [1 << bit] * word.count))
            return builder.icmp_unsigned("!=", kept, ir.Constant(words, [0] * word.count))

        return Lanes(types.boolean, word.count)(word), emit

    return test


@intrinsic
def split_exponent(typing: Any, value: Any) -> Any:
    """(m, e) with value = m · 2^e and √½ ≤ m < √2, for positive normal numbers; e is a float."""
    signature = types.UniTuple(value, 2)(value)
    bits, mantissa_bits, root_half = (
        (32, 23, 0x3F3504F3) if value.element == types.float32 else (64, 52, 0x3FE6A09E667F3BCD)
    )

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        floats = arguments[0].type
        words = ir.VectorType(ir.IntType(bits), value.count)

        def constant(number: int) -> ir.Constant:
            return ir.Constant(words, [number] * value.count)

        # The bit pattern of a positive float is its exponent followed by its mantissa, so subtracting the pattern of
        # √½ leaves the wanted exponent in the upper bits.
        pattern = builder.bitcast(arguments[0], words)
        exponent = builder.ashr(builder.sub(pattern, constant(root_half)), constant(mantissa_bits))
        mantissa = builder.sub(pattern, builder.shl(exponent, constant(mantissa_bits)))
        pair = (builder.bitcast(mantissa, floats), builder.sitofp(exponent, floats))
        return context.make_tuple(builder, signature.return_type, pair)

    return signature, emit


def polynomial(single: tuple[float, ...], double: tuple[float, ...]) -> Any:
    """An intrinsic that evaluates Σ c_k x^k by Horner's rule, with coefficients chosen by the element type."""

    @intrinsic
    def evaluate(typing: Any, x: Any) -> Any:
        coefficients = single if x.element == types.float32 else double

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            vector = arguments[0].type
            value = ir.Constant(vector, [coefficients[-1]] * vector.count)
            for coefficient in coefficients[-2::-1]:
                constant = ir.Constant(vector, [coefficient] * vector.count)
                value = builder.call(llvm_function(builder, "fma", vector, 3), [value, arguments[0], constant])
            return value

        return x(x), emit

    return evaluate
