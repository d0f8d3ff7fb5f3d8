"""MO-Tree: rows put into their buckets and taken out again. In: rows of the store, their buckets. Out: bits in nodes.

Nodes, regions and chains: see the layout in `kernels.mo_tree`. The event half uses the same nodes (`live_events_place`).
"""

from __future__ import annotations

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import prefetch, trailing_zeros
from matchwood.kernels.mo_tree import (
    BUCKETS,
    FREE_NODE,
    HEAD_WORDS,
    LINE,
    LINE_ROWS,
    MEMBER_WORDS,
    NO_REGION,
    NODES,
    NONE,
    ONE,
    ONES,
    PLANES,
    REGIONS,
    SLICED,
    WORDS,
    axis_number,
    enter_node,
    prefetch_row,
    slice_bits,
    slice_span,
    slices_of_set,
)
from matchwood.kernels.mo_tree_block import MANY_COME, MANY_LEAVE, clear_out, note_leaving, note_slices, settle
from matchwood.kernels.store import ABSENT, AHEAD, CIRCLE, SET, add_row, prefetch_new


@helper
def class_for(rows):
    """The smallest class of regions for that many rows, the largest for more: class c has 2^c words."""
    if rows <= 64:
        return np.int64(0)
    if rows <= 128:
        return np.int64(1)
    return np.int64(2) if rows <= 256 else np.int64(3)


@helper
def region_words(tree, words):
    """Words that a region of P words takes, in whole cache lines."""
    return (words * (np.int64(HEAD_WORDS) + tree.counts[PLANES]) + 7) & ~np.int64(7)


@helper
def clear_bits(bits, at, stride, count, position, possible):
    """Of `count` planes, the first at bits[at]: clear the position's bit in plane j unless bit j of `possible` is set.

    As many steps for every row: stopping at its slices would be a branch that nobody can foresee. Unsigned places and a
    mask that turns make half the instructions of the plain loop.
    """
    shift = np.uint64(position & 63)
    others = ~(ONE << shift)
    mask = (possible << shift) | (possible >> ((np.uint64(64) - shift) & np.uint64(63)))
    plane = np.uint64(at)
    step = np.uint64(stride)
    end = plane + np.uint64(count) * step
    while plane < end:
        bits[plane] &= mask | others
        mask = (mask >> ONE) | (mask << np.uint64(63))
        plane += step


@helper
def set_bits(bits, at, stride, count, position):
    """Set the position's bit in `count` planes, the first at bits[at]."""
    bit = ONE << np.uint64(position & 63)
    plane = np.uint64(at)
    step = np.uint64(stride)
    end = plane + np.uint64(count) * step
    while plane < end:
        bits[plane] |= bit
        plane += step


@helper
def open_position(tree, node, position):
    """The row at the position has an entry that no plane knows."""
    opens = np.int64(node.start) + np.int64(MEMBER_WORDS + 1) * np.int64(node.words) + (position >> 6)
    tree.bits[opens] |= ONE << np.uint64(position & 63)
    node.opened = np.uint32(1)


@helper
def close_position(tree, node, position):
    opens = np.int64(node.start) + np.int64(MEMBER_WORDS + 1) * np.int64(node.words) + (position >> 6)
    tree.bits[opens] &= ~(ONE << np.uint64(position & 63))


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
        axis = tree.axes[a]
        begin = end = np.int64(axis.slices)  # the null plane
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
            plane = word + np.int64(axis.plane) * words
            clear_bits(tree.bits, plane, words, np.int64(axis.slices) + 1, position, possible)
    node.reach_0 |= reach_0
    node.reach_1 |= reach_1
    if is_open:
        open_position(tree, node, position)


@helper
def wipe_row(tree, store, slot, node, position):
    """Make the bits of a row that leaves ones again. O(slices)."""
    row = store.rows[slot]
    words = np.int64(node.words)
    word = np.int64(node.start) + np.int64(HEAD_WORDS) * words + (position >> 6)
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        entry = store.entries[at]
        a = axis_number(tree, np.int64(entry.dim))
        if a < tree.counts[SLICED] and not entry.kind & CIRCLE:
            axis = tree.axes[a]
            set_bits(tree.bits, word + np.int64(axis.plane) * words, words, np.int64(axis.slices) + 1, position)
    close_position(tree, node, position)


