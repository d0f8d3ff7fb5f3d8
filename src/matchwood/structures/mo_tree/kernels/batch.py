"""MO-Tree: the queries of a batch, answered node by node, so that what one query brings into a cache serves the next.

    query -> the buckets it looks at               `request`, `sort_requests`: the queries of each bucket are adjacent
    bucket -> its nodes, for each its queries      `list_visits`: (node, query), all visits to a node adjacent
    visit -> a line of bits -> words with bits     the structure's own filter, then `planes.keep_words`
    words -> candidates (slot, query)              `next_candidates`
    candidates -> hits                             the structure's own exact test, which calls `keep_hit`
    hits -> answers                                `hand_out`, or `sort_hits` and `deliver`

A query is an event that looks for rows, or a row that looks for live events; `driver` makes the function that answers both. A
structure supplies five steps, and whatever they share, `known`:

    load(tree, scratch, first, count, known)       load up to `count` queries from `first` on and request their buckets;
                                                   return how many
    unload(scratch, first, count, known)           forget them
    filter_visit(tree, scratch, node, visit)       leave in scratch.line the positions of the node that may match
    prefetch_visit(tree, scratch, visit)           prefetch the planes of a visit that comes soon
    verify(scratch, count, known)                  keep the hits among the candidates listed

Readers only, each with scratch of its own.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from matchwood.jit.decorators import helper, subroutine
from matchwood.jit.intrinsics import prefetch, trailing_zeros
from matchwood.jit.state import State, array
from matchwood.store.kernels.distances import PREFETCH_CANDIDATES, PREFETCH_VISITS
from matchwood.store.kernels.results import finish_hits, take_event
from matchwood.structures.mo_tree.kernels.layout import HEAD_WORDS, LINE, NONE, ONE, ONES, VALID, TreeCount
from matchwood.structures.mo_tree.kernels.planes import count_ones, keep_words

QUERIES = 2048  # of a batch, at most
FIRST_QUERIES = 64  # of the first batch, which tells how many hits a query has
REQUESTS = 1 << 17
VISITS = 1024  # whose words are kept before candidates are listed
CANDIDATES = 8192  # that are listed before they are verified, and up to a word more
HITS = 1 << 18
WORD_BITS = 64
SHARED_NODE = 16  # visits to a node from which on all its planes are prefetched, while the node before is filtered

REQUEST = np.dtype([("number", "u4"), ("query", "u4"), ("slices", "u8"), ("mask_0", "u8"), ("mask_1", "u8")])
"""A query looks at a bucket, at its nodes that reach a slice of both masks; `slices` is for the structure's filter."""
VISIT = np.dtype([("node", "u4"), ("query", "u4"), ("slices", "u8")])


class BatchCount(IntEnum):
    """Positions in `Batch.counts`."""

    REQUESTS = 0
    BUCKETS = 1  # that are requested
    BUCKET = 2  # the next of them
    BEGIN = 3  # the requests of the bucket that is visited are by_bucket[BEGIN:END]
    END = 4
    NODE = 5  # the node of it that is visited next
    VISIT = 6  # the next visit
    VISITS = 7
    WORD = 8  # the next word
    WORDS = 9
    HITS = 10
    REPEATABLE = 11  # hits that may occur twice in an answer
    LAST_QUERIES = 12  # of the batch before, and how many hits they had
    LAST_HITS = 13


class Batch(State):
    """Buffers for one batch of queries."""

    requesters: np.ndarray = array(
        np.uint32
    )  # by bucket: how many, then where they end in `by_bucket`; zeros between batches
    buckets: np.ndarray = array(np.uint32)  # that are requested
    requests: np.ndarray = array(REQUEST)  # as they came
    by_bucket: np.ndarray = array(REQUEST)
    visits: np.ndarray = array(VISIT)
    words: np.ndarray = array(np.uint64)  # words of lines in which a bit is left
    tags: np.ndarray = array(np.uint64)  # the query << 32 | the index in `members` of the word's first bit
    found: np.ndarray = array(np.uint32)  # candidates, as slots
    found_by: np.ndarray = array(np.uint32)  # their queries
    hit_ids: np.ndarray = array(np.int64)
    hit_scores: np.ndarray = array(np.float64)
    hit_slots: np.ndarray = array(
        np.uint32
    )  # by which a hit is found again; NONE if it cannot occur twice in an answer
    hit_queries: np.ndarray = array(np.uint32)
    order: np.ndarray = array(np.uint32)  # of the hits, by query
    ends: np.ndarray = array(np.int64)  # the hits of query q are order[ends[q] : ends[q + 1]]
    counts: np.ndarray = array(np.int64)  # BatchCount


