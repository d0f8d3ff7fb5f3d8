"""The row store: the exact record of every row, found by slot or by subscription id.

Layout   rows[slot] (32 B) -> entries[start : start + size] (32 B each), `count` main entries, then their extras.
         A main entry is one dimension of a predicate: the hull [lo, hi] of its interval set, its weight, its kind bits.
         SET     more than one interval: the exact ones are extras from entry start + entry.more on, as words of 8 bytes: their
                 number, then lo and hi of each; if all are points, minus their number, then the keys (`parts_of`)
         ABSENT  holds where the event lacks the dimension; lo = hi = NaN, so a plain hull test fails
         JOINED  belongs to the predicate before it (latitude, circle); weight 0
         NARROWS a part of the predicate before it that only verification reads; hull is everything. One of
           ROUND   a circle; three extras at entry.more: (centre lon, lat, signed radius), (x, y, z), (chord^2, -, -), the
                   first with the latitude's dimension in `more`
           COUNTED intervals as those of a SET, then two words more: how many of them the value meets, least and most
           SHAPED  a region, as words (`kernels.regions`)
           GRADED  narrows nothing: its weight counts by closeness (`grades`). The weight of the predicate's first entry is the
                   sum of all its weights, a bound; the weight that counts in full is with the first grade
         flags: SIBLING, and above it an upper bound of the row's score where no weight of an event is above 1: the upper half
         of a float32, rounded up (`max_score`). A top-k search skips the entries of a row whose bound is too low.
Ceilings ceilings[slot] (64 B), as long as `rows` once a row has had a grade, else empty: how high the row can score (`CEILING`),
         which `ceilings` evaluates for an event. A search for the k best reads it in place of the row.
Table    `id_table`, subscription id -> its first slot (times eight); rows[slot].next chains the rest in the order in which
         they were added.
Pools    free[: counts[FREE_SLOTS]] lists the free slots, the next to be given out last. A free slot keeps its region of
         entries for a row of the same size; a row of another size returns that region to the free regions, which are chained
         by size class through entries[start].more.
Invariant  every live row is in exactly one chain, chains and free lists share nothing (`RowStore.check`).

One writer, no reader at the same time. Kernels never grow a pool: they stop before any change and return how far they got.
"""

from __future__ import annotations

import math

import numpy as np

from matchwood.decay import GAUSSIAN
from matchwood.encode import arrays
from matchwood.jit.decorators import helper, kernel, subroutine
from matchwood.jit.intrinsics import prefetch, read_word, write_word
from matchwood.jit.state import State, array
from matchwood.store.kernels.distances import PREFETCH_IDS
from matchwood.store.kernels.id_table import enter, find, forget, home, number_in
from matchwood.store.kernels.places import chord_squared, rate_of, unit_vector
from matchwood.store.kernels.regions import region_words, write_region
from matchwood.store.kernels.rounding import rounded_down, rounded_up

ROW = np.dtype(
    [
        ("id", "i8"),
        ("priority", "f8"),
        ("start", "u4"),
        ("size", "u4"),
        ("count", "u2"),
        ("flags", "u2"),
        ("next", "u4"),
    ]
)
ENTRY = np.dtype([("lo", "f8"), ("hi", "f8"), ("weight", "f8"), ("dim", "u2"), ("kind", "u2"), ("more", "u4")])
# No row scores above `full`, less what its first two grades lose by distance: weight x (1 - closeness). A place is the origin
# of a grade as the float32s x, y (in `key`) and z of its unit vector; a number is the key. With t = slope x (distance - offset),
# closeness is 1 - t, 2 ** -t or 2 ** -(t * t). All numbers are rounded so that nothing lost is lost in truth. Kinds: 0 for no
# grade, else 1 + the curve, + BELOW or ABOVE if all values on that side of the key are best too.
CEILING = np.dtype(
    [
        (name + str(g), kind)
        for name, kind in (("key", "u8"), ("z", "f4"), ("slope", "f4"), ("offset", "f4"))
        for g in (0, 1)
    ]
    + [
        (name + str(g), kind)
        for name, kind in (("weight", "f4"), ("dim", "u2"), ("lat", "u2"), ("kind", "u1"))
        for g in (0, 1)
    ]
    + [("pad", "u2"), ("full", "f4")]
)
BELOW, ABOVE, PLACE = np.uint8(4), np.uint8(8), np.uint8(16)

