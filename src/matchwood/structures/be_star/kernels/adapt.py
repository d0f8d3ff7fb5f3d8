"""The adaptive ranking of a BE*-Tree (V-B). In: a window of events. Out: ranks of buckets, and what is learnt of dimensions.

Matching itself writes nothing, so that readers can share a tree: the window is matched once more here, and counted.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.parts import value_meets
from matchwood.store.kernels.rows import NONE
from matchwood.store.kernels.verify import ALL, load_event, score_row, unload_event
from matchwood.structures.be_star.kernels.layout import above, side_of
from matchwood.structures.be_star.kernels.match import describe_event, enter_children, enter_p_nodes


@kernel
def observe(tree, store, scratch, events, loss):
    """loss[b] += predicates tested in vain at bucket b: a boundary met for nothing, a leaf row that does not match."""
    values = scratch.candidates.values
    for e in range(events.offsets.size - 1):
        load_event(values, events, e)
        describe_event(tree, scratch, events, e)
        scratch.pending[0] = np.uint32(0)
        pending = np.int64(1)
        while pending > 0:
            pending -= 1
            b = np.int64(scratch.pending[pending])
            bucket = tree.buckets[b]
            entered = pending
            if bucket.level > 0:
                entered = enter_children(tree, scratch, events, b, pending)
                if not value_meets(values[np.int64(bucket.dim)], events, bucket.own_lo, bucket.own_hi):
                    loss[b] += np.float64(entered == pending)
                    pending = entered
                    continue
            if bucket.p_size > 0:
                entered = enter_p_nodes(tree, scratch, events, e, b, entered)
            pending = entered
            leaf = np.int64(bucket.leaf)
            for i in range(leaf, leaf + np.int64(bucket.leaf_size)):
                row = tree.leaf_rows[i]
                matches = not row.needs & scratch.event[0].lacks and not np.isnan(
                    score_row(store, np.int64(row.slot), values, events, ALL, None)
                )
                loss[b] += 0.0 if matches else 1.0
        unload_event(values, events, e)


@kernel
def rank_buckets(tree, window, loss, rank, gain):
    """rank and gain of every bucket, those below included, and the loss of every dimension. O(buckets * depth)."""
    for b in range(tree.counts[0].buckets):
        bucket = tree.buckets[b]
        if not bucket.live:
            continue
        shared = np.float64(bucket.level) * np.float64(bucket.leaf_size)
        at = b
        while at != np.int64(NONE):
            gain[at] += shared
            rank[at] += shared - loss[b] / window
            at = above(tree, at)
    for dim in range(tree.domains.size):
        tree.domains[dim].loss = 0.0
    for b in range(tree.counts[0].buckets):
        if is_c_root(tree, b):
            # rows tested in vain by an event below the p-node, as a share of the rows below it
            share = min(1.0, (gain[b] - rank[b]) / np.float64(max(tree.buckets[b].rows, np.uint32(1))))
            domain = tree.domains[np.int64(tree.buckets[b].dim)]
            domain.loss = max(domain.loss, share)


@helper
def is_c_root(tree, b):
    """Is the bucket the root of a c-directory, to which a p-node leads?"""
    bucket = tree.buckets[b]
    return bucket.live and bucket.level > 0 and bucket.parent == NONE


@kernel
def find_low(tree, rank, gain, threshold, roots):
    """Put the highest p-nodes of too low a rank into `roots`, as the roots of their c-directories; return how many."""
    n = np.int64(0)
    for b in range(tree.counts[0].buckets):
        if not is_c_root(tree, b) or rank[b] >= threshold * gain[b]:
            continue
        at = np.int64(tree.buckets[b].owner)
        while tree.buckets[at].level > 0 and (not is_c_root(tree, at) or rank[at] >= threshold * gain[at]):
            at = above(tree, at)
        if tree.buckets[at].level == 0 and n < roots.size:
            roots[n] = np.uint32(b)
            n += 1
    return n


@kernel
def collect_rows(tree, b, pending, slots):
    """The slots of all rows below a bucket. O(rows + buckets below)."""
    n = np.int64(0)
    pending[0] = np.uint32(b)
    size = np.int64(1)
    while size > 0:
        size -= 1
        bucket = tree.buckets[np.int64(pending[size])]
        leaf, p_nodes = np.int64(bucket.leaf), np.int64(bucket.p_nodes)
        for i in range(leaf, leaf + np.int64(bucket.leaf_size)):
            slots[n] = tree.leaf_rows[i].slot
            n += 1
        for i in range(p_nodes, p_nodes + np.int64(bucket.p_size)):
            pending[size] = tree.p_nodes[i].root
            size += 1
        for side in range(2):
            if side_of(bucket, side) != np.int64(NONE):
                pending[size] = np.uint32(side_of(bucket, side))
                size += 1
