"""MO-Tree: where a row lives. In: keys of rows. Out: ticks, cells, the number of a bucket, slices.

    key --cuts--> tick --levels of overlapping cells--> cell        one an axis; H of them, stacked, number a bucket
    key --cuts--> slice                                             every axis, inside the bucket

Layout   directory[number] -> chain of nodes[n] (48 B) -> region of `bits`, P words (1, 2, 4 or 8), for P * 64 positions:
             members  32 P words   position -> slot (the same memory as uint32)
             valid       P words   is there a row at the position?
             open        P words   has it an entry that no plane knows? (relaxed matching only)
             stale       P words   is the position free, and its bits those of the row that left?
             planes      P words each; plane (axis, slice): may the row at the position hold for a key in that slice?
                         after the slices of an axis comes its null plane: may it hold for an event without the attribute?
         So a plane of a full node is one cache line, and the planes of 512 rows stand side by side: with planes as long as the
         bucket, writing a row hit the same cache sets again and again (1.0 us a row instead of 0.2).
         A position without a predicate on an axis has ones in all its planes, and so has a free position: a row
         writes only the planes of its own predicates. Where a row leaves its bits stay, and the position is stale: they
         are made ones when another comes, mostly in the same pass over the planes (live events leave none).
         The first H axes are the tree's layers. Their slices divide the bucket's own cell, those of the others the domain.
Levels   of a layer: cells of one width, evenly spaced, overlapping; the last level is one cell for everything, which also takes
         rows without a predicate on the attribute (MO-Tree 4.3.2). A row goes to the narrowest level that has a cell around it,
         there to the cell whose centre is nearest. One that moves stays while its cell, as narrow, still holds it: those
         near the middle between two cells would go to and fro.
Chains   directory[number].first: all nodes of the bucket; .spare: those with a free position (or room to widen). Nodes are
         linked, rows never are. A node without rows is unlinked and its region freed, by class through its first word.
Invariant  a row's bits are ones in exactly the slices its interval set touches; bits of free positions are ones, unless they are
         stale (`MOTree.check`).

Ticks, cells and slices are whole numbers found by the same monotone search for rows and events, so filtering can only err
on the side of keeping. One writer, no reader at the same time; kernels never grow a pool.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.intrinsics import prefetch
from matchwood.jit.state import State, array
from matchwood.store.kernels.rows import ABSENT, AHEAD, CIRCLE, prefetch_entries
from matchwood.structures.mo_tree.kernels.planes import count_at_most, count_exceeded, count_few_at_most

AXIS = np.dtype(
    [
        ("base", "f8"),  # (key - base) * scale, at most `last`: where a search of its cuts begins in `Tree.begins`
        ("scale", "f8"),
        ("last", "f8"),
        ("begins", "u4"),  # where its part of that begins; NONE where the cuts lie too close together for it
        ("dim", "u4"),
        ("first_cut", "u4"),
        ("cuts", "u4"),
        ("steps", "u4"),  # how many of them, every 32nd, stand once more behind the last; 0 where none are needed
        ("slices", "u4"),
        ("plane", "u4"),  # its first plane; the null plane is plane + slices
        ("nearest", "u4"),  # where its part of `Tree.nearest` begins
        ("levels", "u4"),
        ("first_cell", "u4"),
        ("cells", "u4"),  # 0 where the axis is no layer
        ("radix", "u4"),  # what a step of the cell adds to the number of the bucket
    ]
)
TREE_CELL = np.dtype([("first", "i4"), ("width", "i4"), ("scale", "u8")])  # in ticks; `scale_of` slices and width
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
        ),  # of the first layer: a bit for each slice in which a row of the node may hold, the null bit above them
        ("reach_1", "u8"),  # of the second
    ]
)
REACH, REACHED = 4, 2  # the word of a node where its reach begins, and the layers of which it knows one
HEAD = np.dtype([("first", "u4"), ("spare", "u4")])
PLACE = np.dtype([("node", "u4"), ("position", "u4")])

NONE = np.uint32(0xFFFFFFFF)
NO_AXIS = np.uint16(0xFFFF)
NO_REGION = np.int64(-1)
ONES = np.uint64(0xFFFFFFFFFFFFFFFF)
ONE = np.uint64(1)

# places in `counts`
LAYERS, AXES, PLANES, NODES, WORDS, WHOLE, FREE_NODE, BUCKETS, SLICED = 0, 1, 2, 3, 4, 5, 6, 7, 8
REGIONS = 9
CLASSES = 4
COUNTS = REGIONS + CLASSES
MEMBER_WORDS = 32
VALID, OPEN, STALE = 32, 33, 34  # where these words stand in a region, times P
HEAD_WORDS = 35
LINE = 8  # words of a full node
LINE_ROWS = 512
STEP, FEW_CUTS = 32, 4  # cuts that a search compares at once
LEVELS = 4  # that are compared at once


class Tree(State):
    """The state of a tree of rows, as kernels see it."""

    axes: np.ndarray = array(AXIS)  # layers first, then by falling selectivity
    axis_of: np.ndarray = array(np.uint16)  # dimension -> axis
    cuts: np.ndarray = array(np.float64)  # ascending within an axis
    begins: np.ndarray = array(np.uint16)  # by axis, of even parts of its domain: how many cuts lie before the part
    nearest: np.ndarray = array(
        np.int16
    )  # by axis and sum of two ticks: level by level how far apart they may be; then the cells
    cells: np.ndarray = array(TREE_CELL)  # TREE_CELL
    directory: np.ndarray = array(HEAD)  # by number of the bucket
    nodes: np.ndarray = array(NODE)  # NODE
    bits: np.ndarray = array(np.uint64)
    members: np.ndarray = array(np.uint32)  # the memory of `bits`
    places: np.ndarray = array(PLACE)  # by slot; one without a node waits (`kernels.update.Waiting`)
    counts: np.ndarray = array(np.int64)
    ticks: np.ndarray = array(np.int64)  # this and what follows are the writer's notes: see `kernels.spans`
    here: np.ndarray = array(np.uint32)  # the cell of each layer of the bucket that is written
    changes: np.ndarray = array(np.uint64)  # this and what follows: see `kernels.block`
    noted: np.ndarray = array(np.uint64)
    leaving: np.ndarray = array(np.uint64)
    stale: np.ndarray = array(np.uint64)
    turned: np.ndarray = array(np.int64)
    turning: np.ndarray = array(np.uint64)


@helper
def tick_of(tree, axis, key):
    """How many cuts of the axis are at or below the key. O(1).

    The domain is parted evenly, so that at most four cuts lie in a part: what lies before the part of the key is known, and
    those in it are compared. Exact: parts never fall as keys rise, so whoever lies in an earlier one is below the key. Where cuts
    lie closer together they are found by way of every 32nd. A search of 32 took 7 ns, of four it takes 3.
    """
    first = np.int64(axis.first_cut)
    if axis.begins != NONE:
        part = (key - axis.base) * axis.scale
        part = part if part > 0.0 else 0.0  # NaN too
        part = part if part < axis.last else axis.last  # to a number with sign: without, it takes three times as long
        before = np.int64(tree.begins[np.uint64(axis.begins) + np.uint64(np.int64(part))])
        return before + count_few_at_most(tree.cuts, first + before, key)
    before = np.int64(0)
    if axis.steps > 0:
        steps = first + filled(np.int64(axis.cuts))
        before = STEP * max(count_at_most(tree.cuts, steps, key) - 1, np.int64(0))
    return before + count_at_most(tree.cuts, first + before, key)


@helper
def filled(cuts):
    """The places that so many cuts take: a search looks at a step at once, or at a few beyond them."""
    return (cuts + FEW_CUTS + STEP - 1) & -STEP


@helper
def cell_for(tree, axis, begin, end):
    """The layer's cell for ticks begin..end: the narrowest level with a cell around them, there the nearest centre. O(levels).

    By table and without a branch: which level a row fits is what nobody can foresee, and to work it out took 30 ns a row more.
    """
    levels = np.int64(axis.levels)
    limits = limits_of(levels)
    at = np.int64(axis.nearest) + (begin + end) * (limits + levels)
    level = np.int64(0)
    for i in range(at, at + limits, LEVELS):
        level += count_exceeded(tree.nearest, i, np.int16(end - begin))
    return np.int64(tree.nearest[np.uint64(at + limits + level)])


@helper
def limits_of(levels):
    """How many limits stand before the cells of so many levels: the last level needs none, and they are compared by four."""
    return (levels - 1 + LEVELS - 1) & -LEVELS


@helper
def axis_number(tree, dim):
    """The axis of a dimension, or a number above all. As it stands there: places that are signed cost three instructions more."""
    return tree.axis_of[dim] if dim < tree.axis_of.size else NO_AXIS


@helper
def bucket_number(tree, store, slot):
    """The bucket a row belongs to. O(entries)."""
    row = store.rows[slot]
    number = tree.counts[WHOLE]
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        entry = store.entries[at]
        a = axis_number(tree, entry.dim)
        if a < tree.counts[LAYERS] and not entry.kind & (ABSENT | CIRCLE):
            axis = tree.axes[a]
            cell = cell_for(tree, axis, tick_of(tree, axis, entry.lo), tick_of(tree, axis, entry.hi))
            number -= np.int64(axis.radix) * (np.int64(axis.cells) - 1 - cell)
    return number


@helper
def prefetch_row(store, slots, i):
    """Ask for a row that comes soon, and for the entries of one that comes sooner: slots by bucket are scattered in the store."""
    if i + 2 * AHEAD < slots.size:
        prefetch(store.rows, np.int64(slots[i + 2 * AHEAD]))
        prefetch_entries(store, store.rows[np.int64(slots[i + AHEAD])])


@kernel
def locate(tree, store, slots, numbers):
    """numbers[i] = the bucket that the row at slots[i] belongs to. O(entries)."""
    for i in range(slots.size):
        prefetch_row(store, slots, i)
        numbers[i] = np.uint32(bucket_number(tree, store, np.int64(slots[i])))


@helper
def cell_of(tree, axis, number):
    """The layer's cell of a bucket."""
    at = (np.uint64(number) // np.uint64(axis.radix)) % np.uint64(axis.cells)
    return tree.cells[np.uint64(axis.first_cell) + at]


def scale_of(slices: int, width: np.ndarray) -> np.ndarray:
    """What a tick of each cell counts in 2^32ths of a slice: `slice_in` multiplies, a division takes as long as a search."""
    return (slices << 32) // width + 1


@helper
def slice_in(cell, tick):
    """The slice of a tick: its part of a layer's cell, (tick - first) * slices // width.

    Exact: `scale_of` rounds up by less than 2^-32 a tick, and a quotient lies 1 / width below the next whole number at least.
    """
    inside = min(max(tick - np.int64(cell.first), np.int64(0)), np.int64(cell.width) - 1)
    return np.int64((np.uint64(inside) * cell.scale) >> np.uint64(32))


@helper
def enter_node(tree, number):
    """Note the cells of a bucket whose rows are written."""
    for a in range(tree.counts[LAYERS]):
        axis = tree.axes[a]
        at = (np.uint64(number) // np.uint64(axis.radix)) % np.uint64(axis.cells)
        tree.here[a] = np.uint32(np.uint64(axis.first_cell) + at)


@helper
def slice_here(tree, a, tick):
    """The slice of a tick in the node that has been entered: itself where the axis is no layer."""
    return slice_in(tree.cells[tree.here[a]], tick) if a < tree.counts[LAYERS] else tick


@helper
def slice_span(tree, a, lo, hi):
    """The first and the last slice that the keys lo..hi touch in the node that has been entered."""
    axis = tree.axes[a]
    return slice_here(tree, a, tick_of(tree, axis, lo)), slice_here(tree, a, tick_of(tree, axis, hi))


@helper
def slice_bits(begin, end):
    return (ONES >> np.uint64(63 - (end - begin))) << np.uint64(begin)


@helper
def slices_of_set(tree, store, start, entry, a):
    """A bit for each slice that an interval set touches in the node that has been entered."""
    part = start + np.int64(entry.more)
    touched = np.uint64(0)
    for p in range(part, part + np.int64(store.entries[part].more)):
        begin, end = slice_span(tree, a, store.entries[p].lo, store.entries[p].hi)
        touched |= slice_bits(begin, end)
    return touched
