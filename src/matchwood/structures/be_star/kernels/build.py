"""Clustering and partitioning (BE*-Tree Algorithms 4 and 5) as a loop over work items. In: rows of a bucket. Out: its subtree.

One item is a bucket and a run of `work.slots`, the rows that are to be its own. A run that fits becomes the bucket's leaf; a leaf
bucket that overflows is split into left, own and right; what still overflows is partitioned by attributes. New buckets push new
items on shorter runs. The whole tree is built from one item (batch construction, BE*-B), and so is the
overflow of a leaf after an insertion.

A bucket is made before those below it, so their boundaries are rebuilt in the reverse of the order of making.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel, subroutine
from matchwood.jit.state import State, array
from matchwood.store.kernels.rows import DIMS, NONE
from matchwood.structures.be_star.kernels.bounds import rebuild
from matchwood.structures.be_star.kernels.layout import (
    LEFT,
    MAX_LEVEL,
    RIGHT,
    Ranking,
    add_p_node,
    entry_on,
    free_leaf,
    is_rigid,
    length_of,
    middle_between,
    take_bucket,
    take_leaf,
    usable,
)
from matchwood.structures.be_star.kernels.split import FIRST, find_cut, sort_pairs

ITEM = np.dtype([("bucket", "u4"), ("kind", "u4"), ("start", "i8"), ("end", "i8")])
# kinds of items; LOADED: cluster, the active intervals are in `lo` and `hi` already
CLUSTER, PARTITION, LOADED = np.uint32(0), np.uint32(1), np.uint32(2)
UNUSED, USED = np.uint32(0), np.uint32(1)
DIMENSION = np.dtype(
    [
        ("low", "f8"),
        ("high", "f8"),
        ("width", "f8"),
        ("start", "i8"),  # where its next row goes, -1 if it gets no p-node
        ("count", "u4"),  # rows with the attribute
        ("taken", "u4"),  # rows whose best attribute it is
        ("order", "u4"),  # its place in the ranking
        ("used", "u4"),  # is it a dimension of the levels above?
    ]
)
PROGRESS = np.dtype([("pending", "i8"), ("made", "i8")])


class Construction(State):
    """Scratch of construction."""

    slots: np.ndarray = array(np.uint32)  # the rows, permuted until every item's run is contiguous
    spare: np.ndarray = array(np.uint32)
    choice: np.ndarray = array(np.uint32)  # by row of a run, the place of its attribute in the ranking
    lo: np.ndarray = array(np.float64)  # the active interval of each row
    hi: np.ndarray = array(np.float64)
    keys: np.ndarray = array(np.float64, ndim=2)  # [5, max(sample, dimensions) + 2]
    dimensions: np.ndarray = array(DIMENSION)
    items: np.ndarray = array(ITEM)  # a stack, `pending` of them
    made: np.ndarray = array(np.uint32)  # buckets in the order of making
    progress: np.ndarray = array(PROGRESS)  # [1]


@kernel
def build(tree, store, work):
    """Work off the items, then rebuild the boundaries of the buckets made; False if it stopped for want of room."""
    progress = work.progress[0]
    while progress.pending > 0:
        item = work.items[progress.pending - 1]
        b, start, end, kind = np.int64(item.bucket), item.start, item.end, item.kind
        if not has_room(tree, store, work, end - start):
            return False
        progress.pending -= 1
        if kind == PARTITION:
            partition(tree, store, work, b, start, end)
        else:
            cluster(tree, store, work, b, start, end, kind == LOADED)
    while progress.made > 0:
        progress.made -= 1
        rebuild(tree, store, np.int64(work.made[progress.made]))
    return True


@helper
def has_room(tree, store, work, rows):
    """Is there room for whatever an item of that many rows may need?"""
    counts, progress = tree.counts[0], work.progress[0]
    dimensions = store.counts[DIMS]
    buckets = min(rows, dimensions) + 2
    return (
        counts.buckets + buckets <= tree.buckets.size
        and counts.p_nodes + 4 * (buckets + dimensions + 1) <= tree.p_nodes.size
        and counts.leaf_rows + 2 * rows + 4 <= tree.leaf_rows.size
        and counts.boxes + buckets * MAX_LEVEL <= tree.boxes.size
        and progress.made + buckets + 1 <= work.made.size
        and progress.pending + buckets + 1 <= work.items.size
    )


@helper
def push_item(work, b, kind, start, end):
    item = work.items[work.progress[0].pending]
    item.bucket, item.kind, item.start, item.end = np.uint32(b), kind, start, end
    work.progress[0].pending += 1


@helper
def push_new(work, b, kind, start, end):
    """Push an item for a bucket that has just been made."""
    push_item(work, b, kind, start, end)
    work.made[work.progress[0].made] = np.uint32(b)
    work.progress[0].made += 1


@subroutine
def write_leaf(tree, work, b, start, end):
    """Make the run the bucket's leaf rows, in place of those it had; `rebuild` fills in the rest."""
    size, capacity = end - start, tree.options[0].capacity
    bucket = tree.buckets[b]
    free_leaf(tree, bucket)
    if size > np.int64(bucket.capacity):
        bucket.capacity = np.uint32(2 * size)  # nothing could split these rows: try again when they have doubled
    elif size <= capacity:
        bucket.capacity = np.uint32(capacity)
    if size == 0:
        return
    tree.counts[0].max_leaf = max(tree.counts[0].max_leaf, size)
    leaf = take_leaf(tree, bucket, size)
    for i in range(size):
        slot = np.int64(work.slots[start + i])
        tree.leaf_rows[leaf + i].slot = np.uint32(slot)
        tree.homes[slot].bucket, tree.homes[slot].at = np.uint32(b), np.uint32(i)


