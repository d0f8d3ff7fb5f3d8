"""MO-Tree: the bits of many rows of one node, turned together. In: what comes and what goes. Out: its planes.

A row alone turns its bits plane by plane, some 130 of them. Where many rows of a node come or go in one call, each plane is
read and written once, 512 positions at a time:

    coming   note on each axis that a row constrains at which planes its bit goes off, on and off again; settle: plane after
             plane, the bits of those that are off are cleared
    leaving  note its position; clear_out: every plane |= the positions, since bits of free positions are ones; or
             leave_stale: no plane is touched, the positions are noted in the node, and settle does it when others take them
    moving   note the words of the bits to turn, and ask for them; turn_bits, when they have come

Notes   changes: words laid out like the planes of the node, one plane more for each axis, a bit where a row goes on or off;
        noted: a word with a bit for each axis that has changes; leaving, stale: a bit a position, of those who go, and of those
        who come to a stale one. They belong to one writer and are zero when a kernel returns. turned, turning: words and bits
        to turn.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper
from matchwood.jit.intrinsics import prefetch, turn_word
from matchwood.structures.mo_tree.kernels.layout import HEAD_WORDS, LINE, ONE, OPEN, PLANES, SLICED, STALE, VALID
from matchwood.structures.mo_tree.kernels.planes import and_changes

MANY_LEAVE = 8  # live events of a node from which on they leave together
TURNS = 512  # bits noted at a time
MANY_COME = 4  # rows of a full node from which on they come together, fewer of smaller ones


@helper
def note_slices(tree, words, a, position, first, last):
    """The row at the position of a node may hold in the slices first..last of axis a, and in no other of its planes."""
    note_change(tree, words, a, position, np.int64(0))
    note_change(tree, words, a, position, first)
    note_change(tree, words, a, position, last + 1)


@helper
def note_change(tree, words, a, position, plane):
    """The bit of the row at the position goes on or off at that plane of the axis. The caller notes the axis."""
    row = first_change(tree, words, a) + plane * words + (position >> 6)
    tree.changes[np.uint64(row)] ^= ONE << np.uint64(position & 63)


@helper
def note_axes(tree, axes):
    """There are changes on these axes, a bit for each."""
    tree.noted[0] |= axes


@helper
def first_change(tree, words, a):
    """Where the changes of an axis begin."""
    return (np.int64(tree.axes[a].plane) + a) * words


@helper
def clean(tree, node, position, together):
    """Make the bits of a position that was stale until it was taken ones: now, or (`together`) by `settle`."""
    words = np.int64(node.words)
    at = np.int64(node.start) + np.int64(STALE) * words + (position >> 6)
    bit = ONE << np.uint64(position & 63)
    if not tree.bits[at] & bit:
        return
    tree.bits[at] &= ~bit
    if together:
        tree.stale[position >> 6] |= bit
    else:
        set_bits(tree.bits, at + (HEAD_WORDS - STALE) * words, words, tree.counts[PLANES], position)


@helper
def set_bits(bits, at, stride, count, position):
    """Set the position's bit in `count` planes, the first at bits[at]."""
    bit = ONE << np.uint64(position & 63)
    plane = np.uint64(at)
    step = np.uint64(stride)
    end = plane + np.uint64(count) * step
    while plane < end:
        bits[plane] |= bit
        plane += step


@helper
def settle(tree, node):
    """Clear the bits of all rows noted, and forget them. O(planes)."""
    words = np.int64(node.words)
    base = np.int64(node.start) + np.int64(HEAD_WORDS) * words
    stale = np.uint64(0)
    for w in range(words):
        stale |= tree.stale[w]
    axes = tree.noted[0]
    for a in range(tree.counts[SLICED]):
        if stale or axes >> np.uint64(a) & ONE:
            axis = tree.axes[a]
            plane, planes = base + np.int64(axis.plane) * words, np.int64(axis.slices) + 1
            and_changes(tree.bits, plane, words, planes, tree.changes, first_change(tree, words, a), tree.stale)
    tree.noted[0] = np.uint64(0)
    for w in range(words):
        tree.stale[w] = np.uint64(0)


@helper
def note_leaving(tree, position):
    tree.leaving[position >> 6] |= ONE << np.uint64(position & 63)


@helper
def leave_stale(tree, node):
    """Make the positions noted free and stale, and forget them."""
    words = np.int64(node.words)
    valid = np.int64(node.start) + np.int64(VALID) * words
    for w in range(words):
        tree.bits[valid + w] &= ~tree.leaving[w]
        tree.bits[valid + (OPEN - VALID) * words + w] &= ~tree.leaving[w]
        tree.bits[valid + (STALE - VALID) * words + w] |= tree.leaving[w]
        tree.leaving[w] = np.uint64(0)


@helper
def clear_out(tree, node):
    """Make the positions noted free, their bits ones in every plane, and forget them. O(planes)."""
    words = np.int64(node.words)
    for w in range(words, LINE):  # small regions have several planes a line
        tree.leaving[w] = tree.leaving[w - words]
    valid = np.int64(node.start) + np.int64(VALID) * words
    for w in range(words):
        tree.bits[valid + w] &= ~tree.leaving[w]
        tree.bits[valid + (OPEN - VALID) * words + w] &= ~tree.leaving[w]
    at = np.int64(node.start) + np.int64(HEAD_WORDS) * words
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
    """Turn the bits noted. Rows of a node may be rewritten by several threads, so each word is written as a whole."""
    for i in range(turns):
        turn_word(tree.bits, tree.turned[i], tree.turning[i])
