"""Bit planes: the machine operations of bit-sliced filters, as LLVM IR.

    and_planes           64 bytes of several planes, anded in one vector register
    keep_words           those of eight words in which a bit is set, side by side
    and_pairs            the same, every second of the planes complemented
    prefetch_planes      ask for them before
    and_changes          planes of many positions, anded with what is on from one plane to another
    count_ones           how many bits of a word are set
    count_at_most        how many of 32 ascending numbers are at or below a key
    count_few_at_most    how many of four are
    count_exceeded       how many of four small numbers are below another

They read memory without bounds checks; see what their callers must guarantee.
"""

from __future__ import annotations

from functools import reduce

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from matchwood.jit.intrinsics import FIRST, ask_for

_I4, _I8, _I32, _I64 = ir.IntType(4), ir.IntType(8), ir.IntType(32), ir.IntType(64)
_LINE = ir.VectorType(_I64, 8)
_HALVES = ir.VectorType(_I32, 8)


@intrinsic
def and_planes(typing_context, bits, valid, base, shift, planes, first, count, out):
    """out[0:8] = bits[valid : valid + 8] & the 8 words at base + (planes[first + i] << shift) of every i < count.

    `bits` and `out` are uint64, `planes` int32. The caller guarantees 8 readable words at each place. A loop in Python keeps the
    eight words in memory between planes: 8 us an event at 230 lines of 20 planes.
    """

    def generate(context, builder, signature, arguments):
        _, valid, base, shift, _, first, count, _ = arguments
        data, numbers, target = (_data(context, builder, signature, arguments, i) for i in (0, 4, 7))
        held = cgutils.alloca_once_value(builder, _line(builder, data, valid))
        region, numbers = builder.gep(data, [base]), builder.gep(numbers, [first])
        with cgutils.for_range(builder, count) as loop:
            line = _line(builder, region, _plane(builder, numbers, loop.index, shift))
            builder.store(builder.and_(builder.load(held), line), held)
        builder.store(builder.load(held), builder.bitcast(target, ir.PointerType(_LINE)), align=8)
        return context.get_dummy_value()

    i = types.int64
    return types.void(bits, i, i, i, planes, i, i, out), generate


@intrinsic
def and_pairs(typing_context, bits, base, shift, planes, first, pairs, out):
    """out[0:8] = the 8 words of every second of `pairs` pairs of planes, anded, without the bits of every first.

    Pair i is planes[first + 2 * i] and the one after it. Types and what the caller guarantees: as `and_planes`.
    """

    def generate(context, builder, signature, arguments):
        _, base, shift, _, first, pairs, _ = arguments
        data, numbers, target = (_data(context, builder, signature, arguments, i) for i in (0, 3, 6))
        ruled_out = cgutils.alloca_once_value(builder, ir.Constant(_LINE, [0] * 8))
        held = cgutils.alloca_once_value(builder, ir.Constant(_LINE, [-1] * 8))
        region, numbers = builder.gep(data, [base]), builder.gep(numbers, [first])
        with cgutils.for_range(builder, pairs) as loop:
            at = builder.shl(loop.index, ir.Constant(_I64, 1))
            line = _line(builder, region, _plane(builder, numbers, at, shift))
            builder.store(builder.or_(builder.load(ruled_out), line), ruled_out)
            line = _line(builder, region, _plane(builder, numbers, builder.add(at, ir.Constant(_I64, 1)), shift))
            builder.store(builder.and_(builder.load(held), line), held)
        kept = builder.and_(builder.load(held), builder.not_(builder.load(ruled_out)))
        builder.store(kept, builder.bitcast(target, ir.PointerType(_LINE)), align=8)
        return context.get_dummy_value()

    i = types.int64
    return types.void(bits, i, i, planes, i, i, out), generate


@intrinsic
def prefetch_planes(typing_context, bits, base, shift, planes, first, count):
    """Ask for the lines at base + (planes[first + i] << shift) of every i < count. Types: as `and_planes`; any place is safe."""

    def generate(context, builder, signature, arguments):
        _, base, shift, _, first, count = arguments
        data, numbers = (_data(context, builder, signature, arguments, i) for i in (0, 3))
        region, numbers = builder.gep(data, [base]), builder.gep(numbers, [first])
        with cgutils.for_range(builder, count) as loop:
            ask_for(builder, builder.gep(region, [_plane(builder, numbers, loop.index, shift)]), FIRST)
        return context.get_dummy_value()

    i = types.int64
    return types.void(bits, i, i, planes, i, i), generate


