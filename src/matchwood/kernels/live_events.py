"""Live events: kept compactly, found by id, and placed in a tree of disjoint cells (MO-Tree 4.3.1).

Layout   events[slot] (32 B) -> keys[start : start + n] and dims[start : start + n], by rising dimension: 10 bytes a value.
         LOOSE: ranges, lists or weights: lo, hi and weight are three runs of n keys.
Table    open addressing, linear probing: slots by event id (4 bytes an event at half load, the id is read from the event).
Tree     nodes, regions and chains as in `kernels.mo_tree`; what differs:
         a layer has c disjoint cells, then a cell for values that span several, then the null cell
         plane (axis, slice j): the value's slice is above j, or there is none; the last plane of an axis: there is none. So
             j1 <= slice <= j2 is two planes, plane j1 - 1 and not plane j2, and an event writes half of its planes
         open: the event is LOOSE, planes know nothing about it
Invariant  every live event is in the table, in one node, and in the planes its values name (`LiveEvents.check`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.mo_tree import (
    HEAD_WORDS,
    LAYERS,
    MEMBER_WORDS,
    NONE,
    ONE,
    SLICED,
    axis_number,
    cell_of,
    give_back,
    node_with_room,
    slice_of,
    take_position,
    tick_of,
)
from matchwood.kernels.store import EXACT_CLASSES, class_size, home, size_class

EVENT = np.dtype(
    [
        ("id", "i8"),
        ("until", "f8"),
        ("start", "u4"),
        ("node", "u4"),
        ("position", "u2"),
        ("count", "u2"),
        ("flags", "u4"),
    ]
)
FREE = np.int64(-1)
LOOSE = np.uint32(1)

# places in `counts`
SLOTS, LIVE, FREE_SLOT, KEYS, CURSOR, MOST = 0, 1, 2, 3, 4, 5
REGIONS = 8
COUNTS = REGIONS + EXACT_CLASSES + 1 + 32


class Live(NamedTuple):
    """The state of the kept events, as kernels see it."""

    events: np.ndarray  # EVENT
    keys: np.ndarray  # float64
    dims: np.ndarray  # uint16
    table: np.ndarray  # uint32, a power of two long
    counts: np.ndarray  # int64


@helper
def find(live, id_):
    """The cell of the table that holds the id, or the free one where it would go."""
    at = home(live.table, id_)
    while live.table[at] != NONE and live.events[np.int64(live.table[at])].id != id_:
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
            start = home(live.table, live.events[np.int64(live.table[probe])].id)
            if ((probe - start) & mask) >= ((probe - hole) & mask):
                break
        live.table[hole] = live.table[probe]
        hole = probe


@kernel
def rehash(live, table):
    """Enter every live event into the new, empty table. O(cells)."""
    for i in range(live.table.size):
        if live.table[i] == NONE:
            continue
        at = home(table, live.events[np.int64(live.table[i])].id)
        while table[at] != NONE:
            at = (at + 1) & (table.size - 1)
        table[at] = live.table[i]


@kernel
def slots_of_ids(live, ids, slots):
    """slots[i] = where event ids[i] is kept, or none."""
    for i in range(ids.size):
        slots[i] = live.table[find(live, ids[i])]


@helper
def is_loose(events, e):
    """Has the event a range, a list or a weight? O(entries)."""
    begin, end = events.offsets[e], events.offsets[e + 1]
    for i in range(begin, end):
        if events.lo[i] != events.hi[i] or events.weight[i] != 1.0:
            return True
        if i > begin and events.dims[i] == events.dims[i - 1]:
            return True
    return False


@helper
def copy_key(keys, source, target, n, loose):
    keys[target] = keys[source]
    if loose:
        keys[target + n] = keys[source + n]
        keys[target + 2 * n] = keys[source + 2 * n]


@kernel
def keep_events(live, events, ids, until, first, slots):
    """Keep events[first:] under new ids; return the first not kept (a pool is full) or their number. O(entries)."""
    counts = live.counts
    for e in range(first, ids.size):
        begin = events.offsets[e]
        n = events.offsets[e + 1] - begin
        loose = is_loose(events, e)
        class_ = size_class(3 * n if loose else n)
        size = class_size(class_)
        fresh_region = counts[REGIONS + class_] == FREE
        fresh_slot = counts[FREE_SLOT] == np.int64(NONE)
        if (fresh_region and counts[KEYS] + size > live.keys.size) or 2 * (counts[LIVE] + 1) > live.table.size:
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
        if size == 0:
            start = np.int64(0)
        elif fresh_region:
            counts[KEYS] += size
        else:
            start = counts[REGIONS + class_]
            counts[REGIONS + class_] = np.int64(live.keys[start])
        event.id, event.until, event.start = ids[e], until[e], np.uint32(start)
        event.count, event.flags = np.uint16(n), LOOSE if loose else np.uint32(0)
        for i in range(n):
            dim = events.dims[begin + i]
            at = start + i
            while at > start and live.dims[at - 1] > dim:
                live.dims[at] = live.dims[at - 1]
                copy_key(live.keys, at - 1, at, n, loose)
                at -= 1
            live.dims[at] = dim
            live.keys[at] = events.lo[begin + i]
            if loose:
                live.keys[at + n] = events.hi[begin + i]
                live.keys[at + 2 * n] = events.weight[begin + i]
        live.table[find(live, ids[e])] = np.uint32(slot)
        counts[MOST] = max(counts[MOST], n)
        counts[LIVE] += 1
        slots[e] = np.uint32(slot)
    return ids.size


@helper
def let_go(live, slot):
    """Free an event's slot, keys and cell of the table."""
    event = live.events[slot]
    forget(live, find(live, event.id))
    n = np.int64(event.count)
    class_ = size_class(3 * n if event.flags & LOOSE else n)
    if class_ > 0:
        live.keys[np.int64(event.start)] = np.float64(live.counts[REGIONS + class_])
        live.counts[REGIONS + class_] = np.int64(event.start)
    event.id = FREE
    event.start = np.uint32(live.counts[FREE_SLOT])
    live.counts[FREE_SLOT] = slot
    live.counts[LIVE] -= 1


