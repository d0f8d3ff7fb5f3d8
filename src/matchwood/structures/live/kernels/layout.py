"""Live events: the store. In: events, ids. Out: slots; the values of an event, as `store.kernels.verify` reads them.

Layout   events[slot] (32 B) -> a region of `keys`, in one of two layouts:
             plain     single values of weight 1, all dimensions below 64. `mask` has a bit for each dimension, the region its
                       keys by rising dimension
             general   anything else: ranges, lists, weights, other dimensions. `mask` is the number of values, the region four
                       numbers for each: dimension, lower and upper key, weight; by rising dimension, the parts of a list in
                       their order
Table    `store.kernels.id_table`, event id -> its slot (times eight).
Pools    free[: counts[FREE_SLOTS]] lists the free slots, the next to be given out last. A free slot keeps its region, for an
         event of the same size class; another leaves it to the free regions of its class, chained through their first word.
Invariant  every live event is in the table, once; slots and regions are in use, free, or behind the last (`EventStore.check`).

One writer, no reader at the same time. Kernels never grow a pool: they stop before any change and say how far they got.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch, trailing_zeros
from matchwood.jit.state import State, array
from matchwood.store.kernels.distances import PREFETCH_IDS
from matchwood.store.kernels.id_table import NONE, enter, find, forget, home, number_in, prefetch_bearer
from matchwood.store.kernels.rows import EXACT_CLASSES, class_size, size_class
from matchwood.structures.mo_tree.kernels.planes import count_ones

EVENT = np.dtype([("id", "i8"), ("until", "f8"), ("mask", "u8"), ("start", "u4"), ("is_general", "u4")])
FREE = np.int64(-1)
HEAD_SHIFT = 1  # slot * 8 is the number of an event in the table, slot * 4 the index of its id in `heads`
MASKED = 64  # dimensions that a mask can name
DIM, LO, HI, WEIGHT, GENERAL_WORDS = 0, 1, 2, 3, 4  # a value of a general event
ONE = np.uint64(1)


class EventCount(IntEnum):
    """Positions in `EventArrays.counts`."""

    SLOTS = 0
    LIVE = 1
    FREE_SLOTS = 2
    KEYS = 3
    MAX_VALUES = 4  # that an event had
    FREE_REGIONS = 5  # a free list for each size class follows


COUNTS = EventCount.FREE_REGIONS + EXACT_CLASSES + 1 + 32


class EventArrays(State):
    """The events that are kept."""

    events: np.ndarray = array(EVENT)
    heads: np.ndarray = array(np.int64)  # the memory of `events`, four words each, the first the id
    keys: np.ndarray = array(np.float64)
    links: np.ndarray = array(np.int64)  # the memory of `keys`: chains of free regions
    table: np.ndarray = array(np.uint32)
    free: np.ndarray = array(np.uint32)  # as long as `events`
    counts: np.ndarray = array(np.int64)  # EventCount


class Parts(State):
    """The values of one event that a row names, as `verify` reads them."""

    lo: np.ndarray = array(np.float64)
    hi: np.ndarray = array(np.float64)


@helper
def slot_of(live, id_):
    """The slot of an event, or NONE."""
    cell = live.table[find(live.table, live.heads, HEAD_SHIFT, id_)]
    return np.int64(NONE) if cell == NONE else number_in(cell) >> 3


@kernel
def slots_of_ids(live, ids, slots):
    """slots[i] = the slot of event ids[i], or NONE."""
    last = ids.size - 1
    for i in range(ids.size):
        prefetch(live.table, home(live.table, ids[min(i + 2 * PREFETCH_IDS, last)]))
        prefetch_bearer(live.table, live.heads, HEAD_SHIFT, ids[min(i + PREFETCH_IDS, last)])
        slots[i] = np.uint32(slot_of(live, ids[i]))


@kernel
def enter_all(live, table):
    """Enter every live event into the new, empty table. O(slots)."""
    for slot in range(live.counts[EventCount.SLOTS]):
        if live.events[slot].id != FREE:
            enter(table, live.events[slot].id, slot << 3)


# the values of an event


@helper
def value_count(event):
    """How many values an event has, a list counted by its parts."""
    return np.int64(event.mask) if event.is_general else count_ones(event.mask)


@helper
def region_class(event):
    """The size class of an event's region."""
    return size_class(value_count(event) * (GENERAL_WORDS if event.is_general else 1))


@helper
def value_at(live, event, j):
    """The dimension and the (lower) key of an event's j-th value. O(j) if it is plain."""
    start = np.int64(event.start)
    if event.is_general:
        at = start + GENERAL_WORDS * j
        return np.int64(live.keys[at + DIM]), live.keys[at + LO]
    mask = event.mask
    for _ in range(j):
        mask &= mask - ONE
    return np.int64(trailing_zeros(mask)), live.keys[start + j]


