"""Single rows that are added to the forest or removed: a walk down the tree to a leaf, or up from it.

Nothing is split or merged here. counts[PENDING] names the subtree that has become too full, too empty or unbalanced;
the owner rebuilds it with `kernels.build` before the next change. Layout and invariants: `kernels.forest`.
"""

from __future__ import annotations

import numpy as np

from matchwood.covering.kernels.forest import (
    NOWHERE,
    OVERFLOW,
    PENDING,
    ROWS,
    SLOT_MASK,
    UNDERFLOW,
    free_leaf,
    free_node,
    has_group_room,
    has_room,
    has_words,
    raise_corner,
    take_region,
)
from matchwood.covering.kernels.signatures import fill_point, group_of, leave_trie, load_row, member_of, root_of
from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import NONE


@helper
def insert_row(forest, store, slot, scratch):
    """Put one row of the store into its tree. False: no room, and nothing was changed. O(depth x stride)."""
    counts = forest.counts
    n = load_row(store, slot, scratch)
    if not has_room(forest, np.int64(1), 2 * n + 8) or not has_group_room(forest, n):
        return False
    g = group_of(forest, scratch, n)
    stride, width = np.int64(forest.groups[g].stride), np.int64(forest.groups[g].width)
    fill_point(scratch, n, scratch.query, np.int64(0))
    at = descend(forest, root_of(forest, g), scratch, width, stride)
    leaf = forest.nodes[at]
    count = np.int64(leaf.count)
    if count == np.int64(leaf.capacity):
        if not has_words(forest, 2 * count, stride):
            shrink_path(forest, np.int64(leaf.parent))
            counts[PENDING] = NOWHERE
            leave_trie(forest, g)
            return False
        move_leaf(forest, at, count * 3 // 2 + 1)
    forest.words[leaf.start + count] = member_of(store, slot)
    for d in range(width):
        forest.points[leaf.start + (d + 1) * np.int64(leaf.capacity) + count] = scratch.query[d]
    forest.places[slot].leaf, forest.places[slot].at = np.uint32(at), np.uint32(count)
    leaf.count += np.uint32(1)
    counts[ROWS] += 1
    if counts[PENDING] == NOWHERE and width > 0 and count >= max(counts[OVERFLOW], 2 * np.int64(leaf.built)):
        counts[PENDING] = at
    return True


@helper
def descend(forest, at, scratch, width, stride):
    """The leaf for the point in scratch.query; the nodes above it count one more row, and their corners dominate it."""
    while not forest.nodes[at].leaf:
        node = forest.nodes[at]
        node.count += np.uint32(1)
        if forest.counts[PENDING] == NOWHERE and leans(forest, at):
            forest.counts[PENDING] = at
        is_right = scratch.query[np.int64(node.dim)] > node.split
        raise_corner(forest.corners, 2 * node.corners + (stride if is_right else 0), scratch.query, np.int64(0), width)
        at = np.int64(node.right) if is_right else np.int64(node.left)
    return at


@helper
def shrink_path(forest, at):
    """Let the node and all above it count one row less."""
    while at != np.int64(NONE):
        forest.nodes[at].count -= np.uint32(1)
        at = np.int64(forest.nodes[at].parent)


@helper
def move_leaf(forest, n, capacity):
    """Move the points of a leaf to a region for `capacity` of them."""
    node = forest.nodes[n]
    width = np.int64(forest.groups[np.int64(node.group)].width)
    start = take_region(forest, capacity * (width + 1))
    old, held, count = node.start, np.int64(node.capacity), np.int64(node.count)
    for d in range(width + 1):
        for i in range(count):
            forest.words[start + d * capacity + i] = forest.words[old + d * held + i]
    free_leaf(forest, n, width)
    node.start, node.capacity = start, np.uint32(capacity)


@helper
def leans(forest, n):
    """Has the inner node changed by half since it was built, and is one child far heavier than the other?"""
    node = forest.nodes[n]
    count, built = np.int64(node.count), np.int64(node.built)
    if 2 * count < 3 * built + 64 and 2 * count > built:
        return False
    heavier = max(np.int64(forest.nodes[np.int64(node.left)].count), np.int64(forest.nodes[np.int64(node.right)].count))
    return 4 * heavier > 3 * count + 16


@helper
def delete_row(forest, store, slot, scratch):
    """Take one row out of its tree. O(depth + stride)."""
    counts, place = forest.counts, forest.places[slot]
    at, hole = np.int64(place.leaf), np.int64(place.at)
    leaf = forest.nodes[at]
    g = np.int64(leaf.group)
    width, last = np.int64(forest.groups[g].width), np.int64(leaf.count) - 1
    if hole != last:
        for d in range(width + 1):
            column = leaf.start + d * np.int64(leaf.capacity)
            forest.words[column + hole] = forest.words[column + last]
        forest.places[forest.words[leaf.start + hole] & SLOT_MASK].at = np.uint32(hole)
    place.leaf = NONE
    leaf.count -= np.uint32(1)
    counts[ROWS] -= 1
    leave_trie(forest, g)
    above = np.int64(leaf.parent)
    if above == np.int64(NONE):
        if last == 0:
            free_leaf(forest, at, width)
            free_node(forest, at)
            forest.groups[g].root = NONE
        return
    if last < counts[UNDERFLOW] and 4 * (np.int64(forest.nodes[above].count) - 1) <= 3 * counts[OVERFLOW]:
        counts[PENDING] = above
    shrink_path(forest, above)
    while above != np.int64(NONE):
        if forest.nodes[above].count == 0 or leans(forest, above):
            counts[PENDING] = above
        above = np.int64(forest.nodes[above].parent)


@kernel
def insert_many(forest, store, slots, first, scratch):
    """Insert slots[first:]; return the first not inserted. Stops for lack of room, and for a pending rebuild."""
    for i in range(first, slots.size):
        if not insert_row(forest, store, np.int64(slots[i]), scratch):
            return i
        if forest.counts[PENDING] != NOWHERE:
            return i + 1
    return slots.size


@kernel
def delete_many(forest, store, slots, first, scratch):
    """Delete slots[first:]; return the first not deleted. Stops for a pending rebuild."""
    for i in range(first, slots.size):
        delete_row(forest, store, np.int64(slots[i]), scratch)
        if forest.counts[PENDING] != NOWHERE:
            return i + 1
    return slots.size
