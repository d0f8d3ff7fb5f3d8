"""Candidates of an event: collected by a structure, verified in runs, added to the answer. In: slots. Out: hits.

A structure answers each event of a batch in the same way:

    begin_answer      load the event, begin its answer
    candidates.slots  the structure puts candidates there, `answer.found` of them; `verify_found` empties the buffer
    end_answer        verify what is left, put the answer in order

A row is a head (32 bytes) and its entries (32 bytes each) at unrelated places in memory, so both are prefetched a few rows before
they are read. Rows of single intervals, against an event without lists, need no branch for each entry: every interval
is compared with both ends of the event's value at once (`box_holds` over `keys`), and one answer comes out.

Where rows have grades, the candidates for the k best are verified in falling order of their ceilings (`ceilings`), as long as one
of them can be among the k best.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, subroutine
from matchwood.jit.intrinsics import box_holds, prefetch
from matchwood.jit.state import State, array
from matchwood.store.kernels.ceilings import ceiling_of, may_use
from matchwood.store.kernels.distances import PREFETCH_ROWS
from matchwood.store.kernels.results import finish_hits, take_hit
from matchwood.store.kernels.rows import JOINED, prefetch_entries
from matchwood.store.kernels.verify import ANY, VALUE, entry_holds, load_event, score_row, unload_event

MAX_FOUND, MAX_RANKED = 4096, 16
"""Candidates in the buffer before they are verified; fewer for top-k, whose bounds need the k-th score so far."""

# An event's value in one dimension: hi and -lo, so that one comparison of pairs tests both ends; NaN where it is absent.
KEY = np.dtype([("hi", "f8"), ("below", "f8"), ("weight", "f8"), ("pad", "f8")])

# The answer to one event: its hits are out[begin:end], end = -1 once `out` is full. The mode and k are those of the query.
ANSWER = np.dtype(
    [
        ("begin", "i8"),
        ("end", "i8"),
        ("found", "i8"),  # candidates in the buffer
        ("single", "i8"),  # has every value of the event one interval?
        ("mode", "i8"),
        ("k", "i8"),
        ("ranks", "i8"),  # are candidates verified in the order of their ceilings?
    ]
)

# positions in a tally of tests; typed, because Numba compiles a helper anew for each literal that it is given
BOUNDARIES, SIGNATURES, PREDICATES = np.int64(0), np.int64(1), np.int64(2)
TALLY = 3
ONE = np.int64(1)

# positions in `Candidates.work`
VERIFIED, VISITED = 0, 1
WORK = 2


class Candidates(State):
    """Scratch: the loaded event, its candidates and its answer."""

    values: np.ndarray = array(VALUE)  # by dimension
    keys: np.ndarray = array(KEY)  # by dimension
    seen: np.ndarray = array(np.uint32)  # by slot
    slots: np.ndarray = array(np.uint32)  # [MAX_FOUND + 1]
    ceilings: np.ndarray = array(np.float64)  # [MAX_FOUND + 1]: of these
    answer: np.ndarray = array(ANSWER)  # [1]
    work: np.ndarray = array(np.int64)  # [WORK]: rows verified, parts of the structure visited
    tally: np.ndarray = array(np.int64)  # [TALLY] to count every test; empty: do not count


@helper
def count(tally, place, number):
    """Add to a tally, if there is one: without, the branch is pruned when compiled."""
    if tally is not None:
        tally[place] += number


@helper
def count_tests(candidates, place, number):
    """Add to the tally of tests, if tests are counted."""
    if candidates.tally.size > 0:
        candidates.tally[place] += number


@helper
def load_keys(keys, events, e):
    """Spread event e over `keys`; return whether every value is a single interval. O(its entries)."""
    single = True
    for i in range(events.offsets[e], events.offsets[e + 1]):
        single &= i == events.offsets[e] or events.dims[i] != events.dims[i - 1]
        dim = np.int64(events.dims[i])
        if dim < keys.size:
            key = keys[dim]
            key.hi, key.below, key.weight = events.hi[i], -events.lo[i], events.weight[i]
    return single


@helper
def unload_keys(keys, events, e):
    """Make every dimension of event e absent again. O(its entries)."""
    for i in range(events.offsets[e], events.offsets[e + 1]):
        dim = np.int64(events.dims[i])
        if dim < keys.size:
            key = keys[dim]
            key.hi, key.below, key.weight = np.nan, np.nan, 1.0


@helper
def score_single(store, slot, keys):
    """(score, does the row match?, kinds of its entries). O(entries).

    Right if the kinds are PLAIN and JOINED (those weigh nothing, so they may be added like all others) and the event is single.
    """
    row = store.rows[slot]
    start = np.int64(row.start)
    score = row.priority
    holds = np.uint64(3)
    kinds = np.uint16(0)
    for at in range(start, start + np.int64(row.count)):
        entry = store.entries[at]
        dim = np.int64(entry.dim)
        holds &= box_holds(store.entries, at, keys, dim)
        score += entry.weight * keys[dim].weight
        kinds |= entry.kind
    return score, holds == np.uint64(3), kinds


@helper
def entries_tested(store, slot, values, events, mode):
    """How many entries `score_row` looks at: up to the first that fails, all of them in relaxed mode."""
    row = store.rows[slot]
    number = np.int64(row.count)
    if not mode & ANY:
        for at in range(np.int64(row.count)):
            if not entry_holds(store.entries, np.int64(row.start), at, values, events):
                number = np.int64(at) + 1
                break
    return number


@helper
def count_entries(tally, store, slot, values, events, mode):
    """Add the entries that `score_row` looks at to a tally, if there is one."""
    if tally is not None:
        tally[PREDICATES] += entries_tested(store, slot, values, events, mode)


@helper
def start_answers(candidates, query):
    """Begin to answer a query: the first answer begins at 0."""
    answer = candidates.answer[0]
    answer.end, answer.mode, answer.k = np.int64(0), np.int64(query.mode), np.int64(query.k)


@helper
def begin_answer(store, candidates, events, combine, e, out):
    """Load event e, whose answer begins where the last one ended; False, and nothing is done, if `out` has no room for k hits."""
    answer = candidates.answer[0]
    if answer.end + answer.k > out.ids.size:
        return False
    answer.begin, answer.found = answer.end, np.int64(0)
    load_event(candidates.values, events, e)
    answer.single = np.int64(load_keys(candidates.keys, events, e))
    answer.ranks = np.int64(answer.k > 0 and may_use(store, events, e, answer.mode, combine))
    return True


@helper
def end_answer(store, candidates, events, combine, e, out, ends):
    """Verify the candidates that are left and end the answer to event e; False if `out` was full."""
    answer = candidates.answer[0]
    if answer.end >= 0 and answer.found > 0:
        verify_found(store, candidates, events, combine, out)
    unload_event(candidates.values, events, e)
    unload_keys(candidates.keys, events, e)
    if answer.end < 0:
        return False
    finish_hits(out, answer.begin, answer.end, answer.k)
    ends[e] = answer.end
    return True


@helper
def score_to_reach(candidates, out):
    """The k-th best score so far, which a row must reach to be among the k best; -inf while there are fewer hits."""
    answer = candidates.answer[0]
    if answer.k == 0 or answer.end - answer.begin < answer.k:
        return -np.inf
    return out.scores[answer.begin]


@helper
def add_candidate(store, candidates, events, combine, slot, out):
    """Put a row into the buffer, which is verified when it is full; `answer.end` is negative then if `out` is full."""
    answer = candidates.answer[0]
    candidates.slots[answer.found] = np.uint32(slot)
    answer.found += 1
    if answer.found >= (MAX_FOUND if answer.k == 0 or answer.ranks else MAX_RANKED):
        verify_found(store, candidates, events, combine, out)


@subroutine
def verify_found(store, candidates, events, combine, out):
    """Verify the candidates in the buffer, add the hits to the answer and empty the buffer. O(their entries)."""
    answer, slots = candidates.answer[0], candidates.slots
    if answer.ranks:
        verify_highest(store, candidates, events, combine, out)
        return
    found = answer.found
    candidates.work[VERIFIED] += found
    single = combine is None and answer.single and not answer.mode & ANY
    for i in range(min(2 * PREFETCH_ROWS, found)):
        prefetch(store.rows, np.int64(slots[i]))
    for i in range(min(PREFETCH_ROWS, found)):
        prefetch_entries(store, store.rows[np.int64(slots[i])])
    if candidates.tally.size > 0:
        for i in range(found):
            candidates.tally[PREDICATES] += np.int64(store.rows[np.int64(slots[i])].count)
    n = answer.end
    for i in range(found):
        if i + 2 * PREFETCH_ROWS < found:
            prefetch(store.rows, np.int64(slots[i + 2 * PREFETCH_ROWS]))
        if i + PREFETCH_ROWS < found:
            prefetch_entries(store, store.rows[np.int64(slots[i + PREFETCH_ROWS])])
        slot = np.int64(slots[i])
        plain = False
        if single:
            score, holds, kinds = score_single(store, slot, candidates.keys)
            plain = kinds & ~JOINED == 0
            if plain and not holds:
                continue
        if not plain:
            score = score_row(store, slot, candidates.values, events, answer.mode, combine)
            if np.isnan(score):
                continue
        n = take_hit(store, slot, score, out, answer.begin, n, answer.k, candidates.seen)
        if n < 0:
            break
    answer.end, answer.found = n, np.int64(0)


@helper
def verify_highest(store, candidates, events, combine, out):
    """`verify_found` in falling order of the ceilings: a heap, from which as many are taken as can be among the k best."""
    answer, slots, ceilings = candidates.answer[0], candidates.slots, candidates.ceilings
    least, left = score_to_reach(candidates, out), np.int64(0)
    for i in range(answer.found):
        prefetch(store.ceilings, np.int64(slots[min(i + PREFETCH_ROWS, answer.found)]))
        slot = slots[i]
        ceiling = ceiling_of(store, np.int64(slot), candidates.values)
        if not ceiling < least:
            slots[left], ceilings[left] = slot, np.inf if np.isnan(ceiling) else ceiling
            left += 1
    for at in range((left >> 1) - 1, -1, -1):
        sink(slots, ceilings, left, at, slots[at], ceilings[at])
    while left > 0 and not ceilings[0] < least:
        slot = np.int64(slots[0])
        left -= 1
        sink(slots, ceilings, left, np.int64(0), slots[left], ceilings[left])
        prefetch(store.rows, np.int64(slots[0]))
        candidates.work[VERIFIED] += 1
        count_tests(candidates, PREDICATES, np.int64(store.rows[slot].count))
        score = score_row(store, slot, candidates.values, events, answer.mode, combine)
        if not np.isnan(score):
            answer.end = take_hit(store, slot, score, out, answer.begin, answer.end, answer.k, candidates.seen)
            least = score_to_reach(candidates, out)
    answer.found = np.int64(0)


@helper
def sink(slots, ceilings, size, at, slot, ceiling):
    """Put a slot at `at` of the heap of the highest ceilings, or below. O(log size)."""
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and ceilings[child + 1] > ceilings[child]:
            child += 1
        if ceilings[child] <= ceiling:
            break
        slots[at], ceilings[at] = slots[child], ceilings[child]
        at = child
    slots[at], ceilings[at] = slot, ceiling
