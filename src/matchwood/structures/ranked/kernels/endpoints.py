"""The interval tree whose lists are sorted by end points (Ranked 2.2.2): every hit is looked at, the k best are kept.

Layout   as `layout.LISTS`, but a node's list is sorted by left end; `by_right` sorts the same run by right end, descending.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.store.kernels.results import best_first, sift_down, sift_up, worse
from matchwood.structures.ranked.kernels.layout import NONE


class Endpoints(NamedTuple):
    lo: np.ndarray
    hi: np.ndarray
    score: np.ndarray
    link: np.ndarray
    by_right: np.ndarray  # uint32
    nodes: np.ndarray  # NODE


@helper
def keep(tree, entry, out, begin, size, k):
    """Offer an entry to the k best; return how many there are."""
    score, id_ = tree.score[entry], tree.link[entry]
    if size < k:
        sift_up(out, begin, size, score, id_)
        return size + 1
    if worse(out.scores[begin], out.ids[begin], score, id_):
        sift_down(out, begin, size, np.int64(0), score, id_)
    return size


@helper
def take_list(tree, node, first, last, out, begin, size, k):
    """Offer all entries of a node's list that meet [first, last]. O(hits) but for buckets."""
    start, end = np.int64(node.list), np.int64(node.list) + np.int64(node.size)
    rightmost = first > node.centre
    for e in range(start, end):
        entry = np.int64(tree.by_right[e]) if rightmost else e
        if tree.lo[entry] <= last and first <= tree.hi[entry]:
            size = keep(tree, entry, out, begin, size, k)
        elif not np.isnan(node.centre):
            break  # sorted by the end that failed
    return size


@kernel
def top_many(tree, first, last, k, stack, out, ends):
    """The k best of each query, best first; ends[q] is where its hits end. `out` has room for k a query."""
    n = np.int64(0)
    for q in range(ends.size):
        size = np.int64(0)
        depth = np.int64(0)
        if tree.nodes.size > 0:
            stack[0] = 0
            depth = np.int64(1)
        while depth > 0:
            depth -= 1
            node = tree.nodes[stack[depth]]
            size = take_list(tree, node, first[q], last[q], out, n, size, k)
            if node.left != NONE and first[q] < node.centre:
                stack[depth] = np.int64(node.left)
                depth += 1
            if node.right != NONE and last[q] > node.centre:
                stack[depth] = np.int64(node.right)
                depth += 1
        best_first(out, n, size)
        n += size
        ends[q] = n
