"""Subscription matching (MO-Tree 4.5.1): the live events of each new subscription, expired ones removed on the way.

    row -> ticks -> cells of each layer that meet it -> nodes -> at most two planes a predicate -> a few events -> exact test

As in `mo_tree_match` the rows of a batch are answered node by node.
A row of single intervals is compared with an event of single values without a branch, and has one score for all of them. For any
other pair the exact test is that of event matching: the few dimensions that the row names are spread over `values`, and the row,
in a store of its own, is scored by `verify.score_row`: 65 ns an event instead of 10.
Writes only when it meets expired events: callers hold the writer's lock.
"""

from __future__ import annotations

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.halves import ordered
from matchwood.kernels.intrinsics import OUTSIDE, compare_spread, prefetch
from matchwood.kernels.live_events import (
    ABOUT,
    FLAGS,
    HEAD,
    LISTED,
    MASK,
    PLACED,
    SPREAD,
    UNTIL,
    field_at,
    id_at,
    places_at,
    slot_at,
    whole_values,
)
from matchwood.kernels.live_events_ask import ask_rows, enter_cells, pairs_of
from matchwood.kernels.live_events_place import remove_event
from matchwood.kernels.live_values import load_live, number_at, unload_row
from matchwood.kernels.mo_tree import HEAD_WORDS, LAYERS, LINE, ONE, OPEN
from matchwood.kernels.mo_tree_visits import (
    FAR,
    FIRST,
    KEPT,
    MANY,
    NODES_AHEAD,
    NOTED,
    find_hits,
    hand_out,
    keep_hit,
    order_hits,
    shift_of,
)
from matchwood.kernels.planes import and_pairs, count_ones, keep_words, prefetch_planes
from matchwood.kernels.results import best_first, keep_largest, take_event, worse
from matchwood.kernels.store import CIRCLE
from matchwood.kernels.verify import score_row

ROUNDS = ((ONE << np.uint64(PLACED)) - ONE) << np.uint64(PLACED)
"""The bits of a SPREAD event's mask that say which values are round."""


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


@kernel
def filter_visits(tree, scratch, first, last, how):
    """Keep the words with events that may match, of these visits; return how many. O(visits * planes)."""
    batch = scratch.batch
    n = np.int64(0)
    for v in range(first, last):
        visit = batch.visits[v]
        question = np.int64(visit.question)
        node = tree.nodes[visit.node]
        prefetch_visit(tree, scratch, batch.visits[min(v + NODES_AHEAD, last - 1)])
        pairs = pairs_of(tree, question)
        enter_cells(tree, scratch, question, visit.packed, pairs)
        words = np.int64(node.words)
        base = np.int64(node.start) + np.int64(HEAD_WORDS) * words
        many = np.int64(scratch.pairs[question].many)
        and_pairs(tree.bits, base, shift_of(node), scratch.planes, pairs, many, scratch.line)
        if node.opened:  # planes know nothing of events that span
            for w in range(words):
                scratch.line[w] |= tree.bits[base + (OPEN - HEAD_WORDS) * words + w]
        tag = (np.uint64(question) << np.uint64(32)) | (np.uint64(2) * node.start)
        n = keep_words(scratch.line, words, tag, batch.words, batch.tags, n)
    return n


@helper
def holds_exactly(live, start, scratch, question, entries):
    """Does a plain row hold for a SPREAD event that has all it names? Where upper halves do not say it. O(entries)."""
    lo, hi, below = scratch.lo[question], scratch.hi[question], scratch.below[question]
    holds, n = True, places_at(live, start)
    for j in range(entries):
        number = number_at(live, start, n, count_ones(below[j]))
        holds &= (lo[j] <= number) & (number <= hi[j])
    return holds


@helper
def holds_masked(live, start, mask, scratch, question, entries):
    """Does a plain row hold for another plain event that has all it names? O(entries), without branches."""
    lo, hi, below = scratch.lo[question], scratch.hi[question], scratch.below[question]
    here, near, far = whole_values(start, count_ones(mask), field_at(live, start))
    holds = True
    for j in range(entries):
        place = count_ones(mask & below[j])
        number = ordered(live.keys[(near if place < here else far) + place])
        holds &= (lo[j] <= number) & (number <= hi[j])
    return holds


