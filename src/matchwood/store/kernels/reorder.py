"""Copy the rows of a store into another order, so that rows that are verified together lie together."""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import kernel
from matchwood.store.kernels.id_table import FARTHEST, NONE
from matchwood.store.kernels.rows import ENTRIES, FREE_SLOTS, REGIONS, SLOTS, slot_in


@kernel
def reorder(store, order, rows, entries, moved):
    """Copy the row at order[i] to rows[i] and its entries behind those of rows[i - 1]; moved[old slot] = i. O(entries).

    `order` names every live row once; `rows` and `entries` have room for them all. The table and the counts are
    changed in place: the store is then (rows, entries, table, counts), without free slots or regions.
    """
    at = np.int64(0)
    for i in range(order.size):
        old = np.int64(order[i])
        moved[old] = np.uint32(i)
        rows[i] = store.rows[old]
        start, size = np.int64(rows[i].start), np.int64(rows[i].size)
        for j in range(size):
            entries[at + j] = store.entries[start + j]
        if size > 0:
            rows[i].start = np.uint32(at)
        at += size
    for i in range(order.size):
        if rows[i].next != NONE:
            rows[i].next = moved[np.int64(rows[i].next)]
    for i in range(store.table.size):
        cell = store.table[i]
        if cell != NONE:
            store.table[i] = np.uint32(moved[slot_in(cell)] << np.uint32(3)) | (cell & FARTHEST)
    counts = store.counts
    counts[SLOTS], counts[ENTRIES], counts[FREE_SLOTS] = order.size, at, 0
    counts[REGIONS:] = np.int64(NONE)
