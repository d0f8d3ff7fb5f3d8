"""The interval tree whose lists are sorted by end points (Ranked 2.2.2): every hit is read, the k best are returned.

Layout   as `layout.LISTS`, but a node's list is sorted by left end; `by_right` sorts the same run by right end, descending.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.state import State, array
from matchwood.store.kernels.results import best_first, keep_best
from matchwood.structures.ranked.kernels.layout import NODE, NONE


class Endpoints(State):
    """The arrays of an interval tree by end points."""

    lo: np.ndarray = array(np.float64)
    hi: np.ndarray = array(np.float64)
    score: np.ndarray = array(np.float64)
    link: np.ndarray = array(np.int64)
    by_right: np.ndarray = array(np.uint32)
    nodes: np.ndarray = array(NODE)


@helper
def take_list(tree, node, first, last, out, begin, size, k):
    """Offer all entries of a node's list that meet [first, last]. O(hits) but for buckets."""
    start, end = np.int64(node.list), np.int64(node.list) + np.int64(node.size)
    rightmost = first > node.centre
    for e in range(start, end):
        entry = np.int64(tree.by_right[e]) if rightmost else e
        if tree.lo[entry] <= last and first <= tree.hi[entry]:
            size = keep_best(out, begin, size, k, tree.link[entry], tree.score[entry], False)
        elif not np.isnan(node.centre):
            break  # sorted by the end that failed
    return size


@kernel
def stab_many(tree, first, last, k, stack, out, ends):
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
