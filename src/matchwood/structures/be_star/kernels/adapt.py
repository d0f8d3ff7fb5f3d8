"""The adaptive ranking of a BE*-Tree (V-B). In: a window of events. Out: ranks of buckets, and what is learnt of dimensions.

Matching itself writes nothing, so that readers can share a tree: the window is matched once more here, and counted.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import NONE
from matchwood.store.kernels.verify import ALL, load_event, score_row, unload_event
from matchwood.structures.be_star.kernels.layout import BUCKETS, LIVE
from matchwood.structures.be_star.kernels.match import lacks_of, meets, open_children, open_parts


@kernel
def observe(tree, store, scratch, events, loss):
    """loss[b] += predicates evaluated in vain at bucket b: a boundary met for nothing, a leaf row that does not match."""
    for e in range(events.offsets.size - 1):
        load_event(scratch.values, events, e)
        lacks = lacks_of(events, e)
        scratch.pending[0] = np.uint32(0)
        pending = np.int64(1)
        while pending > 0:
            pending -= 1
            b = np.int64(scratch.pending[pending])
            bucket = tree.buckets[b]
            before = pending
            own = True
            if bucket.level > 0:
                pending = open_children(tree, scratch, b, pending)
                own = meets(scratch.values, np.int64(bucket.dim), bucket.own_lo, bucket.own_hi)
            if not own:
                if pending == before:
                    loss[b] += 1.0
                continue
            if bucket.parts_size > 0:
                pending = open_parts(tree, scratch, events, e, b, pending)
            leaf = np.int64(bucket.leaf)
            for i in range(leaf, leaf + np.int64(bucket.leaf_size)):
                row = tree.leaves[i]
                if row.needs & lacks or np.isnan(
                    score_row(store, np.int64(row.slot), scratch.values, events, ALL, None)
                ):
                    loss[b] += 1.0
        unload_event(scratch.values, events, e)


@kernel
def rank_buckets(tree, window, loss, rank, gain):
    """rank and gain of every bucket, those below included, and the loss of every dimension. O(buckets * depth)."""
    for b in range(tree.counts[BUCKETS]):
        bucket = tree.buckets[b]
        if bucket.state != LIVE:
            continue
        shared = np.float64(bucket.level) * np.float64(bucket.leaf_size)
        at = b
        while at != np.int64(NONE):
            gain[at] += shared
            rank[at] += shared - loss[b] / window
            above = tree.buckets[at]
            at = np.int64(above.owner) if above.parent == NONE else np.int64(above.parent)
    count_loss(tree, rank, gain)


@helper
def count_loss(tree, rank, gain):
    """The loss of a dimension: rows met in vain by an event below its p-nodes, as a share of the rows below them."""
    domains = tree.domains
    for dim in range(domains.size):
        domains[dim].loss = 0.0
    for b in range(tree.counts[BUCKETS]):
        bucket = tree.buckets[b]
        if bucket.state != LIVE or bucket.level == 0 or bucket.parent != NONE:
            continue
        share = min(1.0, (gain[b] - rank[b]) / np.float64(max(bucket.rows, np.uint32(1))))
        domain = domains[np.int64(bucket.dim)]
        domain.loss = max(domain.loss, share)


@kernel
def victims(tree, rank, gain, threshold, roots):
    """Put the highest p-nodes of too low a rank into `roots`, as the roots of their c-directories; return how many."""
    n = np.int64(0)
    for b in range(tree.counts[BUCKETS]):
        bucket = tree.buckets[b]
        if bucket.state != LIVE or bucket.level == 0 or bucket.parent != NONE:
            continue
        if not is_low(rank, gain, threshold, b):
            continue
        at = np.int64(bucket.owner)
        while tree.buckets[at].level > 0:
            above = tree.buckets[at]
            if above.parent != NONE:
                at = np.int64(above.parent)
            elif is_low(rank, gain, threshold, at):
                break
            else:
                at = np.int64(above.owner)
        if tree.buckets[at].level == 0 and n < roots.size:
            roots[n] = np.uint32(b)
            n += 1
    return n


@helper
def is_low(rank, gain, threshold, b):
    return rank[b] < threshold * gain[b]


@kernel
def collect(tree, b, pending, slots):
    """The slots of all rows below a bucket. O(rows + buckets below)."""
    n = np.int64(0)
    pending[0] = np.uint32(b)
    size = np.int64(1)
    while size > 0:
        size -= 1
        bucket = tree.buckets[np.int64(pending[size])]
        leaf, parts = np.int64(bucket.leaf), np.int64(bucket.parts)
        for i in range(leaf, leaf + np.int64(bucket.leaf_size)):
            slots[n] = tree.leaves[i].slot
            n += 1
        for i in range(parts, parts + np.int64(bucket.parts_size)):
            pending[size] = tree.parts[i].root
            size += 1
        if bucket.left != NONE:
            pending[size] = bucket.left
            size += 1
        if bucket.right != NONE:
            pending[size] = bucket.right
            size += 1
