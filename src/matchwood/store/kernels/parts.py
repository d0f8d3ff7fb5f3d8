"""An event's value against an interval: a filter that tells the values of a list apart. In: `verify.VALUE`. Out: may it hold?"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper


@helper
def value_meets(value, events, lo, hi):
    """Does the value, or for a list one of its parts, meet the interval? False if it is absent (NaN). O(log parts)."""
    if not (lo <= value.hi and value.lo <= hi):
        return False
    if value.parts <= 1:
        return True
    low, high = np.int64(value.first), np.int64(value.first) + np.int64(value.parts) - 1
    while low < high:  # the first part that does not end before the interval; the last one does not
        middle = (low + high) >> 1
        if events.hi[middle] < lo:
            low = middle + 1
        else:
            high = middle
    return events.lo[low] <= hi
