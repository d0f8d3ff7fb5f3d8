"""Clustering and partitioning (BE*-Tree Algorithms 4 and 5) as a loop over work items. In: rows of a bucket. Out: its subtree.

One item is a bucket and a run of `work.slots`, the rows that are to be its own. A run that fits becomes the bucket's leaf; a leaf
bucket that overflows is split into left, own and right; what still overflows is partitioned by attributes. New buckets push new
items on shorter runs. The whole tree is built from one item (batch construction, BE*-B), and an overflow of
a single insertion is settled by the same code from one item of a few rows.

A bucket is made before those below it, so their boundaries are summed up in the reverse of the order of making.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import DIMS, NONE
from matchwood.structures.be_star.kernels.bounds import rebuild
from matchwood.structures.be_star.kernels.layout import (
    BOXES,
    BUCKETS,
    CAPACITY,
    LARGEST_LEAF,
    LEAVES,
    LEVELS,
    PARTS,
    RANKING,
    RIGID,
    SELECTIVITY,
    SPLITTING,
    add_part,
    class_of,
    entry_on,
    free_leaf,
    length_of,
    middle_between,
    take_bucket,
    take_leaf,
    usable,
)
from matchwood.structures.be_star.kernels.split import find_cut, sort_pairs

ITEM = np.dtype([("bucket", "u4"), ("kind", "u4"), ("start", "i8"), ("end", "i8")])
DIMENSION = np.dtype(
    [
        ("low", "f8"),
        ("high", "f8"),
        ("width", "f8"),
        ("start", "i8"),
        ("count", "u4"),
        ("taken", "u4"),
        ("order", "u4"),
        ("used", "u4"),
    ]
)
CLUSTER, PARTITION, LOADED = 0, 1, 2  # LOADED: cluster, with the active intervals in place already

# places in `sizes`
PENDING, MADE = 0, 1


class Work(NamedTuple):
    """Scratch of construction."""

    slots: np.ndarray  # uint32: the rows, permuted until every item's run is contiguous
    spare: np.ndarray  # uint32
    choice: np.ndarray  # uint32: by row of a run, the place of its attribute in the ranking
    lo: np.ndarray  # float64: the active interval of each row
    hi: np.ndarray
    keys: np.ndarray  # float64 [5, max(sample, dimensions) + 1]
    dimensions: np.ndarray  # DIMENSION
    items: np.ndarray  # ITEM, a stack
    made: np.ndarray  # uint32, buckets in the order of making
    sizes: np.ndarray  # int64


@helper
def has_room(tree, store, work, rows):
    """Is there room for whatever an item of that many rows may need?"""
    counts = tree.counts
    most = min(rows, store.counts[DIMS]) + 2
    return (
        counts[BUCKETS] + most <= tree.buckets.size
        and counts[PARTS] + 4 * (most + np.int64(1)) + 4 * store.counts[DIMS] <= tree.parts.size
        and counts[LEAVES] + 2 * rows + 4 <= tree.leaves.size
        and counts[BOXES] + most * LEVELS <= tree.boxes.size
        and work.sizes[MADE] + most + 1 <= work.made.size
        and work.sizes[PENDING] + most + 1 <= work.items.size
    )


@helper
def push(work, bucket, kind, start, end):
    item = work.items[work.sizes[PENDING]]
    item.bucket, item.kind, item.start, item.end = np.uint32(bucket), np.uint32(kind), start, end
    work.sizes[PENDING] += 1


@helper
def note_made(work, b):
    work.made[work.sizes[MADE]] = np.uint32(b)
    work.sizes[MADE] += 1


@kernel
def build(tree, store, work):
    """Work off the items, then sum up the boundaries of the buckets made; False if it stopped for want of room."""
    while work.sizes[PENDING] > 0:
        item = work.items[work.sizes[PENDING] - 1]
        b, start, end, kind = np.int64(item.bucket), item.start, item.end, item.kind
        if not has_room(tree, store, work, end - start):
            return False
        work.sizes[PENDING] -= 1
        if kind == PARTITION:
            partition(tree, store, work, b, start, end)
        else:
            cluster(tree, store, work, b, start, end, kind == LOADED)
    while work.sizes[MADE] > 0:
        work.sizes[MADE] -= 1
        rebuild(tree, store, np.int64(work.made[work.sizes[MADE]]))
    return True


@helper
def write_leaf(tree, work, b, start, end):
    """Make the run the bucket's leaf rows, in place of those it had."""
    free_leaf(tree, b)
    size = end - start
    bucket = tree.buckets[b]
    if size > np.int64(bucket.capacity):
        # Nothing could split these rows; ask again only when they have doubled (UpdateClusterCapacity).
        bucket.capacity = np.uint32(2 * size)
    elif size <= tree.counts[CAPACITY]:
        bucket.capacity = np.uint32(tree.counts[CAPACITY])
    if size == 0:
        return
    tree.counts[LARGEST_LEAF] = max(tree.counts[LARGEST_LEAF], size)
    class_ = class_of(size)
    at = take_leaf(tree, class_)
    bucket.leaf, bucket.leaf_class, bucket.leaf_size = np.uint32(at), np.uint8(class_), np.uint32(size)
    for i in range(size):
        slot = np.int64(work.slots[start + i])
        tree.leaves[at + i].slot = np.uint32(slot)  # `rebuild` fills in the rest
        home = tree.homes[slot]
        home.bucket, home.at = np.uint32(b), np.uint32(i)


