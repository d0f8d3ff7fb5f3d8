"""Subscription matching (MO-Tree 4.5.1): the live events of each new subscription, expired ones removed on the way.

    row -> ticks -> cells of each layer that meet it -> nodes -> at most two planes a predicate -> a few events -> exact test

As in `structures.mo_tree.kernels.match` the rows of a batch are answered node by node.
A row of single intervals is compared with an event of single values without a branch, and has one score for all of them. For any
other pair the exact test is that of event matching: the few dimensions that the row names are spread over `values`, and the row,
in a store of its own, is scored by `verify.score_row`: 65 ns an event instead of 10.
Writes only when it meets expired events: callers hold the writer's lock.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch, sift_spread
from matchwood.store.kernels.results import best_first, keep_largest, take_event, worse
from matchwood.store.kernels.rows import CIRCLE
from matchwood.store.kernels.verify import score_row
from matchwood.structures.live.kernels.ask import ask_rows, enter_cells, pairs_of
from matchwood.structures.live.kernels.halves import ordered
from matchwood.structures.live.kernels.layout import (
    LISTED,
    SPREAD,
    UNTIL,
    field_at,
    flags_at,
    id_at,
    mask_at,
    places_at,
    slot_at,
    slot_of,
    whole_values,
)
from matchwood.structures.live.kernels.place import remove_event
from matchwood.structures.live.kernels.values import load_live, number_at, unload_row
from matchwood.structures.mo_tree.kernels.layout import HEAD_WORDS, LAYERS, LINE, NONE, OPEN
from matchwood.structures.mo_tree.kernels.planes import and_pairs, count_ones, prefetch_planes
from matchwood.structures.mo_tree.kernels.visits import (
    AFAR,
    FAR,
    FIRST,
    KEPT,
    MANY,
    NOTED,
    OWNERS,
    find_hits,
    hand_out,
    keep_hit,
    keep_series,
    order_hits,
    shift_of,
)


@helper
def name_dimensions(store, slot, scratch):
    """The dimensions that the row names, into scratch.wanted; return how many. O(entries)."""
    row = store.rows[slot]
    names = np.int64(0)
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        entry = store.entries[at]
        scratch.wanted[names] = np.int64(entry.dim)
        names += np.int64(entry.kind & CIRCLE == 0)  # its longitude and latitude have been named
    return names


@helper
def score_loose(live, start, store, scratch, row, how, combine):
    """The score of any row for any event, NaN if it does not match: see the module's text."""
    names = name_dimensions(store, np.int64(row.slot), scratch)
    load_live(live, start, scratch, names)
    score = score_row(store, np.int64(row.slot), scratch.values, scratch.parts, how, combine)
    unload_row(scratch, names)
    return score


@helper
def prefetch_visit(tree, scratch, visit):
    """Ask for the planes that are the same in all buckets."""
    node = tree.nodes[visit.node]
    base = np.int64(node.start) + np.int64(HEAD_WORDS) * np.int64(node.words)
    question, layers = np.int64(visit.question), tree.counts[LAYERS]
    many = 2 * (np.int64(scratch.pairs[question].many) - layers)
    prefetch_planes(tree.bits, base, shift_of(node), scratch.planes, pairs_of(tree, question) + 2 * layers, many)


@helper
def filter_visit(tree, scratch, node, visit, how):
    """Leave in scratch.line the events of a node that may match. O(planes)."""
    question, words = np.int64(visit.question), np.int64(node.words)
    base, pairs = np.int64(node.start) + HEAD_WORDS * words, pairs_of(tree, question)
    enter_cells(tree, scratch, question, visit.packed, pairs)
    many = np.int64(scratch.pairs[question].many)
    and_pairs(tree.bits, base, shift_of(node), scratch.planes, pairs, many, scratch.line)
    if node.opened:  # planes know nothing of events that span
        for w in range(words):
            scratch.line[w] |= tree.bits[base + (OPEN - HEAD_WORDS) * words + w]


@helper
def holds_exactly(live, start, scratch, question):
    """Does a plain row hold for a plain event that has all it names? O(entries), without branches."""
    if flags_at(live, start) & SPREAD:
        return holds_spread(live, start, scratch, question)
    return holds_masked(live, start, scratch, question)