@helper
def middle_of(tree, b):
    """(The middle of a rigid bucket's cell, can it be halved?) A cell of 2**-48 of the domain counts as atomic."""
    bucket = tree.buckets[b]
    domain = tree.domains[np.int64(bucket.dim)]
    middle = middle_between(bucket.cell_lo, bucket.cell_hi)
    wide = length_of(bucket.cell_lo, bucket.cell_hi) > length_of(domain.lo, domain.hi) * 2.0**-48
    return middle, wide and bucket.cell_lo <= middle < bucket.cell_hi


@subroutine
def take_side(tree, b, side):
    """A new left or right child of the bucket."""
    bucket = tree.buckets[b]
    child = take_bucket(tree, np.int64(bucket.level), np.int64(bucket.dim), b, np.int64(bucket.owner))
    if side == LEFT:
        bucket.left = np.uint32(child)
    else:
        bucket.right = np.uint32(child)
    if is_rigid(tree):
        fresh = tree.buckets[child]
        middle, _ = middle_of(tree, b)
        fresh.cell_lo, fresh.cell_hi = bucket.cell_lo, bucket.cell_hi
        if side == LEFT:
            fresh.cell_hi = middle
        else:
            fresh.cell_lo = np.nextafter(middle, np.inf)  # above it, so that every half is smaller than the whole
    return child


@subroutine
def cluster(tree, store, work, b, start, end, loaded):
    """Split a leaf bucket that overflows into left, own and right (Algorithm 5). O(rows)."""
    bucket = tree.buckets[b]
    size, capacity = end - start, tree.options[0].capacity
    if size <= np.int64(bucket.capacity) and size <= capacity:
        write_leaf(tree, work, b, start, end)
        return
    if bucket.level == 0 or bucket.left != NONE or bucket.right != NONE or bucket.p_size > 0:
        push_item(work, b, PARTITION, start, end)
        return
    lo, hi = work.lo, work.hi
    box_lo, box_hi = np.inf, -np.inf
    for i in range(start, end):
        if not loaded:
            entry = store.entries[entry_on(store, np.int64(work.slots[i]), np.int64(bucket.dim))]
            lo[i], hi[i] = entry.lo, entry.hi
        box_lo, box_hi = min(box_lo, lo[i]), max(box_hi, hi[i])
    left_end, right_start = start, end
    if is_rigid(tree):
        middle, splits = middle_of(tree, b)
        if splits:
            keep_outside(work, start, end, bucket)
            left_end, right_start = three_ways(work, start, end, middle, middle)
    else:
        if box_lo < box_hi:
            a, z = find_cut(tree, work, start, end, box_lo, box_hi)
            left_end, right_start = three_ways(work, start, end, a, z)
        bucket.cell_lo, bucket.cell_hi = -np.inf, np.inf
        for i in range(left_end, right_start):
            bucket.cell_lo, bucket.cell_hi = max(bucket.cell_lo, lo[i]), min(bucket.cell_hi, hi[i])
    if left_end > start:
        push_new(work, take_side(tree, b, LEFT), LOADED, start, left_end)
    if right_start < end:
        push_new(work, take_side(tree, b, RIGHT), LOADED, right_start, end)
    if right_start - left_end > capacity:
        push_item(work, b, PARTITION, left_end, right_start)
    else:
        write_leaf(tree, work, b, left_end, right_start)


@helper
def three_ways(work, start, end, a, z):
    """Permute the run into left (hi <= a), own, right (lo > z); return where left ends and right begins."""
    left_end, right_start = start, end
    i = start
    while i < right_start:
        if work.hi[i] <= a:
            swap_rows(work, i, left_end)
            left_end += 1
            i += 1
        elif work.lo[i] > z:
            right_start -= 1
            swap_rows(work, i, right_start)
        else:
            i += 1
    return left_end, right_start


@helper
def swap_rows(work, i, j):
    slots, lo, hi = work.slots, work.lo, work.hi
    slots[i], slots[j] = slots[j], slots[i]
    lo[i], lo[j] = lo[j], lo[i]
    hi[i], hi[j] = hi[j], hi[i]


@helper
def keep_outside(work, start, end, bucket):
    """Make rows that reach beyond the cell of a rigid bucket its own: in `three_ways` an endless interval overlaps any cut."""
    for i in range(start, end):
        if work.lo[i] < bucket.cell_lo or work.hi[i] > bucket.cell_hi:
            work.lo[i], work.hi[i] = -np.inf, np.inf


