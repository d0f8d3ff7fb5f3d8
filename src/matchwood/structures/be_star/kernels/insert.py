"""Insertion into a BE*-Tree (Algorithms 1 to 3), one row after the other. In: slots. Out: a changed tree.

Kernels stop before a row for which a pool may be too small, or with the overflow of the last row pending in `work`,
and say how far they got; the owner grows the pools, finishes `build` and resumes.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import ABSENT, NONE
from matchwood.structures.be_star.kernels.bounds import (
    raise_bounds,
    set_rigid,
    stretch_boxes,
    stretch_own,
    stretch_total,
)
from matchwood.structures.be_star.kernels.build import CLUSTER, build, middle_of, note_made, push, take_side
from matchwood.structures.be_star.kernels.layout import (
    ASKS_ABSENCE,
    BOXES,
    BUCKETS,
    LARGEST_LEAF,
    LEAVES,
    LEVELS,
    MOST_PREDICATES,
    RIGID,
    SPLITTING,
    drop_part,
    entry_on,
    find_part,
    has_part,
    length_of,
    narrow_core,
    needs_of,
    put_leaf_row,
    take_bucket,
    usable,
    weights_of,
)


@helper
def note_row(tree, store, slot):
    """Keep what bounds need to know of any row: the most predicates, and whether absences are asked for. O(entries)."""
    counts = tree.counts
    row = store.rows[slot]
    counts[MOST_PREDICATES] = max(counts[MOST_PREDICATES], np.int64(row.count))
    start = np.int64(row.start)
    for at in range(start, start + np.int64(row.count)):
        if store.entries[at].kind == ABSENT:
            counts[ASKS_ABSENCE] = 1


@kernel
def note_rows(tree, store, slots):
    """`note_row` of many."""
    for i in range(slots.size):
        note_row(tree, store, np.int64(slots[i]))


@kernel
def widen_domains(tree, store, slots):
    """Let the domain of every dimension enclose the finite ends of these rows. O(entries)."""
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        start = np.int64(row.start)
        for at in range(start, start + np.int64(row.count)):
            entry = store.entries[at]
            if not usable(entry):
                continue
            domain = tree.domains[np.int64(entry.dim)]
            for end in (entry.lo, entry.hi):
                if np.isfinite(end):
                    domain.lo, domain.hi = min(domain.lo, end), max(domain.hi, end)


@helper
def room_for_one(tree):
    counts = tree.counts
    return (
        counts[BUCKETS] + 2 <= tree.buckets.size
        and counts[BOXES] + 2 * LEVELS <= tree.boxes.size
        and counts[LEAVES] + 4 * counts[LARGEST_LEAF] + 8 <= tree.leaves.size
    )


@kernel
def insert_few(tree, store, slots, first):
    """As `insert_many`, without the scratch of construction: it stops after a row that overflows its leaf, too.

    Return how many are in and the bucket that overflowed, or -1. A call with fewer arrays is 4 us cheaper: it is for
    single rows.
    """
    for i in range(first, slots.size):
        if not room_for_one(tree):
            return i, np.int64(-1)
        b = place_row(tree, store, np.int64(slots[i]))
        if tree.buckets[b].leaf_size > tree.buckets[b].capacity:
            return i + 1, b
    return slots.size, np.int64(-1)


@kernel
def settle(tree, store, work, b):
    """Split or partition a bucket whose leaf overflows; False if it stopped for want of room."""
    bucket = tree.buckets[b]
    leaf, size = np.int64(bucket.leaf), np.int64(bucket.leaf_size)
    for j in range(size):
        work.slots[j] = tree.leaves[leaf + j].slot
    note_made(work, b)
    push(work, b, CLUSTER, 0, size)
    return build(tree, store, work)


@kernel
def insert_many(tree, store, work, slots, first):
    """Insert slots[first:]; return how many are in. Less than all: grow the pools, call `build`, resume."""
    for i in range(first, slots.size):
        if not room_for_one(tree) or tree.counts[LARGEST_LEAF] + 2 > work.slots.size:
            return i
        b = place_row(tree, store, np.int64(slots[i]))
        if tree.buckets[b].leaf_size > tree.buckets[b].capacity and not settle(tree, store, work, b):
            return i + 1
    return slots.size


@kernel
def place_row(tree, store, slot):
    """Put the row into the leaf of its home bucket; return that (Algorithm 1). O(depth * entries)."""
    note_row(tree, store, slot)
    best, sum_, top = weights_of(store, slot)
    b = np.int64(0)
    root = tree.buckets[b]
    root.rows += np.uint32(1)
    raise_bounds(root, best, sum_, top)
    while tree.buckets[b].parts_size > 0:
        part = best_part(tree, store, slot, b)
        if part < 0:
            break
        tree.parts[part].rows += np.uint32(1)
        tree.parts[part].rank += np.float32(1.0)
        b = descend(tree, store, slot, part, best, sum_, top)
    bucket = tree.buckets[b]
    put_leaf_row(tree, b, slot, needs_of(store, slot), best)
    tree.counts[LARGEST_LEAF] = max(tree.counts[LARGEST_LEAF], np.int64(bucket.leaf_size))
    bucket.leaf_best, bucket.leaf_sum = max(bucket.leaf_best, best), max(bucket.leaf_sum, sum_)
    bucket.leaf_top = max(bucket.leaf_top, top)
    return b


@helper
def best_part(tree, store, slot, b):
    """The highest ranked p-node of the bucket on one of the row's attributes, or -1."""
    row = store.rows[slot]
    start = np.int64(row.start)
    best = np.int64(-1)
    for at in range(start, start + np.int64(row.count)):
        entry = store.entries[at]
        if not usable(entry):
            continue
        dim = np.int64(entry.dim)
        part = find_part(tree, b, dim)
        if has_part(tree, b, part, dim) and (best < 0 or tree.parts[part].rank > tree.parts[best].rank):
            best = part
    return best


