"""The state of a BE*-Tree: buckets, partition directories, leaf rows, boxes, and the pools they come from.

                       bucket 0, the root: no box, level 0
                       | leaf rows | p-directory: [dim 3 -> bucket 7] [dim 9 -> bucket 1] ...        sorted by dimension
                                                       |
              bucket 7, level 1, active dimension 3: box of everything below, box of its own
              | left bucket | own leaf rows | own p-directory | right bucket |

A bucket is a c-node together with its place in the c-directory (BE*-Tree IV): `left` and `right` are the buckets it was split
into, its *own* rows are the overlapping ones, kept in its l-node or, once that overflowed, below its p-directory. A p-node is an
entry of a p-directory.

Layout   a bucket is two cache lines; matching reads the first. Leaf rows and p-directories are contiguous regions of
         a power of two, chained in free lists by size when freed. A bucket of level k has k - 1 boxes in `boxes`:
         its extent in the *inactive* dimensions, those of the levels above (IV-B). They make a deletion local: an
         ancestor's boundary is rebuilt from the boxes of its children, without going down.
Invariant  `lo, hi` encloses the active interval of every row below the bucket, `own_lo, own_hi` of its own rows; left and right
         never overlap and enclose none of its own rows (each row is in the smallest bucket that encloses it); `best`, `sum` and
         `top` dominate every row below, the `leaf_` ones every leaf row (`BEStarTree.check`).

Weight summaries depart from the paper, which keeps the largest weight of each attribute at each p-node and l-node: a row that
matches gets all its weights, so the largest total of a row bounds the score more tightly than the sum of largest
weights over all attributes of the event, and takes 12 bytes in place of a map.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.jit.decorators import helper
from matchwood.store.kernels.rows import ABSENT, CIRCLE, NONE

BUCKET = np.dtype(
    [
        ("lo", "f8"),
        ("hi", "f8"),
        ("own_lo", "f8"),
        ("own_hi", "f8"),
        ("left", "u4"),
        ("right", "u4"),
        ("leaf", "u4"),  # first leaf row
        ("parts", "u4"),  # first p-node
        ("leaf_size", "u4"),
        ("parts_size", "u2"),
        ("dim", "u2"),
        ("best", "f4"),  # largest priority + sum of weights of a row below
        ("sum", "f4"),  # largest sum of weights
        ("top", "f4"),  # largest priority
        ("leaf_best", "f4"),
        ("leaf_sum", "f4"),
        ("leaf_top", "f4"),
        ("parent", "u4"),  # bucket above in the c-directory, NONE at its root
        ("owner", "u4"),  # bucket whose p-directory leads here, NONE at the root of the tree
        ("boxes", "u4"),
        ("rows", "u4"),  # below, leaf rows included
        ("capacity", "u4"),  # leaf rows that do not yet overflow
        ("stale", "u4"),  # deletions since the boundary of a very large leaf was rebuilt
        ("level", "u2"),
        ("leaf_class", "u1"),
        ("parts_class", "u1"),
        ("state", "u1"),
        ("pad", "u1"),
        ("pad2", "u2"),
        # Rigid trees: the cell of the grid that the bucket stands for. Others: its core, what all of its own rows share, or less.
        ("cell_lo", "f8"),
        ("cell_hi", "f8"),
    ]
)
PNODE = np.dtype([("dim", "u2"), ("pad", "u2"), ("root", "u4"), ("rank", "f4"), ("rows", "u4")])
BOX = np.dtype([("lo", "f8"), ("hi", "f8")])
# Of a dimension: what rows span, and the share of the rows below it that an event was seen to meet in vain.
DOMAIN = np.dtype([("lo", "f8"), ("hi", "f8"), ("loss", "f8")])
# A leaf row, the bound of its score (as `best`), and its signature: one bit for each dimension it needs, modulo 64.
LEAF = np.dtype([("needs", "u8"), ("slot", "u4"), ("best", "f4")])
HOME = np.dtype([("bucket", "u4"), ("at", "u4")])  # where a slot's row lies: leaf row `at` of the bucket

LEVELS = 32  # deeper buckets are not partitioned
CLASSES = 32
NO_CLASS = np.uint8(255)
FREED, LIVE = np.uint8(0), np.uint8(1)
HUGE = np.finfo(np.float64).max
LARGEST = 4.0e307  # stands for infinity in lengths, so that they never become NaN

# how buckets are split
EXHAUSTIVE, APPROXIMATE, HALVES, RIGID = 0, 1, 2, 3
# how attributes are ranked
POPULARITY, SELECTIVITY = 0, 1

# places in `counts`: tops of the pools, heads of free lists, then the parameters
BUCKETS, LEAVES, PARTS, BOXES, FREE_BUCKET, NODES, PNODES = 0, 1, 2, 3, 4, 5, 6
MOST_PREDICATES, LARGEST_LEAF = 7, 8  # ever
ASKS_ABSENCE = 9  # has any row ever asked for an absence?
CAPACITY, SPLITTING, RANKING = 10, 11, 12
FREE_LEAF = 16
FREE_PARTS = FREE_LEAF + CLASSES
FREE_BOXES = FREE_PARTS + CLASSES
COUNTS = FREE_BOXES + LEVELS + 1


class Tree(NamedTuple):
    """The state, as kernels see it."""

    buckets: np.ndarray  # BUCKET
    parts: np.ndarray  # PNODE
    leaves: np.ndarray  # LEAF
    boxes: np.ndarray  # BOX
    homes: np.ndarray  # HOME, by slot
    counts: np.ndarray  # int64
    real: np.ndarray  # float64: alpha, beta
    domains: np.ndarray  # DOMAIN, by dimension: what rigid trees halve, and what the ranking learnt


@helper
def class_of(size):
    """The power of two that holds `size` items."""
    class_ = np.int64(0)
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
    return not entry.kind & (ABSENT | CIRCLE)


@helper
def entry_on(store, slot, dim):
    """Where the row's usable entry on the dimension stands, or -1. O(its entries)."""
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
def needs_of(store, slot):
    """The bits of the dimensions without which an event cannot match the row."""
    row = store.rows[slot]
    start = np.int64(row.start)
    needs = np.uint64(0)
    for at in range(start, start + np.int64(row.count)):
        if store.entries[at].kind != ABSENT:
            needs |= bit_of(store.entries[at].dim)
    return needs