@helper
def middle_of(tree, b):
    """(The middle of a rigid bucket's cell, can it be halved?) A cell of 2**-48 of the domain counts as atomic."""
    bucket = tree.buckets[b]
    domain = tree.domains[np.int64(bucket.dim)]
    middle = middle_between(bucket.cell_lo, bucket.cell_hi)
    wide = length_of(bucket.cell_lo, bucket.cell_hi) > length_of(domain.lo, domain.hi) * 2.0**-48
    return middle, wide and bucket.cell_lo <= middle < bucket.cell_hi


@helper
def take_side(tree, b, side):
    """A new left (0) or right (1) child of the bucket."""
    bucket = tree.buckets[b]
    child = take_bucket(tree, np.int64(bucket.level), np.int64(bucket.dim), b, np.int64(bucket.owner))
    fresh = tree.buckets[child]
    if side == 0:
        bucket.left = np.uint32(child)
    else:
        bucket.right = np.uint32(child)
    if tree.counts[SPLITTING] == RIGID:
        middle, _ = middle_of(tree, b)
        fresh.cell_lo, fresh.cell_hi = bucket.cell_lo, bucket.cell_hi
        if side == 0:
            fresh.cell_hi = middle
        else:
            fresh.cell_lo = np.nextafter(middle, np.inf)  # above it, so that every half is smaller than the whole
    return child


@kernel
def cluster(tree, store, work, b, start, end, loaded):
    """Split a leaf bucket that overflows into left, own and right (Algorithm 5). O(rows)."""
    bucket = tree.buckets[b]
    size = end - start
    if size <= np.int64(bucket.capacity) and size <= tree.counts[CAPACITY]:
        write_leaf(tree, work, b, start, end)
        return
    if bucket.level == 0 or bucket.left != NONE or bucket.right != NONE or bucket.parts_size > 0:
        push(work, b, PARTITION, start, end)
        return
    dim = np.int64(bucket.dim)
    lo, hi = work.lo, work.hi
    box_lo, box_hi = np.inf, -np.inf
    for i in range(start, end):
        if not loaded:
            entry = store.entries[entry_on(store, np.int64(work.slots[i]), dim)]
            lo[i], hi[i] = entry.lo, entry.hi
        box_lo, box_hi = min(box_lo, lo[i]), max(box_hi, hi[i])
    left_end, right_start = start, end
    if tree.counts[SPLITTING] == RIGID:
        middle, splits = middle_of(tree, b)
        if splits:
            left_end, right_start = halves_of_cell(work, start, end, bucket.cell_lo, middle, bucket.cell_hi)
    elif box_lo < box_hi:
        a, z = find_cut(lo, hi, start, end, box_lo, box_hi, work.keys, tree.counts[SPLITTING], tree.real[0])
        left_end, right_start = three_ways(work, start, end, a, z)
    if tree.counts[SPLITTING] != RIGID:
        bucket.cell_lo, bucket.cell_hi = -np.inf, np.inf
        for i in range(left_end, right_start):
            bucket.cell_lo, bucket.cell_hi = max(bucket.cell_lo, lo[i]), min(bucket.cell_hi, hi[i])
    if left_end > start:
        child = take_side(tree, b, 0)
        note_made(work, child)
        push(work, child, LOADED, start, left_end)
    if right_start < end:
        child = take_side(tree, b, 1)
        note_made(work, child)
        push(work, child, LOADED, right_start, end)
    if right_start - left_end > tree.counts[CAPACITY]:
        push(work, b, PARTITION, left_end, right_start)
    else:
        write_leaf(tree, work, b, left_end, right_start)


@helper
def three_ways(work, start, end, a, z):
    """Permute the run into left (hi <= a), own, right (lo > z); return where left ends and right begins."""
    slots, lo, hi = work.slots, work.lo, work.hi
    left_end, right_start = start, end
    i = start
    while i < right_start:
        if hi[i] <= a:
            swap(slots, lo, hi, i, left_end)
            left_end += 1
            i += 1
        elif lo[i] > z:
            right_start -= 1
            swap(slots, lo, hi, i, right_start)
        else:
            i += 1
    return left_end, right_start


