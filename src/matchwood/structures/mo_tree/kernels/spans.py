"""MO-Tree: what new rows ask of the tree. In: rows of the CSR arrays, from front to back. Out: buckets, and spans of slices.

Rows are placed bucket by bucket, in an order that has nothing to do with the one in which they come. So all that needs their
keys is done where they stand, and what is left for placing is a few bytes a predicate: to fetch the columns of rows in the
order of their buckets touched ten cache lines a row. Nothing here reads the store, so rows are stored meanwhile.

Spans    spans[e]: the axis of entry e, the first and the last slice it touches in its bucket. NOTHING: planes know nothing of it.
         ODD, at a row's first entry: spans cannot say it (interval sets, absence, attributes without an axis), read the store.
Notes    ticks: first and last tick on each layer of the row located last; here: its cells.
"""

from __future__ import annotations

import numpy as np

from matchwood.encode import arrays
from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch
from matchwood.store.kernels.rows import AHEAD, only_intervals
from matchwood.structures.mo_tree.kernels.layout import (
    AXES,
    LAYERS,
    ONE,
    SLICED,
    WHOLE,
    axis_number,
    cell_for,
    cell_of,
    enter_node,
    slice_here,
    slice_in,
    tick_of,
)

SPAN = np.dtype([("axis", "u1"), ("first", "u1"), ("last", "u1")])
NOTHING, ODD = np.uint8(0xFF), np.uint8(0xFE)
_INTERVAL, _MORE, _JOINED, _CIRCLE = arrays.INTERVAL, arrays.MORE, arrays.JOINED, arrays.CIRCLE


@helper
def new_bucket(tree, rows, r):
    """The bucket of row r: `bucket_number` of what is not in the store. Its ticks and cells are noted. O(entries)."""
    layers = tree.counts[LAYERS]
    number = tree.counts[WHOLE]
    for a in range(layers):
        axis = tree.axes[a]
        tree.here[a] = axis.first_cell + axis.cells - np.uint32(1)
    left = layers
    at, end = np.uint64(rows.offsets[r]), np.uint64(rows.offsets[r + 1])
    while at < end and left > 0:
        kind = rows.kinds[at]
        a = axis_number(tree, rows.dims[at])
        if a < layers and (kind == _INTERVAL or kind == _JOINED):
            last = at
            while last + ONE < end and rows.kinds[last + ONE] == _MORE:
                last += ONE
            axis = tree.axes[a]
            low, high = tick_of(tree, axis, rows.lo[at]), tick_of(tree, axis, rows.hi[last])
            cell = cell_for(tree, axis, low, high)
            tree.ticks[2 * a], tree.ticks[2 * a + 1] = low, high
            tree.here[a] = np.uint32(np.int64(axis.first_cell) + cell)
            number -= np.int64(axis.radix) * (np.int64(axis.cells) - 1 - cell)
            left -= 1
        at += ONE
    return number


@helper
def still_fits(tree, number):
    """Do the cells of another bucket hold the row that was located last, cells as narrow as its own? Then they are noted."""
    for a in range(tree.counts[LAYERS]):
        cell, own = cell_of(tree, tree.axes[a], number), tree.cells[tree.here[a]]
        if cell.first == own.first and cell.width == own.width:
            continue
        low, high = tree.ticks[2 * a] - np.int64(cell.first), tree.ticks[2 * a + 1] - np.int64(cell.first)
        if cell.width != own.width or low < 0 or high >= np.int64(cell.width):
            return False
    enter_node(tree, number)
    return True


@helper
def new_span(tree, rows, at, a):
    """The first and the last slice of an interval on axis a, of the row that was located last."""
    if a < tree.counts[LAYERS]:
        first = np.uint64(2) * np.uint64(a)
        return slice_here(tree, a, tree.ticks[first]), slice_here(tree, a, tree.ticks[first + ONE])
    axis = tree.axes[a]
    return tick_of(tree, axis, rows.lo[at]), tick_of(tree, axis, rows.hi[at])


@helper
def slice_new(tree, rows, r, spans):
    """Write the spans of row r, which was located last. O(entries)."""
    begin = np.uint64(rows.offsets[r])
    for at in range(begin, np.uint64(rows.offsets[r + 1])):
        kind = rows.kinds[at]
        if kind == _CIRCLE:
            spans[at].axis = NOTHING
            continue
        a = axis_number(tree, rows.dims[at])
        if a >= tree.counts[SLICED] or not (kind == _INTERVAL or kind == _JOINED):
            spans[begin].axis = ODD
            break
        first, last = new_span(tree, rows, at, a)
        spans[at].axis, spans[at].first, spans[at].last = np.uint8(a), np.uint8(first), np.uint8(last)


@kernel
def slice_rows(tree, rows, first, last, numbers, spans):
    """numbers[r] = the bucket that row r of the CSR arrays belongs to, for r in first..last - 1; write its spans. O(entries)."""
    for r in range(first, last):
        numbers[r] = np.uint32(slice_row(tree, rows, r, spans, only_intervals(rows, r)))


@helper
def slice_row(tree, rows, r, spans, plain):
    """Write the spans of row r, which is `plain` if it has single intervals only; return its bucket. O(entries)."""
    if plain:
        return slice_plain(tree, rows, r, spans)
    number = new_bucket(tree, rows, r)
    slice_new(tree, rows, r, spans)
    return number


@helper
def slice_plain(tree, rows, r, spans):
    """`new_bucket` and `slice_new` in one go, of a row of single intervals; return its bucket. O(entries)."""
    number = tree.counts[WHOLE]
    begin = np.uint64(rows.offsets[r])
    odd = False
    for e in range(begin, np.uint64(rows.offsets[r + 1])):
        a = axis_number(tree, rows.dims[e])
        odd |= a >= tree.counts[SLICED]
        if a >= tree.counts[AXES]:
            continue
        axis = tree.axes[a]
        low, high = tick_of(tree, axis, rows.lo[e]), tick_of(tree, axis, rows.hi[e])
        if a < tree.counts[LAYERS]:
            at = cell_for(tree, axis, low, high)
            number -= np.int64(axis.radix) * (np.int64(axis.cells) - 1 - at)
            cell = tree.cells[np.uint64(axis.first_cell) + np.uint64(at)]
            low, high = slice_in(cell, low), slice_in(cell, high)
        spans[e].axis, spans[e].first, spans[e].last = np.uint8(a), np.uint8(low), np.uint8(high)
    if odd:
        spans[begin].axis = ODD
    return number


@helper
def prefetch_spans(places, offsets, spans, which, slots, i):
    """Ask for the spans and the place of a row that comes soon."""
    last = which.size - 1
    prefetch(offsets, np.int64(which[min(i + 2 * AHEAD, last)]))
    soon = min(i + AHEAD, last)
    prefetch(spans, offsets[np.int64(which[soon])])
    prefetch(spans, offsets[np.int64(which[soon]) + 1] - 1)
    prefetch(places, np.int64(slots[soon]))
