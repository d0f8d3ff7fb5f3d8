"""Grades of rows: how much of a weight counts for an event. What `lang.grade` says, compiled.

The extras of a GRADED entry (`rows.write_grade`):

    (best lo, hi, weight; the dimension of the latitude in `more`, if the best value is a place), (its unit vector)
    (scale, offset, closeness at the scale; the curve in `dim`), (rate of the curve, weight that counts in full, -)

The weight that counts in full is with the first grade of a predicate; later ones have NaN there.
"""

from __future__ import annotations

import math

import numpy as np

from matchwood.jit.decorators import helper, subroutine
from matchwood.store.kernels.places import closeness, distance_to, gap_squared, metres_of, unit_vector
from matchwood.store.kernels.rows import NONE, part_hi, part_lo, parts_of


@helper
def place_of(values, value, lat):
    """The unit vector of the place that has its longitude in `value` and its latitude in dimension `lat`; found once an event."""
    if value.lat != lat:
        value.x, value.y, value.z = unit_vector(value.lo, values[np.int64(lat)].lo)
        value.lat = lat
    return value.x, value.y, value.z


@helper
def nearest(entries, start, head, lo, hi, events, begin, parts):
    """The distance from [lo, hi] to the nearest key that the event and the entry start + head have in common. O(intervals)."""
    first, count, width = parts_of(entries, start, head)
    least = np.inf
    i = np.int64(0)
    j = np.int64(0)
    while i < count and j < parts:
        low = max(part_lo(entries, first, width, i), events.lo[begin + j])
        high = min(part_hi(entries, first, width, i), events.hi[begin + j])
        if low <= high:
            least = min(least, distance_to(lo, hi, low, high))
        if part_hi(entries, first, width, i) < events.hi[begin + j]:
            i += 1
        else:
            j += 1
    return least


@subroutine
def graded_gain(entries, start, head, first, before, values, events):
    """What the predicate at start + head adds with the grade whose extras begin at `first`, after `before` from earlier ones.

    The predicate holds. O(1) for a single key, O(intervals) for lists and ranges.
    """
    best, vector, shape, rest = entries[first], entries[first + 1], entries[first + 2], entries[first + 3]
    value = values[np.int64(entries[start + head].dim)]
    if best.more != NONE:
        x, y, z = place_of(values, value, best.more)
        away = metres_of(gap_squared(x, y, z, vector.lo, vector.hi, vector.weight), math.sqrt)
    elif value.lo == value.hi:
        away = distance_to(best.lo, best.hi, value.lo, value.lo)
    else:
        away = nearest(entries, start, head, best.lo, best.hi, events, np.int64(value.first), np.int64(value.parts))
    gain = rest.hi if not np.isnan(rest.hi) else before
    return gain + best.weight * closeness(np.int64(shape.dim), away, shape.lo, shape.hi, rest.lo)