@kernel
def verify_plain(live, scratch, i, found, now, k):
    """Verify candidates i, i + 1, ... as long as row and event are plain and the event has not expired, and keep the hits.

    Return the first that is not so, or `found`. Without a branch but where the upper half of a value is that of an end. A row has
    one score for all of them: of the k best those with the least ids are left, and one that comes after k is not compared.
    """
    ranked = 0 < k <= scratch.firsts.shape[1]
    batch = scratch.batch
    words, keys = live.words, live.keys
    n = np.uint64(batch.counts[KEPT])
    at, end = np.uint64(i), np.uint64(found)
    while at < end:
        start, question = np.uint64(batch.found[at]), np.uint64(batch.who[at])
        row = scratch.rows[question]
        prefetch_event(keys, np.int64(batch.found[at + np.uint64(FAR)]), row)
        mask, about = words[start + np.uint64(MASK)], words[start + np.uint64(ABOUT)]
        if not row.plain or (about >> FLAGS) & LISTED or not now < keys[start + np.uint64(UNTIL)]:
            break
        id_ = np.int64(words[start])
        if ranked and id_ > row.last:
            at += ONE
            continue
        holds = mask & row.asked == row.asked
        if row.spread & (about >> FLAGS):
            first = np.int64(np.uint64(2) * start) + 2 * HEAD
            told = compare_spread(live.halves, first, scratch.bounds[question], 0)
            holds &= told != OUTSIDE
            if told & row.ends & ~(mask & ROUNDS) != 0 and holds:
                holds = holds_exactly(live, np.int64(start), scratch, np.int64(question), np.int64(row.entries))
        elif (about >> FLAGS) & SPREAD == 0:
            prefetch_tail(live, np.int64(batch.found[at + np.uint64(FAR // 2)]))
            holds &= holds_masked(live, np.int64(start), mask, scratch, np.int64(question), np.int64(row.entries))
        else:  # the row names a dimension that no SPREAD event has, and finds there what is round
            holds = False
        hit = batch.hits[n]
        hit.id, hit.score = id_, row.score
        hit.slot, hit.question = np.uint32(about), np.uint32(question)
        n += np.uint64(holds)
        if ranked and holds:
            note_id(scratch, np.int64(question), id_, k)
        at += ONE
    batch.counts[KEPT] = np.int64(n)
    return np.int64(at)


@helper
def note_id(scratch, question, id_, k):
    """A plain event that a plain row matches, one of the k with the least ids so far. O(k)."""
    row, firsts = scratch.rows[question], scratch.firsts[question]
    held = keep_largest(firsts, np.int64(row.held), k, ~id_)
    row.held = np.uint32(held)
    if held == k:
        row.last = ~firsts[k - 1]


@helper
def prefetch_event(keys, start, row):
    """Ask for what a row may read of a region: two lines of most."""
    prefetch(keys, start)
    prefetch(keys, start + LINE)
    for word in range(2 * LINE, np.int64(row.words), LINE):
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
    counts = batch.counts
    i = np.int64(0)
    for i in range(min(found, FAR)):
        prefetch_event(live.keys, np.int64(batch.found[i]), scratch.rows[np.int64(batch.who[i])])
    i = verify_plain(live, scratch, 0, found, now, k)
    while i < found:
        start, question = np.int64(batch.found[i]), np.int64(batch.who[i])
        row = scratch.rows[question]
        until = live.keys[start + UNTIL]
        if now < until:
            score = score_loose(live, start, store, scratch, row, how, combine)
            keep_hit(batch, id_at(live, start), score, np.uint32(slot_at(live, start)), question, not np.isnan(score))
        elif until == until and counts[NOTED] < scratch.noted.size:
            live.keys[start + UNTIL] = np.nan  # noted once; it is removed before anybody else reads it
            scratch.noted[counts[NOTED]] = np.uint32(start)
            counts[NOTED] += 1
        i = verify_plain(live, scratch, i + 1, found, now, k)


@helper
def deliver(scratch, first, last, several, k, out, begin, n):
    """Hits of a row, those at order[first:last], into its subscription's answer; return where that ends, -1 if `out` is full."""
    batch = scratch.batch
    if begin + k > out.ids.size:
        return np.int64(-1)
    for i in range(first, last):
        hit = batch.hits[np.int64(batch.order[i])]
        if k == 0 and not several and n < out.ids.size:
            out.ids[n] = hit.id
            out.scores[n] = hit.score
            n += 1
        elif n - begin < k or k == 0 or several or worse(out.scores[begin], out.ids[begin], hit.score, hit.id):
            # Most hits are no better than the k best so far: one branch, mostly foreseen.
            n = take_event(scratch.seen, out, begin, n, k, hit.id, np.int64(hit.slot), hit.score, several)
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
            whole = find_hits(tree, scratch, r, many, how, k, filter_visits, verify_found, known, candidates)
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
            n = deliver(scratch, batch.ends[q], batch.ends[q + 1], several, k, out, begin, n)
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
