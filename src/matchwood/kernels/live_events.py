"""Live events: kept compactly, found by id, and read by the exact test. Every structure of events places what stands here.

Layout   events[slot] (12 B) -> a region of `keys`, all that matching reads of an event in one place:
             id, until, mask, about (slot, count, flags), then the values, 8 bytes each
         `node` and `position` say where the structure has put it; a slot is free where `node` is none.
         mask: the dimensions below 64 that the event has; the value of one stands behind as many others as bits are below it.
         LISTED: a dimension of 64 or more; after the n keys come their n dimensions, ascending.
         LOOSE (and LISTED): ranges, lists or weights; n upper ends and n weights come after that.
Table    open addressing, linear probing: regions by event id (4 bytes an event at half load, the id is read from the region).
Invariant  every live event is in the table, once (`EventStore.check`).

With the record of an event, its dimensions and its keys in three arrays, a candidate cost five cache lines instead of three; with
regions anywhere, 3.7 for the 19 to 24 words of the paper's events.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import prefetch, trailing_zeros
from matchwood.kernels.mo_tree import LINE, NONE, ONE
from matchwood.kernels.planes import count_ones
from matchwood.kernels.store import AHEAD, EXACT_CLASSES, class_size, home, size_class

EVENT = np.dtype([("start", "u4"), ("node", "u4"), ("position", "u4")])  # free: node is NONE, start the next free slot
FREE = np.int64(-1)

# words of a region before its values
ID, UNTIL, MASK, ABOUT, HEAD = 0, 1, 2, 3, 4
MASKED = 64  # dimensions that a mask can name
LISTED, LOOSE = np.uint64(1), np.uint64(2)

# places in `counts`
SLOTS, LIVE, FREE_SLOT, KEYS, CURSOR, MOST = 0, 1, 2, 3, 4, 5
REGIONS = 8
COUNTS = REGIONS + EXACT_CLASSES + 1 + 32


class Live(NamedTuple):
    """The state of the kept events, as kernels see it."""

    events: np.ndarray  # EVENT
    keys: np.ndarray  # float64
    words: np.ndarray  # uint64, the memory of `keys`
    table: np.ndarray  # uint32, a power of two long
    counts: np.ndarray  # int64


class Parts(NamedTuple):
    """The values of one event that a row asks for, as `verify` reads them."""

    lo: np.ndarray
    hi: np.ndarray


@helper
def id_at(live, start):
    return np.int64(live.words[start])


@helper
def slot_at(live, start):
    return np.int64(live.words[start + ABOUT] & np.uint64(0xFFFFFFFF))


@helper
def count_at(live, start):
    """How many values the event has, a list counted by its parts."""
    return np.int64((live.words[start + ABOUT] >> np.uint64(32)) & np.uint64(0xFFFF))


@helper
def flags_at(live, start):
    return live.words[start + ABOUT] >> np.uint64(48)


@helper
def runs_of(flags):
    """How many runs of n values a region has."""
    if flags & LOOSE:
        return np.int64(4)
    return np.int64(2) if flags & LISTED else np.int64(1)


@helper
def region_class(flags, n):
    """The class of regions for an event of n values: classes count cache lines, so that no line is shared by two events."""
    return size_class((HEAD + runs_of(flags) * n + LINE - 1) // LINE)


@helper
def find(live, id_):
    """The cell of the table that holds the id, or the free one where it would go."""
    at = home(live.table, id_)
    while live.table[at] != NONE and id_at(live, np.int64(live.table[at])) != id_:
        at = (at + 1) & (live.table.size - 1)
    return at


@helper
def prefetch_id(live, ids, i):
    """Ask for the cell of an id that comes soon, and for the event that stands in the cell of one that comes sooner."""
    last = ids.size - 1
    prefetch(live.table, home(live.table, ids[min(i + 2 * AHEAD, last)]))
    prefetch(live.words, np.int64(live.table[home(live.table, ids[min(i + AHEAD, last)])]))


@helper
def forget(live, at):
    """Empty a cell of the table and shift back those behind it that it had pushed away."""
    mask = live.table.size - 1
    hole = at
    probe = at
    while True:
        live.table[hole] = NONE
        while True:
            probe = (probe + 1) & mask
            if live.table[probe] == NONE:
                return
            start = home(live.table, id_at(live, np.int64(live.table[probe])))
            if ((probe - start) & mask) >= ((probe - hole) & mask):
                break
        live.table[hole] = live.table[probe]
        hole = probe


@kernel
def enter_all(live, table):
    """Enter every live event into the new, empty table. O(slots)."""
    for slot in range(live.counts[SLOTS]):
        if live.events[slot].node == NONE:
            continue
        start = live.events[slot].start
        at = home(table, id_at(live, np.int64(start)))
        while table[at] != NONE:
            at = (at + 1) & (table.size - 1)
        table[at] = start


@kernel
def slots_of_ids(live, ids, slots):
    """slots[i] = where event ids[i] is kept, or none."""
    for i in range(ids.size):
        prefetch_id(live, ids, i)
        start = live.table[find(live, ids[i])]
        slots[i] = NONE if start == NONE else np.uint32(slot_at(live, np.int64(start)))


@helper
def flags_of(events, e):
    """How event e must be written: see the module's text. O(entries)."""
    begin, end = events.offsets[e], events.offsets[e + 1]
    loose = False
    listed = False
    for i in range(begin, end):
        loose |= (events.lo[i] != events.hi[i]) | (events.weight[i] != 1.0)
        loose |= i > begin and events.dims[i] == events.dims[i - 1]
        listed |= np.int64(events.dims[i]) >= MASKED
    if loose:
        return LISTED | LOOSE
    return LISTED if listed else np.uint64(0)


