"""Bits: eight intervals compared at once, and an ordered set of small integers that finds neighbours in three steps.

The two intrinsics touch memory unchecked: `holds_eight` reads eight entries from `base` on, so the arrays it is given end
with at least `PAD` entries that belong to nobody.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from matchwood.jit.decorators import helper

LANES = 8
PAD = 64


@intrinsic
def holds_eight(typing_context, lo, hi, base, first, last):
    """Bit j of the result: does [lo[base + j], hi[base + j]] meet [first, last]? For j = 0..7."""
    signature = types.uint64(lo, hi, types.int64, types.float64, types.float64)

    def generate(context, builder, signature, arguments):
        lo_value, hi_value, base_value, first_value, last_value = arguments
        eight = ir.VectorType(ir.DoubleType(), LANES)

        def load(array_type, array):
            data = cgutils.create_struct_proxy(array_type)(context, builder, array).data
            at = builder.gep(data, [base_value])
            return builder.load(builder.bitcast(at, eight.as_pointer()), align=8)

        def spread(value):
            undefined = ir.Constant(eight, ir.Undefined)
            one = builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
            return builder.shuffle_vector(one, undefined, zeros)

        begins = builder.fcmp_ordered("<=", load(signature.args[0], lo_value), spread(last_value))
        ends = builder.fcmp_ordered(">=", load(signature.args[1], hi_value), spread(first_value))
        both = builder.bitcast(builder.and_(begins, ends), ir.IntType(LANES))
        return builder.zext(both, ir.IntType(64))

    return signature, generate


@intrinsic
def lowest_bit(typing_context, word):
    """The number of the lowest bit that is set; 64 for zero."""

    def generate(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@intrinsic
def leading_zeros(typing_context, word):
    """How many bits above the highest one that is set; 64 for zero."""

    def generate(context, builder, signature, arguments):
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), generate


@helper
def mask_of(lo, hi, base, count, first, last):
    """Bit j: does entry base + j meet [first, last]? count <= 64. O(count / 8)."""
    mask = np.uint64(0)
    for j in range(0, count, LANES):
        mask |= holds_eight(lo, hi, base + j, first, last) << np.uint64(j)
    if count < 64:
        mask &= (np.uint64(1) << np.uint64(count)) - np.uint64(1)
    return mask


# An ordered set of the integers 0..size-1: words of 64 bits, above them words that say which words are not empty, and so on.
# `tops` are the starts of the levels in `words`, the integers themselves first.


def set_shape(size: int) -> tuple[int, np.ndarray]:
    """(words needed, starts of the levels) of a set that can hold 0..size-1."""
    starts = [0]
    width = size
    while True:
        width = -(-width // 64)
        starts.append(starts[-1] + max(width, 1))
        if width <= 1:
            break
    return starts[-1], np.array(starts, np.int64)


@helper
def set_add(words, tops, x):
    for level in range(tops.size - 1):
        at = tops[level] + (x >> 6)
        before = words[at]
        words[at] = before | (np.uint64(1) << np.uint64(x & 63))
        if before != 0:
            return
        x >>= 6


@helper
def set_remove(words, tops, x):
    for level in range(tops.size - 1):
        at = tops[level] + (x >> 6)
        words[at] &= ~(np.uint64(1) << np.uint64(x & 63))
        if words[at] != 0:
            return
        x >>= 6


@helper
def set_next(words, tops, x):
    """The least member >= x, or -1. O(levels)."""
    level = np.int64(0)
    levels = tops.size - 1
    while level < levels:
        at = tops[level] + (x >> 6)
        if at >= tops[level + 1]:
            return np.int64(-1)
        rest = words[at] >> np.uint64(x & 63)
        if rest != 0:
            x += lowest_bit(rest)
            while level > 0:
                level -= 1
                x = (x << 6) + lowest_bit(words[tops[level] + x])
            return x
        x = (x >> 6) + 1
        level += 1
    return np.int64(-1)


@helper
def set_previous(words, tops, x):
    """The greatest member <= x, or -1. O(levels)."""
    level = np.int64(0)
    levels = tops.size - 1
    while level < levels and x >= 0:
        at = tops[level] + (x >> 6)
        rest = words[at] << np.uint64(63 - (x & 63))
        if rest != 0:
            x -= leading_zeros(rest)
            while level > 0:
                level -= 1
                x = (x << 6) + 63 - leading_zeros(words[tops[level] + x])
            return x
        x = (x >> 6) - 1
        level += 1
    return np.int64(-1)
