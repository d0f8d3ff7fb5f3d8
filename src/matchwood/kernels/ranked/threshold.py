"""The Threshold Algorithm over ranked stabs, one stream a dimension (Ranked 1 and 4). In: a forest over the rows of a store.

An entry of dimension d stands for one predicate of a row: its hull, its slot and a key. Streams run in descending keys; t[d] is
the next key of stream d. Which keys the trees are built on is the plan's `order`:

BY_SCORE   key = total, the row's priority and all its weights. With event weights up to 1 no score is above it, so a row
           that has not come up in any stream has at most the largest t. With a larger weight e: at most t + (e - 1) (t - p), p
           being the least priority.
BY_WEIGHT  key = p + w, the row's priority and the predicate's weight: the paper's. A row that has not come up in any stream and
           holds in dimension d has p + w[d] <= t[d], so its score is at most
               max over p of  p + sum over d of e[d] * min(W[d], t[d] - p),
           where e are the event's weights, W the largest weights, and p runs over the priorities there are, up to the
           largest t. Piecewise linear in p: its corners are enough, and one place if all priorities are equal.

           Matching `any`, streams whose largest weights together stay below the k-th score are spared: who is to be among the
           best must come up in another one.

For exact matching with zero weights both are the paper's: streams in score order. For relaxed matching totals are ours: four
dimensions, 1M rows, k = 20 take a twentieth of the time, since a high threshold asks for rows whose weights are high
together, not in each dimension for itself, and most streams are spared.

Matching `all`, a dimension that every row constrains bounds the unseen rows alone. Pulling stops when the bound is below
the k-th score; bounds are rounded up, since sums in another order may differ in the last bits. A row whose total cannot
reach the k-th score is not verified.

A scoring function of the user's is bounded by folding the largest weights in ascending dimensions, skipping any: right for every
monotone function if rows name their dimensions in ascending order; otherwise streams run to their ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.encode.arrays import INTERVAL
from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import prefetch
from matchwood.kernels.ranked.stab import FULL, next_hit, open_cursor
from matchwood.kernels.results import best_first, emit, offer
from matchwood.kernels.store import ABSENT, CIRCLE, JOINED, PLAIN
from matchwood.kernels.verify import ANY, folded, load_event, score_row, unload_event

STREAM = np.dtype(
    [
        ("next", "f8"),  # key of the entry that comes next
        ("gain", "f8"),  # the event's weight
        ("most", "f8"),  # the largest weight of the dimension
        ("hit", "i8"),  # the entry that comes next, negative at the end
        ("dim", "i8"),
        ("complete", "i4"),  # does every row of the trees constrain the dimension?
        ("optional", "i4"),  # can no row be among the best that holds in this and other optional dimensions only?
    ]
)
EXPLORE = 16  # rounds over all complete streams before the lowest alone goes on
SLACK = 1e-12
BATCH = 64


BY_SCORE, BY_WEIGHT = 0, 1


class Plan(NamedTuple):
    """What is known of the rows in the trees. Bounds stay valid when rows go."""

    lowest: np.ndarray  # float64 [1]: least priority
    highest: np.ndarray  # float64 [1]: greatest priority
    ascending: np.ndarray  # bool [1]: does every row name its dimensions in ascending order?
    rows: np.ndarray  # int64 [1]: how many
    order: np.ndarray  # int64 [1]: BY_SCORE or BY_WEIGHT
    weight: np.ndarray  # float64: largest weight, by dimension
    counts: np.ndarray  # int64: rows that constrain it, by dimension
    most: np.ndarray  # float32: priority and all weights, by slot, rounded up
    always: np.ndarray  # uint32: slots that no tree can lead to


class Scratch(NamedTuple):
    values: np.ndarray  # VALUE, one a dimension
    seen: np.ndarray  # uint32, one a slot: for siblings
    stamps: np.ndarray  # uint32, one a slot: the last event the row came up for
    epoch: np.ndarray  # int64 [1]
    streams: np.ndarray  # STREAM, one a dimension of an event
    waiting: np.ndarray  # uint32 [BATCH]: rows to be verified


@kernel
def split_rows(store, slots, plan, dims, lo, hi, keys, owners, outcasts):
    """The entries of these rows for the trees; return (entries, rows that no tree can lead to). Widens the plan. O(entries).

    A row with an absence, or without any interval, is an outcast: it is verified for every event.
    """
    n = np.int64(0)
    out = np.int64(0)
    for i in range(slots.size):
        slot = np.int64(slots[i])
        row = store.rows[slot]
        start, end = np.int64(row.start), np.int64(row.start) + np.int64(row.count)
        heads = np.int64(0)
        total = row.priority
        before = np.int64(-1)
        for at in range(start, end):
            entry = store.entries[at]
            if entry.kind == ABSENT:
                heads = np.int64(0)
                break
            if not entry.kind & (JOINED | CIRCLE):
                heads += 1
        if heads == 0:
            outcasts[out] = np.uint32(slot)
            out += 1
            continue
        plan.lowest[0] = min(plan.lowest[0], row.priority)
        plan.highest[0] = max(plan.highest[0], row.priority)
        first = n
        for at in range(start, end):
            entry = store.entries[at]
            if entry.kind & (JOINED | CIRCLE):
                continue
            dim = np.int64(entry.dim)
            dims[n], lo[n], hi[n] = entry.dim, entry.lo, entry.hi
            keys[n], owners[n] = row.priority + entry.weight, slot
            total += entry.weight
            plan.weight[dim] = max(plan.weight[dim], entry.weight)
            if dim <= before:
                plan.ascending[0] = False
            before = dim
            n += 1
        if plan.order[0] == BY_SCORE:
            keys[first:n] = total
        rounded = np.float32(total + abs(total) * SLACK)
        plan.most[slot] = np.nextafter(rounded, np.float32(np.inf))
    return n, out


@kernel
def same_intervals(store, slots, rows):
    """Are these rows, plain intervals all of them, those of the slots but for priorities and weights? O(entries)."""
    for r in range(slots.size):
        row = store.rows[np.int64(slots[r])]
        start, begin, end = np.int64(row.start), rows.offsets[r], rows.offsets[r + 1]
        if row.id != rows.ids[r] or np.int64(row.count) != end - begin:
            return False
        for at in range(end - begin):
            entry, e = store.entries[start + at], begin + at
            if entry.kind != PLAIN or rows.kinds[e] != INTERVAL or entry.dim != rows.dims[e]:
                return False
            if entry.lo != rows.lo[e] or entry.hi != rows.hi[e]:
                return False
    return True


@kernel
def write_scores(store, slots, rows):
    """Give rows for which `same_intervals` holds the priorities and weights of `rows`. O(entries)."""
    for r in range(slots.size):
        row = store.rows[np.int64(slots[r])]
        row.priority = rows.priority[r]
        for at in range(rows.offsets[r + 1] - rows.offsets[r]):
            store.entries[np.int64(row.start) + at].weight = rows.weight[rows.offsets[r] + at]


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
def score_at(streams, m, alone, p):
    """What an unseen row of priority p can have: `alone` is the one stream it is unseen in, or -1 for all."""
    total = p
    for d in range(m):
        gain = streams[d].most
        if alone < 0 or alone == d:
            gain = min(gain, max(0.0, streams[d].next - p))
        total += streams[d].gain * gain
    return total


@helper
def largest_gain(streams, m):
    gain = 1.0
    for d in range(m):
        gain = max(gain, streams[d].gain)
    return gain


@helper
def raised(total, gain, lowest):
    """The best score of a row of that total if event weights are up to 1 + gain."""
    if gain == 0.0:
        return total
    over = gain * (total - lowest)
    return total + over + (abs(total) + abs(lowest) + over) * SLACK


@helper
def bound(plan, streams, m, alone):
    """The best score that a row can have that is unseen in all streams (alone < 0) or in stream `alone`. O(m^2); O(m) often."""
    top = -np.inf
    for d in range(m):
        if (alone == d or (alone < 0 and not streams[d].optional)) and streams[d].next > top:
            top = streams[d].next
    low, high = plan.lowest[0], min(plan.highest[0], top)
    if plan.order[0] == BY_SCORE:
        return raised(top, largest_gain(streams, m) - 1.0, low)
    if high < low:
        # Keys are rounded sums: one can lie just below its priority.
        high = low
        if top == -np.inf:
            return -np.inf
    best = score_at(streams, m, alone, low)
    if high > low:
        best = max(best, score_at(streams, m, alone, high))
        for d in range(m):
            if streams[d].next > low:
                best = max(best, score_at(streams, m, alone, min(high, streams[d].next)))
            corner = streams[d].next - streams[d].most
            if low < corner < high:
                best = max(best, score_at(streams, m, alone, corner))
    size = abs(low) + abs(high)
    for d in range(m):
        size += streams[d].gain * streams[d].most
    return best + size * SLACK


@helper
def folded_bound(plan, streams, m, combine):
    """The bound for a scoring function of the user's; infinite if rows may fold their weights in another order."""
    if not plan.ascending[0]:
        return np.inf
    top = -np.inf
    for d in range(m):
        top = max(top, streams[d].next)
    if top == -np.inf:
        return -np.inf
    low = plan.lowest[0]
    best = max(low, min(plan.highest[0], top + abs(top) * SLACK))
    for d in range(m):
        if streams[d].hit >= 0:
            rest = streams[d].next - low
            rest = max(0.0, rest + (abs(streams[d].next) + abs(low)) * SLACK)
            best = max(best, folded(best, streams[d].gain * min(streams[d].most, rest), combine))
    return best


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
def mark_optional(plan, streams, m, least):
    """Spare streams, those with the largest keys first, as long as all their weights together cannot reach the score `least`.

    A row among the best must then hold in one of the other streams, and comes up there.
    """
    for d in range(m):
        streams[d].optional = np.int32(0)
    reach = plan.highest[0]
    for _ in range(m):
        best = np.int64(-1)
        for d in range(m):
            if streams[d].optional == 0 and (best < 0 or streams[d].next > streams[best].next):
                if reach + streams[d].gain * streams[d].most < least - SLACK * (abs(least) + abs(reach)):
                    best = d
        if best < 0:
            return
        streams[best].optional = np.int32(1)
        reach += streams[best].gain * streams[best].most


@helper
def unseen_bound(plan, streams, m, c, how, combine):
    """The best score of rows still unseen, after a pull of stream c."""
    if combine is None:
        if not how & ANY and streams[c].complete:
            return bound(plan, streams, m, c)
        return bound(plan, streams, m, np.int64(-1))
    else:
        return folded_bound(plan, streams, m, combine)


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
        start = np.int64(store.rows[np.int64(waiting[i])].start)
        prefetch(store.entries, start)
        prefetch(store.entries, start + 2)


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
