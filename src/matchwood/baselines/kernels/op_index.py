"""OpIndex: predicates by pivot attribute, attribute and operator; counting (Zhang, Chan and Tan, as described in MO-Tree 6.1.3).

Layout   list (pivot, dimension, operator) of (key, slot). The pivot of a row is its least popular dimension; an interval is two
         predicates, >= its begin and <= its end. The last list: rows without predicates.
An event visits the lists whose pivot and dimension it has, and counts every predicate that its key satisfies.
"""

from __future__ import annotations

import numpy as np

from matchwood.baselines.kernels.counting import (
    USED,
    append,
    bump,
    discard,
    has_single_keys,
    is_counted,
    settle,
    touch_all,
    wanted_by,
)
from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.results import best_first
from matchwood.store.kernels.verify import load_event, unload_event

NO_PIVOT = np.uint16(0xFFFF)


@helper
def list_of(dimensions, pivot, dim):
    return 2 * (pivot * dimensions + dim)


@kernel
def choose_pivots(store, slots, popularity, pivots):
    """pivots[slot] = the least popular counted dimension of the row (the smallest of equals), or none. O(entries)."""
    for i in range(slots.size):
        slot = np.int64(slots[i])
        row = store.rows[slot]
        best = np.int64(NO_PIVOT)
        for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
            entry = store.entries[at]
            dim = np.int64(entry.dim)
            if is_counted(entry) and (best == np.int64(NO_PIVOT) or popularity[dim] < popularity[best]):
                best = dim
        pivots[slot] = np.uint16(best)


@kernel
def insert_rows(lists, dimensions, pivots, store, slots, first):
    """Insert rows first, ...; return the first for which the pool has no room, or their number. O(entries)."""
    always = lists.lists.size - 1
    for i in range(first, slots.size):
        slot = np.int64(slots[i])
        row = store.rows[slot]
        pivot = np.int64(pivots[slot])
        room = wanted_by(lists, always)
        for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
            if is_counted(store.entries[at]):
                here = list_of(dimensions, pivot, np.int64(store.entries[at].dim))
                room += wanted_by(lists, here) + wanted_by(lists, here + 1)
        if lists.counts[USED] + room > lists.slots.size:
            return i
        if pivot == np.int64(NO_PIVOT):
            append(lists, always, slot, 0.0)
            continue
        for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
            entry = store.entries[at]
            if is_counted(entry):
                here = list_of(dimensions, pivot, np.int64(entry.dim))
                append(lists, here, slot, entry.lo)
                append(lists, here + 1, slot, entry.hi)
    return slots.size


@kernel
def delete_rows(lists, dimensions, pivots, store, slots):
    """Delete rows from all their lists, each searched. O(lists)."""
    for i in range(slots.size):
        slot = np.int64(slots[i])
        row = store.rows[slot]
        pivot = np.int64(pivots[slot])
        if pivot == np.int64(NO_PIVOT):
            discard(lists, lists.lists.size - 1, slot)
            continue
        for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
            if is_counted(store.entries[at]):
                here = list_of(dimensions, pivot, np.int64(store.entries[at].dim))
                discard(lists, here, slot)
                discard(lists, here + 1, slot)


@kernel
def answer_many(lists, dimensions, store, scratch, events, first, how, combine, k, out, ends, candidates):
    """Every match of events[first:], or for k > 0 the k best; return the first not done (out is full) or their number."""
    n = np.int64(0)
    for e in range(first, ends.size):
        if n + k > out.ids.size:
            return e
        begin = n
        load_event(scratch.values, events, e)
        touched = np.int64(0)
        single = has_single_keys(events, e)
        if not single:
            touched = touch_all(store, scratch)
        for p in range(events.offsets[e], events.offsets[e + 1] if single else events.offsets[e]):
            pivot = np.int64(events.dims[p])
            if pivot >= dimensions:
                continue
            for i in range(events.offsets[e], events.offsets[e + 1]):
                dim = np.int64(events.dims[i])
                if dim >= dimensions:
                    continue
                key = events.lo[i]
                for operator in range(2):
                    entry = lists.lists[list_of(dimensions, pivot, dim) + operator]
                    for s in range(np.int64(entry.start), np.int64(entry.start) + np.int64(entry.size)):
                        if lists.keys[s] <= key if operator == 0 else lists.keys[s] >= key:
                            touched = bump(scratch, np.int64(lists.slots[s]), touched)
        always = lists.lists[lists.lists.size - 1]
        for s in range(np.int64(always.start), np.int64(always.start) + (np.int64(always.size) if single else 0)):
            scratch.touched[touched] = lists.slots[s]
            touched += 1
        n = settle(store, scratch, touched, events, True, combine, how, k, out, begin, n, candidates)
        unload_event(scratch.values, events, e)
        if n < 0:
            return e
        if k > 0:
            best_first(out, begin, n - begin)
        ends[e] = n
    return ends.size
