"""Rank order for whole batches: each event's hits sorted by score descending, then id ascending.

Short runs are merged from blocks. Blocks are sorted by counting how many hits come before each: quadratic, but vectors of
compares without a branch.

Long runs are sorted by radix. A score becomes a whole number of 64 bits in rank order, of which the 32 that differ first within
the run are sorted, in three passes, together with the position of the hit. Hits that agree in these bits are neighbours then:
few are inserted in order, many are merged. Where many scores are equal, ids are sorted first in the same way.
"""

from __future__ import annotations

import threading

import numpy as np

from matchwood.jit.decorators import helper, kernel, subroutine
from matchwood.jit.state import State, array

BLOCK = 64
MIN_RADIX = 256
"""Hits that are sorted by radix, at least: with fewer the tables cost more than the passes."""
FEW = 16
"""Neighbours that are inserted in order, at most."""
DIGIT = np.uint64(11)  # bits
DIGITS = 3
TABLE = 1 << 11
FIRST_SHIFT = np.uint64(
    31
)  # three digits from bit 31 on: 32 bits of the key, and one of the position, which does no harm
LOW = np.uint64(0xFFFFFFFF)
SIGN = np.int64(-(1 << 63))


class SortScratch(State):
    """Memory for the longest run."""

    ids: np.ndarray = array(np.int64)
    scores: np.ndarray = array(np.float64)
    keys: np.ndarray = array(np.uint64)
    packed: np.ndarray = array(np.uint64)
    spare: np.ndarray = array(np.uint64)
    tables: np.ndarray = array(np.uint32)  # [DIGITS * TABLE]


@helper
def before(score_a, id_a, score_b, id_b):
    """Does hit a come before hit b?"""
    return (score_a > score_b) | ((score_a == score_b) & (id_a < id_b))


@helper
def sort_block(ids, scores, low, high, to_ids, to_scores):
    """Put the hits low..high into the same places of other arrays, in order. O(n^2)."""
    ids, scores = ids[low:high], scores[low:high]
    for i in range(ids.size):
        id_, score = ids[i], scores[i]
        rank = low
        for j in range(ids.size):
            rank += np.int64(before(scores[j], ids[j], score, id_))
        for j in range(i):  # equal hits keep their order: shards that overlap give copies
            rank += np.int64((scores[j] == score) & (ids[j] == id_))
        to_ids[rank], to_scores[rank] = id_, score


@helper
def merge(ids, scores, low, middle, high, to_ids, to_scores):
    """Merge the sorted hits low..middle and middle..high into the same places of other arrays. O(n), without branches."""
    i, j = low, middle
    for to in range(low, high):
        step = np.int64(j < high and (i == middle or before(scores[j], ids[j], scores[i], ids[i])))
        at = i + step * (j - i)
        to_ids[to], to_scores[to] = ids[at], scores[at]
        j += step
        i += 1 - step


@subroutine
def sort_by_merging(all_ids, all_scores, scratch):
    """Sort hits in place. O(n log n)."""
    size = all_ids.size
    ids, scores, to_ids, to_scores = all_ids, all_scores, scratch.ids, scratch.scores
    for low in range(0, size, BLOCK):
        sort_block(ids, scores, low, min(low + BLOCK, size), to_ids, to_scores)
    ids, to_ids = to_ids, ids
    scores, to_scores = to_scores, scores
    width = BLOCK
    while width < size:
        for low in range(0, size, 2 * width):
            merge(ids, scores, low, min(low + width, size), min(low + 2 * width, size), to_ids, to_scores)
        ids, to_ids = to_ids, ids
        scores, to_scores = to_scores, scores
        width *= 2
    for i in range(size):  # where the sorted hits are in the scratch; else onto themselves
        all_ids[i], all_scores[i] = ids[i], scores[i]


@helper
def sort_by_insertion(ids, scores):
    """Sort a few hits in place. O(n^2)."""
    for i in range(1, ids.size):
        id_, score, at = ids[i], scores[i], i
        while at > 0 and before(score, id_, scores[at - 1], ids[at - 1]):
            ids[at], scores[at] = ids[at - 1], scores[at - 1]
            at -= 1
        ids[at], scores[at] = id_, score


@helper
def key_of(bits):
    """The rank of a score, given by its bits: the larger the score, the smaller the key. Both zeros have the same."""
    if bits == SIGN:
        bits = np.int64(0)
    return np.uint64(bits ^ ~SIGN) if bits >= 0 else np.uint64(bits)