NONE = np.uint32(0xFFFFFFFF)
FREE = np.int64(-1)
HEAD_SHIFT = 1  # slot * 8 is the number of a row in the table, slot * 4 the position of its id in `heads`
MAX_SLOTS = 1 << 29
MAX_COUNT = 0xFFFF  # main entries that a row may have

PLAIN, SET, ABSENT, JOINED, NARROWS = np.uint16(0), np.uint16(1), np.uint16(2), np.uint16(4), np.uint16(8)
ROUND = np.uint16(JOINED | NARROWS)  # a circle
COUNTED = np.uint16(JOINED | NARROWS | 16)
SHAPED = np.uint16(JOINED | NARROWS | 32)  # a region
GRADED = np.uint16(JOINED | NARROWS | 64)
_HAS_PARTS = np.uint16(SET | 16)
SIBLING = np.uint16(1)  # row flag: its subscription has other rows

# Positions in `Store.counts`. Plain numbers: with an IntEnum the kernels of this file take a tenth longer to compile.
SLOTS = 0  # ever given out
LIVE = 1  # rows
SUBSCRIPTIONS = 2
FREE_SLOTS = 3
ENTRIES = 4  # of the pool that are used or in a free region
SIBLINGS = 5  # rows of subscriptions that have several
DIMS = 6  # one more than the largest dimension of any row so far
REGIONS = 8  # the heads of the free lists of each size class follow
EXACT_CLASSES = 64
COUNTS = REGIONS + EXACT_CLASSES + 1 + 32

CIRCLE_EXTRAS = 3
GRADE_EXTRAS = 4  # see `grades`
WORDS = 4  # of an entry
LARGE = 1e38  # less than the largest float32
ROUNDING = 1e-9  # relative; more than the rounding error of a sum of as many weights as a row can have

_MORE, _JOINED, _ABSENT, _CIRCLE = arrays.MORE, arrays.JOINED, arrays.ABSENT, arrays.CIRCLE
_COUNT, _PART = arrays.COUNT, arrays.PART
_REGION, _RING, _VERTEX = arrays.REGION, arrays.RING, arrays.VERTEX
_GRADE, _CURVE = arrays.GRADE, arrays.CURVE


class Store(State):
    """The state of a row store."""

    rows: np.ndarray = array(ROW)
    heads: np.ndarray = array(np.int64)  # the memory of `rows`, four words each, the first the id
    entries: np.ndarray = array(ENTRY)
    ceilings: np.ndarray = array(CEILING)  # by slot, or empty
    table: np.ndarray = array(np.uint32)  # see `kernels.id_table`
    free: np.ndarray = array(np.uint32)  # as long as `rows`
    counts: np.ndarray = array(np.int64)  # see the positions above


@helper
def size_class(size):
    """The class of regions that hold `size` entries: exact up to 64, then powers of two."""
    if size <= EXACT_CLASSES:
        return size
    bits = 7
    while (np.int64(1) << bits) < size:
        bits += 1
    return EXACT_CLASSES + bits - 6


@helper
def class_size(class_):
    return class_ if class_ <= EXACT_CLASSES else np.int64(1) << (class_ - EXACT_CLASSES + 6)


@helper
def first_slot(store, id_):
    """The first slot of a subscription, or -1."""
    cell = store.table[find(store.table, store.heads, HEAD_SHIFT, id_)]
    return np.int64(-1) if cell == NONE else slot_in(cell)


@helper
def slot_in(cell):
    """The slot that a cell of the table names."""
    return number_in(cell) >> 3


@helper
def parts_of(entries, start, at):
    """(first word, number, words of each) of the intervals of the main entry start + at, for `part_lo` and `part_hi`."""
    entry = entries[start + at]
    if not entry.kind & _HAS_PARTS:
        return WORDS * (start + at), np.int64(1), np.int64(2)
    first = WORDS * (start + np.int64(entry.more))
    number = np.int64(read_word(entries, first))
    if number < 0:
        return first + 1, -number, np.int64(1)
    return first + 1, number, np.int64(2)


@helper
def part_lo(entries, first, width, i):
    """The lower end of interval i of those that `parts_of` told of."""
    return read_word(entries, first + i * width)


@helper
def part_hi(entries, first, width, i):
    """The upper end of it."""
    return read_word(entries, first + (i + 1) * width - 1)


@helper
def count_bounds(entries, start, at):
    """(least, most) of the COUNTED entry start + at."""
    first, number, width = parts_of(entries, start, at)
    return read_word(entries, first + number * width), read_word(entries, first + number * width + 1)


