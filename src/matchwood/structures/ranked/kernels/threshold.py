"""The Threshold Algorithm over ranked stabs, one stream a dimension (Ranked 1 and 4). In: a forest over the rows of a store.

Rows come up in descending keys. Those that can be among the k best are verified in the store, in batches; the algorithm stops
when no unseen row can be among the k best (`bounds`), or when all streams have ended.

In mode `all`, a dimension that every row constrains bounds the unseen rows alone. Bounds are rounded up, since sums in another
order may differ in the last bits.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel, subroutine
from matchwood.jit.intrinsics import prefetch
from matchwood.jit.state import State, array, nested
from matchwood.store.kernels.parts import value_meets
from matchwood.store.kernels.results import finish_hits, take_hit
from matchwood.store.kernels.rows import prefetch_entries
from matchwood.store.kernels.verify import ANY, VALUE, load_event, score_row, unload_event
from matchwood.structures.ranked.kernels.bounds import (
    BY_SCORE,
    STREAM,
    RowBounds,
    largest_gain,
    mark_optional,
    raised,
    unseen_bound,
)
from matchwood.structures.ranked.kernels.layout import Cursors, Forest
from matchwood.structures.ranked.kernels.stab import CURSOR_FULL, next_hit, open_cursor

EXPLORE = 16  # rounds over all streams before the lowest alone goes on
MAX_BATCH = 64  # rows that are verified together


class RankedSearch(State):
    """What the Threshold Algorithm reads, and its scratch."""

    forest: Forest = nested(Forest)
    bounds: RowBounds = nested(RowBounds)
    cursors: Cursors = nested(Cursors)  # one a stream
    streams: np.ndarray = array(STREAM)
    values: np.ndarray = array(VALUE)  # by dimension
    seen: np.ndarray = array(np.uint32)  # by slot: for rows with siblings
    stamps: np.ndarray = array(np.uint32)  # by slot: the last event that the row came up for
    epoch: np.ndarray = array(np.int64)  # [1]: the number of the event
    pending: np.ndarray = array(np.uint32)  # [MAX_BATCH]: rows to be verified
    candidates: np.ndarray = array(np.int64)  # [1]: how many there were


@subroutine
def open_streams(search, events, e):
    """Open a stream for each dimension that the event and the trees share, ascending; return how many, or CURSOR_FULL."""
    forest, bounds, streams = search.forest, search.bounds, search.streams
    m = np.int64(0)
    for i in range(events.offsets[e], events.offsets[e + 1]):
        dim = np.int64(events.dims[i])
        if dim >= forest.firsts.size or bounds.counts[dim] == 0:
            continue
        if i > events.offsets[e] and events.dims[i - 1] == events.dims[i]:
            continue
        at = m
        while at > 0 and streams[at - 1].dim > dim:
            streams[at].dim = streams[at - 1].dim
            at -= 1
        streams[at].dim = dim
        m += 1
    for c in range(m):
        stream = streams[c]
        value = search.values[stream.dim]
        stream.gain, stream.max_weight = value.weight, bounds.max_weight[stream.dim]
        stream.complete = np.int32(bounds.counts[stream.dim] == bounds.summary[0].rows)
        stream.optional, stream.is_list = np.int32(0), np.int64(value.parts > 1)
        if not open_cursor(forest, search.cursors, c, stream.dim, value.lo, value.hi) or not pull(search, events, c):
            return CURSOR_FULL
    return m


@subroutine
def lies_between(search, events, dim, hit):
    """Is the entry, if there is one, between the values of the event's list?"""
    return hit >= 0 and not value_meets(search.values[dim], events, search.forest.lo[hit], search.forest.hi[hit])


@helper
def pull(search, events, c):
    """Move stream c to its next entry; False if its cursor is full. Entries between the values of a list are left out."""
    stream = search.streams[c]
    while True:
        hit = next_hit(search.forest, search.cursors, c)
        if not stream.is_list or not lies_between(search, events, stream.dim, hit):
            break
    if hit == CURSOR_FULL:
        return False
    stream.hit = hit
    stream.next = search.forest.score[hit] if hit >= 0 else -np.inf
    return True


@helper
def choose_stream(summary, streams, m, step, mode, least):
    """The stream to pull next, or -1 if no unseen row can match, or have the score `least`."""
    if not mode & ANY:
        return choose_complete(streams, m, step)
    by_score = summary.order == BY_SCORE
    best = np.int64(-1)
    gain = largest_gain(streams, m) - 1.0 if by_score else 0.0
    for i in range(m):
        d = (step + i) % m
        if streams[d].hit < 0 or streams[d].optional:
            continue
        if by_score:
            # One stream after the other, to its end: those that have fallen deepest have the fewest rows left, and the
            # k-th score that they give may make all others optional.
            if raised(streams[d].next, gain, summary.lowest) < least:
                continue
            if step < EXPLORE * m:
                return d
            if best < 0 or streams[d].next < streams[best].next:
                best = d
        elif best < 0 or streams[d].gain * streams[d].next > streams[best].gain * streams[best].next:
            best = d
    return best


