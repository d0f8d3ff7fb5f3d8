"""The constraint graph of scored intervals and the arrangement of a SOPT-R-tree (Ranked 3.2).

In: intervals in rank order (best first), as closed ranges of cells. Cells alternate: an end point, the gap behind it, the next
end point, ... so two closed intervals that only touch share a cell, and a gap between neighbours is a place of its own.

Visible blocks  seen from below, the line is a row of blocks, each painted by the lowest interval that holds it. `owner[c]`
                is the painter of the block that begins at cell c (NONE: nobody), the beginnings are an ordered set.
                Painting interval i over [first, last] draws an edge from the painter of each block that it meets.
Cost            an interval adds at most three blocks and an edge uses one up: at most 3n edges, O(n log n) in all, where
                the log is an ordered set of 64 branches: four steps for 4M cells.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import kernel
from matchwood.structures.ranked.kernels.bits import set_add, set_next, set_previous, set_remove

NONE = np.uint32(0xFFFFFFFF)


@kernel
def constraint_graph(first, last, words, tops, owner, head, following, target, degree):
    """The edges of the graph; return their number. Edges of node i are a list: head[i], following[...]; target[e] is the end.

    `words` and `tops`: an empty set of cells; `owner` one a cell; `head` NONE and `degree` 0, one an interval; `following`
    and `target` 3n long.
    """
    n = np.int64(0)
    set_add(words, tops, np.int64(0))
    owner[0] = NONE
    for i in range(first.size):
        begin, end = np.int64(first[i]), np.int64(last[i])
        block = set_previous(words, tops, begin)
        painter = NONE
        start = block
        while block >= 0 and block <= end:
            painter = owner[block]
            if painter != NONE:
                target[n] = np.uint32(i)
                following[n] = head[np.int64(painter)]
                head[np.int64(painter)] = np.uint32(n)
                degree[i] += np.uint32(1)
                n += 1
            if block > begin:
                set_remove(words, tops, block)
            block = set_next(words, tops, block + 1)
        # What the last block has behind the interval becomes a block of its own.
        if end + 1 < owner.size and block != end + 1:
            set_add(words, tops, end + 1)
            owner[end + 1] = painter
        if start != begin:
            set_add(words, tops, begin)
        owner[begin] = np.uint32(i)
    return n


@kernel
def arrange(by_left, left_rank, words, tops, head, following, target, degree, order):
    """Fill `order`: again and again the leftmost interval that no unplaced one must precede. O(n + edges).

    `by_left` lists the intervals by left end, `left_rank` is its inverse; `words` and `tops` an empty set of n.
    """
    for i in range(order.size):
        if degree[i] == 0:
            set_add(words, tops, np.int64(left_rank[i]))
    for at in range(order.size):
        least = set_next(words, tops, np.int64(0))
        set_remove(words, tops, least)
        i = np.int64(by_left[least])
        order[at] = np.uint32(i)
        edge = head[i]
        while edge != NONE:
            j = np.int64(target[np.int64(edge)])
            degree[j] -= np.uint32(1)
            if degree[j] == 0:
                set_add(words, tops, np.int64(left_rank[j]))
            edge = following[np.int64(edge)]
