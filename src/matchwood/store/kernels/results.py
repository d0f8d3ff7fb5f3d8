"""Answers: `take_hit` adds a hit to the answer of an event, `finish_hits` puts the k best in order.

The answer to an event is a run of `Out` that begins at `begin`. For top-k that run is a heap of at most k hits with the worst hit
at its root (lowest score, then largest id), which is sorted in place at the end. A subscription with several rows is reported
once, with its best score.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.jit.decorators import helper
from matchwood.store.kernels.rows import SIBLING, first_slot


class Out(NamedTuple):
    ids: np.ndarray  # int64
    scores: np.ndarray  # float64


@helper
def emit(store, slot, score, out, begin, n, seen):
    """Append a hit; return the new count, or -1 if `out` is full. `seen[first slot]` is where a sibling was put. O(1)."""
    row = store.rows[slot]
    if row.flags & SIBLING:
        head = first_slot(store, row.id)
        at = np.int64(seen[head])
        if begin <= at < n and out.ids[at] == row.id:
            if score > out.scores[at]:
                out.scores[at] = score
            return n
        seen[head] = np.uint32(n)
    if n == out.ids.size:
        return np.int64(-1)
    out.ids[n] = row.id
    out.scores[n] = score
    return n + 1


@helper
def worse(score_a, id_a, score_b, id_b):
    return score_a < score_b or (score_a == score_b and id_a > id_b)


@helper
def keep_largest(best, held, k, value):
    """Put a value among the largest so far, best[:held], which fall; return how many are held. Of k the last makes room. O(k)."""
    held = min(held + 1, k)
    at = held - 1
    while at > 0 and best[at - 1] < value:
        best[at] = best[at - 1]
        at -= 1
    best[at] = value
    return held


@helper
def sift_down(out, begin, size, at, score, id_):
    """Put the hit at `at` or below, so that no child is worse than its parent."""
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        c = begin + child
        if child + 1 < size and worse(out.scores[c + 1], out.ids[c + 1], out.scores[c], out.ids[c]):
            child += 1
            c += 1
        if not worse(out.scores[c], out.ids[c], score, id_):
            break
        out.scores[begin + at] = out.scores[c]
        out.ids[begin + at] = out.ids[c]
        at = child
    out.scores[begin + at] = score
    out.ids[begin + at] = id_


@helper
def sift_up(out, begin, at, score, id_):
    """Put the hit at `at` or above."""
    while at > 0:
        parent = (at - 1) >> 1
        p = begin + parent
        if not worse(score, id_, out.scores[p], out.ids[p]):
            break
        out.scores[begin + at] = out.scores[p]
        out.ids[begin + at] = out.ids[p]
        at = parent
    out.scores[begin + at] = score
    out.ids[begin + at] = id_


@helper
def keep_best(out, begin, size, k, id_, score, several):
    """Offer a hit to the k best so far; return how many there are now. O(log k), O(k) if its id may be among them already."""
    at = np.int64(-1)
    if several:
        for i in range(size):
            if out.ids[begin + i] == id_:
                at = i
                break
    if at < 0 and size < k:
        sift_up(out, begin, size, score, id_)
        return size + 1
    at = max(at, 0)
    if worse(out.scores[begin + at], out.ids[begin + at], score, id_):
        sift_down(out, begin, size, at, score, id_)
    return size


@helper
def offer(store, slot, score, out, begin, size, k):
    """Offer a row to the k best subscriptions so far; return how many there are now. O(log k), O(k) for one with siblings."""
    row = store.rows[slot]
    return keep_best(out, begin, size, k, row.id, score, row.flags & SIBLING != 0)


@helper
def take_hit(store, slot, score, out, begin, n, k, seen):
    """Add a row's hit to the answer of an event, out[begin:n]: every match (k = 0), or the k best.

    Return the new end, -1 if `out` is full; the caller has seen to room for k. A subscription with several rows is kept once,
    with its best score. O(1), O(log k) for the k best, O(k) for a subscription with several rows.
    """
    if k == 0:
        return emit(store, slot, score, out, begin, n, seen)
    return begin + offer(store, slot, score, out, begin, n - begin, k)


@helper
def finish_hits(out, begin, n, k):
    """Put an answer that `take_hit` made into rank order, if it has the k best. O(k log k)."""
    if k > 0:
        best_first(out, begin, n - begin)


@helper
def take_event(seen, out, begin, n, k, id_, slot, score, several):
    """Add a hit to the answer out[begin:n]: every hit (k = 0), or the k best. Return the new end, -1 if `out` is full.

    `several`: the answer may have the id already, and keeps the better score; seen[slot] is where it was put. O(1), O(log k) for
    the k best, O(k) if there may be several.
    """
    if k > 0:
        return begin + keep_best(out, begin, n - begin, k, id_, score, several)
    if several:
        at = np.int64(seen[slot])
        if begin <= at < n and out.ids[at] == id_:
            out.scores[at] = max(out.scores[at], score)
            return n
        seen[slot] = np.uint32(n)
    if n == out.ids.size:
        return np.int64(-1)
    out.ids[n] = id_
    out.scores[n] = score
    return n + 1


@helper
def best_first(out, begin, size):
    """Sort the heap into rank order. O(size log size)."""
    for last in range(size - 1, 0, -1):
        score, id_ = out.scores[begin + last], out.ids[begin + last]
        out.scores[begin + last] = out.scores[begin]
        out.ids[begin + last] = out.ids[begin]
        sift_down(out, begin, last, 0, score, id_)
