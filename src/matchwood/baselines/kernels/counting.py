"""What counting indexes share: lists of slots that grow, and the count of predicates that hold.

Layout   lists[l] (16 B) -> a run of `slots` (and of `keys`, where an index keeps one beside each slot), a power of two long.
Counting  a list visited adds one to the counter of each of its slots; those whose counter reaches `needed` are candidates.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.results import emit, offer
from matchwood.store.kernels.rows import ABSENT, CIRCLE, JOINED, SLOTS
from matchwood.store.kernels.verify import score_row

LIST = np.dtype([("start", "u4"), ("size", "u4"), ("capacity", "u4"), ("pad", "u4")])
NONE = np.uint32(0xFFFFFFFF)
USED, REGIONS, COUNTS = 0, 1, 34
FIRST = 4  # the capacity of a list that was empty


class Lists(NamedTuple):
    lists: np.ndarray  # LIST
    slots: np.ndarray  # uint32
    keys: np.ndarray  # float64, as long as `slots` or empty
    counts: np.ndarray  # int64: words used, then the free runs of each power of two


class Counters(NamedTuple):
    values: np.ndarray  # VALUE, one a dimension
    seen: np.ndarray  # uint32, one a slot
    counters: np.ndarray  # uint16, one a slot; zero between events
    needed: np.ndarray  # uint16, one a slot
    touched: np.ndarray  # uint32, one a slot


@helper
def power_of(capacity):
    power = np.int64(0)
    while (np.int64(1) << power) < capacity:
        power += 1
    return power


@helper
def wanted_by(lists, at):
    """Words that one more slot in this list takes from the pool, at most."""
    entry = lists.lists[at]
    if entry.size < entry.capacity:
        return np.int64(0)
    return max(2 * np.int64(entry.capacity), np.int64(FIRST))


@helper
def append(lists, at, slot, key):
    """Put a slot at the end of a list; the caller has seen that there is room (`wanted_by`)."""
    entry = lists.lists[at]
    if entry.size == entry.capacity:
        capacity = max(2 * np.int64(entry.capacity), np.int64(FIRST))
        power = power_of(capacity)
        start = lists.counts[REGIONS + power]
        if start >= 0:
            lists.counts[REGIONS + power] = np.int64(np.int32(lists.slots[start]))
        else:
            start = lists.counts[USED]
            lists.counts[USED] += capacity
        old = np.int64(entry.start)
        for i in range(np.int64(entry.size)):
            lists.slots[start + i] = lists.slots[old + i]
            if lists.keys.size > 0:
                lists.keys[start + i] = lists.keys[old + i]
        if entry.capacity > 0:
            power = power_of(np.int64(entry.capacity))
            lists.slots[old] = np.uint32(lists.counts[REGIONS + power])
            lists.counts[REGIONS + power] = old
        entry.start, entry.capacity = np.uint32(start), np.uint32(capacity)
    place = np.int64(entry.start) + np.int64(entry.size)
    lists.slots[place] = np.uint32(slot)
    if lists.keys.size > 0:
        lists.keys[place] = key
    entry.size += np.uint32(1)


@helper
def discard(lists, at, slot):
    """Take a slot out of a list, which is searched for it. O(list)."""
    entry = lists.lists[at]
    start, last = np.int64(entry.start), np.int64(entry.size) - 1
    i = np.int64(0)
    while np.int64(lists.slots[start + i]) != slot:
        i += 1
    lists.slots[start + i] = lists.slots[start + last]
    if lists.keys.size > 0:
        lists.keys[start + i] = lists.keys[start + last]
    entry.size -= np.uint32(1)


@helper
def bump(scratch, slot, touched):
    """Add one to a slot's counter; return how many slots have been touched."""
    if scratch.counters[slot] == 0:
        scratch.touched[touched] = np.uint32(slot)
        touched += 1
    scratch.counters[slot] += np.uint16(1)
    return touched


@helper
def has_single_keys(events, e):
    """Has the event one key an attribute? O(entries)."""
    begin = events.offsets[e]
    for i in range(begin, events.offsets[e + 1]):
        if events.lo[i] != events.hi[i] or (i > begin and events.dims[i] == events.dims[i - 1]):
            return False
    return True


@helper
def touch_all(store, scratch):
    """Make every row a candidate; return how many there are. O(slots)."""
    touched = np.int64(0)
    for slot in range(store.counts[SLOTS]):
        if store.rows[slot].id >= 0:
            scratch.touched[touched] = np.uint32(slot)
            scratch.counters[slot] = scratch.needed[slot]
            touched += 1
    return touched


@helper
def is_counted(entry):
    """Has the entry an interval that lists can hold?"""
    return not entry.kind & (CIRCLE | ABSENT)


@helper
def assumed(store, slot, values):
    """The score of a row whose predicates are all taken to hold: what an approximate index answers."""
    row = store.rows[slot]
    score = row.priority
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        entry = store.entries[at]
        if not entry.kind & JOINED:
            score += entry.weight * values[np.int64(entry.dim)].weight
    return score


@helper
def settle(store, scratch, touched, events, exact, combine, how, k, out, begin, n, candidates):
    """Verify the slots whose counter is full, reset all counters, and answer; return the new count, -1 if `out` is full."""
    for i in range(touched):
        slot = np.int64(scratch.touched[i])
        full = scratch.counters[slot] == scratch.needed[slot]
        scratch.counters[slot] = np.uint16(0)
        if not full or n < 0:
            continue
        candidates[0] += 1
        if exact:
            score = score_row(store, slot, scratch.values, events, how, combine)
        else:
            score = assumed(store, slot, scratch.values)
        if np.isnan(score):
            continue
        if k > 0:
            n = begin + offer(store, slot, score, out, begin, n - begin, k)
        else:
            n = emit(store, slot, score, out, begin, n, scratch.seen)
    return n


@kernel
def count_needed(store, slots, each, needed):
    """needed[slot] = `each` for every entry that is counted. O(entries)."""
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        total = 0
        for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
            if is_counted(store.entries[at]):
                total += each
        needed[np.int64(slots[i])] = np.uint16(total)
