"""The k-index: posting lists of rows in the order of their size (k-index, III).

Layout   rows are numbered (their *ordinal*) by size: the number of dimensions they constrain. Size K owns the
         ordinals sizes[K] : sizes[K + 1]. A dimension's values are cut into cells at `bounds`; list l of a (dimension,
         cell) pair holds, ascending, the ordinals of the rows whose interval meets the cell: postings[lists[l] : lists[l + 1]].
         One more list a dimension holds all its rows, for events whose value spans many cells.
Cells    where a dimension has few distinct keys every key is a cell: the enumeration of the k-index paper. Else
         cells are quantiles, as fine as the postings allow: a continuous domain cannot be enumerated.
Invariant  a row stands in every list whose cell its interval meets, so one that matches an event of n attributes is in K of the n
         lists; a candidate is still verified exactly (`KIndex.check`).
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.state import State, array
from matchwood.store.kernels.rows import ABSENT, NARROWS

# What no row of a size exceeds: its priority, the sum of its weights on absences.
SIZE_BOUND = np.dtype([("priority", "f8"), ("absent", "f8")])
# A row: its size, its first dimension and key (rows alike lie together), the sum of its weights on absences or -1.
ROW_SHAPE = np.dtype([("size", "i8"), ("dim", "i8"), ("key", "f8"), ("absent", "f8")])
# An entry that gets postings.
LISTED = np.dtype([("lo", "f8"), ("hi", "f8"), ("weight", "f8"), ("ordinal", "u4"), ("pad", "u4")])


class KPostings(State):
    """The state of a k-index."""

    slots: np.ndarray = array(np.uint32)  # by ordinal
    sizes: np.ndarray = array(np.int64)  # by size, its first ordinal; one more at the end
    bounds: np.ndarray = array(np.float64)  # ends of cells, ascending within a dimension
    dimensions: np.ndarray = array(np.int64)  # by dimension, its first bound; one more at the end
    lists: np.ndarray = array(np.int64)  # [lists + 1]; a dimension has one list more than cells, two more than bounds
    heaviest: np.ndarray = array(np.float32)  # by list, its largest weight, rounded up
    postings: np.ndarray = array(np.uint32)
    absent: np.ndarray = array(np.uint32)  # ordinals of rows that test for an absence
    tops: np.ndarray = array(SIZE_BOUND)  # by size


@helper
def is_listed(store, start, at):
    """Does the entry get postings? The first with an interval on its dimension does."""
    entry = store.entries[at]
    if entry.kind & (ABSENT | NARROWS):
        return False
    for before in range(start, at):
        other = store.entries[before]
        if other.dim == entry.dim and not other.kind & (ABSENT | NARROWS):
            return False
    return True


@kernel
def describe_rows(store, slots, shapes, counts):
    """shapes[i] = the shape of the row at slots[i]; counts[dimension] += its listed entries. O(entries)."""
    for i in range(slots.size):
        row, shape = store.rows[np.int64(slots[i])], shapes[i]
        start = np.int64(row.start)
        shape.size, shape.dim, shape.key, shape.absent = 0, 0, 0.0, -1.0
        for at in range(start, start + np.int64(row.count)):
            entry = store.entries[at]
            if entry.kind == ABSENT:
                shape.absent = max(shape.absent, 0.0) + entry.weight
            elif is_listed(store, start, at):
                counts[np.int64(entry.dim)] += 1
                if shape.size == 0:
                    shape.dim, shape.key = np.int64(entry.dim), entry.lo
                shape.size += 1


@kernel
def spread_entries(store, slots, places, listed):
    """Copy the listed entries of the rows to places[dimension] on, which moves with them: one run a dimension. O(entries)."""
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        start = np.int64(row.start)
        for at in range(start, start + np.int64(row.count)):
            if is_listed(store, start, at):
                entry = store.entries[at]
                to = listed[places[np.int64(entry.dim)]]
                places[np.int64(entry.dim)] += 1
                to.ordinal, to.lo, to.hi, to.weight = np.uint32(i), entry.lo, entry.hi, entry.weight


@kernel
def fill_lists(index, places, first, whole, cells, listed):
    """Append each row to the lists of its cells, cells[0, i] to cells[1, i] from list `first` on, and to the list of the whole
    dimension. O(postings)."""
    for i in range(listed.size):
        weight = listed[i].weight
        single = np.float32(weight)
        if np.float64(single) < weight:
            single = np.nextafter(single, np.float32(np.inf))
        for cell in range(cells[0, i], cells[1, i] + 2):
            list_ = whole if cell > cells[1, i] else first + cell
            index.postings[places[list_]] = listed[i].ordinal
            places[list_] += 1
            index.heaviest[list_] = max(index.heaviest[list_], single)
