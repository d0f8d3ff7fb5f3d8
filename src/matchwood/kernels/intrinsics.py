"""The few machine operations that Python cannot say, as LLVM IR; LLVM lowers them for whatever CPU runs.

They read memory without bounds checks, so each says what its caller must guarantee. Keep them few, and covered by tests.

    trailing_zeros   position of the lowest set bit
    prefetch         ask for a cache line before it is needed
    boxes_hit        16 boxes against an event's keys, as a mask (two gathers, two compares)
    box_holds        one interval of the row store against an event's value, both ends at once
    compare_spread   24 intervals against the upper halves of an event's values, side by side
    turn_word        xor into a word that several threads write
    mark_word        or into a word of a record that several threads write
    claim            take a free cell that another thread may want
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_I1, _I2, _I8, _I16, _I32, _I64, _F32, _F64 = (
    ir.IntType(1),
    ir.IntType(2),
    ir.IntType(8),
    ir.IntType(16),
    ir.IntType(32),
    ir.IntType(64),
    ir.FloatType(),
    ir.DoubleType(),
)
_LANES, _EIGHT, _PLACES = 16, 8, 24
OUTSIDE = np.uint64(1 << 63)  # what `compare_spread` says


@intrinsic
def trailing_zeros(typing_context, word):
    """How many zero bits a uint64 has below its lowest one; 64 for zero. One instruction."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(_I1, 0))

    return types.uint64(types.uint64), generate


@intrinsic
def prefetch(typing_context, array, index):
    """Ask for the cache line of array[index] (one-dimensional). Any index is safe: a prefetch never faults."""

    def generate(context, builder, signature, arguments):
        pointer = _element(context, builder, signature.args[0], arguments[0], arguments[1])
        module = builder.module
        function = cgutils.get_or_insert_function(
            module, ir.FunctionType(ir.VoidType(), [ir.PointerType(_I8), _I32, _I32, _I32]), "llvm.prefetch.p0"
        )
        arguments_ = [builder.bitcast(pointer, ir.PointerType(_I8)), *(ir.Constant(_I32, n) for n in (0, 3, 1))]
        builder.call(function, arguments_)
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def boxes_hit(typing_context, dims, lo, hi, at, key_lo, key_hi):
    """Bit j: lo[at + j] <= key_hi[d] and key_lo[d] <= hi[at + j], with d = dims[at + j], for j in 0..15.

    The caller guarantees that the three columns have 16 elements from `at` on and that both key tables are as long as
    the largest dimension plus one. NaN keys never hit.
    """

    def generate(context, builder, signature, arguments):
        columns = [
            _vector(context, builder, signature.args[i], arguments[i], arguments[3], element, size, _LANES)
            for i, (element, size) in enumerate(((_I16, 2), (_F32, 4), (_F32, 4)))
        ]
        places = builder.zext(columns[0], ir.VectorType(_I64, _LANES))
        keys = [_gathered(context, builder, signature.args[i], arguments[i], places, _LANES, _F32, 4) for i in (4, 5)]
        begins = builder.fcmp_ordered("<=", columns[1], keys[1])
        ends = builder.fcmp_ordered("<=", keys[0], columns[2])
        both = builder.and_(begins, ends)
        return builder.zext(builder.bitcast(both, _I16), _I64)

    return types.uint64(dims, lo, hi, types.int64, key_lo, key_hi), generate


@intrinsic
def box_holds(typing_context, entries, at, keys, dim):
    """3 if entries[at].lo <= keys[dim].hi and -entries[at].hi <= keys[dim].below, else less: a bit for each.

    Both records begin with two float64: (lo, hi) and (hi, -lo). The caller guarantees that both are there. NaN never holds.
    """

    def generate(context, builder, signature, arguments):
        pair, bits = ir.VectorType(_F64, 2), ir.VectorType(_I64, 2)
        box, key = (
            builder.load(
                builder.bitcast(
                    _element(context, builder, signature.args[i], arguments[i], arguments[i + 1]), ir.PointerType(pair)
                ),
                align=8,
            )
            for i in (0, 2)
        )
        negated = builder.xor(builder.bitcast(box, bits), ir.Constant(bits, [0, -(1 << 63)]))
        both = builder.fcmp_ordered("<=", builder.bitcast(negated, pair), key)
        return builder.zext(builder.bitcast(both, _I2), _I64)

    return types.uint64(entries, types.int64, keys, types.int64), generate


