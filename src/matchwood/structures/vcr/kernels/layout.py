"""Virtual construct rectangles: the layout, and how a row is placed on the grid and cut. `update` writes, `match` reads.

Grid     cell c of an axis is [edges[c], edges[c + 1]); what lies outside goes to the first or last cell. Beyond the last
         cell of each axis is one more, the strip: rows without an interval on y stand in row Y_CELLS, those without one on x
         in column X_CELLS, those with neither in their crossing. Corners are numbered with L - 1 cells of margin below and
         to the left, so that the distance table needs no case for the border.
VCR      corner * B + bit, bit = j (k_x + 1) + i: the id of Equation 1. active[corner] has the bits whose list is not empty.
List     directory[id] (array) or the cell that holds id (hash, open addressing) -> entries[start : start + size], in a
         region of 2^(class - 1) entries. `load` = class << 27 | size.
Entry    position of the row (27 bits) and flags: which sides of the VCR are cells that the row covers only in part, and
         VERIFY (the rectangle is not all that the row asks).
Position hits[p] = id and score, all that a sure hit needs; boxes[p] = the exact rectangle, which decides on border cells;
         rates[p] = what the score is made of, for events with weights; places[p] = cells and slot. Positions are given out
         in the order of the cells, so that the hits of one event lie close together: 15.6 us an event against 22.8 in the
         order of insertion (256,000 rectangles, 6,460 hits).
Pools    free regions by class are chained through their first entry, free positions through `flags`.
Invariant  a row's position is in exactly the lists of its decomposition (`VCR.check`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matchwood.jit.decorators import helper
from matchwood.store.kernels.id_table import home
from matchwood.store.kernels.rows import ABSENT, CIRCLE, JOINED, NONE, SET, SIBLING

LIST = np.dtype([("id", "i8"), ("start", "u4"), ("load", "u4")])
HIT = np.dtype([("id", "i8"), ("score", "f8")])
PLACE = np.dtype([("x", "u2"), ("y", "u2"), ("width", "u2"), ("height", "u2"), ("slot", "u4"), ("flags", "u4")])
BOX = np.dtype([("x_lo", "f8"), ("x_hi", "f8"), ("y_lo", "f8"), ("y_hi", "f8")])
RATE = np.dtype([("priority", "f8"), ("first", "f8"), ("second", "f8"), ("heads", "u4"), ("y_first", "u4")])
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
    boxes: np.ndarray  # BOX, by position
    rates: np.ndarray  # RATE, by position
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
    """`low` unless [lo, hi] holds the first key of its first cell, `high` unless it reaches the last key of its last cell.

    An interval below the first edge stands in the first cell without holding that cell's first key.
    """
    flags = np.uint32(0)
    if lo > edges[first] or hi < edges[first]:
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
    """Fill what stands at position p from the row at `slot`. O(entries).

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
    rate = state.rates[p]
    rate.priority, rate.first, rate.second = row.priority, 0.0, 0.0
    rate.heads = rate.y_first = np.uint32(0)
    for at in range(start, start + np.int64(row.count)):
        entry = store.entries[at]
        dim = np.int64(entry.dim)
        if not entry.kind & JOINED:
            score += entry.weight
            if rate.heads == 0:
                rate.first, rate.y_first = entry.weight, np.uint32(dim == counts[Y_DIM])
            else:
                rate.second = entry.weight
            rate.heads += np.uint32(1)
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
    box = state.boxes[p]
    box.x_lo, box.x_hi, box.y_lo, box.y_hi = -np.inf, np.inf, -np.inf, np.inf
    if x_at >= 0:
        entry = store.entries[x_at]
        box.x_lo, box.x_hi = entry.lo, entry.hi
        flags |= partly(state.x_edges, x, x + width - 1, entry.lo, entry.hi, LEFT, RIGHT)
    if y_at >= 0:
        entry = store.entries[y_at]
        box.y_lo, box.y_hi = entry.lo, entry.hi
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
    return find_header(state.directory, id_)


@helper
def find_header(directory, id_):
    """The header of a hashed directory that has the id, or the free one where it would go."""
    at = home(directory, id_)
    while directory[at].id != id_ and directory[at].id != EMPTY:
        at = (at + 1) & (directory.size - 1)
    return at


@helper
def open_list(state, id_):
    """The place of the VCR's header, made if there was none."""
    at = find_list(state, id_)
    header = state.directory[at]
    if header.id == EMPTY:
        header.id, header.start, header.load = id_, NONE, np.uint32(0)
        state.counts[LISTS] += 1
    return at
