"""MO-Tree: nodes and their positions. In: the number of a bucket. Out: a node with room, a free position, its bits.

Regions of planes come in four widths and grow with their node; chains and free lists: see the layout in `kernels.layout`. Both
halves of the tree stand on this: rows (`kernels.place`) and live events (`structures.live.kernels.place`).

What all nodes share is changed here and by one thread: `open_nodes` gives out room before a batch is written, `release_nodes`
takes it back when one has left. Between, each node is written by whoever has its piece, so pieces may go to several threads.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch, trailing_zeros
from matchwood.structures.mo_tree.kernels.block import MANY_COME
from matchwood.structures.mo_tree.kernels.layout import (
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
    OPEN,
    PLANES,
    REGIONS,
    VALID,
    WORDS,
    enter_node,
)

PIECE = np.dtype([("first", "u4"), ("rows", "u4"), ("node", "u4")])
"""Rows first, first + 1, ... of a batch, which go to one node; no other piece of the batch has the node."""


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
    heads = np.int64(HEAD_WORDS - MEMBER_WORDS)
    for p in range(heads + tree.counts[PLANES]):
        fill = np.uint64(0) if p < heads else ONES
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
    wanted = np.int64(node.count) + rows
    if node.words < LINE and wanted > 64 * np.int64(node.words) and not widen(tree, node, wanted):
        return np.int64(-1)
    return n


@helper
def claim(tree, n, rows):
    """Count so many rows in, as far as there is room; return how many. A full node leaves the spare chain, whose first it is."""
    node = tree.nodes[n]
    here = min(rows, 64 * np.int64(node.words) - np.int64(node.count))
    node.count += np.uint32(here)
    if node.count == LINE_ROWS:
        tree.directory[np.int64(node.number)].spare = node.spare
        node.spare = NONE
    return here


@helper
def run_of(numbers, i):
    """Where the run of numbers[i] ends. O(run)."""
    end = i + 1
    while end < numbers.size and numbers[end] == numbers[i]:
        end += 1
    return end


@kernel
def open_nodes(tree, numbers, first, pieces, n):
    """Give rows first, first + 1, ..., whose buckets are numbers[first:], room in nodes; pieces[n:] say who goes where.

    Return the first for which a pool has no room, or their number, and how many pieces there are. A run of one number is given
    its room at once, so what is sorted by number is never moved. O(rows).
    """
    i = run = first
    while i < numbers.size:
        if i == run:
            run = run_of(numbers, i)
        node = node_with_room(tree, np.int64(numbers[i]), run - i)
        if node < 0:
            return i, n
        here = claim(tree, node, run - i)
        pieces[n].first, pieces[n].rows, pieces[n].node = np.uint32(i), np.uint32(here), np.uint32(node)
        n += 1
        i += here
    return i, n


@helper
def enter_piece(tree, piece):
    """Enter the node of a piece. Return it, where the piece begins and ends, and whether its rows are so many for the node that
    they are noted first, and written together."""
    n, first, rows = np.int64(piece.node), np.int64(piece.first), np.int64(piece.rows)
    enter_node(tree, np.int64(tree.nodes[n].number))
    return n, first, first + rows, LINE * rows >= MANY_COME * np.int64(tree.nodes[n].words)


@helper
def take_position(tree, node):
    """A free position of a node that has room for one who has been counted in."""
    valid = np.int64(node.start) + np.int64(VALID) * np.int64(node.words)
    word = np.int64(0)
    while tree.bits[valid + word] == ONES:
        word += 1
    position = (word << 6) + np.int64(trailing_zeros(~tree.bits[valid + word]))
    tree.bits[valid + word] |= ONE << np.uint64(position & 63)
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
def free_position(tree, node, position):
    """Make a position free whose bits in the planes are ones; it is not counted out yet."""
    valid = np.int64(node.start) + np.int64(VALID) * np.int64(node.words) + (position >> 6)
    tree.bits[valid] &= ~(ONE << np.uint64(position & 63))


@helper
def release(tree, n, rows):
    """Count out so many rows; a node that was full has room again, one without rows goes."""
    node = tree.nodes[n]
    if node.count == LINE_ROWS:
        head = tree.directory[np.int64(node.number)]
        node.spare = head.spare
        head.spare = np.uint32(n)
    node.count -= np.uint32(rows)
    if node.count == 0:
        unlink(tree, n)


@kernel
def release_nodes(tree, nodes):
    """Count out a row for each time a node is named, the same one after the other. O(rows)."""
    i = np.int64(0)
    while i < nodes.size:
        end = run_of(nodes, i)
        release(tree, np.int64(nodes[i]), end - i)
        i = end


@helper
def share_of(tree, node, rows, together):
    """The words of a node's region that each of so many rows asks for, where they come together; else none."""
    return region_words(tree, np.int64(node.words)) // rows if together else np.int64(0)


@helper
def prefetch_share(tree, node, i, share):
    """Ask for the i-th share of a node's region: `settle` writes it when all rows are noted."""
    for word in range(np.int64(node.start) + i * share, np.int64(node.start) + (i + 1) * share, LINE):
        prefetch(tree.bits, word)


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
def open_position(tree, node, position):
    """The row at the position has an entry that no plane knows."""
    opens = np.int64(node.start) + np.int64(OPEN) * np.int64(node.words) + (position >> 6)
    tree.bits[opens] |= ONE << np.uint64(position & 63)
    node.opened = np.uint32(1)


@helper
def close_position(tree, node, position):
    opens = np.int64(node.start) + np.int64(OPEN) * np.int64(node.words) + (position >> 6)
    tree.bits[opens] &= ~(ONE << np.uint64(position & 63))