def new_batch(directory: int, queries: int) -> Batch:
    """Buffers for so many queries at a time to a tree of so many buckets."""
    requests, lines = max(directory, REQUESTS), VISITS * LINE + LINE
    return Batch(
        requesters=np.zeros(directory, np.uint32),
        buckets=np.empty(directory + 1, np.uint32),
        requests=np.empty(requests, REQUEST),
        by_bucket=np.empty(requests, REQUEST),
        visits=np.empty(VISITS + queries, VISIT),
        words=np.empty(lines, np.uint64),
        tags=np.empty(lines, np.uint64),
        found=np.empty(CANDIDATES + WORD_BITS + PREFETCH_CANDIDATES, np.uint32),
        found_by=np.empty(CANDIDATES + WORD_BITS, np.uint32),
        ends=np.zeros(queries + 2, np.int64),
        counts=np.zeros(len(BatchCount), np.int64),
        **_hits(HITS),
    )


def _hits(size: int) -> dict[str, np.ndarray]:
    return {
        "hit_ids": np.empty(size, np.int64),
        "hit_scores": np.empty(size),
        "hit_slots": np.empty(size, np.uint32),
        "hit_queries": np.empty(size, np.uint32),
        "order": np.empty(size, np.uint32),
    }


def with_more_hits(batch: Batch) -> Batch:
    """The buffers with room for four times as many hits."""
    return batch._replace(**_hits(4 * len(batch.order)))


@helper
def begin_batch(batch):
    """Forget the queries before. O(buckets they requested)."""
    for b in range(batch.counts[BatchCount.BUCKETS]):
        batch.requesters[np.int64(batch.buckets[b])] = np.uint32(0)
    for i in range(BatchCount.LAST_QUERIES):
        batch.counts[i] = 0
    batch.counts[BatchCount.NODE] = np.int64(NONE)


@helper
def request(batch, number, query, slices, mask_0, mask_1):
    """Let a query look at a bucket; there is room. O(1)."""
    n = batch.counts[BatchCount.REQUESTS]
    batch.counts[BatchCount.REQUESTS] = n + 1
    before = batch.requesters[number]
    batch.buckets[batch.counts[BatchCount.BUCKETS]] = np.uint32(number)
    batch.counts[BatchCount.BUCKETS] += np.int64(before == 0)
    batch.requesters[number] = before + np.uint32(1)
    made = batch.requests[n]
    made.number, made.query, made.slices = np.uint32(number), np.uint32(query), np.uint64(slices)
    made.mask_0, made.mask_1 = mask_0, mask_1


@helper
def request_all(tree, batch, query):
    """Let a query look at every bucket: relaxed matching cannot leave one out. False if there is no room. O(buckets)."""
    if batch.counts[BatchCount.REQUESTS] + tree.directory.size > batch.requests.size:
        return False
    for number in range(tree.directory.size):
        if tree.directory[number].first != NONE:
            request(batch, number, query, np.uint64(0), ONES, ONES)
    return True


@helper
def first_bucket(scratch, layers):
    """The first combination of the cells stabbed[runs[a] : runs[a + 1]] of each layer, as a bucket; -1 if there is no room to
    request all of them. `next_bucket` gives the others."""
    number = np.int64(0)
    combinations = np.int64(1)
    for a in range(layers):
        scratch.digits[a] = scratch.runs[a]
        number += scratch.stabbed[scratch.runs[a]]
        combinations *= scratch.runs[a + 1] - scratch.runs[a]
    batch = scratch.batch
    return number if batch.counts[BatchCount.REQUESTS] + combinations <= batch.requests.size else np.int64(-1)


@helper
def next_bucket(scratch, layers, number):
    """The next combination of stabbed cells, the last layer's turning fastest; -1 after the last."""
    a = layers - 1
    while a >= 0:
        number -= scratch.stabbed[scratch.digits[a]]
        scratch.digits[a] += 1
        if scratch.digits[a] < scratch.runs[a + 1]:
            return number + scratch.stabbed[scratch.digits[a]]
        scratch.digits[a] = scratch.runs[a]
        number += scratch.stabbed[scratch.digits[a]]
        a -= 1
    return np.int64(-1)


