"""The exact test of covering, compiled: one row of a store against one row of another, entry by entry.

The same test as `covering.exact`, to the bit: places are compared by the same functions of `geo`. Searches apply it to the few
candidates that hulls alone do not decide, so it is not inlined.

A circle is the position of its first extra (`store.kernels.rows`): centre and signed radius, negative for the outside; then its
unit vector; then its squared chord.
"""

from __future__ import annotations

import numpy as np

from matchwood.covering.kernels.regions import box_in_region
from matchwood.covering.kernels.regions import same_parts as same_region
from matchwood.geo import HALF_TURN_M
from matchwood.jit.decorators import helper, subroutine
from matchwood.jit.intrinsics import read_word
from matchwood.store.kernels.places import chord_squared, is_within
from matchwood.store.kernels.rows import (
    ABSENT,
    COUNTED,
    GRADED,
    JOINED,
    NARROWS,
    NONE,
    ROUND,
    SET,
    SHAPED,
    SIBLING,
    WORDS,
    count_bounds,
    first_slot,
    part_hi,
    part_lo,
    parts_of,
)

SLACK_M = 1e-3
LARGEST_M = 15_000_000.0
COMPLEX = np.uint16(SET | NARROWS)


@helper
def is_complex(store, slot):
    """Has the row interval sets, circles or counts, so that its hulls are wider than the row? O(entries)."""
    start = np.int64(store.rows[slot].start)
    for at in range(np.int64(store.rows[slot].count)):
        if store.entries[start + at].kind & COMPLEX:
            return True
    return False


@helper
def set_covers(wide, set_w, narrow, set_n):
    """Is each narrow interval within a wide one? The sets are as `parts_of` tells them. O(intervals)."""
    first_w, count_w, width_w = set_w
    first_n, count_n, width_n = set_n
    w = np.int64(0)
    for n in range(count_n):
        lo, hi = part_lo(narrow, first_n, width_n, n), part_hi(narrow, first_n, width_n, n)
        while w < count_w and part_hi(wide, first_w, width_w, w) < hi:
            w += 1
        if w == count_w or part_lo(wide, first_w, width_w, w) > lo:
            return False
    return True


@helper
def one_part(set_, i):
    """Interval i of a set, as a set."""
    first, _, width = set_
    return first + i * width, np.int64(1), width


@subroutine
def is_near(lon, lat, entries, circle, distance):
    """Is the place within the distance of the centre of the circle?"""
    centre = entries[circle + 1]
    return is_within(lon, lat, centre.lo, centre.hi, centre.weight, chord_squared(distance))


@helper
def circle_implies(narrow, n, wide, w):
    """Does every place that satisfies the circle n of `narrow` satisfy the circle w of `wide`?"""
    centre_n, centre_w = narrow[n], wide[w]
    r_n, r_w = abs(centre_n.weight), abs(centre_w.weight)
    outside_n, outside_w = centre_n.weight < 0.0, centre_w.weight < 0.0
    if centre_n.lo == centre_w.lo and centre_n.hi == centre_w.hi and outside_n == outside_w:
        chord_n, chord_w = narrow[n + 2].lo, wide[w + 2].lo
        return chord_w <= chord_n if outside_w else chord_n <= chord_w
    if r_n > LARGEST_M or r_w > LARGEST_M or (outside_n and not outside_w):
        return False
    if outside_w and not outside_n:  # two circles that do not touch
        return not is_near(centre_n.lo, centre_n.hi, wide, w, r_n + r_w + SLACK_M)
    spare = (r_n - r_w if outside_w else r_w - r_n) - SLACK_M
    return spare >= 0.0 and is_near(centre_n.lo, centre_n.hi, wide, w, spare)


@helper
def clipped(lo, hi, limit):
    """The part of a hull where places can be; the whole range if there is none."""
    if lo > limit or hi < -limit:
        return -limit, limit
    return lo if lo > -limit else -limit, hi if hi < limit else limit


