"""The row store: the exact record of every row, found by slot or by subscription id.

Layout   rows[slot] (32 B) -> entries[start : start + size] (32 B each), `count` main entries, then their extras.
         A main entry is one dimension of a predicate: the hull [lo, hi] of its interval set, its weight, its kind bits.
         SET     more than one interval: the exact ones are extras at start + entry.more; the first of them has
         their number in `more`
         ABSENT  holds where the event lacks the dimension; lo = hi = NaN, so a plain hull test fails
         JOINED  belongs to the predicate before it (latitude, circle); weight 0
         CIRCLE  hull is everything; three extras at entry.more: (centre lon, lat, signed radius), (x, y, z), (chord^2, -, -),
                 the first with the latitude's dimension in `more`
         flags: SIBLING, and above it the most that the row can score where no weight of an event is above 1: the upper half
         of a float32, rounded up (`most_of`). A search for the k best need not read the entries of a row that cannot be one.
Table    `id_table`, subscription id -> its first slot (times eight); rows[slot].next chains the rest, in the order in which
         they were added.
Pools    free[: counts[FREE_SLOTS]] lists the free slots, the next to be given out last: one sees who comes soon and can ask for
         it, which a chain through the slots hides. A free slot keeps its region of entries, for a row of the same size; one of
         another size leaves it to the free regions, chained by size class through entries[start].more.
Invariant  every live row is in exactly one chain, chains and free lists share nothing (`RowStore.check`).

One writer, no reader at the same time. Kernels never grow a pool: they stop before any change and say how far they got.
"""

from __future__ import annotations

import numpy as np

from matchwood.encode import arrays
from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch
from matchwood.jit.state import State, array
from matchwood.store.kernels.id_table import enter, find, forget, home, number_in, prefetch_bearer
from matchwood.store.kernels.places import chord_squared, unit_vector

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

NONE = np.uint32(0xFFFFFFFF)
FREE = np.int64(-1)
HEAD_SHIFT = 1  # slot * 8 is the number of a row in the table, slot * 4 the place of its id in `heads`
MOST_SLOTS = 1 << 29
MAX_COUNT = 0xFFFF  # main entries that a row may have

PLAIN, SET, ABSENT, JOINED, CIRCLE = np.uint16(0), np.uint16(1), np.uint16(2), np.uint16(4), np.uint16(8)
SIBLING = np.uint16(1)  # row flag: its subscription has other rows

# places in `counts`
SLOTS, LIVE, SUBSCRIPTIONS, FREE_SLOTS, ENTRIES, SIBLINGS, DIMS = 0, 1, 2, 3, 4, 5, 6
REGIONS = 8  # the free list heads of the size classes follow
EXACT_CLASSES = 64
COUNTS = REGIONS + EXACT_CLASSES + 1 + 32

CIRCLE_EXTRAS = 3
ROUNDING = 1e-9  # of what is added: more than sums of as many weights as a row can have may err by
AHEAD = 8  # rows between a prefetch and its use
_ONE = np.uint64(1)

_INTERVAL, _MORE, _JOINED, _ABSENT, _CIRCLE = (
    arrays.INTERVAL,
    arrays.MORE,
    arrays.JOINED,
    arrays.ABSENT,
    arrays.CIRCLE,
)


class Store(State):
    """The state of a row store."""

    rows: np.ndarray = array(ROW)
    heads: np.ndarray = array(np.int64)  # the memory of `rows`, four words each, the first the id
    entries: np.ndarray = array(ENTRY)
    table: np.ndarray = array(np.uint32)  # see `kernels.id_table`
    free: np.ndarray = array(np.uint32)  # as long as `rows`
    counts: np.ndarray = array(np.int64)  # see the places above


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
def prefetch_slot(store, id_):
    """Ask for the row that may have the id; its cell is there already."""
    prefetch_bearer(store.table, store.heads, HEAD_SHIFT, id_)