@helper
def packed_slices(scratch, layers):
    """scratch.slices of the cells in the bucket that is requested, a byte for each layer."""
    slices = np.uint64(0)
    for a in range(layers):
        slices |= np.uint64(scratch.slices[scratch.digits[a]]) << np.uint64(8 * a)
    return slices


@helper
def sort_requests(batch):
    """Order the requests by bucket; none is made afterwards. O(requests + buckets)."""
    n = np.uint32(0)
    for b in range(batch.counts[BatchCount.BUCKETS]):
        number = np.int64(batch.buckets[b])
        count = batch.requesters[number]
        batch.requesters[number] = n
        n += count
    for i in range(batch.counts[BatchCount.REQUESTS]):
        made = batch.requests[i]
        copy = batch.by_bucket[np.int64(batch.requesters[np.int64(made.number)])]
        copy.query, copy.slices, copy.mask_0, copy.mask_1 = made.query, made.slices, made.mask_0, made.mask_1
        batch.requesters[np.int64(made.number)] += np.uint32(1)


@helper
def list_visits(tree, batch):
    """The next visits, VISITS of them or a few more, fewer only at the end; return how many. O(visits + nodes * queries)."""
    n, counts = np.int64(0), batch.counts
    while n < VISITS:
        if counts[BatchCount.NODE] == np.int64(NONE):
            if counts[BatchCount.BUCKET] == counts[BatchCount.BUCKETS]:
                break
            number = np.int64(batch.buckets[counts[BatchCount.BUCKET]])
            counts[BatchCount.BUCKET] += 1
            counts[BatchCount.BEGIN] = counts[BatchCount.END]
            counts[BatchCount.END] = np.int64(batch.requesters[number])
            counts[BatchCount.NODE] = np.int64(tree.directory[number].first)
        node = tree.nodes[counts[BatchCount.NODE]]
        for i in range(counts[BatchCount.BEGIN], counts[BatchCount.END]):
            made, visit = batch.by_bucket[i], batch.visits[n]
            visit.node, visit.query, visit.slices = np.uint32(counts[BatchCount.NODE]), made.query, made.slices
            n += np.int64((node.reach_0 & made.mask_0) != 0) & np.int64((node.reach_1 & made.mask_1) != 0)
        counts[BatchCount.NODE] = np.int64(node.next)
    return n


@helper
def plane_shift(node):
    """The number of a plane, shifted left so far, is its first word: the words of a plane are a power of two."""
    return np.int64(trailing_zeros(np.uint64(node.words)))


@helper
def end_of_node(batch, v):
    """Where the visits to the node of visit v end."""
    end = v
    while end < batch.counts[BatchCount.VISITS] and batch.visits[end].node == batch.visits[v].node:
        end += 1
    return end


@helper
def filter_visits(tree, scratch, first, last, filter_visit, prefetch_visit):
    """Keep the words with bits left of the visits first..last - 1; return how many. O(visits * axes).

    The planes of a node with many visits are all prefetched, evenly, while the node before it is filtered; those of other
    nodes one visit at a time.
    """
    batch = scratch.batch
    n, v, end, is_prefetched = np.int64(0), first, end_of_node(batch, first), False
    while v < last:
        after = end_of_node(batch, end)
        line, lines = np.int64(0), np.int64(0)
        if after - end >= SHARED_NODE:
            following = tree.nodes[batch.visits[end].node]
            words = np.int64(following.words)
            line = np.int64(following.start) + VALID * words
            lines = (tree.counts[TreeCount.PLANES] + HEAD_WORDS - VALID) * words // LINE // (end - v) + 1
        node = tree.nodes[batch.visits[v].node]
        for i in range(v, min(end, last)):
            for _ in range(lines):
                prefetch(tree.bits, line)
                line += LINE
            if not is_prefetched:
                prefetch_visit(tree, scratch, batch.visits[min(i + PREFETCH_VISITS, last - 1)])
            visit = batch.visits[i]
            filter_visit(tree, scratch, node, visit)
            tag = (np.uint64(visit.query) << np.uint64(32)) | (np.uint64(2) * node.start)
            n = keep_words(scratch.line, np.int64(node.words), tag, batch.words, batch.tags, n)
        v, end, is_prefetched = end, after, lines > 0
    return n


