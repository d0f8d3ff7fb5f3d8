"""Virtual construct rectangles (VCRs): the layout, and how a row is placed on the grid and decomposed.

Grid     cell c of an axis is [edges[c], edges[c + 1]); keys outside the grid belong to the first or last cell. Behind the last
         cell of each axis is one more, the strip: rows without an interval on y are in line Y_CELLS, those without one on x
         in column X_CELLS, those with neither where the strips cross. Corners are numbered with a margin of L - 1 cells
         below and to the left, so that the distance table needs no special case at the border.
VCR      id = corner * B + bit, bit = j (k_x + 1) + i: Equation 1. A VCR is active if its list is not empty; active[corner] has
         one bit for each.
List     directory[id] (array), or the header with that id (hash table, open addressing) -> entries[start : start + size], in a
         region of 2^(class - 1) entries. `load` = class << 27 | size.
Entry    the position of a row (27 bits) and flags: which sides of the VCR are border cells, which the row covers only in part,
         and VERIFY (the row has predicates beside its rectangle).
Position hits[p] = id and score, all that a sure hit needs; boxes[p] = the exact rectangle, which decides on border cells;
         rates[p] = the terms of the score, for events with weights; places[p] = cells and slot. Positions are assigned in the
         order of the cells, so that the hits of one event are close together in memory.
Pools    free regions of a class are chained through their first entry, free positions through `flags`.
Invariant  a row's position is in exactly the lists of its decomposition (`VCR.check`).
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from matchwood.jit.decorators import helper, subroutine
from matchwood.jit.state import State, array
from matchwood.store.kernels.id_table import home
from matchwood.store.kernels.rows import ABSENT, JOINED, NARROWS, NONE, SET, SIBLING

LIST = np.dtype([("id", "i8"), ("start", "u4"), ("load", "u4")])
HIT = np.dtype([("id", "i8"), ("score", "f8")])
PLACE = np.dtype([("x", "u2"), ("y", "u2"), ("width", "u2"), ("height", "u2"), ("slot", "u4"), ("flags", "u4")])
BOX = np.dtype([("x_lo", "f8"), ("x_hi", "f8"), ("y_lo", "f8"), ("y_hi", "f8")])
RATE = np.dtype([("priority", "f8"), ("first", "f8"), ("second", "f8"), ("heads", "u4"), ("y_first", "u4")])
PIECE = np.dtype([("id", "i8"), ("corner", "u4"), ("entry", "u4"), ("bits", "u8")])
DISTANCE = np.dtype([("mask", "u8"), ("delta", "u4"), ("dx", "u2"), ("dy", "u2")])
SHAPE = np.dtype([("width", "u2"), ("height", "u2")])

# flags of an entry; its other bits are the position
LEFT, RIGHT, BOTTOM, TOP = np.uint32(1 << 27), np.uint32(1 << 28), np.uint32(1 << 29), np.uint32(1 << 30)
VERIFY = np.uint32(1 << 31)
POSITION = np.uint32((1 << 27) - 1)

CLASS_SHIFT = np.uint32(27)
SIZE = np.uint32((1 << 27) - 1)
EMPTY = np.int64(-1)
MAX_PIECES = 1024


class Count(IntEnum):
    """The elements of `VCRState.counts`."""

    X_CELLS = 0
    Y_CELLS = 1
    X_DIM = 2
    Y_DIM = 3
    X_POWER = 4
    Y_POWER = 5
    PITCH = 6
    """Corners of a line of the grid, the margin included."""
    OVERLAPPED = 7
    HASHED = 8
    POSITIONS = 9
    FREE_POSITION = 10
    """The first of the free positions."""
    POOL = 11
    """Entries of the pool that belong to regions."""
    LISTS = 12
    GROUPS = 13
    """Four counts of rows: with both intervals, without y, without x, with neither."""
    FREE_REGIONS = 17
    """By class: the first of the free regions."""


COUNTS = Count.FREE_REGIONS + 29


class VCRState(State):
    """The arrays of a VCR index."""

    counts: np.ndarray = array(np.int64)  # see `Count`
    x_edges: np.ndarray = array(np.float64)  # ascending
    y_edges: np.ndarray = array(np.float64)
    active: np.ndarray = array(np.uint64)  # by corner
    directory: np.ndarray = array(LIST)
    entries: np.ndarray = array(np.uint32)
    hits: np.ndarray = array(HIT)  # by position
    boxes: np.ndarray = array(BOX)  # by position
    rates: np.ndarray = array(RATE)  # by position
    places: np.ndarray = array(PLACE)  # by position
    positions: np.ndarray = array(np.uint32)  # by slot
    distances: np.ndarray = array(DISTANCE)  # by corner of a covering set, ascending
    shapes: np.ndarray = array(SHAPE)  # by bit


@helper
def grid_cell(edges, key):
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
def border_flags(edges, first, last, interval, low, high):
    """`low` unless the interval holds the first key of its first cell, `high` unless it reaches the last key of its last cell.

    An interval below the first edge belongs to the first cell and does not hold that cell's first key.
    """
    flags = np.uint32(0)
    if interval.lo > edges[first] or interval.hi < edges[first]:
        flags |= low
    end = np.inf
    if last + 1 < edges.size:
        end = np.nextafter(edges[last + 1], -np.inf)
    if interval.hi < end:
        flags |= high
    return flags


@helper
def part_power(length, power):
    """The logarithm of the largest construct interval, of at most 2^power, that fits into `length`."""
    while (np.int64(1) << power) > length:
        power -= 1
    return power


@helper
def piece_count(length, power, overlapped):
    """How many construct intervals of at most 2^power an interval of `length` cells is cut into."""
    if overlapped:
        power = part_power(length, power)
        return (length + (np.int64(1) << power) - 1) >> power
    count = length >> power
    rest = length & ((np.int64(1) << power) - 1)
    while rest > 0:
        rest &= rest - 1
        count += 1
    return count


@helper
def copy_scores(index, row, entries, p):
    """Store id and score of a row at position p; return the flags that its predicates require. O(entries).

    In mode `all` every predicate of a hit holds, so its score for an event of unit weights is known beforehand. It is summed in
    the order of the row.
    """
    rate, hit = index.rates[p], index.hits[p]
    rate.priority, rate.first, rate.second = row.priority, 0.0, 0.0
    rate.heads = rate.y_first = np.uint32(0)
    hit.id, hit.score = row.id, row.priority
    flags = VERIFY if row.flags & SIBLING else np.uint32(0)
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        entry = entries[at]
        if entry.kind & (SET | ABSENT | NARROWS):
            flags |= VERIFY
        if not entry.kind & JOINED:
            hit.score += entry.weight
            if rate.heads == 0:
                rate.first = entry.weight
                rate.y_first = np.uint32(np.int64(entry.dim) == index.counts[Count.Y_DIM])
            else:
                rate.second = entry.weight
            rate.heads += np.uint32(1)
    return flags


@subroutine
def place_row(index, store, slot, p):
    """Fill the records of position p from the row at `slot`. O(entries).

    A rectangle of more than MAX_PIECES pieces drops the interval with more pieces; verification tests it then.
    """
    counts, row = index.counts, store.rows[slot]
    flags = copy_scores(index, row, store.entries, p)
    x_at, y_at = np.int64(-1), np.int64(-1)
    for at in range(np.int64(row.start), np.int64(row.start) + np.int64(row.count)):
        entry = store.entries[at]
        if entry.kind & (ABSENT | NARROWS):
            continue
        if np.int64(entry.dim) == counts[Count.X_DIM] and x_at < 0:
            x_at = at
        elif np.int64(entry.dim) == counts[Count.Y_DIM] and y_at < 0:
            y_at = at
        else:
            flags |= VERIFY
    x, width = counts[Count.X_CELLS], np.int64(1)
    y, height = counts[Count.Y_CELLS], np.int64(1)
    if x_at >= 0:
        x = grid_cell(index.x_edges, store.entries[x_at].lo)
        width = grid_cell(index.x_edges, store.entries[x_at].hi) - x + 1
    if y_at >= 0:
        y = grid_cell(index.y_edges, store.entries[y_at].lo)
        height = grid_cell(index.y_edges, store.entries[y_at].hi) - y + 1
    x_pieces = piece_count(width, counts[Count.X_POWER], counts[Count.OVERLAPPED])
    y_pieces = piece_count(height, counts[Count.Y_POWER], counts[Count.OVERLAPPED])
    while x_pieces * y_pieces > MAX_PIECES:
        flags |= VERIFY
        if x_pieces >= y_pieces:
            x_at, x, width, x_pieces = np.int64(-1), counts[Count.X_CELLS], np.int64(1), np.int64(1)
        else:
            y_at, y, height, y_pieces = np.int64(-1), counts[Count.Y_CELLS], np.int64(1), np.int64(1)
    box = index.boxes[p]
    box.x_lo, box.x_hi, box.y_lo, box.y_hi = -np.inf, np.inf, -np.inf, np.inf
    if x_at >= 0:
        interval = store.entries[x_at]
        box.x_lo, box.x_hi = interval.lo, interval.hi
        flags |= border_flags(index.x_edges, x, x + width - 1, interval, LEFT, RIGHT)
    if y_at >= 0:
        interval = store.entries[y_at]
        box.y_lo, box.y_hi = interval.lo, interval.hi
        flags |= border_flags(index.y_edges, y, y + height - 1, interval, BOTTOM, TOP)
    place = index.places[p]
    place.x, place.y = np.uint16(x), np.uint16(y)
    place.width, place.height = np.uint16(width), np.uint16(height)
    place.slot, place.flags = np.uint32(slot), flags


@helper
def group_of(index, p):
    """0 with both intervals, 1 without y, 2 without x, 3 with neither."""
    without_y = np.int64(index.places[p].y) == index.counts[Count.Y_CELLS]
    without_x = np.int64(index.places[p].x) == index.counts[Count.X_CELLS]
    return np.int64(without_y) + 2 * np.int64(without_x)


@subroutine
def decompose(index, p, pieces):
    """Cut the rectangle of position p into VCRs (section 2.2); return how many. O(pieces).

    Simple decomposition goes from the bottom up and from the left to the right and takes the largest VCR that fits.
    Overlapped decomposition takes one size only and shifts the last VCR of a line, and the last line, back.
    """
    counts, place = index.counts, index.places[p]
    overlapped = counts[Count.OVERLAPPED] != 0
    left, bottom = np.int64(place.x), np.int64(place.y)
    right, top = left + np.int64(place.width), bottom + np.int64(place.height)
    x_margin = (np.int64(1) << counts[Count.X_POWER]) - 1
    y_margin = (np.int64(1) << counts[Count.Y_POWER]) - 1
    n = 0
    y, j = bottom, counts[Count.Y_POWER]
    while y < top:
        j = part_power(top - bottom if overlapped else top - y, j)
        y_at = min(y, top - (np.int64(1) << j))
        y_flags = VERIFY
        if y_at == bottom:
            y_flags |= BOTTOM
        if y_at + (np.int64(1) << j) == top:
            y_flags |= TOP
        x, i = left, counts[Count.X_POWER]
        while x < right:
            i = part_power(right - left if overlapped else right - x, i)
            x_at = min(x, right - (np.int64(1) << i))
            flags = y_flags
            if x_at == left:
                flags |= LEFT
            if x_at + (np.int64(1) << i) == right:
                flags |= RIGHT
            corner = x_at + x_margin + (y_at + y_margin) * counts[Count.PITCH]
            bit = j * (counts[Count.X_POWER] + 1) + i
            piece = pieces[n]
            piece.id, piece.corner = corner * index.shapes.size + bit, np.uint32(corner)
            piece.bits = np.uint64(1) << np.uint64(bit)
            piece.entry = np.uint32(p) | (place.flags & flags)
            n += 1
            x += np.int64(1) << i
        y += np.int64(1) << j
    return n


@helper
def find_list(index, id_):
    """Where the list header of a VCR is, or would be. O(1)."""
    if index.counts[Count.HASHED] == 0:
        return np.int64(id_)
    return find_header(index.directory, id_)


@helper
def find_header(directory, id_):
    """The header of a hashed directory that has the id, or the free one where it would go."""
    at = home(directory, id_)
    while directory[at].id != id_ and directory[at].id != EMPTY:
        at = (at + 1) & (directory.size - 1)
    return at


@helper
def open_list(index, id_):
    """The list header of a VCR, which is made if there is none."""
    header = index.directory[find_list(index, id_)]
    if header.id == EMPTY:
        header.id, header.start, header.load = id_, NONE, np.uint32(0)
        index.counts[Count.LISTS] += 1
    return header
