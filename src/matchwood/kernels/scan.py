"""Scan: every row is looked at, column by column. In: columns of boxes, an event. Out: slots that may match.

Layout   column c holds, at position p, one dimension of the row at slots[p]: `dims`, and its hull as float32, rounded outward.
         Columns are filled with the row's entries in the order of the index's `rank` (most selective dimension first).
         FILL pads short rows: it holds in `all` mode and never in `any` mode. ALWAYS holds in both: it stands
         for what a column cannot
         test (an absence, or the rest of a row with more entries than columns).
Invariant  a box, rounded outward, contains the exact hull (`Scan.check`).

A block of the first column becomes a mask (vectorised, gathers from two small tables), its survivors are tested against one
column after the other without branches, and those left are verified exactly in the row store.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.results import best_first, emit, offer
from matchwood.kernels.store import ABSENT, CIRCLE
from matchwood.kernels.verify import ANY, load_event, score_row, unload_event

FILL = np.uint16(0xFFFF)
ALWAYS = np.uint16(0xFFFE)
BLOCK = 1024


class Columns(NamedTuple):
    dims: np.ndarray  # uint16 [columns, capacity]
    lo: np.ndarray  # float32 [columns, capacity]
    hi: np.ndarray  # float32 [columns, capacity]
    slots: np.ndarray  # uint32: position -> slot
    positions: np.ndarray  # uint32: slot -> position


class Scratch(NamedTuple):
    values: np.ndarray  # VALUE, one a dimension
    seen: np.ndarray  # uint32, one a slot
    lo: np.ndarray  # float32 [65536]: the event's keys, rounded outward
    hi: np.ndarray
    mask: np.ndarray  # uint8 [BLOCK]
    found: np.ndarray  # uint32 [BLOCK]


@helper
def rounded_down(key):
    """The largest float32 that is not above the key."""
    single = np.float32(key)
    if np.float64(single) > key:
        single = np.nextafter(single, np.float32(-np.inf))
    return single


@helper
def rounded_up(key):
    single = np.float32(key)
    if np.float64(single) < key:
        single = np.nextafter(single, np.float32(np.inf))
    return single


@kernel
def measure_dimensions(store, slots, low, high, total):
    """By dimension: the least and greatest finite end, and the sum of widths relative to that extent. O(entries).

    An interval without finite ends counts as half the extent.
    """
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
            entry = store.entries[at]
            dim = np.int64(entry.dim)
            if np.isfinite(entry.lo):
                low[dim] = min(low[dim], entry.lo)
            if np.isfinite(entry.hi):
                high[dim] = max(high[dim], entry.hi)
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
            entry = store.entries[at]
            if entry.kind & (ABSENT | CIRCLE):
                continue
            dim = np.int64(entry.dim)
            width = 0.5
            if np.isfinite(entry.lo) and np.isfinite(entry.hi) and high[dim] > low[dim]:
                width = min(1.0, (entry.hi - entry.lo) / (high[dim] - low[dim]))
            total[dim] += width


@kernel
def place_rows(columns, store, rank, slots, first):
    """Put the rows of `slots` at positions first, first + 1, ... O(entries * columns)."""
    width = columns.dims.shape[0]
    for i in range(slots.size):
        p = first + i
        slot = np.int64(slots[i])
        columns.slots[p] = np.uint32(slot)
        columns.positions[slot] = np.uint32(p)
        row = store.rows[slot]
        start, count = np.int64(row.start), np.int64(row.count)
        used = 0
        open_ended = False
        for at in range(count):
            entry = store.entries[start + at]
            if entry.kind & CIRCLE:
                continue
            if entry.kind == ABSENT:
                open_ended = True
            elif used < width:
                c = used
                while c > 0 and rank[np.int64(entry.dim)] < rank[np.int64(columns.dims[c - 1, p])]:
                    columns.dims[c, p] = columns.dims[c - 1, p]
                    columns.lo[c, p] = columns.lo[c - 1, p]
                    columns.hi[c, p] = columns.hi[c - 1, p]
                    c -= 1
                columns.dims[c, p] = entry.dim
                columns.lo[c, p] = rounded_down(entry.lo)
                columns.hi[c, p] = rounded_up(entry.hi)
                used += 1
            else:
                open_ended = True
        if open_ended:
            used = min(used, width - 1)
        for c in range(used, width):
            columns.dims[c, p] = ALWAYS if open_ended and c == used else FILL
            columns.lo[c, p] = -np.inf
            columns.hi[c, p] = np.inf


@kernel
def remove_positions(columns, slots, size):
    """Fill the holes that `slots` leave with the last rows; return the new size. O(slots * columns)."""
    for i in range(slots.size):
        hole = np.int64(columns.positions[np.int64(slots[i])])
        size -= 1
        if hole != size:
            for c in range(columns.dims.shape[0]):
                columns.dims[c, hole] = columns.dims[c, size]
                columns.lo[c, hole] = columns.lo[c, size]
                columns.hi[c, hole] = columns.hi[c, size]
            moved = np.int64(columns.slots[size])
            columns.slots[hole] = np.uint32(moved)
            columns.positions[moved] = np.uint32(hole)
    return size


@helper
def load_keys(scratch, events, e, how):
    """The event's keys as float32, rounded outward, and the two pads."""
    load_event(scratch.values, events, e)
    for i in range(events.offsets[e], events.offsets[e + 1]):
        dim = np.int64(events.dims[i])
        if dim < scratch.values.size:
            scratch.lo[dim] = rounded_down(scratch.values[dim].lo)
            scratch.hi[dim] = rounded_up(scratch.values[dim].hi)
    pad = np.float32(np.nan) if how & ANY else np.float32(0.0)
    scratch.lo[np.int64(FILL)] = pad
    scratch.hi[np.int64(FILL)] = pad
    scratch.lo[np.int64(ALWAYS)] = np.float32(0.0)
    scratch.hi[np.int64(ALWAYS)] = np.float32(0.0)


