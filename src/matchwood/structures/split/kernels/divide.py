"""Which part of a split index each subscription belongs to. In: rows, the shares of their dimensions. Out: a part for each row.

A row is worth what its most helpful kind of predicate leaves: the product of the shares of events that its values (=, IN) pass,
against the product of those that its ranges and places pass. All rows of a subscription go to one part, so that parts never
report the same subscription: POINTS if values leave less for each of them, REST if none has anything to filter by, else RANGES.
"""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import INTERVAL, JOINED, MORE
from matchwood.jit.decorators import helper, kernel

POINTS, RANGES, REST = 0, 1, 2
SHARE = np.dtype([("value", "f8"), ("range", "f8")])
"""Of a dimension: the share of events expected to have a value, and to be in a range, that a row names."""

_INTERVAL, _JOINED, _MORE = INTERVAL, JOINED, MORE


@helper
def kind_of_row(rows, r, shares):
    """The part that row r would go to alone. O(entries)."""
    values = ranges = 1.0
    has_values = has_ranges = False
    at, end = rows.offsets[r], rows.offsets[r + 1]
    while at < end:
        last, are_values = at, rows.lo[at] == rows.hi[at]
        while last + 1 < end and rows.kinds[last + 1] == _MORE:
            last += 1
            are_values = are_values and rows.lo[last] == rows.hi[last]
        dim = np.int64(rows.dims[at])
        if rows.kinds[at] == _INTERVAL or rows.kinds[at] == _JOINED:
            if are_values:
                values *= min(1.0, np.float64(last - at + 1) * (shares[dim].value if dim < shares.size else 1.0))
                has_values = True
            elif rows.lo[at] > -np.inf or rows.hi[last] < np.inf:
                ranges *= shares[dim].range if dim < shares.size else 1.0
                has_ranges = True
        at = last + 1
    if has_values and (values < ranges or not has_ranges):
        return POINTS
    return RANGES if has_values or has_ranges else REST


@kernel
def divide_rows(rows, shares, parts):
    """parts[r] = the part of the subscription of row r, whose rows are adjacent. O(entries)."""
    first = np.int64(0)
    while first < rows.ids.size:
        last = first
        part = kind_of_row(rows, first, shares)
        while last + 1 < rows.ids.size and rows.ids[last + 1] == rows.ids[first]:
            last += 1
            if kind_of_row(rows, last, shares) != part:
                part = RANGES
        for r in range(first, last + 1):
            parts[r] = part
        first = last + 1
