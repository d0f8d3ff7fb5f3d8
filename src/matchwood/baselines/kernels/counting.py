"""What counting indexes share: lists of slots that grow, and the count of predicates that hold.

Layout   lists[l] (16 B) -> a region of `slots` (and of `keys`, where an index keeps one beside each slot), a power of two long.
         Free regions are chained by size through `slots`.
Counting  a list visited adds one to the counter of each of its slots; those whose counter reaches `needed` are candidates.

An index says in which lists a row stands (`Places`) and which lists an event visits; everything else is here.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.state import State, array, nested
from matchwood.store.kernels.candidates import VERIFIED, Candidates, add_candidate, begin_answer, end_answer
from matchwood.store.kernels.results import take_hit
from matchwood.store.kernels.rows import ABSENT, JOINED, NARROWS, SLOTS

LIST = np.dtype([("start", "u4"), ("size", "u4"), ("capacity", "u4"), ("pad", "u4")])
PLACE = np.dtype([("list", "i8"), ("key", "f8")])
CLASSES = 33
FIRST_CAPACITY = 4


class Lists(State):
    """The state of a counting index."""

    lists: np.ndarray = array(LIST)
    slots: np.ndarray = array(np.uint32)
    keys: np.ndarray = array(np.float64)  # as long as `slots` or empty
    needed: np.ndarray = array(np.uint16)  # by slot: the count that makes it a candidate
    used: np.ndarray = array(np.int64)  # [1]: of the pool of slots
    free: np.ndarray = array(np.int64)  # [CLASSES]: the first free region of each power of two, or -1
    places: np.ndarray = array(PLACE)  # scratch: the lists of one row


class CountingScratch(State):
    candidates: Candidates = nested(Candidates)
    counters: np.ndarray = array(np.uint16)  # by slot; zero between events
    touched: np.ndarray = array(np.uint32)  # the slots whose counter is not zero, `progress[0]` of them
    progress: np.ndarray = array(np.int64)  # [1]


@helper
def is_counted(entry):
    """Has the entry an interval that lists can hold?"""
    return not entry.kind & (NARROWS | ABSENT)


@kernel
def count_needed(lists, store, slots, each):
    """needed[slot] = `each` for every entry that is counted. O(entries)."""
    for i in range(slots.size):
        row = store.rows[np.int64(slots[i])]
        total = np.int64(0)
        for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
            if is_counted(store.entries[at]):
                total += each
        lists.needed[np.int64(slots[i])] = np.uint16(total)


@helper
def note_place(lists, n, list_, key):
    """Add a list to those of a row, of which there are n; return the new number."""
    lists.places[n].list, lists.places[n].key = list_, key
    return n + 1


@helper
def class_of(capacity):
    class_ = np.int64(0)
    while (np.int64(1) << class_) < capacity:
        class_ += 1
    return class_


@helper
def append_row(lists, slot, n):
    """Append a slot to the first n lists of `places`; False, and nothing is done, if the pool has no room. O(n) amortised."""
    room = np.int64(0)
    for i in range(n):
        entry = lists.lists[lists.places[i].list]
        if entry.size == entry.capacity:
            room += max(2 * np.int64(entry.capacity), np.int64(FIRST_CAPACITY))
    if lists.used[0] + room > lists.slots.size:
        return False
    for i in range(n):
        entry = lists.lists[lists.places[i].list]
        if entry.size == entry.capacity:
            grow_list(lists, entry)
        at = np.int64(entry.start) + np.int64(entry.size)
        lists.slots[at] = np.uint32(slot)
        if lists.keys.size > 0:
            lists.keys[at] = lists.places[i].key
        entry.size += np.uint32(1)
    return True


@helper
def grow_list(lists, entry):
    """Move a list to a region of twice its capacity."""
    capacity = max(2 * np.int64(entry.capacity), np.int64(FIRST_CAPACITY))
    class_ = class_of(capacity)
    start, old = lists.free[class_], np.int64(entry.start)
    if start >= 0:
        lists.free[class_] = np.int64(np.int32(lists.slots[start]))
    else:
        start = lists.used[0]
        lists.used[0] += capacity
    for i in range(np.int64(entry.size)):
        lists.slots[start + i] = lists.slots[old + i]
        if lists.keys.size > 0:
            lists.keys[start + i] = lists.keys[old + i]
    if entry.capacity > 0:
        class_ = class_of(np.int64(entry.capacity))
        lists.slots[old] = np.uint32(lists.free[class_])
        lists.free[class_] = old
    entry.start, entry.capacity = np.uint32(start), np.uint32(capacity)


@helper
def discard_row(lists, slot, n):
    """Take a slot out of the first n lists of `places`, each searched for it. O(lists)."""
    for i in range(n):
        entry = lists.lists[lists.places[i].list]
        at, last = np.int64(entry.start), np.int64(entry.start) + np.int64(entry.size) - 1
        while np.int64(lists.slots[at]) != slot:
            at += 1
        lists.slots[at] = lists.slots[last]
        if lists.keys.size > 0:
            lists.keys[at] = lists.keys[last]
        entry.size -= np.uint32(1)


@helper
def begin_count(store, lists, scratch, events, combine, e, out):
    """Begin the answer to event e: (is there room for it?, does the event have one key an attribute, so that lists count?)

    Any other event might count a predicate several times: every row is a candidate then.
    """
    if not begin_answer(store, scratch.candidates, events, combine, e, out):
        return False, False
    scratch.progress[0] = 0
    begin = events.offsets[e]
    for i in range(begin, events.offsets[e + 1]):
        if events.lo[i] != events.hi[i] or (i > begin and events.dims[i] == events.dims[i - 1]):
            for slot in range(store.counts[SLOTS]):
                if store.rows[slot].id >= 0:
                    scratch.counters[slot] = lists.needed[slot]
                    touch(scratch, slot)
            return True, False
    return True, True


@helper
def touch(scratch, slot):
    scratch.touched[scratch.progress[0]] = np.uint32(slot)
    scratch.progress[0] += 1


@helper
def bump(scratch, slot):
    """Add one to a slot's counter."""
    if scratch.counters[slot] == 0:
        touch(scratch, slot)
    scratch.counters[slot] += np.uint16(1)