@intrinsic
def compare_spread(typing_context, halves, first, bounds, at):
    """How halves[first + j] lies to the interval that begins at bounds[at + j] and is bounds[at + 24 + j] long, for j in 0..23.

    OUTSIDE if one lies outside of its own; else bit j where it is the beginning, bit 24 + j where it is the end. All are
    uint32; the caller guarantees 24 of halves and 48 of bounds. Seventy instructions without a branch; values picked by a gather
    took three times as long where the processor has none that is fast.
    """

    def generate(context, builder, signature, arguments):
        _, first, _, at = arguments
        within, told = [], ir.Constant(_I64, 0)
        for lane in range(0, _PLACES, _EIGHT):
            value, begin, length = (
                _vector(context, builder, signature.args[i], arguments[i], builder.add(place, offset), _I32, 4, _EIGHT)
                for i, place, offset in (
                    (0, first, ir.Constant(_I64, lane)),
                    (2, at, ir.Constant(_I64, lane)),
                    (2, at, ir.Constant(_I64, _PLACES + lane)),
                )
            )
            beyond = builder.sub(value, begin)
            within.append(builder.icmp_unsigned("<=", beyond, length))
            for end, shift in ((ir.Constant(beyond.type, [0] * _EIGHT), lane), (length, _PLACES + lane)):
                equal = builder.bitcast(builder.icmp_unsigned("==", beyond, end), _I8)
                told = builder.or_(told, builder.shl(builder.zext(equal, _I64), ir.Constant(_I64, shift)))
        every = builder.bitcast(builder.and_(builder.and_(within[0], within[1]), within[2]), _I8)
        inside = builder.icmp_unsigned("==", every, ir.Constant(_I8, 255))
        return builder.select(inside, told, ir.Constant(_I64, -(1 << 63)))

    i = types.int64
    return types.uint64(halves, i, bounds, i), generate


@intrinsic
def turn_word(typing_context, words, at, bits):
    """words[at] ^= bits (uint64), whole though other threads do the same. The caller guarantees the place."""

    def generate(context, builder, signature, arguments):
        pointer = _element(context, builder, signature.args[0], arguments[0], arguments[1])
        builder.atomic_rmw("xor", pointer, arguments[2], "monotonic")
        return context.get_dummy_value()

    return types.void(words, types.int64, types.uint64), generate


@intrinsic
def mark_word(typing_context, records, at, word, bits):
    """The word-th eight bytes of records[at] |= bits, whole though other threads do the same. The caller guarantees the place."""

    def generate(context, builder, signature, arguments):
        record = _element(context, builder, signature.args[0], arguments[0], arguments[1])
        pointer = builder.gep(builder.bitcast(record, ir.PointerType(_I64)), [arguments[2]])
        builder.atomic_rmw("or", pointer, arguments[3], "monotonic")
        return context.get_dummy_value()

    return types.void(records, types.int64, types.int64, types.uint64), generate


@intrinsic
def claim(typing_context, cells, at, free, mine):
    """cells[at] = mine if it is `free`, all uint32, and was it? Of several threads one gets it. The caller guarantees the place.

    Whoever sees the cell taken sees all that was written before.
    """

    def generate(context, builder, signature, arguments):
        pointer = _element(context, builder, signature.args[0], arguments[0], arguments[1])
        return builder.extract_value(builder.cmpxchg(pointer, arguments[2], arguments[3], "acq_rel", "acquire"), 1)

    return types.boolean(cells, types.int64, types.uint32, types.uint32), generate


def _element(context, builder, array_type, array, index):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def _vector(context, builder, array_type, array, at, element, size, lanes):
    """So many elements of `size` bytes from array[at] on, loaded wherever they lie."""
    pointer = _element(context, builder, array_type, array, at)
    return builder.load(builder.bitcast(pointer, ir.PointerType(ir.VectorType(element, lanes))), align=size)


def _splat(builder, word, lanes):
    """So many times the word."""
    undefined = ir.Constant(ir.VectorType(_I64, lanes), ir.Undefined)
    one = builder.insert_element(undefined, word, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes))


def _gathered(context, builder, array_type, array, places, lanes, element, size):
    """array[places], so many elements of `size` bytes at once; places are int64."""
    data = builder.ptrtoint(context.make_array(array_type)(context, builder, array).data, _I64)
    bytes_ = builder.mul(places, ir.Constant(places.type, [size] * lanes))
    # Addresses are computed as integers: llvmlite knows no `gep` with a vector of indices.
    addresses = builder.add(_splat(builder, data, lanes), bytes_)
    pointers = builder.inttoptr(addresses, ir.VectorType(ir.PointerType(element), lanes))
    vector, mask = ir.VectorType(element, lanes), ir.VectorType(_I1, lanes)
    name = f"llvm.masked.gather.v{lanes}{element.intrinsic_name}.v{lanes}p0"
    function_type = ir.FunctionType(vector, [pointers.type, _I32, mask, vector])
    function = cgutils.get_or_insert_function(builder.module, function_type, name)
    every = ir.Constant(mask, [1] * lanes)
    return builder.call(function, [pointers, ir.Constant(_I32, size), every, ir.Constant(vector, ir.Undefined)])
