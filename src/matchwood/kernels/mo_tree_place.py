"""MO-Tree: rows put into their buckets and taken out again. In: rows of the store, their buckets. Out: bits in nodes.

Alone, or many of a node together (`kernels.mo_tree_block`).
"""

from __future__ import annotations

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import prefetch, trailing_zeros
from matchwood.kernels.mo_tree import (
    AXES,
    HEAD_WORDS,
    LAYERS,
    NONE,
    ONE,
    ONES,
    SLICED,
    WHOLE,
    axis_number,
    cell_for,
    prefetch_row,
    slice_bits,
    slice_in,
    slice_span,
    slices_of_set,
    tick_of,
)
from matchwood.kernels.mo_tree_block import MANY_LEAVE, clear_out, note_leaving, note_slices, settle
from matchwood.kernels.mo_tree_nodes import (
    clear_bits,
    close_position,
    give_back,
    next_node,
    open_position,
    prefetch_share,
    set_bits,
    take_position,
)
from matchwood.kernels.mo_tree_spans import NOTHING, ODD, new_bucket, prefetch_spans, slice_new
from matchwood.kernels.store import (
    ABSENT,
    AHEAD,
    CIRCLE,
    DIMS,
    SET,
    enter_row,
    only_intervals,
    room_for_ids,
    shape_of,
    take_row,
    write_entries,
    write_interval,
)


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
        begin = end = np.int64(tree.axes[a].slices)  # the null plane
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
            clear_slices(tree, word, words, a, position, possible)
    node.reach_0 |= reach_0
    node.reach_1 |= reach_1
    if is_open:
        open_position(tree, node, position)


@helper
def clear_slices(tree, word, words, a, position, possible):
    """Clear the bits of a position on an axis but those in `possible`; `word` is where its bit of the first plane stands."""
    axis = tree.axes[a]
    plane = word + np.int64(axis.plane) * words
    clear_bits(tree.bits, plane, words, np.int64(axis.slices) + 1, position, possible)


@helper
def axes_of(tree, store, row):
    """A bit for each axis on which the row asks something. O(entries)."""
    axes = np.uint64(0)
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        a = axis_number(tree, np.int64(store.entries[at].dim))
        if a < tree.counts[SLICED]:
            axes |= ONE << np.uint64(a)
    return axes


@helper
def wipe_row(tree, node, position, axes):
    """Make the bits of a row that asks something on these axes ones again. O(slices)."""
    words = np.int64(node.words)
    word = np.int64(node.start) + np.int64(HEAD_WORDS) * words + (position >> 6)
    while axes:
        axis = tree.axes[np.int64(trailing_zeros(axes))]
        axes &= axes - ONE
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
def take_place(tree, n, slot):
    """A free position of a node that has one, for the row at the slot; its bits are not written yet."""
    node = tree.nodes[n]
    position = take_position(tree, node)
    tree.members[2 * np.int64(node.start) + position] = np.uint32(slot)
    tree.places[slot].node = np.uint32(n)
    tree.places[slot].position = np.uint32(position)
    return position


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
            slot = np.int64(slots[j])
            write_row(tree, store, slot, tree.nodes[n], take_place(tree, n, slot), together)
        if together:
            settle(tree, tree.nodes[n])
        i += here
    return slots.size


@kernel
def store_rows(tree, store, rows, first, slots, numbers, spans):
    """Store the rows first, first + 1, ... of the CSR arrays; return how many are there, less than all if a pool is full.

    slots[r] is where row r went, numbers[r] the bucket it belongs to, and its spans are written. As `add_rows`. O(entries).
    """
    if not room_for_ids(store, rows.ids.size - first):
        return first
    for r in range(first, numbers.size):
        plain = only_intervals(rows, r)
        main, extras = rows.offsets[r + 1] - rows.offsets[r], np.int64(0)
        if not plain:
            main, extras = shape_of(rows, r)
        slot = take_row(store, rows, r, main, extras)
        if slot < 0:
            return r
        enter_row(store, rows.ids, r, slot, slots)
        start = np.int64(store.rows[slot].start)
        if plain:
            numbers[r] = np.uint32(store_plain(tree, store, rows, r, start, spans))
        else:
            write_entries(store, rows, r, start, main)
            numbers[r] = np.uint32(new_bucket(tree, rows, r))
            slice_new(tree, rows, r, spans)
    return numbers.size


