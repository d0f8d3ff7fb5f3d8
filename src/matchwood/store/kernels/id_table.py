"""A hash table of ids, four bytes a cell. In: an id. Out: the number of the record that has it.

Table    open addressing, linear probing, backward-shift deletion; its size is a power of two. A cell is NONE, or a number, which
         is a multiple of eight, and in its low three bits the distance of the cell from the home of the id (7: seven or more).
         The id itself is in the record: ids[number >> shift].
The distance tells most cells of other ids apart without a look at their records: one look at a record on average for an id that
is there, half a look for one that is not, none to enter an id and hardly any to shift cells back.
"""

from __future__ import annotations

import numpy as np

from matchwood.jit.decorators import helper
from matchwood.jit.intrinsics import prefetch

NONE = np.uint32(0xFFFFFFFF)
FARTHEST = np.uint32(7)


@helper
def home(table, id_):
    """The cell where the search for an id begins: the upper bits of a multiplicative hash.

    Multiples of the golden ratio divide the table evenly, so consecutive ids, with or without gaps, hardly ever collide. By
    itself that would pile up ids of some strides (Fibonacci numbers), so a second constant is added every 4,096 ids; it was
    chosen for few collisions at likely strides (up to 128, powers of two and ten, seconds of a day).
    """
    h = np.uint64(id_)
    h = h * np.uint64(0x9E3779B97F4A7C15) + (h >> np.uint64(12)) * np.uint64(0x25762EAF62BCCB4F)
    return np.int64(((h >> np.uint64(32)) * np.uint64(table.size)) >> np.uint64(32))


@helper
def number_in(cell):
    """The number in a cell that is not free."""
    return np.int64(cell & ~FARTHEST)


@helper
def packed_cell(number, distance):
    return np.uint32(number) | np.uint32(min(distance, np.int64(FARTHEST)))


@helper
def may_hold(table, at, distance):
    """The first cell from `at` on that is free or may hold an id whose home is `distance` before `at`; and its distance."""
    while table[at] != NONE and np.int64(table[at] & FARTHEST) != min(distance, np.int64(FARTHEST)):
        at = (at + 1) & (table.size - 1)
        distance += 1
    return at, distance


@helper
def search(table, ids, shift, id_):
    """The cell that holds the id, or the free one where it would go; and its distance from the home."""
    at, distance = may_hold(table, home(table, id_), np.int64(0))
    while table[at] != NONE and np.int64(ids[number_in(table[at]) >> shift]) != id_:
        at, distance = may_hold(table, (at + 1) & (table.size - 1), distance + 1)
    return at, distance


@helper
def find(table, ids, shift, id_):
    """The cell that holds the id, or the free one where it would go."""
    return search(table, ids, shift, id_)[0]


@helper
def enter(table, id_, number):
    """Enter a number under an id that is new."""
    at = home(table, id_)
    distance = np.int64(0)
    while table[at] != NONE:
        at = (at + 1) & (table.size - 1)
        distance += 1
    table[at] = packed_cell(number, distance)


@helper
def forget(table, ids, shift, at):
    """Empty a cell and shift back the cells after it that are away from their homes."""
    mask = table.size - 1
    hole = at
    probe = at
    while True:
        table[hole] = NONE
        while True:
            probe = (probe + 1) & mask
            if table[probe] == NONE:
                return
            distance = np.int64(table[probe] & FARTHEST)
            if distance == np.int64(FARTHEST):
                distance = (probe - home(table, np.int64(ids[number_in(table[probe]) >> shift]))) & mask
            if distance >= ((probe - hole) & mask):
                break
        table[hole] = packed_cell(number_in(table[probe]), distance - ((probe - hole) & mask))
        hole = probe


@helper
def prefetch_bearer(table, ids, shift, id_):
    """Prefetch the first record that may have the id; its cell has been prefetched."""
    at, _ = may_hold(table, home(table, id_), np.int64(0))
    prefetch(ids, number_in(table[at]) >> shift)