@helper
def descend(tree, store, slot, part, best, sum_, top):
    """Find the row's bucket in the p-node's c-directory, stretching those on the way (Algorithms 2 and 3)."""
    dim = np.int64(tree.parts[part].dim)
    entry = store.entries[entry_on(store, slot, dim)]
    lo, hi = entry.lo, entry.hi
    b = np.int64(tree.parts[part].root)
    while True:
        bucket = tree.buckets[b]
        child = np.int64(-1)
        if bucket.left != NONE or bucket.right != NONE or bucket.parts_size > 0:
            if tree.counts[SPLITTING] == RIGID:
                child = rigid_child_for(tree, b, lo, hi)
            elif stretched(bucket, lo, hi) > tree.real[1] * length_of(bucket.lo, bucket.hi):
                b = expand_upward(tree, b, part)
            else:
                child = child_for(tree, store, b, lo, hi)
        bucket = tree.buckets[b]
        bucket.rows += np.uint32(1)
        raise_bounds(bucket, best, sum_, top)
        stretch_total(bucket, lo, hi)
        stretch_boxes(tree, store, b, slot)
        if child < 0:
            narrow_core(tree, b, lo, hi)
            stretch_own(bucket, lo, hi)
            return b
        b = child


@helper
def child_for(tree, store, b, lo, hi):
    """The child that takes the interval, made if there is none on that side; -1 if it is the bucket's own.

    Own are those that meet both children: they would make them overlap. Own, too, are those for which a child would have to grow
    over a row of the bucket's own: where children shrank by deletions, or where there is one only.
    """
    side, growing = side_for(tree, b, lo, hi)
    if side < 0:
        return np.int64(-1)
    bucket = tree.buckets[b]
    child = np.int64(bucket.left) if side == 0 else np.int64(bucket.right)
    low, high = lo, hi
    if child != np.int64(NONE):
        low, high = min(lo, tree.buckets[child].lo), max(hi, tree.buckets[child].hi)
    if growing and swallows(tree, store, b, low, high):
        return np.int64(-1)
    return child if child != np.int64(NONE) else take_side(tree, b, side)


@helper
def swallows(tree, store, b, low, high):
    """Would a child of these bounds enclose one of the bucket's own rows? True if rows below p-nodes may be. O(leaf), rarely."""
    bucket = tree.buckets[b]
    if bucket.own_lo > bucket.own_hi:
        return False
    if bucket.cell_lo <= bucket.cell_hi and not (low <= bucket.cell_lo and bucket.cell_hi <= high):
        return False  # what all own rows share lies outside
    if bucket.parts_size > 0:
        return True
    leaf = np.int64(bucket.leaf)
    for i in range(leaf, leaf + np.int64(bucket.leaf_size)):
        entry = store.entries[entry_on(store, np.int64(tree.leaves[i].slot), np.int64(bucket.dim))]
        if low <= entry.lo and entry.hi <= high:
            return True
    return False


