"""A forest of bucketed k-d trees over rectangles, one tree for each attribute signature (Covering IV-A, IV-C).

Item       what a row asks about a dimension: 2 * dim for an interval, 2 * dim + 1 for absence.
Signature  the ascending items of a row. A row can only be covered by rows whose signature is a subset of its own.
Point      p(s) = (-lo, hi, -lo, hi, ...) over the interval items; one rectangle contains another iff its point dominates.

Layout
    tries[t] -> group, live rows at or below; a set-trie whose edges are `links[(t, item)] -> t'` (open addressing)
    groups[g] -> root node, items[first : first + size], width coordinates, padded to `stride` (a multiple of 8)
    nodes[n]  -> leaf: region [capacity members][width columns of capacity], or inner: split of one coordinate, two children
                 with the corner of each: the coordinatewise maximum of all points below, in float32 rounded up, side by side,
                 so that a search turns back before it touches the child. A bucket of several chunks of 16 points has a corner
                 for each chunk, compared 16 at a time: splits too fine to be nodes
    words / points / corners: one pool, as int64, float64 and float32; regions come from size classes, four to a doubling,
                 with free lists
    places[slot] -> the leaf and the position in it of each row

A member is its slot | IS_COMPLEX (hulls do not decide) | IS_SIBLING. Padding is 0 in records, -inf or +inf in queries.

Invariants (`CoverIndex.check`): left <= split < right; corners dominate all below; counts add up; every row at its place.

Departures from the paper: a subtree that has grown by half and leans by more than 3/4 is built anew (the paper's tree
degenerates under sorted input); corners, which it does not have, leave a quarter of the buckets to compare at 16 dimensions.
An overflow limit of NEVER makes one leaf a signature: the naive scan.

This module holds the layout, the pools and the buckets; `kernels.signatures` the trie, `kernels.update` single rows,
`kernels.build` subtrees and bulk, `kernels.search` the questions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.jit.decorators import helper
from matchwood.store.kernels.rows import NONE

GROUP = np.dtype(
    [
        ("bloom", "u8"),
        ("scale", "i8"),
        ("root", "u4"),
        ("first", "u4"),
        ("size", "u2"),
        ("width", "u2"),
        ("stride", "u4"),
    ]
)
NODE = np.dtype(
    [
        ("split", "f8"),
        ("start", "i8"),
        ("corners", "i8"),
        ("count", "u4"),
        ("built", "u4"),
        ("capacity", "u4"),
        ("left", "u4"),
        ("right", "u4"),
        ("parent", "u4"),
        ("group", "u4"),
        ("dim", "u2"),
        ("leaf", "u2"),
        ("arranged", "u4"),
        ("pad", "u4"),
    ]
)
TRIE = np.dtype([("group", "u4"), ("live", "u4")])
LINK = np.dtype([("key", "u8"), ("child", "u4"), ("pad", "u4")])
PLACE = np.dtype([("leaf", "u4"), ("at", "u4")])

NO_WHERE = np.int64(-1)
NO_KEY = np.uint64(0xFFFFFFFFFFFFFFFF)
IS_COMPLEX = np.int64(1) << 32
IS_SIBLING = np.int64(1) << 33
SLOT_MASK = np.int64(0xFFFFFFFF)
NEVER = np.int64(1) << 40

# places in `counts`
GROUPS, ITEMS, NODES, FREE_NODE, LIVE_NODES, WORDS, TRIES, LINKS, ROWS, PENDING, OVERFLOW, UNDERFLOW = range(12)
REGIONS = 16  # free list heads of the size classes follow
COUNTS = REGIONS + 8 + 4 * 40

MAX_ITEMS = 1024
CHUNK = 16  # points of a bucket that are compared at once
FRESH = 64  # points appended to a bucket until it is arranged anew
CHUNKS = 16  # chunks of a bucket at most that have corners; larger buckets (equal points, the naive scan) are compared throughout
STACK = 4096
SAMPLE = 63


class Forest(NamedTuple):
    groups: np.ndarray  # GROUP
    items: np.ndarray  # uint32
    nodes: np.ndarray  # NODE
    words: np.ndarray  # int64
    points: np.ndarray  # float64, the same memory as words
    corners: np.ndarray  # float32, the same memory as words
    places: np.ndarray  # PLACE, by slot
    tries: np.ndarray  # TRIE
    links: np.ndarray  # LINK, a power of two long
    counts: np.ndarray  # int64


class Scratch(NamedTuple):
    """Room for one operation: a loaded row, a query point, stacks, and the records of a subtree that is built anew."""

    items: np.ndarray  # uint32, MAX_ITEMS
    ends: np.ndarray  # float64, 2 x MAX_ITEMS: -lo, hi of each item
    query: np.ndarray  # float64, 2 x MAX_ITEMS
    rounded: np.ndarray  # float32, 2 x MAX_ITEMS: the query, rounded down
    turn: np.ndarray  # int64, 2 x MAX_ITEMS: the order in which coordinates are compared, and scratch
    stack: np.ndarray  # int64, 4 x STACK
    members: np.ndarray  # int64
    order: np.ndarray  # int64
    records: np.ndarray  # float64
    sample: np.ndarray  # float64, SAMPLE


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
    if start == NO_WHERE:
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
    n = forest.counts[FREE_NODE]
    if n == np.int64(NONE):
        n = forest.counts[NODES]
        forest.counts[NODES] += 1
    else:
        forest.counts[FREE_NODE] = np.int64(forest.nodes[n].left)
    forest.counts[LIVE_NODES] += 1
    node = forest.nodes[n]
    node.group, node.parent = np.uint32(group), np.uint32(parent)
    node.start, node.corners, node.count, node.built, node.capacity, node.arranged = NO_WHERE, NO_WHERE, 0, 0, 0, 0
    node.left, node.right, node.dim, node.leaf, node.split = NONE, NONE, 0, 1, 0.0
    return n


@helper
def free_node(forest, n):
    node = forest.nodes[n]
    node.capacity = 0
    node.left = np.uint32(forest.counts[FREE_NODE])
    node.leaf = 2  # neither leaf nor inner: free
    forest.counts[FREE_NODE] = n
    forest.counts[LIVE_NODES] -= 1


@helper
def has_words(forest, records, stride):
    """Is there room for regions of that many records, corners and rounding included?"""
    return forest.counts[WORDS] + 5 * (records + 64) * (stride + 2) // 2 <= forest.words.size


@helper
def has_room(forest, records, stride):
    """Is there room for any operation that moves up to `records` records?"""
    return has_words(forest, records, stride) and forest.counts[NODES] + 2 * records + 16 <= forest.nodes.size


@helper
def set_leaf_room(forest, n, capacity):
    """Move the leaf's points to a region for `capacity` of them."""
    node = forest.nodes[n]
    width = np.int64(forest.groups[np.int64(node.group)].width)
    start = take_region(forest, capacity * (width + 1))
    old, held, count = node.start, np.int64(node.capacity), np.int64(node.count)
    for d in range(width + 1):
        for i in range(count):
            forest.words[start + d * capacity + i] = forest.words[old + d * held + i]
    if held > 0:
        free_region(forest, old, held * (width + 1))
    node.start, node.capacity = start, np.uint32(capacity)
    set_chunks(forest, n)