@helper
def find_value(live, event, dim):
    """Which value of the event has the dimension (of a list the first part); -1 if none has. O(1), O(log values) if general."""
    if not event.is_general:
        has = dim < MASKED and (event.mask >> np.uint64(dim)) & ONE
        return count_ones(event.mask & ((ONE << np.uint64(dim)) - ONE)) if has else np.int64(-1)
    start, low, high = np.int64(event.start), np.int64(0), np.int64(event.mask)
    while low < high:
        middle = (low + high) >> 1
        if live.keys[start + GENERAL_WORDS * middle + DIM] < dim:
            low = middle + 1
        else:
            high = middle
    has = low < np.int64(event.mask) and live.keys[start + GENERAL_WORDS * low + DIM] == dim
    return low if has else np.int64(-1)


@helper
def key_range(live, event, dim):
    """The least and the greatest key of the event's values of a dimension; NaN if it has none."""
    i = find_value(live, event, dim)
    if i < 0:
        return np.nan, np.nan
    if not event.is_general:
        return live.keys[np.int64(event.start) + i], live.keys[np.int64(event.start) + i]
    at, end = np.int64(event.start) + GENERAL_WORDS * i, np.int64(event.start) + GENERAL_WORDS * np.int64(event.mask)
    lo = live.keys[at + LO]
    while at + GENERAL_WORDS < end and live.keys[at + GENERAL_WORDS + DIM] == dim:
        at += GENERAL_WORDS
    return lo, live.keys[at + HI]


@helper
def load_values(live, event, values, parts, dims, count):
    """Spread the values of `count` dimensions over `values`, as `verify.load_event`; those the event lacks are absent.

    O(count log values + parts of lists).
    """
    filled = np.int64(0)
    for j in range(count):
        dim = dims[j]
        value = values[dim]
        value.lo, value.hi, value.weight = np.nan, np.nan, 1.0
        i = find_value(live, event, dim)
        if i < 0:
            continue
        value.first, value.parts, value.lat = np.uint32(filled), np.uint32(0), NONE
        last = value_count(event)
        while i < last:
            lo = hi = live.keys[np.int64(event.start) + i]
            if event.is_general:
                at = np.int64(event.start) + GENERAL_WORDS * i
                if live.keys[at + DIM] != dim:
                    break
                lo, hi = live.keys[at + LO], live.keys[at + HI]
                value.weight = live.keys[at + WEIGHT] if value.parts == 0 else value.weight
            parts.lo[filled], parts.hi[filled] = lo, hi
            value.lo, value.hi = lo if value.parts == 0 else value.lo, hi
            value.parts += np.uint32(1)
            filled += 1
            i = i + 1 if event.is_general else last


@helper
def unload_values(values, dims, count):
    for j in range(count):
        value = values[dims[j]]
        value.lo, value.hi, value.weight = np.nan, np.nan, 1.0


@kernel
def count_values(live, slots, sizes):
    """sizes[i] = how many values the event at slots[i] has."""
    for i in range(slots.size):
        sizes[i] = value_count(live.events[np.int64(slots[i])])


@kernel
def list_values(live, slots, dims, keys):
    """The dimensions and (lower) keys of all values of these events, one after the other. O(values)."""
    n = np.int64(0)
    for i in range(slots.size):
        event = live.events[np.int64(slots[i])]
        for j in range(value_count(event)):
            dim, keys[n] = value_at(live, event, j)
            dims[n] = np.uint16(dim)
            n += 1


# changes


@helper
def is_plain(events, e):
    """Can event e be kept in the plain layout? O(entries)."""
    plain, seen = True, np.uint64(0)
    for i in range(np.uint64(events.offsets[e]), np.uint64(events.offsets[e + 1])):
        bit = ONE << np.uint64(events.dims[i] & np.uint16(MASKED - 1))
        plain &= (
            (events.lo[i] == events.hi[i]) & (events.weight[i] == 1.0) & (events.dims[i] < MASKED) & (seen & bit == 0)
        )
        seen |= bit
    return plain


@helper
def write_plain(live, events, e, event):
    """Write the values of a plain event. O(entries)."""
    mask, begin, end = np.uint64(0), np.uint64(events.offsets[e]), np.uint64(events.offsets[e + 1])
    for i in range(begin, end):
        mask |= ONE << np.uint64(events.dims[i])
    for i in range(begin, end):
        at = count_ones(mask & ((ONE << np.uint64(events.dims[i])) - ONE))
        live.keys[np.int64(event.start) + at] = events.lo[i]
    event.mask = mask