@subroutine
def next_words(tree, scratch, filter_visit, prefetch_visit):
    """Go on to the words of the next visits; False if there are none."""
    counts = scratch.batch.counts
    if counts[BatchCount.VISIT] == counts[BatchCount.VISITS]:
        counts[BatchCount.VISIT] = 0
        counts[BatchCount.VISITS] = list_visits(tree, scratch.batch)
    first = counts[BatchCount.VISIT]
    last = min(first + VISITS, counts[BatchCount.VISITS])
    if first == last:
        return False
    counts[BatchCount.WORD] = 0
    counts[BatchCount.WORDS] = filter_visits(tree, scratch, first, last, filter_visit, prefetch_visit)
    counts[BatchCount.VISIT] = last
    return True


@helper
def list_word(tree, batch, word, tag, n):
    """List the candidates of a word's bits behind n others; return how many there are now. The first two without a branch."""
    first, query = tag & np.uint64(0xFFFFFFFF), np.uint32(tag >> np.uint64(32))
    count, at = count_ones(word), np.uint64(n)
    prefetch(tree.members, np.int64(first + trailing_zeros(word)))
    for _ in range(2):
        batch.found[at], batch.found_by[at] = np.uint32(first + trailing_zeros(word)), query
        word &= word - ONE
        at += ONE
    while word != 0:
        batch.found[at], batch.found_by[at] = np.uint32(first + trailing_zeros(word)), query
        word &= word - ONE
        at += ONE
    return n + count


@helper
def next_candidates(tree, scratch, filter_visit, prefetch_visit):
    """List the next candidates, CANDIDATES of them and up to a word more, fewer only at the end; return how many.

    The last one is repeated, so that `verify` may prefetch without a test.
    """
    batch, counts, n = scratch.batch, scratch.batch.counts, np.int64(0)
    while n < CANDIDATES:
        if counts[BatchCount.WORD] == counts[BatchCount.WORDS] and not next_words(
            tree, scratch, filter_visit, prefetch_visit
        ):
            break
        i = counts[BatchCount.WORD]
        while i < counts[BatchCount.WORDS] and n < CANDIDATES:
            n = list_word(tree, batch, batch.words[i], batch.tags[i], n)
            i += 1
        counts[BatchCount.WORD] = i
    for i in range(n):
        batch.found[i] = tree.members[np.int64(batch.found[i])]
    for i in range(n, n + PREFETCH_CANDIDATES if n > 0 else n):
        batch.found[i] = batch.found[n - 1]
    return n


@helper
def keep_hit(batch, query, id_, score, slot, holds):
    """Keep a hit, or nothing, without a branch; there is room."""
    n = batch.counts[BatchCount.HITS]
    batch.hit_ids[n], batch.hit_scores[n] = id_, score
    batch.hit_slots[n], batch.hit_queries[n] = slot, np.uint32(query)
    batch.counts[BatchCount.HITS] = n + np.int64(holds)
    batch.counts[BatchCount.REPEATABLE] += np.int64(holds & (slot != NONE))


@helper
def find_hits(tree, scratch, filter_visit, prefetch_visit, verify, known):
    """Find the hits of the queries that are loaded; False if there are more than `Batch` has room for."""
    batch, before = scratch.batch, scratch.candidates[0]
    batch.counts[BatchCount.HITS] = batch.counts[BatchCount.REPEATABLE] = 0
    while batch.counts[BatchCount.HITS] + CANDIDATES + WORD_BITS <= batch.order.size:
        count = next_candidates(tree, scratch, filter_visit, prefetch_visit)
        if count == 0:
            return True
        scratch.candidates[0] += count
        verify(scratch, count, known)
    scratch.candidates[0] = before
    return False


@helper
def count_hits(batch, queries):
    """ends[q + 1] = how many hits the queries before q have. O(hits + queries)."""
    for q in range(queries + 2):
        batch.ends[q] = 0
    for i in range(batch.counts[BatchCount.HITS]):
        batch.ends[np.int64(batch.hit_queries[i]) + 2] += 1
    for q in range(queries):
        batch.ends[q + 2] += batch.ends[q + 1]