@helper
def set_shape(rows, e, further):
    """(intervals, words of each) of those that begin with entry e of the CSR arrays and go on with the kind `further`."""
    last, points = e + 1, rows.lo[e] == rows.hi[e]
    while last < rows.kinds.size and rows.kinds[last] == further:
        points &= rows.lo[last] == rows.hi[last]
        last += 1
    return last - e, np.int64(1) if points else np.int64(2)


@helper
def extras_of(words):
    """How many entries hold so many words."""
    return (words + WORDS - 1) // WORDS


@helper
def shape_of(rows, r):
    """(main entries, extras) that row r of the CSR arrays needs."""
    main = 0
    extras = 0
    begin, end = rows.offsets[r], rows.offsets[r + 1]
    for e in range(begin, end):
        kind = rows.kinds[e]
        if kind == _MORE or kind == _PART or kind == _RING or kind == _VERTEX or kind == _CURVE:
            continue
        main += 1
        if kind == _CIRCLE:
            extras += CIRCLE_EXTRAS
        elif kind == _GRADE:
            extras += GRADE_EXTRAS
        elif kind == _COUNT:
            number, width = set_shape(rows, e + 1, _PART)
            extras += extras_of(number * width + 3)
        elif kind == _REGION:
            extras += extras_of(region_words(rows, e))
        elif kind != _ABSENT and e + 1 < end and rows.kinds[e + 1] == _MORE:
            number, width = set_shape(rows, e, _MORE)
            extras += extras_of(number * width + 1)
    return main, extras


@kernel
def space_needed(rows, first):
    """How many entries the rows from `first` on take in the store, extras and rounding of large regions included."""
    total = np.int64(0)
    for r in range(first, rows.ids.size):
        main, extras = shape_of(rows, r)
        total += class_size(size_class(main + extras))
    return total


@helper
def only_intervals(rows, r):
    """Does row r of the CSR arrays consist of single intervals, no sets, circles or absences? O(entries), without branches."""
    kinds = np.uint8(0)
    for e in range(np.uint64(rows.offsets[r]), np.uint64(rows.offsets[r + 1])):  # signed indices would become gathers
        kinds |= rows.kinds[e]
    return kinds | np.uint8(_JOINED) == np.uint8(_JOINED)  # INTERVAL is 0


@helper
def write_interval(entry, rows, e):
    """Write entry e of the CSR arrays, a single interval."""
    entry.lo, entry.hi, entry.weight = rows.lo[e], rows.hi[e], rows.weight[e]
    entry.dim, entry.kind, entry.more = rows.dims[e], JOINED if rows.kinds[e] == _JOINED else PLAIN, NONE


@helper
def is_written(entry, rows, e):
    """Is the entry what `write_interval` would write?"""
    same = (entry.lo == rows.lo[e]) & (entry.hi == rows.hi[e]) & (entry.weight == rows.weight[e])
    return same & ((entry.kind == JOINED) == (rows.kinds[e] == _JOINED))


@helper
def write_intervals(store, rows, r, start):
    """`write_entries` of a row of single intervals. O(entries), without branches."""
    begin = np.uint64(rows.offsets[r])
    most = np.int64(0)
    for e in range(begin, np.uint64(rows.offsets[r + 1])):
        write_interval(store.entries[np.uint64(start) + e - begin], rows, e)
        most = max(most, np.int64(rows.dims[e]) + 1)
    store.counts[DIMS] = max(store.counts[DIMS], most)