@helper
def touch_list(lists, scratch, list_):
    """Make candidates of the rows without predicates, which stand in one list."""
    entry = lists.lists[list_]
    for at in range(np.int64(entry.start), np.int64(entry.start) + np.int64(entry.size)):
        touch(scratch, np.int64(lists.slots[at]))


@helper
def end_count(lists, store, scratch, events, combine, exact, e, out, ends):
    """Verify the slots whose counter is full, reset all counters, and end the answer; False if `out` is full.

    Without `exact`, rows are taken to match.
    """
    candidates = scratch.candidates
    answer = candidates.answer[0]
    for i in range(scratch.progress[0]):
        slot = np.int64(scratch.touched[i])
        full = scratch.counters[slot] == lists.needed[slot]
        scratch.counters[slot] = np.uint16(0)
        if not full or answer.end < 0:
            continue
        if exact:
            add_candidate(store, candidates, events, combine, slot, out)
        else:
            candidates.work[VERIFIED] += 1
            score = assumed_score(store, slot, candidates.values)
            answer.end = take_hit(store, slot, score, out, answer.begin, answer.end, answer.k, candidates.seen)
    return end_answer(store, candidates, events, combine, e, out, ends)


@helper
def assumed_score(store, slot, values):
    """The score of a row whose predicates are all taken to hold: what an approximate index answers."""
    row = store.rows[slot]
    score = row.priority
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        entry = store.entries[at]
        if not entry.kind & JOINED:
            score += entry.weight * values[np.int64(entry.dim)].weight
    return score
