"""Changing an IR-tree in place (Ranked 3.1): an interval goes to the node that it would have been built into, and there into
the node's scored R-tree, which is a B+-tree in rank order whose inner entries carry extents.

Blocks own regions of 1 to b entries. A full region of less than b is replaced by one of twice the size, a full block of b
is split in two, an empty one is freed. Blocks are not merged: a tree that has lost half its intervals is built anew.

Kernels check for room before any change and stop; the owner grows the pools. One writer, no reader at the same time.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from matchwood.jit.decorators import helper, kernel, subroutine
from matchwood.jit.state import State, array, nested
from matchwood.structures.ranked.kernels.bits import PAD
from matchwood.structures.ranked.kernels.layout import NONE, Forest


class Count(IntEnum):
    """The elements of `counts`."""

    ENTRIES = 0  # in use, as the next two
    BLOCKS = 1
    NODES = 2
    FREE_BLOCK = 3  # the first of the free blocks, chained by `next`
    FREE_NODE = 4  # the first of the free nodes, chained by `left`
    FREE_REGIONS = 8  # by size, from 1 to 64: the first of the free regions, chained by the link of their first entry


class Stop(IntEnum):
    """Why `insert_many` stopped."""

    DONE = 0
    NO_ROOM = 1
    FULL_BUCKET = 2


COUNTS = Count.FREE_REGIONS + 65
MAX_DEPTH = 192  # nodes on a path; the owner rebuilds what gets out of balance long before
MAX_LEVELS = 32  # blocks on a path


class Change(State):
    """What the kernels of one IR-tree share."""

    forest: Forest = nested(Forest)
    counts: np.ndarray = array(np.int64)  # see `Count`
    path: np.ndarray = array(np.int64)  # nodes from the root down to the last one found
    steps: np.ndarray = array(np.int64, ndim=2)  # by level: block of the last list entered, and index in it


@helper
def take_region(forest, counts, room):
    start = counts[Count.FREE_REGIONS + room]
    if start != np.int64(NONE):
        counts[Count.FREE_REGIONS + room] = forest.link[start]
        return start
    counts[Count.ENTRIES] += room
    return counts[Count.ENTRIES] - room


@helper
def give_region(forest, counts, start, room):
    forest.link[start] = counts[Count.FREE_REGIONS + room]
    counts[Count.FREE_REGIONS + room] = start


@helper
def take_block(forest, counts, level, room):
    """A new, empty block."""
    block = counts[Count.FREE_BLOCK]
    if block != np.int64(NONE):
        counts[Count.FREE_BLOCK] = np.int64(forest.blocks[block].next)
    else:
        block = counts[Count.BLOCKS]
        counts[Count.BLOCKS] += 1
    record = forest.blocks[block]
    record.start, record.count = np.uint32(take_region(forest, counts, room)), np.uint16(0)
    record.room, record.level, record.next = np.uint16(room), np.uint32(level), NONE
    return block


@helper
def give_block(forest, counts, block):
    record = forest.blocks[block]
    give_region(forest, counts, np.int64(record.start), np.int64(record.room))
    record.next = np.uint32(counts[Count.FREE_BLOCK])
    record.count = np.uint16(0)
    counts[Count.FREE_BLOCK] = block


@helper
def copy_entry(forest, source, target):
    forest.lo[target], forest.hi[target] = forest.lo[source], forest.hi[source]
    forest.score[target], forest.link[target] = forest.score[source], forest.link[source]


@helper
def first_id(forest, block):
    """The id of the first interval below a block."""
    record = forest.blocks[block]
    while record.level > 0:
        record = forest.blocks[forest.link[np.int64(record.start)]]
    return forest.link[np.int64(record.start)]


@helper
def entries_before(forest, block, score, id_):
    """How many entries of the block begin before (score, id), in rank order. Equal ranks count too, in an inner block."""
    record = forest.blocks[block]
    start, count = np.int64(record.start), np.int64(record.count)
    at = np.int64(0)
    while at < count:
        here = forest.score[start + at]
        if here < score:
            break
        if here == score:
            if record.level == 0:
                if forest.link[start + at] >= id_:
                    break
            elif first_id(forest, forest.link[start + at]) > id_:
                break
        at += 1
    return at


@subroutine
def put_child(forest, place, block):
    """Make the entry at `place` say what its child block holds: extent and best score. O(b)."""
    record = forest.blocks[block]
    start, count = np.int64(record.start), np.int64(record.count)
    low, high = np.inf, -np.inf
    for e in range(start, start + count):
        low, high = min(low, forest.lo[e]), max(high, forest.hi[e])
    forest.lo[place], forest.hi[place] = low, high
    forest.score[place], forest.link[place] = forest.score[start], block


@helper
def open_gap(forest, counts, block, at, branching):
    """Make room for an entry at index `at` of a block that is not full; return where it is."""
    record = forest.blocks[block]
    start, count, room = np.int64(record.start), np.int64(record.count), np.int64(record.room)
    if count == room:
        more = min(branching, max(4, 2 * room))
        fresh = take_region(forest, counts, more)
        for e in range(count):
            copy_entry(forest, start + e, fresh + e)
        give_region(forest, counts, start, room)
        record.start, record.room = np.uint32(fresh), np.uint16(more)
        start = fresh
    for e in range(start + count, start + at, -1):
        copy_entry(forest, e - 1, e)
    record.count = np.uint16(count + 1)
    return start + at


@subroutine
def descend(forest, root, score, id_, steps):
    """The blocks on the way to the rank (score, id): steps[level] = (block, place); returns the root's level."""
    block = root
    top = np.int64(forest.blocks[root].level)
    level = top
    while True:
        at = entries_before(forest, block, score, id_)
        if level > 0 and at > 0:
            at -= 1
        steps[level, 0], steps[level, 1] = block, at
        if level == 0:
            return top
        block = forest.link[np.int64(forest.blocks[block].start) + at]
        level -= 1


