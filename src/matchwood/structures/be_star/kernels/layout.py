"""The state of a BE*-Tree: buckets, p-nodes, leaf rows, boxes, and the pools they come from.

                       bucket 0, the root: no box, level 0
                       | leaf rows | p-directory: [dim 3 -> bucket 7] [dim 9 -> bucket 1] ...        sorted by dimension
                                                       |
              bucket 7, level 1, active dimension 3: box of everything below, box of its own
              | left bucket | own leaf rows | own p-directory | right bucket |

A bucket is a c-node together with its place in the c-directory (BE*-Tree IV): `left` and `right` are the buckets it was split
into, its *own* rows are the overlapping ones, kept in its leaf (the paper's l-node) or, once that overflowed, below its
p-directory. A p-node is an entry of a p-directory.

Layout   a bucket is two cache lines; matching reads the first. The leaf rows and the p-directory of a bucket are regions of a
         power of two in size, chained in free lists by size when freed. A bucket of level k has k - 1 boxes in `boxes`:
         its extent in the *inactive* dimensions, those of the levels above (IV-B). They make a deletion local: an
         ancestor's boundary is rebuilt from the boxes of its children, without going down.
Invariant  `lo, hi` encloses the active interval of every row below the bucket, `own_lo, own_hi` of its own rows; left and right
         never overlap and enclose none of its own rows (each row is in the smallest bucket that encloses it); the `max_`
         summaries dominate every row below, the `leaf_` summaries every leaf row (`BEStarTree.check`).

Summaries depart from the paper, which keeps the largest weight of each attribute at each p-node and l-node: a row that
matches gets all its weights, so the largest total of a row bounds the score more tightly than the sum of largest
weights over all attributes of the event, and takes 12 bytes in place of a map.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from matchwood.jit.decorators import helper
from matchwood.jit.state import State, array
from matchwood.store.kernels.rounding import rounded_up
from matchwood.store.kernels.rows import ABSENT, NARROWS, NONE


class Split(IntEnum):
    """How an overflowing bucket is split."""

    EXHAUSTIVE = 0
    APPROXIMATE = 1
    HALVES = 2
    RIGID = 3  # halves of a fixed domain: the BE-Tree


class Ranking(IntEnum):
    """How attributes are ranked when a bucket is partitioned."""

    POPULARITY = 0
    SELECTIVITY = 1


BUCKET = np.dtype(
    [
        ("lo", "f8"),
        ("hi", "f8"),
        ("own_lo", "f8"),
        ("own_hi", "f8"),
        ("left", "u4"),
        ("right", "u4"),
        ("leaf", "u4"),  # first leaf row
        ("p_nodes", "u4"),  # first p-node
        ("leaf_size", "u4"),
        ("p_size", "u2"),  # p-nodes
        ("dim", "u2"),
        ("max_score", "f4"),  # largest priority + sum of weights of a row below
        ("max_weights", "f4"),  # largest sum of weights
        ("max_priority", "f4"),
        ("leaf_score", "f4"),  # the same of the leaf rows
        ("leaf_weights", "f4"),
        ("leaf_priority", "f4"),
        ("parent", "u4"),  # bucket above in the c-directory, NONE at its root
        ("owner", "u4"),  # bucket whose p-directory leads here, NONE at the root of the tree
        ("boxes", "u4"),
        ("rows", "u4"),  # below, leaf rows included
        ("capacity", "u4"),  # leaf rows that do not yet overflow
        ("stale", "u4"),  # deletions since the boundary of a large leaf was rebuilt
        ("level", "u2"),
        ("leaf_class", "u1"),
        ("p_class", "u1"),
        ("live", "u1"),
        ("loose", "u1"),  # set while a row is rewritten: the old row may have made a boundary or summary
        ("pad", "u2"),
        # Rigid trees: the cell of the grid that the bucket stands for. Others: its core, what all of its own rows share, or less.
        ("cell_lo", "f8"),
        ("cell_hi", "f8"),
    ]
)
P_NODE = np.dtype([("dim", "u2"), ("pad", "u2"), ("root", "u4"), ("rank", "f4"), ("rows", "u4")])
BOX = np.dtype([("lo", "f8"), ("hi", "f8")])
# A leaf row, the bound of its score, and its signature: one bit for each dimension it needs, modulo 64.
LEAF_ROW = np.dtype([("needs", "u8"), ("slot", "u4"), ("max_score", "f4")])
HOME = np.dtype([("bucket", "u4"), ("at", "u4")])  # the bucket of a slot's row, and its position in the leaf
# Of a dimension: what rows span, and the share of the rows below it that events were seen to test in vain.
DOMAIN = np.dtype([("lo", "f8"), ("hi", "f8"), ("loss", "f8")])

OPTIONS = np.dtype([("alpha", "f8"), ("beta", "f8"), ("capacity", "i8"), ("split", "i8"), ("ranking", "i8")])
COUNTS = np.dtype(
    [
        # used of each pool
        ("buckets", "i8"),
        ("leaf_rows", "i8"),
        ("p_nodes", "i8"),
        ("boxes", "i8"),
        # in the tree
        ("live_buckets", "i8"),
        ("live_p_nodes", "i8"),
        ("free_bucket", "i8"),  # the first free bucket, chained through `left`
        # of all rows that the tree has held since it was built
        ("max_predicates", "i8"),
        ("max_leaf", "i8"),
        ("absences", "i8"),  # does any of them test for an absence?
    ]
)

MAX_LEVEL = 32  # deeper buckets are not partitioned
CLASSES = 32
NO_CLASS = np.uint8(255)
LEFT, RIGHT = np.int64(0), np.int64(1)
LEAF_REGIONS, P_REGIONS, BOX_REGIONS = 0, 1, 2  # rows of `free`
HUGE = np.finfo(np.float64).max
LARGEST = 4.0e307  # stands for infinity in lengths, so that they never become NaN


class Tree(State):
    """The state of a BE*-Tree."""

    buckets: np.ndarray = array(BUCKET)
    p_nodes: np.ndarray = array(P_NODE)
    leaf_rows: np.ndarray = array(LEAF_ROW)
    boxes: np.ndarray = array(BOX)
    homes: np.ndarray = array(HOME)  # by slot
    domains: np.ndarray = array(DOMAIN)  # by dimension: what rigid trees halve, and what the ranking learnt
    counts: np.ndarray = array(COUNTS)  # [1]
    options: np.ndarray = array(OPTIONS)  # [1]
    blank: np.ndarray = array(BUCKET)  # [1]: what a new bucket looks like
    free: np.ndarray = array(np.int64, ndim=2)  # [kind of region, class]: the first free one of that size, or NONE


@helper
def class_of(size):
    """The power of two that holds `size` items, two at least."""
    class_ = np.int64(1)
    while (np.int64(1) << class_) < size:
        class_ += 1
    return class_


@helper
def length_of(lo, hi):
    """The length of an interval, finite and never NaN."""
    return max(0.0, min(hi, LARGEST) - max(lo, -LARGEST))


@helper
def middle_between(lo, hi):
    """A float of lo..hi near their middle; infinite ends count as the largest floats. Halves first: hi - lo may overflow."""
    return 0.5 * max(lo, -HUGE) + 0.5 * min(hi, HUGE)


@helper
def usable(entry):
    """Can the entry lead a row into a partition? An absence and a circle have no interval."""
    return not entry.kind & (ABSENT | NARROWS)


@helper
def entry_on(store, slot, dim):
    """Position of the row's usable entry on the dimension, or -1. O(its entries)."""
    row = store.rows[slot]
    start = np.int64(row.start)
    for at in range(start, start + np.int64(row.count)):
        entry = store.entries[at]
        if np.int64(entry.dim) == dim and usable(entry):
            return at
    return np.int64(-1)


