"""Live events: kept compactly, found by id, and placed in a tree of disjoint cells (MO-Tree 4.3.1).

Layout   events[slot] (12 B) -> a region of `keys`, all that matching reads of an event in one place:
             id, until, mask, about (slot, count, flags), then the values, 8 bytes each
         mask: the dimensions below 64 that the event has; the value of one stands behind as many others as bits are below it.
         LISTED: a dimension of 64 or more; after the n keys come their n dimensions, ascending.
         LOOSE (and LISTED): ranges, lists or weights; n upper ends and n weights come after that.
Table    open addressing, linear probing: regions by event id (4 bytes an event at half load, the id is read from the region).
Tree     nodes, regions and chains as in `kernels.mo_tree`; what differs:
         members are regions, not slots
         a layer has c disjoint cells, then a cell for values that span several, then the null cell
         plane (axis, slice j): the value's slice is above j, or there is none; the last plane of an axis: there is none. So
             j1 <= slice <= j2 is two planes, plane j1 - 1 and not plane j2, and an event writes half of its planes
         open: the event is LOOSE, planes know nothing about it
Invariant  every live event is in the table, in one node, and in the planes its values name (`LiveEvents.check`).

With the record of an event, its dimensions and its keys in three arrays, a candidate cost five cache lines instead of three; with
regions anywhere, 3.7 for the 19 to 24 words of the paper's events.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import trailing_zeros
from matchwood.kernels.mo_tree import (
    HEAD_WORDS,
    LAYERS,
    LINE,
    MEMBER_WORDS,
    NONE,
    ONE,
    SLICED,
    axis_number,
    cell_of,
    clear_bits,
    give_back,
    node_with_room,
    set_bits,
    slice_of,
    take_position,
    tick_of,
)
from matchwood.kernels.planes import count_ones
from matchwood.kernels.store import EXACT_CLASSES, class_size, home, size_class

EVENT = np.dtype([("start", "u4"), ("node", "u4"), ("position", "u4")])  # free: node is NONE, start the next free slot
FREE = np.int64(-1)

# words of a region before its values
ID, UNTIL, MASK, ABOUT, HEAD = 0, 1, 2, 3, 4
MASKED = 64  # dimensions that a mask can name
LISTED, LOOSE = np.uint64(1), np.uint64(2)

KNOWN, FULL, UNPLACED, DONE = -1, -2, -3, 0  # how a single change ended

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
def event_bucket(tree, live, slot):
    """The bucket of an event: its disjoint cells; cell c where it spans several, c + 1 where it lacks the attribute."""
    start = np.int64(live.events[slot].start)
    n = count_at(live, start)
    loose = flags_at(live, start) & LOOSE != 0
    number = np.int64(0)
    for a in range(tree.counts[LAYERS]):
        axis = tree.axes[a]
        dim = np.int64(axis.dim)
        parts = np.int64(axis.cells) - 2
        ticks = np.int64(axis.cuts) + 1
        cell = parts + 1
        at = value_of(live, start, dim)
        if at >= 0:
            cell = tick_of(tree, axis, live.keys[at]) * parts // ticks
            if loose:
                last = at
                while last + 1 < start + HEAD + n and live.keys[last + 1 + n] == dim:
                    last += 1
                if tick_of(tree, axis, live.keys[last + 2 * n]) * parts // ticks != cell:
                    cell = parts
        number += cell * np.int64(axis.radix)
    return number


@kernel
def locate_events(tree, live, slots, numbers):
    for i in range(slots.size):
        numbers[i] = np.uint32(event_bucket(tree, live, np.int64(slots[i])))


@helper
def write_event(tree, live, start, node, position, clear):
    """Clear the event's bits in the planes at or above its slices, or (on leaving) make its bits ones again. O(slices)."""
    flags = flags_at(live, start)
    words = np.int64(node.words)
    bit = ONE << np.uint64(position & 63)
    word = np.int64(node.start) + np.int64(HEAD_WORDS) * words + (position >> 6)
    opens = np.int64(node.start) + np.int64(MEMBER_WORDS + 1) * words + (position >> 6)
    if flags & LOOSE:
        if clear:
            tree.bits[opens] |= bit
        else:
            tree.bits[opens] &= ~bit
        return
    n = count_at(live, start)
    mask = live.words[start + MASK]
    for i in range(n):
        dim = np.int64(trailing_zeros(mask))
        mask &= mask - ONE
        if flags & LISTED:
            dim = np.int64(live.keys[start + HEAD + n + i])
        a = axis_number(tree, dim)
        if a >= tree.counts[SLICED]:
            continue
        axis = tree.axes[a]
        slices = np.int64(axis.slices)
        plane = word + np.int64(axis.plane) * words
        if not clear:
            set_bits(tree.bits, plane, words, slices + 1, position)
            continue
        first = np.int64(0)
        width = np.int64(1)
        if axis.cells > 0:
            cell = cell_of(tree, axis, np.int64(node.number))
            first, width = np.int64(cell.first), np.int64(cell.width)
        above = slice_of(axis, first, width, tick_of(tree, axis, live.keys[start + HEAD + i]))
        clear_bits(tree.bits, plane + above * words, words, slices + 1 - above, position, np.uint64(0))


