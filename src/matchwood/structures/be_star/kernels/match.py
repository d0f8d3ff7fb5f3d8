"""Matching (BE*-Tree VI). In: the tree, events. Out: hits. Readers only.

An event enters a p-node if it has the attribute, a bucket if its value, of a list one of them, meets the boundary. The leaf
rows of the buckets that it enters are candidates, unless their signature or bound rules them out. Top-k visits the pending bucket
of the highest bound first and stops when none can reach the k-th score. Where the paper queues p-nodes and searches their
c-directories at once, buckets of a c-directory queue up too, with bounds of their own.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.state import State, array, nested
from matchwood.store.kernels.candidates import (
    BOUNDARIES,
    MAX_FOUND,
    ONE,
    SIGNATURES,
    VISITED,
    Candidates,
    begin_answer,
    count_tests,
    end_answer,
    score_to_reach,
    start_answers,
    verify_found,
)
from matchwood.store.kernels.parts import value_meets
from matchwood.store.kernels.rows import NONE
from matchwood.store.kernels.verify import folded
from matchwood.structures.be_star.kernels.layout import bit_of, find_p_node, has_p_node, side_of

SLACK = 1e-9  # of what is added: more than the rounding of a sum of weights


# Of an event: the signature bits that it lacks, and the largest weight by which it may multiply a predicate's.
EVENT = np.dtype([("lacks", "u8"), ("heaviest", "f8")])


class BEStarScratch(State):
    candidates: Candidates = nested(Candidates)
    pending: np.ndarray = array(np.uint32)  # one a bucket: a stack, for top-k a heap by `bounds`
    bounds: np.ndarray = array(np.float64)  # one a bucket
    event: np.ndarray = array(EVENT)  # [1]


@kernel
def answer_events(tree, store, scratch, query, first, out, ends):
    """Answer events[first:]; return the first not done (out is full) or their number. ends[e] is where e's hits end."""
    candidates, events, combine = scratch.candidates, query.events, query.combine
    answer = candidates.answer[0]
    start_answers(candidates, query)
    for e in range(first, ends.size):
        if not begin_answer(store, candidates, events, combine, e, out):
            return e
        describe_event(tree, scratch, events, e)
        least = -np.inf  # the score to reach
        scratch.pending[0], scratch.bounds[0] = np.uint32(0), np.inf
        pending = np.int64(1)
        while pending > 0 and answer.end >= 0 and (answer.k == 0 or scratch.bounds[0] >= least):
            b, pending = next_bucket(scratch, pending)
            bucket = tree.buckets[b]
            candidates.work[VISITED] += 1
            entered = pending
            in_own = bucket.level == 0
            if not in_own:
                entered = enter_children(tree, scratch, events, b, entered)
                count_tests(candidates, BOUNDARIES, ONE)
                value = candidates.values[np.int64(bucket.dim)]
                in_own = value_meets(value, events, bucket.own_lo, bucket.own_hi)
            if in_own and bucket.leaf_size > 0:
                match_leaf(tree, store, scratch, events, combine, b, out)
                least = score_to_reach(candidates, out)
            if in_own and bucket.p_size > 0:
                entered = enter_p_nodes(tree, scratch, events, e, b, entered)
            if answer.k == 0:
                pending = entered
            else:
                pending = queue_buckets(tree, scratch, combine, pending, entered, least)
        if not end_answer(store, candidates, events, combine, e, out, ends):
            return e
    return ends.size


@helper
def describe_event(tree, scratch, events, e):
    """Fill in `scratch.event`. O(entries)."""
    has = np.uint64(0)
    heaviest = 1.0 if tree.counts[0].absences else 0.0
    for i in range(events.offsets[e], events.offsets[e + 1]):
        has |= bit_of(events.dims[i])
        heaviest = max(heaviest, events.weight[i])
    scratch.event[0].lacks, scratch.event[0].heaviest = ~has, heaviest


@helper
def enter_bucket(tree, scratch, events, b, entered):
    """Push bucket b, which clusters a dimension, if the event meets its boundary; return the new count."""
    bucket = tree.buckets[b]
    count_tests(scratch.candidates, BOUNDARIES, ONE)
    if value_meets(scratch.candidates.values[np.int64(bucket.dim)], events, bucket.lo, bucket.hi):
        scratch.pending[entered] = np.uint32(b)
        entered += 1
    return entered


@helper
def enter_children(tree, scratch, events, b, entered):
    """Push the children whose boundary the event meets."""
    bucket = tree.buckets[b]
    for side in range(2):
        child = side_of(bucket, side)
        if child != np.int64(NONE):
            entered = enter_bucket(tree, scratch, events, child, entered)
    return entered


