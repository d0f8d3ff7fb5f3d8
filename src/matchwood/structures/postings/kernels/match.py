"""Matching with `postings`. Readers only.

An event is answered block by block from the planes: for each axis, the planes and lists of the cells of its value give the
positions that it admits, and the intersection over all axes gives candidates. Exact ones are hits at once if all weights of
the event are 1. Then the rows filed under the event's values are tested.

Where all matches are wanted, a group of events is intersected with one block after the other, so that the planes of a block are
in the cache for all of them; the positions that are left are kept as bits, and the answers are taken from these. The k best need
few blocks, which are answered event by event.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import copy_words, intersect_words, prefetch, trailing_zeros, unite_planes, unite_words
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
    verify_found,
)
from matchwood.store.kernels.parts import value_meets
from matchwood.store.kernels.results import keep_best
from matchwood.structures.postings.kernels.hulls import height_of
from matchwood.structures.postings.kernels.layout import (
    BLOCK,
    FILED,
    HAVING,
    KEYED,
    LACKING,
    LIVE,
    NO_SECOND,
    PLANES,
    POSITIONS,
    SEVERAL,
    WHOLE,
    WORDS,
    cell_of,
    filter_bit,
    hash_of,
    place_of,
)

GROUP = 64  # events that are intersected with a block together
MAX_ADMITTED = 1 << 20  # words of the bits of a group, unless one event needs more
TOGETHER = 32  # values that are looked up before their files are searched
LISTED = 256  # hits that are prefetched before the first of them is read
GROUP_STEPS = 64 * GROUP  # steps of a group, unless one event needs more

# What an event reads of an axis: a plane, or a list of positions that is added or taken away. `next` is the first position of the
# list that no block has passed yet, at members[at]; the list ends before `end`.
STEP = np.dtype([("plane", "i8"), ("next", "i8"), ("at", "i8"), ("end", "i8")])
ADDED, TAKEN = -1, -2  # instead of a plane
PASSED = np.int64(1) << 40  # beyond all positions
SPAN = np.dtype([("begin", "i8"), ("lists", "i8"), ("end", "i8"), ("pad", "i8")])  # planes, then lists from `lists` on


class PostingsScratch(State):
    candidates: Candidates = nested(Candidates)
    steps: np.ndarray = array(STEP)
    spans: np.ndarray = array(SPAN)  # by event of a group and axis: its steps
    simple: np.ndarray = array(np.uint8)  # by event of a group: are its values on axes with NOT IN single keys?
    admitted: np.ndarray = array(np.uint64)  # by event of a group: the positions that all axes admit, a bit each
    spread: np.ndarray = array(np.int64)  # by event of a group: the axis whose lists are bits as well, -1 for none
    listed: np.ndarray = array(np.uint64)  # these bits
    heights: np.ndarray = array(np.float64)  # by block: no row of it scores higher; -inf once it has been visited
    words: np.ndarray = array(np.uint64)  # [WORDS]: admitted by one axis
    stamps: np.ndarray = array(np.uint32)  # by slot: the event that last found it under several values
    stamp: np.ndarray = array(np.uint32)  # [1]
    filter: np.ndarray = array(np.uint64)  # [FILTER // 64]: the keys of the event, a bit each; some share one
    places: np.ndarray = array(np.int64)  # [TOGETHER]: where the table has some values


@kernel
def answer_events(postings, store, scratch, query, first, out, ends):
    """Answer events[first:]; return the first not done (out is full) or their number. ends[e] is where e's hits end."""
    candidates, events, combine = scratch.candidates, query.events, query.combine
    start_answers(candidates, query)
    grouped = query.k == 0
    e, group_begin, group_end = np.int64(first), np.int64(first), np.int64(first)
    while e < ends.size:
        if postings.counts[POSITIONS] > 0 and (e == group_end or not grouped):
            group_begin = e
            limit = group_limit(postings, scratch, out, e - first) if grouped else np.int64(1)
            group_end = e + find_group(postings, scratch, events, e, min(limit, ends.size - e), grouped)
            if grouped:
                admit_group(postings, scratch, group_end - e)
        if not begin_answer(store, candidates, events, combine, e, out):
            return e
        unit, at_most_one = weights_of(events, e)
        if postings.counts[POSITIONS] > 0:
            exact = postings.exact if scratch.simple[e - group_begin] else postings.exact_for_lists
            if not unit or combine is not None:
                exact = exact[:0]
            if grouped:
                take_admitted(postings, store, scratch, events, combine, e - group_begin, exact, out)
            else:
                search_planes(postings, store, scratch, events, combine, exact, at_most_one, out)
        if postings.counts[FILED] > 0 and candidates.answer[0].end >= 0:
            search_files(postings, store, scratch, events, combine, e, unit, at_most_one, out)
        if not end_answer(store, candidates, events, combine, e, out, ends):
            return e
        e += 1
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
def blocks_of(postings):
    """How many blocks have positions."""
    return (postings.counts[POSITIONS] + BLOCK - 1) // BLOCK


