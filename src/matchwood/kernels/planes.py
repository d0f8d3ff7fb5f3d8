"""Bit planes: the machine operations of bit-sliced filters, as LLVM IR.

    and_planes           64 bytes of several planes, anded in one vector register
    and_flipped_planes   the same, some of the planes complemented
    and_ranges           64 positions of several planes, anded with "is plane j within the position's range?"
    in_ranges            64 such ranges around one number, as a mask
    count_ones           how many bits of a word are set
    count_at_most        how many of 32 ascending numbers are at or below a key

They read memory without bounds checks; see what their callers must guarantee.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_I8, _I32, _I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
_LINE = ir.VectorType(_I64, 8)
_BYTES = ir.VectorType(_I8, 64)


@intrinsic
def and_planes(typing_context, bits, valid, base, stride, planes, count, ahead, ahead_stride, out):
    """out[0:8] = bits[valid : valid + 8] & the 8 words at base + planes[i] * stride of every i < count; True if any bit is left.

    `bits` and `out` are uint64, `planes` int64. On the way the same planes of the region at `ahead` are prefetched. The
    caller guarantees 8 readable words at each place. A loop in Python keeps the eight words in memory between
    planes: 8 us an event at 230 lines of 20 planes.
    """

    def generate(context, builder, signature, arguments):
        bits_, valid_, base_, stride_, planes_, count_, ahead_, ahead_stride_, out_ = arguments
        data = context.make_array(signature.args[0])(context, builder, bits_).data
        numbers = context.make_array(signature.args[4])(context, builder, planes_).data
        target = context.make_array(signature.args[8])(context, builder, out_).data
        held = cgutils.alloca_once_value(builder, _line(builder, data, valid_))
        with cgutils.for_range(builder, count_) as loop:
            plane = builder.load(builder.gep(numbers, [loop.index]))
            at = builder.add(base_, builder.mul(plane, stride_))
            builder.store(builder.and_(builder.load(held), _line(builder, data, at)), held)
            soon = builder.add(ahead_, builder.mul(plane, ahead_stride_))
            _prefetch(builder, builder.gep(data, [soon]))
        result = builder.load(held)
        builder.store(result, builder.bitcast(target, ir.PointerType(_LINE)), align=8)
        whole = builder.bitcast(result, ir.IntType(512))
        return builder.icmp_unsigned("!=", whole, ir.Constant(ir.IntType(512), 0))

    i = types.int64
    return types.boolean(bits, i, i, i, planes, i, i, i, out), generate


@intrinsic
def and_flipped_planes(typing_context, bits, base, stride, planes, flips, count, ahead, ahead_stride, out):
    """out[0:8] = the 8 words at base + planes[i] * stride of every i < count, anded; True if any bit is left.

    Plane i is complemented where flips[i] is -1 and not where it is 0.

    Types, prefetching and what the caller guarantees: as `and_planes`.
    """

    def generate(context, builder, signature, arguments):
        bits_, base_, stride_, planes_, flips_, count_, ahead_, ahead_stride_, out_ = arguments
        data = context.make_array(signature.args[0])(context, builder, bits_).data
        numbers = context.make_array(signature.args[3])(context, builder, planes_).data
        masks = context.make_array(signature.args[4])(context, builder, flips_).data
        target = context.make_array(signature.args[8])(context, builder, out_).data
        held = cgutils.alloca_once_value(builder, ir.Constant(_LINE, [-1] * 8))
        undefined = ir.Constant(_LINE, ir.Undefined)
        with cgutils.for_range(builder, count_) as loop:
            plane = builder.load(builder.gep(numbers, [loop.index]))
            flip = builder.load(builder.gep(masks, [loop.index]))
            first = builder.insert_element(undefined, flip, ir.Constant(_I32, 0))
            flipped = builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_I32, 8), [0] * 8))
            line = _line(builder, data, builder.add(base_, builder.mul(plane, stride_)))
            builder.store(builder.and_(builder.load(held), builder.xor(line, flipped)), held)
            _prefetch(builder, builder.gep(data, [builder.add(ahead_, builder.mul(plane, ahead_stride_))]))
        result = builder.load(held)
        builder.store(result, builder.bitcast(target, ir.PointerType(_LINE)), align=8)
        whole = builder.bitcast(result, ir.IntType(512))
        return builder.icmp_unsigned("!=", whole, ir.Constant(ir.IntType(512), 0))

    i = types.int64
    return types.boolean(bits, i, i, planes, flips, i, i, i, out), generate


@intrinsic
def and_ranges(typing_context, bits, at, stride, count, low, high, first):
    """bits[at + j * stride] &= in_ranges(low, high, first, j) for every j < count, at most 128.

    The caller guarantees that the words are there, and 64 elements of both int8 arrays from `first` on. Two vector compares a
    word, the ranges in registers.
    """

    def generate(context, builder, signature, arguments):
        bits_, at_, stride_, count_, low_, high_, first_ = arguments
        data = context.make_array(signature.args[0])(context, builder, bits_).data
        ranges = _ranges(context, builder, signature.args[4:6], (low_, high_), first_)
        with cgutils.for_range(builder, count_) as loop:
            place = builder.gep(data, [builder.add(at_, builder.mul(loop.index, stride_))])
            mask = _around(builder, *ranges, builder.trunc(loop.index, _I8))
            builder.store(builder.and_(builder.load(place), mask), place)
        return context.get_dummy_value()

    i = types.int64
    return types.void(bits, i, i, i, low, high, i), generate


@intrinsic
def in_ranges(typing_context, low, high, first, number):
    """Bit p: low[first + p] <= number <= high[first + p], for p in 0..63, all int8.

    The caller guarantees that there are so many.
    """

    def generate(context, builder, signature, arguments):
        low_, high_, first_, number_ = arguments
        ranges = _ranges(context, builder, signature.args[:2], (low_, high_), first_)
        return _around(builder, *ranges, number_)

    return types.uint64(low, high, types.int64, types.int8), generate


@intrinsic
def count_ones(typing_context, word):
    """How many bits a uint64 has set. One instruction."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@intrinsic
