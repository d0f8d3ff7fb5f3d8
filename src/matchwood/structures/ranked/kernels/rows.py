"""The rows of a store as entries for the trees of their dimensions."""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import kernel
from matchwood.store.kernels.rows import ABSENT, JOINED, NARROWS
from matchwood.structures.ranked.kernels.bounds import BY_SCORE, SLACK


@kernel
def split_rows(store, slots, bounds, dims, entries, always):
    """The predicates of these rows as entries of the trees; return how many, and how many rows are in no tree. O(entries).

    A row with an absence, or without any interval, is in no tree and goes to `always`. Bounds are widened.
    """
    summary = bounds.summary[0]
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
            if not entry.kind & (JOINED | NARROWS):
                heads += 1
        if heads == 0:
            always[out] = np.uint32(slot)
            out += 1
            continue
        summary.lowest = min(summary.lowest, row.priority)
        summary.highest = max(summary.highest, row.priority)
        first = n
        for at in range(start, end):
            entry = store.entries[at]
            if entry.kind & (JOINED | NARROWS):
                continue
            dim = np.int64(entry.dim)
            dims[n], entries.lo[n], entries.hi[n] = entry.dim, entry.lo, entry.hi
            entries.score[n], entries.link[n] = row.priority + entry.weight, slot
            total += entry.weight
            bounds.max_weight[dim] = max(bounds.max_weight[dim], entry.weight)
            if dim <= before:
                summary.ascending = False
            before = dim
            n += 1
        if summary.order == BY_SCORE:
            entries.score[first:n] = total
        rounded = np.float32(total + abs(total) * SLACK)
        bounds.max_score[slot] = np.nextafter(rounded, np.float32(np.inf))
    return n, out