@helper
def group_limit(postings, scratch, out, done):
    """How many events may be a group: their bits must have room, and so must their hits, as far as these can be foreseen."""
    end = scratch.candidates.answer[0].end
    hits = BLOCK + end // max(done, np.int64(1))
    room = scratch.admitted.size // (blocks_of(postings) * WORDS)
    return max(np.int64(1), min(np.int64(GROUP), room, (out.ids.size - end) // hits))


@helper
def find_group(postings, scratch, events, first, limit, grouped):
    """List the steps of the events from `first` on, as many as there is room for and at most `limit`; return their number."""
    n = np.int64(0)
    for g in range(limit):
        n = find_steps(postings, scratch, events, first + g, g, n, grouped)
        if n < 0:
            return np.int64(g)  # never 0: one event has room
    return np.int64(limit)


@helper
def find_steps(postings, scratch, events, e, g, n, grouped):
    """List from steps[n] on what event e reads, axis by axis; return where it ends, -1 if there is no room. O(cells).

    In a group, the lists of the first axis on which the event has several values are spread as bits over all blocks, which is
    faster than to follow each list from block to block.
    """
    spans, simple = g * postings.axes.size, True
    scratch.spread[g] = np.int64(-1)
    for number in range(postings.axes.size):
        span = scratch.spans[spans + number]
        span.begin = span.lists = span.end = n
    part, end = events.offsets[e], events.offsets[e + 1]
    while part < end:
        dim, first = np.int64(events.dims[part]), part
        while part < end and np.int64(events.dims[part]) == dim:
            part += 1
        number = np.int64(postings.axis_of[dim]) if dim < postings.axis_of.size else np.int64(-1)
        if number < 0 or np.isnan(events.lo[first]):
            continue
        axis, span = postings.axes[number], scratch.spans[spans + number]
        single = part == first + 1 and events.lo[first] == events.hi[first]
        simple = simple and (single or not axis.excludes)
        span.begin = n
        spread = grouped and part > first + 1 and scratch.spread[g] < 0
        if spread:
            scratch.spread[g] = number
            size = blocks_of(postings) * WORDS
            for w in range(g * size, (g + 1) * size):
                scratch.listed[w] = np.uint64(0)
        last, alone = np.int64(-1), False
        for i in range(first, part):
            low = cell_of(postings, axis, events.lo[i])
            high = low if events.hi[i] == events.lo[i] else cell_of(postings, axis, events.hi[i])
            alone = part == first + 1 and low == high
            for cell in range(max(low, last + 1), high + 1):
                if n + 2 > scratch.steps.size:
                    return np.int64(-1)
                at = axis.cut + number + cell
                if spread and postings.plane_of[at] < 0:
                    spread_list(postings, scratch, g, postings.lists[2 * at])
                else:
                    n = add_steps(postings, scratch, at, alone, n)
            last = max(last, high)
        # No step would mean that the event lacks the axis, and a single plane that it decides.
        if n == span.begin or (n == span.begin + 1 and not alone):
            if n == scratch.steps.size:
                return np.int64(-1)
            scratch.steps[n].plane, scratch.steps[n].next = np.int64(ADDED), PASSED
            n += 1
        span.end = n
        span.lists = planes_first(scratch.steps, span.begin, n)
    scratch.simple[g] = np.uint8(simple)
    return n


@helper
def planes_first(steps, begin, end):
    """Put the planes among steps[begin:end] before the lists; return where the lists begin. O(steps)."""
    lists = begin
    for i in range(begin, end):
        if steps[i].plane >= 0:
            plane = steps[i].plane
            if lists < i:
                steps[i] = steps[lists]
            steps[lists].plane = plane
            lists += 1
    return lists


@helper
def spread_list(postings, scratch, g, list_):
    """Add the positions of a list to the bits of event g. O(list)."""
    base, start = g * blocks_of(postings) * WORDS, np.int64(list_.start)
    for at in range(start, start + np.int64(list_.size)):
        position = np.int64(postings.members[at])
        scratch.listed[base + (position >> 6)] |= np.uint64(1) << np.uint64(position & 63)


@helper
def add_steps(postings, scratch, cell, alone, n):
    """List the plane or the lists of a cell; positions are taken away only where it is the event's one cell of the axis."""
    plane = np.int64(postings.plane_of[cell])
    if plane >= 0:
        scratch.steps[n].plane = plane
        return n + 1
    for taken in range(2 if alone else 1):
        list_ = postings.lists[2 * cell + taken]
        if list_.size > 0:
            step = scratch.steps[n]
            step.plane = np.int64(TAKEN) if taken else np.int64(ADDED)
            step.at = np.int64(list_.start)
            step.end = step.at + np.int64(list_.size)
            step.next = np.int64(postings.members[step.at])
            n += 1
    return n


@helper
def admit_axis(postings, scratch, g, number, block, seeks):
    """Write into `words` the positions of a block that the axis admits for event g. Blocks ascend, unless it `seeks`."""
    span = scratch.spans[g * postings.axes.size + number]
    block_words = postings.counts[PLANES] * WORDS
    words, base = scratch.words, block * block_words
    copy_words(words, 0, postings.bits, base + (postings.axes[number].plane + HAVING) * WORDS)
    if scratch.spread[g] == number:
        unite_words(words, 0, scratch.listed, (g * blocks_of(postings) + block) * WORDS)
    unite_planes(words, 0, postings.bits, base, block_words, scratch.steps, span.begin, span.lists)
    limit = (block + 1) * BLOCK
    for i in range(span.lists, span.end):
        step = scratch.steps[i]
        if seeks:
            note_listed(postings, words, step, block, members_before(postings, step, block * BLOCK))
        elif step.next < limit:
            step.at = note_listed(postings, words, step, block, step.at)
            step.next = np.int64(postings.members[step.at]) if step.at < step.end else PASSED


@helper
def members_before(postings, step, position):
    """Where the first of the members of a list is that is not below a position, or its end. O(log members)."""
    low, high = step.at, step.end
    while low < high:
        middle = (low + high) >> 1
        if np.int64(postings.members[middle]) < position:
            low = middle + 1
        else:
            high = middle
    return low


@helper
def note_listed(postings, words, step, block, at):
    """Add the positions of a block that a list has from member `at` on, or take them away; return where they end."""
    lowest = block * BLOCK
    while at < step.end and np.int64(postings.members[at]) < lowest + BLOCK:
        place = np.int64(postings.members[at]) - lowest
        if place >= 0:
            bit = np.uint64(1) << np.uint64(place & 63)
            if step.plane == TAKEN:
                words[place >> 6] &= ~bit
            else:
                words[place >> 6] |= bit
        at += 1
    return at


@helper
def intersect_axes(postings, scratch, g, block, target, ahead, seeks):
    """Write the positions of a block that all axes admit to admitted[target:]; return whether there are any.

    `ahead`: will the next block be read too? `seeks`: blocks do not ascend.
    """
    block_words = postings.counts[PLANES] * WORDS
    admitted, base = scratch.admitted, block * block_words
    copy_words(admitted, target, postings.bits, base + LIVE * WORDS)
    for number in range(postings.axes.size):
        span = scratch.spans[g * postings.axes.size + number]
        at = np.int64(-1)
        if span.end == span.begin:
            at = base + (postings.axes[number].plane + LACKING) * WORDS
        elif span.end == span.begin + 1 and scratch.steps[span.begin].plane >= 0:
            at = base + scratch.steps[span.begin].plane * WORDS
        if at >= 0:
            if ahead:  # the same plane of the next block: two cache lines
                prefetch(postings.bits, at + block_words)
                prefetch(postings.bits, at + block_words + WORDS // 2)
            left = intersect_words(admitted, target, postings.bits, at)
        else:
            admit_axis(postings, scratch, g, number, block, seeks)
            left = intersect_words(admitted, target, scratch.words, 0)
        if not left:
            return False
    return True


@helper
def admit_group(postings, scratch, size):
    """Intersect the axes of all blocks for all events of a group. O(blocks * steps)."""
    blocks = blocks_of(postings)
    for block in range(blocks):
        for g in range(size):
            intersect_axes(postings, scratch, g, block, (g * blocks + block) * WORDS, True, False)
    scratch.candidates.work[VISITED] += blocks * size
    count_tests(scratch.candidates, BOUNDARIES, blocks * size * postings.axes.size)


@helper
def take_admitted(postings, store, scratch, events, combine, g, exact, out):
    """Answer the loaded event, which is number g of its group. Positions in `exact` need no verification."""
    blocks = blocks_of(postings)
    if exact.size > 0 and not take_exact(postings, scratch, exact, g * blocks * WORDS, out):
        return
    for block in range(blocks):
        target = (g * blocks + block) * WORDS
        if not take_block(postings, store, scratch, events, combine, block, target, False, out):
            return


@helper
def take_exact(postings, scratch, exact, target, out):
    """Add the exact ones of the positions that admitted[target:] has to the answer, and leave the others; False if `out` is full.

    Hits are far apart in memory. So positions are listed first, in the place of ids, and their hits prefetched; then these are
    read, some hundred at a time.
    """
    answer, hits, ids, admitted = scratch.candidates.answer[0], postings.hits, out.ids, scratch.admitted
    words = blocks_of(postings) * WORDS
    done = n = answer.end
    for w in range(words):
        word = admitted[target + w] & exact[w]
        admitted[target + w] ^= word
        if n + 64 > ids.size:
            answer.end = np.int64(-1)
            return False
        while word:
            position = (w << 6) + np.int64(trailing_zeros(word))
            word &= word - np.uint64(1)
            prefetch(hits, position)
            ids[n] = position
            n += 1
        if n - done >= LISTED or w == words - 1:
            for i in range(done, n):
                hit = hits[ids[i]]
                ids[i], out.scores[i] = hit.id, hit.score
            done = n
    answer.end = n
    return True


@helper
def search_planes(postings, store, scratch, events, combine, exact, at_most_one, out):
    """Answer the loaded event, alone in its group, from the blocks that may hold one of the k best."""
    candidates, prunes = scratch.candidates, at_most_one and combine is None
    if postings.hulls.size > 0 and candidates.answer[0].ranks:
        search_highest(postings, store, scratch, events, combine, exact, out)
        return
    for block in range(blocks_of(postings)):
        if prunes and postings.bounds[block] < score_to_reach(candidates, out):
            continue
        candidates.work[VISITED] += 1
        count_tests(candidates, BOUNDARIES, postings.axes.size * ONE)
        if intersect_axes(postings, scratch, 0, block, 0, False, False):
            if exact.size > 0:
                rank_exact(postings, scratch, exact, block, out)
            if not take_block(postings, store, scratch, events, combine, block, 0, prunes, out):
                return


@helper
def search_highest(postings, store, scratch, events, combine, exact, out):
    """As `search_planes` where blocks have hulls: the highest block first, until none that is left can reach the k-th score."""
    candidates, heights, blocks = scratch.candidates, scratch.heights, blocks_of(postings)
    for block in range(blocks):
        heights[block] = height_of(postings, block, candidates.values)
    while True:
        highest = np.int64(0)
        for block in range(1, blocks):
            highest = block if heights[block] > heights[highest] else highest
        if heights[highest] == -np.inf or heights[highest] < score_to_reach(candidates, out):
            return
        heights[highest] = -np.inf
        candidates.work[VISITED] += 1
        count_tests(candidates, BOUNDARIES, postings.axes.size * ONE)
        if intersect_axes(postings, scratch, 0, highest, 0, False, True):
            if exact.size > 0:
                rank_exact(postings, scratch, exact, highest, out)
            take_block(postings, store, scratch, events, combine, highest, 0, False, out)
            verify_found(store, candidates, events, combine, out)


@helper
def rank_exact(postings, scratch, exact, block, out):
    """Offer the exact ones of the admitted positions of a block to the k best, and leave the others."""
    answer = scratch.candidates.answer[0]
    begin, n = answer.begin, answer.end
    for w in range(WORDS):
        word = scratch.admitted[w] & exact[block * WORDS + w]
        scratch.admitted[w] ^= word
        while word:
            hit = postings.hits[block * BLOCK + (w << 6) + np.int64(trailing_zeros(word))]
            word &= word - np.uint64(1)
            n = begin + keep_best(out, begin, n - begin, answer.k, hit.id, hit.score, False)
    answer.end = n


@helper
def take_block(postings, store, scratch, events, combine, block, target, prunes, out):
    """Add the positions of a block that admitted[target:] has to the candidates; False if `out` is full.

    `prunes`: leave out those whose full score is too low. Rows that came after the block was filled have any score, so there
    may be many.
    """
    candidates, admitted = scratch.candidates, scratch.admitted
    answer = candidates.answer[0]
    for w in range(WORDS):
        word = admitted[target + w]
        least = score_to_reach(candidates, out) if prunes else -np.inf
        while word:
            position = block * BLOCK + (w << 6) + np.int64(trailing_zeros(word))
            word &= word - np.uint64(1)
            if least > -np.inf and postings.hits[position].score < least:
                continue
            add_candidate(store, candidates, events, combine, postings.slots[position], out)
            if answer.end < 0:
                return False
    return True


@helper
def search_files(postings, store, scratch, events, combine, e, unit, at_most_one, out):
    """Answer the loaded event e from the rows filed under its values; a range looks at every file of its dimension."""
    begin, end = np.int64(events.offsets[e]), np.int64(events.offsets[e + 1])
    scratch.stamp[0] += np.uint32(1)
    pointed = True
    for i in range(begin, end):
        pointed &= events.lo[i] == events.hi[i]
        bit = filter_bit(np.int64(events.dims[i]), events.lo[i])
        scratch.filter[bit >> 6] |= np.uint64(1) << np.uint64(bit & 63)
    search_values(postings, store, scratch, events, combine, begin, end, pointed, unit, at_most_one, out)
    if not pointed and scratch.candidates.answer[0].end >= 0:
        search_ranges(postings, store, scratch, events, combine, unit, at_most_one, out)
    for i in range(begin, end):
        scratch.filter[filter_bit(np.int64(events.dims[i]), events.lo[i]) >> 6] = np.uint64(0)


@helper
def search_values(postings, store, scratch, events, combine, begin, end, pointed, unit, at_most_one, out):
    """Search the files of the values of an event that are single keys. `pointed`: all are.

    Files are far apart in memory, so some are looked up, and their postings prefetched, before the first of them is searched.
    """
    table, places = postings.table, scratch.places
    for first in range(begin, end, TOGETHER):
        last = min(first + TOGETHER, end)
        for i in range(first, last):
            home = hash_of(np.int64(events.dims[i]), events.lo[i]) & np.uint64(table.size - 1)
            prefetch(table, np.int64(home))
        for i in range(first, last):
            places[i - first] = place_of(table, np.int64(events.dims[i]), events.lo[i])
            prefetch(postings.filed, np.int64(table[places[i - first]].start))
        for i in range(first, last):
            if events.lo[i] == events.hi[i]:
                search_file(
                    postings, store, scratch, events, combine, places[i - first], pointed, unit, at_most_one, out
                )
                if scratch.candidates.answer[0].end < 0:
                    return


@helper
def search_ranges(postings, store, scratch, events, combine, unit, at_most_one, out):
    """Search the files whose keys are in a range of the loaded event. O(keys)."""
    candidates = scratch.candidates
    for at in range(postings.table.size):
        file = postings.table[at]
        if not file.used or file.size == 0 or np.int64(file.dim) >= candidates.values.size:
            continue
        value = candidates.values[np.int64(file.dim)]
        if not (value.lo <= file.key and file.key <= value.hi):
            continue
        for part in range(np.int64(value.first), np.int64(value.first) + np.int64(value.parts)):
            if events.lo[part] < events.hi[part] and events.lo[part] <= file.key and file.key <= events.hi[part]:
                search_file(postings, store, scratch, events, combine, at, False, unit, at_most_one, out)
                break
        if candidates.answer[0].end < 0:
            return


@helper
def search_file(postings, store, scratch, events, combine, at, pointed, unit, at_most_one, out):
    """Make hits or candidates of the rows filed under one value.

    `pointed`: the filter has all keys of the event. `unit`: are all its weights 1?
    """
    candidates, file = scratch.candidates, postings.table[at]
    if not file.used:
        return
    prunes = at_most_one and combine is None
    decides = unit and combine is None
    count_tests(candidates, BOUNDARIES, np.int64(file.size))
    for p in range(np.int64(file.start), np.int64(file.start) + np.int64(file.size)):
        posting = postings.filed[p]
        is_hit = decides and posting.flags & WHOLE
        if posting.flags & KEYED:
            bit = np.int64(posting.hi)
            if pointed and not (scratch.filter[bit >> 6] >> np.uint64(bit & 63)) & np.uint64(1):
                continue
            if not value_meets(candidates.values[np.int64(posting.dim)], events, posting.lo, posting.lo):
                continue
        elif posting.dim != NO_SECOND:
            value = candidates.values[np.int64(posting.dim)]
            if not (posting.lo <= value.hi and value.lo <= posting.hi):
                continue
            is_hit = is_hit and value.parts == 1
        if prunes and posting.score < score_to_reach(candidates, out):
            continue
        if posting.flags & SEVERAL:
            if scratch.stamps[np.int64(posting.slot)] == scratch.stamp[0]:
                continue
            scratch.stamps[np.int64(posting.slot)] = scratch.stamp[0]
        if is_hit:
            take_filed(store, candidates, posting, out)
        else:
            add_candidate(store, candidates, events, combine, posting.slot, out)
        if candidates.answer[0].end < 0:
            return


@helper
def take_filed(store, candidates, posting, out):
    """Add the row of a posting to the answer; `answer.end` is negative then if `out` is full."""
    answer = candidates.answer[0]
    begin, n, id_ = answer.begin, answer.end, store.rows[np.int64(posting.slot)].id
    if answer.k > 0:
        answer.end = begin + keep_best(out, begin, n - begin, answer.k, id_, posting.score, False)
    elif n < out.ids.size:
        out.ids[n], out.scores[n] = id_, posting.score
        answer.end = n + 1
    else:
        answer.end = np.int64(-1)
