"""The questions of a batch, answered node by node: planes, members and records that one brings into a cache serve the next.

    question -> the buckets it asks              `ask`, `sort_asks`: those who ask a bucket, in the order in which they came
    bucket -> its nodes, for each its questions  `list_visits`: (node, question), all of a node one after the other
    visit -> a line of bits -> words with bits   the structure's own filter, `planes.keep_words`
    words -> candidates (member, question)       `next_found`: no branch that depends on a bit
    candidates -> hits                           the structure's own exact test, `keep_hit`
    hits -> by question                          `order_hits`, `hand_out`

Questions are events that ask for rows, or rows that ask for live events. One question alone goes the same way. Of the candidates
of 64 neighbours among 2,000 events at a million city squares four in nine have been there before, of 256 two in three; few of
64 read the same lines of planes, most of 1,024 do.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, subroutine
from matchwood.jit.intrinsics import prefetch, trailing_zeros
from matchwood.jit.state import State, array
from matchwood.structures.mo_tree.kernels.layout import HEAD_WORDS, LINE, NONE, ONE, ONES, PLANES, VALID
from matchwood.structures.mo_tree.kernels.planes import count_ones, keep_words

QUESTIONS = 2048  # at a time, at most
ASKS = 1 << 17  # room for that many, or for one a bucket
BLOCK = 1024  # visits whose words are kept before members are read
FOUND = 8192  # candidates that are listed before they are verified, and up to a word more
WORD_BITS = 64
NODES_AHEAD = 5  # visits between asking for the planes of one and reading them, where few share them
FAR = 32  # candidates between asking for one and its turn
AFAR = 512  # between asking for it into the second cache and its turn: about those of a node. Its first questions need most lines
SHARED = 16  # visits of a node from which on all its planes are asked for, while the node before is looked at
HITS = 1 << 22  # room for those of a batch; what is not needed is not touched
FILLED = 4  # batches are made to fill this part of it: neighbours have many hits together, and what does not fit is found twice
MOST_RANKED = 64  # k up to which candidates that cannot be among the k best are left out

ASK = np.dtype([("number", "u4"), ("question", "u4"), ("packed", "u8"), ("mask_0", "u8"), ("mask_1", "u8")])
VISIT = np.dtype([("node", "u4"), ("question", "u4"), ("packed", "u8")])
OWNER = np.dtype([("question", "u4"), ("end", "u4")])  # of candidates, behind those of the one before
SERIES_OF_HITS = np.dtype([("question", "u4"), ("end", "u4"), ("score", "f8")])
"""Hits of one question, behind those of the series before, and the score of all; NaN where each has its own."""

# places in `counts`
ASKED, BUCKETS, BUCKET, SERVED, NODE, RUN, AT, LISTED, WORD, WORDS, OWNERS, KEPT, SERIES = range(13)
MOST, BEST, FIRST, MANY, NOTED = range(13, 18)  # from MOST on they outlast a batch
COUNTS = 18


class Batch(State):
    askers: np.ndarray = array(
        np.uint32
    )  # by bucket: how many ask it, then where they end in `by_bucket`; 0 between batches
    buckets: np.ndarray = array(np.uint32)  # those that are asked
    asks: np.ndarray = array(ASK)  # as they came
    by_bucket: np.ndarray = array(np.uint32)  # their order by bucket
    run: np.ndarray = array(ASK)  # those of the bucket that is listed now
    visits: np.ndarray = array(VISIT)  # VISIT
    words: np.ndarray = array(np.uint64)  # words of lines in which a bit is left
    tags: np.ndarray = array(np.uint64)  # the question << 32 | the place in `members` of the word's first bit
    found: np.ndarray = array(np.uint32)  # candidates, as members of a tree
    owners: np.ndarray = array(OWNER)  # whose they are
    ids: np.ndarray = array(np.int64)  # those of the hits, as they are found
    scores: np.ndarray = array(np.float64)  # where those of a series differ
    slots: np.ndarray = array(np.uint32)  # those of rows, where a subscription may have several
    series: np.ndarray = array(SERIES_OF_HITS)  # whose they are
    order: np.ndarray = array(np.uint32)  # their order by question
    ends: np.ndarray = array(
        np.int64
    )  # two more than questions: the hits of question q are order[ends[q] : ends[q + 1]]
    counts: np.ndarray = array(np.int64)  # see the places above


def new_batch(directory: int, questions: int = QUESTIONS) -> Batch:
    """Room for so many questions at a time to a tree of so many buckets."""
    counts = np.zeros(COUNTS, np.int64)
    counts[MOST] = counts[BEST] = questions
    return Batch(
        askers=np.zeros(directory, np.uint32),
        buckets=np.empty(directory + 1, np.uint32),
        asks=np.empty(max(directory, ASKS), ASK),
        by_bucket=np.empty(max(directory, ASKS), np.uint32),
        run=np.empty(questions, ASK),
        visits=np.empty(BLOCK + questions, VISIT),
        words=np.empty(BLOCK * LINE + LINE, np.uint64),
        tags=np.empty(BLOCK * LINE + LINE, np.uint64),
        found=np.empty(FOUND + WORD_BITS + AFAR, np.uint32),
        owners=np.empty(FOUND + 1, OWNER),
        ids=np.empty(HITS + 1, np.int64),
        scores=np.empty(HITS + 1),
        slots=np.empty(HITS + 1, np.uint32),
        series=np.empty(HITS + 1, SERIES_OF_HITS),
        order=np.empty(HITS, np.uint32),
        ends=np.zeros(questions + 2, np.int64),
        counts=counts,
    )


@helper
def begin_batch(batch):
    """Forget the questions before. O(buckets they asked)."""
    for b in range(batch.counts[BUCKETS]):
        batch.askers[np.int64(batch.buckets[b])] = np.uint32(0)
    for place in range(MOST):
        batch.counts[place] = 0
    batch.counts[NODE] = np.int64(NONE)


@helper
def ask(batch, number, question, packed, mask_0, mask_1):
    """Let a question look at the nodes of a bucket that reach one slice of each mask; there is room. O(1)."""
    n = batch.counts[ASKED]
    batch.counts[ASKED] = n + 1
    before = batch.askers[number]
    batch.buckets[batch.counts[BUCKETS]] = np.uint32(number)
    batch.counts[BUCKETS] += np.int64(before == 0)
    batch.askers[number] = before + np.uint32(1)
    asked = batch.asks[n]
    asked.number, asked.question, asked.packed = np.uint32(number), np.uint32(question), np.uint64(packed)
    asked.mask_0, asked.mask_1 = mask_0, mask_1


@helper
def sort_asks(batch):
    """Order by bucket what has been asked; nothing is asked afterwards. O(asks + buckets)."""
    n = np.uint32(0)
    for b in range(batch.counts[BUCKETS]):
        number = np.int64(batch.buckets[b])
        many = batch.askers[number]
        batch.askers[number] = n
        n += many
    for i in range(batch.counts[ASKED]):
        number = np.int64(batch.asks[i].number)
        batch.by_bucket[np.int64(batch.askers[number])] = np.uint32(i)
        batch.askers[number] += np.uint32(1)


@helper
def first_number(scratch, layers):
    """The first combination of the cells stabbed[runs[a] : runs[a + 1]] of each layer, as a bucket; -1 if there is no room for
    all of them to be asked. `next_number` gives the others."""
    number = np.int64(0)
    combinations = np.int64(1)
    for a in range(layers):
        number += scratch.stabbed[scratch.runs[a]]
        combinations *= scratch.runs[a + 1] - scratch.runs[a]
    batch = scratch.batch
    return number if batch.counts[ASKED] + combinations <= batch.asks.size else np.int64(-1)


@helper
def next_number(scratch, layers, number):
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
def ask_everywhere(tree, batch, question):
    """Let a question ask every bucket: relaxed matching cannot leave one out. False if there is no room. O(buckets)."""
    if batch.counts[ASKED] + tree.directory.size > batch.asks.size:
        return False
    for number in range(tree.directory.size):
        if tree.directory[number].first != NONE:
            ask(batch, number, question, np.uint64(0), ONES, ONES)
    return True


@helper
def next_bucket(tree, batch):
    """Copy those who ask the next bucket side by side, and go to its first node."""
    number = np.int64(batch.buckets[batch.counts[BUCKET]])
    first, last = batch.counts[SERVED], np.int64(batch.askers[number])
    batch.counts[BUCKET] += 1
    batch.counts[SERVED] = last
    batch.counts[NODE] = np.int64(tree.directory[number].first)
    for i in range(first, last):
        asked, copy = batch.asks[np.int64(batch.by_bucket[i])], batch.run[i - first]
        copy.question, copy.packed = asked.question, asked.packed
        copy.mask_0, copy.mask_1 = asked.mask_0, asked.mask_1
    batch.counts[RUN] = last - first


@helper
def list_visits(tree, batch):
    """The next visits, BLOCK of them or a few more, fewer only at the end; return how many. O(visits + nodes * questions)."""
    n = np.int64(0)
    counts = batch.counts
    while n < BLOCK:
        if counts[NODE] == np.int64(NONE):
            if counts[BUCKET] == counts[BUCKETS]:
                break
            next_bucket(tree, batch)
            continue
        node = tree.nodes[counts[NODE]]
        for i in range(counts[RUN]):
            asked, visit = batch.run[i], batch.visits[n]
            visit.node, visit.question, visit.packed = np.uint32(counts[NODE]), asked.question, asked.packed
            n += np.int64((node.reach_0 & asked.mask_0) != 0) & np.int64((node.reach_1 & asked.mask_1) != 0)
        counts[NODE] = np.int64(node.next)
    return n


@helper
def shift_of(node):
    """What brings the number of a plane to its words: those of a plane are a power of two."""
    return np.int64(trailing_zeros(np.uint64(node.words)))


@helper
def end_of_node(batch, v):
    """Where the visits to the node of visit v end."""
    end = v
    while end < batch.counts[LISTED] and batch.visits[end].node == batch.visits[v].node:
        end += 1
    return end


@helper
def lines_ahead(tree, batch, visits, v, end):
    """Where the planes of the node of the visits v..end - 1 begin, and how many lines of them each of so many visits before asks
    for: 0 where few share them."""
    if end - v < SHARED:
        return np.int64(0), np.int64(0)
    node = tree.nodes[batch.visits[v].node]
    words = np.int64(node.words)
    lines = (tree.counts[PLANES] + HEAD_WORDS - VALID) * words // LINE
    return np.int64(node.start) + VALID * words, lines // visits + 1


@helper
def filter_visits(tree, scratch, first, last, how, filter_visit, prefetch_visit):
    """Keep the words with bits left of some visits; return how many. O(visits * planes).

    The planes of a node that many visit are asked for evenly, while the one before is looked at: its first visitors need most of
    them, and would wait for memory, which had nothing to do afterwards.
    """
    batch = scratch.batch
    n, v, end, warm = np.int64(0), first, end_of_node(batch, first), False
    while v < last:
        after = end_of_node(batch, end)
        soon, step = lines_ahead(tree, batch, end - v, end, after)
        node = tree.nodes[batch.visits[v].node]
        for i in range(v, min(end, last)):
            for _ in range(step):
                prefetch(tree.bits, soon)
                soon += LINE
            if not warm:
                prefetch_visit(tree, scratch, batch.visits[min(i + NODES_AHEAD, last - 1)])
            visit = batch.visits[i]
            filter_visit(tree, scratch, node, visit, how)
            tag = (np.uint64(visit.question) << np.uint64(32)) | (np.uint64(2) * node.start)
            n = keep_words(scratch.line, np.int64(node.words), tag, batch.words, batch.tags, n)
        v, end, warm = end, after, step > 0
    return n


@subroutine
def next_words(tree, scratch, how, filter_visit, prefetch_visit):
    """Go on to the words of the next visits; False if there are none."""
    counts = scratch.batch.counts
    if counts[AT] == counts[LISTED]:
        counts[AT] = 0
        counts[LISTED] = list_visits(tree, scratch.batch)
    last = min(counts[AT] + BLOCK, counts[LISTED])
    if last == 0:
        return False
    counts[WORD] = 0
    counts[WORDS] = filter_visits(tree, scratch, counts[AT], last, how, filter_visit, prefetch_visit)
    counts[AT] = last
    return True


@helper
def next_found(tree, scratch, how, filter_visit, prefetch_visit):
    """List the next candidates, FOUND of them and up to a word more, fewer only at the end; return how many.

    FAR times the last one follows, so that who verifies may look ahead without a question.
    """
    batch = scratch.batch
    counts = batch.counts
    n, owner, before = np.int64(0), np.int64(-1), NONE
    while n < FOUND:
        if counts[WORD] == counts[WORDS] and not next_words(tree, scratch, how, filter_visit, prefetch_visit):
            break
        i = counts[WORD]
        while i < counts[WORDS] and n < FOUND:
            tag = batch.tags[i]
            n = list_word(tree, batch, batch.words[i], tag, n)
            question = np.uint32(tag >> np.uint64(32))
            owner += np.int64(question != before)
            before = question
            batch.owners[np.uint64(owner)].question, batch.owners[np.uint64(owner)].end = question, np.uint32(n)
            i += 1
        counts[WORD] = i
    counts[OWNERS] = owner + 1
    for i in range(n):
        batch.found[i] = tree.members[np.int64(batch.found[i])]
    if n > 0:
        for i in range(n, n + FAR):
            batch.found[i] = batch.found[n - 1]
    return n


@helper
def list_word(tree, batch, word, tag, n):
    """List the places of a word's bits behind n others; return how many there are now. The first two without a branch."""
    first = tag & np.uint64(0xFFFFFFFF)
    many, at = count_ones(word), np.uint64(n)
    prefetch(tree.members, np.int64(first + trailing_zeros(word)))
    for _ in range(2):
        batch.found[at] = np.uint32(first + trailing_zeros(word))
        word &= word - ONE
        at += ONE
    while word != 0:
        batch.found[at] = np.uint32(first + trailing_zeros(word))
        word &= word - ONE
        at += ONE
    return n + many


