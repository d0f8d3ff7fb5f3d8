"""Live events: kept compactly, found by id, and read by the exact test. Every structure of events places what stands here.

Layout   events[slot] (12 B) -> a region of `keys`, all that matching reads of an event in one place:
             id, until, mask, about (slot, count, flags), then the values, 8 bytes each
         `node` and `position` say where the structure has put it. A slot is free where `node` is none; `position` is the next
         free one then. It keeps its region, for an event of as many lines; for another that goes to the free ones of its
         class, chained through their first word.
         mask: the dimensions below 64 that the event has; the value of one stands behind as many others as bits are below it.
         LISTED: a dimension of 64 or more; after the n keys come their n dimensions, ascending.
         LOOSE (and LISTED): ranges, lists or weights; n upper ends and n weights come after that.
Table    `id_table`, event id -> its region: a region begins a cache line, so its number is a multiple of eight, and with the id.
Invariant  every live event is in the table, once (`EventStore.check`).

With the record of an event, its dimensions and its keys in three arrays, a candidate cost five cache lines instead of three; with
regions anywhere, 3.7 for the 19 to 24 words of the paper's events.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.id_table import NONE, enter, find, forget, home, number_in, prefetch_bearer
from matchwood.kernels.intrinsics import prefetch, trailing_zeros
from matchwood.kernels.mo_tree import LINE, ONE
from matchwood.kernels.planes import count_ones
from matchwood.kernels.store import AHEAD, EXACT_CLASSES, class_size, size_class

EVENT = np.dtype([("start", "u4"), ("node", "u4"), ("position", "u4")])
FREE = np.int64(-1)
WORD_SHIFT = 0  # the number of an event in the table is the place of its id in `words`

# words of a region before its values
ID, UNTIL, MASK, ABOUT, HEAD = 0, 1, 2, 3, 4
MASKED = 64  # dimensions that a mask can name
LISTED, LOOSE = np.uint64(1), np.uint64(2)
SORTED = np.uint64(4)  # while an event is written: not kept

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
def slot_of(live, id_):
    """Where the event is kept, or none."""
    cell = live.table[find(live.table, live.words, WORD_SHIFT, id_)]
    return np.int64(NONE) if cell == NONE else slot_at(live, number_in(cell))


@helper
def prefetch_id(live, ids, i):
    """Ask for the cell of an id that comes soon, and for the event that may stand in the cell of one that comes sooner."""
    last = ids.size - 1
    prefetch(live.table, home(live.table, ids[min(i + 2 * AHEAD, last)]))
    prefetch_bearer(live.table, live.words, WORD_SHIFT, ids[min(i + AHEAD, last)])


@kernel
def enter_all(live, table):
    """Enter every live event into the new, empty table. O(slots)."""
    for slot in range(live.counts[SLOTS]):
        if live.events[slot].node != NONE:
            start = np.int64(live.events[slot].start)
            enter(table, id_at(live, start), start)


@kernel
def slots_of_ids(live, ids, slots):
    """slots[i] = where event ids[i] is kept, or none."""
    for i in range(ids.size):
        prefetch_id(live, ids, i)
        slots[i] = np.uint32(slot_of(live, ids[i]))


@helper
def flags_of(events, e):
    """How event e must be written: see the module's text; SORTED if its dimensions rise. O(entries), without branches."""
    begin, end = np.uint64(events.offsets[e]), np.uint64(events.offsets[e + 1])  # signed places would become gathers
    loose = False
    rising = True
    most = np.uint16(0)
    for i in range(begin, end):
        loose |= (events.lo[i] != events.hi[i]) | (events.weight[i] != 1.0)
        most = max(most, events.dims[i])
    for i in range(begin + ONE, end):
        rising &= events.dims[i] > events.dims[i - ONE]
        loose |= events.dims[i] == events.dims[i - ONE]
    if loose:
        return LISTED | LOOSE
    if most >= MASKED:
        return LISTED
    return SORTED if rising else np.uint64(0)


@helper
def write_masked(live, events, e, first, rising):
    """Write the values of a plain event; return its mask."""
    begin, end, first = np.uint64(events.offsets[e]), np.uint64(events.offsets[e + 1]), np.uint64(first)
    mask = np.uint64(0)
    for i in range(begin, end):
        mask |= ONE << np.uint64(events.dims[i])
    if rising:
        for i in range(end - begin):
            live.keys[first + i] = events.lo[begin + i]
    else:
        for i in range(begin, end):
            live.keys[first + np.uint64(count_ones(mask & ((ONE << np.uint64(events.dims[i])) - ONE)))] = events.lo[i]
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


