"""The exact test: one row of the store against one event, and its score. What the oracle says, compiled.

An event is spread over `values`, one record a dimension: the hull [lo, hi] of its value, its weight and, for a list, where its
parts are in the event arrays. Absent dimensions hold NaN, so every comparison with them fails. The first dimension of a place
gets the unit vector of the place once a row needs it (`place_of`).
Scores are folded in the row's own order, from its priority on: the order that the oracle uses.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper
from matchwood.jit.intrinsics import read_word
from matchwood.store.kernels.grades import graded_gain, place_of
from matchwood.store.kernels.parts import meets_value
from matchwood.store.kernels.places import gap_squared
from matchwood.store.kernels.regions import region_holds
from matchwood.store.kernels.rows import (
    ABSENT,
    COUNTED,
    GRADED,
    JOINED,
    NARROWS,
    NONE,
    SET,
    SHAPED,
    WORDS,
    count_bounds,
    part_hi,
    part_lo,
    parts_of,
)

# An event in one dimension. (x, y, z) is the unit vector of the place whose latitude is in dimension `lat`, unless that is NONE.
VALUE = np.dtype(
    [(name, "f8") for name in ("lo", "hi", "weight", "x", "y", "z")]
    + [(name, "u4") for name in ("first", "parts", "lat", "pad")]
)

# modes of matching
ALL = 0
ANY = 1  # relaxed


@helper
def load_event(values, events, e):
    """Spread event e over `values`. A dimension the index has never seen is left out. O(its entries)."""
    dims = events.dims
    for i in range(events.offsets[e], events.offsets[e + 1]):
        dim = np.int64(dims[i])
        if dim >= values.size:
            continue
        value = values[dim]
        if np.isnan(value.lo):
            value.lo, value.hi, value.weight = events.lo[i], events.hi[i], events.weight[i]
            value.first, value.parts, value.lat = np.uint32(i), np.uint32(1), NONE
        else:
            value.hi = events.hi[i]
            value.parts += np.uint32(1)


@helper
def unload_event(values, events, e):
    """Make every dimension of event e absent again. O(its entries)."""
    for i in range(events.offsets[e], events.offsets[e + 1]):
        dim = np.int64(events.dims[i])
        if dim < values.size:
            value = values[dim]
            value.lo, value.hi, value.weight = np.nan, np.nan, 1.0
            value.parts = np.uint32(0)


@helper
def parts_before(entries, first, count, width, key):
    """How many of `count` ascending intervals end before the key. O(log count)."""
    low, high = np.int64(0), count
    while low < high:
        middle = (low + high) >> 1
        if part_hi(entries, first, width, middle) < key:
            low = middle + 1
        else:
            high = middle
    return low


@helper
def parts_meet(entries, first, count, width, events, start, parts):
    """Do two ascending lists of intervals meet, the first from `parts_of`? O(count + parts), less where one is short."""
    if parts == 1 and count > 8:
        low = parts_before(entries, first, count, width, events.lo[start])
        return low < count and part_lo(entries, first, width, low) <= events.hi[start]
    if count == 1 and parts > 8:
        return meets_value(events, start, parts, part_lo(entries, first, width, 0), part_hi(entries, first, width, 0))
    i = np.int64(0)
    j = np.int64(0)
    while i < count and j < parts:
        if part_hi(entries, first, width, i) < events.lo[start + j]:
            i += 1
        elif events.hi[start + j] < part_lo(entries, first, width, i):
            j += 1
        else:
            return True
    return False


@helper
def count_holds(entries, start, at, events, begin, parts):
    """Is the number of intervals that the value meets within the bounds of the COUNTED entry start + at?

    O(count log parts) of few intervals, O(parts log count + intervals met) of many.
    """
    first, count, width = parts_of(entries, start, at)
    least, most = count_bounds(entries, start, at)
    met, i = np.int64(0), np.int64(0)
    if count <= parts:
        for i in range(count):
            lo, hi = part_lo(entries, first, width, i), part_hi(entries, first, width, i)
            met += np.int64(meets_value(events, begin, parts, lo, hi))
        return np.float64(met) >= least and np.float64(met) <= most
    for j in range(begin, begin + parts):
        i += parts_before(entries, first + i * width, count - i, width, events.lo[j])
        while i < count and part_lo(entries, first, width, i) <= events.hi[j]:
            met += 1
            if np.float64(met) > most:
                return False
            i += 1
    return np.float64(met) >= least


@helper
def entry_holds(entries, start, at, values, events):
    """Does the entry at start + at hold for the event?"""
    entry = entries[start + at]
    value = values[np.int64(entry.dim)]
    if not (entry.lo <= value.hi and value.lo <= entry.hi):
        return entry.kind == ABSENT and np.isnan(value.lo)
    if entry.kind == COUNTED:
        return count_holds(entries, start, at, events, np.int64(value.first), np.int64(value.parts))
    if entry.kind == SHAPED:
        word = WORDS * (start + np.int64(entry.more))
        return region_holds(entries, word, value.lo, values[np.int64(read_word(entries, word))].lo)
    if entry.kind == GRADED:
        return True
    if entry.kind & NARROWS:
        first = start + np.int64(entry.more)
        vector, (x, y, z) = entries[first + 1], place_of(values, value, entries[first].more)
        inside = gap_squared(x, y, z, vector.lo, vector.hi, vector.weight) <= entries[first + 2].lo
        return inside == (entries[first].weight > 0.0)
    if entry.kind & SET or value.parts > 1:
        first, count, width = parts_of(entries, start, at)
        return parts_meet(entries, first, count, width, events, np.int64(value.first), np.int64(value.parts))
    return True


@helper
def score_row(store, slot, values, events, mode, combine):
    """The row's score for the loaded event, NaN if it does not match. O(entries).

    The score is folded over the predicates that hold. A predicate is an entry and the JOINED ones after it, which hold as a
    whole or not at all. Grades come last and replace what the predicate adds by what it adds for this event.
    """
    row, entries = store.rows[slot], store.entries
    start = np.int64(row.start)
    relaxed = mode & ANY != 0
    score = without = row.priority
    matched = matched_without = not relaxed
    head, gain = np.int64(0), 0.0
    for at in range(np.int64(row.count)):
        holds = entry_holds(entries, start, at, values, events)
        if not holds and not relaxed:
            return np.nan
        entry = entries[start + at]
        if not entry.kind & JOINED:
            without, matched_without = score, matched  # this predicate
            head = np.int64(at) if holds else np.int64(-1)
            if holds:
                score = folded(score, entry.weight * values[np.int64(entry.dim)].weight, combine)
                matched = True
        elif not holds:
            score, matched = without, matched_without
            head = np.int64(-1)
        elif entry.kind == GRADED and head >= 0:
            gain = graded_gain(entries, start, head, start + np.int64(entry.more), gain, values, events)
            score = folded(without, gain * values[np.int64(entry.dim)].weight, combine)
    return score if matched else np.nan


@helper
def folded(score, weight, combine):
    """One step of the score. Without a scoring function the branch is pruned when compiled, and this is an addition."""
    if combine is None:
        return score + weight
    else:
        return combine(score, weight)