@helper
def shape_of(rows, r):
    """(main entries, extras) that row r of the CSR arrays needs."""
    main = 0
    extras = 0
    begin, end = rows.offsets[r], rows.offsets[r + 1]
    for e in range(begin, end):
        kind = rows.kinds[e]
        if kind == _MORE:
            extras += 1
            continue
        main += 1
        if kind == _CIRCLE:
            extras += CIRCLE_EXTRAS
        elif kind != _ABSENT and e + 1 < end and rows.kinds[e + 1] == _MORE:
            extras += 1
    return main, extras


@helper
def only_intervals(rows, r):
    """Has row r of the CSR arrays single intervals only, no sets, circles or absences? O(entries), without branches."""
    kinds = np.uint8(0)
    for e in range(np.uint64(rows.offsets[r]), np.uint64(rows.offsets[r + 1])):  # signed places would become gathers
        kinds |= rows.kinds[e]
    return kinds | np.uint8(_JOINED) == np.uint8(_JOINED)  # INTERVAL is 0


@helper
def write_interval(entry, rows, e):
    """Write entry e of the CSR arrays, a single interval."""
    entry.lo, entry.hi, entry.weight = rows.lo[e], rows.hi[e], rows.weight[e]
    entry.dim, entry.kind, entry.more = rows.dims[e], JOINED if rows.kinds[e] == _JOINED else PLAIN, NONE


@helper
def is_written(entry, rows, e):
    """Is a single interval of that dimension what `write_interval` would make it?"""
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
    """Copy row r of the CSR arrays into the region at `start`."""
    entries = store.entries
    at = start
    extra = start + main
    latitude = np.uint16(0)
    for e in range(rows.offsets[r], rows.offsets[r + 1]):
        kind = rows.kinds[e]
        if kind == _MORE:
            last = at - 1
            if not entries[last].kind & SET:
                entries[last].kind |= SET
                entries[last].more = np.uint32(extra - start)
                put(entries, extra, entries[last].lo, entries[last].hi, 0.0)
                entries[extra].more = np.uint32(1)
                extra += 1
            put(entries, extra, rows.lo[e], rows.hi[e], 0.0)
            entries[start + np.int64(entries[last].more)].more += np.uint32(1)
            entries[last].hi = rows.hi[e]
            extra += 1
            continue
        entry = entries[at]
        entry.dim = rows.dims[e]
        entry.more = NONE
        if kind == _CIRCLE:
            entry.kind = JOINED | CIRCLE
            entry.lo, entry.hi, entry.weight = -np.inf, np.inf, 0.0
            entry.more = np.uint32(extra - start)
            put(entries, extra, rows.lo[e], rows.hi[e], rows.weight[e])
            entries[extra].more = np.uint32(latitude)
            x, y, z = unit_vector(rows.lo[e], rows.hi[e])
            put(entries, extra + 1, x, y, z)
            put(entries, extra + 2, chord_squared(abs(rows.weight[e])), 0.0, 0.0)
            extra += CIRCLE_EXTRAS
        else:
            entry.lo, entry.hi, entry.weight = rows.lo[e], rows.hi[e], rows.weight[e]
            entry.kind = PLAIN
            if kind == _ABSENT:
                entry.kind = ABSENT
            elif kind == _JOINED:
                entry.kind = JOINED
                latitude = rows.dims[e]
        if np.int64(entry.dim) >= store.counts[DIMS]:
            store.counts[DIMS] = np.int64(entry.dim) + 1
        at += 1


@helper
def put(entries, at, lo, hi, weight):
    entry = entries[at]
    entry.lo, entry.hi, entry.weight = lo, hi, weight
    entry.dim, entry.kind, entry.more = np.uint16(0), PLAIN, NONE


@helper
def prefetch_entries(store, row):
    """Ask for the entries of a row, as far as a few cache lines go, and for no line more."""
    start = np.int64(row.start)
    for at in range(start, start + min(np.int64(row.size), 16), 2):
        prefetch(store.entries, at)


