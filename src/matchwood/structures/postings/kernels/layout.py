"""The arrays of `postings`: rows filed under a rare value, and bit planes for all other rows.

Filed rows   A row with a rare equality (a value, an IN list) is filed under each value of that predicate, its *pivot*. A row that
             asks for several values of a list is filed under the rarest of them, if it asks for all, else under each.
             `table` is an open hash table (dimension, key) -> region of `filed`. A posting holds the slot, a second key or
             interval of the row, tested before the row is read, and the score of the row if every weight of the event is 1,
             which is an upper bound if none is above 1. If the row has no further predicate, the posting is WHOLE and decides.
Planes       Every other row has a *position*. An *axis* is a dimension that these rows use. Its `cuts` divide the keys into
             cells: cell c holds the keys from cut c - 1 to before cut c. A plane has a bit for each position:

                 LIVE      is there a row?
                 lacking   may the row match an event that lacks the dimension?
                 having    may it match one that has the dimension, as far as no cell below says otherwise?
                 of a cell may it match an event whose value is in the cell?

             Cells with many rows have a plane (`plane_of`); the others have two ascending lists of positions: those to add to
             `having` (lists[2 * cell]) and, for NOT IN, those to take from it (lists[2 * cell + 1]).
Blocks       1,024 positions are a block, 16 words of each plane, planes one after the other. `bounds` has the largest score
             of a block. Building puts rows in descending order of it, so that a top-k search skips most blocks. Of rows with
             grades, a block has those that are alike (`plan.order_in_blocks`), and `hulls` say what they lose by distance.
Guides       The cell of a key is found in one step or few: an axis divides its keys into equal parts, and a guide has the
             number of cuts before each part.
Invariant    A row may be admitted too often, never too rarely. A row with a bit in `exact` is admitted exactly when it matches,
             for an event whose values on axes with NOT IN are single keys; one in `exact_for_lists`, which has no NOT IN, for
             every event (`check`).

A new position has ones in all planes. A deleted row loses its LIVE bit; its position is not used again until all is rebuilt.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper, kernel
from matchwood.jit.state import State, array
from matchwood.store.kernels.rows import ABSENT, COUNTED, NARROWS, SET, count_bounds, part_hi, part_lo, parts_of

AXIS = np.dtype(
    [
        ("dim", "i8"),
        ("cut", "i8"),  # its cuts begin here; its cells here + the number of the axis
        ("cuts", "i8"),
        ("plane", "i8"),  # lacking; the next is having, then those of cells
        ("planes", "i8"),
        ("excludes", "i8"),  # has a row NOT IN on the axis?
        ("guide", "i8"),  # its guide begins here
        ("parts", "i8"),  # of the guide, which has one number more
        ("origin", "f8"),
        ("scale", "f8"),  # parts for each unit of the keys
    ]
)
LIST = np.dtype([("start", "u4"), ("size", "u4"), ("room", "u4")])
FILE = np.dtype(
    [("key", "f8"), ("dim", "u4"), ("mentions", "u4"), ("start", "u4"), ("size", "u4"), ("room", "u4"), ("used", "u4")]
)
OTHER = np.dtype([("dim", "i8"), ("outside", "i8"), ("lo", "f8"), ("hi", "f8")])  # see `update.survey`
HIT = np.dtype([("id", "i8"), ("score", "f8")])
# See `kernels.hulls`. Places are unit vectors, numbers lie between west and east.
HULL = np.dtype(
    [(name, "f8") for name in ("west", "east", "south", "north", "bottom", "top", "slope", "offset", "weight")]
    + [("dim", "u2"), ("lat", "u2"), ("kind", "u1"), ("state", "u1"), ("pad", "u2")]
)
HELD, MIXED = np.uint8(1), np.uint8(2)
POSTING = np.dtype([("slot", "u4"), ("dim", "u2"), ("flags", "u2"), ("score", "f8"), ("lo", "f8"), ("hi", "f8")])

WORDS = 16  # of a plane in a block
BLOCK = 64 * WORDS
LIVE = 0  # the number of a plane
LACKING, HAVING, CELLS = 0, 1, 2  # planes of an axis, counted from `AXIS.plane`
MAX_PIVOT = 64  # values of a predicate that may be a pivot
NONE = np.uint32(0xFFFFFFFF)
IS_FILED = np.uint32(0x80000000)  # homes: the rest is the pivot
PART = 16  # a pivot is the number of an entry and, from this bit on, 1 + the number of one of its values; 0 for all of them
ENTRY_MASK = (1 << PART) - 1
UNKNOWN = -2  # a pivot that has not been chosen; -1 is none
# flags of a posting: its row has other ones; it decides; its second interval is a key, `lo`, with the bit `hi` of the filter
SEVERAL, WHOLE, KEYED = np.uint16(1), np.uint16(2), np.uint16(4)
FILTER = 1 << 14  # bits of the filter of an event's keys
NO_SECOND = np.uint16(0xFFFF)

# positions in `Postings.counts`
POSITIONS = 0  # given out
DEAD = 1  # of these
MEMBERS = 2  # of the pool that are in use
FILED = 3  # the same of filed
KEYS = 4  # in the table
LIMIT = 5  # mentions of its values up to which a predicate may be a pivot
PLANES = 6  # of a block
PLANNED = 7  # rows when the axes were chosen
COUNTS = 8


class Postings(State):
    """The state of a `postings` index."""

    axes: np.ndarray = array(AXIS)
    axis_of: np.ndarray = array(np.int32)  # by dimension, -1 for none
    cuts: np.ndarray = array(np.float64)
    guides: np.ndarray = array(np.uint32)
    plane_of: np.ndarray = array(np.int32)  # by cell, -1 for none
    lists: np.ndarray = array(LIST)  # two for each cell
    members: np.ndarray = array(np.uint32)  # positions, by list
    bits: np.ndarray = array(np.uint64)
    bounds: np.ndarray = array(np.float32)  # by block
    hulls: np.ndarray = array(HULL)  # two for each block, or empty
    hits: np.ndarray = array(HIT)  # by position; the score if every predicate holds and every weight of the event is 1
    slots: np.ndarray = array(np.uint32)  # by position
    exact: np.ndarray = array(np.uint64)  # a bit for each position
    exact_for_lists: np.ndarray = array(np.uint64)  # the same
    homes: np.ndarray = array(np.uint32)  # by slot: its position, or IS_FILED and the entry of its pivot
    table: np.ndarray = array(FILE)
    filed: np.ndarray = array(POSTING)
    counts: np.ndarray = array(np.int64)


@helper
def hash_of(dim, key):
    """A hash of a value. 0.0 and -0.0 are one key."""
    word = np.float64(key + 0.0).view(np.uint64) ^ (np.uint64(dim) * np.uint64(0x9E3779B97F4A7C15))
    word = (word ^ (word >> np.uint64(32))) * np.uint64(0xD6E8FEB86659FD93)
    return word ^ (word >> np.uint64(32))


@helper
def filter_bit(dim, key):
    """The bit of a value in the filter of an event's keys."""
    return np.int64(hash_of(dim, key) >> np.uint64(40)) & (FILTER - 1)


