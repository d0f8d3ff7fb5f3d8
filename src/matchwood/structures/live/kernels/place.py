"""Live events in a tree of disjoint cells (MO-Tree 4.3.1): where they stand.

Tree     nodes, regions and chains as in `structures.mo_tree.kernels.layout`; what differs:
         a layer has c disjoint cells, then a cell for values that span several, then the null cell
         plane (axis, slice j): the value's slice is above j, or there is none; the last plane of an axis: there is none. So
             j1 <= slice <= j2 takes two planes: plane j1 - 1 and not plane j2
         open: the event is general; planes know nothing about it
Invariant  every live event is in one node, and in the planes its values name (`LiveEvents.check`).
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch, trailing_zeros
from matchwood.store.kernels.distances import PREFETCH_IDS
from matchwood.structures.live.kernels.layout import key_range
from matchwood.structures.mo_tree.kernels.layout import (
    ONE,
    ONES,
    TreeCount,
    axis_number,
    slice_here,
    tick_of,
)
from matchwood.structures.mo_tree.kernels.write import note_position, note_slices, placer


@helper
def disjoint_cell(axis, tick):
    """The cell of a tick among the disjoint ones of a layer."""
    return np.int64(np.uint64(tick) * np.uint64(axis.cells - 2) // np.uint64(axis.cuts + 1))


@helper
def event_bucket(tree, live, slot):
    """The bucket of an event: on each layer its disjoint cell, the next to last where it spans several, the last where it lacks
    the attribute. O(layers)."""
    event, number = live.events[slot], np.int64(0)
    for a in range(tree.counts[TreeCount.LAYERS]):
        axis = tree.axes[a]
        cell = np.int64(axis.cells) - 1
        lo, hi = key_range(live, event, np.int64(axis.dim))
        if not np.isnan(lo):
            cell = disjoint_cell(axis, tick_of(tree, axis, lo))
            if disjoint_cell(axis, tick_of(tree, axis, hi)) != cell:
                cell = np.int64(axis.cells) - 2
        number += cell * np.int64(axis.radix)
    return number


@helper
def prefetch_event(live, slots, i):
    """Prefetch an event that comes soon, and the values of one that comes sooner."""
    last = slots.size - 1
    prefetch(live.events, np.int64(slots[min(i + 2 * PREFETCH_IDS, last)]))
    start = np.int64(live.events[np.int64(slots[min(i + PREFETCH_IDS, last)])].start)
    prefetch(live.keys, start)
    prefetch(live.keys, start + 8)


@kernel
def locate_events(tree, live, slots, numbers):
    """numbers[i] = the bucket of the event at slots[i]. O(layers) each."""
    for i in range(slots.size):
        prefetch_event(live, slots, i)
        numbers[i] = np.uint32(event_bucket(tree, live, np.int64(slots[i])))


@helper
def note_event(tree, live, slot, node):
    """Note the planes of an event that has a position in the node; its bucket has been entered. O(values)."""
    event, position = live.events[slot], np.int64(tree.places[slot].position)
    if not event.is_general:
        mask, at = event.mask, np.int64(event.start)
        while mask:
            a = axis_number(tree, np.int64(trailing_zeros(mask)))
            if a < tree.counts[TreeCount.SLICED]:
                below = (ONE << np.uint64(slice_here(tree, a, live.keys[at]))) - ONE
                note_slices(tree, node, a, position, below)
            mask &= mask - ONE
            at += 1
    note_position(tree, node, position, event.is_general != 0)
    node.reach_0 = node.reach_1 = ONES  # events of a node stand in all slices of its cell


place = placer(prefetch_event, note_event)


@kernel
def place_events(tree, live, slots, numbers, first):
    """Put the events at slots[first:] into their buckets, see `mo_tree.kernels.write.placer`.

    The bucket of a single event is found here; of several the caller finds them, to sort by them.
    """
    if slots.size == 1:
        numbers[0] = np.uint32(event_bucket(tree, live, np.int64(slots[0])))
    return place(tree, live, slots, numbers, first)