@helper
def store_plain(tree, store, rows, r, start, spans):
    """`write_entries`, `new_bucket` and `slice_new` in one go, of a row of single intervals; return its bucket. O(entries)."""
    number = tree.counts[WHOLE]
    begin = rows.offsets[r]
    most = np.int64(0)
    odd = False
    for e in range(begin, rows.offsets[r + 1]):
        write_interval(store.entries[start + e - begin], rows, e)
        most = max(most, np.int64(rows.dims[e]))
        a = axis_number(tree, np.int64(rows.dims[e]))
        odd |= a >= tree.counts[SLICED]
        if a >= tree.counts[AXES]:
            continue
        axis = tree.axes[a]
        low, high = tick_of(tree, axis, rows.lo[e]), tick_of(tree, axis, rows.hi[e])
        if a < tree.counts[LAYERS]:
            at = cell_for(tree, axis, low, high)
            number -= np.int64(axis.radix) * (np.int64(axis.cells) - 1 - at)
            cell = tree.cells[np.int64(axis.first_cell) + at]
            low, high = slice_in(cell, low), slice_in(cell, high)
        spans[e].axis, spans[e].first, spans[e].last = np.uint8(a), np.uint8(low), np.uint8(high)
    if odd:
        spans[begin].axis = ODD
    store.counts[DIMS] = max(store.counts[DIMS], most + 1)
    return number


@helper
def write_spans(tree, node, position, spans, begin, end, together):
    """As `write_row`, of a row with the spans begin..end."""
    words = np.int64(node.words)
    word = np.int64(node.start) + np.int64(HEAD_WORDS) * words + (position >> 6)
    reach_0 = reach_1 = ONES
    for at in range(begin, end):
        if spans[at].axis == NOTHING:
            continue
        a, first, last = np.int64(spans[at].axis), np.int64(spans[at].first), np.int64(spans[at].last)
        possible = slice_bits(first, last)
        if a == 0:
            reach_0 = possible
        elif a == 1:
            reach_1 = possible
        if together:
            note_slices(tree, a, position, first, last)
        else:
            clear_slices(tree, word, words, a, position, possible)
    node.reach_0 |= reach_0
    node.reach_1 |= reach_1


@kernel
def place_new(tree, store, offsets, spans, which, slots, numbers, first):
    """As `place_rows`, of rows whose spans are written: the row at slots[i] is row which[i] of the CSR arrays."""
    i = run = first
    while i < slots.size:
        run, n, here, together = next_node(tree, numbers, i, run)
        if n < 0:
            return i
        node = tree.nodes[n]
        for j in range(i, i + here):
            prefetch_spans(tree.places, offsets, spans, which, slots, j)
            prefetch_share(tree, node, j - i, here, together)
            position = take_place(tree, n, np.int64(slots[j]))
            begin, end = offsets[np.int64(which[j])], offsets[np.int64(which[j]) + 1]
            if begin < end and spans[begin].axis == ODD:
                write_row(tree, store, np.int64(slots[j]), node, position, together)
            else:
                write_spans(tree, node, position, spans, begin, end, together)
        if together:
            settle(tree, node)
        i += here
    return slots.size


@kernel
def remove_rows(tree, store, slots, axes):
    """Take rows, those of a node one after the other, out of their buckets. O(slices of the row) each, less where they are many.

    axes[i]: on which the row at slots[i] asked something, where the store has been rewritten; none where it has not.
    """
    i = np.int64(0)
    while i < slots.size:
        n = np.int64(tree.places[np.int64(slots[i])].node)
        node = tree.nodes[n]
        end = same_node(tree, slots, i)
        together = end - i >= MANY_LEAVE
        for j in range(i, end):
            slot = np.int64(slots[j])
            position = np.int64(tree.places[slot].position)
            if together:
                note_leaving(tree, position)
            elif axes.size > 0:
                wipe_row(tree, node, position, axes[j])
            else:
                prefetch_row(store, slots, j)
                wipe_row(tree, node, position, axes_of(tree, store, store.rows[slot]))
        if together:
            clear_out(tree, node)
        for j in range(i, end):
            place = tree.places[np.int64(slots[j])]
            give_back(tree, n, np.int64(place.position))
            place.node = NONE
        i = end