@helper
def halves_of_cell(work, start, end, low, middle, high):
    """As `three_ways`, for a cell of the grid: rows that reach beyond it are the bucket's own."""
    for i in range(start, end):
        if work.lo[i] < low or work.hi[i] > high:
            work.lo[i], work.hi[i] = -np.inf, np.inf
    return three_ways(work, start, end, middle, middle)


@helper
def swap(slots, lo, hi, i, j):
    slots[i], slots[j] = slots[j], slots[i]
    lo[i], lo[j] = lo[j], lo[i]
    hi[i], hi[j] = hi[j], hi[i]


@helper
def mark_used(tree, work, b, mark):
    """Mark the dimensions that lead to the bucket. O(level)."""
    at = b
    while tree.buckets[at].level > 0:
        work.dimensions[np.int64(tree.buckets[at].dim)].used = np.uint32(mark)
        at = np.int64(tree.buckets[at].owner)


@helper
def count_dimensions(store, work, start, end):
    """Count the unused attributes of the run's rows and their extents; return how many there are (in keys[1])."""
    touched = np.int64(0)
    for i in range(start, end):
        row = store.rows[np.int64(work.slots[i])]
        first = np.int64(row.start)
        for at in range(first, first + np.int64(row.count)):
            entry = store.entries[at]
            dimension = work.dimensions[np.int64(entry.dim)]
            if dimension.used or not usable(entry):
                continue
            if dimension.count == 0:
                work.keys[1, touched] = np.float64(entry.dim)
                touched += 1
                dimension.low, dimension.high, dimension.width = np.inf, -np.inf, 0.0
                dimension.taken = np.uint32(0)
            dimension.count += np.uint32(1)
            dimension.low, dimension.high = min(dimension.low, entry.lo), max(dimension.high, entry.hi)
            dimension.width += length_of(entry.lo, entry.hi)
    return touched


@helper
def rank_of(tree, dimensions, dim):
    """gain - loss (V-B): the rows with the attribute, less those that events are expected to meet in vain.

    Optimistic: none, or what `adapt` learnt of the dimension. By selectivity: the average width of its intervals.
    """
    dimension = dimensions[dim]
    gain = np.float64(dimension.count) * (1.0 - tree.domains[dim].loss)
    if tree.counts[RANKING] != SELECTIVITY:
        return gain
    extent = length_of(dimension.low, dimension.high)
    share = 1.0 if extent <= 0.0 else min(1.0, dimension.width / extent / np.float64(dimension.count))
    return gain * (1.0 - share)


@kernel
def partition(tree, store, work, b, start, end):
    """Open p-nodes for the highest ranked attributes until the rest fits the leaf (Algorithm 4). O(entries + attributes log)."""
    dimensions, keys = work.dimensions, work.keys
    mark_used(tree, work, b, 1)
    level = np.int64(tree.buckets[b].level)
    touched = count_dimensions(store, work, start, end) if level < LEVELS else np.int64(0)
    for t in range(touched):
        keys[0, t] = -rank_of(tree, dimensions, np.int64(keys[1, t]))
    sort_pairs(keys[0], keys[1], touched)
    for t in range(touched):
        dimensions[np.int64(keys[1, t])].order = np.uint32(t)
    choose(store, work, start, end, touched)
    mark_used(tree, work, b, 0)
    rest = end - start
    at = start
    for t in range(touched):
        dimension = dimensions[np.int64(keys[1, t])]
        taken = np.int64(dimension.taken)
        dimension.count = np.uint32(0)
        if rest <= tree.counts[CAPACITY] or taken == 0:
            dimension.start = np.int64(-1)
            continue
        dimension.start = at
        child = take_bucket(tree, level + 1, np.int64(keys[1, t]), np.int64(NONE), b)
        if tree.counts[SPLITTING] == RIGID:
            domain = tree.domains[np.int64(keys[1, t])]
            tree.buckets[child].cell_lo, tree.buckets[child].cell_hi = domain.lo, domain.hi
        add_part(tree, b, np.int64(keys[1, t]), child, -keys[0, t])
        note_made(work, child)
        push(work, child, CLUSTER, at, at + taken)
        at += taken
        rest -= taken
    group(work, start, end, at)
    write_leaf(tree, work, b, at, end)


@helper
def choose(store, work, start, end, touched):
    """choice[i] = the best ranked attribute of row i, as its place in the ranking; `touched` where it has none."""
    for i in range(start, end):
        row = store.rows[np.int64(work.slots[i])]
        first = np.int64(row.start)
        best = touched
        for at in range(first, first + np.int64(row.count)):
            entry = store.entries[at]
            dimension = work.dimensions[np.int64(entry.dim)]
            if touched == 0 or dimension.used or not usable(entry):
                continue
            best = min(best, np.int64(dimension.order))
        work.choice[i] = np.uint32(best)
        if best < touched:
            work.dimensions[np.int64(work.keys[1, best])].taken += np.uint32(1)
        else:
            work.choice[i] = NONE


@helper
def group(work, start, end, rest):
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
