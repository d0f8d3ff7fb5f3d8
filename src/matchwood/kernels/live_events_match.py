"""Subscription matching (MO-Tree 4.5.1): the live events of each new subscription, expired ones removed on the way.

    row -> ticks -> cells of each layer that meet it -> nodes -> at most two planes a predicate -> a few events -> exact test

A row of single intervals is compared with an event of single values without a branch, and has one score for all of them. For any
other pair the exact test is that of event matching: the few dimensions that the row names are spread over `values`, and the row,
in a store of its own, is scored by `verify.score_row`: 65 ns an event instead of 10.
Writes only when it meets expired events: callers hold the writer's lock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import prefetch, trailing_zeros
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
    HEAD_WORDS,
    LAYERS,
    LINE,
    LINE_ROWS,
    NODES,
    NONE,
    ONE,
    SLICED,
    axis_number,
    cell_of,
    slice_in,
    tick_of,
)
from matchwood.kernels.mo_tree_match import FOUND, next_number
from matchwood.kernels.planes import and_flipped_planes, count_ones
from matchwood.kernels.results import best_first, take_event, worse
from matchwood.kernels.store import ABSENT, AHEAD, CIRCLE
from matchwood.kernels.verify import ANY, score_row

VALID = -2  # the plane of positions in use, as a number: it stands before the first plane
NODES_AHEAD = 3
"""Nodes between asking for the planes of one and reading them: eight lines a node keep memory busy only together."""


class LiveScratch(NamedTuple):
    values: np.ndarray  # VALUE, one a dimension
    wanted: np.ndarray  # int64: the dimensions that the row names
    lo: np.ndarray  # float64: the intervals of a plain row
    hi: np.ndarray
    below: np.ndarray  # uint64: the bits of a mask below the dimension's
    seen: np.ndarray  # uint32, one an event: where it stands in the answer
    parts: Parts
    begins: np.ndarray  # int64, one a layer: first tick, -1 for the null cell, -2 for all cells
    ends: np.ndarray  # int64: last tick
    planes: np.ndarray  # int64, two an axis
    flips: np.ndarray  # int64, 0 or -1
    stabbed: np.ndarray  # as in `mo_tree_match.Scratch`
    runs: np.ndarray
    digits: np.ndarray
    visit: np.ndarray  # uint32
    line: np.ndarray  # uint64 [8]
    found: np.ndarray  # uint32 [FOUND]: candidates, as places in `members`, later as regions


@helper
def add_steps(scratch, steps, plane, slices, begin, end):
    """Append the planes for slices begin..end of an axis; return the new number of steps."""
    scratch.planes[steps] = plane + (end if end < slices - 1 else slices)
    scratch.flips[steps] = -1
    steps += 1
    if begin > 0:
        scratch.planes[steps] = plane + begin - 1
        scratch.flips[steps] = 0
        steps += 1
    return steps


@helper
def load_row(tree, store, slot, scratch):
    """Ticks of the layers, planes of the other axes, dimensions the row names; return how many steps and names. O(entries)."""
    row = store.rows[slot]
    start = np.int64(row.start)
    for a in range(tree.counts[LAYERS]):
        scratch.begins[a] = -2
    steps = np.int64(0)
    names = np.int64(0)
    for at in range(start, start + np.int64(row.count)):
        entry = store.entries[at]
        if entry.kind & CIRCLE:  # its longitude and latitude have been named
            continue
        dim = np.int64(entry.dim)
        scratch.wanted[names] = dim
        names += 1
        a = axis_number(tree, dim)
        if a >= tree.counts[SLICED]:
            continue
        axis = tree.axes[a]
        begin = np.int64(-1)
        end = np.int64(-1)
        if entry.kind != ABSENT:
            begin, end = tick_of(tree, axis, entry.lo), tick_of(tree, axis, entry.hi)
        if a < tree.counts[LAYERS]:
            scratch.begins[a] = begin
            scratch.ends[a] = end
        elif begin < 0:
            scratch.planes[steps] = np.int64(axis.plane) + np.int64(axis.slices)
            scratch.flips[steps] = 0
            steps += 1
        else:
            steps = add_steps(scratch, steps, np.int64(axis.plane), np.int64(axis.slices), begin, end)
    return steps, names


@helper
def load_plain(store, slot, scratch):
    """(is it a row of single intervals on dimensions that a mask can name?, their mask, its score if it matches). O(entries)."""
    row = store.rows[slot]
    start = np.int64(row.start)
    plain = row.size == row.count
    asked = np.uint64(0)
    score = row.priority
    for j in range(np.int64(row.count)):
        entry = store.entries[start + j]
        plain = plain and entry.kind != ABSENT and np.int64(entry.dim) < MASKED
        bit = ONE << np.uint64(entry.dim & np.uint16(63))
        asked |= bit
        score += entry.weight  # an event without weights has ones
        scratch.lo[j], scratch.hi[j], scratch.below[j] = entry.lo, entry.hi, bit - ONE
    return plain, asked, score


@helper
def words_read(asked):
    """How many words of a region a plain row may read: an event has at most all dimensions below the largest one asked for."""
    below = asked
    for shift in (1, 2, 4, 8, 16, 32):
        below |= below >> np.uint64(shift)
    return HEAD + count_ones(below)


@helper
def holds_plain(live, start, scratch, names, asked):
    """Does the plain row hold for an event of single values? O(names), without branches."""
    mask = live.words[start + MASK]
    holds = (mask & asked) == asked
    for j in range(names):
        key = live.keys[start + HEAD + count_ones(mask & scratch.below[j])]
        holds &= (scratch.lo[j] <= key) & (key <= scratch.hi[j])
    return holds


@helper
def meet_cells(tree, scratch):
    """The cells of each layer whose events may match: those the row's ticks meet and the one for spanning values. O(cells)."""
    n = np.int64(0)
    for a in range(tree.counts[LAYERS]):
        axis = tree.axes[a]
        begin, end = scratch.begins[a], scratch.ends[a]
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
def list_met(tree, scratch):
    """The nodes of all combinations of cells, into scratch.visit; return how many. O(combinations + nodes)."""
    layers = tree.counts[LAYERS]
    number = np.int64(0)
    for a in range(layers):
        number += scratch.stabbed[scratch.digits[a]]
    visits = np.int64(0)
    while number >= 0:
        n = np.int64(tree.directory[number].first)
        while n != np.int64(NONE):
            scratch.visit[visits] = np.uint32(n)
            visits += 1
            n = np.int64(tree.nodes[n].next)
        number = next_number(scratch, layers, number)
    return visits


