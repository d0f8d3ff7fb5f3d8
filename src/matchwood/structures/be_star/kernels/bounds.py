"""The boundaries and summaries of a bucket, rebuilt from what lies directly below it, or stretched by one row.

Nothing goes further down than one step: the boxes of the inactive dimensions say for each child what its
subtree spans (BE*-Tree IV-B).
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, subroutine
from matchwood.jit.intrinsics import prefetch
from matchwood.store.kernels.distances import PREFETCH_ROWS
from matchwood.store.kernels.rows import NONE, prefetch_entries
from matchwood.structures.be_star.kernels.layout import entry_on, is_rigid, side_of, summarise

LARGE = 64  # the boundary of a leaf above this size is rebuilt once a quarter of it has changed, not each time


@helper
def stretch_box(box, lo, hi):
    box.lo, box.hi = min(box.lo, lo), max(box.hi, hi)


@helper
def stretch_bucket(bucket, lo, hi):
    bucket.lo, bucket.hi = min(bucket.lo, lo), max(bucket.hi, hi)


@helper
def stretch_own(bucket, lo, hi):
    bucket.own_lo, bucket.own_hi = min(bucket.own_lo, lo), max(bucket.own_hi, hi)


@helper
def raise_bounds(bucket, score, weights, priority):
    bucket.max_score = max(bucket.max_score, score)
    bucket.max_weights = max(bucket.max_weights, weights)
    bucket.max_priority = max(bucket.max_priority, priority)


@helper
def raise_leaf_bounds(bucket, score, weights, priority):
    bucket.leaf_score = max(bucket.leaf_score, score)
    bucket.leaf_weights = max(bucket.leaf_weights, weights)
    bucket.leaf_priority = max(bucket.leaf_priority, priority)


@helper
def stretch_boxes(tree, store, b, slot):
    """Stretch the boxes of the inactive dimensions by a row. O(its entries * level)."""
    bucket = tree.buckets[b]
    boxes = np.int64(bucket.boxes)
    owner = np.int64(bucket.owner)
    for j in range(np.int64(bucket.level) - 2, -1, -1):
        entry = store.entries[entry_on(store, slot, np.int64(tree.buckets[owner].dim))]
        stretch_box(tree.boxes[boxes + j], entry.lo, entry.hi)
        owner = np.int64(tree.buckets[owner].owner)


@helper
def narrow_core(tree, b, lo, hi):
    """The bucket gets a row of its own: what they all share is within the row. Before its own boundary is stretched."""
    bucket = tree.buckets[b]
    if is_rigid(tree):
        return
    if bucket.own_lo > bucket.own_hi:
        bucket.cell_lo, bucket.cell_hi = lo, hi
    else:
        bucket.cell_lo, bucket.cell_hi = max(bucket.cell_lo, lo), min(bucket.cell_hi, hi)


@helper
def set_rigid(bucket):
    """The boundary of a rigid bucket is its cell; what lies outside the grid belongs to the root of the c-directory."""
    bucket.lo, bucket.hi = bucket.cell_lo, bucket.cell_hi
    if bucket.parent == NONE:
        bucket.lo, bucket.hi = -np.inf, np.inf
    bucket.own_lo, bucket.own_hi = bucket.lo, bucket.hi


@helper
def may_rebuild(bucket):
    """Is it time to rebuild the boundary of a bucket whose rows have changed?"""
    return bucket.leaf_size <= LARGE or 4 * bucket.stale >= bucket.leaf_size


@subroutine
def rebuild(tree, store, b):
    """Boundary, boxes, summaries and row count of a bucket from its leaf rows, p-nodes and children. O(those * level)."""
    bucket, blank = tree.buckets[b], tree.blank[0]
    level = np.int64(bucket.level)
    bucket.lo, bucket.hi, bucket.own_lo, bucket.own_hi = blank.lo, blank.hi, blank.own_lo, blank.own_hi
    bucket.max_score, bucket.max_weights, bucket.max_priority = blank.max_score, blank.max_weights, blank.max_priority
    bucket.leaf_score, bucket.leaf_weights = blank.leaf_score, blank.leaf_weights
    bucket.leaf_priority = blank.leaf_priority
    bucket.rows, bucket.stale = bucket.leaf_size, np.uint32(0)
    boxes = np.int64(bucket.boxes)
    for j in range(level - 1):
        tree.boxes[boxes + j].lo, tree.boxes[boxes + j].hi = np.inf, -np.inf
    rebuild_leaf(tree, store, b)
    p_nodes = np.int64(bucket.p_nodes)
    for i in range(p_nodes, p_nodes + np.int64(bucket.p_size)):
        child = tree.buckets[np.int64(tree.p_nodes[i].root)]
        tree.p_nodes[i].rows = child.rows
        take_child(tree, bucket, child)
        if level > 0:
            active = tree.boxes[np.int64(child.boxes) + level - 1]
            stretch_own(bucket, active.lo, active.hi)
    for side in range(2):
        if side_of(bucket, side) != np.int64(NONE):
            child = tree.buckets[side_of(bucket, side)]
            take_child(tree, bucket, child)
            stretch_bucket(bucket, child.lo, child.hi)
    if level > 0:
        stretch_bucket(bucket, bucket.own_lo, bucket.own_hi)
        if is_rigid(tree):
            set_rigid(bucket)


@helper
def take_child(tree, bucket, child):
    """Take in the summaries, the row count and the boxes of a bucket below."""
    raise_bounds(bucket, child.max_score, child.max_weights, child.max_priority)
    bucket.rows += child.rows
    for j in range(np.int64(bucket.level) - 1):
        box = tree.boxes[np.int64(child.boxes) + j]
        stretch_box(tree.boxes[np.int64(bucket.boxes) + j], box.lo, box.hi)


@helper
def rebuild_leaf(tree, store, b):
    """Fill in the leaf rows of the bucket; stretch its own boundary, boxes and summaries by them. O(entries * level)."""
    bucket = tree.buckets[b]
    leaf, end = np.int64(bucket.leaf), np.int64(bucket.leaf) + np.int64(bucket.leaf_size)
    for i in range(leaf, end):
        prefetch(store.rows, np.int64(tree.leaf_rows[i].slot))
    for i in range(leaf - PREFETCH_ROWS, end):
        if i + PREFETCH_ROWS < end:
            prefetch_entries(store, store.rows[np.int64(tree.leaf_rows[i + PREFETCH_ROWS].slot)])
        if i < leaf:
            continue
        leaf_row = tree.leaf_rows[i]
        slot = np.int64(leaf_row.slot)
        needs, score, weights, priority = summarise(tree, store, slot)
        leaf_row.needs, leaf_row.max_score = needs, score
        raise_leaf_bounds(bucket, score, weights, priority)
        if bucket.level > 0:
            entry = store.entries[entry_on(store, slot, np.int64(bucket.dim))]
            if bucket.p_size == 0:  # else there are own rows outside the leaf
                narrow_core(tree, b, entry.lo, entry.hi)
            stretch_own(bucket, entry.lo, entry.hi)
        stretch_boxes(tree, store, b, slot)
    raise_bounds(bucket, bucket.leaf_score, bucket.leaf_weights, bucket.leaf_priority)
