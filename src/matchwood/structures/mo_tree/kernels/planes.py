"""Bit planes: the machine operations of bit-sliced filters, as LLVM IR.

    and_planes        64 bytes of several planes, ANDed in one vector register
    and_united        64 bytes, ANDed with the union of the planes that a mask names
    exclude_planes    as `and_planes`, without the bits of several planes
    prefetch_planes   prefetch them
    keep_words        those of eight words in which a bit is set, adjacent
    write_planes      planes of many positions, written from where each position turns on and off
    count_ones        how many bits of a word are set

They read memory without bounds checks; see what their callers must guarantee.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from matchwood.jit.intrinsics import prefetch_pointer

_I4, _I8, _I32, _I64 = ir.IntType(4), ir.IntType(8), ir.IntType(32), ir.IntType(64)
_LINE = ir.VectorType(_I64, 8)
_HALVES = ir.VectorType(_I32, 8)


@intrinsic
def and_planes(typing_context, bits, valid, base, shift, planes, first, count, out):
    """out[0:8] = bits[valid : valid + 8] & the 8 words at base + (planes[first + i] << shift) of every i < count.

    `bits` and `out` are uint64, `planes` int32. The caller guarantees 8 readable words at each place. A loop in Python would keep
    the eight words in memory between planes.
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
def and_united(typing_context, bits, base, shift, plane, mask, line):
    """line[0:8] &= the union of the 8 words at base + ((plane + j) << shift) of every bit j of the mask, a uint64.

    Types: as `and_planes`. The caller guarantees 8 readable words at each place.
    """

    def generate(context, builder, signature, arguments):
        _, base, shift, plane, mask, _ = arguments
        data, target = (_data(context, builder, signature, arguments, i) for i in (0, 5))
        region = builder.gep(data, [builder.add(base, builder.shl(plane, shift))])
        held = cgutils.alloca_once_value(builder, ir.Constant(_LINE, [0] * 8))
        left = cgutils.alloca_once_value(builder, mask)
        with cgutils.for_range(builder, builder.ctpop(mask)):
            rest = builder.load(left)
            at = builder.shl(builder.cttz(rest, ir.Constant(ir.IntType(1), 0)), shift)
            builder.store(builder.or_(builder.load(held), _line(builder, region, at)), held)
            builder.store(builder.and_(rest, builder.sub(rest, ir.Constant(_I64, 1))), left)
        target = builder.bitcast(target, ir.PointerType(_LINE))
        builder.store(builder.and_(builder.load(target, align=8), builder.load(held)), target, align=8)
        return context.get_dummy_value()

    i = types.int64
    return types.void(bits, i, i, i, types.uint64, line), generate


@intrinsic
def exclude_planes(typing_context, bits, base, shift, planes, first, count, line):
    """line[0:8] &= ~(the 8 words at base + (planes[first + i] << shift)) of every i < count. Types: as `and_planes`."""

    def generate(context, builder, signature, arguments):
        _, base, shift, _, first, count, _ = arguments
        data, numbers, target = (_data(context, builder, signature, arguments, i) for i in (0, 3, 6))
        held = cgutils.alloca_once_value(builder, ir.Constant(_LINE, [0] * 8))
        region, numbers = builder.gep(data, [base]), builder.gep(numbers, [first])
        with cgutils.for_range(builder, count) as loop:
            line = _line(builder, region, _plane(builder, numbers, loop.index, shift))
            builder.store(builder.or_(builder.load(held), line), held)
        target = builder.bitcast(target, ir.PointerType(_LINE))
        left = builder.and_(builder.load(target, align=8), builder.not_(builder.load(held)))
        builder.store(left, target, align=8)
        return context.get_dummy_value()

    i = types.int64
    return types.void(bits, i, i, planes, i, i, line), generate


@intrinsic
def prefetch_planes(typing_context, bits, base, shift, planes, first, count):
    """Prefetch the lines at base + (planes[first + i] << shift) of every i < count. Types: as `and_planes`; any place is safe."""

    def generate(context, builder, signature, arguments):
        _, base, shift, _, first, count = arguments
        data, numbers = (_data(context, builder, signature, arguments, i) for i in (0, 3))
        region, numbers = builder.gep(data, [base]), builder.gep(numbers, [first])
        with cgutils.for_range(builder, count) as loop:
            prefetch_pointer(builder, builder.gep(region, [_plane(builder, numbers, loop.index, shift)]))
        return context.get_dummy_value()

    i = types.int64
    return types.void(bits, i, i, planes, i, i), generate


@intrinsic
def keep_words(typing_context, line, count, tag, words, tags, n):
    """Append the words of line[0:count] that are not zero to `words` from n on, tag + 64 * w of each to `tags`; return the new n.

    All are uint64, `line` has 8 words. The caller guarantees 8 elements from n on in both. Processors with AVX2 only have no
    instruction that packs a vector: there four words are permuted at a time, by a table, which is faster than what LLVM does.
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
def write_planes(typing_context, bits, plane, words, planes, changes, row, written):
    """Write the positions `written` in `planes` planes of so many words (1, 2, 4 or 8), the first at bits[plane].

    A position is on until `changes` (from `row` on, laid out like the planes) has its bit; then off, until the next plane that
    has it, and so forth. `changes` is zero afterwards. All are uint64; the caller guarantees that they are long enough, and that
    `changes` has bits of positions written only.
    """

    def generate(context, builder, signature, arguments):
        _, plane, words, planes, _, row, _ = arguments
        data, turns, positions = (_data(context, builder, signature, arguments, i) for i in (0, 4, 6))
        data, turns = builder.gep(data, [plane]), builder.gep(turns, [row])
        for lanes in (1, 2, 4, 8):
            with builder.if_then(builder.icmp_signed("==", words, ir.Constant(_I64, lanes))):
                vector = ir.VectorType(_I64, lanes)
                nothing, everything = (ir.Constant(vector, [word] * lanes) for word in (0, -1))
                lines, changed, mine = (builder.bitcast(p, ir.PointerType(vector)) for p in (data, turns, positions))
                mine = builder.load(mine, align=8)
                on = cgutils.alloca_once(builder, vector)
                builder.store(everything, on)
                with cgutils.for_range(builder, planes) as loop:
                    turn, line = builder.gep(changed, [loop.index]), builder.gep(lines, [loop.index])
                    builder.store(builder.xor(builder.load(on), builder.load(turn, align=8)), on)
                    builder.store(nothing, turn, align=8)
                    all_ = builder.or_(builder.load(line, align=8), mine)
                    builder.store(builder.and_(all_, builder.load(on)), line, align=8)
        return context.get_dummy_value()

    i = types.int64
    return types.void(bits, i, i, i, changes, i, written), generate


@intrinsic
def count_ones(typing_context, word):
    """How many bits of a uint64 are set. One instruction."""

    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


def _every(builder, value, lanes):
    """A vector with the value in each of its lanes."""
    undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, lanes), [0] * lanes))


def _data(context, builder, signature, arguments, i):
    """The address of the first element of an argument, an array."""
    return context.make_array(signature.args[i])(context, builder, arguments[i]).data


def _plane(builder, numbers, i, shift):
    """The word at which plane numbers[i] begins in its region."""
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
