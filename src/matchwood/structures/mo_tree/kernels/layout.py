"""MO-Tree: where a row belongs. In: the keys of a row. Out: ticks, cells, the number of a bucket, slices.

    key --cuts--> tick --levels of overlapping cells--> cell     on each layer; the cells of all layers make up a bucket
    key --cuts--> slice                                          on each axis, inside the bucket

Terms    An *axis* is an attribute that the tree divides. Its *cuts* divide the domain into *ticks*. The first axes are the
         *layers*: they have *cells*, runs of ticks, and a bucket is one cell of each. The slices of a layer divide the
         bucket's own cell, those of any other axis the domain (a slice is a tick there).
Levels   of a layer: cells of one width, evenly spaced, overlapping. The last level is one cell for the whole domain, which
         also takes rows without a predicate on the attribute (MO-Tree 4.3.2). A row goes to the narrowest level that has a
         cell around it, there to the cell whose centre is nearest.
Bucket   directory[number] -> chain of nodes[n] -> a region of `bits` for P * 64 positions, P = 1, 2, 4 or 8:
             members  32 P words   the slot at each position (the same memory as uint32)
             valid       P words   is the position in use?
             open        P words   has its row an entry that no plane knows? (relaxed matching only)
             planes      P words each; plane (axis, slice): may the row hold for a key in that slice?
                         after the slices of an axis comes its null plane: may it hold for an event without the attribute?
         A plane of a full node is one cache line, and the planes of its 512 rows are adjacent.
Chains   directory[number].first: all nodes of the bucket; .spare: those with a free position. A node without rows is
         unlinked and its region freed, by size class through its first word.
Invariant  a row's bits are ones in exactly the slices that its intervals touch, and in all planes of axes that it does not
         name; bits of free positions mean nothing (`MOTree.check`).

Ticks, cells and slices are found by the same monotone search for rows and events, so filtering errs only on the side of keeping.
One writer, no reader at the same time; kernels never grow a pool.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch
from matchwood.jit.state import State, array
from matchwood.store.kernels.distances import PREFETCH_IDS
from matchwood.store.kernels.rows import ABSENT, NARROWS, prefetch_entries

AXIS = np.dtype(
    [
        ("dim", "u4"),
        ("first_cut", "u4"),
        ("cuts", "u4"),
        ("slices", "u4"),
        ("plane", "u4"),  # its first plane; the null plane is plane + slices
        ("first_level", "u4"),
        ("levels", "u4"),
        ("first_cell", "u4"),
        ("cells", "u4"),  # 0 if the axis is not a layer
        ("radix", "u4"),  # what the next cell adds to the number of the bucket
    ]
)
LEVEL = np.dtype([("width", "f8"), ("stride", "f8"), ("first_cell", "u4"), ("cells", "u4")])
TREE_CELL = np.dtype([("first", "i4"), ("width", "i4"), ("scale", "u8")])  # in ticks; see `scale_of`
NODE = np.dtype(
    [
        ("start", "u8"),
        ("number", "u4"),  # of its bucket
        ("next", "u4"),
        ("spare", "u4"),  # the next node of the bucket with a free position
        ("words", "u4"),  # P
        ("count", "u4"),
        ("opened", "u4"),  # 1 if a row of it is open, or has been
        (
            "reach_0",
            "u8",
        ),  # of the first layer: a bit for each slice in which a row of the node may hold, then the null bit
        ("reach_1", "u8"),  # of the second
    ]
)
HEAD = np.dtype([("first", "u4"), ("spare", "u4")])
PLACE = np.dtype([("node", "u4"), ("position", "u4")])

NONE = np.uint32(0xFFFFFFFF)
NO_AXIS = np.uint16(0xFFFF)
NO_REGION = np.int64(-1)
ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
ONE = np.uint64(1)

MEMBER_WORDS = 32
VALID, OPEN = 32, 33  # where these words stand in a region, times P
HEAD_WORDS = 34
LINE = 8  # words of a full node's plane
LINE_ROWS = 512
REGION_CLASSES = 4


class TreeCount(IntEnum):
    """Positions in `Tree.counts`."""

    LAYERS = 0
    AXES = 1
    SLICED = 2  # axes with slices: all of them, or none
    PLANES = 3
    WHOLE = 4  # the bucket of rows that name no layer
    NODES = 5
    WORDS = 6
    BUCKETS = 7  # that have nodes
    FREE_NODE = 8
    FREE_REGIONS = 9  # a free list for each size class follows


COUNTS = TreeCount.FREE_REGIONS + REGION_CLASSES


class Tree(State):
    """A tree of rows, or of live events (`structures.live`)."""

    axes: np.ndarray = array(AXIS)  # layers first, then by falling selectivity
    axis_of: np.ndarray = array(np.uint16)  # dimension -> axis
    cuts: np.ndarray = array(np.float64)  # ascending within an axis
    levels: np.ndarray = array(LEVEL)  # of each layer, narrow to wide
    cells: np.ndarray = array(TREE_CELL)
    directory: np.ndarray = array(HEAD)  # by number of the bucket
    nodes: np.ndarray = array(NODE)
    bits: np.ndarray = array(np.uint64)
    members: np.ndarray = array(np.uint32)  # the memory of `bits`
    places: np.ndarray = array(PLACE)  # by slot
    counts: np.ndarray = array(np.int64)  # TreeCount
    here: np.ndarray = array(np.uint32)  # for writers: the cell of each layer of the bucket that is written
    changes: np.ndarray = array(np.uint64)  # for writers, see `kernels.write`; zeros between calls
    written: np.ndarray = array(np.uint64)  # the same


@helper
def tick_of(tree, axis, key):
    """How many cuts of the axis are at or below the key; 0 for NaN. O(log cuts), without a branch."""
    first, left = np.uint64(axis.first_cut), np.uint64(axis.cuts)
    at = first
    while left > 0:
        half = (left + ONE) >> ONE
        at += half if tree.cuts[at + half - ONE] <= key else np.uint64(0)
        left -= half
    return np.int64(at - first)


@helper
def cell_for(tree, axis, begin, end):
    """The layer's cell for ticks begin..end: the narrowest level with a cell around them, there the nearest centre. O(levels)."""
    centre = 0.5 * np.float64(begin + end + 1)
    for i in range(np.int64(axis.first_level), np.int64(axis.first_level) + np.int64(axis.levels) - 1):
        level = tree.levels[i]
        nearest = np.int64(np.floor((centre - 0.5 * level.width) / level.stride + 0.5))
        nearest = np.int64(level.first_cell) + min(max(nearest, np.int64(0)), np.int64(level.cells) - 1)
        cell = tree.cells[np.int64(axis.first_cell) + nearest]
        if np.int64(cell.first) <= begin and end < np.int64(cell.first) + np.int64(cell.width):
            return nearest
    return np.int64(axis.cells) - 1


