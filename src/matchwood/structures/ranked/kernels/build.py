"""Building: the shape of an interval tree and the lists of a segment tree. In: intervals in rank order, best first."""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import kernel
from matchwood.structures.ranked.kernels.layout import NONE


@kernel
def interval_tree(lo, hi, members, ends, spare, side, bucket, nodes, stack):
    """Split the intervals by medians of their end points (Ranked 2.1.1); return the number of nodes, or -1 if out of room.

    members  in: 0..n-1; out: each node's list is the run of `size` members from `list` on, best first
    ends     in: the 2n end points ascending, i the left end of interval i and n + i the right one; spent
    spare    2n, side n long; stack int64 [room, 4]; nodes: NODE, in preorder

    Every step is a stable partition, so lists stay in rank order and end points stay sorted. O(n log n).
    """
    n = lo.size
    count = np.int64(0)
    depth = np.int64(0)
    if n > 0:
        stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, n, -1, 0
        depth = np.int64(1)
    while depth > 0:
        depth -= 1
        a, b, parent, is_right = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        if count == nodes.size or depth + 2 > stack.shape[0]:
            return np.int64(-1)
        node = nodes[count]
        node.left = node.right = NONE
        node.centre = np.nan
        if parent >= 0:
            if is_right == 1:
                nodes[parent].right = np.uint32(count)
            else:
                nodes[parent].left = np.uint32(count)
        here, end = a, b
        if b - a > bucket:
            middle = np.int64(ends[a + b])
            centre = lo[middle] if middle < n else hi[middle - n]
            node.centre = centre
            lefts = np.int64(0)
            rights = np.int64(0)
            stays = np.int64(0)
            for i in range(a, b):
                m = np.int64(members[i])
                if hi[m] < centre:
                    side[m] = np.uint8(1)
                    members[a + lefts] = np.uint32(m)
                    lefts += 1
                elif lo[m] > centre:
                    side[m] = np.uint8(2)
                    spare[b - a + rights] = np.uint32(m)
                    rights += 1
                else:
                    side[m] = np.uint8(0)
                    spare[stays] = np.uint32(m)
                    stays += 1
            here, end = a + lefts, a + lefts + stays
            for i in range(stays):
                members[here + i] = spare[i]
            for i in range(rights):
                members[end + i] = spare[b - a + i]
            earlier = 2 * a
            later = np.int64(0)
            for i in range(2 * a, 2 * b):
                e = np.int64(ends[i])
                way = side[e if e < n else e - n]
                if way == 1:
                    ends[earlier] = np.uint32(e)
                    earlier += 1
                elif way == 2:
                    spare[later] = np.uint32(e)
                    later += 1
            for i in range(later):
                ends[2 * end + i] = spare[i]
            if end < b:
                stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = end, b, count, 1
                depth += 1
            if a < here:
                stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = a, here, count, 0
                depth += 1
        node.list, node.size = np.uint32(here), np.uint32(end - here)
        count += 1
    return count


@kernel
def summarise(nodes, count, lo, hi, score):
    """Extents, best scores and weights of nodes whose lists lie in the entries `lo`, `hi`, `score`; children after parents."""
    for at in range(count - 1, -1, -1):
        node = nodes[at]
        low, high = np.inf, -np.inf
        for e in range(np.int64(node.list), np.int64(node.list) + np.int64(node.size)):
            low, high = min(low, lo[e]), max(high, hi[e])
        node.lo, node.hi = low, high
        node.own = score[np.int64(node.list)] if node.size > 0 else -np.inf
        node.best, node.weight = node.own, node.size
        if node.left != NONE:
            left = nodes[np.int64(node.left)]
            node.best = max(node.best, left.best)
            node.weight += left.weight
        if node.right != NONE:
            right = nodes[np.int64(node.right)]
            node.best = max(node.best, right.best)
            node.weight += right.weight


@kernel
def count_copies(first, last, leaves, counts):
    """counts[node + 1] = how many intervals node keeps a copy of: those that cover it but not its parent. O(n log n)."""
    for i in range(first.size):
        left, right = leaves + np.int64(first[i]), leaves + np.int64(last[i]) + 1
        while left < right:
            if left & 1:
                counts[left + 1] += np.uint32(1)
                left += 1
            if right & 1:
                right -= 1
                counts[right + 1] += np.uint32(1)
            left >>= 1
            right >>= 1


@kernel
def place_copies(first, last, leaves, places, spans):
    """Write interval i into spans[places[node]] of each of its nodes and move the place on; rank order is kept."""
    for i in range(first.size):
        left, right = leaves + np.int64(first[i]), leaves + np.int64(last[i]) + 1
        while left < right:
            if left & 1:
                spans[np.int64(places[left])] = np.uint32(i)
                places[left] += np.uint32(1)
                left += 1
            if right & 1:
                right -= 1
                spans[np.int64(places[right])] = np.uint32(i)
                places[right] += np.uint32(1)
            left >>= 1
            right >>= 1
