"""Rank order for whole batches: each event's hits sorted by score descending, then id ascending. A merge sort.

Blocks are sorted by counting how many hits come before each: quadratic, but vectors of compares without a branch.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.results import Out

BLOCK = 64


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


@kernel
def _sort_runs(offsets, out, buffer):
    """Sort each run of `out` in place; `buffer` is as long as the longest. O(n log n)."""
    for e in range(offsets.size - 1):
        size = offsets[e + 1] - offsets[e]
        ids, scores = out.ids[offsets[e] : offsets[e + 1]], out.scores[offsets[e] : offsets[e + 1]]
        to_ids, to_scores = buffer.ids, buffer.scores
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
        begin = offsets[e]
        for i in range(size):  # where the sorted hits are in the buffer; else onto themselves
            out.ids[begin + i], out.scores[begin + i] = ids[i], scores[i]


def order_hits(offsets: np.ndarray, ids: np.ndarray, scores: np.ndarray) -> None:
    """Sort the hits of every event in place."""
    longest = int(np.diff(offsets).max(initial=0))
    _sort_runs(offsets, Out(ids, scores), Out(np.empty(longest, np.int64), np.empty(longest)))