@helper
def bit_of(dim):
    return np.uint64(1) << (np.uint64(dim) & np.uint64(63))


@helper
def is_rigid(tree):
    return tree.options[0].split == Split.RIGID


@helper
def above(tree, b):
    """The bucket that leads to bucket b, NONE for the root."""
    bucket = tree.buckets[b]
    return np.int64(bucket.owner) if bucket.parent == NONE else np.int64(bucket.parent)


@helper
def side_of(bucket, side):
    """The left or right child of a bucket, or NONE."""
    return np.int64(bucket.left) if side == LEFT else np.int64(bucket.right)


@helper
def summarise(tree, store, slot):
    """(signature, largest score, sum of weights, priority) of a row, the numbers rounded up; `tree.counts` knows of it then."""
    row = store.rows[slot]
    start = np.int64(row.start)
    needs, weights = np.uint64(0), 0.0
    for at in range(start, start + np.int64(row.count)):
        entry = store.entries[at]
        weights += entry.weight
        if entry.kind == ABSENT:
            tree.counts[0].absences = 1
        else:
            needs |= bit_of(entry.dim)
    tree.counts[0].max_predicates = max(tree.counts[0].max_predicates, np.int64(row.count))
    # A sum taken in another order may differ by an ulp a term; this and rounding up to float32 cover it many times over.
    weights *= 1.0 + 1e-12
    score = row.priority + weights
    score += (abs(score) + abs(row.priority)) * 1e-12
    return needs, rounded_up(score), rounded_up(weights), rounded_up(row.priority)


