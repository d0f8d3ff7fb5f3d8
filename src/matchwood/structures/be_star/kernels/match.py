"""Matching (BE*-Tree VI). In: the tree, events. Out: hits. Readers only.

An event enters a p-node if it has the attribute, a bucket if its value meets the boundary. Leaf rows met are verified exactly.
Top-k takes the pending bucket of the highest upper bound first and stops when none can beat the worst of the k kept. Where the
paper queues p-nodes and searches their c-directories at once, buckets of a c-directory queue up too, with bounds of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch
from matchwood.store.kernels.candidates import (
    AHEAD,
    BOUNDARIES,
    SIGNATURES,
    ask_for_row,
    count,
    count_entries,
    load_keys,
    unload_keys,
    verify_found,
)
from matchwood.store.kernels.results import best_first, offer
from matchwood.store.kernels.rows import NONE
from matchwood.store.kernels.verify import folded, load_event, score_row, unload_event
from matchwood.structures.be_star.kernels.layout import ASKS_ABSENCE, MOST_PREDICATES, bit_of, find_part, has_part

FOUND = 4096


class Scratch(NamedTuple):
    values: np.ndarray  # VALUE, one a dimension
    seen: np.ndarray  # uint32, one a slot
    pending: np.ndarray  # uint32, one a bucket: a stack, or a heap by `bounds`
    bounds: np.ndarray  # float64, one a bucket
    found: np.ndarray  # uint32 [FOUND]: leaf rows to be verified
    work: np.ndarray  # int64: rows verified, buckets visited
    keys: np.ndarray  # KEY, one a dimension
    tally: np.ndarray | None  # int64 [TALLY] to count every test; None, and the kernels are compiled without


@helper
def meets(values, dim, lo, hi):
    """Does the event's value meet the interval? False if it is absent (NaN)."""
    value = values[dim]
    return lo <= value.hi and value.lo <= hi


@helper
def is_repeated(events, e, i):
    """Is entry i a further part of a list value?"""
    return i > events.offsets[e] and events.dims[i] == events.dims[i - 1]


@helper
def open_parts(tree, scratch, events, e, b, n):
    """Push the c-directories of the bucket's p-nodes that the event enters. O(p-nodes), or O(entries log p-nodes)."""
    first, size = np.int64(tree.buckets[b].parts), np.int64(tree.buckets[b].parts_size)
    if size <= 4 * (events.offsets[e + 1] - events.offsets[e]):
        for at in range(first, first + size):
            dim = np.int64(tree.parts[at].dim)
            if dim < scratch.values.size and not np.isnan(scratch.values[dim].lo):
                n = open_part(tree, scratch, at, n)
        return n
    for i in range(events.offsets[e], events.offsets[e + 1]):
        dim = np.int64(events.dims[i])
        if dim >= scratch.values.size or is_repeated(events, e, i):
            continue
        at = find_part(tree, b, dim)
        if has_part(tree, b, at, dim):
            n = open_part(tree, scratch, at, n)
    return n


@helper
def open_part(tree, scratch, at, n):
    """Push the root of a p-node's c-directory if the event meets its boundary."""
    root = tree.parts[at].root
    bucket = tree.buckets[np.int64(root)]
    count(scratch.tally, BOUNDARIES, 1)
    if meets(scratch.values, np.int64(bucket.dim), bucket.lo, bucket.hi):
        scratch.pending[n] = root
        n += 1
    return n


@helper
def open_children(tree, scratch, b, n):
    """Push the children whose boundary the event meets."""
    bucket = tree.buckets[b]
    dim = np.int64(bucket.dim)
    for side in range(2):
        child = bucket.left if side == 0 else bucket.right
        if child != NONE:
            c = tree.buckets[np.int64(child)]
            count(scratch.tally, BOUNDARIES, 1)
            if meets(scratch.values, dim, c.lo, c.hi):
                scratch.pending[n] = child
                n += 1
    return n


@helper
def lacks_of(events, e):
    """The signature bits that no dimension of the event has."""
    has = np.uint64(0)
    for i in range(events.offsets[e], events.offsets[e + 1]):
        has |= bit_of(events.dims[i])
    return ~has


@helper
def likely_rows(tree, scratch, at, end, lacks, found):
    """Append the leaf rows at:end that need nothing the event lacks; return the new count. No branches.

    1M rows, Zipf, per event: 1,842 leaf rows met, 1,262 verified, 998 of which match.
    """
    count(scratch.tally, SIGNATURES, end - at)
    for i in range(at, end):
        row = tree.leaves[i]
        scratch.found[found] = row.slot
        found += np.int64((row.needs & lacks) == np.uint64(0))
    return found