@helper
def narrow_core(tree, b, lo, hi):
    """The bucket gets a row of its own: what they all share is within the row. Before its own boundary is stretched."""
    bucket = tree.buckets[b]
    if tree.counts[SPLITTING] == RIGID:
        return
    if bucket.own_lo > bucket.own_hi:
        bucket.cell_lo, bucket.cell_hi = lo, hi
    else:
        bucket.cell_lo, bucket.cell_hi = max(bucket.cell_lo, lo), min(bucket.cell_hi, hi)


@helper
def in_a_child(tree, b, lo, hi):
    """Does a child of the bucket enclose the interval?"""
    bucket = tree.buckets[b]
    for side in range(2):
        child = bucket.left if side == 0 else bucket.right
        if child != NONE:
            c = tree.buckets[np.int64(child)]
            if c.lo <= lo and hi <= c.hi:
                return True
    return False


@helper
def rounded_up(value):
    single = np.float32(value)
    if np.float64(single) < value:
        single = np.nextafter(single, np.float32(np.inf))
    return single


@helper
def weights_of(store, slot):
    """(priority + weights, weights, priority) of a row, rounded up."""
    row = store.rows[slot]
    start = np.int64(row.start)
    total = 0.0
    for at in range(start, start + np.int64(row.count)):
        total += store.entries[at].weight
    # A sum taken in another order may differ by an ulp a term; float32 rounded up twice covers it many times over.
    total *= 1.0 + 1e-12
    best = row.priority + total
    best += abs(best) * 1e-12 + abs(row.priority) * 1e-12
    return rounded_up(best), rounded_up(total), rounded_up(row.priority)


