"""MO-Tree: single changes, each in one call. In: one row, or an id. Out: DONE, how many rows wait, or why nothing was done.

By way of the store, the tree and their checks in Python a change costs 30 us, most of it for handing arrays over. Here states are
handed over by address (`jit.addresses`), and rows column by column, so that their types are looked at in 0.2 us (`Checked`).
What comes alone, or moves to another bucket alone, is stored at once and waits for its place: the lines of memory that its bits
are in, 130 of them, are read and written for all that wait for the same node. Whoever asks places them first, so no answer knows
of it.

waiting: a word that says how many rows wait, then their slots.
"""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import Rows
from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch
from matchwood.store.kernels.rows import LIVE, MAX_COUNT, add_rows, first_slot, prefetch_entries, remove_ids, store_at
from matchwood.structures.mo_tree.kernels.block import leave_stale, note_leaving, turn_bits
from matchwood.structures.mo_tree.kernels.layout import NONE, tree_at
from matchwood.structures.mo_tree.kernels.nodes import release
from matchwood.structures.mo_tree.kernels.update import DONE, FULL, UNPLACED, rewrite


@helper
def is_one(rows):
    """Is this one row, its columns as long as they should be? They are asked for: whoever hands over one row at a time has
    hardly read it before."""
    prefetch(rows.kinds, 0)
    prefetch(rows.dims, 0)
    for keys in (rows.lo, rows.hi, rows.weight, rows.priority):
        prefetch(keys, 0)
    many = rows.dims.size
    alike = (rows.kinds.size == many) & (rows.lo.size == many) & (rows.hi.size == many) & (rows.weight.size == many)
    heads = (rows.ids.size == 1) & (rows.priority.size == 1) & (rows.offsets.size == 2) & (many <= MAX_COUNT)
    return heads & alike and rows.offsets[0] == 0 and rows.offsets[1] == many


@kernel
def insert_one(store_words, waiting, most, ids, priority, offsets, dims, kinds, lo, hi, weight):
    """Store a subscription of one row, so that there are at most `most`, and let it wait.

    Return how many do, or FULL: nothing was done.
    """
    store, rows = store_at(store_words), Rows(ids, priority, offsets, dims, kinds, lo, hi, weight)
    n = np.int64(waiting[0]) + 1
    if not is_one(rows) or ids[0] < 0 or first_slot(store, ids[0]) >= 0:
        return np.int64(FULL)
    if store.counts[LIVE] >= most or n == waiting.size or add_rows(store, rows, 0, waiting[n:]) == 0:
        return np.int64(FULL)
    waiting[0] = np.uint32(n)
    return n


@helper
def only_slot(tree, store, id_, waiting):
    """The slot of a subscription of one row that stands in the tree, if there is room to let it wait.

    UNPLACED: it waits, or there is no room. FULL: it has several rows, or is not known.
    """
    slot = first_slot(store, id_)
    if slot < 0 or store.rows[slot].next != NONE:
        return np.int64(FULL)
    prefetch_entries(store, store.rows[slot])
    room = np.int64(waiting[0]) + 1 < waiting.size
    return slot if room and tree.places[slot].node != NONE else np.int64(UNPLACED)


@helper
def take_out(tree, slot):
    """Take a row out of its node. O(1), but that a node without rows is unlinked."""
    place = tree.places[slot]
    n = np.int64(place.node)
    note_leaving(tree, np.int64(place.position))
    leave_stale(tree, tree.nodes[n])
    place.node = NONE
    release(tree, n, 1)


@kernel
def delete_one(tree_words, store_words, waiting, ids):
    """Remove a subscription of one row: DONE, or nothing was done, see `only_slot`."""
    if ids.size != 1:
        return np.int64(FULL)
    tree, store = tree_at(tree_words), store_at(store_words)
    slot = only_slot(tree, store, ids[0], waiting)
    if slot < 0:
        return slot
    take_out(tree, slot)
    remove_ids(store, ids)
    return np.int64(DONE)


@kernel
def update_one(tree_words, store_words, waiting, ids, priority, offsets, dims, kinds, lo, hi, weight):
    """Replace a subscription of one row.

    DONE; how many wait, where it must be placed anew and now waits too; or nothing was done, see `only_slot`.
    """
    tree, store = tree_at(tree_words), store_at(store_words)
    rows = Rows(ids, priority, offsets, dims, kinds, lo, hi, weight)
    if not is_one(rows):
        return np.int64(FULL)
    slot = only_slot(tree, store, ids[0], waiting)
    if slot < 0:
        return slot
    code, _, turns = rewrite(tree, store, rows, np.int64(0), slot, None, np.int64(0))
    turn_bits(tree, turns)
    if code != UNPLACED:
        return np.int64(code)
    take_out(tree, slot)
    n = np.int64(waiting[0]) + 1
    waiting[0] = np.uint32(n)
    waiting[n] = np.uint32(slot)
    return n