@helper
def prefetch_free(live, slot, size):
    """Ask for the region of the free slot after this one, and for the slot after that: chains run anywhere in memory."""
    after = np.int64(live.events[slot].position)
    if after != np.int64(NONE):
        start = np.int64(live.events[after].start)
        for line in range(0, size, LINE):
            prefetch(live.words, start + line)
        prefetch(live.events, np.int64(live.events[after].position))


@helper
def take_region(live, class_):
    """A region of that class, from its free list or behind the last."""
    counts = live.counts
    start = counts[REGIONS + class_]
    if start == FREE:
        start = counts[KEYS]
        counts[KEYS] += LINE * class_size(class_)
    else:
        counts[REGIONS + class_] = np.int64(live.words[start])
    return start


@helper
def class_at(live, start):
    """The class of the region that holds an event, or held the last of a free slot."""
    return region_class(flags_at(live, start), count_at(live, start))


@helper
def take_room(live, n, flags):
    """A slot with a region for an event of n values; -1 (and nothing is done) if a pool is full."""
    counts = live.counts
    class_ = region_class(flags, n)
    size = LINE * class_size(class_)
    # one word more than the region: the value of a missing dimension is read and thrown away
    full = counts[REGIONS + class_] == FREE and counts[KEYS] + size >= live.keys.size
    slot = counts[FREE_SLOT]
    if slot == np.int64(NONE):
        slot = counts[SLOTS]
        if full or slot == live.events.size:
            return np.int64(-1)
        counts[SLOTS] += 1
        live.events[slot].start = np.uint32(take_region(live, class_))
        return slot
    event = live.events[slot]
    prefetch_free(live, slot, size)
    start = np.int64(event.start)
    held = class_at(live, start)
    if held != class_:
        if full:
            return np.int64(-1)
        live.words[start] = np.uint64(counts[REGIONS + held])
        counts[REGIONS + held] = start
        event.start = np.uint32(take_region(live, class_))
    counts[FREE_SLOT] = np.int64(event.position)
    return slot


@helper
def keep_event(live, events, e, ids, until):
    """Keep event e under a new id; return its slot, or -1 (and nothing is done) if a pool is full. O(entries)."""
    prefetch(live.table, home(live.table, ids[min(e + AHEAD, ids.size - 1)]))
    counts = live.counts
    n = events.offsets[e + 1] - events.offsets[e]
    flags = flags_of(events, e)
    slot = np.int64(-1)
    if 2 * (counts[LIVE] + 1) <= live.table.size:
        slot = take_room(live, n, flags)
    if slot < 0:
        return slot
    event = live.events[slot]
    start = np.int64(event.start)
    live.words[start + ID] = np.uint64(ids[e])
    live.keys[start + UNTIL] = until[e]
    live.words[start + MASK] = np.uint64(0)
    live.words[start + ABOUT] = np.uint64(slot) | np.uint64(n) << np.uint64(32) | (flags & ~SORTED) << np.uint64(48)
    if flags & LISTED:
        write_listed(live, events, e, start + HEAD, flags & LOOSE != 0)
    else:
        live.words[start + MASK] = write_masked(live, events, e, start + HEAD, flags & SORTED != 0)
    event.node = np.uint32(0)
    enter(live.table, ids[e], start)
    counts[MOST] = max(counts[MOST], n)
    counts[LIVE] += 1
    return slot


@kernel
def keep_events(live, events, ids, until, first, slots):
    """Keep events[first:] under new ids; return the first not kept (a pool is full) or their number. O(entries)."""
    for e in range(first, ids.size):
        slot = keep_event(live, events, e, ids, until)
        if slot < 0:
            return e
        slots[e] = np.uint32(slot)
    return ids.size


@helper
def let_go(live, slot):
    """Free an event's slot, which keeps its region, and its cell of the table."""
    event = live.events[slot]
    at = find(live.table, live.words, WORD_SHIFT, id_at(live, np.int64(event.start)))
    forget(live.table, live.words, WORD_SHIFT, at)
    event.node = NONE
    event.position = np.uint32(live.counts[FREE_SLOT])
    live.counts[FREE_SLOT] = slot
    live.counts[LIVE] -= 1


@kernel
def lay_out(live, order, events, keys):
    """Copy the event at order[i] to events[i] and its region behind that of events[i - 1]; return where the last ends."""
    at = np.int64(0)
    for i in range(order.size):
        start = np.int64(live.events[np.int64(order[i])].start)
        size = LINE * class_size(class_at(live, start))
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
