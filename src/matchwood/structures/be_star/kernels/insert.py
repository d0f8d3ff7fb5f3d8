"""Insertion into a BE*-Tree (Algorithms 1 to 3), one row after the other. In: slots. Out: a changed tree.

The kernel stops before a row for which a pool may be too small, and after a row that overflows its leaf; the owner grows the
pools or has the leaf split (`build`), and resumes.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import NONE
from matchwood.structures.be_star.kernels.bounds import (
    narrow_core,
    raise_bounds,
    raise_leaf_bounds,
    set_rigid,
    stretch_boxes,
    stretch_bucket,
    stretch_own,
)
from matchwood.structures.be_star.kernels.build import middle_of, take_side
from matchwood.structures.be_star.kernels.layout import (
    LEFT,
    MAX_LEVEL,
    RIGHT,
    entry_on,
    find_p_node,
    has_p_node,
    is_rigid,
    length_of,
    put_leaf_row,
    replace_child,
    side_of,
    summarise,
    take_bucket,
    usable,
)


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


@kernel
def insert_rows(tree, store, slots, first):
    """Insert slots[first:]; return (how many are in, the bucket whose leaf overflows or -1). O(depth * entries) each.

    Less than all, and no bucket: a pool must grow.
    """
    for i in range(first, slots.size):
        counts = tree.counts[0]
        if (
            counts.buckets + 2 > tree.buckets.size
            or counts.boxes + 2 * MAX_LEVEL > tree.boxes.size
            or counts.leaf_rows + 4 * counts.max_leaf + 8 > tree.leaf_rows.size
        ):
            return i, np.int64(-1)
        b = insert_row(tree, store, np.int64(slots[i]))
        if tree.buckets[b].leaf_size > tree.buckets[b].capacity:
            return i + 1, b
    return slots.size, np.int64(-1)


@helper
def insert_row(tree, store, slot):
    """Put the row into the leaf of its home bucket; return that (Algorithm 1)."""
    needs, score, weights, priority = summarise(tree, store, slot)
    b = np.int64(0)
    tree.buckets[b].rows += np.uint32(1)
    raise_bounds(tree.buckets[b], score, weights, priority)
    while tree.buckets[b].p_size > 0:
        p_node = best_p_node(tree, store, slot, b)
        if p_node < 0:
            break
        tree.p_nodes[p_node].rows += np.uint32(1)
        tree.p_nodes[p_node].rank += np.float32(1.0)
        b = descend(tree, store, slot, p_node, score, weights, priority)
    leaf_row = put_leaf_row(tree, b, slot)
    leaf_row.needs, leaf_row.max_score = needs, score
    tree.counts[0].max_leaf = max(tree.counts[0].max_leaf, np.int64(tree.buckets[b].leaf_size))
    raise_leaf_bounds(tree.buckets[b], score, weights, priority)
    return b


@helper
def best_p_node(tree, store, slot, b):
    """The highest ranked p-node of the bucket on one of the row's attributes, or -1."""
    row = store.rows[slot]
    start = np.int64(row.start)
    best = np.int64(-1)
    for at in range(start, start + np.int64(row.count)):
        entry = store.entries[at]
        dim = np.int64(entry.dim)
        p_node = find_p_node(tree, b, dim)
        if not usable(entry) or not has_p_node(tree, b, p_node, dim):
            continue
        if best < 0 or tree.p_nodes[p_node].rank > tree.p_nodes[best].rank:
            best = p_node
    return best


