"""BEQ-Tree: leaves of a quadtree with sorted lists of event keys; counting (Guo et al., as described in MO-Tree 3.2 and 6.1.3).

Layout   leaves[l]: the box of a leaf and its events. Run (leaf, dimension) of `keys` and `members`: the leaf's events that
         have the dimension, by rising key.
A row counts, in every leaf that its square meets, the events between its two ends on each content dimension: two binary
searches and a walk. Those that are counted for each are verified by the caller's exact test.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.kernels._jit import helper, kernel

LEAF = np.dtype([("west", "f8"), ("east", "f8"), ("south", "f8"), ("north", "f8"), ("first", "u4"), ("size", "u4")])


class Leaves(NamedTuple):
    leaves: np.ndarray  # LEAF
    runs: np.ndarray  # int64 [leaves * dimensions + 1]
    keys: np.ndarray  # float64
    members: np.ndarray  # uint32


@helper
def first_at_least(keys, low, high, key):
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def candidates_of(tree, dimensions, x, y, dims, lo, hi, counters, found):
    """Events that meet all intervals (dims, lo, hi), of which those on x and y choose the leaves; return how many are in `found`.

    `counters` is zero for every event, before and after.
    """
    n = np.int64(0)
    for at in range(tree.leaves.size):
        leaf = tree.leaves[at]
        meets = True
        for i in range(dims.size):
            if dims[i] == x:
                meets = meets and lo[i] <= leaf.east and leaf.west <= hi[i]
            elif dims[i] == y:
                meets = meets and lo[i] <= leaf.north and leaf.south <= hi[i]
        if not meets:
            continue
        for i in range(dims.size):
            run = at * dimensions + np.int64(dims[i])
            end = tree.runs[run + 1]
            m = first_at_least(tree.keys, tree.runs[run], end, lo[i])
            while m < end and tree.keys[m] <= hi[i]:
                event = np.int64(tree.members[m])
                counters[event] += np.uint16(1)
                if np.int64(counters[event]) == dims.size:
                    found[n] = np.uint32(event)
                    n += 1
                m += 1
        for i in range(dims.size):
            run = at * dimensions + np.int64(dims[i])
            end = tree.runs[run + 1]
            m = first_at_least(tree.keys, tree.runs[run], end, lo[i])
            while m < end and tree.keys[m] <= hi[i]:
                counters[np.int64(tree.members[m])] = np.uint16(0)
                m += 1
    return n
