"""A forest of bucketed k-d trees over rectangles, one tree for each attribute signature (Covering IV-A, IV-C).

Item       what a row requires of a dimension: 2 * dim for an interval, 2 * dim + 1 for absence.
Signature  the ascending items of a row. A row can only be covered by rows whose signature is a subset of its own.
Point      p(s) = (-lo, hi, -lo, hi, ...) over the interval items; a rectangle contains another iff its point dominates.

Layout
    tries[t] -> group, live rows at or below; a set-trie whose edges are `links[(t, item)] -> t'` (open addressing)
    groups[g] -> root node, items[first : first + size], width coordinates, padded to `stride` (a multiple of 8)
    nodes[n]  -> leaf (a bucket): region [capacity members][width columns of capacity]
                 inner node: split of one coordinate, two children, and the corner of each child: the coordinatewise
                 maximum of all points below it, float32 rounded up. Both corners are stored in the parent, so a search
                 rejects a child without reading it.
    words / points / corners: one pool, as int64, float64 and float32; regions come from size classes, four to a doubling,
                 with free lists
    places[slot] -> leaf and position of each row

A member is its slot | IS_COMPLEX (hulls do not decide) | IS_SIBLING. Corners and query points are padded to the stride with
-inf, so that they are compared 8 coordinates at once.

Invariants (`CoverIndex.check`): left <= split < right; corners dominate all points below; counts add up; each row is at its
place.

Departures from the paper: corners; and a subtree that has grown by half and holds more than 3/4 of its rows in one child is
rebuilt, where the paper's tree degenerates under sorted input. An overflow limit of NEVER gives one leaf for each signature:
the naive scan.

This module holds the layout and the pools, `signatures` the trie, `update` single rows, `build` whole subtrees, `search` the
searches.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper
from matchwood.jit.state import State, array
from matchwood.store.kernels.rows import NONE

GROUP = np.dtype([("bloom", "u8"), ("root", "u4"), ("first", "u4"), ("size", "u2"), ("width", "u2"), ("stride", "u4")])
_WORDS_OF_NODE = [(name, "u4") for name in ("count", "built", "capacity", "left", "right", "parent", "group")]
NODE = np.dtype(
    [("split", "f8"), ("start", "i8"), ("corners", "i8"), *_WORDS_OF_NODE, ("dim", "u2"), ("leaf", "u2"), ("pad", "u8")]
)
TRIE = np.dtype([("group", "u4"), ("live", "u4")])
LINK = np.dtype([("key", "u8"), ("child", "u4"), ("pad", "u4")])
PLACE = np.dtype([("leaf", "u4"), ("at", "u4")])

NOWHERE = np.int64(-1)
NO_KEY = np.uint64(0xFFFFFFFFFFFFFFFF)
IS_COMPLEX = np.int64(1) << 32
IS_SIBLING = np.int64(1) << 33
SLOT_MASK = np.int64(0xFFFFFFFF)
NEVER = np.int64(1) << 40
INNER, LEAF, FREE_NODE = np.uint16(0), np.uint16(1), np.uint16(2)  # values of a node's `leaf`

# Positions in `counts`
GROUPS, ITEMS, NODES, FREE_NODES, LIVE_NODES, WORDS, TRIES, LINKS, ROWS, PENDING, OVERFLOW, UNDERFLOW = range(12)
REGIONS = 16  # the free list heads of the size classes follow
COUNTS = REGIONS + 8 + 4 * 40

# Positions in `CoverScratch.counters`
VISITED, COMPARED, SEARCHES = range(3)

MAX_ITEMS = 1024
STACK = 4096


class CoverForest(State):
    """The state of a `CoverIndex`."""

    groups: np.ndarray = array(GROUP)
    items: np.ndarray = array(np.uint32)
    nodes: np.ndarray = array(NODE)
    words: np.ndarray = array(np.int64)
    points: np.ndarray = array(np.float64)  # the same memory as words
    corners: np.ndarray = array(np.float32)  # the same memory as words
    places: np.ndarray = array(PLACE)  # by slot
    tries: np.ndarray = array(TRIE)
    links: np.ndarray = array(LINK)  # a power of two long
    counts: np.ndarray = array(np.int64)  # see the positions above


class CoverScratch(State):
    """Memory for one operation: a loaded row, a query point, stacks, and the records of a subtree that is rebuilt."""

    items: np.ndarray = array(np.uint32)  # MAX_ITEMS
    ends: np.ndarray = array(np.float64)  # 2 x MAX_ITEMS: -lo, hi of each item
    query: np.ndarray = array(np.float64)  # 2 x MAX_ITEMS
    rounded: np.ndarray = array(np.float32)  # 2 x MAX_ITEMS: the query, rounded down
    stack: np.ndarray = array(np.int64)  # 3 x STACK: of the walk through a tree
    walk: np.ndarray = array(np.int64)  # 2 x MAX_ITEMS + 2: of the walk through the trie
    members: np.ndarray = array(np.int64)
    order: np.ndarray = array(np.int64)
    records: np.ndarray = array(np.float64)
    counters: np.ndarray = array(np.int64)  # the work of all searches, see the positions above


@helper
def region_class(size):
    """The class of regions of at least `size` words: exact up to 8, then four classes to a doubling."""
    if size <= 8:
        return size
    e = np.int64(3)
    while (np.int64(2) << e) < size:
        e += 1
    return 8 + (e - 3) * 4 + ((size - (np.int64(1) << e) + (np.int64(1) << (e - 2)) - 1) >> (e - 2))


@helper
def region_size(class_):
    if class_ <= 8:
        return class_
    e = 3 + (class_ - 9) // 4
    return (np.int64(1) << e) + ((class_ - 9) % 4 + 1) * (np.int64(1) << (e - 2))


@helper
def take_region(forest, size):
    """A region of `size` words; the caller has made sure of room. O(1)."""
    if size == 0:
        return np.int64(0)
    class_ = region_class(size)
    start = forest.counts[REGIONS + class_]
    if start == NOWHERE:
        start = forest.counts[WORDS]
        forest.counts[WORDS] += region_size(class_)
    else:
        forest.counts[REGIONS + class_] = forest.words[start]
    return start


@helper
def free_region(forest, start, size):
    if size > 0:
        class_ = region_class(size)
        forest.words[start] = forest.counts[REGIONS + class_]
        forest.counts[REGIONS + class_] = start


@helper
def take_node(forest, group, parent):
    """A new leaf without a region."""
    n = forest.counts[FREE_NODES]
    if n == np.int64(NONE):
        n = forest.counts[NODES]
        forest.counts[NODES] += 1
    else:
        forest.counts[FREE_NODES] = np.int64(forest.nodes[n].left)
    forest.counts[LIVE_NODES] += 1
    forest.nodes[n].group = np.uint32(group)
    forest.nodes[n].parent = np.uint32(parent)
    make_empty_leaf(forest, n)
    return n


@helper
def make_empty_leaf(forest, n):
    """Let the node be a leaf without points and without a region."""
    node = forest.nodes[n]
    node.leaf = LEAF
    node.count = 0
    node.built = 0
    node.capacity = 0


@helper
def free_node(forest, n):
    node = forest.nodes[n]
    node.left = np.uint32(forest.counts[FREE_NODES])
    node.leaf = FREE_NODE
    forest.counts[FREE_NODES] = n
    forest.counts[LIVE_NODES] -= 1


@helper
def free_leaf(forest, n, width):
    """Free the region of a leaf."""
    capacity = np.int64(forest.nodes[n].capacity)
    free_region(forest, forest.nodes[n].start, capacity * (width + 1))


@helper
def has_words(forest, records, stride):
    """Is there room for regions of that many records, corners and rounding included?"""
    return forest.counts[WORDS] + 5 * (records + 64) * (stride + 2) // 2 <= forest.words.size


@helper
def has_room(forest, records, stride):
    """Is there room for any operation that moves up to `records` records?"""
    return has_words(forest, records, stride) and forest.counts[NODES] + 2 * records + 16 <= forest.nodes.size


@helper
def has_group_room(forest, n):
    """Is there room for a new signature of n items?"""
    counts = forest.counts
    return (
        counts[GROUPS] < forest.groups.size
        and counts[ITEMS] + n <= forest.items.size
        and counts[TRIES] + n <= forest.tries.size
        and 2 * (counts[LINKS] + n) <= forest.links.size
        and counts[NODES] < forest.nodes.size
    )


@helper
def rounded_up(value):
    """The least float32 that is not below the value."""
    near = np.float32(value)
    return near if near >= value else np.nextafter(near, np.float32(np.inf))


@helper
def rounded_down(value):
    """The greatest float32 that is not above the value."""
    near = np.float32(value)
    return near if near <= value else np.nextafter(near, np.float32(-np.inf))


@helper
def raise_corner(corners, corner, records, at, width):
    """Let the corner dominate the record at records[at:] too."""
    for d in range(width):
        value = rounded_up(records[at + d])
        if value > corners[corner + d]:
            corners[corner + d] = value
