"""The layout of scored intervals in memory: one for all five structures, so that one cursor walks them all.

    firsts[dim] -> trees (chained by `next`) -> root

    packed, arranged   root = a block        scored R-tree in rank order, SOPT-R-tree in the order of its arrangement
    lists              root = a node         interval tree; a node's list is a run of entries, best first
    blocks             root = a node         IR-tree; a node's list is a scored R-tree of blocks
    segments           root unused           segment tree: `keys` are the end points, `spans` the copies of each of its nodes

An entry is lo, hi, score, link, at the same index of four arrays. In a leaf, link is the interval's id; in an inner
block an entry is a child: lo and hi its extent, score its best score, link its block.
A dead entry has NaN for lo and hi: no point and no range meets it.

Node (one cache line): centre, extent and best score of its own list, best score of its subtree, children. A node without a
centre (NaN) is a bucket: a leaf with at most b intervals that need not share a point.

Arrays of entries end with `bits.PAD` unused elements, so that eight can be read from any entry on.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.state import State, array

NONE = np.uint32(0xFFFFFFFF)

PACKED, ARRANGED, LISTS, BLOCKS, SEGMENTS = 0, 1, 2, 3, 4

BLOCK = np.dtype([("start", "u4"), ("count", "u2"), ("room", "u2"), ("level", "u4"), ("next", "u4")])
NODE = np.dtype(
    [
        ("centre", "f8"),
        ("best", "f8"),  # of the subtree
        ("own", "f8"),  # of the node's list
        ("lo", "f8"),  # extent of the node's list
        ("hi", "f8"),
        ("left", "u4"),
        ("right", "u4"),
        ("list", "u4"),  # lists: first entry; blocks: root block
        ("size", "u4"),  # of the list
        ("weight", "u4"),  # intervals of the subtree
        ("head", "u4"),  # blocks: the leaf with the best of the list
    ]
)
TREE = np.dtype(
    [
        ("kind", "u4"),
        ("root", "u4"),
        ("next", "u4"),
        ("leaves", "u4"),  # segments: leaves of the binary tree, a power of two
        ("start", "u4"),  # the tree's intervals are entries start : start + size
        ("size", "u4"),
        ("entries", "u4"),  # inner ones included
        ("first_block", "u4"),
        ("blocks", "u4"),
        ("first_node", "u4"),
        ("nodes", "u4"),
        ("first_key", "u4"),
        ("keys", "u4"),
        ("first_span", "u4"),
        ("spans", "u4"),
        ("dead", "u4"),
        ("slack", "f8"),  # no interval is more than this better than one before it that shares a point
    ]
)


class Forest(State):
    """All trees of all dimensions."""

    lo: np.ndarray = array(np.float64)
    hi: np.ndarray = array(np.float64)
    score: np.ndarray = array(np.float64)
    link: np.ndarray = array(np.int64)
    blocks: np.ndarray = array(BLOCK)
    nodes: np.ndarray = array(NODE)
    keys: np.ndarray = array(np.float64)
    spans: np.ndarray = array(np.uint32)
    trees: np.ndarray = array(TREE)
    firsts: np.ndarray = array(np.uint32)  # by dimension


COLUMNS = ("lo", "hi", "score", "link")
"""The arrays of entries."""


RANK = np.dtype([("score", "f8"), ("id", "i8"), ("item", "i8")])
ITEM = np.dtype(
    [
        ("mask", "u8"),
        ("at", "u4"),
        ("end", "u4"),
        ("kind", "u4"),
        ("tree", "u4"),
    ]
)
FRAME = np.dtype([("mask", "u8"), ("start", "u4"), ("level", "u4")])

LEVELS = 32  # of a packed tree: enough for 2**32 intervals at b = 2
STREAMS = 32  # trees of one dimension: sizes differ by a factor of two


class Cursors(State):
    """The state of several stabs. Cursor c has the items and the heap elements [c * room, (c + 1) * room).

    `heap` ranks the items: the first sizes[c] elements are a heap with the best at its root, the rest are free. Their `item`
    fields are a permutation. Ranks are in the heap and not in the items, so that comparing them touches nothing else.
    """

    items: np.ndarray = array(ITEM)
    heap: np.ndarray = array(RANK)
    sizes: np.ndarray = array(np.int64)  # by cursor
    query: np.ndarray = array(np.float64, ndim=2)  # by cursor: first and last key
    frames: np.ndarray = array(FRAME)  # LEVELS for each of the STREAMS of each cursor
    visits: np.ndarray = array(np.int64)  # blocks opened, by level; the last counts entries tested
