"""MO-Tree, maintenance of what is there: updates in place, and single changes in one call.

A single change by way of the store, the tree and their checks in Python costs 30 us, most of it for handing arrays over; here
the arrays are handed over once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.encode import arrays
from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import prefetch, trailing_zeros
from matchwood.kernels.mo_tree import (
    HEAD_WORDS,
    LAYERS,
    NONE,
    ONE,
    SLICED,
    axis_number,
    bucket_number,
    enter_node,
    new_bucket,
    prefetch_row,
    slice_bits,
    slice_here,
    slice_span,
)
from matchwood.kernels.mo_tree_block import note_turn, turn_bits
from matchwood.kernels.mo_tree_place import leave_node, place_rows, remove_rows, same_node, wipe_row, write_row
from matchwood.kernels.store import (
    ABSENT,
    AHEAD,
    JOINED,
    PLAIN,
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
_INTERVAL, _JOINED = arrays.INTERVAL, arrays.JOINED


class Left(NamedTuple):
    """What an update in bulk leaves to be done, room for all its rows."""

    slots: np.ndarray  # uint32, of rows that move
    numbers: np.ndarray  # uint32, the buckets they move to
    rows: np.ndarray  # uint32, which they are in the update
    odd: np.ndarray  # uint32, rows of the update that have another shape than before


@helper
def is_plain(store, rows, r, row):
    """Has a row single intervals only, before and after, on the same dimensions in their order? O(entries), without branches."""
    begin, start = rows.offsets[r], np.int64(row.start)
    n = rows.offsets[r + 1] - begin
    if np.int64(row.count) != n or row.size != row.count:
        return False
    plain = True
    for i in range(n):
        entry, kind = store.entries[start + i], rows.kinds[begin + i]
        plain &= (entry.dim == rows.dims[begin + i]) & (entry.kind != ABSENT)
        plain &= (kind == _INTERVAL) | (kind == _JOINED)
    return plain


@helper
def shift(tree, store, rows, r, row, node, position, turns):
    """Rewrite a plain row that stays, and note the bits of slices that it enters or leaves. O(entries + those slices).

    Its node has been entered, and it was located last. A subscriber who moves a few metres turns none or a few bits of two
    attributes, instead of clearing and writing 150. Return how many are noted.
    """
    begin, start = rows.offsets[r], np.int64(row.start)
    words = np.int64(node.words)
    word = np.int64(node.start) + np.int64(HEAD_WORDS) * words + (position >> 6)
    for i in range(np.int64(row.count)):
        entry = store.entries[start + i]
        lo, hi = rows.lo[begin + i], rows.hi[begin + i]
        a = axis_number(tree, np.int64(entry.dim))
        if a < tree.counts[SLICED] and (entry.lo != lo or entry.hi != hi):
            axis = tree.axes[a]
            if a < tree.counts[LAYERS]:
                low, high = slice_here(tree, a, tree.ticks[2 * a]), slice_here(tree, a, tree.ticks[2 * a + 1])
            else:
                low, high = slice_span(tree, a, lo, hi)
            touched = slice_bits(low, high)
            if a == 0:
                node.reach_0 |= touched
            elif a == 1:
                node.reach_1 |= touched
            low, high = slice_span(tree, a, entry.lo, entry.hi)
            turned = touched ^ slice_bits(low, high)
            while turned:
                plane = np.int64(axis.plane) + np.int64(trailing_zeros(turned))
                turns = note_turn(tree, word + plane * words, position, turns)
                turned &= turned - ONE
        entry.lo, entry.hi, entry.weight = lo, hi, rows.weight[begin + i]
        entry.kind = JOINED if rows.kinds[begin + i] == _JOINED else PLAIN
    row.priority = rows.priority[r]
    return turns


@helper
def rewrite(tree, store, rows, r, slot, numbers, at, turns):
    """Rewrite a row whose bucket stays, in its slot and its place: DONE. Its node has been entered.

    Otherwise it is untouched: UNPLACED if it moves to bucket numbers[at], FULL if it has another shape. Return that, and how
    many bits are noted to be turned.
    """
    row = store.rows[slot]
    plain = is_plain(store, rows, r, row)
    if row.next != NONE or not (plain or same_shape(rows, r, row)):
        return FULL, turns
    position = np.int64(tree.places[slot].position)
    node = tree.nodes[np.int64(tree.places[slot].node)]
    number = new_bucket(tree, rows, r)
    if number != np.int64(node.number):
        numbers[at] = np.uint32(number)
        return UNPLACED, turns
    if plain:
        return DONE, shift(tree, store, rows, r, row, node, position, turns)
    wipe_row(tree, store, slot, node, position)
    write_record(store, rows, r, row)
    write_row(tree, store, slot, node, position, False)
    return DONE, turns


@helper
def same_shape(rows, r, row):
    main, extras = shape_of(rows, r)
    return np.int64(row.size) == main + extras and np.int64(row.count) == main


@helper
def write_record(store, rows, r, row):
    write_entries(store, rows, r, np.int64(row.start), np.int64(row.count))
    row.priority = rows.priority[r]


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
def update_rows(tree, store, rows, order, slots, left):
    """Rewrite the row at slots[i] as rows[order[i]], one row a subscription, those of a node one after the other.

    A row whose bucket stays keeps its position (MO-Tree 4.6.2). One that moves keeps its slot and is `left` to be placed; one of
    another shape is untouched. Return how many of both. O(slices of the row) each.
    """
    moves = np.int64(0)
    odds = np.int64(0)
    i = np.int64(0)
    while i < slots.size:
        n = np.int64(tree.places[np.int64(slots[i])].node)
        enter_node(tree, np.int64(tree.nodes[n].number))
        end = same_node(tree, slots, i)
        before = moves
        turns = np.int64(0)
        for j in range(i, end):
            prefetch_row(store, slots, j)
            prefetch_new(rows, order, j)
            r, slot = np.int64(order[j]), np.int64(slots[j])
            code, turns = rewrite(tree, store, rows, r, slot, left.numbers, moves, turns)
            if code == FULL:
                left.odd[odds] = order[j]
                odds += 1
            elif code == UNPLACED:
                left.slots[moves], left.rows[moves] = slots[j], order[j]
                moves += 1
        turn_bits(tree, turns)
        leave_node(tree, store, left.slots, before, moves)
        for j in range(before, moves):
            write_record(store, rows, np.int64(left.rows[j]), store.rows[np.int64(left.slots[j])])
        i = end
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
    enter_node(tree, np.int64(tree.nodes[np.int64(tree.places[slot].node)].number))
    code, turns = rewrite(tree, store, rows, np.int64(0), slot, numbers, 0, np.int64(0))
    turn_bits(tree, turns)
    if code != UNPLACED:
        return code
    leave_node(tree, store, slots, 0, 1)
    write_record(store, rows, np.int64(0), store.rows[slot])
    return DONE if place_rows(tree, store, slots, numbers, 0) == 1 else UNPLACED