def count_at_most(typing_context, numbers, first, key):
    """How many of numbers[first : first + 32] (float64) are at or below the key; NaN is not.

    The caller guarantees that there are so many. Four vector compares, 3 ns; a loop over a slice took 7 ns, and one
    of 32 steps was not vectorised.
    """

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        vector = ir.VectorType(ir.DoubleType(), 32)
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.PointerType(vector))
        undefined = ir.Constant(vector, ir.Undefined)
        key = builder.insert_element(undefined, arguments[2], ir.Constant(_I32, 0))
        keys = builder.shuffle_vector(key, undefined, ir.Constant(ir.VectorType(_I32, 32), [0] * 32))
        below = builder.fcmp_ordered("<=", builder.load(pointer, align=8), keys)
        return builder.zext(builder.ctpop(builder.bitcast(below, _I32)), _I64)

    return types.int64(numbers, types.int64, types.float64), generate


def _ranges(context, builder, kinds, arrays, first):
    """64 elements of both int8 arrays."""
    pointers = (
        context.make_array(kind)(context, builder, array).data for kind, array in zip(kinds, arrays, strict=True)
    )
    return [builder.load(builder.bitcast(builder.gep(p, [first]), ir.PointerType(_BYTES)), align=1) for p in pointers]


def _around(builder, low, high, number):
    """A bit for each of 64 ranges: is the number in it?"""
    undefined = ir.Constant(_BYTES, ir.Undefined)
    one = builder.insert_element(undefined, number, ir.Constant(_I32, 0))
    every = builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, 64), [0] * 64))
    both = builder.and_(builder.icmp_signed("<=", low, every), builder.icmp_signed("<=", every, high))
    return builder.bitcast(both, _I64)


def _line(builder, data, at):
    return builder.load(builder.bitcast(builder.gep(data, [at]), ir.PointerType(_LINE)), align=8)


def _prefetch(builder, pointer):
    kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(_I8), _I32, _I32, _I32])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(function, [builder.bitcast(pointer, ir.PointerType(_I8)), *(ir.Constant(_I32, n) for n in (0, 3, 1))])