@helper
def write_masked(live, events, e, first):
    """Write the values of a plain event; return its mask."""
    begin, end = events.offsets[e], events.offsets[e + 1]
    mask = np.uint64(0)
    for i in range(begin, end):
        mask |= ONE << np.uint64(events.dims[i])
    for i in range(begin, end):
        live.keys[first + count_ones(mask & ((ONE << np.uint64(events.dims[i])) - ONE))] = events.lo[i]
    return mask


@helper
def write_listed(live, events, e, first, loose):
    """Write values and dimensions by rising dimension, the parts of a list in their order."""
    begin = events.offsets[e]
    n = events.offsets[e + 1] - begin
    keys = live.keys
    runs = np.int64(4) if loose else np.int64(2)
    for i in range(n):
        dim = np.float64(events.dims[begin + i])
        at = first + i
        while at > first and keys[at - 1 + n] > dim:
            for run in range(runs):
                keys[at + run * n] = keys[at - 1 + run * n]
            at -= 1
        keys[at] = events.lo[begin + i]
        keys[at + n] = dim
        if loose:
            keys[at + 2 * n] = events.hi[begin + i]
            keys[at + 3 * n] = events.weight[begin + i]


@kernel
def keep_events(live, events, ids, until, first, slots):
    """Keep events[first:] under new ids; return the first not kept (a pool is full) or their number. O(entries)."""
    counts = live.counts
    for e in range(first, ids.size):
        prefetch_id(live, ids, e)
        n = events.offsets[e + 1] - events.offsets[e]
        flags = flags_of(events, e)
        class_ = region_class(flags, n)
        size = LINE * class_size(class_)
        fresh_region = counts[REGIONS + class_] == FREE
        fresh_slot = counts[FREE_SLOT] == np.int64(NONE)
        # one word more than the region: the value of a missing dimension is read and thrown away
        if (fresh_region and counts[KEYS] + size >= live.keys.size) or 2 * (counts[LIVE] + 1) > live.table.size:
            return e
        if fresh_slot and counts[SLOTS] == live.events.size:
            return e
        slot = counts[SLOTS] if fresh_slot else counts[FREE_SLOT]
        event = live.events[slot]
        if fresh_slot:
            counts[SLOTS] += 1
        else:
            counts[FREE_SLOT] = np.int64(event.start)
        start = counts[KEYS]
        if fresh_region:
            counts[KEYS] += size
        else:
            start = counts[REGIONS + class_]
            counts[REGIONS + class_] = np.int64(live.words[start])
            for line in range(0, size, LINE):  # of the next one
                prefetch(live.words, counts[REGIONS + class_] + line)
        live.words[start + ID] = np.uint64(ids[e])
        live.keys[start + UNTIL] = until[e]
        live.words[start + MASK] = np.uint64(0)
        live.words[start + ABOUT] = np.uint64(slot) | np.uint64(n) << np.uint64(32) | flags << np.uint64(48)
        if flags & LISTED:
            write_listed(live, events, e, start + HEAD, flags & LOOSE != 0)
        else:
            live.words[start + MASK] = write_masked(live, events, e, start + HEAD)
        event.start, event.node = np.uint32(start), np.uint32(0)
        live.table[find(live, ids[e])] = np.uint32(start)
        counts[MOST] = max(counts[MOST], n)
        counts[LIVE] += 1
        slots[e] = np.uint32(slot)
    return ids.size


@helper
def let_go(live, slot):
    """Free an event's slot, region and cell of the table."""
    event = live.events[slot]
    start = np.int64(event.start)
    forget(live, find(live, id_at(live, start)))
    class_ = region_class(flags_at(live, start), count_at(live, start))
    live.words[start] = np.uint64(live.counts[REGIONS + class_])
    live.counts[REGIONS + class_] = start
    event.node = NONE
    event.start = np.uint32(live.counts[FREE_SLOT])
    live.counts[FREE_SLOT] = slot
    live.counts[LIVE] -= 1


