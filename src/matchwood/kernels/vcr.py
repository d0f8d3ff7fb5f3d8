"""Virtual construct rectangles: rows in, lists of positions out. The half that writes; `vcr_match` reads.

Grid     cell c of an axis is [edges[c], edges[c + 1]); what lies outside goes to the first or last cell. Beyond the last
         cell of each axis is one more, the strip: rows without an interval on y stand in row Y_CELLS, those without one on x
         in column X_CELLS, those with neither in their crossing. Corners are numbered with L - 1 cells of margin below and
         to the left, so that the distance table needs no case for the border.
VCR      corner * B + bit, bit = j (k_x + 1) + i: the id of Equation 1. active[corner] has the bits whose list is not empty.
List     directory[id] (array) or the cell that holds id (hash, open addressing) -> entries[start : start + size], in a
         region of 2^(class - 1) entries. `load` = class << 27 | size.
Entry    position of the row (27 bits) and flags: which sides of the VCR are cells that the row covers only in part, and
         VERIFY (the rectangle is not all that the row asks).
Position hits[p] = id and score, all that a sure hit needs; places[p] = cells and slot. Positions are given out in the order of
         the cells, so that the hits of one event lie close together: 15.6 us an event against 22.8 in the order of
         insertion (256,000 rectangles, 6,460 hits).
Pools    free regions by class are chained through their first entry, free positions through `flags`.
Invariant  a row's position is in exactly the lists of its decomposition (`VCR.check`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.kernels._jit import helper, kernel
from matchwood.kernels.intrinsics import trailing_zeros
from matchwood.kernels.store import ABSENT, CIRCLE, JOINED, NONE, SET, SIBLING, find_cell, home

LIST = np.dtype([("id", "i8"), ("start", "u4"), ("load", "u4")])
HIT = np.dtype([("id", "i8"), ("score", "f8")])
PLACE = np.dtype([("x", "u2"), ("y", "u2"), ("width", "u2"), ("height", "u2"), ("slot", "u4"), ("flags", "u4")])
PIECE = np.dtype([("corner", "u4"), ("bit", "u4"), ("entry", "u4"), ("pad", "u4")])
DISTANCE = np.dtype([("mask", "u8"), ("delta", "u4"), ("dx", "u2"), ("dy", "u2")])
SHAPE = np.dtype([("width", "u2"), ("height", "u2")])

# entry flags; the rest is the position
LEFT, RIGHT, BOTTOM, TOP = np.uint32(1 << 27), np.uint32(1 << 28), np.uint32(1 << 29), np.uint32(1 << 30)
VERIFY = np.uint32(1 << 31)
POSITION = np.uint32((1 << 27) - 1)

SIZE_BITS = np.uint32(27)
SIZE = np.uint32((1 << 27) - 1)
EMPTY = np.int64(-1)
MOST_PIECES = 1024

# places in `counts`
X_CELLS, Y_CELLS, X_DIM, Y_DIM, X_POWER, Y_POWER, PITCH, OVERLAPPED, HASHED = 0, 1, 2, 3, 4, 5, 6, 7, 8
POSITIONS, FREE_POSITION, POOL, LISTS, LIVE = 9, 10, 11, 12, 13
GROUPS = 14  # rows with both intervals, without y, without x, with neither
REGIONS = 18  # the free list heads of the classes follow
COUNTS = REGIONS + 29


class State(NamedTuple):
    """The state of a VCR index, as kernels see it."""

    counts: np.ndarray  # int64, see the places above
    x_edges: np.ndarray  # float64, ascending
    y_edges: np.ndarray
    active: np.ndarray  # uint64, one a corner
    directory: np.ndarray  # LIST
    entries: np.ndarray  # uint32
    hits: np.ndarray  # HIT, by position
    places: np.ndarray  # PLACE, by position
    positions: np.ndarray  # uint32, by slot
    distances: np.ndarray  # DISTANCE, one a corner of the covering set, ascending
    shapes: np.ndarray  # SHAPE, by bit


@helper
def cell_of(edges, key):
    """The last cell that begins at or below the key; the first for keys below all. O(log cells)."""
    low, high = np.int64(0), np.int64(edges.size)
    while high - low > 1:
        middle = (low + high) >> 1
        if edges[middle] <= key:
            low = middle
        else:
            high = middle
    return low


@helper
def partly(edges, first, last, lo, hi, low, high):
    """The flags `low` and `high` for the end cells that [lo, hi] does not cover: from its first key on, to its last."""
    flags = np.uint32(0)
    if lo > edges[first]:
        flags |= low
    end = np.inf
    if last + 1 < edges.size:
        end = np.nextafter(edges[last + 1], -np.inf)
    if hi < end:
        flags |= high
    return flags


@helper
def pieces_along(length, power, overlapped):
    """How many construct intervals of at most 2^power an interval of `length` cells is cut into."""
    if overlapped:
        part = np.int64(1) << power
        while part > length:
            part >>= 1
        return (length + part - 1) // part
    n = length >> power
    rest = length & ((np.int64(1) << power) - 1)
    while rest > 0:
        rest &= rest - 1
        n += 1
    return n


@helper
def locate(state, store, slot, p):
    """Fill places[p] and hits[p] from the row at `slot`. O(entries).

    In `all` mode every predicate of a hit holds, so its score for an event of unit weights is known now, in the row's order.
    A rectangle of more than MOST_PIECES pieces drops the interval that is cut most often and verifies it.
    """
    counts = state.counts
    row = store.rows[slot]
    start = np.int64(row.start)
    score = row.priority
    flags = np.uint32(0)
    if row.flags & SIBLING:
        flags |= VERIFY
    x_at = np.int64(-1)
    y_at = np.int64(-1)
    for at in range(start, start + np.int64(row.count)):
        entry = store.entries[at]
        if not entry.kind & JOINED:
            score += entry.weight
        dim = np.int64(entry.dim)
        if entry.kind & (SET | ABSENT | CIRCLE):
            flags |= VERIFY
        if entry.kind & (ABSENT | CIRCLE):
            continue
        if dim == counts[X_DIM] and x_at < 0:
            x_at = at
        elif dim == counts[Y_DIM] and y_at < 0:
            y_at = at
        else:
            flags |= VERIFY
    state.hits[p].id = row.id
    state.hits[p].score = score
    x, width = counts[X_CELLS], np.int64(1)
    y, height = counts[Y_CELLS], np.int64(1)
    if x_at >= 0:
        x = cell_of(state.x_edges, store.entries[x_at].lo)
        width = cell_of(state.x_edges, store.entries[x_at].hi) - x + 1
    if y_at >= 0:
        y = cell_of(state.y_edges, store.entries[y_at].lo)
        height = cell_of(state.y_edges, store.entries[y_at].hi) - y + 1
    x_pieces = pieces_along(width, counts[X_POWER], counts[OVERLAPPED])
    y_pieces = pieces_along(height, counts[Y_POWER], counts[OVERLAPPED])
    while x_pieces * y_pieces > MOST_PIECES:
        flags |= VERIFY
        if x_pieces >= y_pieces:
            x_at, x, width, x_pieces = np.int64(-1), counts[X_CELLS], np.int64(1), np.int64(1)
        else:
            y_at, y, height, y_pieces = np.int64(-1), counts[Y_CELLS], np.int64(1), np.int64(1)
    if x_at >= 0:
        entry = store.entries[x_at]
        flags |= partly(state.x_edges, x, x + width - 1, entry.lo, entry.hi, LEFT, RIGHT)
    if y_at >= 0:
        entry = store.entries[y_at]
        flags |= partly(state.y_edges, y, y + height - 1, entry.lo, entry.hi, BOTTOM, TOP)
    place = state.places[p]
    place.x, place.y = np.uint16(x), np.uint16(y)
    place.width, place.height = np.uint16(width), np.uint16(height)
    place.slot, place.flags = np.uint32(slot), flags


@helper
def group_of(state, p):
    """0 with both intervals, 1 without y, 2 without x, 3 with neither."""
    without_y = np.int64(state.places[p].y) == state.counts[Y_CELLS]
    without_x = np.int64(state.places[p].x) == state.counts[X_CELLS]
    return np.int64(without_y) + 2 * np.int64(without_x)


@kernel
def locate_rows(state, store, slots, first):
    """Put the rows at positions first, first + 1, ... without entering them into lists. O(entries)."""
    for i in range(slots.size):
        locate(state, store, np.int64(slots[i]), first + i)


@kernel
def take_positions(state, store, slots, taken):
    """Give each slot a position, free ones first; `taken` receives them. The caller has made room. O(entries)."""
    counts = state.counts
    for i in range(slots.size):
        p = counts[FREE_POSITION]
        if p == np.int64(NONE):
            p = counts[POSITIONS]
            counts[POSITIONS] += 1
        else:
            counts[FREE_POSITION] = np.int64(state.places[p].flags)
        slot = np.int64(slots[i])
        locate(state, store, slot, p)
        state.positions[slot] = np.uint32(p)
        counts[GROUPS + group_of(state, p)] += 1
        counts[LIVE] += 1
        taken[i] = np.uint32(p)


@helper
def part_power(length, power):
    """The logarithm of the largest construct interval, of at most 2^power, that fits into `length`."""
    while (np.int64(1) << power) > length:
        power -= 1
    return power


@helper
def decompose(state, p, pieces):
    """Cut the rectangle of position p into VCRs: corners, bits and the entries to store there; return how many. O(pieces)."""
    counts = state.counts
    place = state.places[p]
    overlapped = counts[OVERLAPPED] != 0
    left, bottom = np.int64(place.x), np.int64(place.y)
    right, top = left + np.int64(place.width), bottom + np.int64(place.height)
    x_margin = (np.int64(1) << counts[X_POWER]) - 1
    y_margin = (np.int64(1) << counts[Y_POWER]) - 1
    base = np.uint32(p) | (place.flags & VERIFY)
    n = 0
    y = bottom
    j = counts[Y_POWER]
    while y < top:
        j = part_power(top - bottom if overlapped else top - y, j)
        y_at = min(y, top - (np.int64(1) << j))
        y_flags = base
        if y_at == bottom:
            y_flags |= place.flags & BOTTOM
        if y_at + (np.int64(1) << j) == top:
            y_flags |= place.flags & TOP
        x = left
        i = counts[X_POWER]
        while x < right:
            i = part_power(right - left if overlapped else right - x, i)
            x_at = min(x, right - (np.int64(1) << i))
            flags = y_flags
            if x_at == left:
                flags |= place.flags & LEFT
            if x_at + (np.int64(1) << i) == right:
                flags |= place.flags & RIGHT
            piece = pieces[n]
            piece.corner = np.uint32(x_at + x_margin + (y_at + y_margin) * counts[PITCH])
            piece.bit = np.uint32(j * (counts[X_POWER] + 1) + i)
            piece.entry = flags
            n += 1
            x += np.int64(1) << i
        y += np.int64(1) << j
    return n


@helper
def id_of(state, corner, bit):
    return np.int64(corner) * state.shapes.size + np.int64(bit)


@helper
def find_list(state, id_):
    """Where the VCR's list header is, or would be. O(1)."""
    if state.counts[HASHED] == 0:
        return id_
    return find_cell(state.directory, id_)


