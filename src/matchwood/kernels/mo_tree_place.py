"""MO-Tree: rows put into their buckets and taken out again. In: rows of the store, their buckets. Out: bits in nodes.

Alone, or many of a node together (`kernels.mo_tree_block`).
"""

from __future__ import annotations

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import prefetch
from matchwood.kernels.mo_tree import (
    HEAD_WORDS,
    NONE,
    ONES,
    SLICED,
    axis_number,
    prefetch_row,
    slice_bits,
    slice_span,
    slices_of_set,
)
from matchwood.kernels.mo_tree_block import MANY_LEAVE, clear_out, note_leaving, note_slices, settle
from matchwood.kernels.mo_tree_nodes import (
    clear_bits,
    close_position,
    give_back,
    next_node,
    open_position,
    set_bits,
    take_position,
)
from matchwood.kernels.store import ABSENT, AHEAD, CIRCLE, SET, add_row, prefetch_new


@helper
def write_row(tree, store, slot, node, position, together):
    """Clear the bits where the row cannot hold: now, or (`together`) with those of others, by `settle`. O(slices).

    The node has been entered.
    """
    row = store.rows[slot]
    start = np.int64(row.start)
    words = np.int64(node.words)
    word = np.int64(node.start) + np.int64(HEAD_WORDS) * words + (position >> 6)
    is_open = False
    reach_0 = reach_1 = ONES
    for at in range(np.int64(row.count)):
        entry = store.entries[start + at]
        if entry.kind & CIRCLE:
            continue
        a = axis_number(tree, np.int64(entry.dim))
        is_open = is_open or entry.kind == ABSENT or a >= tree.counts[SLICED]
        if a >= tree.counts[SLICED]:
            continue
        axis = tree.axes[a]
        begin = end = np.int64(axis.slices)  # the null plane
        if entry.kind != ABSENT:
            begin, end = slice_span(tree, a, entry.lo, entry.hi)
        possible = slice_bits(begin, end)
        if entry.kind & SET:
            possible = slices_of_set(tree, store, start, entry, a)
        if a == 0:
            reach_0 = possible
        elif a == 1:
            reach_1 = possible
        if together and not entry.kind & SET:
            note_slices(tree, a, position, begin, end)
        else:
            plane = word + np.int64(axis.plane) * words
            clear_bits(tree.bits, plane, words, np.int64(axis.slices) + 1, position, possible)
    node.reach_0 |= reach_0
    node.reach_1 |= reach_1
    if is_open:
        open_position(tree, node, position)


@helper
def wipe_row(tree, store, slot, node, position):
    """Make the bits of a row that leaves ones again. O(slices)."""
    row = store.rows[slot]
    words = np.int64(node.words)
    word = np.int64(node.start) + np.int64(HEAD_WORDS) * words + (position >> 6)
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        entry = store.entries[at]
        a = axis_number(tree, np.int64(entry.dim))
        if a < tree.counts[SLICED] and not entry.kind & CIRCLE:
            axis = tree.axes[a]
            set_bits(tree.bits, word + np.int64(axis.plane) * words, words, np.int64(axis.slices) + 1, position)
    close_position(tree, node, position)


@helper
def same_node(tree, slots, i):
    """Where the run of slots in the node of slots[i] ends. O(run)."""
    n = tree.places[np.int64(slots[i])].node
    end = i + 1
    while end < slots.size and tree.places[np.int64(slots[end])].node == n:
        prefetch(tree.places, np.int64(slots[min(end + 2 * AHEAD, slots.size - 1)]))
        end += 1
    return end


@helper
def place_row(tree, store, slot, n, together):
    """Put a row into a node that has been entered and has a free position."""
    node = tree.nodes[n]
    position = take_position(tree, node)
    tree.members[2 * np.int64(node.start) + position] = np.uint32(slot)
    tree.places[slot].node = np.uint32(n)
    tree.places[slot].position = np.uint32(position)
    write_row(tree, store, slot, node, position, together)


@kernel
def place_rows(tree, store, slots, numbers, first):
    """Put rows first, first + 1, ... into their buckets; return the first for which a pool has no room, or their number.

    O(slices of the row) each, less where many of a bucket follow each other.
    """
    i = run = first
    while i < slots.size:
        run, n, here, together = next_node(tree, numbers, i, run)
        if n < 0:
            return i
        for j in range(i, i + here):
            prefetch_row(store, slots, j)
            place_row(tree, store, np.int64(slots[j]), n, together)
        if together:
            settle(tree, tree.nodes[n])
        i += here
    return slots.size


@kernel
def insert_rows(tree, store, rows, order, numbers, first, slots):
    """Store the rows order[first:] of the CSR arrays and put them into their buckets numbers[first:], ascending.

    slots[r] is where row r went; ids are not entered. Return how many are there, and whether the store had room: less than all
    if one of its pools or (so it had) of the tree's is full. As `place_rows`; a row is sliced while its entries are near.
    """
    i = run = first
    while i < order.size:
        run, n, here, together = next_node(tree, numbers, i, run)
        if n < 0:
            return i, True
        slot = np.int64(0)
        end = i + here
        while i < end:
            prefetch_new(rows, order, i)
            r = np.int64(order[i])
            slot = add_row(store, rows, r)
            if slot < 0:
                break
            slots[r] = np.uint32(slot)
            place_row(tree, store, slot, n, together)
            i += 1
        if together:
            settle(tree, tree.nodes[n])
        if slot < 0:
            return i, False
    return order.size, True


@helper
def leave_node(tree, store, slots, begin, end):
    """Take the rows slots[begin:end] out of the one node where they are. O(slices of the row) each, less where they are many."""
    if begin == end:
        return
    n = np.int64(tree.places[np.int64(slots[begin])].node)
    node = tree.nodes[n]
    together = end - begin >= MANY_LEAVE
    for j in range(begin, end):
        slot = np.int64(slots[j])
        if together:
            note_leaving(tree, np.int64(tree.places[slot].position))
        else:
            wipe_row(tree, store, slot, node, np.int64(tree.places[slot].position))
    if together:
        clear_out(tree, node)
    for j in range(begin, end):
        place = tree.places[np.int64(slots[j])]
        give_back(tree, n, np.int64(place.position))
        place.node = NONE


@kernel
def remove_rows(tree, store, slots):
    """Take rows, those of a node one after the other, out of their buckets; the store still has them."""
    i = np.int64(0)
    while i < slots.size:
        end = same_node(tree, slots, i)
        for j in range(i, min(end, i + MANY_LEAVE)):
            prefetch_row(store, slots, j)
        leave_node(tree, store, slots, i, end)
        i = end
