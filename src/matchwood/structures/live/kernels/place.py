"""Live events in a tree of disjoint cells (MO-Tree 4.3.1): where they stand.

Tree     nodes, regions and chains as in `structures.mo_tree.kernels.layout`; what differs:
         members are regions of `kernels.layout`, not slots
         a layer has c disjoint cells, then a cell for values that span several, then the null cell
         plane (axis, slice j): the value's slice is above j, or there is none; the last plane of an axis: there is none. So
             j1 <= slice <= j2 is two planes, plane j1 - 1 and not plane j2, and an event writes half of its planes
         open: the event is LOOSE, planes know nothing about it
Invariant  every live event that does not wait is in one node, and in the planes its values name (`LiveEvents.check`).
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch, trailing_zeros
from matchwood.store.kernels.id_table import home
from matchwood.store.kernels.rows import AHEAD
from matchwood.structures.live.kernels.layout import (
    LISTED,
    LOOSE,
    SPREAD,
    count_at,
    flags_at,
    form_of,
    id_at,
    keep_event,
    let_go,
    mask_at,
    places_at,
    prefetch_id,
)
from matchwood.structures.live.kernels.values import end_at, key_at, key_in, last_part, nth_value, value_of
from matchwood.structures.mo_tree.kernels.block import (
    MANY_LEAVE,
    clear_out,
    note_axes,
    note_change,
    note_leaving,
    set_bits,
    settle,
)
from matchwood.structures.mo_tree.kernels.layout import (
    HEAD_WORDS,
    LAYERS,
    LINE,
    ONE,
    ONES,
    PLANES,
    SLICED,
    WHOLE,
    axis_number,
    slice_in,
    tick_of,
)
from matchwood.structures.mo_tree.kernels.nodes import (
    clear_bits,
    close_position,
    enter_piece,
    free_position,
    open_nodes,
    open_position,
    prefetch_share,
    release,
    share_of,
    take_position,
)
from matchwood.structures.mo_tree.kernels.spans import NOTHING, ODD, prefetch_spans


@helper
def disjoint_cell(axis, tick):
    """Unsigned: a quotient that may be negative takes twice as long."""
    return np.int64(np.uint64(tick) * np.uint64(axis.cells - 2) // np.uint64(axis.cuts + 1))


@helper
def event_bucket(tree, live, slot):
    """The bucket of an event: its disjoint cells; cell c where it spans several, c + 1 where it lacks the attribute."""
    start = np.int64(live.events[slot].start)
    loose = flags_at(live, start) & LOOSE != 0
    number = np.int64(0)
    for a in range(tree.counts[LAYERS]):
        axis = tree.axes[a]
        cell = np.int64(axis.cells) - 1
        i = value_of(live, start, np.int64(axis.dim))
        if i >= 0:
            cell = disjoint_cell(axis, tick_of(tree, axis, key_at(live, start, i)))
            if loose:
                end = end_at(live, start, last_part(live, start, i))
                if disjoint_cell(axis, tick_of(tree, axis, end)) != cell:
                    cell = np.int64(axis.cells) - 2
        number += cell * np.int64(axis.radix)
    return number


@kernel
def locate_events(tree, live, slots, numbers):
    for i in range(slots.size):
        numbers[i] = np.uint32(event_bucket(tree, live, np.int64(slots[i])))


@helper
def loose_bucket(tree, events, e):
    """`event_bucket` of an event with ranges or lists that is not kept yet. O(layers * entries)."""
    number = np.int64(0)
    for a in range(tree.counts[LAYERS]):
        axis = tree.axes[a]
        cell = begin = np.int64(axis.cells) - 1
        for i in range(events.offsets[e], events.offsets[e + 1]):
            if np.uint32(events.dims[i]) == axis.dim:
                if begin == np.int64(axis.cells) - 1:
                    begin = disjoint_cell(axis, tick_of(tree, axis, events.lo[i]))
                within = disjoint_cell(axis, tick_of(tree, axis, events.hi[i])) == begin
                cell = begin if within else np.int64(axis.cells) - 2
        number += cell * np.int64(axis.radix)
    return number


@helper
def slice_value(tree, a, key):
    """The slice of a value on axis a, and how far its cell is from the last in the number of the bucket."""
    axis = tree.axes[a]
    above, less = tick_of(tree, axis, key), np.int64(0)
    if a < tree.counts[LAYERS]:
        cell = disjoint_cell(axis, above)
        less = np.int64(axis.radix) * (np.int64(axis.cells) - 1 - cell)
        above = slice_in(tree.cells[np.uint64(axis.first_cell) + np.uint64(cell)], above)
    return np.uint8(above), less


@helper
def slice_event(tree, events, e, spans):
    """Write the spans of an event of single values; return its bucket. O(entries)."""
    number, sliced = tree.counts[WHOLE], tree.counts[SLICED]
    for i in range(np.uint64(events.offsets[e]), np.uint64(events.offsets[e + 1])):
        a = axis_number(tree, events.dims[i])
        if a >= sliced:
            spans[i].axis = NOTHING
            continue
        spans[i].axis = np.uint8(a)
        spans[i].first, less = slice_value(tree, a, events.lo[i])
        number -= less
    return number


@helper
def slice_one(tree, events, e, spans, flags):
    """Write the spans of event e, of those flags, whose `first` is the slice of the value; return its bucket. O(entries).

    ODD, at an event's first value: it is LOOSE, planes know nothing about it.
    """
    if flags & LOOSE:
        spans[events.offsets[e]].axis = ODD
        return loose_bucket(tree, events, e)
    return slice_event(tree, events, e, spans)


@kernel
def slice_events(tree, events, first, last, numbers, spans):
    """numbers[e] = the bucket of event e, for e in first..last - 1; write its spans. The store is not read: events are kept
    meanwhile."""
    for e in range(first, last):
        numbers[e] = np.uint32(slice_one(tree, events, e, spans, form_of(events, e)[0]))


@kernel
def keep_and_slice(tree, live, events, ids, until, first, last, slots, numbers, spans):
    """`keep_events` and `slice_events` in one pass over the values, for e in first..last - 1: they are most of what is read.

    An event that cannot be kept so simply has no slot then. Several threads may do this, see `keep_event`.
    """
    for e in range(first, last):
        prefetch_id(live, ids, e)
        flags, n = form_of(events, e)
        slots[e] = np.uint32(keep_event(live, events, e, ids, until, flags, n))  # -1 is none
        numbers[e] = np.uint32(slice_one(tree, events, e, spans, flags))


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
def slice_kept(tree, live, slots, numbers, offsets, spans):
    """As `slice_events`, of the events at these slots: offsets[i] says where the spans of the i-th begin.

    There is room for as many as there are axes, one at least.
    """
    for i in range(slots.size):
        prefetch_event(live, slots, i)
        start = np.int64(live.events[np.int64(slots[i])].start)
        at, end = np.uint64(offsets[i]), np.uint64(offsets[i + 1])
        flags, mask, n = flags_at(live, start), mask_at(live, start), places_at(live, start)
        if flags & LOOSE:
            numbers[i] = np.uint32(event_bucket(tree, live, np.int64(slots[i])))
            spans[at].axis = ODD
            continue
        number = tree.counts[WHOLE]
        for j in range(count_at(live, start)):
            dim, place = np.int64(trailing_zeros(mask)), j
            mask &= mask - ONE
            if flags & LISTED:
                dim, _ = nth_value(live, start, j)
            elif flags & SPREAD:
                place = dim
            a = axis_number(tree, dim)
            if a < tree.counts[SLICED]:
                spans[at].axis = np.uint8(a)
                spans[at].first, less = slice_value(tree, a, key_in(live, start, flags, n, place))
                number -= less
                at += ONE
        numbers[i] = np.uint32(number)
        while at < end:
            spans[at].axis = NOTHING
            at += ONE


@helper
def write_spans(tree, node, position, spans, begin, end, together):
    """Clear the bits of an event with the spans begin..end in the planes at or above its slices. O(slices).

    Now, or (`together`) with those of others, by `settle`.
    """
    words = np.int64(node.words)
    word = np.int64(node.start) + np.int64(HEAD_WORDS) * words + (position >> 6)
    axes = np.uint64(0)
    for i in range(begin, end):
        if spans[i].axis == NOTHING:
            continue
        a, above = np.int64(spans[i].axis), np.int64(spans[i].first)
        if together:
            note_change(tree, words, a, position, above)
            axes |= ONE << np.uint64(a)
        else:
            axis = tree.axes[a]
            plane = word + (np.int64(axis.plane) + above) * words
            clear_bits(tree.bits, plane, words, np.int64(axis.slices) + 1 - above, position, np.uint64(0))
    note_axes(tree, axes)


@helper
def wipe_event(tree, node, position):
    """Make all bits of an event that leaves ones again: most have a value on nearly every axis. O(planes)."""
    words = np.int64(node.words)
    word = np.int64(node.start) + np.int64(HEAD_WORDS) * words + (position >> 6)
    set_bits(tree.bits, word, words, tree.counts[PLANES], position)
    close_position(tree, node, position)


@helper
def reach_everywhere(node):
    """Every row that asks the bucket looks at the node: its events come as they come and stand in all slices of the cell."""
    node.reach_0 = node.reach_1 = ONES


@kernel
def place_new(tree, live, offsets, spans, which, slots, pieces):
    """As `structures.mo_tree.kernels.place.place_new`, for events."""
    for p in range(pieces.size):
        n, first, last, together = enter_piece(tree, pieces[p])
        node = tree.nodes[n]
        reach_everywhere(node)
        share = share_of(tree, node, last - first, together)
        for j in range(first, last):
            prefetch_spans(live.events, offsets, spans, which, slots, j)
            prefetch_share(tree, node, j - first, share)
            event = live.events[slots[j]]
            position = take_place(tree, n, event)
            begin, end = offsets[np.int64(which[j])], offsets[np.int64(which[j]) + 1]
            if begin < end and spans[begin].axis == ODD:
                open_position(tree, node, position)
            else:
                write_spans(tree, node, position, spans, begin, end, together)
        if together:
            settle(tree, node)


@helper
def take_place(tree, n, event):
    """A free position of a node that has one, for the event; its bits are not written yet."""
    node = tree.nodes[n]
    position = take_position(tree, node)
    tree.members[2 * np.int64(node.start) + position] = event.start
    event.node = np.uint32(n)
    event.position = np.uint32(position)
    return position


@helper
def remove_event(tree, live, slot):
    event = live.events[slot]
    n, position = np.int64(event.node), np.int64(event.position)
    wipe_event(tree, tree.nodes[n], position)
    free_position(tree, tree.nodes[n], position)
    release(tree, n, 1)
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
            release(tree, n, end - i)
            for j in range(i, end):
                let_go(live, np.int64(slots[j]))
        else:
            for j in range(i, end):
                remove_event(tree, live, np.int64(slots[j]))
        i = end


@kernel
def place_few(tree, live, offsets, spans, which, slots, numbers, pieces):
    """`slice_kept` and `place_new` in one call, as they come; return how many are placed, fewer if a pool is full."""
    slice_kept(tree, live, slots, numbers, offsets, spans)
    done, n = open_nodes(tree, numbers, 0, pieces, 0)
    place_new(tree, live, offsets, spans, which, slots, pieces[:n])
    return done