@helper
def write_general(live, events, e, event):
    """Write the values of any event. O(entries), O(entries^2) where dimensions do not rise."""
    keys, first, begin = live.keys, np.int64(event.start), events.offsets[e]
    for i in range(events.offsets[e + 1] - begin):
        dim, at = np.float64(events.dims[begin + i]), first + GENERAL_WORDS * i
        while at > first and keys[at - GENERAL_WORDS + DIM] > dim:
            for word in range(GENERAL_WORDS):
                keys[at + word] = keys[at - GENERAL_WORDS + word]
            at -= GENERAL_WORDS
        keys[at + DIM], keys[at + LO] = dim, events.lo[begin + i]
        keys[at + HI], keys[at + WEIGHT] = events.hi[begin + i], events.weight[begin + i]
    event.mask = np.uint64(events.offsets[e + 1] - begin)


@helper
def take_room(live, values, is_general):
    """A slot with a region for so many values; -1 (and nothing is done) if a pool is full."""
    counts, class_ = live.counts, size_class(values * (GENERAL_WORDS if is_general else 1))
    is_new = counts[EventCount.FREE_SLOTS] == 0
    slot = counts[EventCount.SLOTS] if is_new else np.int64(live.free[counts[EventCount.FREE_SLOTS] - 1])
    if slot == live.events.size:
        return np.int64(-1)
    event = live.events[slot]
    if is_new or region_class(event) != class_:
        start, size = counts[EventCount.FREE_REGIONS + class_], class_size(class_)
        if start == FREE and counts[EventCount.KEYS] + size > live.keys.size:
            return np.int64(-1)
        if not is_new:
            give_back(live, event)
        if start == FREE:
            start = counts[EventCount.KEYS]
            counts[EventCount.KEYS] += size
        else:
            counts[EventCount.FREE_REGIONS + class_] = live.links[start]
        event.start = np.uint32(start)
    if is_new:
        counts[EventCount.SLOTS] += 1
    else:
        counts[EventCount.FREE_SLOTS] -= 1
    event.is_general = np.uint32(is_general)
    return slot


@helper
def give_back(live, event):
    """Put the region of a free slot into the free list of its class; an event without values has none."""
    class_ = region_class(event)
    if class_ > 0:
        live.links[np.int64(event.start)] = live.counts[EventCount.FREE_REGIONS + class_]
        live.counts[EventCount.FREE_REGIONS + class_] = np.int64(event.start)


@kernel
def keep_events(live, events, ids, until, first, slots):
    """Keep events[first:] under new ids; slots[e] is where. Return the first that has no room, or their number. O(entries)."""
    counts = live.counts
    if 2 * (counts[EventCount.LIVE] + ids.size - first) > live.table.size:
        return first
    for e in range(first, ids.size):
        prefetch(live.table, home(live.table, ids[min(e + PREFETCH_IDS, ids.size - 1)]))
        plain, values = is_plain(events, e), events.offsets[e + 1] - events.offsets[e]
        slot = take_room(live, values, not plain)
        if slot < 0:
            return e
        event = live.events[slot]
        event.id, event.until = ids[e], until[e]
        if plain:
            write_plain(live, events, e, event)
        else:
            write_general(live, events, e, event)
        enter(live.table, ids[e], slot << 3)
        counts[EventCount.LIVE] += 1
        counts[EventCount.MAX_VALUES] = max(counts[EventCount.MAX_VALUES], values)
        slots[e] = np.uint32(slot)
    return ids.size


@kernel
def drop_events(live, slots):
    """Free the slots of these events, which keep their regions, and their cells of the table. O(slots)."""
    for i in range(slots.size):
        prefetch(live.events, np.int64(slots[min(i + PREFETCH_IDS, slots.size - 1)]))
        event = live.events[np.int64(slots[i])]
        forget(live.table, live.heads, HEAD_SHIFT, find(live.table, live.heads, HEAD_SHIFT, event.id))
        event.id = FREE
        live.free[live.counts[EventCount.FREE_SLOTS]] = slots[i]
        live.counts[EventCount.FREE_SLOTS] += 1
        live.counts[EventCount.LIVE] -= 1


@kernel
def lay_out(live, order, events, keys):
    """Copy the event at order[i] to events[i], regions in that order; return where the last ends. O(values)."""
    at = np.int64(0)
    for i in range(order.size):
        events[i] = live.events[np.int64(order[i])]
        start, size = np.int64(events[i].start), class_size(region_class(events[i]))
        for j in range(size):
            keys[at + j] = live.keys[start + j]
        events[i].start = np.uint32(at)
        at += size
    return at