@helper
def write_entries(store, rows, r, start, main):
    """Copy row r of the CSR arrays into the region at `start`. O(entries)."""
    entries = store.entries
    at = start
    extra = start + main
    latitude = NONE
    head = start
    dims = store.counts[DIMS]
    for e in range(rows.offsets[r], rows.offsets[r + 1]):
        kind, dim = rows.kinds[e], rows.dims[e]
        if kind == _MORE:
            set_ = entries[at - 1]
            if not set_.kind & SET:
                set_.kind |= SET
                set_.more = np.uint32(extra - start)
                extra += extras_of(write_set(entries, rows, e - 1, _MORE, extra))
            set_.hi = rows.hi[e]
            continue
        if kind == _PART or kind == _RING or kind == _VERTEX or kind == _CURVE:
            continue
        if kind == _GRADE:
            write_entry(entries[at], -np.inf, np.inf, 0.0, dim, GRADED, np.uint32(extra - start))
            write_grade(entries, rows, e, extra, entries[head], latitude)
            extra += GRADE_EXTRAS
        elif kind == _COUNT:
            write_entry(entries[at], -np.inf, np.inf, 0.0, dim, COUNTED, np.uint32(extra - start))
            words = write_set(entries, rows, e + 1, _PART, extra)
            write_word(entries, WORDS * np.int64(extra) + words, rows.lo[e])
            write_word(entries, WORDS * np.int64(extra) + words + 1, rows.hi[e])
            extra += extras_of(words + 2)
        elif kind == _REGION:
            write_entry(entries[at], -np.inf, np.inf, 0.0, dim, SHAPED, np.uint32(extra - start))
            extra += extras_of(write_region(entries, rows, e, WORDS * np.int64(extra), latitude))
        elif kind == _CIRCLE:
            write_entry(entries[at], -np.inf, np.inf, 0.0, dim, ROUND, np.uint32(extra - start))
            write_entry(entries[extra], rows.lo[e], rows.hi[e], rows.weight[e], np.uint16(0), PLAIN, latitude)
            x, y, z = unit_vector(rows.lo[e], rows.hi[e])
            write_entry(entries[extra + 1], x, y, z, np.uint16(0), PLAIN, NONE)
            radius = chord_squared(abs(rows.weight[e]))
            write_entry(entries[extra + 2], radius, 0.0, 0.0, np.uint16(0), PLAIN, NONE)
            extra += CIRCLE_EXTRAS
        else:
            stored = PLAIN
            if kind == _JOINED:
                stored = JOINED
                latitude = np.uint32(dim)
            else:
                head, latitude = at, NONE
                if kind == _ABSENT:
                    stored = ABSENT
            write_entry(entries[at], rows.lo[e], rows.hi[e], rows.weight[e], dim, stored, NONE)
        dims = max(dims, np.int64(dim) + 1)
        at += 1
    store.counts[DIMS] = dims


@helper
def write_grade(entries, rows, e, extra, head, latitude):
    """Write the grade that begins with entry e of the CSR arrays as extras, and add its weight to the bound of its head."""
    curve = np.int64(rows.hi[e + 2])
    # The first grade has the weight of its predicate that counts in full, later ones NaN.
    full = head.weight if rows.kinds[e - 1] != _CURVE else np.nan
    head.weight += rows.weight[e]
    write_entry(entries[extra], rows.lo[e], rows.hi[e], rows.weight[e], np.uint16(0), PLAIN, latitude)
    x, y, z = 0.0, 0.0, 0.0
    if latitude != NONE:
        x, y, z = unit_vector(rows.lo[e], rows.hi[e])
    write_entry(entries[extra + 1], x, y, z, np.uint16(0), PLAIN, NONE)
    write_entry(entries[extra + 2], rows.lo[e + 1], rows.hi[e + 1], rows.lo[e + 2], np.uint16(curve), PLAIN, NONE)
    write_entry(entries[extra + 3], rate_of(curve, rows.lo[e + 2]), full, 0.0, np.uint16(0), PLAIN, NONE)


@helper
def has_room_for_grades(store, rows, r, extras):
    """Is there a place for the ceiling of row r of the CSR arrays, which has so many extras, if it has grades? O(entries)."""
    if store.ceilings.size > 0 or extras < GRADE_EXTRAS:
        return True
    graded = False
    for e in range(rows.offsets[r], rows.offsets[r + 1]):
        graded |= rows.kinds[e] == _GRADE
    return not graded


@subroutine
def raise_ceiling(store, slot):
    """Write the ceiling of a row that has changed, if rows have ceilings. O(entries)."""
    if store.ceilings.size == 0:
        return
    row, entries, ceiling = store.rows[slot], store.entries, store.ceilings[slot]
    start, head, grades, weights = np.int64(row.start), np.int64(0), np.int64(0), 0.0
    ceiling.kind0 = ceiling.kind1 = np.uint8(0)
    for at in range(start, start + np.int64(row.count)):
        entry = entries[at]
        weights += entry.weight
        if not entry.kind & JOINED:
            head = at
        elif entry.kind == GRADED and grades < 2:
            first, dim = start + np.int64(entry.more), entries[head].dim
            kind, lat, key, z = origin_of(entries, first)
            slope, offset, weight = steepness_of(entries, first)
            if grades == 0:
                ceiling.key0, ceiling.z0, ceiling.kind0, ceiling.dim0, ceiling.lat0 = key, z, kind, dim, lat
                ceiling.slope0, ceiling.offset0, ceiling.weight0 = slope, offset, weight
            else:
                ceiling.key1, ceiling.z1, ceiling.kind1, ceiling.dim1, ceiling.lat1 = key, z, kind, dim, lat
                ceiling.slope1, ceiling.offset1, ceiling.weight1 = slope, offset, weight
            grades += np.int64(kind != 0)
    ceiling.full = rounded_up(row.priority + weights + ROUNDING * (abs(row.priority) + weights))