@helper
def take_region(tree, class_):
    """A region of the class, from its free list or the end of the pool; -1 if there is no room."""
    counts = tree.counts
    start = counts[REGIONS + class_]
    if start != NO_REGION:
        counts[REGIONS + class_] = np.int64(tree.bits[start])
        return start
    size = region_words(tree, np.int64(1) << class_)
    start = counts[WORDS]
    if start + size + LINE > tree.bits.size:  # a line may be read beyond the last plane of a small region
        return NO_REGION
    counts[WORDS] += size
    return start


@helper
def free_region(tree, node):
    class_ = class_for(np.int64(node.words) * 64)
    tree.bits[np.int64(node.start)] = np.uint64(tree.counts[REGIONS + class_])
    tree.counts[REGIONS + class_] = np.int64(node.start)


@helper
def widen(tree, node, rows):
    """Give the node a region for `rows` rows, at most 512; False (and nothing changed) if the pool is full. O(region)."""
    class_ = class_for(rows)
    start = take_region(tree, class_)
    if start == NO_REGION:
        return False
    words = np.int64(1) << class_
    old, old_words = np.int64(node.start), np.int64(node.words)
    for w in range(np.int64(MEMBER_WORDS) * old_words):
        tree.bits[start + w] = tree.bits[old + w]
    old += np.int64(MEMBER_WORDS) * old_words
    plane = start + np.int64(MEMBER_WORDS) * words
    for p in range(2 + tree.counts[PLANES]):
        fill = np.uint64(0) if p < 2 else ONES
        for w in range(old_words):
            tree.bits[plane + w] = tree.bits[old + w]
        for w in range(old_words, words):
            tree.bits[plane + w] = fill
        plane += words
        old += old_words
    if old_words > 0:
        free_region(tree, node)
    node.start = np.uint64(start)
    node.words = np.uint32(words)
    return True


@helper
def node_with_room(tree, number, rows):
    """A node of the bucket with a free position, wide enough for `rows` more if it can be; -1 if a pool is full."""
    head = tree.directory[number]
    n = np.int64(head.spare)
    if n == np.int64(NONE):
        n = tree.counts[FREE_NODE]
        if n == np.int64(NONE):
            n = tree.counts[NODES]
            if n == tree.nodes.size:
                return np.int64(-1)
        fresh = tree.nodes[n]
        after = np.int64(fresh.next)
        fresh.words = np.uint32(0)
        if not widen(tree, fresh, rows):
            return np.int64(-1)
        if n == tree.counts[NODES]:
            tree.counts[NODES] += 1
        else:
            tree.counts[FREE_NODE] = after
        tree.counts[BUCKETS] += np.int64(head.first == NONE)
        fresh.number, fresh.count, fresh.opened = np.uint32(number), np.uint32(0), np.uint32(0)
        fresh.next, fresh.spare = head.first, NONE
        fresh.reach_0 = fresh.reach_1 = np.uint64(0)
        head.first = np.uint32(n)
        head.spare = np.uint32(n)
    node = tree.nodes[n]
    if node.count == node.words * np.uint32(64) and not widen(tree, node, np.int64(node.count) + rows):
        return np.int64(-1)
    return n


@helper
def take_position(tree, node):
    """A free position of a node that has one; a node that is full now leaves the spare chain, whose first it is."""
    valid = np.int64(node.start) + np.int64(MEMBER_WORDS) * np.int64(node.words)
    word = np.int64(0)
    while tree.bits[valid + word] == ONES:
        word += 1
    position = (word << 6) + np.int64(trailing_zeros(~tree.bits[valid + word]))
    tree.bits[valid + word] |= ONE << np.uint64(position & 63)
    node.count += np.uint32(1)
    if node.count == LINE_ROWS:
        tree.directory[np.int64(node.number)].spare = node.spare
        node.spare = NONE
    return position


@helper
def unlink(tree, n):
    """Take a node without rows out of both chains of its bucket and free it. O(nodes of the bucket)."""
    node = tree.nodes[n]
    head = tree.directory[np.int64(node.number)]
    if np.int64(head.first) == n:
        head.first = node.next
    else:
        at = np.int64(head.first)
        while np.int64(tree.nodes[at].next) != n:
            at = np.int64(tree.nodes[at].next)
        tree.nodes[at].next = node.next
    if np.int64(head.spare) == n:
        head.spare = node.spare
    else:
        at = np.int64(head.spare)
        while np.int64(tree.nodes[at].spare) != n:
            at = np.int64(tree.nodes[at].spare)
        tree.nodes[at].spare = node.spare
    tree.counts[BUCKETS] -= np.int64(head.first == NONE)
    free_region(tree, node)
    node.words = np.uint32(0)
    node.next = np.uint32(tree.counts[FREE_NODE])
    tree.counts[FREE_NODE] = n


