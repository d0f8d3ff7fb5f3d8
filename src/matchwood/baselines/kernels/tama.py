"""TAMA: a table of attributes and levels of discretisation; counting (Zhao and Wu, as described in MO-Tree 6.1.3).

Layout   list (dimension, node): node 1 is the whole domain, 2 and 3 its halves, ...: 2^levels leaves. A predicate is in the few
         nodes that together are its interval, rounded outward to leaves. List 0 of dimension 0: rows without predicates.
An event's key visits the nodes above its leaf, levels + 1 lists a dimension. Rounding makes the count approximate.
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

INSERT, DELETE, MEASURE = 0, 1, 2


@helper
def leaf_of(domain, leaves, dim, key):
    """The leaf of a key, monotone; keys outside the domain belong to its ends."""
    low, high = domain[dim, 0], domain[dim, 1]
    if not key > low:
        return np.int64(0)
    if not key < high:
        return leaves - 1
    if np.isinf(high - low):  # a domain as wide as all float64: halves of its ends have a difference
        low, high, key = 0.5 * low, 0.5 * high, 0.5 * key
    return min(np.int64((key - low) / (high - low) * leaves), leaves - 1)


@helper
def each_node(lists, domain, leaves, store, slot, step):
    """Insert a row into its lists, delete it, or measure the room that inserting takes. O(entries * levels)."""
    row = store.rows[slot]
    room = np.int64(0)
    counted = False
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        entry = store.entries[at]
        if not is_counted(entry):
            continue
        counted = True
        dim = np.int64(entry.dim)
        left = leaves + leaf_of(domain, leaves, dim, entry.lo)
        right = leaves + leaf_of(domain, leaves, dim, entry.hi) + 1
        while left < right:
            for side in range(2):
                node = np.int64(-1)
                if side == 0 and left & 1:
                    node = left
                    left += 1
                elif side == 1 and right & 1:
                    right -= 1
                    node = right
                if node >= 0:
                    room += one_list(lists, dim * 2 * leaves + node, slot, step)
            left >>= 1
            right >>= 1
    if not counted:
        room += one_list(lists, np.int64(0), slot, step)
    return room


@helper
def one_list(lists, at, slot, step):
    if step == MEASURE:
        return wanted_by(lists, at)
    if step == INSERT:
        append(lists, at, slot, 0.0)
    else:
        discard(lists, at, slot)
    return np.int64(0)


@kernel
def insert_rows(lists, domain, leaves, store, slots, first):
    """Insert rows first, ...; return the first for which the pool has no room, or their number."""
    for i in range(first, slots.size):
        slot = np.int64(slots[i])
        if lists.counts[USED] + each_node(lists, domain, leaves, store, slot, MEASURE) > lists.slots.size:
            return i
        each_node(lists, domain, leaves, store, slot, INSERT)
    return slots.size


@kernel
def delete_rows(lists, domain, leaves, store, slots):
    """Delete rows from all their lists, each searched. O(lists)."""
    for i in range(slots.size):
        each_node(lists, domain, leaves, store, np.int64(slots[i]), DELETE)


@kernel
def answer_many(lists, domain, leaves, store, scratch, events, first, how, combine, exact, k, out, ends, candidates):
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
        for i in range(events.offsets[e], events.offsets[e + 1] if single else events.offsets[e]):
            dim = np.int64(events.dims[i])
            if dim >= domain.shape[0]:
                continue
            node = leaves + leaf_of(domain, leaves, dim, events.lo[i])
            while node > 0:
                entry = lists.lists[dim * 2 * leaves + node]
                for s in range(np.int64(entry.start), np.int64(entry.start) + np.int64(entry.size)):
                    touched = bump(scratch, np.int64(lists.slots[s]), touched)
                node >>= 1
        always = lists.lists[0]
        for s in range(np.int64(always.start), np.int64(always.start) + (np.int64(always.size) if single else 0)):
            scratch.touched[touched] = lists.slots[s]
            touched += 1
        n = settle(store, scratch, touched, events, exact or not single, combine, how, k, out, begin, n, candidates)
        unload_event(scratch.values, events, e)
        if n < 0:
            return e
        if k > 0:
            best_first(out, begin, n - begin)
        ends[e] = n
    return ends.size