@helper
def set_chunks(forest, n):
    """Give the leaf's chunks corners, if it has several and not too many, and take them away otherwise."""
    node = forest.nodes[n]
    width, capacity = np.int64(forest.groups[np.int64(node.group)].width), np.int64(node.capacity)
    if capacity <= CHUNK or capacity > CHUNK * CHUNKS:
        if node.corners != NO_WHERE:
            free_region(forest, node.corners, width * CHUNKS // 2)
            node.corners = NO_WHERE
        return
    if node.corners != NO_WHERE or width == 0:
        return
    corners = take_region(forest, width * CHUNKS // 2)
    node.corners = corners
    for d in range(width):
        for c in range(CHUNKS):
            forest.corners[2 * corners + d * CHUNKS + c] = -np.inf
        column = node.start + (d + 1) * capacity
        for i in range(np.int64(node.count)):
            at = 2 * corners + d * CHUNKS + i // CHUNK
            forest.corners[at] = max(forest.corners[at], rounded_up(forest.points[column + i]))


@helper
def raise_chunk(forest, n, i, width):
    """The corner of the chunk in which point i of the leaf stands dominates it."""
    node = forest.nodes[n]
    if node.corners != NO_WHERE:
        for d in range(width):
            at = 2 * node.corners + d * CHUNKS + i // CHUNK
            value = forest.points[node.start + (d + 1) * np.int64(node.capacity) + i]
            forest.corners[at] = max(forest.corners[at], rounded_up(value))


@helper
def next_capacity(capacity):
    """1, 2, 4, 8, 16, 32, 48 .. 256, then doubling."""
    if capacity == 0:
        return np.int64(1)
    return capacity + CHUNK if CHUNK <= capacity < CHUNK * CHUNKS else 2 * capacity


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
def corner_at(forest, n):
    """Where in `corners` the corner of node n begins; -1 for a root, which has none."""
    parent = np.int64(forest.nodes[n].parent)
    if parent == np.int64(NONE):
        return NO_WHERE
    above = forest.nodes[parent]
    stride = np.int64(forest.groups[np.int64(above.group)].stride)
    return 2 * above.corners + (0 if np.int64(above.left) == n else stride)


@helper
def raise_corner(corners, corner, records, at, width):
    for d in range(width):
        corners[corner + d] = max(corners[corner + d], rounded_up(records[at + d]))


@helper
def drop_leaf(forest, n, width):
    node = forest.nodes[n]
    if np.int64(node.capacity) > 0:
        free_region(forest, node.start, np.int64(node.capacity) * (width + 1))
    if node.corners != NO_WHERE:
        free_region(forest, node.corners, width * CHUNKS // 2)
    free_node(forest, n)