@helper
def descend(tree, store, slot, p_node, score, weights, priority):
    """Find the row's bucket in the p-node's c-directory, stretching those on the way (Algorithms 2 and 3)."""
    entry = store.entries[entry_on(store, slot, np.int64(tree.p_nodes[p_node].dim))]
    lo, hi = entry.lo, entry.hi
    b = np.int64(tree.p_nodes[p_node].root)
    while True:
        bucket = tree.buckets[b]
        child = np.int64(-1)
        if bucket.left != NONE or bucket.right != NONE or bucket.p_size > 0:
            if is_rigid(tree):
                child = rigid_child_for(tree, b, lo, hi)
            elif stretched(bucket, lo, hi) > tree.options[0].beta * length_of(bucket.lo, bucket.hi):
                b = expand_upward(tree, b)
            else:
                child = child_for(tree, store, b, lo, hi)
        bucket = tree.buckets[b]
        bucket.rows += np.uint32(1)
        raise_bounds(bucket, score, weights, priority)
        stretch_bucket(bucket, lo, hi)
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
    child = side_of(tree.buckets[b], side)
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
    if bucket.p_size > 0:
        return True
    leaf = np.int64(bucket.leaf)
    for i in range(leaf, leaf + np.int64(bucket.leaf_size)):
        entry = store.entries[entry_on(store, np.int64(tree.leaf_rows[i].slot), np.int64(bucket.dim))]
        if low <= entry.lo and entry.hi <= high:
            return True
    return False


@helper
def side_for(tree, b, lo, hi):
    """(LEFT or RIGHT for the child that is to take the interval, or -1; must it grow, or be made, for it?)"""
    bucket = tree.buckets[b]
    left, right = np.int64(bucket.left), np.int64(bucket.right)
    no_left, no_right = bucket.left == NONE, bucket.right == NONE
    in_left = not no_left and lo <= tree.buckets[left].hi and tree.buckets[left].lo <= hi
    in_right = not no_right and lo <= tree.buckets[right].hi and tree.buckets[right].lo <= hi
    if in_left and in_right:
        return np.int64(-1), False
    if in_left:
        return LEFT, lo < tree.buckets[left].lo or hi > tree.buckets[left].hi
    if in_right:
        return RIGHT, lo < tree.buckets[right].lo or hi > tree.buckets[right].hi
    if no_left or no_right:
        if no_left and no_right and lo <= bucket.own_hi and bucket.own_lo <= hi:
            return np.int64(-1), False
        return LEFT if no_left else RIGHT, True
    swapped = tree.buckets[right].lo < tree.buckets[left].lo
    if swapped:
        left, right = right, left
    # Beyond one of them only that one may grow, which lengths alone do not say where ends are huge or infinite.
    beyond_left, beyond_right = hi < tree.buckets[left].lo, lo > tree.buckets[right].hi
    shorter = stretched(tree.buckets[left], lo, hi) < stretched(tree.buckets[right], lo, hi)
    takes_left = beyond_left or (shorter and not beyond_right)
    return LEFT if takes_left != swapped else RIGHT, True


@helper
def rigid_child_for(tree, b, lo, hi):
    """The half that encloses the interval, made if need be; -1 if none does or the bucket is atomic."""
    bucket = tree.buckets[b]
    middle, splits = middle_of(tree, b)
    in_left, in_right = bucket.cell_lo <= lo and hi <= middle, lo > middle and hi <= bucket.cell_hi
    if not splits or not (in_left or in_right):
        return np.int64(-1)
    side = LEFT if in_left else RIGHT
    child = side_of(bucket, side)
    if child == np.int64(NONE):
        child = take_side(tree, b, side)
    set_rigid(tree.buckets[child])
    return child


@helper
def stretched(bucket, lo, hi):
    """The length of the bucket's boundary if it took in the interval."""
    return length_of(min(lo, bucket.lo), max(hi, bucket.hi))


@helper
def expand_upward(tree, b):
    """Put a new bucket above b, with b as its only child (bottom-up expansion, V-A2); return the new one."""
    bucket = tree.buckets[b]
    level = np.int64(bucket.level)
    parent = take_bucket(tree, level, np.int64(bucket.dim), np.int64(bucket.parent), np.int64(bucket.owner))
    replace_child(tree, b, parent)
    fresh = tree.buckets[parent]
    fresh.left = np.uint32(b)
    bucket.parent = np.uint32(parent)
    fresh.lo, fresh.hi, fresh.rows = bucket.lo, bucket.hi, bucket.rows
    raise_bounds(fresh, bucket.max_score, bucket.max_weights, bucket.max_priority)
    for j in range(level - 1):
        tree.boxes[np.int64(fresh.boxes) + j] = tree.boxes[np.int64(bucket.boxes) + j]
    return parent
