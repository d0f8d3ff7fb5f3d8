"""Matching with a k-index: the conjunction algorithm over posting lists (k-index, IV and V). Readers only.

The lists of an event are kept sorted by their *heads*, the next ordinal of each. Size by size, a row of size K is a candidate
if it stands in K lists: the K-th head is the least ordinal that can, so the lists before it skip there. Relaxed, one list is
enough, and rows of all sizes are merged at once.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.state import State, array, nested
from matchwood.store.kernels.candidates import (
    BOUNDARIES,
    ONE,
    VISITED,
    Candidates,
    add_candidate,
    begin_answer,
    count_tests,
    end_answer,
    score_to_reach,
    start_answers,
)
from matchwood.store.kernels.verify import ANY

NEAR = 2  # an event's value that spans more cells uses the list of the whole dimension
MAX_LISTS = 64  # the same of a list of values in more cells: heads are kept in order
SLACK = 1e-9  # of what is added: more than the rounding of a sum of weights
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)

# A list of the event: its next posting, its end, and its largest weight times the event's.
CURSOR = np.dtype([("at", "i8"), ("end", "i8"), ("bound", "f8")])


class KIndexScratch(State):
    candidates: Candidates = nested(Candidates)
    cursors: np.ndarray = array(CURSOR)  # one for each list of the event
    heads: np.ndarray = array(np.uint64)  # ordinal << 32 | cursor, ascending


@kernel
def answer_events(index, store, scratch, query, first, out, ends):
    """Answer events[first:]; return the first not done (out is full) or their number. ends[e] is where e's hits end."""
    candidates, events, combine = scratch.candidates, query.events, query.combine
    start_answers(candidates, query)
    answer, relaxed = candidates.answer[0], query.mode & ANY
    last = index.sizes.size - 1
    for e in range(first, ends.size):
        if not begin_answer(store, candidates, events, combine, e, out):
            return e
        lists = choose_lists(index, scratch, events, e)
        # Rows that no list may lead to: without intervals; relaxed, those that test for an absence.
        for i in range(index.absent.size if relaxed else index.sizes[1]):
            ordinal = np.int64(index.absent[i]) if relaxed else i
            add_candidate(store, candidates, events, combine, index.slots[ordinal], out)
            if answer.end < 0:
                break
        size = np.int64(1)
        while size < last and answer.end >= 0:
            until = last if relaxed else size + 1
            if (relaxed or size <= lists) and index.sizes[until] > index.sizes[size]:
                intersect_lists(index, store, scratch, events, combine, lists, size, until, out)
            size = until
        if not end_answer(store, candidates, events, combine, e, out, ends):
            return e
    return ends.size


@helper
def intersect_lists(index, store, scratch, events, combine, lists, size, until, out):
    """Make candidates of the rows of these sizes that stand in enough lists (the conjunction algorithm).

    Top-k leaves out all of them, or a row, if the weights of the lists cannot reach the k-th score.
    """
    candidates, relaxed = scratch.candidates, scratch.candidates.answer[0].mode & ANY
    needed = np.int64(1) if relaxed else size
    priority, absent = largest_of(index, size, until)
    least = score_to_reach(candidates, out) if combine is None else -np.inf
    if least > -np.inf and priority_plus(priority, absent + heaviest_lists(scratch, lists, size, relaxed)) < least:
        return
    limit = index.sizes[until]
    active = start_lists(index, scratch, lists, index.sizes[size], limit)
    passed = np.int64(0)  # of index.absent, whose rows are candidates already in relaxed mode
    while candidates.answer[0].end >= 0:
        active, having, ordinal = next_common(index, scratch, active, needed, limit)
        if having == 0:
            break
        wanted = True
        if relaxed:
            while passed < index.absent.size and np.int64(index.absent[passed]) < ordinal:
                passed += 1
            wanted = passed == index.absent.size or np.int64(index.absent[passed]) != ordinal
        if candidates.answer[0].k > 0 and combine is None:
            weights = absent
            for i in range(having):
                weights += scratch.cursors[np.int64(scratch.heads[i] & _LOW)].bound
            wanted = wanted and priority_plus(priority, weights) >= score_to_reach(candidates, out)
        if wanted:
            add_candidate(store, candidates, events, combine, index.slots[ordinal], out)
        active = step_over(index, scratch, active, having, limit)


@helper
def largest_of(index, size, until):
    """What no row of these sizes exceeds: priority, weights on absences."""
    priority, absent = -np.inf, 0.0
    for s in range(size, until):
        priority = max(priority, index.tops[s].priority)
        absent = max(absent, index.tops[s].absent)
    return priority, absent


@helper
def heaviest_lists(scratch, lists, size, relaxed):
    """The sum of the largest weights of the event's lists: of all of them in relaxed mode, else of the `size` heaviest.

    `heads` marks the lists that are counted; `start_lists` fills it anew.
    """
    total = 0.0
    for which in range(lists):
        scratch.heads[which] = np.uint64(0)
    for _ in range(lists if relaxed else size):
        most, where = -1.0, np.int64(0)
        for which in range(lists):
            if not scratch.heads[which] and scratch.cursors[which].bound > most:
                most, where = scratch.cursors[which].bound, which
        scratch.heads[where] = np.uint64(1)
        total += most
    return total


@helper
def priority_plus(priority, weights):
    """No score of this priority and these weights is higher."""
    return priority + weights + (abs(priority) + weights) * SLACK


