"""MO-Tree, maintenance of what is there: updates in place, and single changes in one call.

An update in place turns a few bits of its node, each word as a whole, and marks how far the node reaches: so several threads
may update rows, each its own in the order in which they come. To give each thread the rows of its own nodes cost more than
that: both then read all of the new rows, every other line of them.

A single change by way of the store, the tree and their checks in Python costs 30 us, most of it for handing arrays over; here
the arrays are handed over once. What comes alone, or moves to another bucket alone, is stored at once and waits for its place:
the lines of memory that its bits are in, 130 of them, are read and written for all that wait for the same node. Whoever asks
places them first, so no answer knows of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import mark_word, prefetch, trailing_zeros
from matchwood.kernels.mo_tree import (
    HEAD_WORDS,
    NONE,
    ONE,
    REACH,
    REACHED,
    SLICED,
    axis_number,
    prefetch_row,
    slice_bits,
    slice_span,
)
from matchwood.kernels.mo_tree_block import leave_stale, note_leaving, note_turn, turn_bits
from matchwood.kernels.mo_tree_nodes import release
from matchwood.kernels.mo_tree_spans import new_bucket, new_span, slice_new, slice_row, still_fits
from matchwood.kernels.store import (
    ABSENT,
    AHEAD,
    LIVE,
    add_rows,
    first_slot,
    is_written,
    only_intervals,
    rank_row,
    remove_ids,
    shape_of,
    write_entries,
    write_interval,
    write_intervals,
)

FULL, UNPLACED, DONE = -2, -1, 0


class Waiting(NamedTuple):
    """Rows that have come one by one, or moved so to another bucket, and are not placed yet."""

    slots: np.ndarray  # uint32
    many: np.ndarray  # int64, how many there are


def new_waiting(size: int) -> Waiting:
    """Room for so many."""
    return Waiting(np.zeros(size, np.uint32), np.zeros(1, np.int64))


class Moving(NamedTuple):
    """What an update leaves to be done, room for all its rows."""

    slots: np.ndarray  # uint32, of rows that move
    nodes: np.ndarray  # uint32, where they stand
    numbers: np.ndarray  # uint32, the buckets they move to
    rows: np.ndarray  # uint32, which they are in the update
    odd: np.ndarray  # uint32, rows of the update that have another shape than before


def new_moving(size: int) -> Moving:
    """Room for an update of so many rows."""
    return Moving(*(np.empty(size, np.uint32) for _ in Moving._fields))


@helper
def is_plain(rows, r, row):
    """Has row r of the CSR arrays single intervals only, and so many as the row has entries, none with extras? O(entries)."""
    many = np.int64(row.count) == rows.offsets[r + 1] - rows.offsets[r] and row.size == row.count
    return many and only_intervals(rows, r)


@helper
def asks_alike(store, rows, r, row):
    """Has a row single intervals on the dimensions of row r of the CSR arrays, in their order? O(entries), without branches."""
    begin, start = np.uint64(rows.offsets[r]), np.uint64(row.start)
    alike = True
    for i in range(np.uint64(row.count)):
        entry = store.entries[start + i]
        alike &= (entry.dim == rows.dims[begin + i]) & (entry.kind != ABSENT)
    return alike


@helper
def extend_reach(tree, n, a, touched):
    """A row of node n may hold in these slices of layer a, too. Mostly they are reached already: then nothing is written."""
    reach = tree.nodes[n].reach_0 if a == 0 else tree.nodes[n].reach_1
    if touched & ~reach:
        mark_word(tree.nodes, n, REACH + a, touched)


@helper
def shift(tree, store, rows, r, row, n, position, turns):
    """Rewrite a row that stays in node n and asks alike, and note the bits of slices that it enters or leaves.

    It was located last. A subscriber who moves a few metres turns none or a few bits of two attributes, instead of clearing and
    writing 150. Return how many are noted. O(entries + those slices).
    """
    begin, start, node = np.uint64(rows.offsets[r]), np.uint64(row.start), tree.nodes[n]
    words = np.int64(node.words)
    word = np.int64(node.start) + np.int64(HEAD_WORDS) * words + (position >> 6)
    for i in range(np.uint64(row.count)):
        entry = store.entries[start + i]
        if is_written(entry, rows, begin + i):  # a line that is not written need not be written back
            continue
        lo, hi = rows.lo[begin + i], rows.hi[begin + i]
        a = np.int64(axis_number(tree, entry.dim))
        if a < tree.counts[SLICED] and (entry.lo != lo or entry.hi != hi):
            touched = slice_bits(*new_span(tree, rows, begin + i, a))
            if a < REACHED:
                extend_reach(tree, n, a, touched)
            turned = touched ^ slice_bits(*slice_span(tree, a, entry.lo, entry.hi))
            while turned:
                plane = np.int64(tree.axes[a].plane) + np.int64(trailing_zeros(turned))
                turns = note_turn(tree, word + plane * words, position, turns)
                turned &= turned - ONE
        write_interval(entry, rows, begin + i)
    rank_row(row, rows, r)
    return turns


@helper
def rewrite(tree, store, rows, r, slot, spans, turns):
    """Rewrite the row at the slot as row r of the CSR arrays.

    DONE: it asks alike and stays where it is, and its bits are right when those noted have been turned. UNPLACED: it is to leave
    its node and to be placed anew; its spans are written, if there are any, its bits are as before. FULL: it has another shape
    and is untouched. Return that, its bucket (where spans are written), and how many bits are noted.
    """
    row = store.rows[slot]
    plain = is_plain(rows, r, row)
    if not (plain or same_shape(rows, r, row)):
        return FULL, np.int64(0), turns
    number = np.int64(0)
    alike = plain and asks_alike(store, rows, r, row)
    if alike:
        n = np.int64(tree.places[slot].node)
        here = np.int64(tree.nodes[n].number)
        number = new_bucket(tree, rows, r)
        if number == here or still_fits(tree, here):
            return DONE, here, shift(tree, store, rows, r, row, n, np.int64(tree.places[slot].position), turns)
        if spans is not None:
            slice_new(tree, rows, r, spans)
    elif spans is not None:  # what asks for something else hardly stays
        number = slice_row(tree, rows, r, spans, plain)
    rank_row(row, rows, r)
    if plain:
        write_intervals(store, rows, r, np.int64(row.start))
    else:
        write_entries(store, rows, r, np.int64(row.start), np.int64(row.count))
    return UNPLACED, number, turns


@helper
def same_shape(rows, r, row):
    main, extras = shape_of(rows, r)
    return np.int64(row.size) == main + extras and np.int64(row.count) == main


@kernel
def update_rows(tree, store, rows, first, last, slots, moving, spans):
    """Rewrite the row at slots[r] as row r of the CSR arrays, one row a subscription, for r in first..last - 1.

    A row that asks alike and whose bucket stays keeps its position (MO-Tree 4.6.2). Any other keeps its slot, and where it
    stands, until it is removed and placed; one of another shape is untouched. Return how many of both. O(slices) each.
    Several threads may do this for rows of their own, whatever their nodes.
    """
    moves = odds = np.uint64(0)
    turns = np.int64(0)
    for r in range(first, last):
        prefetch_row(store, slots, r)
        prefetch(tree.places, np.int64(slots[min(r + 2 * AHEAD, slots.size - 1)]))
        slot = slots[r]
        code, number, turns = rewrite(tree, store, rows, r, slot, spans, turns)
        if code == FULL:
            moving.odd[odds] = np.uint32(r)
            odds += ONE
        elif code == UNPLACED:
            moving.slots[moves], moving.nodes[moves] = slot, tree.places[slot].node
            moving.numbers[moves], moving.rows[moves] = np.uint32(number), np.uint32(r)
            moves += ONE
    turn_bits(tree, turns)
    return moves, odds


@kernel
def insert_one(store, rows, most, waiting):
    """Store a subscription of one row, so that there are at most `most`, and let it wait.

    Return how many do, or FULL: nothing was done.
    """
    n = waiting.many[0]
    if rows.ids[0] < 0 or first_slot(store, rows.ids[0]) >= 0:
        return np.int64(FULL)
    if store.counts[LIVE] >= most or n == waiting.slots.size or add_rows(store, rows, 0, waiting.slots[n:]) == 0:
        return np.int64(FULL)
    waiting.many[0] = n + 1
    return n + 1


@helper
def only_slot(tree, store, id_, waiting):
    """The slot of a subscription of one row that stands in the tree, if there is room to let it wait.

    UNPLACED: it waits, or there is no room. FULL: it has several rows, or is not known.
    """
    slot = first_slot(store, id_)
    if slot < 0 or store.rows[slot].next != NONE:
        return np.int64(FULL)
    room = waiting.many[0] < waiting.slots.size
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
def delete_one(tree, store, ids, waiting):
    """Remove a subscription of one row: DONE, or nothing was done, see `only_slot`."""
    slot = only_slot(tree, store, ids[0], waiting)
    if slot < 0:
        return slot
    take_out(tree, slot)
    remove_ids(store, ids)
    return np.int64(DONE)


@kernel
def update_one(tree, store, rows, waiting):
    """Replace a subscription of one row.

    DONE; how many wait, where it must be placed anew and now waits too; or nothing was done, see `only_slot`.
    """
    slot = only_slot(tree, store, rows.ids[0], waiting)
    if slot < 0:
        return slot
    code, _, turns = rewrite(tree, store, rows, np.int64(0), slot, None, np.int64(0))
    turn_bits(tree, turns)
    if code != UNPLACED:
        return np.int64(code)
    take_out(tree, slot)
    n = waiting.many[0]
    waiting.slots[n] = np.uint32(slot)
    waiting.many[0] = n + 1
    return n + 1
