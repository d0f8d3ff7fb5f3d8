"""MO-Tree, maintenance of what is there: updates in place, and single changes in one call.

A single change by way of the store, the tree and their checks in Python costs 30 us, most of it for handing arrays over; here
the arrays are handed over once.
"""

from __future__ import annotations

import numpy as np

from matchwood.encode import arrays
from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import prefetch, trailing_zeros
from matchwood.kernels.mo_tree import (
    HEAD_WORDS,
    NONE,
    ONE,
    SLICED,
    axis_number,
    bucket_number,
    cell_span,
    new_bucket,
    prefetch_row,
    slices_between,
)
from matchwood.kernels.mo_tree_place import give_back, place_rows, remove_rows, write_row
from matchwood.kernels.store import (
    ABSENT,
    AHEAD,
    add_rows,
    first_slot,
    home,
    prefetch_new,
    remove_ids,
    shape_of,
    write_entries,
)

MARK = np.uint16(0x8000)  # of a row, while `slots_once` runs
KNOWN, FULL, UNPLACED, DONE = -1, -2, -3, 0
_ABSENT = arrays.ABSENT


@helper
def stays(tree, store, rows, r, row, number):
    """Does a row of single intervals keep its dimensions, in their order, and its bucket? O(entries)."""
    begin, start = rows.offsets[r], np.int64(row.start)
    if row.size != row.count:
        return False
    for i in range(np.int64(row.count)):
        entry = store.entries[start + i]
        if entry.dim != rows.dims[begin + i] or entry.kind == ABSENT or rows.kinds[begin + i] == _ABSENT:
            return False
    return new_bucket(tree, rows, r) == number


@helper
def shift(tree, store, rows, r, row, node, position):
    """Rewrite a row that stays: only the bits of slices that it enters or leaves are turned. O(entries + those slices).

    A subscriber who moves a few metres turns none or a few bits of two attributes, instead of clearing and writing 150.
    """
    begin, start = rows.offsets[r], np.int64(row.start)
    words = np.int64(node.words)
    bit = ONE << np.uint64(position & 63)
    word = np.int64(node.start) + np.int64(HEAD_WORDS) * words + (position >> 6)
    number = np.int64(node.number)
    for i in range(np.int64(row.count)):
        entry = store.entries[start + i]
        a = axis_number(tree, np.int64(entry.dim))
        if a < tree.counts[SLICED] and (entry.lo != rows.lo[begin + i] or entry.hi != rows.hi[begin + i]):
            axis = tree.axes[a]
            first, width = cell_span(tree, axis, number)
            touched = slices_between(tree, axis, first, width, rows.lo[begin + i], rows.hi[begin + i])
            if a == 0:
                node.reach_0 |= touched
            elif a == 1:
                node.reach_1 |= touched
            turned = touched ^ slices_between(tree, axis, first, width, entry.lo, entry.hi)
            while turned:
                plane = np.int64(axis.plane) + np.int64(trailing_zeros(turned))
                tree.bits[word + plane * words] ^= bit
                turned &= turned - ONE
    write_entries(store, rows, r, start, np.int64(row.count))
    row.priority = rows.priority[r]


@helper
def rewrite(tree, store, rows, r, slot):
    """Rewrite a row in its slot. DONE: it keeps its place in the tree too; UNPLACED: it moves; FULL: another shape, untouched."""
    row = store.rows[slot]
    main, extras = shape_of(rows, r)
    if row.next != NONE or np.int64(row.size) != main + extras or np.int64(row.count) != main:
        return FULL
    place = tree.places[slot]
    n, position = np.int64(place.node), np.int64(place.position)
    node = tree.nodes[n]
    if stays(tree, store, rows, r, row, np.int64(node.number)):
        shift(tree, store, rows, r, row, node, position)
        return DONE
    write_row(tree, store, slot, node, position, False)
    write_entries(store, rows, r, np.int64(row.start), main)
    row.priority = rows.priority[r]
    if bucket_number(tree, store, slot) == np.int64(node.number):
        write_row(tree, store, slot, node, position, True)
        return DONE
    give_back(tree, n, position)
    return UNPLACED


@kernel
def slots_once(store, ids, slots):
    """slots[i] = where the one row of subscription ids[i] is; return how many were found before one that is unknown, named twice
    or of several rows. O(ids).

    Rows are marked to see an id again: 0.07 us an id, where sorting them costs 0.25.
    """
    n = ids.size
    for i in range(ids.size):
        prefetch(store.table, home(store.table, ids[min(i + 2 * AHEAD, ids.size - 1)]))
        prefetch(store.rows, np.int64(store.table[home(store.table, ids[min(i + AHEAD, ids.size - 1)])].slot))
        slot = first_slot(store, ids[i])
        if slot < 0 or store.rows[slot].next != NONE or store.rows[slot].flags & MARK:
            n = i
            break
        store.rows[slot].flags |= MARK
        slots[i] = np.uint32(slot)
    for i in range(n):
        store.rows[np.int64(slots[i])].flags &= ~MARK
    return n


@kernel
def update_rows(tree, store, rows, order, slots, pending, odd):
    """Rewrite the row at slots[i] as rows[order[i]], one row a subscription. O(slices of the row) each.

    A row whose bucket stays keeps its position (MO-Tree 4.6.2). One that moves keeps its slot and is left in `pending`, to
    be placed; one of another shape is untouched and left in `odd`. Return how many of both.
    """
    moves = np.int64(0)
    odds = np.int64(0)
    for i in range(order.size):
        r = np.int64(order[i])
        slot = np.int64(slots[i])
        prefetch_row(store, slots, i)
        prefetch_new(rows, order, i)
        prefetch(tree.places, np.int64(slots[min(i + AHEAD, slots.size - 1)]))
        code = rewrite(tree, store, rows, r, slot)
        if code == FULL:
            odd[odds] = r
            odds += 1
        elif code == UNPLACED:
            pending[moves] = np.uint32(slot)
            moves += 1
    return moves, odds


@kernel
def insert_one(tree, store, rows, slots, numbers):
    """Add a subscription of one row. KNOWN or FULL: nothing was done; UNPLACED: it is stored, at slots[0], and not placed."""
    if rows.ids[0] < 0 or first_slot(store, rows.ids[0]) >= 0:
        return KNOWN
    if add_rows(store, rows, None, 0, slots) == 0:
        return FULL
    if np.int64(slots[0]) >= tree.places.size:
        return UNPLACED
    numbers[0] = np.uint32(bucket_number(tree, store, np.int64(slots[0])))
    return DONE if place_rows(tree, store, slots, numbers, 0) == 1 else UNPLACED


@kernel
def delete_one(tree, store, ids, slots):
    """Remove a subscription of one row. FULL: it has several rows, or is not known; nothing was done."""
    slot = first_slot(store, ids[0])
    if slot < 0 or store.rows[slot].next != NONE:
        return FULL
    slots[0] = np.uint32(slot)
    remove_rows(tree, store, slots)
    remove_ids(store, ids)
    return DONE


@kernel
def update_one(tree, store, rows, slots, numbers):
    """Replace a subscription of one row. FULL: nothing was done; UNPLACED: it is stored anew, at slots[0], and not placed."""
    slot = first_slot(store, rows.ids[0])
    if slot < 0:
        return FULL
    slots[0] = np.uint32(slot)
    code = rewrite(tree, store, rows, np.int64(0), slot)
    if code != UNPLACED:
        return code
    numbers[0] = np.uint32(bucket_number(tree, store, slot))
    return DONE if place_rows(tree, store, slots, numbers, 0) == 1 else UNPLACED
