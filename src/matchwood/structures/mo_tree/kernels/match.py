"""MO-Tree, event matching (MO-Tree 4.5.2): which buckets an event stabs, which rows there may match, which do.

    event -> ticks -> stabbed cells of each layer -> their combinations -> buckets that hold rows     `load_events`
          -> one plane an axis -> 512 rows a line, all planes ANDed at once -> a few candidates       `filter_visit`
             a list or a range has several, which are united first (`kernels.slices`)
          -> rows and entries prefetched, then the exact test of `store.kernels.verify`               `verify_found`

In the paper every row of a stabbed bucket is verified, event by event. Here bit planes leave about two candidates for each hit,
and a batch of events is answered node by node (`kernels.batch`). Readers only.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel, subroutine
from matchwood.jit.intrinsics import prefetch, trailing_zeros
from matchwood.jit.state import State, array, nested
from matchwood.store.kernels.candidates import KEY, load_keys, score_single, unload_keys
from matchwood.store.kernels.ceilings import ceiling_of
from matchwood.store.kernels.distances import PREFETCH_CANDIDATES
from matchwood.store.kernels.results import keep_largest
from matchwood.store.kernels.rows import JOINED, SIBLING, first_slot, max_score
from matchwood.store.kernels.verify import ANY, VALUE, load_event, score_row, unload_event
from matchwood.structures.mo_tree.kernels.batch import (
    Batch,
    BatchCount,
    begin_batch,
    driver,
    first_bucket,
    keep_hit,
    next_bucket,
    packed_slices,
    plane_shift,
    request,
    request_all,
    sort_requests,
)
from matchwood.structures.mo_tree.kernels.layout import (
    HEAD_WORDS,
    NONE,
    ONE,
    ONES,
    OPEN,
    VALID,
    TreeCount,
    slice_bits,
    slice_in,
    tick_of,
)
from matchwood.structures.mo_tree.kernels.planes import and_planes, and_united, prefetch_planes
from matchwood.structures.mo_tree.kernels.slices import TICK_RUN, load_slices, mask_in, touched_bits

SINGLE, RANGES, RELAXED = np.uint8(0), np.uint8(1), np.uint8(2)
"""How planes are combined: the event has one plane on every axis, several on some, or matching is relaxed."""
MAX_RANKED = 64  # k up to which candidates that cannot be among the k best are left out


class MatchScratch(State):
    """What a reader needs for a batch of events. "By axis": one for each axis of each query."""

    values: np.ndarray = array(VALUE, ndim=2)  # by query and dimension
    keys: np.ndarray = array(KEY, ndim=2)  # the same
    plain: np.ndarray = array(np.bool_)  # by query: may its candidates be verified by their keys?
    unit_weight: np.ndarray = array(np.bool_)  # by query: does no row score more than `max_score` says?
    filters: np.ndarray = array(np.uint8)  # by query: SINGLE, RANGES or RELAXED
    begins: np.ndarray = array(np.int32)  # by axis: the event's first tick, -1 if it lacks the attribute
    ends: np.ndarray = array(np.int32)  # by axis: its last tick
    planes: np.ndarray = array(np.int32)  # by axis: its plane, of an event that has one on every axis
    masks: np.ndarray = array(np.uint64)  # by axis that is no layer: a bit for each slice that the event touches
    cell_masks: np.ndarray = array(np.uint64, ndim=2)  # by query and cell: the same of the layers
    tick_runs: np.ndarray = array(TICK_RUN)  # of a value that is being loaded
    stabbed: np.ndarray = array(np.int64)  # what each stabbed cell adds to the number of a bucket, layer by layer
    slices: np.ndarray = array(np.int64)  # the event's first slice of each stabbed cell
    touched: np.ndarray = array(np.uint64)  # a bit for each slice of the stabbed cell that the event touches
    runs: np.ndarray = array(np.int64)  # where the cells of a layer begin in `stabbed`
    digits: np.ndarray = array(np.int64)  # the cell of each layer in the bucket that is requested
    line: np.ndarray = array(np.uint64)  # the positions of a node that may match
    best: np.ndarray = array(np.float64, ndim=2)  # by query: the k best scores so far, falling
    held: np.ndarray = array(np.int64)  # by query: how many they are
    worst: np.ndarray = array(np.float64)  # by query: a row that cannot score as much is none of the k best
    seen: np.ndarray = array(np.uint32)  # by slot: where a subscription of several rows stands in the answer
    candidates: np.ndarray = array(np.int64)  # how many were verified so far
    batch: Batch = nested(Batch)


@helper
def load_axes(tree, scratch, values, start):
    """Ticks and planes of the event in `values`, from `start` on; True if it has one plane on every axis. O(axes log cuts)."""
    single = True
    for a in range(tree.counts[TreeCount.AXES]):
        axis = tree.axes[a]
        dim, at = np.int64(axis.dim), start + a
        if dim >= values.size or np.isnan(values[dim].lo):
            scratch.begins[at] = np.int32(-1)
            scratch.planes[at] = np.int32(np.int64(axis.plane) + np.int64(axis.slices))
            continue
        begin = end = tick_of(tree, axis, values[dim].lo)
        if values[dim].hi > values[dim].lo:
            end = tick_of(tree, axis, values[dim].hi)
            single = single and begin == end
        scratch.begins[at], scratch.ends[at] = np.int32(begin), np.int32(end)
        scratch.planes[at] = np.int32(np.int64(axis.plane) + begin)
    return single


@helper
def stab(tree, scratch, start):
    """The cells of each layer that the event stabs; the whole-domain cell alone for an attribute it lacks. O(cells)."""
    n = np.int64(0)
    for a in range(tree.counts[TreeCount.LAYERS]):
        axis = tree.axes[a]
        begin, end = np.int64(scratch.begins[start + a]), np.int64(scratch.ends[start + a])
        first, cells = np.int64(axis.first_cell), np.int64(axis.cells)
        scratch.runs[a] = n
        for c in range(cells):
            cell = tree.cells[first + c]
            met = np.int64(cell.first) <= end and begin < np.int64(cell.first) + np.int64(cell.width)
            scratch.stabbed[n] = c
            n += np.int64(met if begin >= 0 else c == cells - 1)
        for i in range(scratch.runs[a], n):
            cell = tree.cells[first + scratch.stabbed[i]]
            low = high = np.int64(-1)
            if begin >= 0:
                low, high = slice_in(cell, begin), slice_in(cell, end)
            scratch.touched[i] = touched_bits(axis, low, high)
            scratch.slices[i] = low if low >= 0 else np.int64(axis.slices)
            scratch.stabbed[i] *= np.int64(axis.radix)
    scratch.runs[tree.counts[TreeCount.LAYERS]] = n


@helper
def stab_ranges(tree, scratch, query):
    """As `stab`, of an event whose slices have been loaded: the cells in which it touches one. O(cells)."""
    n = np.int64(0)
    for a in range(tree.counts[TreeCount.LAYERS]):
        axis = tree.axes[a]
        scratch.runs[a] = n
        for c in range(np.int64(axis.cells)):
            touched = scratch.cell_masks[query, np.int64(axis.first_cell) + c]
            scratch.touched[n], scratch.stabbed[n], scratch.slices[n] = touched, c * np.int64(axis.radix), np.int64(0)
            n += np.int64(touched != 0)
    scratch.runs[tree.counts[TreeCount.LAYERS]] = n


@helper
def reach_mask(tree, scratch, a, query):
    """The slices that the event touches on axis a, in the bucket that is requested."""
    if a >= tree.counts[TreeCount.SLICED]:
        return ONES
    if a < tree.counts[TreeCount.LAYERS]:
        return scratch.touched[scratch.digits[a]]
    at = query * tree.counts[TreeCount.AXES] + a
    if scratch.filters[query] == RANGES:
        return scratch.masks[at]
    return touched_bits(tree.axes[a], np.int64(scratch.begins[at]), np.int64(scratch.ends[at]))


@helper
def request_stabbed(tree, scratch, query):
    """Request the buckets of all combinations of cells that an event stabs; False if there is no room. O(combinations)."""
    layers = tree.counts[TreeCount.LAYERS]
    if scratch.filters[query] == RANGES:
        stab_ranges(tree, scratch, query)
    else:
        stab(tree, scratch, query * tree.counts[TreeCount.AXES])
    number = first_bucket(scratch, layers)
    if number < 0:
        return False
    while number >= 0:
        if tree.directory[number].first != NONE:
            mask_0, mask_1 = reach_mask(tree, scratch, 0, query), reach_mask(tree, scratch, 1, query)
            request(scratch.batch, number, query, packed_slices(scratch, layers), mask_0, mask_1)
        number = next_bucket(scratch, layers, number)
    return True


@helper
def load_events(tree, scratch, first, count, known):
    """Spread events[first : first + count] over values and keys, request their buckets; return how many there was room for."""
    _, events, mode, combine, _ = known
    begin_batch(scratch.batch)
    for q in range(count):
        values = scratch.values[q]
        load_event(values, events, first + q)
        is_single = load_axes(tree, scratch, values, q * tree.counts[TreeCount.AXES])
        scratch.filters[q] = RELAXED if mode & ANY else SINGLE if is_single else RANGES
        if scratch.filters[q] != SINGLE:
            load_slices(tree, scratch, values, events, q)
        if not (request_all(tree, scratch.batch, q) if mode & ANY else request_stabbed(tree, scratch, q)):
            unload_event(values, events, first + q)
            count = np.int64(q)
            break
        has_no_lists = load_keys(scratch.keys[q], events, first + q)
        is_sum = combine is None and not mode & ANY
        scratch.plain[q] = has_no_lists and is_sum
        scratch.unit_weight[q] = is_sum and has_unit_weights(events, first + q)
        scratch.held[q], scratch.worst[q] = 0, -np.inf
    sort_requests(scratch.batch)
    return count


@helper
def has_unit_weights(events, e):
    """Is no weight of event e above 1?"""
    unit = True
    for i in range(events.offsets[e], events.offsets[e + 1]):
        unit &= events.weight[i] <= 1.0
    return unit


@helper
def unload_events(scratch, first, count, known):
    events = known[1]
    for q in range(count):
        unload_event(scratch.values[q], events, first + q)
        unload_keys(scratch.keys[q], events, first + q)


@helper
def and_ranges(tree, scratch, node, query):
    """As `and_planes` where the event touches several slices of an axis: their planes are united first. O(slices touched)."""
    words = np.int64(node.words)
    base = np.int64(node.start) + HEAD_WORDS * words
    for w in range(words):
        scratch.line[w] = tree.bits[np.int64(node.start) + VALID * words + w]
    for a in range(tree.counts[TreeCount.SLICED]):
        axis, mask = tree.axes[a], mask_in(tree, scratch, node, query, a)
        if mask != slice_bits(np.int64(0), np.int64(axis.slices) - 1):  # all slices filter nothing
            and_united(tree.bits, base, plane_shift(node), np.int64(axis.plane), mask, scratch.line)


@helper
def or_planes(tree, scratch, node, query):
    """Relaxed: rows with a predicate (a zero in its null plane) that may hold, and rows with an entry no plane knows."""
    bits, words = tree.bits, np.int64(node.words)
    valid, base = np.int64(node.start) + VALID * words, np.int64(node.start) + HEAD_WORDS * words
    for w in range(words):
        scratch.line[w] = bits[valid + (OPEN - VALID) * words + w]
    for a in range(tree.counts[TreeCount.SLICED]):
        axis, mask = tree.axes[a], mask_in(tree, scratch, node, query, a)
        first, null = base + np.int64(axis.plane) * words, base + (np.int64(axis.plane) + np.int64(axis.slices)) * words
        while mask:
            plane = first + np.int64(trailing_zeros(mask)) * words
            mask &= mask - ONE
            for w in range(words):
                scratch.line[w] |= bits[plane + w] & ~bits[null + w]
    for w in range(words):
        scratch.line[w] &= bits[valid + w]


@helper
def filter_visit(tree, scratch, node, visit):
    """Leave in scratch.line the rows of a node that may match. O(axes)."""
    query = np.int64(visit.query)
    kind = scratch.filters[query]
    if kind == RELAXED:
        or_planes(tree, scratch, node, query)
    elif kind == RANGES:
        and_ranges(tree, scratch, node, query)
    else:
        words = np.int64(node.words)
        valid, base = np.int64(node.start) + VALID * words, np.int64(node.start) + HEAD_WORDS * words
        start, planes = query * tree.counts[TreeCount.AXES], tree.counts[TreeCount.SLICED]
        for a in range(tree.counts[TreeCount.LAYERS]):
            slice_ = np.int64((visit.slices >> np.uint64(8 * a)) & np.uint64(255))
            scratch.planes[start + a] = np.int32(np.int64(tree.axes[a].plane) + slice_)
        and_planes(tree.bits, valid, base, plane_shift(node), scratch.planes, start, planes, scratch.line)


@helper
def prefetch_visit(tree, scratch, visit):
    """Prefetch the planes of a visit that comes soon; of the layers those that its query read last, of ranges one an axis."""
    node = tree.nodes[visit.node]
    start = np.int64(visit.query) * tree.counts[TreeCount.AXES]
    words = np.int64(node.words)
    base = np.int64(node.start) + HEAD_WORDS * words
    prefetch(tree.bits, base + (VALID - HEAD_WORDS) * words)
    prefetch_planes(tree.bits, base, plane_shift(node), scratch.planes, start, tree.counts[TreeCount.SLICED])


@helper
def may_rank(scratch, row, query, is_ranked):
    """May the row be among the k best of the query?"""
    return not is_ranked or not max_score(row) < scratch.worst[query]


@helper
def prefetch_candidate(store, scratch, i, is_ranked):
    """Prefetch the entries of candidate i, whose row has been prefetched, unless it cannot be among the k best."""
    row, query = store.rows[np.uint64(scratch.batch.found[i])], np.int64(scratch.batch.found_by[i])
    if may_rank(scratch, row, query, is_ranked):
        start = np.int64(row.start)
        prefetch(store.entries, start)  # three cache lines are six entries; a loop over the row's lines is slower
        prefetch(store.entries, start + 2)
        prefetch(store.entries, start + 4)


@helper
def hit_slot(store, row):
    """By which slot a hit of the row is found again in an answer: its subscription may have other rows."""
    return np.uint32(first_slot(store, row.id)) if row.flags & SIBLING else NONE


@helper
def note_score(scratch, query, score, k):
    """One of the k best scores so far, of a subscription that has no other row. O(k)."""
    best = scratch.best[query]
    held = scratch.held[query] = keep_largest(best, scratch.held[query], k, score)
    if held == k and scratch.unit_weight[query]:
        scratch.worst[query] = best[k - 1]


@subroutine
def verify_plain(store, scratch, i, count, k):
    """Verify candidates i, i + 1, ... as long as row and event are plain, and keep the hits; return the first that is not so, or
    `count`. O(entries). The exact test of other rows is not called from here: it would take registers from this loop."""
    is_ranked, batch = 0 < k <= scratch.best.shape[1], scratch.batch
    n, at, end = np.uint64(batch.counts[BatchCount.HITS]), np.uint64(i), np.uint64(count)
    while at < end:
        query = np.int64(batch.found_by[at])
        prefetch(store.rows, np.int64(batch.found[at + np.uint64(PREFETCH_CANDIDATES)]))
        prefetch_candidate(store, scratch, min(at + np.uint64(PREFETCH_CANDIDATES // 2), end - ONE), is_ranked)
        slot = np.uint64(batch.found[at])
        row = store.rows[slot]
        if may_rank(scratch, row, query, is_ranked):
            if not scratch.plain[query]:
                break
            score, holds, kinds = score_single(store, slot, scratch.keys[query])
            if kinds & ~JOINED != 0:
                break
            batch.hit_ids[n], batch.hit_scores[n], batch.hit_queries[n] = row.id, score, np.uint32(query)
            batch.hit_slots[n] = NONE
            if holds and row.flags & SIBLING:
                batch.hit_slots[n] = hit_slot(store, row)
                batch.counts[BatchCount.REPEATABLE] += 1
            elif is_ranked and holds and score > scratch.worst[query]:
                note_score(scratch, query, score, k)
            n += np.uint64(holds)
        at += ONE
    batch.counts[BatchCount.HITS] = np.int64(n)
    return np.int64(at)


@subroutine
def verify_graded(scratch, count, known):
    """`verify_found` for the k best where rows have ceilings: those whose ceilings are too low are not read. O(entries)."""
    store, events, mode, combine, k = known
    batch = scratch.batch
    for i in range(min(count, PREFETCH_CANDIDATES)):
        prefetch(store.ceilings, np.int64(batch.found[i]))
    for i in range(count):
        prefetch(store.ceilings, np.int64(batch.found[i + PREFETCH_CANDIDATES]))
        slot, query = np.int64(batch.found[i]), np.int64(batch.found_by[i])
        values, worst = scratch.values[query], scratch.worst[query]
        if worst > -np.inf and ceiling_of(store, slot, values) < worst:
            continue
        row = store.rows[slot]
        score = score_row(store, slot, values, events, mode, combine)
        holds = not np.isnan(score)
        keep_hit(batch, query, row.id, score, hit_slot(store, row), holds)
        if holds and score > worst and not row.flags & SIBLING:
            note_score(scratch, query, score, k)


@subroutine
def verify_found(scratch, count, known):
    """Verify the candidates that are listed, and keep the hits. O(entries)."""
    store, events, mode, combine, k = known
    batch = scratch.batch
    if 0 < k <= scratch.best.shape[1] and store.ceilings.size > 0:
        verify_graded(scratch, count, known)
        return
    for i in range(min(count, PREFETCH_CANDIDATES)):
        prefetch(store.rows, np.int64(batch.found[i]))
    for i in range(min(count, PREFETCH_CANDIDATES // 2)):
        prefetch_candidate(store, scratch, i, False)
    i = verify_plain(store, scratch, np.int64(0), count, k)
    while i < count:
        slot, query = np.int64(batch.found[i]), np.int64(batch.found_by[i])
        row = store.rows[slot]
        score = score_row(store, slot, scratch.values[query], events, mode, combine)
        holds = not np.isnan(score)
        keep_hit(batch, query, row.id, score, hit_slot(store, row), holds)
        if holds and 0 < k <= scratch.best.shape[1] and score > scratch.worst[query] and not row.flags & SIBLING:
            note_score(scratch, query, score, k)
        i = verify_plain(store, scratch, i + 1, count, k)


answer = driver(load_events, unload_events, filter_visit, prefetch_visit, verify_found)


@kernel
def answer_events(tree, store, scratch, groups, query, first, out, ends):
    """Answer events[first:], see `kernels.batch.driver`; `query` is `structures.base.Query`, `groups` are 0, 1, 2, ..."""
    events, mode, combine, k = query
    return answer(tree, scratch, groups, first, k, out, ends, (store, events, mode, combine, k))