@kernel
def raise_ceilings(store, slots):
    """Write the ceilings of the rows at these slots. O(entries)."""
    for i in range(slots.size):
        raise_ceiling(store, np.int64(slots[i]))


@helper
def origin_of(entries, first):
    """(kind, lat, key, z) of the grade whose extras begin at `first`, as `CEILING` has them."""
    best, vector = entries[first], entries[first + 1]
    kind = np.uint8(entries[first + 2].dim) + np.uint8(1)
    lat, key, z = np.uint16(0), np.uint64(0), np.float32(vector.weight)
    if best.more != NONE:
        kind |= PLACE
        lat = np.uint16(best.more)
        x, y = np.float32(vector.lo).view(np.uint32), np.float32(vector.hi).view(np.uint32)
        key = np.uint64(x) | (np.uint64(y) << np.uint64(32))
    elif best.lo == best.hi:
        key = np.float64(best.lo).view(np.uint64)
    elif best.lo == -np.inf:
        kind |= BELOW
        key = np.float64(best.hi).view(np.uint64)
    elif best.hi == np.inf:
        kind |= ABOVE
        key = np.float64(best.lo).view(np.uint64)
    else:
        kind = np.uint8(0)  # an interval of best values; no text makes one
    return kind, lat, key, z


@helper
def steepness_of(entries, first):
    """(slope, offset, weight) of the grade whose extras begin at `first`, as `CEILING` has them."""
    shape, rest = entries[first + 2], entries[first + 3]
    rate = math.sqrt(rest.lo) if shape.dim == GAUSSIAN else rest.lo
    slope = rounded_down(min(rate / shape.lo * (1.0 - 1e-12), LARGE))
    return slope, rounded_up(shape.hi), rounded_down(min(entries[first].weight, LARGE))


@helper
def write_set(entries, rows, e, further, extra):
    """Write the intervals that begin with entry e of the CSR arrays as extras; return how many words. O(intervals)."""
    number, width = set_shape(rows, e, further)
    word = WORDS * np.int64(extra)
    write_word(entries, word, np.float64(number if width == 2 else -number))
    for i in range(number):
        write_word(entries, word + 1 + i * width, rows.lo[e + i])
        write_word(entries, word + (i + 1) * width, rows.hi[e + i])
    return number * width + 1


@helper
def write_entry(entry, lo, hi, weight, dim, kind, more):
    entry.lo, entry.hi, entry.weight, entry.dim, entry.kind, entry.more = lo, hi, weight, dim, kind, more


@helper
def prefetch_entries(store, row):
    """Prefetch the entries of a row, as far as eight cache lines go."""
    start = np.int64(row.start)
    for at in range(start, start + min(np.int64(row.size), 16), 2):
        prefetch(store.entries, at)


@helper
def take_row(store, needed):
    """Take a slot with room for so many entries; -1, and nothing is changed, if a pool is full. O(1)."""
    counts = store.counts
    is_new = counts[FREE_SLOTS] == 0
    slot = counts[SLOTS] if is_new else np.int64(store.free[counts[FREE_SLOTS] - 1])
    if slot >= store.rows.size:
        return np.int64(-1)
    row = store.rows[slot]
    class_ = size_class(needed)
    size = class_size(class_)
    if np.int64(row.size) != size:
        region = counts[REGIONS + class_]
        if region == np.int64(NONE) and counts[ENTRIES] + size > store.entries.size:
            return np.int64(-1)
        if row.size > 0:
            freed = REGIONS + size_class(np.int64(row.size))
            store.entries[np.int64(row.start)].more = np.uint32(counts[freed])
            counts[freed] = np.int64(row.start)
        if size == 0:
            region = np.int64(0)
        elif region == np.int64(NONE):
            region = counts[ENTRIES]
            counts[ENTRIES] += size
        else:
            counts[REGIONS + class_] = np.int64(store.entries[region].more)
        row.start, row.size = np.uint32(region), np.uint32(size)
    if is_new:
        counts[SLOTS] += 1
    else:
        counts[FREE_SLOTS] -= 1
    return slot


