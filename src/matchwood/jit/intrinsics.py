"""The few machine operations that Python cannot express, as LLVM IR; LLVM lowers them for whatever CPU runs.

They read memory without bounds checks, so each says what its caller must guarantee. Keep them few, and covered by tests.

    trailing_zeros   position of the lowest set bit
    prefetch         load a cache line before it is needed
    boxes_hit        16 boxes against an event's keys, as a mask (two gathers, two compares)
    box_holds        one interval of the row store against an event's value, both ends at once
    ..._words        16 words of bits at once: copied, united, intersected; `unite_planes` unites many
"""

from __future__ import annotations

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
_LANES = 16


@intrinsic
def trailing_zeros(typing_context, word):
    """The number of zero bits of a uint64 below its lowest one bit; 64 for zero. One instruction."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(_I1, 0))

    return types.uint64(types.uint64), generate


@intrinsic
def prefetch(typing_context, array, index):
    """Prefetch the cache line of array[index] (one-dimensional). Any index is safe: a prefetch never faults."""

    def generate(context, builder, signature, arguments):
        prefetch_pointer(builder, _element(context, builder, signature.args[0], arguments[0], arguments[1]))
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
def read_word(typing_context, records, word):
    """The float64 number `word` of the memory of an array of records. The caller guarantees that it is there."""

    def generate(context, builder, signature, arguments):
        return builder.load(_word(context, builder, signature, arguments))

    return types.float64(records, types.int64), generate


@intrinsic
def write_word(typing_context, records, word, value):
    """Write the float64 number `word` of the memory of an array of records. The caller guarantees that it is there."""

    def generate(context, builder, signature, arguments):
        builder.store(arguments[2], _word(context, builder, signature, arguments))
        return context.get_dummy_value()

    return types.void(records, types.int64, types.float64), generate


def _word(context, builder, signature, arguments):
    """A pointer to a float64 in the memory of an array."""
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return builder.gep(builder.bitcast(data, ir.PointerType(ir.DoubleType())), [arguments[1]])


@intrinsic
def copy_words(typing_context, target, at, source, begin):
    """target[at : at + 16] = source[begin : begin + 16], of uint64. The caller guarantees that both are there."""

    def generate(context, builder, signature, arguments):
        _combine_words(context, builder, signature, arguments, lambda before, words: words)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64), generate


@intrinsic
def unite_words(typing_context, target, at, source, begin):
    """target[at : at + 16] |= source[begin : begin + 16], of uint64. The caller guarantees that both are there."""

    def generate(context, builder, signature, arguments):
        _combine_words(context, builder, signature, arguments, builder.or_)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64), generate


@intrinsic
def unite_planes(typing_context, target, at, source, base, ahead, steps, begin, end):
    """target[at : at + 16] |= source[base + 16 p : base + 16 p + 16] for the first int64 p of each record of steps[begin:end].

    The caller guarantees that all are there. The union is kept in registers, so that no load waits for another. The words that
    lie `ahead` words further on are prefetched.
    """

    def generate(context, builder, signature, arguments):
        kinds, (target_, at_, source_, base_, ahead_, steps_, begin_, end_) = signature.args, arguments
        vector = ir.VectorType(_I64, _LANES)
        pointer = builder.bitcast(_element(context, builder, kinds[0], target_, at_), ir.PointerType(vector))
        united = cgutils.alloca_once_value(builder, builder.load(pointer, align=8))
        with cgutils.for_range_slice(builder, begin_, end_, ir.Constant(_I64, 1)) as (i, _):
            step = builder.bitcast(_element(context, builder, kinds[5], steps_, i), ir.PointerType(_I64))
            place = builder.add(base_, builder.mul(builder.load(step), ir.Constant(_I64, _LANES)))
            words = _vector(context, builder, kinds[2], source_, place, _I64, 8, _LANES)
            for half in (0, _LANES // 2):
                later = builder.add(place, builder.add(ahead_, ir.Constant(_I64, half)))
                prefetch_pointer(builder, _element(context, builder, kinds[2], source_, later))
            builder.store(builder.or_(builder.load(united), words), united)
        builder.store(builder.load(united), pointer, align=8)
        return context.get_dummy_value()

    place = types.int64
    return types.void(target, place, source, place, place, steps, place, place), generate


@intrinsic
def intersect_words(typing_context, target, at, source, begin):
    """target[at : at + 16] &= source[begin : begin + 16], of uint64; returns a bit for each word that is not zero then."""

    def generate(context, builder, signature, arguments):
        words = _combine_words(context, builder, signature, arguments, builder.and_)
        left = builder.icmp_unsigned("!=", words, ir.Constant(words.type, None))
        return builder.zext(builder.bitcast(left, ir.IntType(_LANES)), _I64)

    return types.uint64(target, types.int64, source, types.int64), generate


def _combine_words(context, builder, signature, arguments, combine):
    """Store the combination of 16 words of the target and of the source in the target, and return it."""
    words = [
        _vector(context, builder, signature.args[i], arguments[i], arguments[i + 1], _I64, 8, _LANES) for i in (0, 2)
    ]
    combined = combine(*words)
    pointer = _element(context, builder, signature.args[0], arguments[0], arguments[1])
    builder.store(combined, builder.bitcast(pointer, ir.PointerType(combined.type)), align=8)
    return combined


def _element(context, builder, array_type, array, index):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


def _vector(context, builder, array_type, array, at, element, size, lanes):
    """`lanes` elements of `size` bytes from array[at] on, at any alignment."""
    pointer = _element(context, builder, array_type, array, at)
    return builder.load(builder.bitcast(pointer, ir.PointerType(ir.VectorType(element, lanes))), align=size)


def prefetch_pointer(builder, pointer):
    """Generate a prefetch into the first-level cache."""
    kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(_I8), _I32, _I32, _I32])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    numbers = (ir.Constant(_I32, n) for n in (0, 3, 1))
    builder.call(function, [builder.bitcast(pointer, ir.PointerType(_I8)), *numbers])


def _splat(builder, word, lanes):
    """A vector with the word in each of its lanes."""
    undefined = ir.Constant(ir.VectorType(_I64, lanes), ir.Undefined)
    one = builder.insert_element(undefined, word, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes))


def _gathered(context, builder, array_type, array, places, lanes, element, size):
    """array[places], `lanes` elements of `size` bytes at once; places are int64."""
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
