"""The questions of a batch, looked into node by node: the planes and members that one of them brings into a cache serve the next.

    question -> the buckets it asks              `ask`: a chain of questions a bucket
    bucket -> its nodes, for each its questions  `list_visits`: (node, question), all of a node one after the other
    visit -> a line of bits                      the structure's own filter, `planes.keep_words`
    bits -> members, by question                 `list_found`, `group_found`: no branch that depends on a bit

Questions are events that ask for rows, or rows that ask for live events. One question alone goes the same way. 64 neighbours at a
time take a tenth less than one by one; more at a time take no less, and more memory.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.kernels._jit import helper
from matchwood.kernels.intrinsics import prefetch, trailing_zeros
from matchwood.kernels.mo_tree import LINE, NONE, ONE, ONES
from matchwood.kernels.planes import count_ones
from matchwood.kernels.store import AHEAD

QUESTIONS = 64  # at a time, at most
ASKS = 1 << 14  # room for that many, or for one a bucket
FAR = 2 * AHEAD
BLOCK = 512  # visits whose words are kept before members are read
FOUND = 1 << 18  # a block of one question fits: 8 words of 64 bits a visit

ASK = np.dtype([("question", "u4"), ("next", "u4"), ("packed", "u8"), ("mask_0", "u8"), ("mask_1", "u8")])
VISIT = np.dtype([("node", "u4"), ("question", "u4"), ("packed", "u8")])

# places in `counts`
ASKED, BUCKETS, BUCKET, NODE, RUN, AT, LISTED, MOST, FIRST, MANY, NOTED = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10


class Visits(NamedTuple):
    heads: np.ndarray  # uint32, by number of the bucket: the last that asked it, none between batches
    buckets: np.ndarray  # uint32: those that are asked
    asks: np.ndarray  # ASK
    run: np.ndarray  # ASK: those of the bucket that is listed now
    visits: np.ndarray  # VISIT
    words: np.ndarray  # uint64: words of lines in which a bit is left
    tags: np.ndarray  # uint64: the question << 32 | the place in `members` of the word's first bit
    found: np.ndarray  # uint32: members
    who: np.ndarray  # uint16: whose
    grouped: np.ndarray  # uint32: the same by question
    ends: np.ndarray  # int64, two more than questions: those of question q are at ends[q]..ends[q + 1]
    counts: np.ndarray  # int64, see the places above


def new_visits(directory: int) -> Visits:
    """Room for the questions of a batch to a tree of so many buckets."""
    return Visits(
        np.full(directory, NONE),
        np.empty(directory + 1, np.uint32),
        np.empty(max(directory, ASKS), ASK),
        np.empty(QUESTIONS, ASK),
        np.empty(BLOCK + QUESTIONS, VISIT),
        np.empty(BLOCK * LINE + LINE, np.uint64),
        np.empty(BLOCK * LINE + LINE, np.uint64),
        np.empty(FOUND + FAR, np.uint32),
        np.empty(FOUND + 1, np.uint16),
        np.empty(FOUND + FAR, np.uint32),
        np.zeros(QUESTIONS + 2, np.int64),
        np.array([0, 0, 0, 0, 0, 0, 0, QUESTIONS, 0, 0, 0], np.int64),
    )


@helper
def begin_batch(batch):
    """Forget the questions before. O(buckets they asked)."""
    for b in range(batch.counts[BUCKETS]):
        batch.heads[np.int64(batch.buckets[b])] = NONE
    for place in range(MOST):
        batch.counts[place] = 0
    batch.counts[NODE] = np.int64(NONE)


@helper
def ask(batch, number, question, packed, mask_0, mask_1):
    """Let a question look at the nodes of a bucket that reach one slice of each mask; there is room. O(1)."""
    n = batch.counts[ASKED]
    batch.counts[ASKED] = n + 1
    before = batch.heads[number]
    batch.buckets[batch.counts[BUCKETS]] = np.uint32(number)
    batch.counts[BUCKETS] += np.int64(before == NONE)
    batch.heads[number] = np.uint32(n)
    asked = batch.asks[n]
    asked.question, asked.next, asked.packed = np.uint32(question), before, np.uint64(packed)
    asked.mask_0, asked.mask_1 = mask_0, mask_1


@helper
def room_to_ask(batch, runs, layers):
    """Is there room for all combinations of the cells runs[a]..runs[a + 1] of each layer?"""
    combinations = np.int64(1)
    for a in range(layers):
        combinations *= runs[a + 1] - runs[a]
    return batch.counts[ASKED] + combinations <= batch.asks.size


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
    """Copy those who ask the next bucket side by side, the first one first, and go to its first node."""
    number = np.int64(batch.buckets[batch.counts[BUCKET]])
    batch.counts[BUCKET] += 1
    batch.counts[NODE] = np.int64(tree.directory[number].first)
    size = np.int64(0)
    at = batch.heads[number]
    while at != NONE:
        asked, copy = batch.asks[np.int64(at)], batch.run[size]
        copy.question, copy.packed = asked.question, asked.packed
        copy.mask_0, copy.mask_1 = asked.mask_0, asked.mask_1
        at = asked.next
        size += 1
    batch.counts[RUN] = size


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
def list_found(tree, batch, words, found):
    """Append the members of the bits in so many words, as far as all have room; return how many there are now, or -1. O(bits)."""
    room = FOUND - found
    for i in range(words):
        room -= count_ones(batch.words[i])
    if room < 0:
        return np.int64(-1)
    first, i = found, np.int64(0)
    while i < words:
        word = batch.words[i]
        tag = batch.tags[i]
        at = (tag & np.uint64(0xFFFFFFFF)) + trailing_zeros(word)
        word &= word - ONE
        batch.words[i] = word
        batch.found[found] = np.uint32(at)
        batch.who[found] = np.uint16(tag >> np.uint64(32))
        prefetch(tree.members, np.int64(at))
        found += 1
        i += np.int64(word == 0)
    for i in range(first, found):
        batch.found[i] = tree.members[np.int64(batch.found[i])]
    return found


@helper
def group_found(batch, questions, found):
    """Put the members of each question side by side: those of q are at ends[q]..ends[q + 1] of `grouped`, of `found` where
    there is but one question. O(members + questions).

    FAR more follow the last one, so that who verifies may look ahead without a question. It also says how many
    questions the next batch may have: as many as fill half of the room, if they find as much.
    """
    batch.counts[MOST] = min(max(questions * (FOUND // 2) // (found + 1), 1), QUESTIONS)
    ends = batch.ends
    for q in range(questions + 2):
        ends[q] = 0
    if questions == 1:
        ends[1] = found
    else:
        for i in range(found):
            ends[np.int64(batch.who[i]) + 2] += 1
        for q in range(questions):
            ends[q + 2] += ends[q + 1]
        for i in range(found):  # ends[q + 1] is where those of q begin, and moves on to where they end
            q = np.int64(batch.who[i])
            batch.grouped[ends[q + 1]] = batch.found[i]
            ends[q + 1] += 1
    if found > 0:
        for i in range(found, found + FAR):
            batch.found[i] = batch.found[found - 1]
            batch.grouped[i] = batch.grouped[found - 1]


@helper
def find(tree, scratch, how, filter_visits):
    """(members that may match, are those all?): as many as there is room for, after those of the last call.

    `filter_visits(tree, scratch, first, last, how)` keeps the words of these visits, and says how many.
    """
    batch = scratch.batch
    counts = batch.counts
    found = np.int64(0)
    while True:
        if counts[AT] == counts[LISTED]:
            counts[AT] = 0
            counts[LISTED] = list_visits(tree, batch)
            if counts[LISTED] == 0:
                return found, True
        last = min(counts[AT] + BLOCK, counts[LISTED])
        more = list_found(tree, batch, filter_visits(tree, scratch, counts[AT], last, how), found)
        if more < 0:
            return found, False
        found = more
        counts[AT] = last
