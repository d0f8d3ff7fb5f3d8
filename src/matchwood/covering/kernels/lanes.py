"""Sixteen numbers compared at once: vector loads of an array, compared to bit masks. LLVM lowers them for any CPU.

The loads are not checked against the end of the array: the owner of the pool keeps LANES elements to spare behind the last one
in use, and callers mask off the lanes behind the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from matchwood.jit.decorators import helper
from matchwood.jit.intrinsics import trailing_zeros

LANES = 16


def _loaded(context: Any, builder: Any, array_type: Any, array: Any, at: Any, lanes: int) -> Any:
    """array[at : at + lanes] as a vector, from any address that is aligned to an element."""
    data = context.make_array(array_type)(context, builder, array).data
    pointer = builder.gep(data, [at])
    vector = ir.VectorType(data.type.pointee, lanes)
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=array_type.dtype.bitwidth // 8)


def _compared(operator: str) -> Any:
    """A function (array, at, value) that compares array[at : at + LANES] with the value and returns a bit mask."""

    @intrinsic
    def compare(typing_context, array, at, value):
        def code(context, builder, signature, arguments):
            loaded = _loaded(context, builder, signature.args[0], arguments[0], arguments[1], LANES)
            vector = loaded.type
            lane = builder.insert_element(ir.Constant(vector, ir.Undefined), arguments[2], cgutils.int32_t(0))
            zeros = ir.Constant(ir.VectorType(cgutils.int32_t, LANES), None)
            spread = builder.shuffle_vector(lane, ir.Constant(vector, ir.Undefined), zeros)
            bits = builder.bitcast(builder.fcmp_ordered(operator, loaded, spread), ir.IntType(LANES))
            return builder.zext(bits, ir.IntType(64))

        return types.int64(array, types.int64, array.dtype), code

    return compare


at_least = _compared(">=")
at_most = _compared("<=")


@intrinsic
def all_at_least_8(typing_context, array, at, other, begin):
    """Are array[at : at + 8] >= other[begin : begin + 8], one by one?"""

    def code(context, builder, signature, arguments):
        left = _loaded(context, builder, signature.args[0], arguments[0], arguments[1], 8)
        right = _loaded(context, builder, signature.args[2], arguments[2], arguments[3], 8)
        bits = builder.bitcast(builder.fcmp_ordered(">=", left, right), ir.IntType(8))
        return builder.icmp_unsigned("==", bits, ir.Constant(ir.IntType(8), 255))

    return types.boolean(array, types.int64, other, types.int64), code


@helper
def lowest_bit(mask):
    """The position of the lowest bit that is set; the mask is not 0."""
    return np.int64(trailing_zeros(np.uint64(mask)))


@helper
def lanes(count):
    """The mask of the first `count` lanes, or of all if there are more."""
    return (np.int64(1) << min(count, np.int64(LANES))) - 1
