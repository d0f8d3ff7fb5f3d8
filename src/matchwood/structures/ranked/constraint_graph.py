"""The constraint graph of a set of scored intervals, and the arrangement that a SOPT-R-tree is built on (Ranked 3.2)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from matchwood.encode.arrays import Float64s, Int64s
from matchwood.structures.ranked.kernels import arrangement as kernel
from matchwood.structures.ranked.kernels.bits import set_shape

Uint32s = NDArray[np.uint32]


class ConstraintGraph(NamedTuple):
    """Which interval must come before which. Nodes are ranks: 0 is the best.

    An edge from i to j: some point is held by both and by nobody ranked between them. Any order that respects the edges lists
    the intervals that hold a point best first, whatever the point.
    """

    head: Uint32s  # first edge of each node
    following: Uint32s  # the next edge of the same node
    target: Uint32s
    degree: Uint32s  # edges that point to each node
    edges: int

    def pairs(self) -> list[tuple[int, int]]:
        """All edges, for tests. O(edges)."""
        found = []
        for node, first in enumerate(self.head.tolist()):
            edge = first
            while edge != int(kernel.NONE):
                found.append((node, int(self.target[edge])))
                edge = int(self.following[edge])
        return sorted(found)


def cells_of(lo: Float64s, hi: Float64s) -> tuple[Uint32s, Uint32s, int]:
    """The intervals as closed ranges of cells (end points even, gaps odd), and how many cells there are. O(n log n)."""
    ends = np.concatenate([lo, hi])
    order = np.argsort(ends)
    ascending = ends[order]
    new = np.concatenate([[False], ascending[1:] != ascending[:-1]])
    rank = np.empty(len(ends), np.uint32)
    rank[order] = 2 * np.cumsum(new)
    return rank[: len(lo)], rank[len(lo) :], int(rank[order[-1]]) + 1 if len(ends) else 1


def constraint_graph(lo: Float64s, hi: Float64s) -> ConstraintGraph:
    """The graph of intervals given best first. At most 3n edges, O(n log n)."""
    n = len(lo)
    first, last, cells = cells_of(lo, hi)
    size, tops = set_shape(cells)
    words = np.zeros(size, np.uint64)
    owner = np.empty(cells, np.uint32)
    head = np.full(n, kernel.NONE)
    following, target, degree = np.empty(3 * n, np.uint32), np.empty(3 * n, np.uint32), np.zeros(n, np.uint32)
    edges = kernel.constraint_graph(first, last, words, tops, owner, head, following, target, degree)
    return ConstraintGraph(head, following, target, degree, int(edges))


def arrangement(lo: Float64s, hi: Float64s) -> Int64s:
    """The order of a SOPT-R-tree for intervals given best first: leftmost of the free ones, again and again. O(n log n)."""
    n = len(lo)
    graph = constraint_graph(lo, hi)
    by_left = np.argsort(lo, kind="stable").astype(np.uint32)
    left_rank = np.empty(n, np.uint32)
    left_rank[by_left] = np.arange(n, dtype=np.uint32)
    size, tops = set_shape(n)
    order = np.empty(n, np.uint32)
    words = np.zeros(size, np.uint64)
    kernel.arrange(by_left, left_rank, words, tops, graph.head, graph.following, graph.target, graph.degree, order)
    return order.astype(np.int64)
