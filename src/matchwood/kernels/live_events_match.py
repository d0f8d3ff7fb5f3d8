"""Subscription matching (MO-Tree 4.5.1): the live events of each new subscription, expired ones removed on the way.

    row -> ticks -> cells of each layer that meet it -> nodes -> at most two planes a predicate -> a few events -> exact test

The exact test is that of event matching: the few dimensions that the row names are spread over `values`, and the row, in a store
of its own, is scored by `verify.score_row`. Writes only when it meets expired events: callers hold the writer's lock.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import prefetch, trailing_zeros
from matchwood.kernels.live_events import LOOSE, remove_event
from matchwood.kernels.mo_tree import (
    AHEAD,
    HEAD_WORDS,
    LAYERS,
    LINE,
    LINE_ROWS,
    MEMBER_WORDS,
    NODES,
    NONE,
    SLICED,
    axis_number,
    cell_of,
    slice_of,
    tick_of,
)
from matchwood.kernels.mo_tree_match import FOUND, next_number
from matchwood.kernels.planes import and_flipped_planes
from matchwood.kernels.results import best_first, sift_down, sift_up, worse
from matchwood.kernels.store import ABSENT, CIRCLE
from matchwood.kernels.verify import ANY, score_row


class Parts(NamedTuple):
    """The values of one event that a row asks for, as `verify` reads them."""

    lo: np.ndarray
    hi: np.ndarray


class LiveScratch(NamedTuple):
    values: np.ndarray  # VALUE, one a dimension
    wanted: np.ndarray  # int64: the dimensions that the row names
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
    found: np.ndarray  # uint32 [FOUND]


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
def unload_row(scratch, names):
    for j in range(names):
        value = scratch.values[scratch.wanted[j]]
        value.lo, value.hi, value.weight = np.nan, np.nan, 1.0


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
        begin = slice_of(axis, first, width, scratch.begins[a])
        end = slice_of(axis, first, width, scratch.ends[a])
        steps = add_steps(scratch, steps, np.int64(axis.plane), np.int64(axis.slices), begin, end)
    return steps


@helper
def filter_events(tree, scratch, v, visits, steps, how):
    """Leave in scratch.line the events of a node that may match; True if there may be any. O(steps)."""
    node = tree.nodes[np.int64(scratch.visit[v])]
    words = np.int64(node.words)
    valid = np.int64(node.start) + np.int64(MEMBER_WORDS) * words
    after = tree.nodes[np.int64(scratch.visit[min(v + 1, visits - 1)])]
    ahead_words = np.int64(after.words)
    ahead = np.int64(after.start) + np.int64(HEAD_WORDS) * ahead_words
    if how & ANY:
        steps = np.int64(0)
    and_flipped_planes(
        tree.bits,
        valid,
        valid + 2 * words,
        words,
        scratch.planes,
        scratch.flips,
        steps,
        ahead,
        ahead_words,
        scratch.line,
    )
    left = np.uint64(0)
    for w in range(min(words, np.int64(LINE))):
        scratch.line[w] |= tree.bits[valid + words + w] & tree.bits[valid + w]
        left |= scratch.line[w]
    return left != 0


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
def prefetch_event(tree, live, scratch, i, n):
    """The steps before event i is verified: its slot, its record, its keys."""
    if i + 2 * AHEAD < n:
        slot = tree.members[np.int64(scratch.found[i + 2 * AHEAD])]
        scratch.found[i + 2 * AHEAD] = slot
        prefetch(live.events, np.int64(slot))
    if 0 <= i + AHEAD < n:
        start = np.int64(live.events[np.int64(scratch.found[i + AHEAD])].start)
        prefetch(live.dims, start)
        prefetch(live.keys, start)
        prefetch(live.keys, start + 8)
        prefetch(live.keys, start + 16)


@helper
def load_live(live, slot, scratch, names):
    """Spread the values that the row names; those the event lacks are absent. O(names), O(names + entries) for a loose event."""
    event = live.events[slot]
    start, n = np.int64(event.start), np.int64(event.count)
    loose = event.flags & LOOSE
    filled = np.int64(0)
    for j in range(names):
        dim = scratch.wanted[j]
        value = scratch.values[dim]
        # Dimensions ascend, so the dimension stands at or before its own number, and near it in an event with most attributes.
        at = min(dim, n - 1)
        while at >= 0 and np.int64(live.dims[start + at]) > dim:
            at -= 1
        if at < 0 or np.int64(live.dims[start + at]) != dim:
            if not loose or not is_listed(live, start, n, dim):
                value.lo, value.hi, value.weight = np.nan, np.nan, 1.0
                continue
        if not loose:
            key = live.keys[start + at]
            value.lo, value.hi, value.weight = key, key, 1.0
            value.first, value.parts = np.uint32(filled), np.uint32(1)
            scratch.parts.lo[filled] = key
            scratch.parts.hi[filled] = key
            filled += 1
            continue
        filled = load_loose(live, start, n, dim, value, scratch, filled)


@helper
def is_listed(live, start, n, dim):
    """Has a loose event the dimension? A list before it may have pushed it behind its own number."""
    for i in range(n):
        if np.int64(live.dims[start + i]) == dim:
            return True
    return False


@helper
def load_loose(live, start, n, dim, value, scratch, filled):
    """Spread a value that may have several parts; return how many parts are filled now."""
    value.first, value.parts = np.uint32(filled), np.uint32(0)
    for i in range(n):
        if np.int64(live.dims[start + i]) != dim:
            continue
        if value.parts == 0:
            value.lo, value.weight = live.keys[start + i], live.keys[start + 2 * n + i]
        value.hi = live.keys[start + n + i]
        value.parts += np.uint32(1)
        scratch.parts.lo[filled] = live.keys[start + i]
        scratch.parts.hi[filled] = live.keys[start + n + i]
        filled += 1
    return filled


@helper
def take(scratch, out, begin, n, k, id_, slot, score, several):
    """Add an event to the answer, once a subscription; return the new count, -1 if `out` is full."""
    if k == 0:
        at = np.int64(scratch.seen[slot])
        if several and begin <= at < n and out.ids[at] == id_:
            out.scores[at] = max(out.scores[at], score)
            return n
        if n == out.ids.size:
            return np.int64(-1)
        scratch.seen[slot] = np.uint32(n)
        out.ids[n] = id_
        out.scores[n] = score
        return n + 1
    size = n - begin
    if several:
        for at in range(size):
            if out.ids[begin + at] == id_:
                if score > out.scores[begin + at]:
                    sift_down(out, begin, size, at, score, id_)
                return n
    if size < k:
        sift_up(out, begin, size, score, id_)
        return n + 1
    if worse(out.scores[begin], out.ids[begin], score, id_):
        sift_down(out, begin, size, 0, score, id_)
    return n


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
            if how & ANY:
                visits = np.int64(0)
                for node in range(tree.counts[NODES]):
                    scratch.visit[visits] = np.uint32(node)
                    visits += np.int64(tree.nodes[node].words > 0)
            else:
                meet_cells(tree, scratch)
                visits = list_met(tree, scratch)
            v = np.int64(0)
            number = np.int64(-1)
            steps = fixed
            while v < visits and n >= 0:
                found = np.int64(0)
                while v < visits and found + LINE_ROWS <= FOUND:
                    here = np.int64(tree.nodes[np.int64(scratch.visit[v])].number)
                    if here != number:
                        number = here
                        steps = add_layer_steps(tree, scratch, number, fixed)
                    if filter_events(tree, scratch, v, visits, steps, how):
                        found = collect_events(tree, scratch, v, found)
                    v += 1
                candidates[0] += found
                for i in range(-2 * AHEAD, found):
                    prefetch_event(tree, live, scratch, i, found)
                    if i < 0 or n < 0:
                        continue
                    slot = np.int64(scratch.found[i])
                    if not now < live.events[slot].until:
                        continue
                    load_live(live, slot, scratch, names)
                    score = score_row(store, row, scratch.values, scratch.parts, how, combine)
                    if not np.isnan(score):
                        n = take(scratch, out, begin, n, k, live.events[slot].id, slot, score, several)
                # Not before the last node has been looked at: a removal may free nodes.
                for i in range(found):
                    slot = np.int64(scratch.found[i])
                    if not now < live.events[slot].until and v >= visits:
                        remove_event(tree, live, slot)
            unload_row(scratch, names)
        if n < 0:
            return s
        if k > 0:
            best_first(out, begin, n - begin)
        ends[s] = n
    return ends.size
