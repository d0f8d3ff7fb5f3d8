"""BEQ-Tree: leaves of a quadtree with sorted lists of event keys; counting (Guo et al., as described in MO-Tree 3.2 and 6.1.3).

Layout   quads[q]: the point at which a square is quartered and the first of four children, or its leaf.
         leaves[l]: the box of the leaf's events and their number. Run (leaf, dimension) of `keys` and `members`: the leaf's
         events that have the dimension, by rising key, with some room behind them; freed room is chained by powers of two.
A row counts, in every leaf that its square meets, the events between its two ends on each dimension: two binary
searches and a walk. Those that are counted for each hold. An event is put into, or taken out of, every list of its leaf, and
what stands behind it there is moved: this is what makes the BEQ-Tree slow to change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.kernels._jit import helper, kernel

LEAF = np.dtype([("west", "f8"), ("east", "f8"), ("south", "f8"), ("north", "f8"), ("size", "u4"), ("most", "u4")])
QUAD = np.dtype([("x", "f8"), ("y", "f8"), ("children", "u4"), ("leaf", "u4")])
RUN = np.dtype([("start", "u4"), ("size", "u4"), ("room", "u4")])
NONE = np.uint32(0xFFFFFFFF)

# places in `counts`
END, FREE = 0, 1  # of the pool; the free list heads of the powers of two follow
COUNTS = FREE + 32


class Leaves(NamedTuple):
    quads: np.ndarray  # QUAD
    leaves: np.ndarray  # LEAF
    runs: np.ndarray  # RUN, by leaf * dimensions + dimension
    keys: np.ndarray  # float64
    members: np.ndarray  # uint32
    leaf_of: np.ndarray  # uint32, by event; none if it is not there
    counts: np.ndarray  # int64


@helper
def first_at_least(keys, low, high, key):
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@helper
def leaf_at(tree, x, y):
    """The leaf of a place. O(depth)."""
    q = np.int64(0)
    while tree.quads[q].children != NONE:
        quad = tree.quads[q]
        q = np.int64(quad.children) + np.int64(x > quad.x) + 2 * np.int64(y > quad.y)
    return np.int64(tree.quads[q].leaf)


@helper
def power_of(room):
    """The greatest power of two that is not above `room`, as its exponent."""
    power = np.int64(0)
    while (np.int64(2) << power) <= room:
        power += 1
    return power


@helper
def widen(tree, run):
    """Give a full run twice the room, freeing the old; False (and nothing changed) if the pool has none. O(run)."""
    power = power_of(np.int64(run.size)) + 1
    room = np.int64(1) << power
    start = tree.counts[FREE + power]
    if start >= 0:
        tree.counts[FREE + power] = np.int64(np.int32(tree.members[start]))
    elif tree.counts[END] + room <= tree.keys.size:
        start = tree.counts[END]
        tree.counts[END] += room
    else:
        return False
    old = np.int64(run.start)
    for i in range(np.int64(run.size)):
        tree.keys[start + i] = tree.keys[old + i]
        tree.members[start + i] = tree.members[old + i]
    if run.room > 0:
        free = FREE + power_of(np.int64(run.room))
        tree.members[old] = np.uint32(tree.counts[free])
        tree.counts[free] = old
    run.start, run.room = np.uint32(start), np.uint32(room)
    return True


@kernel
def insert_event(tree, dimensions, x, y, dims, keys, event):
    """Put an event into the lists of its leaf; return the leaf, or -1 if the pool is full: nothing is there then. O(lists)."""
    leaf_number = leaf_at(tree, x, y)
    first = leaf_number * dimensions
    for i in range(dims.size):
        run = tree.runs[first + np.int64(dims[i])]
        if run.size == run.room and not widen(tree, run):
            return np.int64(-1)
    for i in range(dims.size):
        run = tree.runs[first + np.int64(dims[i])]
        at = np.int64(run.start) + np.int64(run.size)
        while at > np.int64(run.start) and tree.keys[at - 1] > keys[i]:
            tree.keys[at] = tree.keys[at - 1]
            tree.members[at] = tree.members[at - 1]
            at -= 1
        tree.keys[at] = keys[i]
        tree.members[at] = np.uint32(event)
        run.size += np.uint32(1)
    leaf = tree.leaves[leaf_number]
    leaf.west, leaf.east = min(leaf.west, x), max(leaf.east, x)
    leaf.south, leaf.north = min(leaf.south, y), max(leaf.north, y)
    leaf.size += np.uint32(1)
    tree.leaf_of[event] = np.uint32(leaf_number)
    return leaf_number


@kernel
def delete_event(tree, dimensions, event):
    """Take an event out of the lists of its leaf, which keeps its box. O(lists)."""
    leaf = np.int64(tree.leaf_of[event])
    for dim in range(dimensions):
        run = tree.runs[leaf * dimensions + dim]
        at, end = np.int64(run.start), np.int64(run.start) + np.int64(run.size)
        while at < end and np.int64(tree.members[at]) != event:
            at += 1
        if at == end:
            continue
        for i in range(at, end - 1):
            tree.keys[i] = tree.keys[i + 1]
            tree.members[i] = tree.members[i + 1]
        run.size -= np.uint32(1)
    tree.leaves[leaf].size -= np.uint32(1)
    tree.leaf_of[event] = NONE


@kernel
def candidates_of(tree, dimensions, x, y, dims, lo, hi, counters, found):
    """Events that meet all intervals (dims, lo, hi), of which those on x and y choose the leaves; return how many are in `found`.

    `counters` is zero for every event, before and after.
    """
    n = np.int64(0)
    for at in range(tree.leaves.size):
        leaf = tree.leaves[at]
        meets = leaf.size > 0
        for i in range(dims.size):
            if dims[i] == x:
                meets = meets and lo[i] <= leaf.east and leaf.west <= hi[i]
            elif dims[i] == y:
                meets = meets and lo[i] <= leaf.north and leaf.south <= hi[i]
        if not meets:
            continue
        for i in range(dims.size):
            run = tree.runs[at * dimensions + np.int64(dims[i])]
            end = np.int64(run.start) + np.int64(run.size)
            m = first_at_least(tree.keys, np.int64(run.start), end, lo[i])
            while m < end and tree.keys[m] <= hi[i]:
                event = np.int64(tree.members[m])
                counters[event] += np.uint16(1)
                if np.int64(counters[event]) == dims.size:
                    found[n] = np.uint32(event)
                    n += 1
                m += 1
        for i in range(dims.size):
            run = tree.runs[at * dimensions + np.int64(dims[i])]
            end = np.int64(run.start) + np.int64(run.size)
            m = first_at_least(tree.keys, np.int64(run.start), end, lo[i])
            while m < end and tree.keys[m] <= hi[i]:
                counters[np.int64(tree.members[m])] = np.uint16(0)
                m += 1
    return n
