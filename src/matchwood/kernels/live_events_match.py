"""Subscription matching (MO-Tree 4.5.1): the live events of each new subscription, expired ones removed on the way.

    row -> ticks -> cells of each layer that meet it -> nodes -> at most two planes a predicate -> a few events -> exact test

As in `mo_tree_match` the rows of a batch are answered node by node.
A row of single intervals is compared with an event of single values without a branch, and has one score for all of them. For any
other pair the exact test is that of event matching: the few dimensions that the row names are spread over `values`, and the row,
in a store of its own, is scored by `verify.score_row`: 65 ns an event instead of 10.
Writes only when it meets expired events: callers hold the writer's lock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import prefetch
from matchwood.kernels.live_events import (
    HEAD,
    MASK,
    MASKED,
    UNTIL,
    Parts,
    flags_at,
    id_at,
    load_live,
    slot_at,
    unload_row,
)
from matchwood.kernels.live_events_place import remove_event
from matchwood.kernels.mo_tree import (
    AXES,
    HEAD_WORDS,
    LAYERS,
    LINE,
    NONE,
    ONE,
    ONES,
    OPEN,
    SLICED,
    VALID,
    axis_number,
    slice_in,
    tick_of,
)
from matchwood.kernels.mo_tree_visits import (
    FAR,
    FIRST,
    MANY,
    MOST,
    NOTED,
    Batch,
    ask,
    ask_everywhere,
    begin_batch,
    find_hits,
    first_number,
    keep_hit,
    next_number,
    shift_of,
)
from matchwood.kernels.planes import count_ones, keep_words, prefetch_planes, rule_out_planes
from matchwood.kernels.results import best_first, take_event, worse
from matchwood.kernels.store import ABSENT, CIRCLE
from matchwood.kernels.verify import ANY, score_row

IN_USE = VALID - HEAD_WORDS  # the plane of positions in use, as a number: it stands before the first plane
NODES_AHEAD = 5
"""Visits between asking for the planes of one and reading them: eight lines a node keep memory busy only together."""
PLANES = np.dtype([("against", "u4"), ("passing", "u4"), ("number", "u4")])
"""How many planes rule events out and how many let them pass; in which bucket."""
ASKING = np.dtype(
    [("asked", "u8"), ("score", "f8"), ("entries", "u4"), ("words", "u4"), ("plain", "u4"), ("slot", "u4")]
)
"""A row that asks. If it is plain, `asked` are the dimensions it names, as a mask, `score` is what it has if it matches, and
`words` of an event's region are read at most; its intervals are those of its question in `lo`, `hi` and `below`."""


class LiveScratch(NamedTuple):
    values: np.ndarray  # VALUE, one a dimension
    wanted: np.ndarray  # int64: the dimensions that a row names
    lo: np.ndarray  # float64, by question: the intervals of plain rows
    hi: np.ndarray
    below: np.ndarray  # uint64: the bits of a mask below the dimension's
    rows: np.ndarray  # ASKING, one a question
    seen: np.ndarray  # uint32, one an event: where it stands in the answer
    parts: Parts
    noted: np.ndarray  # uint32: expired events that were met, as regions
    begins: np.ndarray  # int32, one a layer of each question: first tick, -1 for the null cell, -2 for all cells
    ends: np.ndarray  # int32: last tick
    planes: np.ndarray  # int32, see `planes_of`
    fixed: np.ndarray  # PLANES, one a question: those that are the same in all buckets
    here: np.ndarray  # PLANES: all, in the bucket that was entered last
    stabbed: np.ndarray  # as in `mo_tree_match.Scratch`
    runs: np.ndarray
    digits: np.ndarray
    line: np.ndarray  # uint64 [8]
    batch: Batch


@helper
def planes_of(tree, question):
    """Where the planes of a question begin and end: those that rule out from the front, the others from the back."""
    room = 2 * tree.counts[AXES] + 1
    return question * room, question * room + room - 1


@helper
def add_planes(tree, scratch, question, a, begin, end, against, passing):
    """Append the planes for slices begin..end of an axis, or for those without a value (-1); return how many are where now."""
    low, high = planes_of(tree, question)
    axis = tree.axes[a]
    plane, slices = np.int64(axis.plane), np.int64(axis.slices)
    if begin >= 0:
        scratch.planes[low + against] = np.int32(plane + (end if end < slices - 1 else slices))
        against += 1
    if begin != 0:
        scratch.planes[high - passing] = np.int32(plane + (begin - 1 if begin > 0 else slices))
        passing += 1
    return against, passing