@helper
def event_bucket(tree, live, slot):
    """The bucket of an event: its disjoint cells; cell c where it spans several, c + 1 where it lacks the attribute."""
    event = live.events[slot]
    start, n = np.int64(event.start), np.int64(event.count)
    loose = event.flags & LOOSE
    number = np.int64(0)
    for a in range(tree.counts[LAYERS]):
        axis = tree.axes[a]
        parts = np.int64(axis.cells) - 2
        ticks = np.int64(axis.cuts) + 1
        cell = parts + 1
        for i in range(n):
            if np.int64(live.dims[start + i]) != np.int64(axis.dim):
                continue
            here = tick_of(tree, axis, live.keys[start + i]) * parts // ticks
            there = here
            if loose:
                there = tick_of(tree, axis, live.keys[start + n + i]) * parts // ticks
            if cell == parts + 1:
                cell = here
            if here != there or here != cell:
                cell = parts
        number += cell * np.int64(axis.radix)
    return number


@kernel
def locate_events(tree, live, slots, numbers):
    for i in range(slots.size):
        numbers[i] = np.uint32(event_bucket(tree, live, np.int64(slots[i])))


@helper
def write_event(tree, live, slot, node, position, clear):
    """Clear the event's bits in the planes at or above its slices, or (on leaving) make its bits ones again. O(slices)."""
    event = live.events[slot]
    start, n = np.int64(event.start), np.int64(event.count)
    words = np.int64(node.words)
    bit = ONE << np.uint64(position & 63)
    word = np.int64(node.start) + np.int64(HEAD_WORDS) * words + (position >> 6)
    opens = np.int64(node.start) + np.int64(MEMBER_WORDS + 1) * words + (position >> 6)
    if event.flags & LOOSE:
        if clear:
            tree.bits[opens] |= bit
        else:
            tree.bits[opens] &= ~bit
        return
    for i in range(n):
        a = axis_number(tree, np.int64(live.dims[start + i]))
        if a >= tree.counts[SLICED]:
            continue
        axis = tree.axes[a]
        slices = np.int64(axis.slices)
        plane = word + np.int64(axis.plane) * words
        if not clear:
            for _ in range(slices + 1):
                tree.bits[plane] |= bit
                plane += words
            continue
        first = np.int64(0)
        width = np.int64(1)
        if axis.cells > 0:
            cell = cell_of(tree, axis, np.int64(node.number))
            first, width = np.int64(cell.first), np.int64(cell.width)
        above = slice_of(axis, first, width, tick_of(tree, axis, live.keys[start + i]))
        plane += above * words
        for _ in range(slices + 1 - above):
            tree.bits[plane] &= ~bit
            plane += words


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
        slot = np.int64(slots[i])
        node = tree.nodes[n]
        position = take_position(tree, node)
        tree.members[2 * np.int64(node.start) + position] = np.uint32(slot)
        live.events[slot].node = np.uint32(n)
        live.events[slot].position = np.uint16(position)
        write_event(tree, live, slot, node, position, True)
    return slots.size


@helper
def remove_event(tree, live, slot):
    event = live.events[slot]
    n, position = np.int64(event.node), np.int64(event.position)
    write_event(tree, live, slot, tree.nodes[n], position, False)
    give_back(tree, n, position)
    let_go(live, slot)


@kernel
def remove_events(tree, live, slots):
    """Remove events by slot, each named once. O(slices) each."""
    for i in range(slots.size):
        remove_event(tree, live, np.int64(slots[i]))


@kernel
def sweep(tree, live, now, limit):
    """Look at the next `limit` slots, round and round, and remove what has expired; return how many. O(limit)."""
    counts = live.counts
    gone = np.int64(0)
    for _ in range(min(limit, counts[SLOTS])):
        if counts[CURSOR] >= counts[SLOTS]:
            counts[CURSOR] = 0
        event = live.events[counts[CURSOR]]
        if event.id != FREE and not now < event.until:
            remove_event(tree, live, counts[CURSOR])
            gone += 1
        counts[CURSOR] += 1
    return gone