@helper
def take_bucket(tree, level, dim, parent, owner):
    """A fresh bucket without rows; the caller made sure that there is room. O(level)."""
    counts = tree.counts[0]
    b = counts.free_bucket
    if b == np.int64(NONE):
        b = counts.buckets
        counts.buckets += 1
    else:
        counts.free_bucket = np.int64(tree.buckets[b].left)
    counts.live_buckets += 1
    tree.buckets[b] = tree.blank[0]
    bucket = tree.buckets[b]
    bucket.level, bucket.dim = np.uint16(level), np.uint16(dim)
    bucket.parent, bucket.owner = np.uint32(parent), np.uint32(owner)
    if level > 1:
        number = level - 1
        start = tree.free[BOX_REGIONS, number]
        if start == np.int64(NONE):
            start = counts.boxes
            counts.boxes += number
        else:
            tree.free[BOX_REGIONS, number] = np.int64(tree.boxes[start].lo)
        for j in range(start, start + number):
            tree.boxes[j].lo, tree.boxes[j].hi = np.inf, -np.inf
        bucket.boxes = np.uint32(start)
    return b


@helper
def free_bucket(tree, b):
    """Give back a bucket with its regions. Its rows and children must have gone elsewhere."""
    counts, bucket = tree.counts[0], tree.buckets[b]
    free_leaf(tree, bucket)
    free_p_nodes(tree, bucket)
    if bucket.level > 1:
        number = np.int64(bucket.level) - 1
        tree.boxes[np.int64(bucket.boxes)].lo = np.float64(tree.free[BOX_REGIONS, number])
        tree.free[BOX_REGIONS, number] = np.int64(bucket.boxes)
    bucket.live = np.uint8(0)
    bucket.left = np.uint32(counts.free_bucket)
    counts.free_bucket = b
    counts.live_buckets -= 1


@helper
def free_leaf(tree, bucket):
    if bucket.leaf_class != NO_CLASS:
        class_ = np.int64(bucket.leaf_class)
        tree.leaf_rows[np.int64(bucket.leaf)].slot = np.uint32(tree.free[LEAF_REGIONS, class_])
        tree.free[LEAF_REGIONS, class_] = np.int64(bucket.leaf)
    bucket.leaf, bucket.leaf_class, bucket.leaf_size = NONE, NO_CLASS, np.uint32(0)


@helper
def free_p_nodes(tree, bucket):
    if bucket.p_class != NO_CLASS:
        class_ = np.int64(bucket.p_class)
        tree.p_nodes[np.int64(bucket.p_nodes)].root = np.uint32(tree.free[P_REGIONS, class_])
        tree.free[P_REGIONS, class_] = np.int64(bucket.p_nodes)
    bucket.p_nodes, bucket.p_class, bucket.p_size = NONE, NO_CLASS, np.uint16(0)


@helper
def take_leaf(tree, bucket, size):
    """Give the bucket, which has no leaf, a region for `size` leaf rows."""
    class_ = class_of(size)
    start = tree.free[LEAF_REGIONS, class_]
    if start == np.int64(NONE):
        start = tree.counts[0].leaf_rows
        tree.counts[0].leaf_rows += np.int64(1) << class_
    else:
        tree.free[LEAF_REGIONS, class_] = np.int64(tree.leaf_rows[start].slot)
    bucket.leaf, bucket.leaf_class, bucket.leaf_size = np.uint32(start), np.uint8(class_), np.uint32(size)
    return start


