"""Live events in a tree of disjoint cells (MO-Tree 4.3.1): where they stand, and how single ones come and go.

Tree     nodes, regions and chains as in `kernels.mo_tree`; what differs:
         members are regions of `kernels.live_events`, not slots
         a layer has c disjoint cells, then a cell for values that span several, then the null cell
         plane (axis, slice j): the value's slice is above j, or there is none; the last plane of an axis: there is none. So
             j1 <= slice <= j2 is two planes, plane j1 - 1 and not plane j2, and an event writes half of its planes
         open: the event is LOOSE, planes know nothing about it
Invariant  every live event is in one node, and in the planes its values name (`LiveEvents.check`).
"""

from __future__ import annotations

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import prefetch, trailing_zeros
from matchwood.kernels.live_events import (
    HEAD,
    LISTED,
    LIVE,
    LOOSE,
    MASK,
    count_at,
    find,
    flags_at,
    id_at,
    keep_events,
    let_go,
    slot_at,
    value_of,
)
from matchwood.kernels.mo_tree import (
    HEAD_WORDS,
    LAYERS,
    LINE,
    NONE,
    ONE,
    PLANES,
    SLICED,
    axis_number,
    slice_here,
    tick_of,
)
from matchwood.kernels.mo_tree_block import (
    LOWEST,
    MANY_LEAVE,
    clear_out,
    note_leaving,
    note_slices,
    settle,
)
from matchwood.kernels.mo_tree_nodes import (
    clear_bits,
    close_position,
    give_back,
    next_node,
    open_position,
    set_bits,
    take_position,
)
from matchwood.kernels.store import AHEAD, home

KNOWN, FULL, UNPLACED, DONE = -1, -2, -3, 0  # how a single change ended


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
def write_event(tree, live, start, node, position, together):
    """Clear the event's bits in the planes at or above its slices: now, or (`together`) with those of others, by `settle`.

    The node has been entered. O(slices).
    """
    if flags_at(live, start) & LOOSE:
        open_position(tree, node, position)
        return
    words = np.int64(node.words)
    word = np.int64(node.start) + np.int64(HEAD_WORDS) * words + (position >> 6)
    n = count_at(live, start)
    mask = live.words[start + MASK]
    for i in range(n):
        dim = np.int64(trailing_zeros(mask))
        mask &= mask - ONE
        if flags_at(live, start) & LISTED:
            dim = np.int64(live.keys[start + HEAD + n + i])
        a = axis_number(tree, dim)
        if a >= tree.counts[SLICED]:
            continue
        axis = tree.axes[a]
        above = slice_here(tree, a, tick_of(tree, axis, live.keys[start + HEAD + i]))
        if together:
            note_slices(tree, a, position, LOWEST, above - 1)
        else:
            plane = word + (np.int64(axis.plane) + above) * words
            clear_bits(tree.bits, plane, words, np.int64(axis.slices) + 1 - above, position, np.uint64(0))


@helper
def wipe_event(tree, node, position):
    """Make all bits of an event that leaves ones again: most have a value on nearly every axis. O(planes)."""
    words = np.int64(node.words)
    word = np.int64(node.start) + np.int64(HEAD_WORDS) * words + (position >> 6)
    set_bits(tree.bits, word, words, tree.counts[PLANES], position)
    close_position(tree, node, position)


@helper
def prefetch_event(live, slots, i):
    """Ask for an event that comes soon, its region, and its cell of the table, each when the one before it has come."""
    last = slots.size - 1
    prefetch(live.events, np.int64(slots[min(i + 3 * AHEAD, last)]))
    start = np.int64(live.events[np.int64(slots[min(i + 2 * AHEAD, last)])].start)
    for word in range(0, 3 * LINE, LINE):
        prefetch(live.words, start + word)
    start = np.int64(live.events[np.int64(slots[min(i + AHEAD, last)])].start)
    prefetch(live.table, home(live.table, id_at(live, start)))


@kernel
def place_events(tree, live, slots, numbers, first):
    """As `mo_tree_place.place_rows`, for events."""
    i = run = first
    while i < slots.size:
        run, n, here, together = next_node(tree, numbers, i, run)
        if n < 0:
            return i
        for j in range(i, i + here):
            prefetch_event(live, slots, j)
            event = live.events[np.int64(slots[j])]
            node = tree.nodes[n]
            position = take_position(tree, node)
            tree.members[2 * np.int64(node.start) + position] = event.start
            event.node = np.uint32(n)
            event.position = np.uint32(position)
            write_event(tree, live, np.int64(event.start), node, position, together)
        if together:
            settle(tree, tree.nodes[n])
        i += here
    return slots.size


@helper
def remove_event(tree, live, slot):
    event = live.events[slot]
    n, position = np.int64(event.node), np.int64(event.position)
    wipe_event(tree, tree.nodes[n], position)
    give_back(tree, n, position)
    let_go(live, slot)


@kernel
def remove_events(tree, live, slots):
    """Remove events by slot, each named once, those of a node one after the other. O(slices) each, less where they are many."""
    i = np.int64(0)
    while i < slots.size:
        n = np.int64(live.events[np.int64(slots[i])].node)
        end = i
        while end < slots.size and np.int64(live.events[np.int64(slots[end])].node) == n:
            prefetch_event(live, slots, end)
            end += 1
        if end - i >= MANY_LEAVE:
            for j in range(i, end):
                note_leaving(tree, np.int64(live.events[np.int64(slots[j])].position))
            clear_out(tree, tree.nodes[n])
            for j in range(i, end):
                give_back(tree, n, np.int64(live.events[np.int64(slots[j])].position))
                let_go(live, np.int64(slots[j]))
        else:
            for j in range(i, end):
                remove_event(tree, live, np.int64(slots[j]))
        i = end


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