@helper
def side_for(tree, b, lo, hi):
    """(0 or 1 for the left or right child that is to take the interval, or -1; must it grow, or be made, for it?)"""
    bucket = tree.buckets[b]
    left, right = np.int64(bucket.left), np.int64(bucket.right)
    no_left, no_right = bucket.left == NONE, bucket.right == NONE
    in_left = not no_left and lo <= tree.buckets[left].hi and tree.buckets[left].lo <= hi
    in_right = not no_right and lo <= tree.buckets[right].hi and tree.buckets[right].lo <= hi
    if in_left and in_right:
        return np.int64(-1), False
    if in_left:
        return np.int64(0), lo < tree.buckets[left].lo or hi > tree.buckets[left].hi
    if in_right:
        return np.int64(1), lo < tree.buckets[right].lo or hi > tree.buckets[right].hi
    if no_left or no_right:
        if no_left and no_right and lo <= bucket.own_hi and bucket.own_lo <= hi:
            return np.int64(-1), False
        return np.int64(0) if no_left else np.int64(1), True
    swapped = tree.buckets[right].lo < tree.buckets[left].lo
    if swapped:
        left, right = right, left
    # Beyond one of them only that one may grow, which lengths alone do not say where ends are huge or infinite.
    beyond_left, beyond_right = hi < tree.buckets[left].lo, lo > tree.buckets[right].hi
    shorter = stretched(tree.buckets[left], lo, hi) < stretched(tree.buckets[right], lo, hi)
    takes_left = beyond_left or (shorter and not beyond_right)
    return np.int64(0) if takes_left != swapped else np.int64(1), True


@helper
def rigid_child_for(tree, b, lo, hi):
    """The half that encloses the interval, made if need be; -1 if none does or the bucket is atomic."""
    bucket = tree.buckets[b]
    middle, splits = middle_of(tree, b)
    if not splits:
        return np.int64(-1)
    if bucket.cell_lo <= lo and hi <= middle:
        child = np.int64(bucket.left) if bucket.left != NONE else take_side(tree, b, 0)
    elif lo > middle and hi <= bucket.cell_hi:
        child = np.int64(bucket.right) if bucket.right != NONE else take_side(tree, b, 1)
    else:
        return np.int64(-1)
    set_rigid(tree.buckets[child])
    return child


@helper
def stretched(bucket, lo, hi):
    """The length of the bucket's boundary if it took in the interval."""
    return length_of(min(lo, bucket.lo), max(hi, bucket.hi))


@helper
def expand_upward(tree, b, part):
    """Put a new bucket above b, with b as its only child (bottom-up expansion, V-A2); return the new one."""
    bucket = tree.buckets[b]
    level = np.int64(bucket.level)
    above = take_bucket(tree, level, np.int64(bucket.dim), np.int64(bucket.parent), np.int64(bucket.owner))
    replace_child(tree, b, above)
    fresh = tree.buckets[above]
    fresh.left = np.uint32(b)
    bucket.parent = np.uint32(above)
    fresh.lo, fresh.hi, fresh.rows = bucket.lo, bucket.hi, bucket.rows
    fresh.best, fresh.sum, fresh.top = bucket.best, bucket.sum, bucket.top
    mine, theirs = np.int64(fresh.boxes), np.int64(bucket.boxes)
    for j in range(level - 1):
        tree.boxes[mine + j].lo, tree.boxes[mine + j].hi = tree.boxes[theirs + j].lo, tree.boxes[theirs + j].hi
    return above


@helper
def replace_child(tree, b, other):
    """Let whoever leads to bucket b lead to `other` (NONE: to nothing)."""
    bucket = tree.buckets[b]
    if bucket.parent != NONE:
        above = tree.buckets[np.int64(bucket.parent)]
        if np.int64(above.left) == b:
            above.left = np.uint32(other)
        else:
            above.right = np.uint32(other)
        return
    owner = np.int64(bucket.owner)
    at = find_part(tree, owner, np.int64(bucket.dim))
    if other == np.int64(NONE):
        drop_part(tree, owner, at)
    else:
        tree.parts[at].root = np.uint32(other)