@helper
def axis_number(tree, dim):
    """The axis of a dimension, or a number above all."""
    return np.int64(tree.axis_of[dim]) if dim < tree.axis_of.size else np.int64(NO_AXIS)


@helper
def bucket_number(tree, store, slot):
    """The bucket that a row belongs to. O(entries)."""
    row = store.rows[slot]
    number = tree.counts[TreeCount.WHOLE]
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        entry = store.entries[at]
        a = axis_number(tree, entry.dim)
        if a < tree.counts[TreeCount.LAYERS] and not entry.kind & (ABSENT | NARROWS):
            axis = tree.axes[a]
            cell = cell_for(tree, axis, tick_of(tree, axis, entry.lo), tick_of(tree, axis, entry.hi))
            number -= np.int64(axis.radix) * (np.int64(axis.cells) - 1 - cell)
    return number


@helper
def prefetch_row(store, slots, i):
    """Prefetch a row that comes soon, and the entries of one that comes sooner: slots by bucket are scattered in the store."""
    if i + 2 * PREFETCH_IDS < slots.size:
        prefetch(store.rows, np.int64(slots[i + 2 * PREFETCH_IDS]))
        prefetch_entries(store, store.rows[np.int64(slots[i + PREFETCH_IDS])])


@kernel
def locate_rows(tree, store, slots, numbers):
    """numbers[i] = the bucket that the row at slots[i] belongs to. O(entries)."""
    for i in range(slots.size):
        prefetch_row(store, slots, i)
        numbers[i] = np.uint32(bucket_number(tree, store, np.int64(slots[i])))


@helper
def cell_in_bucket(tree, axis, number):
    """The layer's cell that a bucket has, as an index of `Tree.cells`."""
    at = (np.uint64(number) // np.uint64(axis.radix)) % np.uint64(axis.cells)
    return np.uint64(axis.first_cell) + at


def scale_of(slices: int, width: np.ndarray) -> np.ndarray:
    """The size of a tick of each cell in 2^32ths of a slice: `slice_in` multiplies where it would divide."""
    return (slices << 32) // width + 1


@helper
def slice_in(cell, tick):
    """The slice of a tick, the part of a layer's cell that it lies in: (tick - first) * slices // width.

    Exact: `scale_of` rounds up by less than 2^-32 a tick, and a quotient lies 1 / width below the next whole number at least.
    """
    inside = min(max(tick - np.int64(cell.first), np.int64(0)), np.int64(cell.width) - 1)
    return np.int64((np.uint64(inside) * cell.scale) >> np.uint64(32))


@helper
def enter_bucket(tree, number):
    """Note the cells of the bucket whose rows are written next."""
    for a in range(tree.counts[TreeCount.LAYERS]):
        tree.here[a] = np.uint32(cell_in_bucket(tree, tree.axes[a], number))


@helper
def slice_here(tree, a, key):
    """The slice of a key on axis a in the bucket that has been entered."""
    tick = tick_of(tree, tree.axes[a], key)
    return slice_in(tree.cells[tree.here[a]], tick) if a < tree.counts[TreeCount.LAYERS] else tick


@helper
def slice_bits(first, last):
    """A bit for each of the slices first..last."""
    return (ONES >> np.uint64(63 - (last - first))) << np.uint64(first)