@kernel
def match_many(tree, store, scratch, events, first, how, combine, out, ends):
    """Match events[first:]; return the first not done (out is full) or their number. ends[e] is where e's hits end."""
    n = np.int64(0)
    for e in range(first, ends.size):
        begin = n
        load_event(scratch.values, events, e)
        single = load_keys(scratch.keys, events, e)
        scratch.pending[0] = np.uint32(0)
        pending = np.int64(1)
        found = np.int64(0)
        lacks = lacks_of(events, e)
        while pending > 0:
            pending -= 1
            b = np.int64(scratch.pending[pending])
            bucket = tree.buckets[b]
            scratch.work[1] += 1
            if bucket.level > 0:
                pending = open_children(tree, scratch, b, pending)
                count(scratch.tally, BOUNDARIES, 1)
                if not meets(scratch.values, np.int64(bucket.dim), bucket.own_lo, bucket.own_hi):
                    continue
            if bucket.parts_size > 0:
                pending = open_parts(tree, scratch, events, e, b, pending)
            at, end = np.int64(bucket.leaf), np.int64(bucket.leaf) + np.int64(bucket.leaf_size)
            while at < end and n >= 0:
                taken = min(end - at, FOUND - found)
                found = likely_rows(tree, scratch, at, at + taken, lacks, found)
                at += taken
                if found == FOUND:
                    scratch.work[0] += found
                    n = verify_found(store, scratch, found, single, events, how, combine, out, begin, n)
                    found = np.int64(0)
            if n < 0:
                break
        if n >= 0:
            scratch.work[0] += found
            n = verify_found(store, scratch, found, single, events, how, combine, out, begin, n)
        unload_event(scratch.values, events, e)
        unload_keys(scratch.keys, events, e)
        if n < 0:
            return e
        ends[e] = n
    return ends.size


@helper
def bound_of(best, sum_, top, heaviest, steps, combine):
    """No row of these summaries scores higher. `heaviest` is the largest weight of the event, `steps` the most predicates.

    For a function of the user's, which is monotone: the best priority, folded with the largest weight up to `steps` times.
    """
    if combine is None:
        # Either bound holds. From weight 1 on the first is the tighter, and `top`, on another cache line, is not read.
        bound = np.float64(best)
        slack = abs(bound) * 1e-9
        if heaviest > 1.0:
            bound += np.float64(sum_) * (heaviest - 1.0)
            slack += np.float64(sum_) * heaviest * 1e-12
        elif heaviest < 1.0:
            other = np.float64(top)
            slack += abs(other) * 1e-9
            if heaviest > 0.0:
                other += np.float64(sum_) * heaviest
                slack += np.float64(sum_) * 1e-12
            bound = min(bound, other)
        return bound + slack
    else:
        weight = np.float64(sum_) * heaviest if heaviest > 0.0 else 0.0
        score = np.float64(top)
        bound = score
        for _ in range(steps):
            score = folded(score, weight, combine)
            bound = max(bound, score)
        return bound


@helper
def row_bound(best, sum_, heaviest, combine):
    """The leaf row of this `best` scores no higher. Without the sum there is no bound by row."""
    if combine is None:
        bound = np.float64(best)
        if heaviest > 1.0:
            bound += np.float64(sum_) * (heaviest - 1.0)
        return bound + abs(bound) * 1e-9
    else:
        return np.inf


@helper
def push_heap(scratch, size, b, bound):
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if scratch.bounds[parent] >= bound:
            break
        scratch.bounds[at], scratch.pending[at] = scratch.bounds[parent], scratch.pending[parent]
        at = parent
    scratch.bounds[at], scratch.pending[at] = bound, np.uint32(b)


@helper
def pop_heap(scratch, size):
    """Remove the root of a heap of `size`; the caller has read it."""
    last = size - 1
    bound, b = scratch.bounds[last], scratch.pending[last]
    at = np.int64(0)
    while True:
        child = 2 * at + 1
        if child >= last:
            break
        if child + 1 < last and scratch.bounds[child + 1] > scratch.bounds[child]:
            child += 1
        if scratch.bounds[child] <= bound:
            break
        scratch.bounds[at], scratch.pending[at] = scratch.bounds[child], scratch.pending[child]
        at = child
    scratch.bounds[at], scratch.pending[at] = bound, b


