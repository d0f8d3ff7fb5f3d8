"""Matching with `postings`. Readers only.

An event is answered block by block from the planes: for each axis, the planes and lists of the cells of its value give the
positions that it admits, and the intersection over all axes gives candidates. Exact ones are hits at once if all weights of
the event are 1. Then the rows filed under the event's values are tested.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import intersect_words, trailing_zeros, unite_words
from matchwood.jit.state import State, array, nested
from matchwood.store.kernels.candidates import (
    BOUNDARIES,
    ONE,
    VISITED,
    Candidates,
    add_candidate,
    begin_answer,
    count_tests,
    end_answer,
    score_to_reach,
    start_answers,
)
from matchwood.store.kernels.results import keep_best
from matchwood.structures.postings.kernels.layout import (
    BLOCK,
    EXACT,
    FILED,
    HAVING,
    LACKING,
    LIVE,
    NO_SECOND,
    PLANES,
    POSITIONS,
    WORDS,
    cell_of,
    place_of,
)


class PostingsScratch(State):
    candidates: Candidates = nested(Candidates)
    cells: np.ndarray = array(np.int64)  # of the event, axis by axis
    ends: np.ndarray = array(np.int64)  # by axis: where its cells end
    places: np.ndarray = array(np.int64)  # by cell of the event: how much of its lists the blocks have passed, two each
    words: np.ndarray = array(np.uint64)  # [2 * WORDS]: admitted by all axes so far, admitted by one
    stamps: np.ndarray = array(np.uint32)  # by slot: the event that last found it under several values
    stamp: np.ndarray = array(np.uint32)  # [1]


@kernel
def answer_events(postings, store, scratch, query, first, out, ends):
    """Answer events[first:]; return the first not done (out is full) or their number. ends[e] is where e's hits end."""
    candidates, events, combine = scratch.candidates, query.events, query.combine
    start_answers(candidates, query)
    for e in range(first, ends.size):
        if not begin_answer(candidates, events, e, out):
            return e
        unit, at_most_one = weights_of(events, e)
        if postings.counts[POSITIONS] > 0:
            simple = find_cells(postings, scratch, events)
            if combine is not None:
                simple = False
            search_planes(postings, store, scratch, events, combine, simple and unit, at_most_one, out)
        if postings.counts[FILED] > 0 and candidates.answer[0].end >= 0:
            search_files(postings, store, scratch, events, combine, e, at_most_one, out)
        if not end_answer(store, candidates, events, combine, e, out, ends):
            return e
    return ends.size


@helper
def weights_of(events, e):
    """(are all weights of the event 1?, is none above 1?)"""
    unit, at_most_one = True, True
    for i in range(events.offsets[e], events.offsets[e + 1]):
        unit &= events.weight[i] == 1.0
        at_most_one &= events.weight[i] <= 1.0
    return unit, at_most_one


@helper
def find_cells(postings, scratch, events):
    """List the cells of the event, axis by axis; return whether exact positions need no verification. O(cells log cuts)."""
    simple, n = True, np.int64(0)
    for number in range(postings.axes.size):
        axis = postings.axes[number]
        value = scratch.candidates.values[axis.dim]
        if not np.isnan(value.lo):
            base, begin = axis.cut + number, n
            for part in range(np.int64(value.first), np.int64(value.first) + np.int64(value.parts)):
                low = base + cell_of(postings, axis, events.lo[part])
                high = low
                if events.hi[part] != events.lo[part]:
                    high = base + cell_of(postings, axis, events.hi[part])
                if n > begin and scratch.cells[n - 1] >= low:
                    low = scratch.cells[n - 1] + 1
                for cell in range(low, high + 1):
                    scratch.cells[n] = cell
                    scratch.places[2 * n] = scratch.places[2 * n + 1] = np.int64(0)
                    n += 1
            simple = simple and (not axis.excludes or (value.parts == 1 and value.lo == value.hi))
        scratch.ends[number] = n
    return simple


@helper
def admit_axis(postings, scratch, number, begin, end, block):
    """Write into the second half of `words` the positions of a block that the axis admits, for the event's cells begin:end."""
    words, base = scratch.words, block * postings.counts[PLANES] * WORDS
    having = base + (postings.axes[number].plane + HAVING) * WORDS
    for w in range(WORDS):
        words[WORDS + w] = np.uint64(0)
    unite_words(words, WORDS, postings.bits, having)
    for i in range(begin, end):
        plane = np.int64(postings.plane_of[scratch.cells[i]])
        if plane >= 0:
            unite_words(words, WORDS, postings.bits, base + plane * WORDS)
        else:
            note_listed(postings, scratch, i, block, 0)
            if end - begin == 1:  # with several values, another one may meet the row
                note_listed(postings, scratch, i, block, 1)


@helper
def note_listed(postings, scratch, i, block, taken):
    """Add the positions of a block that a list has (or, if `taken`, take them away)."""
    list_ = postings.lists[2 * scratch.cells[i] + taken]
    start, size, at = np.int64(list_.start), np.int64(list_.size), scratch.places[2 * i + taken]
    lowest = block * BLOCK
    while at < size and np.int64(postings.members[start + at]) < lowest:
        at += 1
    while at < size and np.int64(postings.members[start + at]) < lowest + BLOCK:
        position = np.int64(postings.members[start + at]) - lowest
        bit = np.uint64(1) << np.uint64(position & 63)
        if taken:
            scratch.words[WORDS + (position >> 6)] &= ~bit
        else:
            scratch.words[WORDS + (position >> 6)] |= bit
        at += 1
    scratch.places[2 * i + taken] = at


