"""Updates of a BE*-Tree in place. In: new rows of known ids. Out: a changed tree, and which rows have to be inserted anew."""

from __future__ import annotations

import numpy as np

from matchwood.encode import arrays
from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import (
    DIMS,
    NONE,
    SIBLING,
    class_size,
    first_slot,
    has_room_for_grades,
    raise_ceiling,
    rank_row,
    shape_of,
    size_class,
    write_entries,
    write_priority,
)
from matchwood.structures.be_star.kernels.bounds import (
    may_rebuild,
    narrow_core,
    raise_bounds,
    raise_leaf_bounds,
    rebuild,
)
from matchwood.structures.be_star.kernels.delete import touches
from matchwood.structures.be_star.kernels.layout import above, find_p_node, has_p_node, side_of, summarise

_MORE, _ABSENT, _CIRCLE = arrays.MORE, arrays.ABSENT, arrays.CIRCLE


@kernel
def rewrite_rows(tree, store, rows, rewritten):
    """Replace rows in place whose home bucket stays the same; rewritten[r] = was it done? O(depth * leaf) each.

    It stays where the new row, without siblings, fits the old one's region of the store, lies within the bucket's own
    boundary in every dimension of its path and within no child: then no bucket has to stretch, and boundaries that the old
    row made shrink.
    """
    for r in range(rows.ids.size):
        slot = first_slot(store, rows.ids[r])
        sibling = (r > 0 and rows.ids[r - 1] == rows.ids[r]) or (
            r + 1 < rows.ids.size and rows.ids[r + 1] == rows.ids[r]
        )
        alone = not sibling and slot >= 0 and not store.rows[slot].flags & SIBLING
        rewritten[r] = alone and stays(tree, store, rows, r, slot)
        if rewritten[r]:
            rewrite(tree, store, rows, r, slot)


@helper
def stays(tree, store, rows, r, slot):
    """Is the home of the new row that of the old one, and its region of the store?"""
    main, extras = shape_of(rows, r)
    if class_size(size_class(main + extras)) != np.int64(store.rows[slot].size):
        return False
    if not has_room_for_grades(store, rows, r, extras):
        return False
    b = np.int64(tree.homes[slot].bucket)
    bucket = tree.buckets[b]
    for e in range(rows.offsets[r], rows.offsets[r + 1]):
        dim = np.int64(rows.dims[e])
        if dim >= store.counts[DIMS]:
            return False
        if bucket.p_size > 0 and has_p_node(tree, b, find_p_node(tree, b, dim), dim):
            return False
    at = b
    for j in range(np.int64(bucket.level) - 1, -1, -1):
        lo, hi = hull_on(rows, r, tree.buckets[at].dim)
        low, high = bucket.own_lo, bucket.own_hi
        if at != b:
            box = tree.boxes[np.int64(bucket.boxes) + j]
            low, high = box.lo, box.hi
        if not (low <= lo and hi <= high) or in_a_child(tree, at, lo, hi):
            return False
        at = np.int64(tree.buckets[at].owner)
    return True


@helper
def in_a_child(tree, b, lo, hi):
    """Does a child of the bucket enclose the interval?"""
    for side in range(2):
        child = side_of(tree.buckets[b], side)
        if child != np.int64(NONE) and tree.buckets[child].lo <= lo and hi <= tree.buckets[child].hi:
            return True
    return False


@helper
def hull_on(rows, r, dim):
    """The hull of the row's first predicate on the dimension; NaN if it has none that a bucket can hold."""
    lo, hi = np.nan, np.nan
    for e in range(rows.offsets[r], rows.offsets[r + 1]):
        kind = rows.kinds[e]
        if rows.dims[e] != dim or kind == _ABSENT or kind >= _CIRCLE:
            continue
        if kind == _MORE:
            hi = rows.hi[e]
        elif np.isnan(lo):
            lo, hi = rows.lo[e], rows.hi[e]
        else:
            return np.nan, np.nan
    return lo, hi


@helper
def rewrite(tree, store, rows, r, slot):
    """Write the new row over the old one and bring boundaries and summaries of its path up to date."""
    loosen_path(tree, store, slot)
    b = np.int64(tree.homes[slot].bucket)
    while tree.buckets[b].level > 0:
        lo, hi = hull_on(rows, r, tree.buckets[b].dim)
        narrow_core(tree, b, lo, hi)
        b = np.int64(tree.buckets[b].owner)
    row = store.rows[slot]
    main, _ = shape_of(rows, r)
    write_entries(store, rows, r, np.int64(row.start), main)
    rank_row(row, rows, r)
    row.count = np.uint16(main)
    raise_ceiling(store, slot)
    fasten_path(tree, store, slot)


@kernel
def set_priorities(tree, store, slots, priorities):
    """Change the priorities of rows, which stay where they are. O(depth * leaf) each."""
    for i in range(slots.size):
        slot = np.int64(slots[i])
        loosen_path(tree, store, slot)
        row = store.rows[slot]
        weights = 0.0
        for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
            weights += store.entries[at].weight
        write_priority(row, priorities[i], weights)
        raise_ceiling(store, slot)
        fasten_path(tree, store, slot)


@helper
def loosen_path(tree, store, slot):
    """Mark the buckets on the path of a row whose summaries it may have made, before it changes."""
    _, score, weights, _ = summarise(tree, store, slot)
    b = np.int64(tree.homes[slot].bucket)
    while b != np.int64(NONE):
        tree.buckets[b].loose = np.uint8(touches(tree, store, b, slot, score, weights))
        b = above(tree, b)


@helper
def fasten_path(tree, store, slot):
    """Bring the summaries on the path of a row up to date, after it has changed."""
    home = tree.homes[slot]
    b = np.int64(home.bucket)
    bucket = tree.buckets[b]
    leaf_row = tree.leaf_rows[np.int64(bucket.leaf) + np.int64(home.at)]
    leaf_row.needs, leaf_row.max_score, weights, priority = summarise(tree, store, slot)
    raise_leaf_bounds(bucket, leaf_row.max_score, weights, priority)
    bucket.stale += np.uint32(1)
    while b != np.int64(NONE):
        bucket = tree.buckets[b]
        raise_bounds(bucket, leaf_row.max_score, weights, priority)
        if bucket.loose and may_rebuild(bucket):
            rebuild(tree, store, b)
        b = above(tree, b)
