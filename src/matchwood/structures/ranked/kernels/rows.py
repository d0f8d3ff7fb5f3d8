"""Rows of a store and the trees of their dimensions: what goes into the trees, and new scores for what is there."""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import INTERVAL
from matchwood.jit.decorators import kernel
from matchwood.store.kernels.rows import ABSENT, CIRCLE, JOINED, PLAIN, rank_row
from matchwood.structures.ranked.kernels.bounds import BY_SCORE, SLACK


@kernel
def split_rows(store, slots, plan, dims, lo, hi, keys, owners, outcasts):
    """The entries of these rows for the trees; return (entries, rows that no tree can lead to). Widens the plan. O(entries).

    A row with an absence, or without any interval, is an outcast: it is verified for every event.
    """
    n = np.int64(0)
    out = np.int64(0)
    for i in range(slots.size):
        slot = np.int64(slots[i])
        row = store.rows[slot]
        start, end = np.int64(row.start), np.int64(row.start) + np.int64(row.count)
        heads = np.int64(0)
        total = row.priority
        before = np.int64(-1)
        for at in range(start, end):
            entry = store.entries[at]
            if entry.kind == ABSENT:
                heads = np.int64(0)
                break
            if not entry.kind & (JOINED | CIRCLE):
                heads += 1
        if heads == 0:
            outcasts[out] = np.uint32(slot)
            out += 1
            continue
        plan.lowest[0] = min(plan.lowest[0], row.priority)
        plan.highest[0] = max(plan.highest[0], row.priority)
        first = n
        for at in range(start, end):
            entry = store.entries[at]
            if entry.kind & (JOINED | CIRCLE):
                continue
            dim = np.int64(entry.dim)
            dims[n], lo[n], hi[n] = entry.dim, entry.lo, entry.hi
            keys[n], owners[n] = row.priority + entry.weight, slot
            total += entry.weight
            plan.weight[dim] = max(plan.weight[dim], entry.weight)
            if dim <= before:
                plan.ascending[0] = False
            before = dim
            n += 1
        if plan.order[0] == BY_SCORE:
            keys[first:n] = total
        rounded = np.float32(total + abs(total) * SLACK)
        plan.most[slot] = np.nextafter(rounded, np.float32(np.inf))
    return n, out


@kernel
def same_intervals(store, slots, rows):
    """Are these rows, plain intervals all of them, those of the slots but for priorities and weights? O(entries)."""
    for r in range(slots.size):
        row = store.rows[np.int64(slots[r])]
        start, begin, end = np.int64(row.start), rows.offsets[r], rows.offsets[r + 1]
        if row.id != rows.ids[r] or np.int64(row.count) != end - begin:
            return False
        for at in range(end - begin):
            entry, e = store.entries[start + at], begin + at
            if entry.kind != PLAIN or rows.kinds[e] != INTERVAL or entry.dim != rows.dims[e]:
                return False
            if entry.lo != rows.lo[e] or entry.hi != rows.hi[e]:
                return False
    return True


@kernel
def write_scores(store, slots, rows):
    """Give rows for which `same_intervals` holds the priorities and weights of `rows`. O(entries)."""
    for r in range(slots.size):
        row = store.rows[np.int64(slots[r])]
        rank_row(row, rows, r)
        for at in range(rows.offsets[r + 1] - rows.offsets[r]):
            store.entries[np.int64(row.start) + at].weight = rows.weight[rows.offsets[r] + at]