@helper
def intersect_axes(postings, scratch, block):
    """Write into the first half of `words` the positions of a block that all axes admit; return whether there are any."""
    words, base = scratch.words, block * postings.counts[PLANES] * WORDS
    for w in range(WORDS):
        words[w] = postings.bits[base + LIVE * WORDS + w]
    begin = np.int64(0)
    for number in range(postings.axes.size):
        end = scratch.ends[number]
        at = np.int64(-1)
        if end == begin:
            at = base + (postings.axes[number].plane + LACKING) * WORDS
        elif end == begin + 1 and postings.plane_of[scratch.cells[begin]] >= 0:
            at = base + np.int64(postings.plane_of[scratch.cells[begin]]) * WORDS
        if at >= 0:
            left = intersect_words(words, 0, postings.bits, at)
        else:
            admit_axis(postings, scratch, number, begin, end, block)
            left = intersect_words(words, 0, words, WORDS)
        if not left:
            return False
        begin = end
    return True


@helper
def search_planes(postings, store, scratch, events, combine, exact, at_most_one, out):
    """Answer the loaded event from the planes. `exact`: positions with that flag need no verification."""
    candidates = scratch.candidates
    answer = candidates.answer[0]
    for block in range((postings.counts[POSITIONS] + BLOCK - 1) // BLOCK):
        if at_most_one and combine is None and postings.bounds[block] < score_to_reach(candidates, out):
            continue
        candidates.work[VISITED] += 1
        count_tests(candidates, BOUNDARIES, postings.axes.size * ONE)
        if not intersect_axes(postings, scratch, block):
            continue
        if exact and not take_exact(postings, scratch, block, out):
            return
        for w in range(WORDS):
            word = scratch.words[w]
            while word:
                position = block * BLOCK + (w << 6) + np.int64(trailing_zeros(word))
                word &= word - np.uint64(1)
                add_candidate(store, candidates, events, combine, postings.slots[position], out)
                if answer.end < 0:
                    return


@helper
def take_exact(postings, scratch, block, out):
    """Add the exact ones of the admitted positions to the answer and leave the others; False if `out` is full."""
    answer = scratch.candidates.answer[0]
    begin, n, k = answer.begin, answer.end, answer.k
    if k == 0 and n + BLOCK > out.ids.size:
        answer.end = np.int64(-1)
        return False
    for w in range(WORDS):
        word = scratch.words[w]
        rest = np.uint64(0)
        while word:
            position = block * BLOCK + (w << 6) + np.int64(trailing_zeros(word))
            if not postings.flags[position] & EXACT:
                rest |= np.uint64(1) << np.uint64(position & 63)
            elif k == 0:
                out.ids[n] = postings.ids[position]
                out.scores[n] = postings.scores[position]
                n += 1
            else:
                id_, score = postings.ids[position], postings.scores[position]
                n = begin + keep_best(out, begin, n - begin, k, id_, score, False)
            word &= word - np.uint64(1)
        scratch.words[w] = rest
    answer.end = n
    return True


@helper
def search_files(postings, store, scratch, events, combine, e, at_most_one, out):
    """Answer the loaded event e from the rows filed under its values; a range looks at every file of its dimension."""
    candidates = scratch.candidates
    scratch.stamp[0] += np.uint32(1)
    ranged = False
    for i in range(events.offsets[e], events.offsets[e + 1]):
        if events.lo[i] == events.hi[i]:
            at = place_of(postings.table, np.int64(events.dims[i]), events.lo[i])
            search_file(postings, store, scratch, events, combine, at, at_most_one, out)
            if candidates.answer[0].end < 0:
                return
        else:
            ranged = True
    if ranged:
        for at in range(postings.table.size):
            file = postings.table[at]
            if not file.used or file.size == 0 or np.int64(file.dim) >= candidates.values.size:
                continue
            value = candidates.values[np.int64(file.dim)]
            if not (value.lo <= file.key and file.key <= value.hi):
                continue
            for part in range(np.int64(value.first), np.int64(value.first) + np.int64(value.parts)):
                if events.lo[part] < events.hi[part] and events.lo[part] <= file.key and file.key <= events.hi[part]:
                    search_file(postings, store, scratch, events, combine, at, at_most_one, out)
                    break
            if candidates.answer[0].end < 0:
                return


@helper
def search_file(postings, store, scratch, events, combine, at, at_most_one, out):
    """Make candidates of the rows filed under one value."""
    candidates, file = scratch.candidates, postings.table[at]
    if not file.used:
        return
    prunes = at_most_one and combine is None
    count_tests(candidates, BOUNDARIES, np.int64(file.size))
    for p in range(np.int64(file.start), np.int64(file.start) + np.int64(file.size)):
        posting = postings.filed[p]
        if posting.dim != NO_SECOND:
            value = candidates.values[np.int64(posting.dim)]
            if not (posting.lo <= value.hi and value.lo <= posting.hi):
                continue
        if prunes and posting.bound < score_to_reach(candidates, out):
            continue
        if posting.several:
            if scratch.stamps[np.int64(posting.slot)] == scratch.stamp[0]:
                continue
            scratch.stamps[np.int64(posting.slot)] = scratch.stamp[0]
        add_candidate(store, candidates, events, combine, posting.slot, out)
        if candidates.answer[0].end < 0:
            return
