"""MO-Tree: nodes and their positions. In: the number of a bucket. Out: a node with room, a free position.

Regions of planes come in four sizes and grow with their node; chains and free lists: see `kernels.layout`. Trees of rows and
of live events both use this: `open_node` gives rows room in a node, `release` takes back the room of what has left.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch, trailing_zeros
from matchwood.store.kernels.distances import PREFETCH_IDS
from matchwood.structures.mo_tree.kernels.layout import (
    HEAD_WORDS,
    LINE,
    LINE_ROWS,
    MEMBER_WORDS,
    NO_REGION,
    NONE,
    ONE,
    ONES,
    OPEN,
    VALID,
    TreeCount,
)


@helper
def class_for(rows):
    """The smallest size class of regions for that many rows, the largest for more: class c has planes of 2^c words."""
    if rows <= 64:
        return np.int64(0)
    if rows <= 128:
        return np.int64(1)
    return np.int64(2) if rows <= 256 else np.int64(3)


@helper
def take_region(tree, class_):
    """A region of the class, from its free list or the end of the pool; NO_REGION if there is no room."""
    counts = tree.counts
    start = counts[TreeCount.FREE_REGIONS + class_]
    if start != NO_REGION:
        counts[TreeCount.FREE_REGIONS + class_] = np.int64(tree.bits[start])
        return start
    size = (HEAD_WORDS + counts[TreeCount.PLANES]) << class_
    size = (size + LINE - 1) & -LINE
    start = counts[TreeCount.WORDS]
    if start + size + LINE > tree.bits.size:  # a line may be read beyond the last plane of a small region
        return NO_REGION
    counts[TreeCount.WORDS] += size
    return start


@helper
def free_region(tree, node):
    class_ = class_for(np.int64(node.words) * 64)
    tree.bits[np.int64(node.start)] = np.uint64(tree.counts[TreeCount.FREE_REGIONS + class_])
    tree.counts[TreeCount.FREE_REGIONS + class_] = np.int64(node.start)


@helper
def widen(tree, node, rows):
    """Give the node a region for `rows` rows, at most 512; False (and nothing changed) if the pool is full. O(region)."""
    class_ = class_for(rows)
    start = take_region(tree, class_)
    if start == NO_REGION:
        return False
    words = np.int64(1) << class_
    old, old_words = np.int64(node.start), np.int64(node.words)
    for w in range(MEMBER_WORDS * old_words):
        tree.bits[start + w] = tree.bits[old + w]
    old += MEMBER_WORDS * old_words
    plane = start + MEMBER_WORDS * words
    for _ in range(HEAD_WORDS - MEMBER_WORDS + tree.counts[TreeCount.PLANES]):
        for w in range(words):
            tree.bits[plane + w] = tree.bits[old + w] if w < old_words else np.uint64(0)
        plane += words
        old += old_words
    if old_words > 0:
        free_region(tree, node)
    node.start = np.uint64(start)
    node.words = np.uint32(words)
    return True


@helper
def new_node(tree, number, rows):
    """A node for the bucket, with a region for `rows` rows and first in both chains; -1 if a pool is full."""
    counts, head = tree.counts, tree.directory[number]
    n = counts[TreeCount.FREE_NODE]
    if n == np.int64(NONE):
        n = counts[TreeCount.NODES]
        if n == tree.nodes.size:
            return np.int64(-1)
    node = tree.nodes[n]
    after = np.int64(node.next)
    node.words = np.uint32(0)
    if not widen(tree, node, rows):
        return np.int64(-1)
    if n == counts[TreeCount.NODES]:
        counts[TreeCount.NODES] += 1
    else:
        counts[TreeCount.FREE_NODE] = after
    counts[TreeCount.BUCKETS] += np.int64(head.first == NONE)
    node.number, node.count, node.opened = np.uint32(number), np.uint32(0), np.uint32(0)
    node.next, node.spare = head.first, NONE
    node.reach_0 = node.reach_1 = np.uint64(0)
    head.first = head.spare = np.uint32(n)
    return n


@helper
def node_with_room(tree, number, rows):
    """A node of the bucket with a free position, wide enough for `rows` more if it can be; -1 if a pool is full."""
    n = np.int64(tree.directory[number].spare)
    if n == np.int64(NONE):
        return new_node(tree, number, rows)
    node = tree.nodes[n]
    wanted = np.int64(node.count) + rows
    if node.words < LINE and wanted > 64 * np.int64(node.words) and not widen(tree, node, wanted):
        return np.int64(-1)
    return n


@helper
def open_node(tree, numbers, i):
    """Room in a node for rows i, i + 1, ..., whose buckets are numbers[i:], as many as have the same one and fit.

    Return the node and how many rows are counted in; -1 and none if a pool is full. A full node leaves the spare chain, whose
    first it is. O(rows).
    """
    end = i + 1
    while end < min(numbers.size, i + LINE_ROWS) and numbers[end] == numbers[i]:
        end += 1
    n = node_with_room(tree, np.int64(numbers[i]), end - i)
    if n < 0:
        return n, np.int64(0)
    node = tree.nodes[n]
    count = min(end - i, 64 * np.int64(node.words) - np.int64(node.count))
    node.count += np.uint32(count)
    if node.count == LINE_ROWS:
        tree.directory[np.int64(node.number)].spare = node.spare
        node.spare = NONE
    return n, count


@helper
def take_position(tree, n, slot):
    """A free position for the row or event at the slot, which has been counted in; its planes are not written yet."""
    node = tree.nodes[n]
    valid = np.int64(node.start) + VALID * np.int64(node.words)
    word = np.int64(0)
    while tree.bits[valid + word] == ONES:
        word += 1
    position = (word << 6) + np.int64(trailing_zeros(~tree.bits[valid + word]))
    tree.bits[valid + word] |= ONE << np.uint64(position & 63)
    tree.members[2 * np.int64(node.start) + position] = np.uint32(slot)
    tree.places[slot].node, tree.places[slot].position = np.uint32(n), np.uint32(position)
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
    tree.counts[TreeCount.BUCKETS] -= np.int64(head.first == NONE)
    free_region(tree, node)
    node.words = np.uint32(0)
    node.next = np.uint32(tree.counts[TreeCount.FREE_NODE])
    tree.counts[TreeCount.FREE_NODE] = n


@kernel
def release(tree, slots):
    """Take the rows or events at these slots out of their nodes. O(slots)."""
    for i in range(slots.size):
        prefetch(tree.places, np.int64(slots[min(i + 2 * PREFETCH_IDS, slots.size - 1)]))
        place = tree.places[np.int64(slots[i])]
        n, position = np.int64(place.node), np.int64(place.position)
        place.node = NONE
        node = tree.nodes[n]
        valid, bit = (
            np.int64(node.start) + VALID * np.int64(node.words) + (position >> 6),
            ONE << np.uint64(position & 63),
        )
        tree.bits[valid] &= ~bit
        tree.bits[valid + (OPEN - VALID) * np.int64(node.words)] &= ~bit
        if node.count == LINE_ROWS:
            head = tree.directory[np.int64(node.number)]
            node.spare = head.spare
            head.spare = np.uint32(n)
        node.count -= np.uint32(1)
        if node.count == 0:
            unlink(tree, n)
