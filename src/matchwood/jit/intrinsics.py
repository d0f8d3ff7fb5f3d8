"""The few machine operations that Python cannot say, as LLVM IR; LLVM lowers them for whatever CPU runs.

They read memory without bounds checks, so each says what its caller must guarantee. Keep them few, and covered by tests.

    trailing_zeros   position of the lowest set bit
    prefetch         ask for a cache line before it is needed
    boxes_hit        16 boxes against an event's keys, as a mask (two gathers, two compares)
    box_holds        one interval of the row store against an event's value, both ends at once
    sift_spread      events whose upper halves lie in 24 intervals, which are compared side by side
    turn_word        xor into a word that several threads write
    mark_word        or into a word of a record that several threads write
    claim            take a free cell that another thread may want
"""

from __future__ import annotations

from functools import reduce

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
SECOND, FIRST = 2, 3  # caches, as LLVM numbers them


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
        ask_for(builder, _element(context, builder, signature.args[0], arguments[0], arguments[1]), FIRST)
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
def sift_spread(typing_context, words, found, first, last, near, far, now, asked, least, bounds, ids, n):
    """Write the ids of those of the events found[first:last] that a row matches to ids[n:], as long as it is clear whether they
    do; return the first for which it is not, or `last`, and the new n.

    An event is 16 words from words[place] on: id, until (float64), mask, about, 24 halves. It matches where the mask has all
    bits of `asked`, its id is at most `least` and half j, of 32 bits, lies in the interval that begins at bounds[j] and is
    bounds[24 + j] long. That is clear where the upper three bits of `about` are 4 (SPREAD), `now` is before `until` and the
    halves of a match lie in inner intervals as well, bounds[48 + j] and bounds[72 + j]. Two lines of the event `far` places later
    are asked for, into the second cache, and of that `near` places later into the first; any place is safe.
    The caller guarantees last + far places, 96 bounds, and room for an id more than there are matches. Sixty instructions an
    event, since bounds stay in registers; a loop in Python takes a hundred.
    """

    def generate(context, builder, signature, arguments):
        _, _, first, last, near, far, now, asked, least, _, _, n = arguments
        words, found, bounds, ids = (
            context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 1, 9, 10)
        )
        lanes = range(0, _PLACES, _EIGHT)
        intervals = [
            [[_eight(builder, bounds, inner + part + lane) for part in (0, _PLACES)] for lane in lanes]
            for inner in (0, 2 * _PLACES)
        ]
        entry = builder.block
        head, body, first_ids, values_, next_, done = (builder.append_basic_block() for _ in range(6))
        builder.branch(head)

        builder.position_at_end(head)
        at, kept = builder.phi(_I64), builder.phi(_I64)
        builder.cbranch(builder.icmp_signed("<", at, last), body, done)

        builder.position_at_end(body)
        for later, cache in ((near, FIRST), (far, SECOND)):
            event = _place(builder, words, found, builder.add(at, later))
            for line in (0, 8):
                ask_for(builder, builder.gep(event, [ir.Constant(_I64, line)]), cache)
        event = _place(builder, words, found, at)
        id_, until, mask, about = (builder.load(builder.gep(event, [ir.Constant(_I64, i)])) for i in range(4))
        spread = builder.icmp_unsigned("==", builder.lshr(about, ir.Constant(_I64, 61)), ir.Constant(_I64, 4))
        alive = builder.fcmp_ordered("<", now, builder.bitcast(until, _F64))
        builder.cbranch(builder.and_(spread, alive), first_ids, done)

        builder.position_at_end(first_ids)
        builder.cbranch(builder.icmp_signed("<=", id_, least), values_, next_)

        builder.position_at_end(values_)
        halves = builder.bitcast(builder.gep(event, [ir.Constant(_I64, 4)]), ir.PointerType(_I32))
        values = [_eight(builder, halves, lane) for lane in lanes]
        within, surely = (_all_within(builder, values, bounds) for bounds in intervals)
        match = builder.and_(builder.icmp_unsigned("==", builder.and_(mask, asked), asked), within)
        builder.store(id_, builder.gep(ids, [kept]))
        more = builder.add(kept, builder.zext(match, _I64))
        builder.cbranch(builder.and_(match, builder.not_(surely)), done, next_)

        builder.position_at_end(next_)
        kept_now = builder.phi(_I64)
        kept_now.add_incoming(kept, first_ids)
        kept_now.add_incoming(more, values_)
        for phi, before, after in ((at, first, builder.add(at, ir.Constant(_I64, 1))), (kept, n, kept_now)):
            phi.add_incoming(before, entry)
            phi.add_incoming(after, next_)
        builder.branch(head)

        builder.position_at_end(done)
        return context.make_tuple(builder, signature.return_type, [at, kept])

    i = types.int64
    kinds = words, found, i, i, i, i, types.float64, types.uint64, i, bounds, ids, i
    return types.UniTuple(i, 2)(*kinds), generate


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


def _eight(builder, data, at):
    """Eight elements of 32 bits from data[at] on."""
    pointer = builder.bitcast(builder.gep(data, [ir.Constant(_I64, at)]), ir.PointerType(ir.VectorType(_I32, _EIGHT)))
    return builder.load(pointer, align=4)


def _all_within(builder, values, intervals):
    """Does every lane of the values lie in its interval, of begins and lengths?"""
    inside = [
        builder.icmp_unsigned("<=", builder.sub(value, begin), length)
        for value, (begin, length) in zip(values, intervals, strict=True)
    ]
    every = builder.bitcast(reduce(builder.and_, inside), _I8)
    return builder.icmp_unsigned("==", every, ir.Constant(_I8, 255))


def _place(builder, words, found, i):
    """words[found[i]], as a pointer; `found` is uint32."""
    return builder.gep(words, [builder.zext(builder.load(builder.gep(found, [i])), _I64)])


def ask_for(builder, pointer, cache):
    """Generate a prefetch into that cache."""
    kind = ir.FunctionType(ir.VoidType(), [ir.PointerType(_I8), _I32, _I32, _I32])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    numbers = (ir.Constant(_I32, n) for n in (0, cache, 1))
    builder.call(function, [builder.bitcast(pointer, ir.PointerType(_I8)), *numbers])


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
