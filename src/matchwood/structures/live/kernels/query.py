"""What a row looks for among live events: cells and planes of the tree, and its intervals.

row -> ticks -> the cells of each layer that meet it -> the buckets it requests      `load_rows`
    -> at most two planes a predicate: events that pass, events that are excluded    `load_planes`, `enter_cells`
    -> its intervals side by side, if it is plain                                    `load_intervals`
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper
from matchwood.jit.state import State, array, nested
from matchwood.store.kernels.rows import ABSENT, NARROWS, SIBLING
from matchwood.store.kernels.verify import ANY, VALUE
from matchwood.structures.live.kernels.layout import MASKED, Parts
from matchwood.structures.live.kernels.place import disjoint_cell
from matchwood.structures.mo_tree.kernels.batch import (
    Batch,
    begin_batch,
    first_bucket,
    next_bucket,
    packed_slices,
    request,
    request_all,
    sort_requests,
)
from matchwood.structures.mo_tree.kernels.layout import NONE, ONE, ONES, TreeCount, axis_number, slice_in, tick_of

SLICE_BITS = 4  # for a number of slices of a layer; two of them are a byte of `packed_slices`
NULL_CELL, ALL_CELLS = -1, -2
ROW_QUERY = np.dtype(
    [
        ("wanted", "u8"),
        ("score", "f8"),
        ("slot", "u4"),
        ("entries", "u4"),
        ("passing", "u4"),
        ("excluded", "u4"),
        ("is_plain", "u4"),
        ("has_siblings", "u4"),
    ]
)
"""A row as a query. If it is plain (single intervals, on dimensions that a mask can name), `wanted` are its dimensions and
`score` is its score for a plain event that matches. passing, excluded: how many planes it has on axes that are not layers."""


class LiveScratch(State):
    """What a reader needs for a batch of rows."""

    values: np.ndarray = array(VALUE)  # by dimension
    dims: np.ndarray = array(np.int64)  # that a row names
    parts: Parts = nested(Parts)
    rows: np.ndarray = array(ROW_QUERY)  # by query
    lo: np.ndarray = array(np.float64, ndim=2)  # by query and entry: the intervals of plain rows
    hi: np.ndarray = array(np.float64, ndim=2)
    below: np.ndarray = array(np.uint64, ndim=2)  # the bits of a mask below the dimension's
    begins: np.ndarray = array(np.int32)  # by layer of each query: first tick, NULL_CELL or ALL_CELLS
    ends: np.ndarray = array(np.int32)  # by layer of each query: last tick
    passing: np.ndarray = array(np.int32)  # by query, `planes_of` each: planes of events that pass
    excluded: np.ndarray = array(np.int32)  # planes of events that are excluded
    stabbed: np.ndarray = array(np.int64)  # as in `structures.mo_tree.kernels.match.MatchScratch`
    slices: np.ndarray = array(
        np.int64
    )  # beside `stabbed`: slices of the cell below the row's, << SLICE_BITS those above
    runs: np.ndarray = array(np.int64)
    digits: np.ndarray = array(np.int64)
    line: np.ndarray = array(np.uint64)
    seen: np.ndarray = array(np.uint32)  # by slot of an event: where it stands in the answer
    candidates: np.ndarray = array(np.int64)
    batch: Batch = nested(Batch)


@helper
def planes_of(tree, query):
    """Where the planes of a query begin: it has at most one of each kind an axis."""
    return tree.counts[TreeCount.AXES] * query


@helper
def load_planes(tree, store, slot, scratch, query):
    """The ticks of a row on the layers, and its planes on the other axes. O(entries)."""
    row, mine, layers = store.rows[slot], scratch.rows[query], tree.counts[TreeCount.LAYERS]
    first, passing, excluded = planes_of(tree, query), np.int64(0), np.int64(0)
    for a in range(layers):
        scratch.begins[query * layers + a] = np.int32(ALL_CELLS)
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        entry = store.entries[at]
        a = axis_number(tree, entry.dim)
        if a >= tree.counts[TreeCount.SLICED] or entry.kind & NARROWS:  # the box of a circle stands before it
            continue
        axis, begin, end = tree.axes[a], np.int64(NULL_CELL), np.int64(NULL_CELL)
        if entry.kind != ABSENT:
            begin, end = tick_of(tree, axis, entry.lo), tick_of(tree, axis, entry.hi)
        plane, slices = np.int64(axis.plane), np.int64(axis.slices)
        if a < layers:
            scratch.begins[query * layers + a], scratch.ends[query * layers + a] = np.int32(begin), np.int32(end)
        elif begin < 0:
            scratch.passing[first + passing] = np.int32(plane + slices)
            passing += 1
        else:
            scratch.excluded[first + excluded] = np.int32(plane + (end if end < slices - 1 else slices))
            excluded += 1
            scratch.passing[first + passing] = np.int32(plane + begin - 1)
            passing += np.int64(begin > 0)
    mine.passing, mine.excluded = np.uint32(passing), np.uint32(excluded)


@helper
def load_intervals(store, slot, scratch, query, is_sum):
    """The intervals of a row, and whether it is plain. O(entries)."""
    row, mine = store.rows[slot], scratch.rows[query]
    is_plain = row.size == row.count and is_sum
    wanted, score = np.uint64(0), row.priority
    for j in range(np.int64(row.count)):
        entry = store.entries[np.int64(row.start) + j]
        bit = ONE << np.uint64(entry.dim & np.uint16(MASKED - 1))
        is_plain = is_plain and entry.kind != ABSENT and np.int64(entry.dim) < MASKED and wanted & bit == 0
        wanted |= bit
        score += entry.weight  # a plain event has weights of one
        scratch.lo[query, j], scratch.hi[query, j], scratch.below[query, j] = entry.lo, entry.hi, bit - ONE
    mine.wanted, mine.score, mine.slot, mine.entries = wanted, score, np.uint32(slot), np.uint32(row.count)
    mine.is_plain, mine.has_siblings = np.uint32(is_plain), np.uint32(row.flags & SIBLING != 0)


@helper
def meet_cells(tree, scratch, query):
    """The cells of each layer whose events may match: those the row's ticks meet and the one for spanning values. O(cells)."""
    n = np.int64(0)
    for a in range(tree.counts[TreeCount.LAYERS]):
        axis = tree.axes[a]
        at = query * tree.counts[TreeCount.LAYERS] + a
        begin, end = np.int64(scratch.begins[at]), np.int64(scratch.ends[at])
        scratch.runs[a] = n
        low, high = np.int64(0), np.int64(axis.cells) - 1
        if begin == NULL_CELL:
            low = high
        elif begin >= 0:
            low, high = disjoint_cell(axis, begin), disjoint_cell(axis, end)
        for c in range(low, high + 1):
            scratch.stabbed[n], scratch.slices[n] = c * np.int64(axis.radix), 0
            if begin >= 0:
                cell = tree.cells[np.int64(axis.first_cell) + c]
                above = np.int64(axis.slices) - 1 - slice_in(cell, end)
                scratch.slices[n] = slice_in(cell, begin) | above << SLICE_BITS
            n += 1
        if begin >= 0:
            scratch.stabbed[n], scratch.slices[n] = (np.int64(axis.cells) - 2) * np.int64(axis.radix), 0
            n += 1
    scratch.runs[tree.counts[TreeCount.LAYERS]] = n