@helper
def hand_out(batch, queries, out, n, ends, a):
    """Write the hits of each query to an answer of its own, from out[n] on, after `count_hits`; return where the last ends.

    No hit occurs twice, all are wanted, and there is room: so none is looked at again. O(hits + queries).
    """
    for i in range(batch.counts[BatchCount.HITS]):
        q = np.int64(batch.hit_queries[i]) + 1
        at = n + batch.ends[q]
        out.ids[at], out.scores[at] = batch.hit_ids[i], batch.hit_scores[i]
        batch.ends[q] += 1
    for q in range(queries):
        ends[a + q] = n + batch.ends[q + 1]
    return n + batch.counts[BatchCount.HITS]


@helper
def sort_hits(batch):
    """Order the hits by query, those of one as they were found, after `count_hits`. O(hits)."""
    for i in range(
        batch.counts[BatchCount.HITS]
    ):  # ends[q + 1] is where the hits of q begin, and moves on to where they end
        q = np.int64(batch.hit_queries[i]) + 1
        batch.order[batch.ends[q]] = np.uint32(i)
        batch.ends[q] += 1


@helper
def deliver(batch, seen, query, k, out, begin, n):
    """Add the hits of a query to the answer out[begin:n]; return where it ends, -1 if `out` is full. O(hits)."""
    for i in range(batch.ends[query], batch.ends[query + 1]):
        hit = np.int64(batch.order[i])
        id_, score, slot = batch.hit_ids[hit], batch.hit_scores[hit], batch.hit_slots[hit]
        if k > 0 and n - begin == k and score < out.scores[begin]:
            continue  # most hits are worse than the k best so far
        n = take_event(seen, out, begin, n, k, id_, np.int64(slot), score, slot != NONE)
        if n < 0:
            break
    return n


@helper
def queries_for(batch, k, room):
    """How many queries to load: as many as the buffers allow, if they have as many hits as those of the batch before, and as
    many as `room` of the results allows."""
    queries, hits = batch.counts[BatchCount.LAST_QUERIES], batch.counts[BatchCount.LAST_HITS] + 1
    if queries == 0:
        return min(np.int64(FIRST_QUERIES), batch.ends.size - 2)
    room = room // k if k > 0 else room * queries // hits
    return max(min(room, (batch.order.size >> 2) * queries // hits, batch.ends.size - 2), np.int64(1))


def driver(load, unload, filter_visit, prefetch_visit, verify):
    """The function `answer` of a structure with these steps, see the module's text."""

    @helper
    def answer(tree, scratch, groups, first, k, out, ends, known):
        """Write the answers first, first + 1, ... to `out`: of answer a the queries groups[a] : groups[a + 1], together.

        Every hit, or for k > 0 the k best, best first; ends[a] is where answer a ends. Return the first answer not done because
        `out` is full, or their number; ~a if the hits of one query of answer a are more than `Batch` has room for.
        """
        batch, counts = scratch.batch, scratch.batch.counts
        a, q = first, groups[first]
        begin = n = limit = np.int64(0)
        while a < ends.size:
            limit = queries_for(batch, k, out.ids.size - n) if limit == 0 else limit
            count = load(tree, scratch, q, min(limit, groups[ends.size] - q), known)
            fits = find_hits(tree, scratch, filter_visit, prefetch_visit, verify, known)
            unload(scratch, q, count, known)
            limit = np.int64(0) if fits else count >> 1
            if not fits:
                if count == 1:
                    return ~a
                continue
            counts[BatchCount.LAST_QUERIES], counts[BatchCount.LAST_HITS] = count, counts[BatchCount.HITS]
            count_hits(batch, count)
            # Every query of the batch has an answer of its own, and no hit needs a second look.
            alone = groups[a] == q and a + count <= ends.size and groups[min(a + count, ends.size)] == q + count
            is_simple = alone and k == 0 and counts[BatchCount.REPEATABLE] == 0
            if is_simple and n + counts[BatchCount.HITS] <= out.ids.size:
                n = hand_out(batch, count, out, n, ends, a)
                a, q = a + count, q + count
                continue
            sort_hits(batch)
            for i in range(count):
                if q + i == groups[a]:
                    begin = n
                if begin + k > out.ids.size:
                    return a
                n = deliver(batch, scratch.seen, i, k, out, begin, n)
                if n < 0:
                    return a
                if q + i + 1 == groups[a + 1]:
                    finish_hits(out, begin, n, k)
                    ends[a] = n
                    a += 1
            q += count
        return a

    return answer