@helper
def cell_holding(index, dim, key):
    """The cell of a key: how many bounds of the dimension are not above it. O(log cells)."""
    first = index.dimensions[dim]
    low, high = first, index.dimensions[dim + 1]
    while low < high:
        middle = (low + high) >> 1
        if index.bounds[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low - first


@helper
def choose_lists(index, scratch, events, e):
    """Put the lists that the event's values lead to into `cursors`; return how many. O(values log cells)."""
    n = np.int64(0)
    for i in range(events.offsets[e], events.offsets[e + 1]):
        dim = np.int64(events.dims[i])
        if dim >= index.dimensions.size - 1 or (i > events.offsets[e] and events.dims[i - 1] == events.dims[i]):
            continue
        value = scratch.candidates.values[dim]
        first, whole = index.dimensions[dim] + 2 * dim, index.dimensions[dim + 1] + 2 * dim + 1
        begin, last = n, np.int64(-1)  # of the cells whose lists are chosen
        for part in range(np.int64(value.first), np.int64(value.first) + np.int64(value.parts)):
            low, high = cell_holding(index, dim, events.lo[part]), cell_holding(index, dim, events.hi[part])
            if high - low >= NEAR or n - begin > MAX_LISTS:
                n = choose_list(index, scratch, whole, value.weight, begin)
                break
            for cell in range(max(low, last + 1), high + 1):
                n = choose_list(index, scratch, first + cell, value.weight, n)
            last = high
    return n


@helper
def choose_list(index, scratch, list_, weight, n):
    """Put a list behind n others into `cursors`, unless it is empty; return how many there are."""
    if index.lists[list_] < index.lists[list_ + 1]:
        cursor = scratch.cursors[n]
        cursor.at, cursor.end = index.lists[list_], index.lists[list_ + 1]
        cursor.bound = np.float64(index.heaviest[list_]) * weight
        n += 1
    return n


@helper
def skip_to(index, scratch, which, ordinal):
    """Move the list to its first posting not below the ordinal: galloping, then halving. O(log skipped)."""
    cursor = scratch.cursors[which]
    at, end, low = cursor.at, cursor.end, cursor.at
    step, tests = np.int64(1), np.int64(0)
    while at < end and np.int64(index.postings[at]) < ordinal:
        tests += 1
        low = at + 1
        at += step
        step *= 2
    high = min(at, end)
    while low < high:
        tests += 1
        middle = (low + high) >> 1
        if np.int64(index.postings[middle]) < ordinal:
            low = middle + 1
        else:
            high = middle
    cursor.at = low
    count_tests(scratch.candidates, BOUNDARIES, tests)


@helper
def head_of(index, scratch, which, limit):
    """The list's next ordinal with its cursor below it; above all others when it has none left before `limit`."""
    cursor = scratch.cursors[which]
    count_tests(scratch.candidates, BOUNDARIES, ONE)
    ordinal = np.uint64(limit)
    if cursor.at < cursor.end and np.int64(index.postings[cursor.at]) < limit:
        ordinal = np.uint64(index.postings[cursor.at])
    return (ordinal << _32) | np.uint64(which)


@helper
def start_lists(index, scratch, lists, first, limit):
    """Bring all lists to the ordinals first .. limit - 1 and sort their heads; return how many have any."""
    for which in range(lists):
        skip_to(index, scratch, which, first)
        scratch.heads[which] = head_of(index, scratch, which, limit)
    return sort_heads(scratch, lists, lists, limit)


@helper
def sort_heads(scratch, active, moved, limit):
    """Sort the heads, all but the first `moved` of which are in order; return how many are not exhausted."""
    heads = scratch.heads
    for i in range(moved - 1, -1, -1):  # from the back: each is put into the ordered rest
        head = heads[i]
        j = i + 1
        while j < active and heads[j] < head:
            heads[j - 1] = heads[j]
            j += 1
        heads[j - 1] = head
    while active > 0 and np.int64(heads[active - 1] >> _32) >= limit:
        active -= 1
    return active


@helper
def next_common(index, scratch, active, needed, limit):
    """Move on to the next ordinal that stands in at least `needed` lists; return (active lists, how many have it, ordinal).

    The needed-th head is the least ordinal that can be in so many lists, so those before it skip there.
    """
    heads = scratch.heads
    while active >= needed:
        pivot = heads[needed - 1] >> _32
        if heads[0] >> _32 == pivot:
            having = needed
            while having < active and heads[having] >> _32 == pivot:
                having += 1
            return active, having, np.int64(pivot)
        moved = np.int64(0)
        while heads[moved] >> _32 < pivot:
            which = np.int64(heads[moved] & _LOW)
            skip_to(index, scratch, which, np.int64(pivot))
            heads[moved] = head_of(index, scratch, which, limit)
            moved += 1
        scratch.candidates.work[VISITED] += moved
        active = sort_heads(scratch, active, moved, limit)
    return active, np.int64(0), np.int64(0)


@helper
def step_over(index, scratch, active, having, limit):
    """Move the first `having` lists past their common ordinal; return how many lists are active."""
    for i in range(having):
        which = np.int64(scratch.heads[i] & _LOW)
        scratch.cursors[which].at += 1
        scratch.heads[i] = head_of(index, scratch, which, limit)
    scratch.candidates.work[VISITED] += having
    return sort_heads(scratch, active, having, limit)