@helper
def holds_spread(live, start, scratch, question):
    """`holds_exactly` for a SPREAD event."""
    lo, hi, below = scratch.lo[question], scratch.hi[question], scratch.below[question]
    holds, n = True, places_at(live, start)
    for j in range(np.int64(scratch.rows[question].entries)):
        number = number_at(live, start, n, count_ones(below[j]))
        holds &= (lo[j] <= number) & (number <= hi[j])
    return holds


@helper
def holds_masked(live, start, scratch, question):
    """`holds_exactly` for another plain event."""
    lo, hi, below, mask = scratch.lo[question], scratch.hi[question], scratch.below[question], mask_at(live, start)
    here, near, far = whole_values(start, count_ones(mask), field_at(live, start))
    holds = True
    for j in range(np.int64(scratch.rows[question].entries)):
        place = count_ones(mask & below[j])
        number = ordered(live.keys[(near if place < here else far) + place])
        holds &= (lo[j] <= number) & (number <= hi[j])
    return holds


@helper
def verify_plain(live, scratch, question, i, last, now, k):
    """Verify candidates i, i + 1, ... of a plain row as long as they are plain and have not expired, and keep the hits.

    Return the first that is not so, or `last`. A row has one score for all of them, so of the k best those with the least ids are
    left.
    """
    batch, row = scratch.batch, scratch.rows[question]
    bounds, asked, at, n = scratch.bounds[question], row.asked, i, batch.counts[KEPT]
    while at < last:
        if row.spread & flags_at(live, np.int64(batch.found[at])):
            at, n = sift_spread(
                live.words, batch.found, at, last, FAR, AFAR, now, asked, row.last, bounds, batch.ids, n
            )
            if at == last:
                break
        start = np.int64(batch.found[at])
        if flags_at(live, start) & LISTED or not now < live.keys[start + UNTIL]:
            break
        prefetch_event(live.keys, np.int64(batch.found[at + FAR]), np.int64(row.words))
        id_ = id_at(live, start)
        if id_ <= row.last:  # else it is none of the k best
            prefetch_tail(live, np.int64(batch.found[at + FAR // 2]))
            has = mask_at(live, start) & asked == asked
            batch.ids[n] = id_
            n += np.int64(has and holds_exactly(live, start, scratch, question))
        at += 1
    if 0 < k <= scratch.firsts.shape[1]:
        n = keep_least(scratch, question, n, k)
    keep_series(batch, question, n, row.score)
    return at


@helper
def keep_least(scratch, question, end, k):
    """Of the hits of a plain row that have been written up to `end` keep those that may be among its k best; return where they
    end. O(hits * k)."""
    batch, row, firsts = scratch.batch, scratch.rows[question], scratch.firsts[question]
    n = batch.counts[KEPT]
    for i in range(n, end):
        id_ = batch.ids[i]
        if id_ <= row.last:
            batch.ids[n] = id_
            n += 1
            held = keep_largest(firsts, np.int64(row.held), k, ~id_)
            row.held = np.uint32(held)
            if held == k:
                row.last = ~firsts[k - 1]
    return n


@helper
def prefetch_event(keys, start, read):
    """Ask for so many words of a region: two lines of most."""
    prefetch(keys, start)
    prefetch(keys, start + LINE)
    for word in range(2 * LINE, read, LINE):
        prefetch(keys, start + word)


@helper
def prefetch_tail(live, start):
    """Ask for the line elsewhere of an event whose region has come; any number is safe where it has none."""
    prefetch(live.words, LINE * field_at(live, start))


@kernel
def verify_found(scratch, found, known):
    """Verify the candidates that are listed, keep the hits, note the expired. O(entries)."""
    live, store, now, how, combine, k = known
    batch = scratch.batch
    for i in range(min(found, FAR)):
        prefetch_event(live.keys, np.int64(batch.found[i]), 2 * LINE)
    i = np.int64(0)
    for owner in range(batch.counts[OWNERS]):
        question, last = np.int64(batch.owners[owner].question), np.int64(batch.owners[owner].end)
        while i < last:
            if scratch.rows[question].plain:
                i = verify_plain(live, scratch, question, i, last, now, k)
            if i < last:
                verify_other(live, store, scratch, question, np.int64(batch.found[i]), now, how, combine)
                i += 1


@helper
def verify_other(live, store, scratch, question, start, now, how, combine):
    """Verify an event that is not plain, or for a row that is not, or note that it has expired. O(entries)."""
    batch = scratch.batch
    counts, until = batch.counts, live.keys[start + UNTIL]
    if now < until:
        score = score_loose(live, start, store, scratch, scratch.rows[question], how, combine)
        keep_hit(batch, id_at(live, start), score, NONE, question, not np.isnan(score))
    elif until == until and counts[NOTED] < scratch.noted.size:
        live.keys[start + UNTIL] = np.nan  # noted once; it is removed before anybody else reads it
        scratch.noted[counts[NOTED]] = np.uint32(start)
        counts[NOTED] += 1


@helper
def deliver(live, scratch, question, several, k, out, begin, n):
    """The hits of a row that are in hand into its subscription's answer; return where that ends, -1 if `out` is full."""
    batch = scratch.batch
    if begin + k > out.ids.size:
        return np.int64(-1)
    for i in range(batch.ends[question], batch.ends[question + 1]):
        hit = np.int64(batch.order[i])
        id_, score = batch.ids[hit], batch.scores[hit]
        if k == 0 and not several and n < out.ids.size:
            out.ids[n] = id_
            out.scores[n] = score
            n += 1
        elif n - begin < k or k == 0 or several or worse(out.scores[begin], out.ids[begin], score, id_):
            # Most hits are no better than the k best so far: one branch, mostly foreseen.
            slot = slot_of(live, id_) if several else np.int64(0)
            n = take_event(scratch.seen, out, begin, n, k, id_, slot, score, several)
            if n < 0:
                break
    return n


@helper
def remove_noted(tree, live, scratch):
    """Remove the expired events that were met. Not while nodes are looked into: a removal may free one."""
    counts = scratch.batch.counts
    for i in range(counts[NOTED]):
        remove_event(tree, live, slot_at(live, np.int64(scratch.noted[i])))
    counts[NOTED] = 0


@kernel
def match_rows(tree, live, store, slots, groups, first, scratch, now, how, combine, k, out, ends, candidates):
    """The live events of subscriptions first, ...: subscription s has the rows slots[groups[s] : groups[s + 1]].

    Every match, or for k > 0 the k best, best first. Return the first subscription not done (out is full) or their number;
    called again with that one as `first`, it goes on with the hits in hand.
    """
    batch = scratch.batch
    counts = batch.counts
    s, r, n = first, groups[first], np.int64(0)
    begin = many = np.int64(0)
    whole = True
    begun = full = False  # begun with a row alone whose hits do not fit at once
    if first == 0:
        counts[FIRST] = counts[MANY] = 0
    while True:
        if full or not begun:
            remove_noted(tree, live, scratch)
        if full or s == ends.size:
            return s
        if not counts[FIRST] <= r < counts[FIRST] + counts[MANY]:
            if not begun:
                many = ask_rows(tree, live, store, slots, scratch, r, groups[ends.size], how, combine, k)
            known = live, store, now, how, combine, k
            whole = find_hits(
                tree, scratch, r, many, how, k, filter_visit, prefetch_visit, verify_found, known, candidates
            )
            if many > 1 and not whole:
                continue
            fits = whole and not begun and n + counts[KEPT] <= out.ids.size
            if fits and k == 0 and r == groups[s] and s + many <= ends.size and groups[s + many] == r + many:
                n = hand_out(batch, many, out, n, ends, s)
                s, r = s + many, r + many
                counts[MANY] = 0
                continue
            order_hits(batch)
        many = max(counts[MANY], 1)
        for q in range(r - counts[FIRST], many):
            if r == groups[s] and not begun:
                begin = n
            several = groups[s + 1] - groups[s] > 1
            n = deliver(live, scratch, q, several, k, out, begin, n)
            full = n < 0
            if full:
                break
            r += np.int64(whole)
            if r == groups[s + 1]:
                if k > 0:
                    best_first(out, begin, n - begin)
                ends[s] = n
                s += 1
        begun = not whole
