"""Rows that passed a filter, verified with their cache lines asked for ahead. In: slots. Out: hits.

A candidate is a head (32 bytes) and its entries (32 bytes each) at unrelated places. Asking for them AHEAD rows before they are
read brought a BE*-Tree of 1M rows, about 1,260 candidates an event, from 463 us to 139 us; from 84 us to 63 us with the store in
the order of the filter.

Rows of single intervals, against an event without lists, need no branch an entry: every interval is compared with both
ends of the event's value at once (`box_holds` over `keys`), every weight is added, and one answer comes out. With the rows in
the cache that is 12 ns a row of eight entries in place of 20; a BE*-Tree of 1M rows went from 45 us an event to 35.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import box_holds, prefetch
from matchwood.store.kernels.results import emit
from matchwood.store.kernels.rows import JOINED
from matchwood.store.kernels.verify import ANY, entry_holds, score_row

AHEAD = 16  # rows between asking for a row's cache lines and reading them

# An event's value in one dimension: hi and -lo, so that one comparison of pairs tests both ends; NaN where it is absent.
KEY = np.dtype([("hi", "f8"), ("below", "f8"), ("weight", "f8"), ("pad", "f8")])

# places in a tally
BOUNDARIES, SIGNATURES, PREDICATES = 0, 1, 2
TALLY = 3


@helper
def count(tally, place, number):
    """Add to a tally, if there is one: without, the branch is pruned when compiled and the kernel is the timed one."""
    if tally is not None:
        tally[place] += number


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
def ask_for_row(store, slot):
    """Ask for the entries of a row."""
    row = store.rows[slot]
    start = np.int64(row.start)
    for at in range(start, start + np.int64(row.count), 2):  # two entries a line
        prefetch(store.entries, at)


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
def entries_tested(store, slot, values, events, how):
    """How many entries `score_row` looks at: up to the first that fails, all of them in relaxed mode."""
    row = store.rows[slot]
    number = np.int64(row.count)
    if not how & ANY:
        for at in range(np.int64(row.count)):
            if not entry_holds(store.entries, np.int64(row.start), at, values, events):
                number = np.int64(at) + 1
                break
    return number


@helper
def count_entries(tally, store, slot, values, events, how):
    """Add the entries that `score_row` looks at to a tally, if there is one."""
    if tally is not None:
        tally[PREDICATES] += entries_tested(store, slot, values, events, how)


@kernel
def verify_found(store, scratch, found, single, events, how, combine, out, begin, n):
    """Verify the first `found` rows of scratch.found and emit the hits; return the new count, -1 if out is full.

    Row heads are asked for 2 * AHEAD rows before they are verified, entries AHEAD rows before. `single` is what
    `load_keys` said of the event.
    """
    rows = scratch.found
    single = single and not how & ANY
    for i in range(min(2 * AHEAD, found)):
        prefetch(store.rows, np.int64(rows[i]))
    for i in range(min(AHEAD, found)):
        ask_for_row(store, np.int64(rows[i]))
    for i in range(found):
        if i + 2 * AHEAD < found:
            prefetch(store.rows, np.int64(rows[i + 2 * AHEAD]))
        if i + AHEAD < found:
            ask_for_row(store, np.int64(rows[i + AHEAD]))
        slot = np.int64(rows[i])
        plain = False
        if combine is None:
            if single:
                score, holds, kinds = score_single(store, slot, scratch.keys)
                plain = kinds & ~JOINED == 0
                if plain:
                    count(scratch.tally, PREDICATES, np.int64(store.rows[slot].count))
                    if not holds:
                        continue
        if not plain:
            count_entries(scratch.tally, store, slot, scratch.values, events, how)
            score = score_row(store, slot, scratch.values, events, how, combine)
            if np.isnan(score):
                continue
        n = emit(store, slot, score, out, begin, n, scratch.seen)
        if n < 0:
            break
    return n
