"""MO-Tree: where a row lives, and how it gets there. In: rows of the store. Out: bits in the planes of its bucket.

    key --cuts--> tick --levels of overlapping cells--> cell        one an axis; H of them, stacked, number a bucket
    key --cuts--> slice                                             every axis, inside the bucket

Layout   directory[number] -> chain of nodes[n] (32 B) -> region of `bits`, P words (1, 2, 4 or 8), for P * 64 positions:
             members  32 P words   position -> slot (the same memory as uint32)
             valid       P words   is there a row at the position?
             open        P words   has it an entry that no plane knows? (relaxed matching only)
             planes      P words each; plane (axis, slice): may the row at the position hold for a key in that slice?
                         after the slices of an axis comes its null plane: may it hold for an event without the attribute?
         So a plane of a full node is one cache line, and the planes of 512 rows stand side by side: with planes as long as the
         bucket, writing a row hit the same cache sets again and again (1.0 us a row instead of 0.2).
         A position without a predicate on an axis has ones in all its planes, and so has a free position: a row
         writes only the planes of its own predicates.
         The first H axes are the tree's layers. Their slices divide the bucket's own cell, those of the others the domain.
Levels   of a layer: cells of one width, evenly spaced, overlapping; the last level is one cell for everything, which also takes
         rows without a predicate on the attribute (MO-Tree 4.3.2). A row goes to the narrowest level that has a cell around it,
         there to the cell whose centre is nearest.
Chains   directory[number].first: all nodes of the bucket; .spare: those with a free position (or room to widen). Nodes are
         linked, rows never are. A node without rows is unlinked and its region freed, by class through its first word.
Invariant  a row's bits are ones in exactly the slices its interval set touches; bits of free positions are ones (`MOTree.check`).

Ticks, cells and slices are whole numbers found by the same monotone search for rows and events, so filtering can only err
on the side of keeping. One writer, no reader at the same time; kernels never grow a pool.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.encode import arrays
from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import prefetch, trailing_zeros
from matchwood.kernels.planes import count_at_most
from matchwood.kernels.store import ABSENT, AHEAD, CIRCLE, SET

AXIS = np.dtype(
    [
        ("dim", "u4"),
        ("first_cut", "u4"),
        ("cuts", "u4"),
        ("steps", "u4"),  # how many of them, every 32nd, stand once more behind the last; 0 where there are at most 32
        ("slices", "u4"),
        ("plane", "u4"),  # its first plane; the null plane is plane + slices
        ("first_level", "u4"),
        ("levels", "u4"),
        ("first_cell", "u4"),
        ("cells", "u4"),  # 0 where the axis is no layer
        ("radix", "u4"),  # what a step of the cell adds to the number of the bucket
    ]
)
LEVEL = np.dtype([("first_cell", "u4"), ("cells", "u4"), ("width", "f8"), ("stride", "f8")])
TREE_CELL = np.dtype([("first", "i4"), ("width", "i4")])  # in ticks
NODE = np.dtype(
    [
        ("start", "u8"),
        ("number", "u4"),  # of its bucket
        ("next", "u4"),
        ("spare", "u4"),  # the next node of the bucket with a free position
        ("words", "u4"),  # P
        ("count", "u4"),
        ("pad", "u4"),
        (
            "reach_0",
            "u8",
        ),  # of the first layer: a bit for each slice in which a row of the node may hold, the null bit above them
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

# places in `counts`
LAYERS, AXES, PLANES, NODES, WORDS, WHOLE, FREE_NODE, BUCKETS, SLICED = 0, 1, 2, 3, 4, 5, 6, 7, 8
REGIONS = 9
CLASSES = 4
COUNTS = REGIONS + CLASSES
MEMBER_WORDS = 32
HEAD_WORDS = MEMBER_WORDS + 2
LINE = 8  # words of a full node
LINE_ROWS = 512
STEP = 32  # cuts that a search compares at once
_INTERVAL, _MORE, _JOINED = arrays.INTERVAL, arrays.MORE, arrays.JOINED


class Tree(NamedTuple):
    """The state of a tree of rows, as kernels see it."""

    axes: np.ndarray  # AXIS, layers first, then by falling selectivity
    axis_of: np.ndarray  # uint16: dimension -> axis
    cuts: np.ndarray  # float64, ascending within an axis
    levels: np.ndarray  # LEVEL
    cells: np.ndarray  # TREE_CELL
    directory: np.ndarray  # HEAD, by number of the bucket
    nodes: np.ndarray  # NODE
    bits: np.ndarray  # uint64
    members: np.ndarray  # uint32, the memory of `bits`
    places: np.ndarray  # PLACE, by slot
    counts: np.ndarray  # int64


@helper
def class_for(rows):
    """The smallest class of regions for that many rows, the largest for more: class c has 2^c words."""
    if rows <= 64:
        return np.int64(0)
    if rows <= 128:
        return np.int64(1)
    return np.int64(2) if rows <= 256 else np.int64(3)


@helper
def region_words(tree, words):
    """Words that a region of P words takes, in whole cache lines."""
    return (words * (np.int64(HEAD_WORDS) + tree.counts[PLANES]) + 7) & ~np.int64(7)


@helper
def tick_of(tree, axis, key):
    """How many cuts of the axis are at or below the key, by way of every 32nd where there are more. O(1)."""
    first = np.int64(axis.first_cut)
    before = np.int64(0)
    if axis.steps > 0:
        steps = first + ((np.int64(axis.cuts) + STEP - 1) & -STEP)
        before = STEP * max(count_at_most(tree.cuts, steps, key) - 1, np.int64(0))
    return before + count_at_most(tree.cuts, first + before, key)


@helper
def cell_for(tree, axis, begin, end):
    """The layer's cell for ticks begin..end: the narrowest level with a cell around them, there the nearest centre."""
    for at in range(np.int64(axis.first_level), np.int64(axis.first_level) + np.int64(axis.levels) - 1):
        level = tree.levels[at]
        if np.float64(end - begin) + 1.0 > level.width:
            continue
        nearest = np.int64(np.floor((0.5 * np.float64(begin + end + 1) - 0.5 * level.width) / level.stride + 0.5))
        nearest = min(max(nearest, np.int64(0)), np.int64(level.cells) - 1)
        cell = tree.cells[np.int64(level.first_cell) + nearest]
        if np.int64(cell.first) <= begin and end < np.int64(cell.first) + np.int64(cell.width):
            return np.int64(level.first_cell) + nearest - np.int64(axis.first_cell)
    return np.int64(axis.cells) - 1