@helper
def load_row(tree, store, slot, scratch, question):
    """Ticks of the layers and planes of the other axes. O(entries)."""
    row = store.rows[slot]
    start = np.int64(row.start)
    layers = tree.counts[LAYERS]
    for a in range(layers):
        scratch.begins[question * layers + a] = np.int32(-2)
    against = passing = np.int64(0)
    for at in range(start, start + np.int64(row.count)):
        entry = store.entries[at]
        a = axis_number(tree, entry.dim)
        if a >= tree.counts[SLICED] or entry.kind & CIRCLE:  # the longitude and latitude of a circle stand before it
            continue
        axis = tree.axes[a]
        begin = np.int64(-1)
        end = np.int64(-1)
        if entry.kind != ABSENT:
            begin, end = tick_of(tree, axis, entry.lo), tick_of(tree, axis, entry.hi)
        if a < layers:
            scratch.begins[question * layers + a] = np.int32(begin)
            scratch.ends[question * layers + a] = np.int32(end)
        else:
            against, passing = add_planes(tree, scratch, question, a, begin, end, against, passing)
    fixed = scratch.fixed[question]
    fixed.against, fixed.passing = np.uint32(against), np.uint32(passing)
    scratch.here[question].number = NONE


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
def load_plain(store, slot, scratch, question, how, combine):
    """What a row of single intervals, on dimensions that a mask can name, asks of an event of single values. O(entries)."""
    row = store.rows[slot]
    start = np.int64(row.start)
    plain = row.size == row.count and combine is None and not how & ANY
    asked = np.uint64(0)
    score = row.priority
    for j in range(np.int64(row.count)):
        entry = store.entries[start + j]
        plain = plain and entry.kind != ABSENT and np.int64(entry.dim) < MASKED
        bit = ONE << np.uint64(entry.dim & np.uint16(63))
        asked |= bit
        score += entry.weight  # an event without weights has ones
        scratch.lo[question, j], scratch.hi[question, j], scratch.below[question, j] = entry.lo, entry.hi, bit - ONE
    mine = scratch.rows[question]
    mine.asked, mine.score, mine.entries, mine.slot = asked, score, np.uint32(row.count), np.uint32(slot)
    mine.words, mine.plain = np.uint32(words_read(asked)), np.uint32(plain)


@helper
def words_read(asked):
    """How many words of a region a plain row may read: an event has at most all dimensions below the largest one asked for."""
    below = asked
    for shift in (1, 2, 4, 8, 16, 32):
        below |= below >> np.uint64(shift)
    return HEAD + count_ones(below)


@helper
def holds_plain(live, start, scratch, row, question):
    """Does the plain row of a question hold for an event of single values? O(entries), without branches."""
    mask = live.words[start + MASK]
    holds = (mask & row.asked) == row.asked
    lo, hi, below = scratch.lo[question], scratch.hi[question], scratch.below[question]
    for j in range(np.int64(row.entries)):
        key = live.keys[start + HEAD + count_ones(mask & below[j])]
        holds &= (lo[j] <= key) & (key <= hi[j])
    return holds


@helper
def score_loose(live, start, store, scratch, row, how, combine):
    """The score of any row for any event, NaN if it does not match: see the module's text."""
    names = name_dimensions(store, np.int64(row.slot), scratch)
    load_live(live, start, scratch, names)
    score = score_row(store, np.int64(row.slot), scratch.values, scratch.parts, how, combine)
    unload_row(scratch, names)
    return score


@helper
def meet_cells(tree, scratch, question):
    """The cells of each layer whose events may match: those the row's ticks meet and the one for spanning values. O(cells)."""
    n = np.int64(0)
    for a in range(tree.counts[LAYERS]):
        axis = tree.axes[a]
        at = question * tree.counts[LAYERS] + a
        begin, end = np.int64(scratch.begins[at]), np.int64(scratch.ends[at])
        cells, ticks = np.int64(axis.cells), np.int64(axis.cuts) + 1
        scratch.runs[a] = n
        scratch.digits[a] = n
        low, high = np.int64(0), cells - 1
        if begin == -1:
            low = cells - 1
        elif begin >= 0:
            low, high = begin * (cells - 2) // ticks, end * (cells - 2) // ticks
        for c in range(low, high + 1):
            scratch.stabbed[n] = c * np.int64(axis.radix)
            n += 1
        if begin >= 0:
            scratch.stabbed[n] = (cells - 2) * np.int64(axis.radix)
            n += 1
    scratch.runs[tree.counts[LAYERS]] = n


@helper
def ask_met(tree, scratch, question):
    """Let a row ask the buckets of all combinations of cells that meet it; False if there is no room. O(combinations)."""
    layers = tree.counts[LAYERS]
    meet_cells(tree, scratch, question)
    number = first_number(scratch, layers)
    if number < 0:
        return False
    while number >= 0:
        if tree.directory[number].first != NONE:
            ask(scratch.batch, number, question, np.uint64(0), ONES, ONES)
        number = next_number(scratch, layers, number)
    return True


@helper
def ask_rows(tree, store, slots, scratch, first, last, how, combine):
    """Let the rows slots[first:last] ask, as many as there is room for; return how many: at least one, if there is one."""
    begin_batch(scratch.batch)
    many = min(last - first, scratch.batch.counts[MOST])
    for q in range(many):
        load_row(tree, store, np.int64(slots[first + q]), scratch, q)
        load_plain(store, np.int64(slots[first + q]), scratch, q, how, combine)
        asked = ask_everywhere(tree, scratch.batch, q) if how & ANY else ask_met(tree, scratch, q)
        if not asked:
            return np.int64(q)
    return many


