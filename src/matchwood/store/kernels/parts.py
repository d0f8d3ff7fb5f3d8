"""An event's value against an interval: a filter that tells the values of a list apart. In: `verify.VALUE`. Out: may it hold?"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper


@helper
def meets_value(events, start, parts, lo, hi):
    """Does the interval meet a list of values, which are ascending? O(log parts)."""
    at, left = start, parts  # the first value that does not end before the interval is one of these, or there is none
    while left > 1:  # without a branch: which half it is cannot be predicted
        half = left >> 1
        at += half * np.int64(events.hi[at + half - 1] < lo)
        left -= half
    at += np.int64(events.hi[at] < lo)
    return at < start + parts and events.lo[at] <= hi


@helper
def value_meets(value, events, lo, hi):
    """Does the value, or for a list one of its parts, meet the interval? False if it is absent (NaN). O(log parts)."""
    if not (lo <= value.hi and value.lo <= hi):
        return False
    if value.parts <= 1:
        return True
    return meets_value(events, np.int64(value.first), np.int64(value.parts), lo, hi)
