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
    rank_row,
    shape_of,
    size_class,
    write_entries,
)
from matchwood.structures.be_star.kernels.bounds import raise_bounds, rebuild
from matchwood.structures.be_star.kernels.delete import LARGE, touches
from matchwood.structures.be_star.kernels.insert import note_row
from matchwood.structures.be_star.kernels.layout import (
    find_part,
    has_part,
    in_a_child,
    narrow_core,
    needs_of,
    weights_of,
)

_MORE, _ABSENT, _CIRCLE = arrays.MORE, arrays.ABSENT, arrays.CIRCLE


@kernel
def rewrite_many(tree, store, rows, kept):
    """Replace rows in place whose home bucket stays the same, kept[r] = was it done? O(depth * leaf) each.

    It stays where the new row, without siblings, fits the old one's region of the store, lies within the bucket's own
    boundary in every dimension of its path and within no child: then no bucket has to stretch, and boundaries that the old
    row made shrink.
    """
    for r in range(rows.ids.size):
        slot = first_slot(store, rows.ids[r])
        alone = (r == 0 or rows.ids[r - 1] != rows.ids[r]) and (
            r + 1 == rows.ids.size or rows.ids[r + 1] != rows.ids[r]
        )
        alone = alone and slot >= 0
        kept[r] = alone and not store.rows[slot].flags & SIBLING and stays(tree, store, rows, r, slot)
        if kept[r]:
            rewrite(tree, store, rows, r, slot)


@helper
def stays(tree, store, rows, r, slot):
    row = store.rows[slot]
    main, extras = shape_of(rows, r)
    if class_size(size_class(main + extras)) != np.int64(row.size):
        return False
    b = np.int64(tree.homes[slot].bucket)
    bucket = tree.buckets[b]
    for e in range(rows.offsets[r], rows.offsets[r + 1]):
        dim = np.int64(rows.dims[e])
        if dim >= store.counts[DIMS]:
            return False
        if bucket.parts_size > 0 and has_part(tree, b, find_part(tree, b, dim), dim):
            return False
    boxes = np.int64(bucket.boxes)
    at = b
    for j in range(np.int64(bucket.level) - 1, -1, -1):
        lo, hi = hull_on(rows, r, tree.buckets[at].dim)
        if at == b:
            if not (bucket.own_lo <= lo and hi <= bucket.own_hi):
                return False
        elif not (tree.boxes[boxes + j].lo <= lo and hi <= tree.boxes[boxes + j].hi):
            return False
        if in_a_child(tree, at, lo, hi):
            return False
        at = np.int64(tree.buckets[at].owner)
    return True


@helper
def hull_on(rows, r, dim):
    """The hull of the row's first predicate on the dimension; NaN if it has none that a bucket can hold."""
    lo, hi = np.nan, np.nan
    for e in range(rows.offsets[r], rows.offsets[r + 1]):
        kind = rows.kinds[e]
        if rows.dims[e] != dim or kind == _ABSENT or kind == _CIRCLE:
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
    row = store.rows[slot]
    b = np.int64(tree.homes[slot].bucket)
    best, sum_, _ = weights_of(store, slot)
    loose = np.uint64(0)  # bit i: the boundary of the i-th bucket of the path may have come from the old row
    step = np.uint64(0)
    while b != np.int64(NONE):
        if step >= 63 or touches(tree, store, b, slot, best, sum_):
            loose |= np.uint64(1) << min(step, np.uint64(63))
        step += np.uint64(1)
        b = above(tree, b)
    at = np.int64(tree.homes[slot].bucket)
    while tree.buckets[at].level > 0:
        lo, hi = hull_on(rows, r, tree.buckets[at].dim)
        narrow_core(tree, at, lo, hi)
        at = np.int64(tree.buckets[at].owner)
    main, _ = shape_of(rows, r)
    write_entries(store, rows, r, np.int64(row.start), main)
    rank_row(row, rows, r)
    row.count = np.uint16(main)
    note_row(tree, store, slot)
    best, sum_, top = weights_of(store, slot)
    b = np.int64(tree.homes[slot].bucket)
    bucket = tree.buckets[b]
    leaf_row = tree.leaves[np.int64(bucket.leaf) + np.int64(tree.homes[slot].at)]
    leaf_row.best, leaf_row.needs = best, needs_of(store, slot)
    bucket.leaf_best, bucket.leaf_sum = max(bucket.leaf_best, best), max(bucket.leaf_sum, sum_)
    bucket.leaf_top = max(bucket.leaf_top, top)
    bucket.stale += np.uint32(1)
    step = np.uint64(0)
    while b != np.int64(NONE):
        bucket = tree.buckets[b]
        raise_bounds(bucket, best, sum_, top)
        if (loose >> min(step, np.uint64(63))) & np.uint64(1) and (
            bucket.leaf_size <= LARGE or 4 * bucket.stale >= bucket.leaf_size
        ):
            rebuild(tree, store, b)
        step += np.uint64(1)
        b = above(tree, b)


@helper
def above(tree, b):
    """The bucket that leads to bucket b, NONE for the root."""
    bucket = tree.buckets[b]
    return np.int64(bucket.owner) if bucket.parent == NONE else np.int64(bucket.parent)
