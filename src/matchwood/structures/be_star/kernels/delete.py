"""Deletion from a BE*-Tree (IV-B, IV-C). In: slots. Out: a changed tree. No pool ever has to grow.

Counts, boundaries and summaries are rebuilt from the leaf upwards, and only where the deleted row may have made them.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import NONE
from matchwood.structures.be_star.kernels.bounds import may_rebuild, rebuild
from matchwood.structures.be_star.kernels.layout import (
    NO_CLASS,
    above,
    entry_on,
    find_p_node,
    free_bucket,
    is_rigid,
    put_leaf_row,
    replace_child,
    side_of,
    summarise,
)


@kernel
def delete_rows(tree, store, slots):
    """Delete the rows of these slots, which are still in the store. O(depth * (leaf + p-nodes)) each, no cascade."""
    for i in range(slots.size):
        slot = np.int64(slots[i])
        b = np.int64(tree.homes[slot].bucket)
        take_out(tree, slot)
        tree.buckets[b].stale += np.uint32(1)
        _, score, weights, _ = summarise(tree, store, slot)
        while b != np.int64(NONE):
            bucket = tree.buckets[b]
            upper = above(tree, b)
            bucket.rows -= np.uint32(1)
            if bucket.parent == NONE and bucket.owner != NONE:
                p_node = tree.p_nodes[find_p_node(tree, np.int64(bucket.owner), np.int64(bucket.dim))]
                p_node.rows -= np.uint32(1)
                p_node.rank = max(p_node.rank - np.float32(1.0), np.float32(0.0))
            if bucket.level > 0 and bucket.rows == 0:
                replace_child(tree, b, np.int64(NONE))
                free_bucket(tree, b)
            else:
                merged = merge_children(tree, b)
                if merged or (may_rebuild(bucket) and touches(tree, store, b, slot, score, weights)):
                    rebuild(tree, store, b)
                give_way(tree, b)
            b = upper


@helper
def take_out(tree, slot):
    """Fill the row's place in its leaf with the last leaf row."""
    home = tree.homes[slot]
    bucket, at = tree.buckets[np.int64(home.bucket)], np.int64(home.at)
    leaf, last = np.int64(bucket.leaf), np.int64(bucket.leaf_size) - 1
    tree.leaf_rows[leaf + at] = tree.leaf_rows[leaf + last]
    tree.homes[np.int64(tree.leaf_rows[leaf + at].slot)].at = np.uint32(at)
    bucket.leaf_size = np.uint32(last)


@helper
def touches(tree, store, b, slot, score, weights):
    """Might the bucket's boundary or a summary have come from this row?

    The largest priority is not compared: where all are alike, the usual case, every row would touch it. It stays high,
    which costs a little pruning for events of weights below 1, until the bucket is rebuilt for another reason.
    """
    bucket = tree.buckets[b]
    if score >= bucket.max_score or weights >= bucket.max_weights:
        return True
    if score >= bucket.leaf_score or weights >= bucket.leaf_weights:
        return True
    at = b
    for j in range(np.int64(bucket.level) - 1, -1, -1):
        entry = store.entries[entry_on(store, slot, np.int64(tree.buckets[at].dim))]
        if at == b:
            if entry.lo <= bucket.lo or entry.hi >= bucket.hi or entry.lo <= bucket.own_lo or entry.hi >= bucket.own_hi:
                return True
        else:
            box = tree.boxes[np.int64(bucket.boxes) + j]
            if entry.lo <= box.lo or entry.hi >= box.hi:
                return True
        at = np.int64(tree.buckets[at].owner)
    return False


@helper
def merge_children(tree, b):
    """Merge underflowing leaf children into a bucket without p-nodes, and was there one? The bucket must be rebuilt then.

    Only into the room that the leaf has: this kernel must never need more of a pool.
    """
    bucket, options = tree.buckets[b], tree.options[0]
    merged = False
    if bucket.level == 0 or bucket.p_size > 0:
        return merged
    room = np.int64(0) if bucket.leaf_class == NO_CLASS else np.int64(1) << np.int64(bucket.leaf_class)
    for side in range(2):
        child = side_of(bucket, side)
        if child == np.int64(NONE):
            continue
        c = tree.buckets[child]
        if c.left != NONE or c.right != NONE or c.p_size > 0 or c.rows > options.alpha * options.capacity:
            continue
        if np.int64(bucket.leaf_size) + np.int64(c.leaf_size) > min(room, options.capacity):
            continue
        leaf = np.int64(c.leaf)
        for i in range(leaf, leaf + np.int64(c.leaf_size)):
            put_leaf_row(tree, b, np.int64(tree.leaf_rows[i].slot))  # `rebuild` fills in the rest
        replace_child(tree, child, np.int64(NONE))
        free_bucket(tree, child)
        merged = True
    return merged


@helper
def give_way(tree, b):
    """Put the only child of a bucket without rows of its own in its place."""
    bucket = tree.buckets[b]
    if bucket.level == 0 or bucket.p_size > 0 or is_rigid(tree):
        return
    if bucket.leaf_size > 0 or (bucket.left == NONE) == (bucket.right == NONE):
        return
    child = np.int64(bucket.left) if bucket.right == NONE else np.int64(bucket.right)
    replace_child(tree, b, child)
    tree.buckets[child].parent = bucket.parent
    free_bucket(tree, b)