@helper
def open_list(state, id_):
    """The place of the VCR's header, made if there was none."""
    at = find_list(state, id_)
    header = state.directory[at]
    if header.id == EMPTY:
        header.id, header.start, header.load = id_, NONE, np.uint32(0)
        state.counts[LISTS] += 1
    return at


@helper
def room_for_one(state, at):
    """See to it that the list has room for one more, moving it to a region twice as large; False if the pool is used up."""
    counts = state.counts
    header = state.directory[at]
    size = np.int64(header.load & SIZE)
    class_ = np.int64(header.load >> SIZE_BITS)
    capacity = (np.int64(1) << class_) >> 1
    if size < capacity:
        return True
    start = counts[REGIONS + class_ + 1]
    if start != np.int64(NONE):
        counts[REGIONS + class_ + 1] = np.int64(state.entries[start])
    else:
        start = counts[POOL]
        if start + (np.int64(1) << class_) > state.entries.size:
            return False
        counts[POOL] += np.int64(1) << class_
    old = np.int64(header.start)
    for k in range(size):
        state.entries[start + k] = state.entries[old + k]
    free_region(state, old, class_)
    header.start = np.uint32(start)
    header.load = np.uint32(((class_ + 1) << 27) | size)
    return True


@helper
def free_region(state, start, class_):
    if class_ > 0:
        state.entries[start] = np.uint32(state.counts[REGIONS + class_])
        state.counts[REGIONS + class_] = start