@helper
def enter_bucket(tree, scratch, question, number, how):
    """Add the planes of the layers in this bucket: none where the row holds the whole cell.

    Where nothing is ruled out free positions are left, having ones in all planes: then add the plane of positions in use.
    Relaxed matching looks at all events, so at that plane alone.
    """
    layers = tree.counts[LAYERS]
    fixed, here = scratch.fixed[question], scratch.here[question]
    against, passing = np.int64(fixed.against), np.int64(fixed.passing)
    for a in range(layers):
        axis = tree.axes[a]
        at = (number // np.int64(axis.radix)) % np.int64(axis.cells)
        begin = np.int64(scratch.begins[question * layers + a])
        if begin < 0 or at >= np.int64(axis.cells) - 2:
            continue
        end = np.int64(scratch.ends[question * layers + a])
        cell = tree.cells[np.int64(axis.first_cell) + at]
        low, width = np.int64(cell.first), np.int64(cell.width)
        if begin > low or end < low + width - 1:
            slices = slice_in(cell, begin), slice_in(cell, end)
            against, passing = add_planes(tree, scratch, question, a, slices[0], slices[1], against, passing)
    if how & ANY:
        against = passing = np.int64(0)
    if against == 0:
        scratch.planes[planes_of(tree, question)[1] - passing] = np.int32(IN_USE)
        passing += 1
    here.against, here.passing, here.number = np.uint32(against), np.uint32(passing), np.uint32(number)


@helper
def prefetch_visit(tree, scratch, visit):
    """Ask for the planes that are the same in all buckets."""
    node = tree.nodes[visit.node]
    base = np.int64(node.start) + np.int64(HEAD_WORDS) * np.int64(node.words)
    low, high = planes_of(tree, np.int64(visit.question))
    fixed = scratch.fixed[np.int64(visit.question)]
    prefetch_planes(tree.bits, base, shift_of(node), scratch.planes, low, np.int64(fixed.against))
    passing = np.int64(fixed.passing)
    prefetch_planes(tree.bits, base, shift_of(node), scratch.planes, high + 1 - passing, passing)


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
        here = scratch.here[question]
        if here.number != node.number:
            enter_bucket(tree, scratch, question, np.int64(node.number), how)
        words = np.int64(node.words)
        base = np.int64(node.start) + np.int64(HEAD_WORDS) * words
        low, high = planes_of(tree, question)
        against, passing = np.int64(here.against), np.int64(here.passing)
        rule_out_planes(tree.bits, base, shift_of(node), scratch.planes, low, against, high, passing, scratch.line)
        if node.opened:  # planes know nothing of events that span
            for w in range(words):
                scratch.line[w] |= tree.bits[base + (OPEN - HEAD_WORDS) * words + w]
        tag = (np.uint64(question) << np.uint64(32)) | (np.uint64(2) * node.start)
        n = keep_words(scratch.line, words, tag, batch.words, batch.tags, n)
    return n


@helper
def prefetch_event(live, start, words):
    """Ask for the first words of a region; three lines without a branch, since rows that take turns have their own numbers."""
    prefetch(live.keys, start)
    prefetch(live.keys, start + min(words - 1, LINE))
    prefetch(live.keys, start + min(words - 1, 2 * LINE))
    for word in range(3 * LINE, words, LINE):
        prefetch(live.keys, start + word)


@kernel
def verify_found(scratch, found, known):
    """Verify the candidates that are listed, keep the hits, note the expired. O(entries)."""
    live, store, now, how, combine = known
    batch = scratch.batch
    counts = batch.counts
    for i in range(-FAR if found > 0 else 0, found):
        ahead = scratch.rows[np.int64(batch.who[i + FAR])]
        prefetch_event(live, np.int64(batch.found[i + FAR]), np.int64(ahead.words))
        if i < 0:
            continue
        start, question = np.int64(batch.found[i]), np.int64(batch.who[i])
        row = scratch.rows[question]
        score = row.score
        if row.plain and flags_at(live, start) == 0:
            holds = holds_plain(live, start, scratch, row, question)
        else:
            score = score_loose(live, start, store, scratch, row, how, combine)
            holds = not np.isnan(score)
        until = live.keys[start + UNTIL]
        if not now < until:
            holds = False
            if until == until and counts[NOTED] < scratch.noted.size:
                live.keys[start + UNTIL] = np.nan  # noted once; it is removed before anybody else reads it
                scratch.noted[counts[NOTED]] = np.uint32(start)
                counts[NOTED] += 1
        keep_hit(batch, id_at(live, start), score, np.uint32(slot_at(live, start)), question, holds)


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
                many = ask_rows(tree, store, slots, scratch, r, groups[ends.size], how, combine)
            known = live, store, now, how, combine
            whole = find_hits(tree, scratch, r, many, how, filter_visits, verify_found, known, candidates)
            if many > 1 and not whole:
                continue
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
