"""Keys as numbers without sign in the same order, in two halves: most comparisons need the upper one only.

    key --ordered--> 64 bits --> upper half, lower half        a < b as keys where a < b as numbers; -0.0 is 0.0

Where the upper halves of a key and of the end of an interval differ they tell which is greater; else the lower ones decide.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper

_SIGN = np.uint64(1) << np.uint64(63)


@helper
def ordered(key):
    """The key, which is not NaN, as a number without sign."""
    bits = np.float64(key + 0.0).view(np.uint64)
    return bits ^ (np.uint64(np.int64(bits) >> np.int64(63)) | _SIGN)


@helper
def key_of(number):
    """What `ordered` was given."""
    return np.uint64(number ^ (~np.uint64(np.int64(number) >> np.int64(63)) | _SIGN)).view(np.float64)