@helper
def take_bucket(tree, level, dim, parent, owner):
    """A fresh bucket without rows; the caller made sure that there is room. O(1)."""
    counts = tree.counts
    b = counts[FREE_BUCKET]
    if b == np.int64(NONE):
        b = counts[BUCKETS]
        counts[BUCKETS] += 1
    else:
        counts[FREE_BUCKET] = np.int64(tree.buckets[b].left)
    counts[NODES] += 1
    bucket = tree.buckets[b]
    bucket.lo, bucket.hi, bucket.own_lo, bucket.own_hi = np.inf, -np.inf, np.inf, -np.inf
    bucket.left, bucket.right, bucket.leaf, bucket.parts = NONE, NONE, NONE, NONE
    bucket.leaf_size, bucket.parts_size, bucket.dim = np.uint32(0), np.uint16(0), np.uint16(dim)
    bucket.best, bucket.sum, bucket.top = np.float32(-np.inf), np.float32(-np.inf), np.float32(-np.inf)
    bucket.leaf_best, bucket.leaf_sum, bucket.leaf_top = bucket.best, bucket.sum, bucket.top
    bucket.parent, bucket.owner = np.uint32(parent), np.uint32(owner)
    bucket.rows, bucket.stale = np.uint32(0), np.uint32(0)
    bucket.capacity = np.uint32(counts[CAPACITY])
    bucket.level, bucket.leaf_class, bucket.parts_class, bucket.state = np.uint16(level), NO_CLASS, NO_CLASS, LIVE
    bucket.boxes = NONE
    bucket.cell_lo, bucket.cell_hi = -np.inf, np.inf
    if level > 1:
        bucket.boxes = np.uint32(take_boxes(tree, level - 1))
    return b


@helper
def take_boxes(tree, number):
    """A region of empty boxes. Freed ones are chained through `lo`."""
    counts = tree.counts
    start = counts[FREE_BOXES + number]
    if start == np.int64(NONE):
        start = counts[BOXES]
        counts[BOXES] += number
    else:
        counts[FREE_BOXES + number] = np.int64(tree.boxes[start].lo)
    for j in range(start, start + number):
        tree.boxes[j].lo, tree.boxes[j].hi = np.inf, -np.inf
    return start


@helper
def free_bucket(tree, b):
    """Give back a bucket with its regions. Its rows and children must have gone elsewhere."""
    counts = tree.counts
    bucket = tree.buckets[b]
    free_leaf(tree, b)
    free_parts(tree, b)
    if bucket.level > 1:
        number = np.int64(bucket.level) - 1
        tree.boxes[np.int64(bucket.boxes)].lo = np.float64(counts[FREE_BOXES + number])
        counts[FREE_BOXES + number] = np.int64(bucket.boxes)
    bucket.state = FREED
    bucket.left = np.uint32(counts[FREE_BUCKET])
    counts[FREE_BUCKET] = b
    counts[NODES] -= 1


@helper
def free_leaf(tree, b):
    bucket = tree.buckets[b]
    if bucket.leaf_class != NO_CLASS:
        head = FREE_LEAF + np.int64(bucket.leaf_class)
        tree.leaves[np.int64(bucket.leaf)].slot = np.uint32(tree.counts[head])
        tree.counts[head] = np.int64(bucket.leaf)
    bucket.leaf, bucket.leaf_class, bucket.leaf_size = NONE, NO_CLASS, np.uint32(0)


@helper
def free_parts(tree, b):
    bucket = tree.buckets[b]
    if bucket.parts_class != NO_CLASS:
        head = FREE_PARTS + np.int64(bucket.parts_class)
        tree.parts[np.int64(bucket.parts)].root = np.uint32(tree.counts[head])
        tree.counts[head] = np.int64(bucket.parts)
    bucket.parts, bucket.parts_class, bucket.parts_size = NONE, NO_CLASS, np.uint16(0)


@helper
def take_leaf(tree, class_):
    """A region of 2 ** class leaf rows."""
    counts = tree.counts
    start = counts[FREE_LEAF + class_]
    if start == np.int64(NONE):
        start = counts[LEAVES]
        counts[LEAVES] += np.int64(1) << class_
    else:
        counts[FREE_LEAF + class_] = np.int64(tree.leaves[start].slot)
    return start


