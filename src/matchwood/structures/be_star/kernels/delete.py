"""Deletion from a BE*-Tree (IV-B, IV-C). In: slots. Out: a changed tree. No pool ever has to grow.

Counts, boundaries and summaries are rebuilt from the leaf upwards, and only where the row that goes may have made them.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import NONE
from matchwood.structures.be_star.kernels.bounds import rebuild
from matchwood.structures.be_star.kernels.insert import replace_child
from matchwood.structures.be_star.kernels.layout import (
    CAPACITY,
    NO_CLASS,
    RIGID,
    SPLITTING,
    copy_leaf_row,
    entry_on,
    find_part,
    free_bucket,
    put_leaf_row,
    weights_of,
)

LARGE = 64  # the boundary of a leaf above this size is rebuilt once a quarter of it was deleted, not each time


@kernel
def delete_many(tree, store, slots):
    """Delete the rows of these slots, which are still in the store. O(depth * (leaf + p-nodes)) each, no cascade."""
    for i in range(slots.size):
        slot = np.int64(slots[i])
        b = np.int64(tree.homes[slot].bucket)
        take_out(tree, slot)
        tree.buckets[b].stale += np.uint32(1)
        best, sum_, _ = weights_of(store, slot)
        while b != np.int64(NONE):
            bucket = tree.buckets[b]
            bucket.rows -= np.uint32(1)
            above, owner = np.int64(bucket.parent), np.int64(bucket.owner)
            if above == np.int64(NONE) and owner != np.int64(NONE):
                part = tree.parts[find_part(tree, owner, np.int64(bucket.dim))]
                part.rows -= np.uint32(1)
                part.rank = max(part.rank - np.float32(1.0), np.float32(0.0))
            if bucket.level > 0 and bucket.rows == 0:
                replace_child(tree, b, np.int64(NONE))
                free_bucket(tree, b)
            elif touches(tree, store, b, slot, best, sum_) and (
                bucket.leaf_size <= LARGE or 4 * bucket.stale >= bucket.leaf_size
            ):
                rebuild(tree, store, b)
                tidy(tree, store, b)
            else:
                tidy(tree, store, b)
            b = owner if above == np.int64(NONE) else above


@helper
def take_out(tree, slot):
    """Fill the row's place in its leaf with the last leaf row."""
    home = tree.homes[slot]
    b, at = np.int64(home.bucket), np.int64(home.at)
    bucket = tree.buckets[b]
    last = np.int64(bucket.leaf_size) - 1
    leaf = np.int64(bucket.leaf)
    copy_leaf_row(tree.leaves, leaf + last, leaf + at)
    tree.homes[np.int64(tree.leaves[leaf + at].slot)].at = np.uint32(at)
    bucket.leaf_size = np.uint32(last)


@helper
def touches(tree, store, b, slot, best, sum_):
    """Might the bucket's boundary or a summary have come from this row?

    The largest priority is not asked about: where all are alike, the usual case, every row would say yes. It stays high,
    which costs a little pruning for events of weights below 1, until the bucket is summed up for another reason.
    """
    bucket = tree.buckets[b]
    if best >= bucket.best or sum_ >= bucket.sum or best >= bucket.leaf_best or sum_ >= bucket.leaf_sum:
        return True
    boxes = np.int64(bucket.boxes)
    at = b
    for j in range(np.int64(bucket.level) - 1, -1, -1):
        entry = store.entries[entry_on(store, slot, np.int64(tree.buckets[at].dim))]
        if at == b:
            if entry.lo <= bucket.lo or entry.hi >= bucket.hi or entry.lo <= bucket.own_lo or entry.hi >= bucket.own_hi:
                return True
        elif entry.lo <= tree.boxes[boxes + j].lo or entry.hi >= tree.boxes[boxes + j].hi:
            return True
        at = np.int64(tree.buckets[at].owner)
    return False


@helper
def tidy(tree, store, b):
    """Merge an underflowing leaf child into the open bucket, and let an empty bucket with one child give way to it."""
    bucket = tree.buckets[b]
    if bucket.level == 0 or bucket.parts_size > 0:
        return
    least = tree.real[0] * tree.counts[CAPACITY]
    for side in range(2):
        child = np.int64(bucket.left) if side == 0 else np.int64(bucket.right)
        if child == np.int64(NONE):
            continue
        c = tree.buckets[child]
        if c.left != NONE or c.right != NONE or c.parts_size > 0 or c.rows > least:
            continue
        size = np.int64(c.leaf_size)
        room = np.int64(0) if bucket.leaf_class == NO_CLASS else np.int64(1) << np.int64(bucket.leaf_class)
        # Only into the room the leaf has: this kernel must never ask a pool for more.
        if np.int64(bucket.leaf_size) + size > min(room, tree.counts[CAPACITY]):
            continue
        leaf = np.int64(c.leaf)
        for i in range(leaf, leaf + size):
            row = tree.leaves[i]
            put_leaf_row(tree, b, np.int64(row.slot), row.needs, row.best)
        replace_child(tree, child, np.int64(NONE))
        free_bucket(tree, child)
        rebuild(tree, store, b)
    give_way(tree, b)


@helper
def give_way(tree, b):
    bucket = tree.buckets[b]
    if tree.counts[SPLITTING] == RIGID:
        return
    if bucket.leaf_size > 0 or (bucket.left == NONE) == (bucket.right == NONE):
        return
    child = np.int64(bucket.left) if bucket.right == NONE else np.int64(bucket.right)
    replace_child(tree, b, child)
    tree.buckets[child].parent = bucket.parent
    free_bucket(tree, b)