@kernel
def lay_out(live, order, events, keys):
    """Copy the event at order[i] to events[i] and its region behind that of events[i - 1]; return where the last ends."""
    at = np.int64(0)
    for i in range(order.size):
        start = np.int64(live.events[np.int64(order[i])].start)
        size = LINE * class_size(region_class(flags_at(live, start), count_at(live, start)))
        for j in range(size):
            keys[at + j] = live.words[start + j]
        keys[at + ABOUT] = (keys[at + ABOUT] & ~np.uint64(0xFFFFFFFF)) | np.uint64(i)
        events[i].start = np.uint32(at)
        at += size
    return at


@kernel
def list_values(live, slots, dims, keys):
    """The dimensions and (lower) keys of all values of these events, one after the other; return how many. O(values)."""
    n = np.int64(0)
    for i in range(slots.size):
        start = np.int64(live.events[np.int64(slots[i])].start)
        for j in range(count_at(live, start)):
            dims[n] = np.uint16(dim_of(live, start, j))
            keys[n] = live.keys[start + HEAD + j]
            n += 1
    return n


@helper
def dim_of(live, start, i):
    """The dimension of an event's i-th value. O(i)."""
    if flags_at(live, start) & LISTED:
        return np.int64(live.keys[start + HEAD + count_at(live, start) + i])
    mask = live.words[start + MASK]
    for _ in range(i):
        mask &= mask - ONE
    return np.int64(trailing_zeros(mask))


@helper
def value_of(live, start, dim):
    """Where in `keys` the event's value of a dimension stands (the first part of a list), or -1. O(log values)."""
    first = start + HEAD
    if not flags_at(live, start) & LISTED:
        mask = live.words[start + MASK]
        if dim >= MASKED or not (mask >> np.uint64(dim)) & ONE:
            return np.int64(-1)
        return first + count_ones(mask & ((ONE << np.uint64(dim)) - ONE))
    n = count_at(live, start)
    low, high = np.int64(0), n
    while low < high:
        middle = (low + high) >> 1
        if live.keys[first + n + middle] < dim:
            low = middle + 1
        else:
            high = middle
    if low < n and live.keys[first + n + low] == dim:
        return first + low
    return np.int64(-1)


@helper
def load_live(live, start, scratch, names):
    """Spread the values that the row names; those the event lacks are absent. O(names log values + parts of lists)."""
    n = count_at(live, start)
    loose = flags_at(live, start) & LOOSE != 0
    filled = np.int64(0)
    for j in range(names):
        dim = scratch.wanted[j]
        value = scratch.values[dim]
        at = value_of(live, start, dim)
        if at < 0:
            value.lo, value.hi, value.weight = np.nan, np.nan, 1.0
            continue
        value.lo = value.hi = live.keys[at]
        value.weight = 1.0
        value.first, value.parts = np.uint32(filled), np.uint32(1)
        scratch.parts.lo[filled] = scratch.parts.hi[filled] = live.keys[at]
        filled += 1
        if loose:
            filled = load_loose(live, start, n, at, value, scratch, filled - 1)


@helper
def load_loose(live, start, n, at, value, scratch, filled):
    """Spread a value that may have several parts, from the one at `at` on; return how many parts are filled now."""
    dim = live.keys[at + n]
    value.weight = live.keys[at + 3 * n]
    value.parts = np.uint32(0)
    while at < start + HEAD + n and live.keys[at + n] == dim:
        value.hi = live.keys[at + 2 * n]
        value.parts += np.uint32(1)
        scratch.parts.lo[filled] = live.keys[at]
        scratch.parts.hi[filled] = live.keys[at + 2 * n]
        filled += 1
        at += 1
    return filled


@helper
def unload_row(scratch, names):
    for j in range(names):
        value = scratch.values[scratch.wanted[j]]
        value.lo, value.hi, value.weight = np.nan, np.nan, 1.0


@kernel
def list_expired(live, now, limit, slots):
    """The expired ones of the next `limit` slots, round and round and each once, into `slots`; return how many. O(limit)."""
    counts = live.counts
    n = np.int64(0)
    for _ in range(min(limit, counts[SLOTS])):
        if counts[CURSOR] >= counts[SLOTS]:
            counts[CURSOR] = 0
        event = live.events[counts[CURSOR]]
        if event.node != NONE and not now < live.keys[np.int64(event.start) + UNTIL]:
            slots[n] = np.uint32(counts[CURSOR])
            n += 1
        counts[CURSOR] += 1
    return n