@intrinsic
def keep_words(typing_context, line, count, tag, words, tags, n):
    """Append the words of line[0:count] that are not zero to `words` from n on, tag + 64 * w of each to `tags`; return the new n.

    All are uint64, `line` has 8 words. The caller guarantees 8 elements from n on in both. Where the processor packs no vector
    by itself four words are brought into order at a time, by a table: LLVM's own way, word by word, took 15 ns longer.
    """

    def generate(context, builder, signature, arguments):
        _, count, tag, _, _, n = arguments
        line, *kept = (_data(context, builder, signature, arguments, i) for i in (0, 3, 4))
        nothing = ir.Constant(_LINE, [0] * 8)
        inside = builder.icmp_unsigned("<", ir.Constant(_LINE, list(range(8))), _every(builder, count, 8))
        held = builder.select(inside, _line(builder, line, ir.Constant(_I64, 0)), nothing)
        places = builder.add(_every(builder, tag, 8), ir.Constant(_LINE, [64 * i for i in range(8)]))
        features = context.codegen().magic_tuple()[2]
        if "+avx2" in features and "+avx512f" not in features:
            for half in (0, 4):
                n = _pack_half(builder, half, (held, places), kept, n)
            return n
        left = builder.icmp_unsigned("!=", held, nothing)
        kind = ir.FunctionType(_LINE, [_LINE, left.type, _LINE])
        compress = cgutils.get_or_insert_function(builder.module, kind, "llvm.experimental.vector.compress.v8i64")
        for values, target in zip((held, places), kept, strict=True):
            packed = builder.call(compress, [values, left, ir.Constant(_LINE, ir.Undefined)])
            builder.store(packed, builder.bitcast(builder.gep(target, [n]), ir.PointerType(_LINE)), align=8)
        return builder.add(n, builder.zext(builder.ctpop(builder.bitcast(left, _I8)), _I64))

    u, i = types.uint64, types.int64
    return types.int64(line, i, u, words, tags, i), generate


@intrinsic
def and_changes(typing_context, bits, plane, words, planes, changes, row, before):
    """Of `planes` planes of so many words (1, 2, 4 or 8), the first at bits[plane]: each |= before, then &= what is on there.

    All positions are on until `changes` (from `row` on, laid out like the planes, one more of them) has a bit of theirs; then
    off, until the next such plane, and so forth. It is zero afterwards. All are uint64; the caller guarantees that they are long
    enough. A plane is one vector, whatever changes; to compare 64 positions at a time with a range of planes each took ten
    times as many instructions.
    """

    def generate(context, builder, signature, arguments):
        _, plane, words, planes, _, row, _ = arguments
        data, turns, stale = (_data(context, builder, signature, arguments, i) for i in (0, 4, 6))
        data, turns = builder.gep(data, [plane]), builder.gep(turns, [row])
        for lanes in (1, 2, 4, 8):
            with builder.if_then(builder.icmp_signed("==", words, ir.Constant(_I64, lanes))):
                vector = ir.VectorType(_I64, lanes)
                nothing, everything = (ir.Constant(vector, [word] * lanes) for word in (0, -1))
                lines, changed, again = (builder.bitcast(p, ir.PointerType(vector)) for p in (data, turns, stale))
                again = builder.load(again, align=8)
                on = cgutils.alloca_once(builder, vector)
                builder.store(everything, on)
                with cgutils.for_range(builder, planes) as loop:
                    turn, line = builder.gep(changed, [loop.index]), builder.gep(lines, [loop.index])
                    builder.store(builder.xor(builder.load(on), builder.load(turn, align=8)), on)
                    builder.store(nothing, turn, align=8)
                    all_ = builder.or_(builder.load(line, align=8), again)
                    builder.store(builder.and_(all_, builder.load(on)), line, align=8)
                builder.store(nothing, builder.gep(changed, [planes]), align=8)
        return context.get_dummy_value()

    i = types.int64
    return types.void(bits, i, i, i, changes, i, before), generate