@subroutine
def list_insert(forest, counts, node, branching, lo, hi, score, id_, steps):
    """Put an interval into the node's list. O(b log_b n)."""
    record = forest.nodes[node]
    record.size += np.uint32(1)
    if record.size == 1:
        record.list = np.uint32(take_block(forest, counts, 0, min(branching, 4)))
    root = np.int64(record.list)
    top = descend(forest, root, score, id_, steps)
    level = np.int64(0)
    sibling = np.int64(-1)
    while level <= top:
        block, at = steps[level, 0], steps[level, 1]
        if level > 0:
            put_child(forest, np.int64(forest.blocks[block].start) + at, steps[level - 1, 0])
            at += 1
        if level == 0 or sibling >= 0:
            carried = sibling
            sibling = np.int64(-1)
            target = block
            if np.int64(forest.blocks[block].count) == branching:
                sibling = take_block(forest, counts, level, branching)
                half = split(forest, block, sibling)
                if at > half:
                    target, at = sibling, at - half
            place = open_gap(forest, counts, target, at, branching)
            if level == 0:
                forest.lo[place], forest.hi[place], forest.score[place], forest.link[place] = lo, hi, score, id_
            else:
                put_child(forest, place, carried)
        level += 1
    if sibling >= 0:
        above = take_block(forest, counts, top + 1, min(branching, 4))
        start = np.int64(forest.blocks[above].start)
        forest.blocks[above].count = np.uint16(2)
        put_child(forest, start, root)
        put_child(forest, start + 1, sibling)
        record.list = np.uint32(above)


@helper
def split(forest, block, sibling):
    """Move the second half of a block to its new sibling; return how many stay."""
    left, right = forest.blocks[block], forest.blocks[sibling]
    count = np.int64(left.count)
    half = (count + 1) // 2
    for e in range(count - half):
        copy_entry(forest, np.int64(left.start) + half + e, np.int64(right.start) + e)
    left.count, right.count = np.uint16(half), np.uint16(count - half)
    return half


@subroutine
def list_find(forest, node, score, id_, steps):
    """The level of the root if the node's list has the interval (its leaf and place are in steps[0]), or -1."""
    record = forest.nodes[node]
    if record.size == 0:
        return np.int64(-1)
    top = descend(forest, np.int64(record.list), score, id_, steps)
    block, at = forest.blocks[steps[0, 0]], steps[0, 1]
    place = np.int64(block.start) + at
    if at < np.int64(block.count) and forest.score[place] == score and forest.link[place] == id_:
        return top
    return np.int64(-1)