@helper
def next_slot(store):
    """The slot that is given out next: a free one, or that behind the last."""
    free = store.counts[FREE_SLOTS]
    if free == 0:
        return store.counts[SLOTS]
    prefetch(store.rows, np.int64(store.free[max(free - 1 - 2 * AHEAD, 0)]))
    prefetch_entries(store, store.rows[np.int64(store.free[max(free - 1 - AHEAD, 0)])])
    return np.int64(store.free[free - 1])


@helper
def take_slot(store):
    """Take the slot that is next."""
    if store.counts[FREE_SLOTS] == 0:
        store.counts[SLOTS] += 1
    else:
        store.counts[FREE_SLOTS] -= 1


@helper
def take_entries(store, class_):
    """A region of that class, from its free list or behind the last."""
    counts = store.counts
    size = class_size(class_)
    if size == 0:
        return np.int64(0)
    start = counts[REGIONS + class_]
    if start == np.int64(NONE):
        start = counts[ENTRIES]
        counts[ENTRIES] += size
        return start
    counts[REGIONS + class_] = np.int64(store.entries[start].more)
    return start


@helper
def give_entries(store, row):
    """Put the region of a free slot on the free list of its class."""
    if row.size > 0:
        class_ = size_class(np.int64(row.size))
        store.entries[np.int64(row.start)].more = np.uint32(store.counts[REGIONS + class_])
        store.counts[REGIONS + class_] = np.int64(row.start)


@helper
def take_row(store, rows, r, main, extras):
    """A slot for row r of the CSR arrays, with room for its entries, which are not written yet.

    -1 (and nothing is done) if a pool is full.
    """
    counts = store.counts
    class_ = size_class(main + extras)
    size = class_size(class_)
    slot = next_slot(store)
    if slot >= store.rows.size:
        return np.int64(-1)
    row = store.rows[slot]
    if np.int64(row.size) != size:
        if counts[REGIONS + class_] == np.int64(NONE) and counts[ENTRIES] + size > store.entries.size:
            return np.int64(-1)
        give_entries(store, row)
        row.start, row.size = np.uint32(take_entries(store, class_)), np.uint32(size)
    take_slot(store)
    row.id, row.count, row.flags, row.next = rows.ids[r], np.uint16(main), np.uint16(0), NONE
    rank_row(row, rows, r)
    return slot


@helper
def rank_row(row, rows, r):
    """Write the priority of row r of the CSR arrays, and the most that it can score. O(entries).

    What a sum may err by depends on what is added, not on the sum, which a negative priority can bring near zero.
    """
    weights = 0.0
    for e in range(np.uint64(rows.offsets[r]), np.uint64(rows.offsets[r + 1])):
        weights += rows.weight[e] if rows.kinds[e] != _CIRCLE else 0.0
    row.priority = rows.priority[r]
    most = row.priority + weights + ROUNDING * (abs(row.priority) + weights)
    upper = (np.float32(max(most, 0.0)).view(np.uint32) >> np.uint32(16)) + np.uint32(1)
    row.flags = (row.flags & SIBLING) | np.uint16(upper << np.uint32(1))


@helper
def most_of(row):
    """The most that the row can score, or a bit more; NaN where that is past float32."""
    return np.uint32(np.uint32(row.flags >> np.uint16(1)) << np.uint32(16)).view(np.float32)


@kernel
def add_rows(store, rows, first, slots):
    """Add the rows first, first + 1, ...; return how many are there, less than all if a pool is full.

    slots[r] is where row r went. Ids must be new to the store, and the rows of one id adjacent. O(entries).
    """
    if not room_for_ids(store, rows.ids.size - first):
        return first
    for r in range(first, rows.ids.size):
        plain = only_intervals(rows, r)
        main, extras = rows.offsets[r + 1] - rows.offsets[r], np.int64(0)
        if not plain:
            main, extras = shape_of(rows, r)
        slot = take_row(store, rows, r, main, extras)
        if slot < 0:
            return r
        enter_row(store, rows.ids, r, slot, slots)
        start = np.int64(store.rows[slot].start)
        if plain:
            write_intervals(store, rows, r, start)
        else:
            write_entries(store, rows, r, start, main)
    return rows.ids.size