@helper
def box_in_circle(lon, lat, entries, circle):
    """Are the corners of the box of two entries in the circle, and with them all of it?"""
    centre = entries[circle].lo
    reach = entries[circle].weight - SLACK_M
    if reach < 0.0 or entries[circle].weight > HALF_TURN_M / 2.0 - 1.0:
        return False
    west, east = clipped(lon.lo, lon.hi, 180.0)
    south, north = clipped(lat.lo, lat.hi, 90.0)
    if west < centre - 180.0 or east > centre + 180.0:
        return False
    for corner in range(4):
        x, y = east if corner & 1 else west, north if corner & 2 else south
        if not is_near(x, y, entries, circle, reach):
            return False
    return True


@helper
def find_main(store, slot, dim):
    """The position of the row's main entry for the dimension, those that narrow it left out; -1 if there is none."""
    start = np.int64(store.rows[slot].start)
    for at in range(np.int64(store.rows[slot].count)):
        entry = store.entries[start + at]
        if entry.dim == dim and not entry.kind & NARROWS:
            return np.int64(at)
    return np.int64(-1)


@helper
def implies_circle(narrow, slot, lon, entries, circle):
    """Does the point predicate whose longitude is entry `lon` of the narrow row imply the circle?"""
    radius = entries[circle].weight
    if radius >= HALF_TURN_M:
        return True
    start, count = np.int64(narrow.rows[slot].start), np.int64(narrow.rows[slot].count)
    if lon < 0 or lon + 1 == count or not narrow.entries[start + lon + 1].kind & JOINED:
        return False
    first = start + lon
    if radius > 0.0 and box_in_circle(narrow.entries[first], narrow.entries[first + 1], entries, circle):
        return True
    for at in range(first + 2, start + count):
        entry = narrow.entries[at]
        if not entry.kind & NARROWS or entry.kind == GRADED:
            break
        if entry.kind == ROUND and circle_implies(narrow.entries, start + np.int64(entry.more), entries, circle):
            return True
    return False


@helper
def implies_region(narrow, slot, lon, entries, word):
    """Does the point predicate whose longitude is entry `lon` of the narrow row imply the region at `word`?"""
    start, count = np.int64(narrow.rows[slot].start), np.int64(narrow.rows[slot].count)
    if lon < 0 or lon + 1 == count or not narrow.entries[start + lon + 1].kind & JOINED:
        return False
    first = start + lon
    west, east = clipped(narrow.entries[first].lo, narrow.entries[first].hi, 180.0)
    south, north = clipped(narrow.entries[first + 1].lo, narrow.entries[first + 1].hi, 90.0)
    if box_in_region(entries, word, west, east, south, north):
        return True
    accepts = np.int64(read_word(entries, word + 1))
    for at in range(first + 2, start + count):
        entry = narrow.entries[at]
        if not entry.kind & NARROWS:
            break
        if entry.kind != SHAPED:
            continue
        own = WORDS * (start + np.int64(entry.more))
        if np.int64(read_word(narrow.entries, own + 1)) & ~accepts == 0 and same_region(
            narrow.entries, own, entries, word
        ):
            return True
    return False


@helper
def is_counted(store, slot):
    """Has the row counts of values, so that no single hull tells what it needs? O(entries)."""
    start = np.int64(store.rows[slot].start)
    for at in range(np.int64(store.rows[slot].count)):
        if store.entries[start + at].kind == COUNTED:
            return True
    return False


@helper
def needs_within(narrow, slot, head, wide, set_w):
    """Does the predicate at `head` of the narrow row need a value among the wide intervals? O(its counts x intervals)."""
    start, count = np.int64(narrow.rows[slot].start), np.int64(narrow.rows[slot].count)
    entries = narrow.entries
    if set_covers(wide, set_w, entries, parts_of(entries, start, head)):
        return True
    at = head + 1
    while at < count and entries[start + at].kind == COUNTED:
        parts, (least, _) = parts_of(entries, start, at), count_bounds(entries, start, at)
        if least == np.float64(parts[1]):  # each of them is needed
            for i in range(parts[1]):
                if set_covers(wide, set_w, entries, one_part(parts, i)):
                    return True
        elif least > 0.0 and set_covers(wide, set_w, entries, parts):
            return True
        at += 1
    return False


