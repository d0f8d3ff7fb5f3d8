"""OpIndex: predicates by pivot attribute, attribute and operator; counting (Zhang, Chan and Tan, as described in MO-Tree 6.1.3).

Layout   list (pivot, dimension, operator) of (key, slot). The pivot of a row is its least popular dimension; an interval is two
         predicates, >= its begin and <= its end. The last list: rows without predicates.
An event visits the lists whose pivot and dimension it has, and counts every predicate that its key satisfies.
"""

from __future__ import annotations

import numpy as np

from matchwood.baselines.kernels.counting import (
    append_row,
    begin_count,
    bump,
    discard_row,
    end_count,
    is_counted,
    note_place,
    touch_list,
)
from matchwood.jit.decorators import helper, kernel
from matchwood.jit.state import State, array
from matchwood.store.kernels.candidates import start_answers

NO_PIVOT = np.uint16(0xFFFF)


class Pivots(State):
    """Which lists rows stand in."""

    popularity: np.ndarray = array(np.int64)  # by dimension, when the lists were made
    pivots: np.ndarray = array(np.uint16)  # by slot


@kernel
def choose_pivots(pivots, store, slots):
    """The pivot of each row is its least popular counted dimension (the smallest of equals), or none. O(entries)."""
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        best = np.int64(NO_PIVOT)
        for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
            entry = store.entries[at]
            dim = np.int64(entry.dim)
            if is_counted(entry) and (best == np.int64(NO_PIVOT) or pivots.popularity[dim] < pivots.popularity[best]):
                best = dim
        pivots.pivots[np.int64(slots[i])] = np.uint16(best)


@helper
def lists_of(lists, pivots, store, slot):
    """Put the lists of a row into `places`; return their number. O(entries)."""
    row, pivot = store.rows[slot], np.int64(pivots.pivots[slot])
    n = np.int64(0)
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        entry = store.entries[at]
        if is_counted(entry):
            list_ = 2 * (pivot * pivots.popularity.size + np.int64(entry.dim))
            n = note_place(lists, n, list_, entry.lo)
            n = note_place(lists, n, list_ + 1, entry.hi)
    return n if n > 0 else note_place(lists, n, lists.lists.size - 1, 0.0)


@kernel
def insert_rows(lists, pivots, store, slots, first):
    """Insert slots[first:]; return the first for which the pool has no room, or their number. O(entries)."""
    for i in range(first, slots.size):
        slot = np.int64(slots[i])
        if not append_row(lists, slot, lists_of(lists, pivots, store, slot)):
            return i
    return slots.size


@kernel
def delete_rows(lists, pivots, store, slots):
    """Delete rows from all their lists, each searched. O(lists)."""
    for i in range(slots.size):
        slot = np.int64(slots[i])
        discard_row(lists, slot, lists_of(lists, pivots, store, slot))


@kernel
def answer_events(lists, pivots, store, scratch, query, first, out, ends):
    """Answer events[first:]; return the first not done (out is full) or their number."""
    events = query.events
    start_answers(scratch.candidates, query)
    for e in range(first, ends.size):
        has_room, counts = begin_count(store, lists, scratch, events, query.combine, e, out)
        if not has_room:
            return e
        if counts:
            touch_list(lists, scratch, lists.lists.size - 1)
            for p in range(events.offsets[e], events.offsets[e + 1]):
                if np.int64(events.dims[p]) < pivots.popularity.size:
                    count_under(lists, pivots, scratch, events, e, np.int64(events.dims[p]))
        if not end_count(lists, store, scratch, events, query.combine, True, e, out, ends):
            return e
    return ends.size


@helper
def count_under(lists, pivots, scratch, events, e, pivot):
    """Count the predicates of rows of this pivot that the event's keys satisfy. O(predicates)."""
    dimensions = pivots.popularity.size
    for i in range(events.offsets[e], events.offsets[e + 1]):
        dim, key = np.int64(events.dims[i]), events.lo[i]
        if dim >= dimensions:
            continue
        for operator in range(2):
            entry = lists.lists[2 * (pivot * dimensions + dim) + operator]
            for s in range(np.int64(entry.start), np.int64(entry.start) + np.int64(entry.size)):
                if lists.keys[s] <= key if operator == 0 else lists.keys[s] >= key:
                    bump(scratch, np.int64(lists.slots[s]))
