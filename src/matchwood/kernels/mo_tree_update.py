"""MO-Tree, maintenance of what is there: updates in place, and single changes in one call.

A single change by way of the store, the tree and their checks in Python costs 30 us, most of it for handing arrays over; here
the arrays are handed over once.
"""

from __future__ import annotations

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import prefetch
from matchwood.kernels.mo_tree import (
    AHEAD,
    NONE,
    bucket_number,
    give_back,
    place_rows,
    prefetch_row,
    remove_rows,
    write_row,
)
from matchwood.kernels.store import add_rows, first_slot, remove_ids, shape_of, write_entries

KNOWN, FULL, UNPLACED, DONE = -1, -2, -3, 0


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
    write_row(tree, store, slot, node, position, False)
    write_entries(store, rows, r, np.int64(row.start), main)
    row.priority = rows.priority[r]
    if bucket_number(tree, store, slot) == np.int64(node.number):
        write_row(tree, store, slot, node, position, True)
        return DONE
    give_back(tree, n, position)
    return UNPLACED


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
    if add_rows(store, rows, 0, slots) == 0:
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