@helper
def copy_leaf_row(leaves, source, target):
    a, b = leaves[source], leaves[target]
    b.slot, b.needs, b.best = a.slot, a.needs, a.best


@helper
def put_leaf_row(tree, b, slot, needs, best):
    """Append a row to the bucket's leaf rows. O(1) amortised."""
    bucket = tree.buckets[b]
    size = np.int64(bucket.leaf_size)
    if bucket.leaf_class == NO_CLASS or size == np.int64(1) << np.int64(bucket.leaf_class):
        class_ = class_of(max(size + 1, 2))
        start = take_leaf(tree, class_)
        old = np.int64(bucket.leaf)
        for i in range(size):
            copy_leaf_row(tree.leaves, old + i, start + i)
        free_leaf(tree, b)
        bucket.leaf, bucket.leaf_class = np.uint32(start), np.uint8(class_)
    row = tree.leaves[np.int64(bucket.leaf) + size]
    row.slot, row.needs, row.best = np.uint32(slot), needs, best
    bucket.leaf_size = np.uint32(size + 1)
    home = tree.homes[slot]
    home.bucket, home.at = np.uint32(b), np.uint32(size)


@helper
def find_part(tree, b, dim):
    """Where the p-node of the dimension stands in the bucket's p-directory, or where it would go. O(log size)."""
    bucket = tree.buckets[b]
    low = np.int64(bucket.parts)
    high = low + np.int64(bucket.parts_size)
    while low < high:
        middle = (low + high) >> 1
        if np.int64(tree.parts[middle].dim) < dim:
            low = middle + 1
        else:
            high = middle
    return low


@helper
def has_part(tree, b, at, dim):
    """Is the place that `find_part` gave that of the dimension's p-node?"""
    bucket = tree.buckets[b]
    return at < np.int64(bucket.parts) + np.int64(bucket.parts_size) and np.int64(tree.parts[at].dim) == dim


@helper
def add_part(tree, b, dim, root, rank):
    """Enter a p-node into the bucket's p-directory. O(its size)."""
    bucket = tree.buckets[b]
    size = np.int64(bucket.parts_size)
    if bucket.parts_class == NO_CLASS or size == np.int64(1) << np.int64(bucket.parts_class):
        class_ = class_of(max(size + 1, 2))
        counts = tree.counts
        start = counts[FREE_PARTS + class_]
        if start == np.int64(NONE):
            start = counts[PARTS]
            counts[PARTS] += np.int64(1) << class_
        else:
            counts[FREE_PARTS + class_] = np.int64(tree.parts[start].root)
        old = np.int64(bucket.parts)
        for i in range(size):
            copy_part(tree.parts, old + i, start + i)
        free_parts(tree, b)
        bucket.parts, bucket.parts_class = np.uint32(start), np.uint8(class_)
        bucket.parts_size = np.uint16(size)
    at = find_part(tree, b, dim)
    for i in range(np.int64(bucket.parts) + size, at, -1):
        copy_part(tree.parts, i - 1, i)
    part = tree.parts[at]
    part.dim, part.root, part.rank, part.rows = np.uint16(dim), np.uint32(root), np.float32(rank), np.uint32(0)
    bucket.parts_size = np.uint16(size + 1)
    tree.counts[PNODES] += 1


@helper
def copy_part(parts, source, target):
    a, b = parts[source], parts[target]
    b.dim, b.root, b.rank, b.rows = a.dim, a.root, a.rank, a.rows


@helper
def drop_part(tree, b, at):
    """Take the p-node at place `at` out of the bucket's p-directory. O(its size)."""
    bucket = tree.buckets[b]
    size = np.int64(bucket.parts_size) - 1
    for i in range(at, np.int64(bucket.parts) + size):
        copy_part(tree.parts, i + 1, i)
    bucket.parts_size = np.uint16(size)
    tree.counts[PNODES] -= 1
    if size == 0:
        free_parts(tree, b)