@subroutine
def list_remove(forest, counts, node, top, steps):
    """Take the interval that `list_find` has found out of the node's list. O(b log_b n)."""
    record = forest.nodes[node]
    record.size -= np.uint32(1)
    gone = True
    for level in range(top + 1):
        block, at = steps[level, 0], steps[level, 1]
        here = forest.blocks[block]
        start = np.int64(here.start)
        if gone:
            here.count -= np.uint16(1)
            for e in range(start + at, start + np.int64(here.count)):
                copy_entry(forest, e + 1, e)
            gone = here.count == 0
            if gone:
                give_block(forest, counts, block)
        else:
            put_child(forest, start + at, steps[level - 1, 0])
    if gone:
        record.list = NONE
        return
    root = np.int64(record.list)
    while forest.blocks[root].level > 0 and forest.blocks[root].count == 1:
        child = forest.link[np.int64(forest.blocks[root].start)]
        give_block(forest, counts, root)
        root = child
    record.list = np.uint32(root)


@subroutine
def refresh(forest, path, depth, change):
    """After a change of the list of the path's last node: its extent and best score, and those of all nodes above."""
    node = forest.nodes[path[depth - 1]]
    node.lo, node.hi, node.own = np.inf, -np.inf, -np.inf
    if node.size > 0:
        block = forest.blocks[np.int64(node.list)]
        start = np.int64(block.start)
        node.own = forest.score[start]
        node.head = node.list
        while forest.blocks[np.int64(node.head)].level > 0:
            node.head = np.uint32(forest.link[np.int64(forest.blocks[np.int64(node.head)].start)])
        for e in range(start, start + np.int64(block.count)):
            node.lo, node.hi = min(node.lo, forest.lo[e]), max(node.hi, forest.hi[e])
    for i in range(depth - 1, -1, -1):
        node = forest.nodes[path[i]]
        node.weight = np.uint32(np.int64(node.weight) + change)
        node.best = node.own
        if node.left != NONE:
            node.best = max(node.best, forest.nodes[np.int64(node.left)].best)
        if node.right != NONE:
            node.best = max(node.best, forest.nodes[np.int64(node.right)].best)


@subroutine
def find_node(forest, root, lo, hi, path):
    """The nodes on the way to the interval's own: (how many, which child of the last is missing: 0 none, 1 left, 2 right)."""
    node = root
    depth = np.int64(0)
    while True:
        path[depth] = node
        depth += 1
        record = forest.nodes[node]
        if hi < record.centre:
            if record.left == NONE:
                return depth, 1
            node = np.int64(record.left)
        elif lo > record.centre:
            if record.right == NONE:
                return depth, 2
            node = np.int64(record.right)
        else:
            return depth, 0


@helper
def take_node(forest, counts):
    """A new, empty bucket."""
    node = counts[Count.FREE_NODE]
    if node != np.int64(NONE):
        counts[Count.FREE_NODE] = np.int64(forest.nodes[node].left)
    else:
        node = counts[Count.NODES]
        counts[Count.NODES] += 1
    record = forest.nodes[node]
    record.centre, record.best, record.own, record.lo, record.hi = np.nan, -np.inf, -np.inf, np.inf, -np.inf
    record.left = record.right = record.list = record.head = NONE
    record.size = record.weight = np.uint32(0)
    return node


@helper
def has_room(forest, counts, branching):
    """Is there room for any one insert? Entries behind the last region are there to be read past the end."""
    return (
        counts[Count.ENTRIES] + MAX_LEVELS * branching + PAD <= forest.lo.size
        and counts[Count.BLOCKS] + MAX_LEVELS <= forest.blocks.size
        and counts[Count.NODES] + 1 <= forest.nodes.size
    )


