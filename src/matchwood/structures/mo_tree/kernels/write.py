"""MO-Tree: the planes of the rows of one node, written together. In: the slices of each row. Out: bits.

A row alone would change a bit in each plane of its axes, some hundred cache lines. So the rows of a node that a call writes are
noted first, and then every plane of the node is read and written once, 512 positions at a time.

    note      for each row and axis: the planes at which its bit turns off, on and off again
    settle    plane after plane: the bits of the rows noted are on or off as their turns say, all others stay
    placer    both, for what goes to each node

Notes   changes: laid out like the planes of the node, a bit where a row turns; written: a bit for each position that is noted.
        They belong to the writer and are zeros when a kernel returns.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper
from matchwood.jit.intrinsics import trailing_zeros
from matchwood.structures.mo_tree.kernels.layout import HEAD_WORDS, ONE, ONES, OPEN, TreeCount, enter_bucket
from matchwood.structures.mo_tree.kernels.nodes import open_node, take_position
from matchwood.structures.mo_tree.kernels.planes import write_planes


@helper
def note_position(tree, node, position, is_open):
    """The planes of the position are to be written: ones, but for what `note_slices` says."""
    bit = ONE << np.uint64(position & 63)
    tree.written[position >> 6] |= bit
    at = np.int64(node.start) + OPEN * np.int64(node.words) + (position >> 6)
    tree.bits[at] &= ~bit
    if is_open:
        tree.bits[at] |= bit
        node.opened = np.uint32(1)


@helper
def note_slices(tree, node, a, position, possible):
    """On axis a the row at the position has ones in the planes of `possible` only: a bit for each slice, then the null bit."""
    axis = tree.axes[a]
    turns = (possible ^ (possible << ONE | ONE)) & (ONES >> np.uint64(63 - axis.slices))
    words = np.int64(node.words)
    first, bit = np.int64(axis.plane) * words + (position >> 6), ONE << np.uint64(position & 63)
    while turns:
        tree.changes[first + np.int64(trailing_zeros(turns)) * words] ^= bit
        turns &= turns - ONE


@helper
def settle(tree, node):
    """Write the planes of all positions noted, if there are any. O(planes)."""
    words, noted = np.int64(node.words), np.uint64(0)
    for w in range(words):
        noted |= tree.written[w]
    if noted == 0:
        return
    base = np.int64(node.start) + HEAD_WORDS * words
    for a in range(tree.counts[TreeCount.SLICED]):
        first, planes = np.int64(tree.axes[a].plane) * words, np.int64(tree.axes[a].slices) + 1
        write_planes(tree.bits, base + first, words, planes, tree.changes, first, tree.written)
    for w in range(words):
        tree.written[w] = np.uint64(0)


def placer(prefetch_ahead, note):
    """The function that puts rows, or live events, into their buckets.

    prefetch_ahead(store, slots, i): prefetch what comes after slots[i]; note(tree, store, slot, node): note the planes of what
    has a position in the node.
    """

    @helper
    def place(tree, store, slots, numbers, first):
        """Put what is at slots[first:] into the buckets `numbers`, equal ones adjacent; return the first that a pool has no room
        for, or their number. O(slices) each, and O(planes) a node."""
        i = first
        while i < slots.size:
            n, count = open_node(tree, numbers, i)
            if n < 0:
                break
            node = tree.nodes[n]
            enter_bucket(tree, np.int64(node.number))
            for j in range(i, i + count):
                prefetch_ahead(store, slots, j)
                take_position(tree, n, np.int64(slots[j]))
                note(tree, store, np.int64(slots[j]), node)
            settle(tree, node)
            i += count
        return i

    return place