@helper
def room_for_ids(store, more):
    """Has the table room for so many ids more, at half load?"""
    return 2 * (store.counts[SUBSCRIPTIONS] + more) <= store.table.size


@helper
def enter_row(store, ids, r, slot, slots):
    """Make row r known, which is stored at the slot: in the table, or behind the row of its subscription before it."""
    prefetch(store.table, home(store.table, ids[min(r + AHEAD, ids.size - 1)]))
    slots[r] = np.uint32(slot)
    store.counts[LIVE] += 1
    if r > 0 and ids[r - 1] == ids[r]:
        chain(store, np.int64(slots[r - 1]), slot)
        return
    enter(store.table, ids[r], slot << 3)
    store.counts[SUBSCRIPTIONS] += 1


@helper
def chain(store, before, slot):
    """Hang the slot behind the row of the same subscription that came before it: a chain keeps the order of its rows."""
    previous, row = store.rows[before], store.rows[slot]
    if not previous.flags & SIBLING:
        previous.flags |= SIBLING
        store.counts[SIBLINGS] += 1
    row.flags |= SIBLING
    store.counts[SIBLINGS] += 1
    previous.next = np.uint32(slot)


@kernel
def slots_of(store, ids, first, slots, n):
    """Append the slots of ids[first:] to `slots` from n on; return (the first id not done because `slots` is full, n).

    An unknown id stops it too: the caller sees that there was room.
    """
    for i in range(first, ids.size):
        slot = first_slot(store, ids[i])
        if slot < 0:
            return i, n
        begin = n
        while slot != np.int64(NONE):
            if n == slots.size:
                return i, begin
            slots[n] = np.uint32(slot)
            n += 1
            slot = np.int64(store.rows[slot].next)
    return ids.size, n


@kernel
def slots_alone(store, ids, slots):
    """slots[i] = where the one row of subscription ids[i] is; False if one of them is unknown or has several rows. O(ids)."""
    last = ids.size - 1
    for i in range(ids.size):
        prefetch(store.table, home(store.table, ids[min(i + 2 * AHEAD, last)]))
        prefetch_slot(store, ids[min(i + AHEAD, last)])
        slot = first_slot(store, ids[i])
        if slot < 0 or store.rows[slot].next != NONE:
            return False
        slots[i] = np.uint32(slot)
    return True


@kernel
def named_twice(slots, marks):
    """Is a slot named twice? O(slots).

    `marks`, zeros before and after, has a bit for each slot: sorting ids to see one again costs 0.25 us each.
    """
    n = np.int64(0)
    while n < slots.size:
        slot = np.int64(slots[n])
        if marks[slot >> 6] >> np.uint64(slot & 63) & _ONE:
            break
        marks[slot >> 6] |= _ONE << np.uint64(slot & 63)
        n += 1
    for i in range(n):
        marks[np.int64(slots[i]) >> 6] = np.uint64(0)
    return n < slots.size


@kernel
def remove_ids(store, ids):
    """Remove the rows of all these subscriptions, each known and named once. O(rows)."""
    counts, table = store.counts, store.table
    last = ids.size - 1
    for i in range(ids.size):
        prefetch(table, home(table, ids[min(i + 2 * AHEAD, last)]))
        prefetch_slot(store, ids[min(i + AHEAD, last)])
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
def known(store, ids, found):
    """found[i] = is ids[i] in the store? O(ids)."""
    last = ids.size - 1
    for i in range(ids.size):
        prefetch(store.table, home(store.table, ids[min(i + 2 * AHEAD, last)]))
        prefetch_slot(store, ids[min(i + AHEAD, last)])
        found[i] = first_slot(store, ids[i]) >= 0


@kernel
def rehash(store, table):
    """Enter all that the store's table holds into the new, empty one. O(cells)."""
    for i in range(store.table.size):
        if store.table[i] != NONE:
            number = number_in(store.table[i])
            enter(table, store.heads[number >> HEAD_SHIFT], number)