@helper
def queue(tree, scratch, size, fresh, least, heaviest, combine):
    """Turn the buckets pushed at pending[size:fresh] into members of the heap, those that may beat `least`; return its size."""
    steps = tree.counts[MOST_PREDICATES]
    for i in range(size, fresh):
        b = np.int64(scratch.pending[i])
        bucket = tree.buckets[b]
        bound = bound_of(bucket.best, bucket.sum, bucket.top, heaviest, steps, combine)
        if bound >= least:
            push_heap(scratch, size, b, bound)
            size += 1
    return size


@helper
def heaviest_of(tree, events, e):
    """The largest weight by which the event may multiply a predicate's."""
    heaviest = 1.0 if tree.counts[ASKS_ABSENCE] else 0.0
    for i in range(events.offsets[e], events.offsets[e + 1]):
        heaviest = max(heaviest, events.weight[i])
    return heaviest


@kernel
def offer_leaf(tree, store, scratch, rows, lacks, events, how, combine, k, out, begin, held):
    """Offer the leaf rows start:end of `rows` that may still be among the k best; return how many are held."""
    start, end, heaviest, sum_ = rows
    count(scratch.tally, SIGNATURES, end - start)
    for chunk in range(start, end, FOUND):
        found = np.int64(0)
        least = out.scores[begin] if held == k else -np.inf
        for i in range(chunk, min(chunk + FOUND, end)):
            row = tree.leaves[i]
            if row.needs & lacks or row_bound(row.best, sum_, heaviest, combine) < least:
                continue
            scratch.found[found] = np.uint32(i)
            found += 1
            prefetch(store.rows, np.int64(row.slot))
        for j in range(min(AHEAD, found)):
            ask_for_row(store, np.int64(tree.leaves[np.int64(scratch.found[j])].slot))
        for j in range(found):
            if j + AHEAD < found:
                ask_for_row(store, np.int64(tree.leaves[np.int64(scratch.found[j + AHEAD])].slot))
            row = tree.leaves[np.int64(scratch.found[j])]
            if held == k and row_bound(row.best, sum_, heaviest, combine) < out.scores[begin]:
                continue
            scratch.work[0] += 1
            slot = np.int64(row.slot)
            count_entries(scratch.tally, store, slot, scratch.values, events, how)
            score = score_row(store, slot, scratch.values, events, how, combine)
            if not np.isnan(score):
                held = offer(store, slot, score, out, begin, held, k)
    return held


@kernel
def top_many(tree, store, scratch, events, first, how, combine, k, out, ends):
    """The k best of events[first:], each best first; return the first event not done (out is full) or their number."""
    n = np.int64(0)
    for e in range(first, ends.size):
        if n + k > out.ids.size:
            return e
        begin = n
        held = np.int64(0)
        load_event(scratch.values, events, e)
        heaviest = heaviest_of(tree, events, e)
        lacks = lacks_of(events, e)
        steps = tree.counts[MOST_PREDICATES]
        least = -np.inf  # the score to reach
        scratch.pending[0] = np.uint32(0)
        scratch.bounds[0] = np.inf
        size = np.int64(1)
        while size > 0 and scratch.bounds[0] >= least:
            b = np.int64(scratch.pending[0])
            pop_heap(scratch, size)
            size -= 1
            bucket = tree.buckets[b]
            scratch.work[1] += 1
            fresh = size
            own = bucket.level == 0
            if not own:
                fresh = open_children(tree, scratch, b, fresh)
                count(scratch.tally, BOUNDARIES, 1)
                own = meets(scratch.values, np.int64(bucket.dim), bucket.own_lo, bucket.own_hi)
            if own:
                leaf = np.int64(bucket.leaf)
                bound = bound_of(bucket.leaf_best, bucket.leaf_sum, bucket.leaf_top, heaviest, steps, combine)
                if bucket.leaf_size > 0 and bound >= least:
                    rows = leaf, leaf + np.int64(bucket.leaf_size), heaviest, bucket.leaf_sum
                    held = offer_leaf(tree, store, scratch, rows, lacks, events, how, combine, k, out, begin, held)
                    if held == k:
                        least = out.scores[begin]
                if bucket.parts_size > 0:
                    fresh = open_parts(tree, scratch, events, e, b, fresh)
            size = queue(tree, scratch, size, fresh, least, heaviest, combine)
        unload_event(scratch.values, events, e)
        best_first(out, begin, held)
        n = begin + held
        ends[e] = n
    return ends.size