@helper
def axis_number(tree, dim):
    """The axis of a dimension, or a number above all."""
    if dim < tree.axis_of.size:
        return np.int64(tree.axis_of[dim])
    return np.int64(NO_AXIS)


@helper
def bucket_number(tree, store, slot):
    """The bucket a row belongs to. O(entries)."""
    row = store.rows[slot]
    number = tree.counts[WHOLE]
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        entry = store.entries[at]
        a = axis_number(tree, np.int64(entry.dim))
        if a < tree.counts[LAYERS] and not entry.kind & (ABSENT | CIRCLE):
            axis = tree.axes[a]
            cell = cell_for(tree, axis, tick_of(tree, axis, entry.lo), tick_of(tree, axis, entry.hi))
            number -= np.int64(axis.radix) * (np.int64(axis.cells) - 1 - cell)
    return number


@helper
def new_bucket(tree, rows, r):
    """The bucket that row r of the CSR arrays would belong to: `bucket_number` of what is not in the store. O(entries)."""
    number = tree.counts[WHOLE]
    end = rows.offsets[r + 1]
    for at in range(rows.offsets[r], end):
        kind = rows.kinds[at]
        a = axis_number(tree, np.int64(rows.dims[at]))
        if a < tree.counts[LAYERS] and (kind == _INTERVAL or kind == _JOINED):
            last = at
            while last + 1 < end and rows.kinds[last + 1] == _MORE:
                last += 1
            axis = tree.axes[a]
            cell = cell_for(tree, axis, tick_of(tree, axis, rows.lo[at]), tick_of(tree, axis, rows.hi[last]))
            number -= np.int64(axis.radix) * (np.int64(axis.cells) - 1 - cell)
    return number


