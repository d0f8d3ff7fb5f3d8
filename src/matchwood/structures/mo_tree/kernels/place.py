"""MO-Tree: rows put into their buckets and taken out again. In: rows of the store, their buckets. Out: bits in nodes.

Alone, or many of a node together (`kernels.block`).
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch
from matchwood.store.kernels.rows import ABSENT, AHEAD, CIRCLE, SET
from matchwood.structures.mo_tree.kernels.block import (
    clean,
    leave_stale,
    note_axes,
    note_leaving,
    note_slices,
    settle,
)
from matchwood.structures.mo_tree.kernels.layout import (
    HEAD_WORDS,
    NONE,
    ONE,
    ONES,
    SLICED,
    axis_number,
    locate,
    prefetch_row,
    slice_bits,
    slice_span,
    slices_of_set,
)
from matchwood.structures.mo_tree.kernels.nodes import (
    clear_bits,
    enter_piece,
    open_nodes,
    open_position,
    prefetch_share,
    run_of,
    share_of,
    take_position,
)
from matchwood.structures.mo_tree.kernels.spans import NOTHING, ODD, prefetch_spans


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
    axes = np.uint64(0)
    for at in range(np.int64(row.count)):
        entry = store.entries[start + at]
        if entry.kind & CIRCLE:
            continue
        a = axis_number(tree, entry.dim)
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
            note_slices(tree, words, np.int64(a), position, begin, end)
            axes |= ONE << np.uint64(a)
        else:
            clear_slices(tree, word, words, a, position, possible)
    node.reach_0 |= reach_0
    node.reach_1 |= reach_1
    note_axes(tree, axes)
    if is_open:
        open_position(tree, node, position)


@helper
def clear_slices(tree, word, words, a, position, possible):
    """Clear the bits of a position on an axis but those in `possible`; `word` is where its bit of the first plane stands."""
    axis = tree.axes[a]
    plane = word + np.int64(axis.plane) * words
    clear_bits(tree.bits, plane, words, np.int64(axis.slices) + 1, position, possible)


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
def place_rows(tree, store, slots, pieces):
    """Write the rows at these slots into the nodes that have been opened for them. O(slices of the row) each, less where many
    of a node come together."""
    for p in range(pieces.size):
        n, first, last, together = enter_piece(tree, pieces[p])
        node = tree.nodes[n]
        for j in range(first, last):
            prefetch_row(store, slots, j)
            slot = np.int64(slots[j])
            position = take_place(tree, n, slot)
            clean(tree, node, position, False)
            write_row(tree, store, slot, node, position, together)
        if together:
            settle(tree, node)


@kernel
def place_few(tree, store, slots, numbers, pieces):
    """Place the rows at these slots, with room for as many buckets and pieces; return how many, fewer if a pool is full."""
    locate(tree, store, slots, numbers)
    done, n = open_nodes(tree, numbers, 0, pieces, 0)
    place_rows(tree, store, slots, pieces[:n])
    return done


@helper
def write_spans(tree, node, position, spans, begin, end, together):
    """As `write_row`, of a row with the spans begin..end."""
    words = np.int64(node.words)
    word = np.int64(node.start) + np.int64(HEAD_WORDS) * words + (position >> 6)
    reach_0 = reach_1 = ONES
    axes = np.uint64(0)
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
            note_slices(tree, words, a, position, first, last)
            axes |= ONE << np.uint64(a)
        else:
            clear_slices(tree, word, words, a, position, possible)
    node.reach_0 |= reach_0
    node.reach_1 |= reach_1
    note_axes(tree, axes)


@kernel
def place_new(tree, store, offsets, spans, which, slots, pieces):
    """As `place_rows`, of rows whose spans are written: the row at slots[i] is row which[i] of the CSR arrays."""
    for p in range(pieces.size):
        n, first, last, together = enter_piece(tree, pieces[p])
        node = tree.nodes[n]
        share = share_of(tree, node, last - first, together)
        for j in range(first, last):
            prefetch_spans(tree.places, offsets, spans, which, slots, j)
            prefetch_share(tree, node, j - first, share)
            slot = np.int64(slots[j])
            position = take_place(tree, n, slot)
            begin, end = offsets[np.int64(which[j])], offsets[np.int64(which[j]) + 1]
            is_odd = begin < end and spans[begin].axis == ODD
            clean(tree, node, position, together and not is_odd)  # sets turn their bits before those noted are settled
            if is_odd:
                write_row(tree, store, slot, node, position, together)
            else:
                write_spans(tree, node, position, spans, begin, end, together)
        if together:
            settle(tree, node)


@kernel
def clear_rows(tree, slots, nodes):
    """Take rows out of their nodes, which `release_nodes` counts out: their positions are stale. O(rows).

    nodes[i]: where the row at slots[i] stands, the same one after the other.
    """
    i = np.int64(0)
    while i < slots.size:
        end = run_of(nodes, i)
        for j in range(i, end):
            prefetch(tree.places, np.int64(slots[min(j + 2 * AHEAD, slots.size - 1)]))
            place = tree.places[np.int64(slots[j])]
            note_leaving(tree, np.int64(place.position))
            place.node = NONE
        leave_stale(tree, tree.nodes[np.int64(nodes[i])])
        i = end