@helper
def give_back(tree, n, position):
    """Make a position free; a node that was full has room again, one without rows goes."""
    node = tree.nodes[n]
    valid = np.int64(node.start) + np.int64(MEMBER_WORDS) * np.int64(node.words)
    tree.bits[valid + (position >> 6)] &= ~(ONE << np.uint64(position & 63))
    if node.count == LINE_ROWS:
        head = tree.directory[np.int64(node.number)]
        node.spare = head.spare
        head.spare = np.uint32(n)
    node.count -= np.uint32(1)
    if node.count == 0:
        unlink(tree, n)


@helper
def run_of(numbers, i):
    """Where the run of numbers[i] ends. O(run)."""
    end = i + 1
    while end < numbers.size and numbers[end] == numbers[i]:
        end += 1
    return end


@helper
def room_for(node, rows):
    """For how many of the rows the node has a free position."""
    return min(rows, 64 * np.int64(node.words) - np.int64(node.count))


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
def place_row(tree, store, slot, n, together):
    """Put a row into a node that has been entered and has a free position."""
    node = tree.nodes[n]
    position = take_position(tree, node)
    tree.members[2 * np.int64(node.start) + position] = np.uint32(slot)
    tree.places[slot].node = np.uint32(n)
    tree.places[slot].position = np.uint32(position)
    write_row(tree, store, slot, node, position, together)


@kernel
def place_rows(tree, store, slots, numbers, first):
    """Put rows first, first + 1, ... into their buckets; return the first for which a pool has no room, or their number.

    A run of one number is given its room at once, so rows sorted by bucket are never moved. O(slices of the row) each.
    """
    i = run = first
    while i < slots.size:
        if i == run:
            run = run_of(numbers, i)
        n = node_with_room(tree, np.int64(numbers[i]), run - i)
        if n < 0:
            return i
        node = tree.nodes[n]
        here = room_for(node, run - i)
        together = here >= MANY_COME * np.int64(node.words)
        enter_node(tree, np.int64(node.number))
        for j in range(i, i + here):
            prefetch_row(store, slots, j)
            place_row(tree, store, np.int64(slots[j]), n, together)
        if together:
            settle(tree, node)
        i += here
    return slots.size


@kernel
def insert_rows(tree, store, rows, order, numbers, first, slots):
    """Store the rows order[first:] of the CSR arrays and put them into their buckets numbers[first:], ascending.

    slots[r] is where row r went; ids are not entered. Return how many are there, and whether the store had room: less than all
    if one of its pools or (so it had) of the tree's is full. As `place_rows`; a row is sliced while its entries are near.
    """
    i = run = first
    while i < order.size:
        if i == run:
            run = run_of(numbers, i)
        n = node_with_room(tree, np.int64(numbers[i]), run - i)
        if n < 0:
            return i, True
        node = tree.nodes[n]
        here = room_for(node, run - i)
        together = here >= MANY_COME * np.int64(node.words)
        enter_node(tree, np.int64(node.number))
        slot = np.int64(0)
        end = i + here
        while i < end:
            prefetch_new(rows, order, i)
            r = np.int64(order[i])
            slot = add_row(store, rows, r)
            if slot < 0:
                break
            slots[r] = np.uint32(slot)
            place_row(tree, store, slot, n, together)
            i += 1
        if together:
            settle(tree, node)
        if slot < 0:
            return i, False
    return order.size, True


@helper
def leave_node(tree, store, slots, begin, end):
    """Take the rows slots[begin:end] out of the one node where they are. O(slices of the row) each, less where they are many."""
    if begin == end:
        return
    n = np.int64(tree.places[np.int64(slots[begin])].node)
    node = tree.nodes[n]
    together = end - begin >= MANY_LEAVE
    for j in range(begin, end):
        slot = np.int64(slots[j])
        if together:
            note_leaving(tree, np.int64(tree.places[slot].position))
        else:
            wipe_row(tree, store, slot, node, np.int64(tree.places[slot].position))
    if together:
        clear_out(tree, node)
    for j in range(begin, end):
        place = tree.places[np.int64(slots[j])]
        give_back(tree, n, np.int64(place.position))
        place.node = NONE


@kernel
def remove_rows(tree, store, slots):
    """Take rows, those of a node one after the other, out of their buckets; the store still has them."""
    i = np.int64(0)
    while i < slots.size:
        end = same_node(tree, slots, i)
        for j in range(i, min(end, i + MANY_LEAVE)):
            prefetch_row(store, slots, j)
        leave_node(tree, store, slots, i, end)
        i = end