@kernel
def locate_new(tree, rows, numbers):
    """numbers[r] = the bucket that row r of the CSR arrays would belong to. O(entries)."""
    for r in range(numbers.size):
        numbers[r] = np.uint32(new_bucket(tree, rows, r))


@helper
def prefetch_row(store, slots, i):
    """Ask for a row that comes soon, and for the entries of one that comes sooner: slots by bucket are scattered in the store."""
    if i + 2 * AHEAD < slots.size:
        prefetch(store.rows, np.int64(slots[i + 2 * AHEAD]))
        start = np.int64(store.rows[np.int64(slots[i + AHEAD])].start)
        for line in range(0, 8, 2):
            prefetch(store.entries, start + line)


@kernel
def locate(tree, store, slots, numbers):
    """numbers[i] = the bucket that the row at slots[i] belongs to. O(entries)."""
    for i in range(slots.size):
        prefetch_row(store, slots, i)
        numbers[i] = np.uint32(bucket_number(tree, store, np.int64(slots[i])))


@helper
def cell_of(tree, axis, number):
    """The layer's cell of a bucket."""
    at = (number // np.int64(axis.radix)) % np.int64(axis.cells)
    return tree.cells[np.int64(axis.first_cell) + at]


@helper
def slice_of(axis, first, width, tick):
    """The slice of a tick: itself, or for a layer its part of the bucket's cell (first, width)."""
    if axis.cells == 0:
        return tick
    inside = min(max(tick - first, np.int64(0)), width - 1)
    return inside * np.int64(axis.slices) // width


@helper
def slices_between(tree, axis, first, width, lo, hi):
    """A bit for each slice that the keys lo..hi touch."""
    begin = slice_of(axis, first, width, tick_of(tree, axis, lo))
    end = slice_of(axis, first, width, tick_of(tree, axis, hi))
    return (ONES >> np.uint64(63 - (end - begin))) << np.uint64(begin)


@helper
def cell_span(tree, axis, number):
    """First tick and width of the layer's cell of a bucket; of no use to an axis that is no layer."""
    if axis.cells == 0:
        return np.int64(0), np.int64(1)
    cell = cell_of(tree, axis, number)
    return np.int64(cell.first), np.int64(cell.width)


@helper
def slices_of_entry(tree, store, start, at, axis, number):
    """A bit for each slice in which the entry may hold, and the null bit above them."""
    entry = store.entries[start + at]
    if entry.kind == ABSENT:
        return ONE << np.uint64(axis.slices)
    first, width = cell_span(tree, axis, number)
    if not entry.kind & SET:
        return slices_between(tree, axis, first, width, entry.lo, entry.hi)
    part = start + np.int64(entry.more)
    touched = np.uint64(0)
    for p in range(part, part + np.int64(store.entries[part].more)):
        touched |= slices_between(tree, axis, first, width, store.entries[p].lo, store.entries[p].hi)
    return touched


@helper
def clear_bits(bits, at, stride, count, position, possible):
    """Of `count` planes, the first at bits[at]: clear the position's bit in plane j unless bit j of `possible` is set.

    As many steps for every row: stopping at its slices would be a branch that nobody can foresee. Unsigned places and a
    mask that turns make half the instructions of the plain loop.
    """
    shift = np.uint64(position & 63)
    others = ~(ONE << shift)
    mask = (possible << shift) | (possible >> ((np.uint64(64) - shift) & np.uint64(63)))
    plane = np.uint64(at)
    step = np.uint64(stride)
    end = plane + np.uint64(count) * step
    while plane < end:
        bits[plane] &= mask | others
        mask = (mask >> ONE) | (mask << np.uint64(63))
        plane += step


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
def write_row(tree, store, slot, node, position, clear):
    """Clear the bits where the row cannot hold, or (on leaving) make all bits of its predicates ones again. O(slices)."""
    row = store.rows[slot]
    start = np.int64(row.start)
    words = np.int64(node.words)
    bit = ONE << np.uint64(position & 63)
    word = np.int64(node.start) + np.int64(HEAD_WORDS) * words + (position >> 6)
    is_open = False
    reach_0 = reach_1 = ONES
    for at in range(np.int64(row.count)):
        entry = store.entries[start + at]
        if entry.kind & CIRCLE:
            continue
        a = axis_number(tree, np.int64(entry.dim))
        is_open = is_open or entry.kind == ABSENT or a >= tree.counts[SLICED]
        if a >= tree.counts[SLICED]:
            continue
        axis = tree.axes[a]
        plane = word + np.int64(axis.plane) * words
        if not clear:
            set_bits(tree.bits, plane, words, np.int64(axis.slices) + 1, position)
            continue
        possible = slices_of_entry(tree, store, start, at, axis, np.int64(node.number))
        if a == 0:
            reach_0 = possible
        elif a == 1:
            reach_1 = possible
        clear_bits(tree.bits, plane, words, np.int64(axis.slices) + 1, position, possible)
    opens = np.int64(node.start) + np.int64(MEMBER_WORDS + 1) * words + (position >> 6)
    tree.bits[opens] &= ~bit
    if clear:
        node.reach_0 |= reach_0
        node.reach_1 |= reach_1
        if is_open:
            tree.bits[opens] |= bit


@helper
def take_region(tree, class_):
    """A region of the class, from its free list or the end of the pool; -1 if there is no room."""
    counts = tree.counts
    start = counts[REGIONS + class_]
    if start != NO_REGION:
        counts[REGIONS + class_] = np.int64(tree.bits[start])
        return start
    size = region_words(tree, np.int64(1) << class_)
    start = counts[WORDS]
    if start + size + LINE > tree.bits.size:  # a line may be read beyond the last plane of a small region
        return NO_REGION
    counts[WORDS] += size
    return start


@helper
def free_region(tree, node):
    class_ = class_for(np.int64(node.words) * 64)
    tree.bits[np.int64(node.start)] = np.uint64(tree.counts[REGIONS + class_])
    tree.counts[REGIONS + class_] = np.int64(node.start)


@helper
def widen(tree, node, rows):
    """Give the node a region for `rows` rows, at most 512; False (and nothing changed) if the pool is full. O(region)."""
    class_ = class_for(rows)
    start = take_region(tree, class_)
    if start == NO_REGION:
        return False
    words = np.int64(1) << class_
    old, old_words = np.int64(node.start), np.int64(node.words)
    for w in range(np.int64(MEMBER_WORDS) * old_words):
        tree.bits[start + w] = tree.bits[old + w]
    old += np.int64(MEMBER_WORDS) * old_words
    plane = start + np.int64(MEMBER_WORDS) * words
    for p in range(2 + tree.counts[PLANES]):
        fill = np.uint64(0) if p < 2 else ONES
        for w in range(old_words):
            tree.bits[plane + w] = tree.bits[old + w]
        for w in range(old_words, words):
            tree.bits[plane + w] = fill
        plane += words
        old += old_words
    if old_words > 0:
        free_region(tree, node)
    node.start = np.uint64(start)
    node.words = np.uint32(words)
    return True


@helper
def node_with_room(tree, number, rows):
    """A node of the bucket with a free position, wide enough for `rows` more if it can be; -1 if a pool is full."""
    head = tree.directory[number]
    n = np.int64(head.spare)
    if n == np.int64(NONE):
        n = tree.counts[FREE_NODE]
        if n == np.int64(NONE):
            n = tree.counts[NODES]
            if n == tree.nodes.size:
                return np.int64(-1)
        fresh = tree.nodes[n]
        after = np.int64(fresh.next)
        fresh.words = np.uint32(0)
        if not widen(tree, fresh, rows):
            return np.int64(-1)
        if n == tree.counts[NODES]:
            tree.counts[NODES] += 1
        else:
            tree.counts[FREE_NODE] = after
        tree.counts[BUCKETS] += np.int64(head.first == NONE)
        fresh.number, fresh.count = np.uint32(number), np.uint32(0)
        fresh.next, fresh.spare = head.first, NONE
        fresh.reach_0 = fresh.reach_1 = np.uint64(0)
        head.first = np.uint32(n)
        head.spare = np.uint32(n)
    node = tree.nodes[n]
    if node.count == node.words * np.uint32(64) and not widen(tree, node, np.int64(node.count) + rows):
        return np.int64(-1)
    return n


@helper
def take_position(tree, node):
    """A free position of a node that has one; a node that is full now leaves the spare chain, whose first it is."""
    valid = np.int64(node.start) + np.int64(MEMBER_WORDS) * np.int64(node.words)
    word = np.int64(0)
    while tree.bits[valid + word] == ONES:
        word += 1
    position = (word << 6) + np.int64(trailing_zeros(~tree.bits[valid + word]))
    tree.bits[valid + word] |= ONE << np.uint64(position & 63)
    node.count += np.uint32(1)
    if node.count == LINE_ROWS:
        tree.directory[np.int64(node.number)].spare = node.spare
        node.spare = NONE
    return position


@helper
def unlink(tree, n):
    """Take a node without rows out of both chains of its bucket and free it. O(nodes of the bucket)."""
    node = tree.nodes[n]
    head = tree.directory[np.int64(node.number)]
    if np.int64(head.first) == n:
        head.first = node.next
    else:
        at = np.int64(head.first)
        while np.int64(tree.nodes[at].next) != n:
            at = np.int64(tree.nodes[at].next)
        tree.nodes[at].next = node.next
    if np.int64(head.spare) == n:
        head.spare = node.spare
    else:
        at = np.int64(head.spare)
        while np.int64(tree.nodes[at].spare) != n:
            at = np.int64(tree.nodes[at].spare)
        tree.nodes[at].spare = node.spare
    tree.counts[BUCKETS] -= np.int64(head.first == NONE)
    free_region(tree, node)
    node.words = np.uint32(0)
    node.next = np.uint32(tree.counts[FREE_NODE])
    tree.counts[FREE_NODE] = n


@helper
def give_back(tree, n, position):
    """Make a position free; a node that was full has room again, one without rows goes."""
    node = tree.nodes[n]
    valid = np.int64(node.start) + np.int64(MEMBER_WORDS) * np.int64(node.words)
    tree.bits[valid + (position >> 6)] &= ~(ONE << np.uint64(position & 63))
    if node.count == LINE_ROWS:
        head = tree.directory[np.int64(node.number)]
        node.spare = head.spare
        head.spare = np.uint32(n)
    node.count -= np.uint32(1)
    if node.count == 0:
        unlink(tree, n)


@kernel
def place_rows(tree, store, slots, numbers, first):
    """Put rows first, first + 1, ... into their buckets; return the first for which a pool has no room, or their number.

    A run of one number is given its room at once, so rows sorted by bucket are never moved. O(slices of the row) each.
    """
    run = first
    for i in range(first, slots.size):
        number = np.int64(numbers[i])
        if run <= i:
            run = i + 1
            while run < slots.size and np.int64(numbers[run]) == number:
                run += 1
        n = node_with_room(tree, number, run - i)
        if n < 0:
            return i
        slot = np.int64(slots[i])
        prefetch_row(store, slots, i)
        node = tree.nodes[n]
        position = take_position(tree, node)
        tree.members[2 * np.int64(node.start) + position] = np.uint32(slot)
        tree.places[slot].node = np.uint32(n)
        tree.places[slot].position = np.uint32(position)
        write_row(tree, store, slot, node, position, True)
    return slots.size


@kernel
def remove_rows(tree, store, slots):
    """Take rows out of their buckets; the store still has them. O(slices of the row) each."""
    for i in range(slots.size):
        slot = np.int64(slots[i])
        prefetch_row(store, slots, i)
        prefetch(tree.places, np.int64(slots[min(i + AHEAD, slots.size - 1)]))
        place = tree.places[slot]
        n = np.int64(place.node)
        write_row(tree, store, slot, tree.nodes[n], np.int64(place.position), False)
        give_back(tree, n, np.int64(place.position))
        place.node = NONE