@helper
def choose_complete(streams, m, step):
    """Mode `all`: complete streams are explored in turn, then the one whose keys have fallen deepest goes on alone."""
    lowest = np.int64(-1)
    for d in range(m):
        if streams[d].complete:
            if streams[d].hit < 0:
                return np.int64(-1)
            if lowest < 0 or streams[d].next < streams[lowest].next:
                lowest = d
    if lowest >= 0 and step >= EXPLORE * m:
        return lowest
    for i in range(m):
        d = (step + i) % m
        if streams[d].hit >= 0 and (lowest < 0 or streams[d].complete):
            return d
    return np.int64(-1)


@helper
def lacks_common_dimension(search, mode):
    """Mode `all`: does the event lack a dimension that every row of the trees constrains?"""
    rows, counts = search.bounds.summary[0].rows, search.bounds.counts
    if mode & ANY or rows == 0:
        return False
    for d in range(counts.size):
        if counts[d] == rows and np.isnan(search.values[d].lo):
            return True
    return False


@helper
def next_epoch(search):
    search.epoch[0] += 1
    if search.epoch[0] == 0xFFFFFFFF:
        search.stamps[:] = np.uint32(0)
        search.epoch[0] = 1
    return np.uint32(search.epoch[0])


@helper
def add_pending(search, store, size, slot):
    """Let a row be verified; return how many are pending."""
    search.pending[size] = np.uint32(slot)
    prefetch(store.rows, np.int64(slot))
    return size + 1


@kernel
def answer_many(search, store, events, first, mode, combine, k, out, ends):
    """Answer events[first:]: every match (k = 0), or the k best.

    Return the first event not answered, or their number, and whether it stopped because a cursor is full, not `out`.
    ends[e] is where the hits of event e end.
    """
    bounds, streams, pending = search.bounds, search.streams, search.pending
    summary = bounds.summary[0]
    by_score = summary.order == BY_SCORE
    n = np.int64(0)
    for e in range(first, ends.size):
        if n + k > out.ids.size:
            return e, False
        begin = n
        load_event(search.values, events, e)
        epoch = next_epoch(search)
        m = np.int64(0)
        if not lacks_common_dimension(search, mode):
            m = open_streams(search, events, e)
        gain = largest_gain(streams, m) - 1.0
        batch = min(max(k, 8), MAX_BATCH)
        full = m == CURSOR_FULL
        more = not full
        step, listed = np.int64(0), np.int64(0)
        while n >= 0 and (more or listed < bounds.always.size):
            kth = out.scores[begin] if k > 0 and n - begin == k else -np.inf
            least = kth if combine is None else -np.inf  # totals do not bound a user's scoring function
            size = np.int64(0)
            while listed < bounds.always.size and size < MAX_BATCH:
                size = add_pending(search, store, size, bounds.always[listed])
                listed += 1
            while more and size < batch:
                c = choose_stream(summary, streams, m, step, mode, least)
                if c < 0:
                    more = False
                    break
                slot = search.forest.link[streams[c].hit]
                total = streams[c].next if by_score else np.float64(bounds.max_score[slot])
                full = not pull(search, events, c)
                step += 1
                if search.stamps[slot] != epoch and raised(total, gain, summary.lowest) >= least:
                    search.stamps[slot] = epoch
                    size = add_pending(search, store, size, slot)
                more = not full and not (kth > -np.inf and unseen_bound(bounds, streams, m, c, mode, combine) < kth)
            search.candidates[0] += size
            for i in range(size):
                prefetch_entries(store, store.rows[np.int64(pending[i])])
            for i in range(size):
                slot = np.int64(pending[i])
                score = score_row(store, slot, search.values, events, mode, combine)
                if not np.isnan(score):
                    n = take_hit(store, slot, score, out, begin, n, k, search.seen)
                    if n < 0:
                        break
            batch = min(2 * batch, MAX_BATCH)
            if combine is None and mode & ANY and by_score and k > 0 and n - begin == k:
                mark_optional(bounds, streams, m, out.scores[begin])
        unload_event(search.values, events, e)
        if full or n < 0:
            return e, full
        finish_hits(out, begin, n, k)
        ends[e] = n
    return ends.size, False