@kernel
def append_rows(state, positions, first, pieces):
    """Enter positions[first:] into the lists of their VCRs; return the first not entered (no room) or their number.

    Lists are made and widened first; only then is anything appended, so that a row is in all its lists or in none.
    """
    for r in range(first, positions.size):
        n = decompose(state, np.int64(positions[r]), pieces)
        if state.counts[HASHED] != 0 and 2 * (state.counts[LISTS] + n) > state.directory.size:
            return r
        for q in range(n):
            at = open_list(state, id_of(state, pieces[q].corner, pieces[q].bit))
            if not room_for_one(state, at):
                return r
        for q in range(n):
            piece = pieces[q]
            header = state.directory[find_list(state, id_of(state, piece.corner, piece.bit))]
            state.entries[np.int64(header.start) + np.int64(header.load & SIZE)] = piece.entry
            header.load += np.uint32(1)
            state.active[np.int64(piece.corner)] |= np.uint64(1) << np.uint64(piece.bit)
    return positions.size


@helper
def close_list(state, at):
    """Give back the region and the header of a list that has become empty; clear its bit. Later headers may move. O(1)."""
    header = state.directory[at]
    free_region(state, np.int64(header.start), np.int64(header.load >> SIZE_BITS))
    corner = header.id // state.shapes.size
    bit = header.id - corner * state.shapes.size
    state.active[corner] &= ~(np.uint64(1) << np.uint64(bit))
    state.counts[LISTS] -= 1
    header.id, header.load = EMPTY, np.uint32(0)
    if state.counts[HASHED] == 0:
        return
    mask = state.directory.size - 1
    hole, probe = at, at
    while True:
        probe = (probe + 1) & mask
        moved = state.directory[probe]
        if moved.id == EMPTY:
            return
        if ((probe - home(state.directory, moved.id)) & mask) >= ((probe - hole) & mask):
            target = state.directory[hole]
            target.id, target.start, target.load = moved.id, moved.start, moved.load
            moved.id = EMPTY
            hole = probe


