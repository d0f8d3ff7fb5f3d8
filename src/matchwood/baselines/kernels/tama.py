"""TAMA: a table of attributes and levels of discretisation; counting (Zhao and Wu, as described in MO-Tree 6.1.3).

Layout   list (dimension, node): node 1 is the whole domain, 2 and 3 its halves, ...: 2^levels leaves. A predicate is in the few
         nodes that together are its interval, rounded outward to leaves. List 0 of dimension 0: rows without predicates.
An event's key visits the nodes above its leaf, levels + 1 lists a dimension. Rounding makes the count approximate.
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


class Domains(State):
    """What the cells of TAMA divide."""

    ends: np.ndarray = array(np.float64, ndim=2)  # [dimensions, 2]
    leaves: np.ndarray = array(np.int64)  # [1]: how many a dimension has


@helper
def leaf_of(domains, dim, key):
    """The leaf of a key, monotone; keys outside the domain belong to its ends."""
    low, high, leaves = domains.ends[dim, 0], domains.ends[dim, 1], domains.leaves[0]
    if not key > low:
        return np.int64(0)
    if not key < high:
        return leaves - 1
    if np.isinf(high - low):  # a domain as wide as all float64: halves of its ends have a difference
        low, high, key = 0.5 * low, 0.5 * high, 0.5 * key
    return min(np.int64((key - low) / (high - low) * leaves), leaves - 1)


@helper
def lists_of(lists, domains, store, slot):
    """Put the lists of a row into `places`; return their number. O(entries * levels)."""
    row, leaves = store.rows[slot], domains.leaves[0]
    n = np.int64(0)
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        entry = store.entries[at]
        if not is_counted(entry):
            continue
        dim = np.int64(entry.dim)
        first = dim * 2 * leaves
        left = leaves + leaf_of(domains, dim, entry.lo)
        right = leaves + leaf_of(domains, dim, entry.hi) + 1
        while left < right:
            if left & 1:
                n = note_place(lists, n, first + left, 0.0)
                left += 1
            if right & 1:
                right -= 1
                n = note_place(lists, n, first + right, 0.0)
            left >>= 1
            right >>= 1
    return n if n > 0 else note_place(lists, n, np.int64(0), 0.0)


@kernel
def insert_rows(lists, domains, store, slots, first):
    """Insert slots[first:]; return the first for which the pool has no room, or their number."""
    for i in range(first, slots.size):
        slot = np.int64(slots[i])
        if not append_row(lists, slot, lists_of(lists, domains, store, slot)):
            return i
    return slots.size


@kernel
def delete_rows(lists, domains, store, slots):
    """Delete rows from all their lists, each searched. O(lists)."""
    for i in range(slots.size):
        slot = np.int64(slots[i])
        discard_row(lists, slot, lists_of(lists, domains, store, slot))


@kernel
def answer_events(lists, domains, store, scratch, query, exact, first, out, ends):
    """Answer events[first:]; return the first not done (out is full) or their number."""
    events, leaves = query.events, domains.leaves[0]
    start_answers(scratch.candidates, query)
    for e in range(first, ends.size):
        has_room, counts = begin_count(store, lists, scratch, events, query.combine, e, out)
        if not has_room:
            return e
        if counts:
            touch_list(lists, scratch, np.int64(0))
            for i in range(events.offsets[e], events.offsets[e + 1]):
                dim = np.int64(events.dims[i])
                node = leaves + leaf_of(domains, dim, events.lo[i]) if dim < domains.ends.shape[0] else np.int64(0)
                while node > 0:
                    entry = lists.lists[dim * 2 * leaves + node]
                    for s in range(np.int64(entry.start), np.int64(entry.start) + np.int64(entry.size)):
                        bump(scratch, np.int64(lists.slots[s]))
                    node >>= 1
        if not end_count(lists, store, scratch, events, query.combine, exact or not counts, e, out, ends):
            return e
    return ends.size