@helper
def request_met(tree, scratch, query):
    """Request the buckets of all combinations of cells that meet a row; False if there is no room. O(combinations)."""
    layers = tree.counts[TreeCount.LAYERS]
    meet_cells(tree, scratch, query)
    number = first_bucket(scratch, layers)
    if number < 0:
        return False
    while number >= 0:
        if tree.directory[number].first != NONE:
            request(scratch.batch, number, query, packed_slices(scratch, layers), ONES, ONES)
        number = next_bucket(scratch, layers, number)
    return True


@helper
def load_rows(tree, scratch, first, count, known):
    """Load the rows slots[first : first + count] and request their buckets; return how many there was room for. Relaxed matching
    has no planes and looks at all events. O(entries)."""
    _, store, slots, _, mode, combine = known
    begin_batch(scratch.batch)
    for q in range(count):
        slot = np.int64(slots[first + q])
        load_intervals(store, slot, scratch, q, combine is None and not mode & ANY)
        if mode & ANY:
            scratch.rows[q].passing = scratch.rows[q].excluded = np.uint32(0)
        else:
            load_planes(tree, store, slot, scratch, q)
        if not (request_all(tree, scratch.batch, q) if mode & ANY else request_met(tree, scratch, q)):
            count = np.int64(q)
            break
    sort_requests(scratch.batch)
    return count


@helper
def enter_cells(tree, scratch, visit):
    """Add the planes of the layers in the cells of a visit's bucket; return how many planes pass and how many are excluded. None
    where the row holds the whole cell."""
    query = np.int64(visit.query)
    first, mine = planes_of(tree, query), scratch.rows[query]
    passing, excluded = np.int64(mine.passing), np.int64(mine.excluded)
    for a in range(tree.counts[TreeCount.LAYERS]):
        axis = tree.axes[a]
        slices = np.int64(visit.slices >> np.uint64(8 * a))
        below, above = slices & ((1 << SLICE_BITS) - 1), (slices >> SLICE_BITS) & ((1 << SLICE_BITS) - 1)
        scratch.passing[first + passing] = np.int32(np.int64(axis.plane) + below - 1)
        passing += np.int64(below > 0)
        scratch.excluded[first + excluded] = np.int32(np.int64(axis.plane) + np.int64(axis.slices) - 1 - above)
        excluded += np.int64(above > 0)
    return passing, excluded