@subroutine
def sort_by_key(ids, scores, scratch):
    """Sort hits in place by their keys, as far as 32 bits of them tell. O(n).

    `scratch.spare[:n] >> 32` has those bits, ascending. Stable.
    """
    size, keys, tables = ids.size, scratch.keys, scratch.tables
    least, greatest = keys[0], keys[0]
    for i in range(size):
        least, greatest = min(least, keys[i]), max(greatest, keys[i])
    shift = np.uint64(0)
    while (greatest - least) >> shift > LOW:
        shift += np.uint64(1)
    tables[:] = np.uint32(0)
    packed, spare = scratch.packed, scratch.spare
    for i in range(size):
        word = ((keys[i] - least) >> shift) << np.uint64(32) | np.uint64(i)
        packed[i] = word
        for digit in range(DIGITS):
            at = (word >> (FIRST_SHIFT + np.uint64(digit) * DIGIT)) & np.uint64(TABLE - 1)
            tables[np.int64(digit * TABLE) + np.int64(at)] += np.uint32(1)
    for digit in range(DIGITS):
        table = tables[digit * TABLE : (digit + 1) * TABLE]
        begin = np.uint32(0)
        for at in range(TABLE):
            count = table[at]
            table[at] = begin
            begin += count
        by = FIRST_SHIFT + np.uint64(digit) * DIGIT
        for i in range(size):
            word = packed[i]
            at = np.int64((word >> by) & np.uint64(TABLE - 1))
            spare[np.int64(table[at])] = word
            table[at] += np.uint32(1)
        packed, spare = spare, packed
    # An odd number of passes: they are in `scratch.spare`.
    for i in range(size):
        at = np.int64(packed[i] & LOW)
        scratch.ids[i], scratch.scores[i] = ids[at], scores[at]
    for i in range(size):
        ids[i], scores[i] = scratch.ids[i], scratch.scores[i]


@subroutine
def sort_by_id(ids, scores, scratch):
    """Sort hits in place by their ids, as far as `sort_by_key` does. O(n)."""
    for i in range(ids.size):
        scratch.keys[i] = np.uint64(ids[i])
    sort_by_key(ids, scores, scratch)


@helper
def end_of_ties(words, begin, size):
    """Where the hits end whose bits are those of the one at `begin`."""
    end = begin + 1
    while end < size and (words[end] ^ words[begin]) <= LOW:
        end += 1
    return end


@helper
def is_sorted(ids, scores):
    """Are the hits in rank order?"""
    for i in range(1, ids.size):
        if before(scores[i], ids[i], scores[i - 1], ids[i - 1]):
            return False
    return True


@subroutine
def sort_by_score(ids, scores, bits, scratch):
    """Sort hits in place by their scores, as far as `sort_by_key` does; return how many are among many that it took for equal."""
    size, keys = ids.size, scratch.keys
    for i in range(size):
        keys[i] = key_of(bits[i])
    sort_by_key(ids, scores, scratch)
    begin = tied = np.int64(0)
    while begin < size:
        end = end_of_ties(scratch.spare, begin, size)
        if end - begin > FEW:
            tied += end - begin
        begin = end
    return tied


@subroutine
def sort_by_radix(ids, scores, bits, scratch):
    """Sort a long run in place; `bits` is the memory of the scores. O(n), O(n log n) where many scores are nearly equal."""
    size = ids.size
    if (
        4 * sort_by_score(ids, scores, bits, scratch) > size
    ):  # it keeps the order of ties, which is to be that of the ids
        sort_by_id(ids, scores, scratch)
        sort_by_score(ids, scores, bits, scratch)
    begin = np.int64(0)
    while begin < size:
        end = end_of_ties(scratch.spare, begin, size)
        if end - begin > 1 and not is_sorted(ids[begin:end], scores[begin:end]):
            if end - begin > FEW:
                sort_by_merging(ids[begin:end], scores[begin:end], scratch)
            else:
                sort_by_insertion(ids[begin:end], scores[begin:end])
        begin = end


@kernel
def _sort_runs(offsets, ids, scores, scratch):
    """Sort each run in place; the scratch is as long as the longest one."""
    bits = scores.view(np.int64)
    for e in range(offsets.size - 1):
        begin, end = offsets[e], offsets[e + 1]
        if end - begin < MIN_RADIX:
            sort_by_merging(ids[begin:end], scores[begin:end], scratch)
        else:
            sort_by_radix(ids[begin:end], scores[begin:end], bits[begin:end], scratch)


KEPT = 1 << 14
"""Hits that the scratch of a thread is kept for between calls, at most: 700 KB."""
_thread = threading.local()


def order_hits(offsets: np.ndarray, ids: np.ndarray, scores: np.ndarray) -> None:
    """Sort the hits of every event in place."""
    longest = len(ids) if len(offsets) == 2 else int(np.diff(offsets).max(initial=0))
    if longest < 2:
        return
    scratch = getattr(_thread, "scratch", None)
    if scratch is None or len(scratch.ids) < longest:
        scratch = _scratch(max(1 << (longest - 1).bit_length(), MIN_RADIX))
        if longest <= KEPT:
            _thread.scratch = scratch
    _sort_runs(offsets, ids, scores, scratch)


def _scratch(room: int) -> SortScratch:
    """Scratch for runs of this length."""
    return SortScratch(
        ids=np.empty(room, np.int64),
        scores=np.empty(room),
        keys=np.empty(room, np.uint64),
        packed=np.empty(room, np.uint64),
        spare=np.empty(room, np.uint64),
        tables=np.empty(DIGITS * TABLE, np.uint32),
    )