@helper
def enter_p_nodes(tree, scratch, events, e, b, entered):
    """Push the c-directories of the bucket's p-nodes that the event enters. O(p-nodes) or O(entries log p-nodes)."""
    values = scratch.candidates.values
    p_nodes, size = np.int64(tree.buckets[b].p_nodes), np.int64(tree.buckets[b].p_size)
    if size <= 4 * (events.offsets[e + 1] - events.offsets[e]):
        for at in range(p_nodes, p_nodes + size):
            if not np.isnan(values[np.int64(tree.p_nodes[at].dim)].lo):
                entered = enter_bucket(tree, scratch, events, np.int64(tree.p_nodes[at].root), entered)
        return entered
    for i in range(events.offsets[e], events.offsets[e + 1]):
        dim = np.int64(events.dims[i])
        listed_before = i > events.offsets[e] and events.dims[i] == events.dims[i - 1]
        if dim >= values.size or listed_before:
            continue
        at = find_p_node(tree, b, dim)
        if has_p_node(tree, b, at, dim):
            entered = enter_bucket(tree, scratch, events, np.int64(tree.p_nodes[at].root), entered)
    return entered


@helper
def match_leaf(tree, store, scratch, events, combine, b, out):
    """Make candidates of the leaf rows that need nothing the event lacks and may be among the k best. No branch a row.

    Top-k verifies them at once: the next bucket is judged by the k-th score then.
    """
    candidates, bucket = scratch.candidates, tree.buckets[b]
    answer, lacks, heaviest = candidates.answer[0], scratch.event[0].lacks, scratch.event[0].heaviest
    least, lowest = score_to_reach(candidates, out), -np.inf
    if least > -np.inf:
        steps = tree.counts[0].max_predicates
        bound = bound_of(bucket.leaf_score, bucket.leaf_weights, bucket.leaf_priority, heaviest, steps, combine)
        if bound < least:
            return
        lowest = lowest_to_reach(least, np.float64(bucket.leaf_weights), heaviest, combine)
    at, end = np.int64(bucket.leaf), np.int64(bucket.leaf) + np.int64(bucket.leaf_size)
    count_tests(candidates, SIGNATURES, end - at)
    while at < end and answer.end >= 0:
        found = answer.found
        stop = min(end, at + MAX_FOUND - found)
        for i in range(at, stop):
            leaf_row = tree.leaf_rows[i]
            candidates.slots[found] = leaf_row.slot
            found += np.int64((leaf_row.needs & lacks == np.uint64(0)) & (not leaf_row.max_score < lowest))
        answer.found = found
        at = stop
        if answer.k > 0 or found == MAX_FOUND:
            verify_found(store, candidates, events, combine, out)


@helper
def bound_of(score, weights, priority, heaviest, steps, combine):
    """No row of these summaries scores higher. `heaviest` is the largest weight of the event, `steps` the most predicates.

    For a function of the user's, which is monotone: the best priority, folded with the largest weight up to `steps` times.
    """
    if combine is None:
        # Either bound holds. From weight 1 on the first is the tighter, and `priority`, on another cache line, is not read.
        bound = np.float64(score)
        slack = abs(bound) * SLACK
        if heaviest > 1.0:
            bound += np.float64(weights) * (heaviest - 1.0)
            slack += np.float64(weights) * heaviest * 1e-12
        elif heaviest < 1.0:
            other = np.float64(priority)
            slack += abs(other) * SLACK
            if heaviest > 0.0:
                other += np.float64(weights) * heaviest
                slack += np.float64(weights) * 1e-12
            bound = min(bound, other)
        return bound + slack
    else:
        weight = np.float64(weights) * heaviest if heaviest > 0.0 else 0.0
        total = np.float64(priority)
        bound = total
        for _ in range(steps):
            total = folded(total, weight, combine)
            bound = max(bound, total)
        return bound


@helper
def lowest_to_reach(least, weights, heaviest, combine):
    """A leaf row of a lower `max_score` cannot score `least`. Without the sum there is no bound by row."""
    if combine is None:
        more = max(heaviest - 1.0, 0.0) * weights
        return least - more - (abs(least) + more) * SLACK
    else:
        return -np.inf


@helper
def next_bucket(scratch, pending):
    """Take the next pending bucket: the last, for top-k that of the highest bound. Return it and how many are left."""
    last = pending - 1
    if scratch.candidates.answer[0].k == 0:
        return np.int64(scratch.pending[last]), last
    b = np.int64(scratch.pending[0])
    bound, moved = scratch.bounds[last], scratch.pending[last]
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
    scratch.bounds[at], scratch.pending[at] = bound, moved
    return b, last


@helper
def queue_buckets(tree, scratch, combine, size, entered, least):
    """Put the buckets at pending[size:entered] that may reach `least` into the heap of the first `size`; return its size."""
    steps, heaviest = tree.counts[0].max_predicates, scratch.event[0].heaviest
    for i in range(size, entered):
        b = scratch.pending[i]
        bucket = tree.buckets[np.int64(b)]
        bound = bound_of(bucket.max_score, bucket.max_weights, bucket.max_priority, heaviest, steps, combine)
        if bound < least:
            continue
        at = size
        while at > 0 and scratch.bounds[(at - 1) >> 1] < bound:
            parent = (at - 1) >> 1
            scratch.bounds[at], scratch.pending[at] = scratch.bounds[parent], scratch.pending[parent]
            at = parent
        scratch.bounds[at], scratch.pending[at] = bound, b
        size += 1
    return size
