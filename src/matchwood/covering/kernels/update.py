"""Rows that come and go in the forest, one at a time: down the tree to a bucket, with corners raised and counts kept on the way.

What has become too full, too empty or too lopsided is not mended here: counts[PENDING] names the subtree, and
`kernels.build` builds it anew. Layout and invariants: `kernels.forest`.
"""

from __future__ import annotations

import numpy as np

from matchwood.covering.kernels.build import rebuild
from matchwood.covering.kernels.forest import (
    CHUNK,
    FRESH,
    GROUPS,
    ITEMS,
    LINKS,
    NEVER,
    NO_WHERE,
    OVERFLOW,
    PENDING,
    ROWS,
    SLOT_MASK,
    TRIES,
    UNDERFLOW,
    drop_leaf,
    has_room,
    has_words,
    next_capacity,
    raise_chunk,
    raise_corner,
    set_leaf_room,
    take_node,
)
from matchwood.covering.kernels.signatures import fill_point, group_of, leave_trie, load_row, member_of
from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import NONE


@kernel
def insert_row(forest, store, slot, scratch):
    """Put one row of the store into its tree. False: no room, nothing was changed. O(depth x stride).

    Leaves in counts[PENDING] the node that should now be built anew (a bucket that overflows, a subtree that leans), or -1.
    """
    counts = forest.counts
    counts[PENDING] = NO_WHERE
    n = load_row(store, slot, scratch)
    if not (
        has_room(forest, 1, 2 * n + 4)
        and counts[GROUPS] < forest.groups.size
        and counts[ITEMS] + n <= forest.items.size
        and counts[TRIES] + n <= forest.tries.size
        and 2 * (counts[LINKS] + n) <= forest.links.size
    ):
        return False
    g = group_of(forest, scratch, n)
    group = forest.groups[g]
    stride, width = np.int64(group.stride), np.int64(group.width)
    fill_point(scratch, n, scratch.query, stride)
    if group.root == NONE:
        group.root = np.uint32(take_node(forest, g, np.int64(NONE)))
    at = np.int64(group.root)
    while True:
        node = forest.nodes[at]
        if node.leaf:
            break
        node.count += np.uint32(1)
        if counts[PENDING] == NO_WHERE and leans(forest, at):
            counts[PENDING] = at
        is_right = scratch.query[np.int64(node.dim)] > node.split
        raise_corner(forest.corners, 2 * node.corners + (stride if is_right else 0), scratch.query, 0, width)
        at = np.int64(node.right) if is_right else np.int64(node.left)
    leaf = forest.nodes[at]
    count = np.int64(leaf.count)
    if count == np.int64(leaf.capacity):
        if not has_words(forest, 2 * count, stride):
            undo_path(forest, np.int64(leaf.parent))
            leave_trie(forest, g)
            return False
        set_leaf_room(forest, at, next_capacity(count))
    forest.words[leaf.start + count] = member_of(store, slot)
    for d in range(width):
        forest.points[leaf.start + (d + 1) * np.int64(leaf.capacity) + count] = scratch.query[d]
    raise_chunk(forest, at, count, width)
    forest.places[slot].leaf, forest.places[slot].at = np.uint32(at), np.uint32(count)
    leaf.count += np.uint32(1)
    counts[ROWS] += 1
    # What is appended since the bucket was arranged makes chunks with loose corners.
    loose = np.int64(leaf.count) >= np.int64(leaf.arranged) + FRESH and CHUNK < np.int64(leaf.count) <= counts[OVERFLOW]
    grown = np.int64(leaf.count) > max(counts[OVERFLOW], 2 * np.int64(leaf.built)) or (
        loose and counts[OVERFLOW] != NEVER
    )
    if counts[PENDING] == NO_WHERE and grown and stride > 0:
        counts[PENDING] = at
    return True


@helper
def undo_path(forest, at):
    while at != np.int64(NONE):
        forest.nodes[at].count -= np.uint32(1)
        at = np.int64(forest.nodes[at].parent)


@helper
def leans(forest, n):
    """Has the inner node changed by half since it was built, and is one child far heavier than the other?"""
    node = forest.nodes[n]
    count, built = np.int64(node.count), np.int64(node.built)
    if 2 * count < 3 * built + 64 and 2 * count > built:
        return False
    heavier = max(np.int64(forest.nodes[np.int64(node.left)].count), np.int64(forest.nodes[np.int64(node.right)].count))
    return 4 * heavier > 3 * count + 16


@kernel
def delete_row(forest, slot):
    """Take one row out of its tree; its bucket may leave counts[PENDING], as in `insert_row`. O(depth + stride)."""
    counts = forest.counts
    counts[PENDING] = NO_WHERE
    at = np.int64(forest.places[slot].leaf)
    hole = np.int64(forest.places[slot].at)
    leaf = forest.nodes[at]
    g = np.int64(leaf.group)
    group = forest.groups[g]
    last = np.int64(leaf.count) - 1
    if hole != last:
        for d in range(np.int64(group.width) + 1):
            column = leaf.start + d * np.int64(leaf.capacity)
            forest.words[column + hole] = forest.words[column + last]
        forest.places[forest.words[leaf.start + hole] & SLOT_MASK].at = np.uint32(hole)
        raise_chunk(forest, at, hole, np.int64(group.width))
    forest.places[slot].leaf = NONE
    leaf.count -= np.uint32(1)
    counts[ROWS] -= 1
    leave_trie(forest, g)
    above = np.int64(leaf.parent)
    if above == np.int64(NONE):
        if last == 0:
            drop_leaf(forest, at, np.int64(group.width))
            group.root = NONE
        return
    if last < counts[UNDERFLOW] and 4 * (np.int64(forest.nodes[above].count) - 1) <= 3 * counts[OVERFLOW]:
        counts[PENDING] = above
    while above != np.int64(NONE):
        forest.nodes[above].count -= np.uint32(1)
        if leans(forest, above):
            counts[PENDING] = above
        above = np.int64(forest.nodes[above].parent)


@kernel
def insert_many(forest, store, slots, first, scratch):
    """Insert slots[first:]; return the first not inserted. Stops for room, and for a rebuild that scratch is too small for."""
    for i in range(first, slots.size):
        if not insert_row(forest, store, np.int64(slots[i]), scratch):
            return i
        top = forest.counts[PENDING]
        if top != NO_WHERE and not rebuild(forest, top, scratch):
            return i + 1
        forest.counts[PENDING] = NO_WHERE
    return slots.size


@kernel
def delete_many(forest, slots, first, scratch):
    """Delete slots[first:]; return the first not deleted. Stops for a rebuild that scratch is too small for."""
    for i in range(first, slots.size):
        delete_row(forest, np.int64(slots[i]))
        top = forest.counts[PENDING]
        if top != NO_WHERE and not rebuild(forest, top, scratch):
            return i + 1
        forest.counts[PENDING] = NO_WHERE
    return slots.size
