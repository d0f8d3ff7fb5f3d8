"""MO-Tree: the slices that a list or a range touches. In: the parts of a value. Out: a word an axis, a bit for each slice.

    value -> ticks of its parts, as runs -> slices of the domain, or, on a layer, of each cell that a run meets

The values of a list are apart: what lies between them is not touched. So a cell without a value is not stabbed, and a plane
without one is not read. A bit behind the slices stands for an event without the attribute, as the null plane does.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, subroutine
from matchwood.structures.mo_tree.kernels.layout import (
    ONE,
    ONES,
    TreeCount,
    cell_in_bucket,
    slice_bits,
    slice_in,
    tick_of,
)

TICK_RUN = np.dtype([("first", "i4"), ("last", "i4")])


@helper
def touched_bits(axis, begin, end):
    """A bit for each of the slices begin..end, the null bit for -1; all bits where there are no slices."""
    if axis.slices == 0:
        return ONES
    return ONE << np.uint64(axis.slices) if begin < 0 else slice_bits(begin, end)


@helper
def find_runs(tree, runs, axis, value, events):
    """The ticks of a value as ascending runs that are apart; return how many. O(parts log cuts)."""
    n = np.int64(0)
    for i in range(np.int64(value.first), np.int64(value.first) + np.int64(value.parts)):
        first = last = tick_of(tree, axis, events.lo[i])
        if events.hi[i] > events.lo[i]:
            last = tick_of(tree, axis, events.hi[i])
        if n > 0 and first <= np.int64(runs[n - 1].last) + 1:
            runs[n - 1].last = np.int32(max(last, np.int64(runs[n - 1].last)))
        else:
            runs[n].first, runs[n].last = np.int32(first), np.int32(last)
            n += 1
    return n


@helper
def touched_in_cell(axis, cell, runs, count):
    """The slices of a layer's cell that the runs touch; 0 if they are all outside. O(runs)."""
    begin, end = np.int64(cell.first), np.int64(cell.first) + np.int64(cell.width)
    touched = np.uint64(0)
    for r in range(count):
        first, last = np.int64(runs[r].first), np.int64(runs[r].last)
        if first < end and last >= begin:
            touched |= touched_bits(axis, slice_in(cell, first), slice_in(cell, last))
    return touched


@subroutine
def load_slices(tree, scratch, values, events, query):
    """Note the slices that the event in `values` touches, after `load_axes`. O(parts log cuts + cells * runs)."""
    start = query * tree.counts[TreeCount.AXES]
    runs = scratch.tick_runs
    for a in range(tree.counts[TreeCount.AXES]):
        axis = tree.axes[a]
        is_absent = scratch.begins[start + a] < 0
        count = np.int64(0)
        if not is_absent:
            count = find_runs(tree, runs, axis, values[np.int64(axis.dim)], events)
        if a >= tree.counts[TreeCount.LAYERS]:
            touched = touched_bits(axis, np.int64(-1), np.int64(-1)) if is_absent else np.uint64(0)
            for r in range(count):
                touched |= touched_bits(axis, np.int64(runs[r].first), np.int64(runs[r].last))
            scratch.masks[start + a] = touched
            continue
        first, last = np.int64(axis.first_cell), np.int64(axis.first_cell) + np.int64(axis.cells) - 1
        for c in range(first, last + 1):
            scratch.cell_masks[query, c] = touched_in_cell(axis, tree.cells[c], runs, count)
        if is_absent:  # only rows that do not name the attribute, or ask for its absence
            scratch.cell_masks[query, last] = touched_bits(axis, np.int64(-1), np.int64(-1))


@helper
def mask_in(tree, scratch, node, query, a):
    """The slices that a query touches on axis a in the bucket of a node."""
    if a >= tree.counts[TreeCount.LAYERS]:
        return scratch.masks[query * tree.counts[TreeCount.AXES] + a]
    return scratch.cell_masks[query, np.int64(cell_in_bucket(tree, tree.axes[a], np.int64(node.number)))]
