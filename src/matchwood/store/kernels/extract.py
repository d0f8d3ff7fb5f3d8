"""Rows out of the store again, exactly as they were added: the inverse of `store.write_entries`."""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import ABSENT as ABSENT_ENTRY
from matchwood.encode.arrays import CIRCLE as CIRCLE_ENTRY
from matchwood.encode.arrays import INTERVAL, MORE
from matchwood.encode.arrays import JOINED as JOINED_ENTRY
from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.rows import ABSENT, CIRCLE, JOINED, SET


@kernel
def count_entries(store, slots, offsets):
    """offsets[i + 1] = how many entries the rows slots[:i + 1] have as arrays. O(main entries)."""
    total = np.int64(0)
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        start = np.int64(row.start)
        for at in range(start, start + np.int64(row.count)):
            entry = store.entries[at]
            parts = np.int64(1)
            if entry.kind & SET:
                parts = np.int64(store.entries[start + np.int64(entry.more)].more)
            total += parts
        offsets[i + 1] = total


@helper
def put(rows, at, dim, kind, lo, hi, weight):
    rows.dims[at] = dim
    rows.kinds[at] = np.uint8(kind)
    rows.lo[at], rows.hi[at], rows.weight[at] = lo, hi, weight


@kernel
def extract_rows(store, slots, rows):
    """Fill `rows`, whose offsets are those of `count_entries`. O(entries)."""
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        rows.ids[i], rows.priority[i] = row.id, row.priority
        start = np.int64(row.start)
        out = rows.offsets[i]
        for at in range(start, start + np.int64(row.count)):
            entry = store.entries[at]
            head = JOINED_ENTRY if entry.kind & JOINED else INTERVAL
            extra = start + np.int64(entry.more)
            if entry.kind & CIRCLE:
                centre = store.entries[extra]
                put(rows, out, entry.dim, CIRCLE_ENTRY, centre.lo, centre.hi, centre.weight)
                out += 1
            elif entry.kind & SET:
                for part in range(np.int64(store.entries[extra].more)):
                    interval = store.entries[extra + part]
                    kind, weight = (head, entry.weight) if part == 0 else (MORE, 0.0)
                    put(rows, out, entry.dim, kind, interval.lo, interval.hi, weight)
                    out += 1
            else:
                kind = ABSENT_ENTRY if entry.kind == ABSENT else head
                put(rows, out, entry.dim, kind, entry.lo, entry.hi, entry.weight)
                out += 1
