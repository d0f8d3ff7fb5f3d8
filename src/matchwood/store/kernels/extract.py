"""Rows out of the store again, exactly as they were added: the inverse of `rows.write_entries`."""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import ABSENT as ABSENT_ENTRY
from matchwood.encode.arrays import CIRCLE as CIRCLE_ENTRY
from matchwood.encode.arrays import COUNT as COUNT_ENTRY
from matchwood.encode.arrays import INTERVAL, MORE, PART
from matchwood.encode.arrays import JOINED as JOINED_ENTRY
from matchwood.jit.decorators import kernel
from matchwood.store.kernels.rows import ABSENT, COUNTED, JOINED, NARROWS, SET


@kernel
def extract_rows(store, slots, rows):
    """Write the rows at these slots to `rows`, which has room for them; return the number of entries. O(entries)."""
    out = np.int64(0)
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        rows.ids[i], rows.priority[i] = row.id, row.priority
        start = np.int64(row.start)
        for at in range(start, start + np.int64(row.count)):
            entry = store.entries[at]
            kind = JOINED_ENTRY if entry.kind & JOINED else INTERVAL
            weight, source, parts, further = entry.weight, at, np.int64(1), MORE
            if entry.kind == COUNTED:
                source, kind, further = start + np.int64(entry.more), COUNT_ENTRY, PART
                parts = np.int64(store.entries[source].more) + 1
            elif entry.kind & NARROWS:
                source = start + np.int64(entry.more)
                kind, weight = CIRCLE_ENTRY, store.entries[source].weight
            elif entry.kind & SET:
                source = start + np.int64(entry.more)
                parts = np.int64(store.entries[source].more)
            elif entry.kind & ABSENT:
                kind = ABSENT_ENTRY
            for part in range(parts):
                interval = store.entries[source + part]
                rows.dims[out], rows.kinds[out] = entry.dim, kind
                rows.lo[out], rows.hi[out], rows.weight[out] = interval.lo, interval.hi, weight
                kind, weight = further, 0.0
                out += 1
        rows.offsets[i + 1] = out
    return out
