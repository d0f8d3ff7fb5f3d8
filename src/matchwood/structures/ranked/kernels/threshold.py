"""The Threshold Algorithm over ranked stabs, one stream a dimension (Ranked 1 and 4). In: a forest over the rows of a store.

Rows come up in descending keys; each that can still matter is verified in the store and offered to the k best; pulling stops
when `bounds` says that no unseen row can be among them.

Matching `all`, a dimension that every row constrains bounds the unseen rows alone. Pulling stops when the bound is below
the k-th score; bounds are rounded up, since sums in another order may differ in the last bits. A row whose total cannot
reach the k-th score is not verified.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch
from matchwood.store.kernels.candidates import ask_for_row
from matchwood.store.kernels.results import best_first, emit, offer
from matchwood.store.kernels.verify import ANY, load_event, score_row, unload_event
from matchwood.structures.ranked.kernels.bounds import BY_SCORE, largest_gain, mark_optional, raised, unseen_bound
from matchwood.structures.ranked.kernels.stab import FULL, next_hit, open_cursor

EXPLORE = 16  # rounds over all complete streams before the lowest alone goes on
BATCH = 64


class Scratch(NamedTuple):
    values: np.ndarray  # VALUE, one a dimension
    seen: np.ndarray  # uint32, one a slot: for siblings
    stamps: np.ndarray  # uint32, one a slot: the last event the row came up for
    epoch: np.ndarray  # int64 [1]
    streams: np.ndarray  # STREAM, one a dimension of an event
    waiting: np.ndarray  # uint32 [BATCH]: rows to be verified


@helper
def open_streams(forest, cursors, plan, scratch, events, e):
    """One stream for each dimension that the event and the trees share, dimensions ascending: their number, or FULL."""
    streams = scratch.streams
    m = np.int64(0)
    for i in range(events.offsets[e], events.offsets[e + 1]):
        dim = np.int64(events.dims[i])
        if dim >= forest.firsts.size or plan.counts[dim] == 0:
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
        value = scratch.values[stream.dim]
        stream.gain, stream.most = value.weight, plan.weight[stream.dim]
        stream.complete = np.int32(plan.counts[stream.dim] == plan.rows[0])
        stream.optional = np.int32(0)
        if not open_cursor(forest, cursors, c, stream.dim, value.lo, value.hi):
            return FULL
        if not pull(forest, cursors, streams, c):
            return FULL
    return m


@helper
def pull(forest, cursors, streams, c):
    """Move stream c to its next entry; False if its cursor is full."""
    stream = streams[c]
    hit = next_hit(forest, cursors, c)
    if hit == FULL:
        return False
    stream.hit = hit
    stream.next = forest.score[hit] if hit >= 0 else -np.inf
    return True


@helper
def choose(plan, streams, m, step, how, least):
    """The stream to pull next, or -1 when no unseen row can match, or beat the score `least`."""
    if not how & ANY:
        return choose_complete(streams, m, step)
    by_score = plan.order[0] == BY_SCORE
    best = np.int64(-1)
    gain = largest_gain(streams, m) - 1.0 if by_score else 0.0
    for i in range(m):
        d = (step + i) % m
        if streams[d].hit < 0 or streams[d].optional:
            continue
        if by_score:
            # One stream after the other, to its end: those that have fallen deepest have the fewest rows left, and the
            # k-th score that they give may spare all others. Pulling the highest instead took ten times as many rows.
            if raised(streams[d].next, gain, plan.lowest[0]) < least:
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
    """Matching `all`: complete streams are explored in turn, then the one whose keys have fallen deepest goes on alone."""
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
def nobody(plan, scratch, how):
    """Matching `all`: does the event lack a dimension that every row of the trees constrains?"""
    if how & ANY:
        return False
    for d in range(plan.counts.size):
        if plan.rows[0] > 0 and plan.counts[d] == plan.rows[0] and np.isnan(scratch.values[d].lo):
            return True
    return False


@helper
def next_epoch(scratch):
    scratch.epoch[0] += 1
    if scratch.epoch[0] == 0xFFFFFFFF:
        scratch.stamps[:] = np.uint32(0)
        scratch.epoch[0] = 1
    return np.uint32(scratch.epoch[0])


@helper
def fetch_rows(store, waiting, size):
    """Have the entries of these rows on their way before the first is needed: rows are scattered, and a miss costs more than a
    verification. 3 times faster than one row after the other, relaxed, four dimensions, 1M rows."""
    for i in range(size):
        ask_for_row(store, np.int64(waiting[i]))


@kernel
def top_many(forest, cursors, store, plan, scratch, events, first, how, combine, k, out, ends, candidates):
    """The k best of events[first:]; return (the first event not done, or their number; was a cursor too small?)."""
    n = np.int64(0)
    streams, waiting = scratch.streams, scratch.waiting
    for e in range(first, ends.size):
        if n + k > out.ids.size:
            return e, False
        held = np.int64(0)
        load_event(scratch.values, events, e)
        m = np.int64(0)
        if not nobody(plan, scratch, how):
            m = open_streams(forest, cursors, plan, scratch, events, e)
        gain = largest_gain(streams, m) - 1.0
        epoch = next_epoch(scratch)
        step = np.int64(0)
        listed = np.int64(0)
        batch = min(max(k, 8), BATCH)
        full = m == FULL
        more = not full
        while more or listed < plan.always.size:
            size = np.int64(0)
            while listed < plan.always.size and size < BATCH:
                waiting[size] = plan.always[listed]
                prefetch(store.rows, np.int64(plan.always[listed]))
                listed += 1
                size += 1
            while more and size < batch:
                c = choose(plan, streams, m, step, how, out.scores[n] if held == k and combine is None else -np.inf)
                if c < 0:
                    more = False
                    break
                slot = forest.link[streams[c].hit]
                most = streams[c].next if plan.order[0] == BY_SCORE else np.float64(plan.most[slot])
                full = not pull(forest, cursors, streams, c)
                step += 1
                most = raised(most, gain, plan.lowest[0])
                worth = held < k or combine is not None or most >= out.scores[n]
                if worth and scratch.stamps[slot] != epoch:
                    scratch.stamps[slot] = epoch
                    waiting[size] = np.uint32(slot)
                    prefetch(store.rows, slot)
                    size += 1
                more = not full
                if held == k and unseen_bound(plan, streams, m, c, how, combine) < out.scores[n]:
                    more = False
            fetch_rows(store, waiting, size)
            candidates[0] += size
            for i in range(size):
                slot = np.int64(waiting[i])
                score = score_row(store, slot, scratch.values, events, how, combine)
                if not np.isnan(score):
                    held = offer(store, slot, score, out, n, held, k)
            batch = min(2 * batch, BATCH)
            if combine is None:
                if held == k and how & ANY and plan.order[0] == BY_SCORE:
                    mark_optional(plan, streams, m, out.scores[n])
        unload_event(scratch.values, events, e)
        if full:
            return e, True
        best_first(out, n, held)
        n += held
        ends[e] = n
    return ends.size, False


@kernel
def match_many(forest, cursors, store, plan, scratch, events, first, how, combine, out, ends, candidates):
    """All matches of events[first:]; return (the first event not done, or their number; was a cursor too small?)."""
    n = np.int64(0)
    streams = scratch.streams
    for e in range(first, ends.size):
        begin = n
        load_event(scratch.values, events, e)
        for i in range(plan.always.size):
            slot = np.int64(plan.always[i])
            score = score_row(store, slot, scratch.values, events, how, combine)
            candidates[0] += 1
            if not np.isnan(score) and n >= 0:
                n = emit(store, slot, score, out, begin, n, scratch.seen)
        m = np.int64(0)
        if not nobody(plan, scratch, how):
            m = open_streams(forest, cursors, plan, scratch, events, e)
        epoch = next_epoch(scratch)
        step = np.int64(0)
        full = m == FULL
        while not full and n >= 0:
            c = choose(plan, streams, m, step, how, -np.inf)
            if c < 0:
                break
            slot = forest.link[streams[c].hit]
            full = not pull(forest, cursors, streams, c)
            step += 1
            if scratch.stamps[slot] != epoch:
                scratch.stamps[slot] = epoch
                score = score_row(store, slot, scratch.values, events, how, combine)
                candidates[0] += 1
                if not np.isnan(score):
                    n = emit(store, slot, score, out, begin, n, scratch.seen)
        unload_event(scratch.values, events, e)
        if full or n < 0:
            return e, full
        ends[e] = n
    return ends.size, False