@helper
def rank_row(row, rows, r):
    """Write the priority of row r of the CSR arrays and the upper bound of its score. O(entries)."""
    weights = 0.0
    for e in range(np.uint64(rows.offsets[r]), np.uint64(rows.offsets[r + 1])):
        weights += rows.weight[e] if rows.kinds[e] != _CIRCLE else 0.0
    write_priority(row, rows.priority[r], weights)


@helper
def write_priority(row, priority, weights):
    """Write the priority of a row and, with the sum of its weights, the upper bound of its score.

    The rounding error of a sum depends on its terms, not on the sum, which a negative priority can bring near zero.
    """
    row.priority = priority
    bound = row.priority + weights + ROUNDING * (abs(row.priority) + weights)
    upper = (np.float32(max(bound, 0.0)).view(np.uint32) >> np.uint32(16)) + np.uint32(1)
    row.flags = (row.flags & SIBLING) | np.uint16(upper << np.uint32(1))


@helper
def max_score(row):
    """An upper bound of the row's score; NaN where that is past float32."""
    return np.uint32(np.uint32(row.flags >> np.uint16(1)) << np.uint32(16)).view(np.float32)


@kernel
def add_rows(store, rows, first, slots):
    """Add the rows first, first + 1, ...; return how many are there, less than all if a pool is full.

    slots[r] is where row r went. Ids must be new to the store, and the rows of one id adjacent. O(entries).
    """
    counts, ids = store.counts, rows.ids
    if 2 * (counts[SUBSCRIPTIONS] + ids.size - first) > store.table.size:
        return first
    for r in range(first, ids.size):
        prefetch(store.table, home(store.table, ids[min(r + PREFETCH_IDS, ids.size - 1)]))
        main, extras = shape_of(rows, r)
        if not has_room_for_grades(store, rows, r, extras):
            return r
        slot = take_row(store, main + extras)
        if slot < 0:
            return r
        slots[r] = np.uint32(slot)
        row = store.rows[slot]
        row.id, row.count, row.flags, row.next = ids[r], np.uint16(main), np.uint16(0), NONE
        rank_row(row, rows, r)
        write_entries(store, rows, r, np.int64(row.start), main)
        raise_ceiling(store, slot)
        counts[LIVE] += 1
        if r > 0 and ids[r - 1] == ids[r]:
            chain(store, np.int64(slots[r - 1]), slot)
        else:
            enter(store.table, ids[r], slot << 3)
            counts[SUBSCRIPTIONS] += 1
    return ids.size


@helper
def chain(store, before, slot):
    """Put the slot behind that of the row of the same subscription that was added before it."""
    previous, row = store.rows[before], store.rows[slot]
    store.counts[SIBLINGS] += 1 if previous.flags & SIBLING else 2
    previous.flags |= SIBLING
    row.flags |= SIBLING
    previous.next = np.uint32(slot)


@kernel
def first_slots(store, ids, slots):
    """slots[i] = the first slot of subscription ids[i], NONE if it is unknown. O(ids)."""
    last = ids.size - 1
    for i in range(ids.size):
        prefetch(store.table, home(store.table, ids[min(i + PREFETCH_IDS, last)]))
        slots[i] = np.uint32(first_slot(store, ids[i]))  # NONE is -1 in 32 bits


@kernel
def remove_ids(store, ids):
    """Remove the rows of all these subscriptions, each known and named once. O(rows)."""
    counts, table = store.counts, store.table
    last = ids.size - 1
    for i in range(ids.size):
        prefetch(table, home(table, ids[min(i + PREFETCH_IDS, last)]))
        at = find(table, store.heads, HEAD_SHIFT, ids[i])
        slot = slot_in(table[at])
        forget(table, store.heads, HEAD_SHIFT, at)
        counts[SUBSCRIPTIONS] -= 1
        while slot != np.int64(NONE):
            row = store.rows[slot]
            if row.flags & SIBLING:
                counts[SIBLINGS] -= 1
            row.id = FREE
            store.free[counts[FREE_SLOTS]] = np.uint32(slot)
            counts[FREE_SLOTS] += 1
            counts[LIVE] -= 1
            slot = np.int64(row.next)


@kernel
def rehash(store, table):
    """Enter all that the store's table holds into the new, empty one. O(cells)."""
    for i in range(store.table.size):
        if store.table[i] != NONE:
            number = number_in(store.table[i])
            enter(table, store.heads[number >> HEAD_SHIFT], number)
