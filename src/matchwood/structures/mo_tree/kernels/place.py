"""MO-Tree: rows put into their buckets, and written again when they change. In: rows of the store. Out: bits in planes."""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import (
    ABSENT,
    NARROWS,
    SET,
    has_room_for_grades,
    only_intervals,
    part_hi,
    part_lo,
    parts_of,
    raise_ceiling,
    rank_row,
    shape_of,
    write_entries,
    write_intervals,
)
from matchwood.structures.mo_tree.kernels.layout import (
    ONE,
    ONES,
    TreeCount,
    axis_number,
    bucket_number,
    enter_bucket,
    prefetch_row,
    slice_bits,
    slice_here,
)
from matchwood.structures.mo_tree.kernels.write import note_position, note_slices, placer, settle


@helper
def possible_slices(tree, store, start, at, a):
    """A bit for each slice of axis a in which the entry start + at may hold, then the null bit. O(its intervals)."""
    entry = store.entries[start + at]
    if entry.kind == ABSENT:
        return ONE << np.uint64(tree.axes[a].slices)
    if not entry.kind & SET:
        return slice_bits(slice_here(tree, a, entry.lo), slice_here(tree, a, entry.hi))
    touched = np.uint64(0)
    first, number, width = parts_of(store.entries, start, at)
    for i in range(number):
        lo, hi = part_lo(store.entries, first, width, i), part_hi(store.entries, first, width, i)
        touched |= slice_bits(slice_here(tree, a, lo), slice_here(tree, a, hi))
    return touched


@helper
def note_row(tree, store, slot, node):
    """Note the planes of a row that has a position in the node; its bucket has been entered. O(entries * slices)."""
    row, position = store.rows[slot], np.int64(tree.places[slot].position)
    is_open = False
    reach_0 = reach_1 = ONES
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        entry = store.entries[at]
        if entry.kind & NARROWS:  # its intervals stand before it
            continue
        a = axis_number(tree, entry.dim)
        is_open = is_open or entry.kind == ABSENT or a >= tree.counts[TreeCount.SLICED]
        if a >= tree.counts[TreeCount.SLICED]:
            continue
        possible = possible_slices(tree, store, np.int64(row.start), at - np.int64(row.start), a)
        note_slices(tree, node, a, position, possible)
        if a == 0:
            reach_0 = possible
        elif a == 1:
            reach_1 = possible
    node.reach_0 |= reach_0
    node.reach_1 |= reach_1
    note_position(tree, node, position, is_open)


place = placer(prefetch_row, note_row)


@kernel
def place_rows(tree, store, slots, numbers, first):
    """Put the rows at slots[first:] into their buckets, see `kernels.write.placer`."""
    return place(tree, store, slots, numbers, first)


@kernel
def write_again(tree, store, slots, moved, numbers):
    """Write the planes of rows that have changed in the store and stay in their buckets; rows of one node are adjacent.

    `moved` lists the slots of those that do not stay, `numbers` their new buckets; return how many. O(entries * slices), and
    O(planes) a node.
    """
    i = n = np.int64(0)
    while i < slots.size:
        here = tree.places[np.int64(slots[i])].node
        node = tree.nodes[here]
        enter_bucket(tree, np.int64(node.number))
        while i < slots.size and tree.places[np.int64(slots[i])].node == here:
            prefetch_row(store, slots, i)
            number = np.uint32(bucket_number(tree, store, np.int64(slots[i])))
            if number == node.number:
                note_row(tree, store, np.int64(slots[i]), node)
            else:
                moved[n], numbers[n] = slots[i], number
                n += 1
            i += 1
        settle(tree, node)
    return n


@kernel
def rewrite_rows(store, rows, slots, done):
    """Rewrite the row at slots[r] as row r of the CSR arrays where that has as many entries; done[r] says so. O(entries)."""
    for r in range(slots.size):
        prefetch_row(store, slots, r)
        row = store.rows[np.int64(slots[r])]
        main, extras = shape_of(rows, r)
        same = np.int64(row.size) == main + extras and np.int64(row.count) == main
        done[r] = same and has_room_for_grades(store, rows, r, extras)
        if done[r]:
            rank_row(row, rows, r)
            if only_intervals(rows, r):
                write_intervals(store, rows, r, np.int64(row.start))
            else:
                write_entries(store, rows, r, np.int64(row.start), main)
            raise_ceiling(store, np.int64(slots[r]))
