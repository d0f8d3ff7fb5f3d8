"""MO-Tree, maintenance of what is there: updates, in place where a row stays.

An update in place turns a few bits of its node, each word as a whole, and marks how far the node reaches: so several threads
may update rows, each its own in the order in which they come. To give each thread the rows of its own nodes cost more than
that: both then read all of the new rows, every other line of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.encode import arrays
from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import mark_word, prefetch, trailing_zeros
from matchwood.store.kernels.rows import (
    ABSENT,
    AHEAD,
    CIRCLE,
    SET,
    is_written,
    only_intervals,
    rank_row,
    shape_of,
    write_entries,
    write_interval,
    write_intervals,
)
from matchwood.structures.mo_tree.kernels.block import note_turn, turn_bits
from matchwood.structures.mo_tree.kernels.layout import (
    HEAD_WORDS,
    ONE,
    REACH,
    REACHED,
    SLICED,
    axis_number,
    prefetch_row,
    slice_bits,
    slice_span,
)
from matchwood.structures.mo_tree.kernels.spans import new_bucket, new_span, slice_new, slice_row, still_fits

FULL, UNPLACED, DONE = -2, -1, 0
MORE_OR_ABSENT = np.uint8(arrays.MORE & arrays.ABSENT)  # a bit that only these kinds of entries have


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
    """Has a row single intervals on the dimensions of row r of the CSR arrays, in their order? Both are plain, or nearly so: the
    row may name what is absent. O(entries), without branches."""
    begin, start = np.uint64(rows.offsets[r]), np.uint64(row.start)
    alike = True
    for i in range(np.uint64(row.count)):
        entry = store.entries[start + i]
        alike &= (entry.dim == rows.dims[begin + i]) & (entry.kind != ABSENT)
    return alike


@helper
def rounds_alike(store, rows, r, row):
    """`asks_alike` of any rows: have both single intervals and circles only? Places in a city are circles, and move. O(entries).

    In a loop of its own: with all these tests a plain row took a tenth longer.
    """
    begin, start = np.uint64(rows.offsets[r]), np.uint64(row.start)
    if np.int64(row.count) != rows.offsets[r + 1] - rows.offsets[r]:
        return False
    alike = True
    for i in range(np.uint64(row.count)):
        entry, kind = store.entries[start + i], rows.kinds[begin + i]
        alike &= (entry.dim == rows.dims[begin + i]) & (entry.kind & (SET | ABSENT) == 0) & (kind & MORE_OR_ABSENT == 0)
        alike &= (entry.kind & CIRCLE == 0) == (kind != arrays.CIRCLE)
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
        if is_written(entry, rows, begin + i) or entry.kind & CIRCLE:
            continue  # a line that is not written need not be written back
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
    if row.size != row.count:
        write_entries(store, rows, r, np.int64(row.start), np.int64(row.count))
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
    alike = asks_alike(store, rows, r, row) if plain else rounds_alike(store, rows, r, row)
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