@kernel
def place_events(tree, live, slots, numbers, first):
    """As `mo_tree.place_rows`, for events."""
    run = first
    for i in range(first, slots.size):
        number = np.int64(numbers[i])
        if run <= i:
            run = i + 1
            while run < slots.size and np.int64(numbers[run]) == number:
                run += 1
        n = node_with_room(tree, number, run - i)
        if n < 0:
            return i
        event = live.events[np.int64(slots[i])]
        node = tree.nodes[n]
        position = take_position(tree, node)
        tree.members[2 * np.int64(node.start) + position] = event.start
        event.node = np.uint32(n)
        event.position = np.uint32(position)
        write_event(tree, live, np.int64(event.start), node, position, True)
    return slots.size


@helper
def remove_event(tree, live, slot):
    event = live.events[slot]
    n, position = np.int64(event.node), np.int64(event.position)
    write_event(tree, live, np.int64(event.start), tree.nodes[n], position, False)
    give_back(tree, n, position)
    let_go(live, slot)


@kernel
def remove_events(tree, live, slots):
    """Remove events by slot, each named once. O(slices) each."""
    for i in range(slots.size):
        remove_event(tree, live, np.int64(slots[i]))


@kernel
def keep_one(tree, live, events, ids, until, most, slots, numbers):
    """Keep and place one event, so that there are at most `most`.

    KNOWN or FULL: nothing was done; UNPLACED: it is kept, at slots[0], and not placed.
    """
    if live.counts[LIVE] >= most or events.offsets.size != 2 or until.size != 1:
        return FULL
    if ids[0] < 0 or live.table[find(live, ids[0])] != NONE:
        return KNOWN
    if keep_events(live, events, ids, until, 0, slots) == 0:
        return FULL
    numbers[0] = np.uint32(event_bucket(tree, live, np.int64(slots[0])))
    return DONE if place_events(tree, live, slots, numbers, 0) == 1 else UNPLACED


@kernel
def remove_one(tree, live, id_):
    """Remove one event by id; KNOWN if it is not known."""
    start = live.table[find(live, id_)]
    if start == NONE:
        return KNOWN
    remove_event(tree, live, slot_at(live, np.int64(start)))
    return DONE


@kernel
def sweep(tree, live, now, limit):
    """Look at the next `limit` slots, round and round, and remove what has expired; return how many. O(limit)."""
    counts = live.counts
    gone = np.int64(0)
    for _ in range(min(limit, counts[SLOTS])):
        if counts[CURSOR] >= counts[SLOTS]:
            counts[CURSOR] = 0
        event = live.events[counts[CURSOR]]
        if event.node != NONE and not now < live.keys[np.int64(event.start) + UNTIL]:
            remove_event(tree, live, counts[CURSOR])
            gone += 1
        counts[CURSOR] += 1
    return gone
