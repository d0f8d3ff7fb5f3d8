"""The exact test of covering: one row of a store against one row of another, entry by entry. `covering.exact`, compiled.

Both say the same to the bit: places are compared by the same functions of `geo`. These functions are not inlined: they judge
the few candidates that a search leaves, and only where hulls alone do not decide.
"""

from __future__ import annotations

import numpy as np

from matchwood.geo import HALF_TURN_M
from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.places import chord_squared, is_within, unit_vector
from matchwood.store.kernels.rows import ABSENT, CIRCLE, JOINED, NONE, SET

SLACK_M = 1e-3
LARGEST_M = 15_000_000.0
COMPLEX = np.uint16(SET | CIRCLE)


@helper
def is_complex(store, slot):
    """Does the row hold more than its hulls tell: interval sets, circles? O(entries)."""
    start = np.int64(store.rows[slot].start)
    for at in range(np.int64(store.rows[slot].count)):
        if store.entries[start + at].kind & COMPLEX:
            return True
    return False


@helper
def parts_of(entries, start, at):
    """(first, number) of the intervals of the main entry start + at."""
    entry = entries[start + at]
    if not entry.kind & SET:
        return start + at, np.int64(1)
    first = start + np.int64(entry.more)
    return first, np.int64(entries[first].more)


@helper
def set_covers(wide, first_w, count_w, narrow, first_n, count_n):
    """Does each narrow interval lie in a wide one? Both ascend. O(count_w + count_n)."""
    w = np.int64(0)
    for n in range(count_n):
        lo, hi = narrow[first_n + n].lo, narrow[first_n + n].hi
        while w < count_w and wide[first_w + w].hi < hi:
            w += 1
        if w == count_w or wide[first_w + w].lo > lo:
            return False
    return True


@helper
def is_near(lon, lat, centre_lon, centre_lat, distance):
    x, y, z = unit_vector(centre_lon, centre_lat)
    return is_within(lon, lat, x, y, z, chord_squared(distance))


@kernel
def circle_implies(narrow, wide):
    """Does every place that satisfies `narrow` satisfy `wide`? Both are first extras of CIRCLE entries."""
    r_n, r_w = abs(narrow.weight), abs(wide.weight)
    outside_n, outside_w = narrow.weight < 0.0, wide.weight < 0.0
    inner, outer = (r_w, r_n) if outside_w else (r_n, r_w)
    if narrow.lo == wide.lo and narrow.hi == wide.hi and outside_n == outside_w:
        return chord_squared(inner) <= chord_squared(outer)
    if max(r_n, r_w) > LARGEST_M:
        return False
    if outside_w and not outside_n:
        return not is_near(narrow.lo, narrow.hi, wide.lo, wide.hi, r_n + r_w + SLACK_M)
    if outside_w != outside_n:
        return False
    spare = outer - inner - SLACK_M
    return spare >= 0.0 and is_near(narrow.lo, narrow.hi, wide.lo, wide.hi, spare)


@kernel
def box_in_circle(lon_lo, lon_hi, lat_lo, lat_hi, circle):
    """Are the corners of the box in the circle, and with them all of it?"""
    reach = circle.weight - SLACK_M
    if reach < 0.0 or circle.weight > HALF_TURN_M / 2.0 - 1.0:
        return False
    west, east = max(lon_lo, -180.0), min(lon_hi, 180.0)
    if west > east:
        west, east = -180.0, 180.0
    south, north = max(lat_lo, -90.0), min(lat_hi, 90.0)
    if south > north:
        south, north = -90.0, 90.0
    if west < circle.lo - 180.0 or east > circle.lo + 180.0:
        return False
    return (
        is_near(west, south, circle.lo, circle.hi, reach)
        and is_near(west, north, circle.lo, circle.hi, reach)
        and is_near(east, south, circle.lo, circle.hi, reach)
        and is_near(east, north, circle.lo, circle.hi, reach)
    )


@helper
def find_main(store, slot, dim):
    """Where the row's main entry of the dimension stands among its entries, circles left out; -1 if there is none."""
    start = np.int64(store.rows[slot].start)
    for at in range(np.int64(store.rows[slot].count)):
        entry = store.entries[start + at]
        if entry.dim == dim and not entry.kind & CIRCLE:
            return np.int64(at)
    return np.int64(-1)


@kernel
def implies_circle(store_n, slot_n, dim, circle):
    """Does the point predicate on longitude `dim` of the narrow row imply the circle?"""
    if circle.weight >= HALF_TURN_M:
        return True
    lon = find_main(store_n, slot_n, dim)
    start = np.int64(store_n.rows[slot_n].start)
    count = np.int64(store_n.rows[slot_n].count)
    if lon < 0 or lon + 1 == count or not store_n.entries[start + lon + 1].kind & JOINED:
        return False
    if circle.weight > 0.0:
        box_lon, box_lat = store_n.entries[start + lon], store_n.entries[start + lon + 1]
        if box_in_circle(box_lon.lo, box_lon.hi, box_lat.lo, box_lat.hi, circle):
            return True
    for at in range(lon + 2, count):
        entry = store_n.entries[start + at]
        if not entry.kind & CIRCLE:
            break
        if circle_implies(store_n.entries[start + np.int64(entry.more)], circle):
            return True
    return False


@kernel
def row_covers(store_w, slot_w, store_n, slot_n):
    """Does every event that the narrow row holds for satisfy the wide row? O(entries x entries + intervals)."""
    start_w, start_n = np.int64(store_w.rows[slot_w].start), np.int64(store_n.rows[slot_n].start)
    for at in range(np.int64(store_w.rows[slot_w].count)):
        entry = store_w.entries[start_w + at]
        if entry.kind & CIRCLE:
            if not implies_circle(store_n, slot_n, entry.dim, store_w.entries[start_w + np.int64(entry.more)]):
                return False
            continue
        other = find_main(store_n, slot_n, entry.dim)
        if other < 0:
            return False
        is_absent = store_n.entries[start_n + other].kind == ABSENT
        if entry.kind == ABSENT or is_absent:
            if entry.kind == ABSENT and is_absent:
                continue
            return False
        first_w, count_w = parts_of(store_w.entries, start_w, at)
        first_n, count_n = parts_of(store_n.entries, start_n, other)
        if not set_covers(store_w.entries, first_w, count_w, store_n.entries, first_n, count_n):
            return False
    return True


@kernel
def subscription_covers(store_w, head_w, store_n, head_n):
    """Is every row of the narrow subscription covered by some row of the wide one? Heads are their first slots."""
    narrow = np.int64(head_n)
    while narrow != np.int64(NONE):
        wide = np.int64(head_w)
        while wide != np.int64(NONE) and not row_covers(store_w, wide, store_n, narrow):
            wide = np.int64(store_w.rows[wide].next)
        if wide == np.int64(NONE):
            return False
        narrow = np.int64(store_n.rows[narrow].next)
    return True


@kernel
def cover_matrix(store, heads, out):
    """out[i, j] = does subscription heads[i] cover heads[j]? For tests and small sets. O(n^2)."""
    for i in range(heads.size):
        for j in range(heads.size):
            out[i, j] = subscription_covers(store, np.int64(heads[i]), store, np.int64(heads[j]))