@helper
def position_in(entries, start, size, p):
    """Where in the list the position stands, which it does. The mask of a block of 16 vectorises; a plain search does not."""
    k = np.int64(0)
    while k + 16 <= size:
        block = entries[start + k : start + k + 16]
        found = np.uint32(0)
        for t in range(block.size):
            found |= np.uint32((block[t] & POSITION) == p)
        if found:
            break
        k += 16
    while (entries[start + k] & POSITION) != p:
        k += 1
    return k


@kernel
def remove_positions(state, positions, pieces):
    """Take the rows out of the lists of their VCRs and free their positions. O(pieces * length of list / 16) a row."""
    for r in range(positions.size):
        p = np.int64(positions[r])
        n = decompose(state, p, pieces)
        for q in range(n):
            at = find_list(state, id_of(state, pieces[q].corner, pieces[q].bit))
            header = state.directory[at]
            start, size = np.int64(header.start), np.int64(header.load & SIZE)
            k = position_in(state.entries, start, size, np.uint32(p))
            state.entries[start + k] = state.entries[start + size - 1]
            header.load -= np.uint32(1)
            if size == 1:
                close_list(state, at)
        free_position(state, p)


@helper
def free_position(state, p):
    counts = state.counts
    counts[GROUPS + group_of(state, p)] -= 1
    counts[LIVE] -= 1
    state.places[p].slot = NONE
    state.places[p].flags = np.uint32(counts[FREE_POSITION])
    counts[FREE_POSITION] = p


@kernel
def sweep_positions(state, positions):
    """As `remove_positions`, by one walk over all lists: for many rows at once. O(all entries)."""
    for r in range(positions.size):
        free_position(state, np.int64(positions[r]))
    for corner in range(state.active.size):
        bits = state.active[corner]
        while bits != 0:
            bit = trailing_zeros(bits)
            bits &= bits - np.uint64(1)
            at = find_list(state, id_of(state, corner, bit))
            header = state.directory[at]
            start, size = np.int64(header.start), np.int64(header.load & SIZE)
            kept = np.int64(0)
            for k in range(size):
                entry = state.entries[start + k]
                state.entries[start + kept] = entry
                if state.places[np.int64(entry & POSITION)].slot != NONE:
                    kept += 1
            header.load = np.uint32((header.load & ~SIZE) | np.uint32(kept))
            if kept == 0:
                close_list(state, at)


@kernel
def activate_rows(state, positions, pieces):
    """Set the bits of all VCRs that these rows are cut into; return the number of pieces. O(pieces)."""
    total = 0
    for r in range(positions.size):
        n = decompose(state, np.int64(positions[r]), pieces)
        for q in range(n):
            state.active[np.int64(pieces[q].corner)] |= np.uint64(1) << np.uint64(pieces[q].bit)
        total += n
    return total


@kernel
def count_entries(state, positions, pieces):
    """Make a header for every active VCR and count its entries in `load`. The directory has room. O(pieces + corners)."""
    for r in range(positions.size):
        n = decompose(state, np.int64(positions[r]), pieces)
        for q in range(n):
            state.directory[open_list(state, id_of(state, pieces[q].corner, pieces[q].bit))].load += np.uint32(1)


@kernel
def lay_out_lists(state):
    """Give each list a region for what `load` counts, in the order of ids, and empty it. The pool has room. O(corners)."""
    counts = state.counts
    for corner in range(state.active.size):
        bits = state.active[corner]
        while bits != 0:
            bit = trailing_zeros(bits)
            bits &= bits - np.uint64(1)
            header = state.directory[find_list(state, id_of(state, corner, bit))]
            class_ = np.int64(1)
            while (np.int64(1) << (class_ - 1)) < np.int64(header.load):
                class_ += 1
            header.start = np.uint32(counts[POOL])
            header.load = np.uint32(class_ << 27)
            counts[POOL] += np.int64(1) << (class_ - 1)


@kernel
def rehash_lists(old, new):
    """Enter every header of the old table into the new, empty one. O(old)."""
    for i in range(old.size):
        if old[i].id != EMPTY:
            header = new[find_cell(new, old[i].id)]
            header.id, header.start, header.load = old[i].id, old[i].start, old[i].load
