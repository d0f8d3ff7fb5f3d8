"""Keys as numbers without sign in the same order, in two halves: most comparisons need the upper one only.

    key --ordered--> 64 bits --> upper half, lower half        a < b as keys where a < b as numbers; -0.0 is 0.0

A key is at or above `lo` surely where its upper half is at or above `least_sure` of it, and surely not where that is below
the upper half of `lo`; between these the lower halves decide. The same for `hi` from above.
"""

from __future__ import annotations

import numpy as np

from matchwood.kernels._jit import helper

_SIGN = np.uint64(1) << np.uint64(63)
_HALF = np.uint64(32)


@helper
def ordered(key):
    """The key, which is not NaN, as a number without sign."""
    bits = np.float64(key + 0.0).view(np.uint64)
    return bits ^ (np.uint64(np.int64(bits) >> np.int64(63)) | _SIGN)


@helper
def key_of(number):
    """What `ordered` was given."""
    return np.uint64(number ^ (~np.uint64(np.int64(number) >> np.int64(63)) | _SIGN)).view(np.float64)


@helper
def least_sure(number):
    """The least upper half with which every number is at or above this one."""
    return np.uint32(number >> _HALF) + np.uint32(np.uint32(number) != 0)


@helper
def most_sure(number):
    """The greatest upper half with which every number is at or below this one."""
    return np.uint32(number >> _HALF) - np.uint32(np.uint32(number) != np.uint32(0xFFFFFFFF))
