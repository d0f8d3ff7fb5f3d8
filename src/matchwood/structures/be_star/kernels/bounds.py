"""The boundaries and weight summaries of a bucket, rebuilt from what lies directly below it, or stretched by one row.

Nothing goes further down than one step: the boxes of the inactive dimensions say for each child what its
subtree spans (BE*-Tree IV-B).
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch
from matchwood.store.kernels.candidates import AHEAD, ask_for_row
from matchwood.store.kernels.rows import NONE
from matchwood.structures.be_star.kernels.layout import RIGID, SPLITTING, entry_on, narrow_core, needs_of, weights_of


@helper
def stretch(box, lo, hi):
    box.lo = min(box.lo, lo)
    box.hi = max(box.hi, hi)


@helper
def stretch_total(bucket, lo, hi):
    bucket.lo = min(bucket.lo, lo)
    bucket.hi = max(bucket.hi, hi)


@helper
def stretch_own(bucket, lo, hi):
    bucket.own_lo = min(bucket.own_lo, lo)
    bucket.own_hi = max(bucket.own_hi, hi)


@helper
def raise_bounds(bucket, best, sum_, top):
    bucket.best = max(bucket.best, best)
    bucket.sum = max(bucket.sum, sum_)
    bucket.top = max(bucket.top, top)


@kernel
def rebuild(tree, store, b):
    """Boundary, boxes, summaries and row count of a bucket from its leaf rows, p-nodes and children. O(those * level)."""
    bucket = tree.buckets[b]
    level = np.int64(bucket.level)
    lowest = np.float32(-np.inf)
    bucket.lo, bucket.hi, bucket.own_lo, bucket.own_hi = np.inf, -np.inf, np.inf, -np.inf
    bucket.best, bucket.sum, bucket.top = lowest, lowest, lowest
    bucket.leaf_best, bucket.leaf_sum, bucket.leaf_top = lowest, lowest, lowest
    bucket.rows, bucket.stale = bucket.leaf_size, np.uint32(0)
    boxes = np.int64(bucket.boxes)
    for j in range(level - 1):
        tree.boxes[boxes + j].lo, tree.boxes[boxes + j].hi = np.inf, -np.inf
    leaf = np.int64(bucket.leaf)
    for i in range(leaf, leaf + np.int64(bucket.leaf_size)):
        prefetch(store.rows, np.int64(tree.leaves[i].slot))
    for i in range(leaf, min(leaf + AHEAD, leaf + np.int64(bucket.leaf_size))):
        ask_for_row(store, np.int64(tree.leaves[i].slot))
    for i in range(leaf, leaf + np.int64(bucket.leaf_size)):
        if i + AHEAD < leaf + np.int64(bucket.leaf_size):
            ask_for_row(store, np.int64(tree.leaves[i + AHEAD].slot))
        take_row(tree, store, b, i)
    parts = np.int64(bucket.parts)
    for i in range(parts, parts + np.int64(bucket.parts_size)):
        child = tree.buckets[np.int64(tree.parts[i].root)]
        tree.parts[i].rows = child.rows
        if level > 0:
            active = tree.boxes[np.int64(child.boxes) + level - 1]
            stretch_own(bucket, active.lo, active.hi)
        take_child(tree, bucket, child, level)
    if level > 0:
        stretch_total(bucket, bucket.own_lo, bucket.own_hi)
    if bucket.left != NONE:
        child = tree.buckets[np.int64(bucket.left)]
        stretch_total(bucket, child.lo, child.hi)
        take_child(tree, bucket, child, level)
    if bucket.right != NONE:
        child = tree.buckets[np.int64(bucket.right)]
        stretch_total(bucket, child.lo, child.hi)
        take_child(tree, bucket, child, level)
    if level > 0 and tree.counts[SPLITTING] == RIGID:
        set_rigid(bucket)


@helper
def set_rigid(bucket):
    """The boundary of a rigid bucket is its cell; what lies outside the grid is met at the root of the c-directory."""
    bucket.lo, bucket.hi = bucket.cell_lo, bucket.cell_hi
    if bucket.parent == NONE:
        bucket.lo, bucket.hi = -np.inf, np.inf
    bucket.own_lo, bucket.own_hi = bucket.lo, bucket.hi


@helper
def take_row(tree, store, b, at):
    """Stretch the bucket's own boundary, boxes and leaf summary by a leaf row. O(its entries * level)."""
    bucket = tree.buckets[b]
    slot = np.int64(tree.leaves[at].slot)
    best, sum_, top = weights_of(store, slot)
    tree.leaves[at].best, tree.leaves[at].needs = best, needs_of(store, slot)
    bucket.leaf_best, bucket.leaf_sum = max(bucket.leaf_best, best), max(bucket.leaf_sum, sum_)
    bucket.leaf_top = max(bucket.leaf_top, top)
    raise_bounds(bucket, best, sum_, top)
    level = np.int64(bucket.level)
    if level > 0:
        entry = store.entries[entry_on(store, slot, np.int64(bucket.dim))]
        if bucket.parts_size == 0:  # else the rows of the leaf are not all
            narrow_core(tree, b, entry.lo, entry.hi)
        stretch_own(bucket, entry.lo, entry.hi)
    stretch_boxes(tree, store, b, slot)


@helper
def stretch_boxes(tree, store, b, slot):
    """Stretch the boxes of the inactive dimensions by a row."""
    bucket = tree.buckets[b]
    boxes = np.int64(bucket.boxes)
    above = np.int64(bucket.owner)
    for j in range(np.int64(bucket.level) - 2, -1, -1):
        entry = store.entries[entry_on(store, slot, np.int64(tree.buckets[above].dim))]
        stretch(tree.boxes[boxes + j], entry.lo, entry.hi)
        above = np.int64(tree.buckets[above].owner)


@helper
def take_child(tree, bucket, child, level):
    """Take in the summaries, the row count and the boxes of a child."""
    raise_bounds(bucket, child.best, child.sum, child.top)
    bucket.rows += child.rows
    mine, theirs = np.int64(bucket.boxes), np.int64(child.boxes)
    for j in range(level - 1):
        stretch(tree.boxes[mine + j], tree.boxes[theirs + j].lo, tree.boxes[theirs + j].hi)
