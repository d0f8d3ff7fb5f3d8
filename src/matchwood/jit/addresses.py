"""States handed over to kernels by address: one array of words, in place of all the arrays of a state.

For a call of a kernel Python hands over every array of its state, 30 to 50 ns each: of a tree and its store 1 us, as long as a
single change takes. Where arrays are, and how long, changes only when a pool grows. So the owner of a state writes that down
once (`addresses`), and a kernel for single changes makes the state of it again, at no cost (`from_addresses`).

Nobody looks at types or bounds there any more: `addresses` does, and whoever owns the state writes anew when it takes another
(`handed`), which also keeps the arrays alive.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import from_dtype

_TYPES: dict[type, list[np.dtype[Any]]] = {}


def addresses(state: Any) -> np.ndarray:
    """Where each array of the state begins, and how many elements it has. O(arrays), 10 us."""
    expected = _TYPES[type(state)]
    for name, array, type_ in zip(state._fields, state, expected, strict=True):
        if array.dtype != type_ or array.ndim != 1 or not array.flags.carray:
            raise TypeError(f"expected {name} as a plain array of {type_}, got {array.ndim} x {array.dtype}")
    return np.array([word for array in state for word in (array.ctypes.data, array.size)], np.int64)


def from_addresses(kind: type, *dtypes: Any) -> Any:
    """A function for kernels: the state of that kind, whose arrays have these types, of what `addresses` gave."""
    _TYPES[kind] = [np.dtype(dtype) for dtype in dtypes]
    arrays = [types.Array(from_dtype(dtype), 1, "C") for dtype in _TYPES[kind]]
    state = types.BaseTuple.from_types(arrays, kind)

    @intrinsic
    def taken_over(typing_context, words):
        def generate(context, builder, signature, arguments):
            first = context.make_array(signature.args[0])(context, builder, arguments[0]).data

            def word(i):
                return builder.load(builder.gep(first, [ir.Constant(ir.IntType(64), i)]))

            made = []
            for i, (array, dtype) in enumerate(zip(arrays, _TYPES[kind], strict=True)):
                value = context.make_array(array)(context, builder)
                item = context.get_constant(types.intp, dtype.itemsize)
                pointer = builder.inttoptr(word(2 * i), context.get_data_type(array.dtype).as_pointer())
                populate_array(
                    value, data=pointer, shape=[word(2 * i + 1)], strides=[item], itemsize=item, meminfo=None
                )
                made.append(value._getvalue())
            return context.make_tuple(builder, state, made)

        return state(words), generate

    return taken_over