@helper
def keep_hit(batch, id_, score, slot, question, holds):
    """Keep a hit, or nothing, without a branch; there is room."""
    n = batch.counts[KEPT]
    batch.ids[n], batch.scores[n], batch.slots[n] = id_, score, slot
    keep_series(batch, question, n + np.int64(holds), np.nan)


@helper
def keep_series(batch, question, end, score):
    """Keep the hits that have been written up to `end`, if there are any; there is room."""
    series = batch.series[batch.counts[SERIES]]
    series.question, series.end, series.score = np.uint32(question), np.uint32(end), score
    batch.counts[SERIES] += np.int64(end > batch.counts[KEPT])
    batch.counts[KEPT] = end


@helper
def allowed(batch, k):
    """How many may ask together: for all hits, or for the k best, which few others are kept with."""
    return batch.counts[MOST if k == 0 else BEST]


@helper
def allow(batch, many, k):
    batch.counts[MOST if k == 0 else BEST] = min(max(many, 1), batch.run.size)


@helper
def count_hits(batch, questions, k):
    """ends[q + 1] = how many hits the questions before q have; say how many may ask next. O(series + questions)."""
    ends = batch.ends
    for q in range(questions + 2):
        ends[q] = 0
    first = np.int64(0)
    for s in range(batch.counts[SERIES]):
        series = batch.series[s]
        ends[np.int64(series.question) + 2] += np.int64(series.end) - first
        first = np.int64(series.end)
    for q in range(questions):
        ends[q + 2] += ends[q + 1]
    allow(batch, questions * (batch.order.size // FILLED) // (batch.counts[KEPT] + 1), k)


@helper
def order_hits(batch):
    """Order the hits by question, those of one as they were found, after `count_hits`; all have scores then. O(hits)."""
    i = np.uint32(0)
    for s in range(batch.counts[SERIES]):  # ends[q + 1] is where those of q begin, and moves on to where they end
        series = batch.series[s]
        q = np.int64(series.question) + 1
        own = np.isnan(series.score)
        while i < series.end:
            batch.order[batch.ends[q]] = i
            batch.ends[q] += 1
            batch.scores[i] = batch.scores[i] if own else series.score
            i += np.uint32(1)


@helper
def hand_out(batch, questions, out, n, ends, first):
    """Write the hits into the answers of their questions, from n on, those of one as they were found, after `count_hits`. That
    of question q ends at ends[first + q]; return where the last one does. There is room. O(hits + questions)."""
    i = np.uint64(0)
    for s in range(batch.counts[SERIES]):
        series = batch.series[s]
        q, end, score = np.int64(series.question) + 1, np.uint64(series.end), series.score
        own = np.isnan(score)
        at = np.uint64(n + batch.ends[q])
        while i < end:
            out.ids[at], out.scores[at] = batch.ids[i], batch.scores[i] if own else score
            at += ONE
            i += ONE
        batch.ends[q] = np.int64(at) - n
    for q in range(questions):
        ends[first + q] = n + batch.ends[q + 1]
    return n + batch.counts[KEPT]


@helper
def find_hits(tree, scratch, first, many, how, k, filter_visit, prefetch_visit, verify_found, known, candidates):
    """Find the hits of the questions first, ..., `many` of them, which have asked, and have them in hand; True if those are all.

    Where several have more hits than there is room for, they have none in hand, and fewer may ask together; one alone
    has the first of them, and the others when this is called again. `filter_visit(tree, scratch, node, visit, how)` leaves in
    scratch.line what may match in a node, `prefetch_visit(tree, scratch, visit)` asks for the planes of a visit that comes soon,
    `verify_found(scratch, found, known)` keeps the hits among the candidates that are listed.
    """
    counts = scratch.batch.counts
    before = candidates[0]
    counts[KEPT] = counts[SERIES] = 0
    found = np.int64(FOUND)
    while found > 0 and counts[KEPT] + FOUND + WORD_BITS <= scratch.batch.order.size:
        found = next_found(tree, scratch, how, filter_visit, prefetch_visit)
        candidates[0] += found
        verify_found(scratch, found, known)
    whole = found == 0
    counts[FIRST], counts[MANY] = first, many if whole else 0
    if whole or many == 1:
        count_hits(scratch.batch, many, k)
    else:
        allow(scratch.batch, many >> 1, k)
        candidates[0] = before
    return whole