@helper
def put_leaf_row(tree, b, slot):
    """Append a row to the bucket's leaf, return its record, to be filled in. O(1) amortised."""
    bucket = tree.buckets[b]
    size = np.int64(bucket.leaf_size)
    if bucket.leaf_class == NO_CLASS:
        take_leaf(tree, bucket, size + 1)
    elif size == np.int64(1) << np.int64(bucket.leaf_class):
        old, old_class = np.int64(bucket.leaf), np.int64(bucket.leaf_class)
        start = take_leaf(tree, bucket, size + 1)
        for i in range(size):
            tree.leaf_rows[start + i] = tree.leaf_rows[old + i]
        tree.leaf_rows[old].slot = np.uint32(tree.free[LEAF_REGIONS, old_class])
        tree.free[LEAF_REGIONS, old_class] = old
    bucket.leaf_size = np.uint32(size + 1)
    home = tree.homes[slot]
    home.bucket, home.at = np.uint32(b), np.uint32(size)
    leaf_row = tree.leaf_rows[np.int64(bucket.leaf) + size]
    leaf_row.slot = np.uint32(slot)
    return leaf_row


@helper
def find_p_node(tree, b, dim):
    """Position of the dimension's p-node in the bucket's p-directory, or where it would go. O(log size)."""
    bucket = tree.buckets[b]
    low = np.int64(bucket.p_nodes)
    high = low + np.int64(bucket.p_size)
    while low < high:
        middle = (low + high) >> 1
        if np.int64(tree.p_nodes[middle].dim) < dim:
            low = middle + 1
        else:
            high = middle
    return low


@helper
def has_p_node(tree, b, at, dim):
    """Is the position that `find_p_node` gave that of the dimension's p-node?"""
    bucket = tree.buckets[b]
    return at < np.int64(bucket.p_nodes) + np.int64(bucket.p_size) and np.int64(tree.p_nodes[at].dim) == dim


@helper
def add_p_node(tree, b, dim, root, rank):
    """Enter a p-node into the bucket's p-directory. O(its size)."""
    bucket = tree.buckets[b]
    size = np.int64(bucket.p_size)
    if bucket.p_class == NO_CLASS or size == np.int64(1) << np.int64(bucket.p_class):
        class_ = class_of(size + 1)
        start = tree.free[P_REGIONS, class_]
        if start == np.int64(NONE):
            start = tree.counts[0].p_nodes
            tree.counts[0].p_nodes += np.int64(1) << class_
        else:
            tree.free[P_REGIONS, class_] = np.int64(tree.p_nodes[start].root)
        old = np.int64(bucket.p_nodes)
        for i in range(size):
            tree.p_nodes[start + i] = tree.p_nodes[old + i]
        free_p_nodes(tree, bucket)
        bucket.p_nodes, bucket.p_class = np.uint32(start), np.uint8(class_)
        bucket.p_size = np.uint16(size)
    at = find_p_node(tree, b, dim)
    for i in range(np.int64(bucket.p_nodes) + size, at, -1):
        tree.p_nodes[i] = tree.p_nodes[i - 1]
    p_node = tree.p_nodes[at]
    p_node.dim, p_node.root, p_node.rank = np.uint16(dim), np.uint32(root), np.float32(rank)
    p_node.rows = np.uint32(0)
    bucket.p_size = np.uint16(size + 1)
    tree.counts[0].live_p_nodes += 1


@helper
def replace_child(tree, b, other):
    """Let what leads to bucket b lead to `other` (NONE: to nothing, and a p-node is dropped)."""
    bucket = tree.buckets[b]
    if bucket.parent != NONE:
        parent = tree.buckets[np.int64(bucket.parent)]
        if np.int64(parent.left) == b:
            parent.left = np.uint32(other)
        else:
            parent.right = np.uint32(other)
        return
    owner = tree.buckets[np.int64(bucket.owner)]
    at = find_p_node(tree, np.int64(bucket.owner), np.int64(bucket.dim))
    if other != np.int64(NONE):
        tree.p_nodes[at].root = np.uint32(other)
        return
    size = np.int64(owner.p_size) - 1
    for i in range(at, np.int64(owner.p_nodes) + size):
        tree.p_nodes[i] = tree.p_nodes[i + 1]
    owner.p_size = np.uint16(size)
    tree.counts[0].live_p_nodes -= 1
    if size == 0:
        free_p_nodes(tree, owner)
