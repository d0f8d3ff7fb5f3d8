"""Rows out of the store again, exactly as they were added: the inverse of `rows.write_entries`."""

from __future__ import annotations

import numpy as np

from matchwood.encode.arrays import ABSENT as ABSENT_ENTRY
from matchwood.encode.arrays import CIRCLE as CIRCLE_ENTRY
from matchwood.encode.arrays import COUNT as COUNT_ENTRY
from matchwood.encode.arrays import CURVE, GRADE, INTERVAL, MORE, PART
from matchwood.encode.arrays import JOINED as JOINED_ENTRY
from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.regions import count_vertices, extract_region
from matchwood.store.kernels.rows import (
    ABSENT,
    COUNTED,
    GRADED,
    JOINED,
    NARROWS,
    SHAPED,
    WORDS,
    count_bounds,
    part_hi,
    part_lo,
    parts_of,
)


@kernel
def count_extracted(store, slots):
    """How many entries `extract_rows` writes for the rows at these slots. O(entries)."""
    total = np.int64(0)
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        for at in range(np.int64(row.count)):
            _, parts, _ = parts_of(store.entries, np.int64(row.start), at)
            entry = store.entries[np.int64(row.start) + at]
            total += 3 if entry.kind == GRADED else parts + np.int64(entry.kind == COUNTED)
            if entry.kind == SHAPED:
                rings, vertices = count_vertices(store.entries, WORDS * (np.int64(row.start) + np.int64(entry.more)))
                total += rings + vertices
    return total


@helper
def extract_grade(store, first, dim, rows, head, out):
    """Write the grade whose extras begin at `first`, and the weight of its head again; return the number of entries."""
    best, shape, rest = store.entries[first], store.entries[first + 2], store.entries[first + 3]
    if not np.isnan(rest.hi):
        rows.weight[head] = rest.hi
    for i in range(3):
        rows.dims[out + i], rows.kinds[out + i], rows.weight[out + i] = dim, CURVE if i > 0 else GRADE, 0.0
    rows.lo[out], rows.hi[out], rows.weight[out] = best.lo, best.hi, best.weight
    rows.lo[out + 1], rows.hi[out + 1] = shape.lo, shape.hi
    rows.lo[out + 2], rows.hi[out + 2] = shape.weight, np.float64(shape.dim)
    return out + 3


@kernel
def extract_rows(store, slots, rows):
    """Write the rows at these slots to `rows`, which has room for them; return the number of entries. O(entries)."""
    out = np.int64(0)
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        rows.ids[i], rows.priority[i] = row.id, row.priority
        start, head = np.int64(row.start), np.int64(0)
        for at in range(start, start + np.int64(row.count)):
            entry = store.entries[at]
            kind = JOINED_ENTRY if entry.kind & JOINED else INTERVAL
            weight, further = entry.weight, MORE
            first, parts, width = parts_of(store.entries, start, at - start)
            if entry.kind == SHAPED:
                word = WORDS * (start + np.int64(entry.more))
                out = extract_region(store.entries, word, entry.dim, rows, out)
                continue
            if entry.kind == COUNTED:
                rows.dims[out], rows.kinds[out], rows.weight[out] = entry.dim, COUNT_ENTRY, 0.0
                rows.lo[out], rows.hi[out] = count_bounds(store.entries, start, at - start)
                out += 1
                kind = further = PART
            elif entry.kind == GRADED:
                out = extract_grade(store, start + np.int64(entry.more), entry.dim, rows, head, out)
                continue
            elif entry.kind & NARROWS:
                circle = start + np.int64(entry.more)
                kind, weight = CIRCLE_ENTRY, store.entries[circle].weight
                first = WORDS * circle
            elif entry.kind & ABSENT:
                kind = ABSENT_ENTRY
            if not entry.kind & JOINED:
                head = out
            for part in range(parts):
                rows.dims[out], rows.kinds[out], rows.weight[out] = entry.dim, kind, weight
                rows.lo[out] = part_lo(store.entries, first, width, part)
                rows.hi[out] = part_hi(store.entries, first, width, part)
                kind, weight = further, 0.0
                out += 1
        rows.offsets[i + 1] = out
    return out