@helper
def same_parts(wide, set_w, narrow, set_n):
    """Are the intervals of both sets, which have as many, the same?"""
    for i in range(set_w[1]):
        if part_lo(wide, set_w[0], set_w[2], i) != part_lo(narrow, set_n[0], set_n[2], i):
            return False
        if part_hi(wide, set_w[0], set_w[2], i) != part_hi(narrow, set_n[0], set_n[2], i):
            return False
    return True


@helper
def has_count(narrow, slot, head, wide, set_w, least_w, most_w):
    """Has the predicate at `head` of the narrow row a count that implies the wide one by itself? O(counts x intervals)."""
    start, count = np.int64(narrow.rows[slot].start), np.int64(narrow.rows[slot].count)
    entries, at = narrow.entries, head + 1
    while at < count and entries[start + at].kind == COUNTED:
        parts, (least, most) = parts_of(entries, start, at), count_bounds(entries, start, at)
        if most_w == 0.0:
            if most == 0.0 and set_covers(entries, parts, wide, set_w):
                return True
        elif most > 0.0 and least >= least_w and most <= most_w and parts[1] == set_w[1]:
            if same_parts(wide, set_w, entries, parts):
                return True
        at += 1
    return False


@helper
def implies_count(narrow, slot, head, wide, start_w, at_w):
    """Does the predicate at `head` of the narrow row imply the COUNTED entry of the wide one?"""
    if head < 0 or narrow.entries[np.int64(narrow.rows[slot].start) + head].kind == ABSENT:
        return False
    set_w, (least, most) = parts_of(wide, start_w, at_w), count_bounds(wide, start_w, at_w)
    if has_count(narrow, slot, head, wide, set_w, least, most):
        return True
    if most != np.inf:
        return False
    if least == 1.0:
        return needs_within(narrow, slot, head, wide, set_w)
    for i in range(set_w[1]):
        if not needs_within(narrow, slot, head, wide, one_part(set_w, i)):
            return False
    return True


@helper
def row_covers(wide, slot_w, narrow, slot_n):
    """Does every event that the narrow row holds for satisfy the wide row? O(entries x entries + intervals)."""
    start_w, start_n = np.int64(wide.rows[slot_w].start), np.int64(narrow.rows[slot_n].start)
    for at in range(np.int64(wide.rows[slot_w].count)):
        entry = wide.entries[start_w + at]
        other = find_main(narrow, slot_n, entry.dim)
        if entry.kind == COUNTED:
            if not implies_count(narrow, slot_n, other, wide.entries, start_w, at):
                return False
            continue
        if entry.kind == SHAPED:
            word = WORDS * (start_w + np.int64(entry.more))
            if not implies_region(narrow, slot_n, other, wide.entries, word):
                return False
            continue
        if entry.kind == GRADED:
            continue
        if entry.kind & NARROWS:
            if not implies_circle(narrow, slot_n, other, wide.entries, start_w + np.int64(entry.more)):
                return False
            continue
        if other < 0:
            return False
        is_absent = narrow.entries[start_n + other].kind == ABSENT
        if entry.kind == ABSENT or is_absent:
            if entry.kind == ABSENT and is_absent:
                continue
            return False
        if not needs_within(narrow, slot_n, other, wide.entries, parts_of(wide.entries, start_w, at)):
            return False
    return True


@helper
def head_of(store, slot):
    """The first slot of the subscription that the row belongs to."""
    return first_slot(store, store.rows[slot].id) if store.rows[slot].flags & SIBLING else np.int64(slot)


@subroutine
def subscription_covers(wide, slot_w, narrow, slot_n):
    """Is every row of the narrow subscription covered by some row of the wide one? The slots are of any of their rows."""
    head, n = head_of(wide, slot_w), head_of(narrow, slot_n)
    while n != np.int64(NONE):
        w = head
        while w != np.int64(NONE) and not row_covers(wide, w, narrow, n):
            w = np.int64(wide.rows[w].next)
        if w == np.int64(NONE):
            return False
        n = np.int64(narrow.rows[n].next)
    return True
