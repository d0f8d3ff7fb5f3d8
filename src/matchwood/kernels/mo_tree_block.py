"""MO-Tree: the bits of many rows of one node, turned together. In: what comes and what goes. Out: its planes.

A row alone turns its bits plane by plane, some 130 of them. Where many rows of a node come or go in one call, each plane is
read and written once, 64 positions at a time:

    coming   note a row's slices (first and last) on each axis it constrains; settle: plane j &= first <= j <= last
    leaving  note its position; clear_out: every plane |= the positions, since bits of free positions are ones
    moving   note the words of the bits to turn, and ask for them; turn_bits, when they have come

Notes   low, high: int8, [axis * 512 + position], `LOWEST` and `HIGHEST` where nothing is noted; leaving: a bit a position. They
        belong to the one writer and are as before when a kernel returns. turned, turning: words and bits to turn.
"""

from __future__ import annotations

import numpy as np

from matchwood.kernels._jit import helper
from matchwood.kernels.intrinsics import prefetch
from matchwood.kernels.mo_tree import HEAD_WORDS, LINE, LINE_ROWS, ONE, ONES, PLANES, SLICED
from matchwood.kernels.planes import and_ranges, in_ranges

LOWEST, HIGHEST = np.int8(-128), np.int8(127)
MANY_LEAVE = 8  # positions of a node from which on they leave together
TURNS = 512  # bits noted at a time
MANY_COME = 2  # rows a word of the node's planes from which on they come together


@helper
def note_slices(tree, a, position, first, last):
    """The row at the position may hold in the slices first..last of axis a, and in no other of its planes."""
    at = np.int64(LINE_ROWS) * a + position
    tree.low[at] = np.int8(first)
    tree.high[at] = np.int8(last)


@helper
def settle(tree, node):
    """Clear the bits of all rows noted, and forget them. O(planes)."""
    words = np.int64(node.words)
    base = np.int64(node.start) + np.int64(HEAD_WORDS) * words
    for a in range(tree.counts[SLICED]):
        axis = tree.axes[a]
        plane = base + np.int64(axis.plane) * words
        for w in range(words):
            at = np.int64(LINE_ROWS) * a + 64 * w
            if in_ranges(tree.low, tree.high, at, LOWEST) & in_ranges(tree.low, tree.high, at, HIGHEST) == ONES:
                continue
            and_ranges(tree.bits, plane + w, words, np.int64(axis.slices) + 1, tree.low, tree.high, at)
            for p in range(at, at + 64):
                tree.low[p] = LOWEST
                tree.high[p] = HIGHEST


@helper
def note_leaving(tree, position):
    tree.leaving[position >> 6] |= ONE << np.uint64(position & 63)


@helper
def clear_out(tree, node):
    """Make the bits of the positions noted ones in every plane, and forget them. O(planes)."""
    words = np.int64(node.words)
    for w in range(words, LINE):  # small regions have several planes a line
        tree.leaving[w] = tree.leaving[w - words]
    opens = np.int64(node.start) + np.int64(HEAD_WORDS - 1) * words
    for w in range(words):
        tree.bits[opens + w] &= ~tree.leaving[w]
    at = opens + words
    end = at + tree.counts[PLANES] * words
    while at + LINE <= end:
        for w in range(LINE):
            tree.bits[at + w] |= tree.leaving[w]
        at += LINE
    for w in range(end - at):
        tree.bits[at + w] |= tree.leaving[w]
    for w in range(LINE):
        tree.leaving[w] = np.uint64(0)


@helper
def note_turn(tree, word, position, turns):
    """The position's bit in a word is to be turned; return how many are noted. Notes that are full are carried out."""
    if turns == tree.turned.size:
        turn_bits(tree, turns)
        turns = np.int64(0)
    tree.turned[turns] = word
    tree.turning[turns] = ONE << np.uint64(position & 63)
    prefetch(tree.bits, word)
    return turns + 1


@helper
def turn_bits(tree, turns):
    for i in range(turns):
        tree.bits[tree.turned[i]] ^= tree.turning[i]