@subroutine
def partition(tree, store, work, b, start, end):
    """Open p-nodes for the highest ranked attributes until the rest fits the leaf (Algorithm 4). O(entries + attributes log)."""
    level = np.int64(tree.buckets[b].level)
    mark_used(tree, work, b, USED)
    found = rank_dimensions(tree, store, work, start, end) if level < MAX_LEVEL else np.int64(0)
    choose_dimensions(store, work, start, end, found)
    mark_used(tree, work, b, UNUSED)
    rest = end - start
    at = start
    for t in range(found):
        dim = np.int64(work.keys[1, t])
        dimension = work.dimensions[dim]
        taken = np.int64(dimension.taken)
        dimension.count = np.uint32(0)
        dimension.start = np.int64(-1)
        if rest <= tree.options[0].capacity or taken == 0:
            continue
        dimension.start = at
        child = take_bucket(tree, level + 1, dim, np.int64(NONE), b)
        if is_rigid(tree):
            tree.buckets[child].cell_lo, tree.buckets[child].cell_hi = tree.domains[dim].lo, tree.domains[dim].hi
        add_p_node(tree, b, dim, child, -work.keys[0, t])
        push_new(work, child, CLUSTER, at, at + taken)
        at += taken
        rest -= taken
    group_rows(work, start, end, at)
    write_leaf(tree, work, b, at, end)


@helper
def mark_used(tree, work, b, mark):
    """Mark the dimensions that lead to the bucket. O(level)."""
    at = b
    while tree.buckets[at].level > 0:
        work.dimensions[np.int64(tree.buckets[at].dim)].used = mark
        at = np.int64(tree.buckets[at].owner)


@helper
def rank_dimensions(tree, store, work, start, end):
    """Rank the unused attributes of the run's rows; return their number. keys[1]: the dimensions, best first, keys[0]: -rank."""
    keys, found = work.keys, np.int64(0)
    for i in range(start, end):
        row = store.rows[np.int64(work.slots[i])]
        first = np.int64(row.start)
        for at in range(first, first + np.int64(row.count)):
            entry = store.entries[at]
            dimension = work.dimensions[np.int64(entry.dim)]
            if dimension.used or not usable(entry):
                continue
            if dimension.count == 0:
                keys[1, found] = np.float64(entry.dim)
                found += 1
                dimension.low, dimension.high, dimension.width = np.inf, -np.inf, 0.0
                dimension.taken = np.uint32(0)
            dimension.count += np.uint32(1)
            dimension.low, dimension.high = min(dimension.low, entry.lo), max(dimension.high, entry.hi)
            dimension.width += length_of(entry.lo, entry.hi)
    for t in range(found):
        keys[0, t] = -rank_of(tree, work, np.int64(keys[1, t]))
    sort_pairs(keys, FIRST, found)
    for t in range(found):
        work.dimensions[np.int64(keys[1, t])].order = np.uint32(t)
    return found


@helper
def rank_of(tree, work, dim):
    """gain - loss (V-B): the rows with the attribute, less those that events are expected to test in vain.

    Optimistic: none, or what `adapt` learnt of the dimension. By selectivity: the average width of its intervals.
    """
    dimension = work.dimensions[dim]
    gain = np.float64(dimension.count) * (1.0 - tree.domains[dim].loss)
    if tree.options[0].ranking != Ranking.SELECTIVITY:
        return gain
    extent = length_of(dimension.low, dimension.high)
    share = 1.0 if extent <= 0.0 else min(1.0, dimension.width / extent / np.float64(dimension.count))
    return gain * (1.0 - share)


@helper
def choose_dimensions(store, work, start, end, found):
    """choice[i] = the best of the `found` attributes of row i, as its place in the ranking; NONE where it has none."""
    for i in range(start, end):
        row = store.rows[np.int64(work.slots[i])]
        first = np.int64(row.start)
        best = np.int64(NONE)
        for at in range(first, first + np.int64(row.count)):
            entry = store.entries[at]
            dimension = work.dimensions[np.int64(entry.dim)]
            if found > 0 and not dimension.used and usable(entry):
                best = min(best, np.int64(dimension.order))
        work.choice[i] = np.uint32(best)
        if best != np.int64(NONE):
            work.dimensions[np.int64(work.keys[1, best])].taken += np.uint32(1)


@helper
def group_rows(work, start, end, rest):
    """Bring the rows of each opened attribute together, in the order of opening, and the rest to the end. O(rows)."""
    for i in range(start, end):
        to = np.int64(-1)
        if work.choice[i] != NONE:
            dimension = work.dimensions[np.int64(work.keys[1, np.int64(work.choice[i])])]
            to = dimension.start
            if to >= 0:
                dimension.start += 1
        if to < 0:
            to = rest
            rest += 1
        work.spare[to] = work.slots[i]
    for i in range(start, end):
        work.slots[i] = work.spare[i]