@kernel
def insert_many(change, tree, branching, entries, first):
    """Insert entries[first:]; return (the first not inserted, why, depth of its path)."""
    forest, counts, path, steps = change.forest, change.counts, change.path, change.steps
    root = np.int64(forest.trees[tree].root)
    for i in range(first, entries.link.size):
        lo, hi = entries.lo[i], entries.hi[i]
        depth, missing = find_node(forest, root, lo, hi, path)
        node = path[depth - 1]
        record = forest.nodes[node]
        if missing == 0 and np.isnan(record.centre) and np.int64(record.size) >= branching:
            return i, Stop.FULL_BUCKET, depth
        if not has_room(forest, counts, branching):
            return i, Stop.NO_ROOM, depth
        if missing != 0:
            node = take_node(forest, counts)
            if missing == 1:
                record.left = np.uint32(node)
            else:
                record.right = np.uint32(node)
            path[depth] = node
            depth += 1
        list_insert(forest, counts, node, branching, lo, hi, entries.score[i], entries.link[i], steps)
        refresh(forest, path, depth, 1)
        forest.trees[tree].size += np.uint32(1)
    return entries.link.size, Stop.DONE, 0


@kernel
def first_found(change, tree, entries, found):
    """The first of the entries that the tree has (found = True) or has not (False), or their number."""
    forest, path, steps = change.forest, change.path, change.steps
    root = np.int64(forest.trees[tree].root)
    for i in range(entries.link.size):
        depth, missing = find_node(forest, root, entries.lo[i], entries.hi[i], path)
        level = np.int64(-1)
        if missing == 0:
            level = list_find(forest, path[depth - 1], entries.score[i], entries.link[i], steps)
        if (level >= 0) == found:
            return i
    return entries.link.size


@kernel
def delete_many(change, tree, entries):
    """Delete entries that the tree has."""
    forest, path, steps = change.forest, change.path, change.steps
    root = np.int64(forest.trees[tree].root)
    for i in range(entries.link.size):
        depth, _ = find_node(forest, root, entries.lo[i], entries.hi[i], path)
        top = list_find(forest, path[depth - 1], entries.score[i], entries.link[i], steps)
        list_remove(forest, change.counts, path[depth - 1], top, steps)
        refresh(forest, path, depth, -1)
        forest.trees[tree].size -= np.uint32(1)


@kernel
def rescore_many(change, tree, branching, entries, scores, first):
    """Give entries that the tree has new scores: each moves within its node's list; return the first not done (no room).

    The interval tree does not change but for its best scores.
    """
    forest, counts, path, steps = change.forest, change.counts, change.path, change.steps
    root = np.int64(forest.trees[tree].root)
    for i in range(first, entries.link.size):
        if not has_room(forest, counts, branching):
            return i
        lo, hi, id_ = entries.lo[i], entries.hi[i], entries.link[i]
        depth, _ = find_node(forest, root, lo, hi, path)
        node = path[depth - 1]
        top = list_find(forest, node, entries.score[i], id_, steps)
        list_remove(forest, counts, node, top, steps)
        list_insert(forest, counts, node, branching, lo, hi, scores[i], id_, steps)
        refresh(forest, path, depth, 0)
    return entries.link.size


@kernel
def dissolve(change, node, entries, stack):
    """Copy all intervals of a subtree to `entries` and free its blocks and nodes, but the node itself. O(size).

    `stack` is long enough for all blocks and nodes.
    """
    forest, counts = change.forest, change.counts
    n = np.int64(0)
    depth = np.int64(1)
    stack[0] = node
    while depth > 0:
        depth -= 1
        at = stack[depth]
        if at < 0:  # a block: -1 - its number
            block = -1 - at
            record = forest.blocks[block]
            for e in range(np.int64(record.start), np.int64(record.start) + np.int64(record.count)):
                if record.level > 0:
                    stack[depth] = -1 - forest.link[e]
                    depth += 1
                else:
                    entries.lo[n], entries.hi[n] = forest.lo[e], forest.hi[e]
                    entries.score[n], entries.link[n] = forest.score[e], forest.link[e]
                    n += 1
            give_block(forest, counts, block)
            continue
        record = forest.nodes[at]
        if record.list != NONE:
            stack[depth] = -1 - np.int64(record.list)
            depth += 1
        if record.left != NONE:
            stack[depth] = np.int64(record.left)
            depth += 1
        if record.right != NONE:
            stack[depth] = np.int64(record.right)
            depth += 1
        if at != node:
            record.left = np.uint32(counts[Count.FREE_NODE])
            counts[Count.FREE_NODE] = at