@helper
def place_of(table, dim, key):
    """Where the table has the value, or would put it. O(1) expected."""
    mask = np.uint64(table.size - 1)
    at = hash_of(dim, key) & mask
    while table[at].used and not (table[at].key == key and table[at].dim == np.uint32(dim)):
        at = (at + np.uint64(1)) & mask
    return np.int64(at)


@helper
def pivot_values(entries, start, at):
    """How many values the entry names, 0 if it names other things than few values, or asks for none of them. O(values)."""
    kind = entries[start + at].kind
    if kind & ABSENT or (kind & NARROWS and kind != COUNTED):
        return np.int64(0)
    if kind == COUNTED and count_bounds(entries, start, at)[0] < 1.0:
        return np.int64(0)
    first, number, width = parts_of(entries, start, at)
    if number > MAX_PIVOT:
        return np.int64(0)
    for i in range(number if width > 1 else 0):
        if part_lo(entries, first, width, i) != part_hi(entries, first, width, i):
            return np.int64(0)
    return number


@helper
def asks_all(entries, start, at):
    """Does the entry ask for all its values at once?"""
    if entries[start + at].kind != COUNTED:
        return False
    return count_bounds(entries, start, at)[0] == np.float64(parts_of(entries, start, at)[1])


@helper
def values_of(entries, start, pivot):
    """(first word, number, words of each) of the values of a pivot, as `parts_of` gives them for an entry."""
    first, number, width = parts_of(entries, start, pivot & ENTRY_MASK)
    if pivot >> PART:
        return first + ((pivot >> PART) - 1) * width, np.int64(1), width
    return first, number, width


@helper
def excludes(entry):
    """Does the entry ask for all but some keys?"""
    return entry.kind & SET and entry.lo == -np.inf and entry.hi == np.inf


@helper
def part_of(axis, key):
    """The part of the axis that a key is in. Never descends with ascending keys, so cuts of lower parts are below the key."""
    part = (key - axis.origin) * axis.scale
    if part >= np.float64(axis.parts):
        return axis.parts - 1
    return np.int64(part) if part > 0.0 else np.int64(0)


@helper
def cell_of(postings, axis, key):
    """The cell of a key: how many cuts of the axis are not above it. O(log cuts), O(1) if they are evenly distributed."""
    at = axis.guide + part_of(axis, key)
    low = axis.cut + np.int64(postings.guides[at])
    high = axis.cut + np.int64(postings.guides[at + 1])
    while low < high:
        middle = (low + high) >> 1
        if postings.cuts[middle] <= key:
            low = middle + 1
        else:
            high = middle
    return low - axis.cut


@kernel
def fill_guides(axes, cuts, guides):
    """Write the guides of all axes. O(cuts and parts)."""
    for number in range(axes.size):
        axis = axes[number]
        at = np.int64(0)
        for part in range(axis.parts):
            guides[axis.guide + part] = np.uint32(at)
            while at < axis.cuts and part_of(axis, cuts[axis.cut + at]) == part:
                at += 1
        guides[axis.guide + axis.parts] = np.uint32(at)


@helper
def begins_at(postings, axis, cell, key):
    """Does the cell begin at that key?"""
    if cell == 0:
        return key == -np.inf
    return cell <= axis.cuts and postings.cuts[axis.cut + cell - 1] == key