@helper
def add_layer_steps(tree, scratch, number, steps):
    """The planes of the layers in this bucket; none where the row holds the whole cell."""
    for a in range(tree.counts[LAYERS]):
        axis = tree.axes[a]
        at = (number // np.int64(axis.radix)) % np.int64(axis.cells)
        if scratch.begins[a] < 0 or at >= np.int64(axis.cells) - 2:
            continue
        cell = cell_of(tree, axis, number)
        first, width = np.int64(cell.first), np.int64(cell.width)
        if scratch.begins[a] <= first and scratch.ends[a] >= first + width - 1:
            continue
        begin, end = slice_in(cell, scratch.begins[a]), slice_in(cell, scratch.ends[a])
        steps = add_steps(scratch, steps, np.int64(axis.plane), np.int64(axis.slices), begin, end)
    return steps


@helper
def complete(scratch, steps, how):
    """Without a complemented plane free positions are left, having ones in all planes: then add the plane of positions in use.

    Relaxed matching looks at all events, so at that plane alone.
    """
    if how & ANY:
        steps = np.int64(0)
    flipped = np.int64(0)
    for i in range(steps):
        flipped |= scratch.flips[i]
    if flipped == 0:
        scratch.planes[steps] = VALID
        scratch.flips[steps] = 0
        steps += 1
    return steps


@helper
def filter_events(tree, scratch, v, visits, steps):
    """Leave in scratch.line the events of a node that may match; True if there may be any. O(steps)."""
    node = tree.nodes[np.int64(scratch.visit[v])]
    words = np.int64(node.words)
    base = np.int64(node.start) + np.int64(HEAD_WORDS) * words
    after = tree.nodes[np.int64(scratch.visit[min(v + NODES_AHEAD, visits - 1)])]
    ahead_words = np.int64(after.words)
    ahead = np.int64(after.start) + np.int64(HEAD_WORDS) * ahead_words
    left = and_flipped_planes(
        tree.bits, base, words, scratch.planes, scratch.flips, steps, ahead, ahead_words, scratch.line
    )
    if node.opened:  # planes know nothing of events that span
        for w in range(words):
            scratch.line[w] |= tree.bits[base - words + w]
            left |= scratch.line[w] != 0
    return left


@helper
def collect_events(tree, scratch, v, n):
    node = tree.nodes[np.int64(scratch.visit[v])]
    first = 2 * np.int64(node.start)
    for w in range(np.int64(node.words)):
        word = scratch.line[w]
        while word != 0:
            at = first + w * 64 + np.int64(trailing_zeros(word))
            word &= word - np.uint64(1)
            prefetch(tree.members, at)
            scratch.found[n] = np.uint32(at)
            n += 1
    return n


@helper
def prefetch_event(tree, live, scratch, i, n, reach):
    """The steps before event i is verified: its region's number, and the words of the region up to `reach`."""
    if i + AHEAD < n:
        start = tree.members[np.int64(scratch.found[i + AHEAD])]
        scratch.found[i + AHEAD] = start
        prefetch(live.keys, np.int64(start))
        for word in range(LINE, reach, LINE):
            prefetch(live.keys, np.int64(start) + word)


@helper
def list_every(tree, scratch):
    """Every node with events: relaxed matching cannot leave one out."""
    visits = np.int64(0)
    for node in range(tree.counts[NODES]):
        scratch.visit[visits] = np.uint32(node)
        visits += np.int64(tree.nodes[node].words > 0)
    return visits


@helper
def list_events(tree, scratch, v, visits, fixed, how):
    """Candidates of the nodes from visit[v] on, as many as there is room for; return the next v and how many."""
    found = np.int64(0)
    number = np.int64(-1)
    steps = fixed
    while v < visits and found + LINE_ROWS <= FOUND:
        here = np.int64(tree.nodes[np.int64(scratch.visit[v])].number)
        if here != number:
            number = here
            steps = complete(scratch, add_layer_steps(tree, scratch, number, fixed), how)
        if filter_events(tree, scratch, v, visits, steps):
            found = collect_events(tree, scratch, v, found)
        v += 1
    return v, found


@helper
def remove_expired(tree, live, scratch, found, now):
    for i in range(found):
        start = np.int64(scratch.found[i])
        if not now < live.keys[start + UNTIL]:
            remove_event(tree, live, slot_at(live, start))


@kernel
def match_rows(tree, live, store, slots, groups, first, scratch, now, how, combine, k, out, ends, candidates):
    """The live events of subscriptions first, ...: subscription s has the rows slots[groups[s] : groups[s + 1]].

    Every match, or for k > 0 the k best, best first. Return the first subscription not done (out is full) or their number.
    """
    n = np.int64(0)
    for s in range(first, ends.size):
        if n + k > out.ids.size:
            return s
        begin = n
        several = groups[s + 1] - groups[s] > 1
        for r in range(groups[s], groups[s + 1]):
            row = np.int64(slots[r])
            fixed, names = load_row(tree, store, row, scratch)
            plain, asked, total = load_plain(store, row, scratch)
            plain = plain and combine is None and not how & ANY
            if how & ANY:
                visits = list_every(tree, scratch)
            else:
                meet_cells(tree, scratch)
                visits = list_met(tree, scratch)
            reach = words_read(asked)
            v = np.int64(0)
            while v < visits and n >= 0:
                v, found = list_events(tree, scratch, v, visits, fixed, how)
                candidates[0] += found
                for i in range(-AHEAD, found):
                    prefetch_event(tree, live, scratch, i, found, reach)
                    if i < 0 or n < 0:
                        continue
                    start = np.int64(scratch.found[i])
                    id_ = id_at(live, start)
                    score = total
                    if plain and flags_at(live, start) == 0:
                        holds = holds_plain(live, start, scratch, names, asked)
                    else:
                        load_live(live, start, scratch, names)
                        score = score_row(store, row, scratch.values, scratch.parts, how, combine)
                        holds = not np.isnan(score)
                    holds &= now < live.keys[start + UNTIL]
                    if k == 0 and not several and n < out.ids.size:
                        out.ids[n] = id_
                        out.scores[n] = score
                        n += np.int64(holds)
                    elif n - begin == k and k > 0:
                        # Most hits are no better than the k best so far: one branch, mostly foreseen.
                        if holds & (several | worse(out.scores[begin], out.ids[begin], score, id_)):
                            n = take_event(scratch.seen, out, begin, n, k, id_, slot_at(live, start), score, several)
                    elif holds:
                        n = take_event(scratch.seen, out, begin, n, k, id_, slot_at(live, start), score, several)
                if v >= visits:  # not before the last node has been looked at: a removal may free nodes
                    remove_expired(tree, live, scratch, found, now)
            unload_row(scratch, names)
        if n < 0:
            return s
        if k > 0:
            best_first(out, begin, n - begin)
        ends[s] = n
    return ends.size