@helper
def unload_keys(scratch, events, e):
    unload_event(scratch.values, events, e)
    for i in range(events.offsets[e], events.offsets[e + 1]):
        dim = np.int64(events.dims[i])
        scratch.lo[dim] = np.float32(np.nan)
        scratch.hi[dim] = np.float32(np.nan)


@helper
def mask_block(columns, c, first, last, scratch):
    """mask[j] = may the row at first + j hold in column c? Vectorises: one gather of the event's key an end."""
    dims, lo, hi = columns.dims[c, first:last], columns.lo[c, first:last], columns.hi[c, first:last]
    for j in range(dims.size):
        dim = np.uint64(dims[j])
        scratch.mask[j] = np.uint8((lo[j] <= scratch.hi[dim]) & (scratch.lo[dim] <= hi[j]))


@helper
def or_block(columns, c, first, last, scratch):
    """mask[j] |= may the row at first + j hold in column c?"""
    dims, lo, hi = columns.dims[c, first:last], columns.lo[c, first:last], columns.hi[c, first:last]
    for j in range(dims.size):
        dim = np.uint64(dims[j])
        scratch.mask[j] |= np.uint8((lo[j] <= scratch.hi[dim]) & (scratch.lo[dim] <= hi[j]))


@helper
def survivors(columns, first, last, scratch, how):
    """Positions in [first, last) that may match, ascending, in scratch.found; return how many."""
    width = columns.dims.shape[0]
    mask_block(columns, 0, first, last, scratch)
    if how & ANY:
        for c in range(1, width):
            or_block(columns, c, first, last, scratch)
    n = np.uint64(0)
    for j in range(np.uint64(last - first)):
        scratch.found[n] = np.uint32(first + np.int64(j))
        n += np.uint64(scratch.mask[j])
    if how & ANY:
        return np.int64(n)
    for c in range(1, width):
        kept = np.uint64(0)
        for j in range(n):
            p = np.uint64(scratch.found[j])
            dim = np.uint64(columns.dims[c, p])
            scratch.found[kept] = np.uint32(p)
            kept += np.uint64((columns.lo[c, p] <= scratch.hi[dim]) & (scratch.lo[dim] <= columns.hi[c, p]))
        n = kept
        if n == 0:
            break
    return np.int64(n)


@kernel
def match_many(columns, store, size, scratch, events, first, how, combine, out, ends, candidates):
    """Match events[first:]; return the first not done (out is full) or their number. ends[e] is where e's hits end."""
    n = np.int64(0)
    for e in range(first, ends.size):
        begin = n
        load_keys(scratch, events, e, how)
        for block in range(0, size, BLOCK):
            found = survivors(columns, block, min(block + BLOCK, size), scratch, how)
            candidates[0] += found
            for j in range(found):
                slot = np.int64(columns.slots[np.int64(scratch.found[j])])
                score = score_row(store, slot, scratch.values, events, how, combine)
                if not np.isnan(score) and n >= 0:
                    n = emit(store, slot, score, out, begin, n, scratch.seen)
            if n < 0:
                break
        unload_keys(scratch, events, e)
        if n < 0:
            return e
        ends[e] = n
    return ends.size


@kernel
def top_many(columns, store, size, scratch, events, first, how, combine, k, out, ends, candidates):
    """The k best of events[first:], each best first; return the first event not done (out is full) or their number."""
    n = np.int64(0)
    for e in range(first, ends.size):
        if n + k > out.ids.size:
            return e
        begin = n
        held = np.int64(0)
        load_keys(scratch, events, e, how)
        for block in range(0, size, BLOCK):
            found = survivors(columns, block, min(block + BLOCK, size), scratch, how)
            candidates[0] += found
            for j in range(found):
                slot = np.int64(columns.slots[np.int64(scratch.found[j])])
                score = score_row(store, slot, scratch.values, events, how, combine)
                if not np.isnan(score):
                    held = offer(store, slot, score, out, begin, held, k)
        unload_keys(scratch, events, e)
        best_first(out, begin, held)
        n = begin + held
        ends[e] = n
    return ends.size
