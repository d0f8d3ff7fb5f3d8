"""Scan: every row is tested, column by column. In: columns of boxes, events. Out: hits.

Layout   column c holds, at position p, one dimension of the row at slots[p]: `dims`, and its hull as float32, rounded outward.
         Columns are filled with the row's entries in the order of the index's `rank` (most selective dimension first).
         FILL pads short rows: it holds in mode `all` and never in mode `any`. ALWAYS holds in both: it stands for what a
         column cannot test (an absence, or the rest of a row with more entries than columns).
Invariant  a box, rounded outward, contains the exact hull (`Scan.check`).

64 positions of the first two columns become one word of bits (`intrinsics.boxes_hit`: a plain loop over a mask does not
vectorise, since LLVM cannot know that the mask and the gathered tables are apart); each bit left is tested against the further
columns, of an event with lists against their single values too, and then verified exactly in the row store. Two columns rather
than one, because mispredicted branches for the survivors of one column cost more than the second pair of gathers.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import boxes_hit, trailing_zeros
from matchwood.jit.state import State, array
from matchwood.store.kernels.candidates import BOUNDARIES, count, count_entries
from matchwood.store.kernels.ceilings import ceiling_of, may_use
from matchwood.store.kernels.parts import value_meets
from matchwood.store.kernels.results import finish_hits, take_hit
from matchwood.store.kernels.rounding import rounded_down, rounded_up
from matchwood.store.kernels.rows import ABSENT, NARROWS
from matchwood.store.kernels.verify import ANY, VALUE, load_event, score_row, unload_event

FILL = np.uint16(0xFFFF)
ALWAYS = np.uint16(0xFFFE)
BLOCK = 64  # positions tested at once; columns are as long as a multiple of it


class Columns(State):
    """The rows of a scan."""

    dims: np.ndarray = array(np.uint16, ndim=2)  # [columns, capacity]
    lo: np.ndarray = array(np.float32, ndim=2)
    hi: np.ndarray = array(np.float32, ndim=2)
    slots: np.ndarray = array(np.uint32)  # by position
    positions: np.ndarray = array(np.uint32)  # by slot


class ScanScratch(State):
    """The event that is being answered, and what it was answered with so far."""

    values: np.ndarray = array(VALUE)  # by dimension
    lo: np.ndarray = array(np.float32)  # [65536]: the event's keys by dimension, rounded outward
    hi: np.ndarray = array(np.float32)
    seen: np.ndarray = array(np.uint32)  # by slot
    candidates: np.ndarray = array(np.int64)  # [1]: rows verified


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
            if entry.kind & NARROWS:
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


@helper
def load_keys(scratch, events, e, mode):
    """The event's keys as float32, rounded outward, and the two pads. Return whether a value is a list."""
    load_event(scratch.values, events, e)
    has_lists = False
    for i in range(events.offsets[e], events.offsets[e + 1]):
        dim = np.int64(events.dims[i])
        has_lists |= i > events.offsets[e] and events.dims[i] == events.dims[i - 1]
        if dim < scratch.values.size:
            scratch.lo[dim] = rounded_down(scratch.values[dim].lo)
            scratch.hi[dim] = rounded_up(scratch.values[dim].hi)
    pad = np.float32(np.nan) if mode & ANY else np.float32(0.0)
    scratch.lo[np.int64(FILL)] = pad
    scratch.hi[np.int64(FILL)] = pad
    scratch.lo[np.int64(ALWAYS)] = np.float32(0.0)
    scratch.hi[np.int64(ALWAYS)] = np.float32(0.0)
    return has_lists


@helper
def unload_keys(scratch, events, e):
    unload_event(scratch.values, events, e)
    for i in range(events.offsets[e], events.offsets[e + 1]):
        dim = np.int64(events.dims[i])
        scratch.lo[dim] = np.float32(np.nan)
        scratch.hi[dim] = np.float32(np.nan)


@helper
def word_of(columns, c, block, scratch, tally):
    """Bit j: may the row at position block + j hold in column c?"""
    count(tally, BOUNDARIES, min(BLOCK, columns.dims.shape[1] - block))
    dims, lo, hi = columns.dims[c], columns.lo[c], columns.hi[c]
    word = np.uint64(0)
    for part in range(0, BLOCK, 16):
        word |= boxes_hit(dims, lo, hi, block + part, scratch.lo, scratch.hi) << np.uint64(part)
    return word


@helper
def survivors(columns, block, size, scratch, tally, mode):
    """Bit j: may the row at position block + j match, as far as two columns (or, in mode `any`, all of them) tell?"""
    word = word_of(columns, 0, block, scratch, tally)
    if mode & ANY:
        for c in range(1, columns.dims.shape[0]):
            word |= word_of(columns, c, block, scratch, tally)
    else:
        word &= word_of(columns, 1, block, scratch, tally)
    if size - block < BLOCK:
        word &= (np.uint64(1) << np.uint64(size - block)) - np.uint64(1)
    return word


@helper
def passes(columns, p, scratch, tally):
    """May the row at position p hold in the columns after the second?"""
    for c in range(2, columns.dims.shape[0]):
        dim = np.int64(columns.dims[c, p])
        count(tally, BOUNDARIES, 1)
        if not (columns.lo[c, p] <= scratch.hi[dim] and scratch.lo[dim] <= columns.hi[c, p]):
            return False
    return True


@helper
def lists_pass(columns, p, scratch, events):
    """May the row at position p hold for the lists of the event, whose hulls it meets? O(columns * log parts)."""
    for c in range(columns.dims.shape[0]):
        dim = np.int64(columns.dims[c, p])
        if dim < scratch.values.size and scratch.values[dim].parts > 1:
            if not value_meets(scratch.values[dim], events, columns.lo[c, p], columns.hi[c, p]):
                return False
    return True


@kernel
def answer_many(columns, store, size, scratch, tally, query, first, out, ends):
    """Answer the events from `first` on; return the first not done (out is full) or their number. ends[e] is where e's hits end.

    `size`: positions in use. `tally`: None, or an array in which every test is counted. O(rows) an event.
    """
    events, mode, combine, k = query
    n = np.int64(0)
    for e in range(first, ends.size):
        if n + k > out.ids.size:
            return e
        begin = n
        has_lists = load_keys(scratch, events, e, mode)
        prunes = k > 0 and may_use(store, events, e, mode, combine)
        for block in range(0, size, BLOCK):
            word = survivors(columns, block, size, scratch, tally, mode)
            while word and n >= 0:
                p = block + np.int64(trailing_zeros(word))
                word &= word - np.uint64(1)
                if not mode & ANY:
                    if not passes(columns, p, scratch, tally) or (
                        has_lists and not lists_pass(columns, p, scratch, events)
                    ):
                        continue
                scratch.candidates[0] += 1
                slot = np.int64(columns.slots[p])
                if prunes and n - begin == k and ceiling_of(store, slot, scratch.values) < out.scores[begin]:
                    continue
                count_entries(tally, store, slot, scratch.values, events, mode)
                score = score_row(store, slot, scratch.values, events, mode, combine)
                if not np.isnan(score):
                    n = take_hit(store, slot, score, out, begin, n, k, scratch.seen)
            if n < 0:
                break
        unload_keys(scratch, events, e)
        if n < 0:
            return e
        finish_hits(out, begin, n, k)
        ends[e] = n
    return ends.size