@intrinsic
def count_ones(typing_context, word):
    """How many bits a uint64 has set. One instruction."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


@intrinsic
def count_at_most(typing_context, numbers, first, key):
    """How many of numbers[first : first + 32] (float64) are at or below the key; NaN is not.

    The caller guarantees that there are so many. A few vector compares, 3 ns; a loop over a slice took 7 ns, and one of 32 steps
    was not vectorised. What they say is counted as bits where the processor compares into bits, else lane by lane.
    """

    def generate(context, builder, signature, arguments):
        lanes = 32 if "+avx512f" in context.codegen().magic_tuple()[2] else 4
        keys = _every(builder, arguments[2], lanes)
        pointer = _vectors(context, builder, signature, arguments, keys.type)
        parts = [builder.load(builder.gep(pointer, [ir.Constant(_I64, i)]), align=8) for i in range(32 // lanes)]
        below = [builder.fcmp_ordered("<=", part, keys) for part in parts]
        if lanes == 32:
            return builder.zext(builder.ctpop(builder.bitcast(below[0], _I32)), _I64)
        counts = ir.VectorType(_I64, lanes)
        minus = reduce(builder.add, (builder.sext(part, counts) for part in below))
        kind = ir.FunctionType(_I64, [counts])
        total = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.add.v{lanes}i64")
        return builder.neg(builder.call(total, [minus]))

    return types.int64(numbers, types.int64, types.float64), generate


@intrinsic
def count_few_at_most(typing_context, numbers, first, key):
    """`count_at_most` of numbers[first : first + 4]."""

    def generate(context, builder, signature, arguments):
        keys = _every(builder, arguments[2], 4)
        pointer = _vectors(context, builder, signature, arguments, keys.type)
        below = builder.fcmp_ordered("<=", builder.load(pointer, align=8), keys)
        return builder.zext(builder.ctpop(builder.bitcast(below, _I4)), _I64)

    return types.int64(numbers, types.int64, types.float64), generate


@intrinsic
def count_exceeded(typing_context, numbers, first, number):
    """How many of numbers[first : first + 4] (int16) are below the number. The caller guarantees that there are so many."""

    def generate(context, builder, signature, arguments):
        every = _every(builder, arguments[2], 4)
        pointer = _vectors(context, builder, signature, arguments, every.type)
        below = builder.icmp_signed("<", builder.load(pointer, align=2), every)
        return builder.zext(builder.ctpop(builder.bitcast(below, _I4)), _I64)

    return types.int64(numbers, types.int64, types.int16), generate


def _every(builder, value, lanes):
    """So many times the value."""
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes))


def _vectors(context, builder, signature, arguments, vector):
    """The first argument, an array, as vectors from the place on that the second one names."""
    data = _data(context, builder, signature, arguments, 0)
    return builder.bitcast(builder.gep(data, [arguments[1]]), ir.PointerType(vector))


def _data(context, builder, signature, arguments, i):
    """Where the elements of an argument, an array, begin."""
    return context.make_array(signature.args[i])(context, builder, arguments[i]).data


def _plane(builder, numbers, i, shift):
    """Where plane numbers[i] begins in its region."""
    plane = builder.sext(builder.load(builder.gep(numbers, [i])), _I64)
    return builder.shl(plane, shift)


def _pack_half(builder, first, lines, targets, n):
    """Write the words first..first + 3 of each line, where that of the first line is not zero, to its target from n on; return
    the new n."""
    lanes = ir.Constant(ir.VectorType(_I32, 4), list(range(first, first + 4)))
    words = [builder.shuffle_vector(line, line, lanes) for line in lines]
    left = builder.icmp_unsigned("!=", words[0], ir.Constant(words[0].type, [0] * 4))
    which = builder.zext(builder.bitcast(left, _I4), _I64)
    orders = cgutils.global_constant(builder, "orders", ir.Constant(ir.ArrayType(_HALVES, 16), _orders()))
    order = builder.load(builder.gep(orders, [ir.Constant(_I64, 0), which]), align=32)
    kind = ir.FunctionType(_HALVES, [_HALVES, _HALVES])
    permute = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx2.permd")
    for four, target in zip(words, targets, strict=True):
        packed = builder.call(permute, [builder.bitcast(four, _HALVES), order])
        builder.store(packed, builder.bitcast(builder.gep(target, [n]), ir.PointerType(_HALVES)), align=8)
    return builder.add(n, builder.ctpop(which))


def _orders():
    """For each mask of four words: where each half of them is taken from, so that those of the mask come first."""
    orders = []
    for mask in range(16):
        words = sorted(range(4), key=lambda word: (not mask >> word & 1, word))
        orders.append(ir.Constant(_HALVES, [2 * word + half for word in words for half in (0, 1)]))
    return orders


def _line(builder, data, at):
    return builder.load(builder.bitcast(builder.gep(data, [at]), ir.PointerType(_LINE)), align=8)
