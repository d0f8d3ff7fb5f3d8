"""One row of a BE*-Tree changed in one call, store and tree together. In: a row or an id. Out: DONE, a bucket, or SLOWLY.

A call from Python costs as much as the change itself: what takes three kernels for many rows is one here. Whatever is
out of the ordinary (an id known or unknown where it should not be, siblings, a pool that is full, a rigid tree) is left to
the way of many rows, before anything has changed.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import (
    ENTRIES,
    FREE_SLOTS,
    MAX_COUNT,
    SIBLING,
    SLOTS,
    add_rows,
    class_size,
    first_slot,
    remove_ids,
    shape_of,
    size_class,
)
from matchwood.structures.be_star.kernels.delete import delete_many
from matchwood.structures.be_star.kernels.insert import place_row, room_for_one
from matchwood.structures.be_star.kernels.layout import RIGID, SPLITTING
from matchwood.structures.be_star.kernels.rewrite import rewrite, stays

DONE, SLOWLY = np.int64(-1), np.int64(-2)


@helper
def has_room(tree, store, rows, fresh_slot):
    """Can the one row be put into store and tree without growing anything?"""
    counts = store.counts
    number = rows.offsets[1] - rows.offsets[0]
    if tree.counts[SPLITTING] == RIGID or number > MAX_COUNT or not room_for_one(tree):
        return False
    main, extras = shape_of(rows, 0)
    if counts[ENTRIES] + class_size(size_class(main + extras)) > store.entries.size:
        return False
    if fresh_slot and counts[FREE_SLOTS] == 0 and counts[SLOTS] >= min(store.rows.size, tree.homes.size):
        return False
    for e in range(rows.offsets[0], rows.offsets[1]):
        if np.int64(rows.dims[e]) >= tree.domains.size:
            return False
    return True


@helper
def add_one(tree, store, rows, slots):
    """Add the row; return the bucket that overflows by it, or DONE."""
    if add_rows(store, rows, 0, slots) == 0:
        return SLOWLY  # the table of ids is full
    b = place_row(tree, store, np.int64(slots[0]))
    return b if tree.buckets[b].leaf_size > tree.buckets[b].capacity else DONE


@kernel
def insert_one(tree, store, rows, slots):
    """Insert a row of a new subscription. DONE, or the bucket that overflows, or SLOWLY and nothing has changed."""
    if rows.ids[0] < 0 or first_slot(store, rows.ids[0]) >= 0 or not has_room(tree, store, rows, True):
        return SLOWLY
    return add_one(tree, store, rows, slots)


@kernel
def delete_one(tree, store, ids, slots):
    """Delete a subscription of one row. DONE, or SLOWLY and nothing has changed."""
    slot = first_slot(store, ids[0])
    if slot < 0 or store.rows[slot].flags & SIBLING:
        return SLOWLY
    slots[0] = np.uint32(slot)
    delete_many(tree, store, slots)
    remove_ids(store, ids)
    return DONE


@kernel
def update_one(tree, store, rows, slots):
    """Replace a subscription of one row, in place if its home stays the same. As `insert_one`."""
    slot = first_slot(store, rows.ids[0])
    if slot < 0 or store.rows[slot].flags & SIBLING:
        return SLOWLY
    if stays(tree, store, rows, 0, slot):
        rewrite(tree, store, rows, 0, slot)
        return DONE
    if not has_room(tree, store, rows, False):
        return SLOWLY
    slots[0] = np.uint32(slot)
    delete_many(tree, store, slots)
    remove_ids(store, rows.ids)
    return add_one(tree, store, rows, slots)
