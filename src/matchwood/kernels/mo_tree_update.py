"""MO-Tree, maintenance of what is there: updates in place, and single changes in one call.

An update in place writes in the node of its row alone, so the rows of different nodes may be updated by several threads.

A single change by way of the store, the tree and their checks in Python costs 30 us, most of it for handing arrays over; here
the arrays are handed over once. What comes alone, or moves to another bucket alone, is stored at once and waits for its place:
the lines of memory that its bits are in, 130 of them, are read and written for all that wait for the same node. Whoever asks
places them first, so no answer knows of it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import prefetch, trailing_zeros
from matchwood.kernels.mo_tree import (
    HEAD_WORDS,
    NONE,
    ONE,
    SLICED,
    axis_number,
    enter_node,
    prefetch_row,
    slice_bits,
    slice_span,
)
from matchwood.kernels.mo_tree_block import note_turn, turn_bits
from matchwood.kernels.mo_tree_nodes import release_nodes
from matchwood.kernels.mo_tree_place import axes_of, clear_rows, wipe_row, write_row
from matchwood.kernels.mo_tree_spans import new_bucket, new_span, slice_new, slice_plain, still_fits
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
    """Rows that have come one by one, or moved so to another bucket, and are not placed yet; `counts` says how many.

    Those that moved are marked as without a place, but their bits are still where they stood.
    """

    coming: np.ndarray  # uint32, slots of all
    leaving: np.ndarray  # uint32, slots of those that moved
    nodes: np.ndarray  # uint32, where these stood
    axes: np.ndarray  # uint64, on which they asked something there, see `clear_rows`
    counts: np.ndarray  # int64


COMING, LEAVING = 0, 1  # places in `counts`


def new_waiting(size: int) -> Waiting:
    """Room for so many."""
    coming, leaving, nodes = (np.zeros(size, np.uint32) for _ in range(3))
    return Waiting(coming, leaving, nodes, np.zeros(size, np.uint64), np.zeros(2, np.int64))


class Moving(NamedTuple):
    """What an update leaves to be done, room for all its rows."""

    slots: np.ndarray  # uint32, of rows that move
    nodes: np.ndarray  # uint32, where they stand
    axes: np.ndarray  # uint64, on which they asked something there, see `clear_rows`
    numbers: np.ndarray  # uint32, the buckets they move to
    rows: np.ndarray  # uint32, which they are in the update
    odd: np.ndarray  # uint32, rows of the update that have another shape than before


def new_moving(size: int) -> Moving:
    """Room for an update of so many rows."""
    few = (np.empty(size, np.uint32) for _ in range(5))
    return Moving(next(few), next(few), np.empty(size, np.uint64), *few)


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
def shift(tree, store, rows, r, row, node, position, turns):
    """Rewrite a row that stays and asks alike, and note the bits of slices that it enters or leaves. O(entries + those slices).

    It was located last. A subscriber who moves a few metres turns none or a few bits of two attributes, instead of clearing and
    writing 150. Return how many are noted.
    """
    begin, start = np.uint64(rows.offsets[r]), np.uint64(row.start)
    words = np.int64(node.words)
    word = np.int64(node.start) + np.int64(HEAD_WORDS) * words + (position >> 6)
    for i in range(np.uint64(row.count)):
        entry = store.entries[start + i]
        if is_written(entry, rows, begin + i):  # a line that is not written need not be written back
            continue
        lo, hi = rows.lo[begin + i], rows.hi[begin + i]
        a = axis_number(tree, entry.dim)
        if a < tree.counts[SLICED] and (entry.lo != lo or entry.hi != hi):
            touched = slice_bits(*new_span(tree, rows, begin + i, a))
            if a == 0:
                node.reach_0 |= touched
            elif a == 1:
                node.reach_1 |= touched
            turned = touched ^ slice_bits(*slice_span(tree, a, entry.lo, entry.hi))
            while turned:
                plane = np.int64(tree.axes[a].plane) + np.int64(trailing_zeros(turned))
                turns = note_turn(tree, word + plane * words, position, turns)
                turned &= turned - ONE
        write_interval(entry, rows, begin + i)
    rank_row(row, rows, r)
    return turns


@helper
def rewrite(tree, store, rows, r, slot, spans, axes, at, turns):
    """Rewrite the row at the slot as row r of the CSR arrays.

    DONE: it stays where it is, and its bits are right when those noted have been turned. UNPLACED: it belongs to another bucket,
    and its spans are written, if there are any; its bits are as before, on axes[at], or where that is none on those of the row as
    it is now. FULL: it has another shape and is untouched. Return that, its bucket, and how many bits are noted.
    """
    row = store.rows[slot]
    plain = is_plain(rows, r, row)
    alike = plain and asks_alike(store, rows, r, row)
    if not (plain or same_shape(rows, r, row)):
        return FULL, np.int64(0), turns
    place = tree.places[slot]
    node, position = tree.nodes[place.node], np.int64(place.position)
    if spans is not None and plain and not alike:  # what asks for something else hardly stays: in one go
        number = slice_plain(tree, rows, r, spans)
        stays = number == np.int64(node.number)
        if stays:
            enter_node(tree, number)
    else:
        number = new_bucket(tree, rows, r)
        stays = number == np.int64(node.number) or still_fits(tree, np.int64(node.number))
        if spans is not None and not stays:
            slice_new(tree, rows, r, spans)
    if alike and stays:
        return DONE, number, shift(tree, store, rows, r, row, node, position, turns)
    rank_row(row, rows, r)
    axes[at] = np.uint64(0) if alike else axes_of(tree, store, row)
    if plain:
        write_intervals(store, rows, r, np.int64(row.start))
    else:
        write_entries(store, rows, r, np.int64(row.start), np.int64(row.count))
    if stays:
        wipe_row(tree, node, position, axes[at])
        write_row(tree, store, slot, node, position, False)
        return DONE, number, turns
    return UNPLACED, number, turns


@helper
def same_shape(rows, r, row):
    main, extras = shape_of(rows, r)
    return np.int64(row.size) == main + extras and np.int64(row.count) == main


@kernel
def list_owned(tree, slots, low, high, which, mine):
    """Which of the rows at these slots stand in the nodes low..high - 1, in their order, and their slots; return how many.

    O(slots), without a branch; there is room for all.
    """
    n = np.uint64(0)
    for i in range(slots.size):
        prefetch(tree.places, np.int64(slots[min(i + 2 * AHEAD, slots.size - 1)]))
        node = np.int64(tree.places[slots[i]].node)
        which[n], mine[n] = np.uint32(i), slots[i]
        n += np.uint64((low <= node) & (node < high))
    return n


@kernel
def update_rows(tree, store, rows, which, slots, moving, spans):
    """Rewrite the row at slots[i] as row which[i] of the CSR arrays, one row a subscription, in the order in which they come.

    A row whose bucket stays keeps its position (MO-Tree 4.6.2). One that moves keeps its slot, and where it stands, until it is
    removed and placed; one of another shape is untouched. Return how many of both. O(slices of the row) each.
    """
    moves = odds = np.uint64(0)
    turns = np.int64(0)
    for i in range(slots.size):
        prefetch_row(store, slots, i)
        prefetch(tree.places, np.int64(slots[min(i + 2 * AHEAD, slots.size - 1)]))
        slot, r = slots[i], np.int64(which[i])
        code, number, turns = rewrite(tree, store, rows, r, slot, spans, moving.axes, moves, turns)
        if code == FULL:
            moving.odd[odds] = which[i]
            odds += ONE
        elif code == UNPLACED:
            moving.slots[moves], moving.nodes[moves] = slots[i], tree.places[slot].node
            moving.numbers[moves], moving.rows[moves] = np.uint32(number), which[i]
            moves += ONE
    turn_bits(tree, turns)
    return moves, odds


@kernel
def take_out(tree, store, slots, nodes, axes):
    """`clear_rows`, and count them out."""
    clear_rows(tree, store, slots, nodes, axes)
    release_nodes(tree, nodes)


@kernel
def insert_one(store, rows, most, waiting):
    """Store a subscription of one row, so that there are at most `most`, and let it wait.

    Return how many do, or FULL: nothing was done.
    """
    n = waiting.counts[COMING]
    if rows.ids[0] < 0 or first_slot(store, rows.ids[0]) >= 0:
        return np.int64(FULL)
    if store.counts[LIVE] >= most or n == waiting.coming.size or add_rows(store, rows, 0, waiting.coming[n:]) == 0:
        return np.int64(FULL)
    waiting.counts[COMING] = n + 1
    return n + 1


@helper
def only_slot(tree, store, id_, waiting):
    """The slot of a subscription of one row that stands in the tree, if there is room to let it wait.

    UNPLACED: it waits, or there is no room. FULL: it has several rows, or is not known.
    """
    slot = first_slot(store, id_)
    if slot < 0 or store.rows[slot].next != NONE:
        return np.int64(FULL)
    room = waiting.counts[COMING] < waiting.coming.size
    return slot if room and tree.places[slot].node != NONE else np.int64(UNPLACED)


@kernel
def delete_one(tree, store, ids, waiting):
    """Remove a subscription of one row: DONE, or nothing was done, see `only_slot`."""
    slot = only_slot(tree, store, ids[0], waiting)
    if slot < 0:
        return slot
    n = waiting.counts[LEAVING]
    waiting.leaving[n], waiting.nodes[n] = np.uint32(slot), tree.places[slot].node
    take_out(tree, store, waiting.leaving[n : n + 1], waiting.nodes[n : n + 1], waiting.axes[:0])
    remove_ids(store, ids)
    return np.int64(DONE)


@kernel
def update_one(tree, store, rows, waiting):
    """Replace a subscription of one row.

    DONE; how many wait, where it must move to another bucket and now waits too; or nothing was done, see `only_slot`.
    """
    slot = only_slot(tree, store, rows.ids[0], waiting)
    if slot < 0:
        return slot
    n = waiting.counts[LEAVING]
    code, _, turns = rewrite(tree, store, rows, np.int64(0), slot, None, waiting.axes, n, np.int64(0))
    turn_bits(tree, turns)
    if code != UNPLACED:
        return np.int64(code)
    waiting.leaving[n], waiting.nodes[n] = np.uint32(slot), tree.places[slot].node
    tree.places[slot].node = NONE
    waiting.coming[waiting.counts[COMING]] = np.uint32(slot)
    waiting.counts[LEAVING] = n + 1
    waiting.counts[COMING] += 1
    return waiting.counts[COMING]
